"""The simulated archive: real in form, exact in content, the same bytes every time."""

import hashlib
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gdelphi.common.errors import ArchiveError, ConfigError
from gdelphi.common.settings import Settings
from gdelphi.gdelt.cameo import event_codes, quad_class
from gdelphi.gdelt.layouts import (
    DAILY,
    QUARTER,
    Layout,
)
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestResult, ingest
from gdelphi.world.archive import (
    Created,
    create_world,
    load_world,
)
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    LEAD_SHARE,
    MENTIONS,
    PRESETS,
    ROOT_SHARES,
    Dirt,
    Occasion,
    WorldConfig,
)
from gdelphi.world.law import ROOTS, Law
from gdelphi.world.rows import RowMaker, code_shares
from gdelphi.world.simulate import (
    SimulatedDay,
    published,
    simulate,
)
from helpers.archives import settings_for

DIRT = Dirt(missing_days=0.1)
DIRTY = WorldConfig(seed=3, days=60, streams=6, volume_median=60.0, volume_deviation=0.9, dirt=DIRT)
CLEAN = DIRTY.model_copy(update={"dirt": None, "streams": 2})
SHORT = DIRTY.model_copy(update={"days": 13})  # fewer than may be asked for: 96 files each


class Ingested(NamedTuple):
    """A world that went through the ingester."""

    law: Law
    days: list[SimulatedDay]
    created: Created
    settings: Settings
    result: IngestResult

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with Store(self.settings).reading() as connection:
            return connection.rows(sql)

    def share(self, condition: str) -> float:
        return float(self.rows(f"SELECT avg(({condition})::INT) FROM events")[0][0])

    @property
    def present(self) -> list[SimulatedDay]:
        return [day for day in self.days if not day.missing]


def ingested(config: WorldConfig, folder: Path, form: Any) -> Ingested:
    created = create_world(config, folder / "world", form)
    settings = settings_for(folder / "s.duckdb", created.folder)
    law = Law(config)
    return Ingested(law, list(simulate(law)), created, settings, ingest(settings))


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return ingested(DIRTY, tmp_path_factory.mktemp("dirty"), "v1")


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return ingested(CLEAN, tmp_path_factory.mktemp("clean"), "v1")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return ingested(SHORT, tmp_path_factory.mktemp("second"), "v2")


@pytest.fixture(params=["dirty", "clean", "second"])
def world(request: pytest.FixtureRequest) -> Ingested:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


# --- what an exact oracle relies on ---------------------------------------------------------------


def test_every_row_is_accepted(world: Ingested) -> None:
    result = world.result
    assert result.accepted == result.rows_in > 0
    assert (result.rejected, result.duplicates, result.repaired) == (0, 0, 0)
    assert result.listing.unknown == []
    assert result.listing.damaged_lines == 0
    places = world.law.config.dirt.no_place if world.law.config.dirt else 0.0
    assert result.rows_in == sum(day.rows + round(places * day.rows) for day in world.present)


def test_rows_per_stream_root_and_day_are_the_simulated_ones(world: Ingested) -> None:
    found = world.rows(
        "SELECT NewsDay, ActionGeo_CountryCode, EventRootCode, count(*)::INT FROM events "
        "WHERE ActionGeo_CountryCode IS NOT NULL GROUP BY ALL"
    )
    expected = {
        (day.day, stream, root, int(count))
        for day in world.present
        for stream, counts in zip(
            world.law.map.streams, published(world.law, day).counts, strict=True
        )
        for root, count in zip(ROOTS, counts, strict=True)
        if count
    }
    assert set(found) == expected


def test_announcements_have_their_codes_to_themselves(world: Ingested) -> None:
    codes = [occasion.code for occasion in world.law.config.occasions]
    found = world.rows(
        "SELECT NewsDay, ActionGeo_CountryCode, EventCode, count(*)::INT FROM events "
        f"WHERE EventCode IN {tuple(codes)} GROUP BY ALL"
    )
    expected = {
        (day.day, stream, code, int(count))
        for day in world.present
        for stream, counts in zip(world.law.map.streams, day.announcements, strict=True)
        for code, count in zip(codes, counts, strict=True)
        if count
    }
    assert set(found) == expected
    assert expected


