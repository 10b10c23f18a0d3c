"""Study: attention variants, depth as time, and slot weights learned from consecutive days.

    python benchmarks/flows.py attention --config gdelphi.toml --out FOLDER [--steps N] [--seeds N]

A small model is trained for each variant on the store's pack (`gdelphi embed` comes first), without
the stack, so that all that it knows comes through its own layers. The score is the log loss over
all cells, the mean of the readings *direct* and *profiles*: on validation A, which also says when
to stop, and on validation B, which says nothing else. Runs that are there are not made again.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from rich.progress import Progress

from gdelphi.common.progress import Silent
from gdelphi.common.sections import AttentionKind
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.types import Measure
from gdelphi.measures.pack import Pack
from gdelphi.measures.space import Space
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.data import load_training_data, target_days
from gdelphi.model.encoder_lipschitz import encoder_lipschitz
from gdelphi.model.loop import TrainStatus, run_training
from gdelphi.model.network import MeasureModel
from gdelphi.model.processes import training_device
from gdelphi.model.train import MeasureTask
from gdelphi.model.validation import evaluate

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
        self._advance = advance

    def stepped(self, status: TrainStatus) -> None:
        self._advance(status.step)


@contextmanager
def bar(title: str, total: int) -> Iterator[_Bar]:
    with Progress(transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield _Bar(lambda step: progress.update(task, completed=step))


def trained(settings: Settings, out: Path, **changes: Any) -> Variant:
    """A model of these settings, trained if it is not there."""
    quick = {
        "batch": 6,
        "evaluate_every": 40,
        "decoder_steps": 0,
        "atoms_weight": 0.0,
        "energy_weight": 0.0,
    }
    train = settings.train.model_copy(update={**quick, **changes})
    chosen = settings.model_copy(update={"train": train})
    with training_device(train) as accelerator:
        data = load_training_data(chosen, with_stack=False)
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
        scores = np.array([(run.validation_a, run.validation_b) for run in runs])
        shown = [f"{each.mean():.4f} ({each.min():.4f} to {each.max():.4f})" for each in scores.T]
        w1, w2, bound = constants.max(axis=0)
        show(kind, *shown, f"{w2:.2f}", f"{w1:.2f}", f"10^{bound:.1f}")


STUDIES = {"attention": attention}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    STUDIES[asked.study](load_settings(asked.config).settings, asked)


if __name__ == "__main__":
    main()
