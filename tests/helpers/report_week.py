"""Weeks of forecasts made by hand and by chance, for tests of the report and of summaries."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from gdelphi.common.types import AHEAD, TARGETS, WITHIN
from gdelphi.forecast.stored_week import (
    FORECASTERS,
    Chances,
    PossibleWeeks,
    StoredWeek,
    WeekCell,
    WeekRows,
)
from gdelphi.forecast.week_tables import ESCALATIONS, WEEKS
from gdelphi.measures.profiles import standard_events

ROOTS = standard_events("root")
HORIZONS = (*range(1, AHEAD + 1), WITHIN)


def example_week(
    streams: Sequence[str], origin: date, *, seed: int = 3, possible: int = 100
) -> StoredWeek:
    """A plausible week: what is published lies around what is usual, some of it far above."""
    chance = np.random.default_rng(seed)
    cells, rows, having = {}, {}, {}
    for stream in streams:
        for code in ROOTS:
            usual_rows, onset = float(chance.gamma(1.0, 6.0)), bool(chance.random() < 0.1)
            for target in TARGETS:
                within = float(chance.beta(2, 2))
                moved = float(np.clip(within + chance.normal(0, 0.12), 0.01, 0.99))
                days = tuple(_chances(moved * factor, within / 3) for factor in _factors(chance))
                cell = WeekCell(stream, code, target, days, _chances(moved, within))
                cells[stream, code, target] = cell
            rows[stream, code] = WeekRows(
                tuple(float(chance.gamma(2.0, usual_rows / 14)) for _ in range(AHEAD)),
                (usual_rows / AHEAD,) * AHEAD,
                onset,
            )
            number = int(chance.integers(possible + 1))
            having[stream, code] = PossibleWeeks(number, possible, number / possible)
    escalations = {stream: _chances(*map(float, chance.beta(2, 6, 2))) for stream in streams}
    usual = chance.uniform(0.4, 0.8, len(streams))
    conflict = {
        stream: _chances(float(own + chance.uniform(0, 0.18)), float(own))
        for stream, own in zip(streams, usual, strict=True)
    }
    return StoredWeek(origin, tuple(streams), cells, rows, escalations, having, conflict)


def _factors(chance: np.random.Generator) -> list[float]:
    return [float(value) for value in chance.uniform(0.1, 0.6, AHEAD)]


def _chances(published: float, usual: float) -> Chances:
    return Chances(published, published * 0.95, published * 0.9, usual)


def tables_of(week: StoredWeek) -> dict[str, pa.Table]:
    """The same as tables of a stored forecast. A surge of the last root is undefined."""
    said = [
        {
            "stream": cell.stream, "code": cell.code, "target": cell.target, "horizon": horizon,
            **_named(chances, undefined=(cell.code, cell.target) == (ROOTS[-1], "surge")),
        }
        for cell in week.cells.values()
        for horizon, chances in zip(HORIZONS, (*cell.days, cell.within), strict=True)
    ]  # fmt: skip
    rows = [
        {"stream": stream, "code": code, "horizon": ahead, "rows": own.expected[ahead - 1],
         "usual": own.usual[ahead - 1], "onset": own.onset}
        for (stream, code), own in week.rows.items() for ahead in range(1, AHEAD + 1)
    ]  # fmt: skip
    escalations = [
        {"stream": stream, **_named(chances, undefined=stream == week.streams[-1])}
        for stream, chances in week.escalations.items()
    ]
    conflict = [
        {"stream": stream, **_named(chances, undefined=False)}
        for stream, chances in week.conflict.items()
    ]
    weeks = [
        {
            "stream": stream, "future": number, "weight": 0.25,
            "start": week.origin - timedelta(days=20), "donor": week.origin - timedelta(days=30),
            "lent": [], "roots": [["01", "19"] if number == 0 else ["01"], *[[]] * (AHEAD - 1)],
        }
        for stream in week.streams for number in range(4)
    ]  # fmt: skip
    return {
        "week": pa.Table.from_pylist(said),
        "week_rows": pa.Table.from_pylist(rows),
        "escalations": pa.Table.from_pylist(escalations, ESCALATIONS),
        "conflict": pa.Table.from_pylist(conflict, ESCALATIONS),
        "weeks": pa.Table.from_pylist(weeks, WEEKS),
    }


def _named(chances: Chances, *, undefined: bool) -> dict[str, Any]:
    values = [None] * len(FORECASTERS) if undefined else list(chances)
    return dict(zip(FORECASTERS, values, strict=True))
