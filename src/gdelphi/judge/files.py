"""The folder of a backtest: a few Parquet files for each judged day, from which all tables follow.

    run.json                          what was judged: model, data, options; what was fitted on what
    cells.parquet                     training rate of each stream, code and target
    scores/probabilities/DAY.parquet  outcome, and the probability that each forecaster gave
    scores/shares/DAY.parquet         CRPS, PIT and coverage of shares
    scores/expected/DAY.parquet       divergence and ROUGE of the expected day
    scores/futures/DAY.parquet        energy score, Sinkhorn distance and ROUGE of whole futures
    scores/week/DAY.parquet           the week that begins with the day, where weeks are judged
    summary.json                      the tables

A day is done when all its files are there; of one on which only probabilities are judged, shares,
expected and futures have no rows. A file is written beside its place and renamed, so a run that is
killed leaves no half of one. Files say nothing of
when or with what they were made: the same forecasts are the same bytes. That is what the controls
for leakage compare, and why what was judged stands in run.json and not in their footers.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.errors import JudgeError
from gdelphi.common.files import alone, atomic_write, text_digest, write_text_atomically

KINDS: Final = ("probabilities", "shares", "expected", "futures")
SCORES: Final = "scores"
MARK: Final = b"days"
"""in the footer of a stored forecast's scores: which days they were made from"""
WEEK: Final = "week"


class BacktestFolder:
    """Where a backtest writes, and what it left there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._run = folder / "run.json"
        self._cells = folder / "cells.parquet"

    def alone(self) -> AbstractContextManager[None]:
        """No other backtest writes here meanwhile."""
        return alone(
            self.folder,
            JudgeError(
                f"another backtest is writing to {self.folder}: wait for it, or take another --out"
            ),
        )

    def begin(self, origin: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Take the folder for a run of this origin; one of another origin is refused.

        `about` is written beside it and may differ when a run goes on.
        """
        from gdelphi.model.checkpoint import differences  # torch: who only reads does without

        wanted = json.loads(json.dumps(origin))
        if self._run.exists():
            different = differences(self.run()["origin"], wanted)
            if different:
                raise JudgeError(
                    f"{self.folder} holds a backtest of another origin: {'; '.join(different)}. "
                    "Take another --out, or delete it"
                )
        elif any(self.path(kind, date.min).parent.exists() for kind in KINDS):
            raise JudgeError(f"{self.folder} has scores but no run.json: take another --out")
        write_text_atomically(self._run, as_json({"origin": wanted, "about": about}))

    def run(self) -> dict[str, Any]:
        """The content of run.json."""
        try:
            content: dict[str, Any] = json.loads(self._run.read_text(encoding="utf-8"))
            if not isinstance(content["origin"], dict):
                raise ValueError("no origin")
        except FileNotFoundError:
            raise JudgeError(
                f"no backtest in {self.folder}: `gdelphi backtest --out {self.folder}` makes one"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JudgeError(f"{self._run} cannot be read ({error}): delete the folder") from None
        return content

    @property
    def futures_every(self) -> int | None:
        """On which of its days a backtest that is there judges futures; None: there is none."""
        if not self._run.exists():
            return None
        return int(self.run()["origin"].get("asked", {}).get("futures_every", 1))

    def path(self, kind: str, day: date) -> Path:
        """The file of a target day."""
        return self.folder / "scores" / kind / f"{day.isoformat()}.parquet"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of files that a day has."""
        weeks = self.run()["origin"].get("asked", {}).get("horizon", 1) > 1
        return (*KINDS, WEEK) if weeks else KINDS

    def done(self, day: date) -> bool:
        """Whether all files of a day are there."""
        return all(self.path(kind, day).exists() for kind in self.kinds)

    def days(self) -> list[date]:
        """Target days that are done."""
        last = self.path(KINDS[-1], date.min).parent
        written = [date.fromisoformat(path.stem) for path in last.glob("[0-9]*.parquet")]
        kinds = self.kinds
        return sorted(day for day in written if all(self.path(k, day).exists() for k in kinds))

    def write_day(self, day: date, tables: Mapping[str, pa.Table]) -> None:
        """The tables of a day, one of each kind."""
        for kind in self.kinds:
            write_table(tables[kind], self.path(kind, day))

    def read_day(self, kind: str, day: date) -> pa.Table:
        """One of the tables of a day."""
        return read_table(self.path(kind, day))

    def has_rows(self, kind: str, day: date) -> bool:
        """Whether one of the tables of a day has any, by its footer."""
        path = self.path(kind, day)
        with _told(path):
            return int(pq.read_metadata(path).num_rows) > 0

    def read(self, kind: str, days: Sequence[date]) -> pa.Table:
        """The rows of several days one after the other, with a column for the day."""
        tables = []
        for day in days:
            table = self.read_day(kind, day)
            column = pa.array([day] * len(table), pa.date32())
            tables.append(table.add_column(0, "day", column))
        return pa.concat_tables(tables)

    @property
    def has_cells(self) -> bool:
        """Whether the training rates are there."""
        return self._cells.exists()

    def write_cells(self, table: pa.Table) -> None:
        """Keep the training rates."""
        write_table(table, self._cells)

    def cells(self) -> pa.Table:
        """The training rate of each stream, code and target."""
        return read_table(self._cells)

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Keep the tables in summary.json, and return its path."""
        path = self.folder / "summary.json"
        write_text_atomically(path, as_json(summary))
        return path


# --- files ----------------------------------------------------------------------------------------


def scores_path(folder: Path, origin: date, id: str) -> Path:  # noqa: A002 - as in the store
    """Where the scores of a stored forecast lie, in the folder of forecasts."""
    return folder / SCORES / origin.isoformat() / f"{id}.parquet"


def week_scores_path(folder: Path, origin: date, id: str) -> Path:  # noqa: A002 - as in the store
    """The same of a forecast's week."""
    return folder / SCORES / origin.isoformat() / f"{id}-week.parquet"


def write_table(table: pa.Table, path: Path, *, mark: str | None = None) -> None:
    """A Parquet file, whole or not at all; with a mark of the days that it was made from."""
    if mark is not None:
        table = table.replace_schema_metadata({MARK: mark})
    with atomic_write(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)


def read_table(path: Path) -> pa.Table:
    """The rows of such a file."""
    with _told(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        # Not `pq.read_table`, whose search for data sets costs more than a small file.
        return file.read(use_threads=False)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Around the reading of a file: what to do if that fails."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise JudgeError(
            f"{path} cannot be read ({reason}): delete it, and run `gdelphi backtest` again"
        ) from None


def read_columns(path: Path) -> list[str]:
    """The names of its columns; none of a file that cannot be read."""
    try:
        names: list[str] = pq.read_schema(path).names
    except (OSError, pa.ArrowException):
        return []
    return names


def days_mark(fingerprints: Mapping[date, str], since: date, until: date) -> str:
    """A mark of the days that decide the outcomes of a forecast: another one if one of them has
    changed at its source."""
    days = sorted(day for day in fingerprints if since <= day <= until)
    return text_digest(repr([(day.isoformat(), fingerprints[day]) for day in days]))


def read_mark(path: Path) -> str | None:
    """What a file of scores says of the days that it was made from; None: nothing."""
    try:
        mark = (pq.read_schema(path).metadata or {}).get(MARK)
    except (OSError, pa.ArrowException):
        return None
    return mark.decode(errors="replace") if mark else None


def as_json(content: Mapping[str, Any]) -> str:
    """JSON that every reader takes: what is not a number is null."""
    return json.dumps(_plain(content), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date | Path):
        return str(value)
    return value
