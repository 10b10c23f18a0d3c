"""Tables of the week ahead for `stack.py --week`: every horizon, onsets, escalations.

What is published of the week is the direct reading (the stack, moved towards the cell network as
far as that has earned), made to agree with itself. Tomorrow is the direct reading too: the last
step of publishing, which needs a trained measure transformer, is left out here.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from gdelphi.common.percent import percent
from gdelphi.common.types import AHEAD, TARGETS, Forecast
from gdelphi.forecast.coherent_week import within_occurs
from gdelphi.forecast.publisher import PUBLISHED, WITHOUT_NETWORK
from gdelphi.forecast.week import STACK, published_week
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.judge.week import (
    BLOCK_DAYS,
    HORIZONS,
    JudgedWeeks,
    OnsetCase,
    WeekScore,
    judged_weeks,
    onset_cases,
    week_gains,
    week_scores,
    week_skill,
    week_table,
    without_network,
)
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.model.direct_reading import DirectReading
from gdelphi.scores.probabilities import Skill, brier
from gdelphi.stack.linear import SIMPLE, expit
from gdelphi.world.oracle_week import WeekOracle

ORACLE = "fair oracle"
NAMES = (SIMPLE, STACK, PUBLISHED, ORACLE)
HEADS = [*(f"day {day}" for day in range(1, AHEAD + 1)), "within"]


def judge_weeks(
    direct: DirectReading, days: Sequence[date], oracle: WeekOracle | None
) -> JudgedWeeks:
    """The weeks that begin with some days."""
    history, tables, origins = direct.history, [], []
    for day in days:
        origin = day - timedelta(days=1)
        values = within_occurs(expit(direct.tomorrow(origin)))
        nothing = (np.zeros((1, len(history.codes))), np.ones(1))
        tomorrow = [
            Forecast(PUBLISHED, stream, origin, 1, history.codes, *values[:, number], *nothing)
            for number, stream in enumerate(history.streams)
        ]
        if direct.week_stack is None:
            raise SystemExit("this stack knows nothing of the week")
        week = published_week(direct.week_stack, direct.week, history, origin, tomorrow)
        said = {**week.forecasts, WITHOUT_NETWORK: without_network(week.forecasts[STACK])}
        if oracle is not None:
            said[ORACLE] = oracle.week(history, origin)
        came = week_outcomes(history, origin)
        tables.append(week_table(history.streams, history.codes, said, came, week.onset))
        origins.append(origin)
    return judged_weeks(origins, tables)


def show_weeks(weeks: JudgedWeeks) -> None:
    """Markdown."""
    scores = week_scores(weeks)
    print(f"\nThe week, {len(weeks.origins)} origins; intervals by blocks of {BLOCK_DAYS} days.")
    for target in TARGETS:
        print(f"\n| {target} | {' | '.join(HEADS)} |\n|{'---|' * (len(HEADS) + 1)}")
        lines = {
            (line.forecaster, line.horizon): line
            for line in scores
            if line.target == target and line.cells == "all"
        }
        rows = {
            f"{SIMPLE}, Brier": [f"{lines[SIMPLE, h].brier:.4f}" for h in HORIZONS],
            **{name: _skills(lines, name) for name in (STACK, PUBLISHED)},
        }
        if (ORACLE, 1) in lines:
            rows[ORACLE] = _skills(lines, ORACLE)
            rows["stack, of the way"] = _ways(lines, STACK)
            rows["published, of the way"] = _ways(lines, PUBLISHED)
        gains = [_interval(g.skill) for g in week_gains(weeks) if g.target == target]
        rows["what the network adds"] = gains
        rows["published against the stack"] = _against(weeks, TARGETS.index(target))
        errors = [lines[PUBLISHED, h].calibration_error for h in HORIZONS]
        rows["calibration error"] = [f"{error:.4f}" for error in errors]
        for name, cells in rows.items():
            print(f"| {name} | {' | '.join(cells)} |")
    _show_rare(scores)
    hits, misses = onset_cases(weeks)
    for title, cases in (("Largest hits", hits), ("Largest misses", misses)):
        print(f"\n{title} among onset cells (published, simple stack):\n")
        for case in cases:
            print(f"- {_in_words(case)}")


def show_seeds(of_seeds: Sequence[JudgedWeeks]) -> None:
    """Mean and range over cell networks of several seeds."""
    if len(of_seeds) < 2:
        return
    print(f"\nOver {len(of_seeds)} seeds of the cell network, mean (lowest to highest):")
    tables = [
        {(one.target, one.horizon): one.skill.value for one in week_scores(weeks)
         if (one.cells, one.forecaster) == ("all", PUBLISHED)} for weeks in of_seeds
    ]  # fmt: skip
    gains = [{(one.target, one.horizon): one.skill.value for one in week_gains(weeks)}
             for weeks in of_seeds]  # fmt: skip
    for name, found in (("published", tables), ("what the network adds", gains)):
        print(f"\n| {name} | {' | '.join(HEADS)} |\n|{'---|' * (len(HEADS) + 1)}")
        for target in TARGETS:
            cells = []
            for horizon in HORIZONS:
                values = [each[target, horizon] for each in found]
                cells.append(f"{np.mean(values):+.2%} ({min(values):+.2%} to {max(values):+.2%})")
            print(f"| {target} | {' | '.join(cells)} |")


def _skills(lines: dict[Any, WeekScore], name: str) -> list[str]:
    return [_interval(lines[name, horizon].skill) for horizon in HORIZONS]


def _ways(lines: dict[Any, WeekScore], name: str) -> list[str]:
    """Part of the way from the simple stack to the oracle."""
    ways = []
    for horizon in HORIZONS:
        bar, ours, best = (lines[one, horizon].brier for one in (SIMPLE, name, ORACLE))
        ways.append(f"{(bar - ours) / (bar - best):.0%}")
    return ways


def _against(weeks: JudgedWeeks, target: int) -> list[str]:
    """What is published against the stack at each horizon, network and agreement together."""
    skills = []
    for place in range(len(HORIZONS)):
        outcome = weeks.outcome[:, target, place]
        ours, bar = (
            brier(weeks.said[name][:, target, place], outcome) for name in (PUBLISHED, STACK)
        )
        skills.append(_interval(week_skill(ours, bar)))
    return skills


def _interval(skill: Skill) -> str:
    return f"{skill.value:+.2%} ({skill.low:+.2%} to {skill.high:+.2%})"


def _show_rare(scores: Sequence[WeekScore]) -> None:
    print("\n| within the week | forecaster | cells | came true | Brier | skill |")
    print("|---|---|---|---|---|---|")
    for line in scores:
        if line.cells == "onset" or line.target == "escalation":
            what = "onset" if line.cells == "onset" else line.target
            print(
                f"| {what} | {line.forecaster} | {line.number:,} | {line.rate:.2%} | "
                f"{line.brier:.5f} | {_interval(line.skill)} |"
            )


def _in_words(case: OnsetCase) -> str:
    label = event_codes()[case.code].label
    return (
        f"{stream_name(case.stream)}, week from {case.origin + timedelta(days=1)}: {label} "
        f"({percent(case.published)}, {percent(case.simple)})"
    )
