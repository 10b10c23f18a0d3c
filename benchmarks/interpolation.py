"""Study: one stack of the model's transport blocks carries eight overlapping measures to eight
different sets of atoms.

    python benchmarks/interpolation.py [--steps N] [--seed S] [--figure FILE] [--apart]

The design rests on a theorem: a map that sees the measure a point belongs to can carry any finite
number of measures to given targets, where a map of points alone cannot once the measures overlap.
Here are 8 mixtures of five von Mises-Fisher densities on the sphere in three dimensions, positive
everywhere; the command prints how much mass they share and how often the best guess of a point's
source is right. Each is to become 5 equal atoms of its own. The points are moved by
`TransportBlock`s; their weights stay 1/n, and nothing tells the blocks which pair it is.

Training sees 1,000 points of each source and nothing else, in each step a random part of them:
attention is then quicker, and the map learns not to hang on single points. Each point is shaken a
little, some more than others, as in a smoothed bootstrap: without that, about one in a hundred
fresh points of a source, those that lie where its sample has none, went to another's atoms; shaken
to the end as much as in the beginning, the atoms stay blurred. The loss is entropic transport with
falling epsilon, not the debiased divergence: against 5 atoms it is solved by a few Newton steps,
where debiasing needs the costs between all points in each step, and what it would correct vanishes
with epsilon. First the points are judged after every block but the first, then, in larger parts,
after the last alone.

W2 is exact (a linear programme) and for the chord. Judged are the training samples and 10,000 fresh
points of each source. Beside the latter stands the sampling floor: what the best map for the same
1,000 points, the exact semi-discrete one (Laguerre cells, solved on the training points), makes of
the same fresh points. It puts every point on an atom; its error is that 1,000 points do not tell
the masses of the cells any better.

The same blocks without attention are trained in the same way for as long. With --apart they also
get sources that do not overlap, where a map of points is enough: so it is the overlap that defeats
them.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from rich.progress import Progress
from torch import Tensor, nn

from gdelphi.common.types import Measure
from gdelphi.model.config import MeasureConfig
from gdelphi.model.transport import TransportBlock
from gdelphi.ot.entropic import SinkhornSettings, sinkhorn
from gdelphi.ot.geometry import Measures
from gdelphi.ot.references import exact_wasserstein2

PAIRS, POINTS, ATOMS, FRESH = 8, 1_000, 5, 10_000
STEPS = 8_000
BETAS = (0.9, 0.99)
GOAL, GOAL_RATIO = 0.05, 1.5
SHIFT = 0.4  # angle between the pole and the centres of overlapping sources
GRID = 20_000  # points of the sphere over which densities are integrated
FLOOR_EPSILON = 1e-4  # at which potentials are those of the exact problem, but for single points


Columns = dict[str, list[float]]
"""exact W2 of each pair, under the names of the table"""


@dataclass(frozen=True)
class Recipe:
    """The blocks."""

    blocks: int = 5
    width: int = 64
    heads: int = 2
    gain: float = 40.0
    """by which the MLPs begin steeper from the third block on: as the model initialises them they
    are nearly linear across a target, and do not learn to divide a cloud"""


class Phase(NamedTuple):
    """A stretch of training, with a warm-up and a cosine of its own."""

    steps: int
    part: int
    """points of each sample that a step sees"""
    rate: float
    first_epsilon: float
    last_epsilon: float
    """reached after two thirds of the steps"""
    shake: float
    """mean scale, in radians, by which points are shaken"""
    every: bool
    """judge the places after all blocks but the first, not the last place alone. By the last alone,
    the last block learns to do everything and the others to stir; so each has to come near, and the
    next can make it sharper."""


def phases(steps: int) -> list[Phase]:
    return [
        Phase(steps * 5 // 8, 200, 2e-3, 3e-3, 3e-4, 0.04, True),
        Phase(steps - steps * 5 // 8, 500, 1.5e-3, 3e-4, 1e-4, 0.02, False),
    ]


# --- sources and targets --------------------------------------------------------------------------


class Sources(NamedTuple):
    """Equal mixtures of von Mises-Fisher densities, exp(concentration <centre, x>) each."""

    centres: Tensor
    """[pairs, bumps, 3], float64"""
    concentration: float

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        """[pairs, number, 3], independent points: the bumps' shares are random too."""
        pairs, bumps = self.centres.shape[:2]
        chosen = torch.randint(bumps, (pairs, number, 1), generator=generator)
        centres = self.centres.gather(1, chosen.expand(-1, -1, 3))
        uniform = torch.rand(2, pairs, number, 1, generator=generator).double()
        lowest = math.exp(-2 * self.concentration)
        cosine = 1 + torch.log(uniform[0] + (1 - uniform[0]) * lowest) / self.concentration
        return around(centres, cosine, 2 * math.pi * uniform[1])[:, :, 0].float()

    def density(self, points: Tensor) -> Tensor:
        """Against the uniform distribution on the sphere, [pairs, n], at points [n, 3]."""
        k = self.concentration
        each = 2 * k / (1 - math.exp(-2 * k)) * torch.exp(k * (self.centres @ points.T - 1))
        return each.mean(dim=1)


