"""The judge of reconstructed arguments: against the stream's frequencies and the last seen.

A cell is a stream, a day and a standard event that occurred on it. In a cell every forecaster is
scored on the rows that came, by their weight: was the value its first guess, was it among its first
five, and minus the log of the probability that it had. Cells count alike, so a busy stream does not
drown the others. A hit needs a guess that the past names: the even remainder, which all values
share, is not one.

All forecasters are mixtures fitted on the same days with the same two remainders (anyone seen,
somebody else) in the same buckets, and all take the next wider scope where they have nothing to go
by; they differ in the components that they may use. A value that no row had up to the origin is the
outcome "somebody else" for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import FloatArray, IntArray, Level
from gdelphi.forecast.argument_recency import (
    ANYONE,
    LAST_SEEN,
    SOMEBODY_ELSE,
    Outcomes,
    RecencyIndex,
    components,
    frequencies,
    sweep,
)
from gdelphi.forecast.arguments import (
    KINDS,
    ArgumentHistory,
    ArgumentKind,
)
from gdelphi.forecast.mixture import bucket
from gdelphi.forecast.reconstruct import (
    Allowed,
    Reconstructor,
    fit_several,
)
from gdelphi.scores.probabilities import (
    LOG_FLOOR,
    Bootstrap,
    Skill,
    skill,
)

RECONSTRUCTION: Final = "reconstruction"
MEASURES: Final = ("top 1", "top 5", "log score")
GUESSES = 5
CELLS_AT_ONCE = 100  # bounds the table of cells and values

FORECASTERS: Final[Mapping[str, Allowed]] = {
    RECONSTRUCTION: components,
    "frequencies": lambda level: (frequencies(level), ANYONE, SOMEBODY_ELSE),
    LAST_SEEN: lambda _: (LAST_SEEN, ANYONE, SOMEBODY_ELSE),
}


@dataclass(frozen=True, eq=False)
class JudgedArguments:
    """The scores of some forecasters on the same cells of one level and kind."""

    level: Level
    kind: ArgumentKind
    days: tuple[date, ...]
    day: IntArray
    """[cell], position in days"""
    cell: IntArray
    """[cell], stream and event as in a memory"""
    scores: Mapping[str, FloatArray]
    """forecaster -> [cell, measure]"""


class ArgumentsLine(NamedTuple):
    """One forecaster on one level and kind."""

    level: Level
    kind: ArgumentKind
    forecaster: str
    cells: int
    means: tuple[float, float, float]
    """of the measures"""
    gains: tuple[Skill, Skill, Skill]
    """how much better the reference is than this one, in each measure, as a difference"""


def fit_forecasters(
    history: ArgumentHistory, days: Iterable[date], levels: Sequence[Level]
) -> dict[str, Reconstructor]:
    """The reconstruction and its rivals, fitted on the same days."""
    return fit_several(history, days, FORECASTERS, levels)


def judge(
    history: ArgumentHistory,
    forecasters: Mapping[str, Reconstructor],
    days: Iterable[date],
    levels: Sequence[Level],
) -> list[JudgedArguments]:
    """Score all forecasters on all events of some days; kinds that no row has are left out."""
    target_days = tuple(sorted(set(days)))
    judged = [
        _judged(RecencyIndex(history, kind, level), forecasters, target_days)
        for level in levels
        for kind in KINDS
    ]
    return [each for each in judged if len(each.cell)]


def _judged(
    memory: RecencyIndex, forecasters: Mapping[str, Reconstructor], days: tuple[date, ...]
) -> JudgedArguments:
    tables = np.stack([each.mixtures[memory.level, memory.kind] for each in forecasters.values()])
    at = {day: number for number, day in enumerate(days)}
    day, cell = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    scores = [np.zeros((len(tables), 0, len(MEASURES)))]
    for target, came in sweep(memory, days):
        cells, found = _scores(memory, came, tables)
        day.append(np.full(len(cells), at[target]))
        cell.append(cells)
        scores.append(found)
    joined = np.concatenate(scores, axis=1)
    return JudgedArguments(
        memory.level,
        memory.kind,
        days,
        np.concatenate(day),
        np.concatenate(cell),
        dict(zip(forecasters, joined, strict=True)),
    )


def _scores(
    memory: RecencyIndex, came: Outcomes, tables: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The cells of a day, and the measures of forecasters on them, [forecaster, cell, measure]."""
    cells, places = np.unique(came.cell, return_inverse=True)
    shares = tables[:, bucket(memory.evidence(cells))]
    guesses = _guesses(memory, cells, shares)
    found = []
    for number in range(len(tables)):
        said = (came.components * shares[number, places]).sum(axis=1)
        hits = guesses[number, places] == came.value[:, None]
        measures = (hits[:, 0], hits.any(axis=1), -np.log(np.maximum(said, LOG_FLOOR)))
        sums = [np.bincount(places, came.share * measure, len(cells)) for measure in measures]
        found.append(np.column_stack(sums))
    return cells, np.stack(found)


def _guesses(memory: RecencyIndex, cells: IntArray, shares: FloatArray) -> IntArray:
    """The first guesses of forecasters, [forecaster, cell, guess]; -1 where there are fewer.

    All forecasters at once, for most of the work is looking up what they have in common.
    """
    guesses = np.full((*shares.shape[:2], GUESSES), -1, dtype=np.int64)
    for start in range(0, len(cells), CELLS_AT_ONCE):
        some = slice(start, start + CELLS_AT_ONCE)
        wanted = np.tile(cells[some], len(shares))
        mixed = memory.mixed(wanted, shares[:, some].reshape(len(wanted), -1))
        for at, top in zip(np.ndindex(shares[:, some].shape[:2]), mixed.top(GUESSES), strict=True):
            guesses[at[0], start + at[1], : len(top)] = top
    return guesses


# --- tables ---------------------------------------------------------------------------------------


def table(
    judged: Sequence[JudgedArguments],
    reference: str = RECONSTRUCTION,
    bootstrap: Bootstrap | None = None,
) -> list[ArgumentsLine]:
    """Means of all measures, and how much better the reference is, with block-bootstrap intervals.

    Above 0 is better: more hits, or a smaller log score.
    """
    lines = []
    for each in judged:
        if reference not in each.scores:
            known = ", ".join(each.scores)
            raise ArgumentsError(f"no forecaster {reference!r} was judged; there are {known}")
        best = each.scores[reference]
        for name, scores in each.scores.items():
            hits, also, log = (
                gain(each, sign * (best[:, at] - scores[:, at]), bootstrap)
                for at, sign in enumerate((1.0, 1.0, -1.0))
            )
            one, five, nats = scores.mean(axis=0).tolist()
            lines.append(
                ArgumentsLine(
                    each.level, each.kind, name, len(scores), (one, five, nats), (hits, also, log)
                )
            )
    return lines


def gain(
    judged: JudgedArguments, difference: FloatArray, bootstrap: Bootstrap | None = None
) -> Skill:
    """The mean of a difference over cells, [cell], resampled by blocks of days.

    Skill is 1 - sum(score) / sum(reference); with 1 - difference as the score and 1 as the
    reference of every cell that is the mean difference, so the same resampling serves.
    """
    size = len(judged.days)
    cells = np.bincount(judged.day, minlength=size).astype(np.float64)
    sums = np.bincount(judged.day, 1 - difference, minlength=size).astype(np.float64)
    return skill(sums, cells, bootstrap)
