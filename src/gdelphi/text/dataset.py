"""The dataset: sequences of daily texts as a Parquet file, for any trainer of sequence models.

A row is a sequence: the stream, the day after it, what the stack expects of that day (nothing where
there is no stack), the texts of its days as a list and the text of the day after. Texts are in the
compact language, or in English with weights. The rows of training days are the sequences that
`gdelphi text train` reads with that seed, in its order (data.py). Rows are written a few hundred at
a time, so memory does not grow with their number.
"""

import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, repeat
from pathlib import Path
from time import perf_counter
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.files import atomic_write
from gdelphi.common.splits import SplitPart
from gdelphi.measures.phrases import sentence
from gdelphi.measures.space import place_of
from gdelphi.text.compact import MISSING
from gdelphi.text.corpus import PackDescriptors
from gdelphi.text.data import TextData, training_sequences
from gdelphi.text.expected import expected_text

ROWS_AT_ONCE: Final = 500
CACHED: Final = 2**18  # texts of days: sequences overlap
SCHEMA: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("target_day", pa.date32()),
        ("expected", pa.string()),
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
    data: TextData,
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
    texts = _Texts(data.descriptors, form)
    sequences = islice(training_sequences(data, part=part, seed=seed), number)
    done = 0
    with (
        atomic_write(path) as unfinished,
        pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as file,
    ):
        while rows := list(islice(sequences, ROWS_AT_ONCE)):
            columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
            for stream, target, variants in rows:
                days = range(target - len(variants) + 1, target + 1)
                *context, last = map(texts.of, days, repeat(stream), variants)
                columns["stream"].append(data.pack.facts.streams[stream])
                columns["target_day"].append(data.sequences.day(target))
                columns["expected"].append(_expected(data, target, stream))
                columns["context"].append(context)
                columns["target"].append(last)
            file.write_table(pa.table(columns, schema=SCHEMA))
            done += len(rows)
            if on_written:
                on_written(done, number)
    context_days = data.settings.sequences.context_days
    return Dataset(
        path=path,
        sequences=number,
        days=context_days,
        descriptors=number * (context_days + 1),
        phrases=texts.phrases,
        streams=len(data.pack.facts.streams),
        bytes=path.stat().st_size,
        text_bytes=texts.size,
        seconds=perf_counter() - began,
        peak_bytes=peak_memory(),
    )


def _expected(data: TextData, target: int, stream: int) -> str:
    """What the stack expects of a day, in words."""
    if data.expected is None:
        return ""
    return expected_text(data.expected.at(target), stream, data.expected.roots)


class _Texts:
    """Texts of days, and how much of them was asked for."""

    def __init__(self, descriptors: PackDescriptors, form: DatasetForm) -> None:
        self._descriptors = descriptors
        self._made = lru_cache(CACHED)(self._compact if form == "compact" else self._english)
        self.phrases = self.size = 0

    def of(self, day: int, stream: int, variant: int) -> str:
        text, phrases = self._made(day, stream, variant)
        self.phrases += phrases
        self.size += len(text.encode()) + 1
        return text

    def _compact(self, day: int, stream: int, variant: int) -> tuple[str, int]:
        words = self._descriptors.text(day, stream, variant)
        return " ".join(words), (len(words) - 1) // 4

    def _english(self, day: int, stream: int, variant: int) -> tuple[str, int]:
        lines = list(english(self._descriptors, day, stream, variant))
        return "; ".join(lines), len(lines) if self._descriptors.pack.present[day] else 0


def english(descriptors: PackDescriptors, day: int, stream: int, variant: int = 0) -> Iterator[str]:
    """A day's phrases in English, each with its weight; of a missing day only that."""
    if not descriptors.pack.present[day]:
        yield MISSING
        return
    place = place_of(descriptors.pack.facts.streams[stream])
    for phrase in descriptors.phrases(descriptors.descriptor(day, stream, variant)):
        text = sentence(phrase.actor1, phrase.code, phrase.actor2, place)
        yield f"{text} ({phrase.weight:.0%})"


def peak_memory() -> int:
    """Bytes that this process has had in memory at most."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else 1024 * highest
