"""How good forecasts have been: from scored forecasts, from a backtest, or not known."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from gdelphi.common.settings import Settings
from gdelphi.common.types import Target
from gdelphi.forecast.archive import StoredForecast
from gdelphi.judge.files import scores_path, write_table
from gdelphi.judge.score import score_forecasts
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.targets import outcomes
from gdelphi.report.choose import read_forecast_folder
from gdelphi.report.content import (
    Record,
    RecordWindow,
    SkillLine,
)
from gdelphi.report.record import (
    FEWEST,
    JudgedCells,
    PastForecasts,
    bins,
    consistency_band,
    hits,
    judged_forecasts,
    misses,
    record_of,
    verdict_of,
)
from gdelphi.scores.probabilities import brier
from helpers.measured_world import changed, day_at, measured
from helpers.report_world import recipe_at, stored, write_backtest

LATER = date(2030, 1, 1)
DAY = date(2021, 3, 1)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return measured(tmp_path_factory).settings


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return measured(tmp_path_factory).pack.facts.streams[:2]


def plain(tmp_path: Path) -> Settings:
    """Settings of a store that is not looked at."""
    return Settings(store=tmp_path / "s.duckdb")


def days(number: int) -> list[date]:
    return [DAY + timedelta(days=each) for each in range(number)]


def changing(day: date, code: str, target: str) -> float:
    """1 every second day of a code."""
    del target
    return float((day.toordinal() + int(code)) % 2)


# --- from scored forecasts ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored(
    settings: Settings, streams: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of scored forecasts, which a test may copy but not change."""
    folder = tmp_path_factory.mktemp("scored")
    for number in range(62, 71):
        stored(folder, recipe_at(day_at(number), streams))
    score_forecasts(settings, folder, as_of=LATER)
    return folder


def test_stored_forecasts_are_judged_by_their_scores(
    settings: Settings, streams: tuple[str, ...], scored: Path
) -> None:
    record = record_of(settings, read_forecast_folder(scored), day_at(70))
    assert record.source == "forecasts"
    history = read_profiles(settings, "root", streams)
    # Day 66 is missing: it was never scored. Forecasts of days after the origin are not known yet.
    targets = [day_at(number) for number in range(63, 71) if number != 66]
    outcome = np.stack([outcomes(history, day - timedelta(days=1))["headline"] for day in targets])
    line = {each.target: each for each in record.windows[-1].lines}["headline"]
    assert line.published == pytest.approx(np.nanmean(brier(np.array(0.3), outcome)))
    assert line.stack == pytest.approx(np.nanmean(brier(np.array(0.5), outcome)))
    assert line.skill == pytest.approx(1 - line.published / line.stack, abs=1e-5)
    window = record.windows[-1]
    assert (window.first, window.last, window.judged) == (targets[0], targets[-1], 7)
    assert "made after their day" in record.note  # these were, from days before it alone


