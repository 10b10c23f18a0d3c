"""Checksums: a changed bit is noticed, a killed process is no damage."""

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest

from gdelphi.common import checksums
from gdelphi.common.checksums import (
    CHECKSUMS,
    blocks_within,
    damaged_files,
    file_states,
    forget_file,
    is_damaged,
    note_blocks,
    note_file,
    read_checksums,
    remove_file,
)
from gdelphi.common.files import atomic_write, write_text_atomically
from helpers.edited import flip_bit


def states(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): state for path, state in file_states(folder)}


def test_every_flipped_bit_is_noticed_in_files_and_in_the_list_itself(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for number in range(3):
        write_text_atomically(folder / f"file-{number}", f"content {number}\n" * 3)
        write_text_atomically(folder / f"file-{number}", f"content {number} again\n" * 3)
    assert set(states(folder).values()) == {"sound"}
    rng = random.Random(1)
    for path in (folder / "file-1", folder / CHECKSUMS):
        content = path.read_bytes()
        for _ in range(60):
            flip_bit(path, rng.randrange(len(content)), rng.randrange(8))
            assert set(states(folder).values()) - {"sound"}, "a flipped bit went unnoticed"
            path.write_bytes(content)
    assert set(states(folder).values()) == {"sound"}


def test_a_process_killed_between_the_line_and_the_file_leaves_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text_atomically(path, "old")
    part = tmp_path / ".file.part"
    part.write_text("new")
    note_file(path, part)  # and here it is killed
    assert not is_damaged(path)
    part.replace(path)
    assert not is_damaged(path)
    path.write_text("neither")
    assert is_damaged(path) and damaged_files(tmp_path) == [path]


def test_a_line_that_was_cut_off_costs_no_other_line(tmp_path: Path) -> None:
    write_text_atomically(tmp_path / "one", "1")
    write_text_atomically(tmp_path / "two", "2")
    listed = tmp_path / CHECKSUMS
    os.truncate(listed, listed.stat().st_size - 5)
    write_text_atomically(tmp_path / "three", "3")
    read = read_checksums(tmp_path)
    assert set(read.digests) == {"one", "three"} and read.bad_lines == (2,)
    assert states(tmp_path) == {
        CHECKSUMS: "bad list", "one": "sound", "two": "unknown", "three": "sound"
    }  # fmt: skip
    assert damaged_files(tmp_path) == [], "a file without a line is as from an earlier version"


def test_what_is_removed_on_purpose_is_not_missing(tmp_path: Path) -> None:
    for name in ("kept", "removed", "lost", "growing"):
        write_text_atomically(tmp_path / name, name)
    remove_file(tmp_path / "removed")
    (tmp_path / "lost").unlink()
    forget_file(tmp_path / "growing")
    (tmp_path / "growing").write_text("line after line")
    assert states(tmp_path) == {
        CHECKSUMS: "sound", "kept": "sound", "lost": "missing", "growing": "unknown"
    }  # fmt: skip


def test_a_folder_takes_its_checksums_along_and_damage_is_not_copied_as_sound(
    tmp_path: Path,
) -> None:
    with atomic_write(tmp_path / "model") as part:
        (part / "space").mkdir(parents=True)
        (part / "weights").write_text("1 2 3")
        (part / "space" / "axes").write_text("4 5 6")
    assert damaged_files(tmp_path / "model") == []
    (tmp_path / "model" / "space" / "axes").write_text("4 5 7")
    with atomic_write(tmp_path / "copy") as part:
        shutil.copytree(tmp_path / "model", part)
        (part / "added").write_text("by whoever copied")
    assert damaged_files(tmp_path / "copy") == [tmp_path / "copy" / "space" / "axes"]
    assert states(tmp_path / "copy")["added"] == "sound"
    assert damaged_files(tmp_path / "copy", skip=("space",)) == []


@pytest.mark.parametrize("name", ["Zürich.json", "two  spaces", "back\\slash", "tab\there"])
def test_any_name_can_be_noted(tmp_path: Path, name: str) -> None:
    write_text_atomically(tmp_path / name, "x")
    assert states(tmp_path) == {CHECKSUMS: "sound", name: "sound"}


# --- files that are added to ----------------------------------------------------------------------


def test_blocks_of_a_file_are_checked_and_what_was_added_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "BLOCK", 8)
    path = tmp_path / "column.bin"
    content = bytes(range(20))
    path.write_bytes(content)
    note_blocks(path, {})
    noted = read_checksums(tmp_path).blocks["column.bin"]
    assert list(noted) == [(0, 8), (8, 16), (16, 20)]
    path.write_bytes(content + b"more")
    assert not is_damaged(path) and damaged_files(tmp_path) == []
    for place in range(20):
        wrong = bytearray(content)
        wrong[place] ^= 1
        path.write_bytes(wrong)
        assert is_damaged(path) and damaged_files(tmp_path) == [path]
    path.write_bytes(content[:-1])
    assert is_damaged(path)
    path.unlink()
    assert dict(file_states(tmp_path))[path] == "missing"
    forget_file(path)
    assert path not in dict(file_states(tmp_path))


@pytest.mark.parametrize("size", [0, 3, 8, 13, 16, 20])
def test_blocks_are_taken_over_if_the_last_of_them_is_sound(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "BLOCK", 8)
    path = tmp_path / "column.bin"
    path.write_bytes(bytes(range(20)))
    note_blocks(path, {})
    noted = read_checksums(tmp_path).blocks["column.bin"]
    within = blocks_within(path, noted, size)
    assert within == {place: digest for place, digest in noted.items() if place[1] <= size}
    if size % 8:
        wrong = bytearray(range(20))
        wrong[size - 1] ^= 1
        path.write_bytes(wrong)
        assert blocks_within(path, noted, size) is None
    assert blocks_within(path, {}, size) == (None if size % 8 else {})


def test_known_blocks_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "BLOCK", 8)
    path = tmp_path / "column.bin"
    path.write_bytes(bytes(20))
    note_blocks(path, {(0, 8): "from before", (8, 12): "shorter"})
    noted = read_checksums(tmp_path).blocks["column.bin"]
    assert noted[0, 8] == "from before"
    assert noted[8, 16] == hashlib.sha256(bytes(8)).hexdigest()
    assert is_damaged(path)  # what is taken over is still held to what it was
