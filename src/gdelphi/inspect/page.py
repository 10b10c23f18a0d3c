"""The page of an inspection: one HTML file without any script, in the style of the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from gdelphi.inspect.drawing import draw, legend
from gdelphi.inspect.result import PartResult
from gdelphi.report.page import page_environment, page_policy

STYLES = (("gdelphi.report", "base.css"), ("gdelphi.inspect", "inspect.css"))


@dataclass(frozen=True)
class InspectedPart:
    """A part with what it found, or why it found nothing."""

    number: int
    title: str
    result: PartResult | None
    reason: str
    """why there is no result"""
    seconds: float

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        head = {"number": self.number, "title": self.title, "seconds": self.seconds}
        if self.result is None:
            return {**head, "not_applicable": self.reason}
        return {**head, **self.result.plain()}


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment("gdelphi.inspect", "gdelphi.report")
    environment.filters |= {"draw": draw, "legend": legend}
    return environment


def render(
    model: str, facts: Sequence[tuple[str, str]], parts: Sequence[InspectedPart], made: str
) -> str:
    """The page."""
    style = "\n".join(
        (resources.files(package) / "templates" / name).read_text(encoding="utf-8")
        for package, name in STYLES
    )
    return (
        _environment()
        .get_template("inspect.html")
        .render(
            style=Markup(style),  # noqa: S704 - the package's own text
            script=None,
            policy=page_policy(style, None),
            model=model,
            facts=facts,
            parts=parts,
            made=made,
        )
    )
