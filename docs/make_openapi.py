"""Writes docs/openapi.json, the schema of the HTTP API; a test checks that it is up to date."""

import json
from pathlib import Path

from gdelphi.api.server import make_app
from gdelphi.common.settings import Settings

PAGE = Path(__file__).with_name("openapi.json")


def schema() -> str:
    """As `/api/openapi.json` gives it."""
    content = make_app(Settings(store=Path("none.duckdb"))).openapi()
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(schema(), encoding="utf-8")
    print(f"wrote {PAGE}")  # noqa: T201