def test_conflict_rows_between_rivals_are_the_simulated_ones(world: Ingested) -> None:
    cameo = [place.country.cameo for place in world.law.map.places]
    pairs = {frozenset((cameo[a], cameo[b])): n for n, (a, b) in enumerate(world.law.map.rivals)}
    found = {day.day: np.zeros(len(pairs)) for day in world.present}
    for day, first, last, count in world.rows(
        "SELECT NewsDay, Actor1CountryCode, Actor2CountryCode, count(*) FROM events "
        f"WHERE ActionGeo_CountryCode IS NOT NULL AND EventRootCode IN {CONFLICT_ROOTS} "
        "GROUP BY ALL"
    ):
        if frozenset((first, last)) in pairs:
            found[day][pairs[frozenset((first, last))]] += count
    for day in world.present:
        assert found[day.day].tolist() == published(world.law, day).pair_conflicts.tolist()
    assert sum(counts.sum() for counts in found.values()) > 0


def test_rivals_stand_in_either_order(dirty: Ingested) -> None:
    a, b = (dirty.law.map.places[n].country.cameo for n in dirty.law.map.rivals[0])
    orders = dirty.rows(
        "SELECT count(*) FROM events WHERE (Actor1CountryCode, Actor2CountryCode) IN "
        f"(('{a}', '{b}'), ('{b}', '{a}')) GROUP BY Actor1CountryCode"
    )
    assert len(orders) == 2
    assert min(orders)[0] > 0.4 * sum(count for (count,) in orders)


def test_codes_mentions_and_lead_follow_their_shares(dirty: Ingested) -> None:
    shares = code_shares(dirty.law.config)
    announced = tuple(occasion.code for occasion in dirty.law.config.occasions)
    roots: Counter[str] = Counter()
    found: dict[str, int] = {}
    for root, code, count in dirty.rows(
        "SELECT EventRootCode, EventCode, count(*) FROM events "
        f"WHERE EventCode NOT IN {announced} GROUP BY ALL"
    ):
        roots[root] += count
        found[code] = count
    expected = {c: roots[r] * share for r, codes in shares.items() for c, share in codes.items()}
    assert set(found) <= set(expected)
    common = [code for code, number in expected.items() if number >= 5]
    chi = sum((found.get(c, 0) - expected[c]) ** 2 / expected[c] for c in common)
    assert abs(chi - len(common)) < 5 * (2 * len(common)) ** 0.5
    mentions = dict(dirty.rows("SELECT NumMentions, count(*) FROM events GROUP BY 1"))
    number = sum(mentions.values())
    for mention, share in MENTIONS.items():
        assert abs(mentions[mention] / number - share) < 5 * (share / number) ** 0.5
    assert abs(dirty.share("IsRootEvent = 1") - LEAD_SHARE) < 2.5 / number**0.5


@pytest.mark.parametrize("config", [DIRTY, CLEAN], ids=["dirty", "clean"])
def test_code_shares_add_up_and_leave_out_what_announces(config: WorldConfig) -> None:
    shares = code_shares(config)
    assert list(shares) == list(ROOTS)
    assert all(sum(codes.values()) == pytest.approx(1) for codes in shares.values())
    codes = {code for codes in shares.values() for code in codes}
    assert not codes & {occasion.code for occasion in config.occasions}
    assert codes - set(event_codes()) == ({"106", "1213"} if config.dirt else set())


def test_an_occasion_needs_a_code_that_rows_can_have() -> None:
    strange = Occasion(name="fair", code="0299", lead_days=3, daily_probability=0.1, echo={})
    with pytest.raises(ConfigError, match="'0299'"):
        RowMaker(Law(DIRTY.model_copy(update={"occasions": (strange,)})), "v1")


# --- form -----------------------------------------------------------------------------------------


def test_only_missing_days_are_gaps(world: Ingested) -> None:
    states = dict(world.rows("SELECT NewsDay, state FROM days"))
    expected = {day.day: "missing" if day.missing else "present" for day in world.days}
    assert states == expected


