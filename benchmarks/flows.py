"""Study: attention variants, depth as time, and slot weights learned from consecutive days.

    python benchmarks/flows.py attention --config gdelphi.toml --out FOLDER [--steps N] [--seeds N]
    python benchmarks/flows.py decisions the same
    python benchmarks/flows.py slots     the same
    python benchmarks/flows.py depth     the same
    python benchmarks/flows.py transport the same, after *attention*
    python benchmarks/flows.py inverse

*attention*: validation score and Lipschitz constants of the kinds of attention. *decisions*: what
the three decisions of docs/theory.md do to the score, one by one and together. *slots*: shares of
verb and actors in a point, learned from what follows what on training days by inverse transport,
and a model in the space that has them. *depth*: memory and W2 against the steps of a flow on a
day's cloud. *transport*: blocks and flows that move atoms, scored by what
they make of futures. *inverse*: how well a planted cost is recovered from pairs.

A small model is trained for each variant on the store's pack (`gdelphi embed` comes first), without
the stack, so that all that it knows comes through its own layers. The score is the log loss over
all cells, the mean of the readings *direct* and *profiles*: on validation A, which also says when
to stop, and on validation B, which says nothing else. Runs that are there are not made again.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from rich.progress import Progress

from gdelphi.common.progress import Silent
from gdelphi.common.sections import AttentionKind
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.types import FloatArray, Measure
from gdelphi.measures.pack import Pack
from gdelphi.measures.space import BLOCKS, Space
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.data import load_training_data, target_days
from gdelphi.model.encoder_lipschitz import encoder_lipschitz
from gdelphi.model.flow_depth import gradient_costs, random_flow, step_changes
from gdelphi.model.loop import TrainingRun, TrainStatus, run_training
from gdelphi.model.network import MeasureModel
from gdelphi.model.processes import training_device
from gdelphi.model.train import MeasureTask
from gdelphi.model.validation import evaluate
from gdelphi.ot.inverse import (
    Coupling,
    InverseSettings,
    forward_plan,
    recover_cost,
    sample_coupling,
    slot_shares,
)

CLOUDS = 6  # on which Lipschitz constants are measured
POINTS = 64  # of a cloud there


class Variant(NamedTuple):
    """A trained model and its scores."""

    model: MeasureModel
    space: Space
    pack: Pack
    validation_a: float
    validation_b: float


class _Readings(MeasureTask):
    """Training judged by the readings *direct* and *profiles* alone: futures teach them nothing."""

    def evaluate(self, model: MeasureModel) -> dict[str, Any]:
        return evaluate(model, self.batches, self.data.arrays, self.data.validation_a).figures()


class _Bar(Silent):
    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance

    def stepped(self, status: TrainStatus) -> None:
        self.advance(status.step)


@contextmanager
def bar(title: str, total: int) -> Iterator[_Bar]:
    with Progress(transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield _Bar(lambda step: progress.update(task, completed=step))


def trained(
    settings: Settings, out: Path, *, space: Space | None = None, **changes: Any
) -> Variant:
    """A model of these settings, trained if it is not there; in another space if one is given."""
    quick = {
        "batch": 6,
        "evaluate_every": 20,
        "decoder_steps": 0,
        "atoms_weight": 0.0,
        "energy_weight": 0.0,
    }
    train = settings.train.model_copy(update={**quick, **changes})
    chosen = settings.model_copy(update={"train": train})
    with training_device(train) as accelerator:
        data = load_training_data(chosen, with_stack=False)
        data = replace(data, space=space or data.space)
        task = _Readings(data, accelerator.device)
        with bar(out.name, train.steps) as watcher:
            run_training(task, out, accelerator, progress=watcher)
        found = load_measure_model(out)
        days = [data.validation_a, target_days(data.sequences, "validation_b")]
        scores = [evaluate(found.model, task.batches, data.arrays, each).score for each in days]
    return Variant(found.model, data.space, data.arrays.pack, *scores)


def days_of(pack: Pack, space: Space, number: int, points: int) -> list[Measure]:
    """The largest clouds of evenly spread days, thinned to their heaviest points."""
    found = []
    for day in np.linspace(0, len(pack.present) - 1, number).astype(int):
        stream = int(np.argmax(pack.counts[:, day].sum(axis=1)))
        slots, weights = pack.cloud(int(day), stream)
        kept = np.argsort(-np.asarray(weights), kind="stable")[:points]
        if len(kept):
            masses = np.asarray(weights, np.float64)[kept]
            found.append(Measure(pack.points(slots[kept], space), masses / masses.sum()))
    return found


def show(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def spans(runs: Sequence[Variant]) -> list[str]:
    """Means and ranges of validation A and B."""
    scores = np.array([(run.validation_a, run.validation_b) for run in runs])
    return [f"{each.mean():.4f} ({each.min():.4f} to {each.max():.4f})" for each in scores.T]


def attention(settings: Settings, asked: argparse.Namespace) -> None:
    """Validation scores and Lipschitz constants of the kinds of attention."""
    show("clouds read by", "validation A", "validation B", "W2 constant", "W1 constant", "bound")
    show(*["---"] * 6)
    found = {
        (kind, seed): trained(
            settings, asked.out / f"{kind}-{seed}", cloud_attention=kind, steps=asked.steps,
            seed=seed,
        )
        for seed in range(asked.seeds)
        for kind in get_args(AttentionKind)
    }  # fmt: skip
    for kind in get_args(AttentionKind):
        runs = [run for (name, _), run in found.items() if name == kind]
        constants = np.array(
            [
                encoder_lipschitz(run.model.day_encoder, *cloud)
                for run in runs
                for cloud in days_of(run.pack, run.space, CLOUDS, POINTS)
            ]
        )
        w1, w2, bound = constants.max(axis=0)
        show(kind, *spans(runs), f"{w2:.2f}", f"{w1:.2f}", f"10^{bound:.1f}")


DECISIONS: dict[str, dict[str, Any]] = {
    "softmax": {},  # what stands: the name under which *attention* keeps it
    "points-32": {"points": 32},
    "layers-1": {"layers": 1},
    "l2": {"cloud_attention": "l2"},
    "decided": {"points": 32, "layers": 1, "cloud_attention": "l2"},
}


def decisions(settings: Settings, asked: argparse.Namespace) -> None:
    """Validation scores of what was decided after an inspection, each seed against itself."""
    show("model", "validation A", "validation B", "gain on A", "gain on B")
    show(*["---"] * 5)

    def score(name: str, seed: int) -> tuple[float, float]:
        out = asked.out / f"{name}-{seed}"
        run = trained(settings, out, steps=asked.steps, seed=seed, **DECISIONS[name])
        return run.validation_a, run.validation_b

    scores = np.array([[score(name, seed) for seed in range(asked.seeds)] for name in DECISIONS])
    for name, found in zip(DECISIONS, scores, strict=True):
        gains = (scores[0] - found).T
        means = [f"{part.mean():.5f}" for part in found.T]
        show(name, *means, *(" ".join(f"{gain:+.5f}" for gain in part) for part in gains))


PAIRS, SAMPLES = 300, 5  # of phrases that follow each other; samples of so many


def following(
    pack: Pack, until: int, random: np.random.Generator
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Slots of phrases of a stream's day and of the day after, drawn from training days."""
    rows = []
    while len(rows) < PAIRS:
        day, stream = int(random.integers(until - 1)), int(random.integers(pack.shape[1]))
        clouds = [pack.cloud(day + ahead, stream) for ahead in (0, 1)]
        if all(len(weights) for _, weights in clouds):
            rows.append([
                slots[random.choice(len(weights), p=weights / weights.sum(dtype=np.float64))]
                for slots, weights in ((s, np.asarray(w, np.float64)) for s, w in clouds)
            ])  # fmt: skip
    chosen = np.array(rows)  # [pair, day, slot]
    return tuple(  # type: ignore[return-value]
        [
            np.asarray(pack.tables[name][chosen[:, side, slot]], np.float64)
            for slot, name in enumerate(BLOCKS)
        ]
        for side in (0, 1)
    )


