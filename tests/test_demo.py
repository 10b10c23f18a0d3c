"""The demo: where it may write, and the settings that it leaves. `make demo` is the whole of it."""

from pathlib import Path

import pytest

from gdelphi import demo
from gdelphi.config import load_settings
from gdelphi.errors import GdelphiError


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(GdelphiError, match=r"is not empty and not of a demo: .* --out"):
        demo.demo(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "ten years of work"


def test_an_earlier_demo_makes_room(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "archive").mkdir(parents=True)
    (folder / demo.CONFIG).write_text("")
    (folder / "store.duckdb").write_text("old")
    demo._clear(folder)
    assert list(folder.iterdir()) == []


def test_its_settings_can_be_used_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    made = demo._settings(tmp_path, seed=3)
    assert made == load_settings(tmp_path / demo.CONFIG).settings
    assert made.store == tmp_path / "store.duckdb"
    assert made.flows.models == tmp_path / "models"
    assert made.report.folder == tmp_path / "reports"
    assert (made.train.steps, made.train.seed) == (demo.STEPS, 3)
