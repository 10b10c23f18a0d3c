"""Transport of measures on the unit sphere: Sinkhorn, sliced and exact distances, energy scores.

`entropic` has the differentiable distances that training uses, `semidual` the solver below them,
`sliced` the distance of the judge, `references` exact answers to compare with, and `energy` the
scores of weighted ensembles under any of these distances.
"""

from gdelphi.ot.energy import energy_score, root_divergence, sliced_energy_score
from gdelphi.ot.entropic import (
    Divergence,
    SinkhornSettings,
    Transport,
    self_transport,
    sinkhorn,
    sinkhorn_divergence,
)
from gdelphi.ot.geometry import Measures, TransportError, batch_measures
from gdelphi.ot.references import bures_wasserstein2, exact_transport_cost, exact_wasserstein2
from gdelphi.ot.sliced import SlicedSettings, sliced_embedding, sliced_wasserstein2

__all__ = [
    "Divergence",
    "Measures",
    "SinkhornSettings",
    "SlicedSettings",
    "Transport",
    "TransportError",
    "batch_measures",
    "bures_wasserstein2",
    "energy_score",
    "exact_transport_cost",
    "exact_wasserstein2",
    "root_divergence",
    "self_transport",
    "sinkhorn",
    "sinkhorn_divergence",
    "sliced_embedding",
    "sliced_energy_score",
    "sliced_wasserstein2",
]
