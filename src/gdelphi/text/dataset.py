"""The dataset: sequences of daily texts as a Parquet file, for any trainer of sequence models.

A row is a sequence: the stream, the day after it, the texts of its days as a list and the text of
the day after. Texts are in the compact language, or in English with weights. Descriptors are drawn
at random, for each day its own or one of the random ones, as training draws them. Rows are written
a few hundred at a time, so memory does not grow with their number.
"""

import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.splits import SplitPart
from gdelphi.measures.phrases import sentence
from gdelphi.measures.sequences import SequenceDraw
from gdelphi.measures.space import place_of
from gdelphi.text.compact import MISSING
from gdelphi.text.corpus import Descriptions
from gdelphi.text.forecaster_task import TextData

ROWS_AT_ONCE: Final = 500
CACHED: Final = 2**18  # texts of days: sequences overlap
SCHEMA: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("target_day", pa.date32()),
        ("context", pa.list_(pa.string())),
        ("target", pa.string()),
    ]
)
DatasetForm = Literal["compact", "english"]
OnWritten = Callable[[int, int], None]
"""sequences written, sequences to write"""


@dataclass(frozen=True)
class Dataset:
    """What was written."""

    path: Path
    sequences: int
    days: int
    """of each sequence, without the target"""
    descriptors: int
    """in all sequences"""
    phrases: int
    streams: int
    bytes: int
    text_bytes: int
    """of the texts, as they would be in a plain file"""
    seconds: float
    peak_bytes: int
    """memory of the process at its highest"""


def write_dataset(
    ground: TextData,
    path: Path,
    number: int,
    *,
    part: SplitPart = "train",
    form: DatasetForm = "compact",
    seed: int = 0,
    on_written: OnWritten | None = None,
) -> Dataset:
    """Draw sequences of a part of the split and write them; the same seed, the same file."""
    began = perf_counter()
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = _Texts(ground.said, form)
    drawn = ground.sequences.draw(number, part=part, seed=seed)
    beside = path.with_name(f".{path.name}.part")
    done = 0
    with pq.ParquetWriter(beside, SCHEMA, compression="zstd") as file:
        while rows := list(islice(drawn, ROWS_AT_ONCE)):
            file.write_table(_table(ground, rows, texts))
            done += len(rows)
            if on_written:
                on_written(done, number)
    beside.replace(path)
    days = ground.settings.sequences.context_days
    return Dataset(
        path=path,
        sequences=number,
        days=days,
        descriptors=number * (days + 1),
        phrases=texts.phrases,
        streams=len(ground.pack.facts.streams),
        bytes=path.stat().st_size,
        text_bytes=texts.size,
        seconds=perf_counter() - began,
        peak_bytes=peak_memory(),
    )


def _table(ground: TextData, rows: list[SequenceDraw], texts: "_Texts") -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    for row in rows:
        first = row.target - len(row.variants) + 1
        said = [
            texts.of(day, row.stream, variant)
            for day, variant in zip(range(first, row.target + 1), row.variants, strict=True)
        ]
        columns["stream"].append(ground.pack.facts.streams[row.stream])
        columns["target_day"].append(ground.sequences.day(row.target))
        columns["context"].append(said[:-1])
        columns["target"].append(said[-1])
    return pa.table(columns, schema=SCHEMA)


class _Texts:
    """Texts of days, and how much of them was asked for."""

    def __init__(self, said: Descriptions, form: DatasetForm) -> None:
        self._said = said
        self._made = lru_cache(CACHED)(self._compact if form == "compact" else self._english)
        self.phrases = self.size = 0

    def of(self, day: int, stream: int, variant: int) -> str:
        text, phrases = self._made(day, stream, variant)
        self.phrases += phrases
        self.size += len(text.encode()) + 1
        return text

    def _compact(self, day: int, stream: int, variant: int) -> tuple[str, int]:
        words = self._said.text(day, stream, variant)
        return " ".join(words), (len(words) - 1) // 4

    def _english(self, day: int, stream: int, variant: int) -> tuple[str, int]:
        lines = list(english(self._said, day, stream, variant))
        return "; ".join(lines), len(lines) if self._said.pack.present[day] else 0


def english(said: Descriptions, day: int, stream: int, variant: int = 0) -> Iterator[str]:
    """A day's phrases in English, each with its weight; of a missing day only that."""
    if not said.pack.present[day]:
        yield MISSING
        return
    place = place_of(said.pack.facts.streams[stream])
    for phrase in said.phrases(said.descriptor(day, stream, variant)):
        text = sentence(phrase.actor1, phrase.code, phrase.actor2, place)
        yield f"{text} ({phrase.weight:.0%})"


def peak_memory() -> int:
    """Bytes that this process has had in memory at most."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found
