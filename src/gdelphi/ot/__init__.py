"""Transport on the unit sphere: Sinkhorn, sliced and exact distances, few-atom summaries.

Knows only common; takes and gives arrays and tensors.
Start with entropic.py, the Sinkhorn divergence.
"""

from gdelphi.common.errors import TransportError
from gdelphi.ot.energy import (
    energy_score,
    root_divergence,
    sliced_energy_score,
)
from gdelphi.ot.entropic import (
    Divergence,
    SinkhornSettings,
    Transport,
    self_transport,
    sinkhorn,
    sinkhorn_divergence,
)
from gdelphi.ot.geometry import Measures, batch_measures
from gdelphi.ot.references import (
    bures_wasserstein2,
    exact_transport_cost,
    exact_wasserstein2,
)
from gdelphi.ot.sliced import (
    SlicedSettings,
    sliced_embedding,
    sliced_wasserstein2,
)

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
