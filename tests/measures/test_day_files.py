"""A folder of day files: whole or not at all, refused with a remedy, and a manifest that heals."""

import fcntl
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gdelphi.common.errors import MeasuresError
from gdelphi.measures.day_files import (
    FORMAT,
    DayFolder,
    DayManifest,
    read_footer,
    read_table,
    unreadable,
)

DAY = date(2013, 12, 31)
TABLE = pa.table({"x": list(range(5000))})


def day_number(number: int) -> date:
    return DAY + timedelta(days=number)


def said_of(number: int) -> str:
    return f"print {number}"


@pytest.fixture
def files(tmp_path: Path) -> DayFolder:
    """Three days over the turn of a year, with a manifest."""
    folder = DayFolder(tmp_path / "days")
    with folder.updating() as manifest:
        for number in (2, 0, 1):
            folder.write(day_number(number), TABLE, {"fingerprint": said_of(number)})
            manifest.known[day_number(number)] = said_of(number)
        manifest.save()
    return folder


ALL = {day_number(number): said_of(number) for number in range(3)}


def manifest_path(files: DayFolder) -> Path:
    return files.folder / "manifest.json"


# --- files ----------------------------------------------------------------------------------------


def test_days_lie_in_a_folder_a_year_and_come_in_order(files: DayFolder) -> None:
    assert files.path(DAY) == files.folder / "2013" / "2013-12-31.parquet"
    assert files.path(day_number(1)).parent.name == "2014"
    assert files.days() == tuple(ALL)


def test_what_is_written_is_read_again_with_its_footer(files: DayFolder) -> None:
    files.write(DAY, TABLE, {"fingerprint": "new", "more": [1, {"a": None}]})
    assert read_table(files.path(DAY)).column("x").to_pylist() == list(range(5000))
    assert read_footer(files.path(DAY)) == {
        "format": FORMAT,
        "day": "2013-12-31",
        "fingerprint": "new",
        "more": [1, {"a": None}],
    }


def test_a_write_that_fails_halfway_leaves_the_file_as_it_was(
    files: DayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files.path(DAY).read_bytes()

    def fail(table: pa.Table, path: Path, **_: Any) -> None:
        path.write_bytes(before[:100])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", fail)
        with pytest.raises(OSError, match="no space left"):
            files.write(DAY, TABLE, {"fingerprint": "new"})
    assert files.path(DAY).read_bytes() == before
    assert files.days() == tuple(ALL)
    files.write(DAY, TABLE, {"fingerprint": "new"})
    assert sorted(path.name for path in files.path(DAY).parent.glob("*.p*")) == [
        "2013-12-31.parquet"
    ]


def test_a_file_not_named_after_a_day_is_named_with_a_remedy(files: DayFolder) -> None:
    stranger = files.folder / "2014" / "notes.parquet"
    stranger.touch()
    with pytest.raises(MeasuresError, match=f"{stranger} is not named after a day: move it away"):
        files.days()


def test_other_files_in_the_folder_do_no_harm(files: DayFolder) -> None:
    (files.folder / "2014" / "README.txt").touch()
    (files.folder / "2014" / ".2014-02-01.parquet.part").touch()
    (files.folder / "stray.parquet").touch()
    assert files.days() == tuple(ALL)


# --- files that are not what they should be -------------------------------------------------------


def foreign(metadata: dict[bytes, bytes] | None) -> pa.Table:
    return pa.table({"x": [1]}).replace_schema_metadata(metadata)


@pytest.mark.parametrize("size", [0, 3, 700, -1])
def test_a_file_cut_short_is_named_with_a_remedy(files: DayFolder, size: int) -> None:
    path = files.path(DAY)
    path.write_bytes(path.read_bytes()[:size])
    remedy = "delete it and run `gdelphi embed`, which makes it again"
    for read in (read_footer, read_table):
        with pytest.raises(MeasuresError, match=rf"^{path} cannot be read \(.+\): {remedy}$"):
            read(path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {b"pandas": b"{}"},
        {b"gdelphi": b"{cut"},
        {b"gdelphi": b"\xff"},
        {b"gdelphi": b"7"},
        {b"gdelphi": b"[7]"},
    ],
)
def test_a_parquet_file_from_elsewhere_is_named_with_a_remedy(
    files: DayFolder, metadata: dict[bytes, bytes] | None
) -> None:
    path = files.path(DAY)
    pq.write_table(foreign(metadata), path)
    with pytest.raises(MeasuresError, match=rf"^{path} cannot be read \(.+\): delete it and run"):
        read_footer(path)