def test_there_are_missing_days_in_a_dirty_world_alone(dirty: Ingested, clean: Ingested) -> None:
    lost = tuple(day.day for day in dirty.days if day.missing)
    assert dirty.created.missing_days == lost != ()
    assert clean.created.missing_days == ()
    assert dirty.created.files == DIRTY.days - len(lost)
    assert dirty.created.rows == dirty.result.rows_in


def test_ids_grow_without_holes(world: Ingested) -> None:
    ids = world.rows("SELECT NewsDay, DATEADDED, GLOBALEVENTID FROM events ORDER BY 3")
    assert [row[2] for row in ids] == list(range(ids[0][2], ids[0][2] + len(ids)))
    assert all(earlier[:2] <= later[:2] for earlier, later in pairwise(ids))


def test_both_forms_hold_the_same_rows(dirty: Ingested, second: Ingested) -> None:
    columns = ", ".join(name for name in DAILY.columns if name != "DATEADDED")
    last = second.days[-2].day  # a world's last day is never missing
    sql = f"SELECT {columns} FROM events WHERE NewsDay <= '{last}' ORDER BY GLOBALEVENTID"
    assert dirty.rows(sql) == second.rows(sql)


def test_quarter_hours_are_all_there_and_follow_the_day(second: Ingested) -> None:
    found = second.rows(
        "SELECT NewsDay, count(*), count_if(accepted = 0) FROM ledger "
        "JOIN days ON first_day = NewsDay WHERE status = 'loaded' GROUP BY ALL"
    )
    assert {row[1] for row in found} == {96}
    assert len(found) == len(second.present) < len(second.days)
    hours = dict(second.rows("SELECT hour(DATEADDED), count(*) FROM events GROUP BY 1"))
    assert sum(hours[h] for h in range(12, 18)) > 1.2 * sum(hours[h] for h in range(6))
    stamps = second.rows("SELECT DISTINCT minute(DATEADDED) FROM events ORDER BY 1")
    assert stamps == [(0,), (15,), (30,), (45,)]
    lists = (second.created.folder / "masterfilelist.txt").read_text().splitlines()
    assert (second.created.folder / "lastupdate.txt").read_text().splitlines() == lists[-1:]


def test_codes_agree_with_the_tables(dirty: Ingested) -> None:
    wrong = dirty.rows(
        "SELECT EventCode FROM events JOIN cameo_events ON code = EventCode WHERE "
        "(EventBaseCode, EventRootCode, QuadClass, GoldsteinScale) "
        "IS DISTINCT FROM (base, root, quad_class, goldstein)"
    )
    assert wrong == []
    unknown = dirty.rows(
        "SELECT DISTINCT EventCode, EventBaseCode, EventRootCode, QuadClass, GoldsteinScale "
        "FROM events ANTI JOIN cameo_events ON code = EventCode ORDER BY 1"
    )
    assert unknown == [
        ("106", "106", "10", quad_class("10"), -5.0),
        ("1213", "121", "12", quad_class("12"), None),
    ]
    kinds = dirty.rows("SELECT DISTINCT kind, code FROM unknown_codes ORDER BY ALL")
    assert kinds == [("event", "106"), ("event", "1213")]


