"""Sweeps: one training for each seed and choice of settings; what `gdelphi sweep` does.

Runs do not depend on each other, so workers share them, if there are any (`flows.runner`); else one
follows the other. Pack and stack are made before, by the process that has them done. Each run
trains into a folder of its own and goes on from its last checkpoint, so a worker that is lost costs
the steps since then. What is compared is validation A, never test days.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from gdelphi.common.errors import ConfigError
from gdelphi.common.files import alone, text_digest, write_json_atomically
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.sections import TrainSettings
from gdelphi.common.settings import Settings
from gdelphi.common.workers import have_workers, share
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import load_space
from gdelphi.model.train import train
from gdelphi.stack.files import stack_of_pack

RESULTS: Final = "sweep.json"
SECTION: Final = "train."
MOST_RUNS: Final = 1000

OnRun = Callable[[int, int], None]
"""runs done, runs to do"""


@dataclass(frozen=True)
class SweepRequest:
    """What is tried."""

    out: Path
    """a folder, with one for each run in it"""
    seeds: tuple[int, ...]
    values: Mapping[str, tuple[str, ...]]
    """by the name of a setting, as train.width; all combinations are tried"""


@dataclass(frozen=True)
class SweepResult:
    """What a run ended with."""

    name: str
    """of its folder"""
    choice: str
    """its settings without the seed; runs that have the same differ by their seeds"""
    seed: int
    score: float
    """log loss on validation A, of the kept step"""
    untrained: float
    best_step: int
    steps: int
    seconds: float
    made_from: str
    """fingerprint of settings and days"""


def sweep(
    settings: Settings,
    request: SweepRequest,
    *,
    on_step: OnStep = silent,
    on_packed: OnPacked | None = None,
    on_run: OnRun | None = None,
) -> list[SweepResult]:
    """Train all that are asked for, the best first; those that are done are found again."""
    runs = sweep_runs(settings, request)
    with alone(request.out, ConfigError(f"another sweep is writing to {request.out}")):
        on_step("packing")
        space = load_space(measures_folder(settings) / "space")
        pack = Pack(pack_days(settings, space, on_day=on_packed).folder)
        stack_of_pack(settings, Sequences(pack, settings), on_step)  # workers only copy it
        for run in runs:
            run.made_from = text_digest(repr((asdict(pack.facts), run.settings.train)))
        known = {result.made_from: result for result in _read(request.out)}
        done = [known[run.made_from] for run in runs if run.made_from in known]
        lacking = [run for run in runs if run.made_from not in known]
        work = _Work(request.out.absolute())
        for result in _results(work, lacking):
            done.append(result)
            _write(request.out, [*known.values(), *done])
            if on_run:
                on_run(len(done), len(runs))
    return sorted(done, key=lambda result: result.score)


@dataclass
class SweepRun:
    """One training of a sweep."""

    name: str
    choice: str
    settings: Settings
    made_from: str = ""


def sweep_runs(settings: Settings, request: SweepRequest) -> list[SweepRun]:
    """All combinations of values, with each seed."""
    names = []
    for key in request.values:
        name = key.removeprefix(SECTION)
        if name not in TrainSettings.model_fields or name == "seed":
            raise ConfigError(
                f"{key!r} cannot be swept: take settings of training but the seed, as train.width; "
                "`gdelphi config` lists them"
            )
        names.append(name)
    runs = []
    for values in product(*request.values.values()):
        changes = dict(zip(names, values, strict=True))
        choice = ",".join(f"{name}={value}" for name, value in changes.items()) or "as set"
        for seed in request.seeds:
            part = f"{choice},seed={seed}" if changes else f"seed={seed}"
            runs.append(SweepRun(part, choice, _changed(settings, {**changes, "seed": seed})))
    if not 0 < len(runs) <= MOST_RUNS:
        raise ConfigError(f"{len(runs)} runs: a sweep has 1 to {MOST_RUNS}")
    return runs


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    try:
        return settings.model_copy(
            update={"train": TrainSettings(**{**settings.train.model_dump(), **changes})}
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or ", ".join(changes)
        raise ConfigError(f"train.{name}: {first['msg']} ({first['input']!r})") from None


@dataclass(frozen=True)
class _Work:
    """What a worker does with a run."""

    out: Path

    def do(self, item: SweepRun) -> SweepResult:
        trained = train(item.settings, self.out / item.name, own_stack=True)
        return SweepResult(
            item.name, item.choice, item.settings.train.seed, trained.score, trained.untrained,
            trained.best_step, trained.steps, trained.seconds, item.made_from,
        )  # fmt: skip


def _results(work: _Work, runs: list[SweepRun]) -> Iterator[SweepResult]:
    if have_workers():
        return share(work, runs, portion=1, processes=1)
    return map(work.do, runs)  # each has all cores


def _read(out: Path) -> list[SweepResult]:
    try:
        content = json.loads((out / RESULTS).read_text(encoding="utf-8"))
        results = [SweepResult(**result) for result in content]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{out / RESULTS} cannot be read ({error}): delete it; trainings that are done are "
            "found again"
        ) from None
    return [result for result in results if (out / result.name / "model.safetensors").exists()]


def _write(out: Path, results: list[SweepResult]) -> None:
    by_name = {result.name: result for result in results}
    write_json_atomically(out / RESULTS, [asdict(result) for result in by_name.values()])
