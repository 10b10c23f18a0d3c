"""The judge of texts: everybody who says anything is scored."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.wording import day_text
from gdelphi.judge.past_days import oracle_days
from gdelphi.judge.texts import FORMS, TextJudge
from gdelphi.text.train import TextTrained
from helpers.forecast_world import predictor as _predictor
from helpers.measured_world import day_at
from helpers.text_world import settings, trained

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["settings", "trained"]
predictor = _predictor


class Oracle:
    """Knows the shares of a past day, and says them."""

    name = "oracle"

    def __init__(self, predictor: Predictor, day: int) -> None:
        self._predictor, self._day = predictor, day

    def forecast(self, history, origin, horizon=1):  # type: ignore[no-untyped-def]
        said = self._predictor.publisher("root").forecast(history, origin, horizon)
        shares = history.shares[:, self._day]
        return [
            replace(one, share_samples=shares[place][None], share_weights=np.ones(1))
            for place, one in enumerate(said)
        ]


def test_everybody_who_says_anything_is_scored(
    predictor: Predictor, trained: TextTrained, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(predictor.folder, tmp_path / "model"))
    both = Predictor(predictor.settings, model, number=6, text=trained.folder)
    both.calibrate("root")
    scores = TextJudge(both, Oracle(both, 60), texts=3).day(day_at(72))
    named = {score.forecaster: score for score in scores if score.stream == both.streams[0]}
    assert set(named) == {
        "random days", "yesterday", "usual day", "futures", "brief", "text", "text as written",
        "text brief", "oracle days",
    }  # fmt: skip
    for score in named.values():
        assert set(score.rouge) == set(FORMS)
        assert all(0 <= value <= 1 for rouge in score.rouge.values() for value in rouge)
    for name in ("text", "futures", "random days"):
        assert named[name].energy > 0
    assert math.isnan(named["brief"].energy)


def test_somebody_who_repeats_the_day_that_comes_is_right(predictor: Predictor) -> None:
    """The oracle's nearest past day is a repeated day: its own text."""
    judge = TextJudge(predictor, texts=3)
    came = day_text(predictor.pack, 60, 0)
    shares = predictor.history("root").shares[0, 60][None]
    ensemble = judge._days(0, oracle_days(predictor.pack, 0, 70, shares))
    assert ensemble.texts[0].phrases == came.phrases and len(ensemble.days) == 1
