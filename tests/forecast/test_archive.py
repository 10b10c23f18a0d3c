"""Forecasts on disk: written once, found again, and never believed when a byte has changed."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.forecast.archive import (
    FORMAT,
    MANIFEST,
    ForecastArchive,
    Recipe,
    StoredForecast,
)
from helpers.edited import edited
from helpers.measured_world import tree_of

RECIPE = Recipe(
    origin=date(2014, 6, 1), horizon=1, streams=("KE", "UP"), partial=False, data="d" * 16,
    model="m" * 16, futures=100, seed=0, gdelphi="1.0",
)  # fmt: skip
TABLES = {"brief": pa.table({"stream": ["KE"], "weight": [0.5]}), "shares": pa.table({"x": [1]})}
FITTED = date(2014, 5, 1)


@pytest.fixture
def store(tmp_path: Path) -> ForecastArchive:
    return ForecastArchive(tmp_path / "forecasts")


@pytest.fixture
def stored(store: ForecastArchive) -> StoredForecast:
    return store.put(RECIPE, TABLES, fitted_until=FITTED)


def test_what_was_put_is_found_and_loaded(store: ForecastArchive, stored: StoredForecast) -> None:
    assert stored.folder == store.folder / "2014-06-01" / RECIPE.id
    assert store.find(RECIPE) == stored == store.load(RECIPE.origin)
    assert store.load(RECIPE.origin, RECIPE.id).table("brief").equals(TABLES["brief"])
    assert "shares" in stored
    assert "events" not in stored


def test_the_manifest_says_what_it_was_made_from(stored: StoredForecast) -> None:
    content = json.loads((stored.folder / MANIFEST).read_text())
    assert content["format"] == FORMAT
    assert content["target_day"] == "2014-06-02"
    assert set(content["files"]) == {"brief.parquet", "shares.parquet"}
    assert content["hindsight"] is False
    assert (datetime.now(UTC) - datetime.fromisoformat(content["issued_at"])) < timedelta(minutes=1)
    for name, value in RECIPE.plain().items():
        assert content[name] == value


def test_it_remembers_the_state_of_a_lake_and_keeps_its_name(store: ForecastArchive) -> None:
    made = store.put(RECIPE, TABLES, fitted_until=FITTED, snapshot="118")
    assert json.loads((made.folder / MANIFEST).read_text())["snapshot"] == "118"
    assert store.load(RECIPE.origin, RECIPE.id).manifest.snapshot == "118"
    assert store.load(RECIPE.origin).manifest.id == RECIPE.id, "a file store makes the same one"


def test_a_forecast_before_the_end_of_fitting_is_in_hindsight(store: ForecastArchive) -> None:
    later = store.put(RECIPE, TABLES, fitted_until=date(2014, 7, 1))
    assert later.manifest.hindsight


@pytest.mark.parametrize(
    "change",
    [
        {"origin": date(2014, 6, 2)}, {"horizon": 2}, {"streams": ("KE",)}, {"partial": True},
        {"data": "x"}, {"model": "x"}, {"futures": 50}, {"seed": 1}, {"gdelphi": "1.1"},
    ],
)  # fmt: skip
def test_whatever_decides_the_content_decides_the_name(change: dict[str, object]) -> None:
    assert replace(RECIPE, **change).id != RECIPE.id  # type: ignore[arg-type]


def test_nothing_is_written_over(store: ForecastArchive, stored: StoredForecast) -> None:
    before = tree_of(store.folder)
    again = store.put(RECIPE, {"brief": pa.table({"other": [1]})}, fitted_until=FITTED)
    assert again.manifest == stored.manifest
    assert tree_of(store.folder) == before


def test_a_forecast_that_could_not_be_written_leaves_nothing(
    store: ForecastArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr("gdelphi.forecast.archive.file_digest", fail)
    with pytest.raises(OSError, match="disk full"):
        store.put(RECIPE, TABLES, fitted_until=FITTED)
    assert tree_of(store.folder) == {}
    assert store.list() == []
    assert store.find(RECIPE) is None


def test_two_processes_at_one_forecast_leave_one(
    store: ForecastArchive, stored: StoredForecast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object) -> None:
        raise FileExistsError("not empty")

    monkeypatch.setattr(Path, "replace", too_late)
    assert store.put(RECIPE, TABLES, fitted_until=FITTED).manifest == stored.manifest
    with pytest.raises(FileExistsError):
        store.put(replace(RECIPE, seed=5), TABLES, fitted_until=FITTED)
    assert [path.name for path in stored.folder.parent.iterdir()] == [RECIPE.id]


def test_all_are_listed_in_their_order_and_the_last_issued_is_loaded(
    store: ForecastArchive, stored: StoredForecast
) -> None:
    other = store.put(replace(RECIPE, seed=1), TABLES, fitted_until=FITTED)
    early = store.put(replace(RECIPE, origin=date(2014, 5, 31)), TABLES, fitted_until=FITTED)
    path = other.folder / MANIFEST
    content = {**json.loads(path.read_text()), "issued_at": "2030-01-01T00:00:00+00:00"}
    path.write_text(json.dumps(content))
    edited(other.folder)
    assert [manifest.id for manifest in store.list()] == [
        early.manifest.id,
        RECIPE.id,
        other.manifest.id,
    ]
    assert store.load(RECIPE.origin).manifest.id == other.manifest.id
    assert store.load(RECIPE.origin, RECIPE.id).manifest == stored.manifest


def test_a_folder_that_a_killed_process_left_is_no_forecast(
    store: ForecastArchive, stored: StoredForecast
) -> None:
    beside = stored.folder.with_name(".0123456789abcdef.1")
    beside.mkdir()
    (beside / MANIFEST).write_text("{")
    assert [manifest.id for manifest in store.list()] == [RECIPE.id]


# --- damage ---------------------------------------------------------------------------------------


def test_a_changed_byte_is_found(store: ForecastArchive, stored: StoredForecast) -> None:
    path = stored.folder / "brief.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    for look in (lambda: store.load(RECIPE.origin), lambda: store.find(RECIPE)):
        with pytest.raises(ForecastError, match=r"damaged, or was edited \(brief\.parquet is not"):
            look()


def test_a_missing_or_strange_file_is_found(store: ForecastArchive, stored: StoredForecast) -> None:
    (stored.folder / "shares.parquet").unlink()
    with pytest.raises(ForecastError, match=r"shares\.parquet: missing"):
        store.load(RECIPE.origin)
    (stored.folder / "shares.parquet").write_bytes(b"")
    (stored.folder / "notes.txt").write_text("mine")
    with pytest.raises(ForecastError, match=r"notes\.txt"):
        store.load(RECIPE.origin)


def test_an_edited_manifest_is_found(store: ForecastArchive, stored: StoredForecast) -> None:
    path = stored.folder / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "partial": True}))
    with pytest.raises(ForecastError, match="is of the forecast"):
        store.find(RECIPE)
    path.write_text("{")
    with pytest.raises(ForecastError, match=r"forecast\.json cannot be read"):
        store.find(RECIPE)
    path.unlink()
    with pytest.raises(ForecastError, match=r"forecast\.json cannot be read"):
        store.find(RECIPE)


def test_a_forecast_of_a_later_format_says_who_reads_it(
    store: ForecastArchive, stored: StoredForecast
) -> None:
    path = stored.folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ForecastError, match=r"format 99.*with gdelphi 1\.0"):
        store.load(RECIPE.origin)


def test_what_is_not_there_is_named(store: ForecastArchive, stored: StoredForecast) -> None:
    with pytest.raises(ForecastError, match=r"no forecast at 2014-01-01.*--origin 2014-01-01"):
        store.load(date(2014, 1, 1))
    with pytest.raises(ForecastError, match=f"no forecast abc.*there: {RECIPE.id}"):
        store.load(RECIPE.origin, "abc")
    with pytest.raises(ForecastError, match="no table events: it has brief, shares"):
        stored.table("events")
