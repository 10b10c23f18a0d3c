"""Explaining a number: its parts add up, and every step back leads to days and rows that exist."""

import json
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gdelphi.app.cli import main
from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS, TARGETS, Level
from gdelphi.forecast.explain import explain, level_of_event
from gdelphi.forecast.explanation import Explanation
from gdelphi.forecast.origin import ForecastOrigin
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.publisher import Publisher
from gdelphi.measures.phrases import lineage
from gdelphi.measures.targets import outcomes
from gdelphi.stack.linear import INTERCEPT, expit
from gdelphi.store.connection import Store
from helpers.forecast_world import FUTURES, one_thread, predictor, settings
from helpers.measured_world import day_at
from helpers.training_world import variables

__all__ = ["one_thread", "predictor", "settings"]

AT = ForecastOrigin(day_at(77), partial=False)


@cache
def explained(predictor: Predictor, code: str) -> Explanation:
    return explain(predictor, predictor.streams[0], code, AT)


@pytest.fixture(scope="module")
def prediction(predictor: Predictor) -> Prediction:
    return predictor.predict(AT.origin, [predictor.streams[0]])[0]


@pytest.fixture(scope="module")
def common(predictor: Predictor) -> str:
    """A full code that comes often."""
    history = predictor.known_at("full", AT.origin)
    return history.codes[int(history.counts[0].sum(axis=0).argmax())]


CODES = ("04", "14", "19", "042", "190")


@pytest.mark.parametrize("code", CODES)
def test_what_is_added_to_the_logit_adds_up_to_what_is_published(
    predictor: Predictor, code: str
) -> None:
    for target in explained(predictor, code).targets:
        if target.published is None:
            assert target.logit is None
            continue
        assert target.logit is not None
        added = sum(part.adds for part in target.parts if part.adds is not None)
        assert target.logit == pytest.approx(added)
        whole = float(expit(np.array(target.logit)))
        assert (target.published == pytest.approx(whole, abs=1e-9)) != target.moved


