"""The questions as tools: asked by a real client, in this process and over pipes."""

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from gdelphi.api.tools import make_tools
from gdelphi.common.errors import StoreBusy
from gdelphi.common.settings import Settings
from gdelphi.questions.questions import Questions
from helpers.question_world import FIRST, ORIGINS, world

__all__ = ["world"]

ROOT = Path(__file__).parents[2]
TOOLS = {
    "status", "countries", "events_known", "forecasts", "reported_events", "probabilities",
    "explain", "futures", "scores", "outcomes",
}  # fmt: skip


def ask(settings: Settings, *questions: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers to several questions in one session within this process."""

    async def talk() -> list[Any]:
        async with Client(make_tools(settings)) as client:
            return [await client.call_tool(name, given) for name, given in questions]

    return asyncio.run(talk())


def test_tools_are_described_and_change_nothing(world: Settings) -> None:
    async def look() -> Any:
        async with Client(make_tools(world)) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(look())
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.description and tool.output_schema
        assert tool.annotations.read_only_hint and not tool.annotations.destructive_hint


def test_answers_are_those_of_the_questions(world: Settings) -> None:
    questions = Questions(world)
    asked: list[tuple[str, dict[str, Any], Any]] = [
        ("forecasts", {}, questions.forecast_list(limit=20)),
        (
            "probabilities",
            {"countries": ["kenya"], "event": "fight", "horizon": "1"},
            questions.probabilities(
                streams=["KE"], event="19", target="headline", horizon=1, order="above usual",
                limit=20,
            ),
        ),
        ("explain", {"country": "KE", "event": "19"}, questions.explanation("KE", "19", horizon=0)),
        ("futures", {"country": "UP", "week": True}, questions.futures("UP", week=True, limit=5)),
        ("scores", {}, questions.scores()),
        (
            "outcomes",
            {"origin": str(ORIGINS[0])},
            questions.outcomes(
                ORIGINS[0], level="root", target="headline", horizon=1, limit=20
            ),
        ),
        (
            "reported_events",
            {"day": str(FIRST), "country": "WORLD"},
            questions.events(FIRST, "WORLD", limit=20),
        ),
    ]  # fmt: skip
    answers = ask(world, *((name, given) for name, given, _ in asked))
    for (name, _, expected), answer in zip(asked, answers, strict=True):
        assert not answer.is_error, name
        assert answer.structured_content == json.loads(expected.model_dump_json()), name


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("probabilities", {"countries": ["Atlantis"]}, "'Atlantis' is no country's code or name"),
        ("explain", {"country": "KE", "event": "figth"}, "19 (Fight)"),
        ("probabilities", {"horizon": "month"}, "from 1 to 7, or week"),
        ("outcomes", {"origin": "yesterday"}, "not a day like"),
        ("outcomes", {"origin": "2013-01-01"}, "the newest is from 2014-01-03"),
        ("probabilities", {"limit": 5000}, "limit"),
        ("probabilities", {"target": "war"}, "target"),
    ],
)
def test_what_is_no_question_is_refused_in_words(
    world: Settings, name: str, given: dict[str, Any], told: str
) -> None:
    (answer,) = ask(world, (name, given))
    assert answer.is_error and told in answer.content[0].text
    assert str(world.store.parent) not in answer.content[0].text


def test_a_store_that_is_taken_tells_no_paths(
    world: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: Any) -> None:
        raise StoreBusy(f"{world.store} is held by process 1")

    monkeypatch.setattr("gdelphi.questions.news.StoreNews.status", taken)
    (answer,) = ask(world, ("status", {}))
    assert answer.is_error and "ask again later" in answer.content[0].text
    assert str(world.store) not in answer.content[0].text


def test_the_session_of_the_documents_over_pipes(world: Settings, tmp_path: Path) -> None:
    """The command in a process of its own, as a client starts it."""
    config = tmp_path / "gdelphi.toml"
    config.write_text(f'store = "{world.store}"\n')
    script = runpy.run_path(str(ROOT / "docs" / "make_mcp.py"))
    lines = asyncio.run(script["hold_session"](config))
    text = "\n".join(lines)
    assert lines[0].startswith("connected to gdelphi ")
    assert all(tool in lines[1] for tool in TOOLS)
    assert text.count("answered: ") == 5 and text.count("refused: ") == 1
    assert '"verdict": "stale"' in text and "'Atlantis' is no country's code or name" in text
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    for name, _ in script["SESSION"]:
        assert f"> {name} " in page, "python docs/make_mcp.py"
