"""Study: who does what to whom, and where, on days that nothing was fitted on.

    python benchmarks/arguments.py --store STORE [--config gdelphi.toml] [--level root --level base]
                                   [--days 100] [--streams KE UP ...]

For every event that occurred on a test day: was the actor (or the region) the first guess, among
the first five, and minus the log of its probability; for the reconstruction, the stream's
frequencies and the last seen, all fitted on validation B. Streams are those that the settings name,
or the ones with the most rows on training days. Differences are the reconstruction's gain, with
95% block-bootstrap intervals over days.
"""

import argparse
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from time import perf_counter

from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.splits import Splits, split_days
from gdelphi.common.types import WORLD, Level
from gdelphi.forecast.argument_months import read_arguments
from gdelphi.forecast.arguments import ArgumentHistory
from gdelphi.judge.arguments import (
    RECONSTRUCTION,
    ArgumentsLine,
    fit_forecasters,
    judge,
    table,
)
from gdelphi.measures.profiles import read_profiles
from gdelphi.scores.probabilities import Skill

KIND_NAMES = {"actor1": "actor 1", "actor2": "actor 2", "region": "region"}


def days_between(first: date, last: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def prepared(settings: Settings, streams: Sequence[str] | None) -> tuple[ArgumentHistory, Splits]:
    days = read_profiles(settings, "root", [WORLD]).days
    splits = split_days(days[0], days[-1], settings.split)
    chosen = tuple(streams or settings.sequences.only)
    if not chosen:
        largest = read_profiles(settings, "root", until=splits.train[1]).streams
        chosen = largest[: settings.sequences.streams]
    return read_arguments(settings, chosen), splits


def points(gain: Skill) -> str:
    """A gain in hits, in percentage points."""
    value, low, high = (100 * share for share in (gain.value, gain.low, gain.high))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def nats(gain: Skill) -> str:
    """A gain in log score."""
    return f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"


def show(lines: Sequence[ArgumentsLine]) -> None:
    print("| level | argument | cells | forecaster | top 1 | top 5 | log score |", end="")
    print(" gain in top 1 | gain in top 5 | gain in log score |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        one, five, log = line.means
        gains = ["", "", ""]
        if line.forecaster != RECONSTRUCTION:
            gains = [points(line.gains[0]), points(line.gains[1]), nats(line.gains[2])]
        print(
            f"| {line.level} | {KIND_NAMES[line.kind]} | {line.cells:,} | {line.forecaster} | "
            f"{one:.1%} | {five:.1%} | {log:.3f} | {' | '.join(gains)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--level", action="append", choices=("root", "base", "full"))
    parser.add_argument("--days", type=int, help="only the last test days, so many")
    parser.add_argument("--streams", nargs="+")
    given = parser.parse_args()
    settings = load_settings(given.config, {"store": given.store}).settings
    levels: list[Level] = given.level or ["root", "base"]
    began = perf_counter()
    history, splits = prepared(settings, given.streams)
    read = perf_counter()
    forecasters = fit_forecasters(history, days_between(*splits.validation_b), levels)
    fitted = perf_counter()
    test = days_between(*splits.test)[-given.days if given.days else None :]
    judged = judge(history, forecasters, test, levels)
    known = max((len(set(one.day.tolist())) for one in judged), default=0)
    print(
        f"{len(history.streams)} streams; fitted on {' to '.join(map(str, splits.validation_b))}; ",
        end="",
    )
    print(f"{known} test days, {test[0]} to {test[-1]}\n")
    show(table(judged))
    judging = perf_counter() - fitted
    print(f"\nreading {read - began:.0f} s, fitting {fitted - read:.0f} s, judging {judging:.0f} s")


if __name__ == "__main__":
    main()
