"""What training minimises.

(a) The log loss of the probabilities that are published, for the readings *profiles*, *direct* and
    *atoms*: a proper score of exactly what the report shows.
(b) The log likelihood of the number of rows under a negative binomial: what the direct reading is
    shown, and far more telling than whether there was one.
(c) The energy score of futures F against the day Y that came, E D(F, Y) - 1/2 E D(F, F'), with the
    root of Sinkhorn's divergence as distance D.

(a) for atoms and (c) are taken at a few days of each sequence, from a few drawn days each. Pairs
F, F' are neighbours in the order of drawing, which is independent draws: K pairs in place of K^2.
By default they teach transport and its reading alone: what reaches the rest through drawn days is
so noisy that the other readings lose by it (docs/LOG.md has the figures).
A cell that is undefined (no threshold for a surge, no day after the origin) counts for nothing.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.model.batches import Batch
from gdelphi.model.futures import (
    AtomTable,
    Drawing,
    Origins,
    draw,
    generate_futures,
    origins_of,
    probabilities_at,
    training_random_numbers,
)
from gdelphi.model.network import MeasureModel, ModelOutput
from gdelphi.model.task import Loss
from gdelphi.model.transport import EMPTY, Futures, exists
from gdelphi.ot.energy import root_divergence
from gdelphi.ot.entropic import (
    SinkhornSettings,
    self_transport,
    sinkhorn,
)
from gdelphi.ot.geometry import Measures


class LossWeights(NamedTuple):
    """How much each part counts."""

    profiles: float = 1.0
    direct: float = 1.0
    rows: float = 0.2
    atoms: float = 0.0
    energy: float = 0.0
    burn_in: int = 5
    """first days of a sequence that are not scored: they have seen too little"""


class FutureSettings(NamedTuple):
    """How futures are drawn and compared in training."""

    origins: int = 1
    """days of a sequence that futures are drawn for"""
    number: int = 32
    """futures of each"""
    spare_atoms: bool = True
    """offer futures atoms of the stream's last days as well"""
    teach_all: bool = False
    """let the losses of futures teach encoder, decoder and day attention too"""
    root: bool = True
    """the root of Sinkhorn's divergence, and not the divergence itself"""
    sinkhorn: SinkhornSettings = SinkhornSettings()


def training_loss(
    model: MeasureModel,
    batch: Batch,
    weights: LossWeights | None = None,
    *,
    table: AtomTable | None = None,
    futures: FutureSettings | None = None,
) -> Loss:
    """The loss of a batch; futures are drawn from `table` if they count."""
    chosen = weights or LossWeights()
    output: ModelOutput = model(batch.past, direct_head=chosen.direct > 0)
    outcomes = batch.outcomes[:, chosen.burn_in :]
    rows = batch.rows[:, chosen.burn_in :]
    parts = {
        "profiles": log_loss(output.profiles[:, chosen.burn_in :], outcomes),
        "direct": log_loss(output.direct[:, chosen.burn_in :], outcomes),
        "rows": rows_loss(output.log_rate[:, chosen.burn_in :], output.dispersion, rows),
    }
    if table is not None and (chosen.atoms or chosen.energy):
        settings = futures or FutureSettings()
        origins = _some_origins(batch, settings.origins, chosen.burn_in)
        parts |= _futures_loss(
            model, batch, output, origins, table, settings, energy=chosen.energy > 0
        )
    scaled = [getattr(chosen, name) * value for name, value in parts.items()]
    total = torch.stack(scaled).sum()
    return Loss(total, {name: value.detach() for name, value in parts.items()})


def log_loss(logits: Tensor, outcomes: Tensor) -> Tensor:
    """Mean negative log probability of the outcomes, over the cells where both are defined."""
    known = ~(outcomes.isnan() | logits.isnan())
    if not known.any():
        return torch.where(known, logits, 0.0).sum() * 0
    return F.binary_cross_entropy_with_logits(logits[known], outcomes[known])


def rows_loss(log_rate: Tensor, dispersion: Tensor, rows: Tensor) -> Tensor:
    """Mean negative log likelihood of row counts n, negative binomial with mean mu = exp(log_rate)
    and dispersion k (variance mu + mu^2 / k):

        ln P(n) = ln G(n + k) - ln G(k) - ln n! + k ln(k / (k + mu)) + n ln(mu / (k + mu))

    with G the gamma function; ln(k + mu) is taken from logarithms, so that no rate overflows.
    """
    known = ~rows.isnan()
    number, log_k = torch.where(known, rows, 0.0), dispersion.log()
    log_sum = torch.logaddexp(log_rate, log_k)  # ln(k + mu)
    likelihood = (
        torch.lgamma(number + dispersion)
        - torch.lgamma(dispersion)
        - torch.lgamma(number + 1)
        + dispersion * (log_k - log_sum)
        + number * (log_rate - log_sum)
    )
    return -(likelihood * known).sum() / known.sum().clamp(min=1)


