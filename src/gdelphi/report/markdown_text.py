"""Text and numbers as Markdown shows them: what comes from data is escaped, so that a name cannot
become a heading, a link or a picture."""

import re
from typing import Final

from gdelphi.common.percent import percent

_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>|~&]|^[-+#])")
_NUMBER: Final = re.compile(r"^(\d+)([.)])(?=\s|$)")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    marked = _MARKS.sub(r"\\\1", " ".join(text.split()))
    return _NUMBER.sub(r"\1\\\2", marked)


def sentence(text: str) -> str:
    """Our own sentences name commands in backquotes: these stay, all else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    escaped = [f"`{part}`" if at % 2 else _escape_part(part) for at, part in enumerate(parts)]
    return "".join(escaped)


def _escape_part(part: str) -> str:
    """Escaped, with its blanks at both ends."""
    return f"{' ' * part.startswith(' ')}{escape(part)}{' ' * (part.endswith(' ') and part != ' ')}"


def shown_percent(value: float) -> str:
    """As everywhere, without opening a tag."""
    return escape(percent(value))


def percent_or_none(value: float | None) -> str:
    """The same, and nothing where there is no number."""
    return "" if value is None else shown_percent(value)
