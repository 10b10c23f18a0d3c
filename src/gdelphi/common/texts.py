"""Texts of others made harmless: what comes from files passes here before a terminal, a page or a
spreadsheet gets it.

Dropped are characters that no reader sees and some programs obey: control characters other than tab
and newline (an ESC lets a text write anywhere on a terminal), halves of surrogate pairs, U+FFFE and
U+FFFF, which are not allowed in XML, and marks that turn the reading direction of what follows, by
which "exe.gpj" reads "jpg.exe". Zero-width joiners stay: some scripts need them.
"""

from typing import Any, Final

DIRECTION: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_DROPPED: Final = {
    code: None
    for code in (
        *range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF, *DIRECTION
    )
    if chr(code) not in "\t\n"
}  # fmt: skip
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""beginnings that a spreadsheet may obey, their wide forms too"""


CODE: Final = "cameo-"
"""before a code of an event in CSV: a reader takes 010 for the number 10, which is another event"""


def clean(text: str) -> str:
    """A text without characters that are obeyed and not read."""
    return text.translate(_DROPPED)


def guarded(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return value
