"""Stored forecasts made by hand, for tests of the report: every number is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gdelphi.common.types import TARGETS
from gdelphi.forecast.archive import (
    ForecastArchive,
    Recipe,
    StoredForecast,
)
from gdelphi.forecast.tables import (
    BRIEF,
    EVENTS,
    EVIDENCE,
    FUTURES,
)
from gdelphi.judge.files import KINDS, BacktestFolder, write_table
from gdelphi.measures.profiles import standard_events
from helpers.report_week import example_week, tables_of

LEVELS = ("root", "base", "full")
DIMENSION = 6
Said = Callable[[str, str, str, str], float | None]
"""stream, level, code, target -> what is published"""


def recipe_at(origin: date, streams: Sequence[str], **changes: Any) -> Recipe:
    recipe = Recipe(
        origin=origin, horizon=1, streams=tuple(streams), partial=False, data="d", model="m",
        futures=4, seed=0, gdelphi="0",
    )  # fmt: skip
    return replace(recipe, **changes)


def low(stream: str, level: str, code: str, target: str) -> float | None:
    """Roots 0.3, all finer codes too unlikely to be shown."""
    return 0.3 if level == "root" else 0.01


def probabilities(streams: Sequence[str], said: Said, stack: float = 0.5) -> pa.Table:
    rows = [
        {
            "stream": stream, "level": level, "code": code, "target": target,
            "published": said(stream, level, code, target), "which": "combined", "stack": stack,
            "climatology": 0.2, "ewma": 0.4, "profiles": 0.6, "direct": 0.7, "futures": None,
        }
        for stream in streams for level in LEVELS for target in TARGETS
        for code in standard_events(level)  # type: ignore[arg-type]
    ]  # fmt: skip
    schema = {"futures": pa.float64(), "published": pa.float64()}
    table = pa.Table.from_pylist(rows)
    for name, kind in schema.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(kind))
    return table


def shares(streams: Sequence[str]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"stream": stream, "level": level, "code": code, "mean": 0.05, "q05": 0.0, "q25": 0.02,
             "q50": 0.04, "q75": 0.07, "q95": 0.1}
            for stream in streams for level in LEVELS
            for code in standard_events(level)  # type: ignore[arg-type]
        ]
    )  # fmt: skip


def futures(streams: Sequence[str], drawn: date) -> pa.Table:
    """Four futures a stream; two atoms each, on fights and on talks."""
    chance = np.random.default_rng(1)
    rows = []
    for stream in streams:
        for number in range(4):
            points = chance.normal(size=(2, DIMENSION)).astype(np.float32)
            rows.append(
                {
                    "stream": stream, "future": number, "day": drawn, "weight": 0.25,
                    "roots": ["19"], "points": list(points), "weights": [0.75, 0.25],
                    "gates": [1.0, 1.0], "spare": [False, False], "actor1": ["KEN", ""],
                    "code": ["190", "042"], "actor2": ["", ""],
                }
            )  # fmt: skip
    return pa.Table.from_pylist(rows, FUTURES)


def brief(streams: Sequence[str], words: str) -> pa.Table:
    rows = [
        {"stream": stream, "rank": rank, "weight": 1 / rank / 2, "actor1": "KEN", "code": "190",
         "actor2": "", "phrase": words}
        for stream in streams for rank in (2, 1)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, BRIEF)


def events(streams: Sequence[str]) -> pa.Table:
    rows = [
        {"stream": stream, "level": "root", "code": "19", "argument": kind, "rank": rank,
         "value": f"{kind}-{rank}", "words": f"{kind} number {rank}", "probability": 0.5 / rank}
        for stream in streams for kind in ("actor1", "actor2", "region") for rank in (2, 1)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, EVENTS)


def evidence(streams: Sequence[str], day: date, source: str) -> pa.Table:
    rows = [
        {"stream": stream, "level": "root", "code": "19", "rank": rank, "event_id": rank,
         "day": day, "phrase": f"report {rank}", "place": None, "mentions": 10 * rank,
         "source": source}
        for stream in streams for rank in (1, 2)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, EVIDENCE)


def stored(
    folder: Path,
    recipe: Recipe,
    said: Said = low,
    *,
    fitted_until: date | None = None,
    words: str = "Kenya fights in Kenya",
    source: str = "https://news.example/1",
    stack: float = 0.5,
) -> StoredForecast:
    """A forecast on disk with all of its tables; those of the week if the recipe has one."""
    streams = recipe.streams
    drawn = recipe.origin - timedelta(days=3)
    tables = {
        "probabilities": probabilities(streams, said, stack),
        "shares": shares(streams),
        "futures": futures(streams, drawn),
        "brief": brief(streams, words),
        "events": events(streams),
        "evidence": evidence(streams, drawn, source),
    }
    if recipe.week:
        tables |= tables_of(example_week(streams, recipe.origin))
    until = fitted_until or recipe.origin - timedelta(days=9)
    return ForecastArchive(folder).put(recipe, tables, fitted_until=until)


# --- a backtest by hand ---------------------------------------------------------------------------


def write_backtest(
    folder: Path,
    days: Sequence[date],
    said: Mapping[str, float],
    came: Callable[[date, str, str], float],
    *,
    first_allowed: date,
    streams: Sequence[str] = ("KE",),
    level: str = "root",
) -> BacktestFolder:
    """Days on which each forecaster says one number of everything."""
    backtest = BacktestFolder(folder)
    asked = {"level": level, "forecasters": list(said)}
    backtest.begin({"asked": asked, "first_allowed": first_allowed.isoformat()}, {})
    keys = [
        {"stream": stream, "code": code, "target": target}
        for stream in streams for code in standard_events("root") for target in TARGETS
    ]  # fmt: skip
    write_table(pa.Table.from_pylist([{**key, "training_rate": 0.5} for key in keys]),
                folder / "cells.parquet")  # fmt: skip
    for day in days:
        rows = [{**key, "outcome": came(day, key["code"], key["target"]), **said} for key in keys]
        nothing = pa.table({"stream": pa.array([], pa.string())})
        empty = dict.fromkeys(KINDS, nothing)
        backtest.write_day(day, {**empty, "probabilities": pa.Table.from_pylist(rows)})
    return backtest
