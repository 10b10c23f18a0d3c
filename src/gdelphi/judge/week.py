"""Judging the week: every horizon, the week as a whole, onsets and escalations.

A judged origin has outcomes [target, horizon, stream, code] for days 1 to 7 and, behind them,
within the week, and as many probabilities of each forecaster. They are kept as one table for each
origin, with a row for each cell; escalations are rows without a code.

Weeks of neighbouring origins share days, so their errors go together for up to six days. Intervals
come from blocks of `BLOCK_DAYS`, twice the length of a week: shorter blocks would cut most of what
overlaps, much longer ones leave too few to resample.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gdelphi.common.types import (
    AHEAD,
    TARGETS,
    WITHIN,
    BoolArray,
    FloatArray,
    WeekForecast,
)
from gdelphi.forecast.coherent_week import coherent_week, within_occurs
from gdelphi.forecast.publisher import PUBLISHED, WITHOUT_NETWORK
from gdelphi.forecast.week import USUAL
from gdelphi.judge.compare import mean_of_known
from gdelphi.measures.week_targets import WeekOutcomes
from gdelphi.scores.probabilities import Bootstrap, Skill, brier, log_score, skill
from gdelphi.scores.reliability import expected_calibration_error
from gdelphi.stack.linear import SIMPLE

BLOCK_DAYS: Final = 14
HORIZONS: Final = (*range(1, AHEAD + 1), WITHIN)
"""in the order of arrays"""
ESCALATION: Final = "escalation"
OCCURS: Final = TARGETS.index("occurs")
KEYS: Final = ("stream", "code", "horizon", "target", "outcome", "onset")
SHOWN: Final = 10  # hits and misses


@dataclass(frozen=True, eq=False)
class JudgedWeeks:
    """What was said of weeks, and what came."""

    origins: tuple[date, ...]
    streams: tuple[str, ...]
    codes: tuple[str, ...]
    outcome: FloatArray
    """[origin, target, horizon, stream, code]; NaN where undefined or not known"""
    onset: BoolArray
    """[origin, stream, code]"""
    said: Mapping[str, FloatArray]
    """forecaster -> the same as of outcomes"""
    escalated: FloatArray
    """[origin, stream]"""
    escalation: Mapping[str, FloatArray]
    """forecaster -> the same"""


@dataclass(frozen=True)
class WeekScore:
    """One forecaster on one target and horizon."""

    horizon: int
    """days ahead; 0: within the week"""
    target: str
    cells: str
    """all, or onset: without a row on the 30 days before"""
    forecaster: str
    number: int
    """cells with an outcome"""
    rate: float
    """how often it came true"""
    days: int
    brier: float
    log_score: float
    calibration_error: float
    skill: Skill
    """against the simple stack"""


@dataclass(frozen=True)
class WeekGain:
    """What the network adds at a horizon: published against the same without the network."""

    horizon: int
    target: str
    skill: Skill


@dataclass(frozen=True)
class OnsetCase:
    """An onset cell with what was said and what came."""

    origin: date
    stream: str
    code: str
    published: float
    simple: float
    happened: bool


# --- from forecasts to arrays and tables ----------------------------------------------------------


def without_network(stack: Sequence[WeekForecast]) -> list[WeekForecast]:
    """What would be published of the stack alone: its numbers, made to agree."""
    forecasts = []
    for one in stack:
        tomorrow = within_occurs(one.daily[:, 0])
        daily = np.concatenate([tomorrow[:, None], one.daily[:, 1:]], axis=1)
        days, within = coherent_week(daily, one.within)
        forecasts.append(replace(one, forecaster=WITHOUT_NETWORK, daily=days, within=within))
    return forecasts


def said_of(forecasts: Sequence[WeekForecast]) -> FloatArray:
    """Of all streams at an origin, [target, horizon, stream, code]."""
    each = [np.concatenate([one.daily, one.within[:, None]], axis=1) for one in forecasts]
    return np.stack(each, axis=2)


def came_of(outcome: WeekOutcomes) -> FloatArray:
    """[target, horizon, stream, code]"""
    return np.concatenate([outcome.daily, outcome.within[:, None]], axis=1)


def week_table(
    streams: Sequence[str],
    codes: Sequence[str],
    forecasts: Mapping[str, Sequence[WeekForecast]],
    outcome: WeekOutcomes,
    onset: BoolArray,
) -> pa.Table:
    """The rows of an origin."""
    shape = (len(TARGETS), len(HORIZONS), len(streams), len(codes))
    cells = int(np.prod(shape))
    target, horizon, stream, code = (axis.ravel() for axis in np.indices(shape))
    nothing = pa.nulls(len(streams), pa.bool_())
    columns = {
        "stream": _named(streams, stream, list(streams)),
        "code": _named(codes, code, [None] * len(streams)),
        "horizon": pa.array([*np.array(HORIZONS)[horizon], *[WITHIN] * len(streams)], pa.int8()),
        "target": _named(TARGETS, target, [ESCALATION] * len(streams)),
        "outcome": pa.array(np.append(came_of(outcome).ravel(), outcome.escalation)),
        "onset": pa.chunked_array(
            [pa.array(np.broadcast_to(onset, shape).ravel()), nothing]
        ).combine_chunks(),
    }
    for name, of_streams in forecasts.items():
        escalation = np.array([one.escalation for one in of_streams])
        values = np.append(said_of(of_streams).ravel(), escalation)
        if len(values) != cells + len(streams):
            raise ValueError(f"{name} speaks of other streams or codes")
        columns[name] = pa.array(values)
    return pa.table(columns)


def _named(names: Sequence[str], place: Any, more: Sequence[str | None]) -> pa.Array:
    return pa.array([*np.array(names, object)[place], *more], pa.string())


def judged_weeks(origins: Sequence[date], tables: Sequence[pa.Table]) -> JudgedWeeks:
    """What `week_table` has written of origins."""
    first = tables[0]
    streams = tuple(dict.fromkeys(first["stream"].to_pylist()))
    codes = tuple(code for code in dict.fromkeys(first["code"].to_pylist()) if code is not None)
    names = [name for name in first.column_names if name not in KEYS]
    shape = (len(TARGETS), len(HORIZONS), len(streams), len(codes))
    cells = int(np.prod(shape))

    def gathered(name: str) -> tuple[FloatArray, FloatArray]:
        values = np.stack([table[name].to_numpy() for table in tables])
        return values[:, :cells].reshape(-1, *shape), values[:, cells:]

    outcome, escalated = gathered("outcome")
    both = {name: gathered(name) for name in names}
    onset = np.stack([table["onset"].slice(0, cells).to_numpy() for table in tables])
    return JudgedWeeks(
        tuple(origins), streams, codes, outcome,
        onset.reshape(-1, *shape)[:, 0, 0].astype(np.bool_),
        {name: said for name, (said, _) in both.items()},
        escalated,
        {name: escalation for name, (_, escalation) in both.items()},
    )  # fmt: skip


# --- scores ---------------------------------------------------------------------------------------


def week_scores(weeks: JudgedWeeks) -> list[WeekScore]:
    """Every forecaster on all cells, on onset cells within the week, and on escalations."""
    return [*_cell_scores(weeks), *_escalation_scores(weeks)]


def _cell_scores(weeks: JudgedWeeks) -> Iterator[WeekScore]:
    for place, horizon in enumerate(HORIZONS):
        for number, target in enumerate(TARGETS):
            outcome = weeks.outcome[:, number, place]
            said = {name: values[:, number, place] for name, values in weeks.said.items()}
            yield from _lines(said, outcome, horizon, target, "all")
    came = np.where(weeks.onset, weeks.outcome[:, OCCURS, -1], np.nan)
    said = {name: values[:, OCCURS, -1] for name, values in weeks.said.items()}
    yield from _lines(said, came, WITHIN, "occurs", "onset")


def _escalation_scores(weeks: JudgedWeeks) -> Iterator[WeekScore]:
    yield from _lines(weeks.escalation, weeks.escalated, WITHIN, ESCALATION, "all")


def _lines(
    said: Mapping[str, FloatArray], outcome: FloatArray, horizon: int, target: str, cells: str
) -> Iterator[WeekScore]:
    """Of all forecasters, on the cells that all of them speak of; only what is usual may be
    unknown."""
    speaks = [~np.isnan(values) for name, values in said.items() if name != USUAL]
    spoken = np.logical_and.reduce(speaks)
    known = np.where(spoken, outcome, np.nan)
    if np.isnan(known).all():
        return
    bar = brier(said[SIMPLE], known)
    days = int((~np.isnan(known)).reshape(len(known), -1).any(axis=1).sum())
    for name, values in said.items():
        scores = brier(values, known)
        yield WeekScore(
            horizon, target, cells, name, int((~np.isnan(known)).sum()), mean_of_known(known), days,
            mean_of_known(scores), mean_of_known(log_score(values, known)),
            expected_calibration_error(values, known), week_skill(scores, bar),
        )  # fmt: skip


def week_skill(scores: FloatArray, reference: FloatArray) -> Skill:
    """Skill with the blocks that overlapping weeks need."""
    return skill(scores, reference, Bootstrap(block_days=BLOCK_DAYS))


def week_gains(weeks: JudgedWeeks) -> list[WeekGain]:
    """What the network adds, at each horizon and target."""
    if not {PUBLISHED, WITHOUT_NETWORK} <= set(weeks.said):
        return []
    gains = []
    for place, horizon in enumerate(HORIZONS):
        for number, target in enumerate(TARGETS):
            outcome = weeks.outcome[:, number, place]
            ours, others = (
                brier(weeks.said[name][:, number, place], outcome)
                for name in (PUBLISHED, WITHOUT_NETWORK)
            )
            gains.append(WeekGain(horizon, target, week_skill(ours, others)))
    return gains


def onset_cases(weeks: JudgedWeeks) -> tuple[list[OnsetCase], list[OnsetCase]]:
    """The largest hits and misses among onset cells: what happened and was said to be likely, and
    what happened against all that was said; of one stream and code the most telling week."""
    published, simple = (weeks.said[name][:, OCCURS, -1] for name in (PUBLISHED, SIMPLE))
    came = np.where(weeks.onset, weeks.outcome[:, OCCURS, -1], np.nan)
    happened = [
        OnsetCase(
            weeks.origins[at], weeks.streams[stream], weeks.codes[code],
            float(published[at, stream, code]), float(simple[at, stream, code]), True,
        )
        for at, stream, code in zip(*np.nonzero(came == 1), strict=True)
    ]  # fmt: skip
    return _distinct(happened, descending=True), _distinct(happened, descending=False)


def _distinct(cases: Sequence[OnsetCase], *, descending: bool) -> list[OnsetCase]:
    ranked = sorted(cases, key=lambda case: case.published, reverse=descending)
    first: dict[tuple[str, str], OnsetCase] = {}
    for case in ranked:
        first.setdefault((case.stream, case.code), case)
    return list(first.values())[:SHOWN]
