"""The stack, and what the cell network adds to it, on days that nothing was fitted on.

    python benchmarks/stack.py --config gdelphi.toml                   the days of a store
    python benchmarks/stack.py --preset default [--seed N] [--law N]   a simulated world, no files

Fits the stack and trains the cell network as `gdelphi train` does, on training days and validation
A and B (those of a store are kept and used again), and asks them and the stack's members about
every test day. Markdown on the standard output: skill against the simple stack, with 95% intervals,
and calibration errors; what *direct*, the stack moved towards the cell network, adds to the stack;
of a simulated world also the part of the way from the simple stack to the fair oracle, and the
announcing codes that were found beside those of its law. `--week` judges the week ahead as well,
at every horizon. `--hindsight` adds a line for one who sees the days after: an estimate of how much
there is to know. `--validation` shows the answers out of fold on validation A and B in place of
test days: what settings may be chosen on.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import torch

from gdelphi.common.errors import GdelphiError
from gdelphi.common.sections import SplitSettings
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.splits import Splits, split_days
from gdelphi.common.types import TARGETS, FloatArray, Forecaster
from gdelphi.judge.simulated import simulated_panel
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.count_panel import CountPanel, read_count_panel
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import pack_days, training_streams
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import load_space
from gdelphi.model.cell_fit import (
    CellFit,
    CellSettings,
    cell_network_of,
    fit_cells,
)
from gdelphi.model.context_fit import FINE_TUNING, ContextFit, context_network_of, fit_context
from gdelphi.model.direct_reading import DirectReading
from gdelphi.scores.probabilities import brier, skill
from gdelphi.scores.reliability import expected_calibration_error
from gdelphi.stack.files import stack_of_pack
from gdelphi.stack.fit import FitDays, fit_stack
from gdelphi.stack.fitted import POOLED, STACK, CountForecasters
from gdelphi.stack.linear import SIMPLE, ask, expit
from gdelphi.stack.week import WeekStack
from gdelphi.world.config import WorldConfig, world_config
from gdelphi.world.draw_law import draw_law
from gdelphi.world.simulated_counts import simulated_count_panel
from hindsight import came_on, hindsight
from week_ahead import judge_weeks, show_seeds, show_weeks

CONTEXT_DAYS = 50
ORACLE = "fair oracle"
DIRECT = "direct"
HINDSIGHT = "hindsight"
Days = Mapping[str, Sequence[date]]


class Fitted(NamedTuple):
    """A stack over the days of a panel, and its cell network."""

    counts: CountForecasters
    cells: CellFit
    context: ContextFit
    days: Days
    """target days of each part of the split"""

    @property
    def direct(self) -> DirectReading:
        """What stack and network say together."""
        fit = self.counts.fit.week
        week = None if fit is None else WeekStack(self.counts, fit)
        return DirectReading(
            self.counts.stack, self.cells, self.counts.panel.roots, week, self.context
        )


def tell(what: str) -> None:
    print(f"... {what}", file=sys.stderr)


def stored(config: Path | None, cells: CellSettings, train_days: int = 0) -> Fitted:
    """Of a store; with `train_days` from the last of the training days only, without a pack, and
    not kept."""
    settings = load_settings(config, {}).settings
    if train_days:
        return _fitted_on_some(settings, cells, train_days)
    pack = Pack(pack_days(settings, load_space(measures_folder(settings) / "space")).folder)
    sequences = Sequences(pack, settings)
    parts = ("train", "validation_a", "validation_b", "test")
    days = {part: [sequences.day(int(at)) for at in sequences.targets(part)] for part in parts}
    stack = stack_of_pack(settings, sequences, tell)
    fit = stack.load()
    if fit is None or stack.folder is None:
        raise GdelphiError(stack.reason)
    counts = CountForecasters(fit, pack.count_panel)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = cell_network_of(counts, stack.folder, cells, device=device, on_step=tell)
    known = counts.fit.out_of_fold
    context = context_network_of(counts.panel, known, network, stack.folder, on_step=tell)
    return Fitted(counts, network, context, days)


def stored_panel(settings: Settings) -> tuple[CountPanel, Days]:
    """The counts of a store's streams, and the target days of each part of its split."""
    clouds = Clouds(measures_folder(settings))
    known = sorted(clouds.files.made_from())
    splits = split_days(known[0], known[-1], settings.split)
    streams = training_streams(settings, clouds, splits.train[1])
    roots = read_profiles(settings, "root", streams, since=known[0], until=known[-1])
    return read_count_panel(settings, roots), target_days(roots, splits)


