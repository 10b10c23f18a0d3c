"""The demo: where it may write, and the settings that it leaves. `make demo` is the whole of it."""

import sys
from pathlib import Path

import pytest

from gdelphi.app import demo
from gdelphi.app.commands import demo as demo_command
from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import load_settings


@pytest.mark.parametrize(
    "files",
    [
        {"thesis.tex": "ten years of work"},
        {"gdelphi.toml": "store = 'store.duckdb'", "archive/20250101.export.CSV.zip": "zip"},
        {"gdelphi.toml": "", "archive/a.zip": "", "models/current/model.safetensors": "weights"},
    ],
)
def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(GdelphiError, match=r"not made by `gdelphi demo`.* --out"):
        demo.demo(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in files} == files
    assert not (tmp_path / demo.MARKER).exists()


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / demo.MARKER).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GdelphiError, match="not made by"):
        demo.demo(tmp_path / "link")


def test_an_earlier_demo_makes_room_and_its_links_are_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "demo", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    demo._clear(folder)
    (folder / "archive").mkdir()
    (folder / "linked").symlink_to(outside)
    (folder / "store.duckdb").write_text("old")
    demo._clear(folder)
    assert [path.name for path in folder.iterdir()] == [demo.MARKER]
    assert (outside / "kept").read_text() == "kept"


def test_its_settings_can_be_used_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    made = demo._settings(tmp_path, seed=3)
    assert made == load_settings(tmp_path / demo.CONFIG).settings
    assert made.store == tmp_path / "store.duckdb"
    assert made.flows.models == tmp_path / "models"
    assert made.report.folder == tmp_path / "reports"
    assert (made.train.steps, made.train.seed) == (demo.STEPS, 3)


def test_what_it_tells_to_go_on_with_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "gdelphi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo_command.program() == ".venv/bin/gdelphi"  # as `make demo` calls it
    monkeypatch.setenv("PATH", str(program.parent))
    assert demo_command.program() == "gdelphi"
    monkeypatch.setattr(sys, "argv", ["__main__.py"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo_command.program() == f"{sys.executable} -m gdelphi"
