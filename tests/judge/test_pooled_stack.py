"""The whole way with a pooled stack and its cell network: train, calibrate, forecast, judge."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.app.cli import main
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS
from gdelphi.forecast.archive import read_manifest
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.predictor import OriginForecasts, Predictor
from gdelphi.forecast.publisher import WITHOUT_NETWORK, make_coherent
from gdelphi.forecast.week import published_week
from gdelphi.forecast.week_tables import week_tables
from gdelphi.judge.backtest import BacktestRequest, backtest, summarise_folder
from gdelphi.judge.compare import garble
from gdelphi.judge.score import score_forecasts
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.model.cell_fit import CELL_FOLDER, CellFit
from gdelphi.model.direct_reading import DirectReading
from gdelphi.model.train import train
from gdelphi.stack.files import FOLDER
from gdelphi.stack.fitted import STACK, CountForecasters
from gdelphi.stack.linear import SIMPLE, expit
from gdelphi.stack.week import WeekStack
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config
from helpers.archives import settings_for
from helpers.backtests import OPTIONS
from helpers.measured_world import changed, represent_quietly
from helpers.training_world import SEQUENCES, TRAIN

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

DAYS = 190


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A world with days enough for a pooled stack."""
    folder = tmp_path_factory.mktemp("pooled")
    given = {"days": DAYS, "streams": 2, "volume_median": 12.0, "volume_deviation": 0.5, "seed": 3}
    archive = create_world(world_config("demo", given), folder / "world").folder
    found = settings_for(
        folder / "s.duckdb",
        archive,
        embed__encoder="hashing",
        measures__folder=folder / "measures",
        sequences__variants=2,
    )
    ingest(found)
    found = changed(changed(found, "sequences", **SEQUENCES), "split", embargo_days=2)
    found = changed(found, "train", **{**TRAIN, "steps": 2, "cell_epochs": 1})
    represent_quietly(found)
    return found


