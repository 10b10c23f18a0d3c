"""Predictions as tables: the columns of a forecast on disk.

    probabilities  stream, level, code, target: what is published and which (combined or stack),
                   whether that is beyond all that was published on validation B, the stack, each
                   member, and the weight of the futures in which a root occurs
    shares         stream, level, code: mean and quantiles of the share
    futures        stream, future: drawn day, weight, roots of that day, and atoms as lists: where
                   they lie, their names and, drawn_..., the phrase that they come from
    brief          stream, rank: the expected day in a few phrases, in the same way
    events         stream, level, code, argument, rank: who, to whom, where, if the event happens
    evidence       stream, level, code, rank: past reports of it

Long tables with one row for each number's subject: they are read by anything that reads Parquet. A
target that is undefined is null, not not-a-number, which other programs would take for a value.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gdelphi.common.types import (
    LEVELS,
    TARGETS,
    FloatArray,
    Forecast,
    Level,
)
from gdelphi.forecast.archive import NamingInfo
from gdelphi.forecast.member_range import beyond
from gdelphi.forecast.prediction import Phrase, Prediction
from gdelphi.forecast.reconstruct import Arguments
from gdelphi.measures.phrases import sentence
from gdelphi.measures.space import place_of

QUANTILES: Final = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
FUTURES_COLUMN: Final = "futures"
BEYOND_COLUMN: Final = "beyond"


class ReconstructedEvent(NamedTuple):
    """An event that is likely, at its level, with its arguments."""

    level: Level
    arguments: Arguments


def prediction_tables(
    predictions: Sequence[Prediction], events: Sequence[ReconstructedEvent] | None = None
) -> dict[str, pa.Table]:
    """All tables by their names; without reconstructed events, all but those of them."""
    tables = {
        "probabilities": _concatenated(map(_probabilities, predictions)),
        "shares": _concatenated(map(_shares, predictions)),
        "futures": _concatenated(map(_futures, predictions)),
        "brief": _concatenated(map(_brief, predictions)),
    }
    if events is not None:
        tables["events"] = pa.Table.from_pylist(list(_arguments(events)), EVENTS)
        tables["evidence"] = pa.Table.from_pylist(list(_evidence(events)), EVIDENCE)
    return tables


def _concatenated(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


# --- probabilities and shares ---------------------------------------------------------------------


def member_names(prediction: Prediction) -> list[str]:
    """The members that were combined, in their order; the stack is told apart from them."""
    return [name for name in prediction.members["root"] if name != "stack"]


def _probabilities(prediction: Prediction) -> pa.Table:
    tables = []
    for level in LEVELS:
        forecast, members = prediction.level(level), prediction.members[level]
        number = len(forecast.codes)
        for target in TARGETS:
            columns = _keys(prediction.stream, level, forecast)
            columns["target"] = _repeated(target, number)
            columns["published"] = numbers(forecast.probability(target))
            columns["which"] = _repeated(prediction.published[level][target], number)
            given = [one.probability(target) for name, one in members.items() if name != "stack"]
            said = prediction.said(level, target)
            marks = beyond(forecast.probability(target), said, np.stack(given))
            columns[BEYOND_COLUMN] = pa.array(marks, pa.bool_())
            for name in ("stack", *member_names(prediction)):
                probabilities = members[name].probability(target) if name in members else None
                columns[name] = numbers(probabilities, number)
            of_futures = (level, target) == ("root", "occurs")
            reweighted = prediction.futures.reweighted.probabilities if of_futures else None
            columns[FUTURES_COLUMN] = numbers(reweighted, number)
            tables.append(pa.table(columns))
    return _concatenated(tables)


def _shares(prediction: Prediction) -> pa.Table:
    tables = []
    for level in LEVELS:
        forecast = prediction.level(level)
        columns = _keys(prediction.stream, level, forecast)
        columns["mean"] = numbers(forecast.share_mean)
        for name, quantile in QUANTILES.items():
            columns[name] = numbers(forecast.share_quantile(quantile))
        tables.append(pa.table(columns))
    return _concatenated(tables)


def _keys(stream: str, level: Level, forecast: Forecast) -> dict[str, pa.Array]:
    number = len(forecast.codes)
    return {
        "stream": _repeated(stream, number),
        "level": _repeated(level, number),
        "code": pa.array(forecast.codes, pa.string()),
    }


def _repeated(text: str, number: int) -> pa.Array:
    return pa.array([text] * number, pa.string())


def numbers(values: FloatArray | None, number: int = 0) -> pa.Array:
    """Not-a-number as null; without values as many nulls."""
    if values is None:
        return pa.nulls(number, pa.float64())
    return pa.array(values, pa.float64(), from_pandas=True)


# --- futures and the day in brief -----------------------------------------------------------------

FUTURES: Final = pa.schema(
    [
        ("stream", pa.string()), ("future", pa.int32()), ("day", pa.date32()),
        ("weight", pa.float64()), ("roots", pa.list_(pa.string())),
        ("points", pa.list_(pa.list_(pa.float32()))), ("weights", pa.list_(pa.float32())),
        ("gates", pa.list_(pa.float32())), ("spare", pa.list_(pa.bool_())),
        ("actor1", pa.list_(pa.string())), ("code", pa.list_(pa.string())),
        ("actor2", pa.list_(pa.string())), ("drawn_actor1", pa.list_(pa.string())),
        ("drawn_code", pa.list_(pa.string())), ("drawn_actor2", pa.list_(pa.string())),
        ("donor", pa.date32()), ("lent", pa.list_(pa.string())),
    ]
)  # fmt: skip
BRIEF: Final = pa.schema(
    [
        ("stream", pa.string()), ("rank", pa.int32()), ("weight", pa.float64()),
        ("actor1", pa.string()), ("code", pa.string()), ("actor2", pa.string()),
        ("phrase", pa.string()), ("drawn_actor1", pa.string()), ("drawn_code", pa.string()),
        ("drawn_actor2", pa.string()),
    ]
)  # fmt: skip


def naming_info(predictions: Sequence[Prediction]) -> NamingInfo:
    """How the futures of predictions are named."""
    of_streams = [prediction.futures for prediction in predictions]
    return NamingInfo(
        by=of_streams[0].naming if of_streams else "origin",
        atoms=sum(int(futures.heavy.sum()) for futures in of_streams),
        renamed=sum(int(futures.renamed.sum()) for futures in of_streams),
        unreadable=sum(futures.unreadable for futures in of_streams),
    )


def _futures(prediction: Prediction) -> pa.Table:
    futures, codes = prediction.futures, prediction.levels.root.codes
    rows = []
    for number, day in enumerate(futures.days):
        atoms = np.flatnonzero(futures.weights[number] > 0)
        shown = [futures.shown_phrases[place] for place in futures.shown_index[number][atoms]]
        drawn = [futures.drawn_phrases[place] for place in futures.drawn_index[number][atoms]]
        rows.append(
            {
                "stream": prediction.stream,
                "future": number,
                "day": day,
                "weight": float(futures.reweighted.weights[number]),
                "roots": [codes[place] for place in np.flatnonzero(futures.happens[number])],
                "points": list(futures.points[number][atoms]),
                "weights": futures.weights[number][atoms],
                "gates": futures.gates[number][atoms],
                "spare": futures.spare[number][atoms],
                **_phrase_columns(shown),
                **_phrase_columns(drawn, "drawn_"),
                "donor": futures.donors[number],
                "lent": [codes[place] for place in np.flatnonzero(futures.lent[number])],
            }
        )
    return pa.Table.from_pylist(rows, FUTURES)


def _phrase_columns(phrases: Sequence[Phrase], before: str = "") -> dict[str, list[str]]:
    """Phrases as lists of their codes."""
    return {
        f"{before}{name}": [getattr(phrase, name) for phrase in phrases] for name in Phrase._fields
    }


def _brief(prediction: Prediction) -> pa.Table:
    place = place_of(prediction.stream)
    rows = [
        {
            "stream": prediction.stream,
            "rank": rank,
            "weight": atom.weight,
            **atom.phrase._asdict(),
            "phrase": sentence(*atom.phrase, place),
            **{f"drawn_{name}": code for name, code in atom.drawn._asdict().items()},
        }
        for rank, atom in enumerate(prediction.brief, start=1)
    ]
    return pa.Table.from_pylist(rows, BRIEF)


# --- reconstructed events -------------------------------------------------------------------------

EVENTS: Final = pa.schema(
    [
        ("stream", pa.string()), ("level", pa.string()), ("code", pa.string()),
        ("argument", pa.string()), ("rank", pa.int32()), ("value", pa.string()),
        ("words", pa.string()), ("probability", pa.float64()),
    ]
)  # fmt: skip
EVIDENCE: Final = pa.schema(
    [
        ("stream", pa.string()), ("level", pa.string()), ("code", pa.string()),
        ("rank", pa.int32()), ("event_id", pa.int64()), ("day", pa.date32()),
        ("phrase", pa.string()), ("place", pa.string()), ("mentions", pa.int64()),
        ("source", pa.string()),
    ]
)  # fmt: skip
ARGUMENTS: Final = ("actor1", "actor2", "region")


def _key(event: ReconstructedEvent) -> dict[str, str]:
    arguments = event.arguments
    return {"stream": arguments.stream, "level": event.level, "code": arguments.code}


def _arguments(events: Sequence[ReconstructedEvent]) -> Iterator[dict[str, Any]]:
    for event in events:
        for kind in ARGUMENTS:
            candidates = getattr(event.arguments, kind)
            for rank, candidate in enumerate(candidates, start=1):
                yield {**_key(event), "argument": kind, "rank": rank, **candidate._asdict()}


def _evidence(events: Sequence[ReconstructedEvent]) -> Iterator[dict[str, Any]]:
    for event in events:
        evidence = event.arguments.evidence
        for rank, row in enumerate(evidence.rows if evidence else (), start=1):
            yield {
                **_key(event),
                "rank": rank,
                "event_id": row.event_id,
                "day": row.day,
                "phrase": row.phrase,
                "place": row.place,
                "mentions": row.mentions,
                "source": row.source,
            }
