"""The published week: what is said of the seven days after an origin, and what it rests on.

    tomorrow, as it is published          } made to agree   -> daily, within
    days 2 to 7 and the week, by stack    }                 -> a hundred possible weeks
        and network

*Usual* is how often it came true in the last 52 weeks up to the origin, each judged as the
forecast will be; so a surge, which exceeds what nine of ten days have, is as rare there as it is.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import (
    AHEAD,
    TARGETS,
    BoolArray,
    FloatArray,
    Forecast,
    History,
    WeekForecast,
)
from gdelphi.forecast.coherent_week import coherent_week
from gdelphi.forecast.conflict_risk import SURGE, any_surge, conflict_past, conflict_places
from gdelphi.forecast.stored_week import FORECASTERS
from gdelphi.forecast.week_futures import StreamWeeks, draw_weeks
from gdelphi.measures.targets import pooled_rate, surge_threshold
from gdelphi.measures.week_targets import WeekOutcomes, onset_cells, week_outcomes
from gdelphi.stack.linear import expit
from gdelphi.stack.week import WeekStack

USUAL_WEEKS: Final = 52
PUBLISHED, STACK, SIMPLE, USUAL = FORECASTERS
WEEK_SEED: Final = 31  # of the random numbers that weeks are drawn with

DirectWeek = Callable[[date], FloatArray]
"""logits by stack and network at an origin, [target, horizon, stream, root]"""


@dataclass(frozen=True, eq=False)
class WeekPrediction:
    """What is published about one stream and week."""

    stream: str
    origin: date
    published: WeekForecast
    stack: WeekForecast
    simple: WeekForecast
    usual: WeekForecast
    onset: BoolArray
    """roots without a row on the last 30 days, [root]"""
    conflict: dict[str, float]
    """that any kind of conflict surges, by the name of who says it; NaN where undefined"""
    weeks: StreamWeeks

    @property
    def days(self) -> list[date]:
        """The seven days."""
        return [self.origin + timedelta(days=ahead) for ahead in range(1, AHEAD + 1)]

    @property
    def forecasts(self) -> dict[str, WeekForecast]:
        """By the name of who says it."""
        return {
            one.forecaster: one for one in (self.published, self.stack, self.simple, self.usual)
        }


class OriginWeek(NamedTuple):
    """What is said of the week at an origin, by forecaster -> a forecast of each stream."""

    forecasts: dict[str, list[WeekForecast]]
    onset: BoolArray
    """[stream, root]"""
    conflict: dict[str, FloatArray]
    """that any kind of conflict surges within the week, by forecaster, [stream]"""


def published_week(
    stack: WeekStack,
    direct: DirectWeek,
    history: History,
    origin: date,
    tomorrow: Sequence[Forecast],
    theta: float | None = None,
) -> OriginWeek:
    """The week after an origin for all streams, with what is published of tomorrow. The history is
    that of the roots; theta joins kinds of conflict (conflict_risk.py), by past weeks if None."""
    answer = stack.answer(history, origin)
    logits = direct(origin)
    daily, within = expit(logits[:, :AHEAD]), expit(logits[:, AHEAD])
    daily[:, 0] = np.stack([[one.probability(target) for one in tomorrow] for target in TARGETS])
    daily, within = coherent_week(daily, within)
    rows = np.maximum(answer.rows, daily[0])  # what occurs has a row

    def forecasts(
        name: str, days: FloatArray, week: FloatArray, expected: FloatArray, escalation: FloatArray
    ) -> list[WeekForecast]:
        return [
            WeekForecast(
                name, stream, origin, history.codes, days[:, :, number], week[:, number],
                expected[:, number], float(escalation[number]),
            )
            for number, stream in enumerate(history.streams)
        ]  # fmt: skip

    came = past_weeks(history, origin)
    said = {
        PUBLISHED: forecasts(PUBLISHED, daily, within, rows, answer.escalation),
        USUAL: forecasts(USUAL, *usual_week(came)),
    }
    for name, of, escalation in (
        (STACK, answer.logits, answer.escalation),
        (SIMPLE, answer.simple, answer.simple_escalation),
    ):
        chances = expit(of)
        said[name] = forecasts(name, chances[:, :AHEAD], chances[:, AHEAD], answer.rows, escalation)
    return OriginWeek(said, onset_cells(history, origin), _conflict(history, came, said, theta))


def _conflict(
    history: History,
    came: Sequence[WeekOutcomes],
    said: dict[str, list[WeekForecast]],
    theta: float | None,
) -> dict[str, FloatArray]:
    """That any kind of conflict surges within the week, by forecaster (conflict_risk.py)."""
    past = conflict_past(history, np.stack([each.within for each in came]))
    places = conflict_places(history.codes)
    joining = past.theta if theta is None else theta
    joined = {
        name: any_surge(np.stack([one.within[SURGE, places] for one in of_streams]), joining)
        for name, of_streams in said.items()
    }
    return {**joined, USUAL: past.usual}


def past_weeks(history: History, origin: date) -> list[WeekOutcomes]:
    """What came of the last 52 weeks up to an origin."""
    origins = [origin - timedelta(days=AHEAD * number) for number in range(1, USUAL_WEEKS + 1)]
    came = [week_outcomes(history, at) for at in origins if at >= history.days[0]]
    # Of days to come nothing is known: where there is no past week, all is undefined.
    return came or [week_outcomes(history, history.days[-1])]


def usual_week(
    came: Sequence[WeekOutcomes],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """How often the targets came true in past weeks: daily [target, day, stream, root], within
    [target, stream, root], rows [day, stream, root], escalations [stream]; NaN where undefined."""
    daily = _rate(np.concatenate([np.moveaxis(each.daily, 1, 0) for each in came]))
    rows = np.concatenate([each.rows for each in came])
    known = (~np.isnan(rows)).sum(axis=0)
    mean_rows = np.where(known > 0, np.nansum(rows, axis=0) / np.maximum(known, 1), np.nan)
    return (
        np.repeat(daily[:, None], AHEAD, axis=1),
        _rate(np.stack([each.within for each in came])),
        np.repeat(mean_rows[None], AHEAD, axis=0),
        _rate(np.stack([each.escalation for each in came])),
    )


def _rate(outcomes: FloatArray) -> FloatArray:
    """How often, over the first axis, with half a case of either kind; NaN if never defined."""
    known = (~np.isnan(outcomes)).sum(axis=0)
    return np.where(known > 0, pooled_rate(np.nansum(outcomes, axis=0), known), np.nan)


def week_prediction(
    week: OriginWeek,
    place: int,
    history: History,
    prior: FloatArray,
    *,
    number: int,
    seed: int,
) -> WeekPrediction:
    """The same for the stream at a place, with its possible weeks; `prior` as in `draw_weeks`, and
    the history ends with the origin."""
    published, stack, simple, usual = (week.forecasts[name][place] for name in FORECASTERS)
    key = [seed, zlib.crc32(published.stream.encode()), published.origin.toordinal(), WEEK_SEED]
    weeks = draw_weeks(
        history, place, prior, published.daily[0], published.within,
        surge_threshold(history, published.origin)[place],
        number=number, random=np.random.default_rng(key),
    )  # fmt: skip
    return WeekPrediction(
        published.stream,
        published.origin,
        published,
        stack,
        simple,
        usual,
        week.onset[place],
        {name: float(of_streams[place]) for name, of_streams in week.conflict.items()},
        weeks,
    )
