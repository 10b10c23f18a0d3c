"""Shared by tests: argument histories."""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from gdelphi.forecast.arguments import (
    KINDS,
    ArgumentHistory,
    ObservedArguments,
    RegionNames,
)
from helpers.arguments import DAY

STREAMS = ("KE", "UP")


ArgumentRow = tuple[str, int, str, str, float]
"""stream, day, full code, value, weight"""


def history_of(
    rows: Sequence[ArgumentRow], days: int, streams: Sequence[str] = STREAMS
) -> ArgumentHistory:
    """A history by hand; the value of a row is that of all three kinds."""
    rows = sorted(rows, key=lambda row: row[1])
    events = sorted({(code[:2], code[:3], code) for _, _, code, _, _ in rows})
    values = tuple(sorted({value for *_, value, _ in rows}))
    stream, day, event, value = (
        np.array(column, dtype=np.int32)
        for column in (
            [tuple(streams).index(stream) for stream, *_ in rows],
            [day for _, day, *_ in rows],
            [events.index((code[:2], code[:3], code)) for _, _, code, _, _ in rows],
            [values.index(value) for *_, value, _ in rows],
        )
    )
    weight = np.array([weight for *_, weight in rows], dtype=np.float32)
    observed = ObservedArguments(values, stream, day, event, value, weight)
    none = np.zeros(0, dtype=np.int32)
    return ArgumentHistory(
        tuple(streams),
        tuple(DAY + timedelta(days=number) for number in range(days)),
        tuple(events),
        dict.fromkeys(KINDS, observed),
        RegionNames((), none, none, none, none),
    )


def at(number: int) -> date:
    return DAY + timedelta(days=number)


def random_history(seed: int = 0, days: int = 40) -> ArgumentHistory:
    random = np.random.default_rng(seed)
    codes, values = ("141", "145", "1451", "051", "190"), ("A", "B", "C", "D", "E")
    rows = {
        (str(random.choice(STREAMS)), day, str(random.choice(codes)), str(random.choice(values)))
        for day in range(days)
        for _ in range(int(random.integers(8)))
    }
    return history_of([(*row, float(random.integers(1, 5))) for row in sorted(rows)], days)
