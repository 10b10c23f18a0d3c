"""The week of predictions as tables, beside those of tomorrow (tables.py).

    week         stream, code, horizon, target: what is published, stack, simple stack, usual
    week_rows    stream, code, horizon: expected and usual rows, and whether it is an onset cell
    escalations  stream: that material conflict doubles, in the same columns
    conflict     stream: that any kind of conflict surges within the week, in the same columns
    weeks        stream, future: weight, the past weeks that it is made of, and which roots occur on
                 each of its days
    week_days    stream, future, horizon: the atoms of each day, by their phrases and weights

Horizons are days 1 to 7 after the origin; 0 is *within the week*.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gdelphi.common.types import AHEAD, TARGETS, WITHIN, FloatArray, WeekForecast
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.recombine import Recombination, recombined_atoms
from gdelphi.forecast.stored_week import FORECASTERS
from gdelphi.forecast.tables import numbers
from gdelphi.forecast.week import WeekPrediction
from gdelphi.measures.pack import Pack

WEEKS: Final = pa.schema(
    [
        ("stream", pa.string()), ("future", pa.int32()), ("weight", pa.float64()),
        ("start", pa.date32()), ("donor", pa.date32()), ("lent", pa.list_(pa.string())),
        ("roots", pa.list_(pa.list_(pa.string()))),
    ]
)  # fmt: skip
ESCALATIONS: Final = pa.schema(
    [("stream", pa.string()), *((name, pa.float64()) for name in FORECASTERS)]
)
TEXT_LISTS: Final = ("actor1", "code", "actor2")


def week_tables(predictions: Sequence[Prediction], pack: Pack) -> dict[str, pa.Table]:
    """Of predictions that have a week; none of others."""
    weeks = [prediction.week for prediction in predictions if prediction.week is not None]
    if not weeks:
        return {}
    streams = pack.facts.streams
    return {
        "week": pa.concat_tables(map(_probabilities, weeks)).combine_chunks(),
        "week_rows": pa.concat_tables(map(_rows, weeks)).combine_chunks(),
        "escalations": pa.Table.from_pylist([_escalation(week) for week in weeks], ESCALATIONS),
        "conflict": pa.Table.from_pylist([_conflict(week) for week in weeks], ESCALATIONS),
        "weeks": pa.Table.from_pylist([row for week in weeks for row in _futures(week)], WEEKS),
        "week_days": pa.concat_tables(
            [_days(week, pack, streams.index(week.stream)) for week in weeks]
        ).combine_chunks(),
    }


def _probabilities(week: WeekPrediction) -> pa.Table:
    codes = week.published.codes
    cells = (AHEAD + 1) * len(codes)
    tables = []
    for number, target in enumerate(TARGETS):
        columns = {
            "stream": pa.array([week.stream] * cells, pa.string()),
            "code": pa.array(list(codes) * (AHEAD + 1), pa.string()),
            "horizon": pa.array(np.repeat([*range(1, AHEAD + 1), WITHIN], len(codes)), pa.int8()),
            "target": pa.array([target] * cells, pa.string()),
        }
        for name, forecast in week.forecasts.items():
            columns[name] = numbers(_of_target(forecast, number))
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def _of_target(forecast: WeekForecast, target: int) -> FloatArray:
    """Days, and behind them the week."""
    return np.concatenate([forecast.daily[target].ravel(), forecast.within[target]])


def _rows(week: WeekPrediction) -> pa.Table:
    codes = week.published.codes
    return pa.table(
        {
            "stream": pa.array([week.stream] * (AHEAD * len(codes)), pa.string()),
            "code": pa.array(list(codes) * AHEAD, pa.string()),
            "horizon": pa.array(np.repeat(np.arange(1, AHEAD + 1), len(codes)), pa.int8()),
            "rows": numbers(week.published.rows.ravel()),
            "usual": numbers(week.usual.rows.ravel()),
            "onset": pa.array(np.tile(week.onset, AHEAD), pa.bool_()),
        }
    )


def _escalation(week: WeekPrediction) -> dict[str, Any]:
    chances = {name: one.escalation for name, one in week.forecasts.items()}
    asked = not np.isnan(week.published.escalation)
    return {
        "stream": week.stream,
        **{
            name: chance if asked and chance == chance else None for name, chance in chances.items()
        },
    }


def _conflict(week: WeekPrediction) -> dict[str, Any]:
    said = {name: value if value == value else None for name, value in week.conflict.items()}
    return {"stream": week.stream, **said}


def _futures(week: WeekPrediction) -> Iterator[dict[str, Any]]:
    codes, weeks = week.published.codes, week.weeks
    for number, start in enumerate(weeks.starts):
        yield {
            "stream": week.stream,
            "future": number,
            "weight": float(weeks.reweighted.weights[number]),
            "start": start,
            "donor": weeks.donors[number],
            "lent": [codes[place] for place in np.flatnonzero(weeks.lent[number])],
            "roots": [[codes[at] for at in np.flatnonzero(day)] for day in weeks.happens[number]],
        }


def _days(week: WeekPrediction, pack: Pack, place: int) -> pa.Table:
    """Atoms of the days of possible weeks: those of the past days that they are made of."""
    weeks, codes = week.weeks, week.published.codes
    first = pack.first_day.toordinal()
    starts, donors = (
        np.array([day.toordinal() - first for day in days]) for days in (weeks.starts, weeks.donors)
    )
    tables = []
    for ahead in range(AHEAD):
        drawn = Recombination(starts + ahead, donors + ahead, weeks.lent)
        _, atoms = recombined_atoms(pack, place, codes, drawn)
        there = atoms.weights > 0
        offsets = pa.array(np.concatenate([[0], there.sum(axis=1).cumsum()]), pa.int32())
        distinct, index = np.unique(atoms.rows[there], return_inverse=True)
        phrases = pack.phrases_at(distinct)
        columns = {
            "stream": pa.array([week.stream] * len(starts), pa.string()),
            "future": pa.array(np.arange(len(starts)), pa.int32()),
            "horizon": pa.array([ahead + 1] * len(starts), pa.int8()),
            "weights": pa.ListArray.from_arrays(offsets, pa.array(atoms.weights[there])),
        }
        for name in TEXT_LISTS:
            texts = pa.array(getattr(phrases, name), pa.string()).take(pa.array(index))
            columns[name] = pa.ListArray.from_arrays(offsets, texts)
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)