def around(centres: Tensor, cosine: Tensor, angle: Tensor) -> Tensor:
    """Points [..., n, 3] at that cosine with centres [..., 3], turned about them by that angle."""
    axis = torch.eye(3, dtype=centres.dtype)[centres.abs().argmin(dim=-1)]
    first = F.normalize(torch.linalg.cross(centres, axis), dim=-1)
    second = torch.linalg.cross(centres, first)
    sine = (1 - cosine**2).clamp(min=0).sqrt()
    parts = ((cosine, centres), (sine * angle.cos(), first), (sine * angle.sin(), second))
    return sum((size[..., None] * way[..., None, :] for size, way in parts), torch.zeros(()))


def spread(number: int) -> Tensor:
    """Points that lie evenly on the sphere, [number, 3]: Fibonacci's spiral."""
    step = torch.arange(number, dtype=torch.float64) + 0.5
    height, turn = 1 - 2 * step / number, math.pi * (1 + 5**0.5) * step
    radius = (1 - height**2).sqrt()
    return torch.stack([radius * turn.cos(), radius * turn.sin(), height], dim=1)


def polygons(centres: Tensor, corners: int, size: float, generator: torch.Generator) -> Tensor:
    """Regular polygons [pairs, corners, 3] around centres [pairs, 3], turned at random."""
    turn = torch.arange(corners) / corners + torch.rand(len(centres), 1, generator=generator)
    cosine = torch.full(turn.shape, math.cos(size), dtype=torch.float64)
    return around(centres, cosine, 2 * math.pi * turn.double())


def overlapping(pairs: int, bumps: int, generator: torch.Generator) -> Sources:
    """Sources of a few bumps each, all near the pole: they lie upon each other."""
    pole = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    centres = torch.cat([pole, polygons(pole, pairs - 1, SHIFT, generator)[0]])
    return Sources(polygons(centres, bumps, 0.6, generator), 30.0)


def apart(pairs: int, bumps: int, generator: torch.Generator) -> Sources:
    """The same all over the sphere and narrower, so that they hardly meet."""
    return Sources(polygons(spread(pairs), bumps, 0.35, generator), 120.0)


def target_atoms(pairs: int, atoms: int, generator: torch.Generator) -> Tensor:
    """[pairs, atoms, 3]: small polygons all over the sphere, dealt out at random."""
    centres = spread(pairs)[torch.randperm(pairs, generator=generator)]
    return polygons(centres, atoms, 0.15, generator).float()


class Overlap(NamedTuple):
    """How far sources lie upon each other."""

    shared: Tensor
    """mass that two of them share, 1 - total variation, [pairs, pairs]"""
    guessed: float
    """how often the best guess of a point's source is right"""


def overlap(sources: Sources) -> Overlap:
    density = sources.density(spread(GRID))
    shared = torch.stack([torch.minimum(each, density).mean(dim=1) for each in density])
    return Overlap(shared, float(density.amax(dim=0).mean() / len(density)))


# --- the map --------------------------------------------------------------------------------------


class Mover(nn.Module):
    """Blocks one after the other; what they say of weights and gates is not used."""

    def __init__(self, recipe: Recipe, *, attention: bool) -> None:
        super().__init__()
        config = MeasureConfig(dimension=3, width=recipe.width, heads=recipe.heads)
        self.blocks = nn.ModuleList(
            TransportBlock(config, attention=attention) for _ in range(recipe.blocks)
        )
        with torch.no_grad():
            for block in self.blocks[2:]:
                block.mlp[1].weight.mul_(recipe.gain)

    def path(self, points: Tensor) -> list[Tensor]:
        """Points [N, n, 3] after each block, each row moved as one measure."""
        log_weights = points.new_full(points.shape[:2], -math.log(points.shape[1]))
        places = []
        for block in self.blocks:
            points, _ = block(points, log_weights)
            places.append(points)
        return places

    def forward(self, points: Tensor) -> Tensor:
        return self.path(points)[-1]


def uniform(points: Tensor) -> Measures:
    return Measures(points, points.new_full(points.shape[:2], 1 / points.shape[1]))