@pytest.mark.parametrize(("said", "shown"), [({"format": FORMAT + 1}, "2"), ({}, "None")])
def test_another_format_asks_for_a_new_folder(
    files: DayFolder, said: dict[str, int], shown: str
) -> None:
    path = files.path(DAY)
    pq.write_table(foreign({b"gdelphi": json.dumps(said).encode()}), path)
    complaint = (
        f"{path} has format {shown}, this gdelphi reads 1: delete the folder {files.folder} and "
        "run `gdelphi embed` again"
    )
    with pytest.raises(MeasuresError, match=f"^{re.escape(complaint)}$"):
        read_footer(path)


def test_a_flipped_bit_does_not_become_another_number(files: DayFolder) -> None:
    path = files.path(DAY)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    refused = 0
    for place in range(4, len(whole) - footer, max((len(whole) - footer) // 200, 1)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            assert read_table(path).equals(TABLE)  # a bit that says nothing
        except MeasuresError:
            refused += 1
    assert refused > 100


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MeasuresError, match=f"{tmp_path / 'no.parquet'} cannot be read"):
        read_table(tmp_path / "no.parquet")


def test_an_error_is_told_in_one_line_and_one_without_words_by_its_kind() -> None:
    path = Path("a.parquet")
    assert "(first)" in str(unreadable(path, ValueError("first\nsecond")))
    assert "(EOFError)" in str(unreadable(path, EOFError()))


# --- the manifest ---------------------------------------------------------------------------------


def test_the_manifest_tells_what_days_were_made_from(files: DayFolder) -> None:
    assert files.made_from() == ALL
    assert list(json.loads(manifest_path(files).read_text())) == [day.isoformat() for day in ALL]


def test_the_manifest_is_believed_without_looking_into_files(files: DayFolder) -> None:
    for day in ALL:
        files.path(day).write_bytes(b"")
    assert files.made_from() == ALL


def test_a_day_whose_file_is_gone_is_not_known(files: DayFolder) -> None:
    files.path(DAY).unlink()
    assert set(files.made_from()) == {day_number(1), day_number(2)}


@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[]", b"null", b'{"monday": "print"}', b"\xff\xfe", b'["2014-01-01"]'],
)
def test_a_manifest_gone_or_damaged_is_made_again_from_the_files(
    files: DayFolder, content: bytes | None
) -> None:
    whole = manifest_path(files).read_bytes()
    if content is None:
        manifest_path(files).unlink()
    else:
        manifest_path(files).write_bytes(content)
    assert files.made_from() == ALL
    with files.updating() as manifest:
        assert manifest.known == ALL
    assert manifest_path(files).read_bytes() == whole


def test_damaged_files_are_left_out_of_a_manifest_made_from_files(files: DayFolder) -> None:
    manifest_path(files).unlink()
    files.path(DAY).write_bytes(b"PAR1")
    pq.write_table(foreign(None), files.path(day_number(2)))
    assert files.made_from() == {day_number(1): said_of(1)}


def test_only_the_days_to_keep_stay(files: DayFolder) -> None:
    with files.updating() as manifest:
        assert manifest.keep_only([day_number(1), day_number(9)]) == 2
        assert set(manifest.known) == {day_number(1)}
    assert files.days() == (day_number(1),)
    assert list(json.loads(manifest_path(files).read_text())) == ["2014-01-01"]


def test_a_file_that_the_manifest_has_not_yet_is_removed_too(files: DayFolder) -> None:
    files.write(day_number(5), TABLE, {"fingerprint": said_of(5)})  # killed before it was noted
    with files.updating() as manifest:
        assert manifest.keep_only(ALL) == 1
    assert files.days() == tuple(ALL)


def test_where_nothing_is_to_be_removed_nothing_is_written(files: DayFolder) -> None:
    manifest_path(files).unlink()
    assert DayManifest(files).keep_only(ALL) == 0
    assert not manifest_path(files).exists()


def test_a_folder_without_files_has_an_empty_manifest(tmp_path: Path) -> None:
    files = DayFolder(tmp_path / "deep" / "days")
    assert files.made_from() == {}
    assert not files.folder.exists()
    with files.updating() as manifest:
        assert manifest.known == {}
    assert files.folder.is_dir()


def test_who_updates_is_alone(files: DayFolder) -> None:
    with (files.folder / ".lock").open("ab") as other:
        with files.updating(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_update_that_fails_lets_the_next_one_in(files: DayFolder) -> None:
    with pytest.raises(RuntimeError, match="failed"), files.updating():
        raise RuntimeError("failed")
    with files.updating() as manifest:
        assert manifest.known == ALL
