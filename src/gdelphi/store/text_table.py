"""The texts of event files as Arrow tables: what the fast way reads.

Arrow's reader takes a text as a whole or not at all: a line of another width, bytes that are no
UTF-8, or a number that is none end it, and the file goes the strict way. (A blank line becomes a
row of nothing, which the loader leaves out and misses.) DuckDB's own reader takes 1e5 and 0x10 for
whole numbers, so these and dates had to be read as texts, cast, and written again to be compared:
a sixth of the CPU of a load. Here the bytes of such a column lie together, and numpy sees in a
hundredth of that time that they are digits and nothing else. What is made of digits, and of other
numbers, is what the strict way makes of them: held against each other over 240,000 texts.
"""

import codecs
import contextlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from gdelphi.gdelt.layouts import BY_NAME, LAYOUTS, REDUCED, Layout

BLOCK: Final = 1 << 22  # bytes read at once; a longer line is left to the strict way
WHOLE_NUMBERS: Final = {"BIGINT": pa.int64(), "INTEGER": pa.int32(), "TINYINT": pa.int8()}
DIGITS_OF: Final = {"%Y%m%d": 8, "%Y%m%d%H%M%S": 14}


class OddText(Exception):
    """A text, by the number of its file, that is not for the fast way."""

    def __init__(self, file_id: int) -> None:
        super().__init__(file_id)
        self.file_id = file_id


class FileMark(NamedTuple):
    """What every row of a file is marked with: its number, and the day of its name."""

    file_id: int
    day: date | None


def read_text(path: Path, file: FileMark, layout: Layout) -> pa.Table:
    """A text as a table: the columns of its layout, and `file_id` and `file_day`.

    Whole numbers are numbers; dates are the digits of dates, which may be those of no day.
    """
    return pa.Table.from_batches(read_blocks(path, file, layout), schema=schema_of(layout))


def read_blocks(path: Path, file: FileMark, layout: Layout) -> Iterator[pa.RecordBatch]:
    """The same, block by block: for a text that is too large for the memory."""
    try:
        with csv.open_csv(path, **_options(layout)) as blocks:
            yield from _typed(blocks, file, layout)
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        raise OddText(file.file_id) from None


class PassingText:
    """A text that is read while it is unpacked, block by block, by threads of a pool.

    What its table takes is booked in `room`, which all texts under way share; one that finds none
    is not read on the way, but later by whoever needs it.
    """

    def __init__(
        self, file_id: int, day: date | None, pool: ThreadPoolExecutor, room: "Room"
    ) -> None:
        self._file, self._pool, self._room = FileMark(file_id, day), pool, room
        self._layout: Layout | None = None
        self._pieces: list[bytes] = []
        self._held = self._booked = 0
        self._blocks: list[Future[pa.Table]] = []
        self._left = False

    def pass_on(self, piece: bytes) -> None:
        """The next bytes of the text."""
        if self._left:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held >= BLOCK:
            block = b"".join(self._pieces)
            end = block.rfind(b"\n") + 1
            self._pieces, self._held = [block[end:]], len(block) - end
            if end:
                self._begin(block, end)
            else:  # a line as long as this, or longer
                self.leave()

    def table(self, layout: Layout | None) -> pa.Table | None:
        """All of it, of the layout that it was found to have; None if it was not read, or is odd,
        which the next who reads it will find again."""
        if not self._left and self._held:
            self._begin(b"".join(self._pieces), self._held)
        if not self._left and self._blocks and self._layout is layout:
            with contextlib.suppress(OddText):
                return pa.concat_tables([block.result() for block in self._blocks])
        self.leave()
        return None

    def leave(self) -> None:
        """Read no further, and give back the room."""
        for block in self._blocks:
            block.cancel()
        self._left = True
        self._blocks, self._pieces = [], []
        self._room.give(self._booked)
        self._booked = 0

    def _begin(self, block: bytes, size: int) -> None:
        """Let the lines of a block be read, which end after so many bytes."""
        if self._layout is None:
            self._layout = LAYOUTS.get(block[: block.find(b"\n")].count(b"\t") + 1)
        # A mark of the order of bytes is skipped before the first line, and no sound line has one.
        marked = bool(self._blocks) and block.startswith(codecs.BOM_UTF8)
        if marked or self._layout in (None, REDUCED) or not self._room.take(size):
            self.leave()
            return
        self._booked += size
        self._blocks.append(
            self._pool.submit(_read_block, memoryview(block)[:size], self._file, self._layout)
        )