def loss_of(places: Sequence[Tensor], targets: Tensor, epsilon: float) -> Tensor:
    """Entropic transport to the targets, the mean over places."""
    settings = SinkhornSettings(epsilon=epsilon, tolerance=1e-2, most_iterations=100)
    goals = targets.repeat(len(places), 1, 1)
    return sinkhorn(uniform(torch.cat(list(places))), uniform(goals), settings).value.mean()


def trained(
    samples: Tensor,
    targets: Tensor,
    mover: Mover,
    plan: Sequence[Phase],
    *,
    seed: int = 0,
    advance: Callable[[], Any] = lambda: None,
) -> Mover:
    """The mover after training on samples [pairs, n, 3] and targets [pairs, m, 3]."""
    generator = torch.Generator().manual_seed(seed)
    for phase in plan:
        optimiser = torch.optim.AdamW(mover.parameters(), betas=BETAS, weight_decay=0.0)
        for step in range(phase.steps):
            some = part(samples, phase.part, generator)
            places = mover.path(shaken(some, phase.shake, generator))
            judged = places[1:] if phase.every else places[-1:]
            loss = loss_of(judged, targets, epsilon_at(step, phase))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(mover.parameters(), 1.0)
            for group in optimiser.param_groups:
                group["lr"] = rate_at(step, phase)
            optimiser.step()
            advance()
    return mover


def epsilon_at(step: int, phase: Phase) -> float:
    fallen = min(1.0, 1.5 * step / phase.steps)
    return phase.first_epsilon * (phase.last_epsilon / phase.first_epsilon) ** fallen


