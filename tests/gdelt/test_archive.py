"""Archives: what lists and folders say."""

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gdelphi.common.errors import (
    ArchiveError,
    FileMissing,
    FileRefused,
)
from gdelphi.common.sections import IngestSettings
from gdelphi.gdelt.archive import (
    FolderArchive,
    HttpArchive,
    Listing,
    open_archive,
    read_filesizes,
    read_master_list,
    read_md5sums,
)
from gdelphi.gdelt.file_names import gaps
from helpers.archives import ArchiveMaker, event_lines

PLAIN = IngestSettings()
DAY = date(2014, 1, 1)


def no_bytes(_: int) -> None:
    pass


def test_lists_of_the_first_archive_are_joined_by_name() -> None:
    listing = Listing()
    read_md5sums("f6fcb7e955e35f93c9dae427c07b545d  2005.zip\nnonsense\n", listing)
    read_filesizes("14276482 2005.zip\n10 20130401.export.CSV.zip\n\n", listing)
    assert listing.files["2005.zip"].size == 14276482
    assert listing.files["2005.zip"].md5 == "f6fcb7e955e35f93c9dae427c07b545d"
    assert listing.files["20130401.export.CSV.zip"].md5 is None
    assert listing.damaged_lines == 1


def test_the_master_list_gives_names_whatever_the_site() -> None:
    md5 = "889194abf3170bb946113e012756d64c"
    stem = "http://data.gdeltproject.org/gdeltv2/20250516020000"
    listing = Listing()
    read_master_list(
        f"81821 {md5} {stem}.export.CSV.zip\n81821 {md5} {stem}.mentions.CSV.zip\n"
        f"{md5} {stem}.gkg.csv.zip\n81821 {stem}.export.CSV.zip\n",
        listing,
    )
    assert list(listing.files) == ["20250516020000.export.CSV.zip"]
    assert listing.passed_over.total() == 2
    assert listing.damaged_lines == 1


BAD_SIZES = ["²", "１２", "-1", "1.5", "9" * 5000, "0x10", "\0"]


@pytest.mark.parametrize("size", BAD_SIZES, ids=range(len(BAD_SIZES)))
def test_a_size_that_is_no_number_is_a_damaged_line(size: str) -> None:
    md5 = "889194abf3170bb946113e012756d64c"
    listing = Listing()
    read_filesizes(f"{size} 20130401.export.CSV.zip\n5 20130402.export.CSV.zip\n", listing)
    assert (list(listing.files), listing.damaged_lines) == (["20130402.export.CSV.zip"], 1)
    listing = Listing()
    name = "20150516020000.export.CSV.zip"
    read_master_list(f"{size} {md5} http://a.example/{name}\n5 {md5} {name}\n", listing)
    assert (list(listing.files), listing.damaged_lines) == ([name], 1)


@pytest.mark.parametrize(
    "line",
    [
        "z" * 32 + "  20130401.export.CSV.zip",
        "²" * 32 + "  20130401.export.CSV.zip",
        "f6fcb7e955e35f93c9dae427c07b545d  2O130401.export.CSV.zip",
        "f6fcb7e955e35f93c9dae427c07b545d  20131301.export.CSV.zip",
        "f6fcb7e955e35f93c9dae427c07b545d  99991231234500.export.CSV.zip",
        "f6fcb7e955e35f93c9dae427c07b545d  ../../20130401.export.CSV.zip",
        "\ufffd\0\ufffd",
    ],
)
def test_a_checksum_or_name_that_is_none_is_a_damaged_line(line: str) -> None:
    listing = Listing()
    read_md5sums(f"{line}\nf6fcb7e955e35f93c9dae427c07b545d  2005.zip\n", listing)
    assert (list(listing.files), listing.damaged_lines) == (["2005.zip"], 1)
    assert not list(gaps(list(listing.files.values()), None, None))


@pytest.mark.parametrize("read", [read_md5sums, read_filesizes, read_master_list])
def test_no_list_is_an_exception_whatever_stands_in_it(
    read: Callable[[str, Listing], None],
) -> None:
    rng = random.Random(7)
    md5, name = "889194abf3170bb946113e012756d64c", "20150516020000.export.CSV.zip"
    odd = "²①٣五\0\x1c\u2028\ufffd /.-_*9\t"
    for _ in range(500):
        line = list(f"81821 {md5} http://a.example/{name}"[rng.choice([0, 6, 39]) :])
        for _ in range(rng.randrange(6)):
            line[rng.randrange(len(line))] = rng.choice(odd)
        listing = Listing()
        read("".join(line) + "\n", listing)
        assert all(file.size is None or file.size >= 0 for file in listing.files.values())
        list(gaps(list(listing.files.values()), None, None))


