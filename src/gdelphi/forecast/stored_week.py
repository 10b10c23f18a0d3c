"""The week of a stored forecast, as objects: what report, console and summary read.

Read from the tables that `week_tables.py` has written, without model and store. A forecast that was
made before there were weeks, or by a model that speaks of tomorrow only, has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from gdelphi.common.types import AHEAD, TARGETS, WITHIN
from gdelphi.forecast.archive import StoredForecast

FORECASTERS: Final = ("published", "stack", "simple stack", "usual")
"""columns of the tables. Here because `week.py` brings with it all that makes forecasts: seconds of
imports"""


class Chances(NamedTuple):
    """What is said of one target and horizon; None where it is undefined."""

    published: float | None
    stack: float | None
    simple: float | None
    usual: float | None


UNDEFINED: Final = Chances(None, None, None, None)


@dataclass(frozen=True)
class WeekCell:
    """A stream, root and target over the week."""

    stream: str
    code: str
    target: str
    days: tuple[Chances, ...]
    """of the seven days"""
    within: Chances

    @property
    def best_day(self) -> int | None:
        """Place of the likeliest day; None where the target is undefined."""
        known = [
            (day.published, -place)
            for place, day in enumerate(self.days)
            if day.published is not None
        ]
        return -max(known)[1] if known else None


class WeekRows(NamedTuple):
    """Reports of a stream and root on the seven days."""

    expected: tuple[float | None, ...]
    usual: tuple[float | None, ...]
    onset: bool
    """none on the last 30 days"""

    @property
    def within(self) -> float:
        """Expected in the whole week."""
        return sum(value or 0.0 for value in self.expected)

    @property
    def usual_within(self) -> float:
        """In a usual week."""
        return sum(value or 0.0 for value in self.usual)


class PossibleWeeks(NamedTuple):
    """The possible weeks that have a root at least once."""

    having: int
    of: int
    weight: float


@dataclass(frozen=True)
class StoredWeek:
    """All that is stored about the seven days after an origin."""

    origin: date
    streams: tuple[str, ...]
    cells: Mapping[tuple[str, str, str], WeekCell]
    """by stream, code and target"""
    rows: Mapping[tuple[str, str], WeekRows]
    escalations: Mapping[str, Chances]
    """that material conflict at least doubles; streams that are not asked about are left out"""
    possible: Mapping[tuple[str, str], PossibleWeeks]
    conflict: Mapping[str, Chances]
    """that any kind of conflict surges; empty in forecasts that were made before this was said"""

    @property
    def days(self) -> list[date]:
        """The seven days."""
        return [self.origin + timedelta(days=ahead) for ahead in range(1, AHEAD + 1)]

    def codes(self, stream: str) -> list[str]:
        """The roots that something is said of, in their order."""
        return sorted(code for own, code in self.rows if own == stream)

    def of_root(self, stream: str, code: str) -> list[WeekCell]:
        """What is said of a root, a cell for each target."""
        return [self.cells[stream, code, target] for target in TARGETS]


def read_week(forecast: StoredForecast) -> StoredWeek | None:
    """The week of a stored forecast, if it has one."""
    if "week" not in forecast:
        return None
    recipe = forecast.manifest.recipe
    return StoredWeek(
        origin=recipe.origin,
        streams=recipe.streams,
        cells=_cells(forecast.table("week").to_pylist()),
        rows=_rows(forecast.table("week_rows").to_pylist()),
        escalations=_escalations(forecast.table("escalations").to_pylist()),
        conflict=_escalations(_rows_of(forecast, "conflict")),
        possible=_possible(forecast.table("weeks", ["stream", "weight", "roots"]).to_pylist()),
    )


def _rows_of(forecast: StoredForecast, name: str) -> list[dict[str, Any]]:
    return forecast.table(name).to_pylist() if name in forecast else []


StoredRows = Iterable[Mapping[str, Any]]


def _chances(row: Mapping[str, Any]) -> Chances:
    return Chances(*(row[name] for name in FORECASTERS))


def _cells(rows: StoredRows) -> dict[tuple[str, str, str], WeekCell]:
    by_cell: dict[tuple[str, str, str], dict[int, Chances]] = {}
    for row in rows:
        key = row["stream"], row["code"], row["target"]
        by_cell.setdefault(key, {})[row["horizon"]] = _chances(row)
    return {
        key: WeekCell(
            *key,
            tuple(said.get(ahead, UNDEFINED) for ahead in range(1, AHEAD + 1)),
            said.get(WITHIN, UNDEFINED),
        )
        for key, said in by_cell.items()
    }


def _rows(rows: StoredRows) -> dict[tuple[str, str], WeekRows]:
    by_root: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_root.setdefault((row["stream"], row["code"]), []).append(row)
    found = {}
    for key, own in by_root.items():
        own.sort(key=lambda row: row["horizon"])
        found[key] = WeekRows(
            tuple(row["rows"] for row in own),
            tuple(row["usual"] for row in own),
            any(row["onset"] for row in own),
        )
    return found


def _escalations(rows: StoredRows) -> dict[str, Chances]:
    return {row["stream"]: _chances(row) for row in rows if row["published"] is not None}


def _possible(rows: StoredRows) -> dict[tuple[str, str], PossibleWeeks]:
    having: dict[tuple[str, str], list[float]] = {}
    number: dict[str, int] = {}
    for row in rows:
        stream = row["stream"]
        number[stream] = number.get(stream, 0) + 1
        for code in {code for day in row["roots"] for code in day}:
            having.setdefault((stream, code), []).append(row["weight"])
    return {
        key: PossibleWeeks(len(weights), number[key[0]], sum(weights))
        for key, weights in having.items()
    }
