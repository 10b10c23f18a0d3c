"""The short forms of the campaigns in benchmarks/: what they do at length is done here in small."""

import importlib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from helpers.archives import ArchiveMaker, content_of, event_lines, settings_for


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module


@pytest.fixture
def fuzz(campaign: Callable[[str], Any]) -> Any:
    return campaign("fuzz")


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


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (".html", "<p><img src=x></p>", "<img>"),
        (".html", "<p onload='x()'>", "onload"),
        (".html", "<a href='javascript:x()'>x</a>", "javascript"),
        (".html", "<script>evil()</script>", "a program"),
        (".html", '<script type="application/json">[{"address":"data:x"}]</script>', "a link to"),
        (".md", "a <b>", "markup"),
        (".md", "[a](b)", "a link"),
        (".md", "# evil", "evil"),
        (".md", "| a | b |\n|---|---|\n| c |\n", "several lengths"),
        (".csv", "a,b\r\n=1,2\r\n", "could not convert"),
        (".csv", "a,b\r\n1\r\n", "rows of several lengths"),
        (".svg", "<svg><script/></svg>", "script"),
        (".json", "NaN", "NaN"),
    ],
)
def test_what_is_hostile_in_a_page_is_found(
    campaign: Callable[[str], Any], kind: str, text: str, found: str
) -> None:
    with pytest.raises((AssertionError, ValueError), match=found):
        campaign("fuzz_pages").CHECKS[kind](text)


@pytest.mark.slow
def test_commands_are_killed_at_moments_of_their_work_and_end_alike(
    campaign: Callable[[str], Any], tmp_path: Path
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(1, 9):
        day = date(2014, 1, number)
        maker.day(day, event_lines(range(1000 * number, 1000 * number + 300), day))
    maker.write_lists()
    server = campaign("command_server").CommandServer(tmp_path / "output.log")

    def ingest(store: str, kill_after: float | None = None) -> Any:
        words = ["ingest", "--store", str(tmp_path / store), "--archive", str(maker.folder)]
        return server.run(words, kill_after)

    calm = ingest("calm.duckdb")
    assert not calm.killed and calm.code == 0, calm.output
    struck = [ingest("killed.duckdb", calm.seconds * part / 8).killed for part in range(8)]
    assert struck[0] and sum(struck) > 2
    assert ingest("killed.duckdb").code == 0
    contents = [
        content_of(settings_for(tmp_path / f"{name}.duckdb", maker.folder))
        for name in ("calm", "killed")
    ]
    assert contents[0] == contents[1]
    wrong = server.run(["ingest", "--archive", str(tmp_path / "nowhere")])
    assert wrong.code and "Traceback" not in wrong.output
    server.close()