def test_fields_of_a_row_agree(world: Ingested) -> None:
    for number in (1, 2):
        actor, geo = f"Actor{number}", f"Actor{number}Geo"
        code = f"coalesce({actor}CountryCode, '') || coalesce({actor}Type1Code, '')"
        assert world.share(f"coalesce({actor}Code, '') <> {code}") == 0
        assert world.share(f"{actor}Name IS DISTINCT FROM upper({actor}Name)") == 0
        assert world.share(f"({actor}Code IS NULL) <> ({actor}Name IS NULL)") == 0
        assert world.share(f"{actor}Code IS NULL AND {geo}_CountryCode IS NOT NULL") == 0
    for geo in ("Actor1Geo", "Actor2Geo", "ActionGeo"):
        fields = f"concat_ws('', {geo}_FullName, {geo}_ADM1Code, {geo}_Lat, {geo}_FeatureID)"
        assert world.share(f"({geo}_CountryCode IS NULL) <> ({fields} = '')") == 0
        assert world.share(f"({geo}_CountryCode IS NULL) <> ({geo}_Type = 0)") == 0
        assert (
            world.share(f"coalesce(NOT starts_with({geo}_ADM1Code, {geo}_CountryCode), false)") == 0
        )
    assert world.share("MonthYear <> year(SQLDATE) * 100 + month(SQLDATE)") == 0
    assert world.share("Year <> year(SQLDATE) OR floor(FractionDate) <> Year") == 0
    assert world.share("NumSources > NumMentions OR NumArticles <> NumMentions") == 0
    assert (
        world.share("DATEADDED::DATE <> NewsDay OR SOURCEURL NOT LIKE 'https://%.example/%'") == 0
    )


# --- dirt -----------------------------------------------------------------------------------------

PARTS = {
    "no_place": "ActionGeo_CountryCode IS NULL",
    "blank_actor1": "Actor1Code IS NULL",
    "blank_actor2": "Actor2Code IS NULL",
    "anniversary_rows": "SQLDATE = NewsDay - INTERVAL 1 YEAR",
    "late_rows": "SQLDATE < NewsDay AND SQLDATE > NewsDay - 100",
    "future_rows": "SQLDATE > NewsDay",
    "retold_stories": "StoryDuplicate",
    "unknown_codes": "EventCode IN ('106', '1213')",
}


@pytest.mark.parametrize("part", PARTS)
def test_dirt_comes_in_its_proportion_and_not_in_a_clean_world(
    dirty: Ingested, clean: Ingested, part: str
) -> None:
    share, rows = getattr(DIRT, part), dirty.result.rows_in
    # Retold rows repeat dates and blanks, and rows of a root are not quite independent.
    assert abs(dirty.share(PARTS[part]) - share) < 0.06 * share + 4 * (share / rows) ** 0.5
    assert clean.share(PARTS[part]) == 0


def test_no_row_loses_both_actors(dirty: Ingested) -> None:
    assert dirty.share("Actor1Code IS NULL AND Actor2Code IS NULL") == 0


# --- the same bytes -------------------------------------------------------------------------------


def digest(folder: Path) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    named = [f"{path.relative_to(folder)} {path.read_bytes().hex()}" for path in paths]
    return hashlib.sha256("\n".join(named).encode()).hexdigest()


def test_the_same_world_has_the_same_bytes_and_another_seed_has_not(
    clean: Ingested, tmp_path: Path
) -> None:
    seen: list[date] = []
    again = create_world(CLEAN, tmp_path / "again", on_day=lambda day: seen.append(day.day))
    assert digest(again.folder) == digest(clean.created.folder)
    assert seen == [day.day for day in clean.days]
    other = create_world(CLEAN.model_copy(update={"seed": 4}), tmp_path / "other")
    assert digest(other.folder) != digest(clean.created.folder)


def test_the_rows_of_a_day_need_no_other_day() -> None:
    law = Law(CLEAN)
    days = list(simulate(law))
    first, _ = RowMaker(law, "v1").lines(days[20], 1)
    maker = RowMaker(law, "v1")
    for day in days[:20]:
        maker.lines(day, 5)
    assert maker.lines(days[20], 1)[0] == first


def test_a_day_without_events_is_an_empty_file() -> None:
    law = Law(DIRTY)
    day = next(simulate(law))
    nothing = {
        name: np.zeros_like(getattr(day, name)) for name in ("usual", "announcements", "with_rival")
    }
    lines, quarters = RowMaker(law, "v2").lines(replace(day, **nothing), 1)
    assert lines == []
    assert len(quarters) == 0


def test_the_truth_is_read_back(dirty: Ingested) -> None:
    config, regimes, missing = load_world(dirty.created.folder)
    assert config == DIRTY
    assert regimes.tolist() == np.stack([day.regime for day in dirty.days], axis=1).tolist()
    assert missing.tolist() == [day.missing for day in dirty.days]


