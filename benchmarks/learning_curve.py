"""The stack against the amount of data: how much more days to learn from would bring.

    python benchmarks/learning_curve.py --config gdelphi.toml --days 375 750 1500 3000
    python benchmarks/learning_curve.py --config gdelphi.toml --days 1500 --hindsight
    python benchmarks/learning_curve.py --config gdelphi.toml --refit 16

Fits the stack on the last so many days before the test days (validation A and B are among them, so
there cannot be fewer than these and the context), and asks it about every test day. A row of
Markdown for each number of days: the skill of the stack and of its members against one and the same
bar, the simple stack of the first fit, with 95% intervals; the network has no part in it.
`--hindsight` adds what one who sees the days after would gain, an estimate of what there is to
know. `--refit N` fits again before every N test days, on all days that are known by then.
"""

import argparse
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from time import process_time

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import load_settings
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.scores.probabilities import brier, skill
from gdelphi.stack.fit import MOST_DAYS, FitDays, fit_stack
from gdelphi.stack.fitted import POOLED, STACK, CountForecasters
from gdelphi.stack.linear import SIMPLE
from hindsight import came_on, hindsight
from stack import Days, answers_on, stored_panel, tell

FITTED = ("train", "validation_a", "validation_b")
SHOWN = (*POOLED, STACK)
Answers = dict[str, FloatArray]


def answers(counts: CountForecasters, days: Sequence[date]) -> Answers:
    """forecaster -> [target, day, stream, root]"""
    said = answers_on([counts.stack], counts.panel.roots, days)
    return {name: said[name] for name in SHOWN}


def refitted(panel: CountPanel, days: Days, every: int) -> tuple[Answers, Answers]:
    """Of the test days: what the first fit says, and what fits say that are made again."""
    parts = [list(days[part]) for part in FITTED]
    known = [day for part in (*parts, days["test"]) for day in part]
    first: CountForecasters | None = None
    found: tuple[list[Answers], list[Answers]] = ([], [])
    for start in range(0, len(days["test"]), every):
        asked = days["test"][start : start + every]
        if start:
            before = [day for day in known if day < asked[0]]
            sizes = np.cumsum([len(before) - len(parts[1]) - len(parts[2]), len(parts[1])])
            parts = [list(part) for part in np.split(np.array(before), sizes)]
        counts = CountForecasters(fit_stack(panel, FitDays(*parts), tell), panel)
        first = first or counts
        found[0].append(answers(first, asked))
        found[1].append(answers(counts, asked))
    frozen, again = (
        {name: np.concatenate([part[name] for part in each], axis=1) for name in SHOWN}
        for each in found
    )
    return frozen, again


def show(fitted: str, said: Answers, came: FloatArray, bar: FloatArray, took: float) -> None:
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
    parser.add_argument("--days", type=int, nargs="+", default=[MOST_DAYS])
    parser.add_argument("--refit", type=int, help="test days from one fit to the next")
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
    if given.refit:
        began = process_time()
        frozen, again = refitted(panel, {**days, "test": judged}, given.refit)
        took = process_time() - began
        show("not fitted again", frozen, came, frozen[SIMPLE], took)
        show(f"fitted every {given.refit} days", again, came, frozen[SIMPLE], took)
        return
    bar = None
    for most in given.days:
        began = process_time()
        fit = fit_stack(panel, fit_days, tell, most_days=most)
        took = process_time() - began
        counts = CountForecasters(fit, panel)
        said = answers(counts, judged)
        bar = said[SIMPLE] if bar is None else bar
        if given.hindsight and most == given.days[-1]:
            said["hindsight"] = hindsight(counts, said[STACK], judged)
        show(f"{len(fit.out_of_fold.days):,}", said, came, bar, took)


if __name__ == "__main__":
    main()