def slots(settings: Settings, asked: argparse.Namespace) -> None:
    """Shares of the slots learned from consecutive days, and what they do to validation."""
    data = load_training_data(settings, with_stack=False)
    until = int(data.ends.max())
    samples = [
        following(data.arrays.pack, until, np.random.default_rng(seed)) for seed in range(SAMPLES)
    ]
    show("loss", "verb", "actor 1", "actor 2", "nats explained")
    show(*["---"] * 5)
    show("as set", *(f"{share:.2f}" for share in data.space.shares), "")
    learned = np.zeros(3)
    for name, chosen in (
        ("balanced", InverseSettings(tolerance=1e-6)),
        ("unbalanced", InverseSettings(relaxation=1.0, tolerance=1e-6)),
        ("sharpened", InverseSettings(relaxation=1.0, sharpness=1.0, tolerance=1e-6)),
    ):
        found = [slot_shares(*sample, chosen) for sample in samples]
        shares = np.array([each.shares for each in found])
        learned, wide = shares.mean(axis=0), shares.std(axis=0, ddof=1)
        gained = np.mean([each.without - each.loss for each in found])
        columns = (f"{a:.2f} ± {b:.2f}" for a, b in zip(learned, wide, strict=True))
        show(name, *columns, f"{gained:.3f}")
    # The last of them, the sharpened loss, is tried. Vectors of slots stay as they were fitted;
    # only their shares in clouds are others, and no reading that is scored sees atoms.
    verb, first = np.round(learned[:2], 2).clip(0.02, 0.96)
    measures = settings.measures.model_copy(
        update={"verb_weight": float(verb), "actor1_weight": float(first)}
    )
    print(f"\na space with {verb:.2f} and {first:.2f}\n")
    show("shares", "validation A", "validation B")
    show(*["---"] * 3)
    for name, folder, space in (
        ("as set", "softmax", data.space),
        ("learned", "learned", replace(data.space, settings=measures)),
    ):
        runs = [
            trained(
                settings, asked.out / f"{folder}-{seed}", steps=asked.steps, seed=seed, space=space
            )
            for seed in range(asked.seeds)
        ]
        show(name, *spans(runs))


