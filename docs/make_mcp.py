"""Writes the session of docs/mcp.md: a client of the `mcp` package talks to `gdelphi mcp`.

    make demo
    python docs/make_mcp.py

A test holds the same session on a smaller world.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mcp import Client, StdioServerParameters

PAGE: Final = Path(__file__).with_name("mcp.md")
CONFIG: Final = "data/demo/gdelphi.toml"
BEGIN, END = "<!-- session -->\n", "<!-- end of the session -->\n"
LONGEST: Final = 900  # characters of an answer that are shown
Asked = tuple[str, dict[str, Any]]
SESSION: Final[tuple[Asked, ...]] = (
    ("status", {}),
    ("probabilities", {"event": "conflict", "limit": 2}),
    ("explain", {"country": "{country}", "event": "{code}"}),
    ("reported_events", {"day": "{day}", "country": "{country}", "limit": 1}),
    ("scores", {}),
    ("probabilities", {"countries": ["Atlantis"]}),
)
"""what is asked; {country}, {code} and {day} come from the answers before"""


async def hold_session(config: Path | str) -> list[str]:
    """The session as lines of text."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "gdelphi", "mcp", "--config", str(config)]
    )
    known: dict[str, str] = {}
    lines: list[str] = []
    async with Client(command, read_timeout_seconds=600) as client:
        if info := client.server_info:
            lines.append(f"connected to {info.name} {info.version}")
        tools = (await client.list_tools()).tools
        lines.append(f"tools: {', '.join(tool.name for tool in tools)}")
        for name, asked in SESSION:
            given = {key: _filled(value, known) for key, value in asked.items()}
            answer = await client.call_tool(name, given)
            content = answer.structured_content
            text = _short(content) if content and not answer.is_error else _texts(answer.content)
            words = "refused" if answer.is_error else "answered"
            lines += ["", f"> {name} {json.dumps(given)}", f"{words}: {text}"]
            if content:
                known |= _learned(content)
    return lines


def _filled(value: Any, known: dict[str, str]) -> Any:
    return value.format(**known) if isinstance(value, str) else value


def _learned(content: dict[str, Any]) -> dict[str, str]:
    if content.get("latest_complete_day"):
        return {"day": content["latest_complete_day"]}
    row = next(iter(content.get("rows", [])), {})
    return {"country": row["country"], "code": row["code"]} if "published" in row else {}


def _short(content: dict[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _texts(content: Sequence[Any]) -> str:
    return " ".join(part.text for part in content)


def main() -> None:
    """Write the session into the page."""
    lines = asyncio.run(hold_session(CONFIG))
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    block = "```text\n" + "\n".join(lines) + "\n```\n"
    PAGE.write_text(f"{before}{BEGIN}{block}{END}{after}", encoding="utf-8")
    print(f"wrote {PAGE}")  # noqa: T201


if __name__ == "__main__":
    main()
