"""ROUGE of whole texts by its published form and by recall; the judge of texts."""

import math
from pathlib import Path

import numpy as np
import pytest

from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.wording import text_of_day
from gdelphi.judge.texts import FORMS, TextJudge
from gdelphi.scores.rouge import (
    UNDEFINED,
    Rouge,
    WeightedText,
)
from gdelphi.scores.rouge_texts import (
    joined,
    mean_rouge,
    published_rouge,
    recall_rouge,
)
from gdelphi.text.train import TextTrained
from helpers.forecast_world import desk as _desk
from helpers.measured_world import day_at
from helpers.text_world import settings, trained

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["settings", "trained"]
desk = _desk


def text(*phrases: str) -> WeightedText:
    weights = np.arange(len(phrases), 0, -1.0)
    return WeightedText(phrases, weights / weights.sum() if len(phrases) else weights)


def test_phrases_are_joined_by_weight() -> None:
    assert joined(WeightedText(["a b", "c d"], np.array([0.2, 0.8]))) == "c d. a b"


def test_published_rouge_is_the_librarys() -> None:
    found = published_rouge(text("police threaten Kenya"), text("police threatens Uganda"))
    assert found == pytest.approx((2 / 3, 1 / 2, 2 / 3))  # the stemmer makes one verb of two
    assert published_rouge(text("x y"), text("x y")) == pytest.approx((1, 1, 1))


def test_recall_counts_what_of_the_reference_is_there() -> None:
    came = text("a b c", "a b d")
    found = recall_rouge(text("a b c e f"), came)
    assert found == pytest.approx((3 / 6, 2 / 5, 3 / 6))
    assert recall_rouge(text("a b", "c a b d e e e"), came).one == 1  # length costs nothing
    assert recall_rouge(text(), came) == (0, 0, 0)


def test_nothing_that_came_has_no_score() -> None:
    assert math.isnan(published_rouge(text("a"), text()).one)
    assert math.isnan(recall_rouge(text("a"), text()).one)
    assert math.isnan(mean_rouge([UNDEFINED]).one)
    assert mean_rouge([UNDEFINED, Rouge(1, 0, 0), Rouge(0, 0, 1)]) == Rouge(0.5, 0, 0.5)


class Oracle:
    """Knows the shares of a past day, and says them."""

    name = "oracle"

    def __init__(self, desk: Predictor, day: int) -> None:
        self._desk, self._day = desk, day

    def forecast(self, history, origin, horizon=1):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        said = self._desk.publisher("root").forecast(history, origin, horizon)
        shares = history.shares[:, self._day]
        return [
            replace(one, share_samples=shares[place][None], share_weights=np.ones(1))
            for place, one in enumerate(said)
        ]


def test_everybody_who_says_anything_is_scored(
    desk: Predictor, trained: TextTrained, tmp_path: Path
) -> None:
    import shutil

    model = Path(shutil.copytree(desk.folder, tmp_path / "model"))
    both = Predictor(desk.settings, model, number=6, text=trained.folder)
    both.calibrate("root")
    scores = TextJudge(both, Oracle(both, 60), texts=3).day(day_at(72))
    named = {score.speaker: score for score in scores if score.stream == both.streams[0]}
    assert set(named) == {
        "random days", "yesterday", "usual day", "futures", "brief", "text", "text brief",
        "oracle days",
    }  # fmt: skip
    for score in named.values():
        assert set(score.rouge) == set(FORMS)
        assert all(0 <= value <= 1 for rouge in score.rouge.values() for value in rouge)
    for name in ("text", "futures", "random days"):
        assert named[name].energy > 0
    assert math.isnan(named["brief"].energy)


def test_somebody_who_repeats_the_day_that_comes_is_right(desk: Predictor) -> None:
    """The oracle's nearest past day is a repeated day: its own text."""
    judge = TextJudge(desk, texts=3)
    came = text_of_day(desk.pack, 60, 0)
    speaker = judge._dreamt(0, 70, desk.history("root").shares[0, 60][None])
    assert speaker.texts[0].phrases == came.phrases and len(speaker.days) == 1