@pytest.mark.parametrize("which", ["combined", "stack"])
def test_whichever_is_published_is_the_one_that_is_explained(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    given = predictor.publisher

    def chosen(level: Level) -> Publisher:
        publisher = given(level)
        choices = {
            target: replace(choice, published=which) for target, choice in publisher.choices.items()
        }
        return replace(publisher, choices=choices)

    monkeypatch.setattr(predictor, "publisher", chosen)
    explanation = explain(predictor, predictor.streams[1], "04", AT)
    for target in explanation.targets[:2]:
        assert target.which == which
        assert target.logit is not None
        assert target.published == pytest.approx(float(expit(np.array(target.logit))), abs=1e-9)
        taking = {part.name for part in target.parts if part.adds is not None}
        assert ("direct" in taking) == (which == "combined")
        assert "direct" in {part.name for part in target.parts}
        if which == "stack":
            assert target.published == pytest.approx(target.stack)


def test_members_come_by_the_size_of_what_they_add(
    predictor: Predictor, prediction: Prediction
) -> None:
    for target in explained(predictor, "04").targets:
        sizes = [abs(part.adds) for part in target.parts if part.probability and part.adds]
        assert sizes == sorted(sizes, reverse=True)
        names = [part.name for part in target.parts]
        assert names[-3:] == ["day of the week", "volume of news", INTERCEPT]
        assert len(names) == len(set(names))
        assert set(names[:-3]) == set(prediction.members["root"]) - {"stack"}


def test_probabilities_are_those_of_the_prediction(
    predictor: Predictor, prediction: Prediction
) -> None:
    explanation = explained(predictor, "04")
    place = prediction.levels.root.codes.index("04")
    for target in explanation.targets:
        own = prediction.levels.root.probability(target.target)[place]
        assert np.isnan(own) if target.published is None else target.published == own
        for part in target.parts:
            if part.probability is not None:
                member = prediction.members["root"][part.name]
                assert part.probability == member.probability(target.target)[place]


def test_how_often_it_came_is_counted_on_known_days(predictor: Predictor) -> None:
    history = predictor.history("root")
    place = history.codes.index("04")
    for number, target in enumerate(TARGETS):
        values = [outcomes(history, day_at(76 - ago))[target][0, place] for ago in range(30)]
        known = [value for value in values if not np.isnan(value)]
        rate = explained(predictor, "04").targets[number].came[0]
        assert rate == (pytest.approx(np.mean(known)) if known else None)


def test_futures_that_have_it_are_counted_and_weighed(
    predictor: Predictor, prediction: Prediction
) -> None:
    explanation = explained(predictor, "04")
    place = prediction.levels.root.codes.index("04")
    has = prediction.futures.happens[:, place]
    assert (explanation.futures, explanation.having) == (FUTURES, has.sum())
    assert explanation.having_weight == pytest.approx(
        prediction.futures.reweighted.probabilities[place]
    )
    assert sum(day.futures for day in explanation.days) == explanation.having
    assert sum(day.weight for day in explanation.days) == pytest.approx(explanation.having_weight)
    assert all(day.day <= AT.origin for day in explanation.days)


def test_atoms_come_from_those_futures_and_the_nearest_have_the_code(
    predictor: Predictor, common: str
) -> None:
    for code in (lineage(common).root, common):
        atoms = explained(predictor, code).atoms
        assert atoms
        assert [round(atom.cosine, 2) for atom in atoms] == sorted(
            (round(atom.cosine, 2) for atom in atoms), reverse=True
        )
        assert code in lineage(atoms[0].code)


def test_reports_carry_the_event_on_the_drawn_days(
    predictor: Predictor, settings: Settings
) -> None:
    explanation = explained(predictor, "04")
    days = {drawn.day for drawn in explanation.days}
    assert explanation.reports
    sources = [row.source for row in explanation.reports if row.source]
    assert len(sources) == len(set(sources))
    with Store(settings).reading() as connection:
        for row in explanation.reports:
            assert row.day in days
            there = connection.rows(
                "SELECT NewsDay, EventRootCode, ActionGeo_CountryCode, coalesce(NumMentions, 1) "
                "FROM events WHERE GLOBALEVENTID = ?",
                [row.event_id],
            )
            assert there == [(row.day, "04", predictor.streams[0], row.mentions)]


def test_an_event_that_never_came_has_no_futures_and_no_reports(predictor: Predictor) -> None:
    history = predictor.known_at("full", AT.origin)
    never = next(
        code for number, code in enumerate(history.codes)
        if not history.counts[0, :, number].any() and len(code) == 4
    )  # fmt: skip
    explanation = explained(predictor, never)
    assert (explanation.having, explanation.having_weight) == (0, 0)
    assert (explanation.days, explanation.atoms, explanation.reports) == ((), (), ())


def test_who_and_whom_are_told(predictor: Predictor) -> None:
    likely = explained(predictor, "04").arguments
    assert set(likely) == {"actor1", "actor2", "region"}
    assert 0 < sum(candidate.probability for candidate in likely["actor1"]) <= 1 + 1e-9


@pytest.mark.parametrize(("code", "level"), [("14", "root"), ("145", "base"), ("1451", "full")])
def test_the_level_goes_by_the_code(code: str, level: str) -> None:
    assert level_of_event(code) == level


def test_a_level_may_be_named(predictor: Predictor) -> None:
    assert explain(predictor, predictor.streams[0], "042", AT, level="full").level == "full"
    with pytest.raises(ForecastError, match="no root code 042"):
        explain(predictor, predictor.streams[0], "042", AT, level="root")


def test_unknown_events_and_streams_are_refused_with_the_nearest(predictor: Predictor) -> None:
    with pytest.raises(ForecastError, match=r"no event 1459.*145 \("):
        explain(predictor, predictor.streams[0], "1459", AT)
    with pytest.raises(ForecastError, match=r"does not know Nauru \(NR\)"):
        explain(predictor, "NRU", "14", AT)


def test_the_command_tells_the_whole_chain(
    predictor: Predictor,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables(settings).items():
        monkeypatch.setenv(name, value)
    words = [
        "gdelphi", "explain", "--model", str(predictor.folder), "--stream", predictor.streams[0],
        "--event", "04", "--origin", str(AT.origin), "--futures", str(FUTURES),
    ]  # fmt: skip
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", [*words, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    output = capsys.readouterr().out
    text, _, plain = output.partition("\n{")
    for part in ("published", "adds", "sum", f"of {FUTURES} futures", "reports of it", "to whom"):
        assert part in text
    content = json.loads("{" + plain)
    assert (content["code"], content["level"]) == ("04", LEVELS[0])
    assert content["arguments"]["actor1"][0]["words"]