def _fitted_on_some(settings: Settings, cells: CellSettings, train_days: int) -> Fitted:
    panel, days = stored_panel(settings)
    train = days["train"][-train_days:]
    fit = fit_stack(panel, FitDays(train, days["validation_a"], days["validation_b"]), tell)
    return _with_networks(CountForecasters(fit, panel), days, cells)


def target_days(roots: Profiles, splits: Splits) -> dict[str, list[date]]:
    """Days of each part of a split that have enough days before them."""
    days: dict[str, list[date]] = {}
    for number, day in enumerate(roots.days):
        if number >= CONTEXT_DAYS and roots.present[number] and (part := splits.part(day)):
            days.setdefault(part, []).append(day)
    return days


def simulated(config: WorldConfig, cells: CellSettings) -> Fitted:
    """Of a simulated world, with the default split."""
    return _with_networks(*simulated_stack(config), cells)


def _with_networks(counts: CountForecasters, days: Days, cells: CellSettings) -> Fitted:
    network = fit_cells(counts, cells, on_step=tell)
    context = fit_context(counts.panel, counts.fit.out_of_fold, network, on_step=tell)
    return Fitted(counts, network, context, days)


def simulated_stack(config: WorldConfig) -> tuple[CountForecasters, Days]:
    """The stack of a simulated world, and the target days of each part of the default split."""
    panel = simulated_count_panel(config)
    roots = panel.roots
    days = target_days(roots, split_days(roots.days[0], roots.days[-1], SplitSettings()))
    fit_days = FitDays(*(days[part] for part in ("train", "validation_a", "validation_b")))
    return CountForecasters(fit_stack(panel, fit_days, tell), panel), days


def answers_on(
    forecasters: Sequence[Forecaster], roots: Profiles, days: Sequence[date]
) -> dict[str, FloatArray]:
    """forecaster -> [target, day, stream, root]"""
    said: dict[str, list[FloatArray]] = {}
    for day in days:
        for name, found in ask(forecasters, roots, day - timedelta(days=1)).items():
            values = [[one.probability(target) for one in found] for target in TARGETS]
            said.setdefault(name, []).append(np.array(values))
    return {name: np.stack(values, axis=1) for name, values in said.items()}


def ask_all(
    fitted: Fitted, others: Sequence[Forecaster], days: Sequence[date]
) -> tuple[dict[str, FloatArray], FloatArray]:
    """forecaster -> [target, day, stream, root], and the outcomes."""
    roots, direct = fitted.counts.panel.roots, fitted.direct
    said = answers_on([fitted.counts.stack, *others], roots, days)
    moved = [expit(direct.tomorrow(day - timedelta(days=1))) for day in days]
    return {**said, DIRECT: np.stack(moved, axis=1)}, came_on(roots, days)


def show(said: Mapping[str, FloatArray], came: FloatArray) -> None:
    """The table: a row for each forecaster."""
    head = ["forecaster", *TARGETS, "calibration error"]
    if ORACLE in said:
        head.append("of the way to the fair oracle")
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in (*POOLED, STACK, DIRECT, HINDSIGHT, ORACLE):
        if name not in said:
            continue
        cells, errors, ways = [], [], []
        for number in range(len(TARGETS)):
            ours, bar = (brier(said[one][number], came[number]) for one in (name, SIMPLE))
            found = skill(ours, bar)
            cells.append(f"{found.value:+.2%} ({found.low:+.2%} to {found.high:+.2%})")
            errors.append(f"{expected_calibration_error(said[name][number], came[number]):.4f}")
            if ORACLE in said:
                best = brier(said[ORACLE][number], came[number])
                known = ~np.isnan(ours + bar + best)
                room = bar[known].mean() - best[known].mean()
                ways.append(f"{(bar[known].mean() - ours[known].mean()) / room:.1%}")
        row = [name, *cells, " / ".join(errors), *([" / ".join(ways)] if ways else [])]
        print(f"| {' | '.join(row)} |")


