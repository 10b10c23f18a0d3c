"""Files are whole or not there."""

import hashlib
import os
import shutil
from pathlib import Path
from unittest import mock

import pytest

from gdelphi.common.files import (
    atomic_write,
    file_digest,
    remove_folder,
    remove_left_over,
    text_digest,
    weights_digest,
    write_json_atomically,
    write_text_atomically,
)


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic_write(path) as part:
        part.write_text("whole")
        assert not path.exists() and part.parent == path.parent
    assert path.read_text() == "whole"
    assert {each.name for each in path.parent.iterdir()} == {"file", "checksums.txt"}


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_takes_its_place_as_a_whole(tmp_path: Path) -> None:
    left_behind = tmp_path / f".model.{os.getpid()}.part"
    left_behind.mkdir()
    (left_behind / "old").write_text("of a process that was killed")
    with atomic_write(tmp_path / "model") as part:
        part.mkdir()
        (part / "weights").write_text("1")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert {each.name for each in (tmp_path / "model").iterdir()} == {"weights", "checksums.txt"}


def test_a_folder_goes_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    for _ in range(2):
        folder.mkdir()
        (folder / "weights").write_text("1")
        remove_folder(folder)
        remove_folder(folder)  # not there any more
        assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    monkeypatch.setattr(shutil, "rmtree", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        remove_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == [f".model.old.{os.getpid()}.part"]


def test_what_killed_processes_left_is_told_from_what_others_are_at(tmp_path: Path) -> None:
    gone = 2**22 + 1  # more than any number of a process
    for name in (f".a.{gone}.part", f".a.old.{gone}.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    (tmp_path / f".file.{gone}.part").touch()
    kept = {f".b.{os.getppid()}.part", ".current.part", f"{gone}.part", f".c.{gone}", "model"}
    for name in kept:
        (tmp_path / name).mkdir()
    remove_left_over(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept
    remove_left_over(tmp_path / "nowhere")


def test_text_and_json(tmp_path: Path) -> None:
    write_text_atomically(tmp_path / "a", "Zürich")
    assert (tmp_path / "a").read_bytes() == "Zürich".encode()
    write_json_atomically(tmp_path / "b", {"a": [1]}, indent=None)
    assert (tmp_path / "b").read_text() == '{"a": [1]}\n'


def test_digests_are_those_of_sha256(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    whole = hashlib.sha256(b"weights").hexdigest()
    assert file_digest(tmp_path / "model.safetensors") == whole
    assert weights_digest(tmp_path) == text_digest("weights") == whole[:16]