# --- futures --------------------------------------------------------------------------------------


def _some_origins(batch: Batch, number: int, burn_in: int) -> Origins:
    """Random days of each sequence, from `burn_in` on."""
    rows, days = batch.outcomes.shape[:2]
    device = batch.outcomes.device
    row = torch.arange(rows, device=device).repeat_interleave(number)
    day = torch.randint(burn_in, days, (len(row),)).to(device)
    streams = torch.from_numpy(batch.streams).to(device)
    return origins_of(streams, torch.from_numpy(batch.ends).to(device), days, row, day)


def _futures_loss(
    model: MeasureModel,
    batch: Batch,
    output: ModelOutput,
    origins: Origins,
    table: AtomTable,
    settings: FutureSettings,
    *,
    energy: bool,
) -> dict[str, Tensor]:
    if not settings.teach_all:
        output = ModelOutput(*(tensor.detach() for tensor in output))
    probabilities = probabilities_at(output, batch.past, origins)
    unknown = batch.outcomes[origins.row, origins.day, 0, 0].isnan()
    known = (probabilities.detach().sum(dim=1) > 0) & ~unknown
    origins = Origins(*(values[known] for values in origins))
    if not len(origins.row):
        # Other processes may have some: the gradients of all must have the same parts.
        taught = (*model.transport.parameters(), *model.atom_reading.parameters())
        nothing = torch.stack([parameter.sum() for parameter in taught]).sum() * 0
        return {"atoms": nothing, **({"energy": nothing} if energy else {})}
    drawing = Drawing(settings.number, model.config.slots, settings.spare_atoms)
    numbers = training_random_numbers(
        len(origins.row), settings.number, table.variants, table.device
    )
    drawn = draw(table, origins, probabilities[known], drawing, numbers)
    generated = generate_futures(model, batch.past, output, origins, drawn)
    parts = {"atoms": log_loss(generated.logits, batch.outcomes[origins.row, origins.day])}
    if energy:
        outcome = table.gather(origins.stream, origins.position + 1)
        parts["energy"] = energy_loss(generated.futures, drawn.chances, outcome, settings)
    return parts


def energy_loss(
    futures: Futures, chances: Tensor, outcome: Measures, settings: FutureSettings
) -> Tensor:
    """Mean energy score of G origins' futures (K each, with `chances` [G, K] and 1 / K in value)
    against outcomes [G, m], given that both are days with anything on them: empty futures and
    origins with an empty outcome are left out."""
    groups, number = chances.shape
    busy = (outcome.weights.sum(dim=1) > 0)[:, None] & (number > 1)
    alive = (exists(futures) > EMPTY).view(groups, number) & busy
    rows = alive.flatten().nonzero()[:, 0]
    if not len(rows):
        return chances.sum() * 0
    group = rows // number
    sampled = Measures(futures.points[rows].float(), futures.weights[rows].float())
    observed = Measures(outcome.points[group], outcome.weights[group])
    # 1. Sinkhorn's divergence of each future F to its outcome Y:
    #    S(F, Y) = OT(F, Y) - OT(F, F) / 2 - OT(Y, Y) / 2.
    own, target = (
        self_transport(measures, settings.sinkhorn).value for measures in (sampled, observed)
    )
    to_outcome = sinkhorn(sampled, observed, settings.sinkhorn).value - own / 2 - target / 2
    # 2. The same between each future and the one drawn before it: independent pairs F, F'.
    one, two = _neighbours(alive)
    between = own[:0]
    if len(one):
        first, second = (Measures(*(value[at] for value in sampled)) for at in (one, two))
        cross = sinkhorn(first, second, settings.sinkhorn).value
        between = cross - own[one] / 2 - own[two] / 2
    # 3. D = sqrt(S): S grows like a squared distance, and the energy score asks for a distance.
    if settings.root:
        to_outcome, between = root_divergence(to_outcome), root_divergence(between)
    # 4. E D(F, Y) - E D(F, F') / 2 over the futures of each origin, weighted by their chances,
    #    which are 1 / K in value and carry the gradient of the drawing.
    shares = chances.flatten()[rows] * number
    near = _mean_by(group, shares * to_outcome, groups)
    spread = _mean_by(group[one], shares[one] * shares[two] * between, groups)
    return (near - spread / 2)[alive.any(dim=1)].mean()


def _neighbours(alive: Tensor) -> tuple[Tensor, Tensor]:
    """Of the futures [G, K] that are alive, numbered in their order: each, and the one before it in
    its group, the last before the first; both where that one is alive too."""
    place = (alive.flatten().cumsum(dim=0) - 1).view_as(alive)
    both = alive & alive.roll(1, dims=1)
    return place[both], place.roll(1, dims=1)[both]


def _mean_by(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """Means of values [n] by their group [n], [groups]; 0 of none."""
    total = values.new_zeros(groups).index_add(0, group, values)
    number = values.new_zeros(groups).index_add(0, group, torch.ones_like(values))
    return total / number.clamp(min=1)
