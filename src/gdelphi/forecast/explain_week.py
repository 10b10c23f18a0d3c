"""Explaining a number of the week: day 2 to 7 after the origin, or within the seven days.

    published <- what the regression of that horizon was shown <- network <- possible weeks that
      have the event <- the past days that those were drawn from <- rows of the store

Tomorrow is explained by `explain.py`: what is published of it comes from other members. The week
speaks of roots only.
"""

from datetime import date, timedelta

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.types import AHEAD, TARGETS, WITHIN, BoolArray
from gdelphi.forecast.calibrate import ensure_calibrated, reconstructor
from gdelphi.forecast.explain import (
    DAYS_SHOWN,
    check_event,
    known_or_none,
    level_of_event,
    reports_on,
)
from gdelphi.forecast.explanation import (
    DrawnDay,
    ExpectedRows,
    MemberContribution,
    WeekExplanation,
    WeekTargetExplained,
)
from gdelphi.forecast.origin import ForecastOrigin, known_stream
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.week import WeekPrediction
from gdelphi.forecast.week_futures import StreamWeeks
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.phrases import lineage
from gdelphi.stack.linear import expit
from gdelphi.stack.week import WeekStack
from gdelphi.stack.week_parts import line_parts
from gdelphi.store.connection import Store

NETWORK = "network"
OTHER_DAYS = "fitted on other days"
SLIGHT = 1e-6


def explain_week(
    predictor: Predictor,
    stream: str,
    code: str,
    at: ForecastOrigin,
    horizon: int,
    *,
    on_step: OnStep = silent,
) -> WeekExplanation:
    """What stands behind what is published of a root on a day from 2 on, or within the week
    (horizon 0)."""
    stream = known_stream(predictor, stream)
    if level_of_event(code) != "root":
        root = lineage(code).root
        raise ForecastError(
            f"of days beyond tomorrow only roots are forecast: ask for {root}, which {code} "
            "belongs to, or leave out --horizon"
        )
    check_event(code, "root")
    if predictor.week_stack is None:
        raise ForecastError(
            f"the model in {predictor.folder} speaks of tomorrow only: leave out --horizon"
        )
    ensure_calibrated(predictor, on_step)
    on_step(f"forecasting the week from {at.origin + timedelta(days=1)}")
    prediction = predictor.predict(at.origin, [stream], partial=at.partial, week=True)[0]
    if prediction.week is None:
        raise ForecastError(f"nothing is said of the week after {at.origin}")
    week, place = prediction.week, prediction.week.published.codes.index(code)
    drawn, days = past_days(week.weeks, place, horizon)
    weights = week.weeks.reweighted.weights
    has = having(week.weeks, place, horizon)
    with Store(predictor.settings).reading() as connection:
        reports = reports_on(connection, days, stream, "root", code)
    likely = reconstructor(predictor, at.origin).arguments(stream, code, at.origin, level="root")
    about = week.days if horizon == WITHIN else [week.days[horizon - 1]]
    return WeekExplanation(
        stream=stream,
        name=stream_name(stream),
        origin=at.origin,
        horizon=horizon,
        days=tuple(about),
        partial=at.partial,
        code=code,
        label=event_codes()[code].label,
        targets=tuple(
            _target(predictor, predictor.week_stack, week, place, target, horizon)
            for target in TARGETS
        ),
        rows=tuple(
            ExpectedRows(
                day,
                float(week.published.rows[number, place]),
                known_or_none(week.usual.rows[number, place]),
            )
            for number, day in enumerate(week.days)
            if day in about
        ),
        onset=bool(week.onset[place]),
        possible=len(has),
        having=int(has.sum()),
        having_weight=float(weights[has].sum()),
        drawn=tuple(drawn),
        reports=tuple(reports),
        arguments={"actor1": likely.actor1, "actor2": likely.actor2, "region": likely.region},
    )


def _target(
    predictor: Predictor,
    stack: WeekStack,
    week: WeekPrediction,
    place: int,
    target: str,
    horizon: int,
) -> WeekTargetExplained:
    number = TARGETS.index(target)
    behind = AHEAD if horizon == WITHIN else horizon - 1
    history = predictor.known_at("root", week.origin)
    cell = predictor.streams.index(week.stream), place
    # What the regression says, what is kept of days of fitting, and what the network makes of it.
    parts = line_parts(stack, history, week.origin, cell, target, horizon)
    said = sum(part.adds for part in parts)
    kept = float(stack.answer(history, week.origin).logits[(number, behind, *cell)])
    blended = float(predictor.direct_week(week.origin)[(number, behind, *cell)])
    contributions = [MemberContribution(*part) for part in parts]
    if abs(kept - said) > SLIGHT:
        contributions.append(MemberContribution(OTHER_DAYS, None, kept - said))
    contributions.append(MemberContribution(NETWORK, None, blended - kept))

    def probability(forecaster: str) -> float | None:
        one = week.forecasts[forecaster]
        days = one.within[number] if horizon == WITHIN else one.daily[number, behind]
        return known_or_none(days[place])

    published = probability("published")
    return WeekTargetExplained(
        target=target,
        published=published,
        stack=probability("stack"),
        simple=probability("simple stack"),
        usual=probability("usual"),
        parts=tuple(contributions) if published is not None else (),
        logit=None if published is None else blended,
        moved=published is not None and abs(published - float(expit(np.array(blended)))) > SLIGHT,
    )


# --- possible weeks -------------------------------------------------------------------------------


def having(weeks: StreamWeeks, place: int, horizon: int) -> BoolArray:
    """Which possible weeks have the root at a place, on a day or on any, [K]."""
    if horizon == WITHIN:
        return weeks.within[:, place]
    has: BoolArray = weeks.happens[:, horizon - 1, place]
    return has


def past_days(
    weeks: StreamWeeks, place: int, horizon: int
) -> tuple[list[DrawnDay], dict[date, float]]:
    """The past days (of the week: the first days of the past weeks) that possible weeks have a root
    from, the heaviest first; and the heaviest past days on which it came, with their weights."""
    drawn: dict[date, list[float]] = {}
    came: dict[date, float] = {}
    for number in np.flatnonzero(having(weeks, place, horizon)):
        lent = bool(weeks.lent[number, place])
        start = weeks.donors[number] if lent else weeks.starts[number]
        weight = float(weeks.reweighted.weights[number])
        ahead = np.flatnonzero(weeks.happens[number, :, place])
        if horizon != WITHIN:
            ahead = np.array([horizon - 1])
        on = [start + timedelta(days=int(day)) for day in ahead]
        drawn.setdefault(start if horizon == WITHIN else on[0], []).append(weight)
        for day in on:
            came[day] = came.get(day, 0.0) + weight
    days = [DrawnDay(day, len(masses), sum(masses)) for day, masses in drawn.items()]
    heaviest = sorted(came, key=lambda day: (-came[day], day))[:DAYS_SHOWN]
    return (
        sorted(days, key=lambda day: (-day.weight, day.day)),
        {day: came[day] for day in heaviest},
    )
