"""The stack against the amount of data: how much more days to learn from would bring.

    python benchmarks/learning_curve.py --config gdelphi.toml --days 375 750 1500 3000
    python benchmarks/learning_curve.py --config gdelphi.toml --days 1500 --hindsight

Fits the stack on the last so many days before the test days (validation A and B are among them, so
there cannot be fewer than these and the context), and asks it about every test day. A row of
Markdown for each number of days: the skill of the stack and of its members against one and the same
bar, the simple stack of the first fit, with 95% intervals; the network has no part in it.
`--hindsight` adds what one who sees the days after would gain, an estimate of what there is to
know.
"""

import argparse
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from time import process_time

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import load_settings
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.scores.probabilities import brier, skill
from gdelphi.stack.fit import FitDays, fit_stack
from gdelphi.stack.fitted import POOLED, STACK, CountForecasters
from gdelphi.stack.linear import SIMPLE, ask
from hindsight import came_on, hindsight
from stack import stored_panel, tell

FITTED = ("train", "validation_a", "validation_b")


def answers(counts: CountForecasters, days: Sequence[date]) -> dict[str, FloatArray]:
    """forecaster -> [target, day, stream, root]"""
    said: dict[str, list[FloatArray]] = {}
    for day in days:
        found = ask([counts.stack], counts.panel.roots, day - timedelta(days=1))
        for name, one in found.items():
            values = [[each.probability(target) for each in one] for target in TARGETS]
            said.setdefault(name, []).append(np.array(values))
    return {name: np.stack(values, axis=1) for name, values in said.items()}


def show(
    fitted: str, said: dict[str, FloatArray], came: FloatArray, bar: FloatArray, took: float
) -> None:
    """Rows of the table: one for each forecaster."""
    for name, values in said.items():
        cells = []
        for number in range(len(TARGETS)):
            found = skill(brier(values[number], came[number]), brier(bar[number], came[number]))
            cells.append(f"{found.value:+.2%} ({found.low:+.2%} to {found.high:+.2%})")
        print(f"| {fitted} | {name} | {' | '.join(cells)} | {took:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path)
    parser.add_argument("--days", type=int, nargs="+", required=True)
    parser.add_argument("--every", type=int, default=1, help="days from one to the next")
    parser.add_argument("--hindsight", action="store_true", help="of the last number of days")
    given = parser.parse_args()
    try:
        panel, days = stored_panel(load_settings(given.config, {}).settings)
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")
    judged = days["test"][:: given.every]
    came = came_on(panel.roots, judged)
    fit_days = FitDays(*(days[part] for part in FITTED))
    fewest = len(fit_days.validation_a) + len(fit_days.validation_b) + 1
    if min(given.days) < fewest:
        parser.exit(1, f"--days: at least {fewest}, validation A and B are among them\n")
    print(f"{len(panel.roots.streams)} streams, {len(judged)} days from {judged[0]}\n")
    print(f"| days | forecaster | {' | '.join(TARGETS)} | CPU s |\n|{'---|' * (len(TARGETS) + 3)}")
    bar = None
    for most in given.days:
        began = process_time()
        fit = fit_stack(panel, fit_days, tell, most_days=most)
        took = process_time() - began
        counts = CountForecasters(fit, panel)
        said = {name: values for name, values in answers(counts, judged).items()
                if name in (*POOLED, STACK)}  # fmt: skip
        bar = said[SIMPLE] if bar is None else bar
        if given.hindsight and most == given.days[-1]:
            said["hindsight"] = hindsight(counts, said[STACK], judged)
        show(f"{len(fit.out_of_fold.days):,}", said, came, bar, took)


if __name__ == "__main__":
    main()
