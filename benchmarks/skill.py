"""Study: how much better than the stack trained models are, on days that nothing was fitted on.

    python benchmarks/skill.py --store STORE --model models/a [--model models/b ...]
                               [--world ARCHIVE] [--config gdelphi.toml] [--json FILE]

For each model: its readings (profiles, direct), and the combination of them with the baselines,
fitted on validation B. Beside them the recency bootstrap that the model started from, EWMA and the
stack, fitted on all days before the test days; with --world the fair oracle of a simulated world.
Brier scores on the test days with skill against the stack and its 95% block-bootstrap interval.
Several models are several seeds: their scores are also given as mean and range.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from gdelphi.backtest import Judged, Line, run, table
from gdelphi.baselines import Ewma, RecencyBootstrap, all_baselines
from gdelphi.batches import BatchMaker
from gdelphi.checkpoint import load_checkpoint
from gdelphi.clouds import measures_folder
from gdelphi.combine import Stack, default_stack
from gdelphi.config import Settings, load_settings
from gdelphi.describe import ingested_panel
from gdelphi.evaluation import READINGS, evaluate
from gdelphi.outlook import read_outlook
from gdelphi.pack import Pack
from gdelphi.packing import pack_days
from gdelphi.profiles import read_profiles
from gdelphi.sequences import Sequences
from gdelphi.space import load_space
from gdelphi.types import TARGETS, FloatArray, Forecast, Forecaster, History, make_forecast


@dataclass(frozen=True, eq=False)
class Recorded:
    """A forecaster that answers what a model has said; shares are the recency bootstrap's."""

    name: str
    said: Mapping[date, FloatArray]
    """target day -> [stream, target, code]"""

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        drawn = RecencyBootstrap().forecast(history, origin, horizon)
        values = self.said[origin + timedelta(days=horizon)]
        return [
            make_forecast(
                Forecast(
                    self.name, each.stream, origin, horizon, history.codes, *values[number],
                    each.share_samples, each.share_weights,
                )
            )
            for number, each in enumerate(drawn)
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """A forecaster on its own history, whose streams are in another order."""

    forecaster: Forecaster
    history: History

    @property
    def name(self) -> str:
        return self.forecaster.name

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        made = self.forecaster.forecast(self.history, origin, horizon)
        by_stream = {forecast.stream: forecast for forecast in made}
        return [by_stream[stream] for stream in history.streams]


def recorded(settings: Settings, folder: Path, label: str) -> tuple[list[Recorded], Sequences]:
    """The readings of a model on validation B and the test days."""
    space = load_space(measures_folder(settings) / "space")
    pack = Pack(pack_days(settings, space).folder)
    outlook = read_outlook(pack)
    sequences = Sequences(pack, settings)
    model = load_checkpoint(folder).model
    maker = BatchMaker(outlook, space, model.config, points=1024)
    targets = np.concatenate([sequences.targets("tuning"), sequences.targets("test")])
    found = evaluate(model, maker, outlook, targets)
    readings = [
        Recorded(
            f"{name}{label}",
            {
                sequences.day(int(t)): found.probabilities[number, row]
                for row, t in enumerate(targets)
            },
        )
        for number, name in enumerate(READINGS)
    ]
    return readings, sequences


def days_of(sequences: Sequences, parts: Sequence[str]) -> list[date]:
    return [sequences.day(int(t)) for part in parts for t in sequences.targets(part)]


def judge(settings: Settings, models: Sequence[Path], world: Path | None) -> Judged:
    forecasters: list[Forecaster] = [RecencyBootstrap(), Ewma()]
    history = None
    for number, folder in enumerate(models):
        label = f" {number + 1}" if len(models) > 1 else ""
        readings, sequences = recorded(settings, folder, label)
        if history is None:
            history = read_profiles(settings, "root", sequences.pack.facts.streams)
            before = days_of(sequences, ("train", "choice", "tuning"))
            bar = default_stack().fit(history, before[len(before) // 3 :])
            forecasters.append(bar)
            test, training = days_of(sequences, ("test",)), days_of(sequences, ("train",))
        combined = Stack([*all_baselines(), *readings], name=f"combined{label}")
        forecasters += [*readings, combined.fit(history, days_of(sequences, ("tuning",)))]
    if world is not None:
        panel = ingested_panel(settings, world)
        forecasters.append(Elsewhere(panel.oracle(), panel.profiles))
    return run(forecasters, history, test, training_days=training)


def show(judged: Judged) -> Iterator[Line]:
    for cells in ("all", "active"):
        print(f"\n{cells} cells, {len(judged.days)} test days, {len(judged.streams)} streams\n")
        print("| target | forecaster | Brier | log score | skill against the stack | 95% |")
        print("|---|---|---|---|---|---|")
        for line in table(judged, cells=cells):
            skill = line.skill
            print(
                f"| {line.target} | {line.forecaster} | {line.brier:.5f} | {line.log_score:.5f} | "
                f"{skill.value:+.2%} | {skill.low:+.2%} to {skill.high:+.2%} |"
            )
            if cells == "all":
                yield line


def show_captured(lines: Sequence[Line], oracle: str = "fair oracle") -> None:
    """The fraction of the way from the stack to the oracle."""
    for target in TARGETS:
        score = {line.forecaster: line.brier for line in lines if line.target == target}
        if oracle not in score:
            return
        room = score["stack"] - score[oracle]
        for name in (*READINGS, "combined"):
            found = [(score["stack"] - score[key]) / room for key in score if key.startswith(name)]
            low, high = min(found), max(found)
            print(f"{target}: {name} captures {np.mean(found):.1%} ({low:.1%} to {high:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--model", type=Path, action="append", required=True)
    parser.add_argument("--world", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    settings = load_settings(given.config, {"store": given.store}).settings
    lines = list(show(judge(settings, given.model, given.world)))
    print()
    show_captured(lines)
    if given.json:
        rows = [[line.target, line.forecaster, line.brier, line.log_score] for line in lines]
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
