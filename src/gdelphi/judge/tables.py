"""The tables of a backtest, from its files alone.

All forecasters are scored on the same cells. Skill is against the stack, a ratio of means with a
block-bootstrap interval over days; whether a difference is more than chance is also asked by a
paired test of daily means. Shares and whole futures are compared with the recency bootstrap, which
is what the stack says of shares and where the model's attention begins. Tables for classes of
events and for streams are of active cells, where a forecast has something to say.

Two controls come with every summary: the skill that is left when the outcomes of the judged days
are shuffled, and how many of the days took part in fitting anything. Of the first nothing may be
left: whoever follows the days more closely than the stack falls below it. Whoever follows them less
may come out a little above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, Final

import numpy as np

from gdelphi.common.errors import JudgeError
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.publisher import PUBLISHED
from gdelphi.gdelt.cameo import quad_class
from gdelphi.judge.compare import (
    CellChoice,
    Judged,
    active_cells,
)
from gdelphi.judge.day import (
    FAIR_ORACLE,
    INTERVALS,
    SHARES_OF,
    STACK,
)
from gdelphi.judge.files import BacktestFolder
from gdelphi.judge.futures import RECENCY
from gdelphi.scores.probabilities import (
    Skill,
    brier,
    brier_parts,
    log_score,
    paired_test,
    skill,
)
from gdelphi.scores.reliability import expected_calibration_error, reliability_band
from gdelphi.scores.samples import pit_histogram

QUAD_CLASSES: Final = {
    1: "verbal cooperation",
    2: "material cooperation",
    3: "verbal conflict",
    4: "material conflict",
}
CURVES: Final = (PUBLISHED, STACK)
"""forecasters whose calibration curves are in the summary"""


@dataclass(frozen=True)
class Scored:
    """One forecaster on one target."""

    cells: CellChoice
    target: str
    forecaster: str
    number: int
    """cells with an outcome"""
    days: int
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float
    """brier = reliability - resolution + uncertainty + within"""
    log_score: float
    calibration_error: float
    skill: Skill
    log_skill: Skill
    p_value: float
    """of the paired test of Brier scores with the stack's"""


@dataclass(frozen=True)
class Narrow:
    """The same for a part of the active cells: a class of events or a stream."""

    part: str
    target: str
    forecaster: str
    number: int
    brier: float
    skill: Skill


@dataclass(frozen=True)
class Captured:
    """How far a forecaster comes on the way from the stack to the oracle, by Brier score."""

    cells: CellChoice
    target: str
    forecaster: str
    fraction: float


@dataclass(frozen=True)
class SharesScored:
    """Forecasts of shares."""

    forecaster: str
    number: int
    crps: float
    skill: Skill
    """against the recency bootstrap"""
    coverage: dict[str, float]
    """how often central intervals held the share that came, by their level"""
    pit: list[float]
    """histogram, flat if calibrated"""


@dataclass(frozen=True)
class FuturesScored:
    """Whole futures; not-a-number where an ensemble has no such score."""

    ensemble: str
    number: int
    """days of streams"""
    energy: float
    skill: Skill
    """of the energy score, against the recency bootstrap"""
    p_value: float
    sinkhorn: float
    rouge: dict[str, float]


def summarise(folder: BacktestFolder) -> dict[str, Any]:
    """All tables, as plain values."""
    run, days = folder.run(), folder.days()
    if not days:
        raise JudgeError(f"no day is done in {folder.folder}: run `gdelphi backtest` first")
    judged = read_judged(folder, days)
    scores = [line for cells in ("all", "active") for line in scored(judged, cells)]
    allowed = date.fromisoformat(run["origin"]["first_allowed"])
    return {
        **run,
        "days": {"number": len(days), "first": days[0], "last": days[-1]},
        "days_in_what_was_fitted": sum(day < allowed for day in days),
        "scores": [asdict(line) for line in scores],
        "captured": [asdict(line) for line in captured(scores)],
        "by_class": [asdict(line) for line in by_class(judged)],
        "by_stream": [asdict(line) for line in by_stream(judged)],
        "calibration": calibration_curves(judged),
        "shares": [asdict(line) for line in shares_scored(folder, days)],
        "futures": [asdict(line) for line in futures_scored(folder, days)],
        "shuffled": shuffled_skill(judged),
    }


# --- probabilities --------------------------------------------------------------------------------