def test_the_real_lists_of_forty_years_are_read_whole(shared_data: Path) -> None:
    listing = FolderArchive(shared_data / "odd").list_files(PLAIN)
    listed = [file for file in listing.files.values() if file.listed]
    assert len(listed) == 2939  # 2940 lines, one of them MASTERREDUCEDV2
    assert all(file.size and file.md5 for file in listed)
    assert listing.damaged_lines == 0
    assert listing.unknown == ["mixed-57-and-58-columns.csv"]
    assert "20130401-excerpt.export.CSV.zip" in listing.files
    assert dict(listing.passed_over) == {
        "mentions and knowledge-graph files": 1,
        "MASTERREDUCEDV2 files (--reduced reads them)": 2,
    }


def test_a_folder_without_lists_is_looked_through(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "a")
    maker.day(DAY, event_lines([1], DAY))
    (maker.folder / "holiday.zip").write_bytes(b"")
    listing = FolderArchive(maker.folder).list_files(PLAIN)
    assert list(listing.files) == ["20140101.export.CSV.zip"]
    assert not listing.files["20140101.export.CSV.zip"].listed
    assert listing.unknown == ["holiday.zip"]


def test_translated_and_reduced_files_come_only_when_asked_for(tmp_path: Path) -> None:
    for name in ("20190121220000.translation.export.CSV.zip", "GDELT.MASTERREDUCEDV2.zip"):
        (tmp_path / name).write_bytes(b"")
    archive = FolderArchive(tmp_path)
    assert not archive.list_files(PLAIN).files
    assert len(archive.list_files(IngestSettings(translated=True, reduced=True)).files) == 2


def test_a_listed_file_must_have_the_listed_bytes(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "a")
    path = maker.day(DAY, event_lines([1, 2], DAY))
    maker.write_lists()
    archive = FolderArchive(maker.folder)
    file = archive.list_files(PLAIN).files[path.name]
    assert archive.fetch(file, no_bytes).path == path
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(FileRefused, match="bytes where the list says"):
        archive.fetch(file, no_bytes)
    path.write_bytes(content[:-1] + b"!")
    with pytest.raises(FileRefused, match="md5"):
        archive.fetch(file, no_bytes)
    path.unlink()
    with pytest.raises(FileMissing, match="is listed but not in"):
        archive.fetch(file, no_bytes)


def test_an_archive_is_a_url_or_a_folder(tmp_path: Path) -> None:
    site = open_archive(IngestSettings(archive="gdelt2"))
    assert isinstance(site, HttpArchive)
    assert site.label == "http://data.gdeltproject.org/gdeltv2/"
    site.close()
    assert isinstance(open_archive(IngestSettings(archive=str(tmp_path))), FolderArchive)
    with pytest.raises(ArchiveError, match="neither a folder nor an http"):
        open_archive(IngestSettings(archive=str(tmp_path / "absent")))


def test_single_files_lie_in_one_folder(tmp_path: Path) -> None:
    for name in ("a/x.csv", "b/y.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    with pytest.raises(ArchiveError, match="several folders"):
        open_archive(PLAIN, [tmp_path / "a/x.csv", tmp_path / "b/y.csv"])
    with pytest.raises(ArchiveError, match="no file at"):
        open_archive(PLAIN, [tmp_path / "a/z.csv"])


@pytest.mark.slow
def test_a_list_as_long_as_the_real_one_is_planned_without_stalling() -> None:
    """350,400 quarter hours, as GDELT 2.0 has after ten years, with one of them missing."""
    moment = datetime(2015, 2, 19)
    md5 = "889194abf3170bb946113e012756d64c"
    lines = []
    for slot in range(350_400):
        if slot != 200_000:
            lines.append(f"1 {md5} http://a.example/{moment:%Y%m%d%H%M%S}.export.CSV.zip")
        moment += timedelta(minutes=15)
    listing = Listing()
    read_master_list("\n".join(lines), listing)
    files = sorted(listing.files.values(), key=lambda file: file.name)
    assert len(files) == 350_399
    assert len(list(gaps(files, None, None))) == 1
