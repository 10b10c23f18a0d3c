"""The short forms of the campaigns in benchmarks/: what they do at length is done here in small."""

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module("fuzz")


def test_nothing_that_comes_from_outside_breaks_anything(
    fuzz: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzz.fuzz_all(tmp_path, 60, seed=1) == 0, capsys.readouterr().out


def test_a_campaign_tells_what_it_finds(
    fuzz: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = fuzz.Fuzz(tmp_path)
    monkeypatch.setattr(fuzz, "TEXT", b"not what was packed")
    monkeypatch.setattr(fuzz, "damaged", lambda content, _: content)
    assert fuzz.run_cases("zip", maker.fuzz_zip, 2, 0) == 2
    assert "other bytes than were packed" in capsys.readouterr().out