def depth(settings: Settings, _: argparse.Namespace) -> None:
    """Memory and agreement of the two gradients, and W2 against steps, on the cloud of a day."""
    data = load_training_data(settings, with_stack=False)
    cloud = days_of(data.arrays.pack, data.space, 2, POINTS)[-1]
    flow = random_flow(data.space.dimension, settings.train.width, 2)
    print(f"a cloud of {len(cloud.weights)} points in {data.space.dimension} dimensions\n")
    show("steps", "backpropagation, KB", "adjoint, KB", "time of adjoint to it", "difference")
    show(*["---"] * 5)
    for row in gradient_costs(flow, *cloud):
        held = (row.backpropagation_bytes / 1e3, row.adjoint_bytes / 1e3)
        slower = row.adjoint_seconds / row.backpropagation_seconds
        show(str(row.steps), *(f"{each:,.0f}" for each in held), f"{slower:.1f}",
             f"{row.difference:.1e}")  # fmt: skip
    print()
    show("steps", "W2 moved", "W2 from 256 steps", "times the steps")
    show(*["---"] * 4)
    for step in step_changes(flow, *cloud, steps=(2, 4, 8, 16, 32, 256)):
        show(str(step.steps), f"{step.moved:.4f}", f"{step.error:.4f}",
             f"{step.error * step.steps:.3f}")  # fmt: skip


HELD_OUT = 4  # batches of validation A on which futures are judged
TRANSPORTS: dict[str, dict[str, Any]] = {
    "none": {"transport_layers": 0},
    "blocks": {},
    "flow, 2 pieces, backpropagation": {"transport": "flow"},
    "flow, 2 pieces, adjoint": {"transport": "flow", "transport_gradient": "adjoint"},
    "flow, one set of parameters": {"transport": "flow", "transport_layers": 1},
}