def test_hindsight_and_unscored_forecasts_are_not_judged(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    good = stored(tmp_path, recipe_at(day_at(60), streams))
    stored(tmp_path, recipe_at(day_at(61), streams), fitted_until=day_at(75))
    score_forecasts(settings, tmp_path, as_of=LATER)
    stored(tmp_path, recipe_at(day_at(62), streams))
    judged, chosen, _ = judged_forecasts(read_forecast_folder(tmp_path), day_at(79))
    assert chosen == [good.manifest]
    assert judged.days == (day_at(61),)
    assert judged_forecasts(read_forecast_folder(tmp_path), day_at(60))[0].days == ()


def test_streams_may_differ_from_day_to_day(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(day_at(60), streams))
    stored(tmp_path, recipe_at(day_at(61), streams[:1]))
    score_forecasts(settings, tmp_path, as_of=LATER)
    judged, *_ = judged_forecasts(read_forecast_folder(tmp_path), day_at(79))
    said = judged.targets["occurs"].published
    assert said.shape == (2, 40)
    alone = np.array([stream == streams[0] for stream, _ in judged.cells])
    assert np.isnan(said[1, ~alone]).all()
    assert said[1, alone] == pytest.approx(0.3)


# --- from a backtest, or not at all ---------------------------------------------------------------


def test_before_there_are_enough_a_backtest_is_shown_and_named(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    given = days(40)
    said = {"published": 0.5, "stack": 0.7}
    write_backtest(tmp_path / "bt", given, said, changing, first_allowed=given[10])
    stored(tmp_path, recipe_at(day_at(60), streams))
    score_forecasts(settings, tmp_path, as_of=LATER)
    with_one = changed(settings, "report", backtest=tmp_path / "bt")
    record = record_of(with_one, read_forecast_folder(tmp_path), given[-2])
    assert record.source == "backtest"
    window = record.windows[-1]  # neither days that were fitted on, nor one after the origin
    assert (window.first, window.last, window.judged) == (given[10], given[-2], 29)
    assert [line.published for line in window.lines] == pytest.approx([0.25] * 3)
    assert (record.skilful, record.verdict.startswith("In a backtest of 29 days")) == (True, True)
    assert "Only 1 day of stored forecasts" in record.note
    assert record.windows[0].judged == 29


def test_a_backtest_beside_the_store_is_found(tmp_path: Path) -> None:
    said = {"published": 0.6, "stack": 0.5}
    write_backtest(tmp_path / "backtest", days(30), said, changing, first_allowed=DAY)
    record = record_of(plain(tmp_path), read_forecast_folder(tmp_path / "none"), LATER)
    assert (record.source, record.skilful) == ("backtest", False)
    assert record.verdict.startswith("No skill over the baselines has been shown.")


def test_the_bar_is_the_simple_stack_where_there_is_one(tmp_path: Path) -> None:
    """Who is as good as a stack of much more is still better than a stack of baselines."""
    said = {"published": 0.6, "stack": 0.6, "simple stack": 0.8}
    write_backtest(tmp_path / "backtest", days(30), said, changing, first_allowed=DAY)
    record = record_of(plain(tmp_path), read_forecast_folder(tmp_path / "none"), LATER)
    assert (record.source, record.skilful) == ("backtest", True)
    assert all(line.skill > 0 for line in record.windows[-1].lines)


def test_nothing_judged_says_what_to_run(tmp_path: Path) -> None:
    record = record_of(plain(tmp_path), read_forecast_folder(tmp_path / "none"), LATER)
    assert (record.source, record.skilful, record.windows) == ("none", None, [])
    assert "`gdelphi backtest`" in record.note


@pytest.mark.parametrize("how", ["no run.json", "another level", "too few days"])
def test_a_backtest_that_cannot_be_shown_is_told(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "backtest"
    folder.mkdir()
    if how != "no run.json":
        given = days(30 if how == "another level" else FEWEST - 1)
        level = "base" if how == "another level" else "root"
        said = {"published": 0.6, "stack": 0.5}
        write_backtest(folder, given, said, changing, first_allowed=DAY, level=level)
    record = record_of(plain(tmp_path), read_forecast_folder(tmp_path / "none"), LATER)
    assert record.source == "none"
    assert str(folder) in record.note


def test_a_damaged_score_file_is_told_and_does_not_stop_the_report(
    settings: Settings, scored: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(scored, tmp_path / "copy"))
    manifest = read_forecast_folder(folder).at(day_at(66))
    assert manifest is not None
    scores_path(folder, day_at(66), manifest.id).write_bytes(b"no parquet")
    record = record_of(settings, read_forecast_folder(folder), day_at(70))
    assert record.source == "forecasts"
    assert day_at(67) not in {each.day for each in [*record.hits, *record.misses]}
    assert "cannot be read" in record.note


# --- verdicts -------------------------------------------------------------------------------------


def window(intervals: dict[Target, tuple[float, float]], judged: int = 41) -> RecordWindow:
    lines = [
        SkillLine(
            level="root", target=target, published=0.1, stack=0.1, skill=(low + high) / 2, low=low,
            high=high, cells=9,
        )
        for target, (low, high) in intervals.items()
    ]  # fmt: skip
    last = DAY + timedelta(days=judged - 1)
    return RecordWindow(days=90, first=DAY, last=last, judged=judged, lines=lines)


@pytest.mark.parametrize(
    ("intervals", "skilful", "begins"),
    [
        ({"headline": (0.012, 0.049), "occurs": (-0.1, 0.1)}, True, "Over 41 judged days"),
        ({"headline": (-0.01, 0.02), "occurs": (-0.1, 0.1)}, False, "No skill"),
        ({"headline": (-0.05, -0.02)}, False, "No skill"),
        ({"headline": (0.01, 0.02), "surge": (-0.3, -0.1)}, None, "The record is mixed"),
        ({"headline": (-0.1, 0.2), "surge": (0.1, 0.2)}, None, "The record is mixed"),
        ({"headline": (0.0, 0.0)}, False, "No skill"),  # the stack itself is published
        ({}, None, "Over 41 judged days"),
    ],
)
def test_skill_is_claimed_only_where_the_interval_shows_it(
    intervals: dict[Target, tuple[float, float]], skilful: bool | None, begins: str
) -> None:
    found, sentence = verdict_of(window(intervals), "forecasts")
    assert found is skilful
    assert sentence.startswith(begins)


def test_a_verdict_gives_number_and_interval() -> None:
    _, sentence = verdict_of(window({"headline": (0.012, 0.05)}), "forecasts")
    assert "3.1% better on headlines (1.2% to 5.0%)" in sentence


def test_few_days_prove_nothing() -> None:
    skilful, sentence = verdict_of(window({"headline": (0.1, 0.2)}, judged=13), "forecasts")
    assert skilful is None
    assert sentence.startswith("Too early to tell.")


# --- calibration ----------------------------------------------------------------------------------


def test_the_band_is_the_binomial_one_where_days_tell_nothing() -> None:
    low, high = consistency_band(0.3, 50, (np.nan, np.nan))
    assert (low, high) == pytest.approx(
        (binom.ppf(0.05, 50, 0.3) / 50, binom.ppf(0.95, 50, 0.3) / 50)
    )
    assert consistency_band(0.3, 50, (-0.25, 0.3)) == pytest.approx((0.05, 0.6))
    assert consistency_band(0.0, 50, (np.nan, np.nan)) == (0.0, 0.0)
    assert consistency_band(0.1, 50, (-0.4, 0.95)) == (0.0, 1.0)


def cells_of(said: float, outcome: np.ndarray, stack: float = 0.5) -> JudgedCells:
    full = np.full(outcome.shape, 1.0)
    return JudgedCells(said * full, stack * full, outcome)


def test_a_true_forecast_lies_in_its_band_and_a_false_one_does_not() -> None:
    random = np.random.default_rng(3)
    outcome = (random.random((60, 40)) < 0.35).astype(np.float64)
    (true,) = bins("headline", cells_of(0.35, outcome))
    assert (true.said, true.cells) == (0.35, 2400)
    assert true.low < true.came < true.high
    (false,) = bins("headline", cells_of(0.55, outcome))
    assert false.came < false.low


def test_days_that_move_together_widen_the_band() -> None:
    random = np.random.default_rng(3)
    alike = np.repeat((random.random((60, 1)) < 0.35).astype(np.float64), 40, axis=1)
    (band,) = bins("headline", cells_of(0.35, alike))
    alone = consistency_band(0.35, 2400, (np.nan, np.nan))
    assert band.high - band.low > 3 * (alone[1] - alone[0])


def test_small_bins_are_not_shown() -> None:
    assert list(bins("surge", cells_of(0.5, np.ones((3, 3))))) == []
    assert list(bins("surge", cells_of(0.5, np.ones((0, 3))))) == []


# --- hits and misses ------------------------------------------------------------------------------


def judged(*rows: tuple[float, float, float]) -> PastForecasts:
    """One day; each cell with published, stack and what came, as a headline."""
    published, stack, outcome = (np.array([column]) for column in zip(*rows, strict=True))
    nothing = np.full(published.shape, np.nan)
    codes = [f"{number:02}" for number in range(1, len(rows) + 1)]
    targets = {
        "headline": JudgedCells(published, stack, outcome),
        "surge": JudgedCells(nothing, nothing, nothing),
        "occurs": JudgedCells(nothing, nothing, nothing),
    }
    return PastForecasts((DAY,), tuple(("KE", code) for code in codes), targets)


def test_hits_are_what_only_we_said_first_then_the_largest_gains() -> None:
    given = judged((0.4, 0.1, 1), (0.6, 0.3, 1), (0.9, 0.2, 0), (0.5, 0.5, 1), (0.9, 0.4, 1))
    found = hits(given)
    assert [each.code for each in found] == ["02", "01", "05"]
    assert all(each.came for each in found)
    assert (found[0].name, found[0].label) == ("Kenya", "Appeal")


def test_misses_are_of_both_kinds_the_largest_losses_first() -> None:
    given = judged((0.95, 0.5, 0), (0.01, 0.5, 1), (0.5, 0.5, 0), (0.7, 0.1, 0), (0.1, 0.1, 1))
    assert [each.code for each in misses(given)] == ["02", "01", "05", "04"]


def test_misses_that_came_unsaid_do_not_crowd_out_the_others() -> None:
    given = judged(*[(0.001, 0.1, 1)] * 10, *[(0.6, 0.5, 0)] * 10)
    assert [each.came for each in misses(given)] == [True] * 4 + [False] * 4


def test_a_record_is_json(tmp_path: Path) -> None:
    """A stack without any error leaves skill undefined: no line, and no NaN."""
    said = {"published": 0.5, "stack": 1.0}
    write_backtest(tmp_path / "backtest", days(20), said, lambda *_: 1.0, first_allowed=DAY)
    record = record_of(plain(tmp_path), read_forecast_folder(tmp_path / "none"), LATER)
    assert record.windows[0].lines == []
    assert Record.model_validate_json(record.model_dump_json()) == record


def test_scores_of_another_shape_are_not_needed(tmp_path: Path) -> None:
    """Null outcomes, as of an undefined surge, take no part."""
    made: StoredForecast = stored(tmp_path, recipe_at(DAY, ("KE",)))
    rows = [
        {"stream": "KE", "level": "root", "code": "19", "target": "surge", "outcome": None,
         "published": None, "stack": None},
        {"stream": "KE", "level": "root", "code": "19", "target": "headline", "outcome": 1.0,
         "published": 0.5, "stack": 0.4},
    ]  # fmt: skip
    write_table(pa.Table.from_pylist(rows), scores_path(tmp_path, DAY, made.manifest.id))
    found, *_ = judged_forecasts(read_forecast_folder(tmp_path), DAY + timedelta(days=1))
    assert found.targets["headline"].published == pytest.approx(np.array([[0.5]]))
    assert found.targets["headline"].stack == pytest.approx(np.array([[0.4]]))
    assert np.isnan(found.targets["surge"].outcome).all()
