"""From a stored forecast and the store to the countries of a report."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.forecast import tables as forecast_tables
from gdelphi.forecast.archive import Recipe
from gdelphi.forecast.stored_week import read_week
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import read_profiles, standard_events
from gdelphi.report import countries as gather
from gdelphi.report.choose import read_forecast_folder
from gdelphi.report.content import CONFLICT
from gdelphi.report.countries import brief_phrases, past_countries
from gdelphi.store.status import read_status
from helpers.measured_world import DAYS, GONE, changed, copied_store, day_at, measured
from helpers.report_countries import ORIGIN, countries_of, past_of, settings, streams
from helpers.report_world import low, recipe_at, stored

__all__ = ["settings", "streams"]


@pytest.fixture
def recipe(streams: tuple[str, ...]) -> Recipe:
    return recipe_at(ORIGIN, streams)


def test_all_roots_are_shown_and_of_finer_codes_the_likely(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    likely = {("base", "190", "headline"): 0.06, ("full", "1411", "surge"): 0.21}

    def probability_of(stream: str, level: str, code: str, target: str) -> float | None:
        return likely.get((level, code, target), low(stream, level, code, target))

    stored(tmp_path, recipe, probability_of)
    for country in countries_of(settings, tmp_path):
        shown = {(p.level, p.code, p.target) for p in country.probabilities}
        assert {key for key in shown if key[0] == "root"} == {
            ("root", code, target)
            for code in standard_events("root")
            for target in ("occurs", "headline", "surge")
        }
        assert {key[:2] for key in shown if key[0] != "root"} == {("base", "190"), ("full", "1411")}
        assert len(shown) == len(country.probabilities)


def test_of_many_likely_codes_the_likeliest_headlines_are_kept(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    codes = standard_events("base")

    def probability_of(stream: str, level: str, code: str, target: str) -> float | None:
        del stream
        return (codes.index(code) + 1) / 1000 + 0.5 if (level, target) == (
            "base", "headline") else 0.01  # fmt: skip

    stored(tmp_path, recipe, probability_of)
    country = countries_of(settings, tmp_path)[0]
    assert {p.code for p in country.probabilities if p.level == "base"} == set(
        codes[-gather.MOST_FINER :]
    )


def test_numbers_are_those_of_the_forecast_and_undefined_targets_are_left_out(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    def probability_of(stream: str, level: str, code: str, target: str) -> float | None:
        if (code, target) == ("20", "surge"):
            return None
        return 0.123456789 if code == "14" else low(stream, level, code, target)

    stored(tmp_path, recipe, probability_of)
    country = countries_of(settings, tmp_path)[0]
    chosen = {(p.code, p.target): p for p in country.probabilities}
    assert ("20", "surge") not in chosen
    one = chosen["14", "headline"]
    assert one.published == pytest.approx(0.123456789, abs=5e-6)
    assert (one.stack, one.usual, one.which) == (0.5, 0.2, "combined")
    assert one.members == {"climatology": 0.2, "ewma": 0.4, "profiles": 0.6, "direct": 0.7}
    assert one.yesterday is None


def test_yesterday_is_what_was_said_of_the_same_day_one_origin_earlier(
    settings: Settings, streams: tuple[str, ...], recipe: Recipe, tmp_path: Path
) -> None:
    stored(tmp_path, recipe)
    stored(tmp_path, recipe_at(ORIGIN - timedelta(days=2), streams, week=True))
    first = countries_of(settings, tmp_path)[0].probabilities[0]
    assert first.yesterday is None
    # of tomorrow it said 0.8, which was another day of the week: that is nothing to compare with
    earlier = recipe_at(ORIGIN - timedelta(days=1), streams[:1], week=True)
    week = read_week(stored(tmp_path, earlier, lambda *_: 0.8))
    assert week is not None
    here, elsewhere = countries_of(settings, tmp_path)
    for each in here.probabilities:
        said = week.cells[streams[0], each.code, each.target].days[1].published
        assert each.yesterday == (None if said is None else round(said, 5))
    assert elsewhere.probabilities[0].yesterday is None


def test_the_usual_of_a_surge_is_its_frequency(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    week = read_week(stored(tmp_path, recipe_at(ORIGIN, streams, week=True)))
    assert week is not None
    country = countries_of(settings, tmp_path)[0]
    for each in country.probabilities:
        if each.target != "surge":
            assert each.usual == 0.2  # the climatology member, which is how often it came
        elif (frequency := week.cells[streams[0], each.code, "surge"].days[0].usual) is not None:
            assert each.usual == round(frequency, 5)
    other = tmp_path / "without a week"
    stored(other, recipe_at(ORIGIN, streams))
    surges = [p for p in countries_of(settings, other)[0].probabilities if p.target == "surge"]
    assert surges and all(p.usual is None for p in surges)  # not what a member says of it


def test_the_map_gets_the_likeliest_conflict_surge_and_the_largest_change(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    values = {("18", "surge"): 0.6, ("04", "surge"): 0.9, ("05", "headline"): 0.01}

    def probability_of(stream: str, level: str, code: str, target: str) -> float | None:
        if level == "root" and (code, target) in values:
            return values[code, target]
        return 0.25 if level == "root" else low(stream, level, code, target)

    stored(tmp_path, recipe, probability_of)
    country = countries_of(settings, tmp_path)[0]
    assert "04" not in CONFLICT
    assert (country.conflict_surge, country.conflict_code) == (0.6, "18")
    assert (country.change, country.change_code) == (-0.19, "05")


def test_rows_and_shares_are_those_of_the_store_and_a_missing_day_is_none(
    settings: Settings, streams: tuple[str, ...], recipe: Recipe, tmp_path: Path
) -> None:
    stored(tmp_path, recipe)
    country = countries_of(settings, tmp_path)[1]
    past = past_of(settings, ORIGIN, streams)
    assert (past.days[0], past.days[-1]) == (ORIGIN - timedelta(days=59), ORIGIN)
    history = read_profiles(settings, "root", streams, since=past.days[0], until=ORIGIN)
    gone = past.days.index(day_at(GONE[0]))
    assert country.rows[gone] is None
    assert past.missing == [day_at(number) for number in GONE]
    known = [row for row in country.rows if row is not None]
    assert known == history.volume[1][history.present].tolist()
    for share in country.shares:
        assert share.past[gone] is None
        expected = history.shares[1, -1, history.codes.index(share.code)]
        assert share.past[-1] == pytest.approx(expected, abs=1e-5)
        assert (share.mean, share.q95) == (0.05, 0.1)
    assert len(country.shares) == 20


def test_days_before_the_store_begins_are_not_shown(
    settings: Settings, streams: tuple[str, ...]
) -> None:
    past = past_of(settings, day_at(10), streams)
    assert past.days == tuple(day_at(number) for number in range(11))
    assert len(past.rows(streams[0])) == 11


def test_phrases_events_and_evidence_come_in_the_order_of_their_ranks(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    stored(tmp_path, recipe)
    country = countries_of(settings, tmp_path)[0]
    assert [p.weight for p in country.brief] == [0.03333, 0.01667]  # of a root with 5% of the news
    (event,) = country.events
    assert (event.code, event.headline, event.occurs) == ("19", 0.3, 0.3)
    assert [p.words for p in event.who] == ["actor1 number 1", "actor1 number 2"]
    assert [p.words for p in event.where] == ["region number 1", "region number 2"]
    assert [p.mentions for p in event.evidence] == [10, 20]


def test_control_characters_are_dropped_and_other_text_stays(
    settings: Settings, recipe: Recipe, tmp_path: Path
) -> None:
    stored(tmp_path, recipe, words="a\x00b\x1b[31m<i>\u202e\tc\ufffe", source="x\x07y")
    country = countries_of(settings, tmp_path)[0]
    assert country.brief[0].words == "ab[31m<i>\tc"
    assert country.events[0].evidence[0].source == "xy"


def test_the_latest_day_in_brief_is_its_descriptor(
    settings: Settings, streams: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    country = past_countries(settings, past_of(settings, ORIGIN, streams))[0]
    world = measured(tmp_path_factory)
    assert 3 <= len(country.latest) <= 10
    assert 0.5 < sum(p.weight for p in country.latest) < 1 + 1e-3
    cloud = world.cloud(streams[0], 70)
    codes = cloud.code.values()
    assert {p.code for p in country.latest} <= set(codes)
    # A phrase stands for reports of its own root: those of a root have no more than its share.
    for root in {lineage(p.code).root for p in country.latest}:
        share = sum(cloud.weights[at] for at, code in enumerate(codes) if code[:2] == root)
        shown = [p.weight for p in country.latest if lineage(p.code).root == root]
        assert sum(shown) <= share + 1e-3
    assert all(p.root for p in country.latest)


def test_phrases_of_a_root_have_no_more_than_its_expected_share() -> None:
    brief = [{"rank": 1, "weight": 0.31, "code": "190", "phrase": "a", "stream": "SO"},
             {"rank": 2, "weight": 0.29, "code": "042", "phrase": "b", "stream": "SO"},
             {"rank": 3, "weight": 0.10, "code": "193", "phrase": "c", "stream": "SO"}]  # fmt: skip
    means = {"19": 0.041, "04": 0.5}
    shares = [{"level": "root", "code": code, "mean": mean} for code, mean in means.items()]
    told = brief_phrases(brief, shares)
    assert [(p.code, p.root) for p in told[:1]] == [("042", "Consult")]
    assert [p.weight for p in told] == [0.29, 0.031, 0.01]


def test_without_measures_the_days_largest_roots_stand_for_it(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    settings = copied_store(tmp_path_factory, tmp_path)
    origin = read_status(settings).last_day
    assert origin is not None
    past = past_of(settings, origin, None)
    country = past_countries(settings, past)[0]
    counts = past.counts(country.stream)
    assert country.stream == "KE"  # the largest
    assert country.latest
    for phrase in country.latest:
        reports = counts[past.history.codes.index(phrase.code)]
        assert f"({reports} report" in phrase.words
    assert country.probabilities == [] and country.fan is None and country.brief == []
    known = [value for value in country.shares[0].past if value is not None]
    assert country.shares[0].q50 == pytest.approx(np.median(known), abs=1e-4)


def test_the_forecast_about_most_streams_is_taken_then_the_last_issued(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    large = stored(tmp_path, recipe_at(ORIGIN, streams))
    stored(tmp_path, recipe_at(ORIGIN, streams[:1], seed=5))
    stored(tmp_path, recipe_at(ORIGIN, streams, horizon=2, seed=6))
    assert read_forecast_folder(tmp_path).at(ORIGIN) == large.manifest
    later = stored(tmp_path, recipe_at(ORIGIN, streams, seed=7))
    chosen = read_forecast_folder(tmp_path).at(ORIGIN)
    assert chosen is not None
    assert chosen.issued_at == max(later.manifest.issued_at, large.manifest.issued_at)


def test_a_damaged_forecast_is_passed_over_and_told(
    streams: tuple[str, ...], tmp_path: Path
) -> None:
    broken = stored(tmp_path, recipe_at(day_at(60), streams))
    stored(tmp_path, recipe_at(ORIGIN, streams))
    (broken.folder / "forecast.json").write_text("{}")
    forecasts = read_forecast_folder(tmp_path)
    assert forecasts.newest(ORIGIN) == ORIGIN
    assert len(forecasts.manifests) == 1
    assert str(broken.folder) in forecasts.problems[0]


def test_column_names_are_those_of_the_tables() -> None:
    assert tuple(gather.ARGUMENTS) == forecast_tables.ARGUMENTS
    assert gather.QUANTILES == forecast_tables.QUANTILES
    assert forecast_tables.FUTURES_COLUMN in gather.NOT_MEMBERS
    assert forecast_tables.BEYOND_COLUMN in gather.NOT_MEMBERS


def test_a_report_needs_no_torch() -> None:
    code = "import sys, gdelphi.report.report; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_number_of_past_days_is_a_setting(settings: Settings, streams: tuple[str, ...]) -> None:
    shorter = changed(settings, "report", past_days=7)
    past = past_of(shorter, day_at(DAYS - 1), streams)
    assert len(past.days) == 7
    standing = past.standing(streams[0], "01")
    assert standing is not None and standing.days == 60 - 2  # two days are missing