def transport(settings: Settings, asked: argparse.Namespace) -> None:
    """Blocks and flows that move atoms, each trained alone on the trunk of the run *softmax-0*."""
    trunk = load_measure_model(asked.out / "softmax-0").model.state_dict()
    alone = dict.fromkeys(("profiles_weight", "direct_weight", "rows_weight", "weight_decay"), 0.0)
    data = load_training_data(settings, with_stack=False)
    small = {"batch": 4, "futures": 8, "steps": asked.steps, "warm_up": 10, "seed": 0}
    show("transport", "log loss of atoms", "energy score", "parameters")
    show(*["---"] * 4)
    for name, changes in TRANSPORTS.items():
        train = settings.train.model_copy(update={**alone, **small, **changes})
        chosen = settings.model_copy(update={"train": train})
        with training_device(train) as accelerator:
            task = MeasureTask(replace(data, settings=chosen), accelerator.device)
            run = TrainingRun(task, accelerator)
            kept = {key: value for key, value in trunk.items() if not key.startswith("transport")}
            for model in (run.model, run.ema):
                model.load_state_dict(kept, strict=False)
            with bar(name, train.steps) as watcher:
                for step in range(train.steps):
                    run.step(step, run.batch(step))
                    watcher.advance(step)
            parts = futures_judged(task, run.ema)
        number = sum(parameter.numel() for parameter in run.ema.transport.parameters())
        show(name, *(f"{parts[part]:.4f}" for part in ("atoms", "energy")), f"{number:,}")


@torch.no_grad()
def futures_judged(task: MeasureTask, model: MeasureModel) -> dict[str, float]:
    """Losses of futures on batches that end on days of validation A, the same for all models."""
    model.eval()
    found = []
    for number in range(HELD_OUT):
        random = np.random.default_rng([1, number])
        streams = random.integers(len(task.data.arrays.shares), size=8)
        ends = random.choice(task.data.validation_a - 1, size=8)
        torch.manual_seed(number)
        found.append(task.loss(model, task.batches.make(streams, ends, random)).parts)
    return {name: float(np.mean([part[name] for part in found])) for name in found[0]}


PLANTED = np.array([2.0, 0.5, 1.0])
TRIES = 6  # samples of each size


def inverse(_: Settings, __: argparse.Namespace) -> None:
    """The error of a recovered cost against the number of pairs that were seen."""
    random = np.random.default_rng(0)
    one, two = (random.standard_normal((3, 20, 4)) for _ in range(2))
    one, two = (each / np.linalg.norm(each, axis=2, keepdims=True) for each in (one, two))
    features = 1 - np.einsum("kni,kmi->knm", one, two)
    source, target = (random.dirichlet(np.full(20, 3.0)) for _ in range(2))
    sizes = (100, 400, 1_600, 6_400, 25_600)
    show("pairs", *(f"{size:,}" for size in sizes))
    show(*["---"] * 6)
    for name, chosen in (
        ("balanced", InverseSettings()),
        ("unbalanced, plain", InverseSettings(relaxation=1.0)),
        ("unbalanced, s = 1", InverseSettings(relaxation=1.0, sharpness=1.0)),
        ("unbalanced, s = 10", InverseSettings(relaxation=1.0, sharpness=10.0)),
    ):
        coupling = Coupling(np.zeros((20, 20)), features, source, target)
        plan = forward_plan(PLANTED, coupling, chosen)
        errors = []
        for size in sizes:
            drawn = (sample_coupling(plan, size, np.random.default_rng(k)) for k in range(TRIES))
            found = [recover_cost(coupling._replace(observed=q), chosen).theta for q in drawn]
            errors.append(np.mean([np.linalg.norm(theta - PLANTED) for theta in found]))
        show(name, *(f"{error:.3f}" for error in errors))


STUDIES = {
    "inverse": inverse,
    "attention": attention,
    "decisions": decisions,
    "slots": slots,
    "depth": depth,
    "transport": transport,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--out", type=Path, default=Path("data/flows"))
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    STUDIES[asked.study](load_settings(asked.config).settings, asked)


if __name__ == "__main__":
    main()
