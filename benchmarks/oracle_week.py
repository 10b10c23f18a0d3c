"""The oracle of the week: what it costs, and how far few paths are from endless ones.

    python benchmarks/oracle_week.py [--preset default] [--seed N] [--paths 400] [--every 6]

Asks the fair oracle of a simulated world about the weeks after every sixth day of its last fifth.
Markdown on the standard output: CPU seconds an origin, and for each target by day and within the
week the Brier score, the root mean square error of the probabilities because paths are few, and
the part of the Brier score that comes of it.
"""

import argparse
from collections.abc import Iterator
from datetime import timedelta
from time import process_time
from typing import NamedTuple

import numpy as np

from gdelphi.common.types import AHEAD, TARGETS, FloatArray
from gdelphi.judge.simulated import Panel, simulated_panel
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.world.config import PRESETS, world_config
from gdelphi.world.oracle_week import PATHS


class Week(NamedTuple):
    """Of one origin: squared errors and variances; the seven days, then within the week."""

    squares: FloatArray  # [target, 8, stream, code], NaN where there is no outcome
    variance: FloatArray
    seconds: float


def weeks(panel: Panel, *, paths: int, every: int) -> Iterator[Week]:
    oracle = panel.week_oracle(paths=paths)
    last = panel.profiles.days[-1] - timedelta(days=AHEAD)
    origins = [day for day in panel.test_days if day <= last][::every]
    oracle.oracle.prospect(origins[0])  # filters all days, once
    for origin in origins:
        start = process_time()
        said, variance = oracle.week_with_variance(panel.profiles, origin)
        seconds = process_time() - start
        came = week_outcomes(panel.profiles, origin)
        daily = np.stack([each.daily for each in said], axis=2) - came.daily
        within = np.stack([each.within for each in said], axis=1) - came.within
        squares = np.concatenate([daily, within[:, None]], axis=1) ** 2
        noise = np.concatenate([variance.daily, variance.within[:, None]], axis=1)
        yield Week(squares, np.where(np.isnan(squares), np.nan, noise), seconds)


def show(judged: list[Week], *, paths: int) -> Iterator[str]:
    seconds = [week.seconds for week in judged]
    yield f"{len(judged)} weeks, {paths} paths, {np.mean(seconds):.2f} s of CPU an origin\n"
    days = [f"day {day}" for day in range(1, AHEAD + 1)]
    yield f"| | {' | '.join([*days, 'within the week'])} |"
    yield "|---" * (AHEAD + 2) + "|"
    brier, noise = (
        np.nanmean(np.stack(part), axis=(0, 3, 4))
        for part in ([week.squares for week in judged], [week.variance for week in judged])
    )
    for number, target in enumerate(TARGETS):
        for name, values in (
            (f"*{target}*: Brier score", [f"{value:.4f}" for value in brier[number]]),
            ("error of probabilities", [f"{value:.4f}" for value in np.sqrt(noise[number])]),
            ("too large by", [f"{value:.2%}" for value in noise[number] / brier[number]]),
        ):
            yield f"| {name} | {' | '.join(values)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=list(PRESETS), default="default")
    parser.add_argument("--seed", type=int, default=7, help="of the world")
    parser.add_argument("--paths", type=int, default=PATHS)
    parser.add_argument("--every", type=int, default=6, help="days from origin to origin")
    asked = parser.parse_args()
    panel = simulated_panel(world_config(asked.preset, {"seed": asked.seed}))
    judged = list(weeks(panel, paths=asked.paths, every=asked.every))
    print("\n".join(show(judged, paths=asked.paths)))


if __name__ == "__main__":
    main()