def show_added(said: Mapping[str, FloatArray], came: FloatArray, fitted: Fitted) -> None:
    """What the networks add to the stack."""
    print(f"\n| what the network adds | {' | '.join(TARGETS)} |\n|{'---|' * (len(TARGETS) + 1)}")
    found = [
        skill(brier(said[DIRECT][number], came[number]), brier(said[STACK][number], came[number]))
        for number in range(len(TARGETS))
    ]
    row = [f"{one.value:+.3%} ({one.low:+.3%} to {one.high:+.3%})" for one in found]
    print(f"| Brier score | {' | '.join(row)} |")
    for name, weights in (("cell", fitted.cells.weights), ("context", fitted.context.weights)):
        shown = " | ".join(f"{weight:g}" for weight in weights[: len(TARGETS)])
        print(f"| weight of the {name} network | {shown} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path)
    parser.add_argument("--preset")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--law", type=int)
    parser.add_argument("--every", type=int, default=1, help="days from one to the next")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument(
        "--hindsight", action="store_true", help="show also one who sees the days after"
    )
    parser.add_argument("--week", action="store_true", help="judge the week ahead too")
    parser.add_argument(
        "--train-days", type=int, default=0, help="last training days to learn from; 0: all"
    )
    parser.add_argument("--cell-epochs", type=int, default=CellSettings().epochs)
    parser.add_argument(
        "--cell-seeds", type=int, default=1, help="with --week: cell networks of so many seeds"
    )
    parser.add_argument(
        "--context-seeds", type=int, default=1, help="context networks of so many seeds"
    )
    given = parser.parse_args()
    try:
        config = None
        if given.preset:
            config = world_config(given.preset, {} if given.seed is None else {"seed": given.seed})
            config = config if given.law is None else draw_law(config, given.law)
        began, cpu = perf_counter(), process_time()
        cells = CellSettings(epochs=given.cell_epochs)
        if config:
            fitted = simulated(config, cells)
        else:
            fitted = stored(given.config, cells, given.train_days)
        took = f"{perf_counter() - began:.0f} s, {process_time() - cpu:.0f} s of CPU"
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")
    days, fit = fitted.days, fitted.counts.fit
    validation = [*days["validation_a"], *days["validation_b"]]
    judged = (validation if given.validation else days["test"])[:: given.every]
    others = [simulated_panel(config).oracle()] if config else []
    said, came = ask_all(fitted, others, judged)
    if given.hindsight:
        said[HINDSIGHT] = hindsight(fitted.counts, said[STACK], judged)
    print(
        f"{len(fit.intensity.streams)} streams, fitted on {len(fit.out_of_fold.days)} days in "
        f"{took}; {len(judged)} days from {judged[0]} to {judged[-1]}. {fit.intensity.summary}."
    )
    if config:
        law = [f"{one.code} {one.lead_days} days before" for one in config.occasions]
        print(f"The law's announcing codes: {', '.join(law)}.")
    show(said, came)
    show_added(said, came, fitted)
    for seed in range(1, given.context_seeds):
        known, tuned = fitted.counts.fit.out_of_fold, replace(FINE_TUNING, seed=seed)
        context = fit_context(fitted.counts.panel, known, fitted.cells, tuned, on_step=tell)
        other = fitted._replace(context=context)
        show_added(ask_all(other, [], judged)[0], came, other)
    if given.week:
        oracle = simulated_panel(config).week_oracle() if config else None
        weeks = [judge_weeks(fitted.direct, judged, oracle)]
        show_weeks(weeks[0])
        for seed in range(1, given.cell_seeds):
            other = fit_cells(fitted.counts, replace(cells, seed=seed), on_step=tell)
            weeks.append(judge_weeks(fitted._replace(cells=other).direct, judged, None))
        show_seeds(weeks)


if __name__ == "__main__":
    main()
