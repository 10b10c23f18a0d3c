"""Explaining a number of the week: its parts add up, and possible weeks are counted."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdelphi.app.commands.explain import show_week
from gdelphi.app.options import parse_horizon
from gdelphi.common.errors import ForecastError
from gdelphi.common.types import AHEAD, TARGETS, WeekForecast
from gdelphi.forecast import explain_week as explaining
from gdelphi.forecast.explain_week import NETWORK, OTHER_DAYS, explain_week, past_days
from gdelphi.forecast.future_weights import reweight
from gdelphi.forecast.origin import ForecastOrigin
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.stored_week import FORECASTERS
from gdelphi.forecast.week import WeekPrediction
from gdelphi.forecast.week_futures import StreamWeeks
from gdelphi.measures.profiles import standard_events
from gdelphi.stack.linear import expit
from gdelphi.stack.week_parts import LinePart
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["one_thread", "predictor", "settings"]

ROOTS = standard_events("root")
AT = ForecastOrigin(day_at(77), partial=False)
PLACE = ROOTS.index("04")
PARTS = [LinePart("stack, tomorrow", 0.3, -0.75), LinePart("intercept", None, 0.25)]


def possible_weeks() -> StreamWeeks:
    """Four: the root at PLACE on day 2 of the first, on days 2 and 5 of the second, lent."""
    happens = np.zeros((4, AHEAD, len(ROOTS)), dtype=np.bool_)
    happens[0, 1, PLACE] = happens[1, 1, PLACE] = happens[1, 4, PLACE] = True
    lent = np.zeros((4, len(ROOTS)), dtype=np.bool_)
    lent[1, PLACE] = True
    weights = reweight(happens.any(axis=1), np.full(len(ROOTS), np.nan), np.full(4, 0.25))
    starts = tuple(day_at(10 + number) for number in range(4))
    return StreamWeeks(starts, (day_at(40),) * 4, lent, happens, weights)


def week_forecast(name: str, stream: str, logit: float) -> WeekForecast:
    chance = float(expit(np.array(logit)))
    shape = (len(TARGETS), AHEAD, len(ROOTS))
    daily = np.full(shape, chance)
    daily[2] = np.nan
    return WeekForecast(
        name, stream, AT.origin, ROOTS, daily, daily[:, 0], np.full(shape[1:], 2.0), 0.3
    )


@pytest.fixture
def of_week(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> Predictor:
    """A predictor that speaks of the week: its stack says -0.5, and the network adds 0.2."""
    stream = predictor.streams[0]
    said = [week_forecast(name, stream, -0.3) for name in FORECASTERS]
    onset = np.zeros(len(ROOTS), dtype=np.bool_)
    week = WeekPrediction(stream, AT.origin, *said, onset, {}, possible_weeks())
    shape = (len(TARGETS), AHEAD + 1, len(predictor.streams), len(ROOTS))

    def answer(*_: Any) -> Any:
        return SimpleNamespace(logits=np.full(shape, -0.5))

    monkeypatch.setattr(predictor, "week_stack", SimpleNamespace(answer=answer))
    monkeypatch.setattr(predictor, "direct_week", lambda _: np.full(shape, -0.3))
    monkeypatch.setattr(predictor, "predict", lambda *_, **__: [SimpleNamespace(week=week)])
    monkeypatch.setattr(explaining, "line_parts", lambda *_: PARTS)
    return predictor


@pytest.mark.parametrize("horizon", [0, 2, 7])
def test_parts_and_the_network_add_up_to_what_is_published(
    of_week: Predictor, horizon: int
) -> None:
    explanation = explain_week(of_week, of_week.streams[0], "04", AT, horizon)
    occurs, headline, surge = explanation.targets
    for target in (occurs, headline):
        added = sum(part.adds or 0.0 for part in target.parts)
        assert target.logit == pytest.approx(added)
        assert target.published == pytest.approx(float(expit(np.array(added))))
        assert [part.name for part in target.parts] == ["stack, tomorrow", "intercept", NETWORK]
        assert target.parts[-1].adds == pytest.approx(0.2)
        assert not target.moved
    assert (surge.published, surge.logit, surge.parts) == (None, None, ())
    assert len(explanation.rows) == (1 if horizon else 7)


def test_what_was_fitted_on_other_days_and_moved_is_told(
    of_week: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (len(TARGETS), AHEAD + 1, len(of_week.streams), len(ROOTS))
    monkeypatch.setattr(explaining, "line_parts", lambda *_: PARTS[:1])
    monkeypatch.setattr(of_week, "direct_week", lambda _: np.full(shape, 1.0))
    target = explain_week(of_week, of_week.streams[0], "04", AT, 3).targets[0]
    adds = {part.name: part.adds for part in target.parts}
    assert adds[OTHER_DAYS] == pytest.approx(0.25)
    assert adds[NETWORK] == pytest.approx(1.5)
    assert target.logit == pytest.approx(1.0)
    assert target.moved


def test_possible_weeks_are_counted_and_traced(of_week: Predictor) -> None:
    stream = of_week.streams[0]
    within = explain_week(of_week, stream, "04", AT, 0)
    assert (within.possible, within.having) == (4, 2)
    assert within.having_weight == pytest.approx(0.5)
    assert {drawn.day for drawn in within.drawn} == {day_at(10), day_at(40)}
    on_day = explain_week(of_week, stream, "04", AT, 2)
    assert {drawn.day for drawn in on_day.drawn} == {day_at(11), day_at(41)}
    assert on_day.days == (AT.origin + timedelta(days=2),)
    assert explain_week(of_week, stream, "04", AT, 5).having == 1
    assert explain_week(of_week, stream, "19", AT, 0).drawn == ()
    days = {day_at(11), day_at(41), day_at(44)}
    assert set(past_days(possible_weeks(), PLACE, 0)[1]) == days
    assert {row.day for row in within.reports} <= days


def test_it_is_printed(of_week: Predictor, capsys: pytest.CaptureFixture[str]) -> None:
    for horizon in (0, 2):
        explanation = explain_week(of_week, of_week.streams[0], "04", AT, horizon)
        show_week(explanation, json=False)
    text = capsys.readouterr().out
    for words in (
        "within the week from", "2 of 4 possible weeks have it, 50% of the weight", "undefined",
        "network", "the week", "past days",
    ):  # fmt: skip
        assert words in text
    show_week(explanation, json=True)
    assert '"horizon": 2' in capsys.readouterr().out


def test_a_model_of_tomorrow_and_finer_codes_are_refused(
    predictor: Predictor, of_week: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = predictor.streams[0]
    with pytest.raises(ForecastError, match=r"only roots .* ask for 04"):
        explain_week(of_week, stream, "042", AT, 0)
    monkeypatch.setattr(predictor, "week_stack", None)
    with pytest.raises(ForecastError, match="speaks of tomorrow only"):
        explain_week(predictor, stream, "04", AT, 0)


@pytest.mark.parametrize(("text", "horizon"), [("week", 0), ("1", 1), ("7", 7)])
def test_horizons_are_days_or_the_week(text: str, horizon: int) -> None:
    assert parse_horizon(text) == horizon


@pytest.mark.parametrize("text", ["0", "8", "-1", "month", "", "²"])
def test_other_horizons_are_refused(text: str) -> None:
    with pytest.raises(Exception, match="nor week"):
        parse_horizon(text)
