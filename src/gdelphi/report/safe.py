"""What has to happen to text from news before it stands on a page.

Escaping is the template engine's work (jinja2 with autoescape) and, in the browser, of textContent.
Here is what escaping does not do: characters that turn the reading direction of what follows, names
of ten thousand letters, links that are programs, and JSON inside a script element.
"""

import json
import re
from typing import Any, Final
from urllib.parse import quote, urlsplit

from markupsafe import Markup, escape

LONGEST: Final = 160
LONGEST_ADDRESS: Final = 2000
# explicit embeddings, overrides, isolates and marks of direction; zero-width joiners stay, some
# scripts need them; U+2028 and U+2029 end lines in script
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_UNSAFE_ADDRESS = re.compile(r"[\s\x00-\x1f\x7f-\x9f<>\"'`\\^{|}]")
_IN_SCRIPT = str.maketrans({c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")})


def clean(text: object, limit: int = LONGEST) -> str:
    """One line of harmless text, cut at `limit` characters."""
    plain = _SPACE.sub(" ", _DIRECTION.sub("", str(text)[: 20 * limit])).strip()
    plain = plain.encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def ticked(text: str, limit: int = LONGEST) -> Markup:
    """Harmless text as markup, with what stands between backticks as code."""
    parts = clean(text, limit).split("`")
    if len(parts) % 2 == 0:
        return escape(clean(text, limit))
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


def anchor(stream: str) -> str:
    """A stream's place on the page, for the end of an address."""
    return "#" + quote(stream, safe="")


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_IN_SCRIPT))  # noqa: S704 - all that could be markup is escaped