def read_judged(folder: BacktestFolder, days: Sequence[date]) -> Judged:
    """What was said and what came on some days that are done."""
    cells = folder.cells()
    streams, codes = (tuple(dict.fromkeys(cells[name].to_pylist())) for name in ("stream", "code"))
    shape = (len(streams), len(codes), len(TARGETS))
    names: tuple[str, ...] = tuple(folder.run()["origin"]["asked"]["forecasters"])
    columns: dict[str, list[FloatArray]] = {name: [] for name in ("outcome", *names)}
    for day in days:
        table = folder.read_day("probabilities", day)
        if len(table) != len(cells) or not set(columns) <= set(table.column_names):
            raise JudgeError(
                f"{folder.path('probabilities', day)} has other cells or forecasters than the "
                "rest: delete it, and run `gdelphi backtest` again"
            )
        for name, found in columns.items():
            found.append(table[name].to_numpy().reshape(shape))

    def by_target(values: FloatArray) -> dict[str, FloatArray]:
        return {target: values[..., number] for number, target in enumerate(TARGETS)}

    said = {name: by_target(np.stack(found)) for name, found in columns.items()}
    came = said.pop("outcome")
    rates = by_target(cells["training_rate"].to_numpy().reshape(shape))
    return Judged(streams, codes, tuple(days), 1, said, came, rates)


def scored(judged: Judged, cells: CellChoice, reference: str = STACK) -> Iterator[Scored]:
    """Every forecaster on every target, all cells or the active ones."""
    for target in TARGETS:
        came = _came(judged, target, cells)
        bar = judged.probabilities[reference][target]
        bars = brier(bar, came), log_score(bar, came)
        known = ~np.isnan(came)
        for name, said in judged.probabilities.items():
            given = said[target]
            square, log = brier(given, came), log_score(given, came)
            parts = brier_parts(given, came)
            yield Scored(
                cells, target, name, int(known.sum()), int(known.any(axis=(1, 2)).sum()),
                parts.brier, parts.reliability, parts.resolution, parts.uncertainty, parts.within,
                _mean(log), expected_calibration_error(given, came), skill(square, bars[0]),
                skill(log, bars[1]), paired_test(square, bars[0]).p_value,
            )  # fmt: skip


def captured(lines: Sequence[Scored]) -> Iterator[Captured]:
    """The way from the stack to the oracle, where there is one."""
    score = {(line.cells, line.target, line.forecaster): line.brier for line in lines}
    for line in lines:
        oracle = score.get((line.cells, line.target, FAIR_ORACLE))
        if oracle is not None and "oracle" not in line.forecaster:
            bar = score[line.cells, line.target, STACK]
            room = bar - oracle
            fraction = (bar - line.brier) / room if room else float("nan")
            yield Captured(line.cells, line.target, line.forecaster, fraction)


def by_class(judged: Judged) -> Iterator[Narrow]:
    """Active cells by quad class."""
    classes = np.array([quad_class(code[:2]) for code in judged.codes])
    for number, label in QUAD_CLASSES.items():
        yield from _narrow(judged, label, (slice(None), slice(None), classes == number))


def by_stream(judged: Judged) -> Iterator[Narrow]:
    """Active cells by stream."""
    for place, stream in enumerate(judged.streams):
        yield from _narrow(judged, stream, (slice(None), place))


def _narrow(judged: Judged, part: str, where: Any) -> Iterator[Narrow]:
    for target in TARGETS:
        came = _came(judged, target, "active")[where]
        bar = brier(judged.probabilities[STACK][target][where], came)
        for name, said in judged.probabilities.items():
            square = brier(said[target][where], came)
            number = int((~np.isnan(square)).sum())
            yield Narrow(part, target, name, number, _mean(square), skill(square, bar))


def calibration_curves(judged: Judged) -> list[dict[str, Any]]:
    """Forecast against frequency with a band from resampled days, all cells."""
    found = []
    for name in CURVES:
        for target in TARGETS if name in judged.probabilities else ():
            band = reliability_band(judged.probabilities[name][target], judged.outcomes[target])
            curve = {
                "forecast": band.table.forecast, "frequency": band.table.frequency,
                "low": band.low, "high": band.high, "cells": band.table.count,
            }  # fmt: skip
            listed = {key: values.tolist() for key, values in curve.items()}
            found.append({"forecaster": name, "target": target, **listed})
    return found


