"""What a reader and the writer that answers it say to each other: JSON, and tables as Arrow.

A message is a JSON object and, if it says so, one table behind it. Nothing is ever unpickled: of
`multiprocessing.connection` only the framing of bytes is used. JSON has fewer kinds of values than
a query may have as parameters, so the others are marked with their kind; results are not values of
JSON but tables, which keep every type of DuckDB's.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection as Bytes
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from gdelphi.common.errors import StoreError

LONGEST: Final = (1 << 31) - 1  # bytes of one message
GONE: Final = (OSError, EOFError)
"""what a channel raises when the other side is no longer there"""


class Message(NamedTuple):
    """What one side says."""

    words: dict[str, Any]
    table: pa.Table | None = None


class Channel:
    """One end of a socket."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        # Its own number for the same socket: closing one does not close the other's.
        self._bytes = Bytes(os.dup(end.fileno()))

    def send(self, words: Mapping[str, Any], table: pa.Table | None = None) -> None:
        self._bytes.send_bytes(json.dumps({**words, "table": table is not None}).encode())
        if table is not None:
            self._bytes.send_bytes(memoryview(_arrow_bytes(table)))

    def receive(self) -> Message:
        """The next message; waits for it."""
        words = json.loads(self._bytes.recv_bytes(LONGEST))
        if not isinstance(words, dict):
            raise EOFError("the other side speaks another language")
        if not words.pop("table", False):
            return Message(words)
        with pa.ipc.open_stream(self._bytes.recv_bytes(LONGEST)) as stream:
            return Message(words, stream.read_all())

    def has_word(self, seconds: float) -> bool:
        """Whether a message, or the end, comes within some seconds."""
        return self._bytes.poll(seconds)

    def hang_up(self, how: int = socket.SHUT_RDWR) -> None:
        """End it for both sides, also while a thread waits on it."""
        with contextlib.suppress(OSError):  # the other side was faster
            self.socket.shutdown(how)

    def close(self) -> None:
        self._bytes.close()
        self.socket.close()


def _arrow_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return sink.getvalue()


# --- parameters -----------------------------------------------------------------------------------

_AS_TEXT: Final[dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    Decimal: (str, Decimal),
    UUID: (str, UUID),
    bytes: (bytes.hex, bytes.fromhex),
}
_KINDS: Final = {kind.__name__: back for kind, (_, back) in _AS_TEXT.items()}


def as_json(value: Any) -> Any:
    """A parameter of a query as JSON can carry it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {"kind": "dict", "is": [[as_json(k), as_json(v)] for k, v in value.items()]}
    if isinstance(value, timedelta):
        return {"kind": "timedelta", "is": [value.days, value.seconds, value.microseconds]}
    for kind, (text, _) in _AS_TEXT.items():
        if isinstance(value, kind):
            return {"kind": kind.__name__, "is": text(value)}
    raise StoreError(f"a parameter of a query cannot be a {type(value).__name__}: {value!r}")


def from_json(value: Any) -> Any:
    """What `as_json` was given."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, content = value["kind"], value["is"]
    if kind == "dict":
        return {from_json(key): from_json(item) for key, item in content}
    if kind == "timedelta":
        days, seconds, microseconds = content
        return timedelta(days=days, seconds=seconds, microseconds=microseconds)
    return _KINDS[kind](content)