class Room:
    """Bytes of text whose tables may be held at once, among threads."""

    def __init__(self, size: int) -> None:
        self._free, self._lock = size, threading.Lock()

    def take(self, size: int) -> bool:
        """Book some, if there are so many left."""
        with self._lock:
            taken = size <= self._free
            self._free -= size if taken else 0
        return taken

    def give(self, size: int) -> None:
        """Give them back."""
        with self._lock:
            self._free += size


def _read_block(block: memoryview, file: FileMark, layout: Layout) -> pa.Table:
    options = _options(layout, size=len(block) + 1)
    try:
        batches = csv.read_csv(pa.BufferReader(pa.py_buffer(block)), **options).to_batches()
        return pa.Table.from_batches(_typed(batches, file, layout), schema=schema_of(layout))
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        raise OddText(file.file_id) from None


def _options(layout: Layout, size: int = BLOCK) -> dict[str, Any]:
    names = list(layout.columns)
    read = csv.ReadOptions(column_names=names, block_size=size, use_threads=False)
    return {"read_options": read, **_kinds(layout.name)}


@cache
def _kinds(layout: str) -> dict[str, Any]:
    kinds = {
        name: pa.float64() if kind == "DOUBLE" else pa.string()
        for name, kind in BY_NAME[layout].columns.items()
    }
    return {
        "parse_options": csv.ParseOptions(
            delimiter="\t", quote_char=False, double_quote=False, ignore_empty_lines=False
        ),
        "convert_options": csv.ConvertOptions(
            column_types=kinds, null_values=[""], strings_can_be_null=True
        ),
    }


def schema_of(layout: Layout) -> pa.Schema:
    """Of the tables that texts of a layout become."""
    return _schema(layout.name)


@cache
def _schema(layout: str) -> pa.Schema:
    kinds = {"DOUBLE": pa.float64(), **WHOLE_NUMBERS}
    columns = BY_NAME[layout].columns
    fields = {name: kinds.get(kind, pa.string()) for name, kind in columns.items()}
    return pa.schema({**fields, "file_id": pa.int64(), "file_day": pa.date32()})


def _typed(
    batches: Iterable[pa.RecordBatch], file: FileMark, layout: Layout
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(layout)
    for batch in batches:
        columns = [
            _exact(column, kind, file, layout)
            for column, kind in zip(batch.columns, layout.columns.values(), strict=True)
        ]
        rows = batch.num_rows
        columns.append(pa.repeat(pa.scalar(file.file_id, pa.int64()), rows))
        columns.append(pa.repeat(pa.scalar(file.day, pa.date32()), rows))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _exact(column: pa.Array, kind: str, file: FileMark, layout: Layout) -> pa.Array:
    """A column whose values are to be whole numbers or dates, if it is one: digits alone."""
    if kind in WHOLE_NUMBERS:
        if not _are_digits(column):
            raise OddText(file.file_id)
        return column.cast(WHOLE_NUMBERS[kind])
    if kind in ("DATE", "TIMESTAMP"):
        width = DIGITS_OF["%Y%m%d" if kind == "DATE" else layout.time_format]
        if not _are_digits(column, width=width):
            raise OddText(file.file_id)
    return column


def _are_digits(column: pa.StringArray, *, width: int | None = None) -> bool:
    """Whether the values that are not blank are digits and nothing else, and so many of them."""
    _, offsets, data = column.buffers()
    if data is None:
        return True
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    codes = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    if codes.size and (codes - np.uint8(ord("0"))).max() > 9:  # what lies below 0 wraps around
        return False
    lengths = np.diff(ends)
    return width is None or bool(((lengths == width) | (lengths == 0)).all())
