"""Which texts a writer answers: questions alone.

A reader that opens the file has a DuckDB of its own, and what it sets or loads there is its own
affair. Here it asks in the DuckDB of the writer. That one is shut off from files, and a session is
inside a transaction that reads only; but neither keeps a text from ending that transaction, from
setting what holds for all connections, or from calling functions that do something. So every
statement must be a SELECT (as DESCRIBE, SHOW, SUMMARIZE and FROM are to DuckDB) or an EXPLAIN of
one, and every function that it takes rows from one of those named here: a list of what is known to
be harmless, since nobody knows what the next DuckDB brings. The parser that judges is DuckDB's own.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import duckdb

ANSWERED: Final = {"SELECT", "EXPLAIN"}
ROW_FUNCTIONS: Final = {
    "generate_series", "histogram", "histogram_values", "icu_calendar_names", "json_each",
    "json_tree", "pg_timezone_names", "range", "repeat", "repeat_row", "summary", "test_all_types",
    "test_vector_types", "unnest",
}  # fmt: skip
DESCRIBING: Final = ("duckdb_", "pragma_")
"""how the names of functions begin that tell of the database"""
REMEMBERED: Final = 512  # texts that were looked at, since readers ask the same again
_HARMLESS: Final[set[str]] = set()
_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\([^()]*\))?", re.IGNORECASE)


def why_not(duck: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    """Why a text is not answered; None if it is. Raises DuckDB's error if it is no SQL."""
    for statement in duck.extract_statements(sql):
        kind, text = statement.type.name, statement.query
        if kind not in ANSWERED:
            return _only_questions(f"not {kind}")
        if kind == "EXPLAIN":
            begin = _EXPLAIN.match(text)
            text = text[begin.end() :] if begin else ""
        reason = _odd_part(duck, text)
        if reason:
            return _only_questions(reason)
    return None


def _only_questions(reason: str) -> str:
    return (
        "beside a writer that has the store a query may be SELECT, FROM, DESCRIBE, SHOW, SUMMARIZE "
        f"or EXPLAIN of these, {reason}: ask so, or with store_serve_reads = false "
        "(GDELPHI_STORE_SERVE_READS=false) wait for its turn"
    )


def _odd_part(duck: duckdb.DuckDBPyConnection, select: str) -> str | None:
    """What of a SELECT statement is not known to be harmless."""
    if select in _HARMLESS:
        return None
    row = duck.execute("SELECT json_serialize_sql(?)", [select]).fetchone()
    parsed = json.loads(row[0]) if row else {"error": True}
    if parsed["error"]:
        return "and not of a kind that DuckDB cannot take apart"
    for name in _row_functions(parsed):
        if name not in ROW_FUNCTIONS and not name.startswith(DESCRIBING):
            return f"not with {name}()"
    if len(_HARMLESS) >= REMEMBERED:
        _HARMLESS.clear()
    _HARMLESS.add(select)
    return None


def _row_functions(node: Any) -> Iterator[str]:
    """The names of the functions in a parsed statement that rows are taken from."""
    if isinstance(node, list):
        for item in node:
            yield from _row_functions(item)
    elif isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield str(node["function"].get("function_name")).lower()
        for item in node.values():
            yield from _row_functions(item)