def shuffled(judged: Judged, seed: int = 0) -> Judged:
    """The same forecasts held against the outcomes of other judged days."""
    order = np.random.default_rng(seed).permutation(len(judged.days))
    came = {target: values[order] for target, values in judged.outcomes.items()}
    return replace(judged, outcomes=came)


def shuffled_skill(judged: Judged) -> list[dict[str, Any]]:
    """The skill against the stack that is left when days are shuffled, all cells."""
    found = []
    mixed = shuffled(judged)
    for target in TARGETS:
        came = mixed.outcomes[target]
        bar = brier(mixed.probabilities[STACK][target], came)
        for name, said in mixed.probabilities.items():
            left = skill(brier(said[target], came), bar)
            found.append({"target": target, "forecaster": name, "skill": asdict(left)})
    return found


def _came(judged: Judged, target: str, cells: CellChoice) -> FloatArray:
    """Outcomes of the chosen cells, NaN elsewhere, [day, stream, code]."""
    came = judged.outcomes[target]
    return np.where(active_cells(judged, target), came, np.nan) if cells == "active" else came


def _mean(scores: FloatArray) -> float:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


# --- shares and futures ---------------------------------------------------------------------------


def shares_scored(folder: BacktestFolder, days: Sequence[date]) -> Iterator[SharesScored]:
    """How good samples of shares were."""
    table = folder.read("shares", days)
    names = np.array(table["forecaster"].to_pylist(), dtype=object)
    there = [name for name in SHARES_OF if (names == name).any()]
    intervals = [f"held_{level:.0%}"[:-1] for level in INTERVALS]

    def column(name: str, forecaster: str) -> FloatArray:
        found: FloatArray = table[name].to_numpy()[names == forecaster]
        return found.reshape(len(days), -1)

    for name in there:
        score = column("crps", name)
        bar = column("crps", RECENCY) if RECENCY in there else np.full(score.shape, np.nan)
        yield SharesScored(
            forecaster=name,
            number=int((~np.isnan(score)).sum()),
            crps=_mean(score),
            skill=skill(score, bar),
            coverage={x.removeprefix("held_"): _mean(column(x, name)) for x in intervals},
            pit=pit_histogram(column("pit", name)).frequency.tolist(),
        )


def futures_scored(folder: BacktestFolder, days: Sequence[date]) -> Iterator[FuturesScored]:
    """How good whole futures were, over the days of streams that all ensembles speak of."""
    table = folder.read("futures", days)
    energy = _by_ensemble(table, days, "energy")
    others = {name: _by_ensemble(table, days, name) for name in _OTHERS}
    nothing = np.full_like(next(iter(energy.values()), np.zeros((len(days), 0))), np.nan)
    bar = energy.get(RECENCY, nothing)
    spoken = [each for each in energy.values() if not np.isnan(each).all()]
    common = ~np.isnan(np.sum(spoken, axis=0)) if spoken else np.zeros(nothing.shape, np.bool_)
    for name, values in energy.items():
        score = np.where(common, values, np.nan)
        yield FuturesScored(
            ensemble=name,
            number=int((~np.isnan(score)).sum()),
            energy=_mean(score),
            skill=skill(score, np.where(common, bar, np.nan)),
            p_value=paired_test(score, np.where(common, bar, np.nan)).p_value,
            sinkhorn=_mean(others["sinkhorn"][name]),
            rouge={kind: _mean(others[kind][name]) for kind in _OTHERS[1:]},
        )


_OTHERS: Final = ("sinkhorn", "rouge1", "rouge2", "rougeL")


def _by_ensemble(table: Any, days: Sequence[date], column: str) -> dict[str, FloatArray]:
    """A column of the futures' tables, ensemble -> [day, stream]; NaN where there is none."""
    streams = {
        each: number for number, each in enumerate(dict.fromkeys(table["stream"].to_pylist()))
    }
    places = {day: number for number, day in enumerate(days)}
    found: dict[str, FloatArray] = {}
    rows = (table[name].to_pylist() for name in ("ensemble", "day", "stream", column))
    for ensemble, day, stream, value in zip(*rows, strict=True):
        if ensemble not in found:
            found[ensemble] = np.full((len(days), len(streams)), np.nan)
        found[ensemble][places[day], streams[stream]] = value
    return found
