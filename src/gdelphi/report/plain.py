"""Text and numbers made plain and safe: what comes from data passes here before it is shown.

Content (report.json) keeps a text's characters, since escaping is the work of whoever shows it, but
for those that no reader can see and some programs obey (`common/texts.py`). Numbers are rounded:
five digits after the point say more than a probability can, and a page of 50 countries carries
fifty thousand of them.

On a page, escaping is the template engine's work (jinja2 with autoescape) and, in the browser, that
of textContent. The rest is done here: characters that turn the reading direction of what follows,
names of ten thousand letters, links that are programs, and JSON inside a script element.
"""

import json
import math
import re
from typing import Any, Final
from urllib.parse import quote, urlsplit

from markupsafe import Markup, escape

from gdelphi.common.texts import DIRECTION
from gdelphi.common.texts import clean as clean
from gdelphi.gdelt.cameo import event_codes

DIGITS: Final = 5
LONGEST: Final = 160
LONGEST_ADDRESS: Final = 2000
_DIRECTION = re.compile(f"[{''.join(map(chr, DIRECTION))}]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_UNSAFE_ADDRESS = re.compile(r"[\s\x00-\x1f\x7f-\x9f<>\"'`\\^{|}]")
_IN_SCRIPT = str.maketrans({c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")})


# --- content --------------------------------------------------------------------------------------


AGAINST: Final = {"last forecast": "a day ago", "usual": "usually on such a day"}
"""what a change is a change from, in words"""


def clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)


def number(value: Any, digits: int = DIGITS) -> float | None:
    """A finite number, rounded; None for what is none."""
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), digits)


def label_of(code: str) -> str:
    """What an event is called."""
    event = event_codes().get(code)
    return event.label if event else f"unlisted code {clean(code)}"


def counted(amount: int, thing: str) -> str:
    """1 day, 2 days."""
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"


# --- the page -------------------------------------------------------------------------------------


def one_line(text: object, limit: int = LONGEST) -> str:
    """One line of harmless text, cut at `limit` characters: what a page shows."""
    plain = _SPACE.sub(" ", _DIRECTION.sub("", str(text)[: 20 * limit])).strip()
    plain = plain.encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def with_code(text: str, limit: int = LONGEST) -> Markup:
    """One line of harmless text as markup, with what stands between backticks as code."""
    parts = one_line(text, limit).split("`")
    if len(parts) % 2 == 0:
        return escape(one_line(text, limit))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def web_address(source: str | None) -> str | None:
    """A source as an address to link to, if it is a whole http(s) one and nothing else."""
    if not source or len(source) > LONGEST_ADDRESS:
        return None
    if _UNSAFE_ADDRESS.search(source) or _DIRECTION.search(source):
        return None
    try:
        parts = urlsplit(source)
        host = parts.hostname
    except ValueError:
        return None
    return source if parts.scheme in ("http", "https") and host else None


def host_of(address: str) -> str:
    """The site of an address, as a reader knows it."""
    return (urlsplit(address).hostname or address).removeprefix("www.")


def anchor(stream: str) -> str:
    """A stream's place on the page, for the end of an address."""
    return "#" + quote(stream, safe="")


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_IN_SCRIPT))  # noqa: S704 - all that could be markup is escaped