def rate_at(step: int, phase: Phase) -> float:
    """Warm-up, then a cosine to nearly nothing."""
    warm = min(1.0, (step + 1) / min(50, 1 + phase.steps // 10))
    return phase.rate * warm * (0.005 + 0.5 * (1 + math.cos(math.pi * step / phase.steps)))


def part(samples: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Some points of each sample, drawn without replacement."""
    order = torch.rand(samples.shape[:2], generator=generator).argsort(dim=1)[:, :number]
    return samples.gather(1, order[..., None].expand(-1, -1, samples.shape[2]))


def shaken(points: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """Points moved by a normal step whose size is drawn for each: most by little, a few by much,
    so that places without points are visited too."""
    size = -scale * torch.rand(*points.shape[:2], 1, generator=generator).clamp(min=1e-6).log()
    return F.normalize(points + size * torch.randn(points.shape, generator=generator), dim=-1)


@torch.no_grad()
def pushed(mover: Mover, samples: Tensor) -> Tensor:
    """One measure at a time: attention among 10,000 points needs the room."""
    return torch.cat([mover(each[None]) for each in samples])


# --- judging --------------------------------------------------------------------------------------


def distances(moved: Tensor, targets: Tensor) -> list[float]:
    """Exact W2 of each pair, for the chord."""
    return [
        exact_wasserstein2(even(one), even(other))
        for one, other in zip(moved, targets, strict=True)
    ]


def even(points: Tensor) -> Measure:
    return Measure(points.numpy(), np.full(len(points), 1 / len(points)))


def cells(samples: Tensor, targets: Tensor) -> Callable[[Tensor], Tensor]:
    """The semi-discrete map that is optimal for the samples: to each point the atom of least
    cost less potential."""
    settings = SinkhornSettings(epsilon=FLOOR_EPSILON, tolerance=1e-6, most_iterations=5_000)
    found = sinkhorn(uniform(samples.double()), uniform(targets.double()), settings)

    def nearest(points: Tensor) -> Tensor:
        costs = 1 - points.double() @ targets.double().mT - found.target_potential[:, None]
        chosen = costs.argmin(dim=2)[..., None].expand(-1, -1, points.shape[2])
        return targets.gather(1, chosen)

    return nearest


def table(columns: Columns) -> str:
    """W2 of each pair and the means, as Markdown."""
    shown = {name: [*values, float(np.mean(values))] for name, values in columns.items()}
    ratio = [one / other for one, other in zip(shown["fresh"], shown["floor"], strict=True)]
    names = [*(str(number + 1) for number in range(PAIRS)), "mean"]
    lines = [f"| pair | {' | '.join(shown)} | fresh / floor |", "|---" * (len(shown) + 2) + "|"]
    for row, name in enumerate(names):
        entries = " | ".join(f"{values[row]:.3f}" for values in shown.values())
        lines.append(f"| {name} | {entries} | {ratio[row]:.2f} |")
    return "\n".join(lines)


def verdict(columns: Columns) -> str:
    fresh, floor = np.array(columns["fresh"]), np.array(columns["floor"])
    largest, mean = max(columns["training"]), fresh.mean() / floor.mean()
    return (
        f"goal, W2 below {GOAL} on every training sample: "
        f"{'met' if largest < GOAL else 'MISSED'} (largest {largest:.4f})\n"
        f"goal, at most {GOAL_RATIO} times the floor on fresh points: "
        f"{'met' if mean <= GOAL_RATIO else 'MISSED'} in the mean ({mean:.2f}), "
        f"by {np.sum(fresh <= GOAL_RATIO * floor)} of {len(fresh)} pairs each for itself"
    )


# --- the figure -----------------------------------------------------------------------------------


def flat(points: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude with the pole, where the sources overlap, in the middle."""
    x, y, z = points.double().unbind(dim=-1)
    return torch.atan2(y, z).numpy(), x.clamp(-1, 1).asin().numpy()


def draw_figure(path: Path, panels: dict[str, Tensor], targets: Tensor) -> None:
    """A map of the sphere for each panel [pairs, n, 3]; a colour is a pair, a ring a target."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for number, (title, moved) in enumerate(panels.items()):
        axes = figure.add_subplot(2, -(-len(panels) // 2), number + 1, projection="mollweide")
        for colour, points, atoms in zip(colormaps["Dark2"].colors, moved, targets, strict=True):
            axes.scatter(*flat(points[:300]), s=4, color=colour, alpha=0.5, linewidths=0)
            axes.scatter(*flat(atoms), s=40, facecolors="none", edgecolors=[colour], linewidths=1)
        axes.set_title(title, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(path, dpi=100)


# --- the command ----------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What is to be carried where."""

    sources: Sources
    targets: Tensor
    """[pairs, atoms, 3]"""
    samples: Tensor
    """[pairs, n, 3]"""
    fresh: Tensor
    """more points of the same sources"""


def setting(seed: int, place: Callable[[int, int, torch.Generator], Sources]) -> Setting:
    generator = torch.Generator().manual_seed(seed)
    targets = target_atoms(PAIRS, ATOMS, generator)
    sources = place(PAIRS, ATOMS, generator)
    return Setting(sources, targets, *(sources.draw(n, generator) for n in (POINTS, FRESH)))


def made(given: Setting, options: argparse.Namespace, *, attention: bool, title: str) -> Mover:
    torch.manual_seed(options.seed)
    mover = Mover(Recipe(), attention=attention)
    with Progress(transient=True) as progress:
        task = progress.add_task(title, total=options.steps)
        return trained(
            given.samples, given.targets, mover, phases(options.steps), seed=options.seed,
            advance=partial(progress.advance, task),
        )  # fmt: skip


def study(options: argparse.Namespace) -> Columns:
    """W2 of all pairs; the figure is drawn on the way."""
    given = setting(options.seed, overlapping)
    show_overlap(given.sources)
    mover = made(given, options, attention=True, title="with attention")
    plain = made(given, options, attention=False, title="without attention")
    best = cells(given.samples, given.targets)
    assert max(distances(best(given.samples), given.targets)) < GOAL / 2, "the map is not exact"
    moved = {
        "training": pushed(mover, given.samples),
        "fresh": pushed(mover, given.fresh),
        "floor": best(given.fresh),
        "no attention": pushed(plain, given.fresh),
    }
    if options.apart:
        other = setting(options.seed, apart)
        easy = made(other, options, attention=False, title="without, sources apart")
        moved["no attention, apart"] = pushed(easy, other.fresh)
    columns = {name: distances(points, given.targets) for name, points in moved.items()}
    if options.figure:
        panels = {
            "sources": given.fresh,
            "targets": given.targets,
            "moved by the blocks": moved["fresh"],
            "moved by blocks without attention": moved["no attention"],
        }
        draw_figure(options.figure, panels, given.targets)
    return columns


def show_overlap(sources: Sources) -> None:
    shared, guessed = overlap(sources)
    pairs = shared[~torch.eye(len(shared), dtype=torch.bool)]
    print(
        f"two sources share {pairs.min():.2f} to {pairs.max():.2f} of their mass; "
        f"the best guess of a point's source is right in {guessed:.0%} of cases\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--apart", action="store_true", help="also sources that do not overlap")
    options = parser.parse_args()
    print(
        f"{PAIRS} pairs, {POINTS:,} points, {ATOMS} atoms, {Recipe()}, {options.steps} steps, "
        f"seed {options.seed}, threads {torch.get_num_threads()}"
    )
    columns = study(options)
    print(table(columns), verdict(columns), sep="\n\n")


if __name__ == "__main__":
    main()