def test_a_folder_without_truth_is_no_world(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"no simulated archive: .*world\.json"):
        load_world(tmp_path)


def test_a_damaged_truth_is_named(clean: Ingested, tmp_path: Path) -> None:
    truth = shutil.copytree(clean.created.folder / "truth", tmp_path / "truth")
    text = (truth / "world.json").read_text()
    (truth / "world.json").write_text(text.replace('"days": 60', '"days": 61'))
    with pytest.raises(ArchiveError, match="120 regimes where 61 days of 2 streams"):
        load_world(tmp_path)
    (truth / "world.json").write_text(text.replace('"days"', '"dogs"'))
    with pytest.raises(ArchiveError, match=r"world\.json is not what this version"):
        load_world(tmp_path)


def test_a_folder_that_holds_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(ArchiveError, match="full is not empty"):
        create_world(CLEAN, tmp_path / "full")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="file is not empty"):
        create_world(CLEAN, tmp_path / "file")


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def stop(day: SimulatedDay) -> None:
        if day.index == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_world(CLEAN, tmp_path / "world", on_day=stop)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_no_obstacle(tmp_path: Path, clean: Ingested) -> None:
    (tmp_path / "world").mkdir()  # an empty folder may be used
    (tmp_path / ".world.partial").mkdir()
    (tmp_path / ".world.partial" / "20200101.export.CSV.zip").write_text("half")
    created = create_world(CLEAN, tmp_path / "world")
    assert digest(created.folder) == digest(clean.created.folder)
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


# --- against real rows ----------------------------------------------------------------------------


def fields(paths: Iterable[Path], layout: Layout) -> Iterator[list[str]]:
    """Root, role of actor 1, country of the place of every row."""
    names = list(layout.columns)
    places = [names.index(n) for n in ("EventRootCode", "Actor1Type1Code", "ActionGeo_CountryCode")]
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            for line in archive.read(archive.namelist()[0]).decode().splitlines():
                values = line.split("\t")
                yield [values[place] for place in places]


def variation(first: Counter[Any], second: Counter[Any]) -> float:
    """Total variation between two distributions given by counts."""
    a, b = sum(first.values()), sum(second.values())
    return 0.5 * sum(abs(first[key] / a - second[key] / b) for key in {*first, *second})


def spread(volumes: Counter[str]) -> float:
    """Orders of magnitude between the median country and one of the busiest tenth."""
    counts = [count for country, count in volumes.items() if country]
    return float(np.log10(np.quantile(counts, 0.9) / np.quantile(counts, 0.5)))


def counts_of(paths: Iterable[Path], layout: Layout) -> list[Counter[Any]]:
    """How often each root, role, country, and root with role occur."""
    roots, roles, countries = zip(*fields(paths, layout), strict=True)
    pairs = zip(roots, roles, strict=True)
    return [Counter(roots), Counter(roles), Counter(countries), Counter(pairs)]


@pytest.fixture(scope="module")
def default_counts(tmp_path_factory: pytest.TempPathFactory) -> list[Counter[Any]]:
    config = PRESETS["default"].model_copy(update={"days": 60})
    created = create_world(config, tmp_path_factory.mktemp("default") / "world")
    return counts_of(created.folder.glob("*.zip"), DAILY)


def test_the_default_world_resembles_a_real_archive(
    default_counts: list[Counter[Any]], shared_data: Path
) -> None:
    files = sorted((shared_data / "gdelt2-world").glob("*.export.CSV.zip"))[::4]
    real = counts_of(files, QUARTER)
    roots, roles, volumes, roles_by_root = default_counts
    assert variation(roots, real[0]) < 0.10
    assert variation(roles, real[1]) < 0.15
    assert variation(roles_by_root, real[3]) < 0.15
    assert 0.6 < spread(volumes) / spread(real[2]) < 1.6


def test_root_shares_are_those_of_the_configuration(default_counts: list[Counter[Any]]) -> None:
    expected = Counter({root: round(1e6 * share) for root, share in ROOT_SHARES.items()})
    assert variation(default_counts[0], expected) < 0.10
