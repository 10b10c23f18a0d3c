"""The tables of a backtest, from its files alone.

All forecasters are scored on the same cells. Skill is against the stack, a ratio of means with a
block-bootstrap interval over days; whether a difference is more than chance is also asked by a
paired test of daily means. Shares and whole futures are compared with the recency bootstrap, which
is the stack's forecast of shares and where the model's attention begins. Tables for classes of
events and for streams are of active cells, where a forecast has something to say.

Two controls come with every summary: the skill that is left when the outcomes of the judged days
are shuffled, and how many of the days took part in fitting anything. Of the first nothing may be
left: whoever follows the days more closely than the stack falls below it. Whoever follows them less
may come out a little above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from itertools import product
from typing import Any, Final

import numpy as np

from gdelphi.common.errors import JudgeError
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.publisher import PUBLISHED, WITHOUT_NETWORK
from gdelphi.gdelt.cameo import quad_class
from gdelphi.judge.compare import (
    CellChoice,
    JudgedForecasts,
    active_cells,
    mean_of_known,
)
from gdelphi.judge.day import (
    FAIR_ORACLE,
    INTERVALS,
    SHARES_OF,
    STACK,
)
from gdelphi.judge.expected import START
from gdelphi.judge.files import WEEK, BacktestFolder
from gdelphi.judge.futures import RECENCY
from gdelphi.judge.week import BLOCK_DAYS, judged_weeks, onset_cases, week_gains, week_scores
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
from gdelphi.stack.linear import SIMPLE

QUAD_CLASSES: Final = {
    1: "verbal cooperation",
    2: "material cooperation",
    3: "verbal conflict",
    4: "material conflict",
}
CURVES: Final = (PUBLISHED, STACK)
"""forecasters whose calibration curves are in the summary"""


@dataclass(frozen=True)
class ForecasterScore:
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
    over_simple: Skill
    """skill against the simple stack; not-a-number where there is none"""


@dataclass(frozen=True)
class NetworkGain:
    """What the network adds: what is published against the same without the network."""

    cells: CellChoice
    target: str
    skill: Skill
    p_value: float


@dataclass(frozen=True)
class PartScore:
    """The same for a part of the active cells: a class of events or a stream."""

    part: str
    target: str
    forecaster: str
    number: int
    brier: float
    skill: Skill


@dataclass(frozen=True)
class CapturedFraction:
    """How far a forecaster comes on the way from the simple stack to the oracle, by Brier score;
    from the stack where there is no simple one."""

    cells: CellChoice
    target: str
    forecaster: str
    fraction: float


@dataclass(frozen=True)
class ShareScore:
    """Forecasts of shares."""

    forecaster: str
    number: int
    crps: float
    skill: Skill
    """against the recency bootstrap"""
    coverage: dict[str, float]
    """how often central intervals held the share, by their level"""
    pit: list[float]
    """histogram, flat if calibrated"""


@dataclass(frozen=True)
class EnsembleScore:
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


@dataclass(frozen=True)
class ExpectedDayScore:
    """A few atoms that are to be the next day; not-a-number where they have no such score."""

    measure: str
    number: int
    """days of streams"""
    divergence: float
    """mean, to the cloud of the day that came"""
    skill: Skill
    """of the divergence, against the start of the decoder"""
    p_value: float
    rouge: dict[str, float]


def summarise(folder: BacktestFolder) -> dict[str, Any]:
    """All tables of a backtest, as plain values: the content of summary.json."""
    run, days = folder.run(), folder.days()
    whole = whole_days(folder, days)
    if not days:
        raise JudgeError(f"no day is done in {folder.folder}: run `gdelphi backtest` first")
    judged = read_judged(folder, days)
    scores = [line for cells in ("all", "active") for line in forecaster_scores(judged, cells)]
    allowed = date.fromisoformat(run["origin"]["first_allowed"])
    return {
        **run,
        "days": {"number": len(days), "first": days[0], "last": days[-1], "whole": len(whole)},
        "days_in_what_was_fitted": sum(day < allowed for day in days),
        "scores": [asdict(line) for line in scores],
        "network": [asdict(line) for line in network_gains(judged)],
        "captured": [asdict(line) for line in captured_fractions(scores)],
        "by_class": [asdict(line) for line in scores_by_class(judged)],
        "by_stream": [asdict(line) for line in scores_by_stream(judged)],
        "calibration": calibration_curves(judged),
        "shares": [asdict(line) for line in share_scores(folder, whole)] if whole else [],
        "expected": [asdict(line) for line in expected_day_scores(folder, whole)] if whole else [],
        "futures": [asdict(line) for line in ensemble_scores(folder, whole)] if whole else [],
        "shuffled": shuffled_skill(judged),
        **({"week": week_summary(folder, days)} if WEEK in folder.kinds else {}),
    }


def week_summary(folder: BacktestFolder, days: Sequence[date]) -> dict[str, Any]:
    """The tables of the week: by horizon, what the network adds, hits and misses among onsets."""
    origins = [day - timedelta(days=1) for day in days]
    weeks = judged_weeks(origins, [folder.read_day(WEEK, day) for day in days])
    hits, misses = onset_cases(weeks)
    return {
        "block_days": BLOCK_DAYS,
        "scores": [asdict(line) for line in week_scores(weeks)],
        "network": [asdict(line) for line in week_gains(weeks)],
        "onset_hits": [asdict(case) for case in hits],
        "onset_misses": [asdict(case) for case in misses],
    }


# --- probabilities --------------------------------------------------------------------------------


def read_judged(folder: BacktestFolder, days: Sequence[date]) -> JudgedForecasts:
    """Probabilities and outcomes of some days that are done."""
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
        for name, values in columns.items():
            values.append(table[name].to_numpy().reshape(shape))

    def by_target(values: FloatArray) -> dict[str, FloatArray]:
        return {target: values[..., number] for number, target in enumerate(TARGETS)}

    probabilities = {name: by_target(np.stack(values)) for name, values in columns.items()}
    outcomes = probabilities.pop("outcome")
    rates = by_target(cells["training_rate"].to_numpy().reshape(shape))
    return JudgedForecasts(streams, codes, tuple(days), 1, probabilities, outcomes, rates)


def forecaster_scores(
    judged: JudgedForecasts, cells: CellChoice, reference: str = STACK
) -> Iterator[ForecasterScore]:
    """Every forecaster on every target, all cells or the active ones."""
    for target in TARGETS:
        outcome = _outcome(judged, target, cells)
        reference_brier = brier(judged.probabilities[reference][target], outcome)
        reference_log = log_score(judged.probabilities[reference][target], outcome)
        simple = judged.probabilities.get(SIMPLE, {})
        simple_brier = brier(simple.get(target, np.full_like(outcome, np.nan)), outcome)
        known = ~np.isnan(outcome)
        for name, by_target in judged.probabilities.items():
            probabilities = by_target[target]
            square, log = brier(probabilities, outcome), log_score(probabilities, outcome)
            parts = brier_parts(probabilities, outcome)
            yield ForecasterScore(
                cells=cells,
                target=target,
                forecaster=name,
                number=int(known.sum()),
                days=int(known.any(axis=(1, 2)).sum()),
                brier=parts.brier,
                reliability=parts.reliability,
                resolution=parts.resolution,
                uncertainty=parts.uncertainty,
                within=parts.within,
                log_score=mean_of_known(log),
                calibration_error=expected_calibration_error(probabilities, outcome),
                skill=skill(square, reference_brier),
                log_skill=skill(log, reference_log),
                p_value=paired_test(square, reference_brier).p_value,
                over_simple=skill(square, simple_brier),
            )


def network_gains(judged: JudgedForecasts) -> Iterator[NetworkGain]:
    """What is published against the same publisher without the network's members, where both were
    judged; without a pooled stack that is the stack."""
    bar = WITHOUT_NETWORK if WITHOUT_NETWORK in judged.probabilities else STACK
    if not {PUBLISHED, bar} <= set(judged.probabilities):
        return
    choices: tuple[CellChoice, ...] = ("all", "active")
    for cells, target in product(choices, TARGETS):
        outcome = _outcome(judged, target, cells)
        ours, theirs = (
            brier(judged.probabilities[name][target], outcome) for name in (PUBLISHED, bar)
        )
        p_value = paired_test(ours, theirs).p_value
        yield NetworkGain(cells, target, skill(ours, theirs), p_value)


def captured_fractions(lines: Sequence[ForecasterScore]) -> Iterator[CapturedFraction]:
    """The way from the simple stack to the oracle, where there is one."""
    score = {(line.cells, line.target, line.forecaster): line.brier for line in lines}
    for line in lines:
        oracle = score.get((line.cells, line.target, FAIR_ORACLE))
        if oracle is not None and "oracle" not in line.forecaster:
            stack = score[line.cells, line.target, STACK]
            stack = score.get((line.cells, line.target, SIMPLE), stack)
            room = stack - oracle
            fraction = (stack - line.brier) / room if room else float("nan")
            yield CapturedFraction(line.cells, line.target, line.forecaster, fraction)


def scores_by_class(judged: JudgedForecasts) -> Iterator[PartScore]:
    """Active cells by quad class."""
    classes = np.array([quad_class(code[:2]) for code in judged.codes])
    for number, label in QUAD_CLASSES.items():
        yield from _part_scores(judged, label, (slice(None), slice(None), classes == number))


def scores_by_stream(judged: JudgedForecasts) -> Iterator[PartScore]:
    """Active cells by stream."""
    for place, stream in enumerate(judged.streams):
        yield from _part_scores(judged, stream, (slice(None), place))


def _part_scores(judged: JudgedForecasts, part: str, where: Any) -> Iterator[PartScore]:
    """Every forecaster on every target, of the active cells at some places."""
    for target in TARGETS:
        outcome = _outcome(judged, target, "active")[where]
        reference = brier(judged.probabilities[STACK][target][where], outcome)
        for name, by_target in judged.probabilities.items():
            square = brier(by_target[target][where], outcome)
            number, mean = int((~np.isnan(square)).sum()), mean_of_known(square)
            yield PartScore(part, target, name, number, mean, skill(square, reference))


def calibration_curves(judged: JudgedForecasts) -> list[dict[str, Any]]:
    """Forecast against frequency with a band from resampled days, all cells."""
    curves = []
    for name in CURVES:
        for target in TARGETS if name in judged.probabilities else ():
            band = reliability_band(judged.probabilities[name][target], judged.outcomes[target])
            curve = {
                "forecast": band.table.forecast, "frequency": band.table.frequency,
                "low": band.low, "high": band.high, "cells": band.table.count,
            }  # fmt: skip
            listed = {key: values.tolist() for key, values in curve.items()}
            curves.append({"forecaster": name, "target": target, **listed})
    return curves


def shuffle_days(judged: JudgedForecasts, seed: int = 0) -> JudgedForecasts:
    """The same forecasts held against the outcomes of other judged days."""
    order = np.random.default_rng(seed).permutation(len(judged.days))
    outcomes = {target: values[order] for target, values in judged.outcomes.items()}
    return replace(judged, outcomes=outcomes)


def shuffled_skill(judged: JudgedForecasts) -> list[dict[str, Any]]:
    """The skill against the stack that is left when days are shuffled, all cells."""
    rows = []
    shuffled = shuffle_days(judged)
    for target in TARGETS:
        outcome = shuffled.outcomes[target]
        reference = brier(shuffled.probabilities[STACK][target], outcome)
        for name, by_target in shuffled.probabilities.items():
            left = skill(brier(by_target[target], outcome), reference)
            rows.append({"target": target, "forecaster": name, "skill": asdict(left)})
    return rows


def _outcome(judged: JudgedForecasts, target: str, cells: CellChoice) -> FloatArray:
    """Outcomes of the chosen cells, NaN elsewhere, [day, stream, code]."""
    outcome = judged.outcomes[target]
    return np.where(active_cells(judged, target), outcome, np.nan) if cells == "active" else outcome


# --- shares and futures ---------------------------------------------------------------------------


def whole_days(folder: BacktestFolder, days: Sequence[date]) -> list[date]:
    """The days on which shares, futures and the expected day were judged."""
    return [day for day in days if folder.has_rows("shares", day)]


def share_scores(folder: BacktestFolder, days: Sequence[date]) -> Iterator[ShareScore]:
    """How good samples of shares were."""
    table = folder.read("shares", days)
    names = np.array(table["forecaster"].to_pylist(), dtype=object)
    scored = [name for name in SHARES_OF if (names == name).any()]
    intervals = [f"held_{level:.0%}"[:-1] for level in INTERVALS]

    def column(name: str, forecaster: str) -> FloatArray:
        values: FloatArray = table[name].to_numpy()[names == forecaster]
        return values.reshape(len(days), -1)

    for name in scored:
        score = column("crps", name)
        reference = column("crps", RECENCY) if RECENCY in scored else np.full(score.shape, np.nan)
        yield ShareScore(
            forecaster=name,
            number=int((~np.isnan(score)).sum()),
            crps=mean_of_known(score),
            skill=skill(score, reference),
            coverage={
                interval.removeprefix("held_"): mean_of_known(column(interval, name))
                for interval in intervals
            },
            pit=pit_histogram(column("pit", name)).frequency.tolist(),
        )


def ensemble_scores(folder: BacktestFolder, days: Sequence[date]) -> Iterator[EnsembleScore]:
    """How good whole futures were, over the days of streams that all ensembles speak of."""
    table = folder.read("futures", days)
    energy = _by_ensemble(table, days, "energy")
    others = {name: _by_ensemble(table, days, name) for name in _OTHERS}
    nothing = np.full_like(next(iter(energy.values()), np.zeros((len(days), 0))), np.nan)
    defined = [values for values in energy.values() if not np.isnan(values).all()]
    common = ~np.isnan(np.sum(defined, axis=0)) if defined else np.zeros(nothing.shape, np.bool_)
    reference = np.where(common, energy.get(RECENCY, nothing), np.nan)
    for name, values in energy.items():
        score = np.where(common, values, np.nan)
        yield EnsembleScore(
            ensemble=name,
            number=int((~np.isnan(score)).sum()),
            energy=mean_of_known(score),
            skill=skill(score, reference),
            p_value=paired_test(score, reference).p_value,
            sinkhorn=mean_of_known(others["sinkhorn"][name]),
            rouge={kind: mean_of_known(others[kind][name]) for kind in _OTHERS[1:]},
        )


def expected_day_scores(folder: BacktestFolder, days: Sequence[date]) -> Iterator[ExpectedDayScore]:
    """How near expected days were to the days that came; none without a decoder."""
    table = folder.read("expected", days)
    divergence = _by_ensemble(table, days, "divergence", of="measure")
    rouge = {kind: _by_ensemble(table, days, kind, of="measure") for kind in _OTHERS[1:]}
    for name, values in divergence.items():
        reference = divergence[START]
        yield ExpectedDayScore(
            measure=name,
            number=int((~np.isnan(values)).sum()),
            divergence=mean_of_known(values),
            skill=skill(values, reference),
            p_value=paired_test(values, reference).p_value,
            rouge={kind: mean_of_known(rouge[kind][name]) for kind in rouge},
        )


_OTHERS: Final = ("sinkhorn", "rouge1", "rouge2", "rougeL")


def _by_ensemble(
    table: Any, days: Sequence[date], column: str, *, of: str = "ensemble"
) -> dict[str, FloatArray]:
    """A column of the futures' tables, ensemble -> [day, stream]; NaN where there is none."""
    distinct = dict.fromkeys(table["stream"].to_pylist())
    streams = {stream: number for number, stream in enumerate(distinct)}
    places = {day: number for number, day in enumerate(days)}
    values: dict[str, FloatArray] = {}
    rows = (table[name].to_pylist() for name in (of, "day", "stream", column))
    for ensemble, day, stream, value in zip(*rows, strict=True):
        if ensemble not in values:
            values[ensemble] = np.full((len(days), len(streams)), np.nan)
        values[ensemble][places[day], streams[stream]] = value
    return values