@pytest.fixture(scope="module")
def model(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "pooled"
    train(settings, folder)
    Predictor(settings, folder, number=6).calibrate("root")
    return folder


def test_the_direct_reading_is_the_stack_moved_towards_the_cell_network(
    settings: Settings, model: Path
) -> None:
    cells = CellFit.load(model / FOLDER / CELL_FOLDER)
    assert len(cells.weights) == 8 * len(TARGETS)
    predictor = Predictor(settings, model, number=6)
    origin = predictor.pack.first_day + timedelta(days=DAYS - 3)
    publishers = {"root": predictor.publisher("root")}
    said = OriginForecasts(predictor, origin, publishers).answers["root"]
    assert predictor.sampler.direct is not None
    expected = expit(predictor.sampler.direct(origin))
    direct, stack = (
        np.stack([[one.probability(target) for one in said[name]] for target in TARGETS])
        for name in ("direct", STACK)
    )
    np.testing.assert_allclose(direct, expected, rtol=1e-5)
    for number, weight in enumerate(cells.weights[:3]):
        same = np.allclose(direct[number], stack[number], rtol=1e-5, equal_nan=True)
        assert same == (weight == 0)


def test_tables_tell_what_the_network_adds(
    settings: Settings, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "backtest"
    options = replace(OPTIONS, horizon=7)
    backtest(settings, BacktestRequest(model, out, options=options, processes=1))
    summary = summarise_folder(out)
    lines = summary["network"]
    assert {line["target"] for line in lines} == set(TARGETS)
    names = {line["forecaster"] for line in summary["scores"]}
    assert {SIMPLE, STACK, WITHOUT_NETWORK, "published", "direct"} <= names
    assert all(abs(line["skill"]["value"]) < 0.2 for line in lines)
    monkeypatch.setattr("sys.argv", ["gdelphi", "backtest", "--out", str(out), "--summarise"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "what the network adds" in shown
    week = summary["week"]
    assert {line["horizon"] for line in week["scores"]} == set(range(8))
    names = {line["forecaster"] for line in week["scores"]}
    assert names == {"published", STACK, SIMPLE, "usual", WITHOUT_NETWORK}
    assert "the week, skill against the simple stack" in shown and "onset" in shown
    same = {  # tomorrow of the week is what is published of tomorrow
        line["target"]: line["brier"]
        for line in summary["scores"]
        if (line["cells"], line["forecaster"]) == ("all", "published")
    }
    for line in week["scores"]:
        if (line["horizon"], line["cells"], line["forecaster"]) == (1, "all", "published"):
            assert line["brier"] == pytest.approx(same[line["target"]], rel=1e-12)


# --- the week -------------------------------------------------------------------------------------


def test_a_forecast_has_the_week_with_numbers_that_agree(
    settings: Settings, model: Path, tmp_path: Path
) -> None:
    predictor = Predictor(settings, model, number=20)
    origin = predictor.pack.first_day + timedelta(days=DAYS - 9)
    request = ForecastRequest(model, origin, out=tmp_path / "forecasts")
    stored = forecast(settings, request, predictor=predictor).forecast
    assert stored.manifest.recipe.week and stored.manifest.recipe.horizon == 1
    assert read_manifest(stored.folder) == stored.manifest
    week = stored.table("week").to_pandas()
    assert len(week) == 2 * 20 * 8 * 3
    tomorrow = stored.table("probabilities").to_pandas()
    tomorrow = tomorrow[tomorrow.level == "root"].set_index(["stream", "code", "target"])
    first = week[week.horizon == 1].set_index(["stream", "code", "target"])
    np.testing.assert_array_equal(first.published, tomorrow.published[first.index])
    wide = week.pivot_table("published", ["stream", "code", "target"], "horizon", dropna=True)
    days = wide[list(range(1, 8))]
    assert (wide[0] >= days.max(axis=1) - 1e-12).all()
    assert (wide[0] <= days.sum(axis=1) + 1e-12).all()
    rows = stored.table("week_rows").to_pandas().set_index(["stream", "code", "horizon"])
    occurs = week[(week.target == "occurs") & (week.horizon > 0)]
    occurs = occurs.set_index(["stream", "code", "horizon"])
    assert (rows.join(occurs.published).eval("rows - published") >= -1e-12).all()
    assert set(stored.table("escalations").column_names) == {
        "stream", "published", "stack", "simple stack", "usual"
    }  # fmt: skip
    assert not forecast(settings, request, predictor=predictor).made, "found"
    alone = forecast(settings, replace(request, horizon=1), predictor=predictor).forecast
    assert "week.parquet" not in alone.manifest.files and alone.manifest.id != stored.manifest.id
    np.testing.assert_array_equal(
        alone.table("probabilities")["published"], stored.table("probabilities")["published"]
    )


def test_possible_weeks_are_past_weeks_and_can_be_counted(settings: Settings, model: Path) -> None:
    predictor = Predictor(settings, model, number=60)
    origin = predictor.pack.first_day + timedelta(days=DAYS - 9)
    one = predictor.predict(origin, [predictor.streams[1]], week=True)[0].week
    assert one is not None
    weeks, history = one.weeks, predictor.pack.profiles
    assert all(start + timedelta(days=6) <= origin for start in (*weeks.starts, *weeks.donors))
    for number, (start, donor) in enumerate(zip(weeks.starts, weeks.donors, strict=True)):
        for ahead in range(7):
            own, other = (
                history.counts[1, (day - history.days[0]).days + ahead] > 0
                for day in (start, donor)
            )
            expected = np.where(weeks.lent[number], other, own)
            np.testing.assert_array_equal(weeks.happens[number, ahead], expected)
    counted = weeks.reweighted.weights @ weeks.within
    differs = weeks.within.any(axis=0) & ~weeks.within.all(axis=0)
    met = weeks.reweighted.met & differs
    assert met.sum() >= differs.sum() / 3, "what only some weeks have can be counted"
    np.testing.assert_allclose(counted[met], one.published.within[0][met], atol=5e-3)
    table = week_tables(predictor.predict(origin, week=True), predictor.pack)["week_days"]
    assert len(table) == 2 * 60 * 7
    for weights, codes in zip(table["weights"].to_pylist(), table["code"].to_pylist(), strict=True):
        assert len(weights) == len(codes)
        assert not weights or sum(weights) == pytest.approx(1, abs=1e-5)


def test_a_stored_week_is_scored_when_it_is_over(
    settings: Settings, model: Path, tmp_path: Path
) -> None:
    predictor = Predictor(settings, model, number=10)
    last = predictor.sampler.last_day
    for back in (12, 11, 3):
        origin = last - timedelta(days=back)
        forecast(settings, ForecastRequest(model, origin, out=tmp_path), predictor=predictor)
    result = score_forecasts(settings, tmp_path, as_of=last + timedelta(days=1)).weeks
    assert (len(result.scored), result.known, result.waiting) == (2, 0, 1)
    again = score_forecasts(settings, tmp_path, as_of=last + timedelta(days=1)).weeks
    assert (len(again.scored), again.known, again.waiting) == (0, 2, 1)
    lines = {(one.forecaster, one.horizon, one.target): one for one in again.standings
             if one.cells == "all"}  # fmt: skip
    origins = [last - timedelta(days=back) for back in (12, 11)]
    forecasts = [predictor.forecasts_at(origin, ["root"]) for origin in origins]
    errors = []
    for at, origin in zip(forecasts, origins, strict=True):
        assert at.week is not None
        said = np.stack([one.within[0] for one in at.week.forecasts["published"]])
        errors.append((said - week_outcomes(predictor.pack.profiles, origin).within[0]) ** 2)
    assert lines["published", 0, "occurs"].brier == pytest.approx(np.mean(errors), rel=1e-9)


def test_nothing_after_the_origin_changes_a_byte_of_the_published_week(
    settings: Settings, model: Path
) -> None:
    predictor = Predictor(settings, model, number=6)
    origin = predictor.pack.first_day + timedelta(days=DAYS - 9)
    honest = predictor.forecasts_at(origin, ["root"])
    panel = predictor.pack.count_panel
    after = slice((origin - panel.roots.days[0]).days + 1, None)
    strange = replace(panel, roots=garble(panel.roots, origin), fine=panel.fine.copy(),
                      pairs=panel.pairs.copy(), acted=panel.acted.copy())  # fmt: skip
    strange.fine[:, after], strange.pairs[after], strange.acted[:, after] = 9, 9, 9
    assert predictor.pooled_stack is not None and honest.week is not None
    counts = CountForecasters(predictor.pooled_stack.counts.fit, strange)
    assert counts.fit.week is not None
    direct = DirectReading(
        counts.stack, CellFit.load(model / FOLDER / CELL_FOLDER), strange.roots,
        WeekStack(counts, counts.fit.week),
    )  # fmt: skip
    np.testing.assert_array_equal(direct.week(origin), predictor.direct_week(origin))
    tomorrow = honest.answers["root"]["published"]
    week = published_week(
        WeekStack(counts, counts.fit.week), direct.week, strange.roots, origin,
        [make_coherent({"root": one})["root"] for one in tomorrow],
    )  # fmt: skip
    for name, forecasts in honest.week.forecasts.items():
        for one, other in zip(forecasts, week.forecasts[name], strict=True):
            for field in ("daily", "within", "rows"):
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
            np.testing.assert_array_equal(one.escalation, other.escalation)
