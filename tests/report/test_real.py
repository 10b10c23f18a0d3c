"""A report from a forecast that a model has made."""

from pathlib import Path

import pytest

from gdelphi.common.settings import Settings
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.score import score_forecasts
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import DAYS, day_at
from helpers.report_checks import check, made

__all__ = ["one_thread", "predictor", "settings"]


@pytest.mark.usefixtures("one_thread")
def test_a_real_forecast_becomes_a_report_and_is_scored(
    settings: Settings, predictor: Predictor, tmp_path: Path
) -> None:
    folder = tmp_path / "forecasts"
    for number in (72, 73):
        request = ForecastRequest(predictor.folder, origin=day_at(number), futures=20, out=folder)
        issued = forecast(settings, request).forecast
    score_forecasts(settings, folder, as_of=day_at(DAYS))
    written = made(settings, folder, model=predictor.folder, as_of=day_at(74))
    content = check(written.folder)
    report = written.report
    assert report.provenance.forecast == issued.manifest.id
    assert report.provenance.trained_until is not None
    assert report.provenance.model == issued.manifest.recipe.model
    table = issued.table("probabilities").to_pylist()
    published = {
        (row["stream"], row["level"], row["code"], row["target"]): row["published"] for row in table
    }
    for country in report.countries:
        assert country.fan is not None and len(country.fan.futures) == 20
        assert country.brief and country.events and len(country.shares) == 20
        assert country.fan.landmarks
        for each in country.probabilities:
            value = published[country.stream, each.level, each.code, each.target]
            assert each.published == pytest.approx(value, abs=1e-5)
            assert each.yesterday is None  # this model says nothing of the day after tomorrow
            if each.level == "root":
                assert set(each.members) >= {"profiles", "direct", "climatology"}
    assert len(report.changes) == 10
    assert {change.against for change in report.changes} == {"usual"}
    assert content["record"]["source"] == "none"
    assert "Only 2 days of stored forecasts" not in report.record.note  # day 74 lies ahead
