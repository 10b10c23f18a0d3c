"""Judging reconstructed arguments: against the stream's frequencies and the last seen.

A cell is a stream, a day and a standard event that occurred on it. In a cell every forecaster is
scored on the day's rows, by their weight: was the value its first guess, was it among its first
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
    ArgumentOutcomes,
    RecencyIndex,
    component_names,
    frequency_component,
    outcomes_by_day,
)
from gdelphi.forecast.arguments import (
    KINDS,
    ArgumentHistory,
    ArgumentKind,
)
from gdelphi.forecast.mixture import evidence_bucket
from gdelphi.forecast.reconstruct import (
    ComponentChoice,
    Reconstructor,
    fit_reconstructors,
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

FORECASTERS: Final[Mapping[str, ComponentChoice]] = {
    RECONSTRUCTION: component_names,
    "frequencies": lambda level: (frequency_component(level), ANYONE, SOMEBODY_ELSE),
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
    """[cell], stream and event as in a RecencyIndex"""
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
    return fit_reconstructors(history, days, FORECASTERS, levels)


def judge(
    history: ArgumentHistory,
    forecasters: Mapping[str, Reconstructor],
    days: Iterable[date],
    levels: Sequence[Level],
) -> list[JudgedArguments]:
    """Score all forecasters on all events of some days; kinds that no row has are left out."""
    target_days = tuple(sorted(set(days)))
    judged = [
        _judge_kind(RecencyIndex(history, kind, level), forecasters, target_days)
        for level in levels
        for kind in KINDS
    ]
    return [one for one in judged if len(one.cell)]


def _judge_kind(
    index: RecencyIndex, forecasters: Mapping[str, Reconstructor], days: tuple[date, ...]
) -> JudgedArguments:
    """The scores of forecasters on the days of one level and kind."""
    tables = np.stack([fitted.mixtures[index.level, index.kind] for fitted in forecasters.values()])
    places = {day: number for number, day in enumerate(days)}
    day, cell = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    scores = [np.zeros((len(tables), 0, len(MEASURES)))]
    for target_day, outcomes in outcomes_by_day(index, days):
        cells, day_scores = _score_day(index, outcomes, tables)
        day.append(np.full(len(cells), places[target_day]))
        cell.append(cells)
        scores.append(day_scores)
    return JudgedArguments(
        level=index.level,
        kind=index.kind,
        days=days,
        day=np.concatenate(day),
        cell=np.concatenate(cell),
        scores=dict(zip(forecasters, np.concatenate(scores, axis=1), strict=True)),
    )


def _score_day(
    index: RecencyIndex, outcomes: ArgumentOutcomes, tables: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The cells of a day, and the measures of forecasters on them, [forecaster, cell, measure]."""
    cells, places = np.unique(outcomes.cell, return_inverse=True)
    shares = tables[:, evidence_bucket(index.evidence(cells))]
    guesses = _guesses(index, cells, shares)
    scores = []
    for number in range(len(tables)):
        probability = (outcomes.components * shares[number, places]).sum(axis=1)
        hits = guesses[number, places] == outcomes.value[:, None]
        measures = (hits[:, 0], hits.any(axis=1), -np.log(np.maximum(probability, LOG_FLOOR)))
        sums = [np.bincount(places, outcomes.share * measure, len(cells)) for measure in measures]
        scores.append(np.column_stack(sums))
    return cells, np.stack(scores)


def _guesses(index: RecencyIndex, cells: IntArray, shares: FloatArray) -> IntArray:
    """The first guesses of forecasters, [forecaster, cell, guess]; -1 where there are fewer.

    All forecasters at once, for most of the work is looking up what they have in common.
    """
    guesses = np.full((*shares.shape[:2], GUESSES), -1, dtype=np.int64)
    for start in range(0, len(cells), CELLS_AT_ONCE):
        portion = slice(start, start + CELLS_AT_ONCE)
        repeated = np.tile(cells[portion], len(shares))
        mixture = index.mixture(repeated, shares[:, portion].reshape(len(repeated), -1))
        positions = np.ndindex(shares[:, portion].shape[:2])
        for (forecaster, cell), top in zip(positions, mixture.top(GUESSES), strict=True):
            guesses[forecaster, start + cell, : len(top)] = top
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
    for one in judged:
        if reference not in one.scores:
            known = ", ".join(one.scores)
            raise ArgumentsError(f"no forecaster {reference!r} was judged; there are {known}")
        best = one.scores[reference]
        for name, scores in one.scores.items():
            top1, top5, nats = scores.mean(axis=0).tolist()
            top1_gain, top5_gain, log_gain = (
                gain(one, sign * (best[:, at] - scores[:, at]), bootstrap)
                for at, sign in enumerate((1.0, 1.0, -1.0))
            )
            lines.append(
                ArgumentsLine(
                    level=one.level,
                    kind=one.kind,
                    forecaster=name,
                    cells=len(scores),
                    means=(top1, top5, nats),
                    gains=(top1_gain, top5_gain, log_gain),
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
