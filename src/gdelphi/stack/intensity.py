"""The intensity: how many rows of each root to expect, from everything that is counted.

    expected rows of stream s, root r on day t  =  usual rows x weekday factor x sum_j theta_rj x_sj

where x are the columns of `columns.py` and `levels.py`, all from days before t, and theta >= 0 are
few: a sparse negative binomial regression over all streams together (`sparse_fit.py`). Fine codes
that announce something are found by themselves. A code and its lag are let in where the gradient of
the loss asks for them, by more than `ENTER` of its standard errors, for the roots that it asks for.

The fit goes in five steps: dense columns; fine codes that ask to enter, twice; then, with what the
news excite known, the standing levels of the classes of roots, and all coefficients once more;
last, the columns that a root has chosen are fitted again with half the penalty, since what keeps
the others out makes these too small (relaxed lasso).

A fit keeps every number that it took from the days it was made on. Expected rows for a day depend
on the fit and on the days before alone, and are the same to the last bit whatever panel the days
come in and whatever other days are asked for with it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from gdelphi.common.errors import ForecastError
from gdelphi.common.files import atomic_write
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.types import FloatArray, IntArray, VectorArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.columns import (
    CONSTANT,
    LAGS,
    CodeLag,
    ColumnBlock,
    Columns,
    Norms,
    code_presence,
    columns_of,
    is_base,
    norms_of,
)
from gdelphi.stack.levels import standing_levels
from gdelphi.stack.sparse_fit import LEAST_MULTIPLE, Cells, fit_nb, fit_shapes, penalties
from gdelphi.stack.usual import Usual, by_day, usual_of, weekdays

FORMAT: Final = 1  # of the file
FEWEST_DAYS: Final = 60  # to fit on

DENSE_ERRORS: Final = 3.0  # penalty of a dense column, in standard errors of its gradient
CODE_ERRORS: Final = 1.5  # of a fine code that was let in
ENTER: Final = 6.0  # standard errors of the gradient at which a fine code is let in for a root
MOST_CODES: Final = 100  # that are let in at once, the strongest first
CODE_ROUNDS: Final = 2  # in which codes are let in
CODE_CELLS: Final = 15  # that a code must have been seen in, to be looked at
LAGGED_CELLS: Final = 10  # likewise, among the fit's cells and at the lag in question
SHUT_OUT: Final = 1e12  # penalty of a code for a root that it was not let in for
RELAXED: Final = 0.5  # of the penalties remains for the columns that were chosen under all of them
FIRST_SHAPE: Final = 3.0
FIRST_CONSTANT: Final = 0.5  # coefficients that the fit starts from: half constant,
FIRST_LEVEL: Final = 0.4  # half the root's own level
FIRST_STEPS: Final = 150
STEPS: Final = 400
DAYS_AT_ONCE: Final = 128  # of which columns are built at once


class FoundCode(NamedTuple):
    """A fine code that announces a root."""

    code: str
    lag: int
    """days before"""
    root: str
    effect: float
    """rows that it adds, in multiples of the usual number"""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of named columns and of fine codes, for each root."""

    names: tuple[str, ...]
    """of columns: the constant, and those that some root uses"""
    theta: VectorArray
    """[column, root]"""
    codes: tuple[CodeLag, ...]
    code_theta: VectorArray
    """[code and lag, root]"""

    @property
    def stacked(self) -> VectorArray:
        """Both, one below the other."""
        return np.concatenate([self.theta, self.code_theta])


@dataclass(frozen=True, eq=False)
class Intensity:
    """A fitted intensity."""

    streams: tuple[str, ...]
    roots: tuple[str, ...]
    first_day: date
    """that it was fitted on"""
    last_day: date
    cells: int
    """streams and days that it was fitted on"""
    norms: Norms
    first: Coefficients
    """without standing levels, which it tells how to compute"""
    first_shapes: FloatArray
    """[stream, root], NB shapes under these"""
    calm: FloatArray
    """[root], the mean multiple of the usual that a stream's state brings under these"""
    final: Coefficients
    shapes: FloatArray
    """[stream, root], NB shapes k: the variance of rows is mu + mu^2 / k"""

    def expected_rows(self, panel: CountPanel, days: IntArray) -> FloatArray:
        """Expected rows on days at these positions of a panel, each from the days before it;
        [day, stream, root]. The position after the last day is one too, the first is not: before
        it there is nothing."""
        self._check(panel, days)
        past = past_columns(self, panel)
        expected = np.empty((len(days), *self.shapes.shape))
        for part, portion in portions(days):
            matrix = _matrix(past.columns, panel, self.final.codes, portion)
            multiples = np.maximum(matrix @ self.final.stacked, LEAST_MULTIPLE)
            expected[part] = past.usual_rows(portion) * multiples
        return expected

    @cached_property
    def found_codes(self) -> tuple[FoundCode, ...]:
        """The fine codes that were found to announce a root, the largest effect first."""
        found = [
            FoundCode(code, lag, root, float(effect))
            for (code, lag), effects in zip(self.final.codes, self.final.code_theta, strict=True)
            for root, effect in zip(self.roots, effects, strict=True)
            if effect > 0
        ]
        return tuple(sorted(found, key=lambda each: -each.effect))

    @property
    def summary(self) -> str:
        """One line: what it was fitted on, how many coefficients it has, which codes it found."""
        number = np.count_nonzero(self.final.theta) + np.count_nonzero(self.final.code_theta)
        largest = ", ".join(
            f"{each.code} {each.lag} days before {each.root} (+{each.effect:.1f} x usual)"
            for each in self.found_codes[:5]
        )
        return (
            f"{number} coefficients from {self.cells} days of streams, {self.first_day} to "
            f"{self.last_day}; announcing codes: {largest or 'none'}"
        )

    def _check(self, panel: CountPanel, days: IntArray) -> None:
        roots = panel.roots
        if (roots.streams, roots.codes) != (self.streams, self.roots):
            raise ForecastError(
                f"the intensity was fitted for {len(self.streams)} streams "
                f"({', '.join(self.streams[:3])}, ...), the panel has {len(roots.streams)} "
                f"({', '.join(roots.streams[:3])}, ...): fit it again for these"
            )
        if len(days) and not 1 <= days.min() <= days.max() <= len(roots.days):
            raise ForecastError(
                f"days {days.min()} to {days.max()} are asked for, which must lie between 1 and "
                f"{len(roots.days)}: days with one before them, and the day after the last"
            )

    # --- on disk ----------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write it as one safetensors file."""
        tensors: dict[str, npt.NDArray[Any]] = {
            "weekdays": self.norms.weekdays,
            "hostile": self.norms.hostile,
            "acted_shares": self.norms.acted_shares,
            "first_shapes": self.first_shapes,
            "calm": self.calm,
            "shapes": self.shapes,
        }
        for name, affinity in self.norms.affinities.items():
            tensors[f"affinity.{name}"] = affinity
        facts: dict[str, Any] = {
            "format": FORMAT,
            "streams": self.streams,
            "roots": self.roots,
            "first_day": self.first_day.isoformat(),
            "last_day": self.last_day.isoformat(),
            "cells": self.cells,
            "world_rows": self.norms.world_rows,
            "affinities": list(self.norms.affinities),
        }
        for name, each in (("first", self.first), ("final", self.final)):
            tensors[f"{name}.theta"] = each.theta
            tensors[f"{name}.code_theta"] = each.code_theta
            facts[name] = {"names": each.names, "codes": each.codes}
        whole = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
        with atomic_write(path) as part:
            save_file(whole, part, metadata={"intensity": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Intensity":
        """What `save` has written."""
        try:
            with safe_open(path, "np") as file:
                facts = json.loads((file.metadata() or {})["intensity"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if facts["format"] != FORMAT:
                raise ValueError(f"format {facts['format']}, not {FORMAT}")
            affinities = {name: tensors[f"affinity.{name}"] for name in facts["affinities"]}
            return cls(
                streams=tuple(facts["streams"]),
                roots=tuple(facts["roots"]),
                first_day=date.fromisoformat(facts["first_day"]),
                last_day=date.fromisoformat(facts["last_day"]),
                cells=facts["cells"],
                norms=Norms(
                    tensors["weekdays"],
                    affinities,
                    tensors["hostile"],
                    tensors["acted_shares"],
                    facts["world_rows"],
                ),
                first=_loaded_coefficients("first", facts, tensors),
                first_shapes=tensors["first_shapes"],
                calm=tensors["calm"],
                final=_loaded_coefficients("final", facts, tensors),
                shapes=tensors["shapes"],
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ForecastError(
                f"{path} holds no intensity that can be read ({reason}): "
                "run `gdelphi calibrate` again"
            ) from None


def _loaded_coefficients(name: str, facts: dict[str, Any], tensors: dict[str, Any]) -> Coefficients:
    return Coefficients(
        tuple(facts[name]["names"]),
        tensors[f"{name}.theta"],
        tuple((code, lag) for code, lag in facts[name]["codes"]),
        tensors[f"{name}.code_theta"],
    )


# --- what is computed from a panel ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PastColumns:
    """A panel, and what was made of it once: what is usual, and columns."""

    panel: CountPanel
    norms: Norms
    usual: Usual
    columns: Columns
    weekday: IntArray

    def usual_rows(self, days: IntArray) -> FloatArray:
        """[day, stream, root]."""
        return self.usual.expected(self.norms.weekdays, self.weekday, days)


def past_columns(intensity: Intensity, panel: CountPanel) -> PastColumns:
    """Of a panel with the columns that a fitted intensity uses, standing levels among them."""
    past = _past_of(panel, intensity.norms)
    levels = _levels_of(past, intensity.first, intensity.first_shapes, intensity.calm)
    columns = Columns((*past.columns.blocks, *levels)).select(intensity.final.names)
    return replace(past, columns=columns)


def _past_of(panel: CountPanel, norms: Norms) -> PastColumns:
    usual = usual_of(panel, norms.weekdays)
    return PastColumns(panel, norms, usual, columns_of(panel, usual, norms), weekdays(panel))


def portions(days: IntArray) -> Iterator[tuple[slice, IntArray]]:
    """Days in portions whose columns fit into memory, each with its place among them."""
    for begin in range(0, len(days), DAYS_AT_ONCE):
        part = slice(begin, begin + DAYS_AT_ONCE)
        yield part, days[part]


def _matrix(
    columns: Columns, panel: CountPanel, codes: Sequence[CodeLag], days: IntArray
) -> VectorArray:
    """Columns and fine codes of target days, [day, stream, column].

    Its product with coefficients is one of the same shape for every day, and so has the same
    rounding whatever the other days are.
    """
    return np.concatenate([columns.at(days), code_presence(panel, codes, days)], axis=2)


def _multiples_of(past: PastColumns, fitted: Coefficients) -> tuple[VectorArray, VectorArray]:
    """Multiples of the usual that the state and that everything brings on each day of the panel,
    both [day, stream, root]."""
    base = np.array([is_base(name) for name in fitted.names])
    state = np.where(base[:, None], fitted.theta, 0)
    both = np.concatenate(
        [np.concatenate([state, np.zeros_like(fitted.code_theta)]), fitted.stacked], axis=1
    )
    columns = past.columns.select(fitted.names)
    days = np.arange(len(past.panel.roots.days))
    found = np.empty((len(days), len(past.panel.roots.streams), both.shape[1]), np.float32)
    for part, portion in portions(days):
        found[part] = _matrix(columns, past.panel, fitted.codes, portion) @ both
    size = fitted.theta.shape[1]
    return found[..., :size], found[..., size:]


def _levels_of(
    past: PastColumns, fitted: Coefficients, shapes: FloatArray, calm: FloatArray
) -> tuple[ColumnBlock, ...]:
    """Standing levels, from what the first coefficients say that the news excite."""
    roots = past.panel.roots
    state, everything = _multiples_of(past, fitted)
    return standing_levels(
        by_day(roots.counts),
        past.usual_rows(np.arange(len(roots.days))) * calm,
        state / np.maximum(everything, LEAST_MULTIPLE),
        shapes,
        roots.present,
        roots.codes,
    )


# --- the fit --------------------------------------------------------------------------------------


def fit_intensity(panel: CountPanel, fit_days: IntArray, *, on_step: OnStep = silent) -> Intensity:
    """Fit to the target days at these positions of a panel; days after the last are not looked at.

    Missing days among them are left out.
    """
    days = _usable(panel, fit_days)
    on_step("what is usual")
    norms = norms_of(panel, days)
    past = _past_of(panel, norms)
    on_step("columns")
    stand = _solve(_beginning(past, days), FIRST_STEPS)
    for number in range(CODE_ROUNDS):
        on_step(f"fine codes, round {number + 1}")
        known = stand.codes
        stand = _let_in(stand, panel, days)  # by itself: the matrix before it is not held any more
        stand = _solve(stand, STEPS)
        if stand.codes == known:
            break
    first, first_shapes = stand.coefficients, stand.stream_shapes
    state, _ = _multiples_of(past, first)
    calm = state[: days[-1] + 1].mean(axis=(0, 1), dtype=np.float64)
    on_step("standing levels")
    levels = Columns(_levels_of(past, first, first_shapes, calm))
    stand = _add_levels(stand, levels, days)
    stand = _relax(_solve(stand, STEPS))
    return Intensity(
        streams=panel.roots.streams,
        roots=panel.roots.codes,
        first_day=panel.roots.days[days[0]],
        last_day=panel.roots.days[days[-1]],
        cells=len(days) * len(panel.roots.streams),
        norms=norms,
        first=first,
        first_shapes=first_shapes,
        calm=calm,
        final=stand.coefficients,
        shapes=stand.stream_shapes,
    )


def _usable(panel: CountPanel, fit_days: IntArray) -> IntArray:
    """The days that can be fitted to, sorted."""
    size = len(panel.roots.days)
    days = np.unique(fit_days)
    if len(days) and not 1 <= days[0] <= days[-1] < size:
        raise ForecastError(
            f"an intensity cannot be fitted to days {days[0]} to {days[-1]}: the panel's days are "
            f"numbered 0 to {size - 1}, and the first has none before it"
        )
    days = days[panel.roots.present[days]]
    if len(days) < FEWEST_DAYS:
        raise ForecastError(
            f"an intensity needs {FEWEST_DAYS} days to be fitted to, and only {len(days)} are "
            "there: ingest more days, or begin the training part earlier"
        )
    return days


@dataclass(frozen=True, eq=False)
class _Stand:
    """Where the fit stands."""

    names: tuple[str, ...]
    """of dense columns"""
    codes: tuple[CodeLag, ...]
    matrix: Tensor
    """[cell, dense column, then code and lag], cells are days and, within them, streams; held once:
    of 1,500 days and 50 streams it has 200 MB"""
    allowed: Tensor
    """[code and lag, root], whether it was let in for the root"""
    theta: Tensor
    """[column, then code and lag, root]"""
    cells: Cells
    streams: int

    @property
    def stream_shapes(self) -> FloatArray:
        """[stream, root]."""
        return self.cells.shapes[: self.streams].numpy().astype(np.float64)

    @property
    def coefficients(self) -> Coefficients:
        """Of the constant, and of the columns and codes that some root uses."""
        theta = self.theta.numpy()
        dense, coded = theta[: len(self.names)], theta[len(self.names) :]
        constant = np.array([name == CONSTANT for name in self.names])
        used = np.flatnonzero(dense.any(axis=1) | constant)
        used_codes = np.flatnonzero(coded.any(axis=1))
        return Coefficients(
            tuple(self.names[number] for number in used),
            dense[used],
            tuple(self.codes[number] for number in used_codes),
            coded[used_codes],
        )


def _beginning(past: PastColumns, days: IntArray) -> _Stand:
    """Before the first fit: dense columns alone, those that are not the same in all cells."""
    roots = past.panel.roots
    dense = _flat(past.columns.at(days))
    varies = (dense != dense[0]).any(0)
    varies[past.columns.names.index(CONSTANT)] = True
    names = tuple(compress(past.columns.names, varies.tolist()))
    counts = _flat(roots.counts.swapaxes(0, 1)[days])
    scale = _flat(past.usual_rows(days))
    place = {name: number for number, name in enumerate(names)}
    theta = torch.zeros(len(names), len(roots.codes))
    theta[place[CONSTANT]] = FIRST_CONSTANT
    for number, root in enumerate(roots.codes):
        level = f"level {root} half-life 30"
        if level in place:
            theta[place[level], number] = FIRST_LEVEL
    return _Stand(
        names=names,
        codes=(),
        matrix=dense if varies.all() else dense[:, varies],
        allowed=torch.zeros(0, len(roots.codes), dtype=torch.bool),
        theta=theta,
        cells=Cells(counts, scale, torch.full_like(counts, FIRST_SHAPE)),
        streams=len(roots.streams),
    )


def _flat(values: npt.NDArray[Any]) -> Tensor:
    """[day, stream, x] as a tensor [cell, x]."""
    return torch.from_numpy(np.asarray(values, np.float32).reshape(-1, values.shape[2]))


def _solve(stand: _Stand, steps: int) -> _Stand:
    """Coefficients fitted anew from where they are, and then shapes."""
    return _fit(stand, _penalty(stand), steps)


def _relax(stand: _Stand) -> _Stand:
    """The same with smaller penalties for the columns that each root uses, and no others."""
    penalty = RELAXED * _penalty(stand)
    used = stand.theta > 0
    used[stand.names.index(CONSTANT)] = True
    penalty[~used] = SHUT_OUT
    return _fit(stand, penalty, STEPS)


def _penalty(stand: _Stand) -> Tensor:
    """Of each coefficient, [column, root]."""
    errors = torch.full((len(stand.theta),), DENSE_ERRORS)
    errors[stand.names.index(CONSTANT)] = 0
    errors[len(stand.names) :] = CODE_ERRORS
    matrix = stand.matrix
    penalty = penalties(matrix, stand.cells.information(matrix @ stand.theta), errors)
    penalty[len(stand.names) :][~stand.allowed] = SHUT_OUT
    return penalty


def _fit(stand: _Stand, penalty: Tensor, steps: int) -> _Stand:
    """Coefficients under a penalty, and then shapes."""
    matrix, cells = stand.matrix, stand.cells
    theta = fit_nb(matrix, cells, stand.theta, penalty, steps=steps)
    shape = (-1, stand.streams, theta.shape[1])
    counts, means = (
        each.double().numpy().reshape(shape) for each in (cells.counts, cells.means(matrix @ theta))
    )
    shapes = np.broadcast_to(fit_shapes(counts, means), counts.shape)
    return replace(stand, theta=theta, cells=replace(cells, shapes=_flat(shapes)))


def _let_in(stand: _Stand, panel: CountPanel, days: IntArray) -> _Stand:
    """With the fine codes that the gradient asks for most."""
    asked = _standard_errors(stand, panel, days)  # [lag, code, root]
    place = {code: number for number, code in enumerate(panel.fine_codes)}
    for code, lag in stand.codes:
        asked[lag - 1, place[code]] = -np.inf
    strongest = asked.max(axis=2)
    order = np.argsort(-strongest, axis=None, kind="stable")[:MOST_CODES]
    lags, codes = np.unravel_index(order, strongest.shape)
    enters = strongest[lags, codes] > ENTER
    lags, codes = lags[enters], codes[enters]
    new = tuple(
        (panel.fine_codes[code], int(lag) + 1) for lag, code in zip(lags, codes, strict=True)
    )
    if not new:
        return stand
    return replace(
        stand,
        codes=stand.codes + new,
        matrix=torch.cat([stand.matrix, _flat(code_presence(panel, new, days))], 1),
        allowed=torch.cat([stand.allowed, torch.from_numpy(asked[lags, codes] > ENTER)]),
        theta=torch.cat([stand.theta, torch.zeros(len(new), stand.theta.shape[1])]),
    )


def _standard_errors(stand: _Stand, panel: CountPanel, days: IntArray) -> FloatArray:
    """How far the loss falls with each fine code at each lag, in standard errors of its gradient,
    [lag, code, root]; minus infinity for codes that are too rare."""
    multiples = stand.matrix @ stand.theta
    fall = -stand.cells.slope(multiples).numpy()
    information = stand.cells.information(multiples).numpy()
    seen = np.count_nonzero(panel.fine[:, : days[-1] + 1], axis=(0, 1))
    frequent = np.flatnonzero(seen >= CODE_CELLS)
    total = information.sum(axis=0, dtype=np.float64)
    asked = np.full((LAGS, len(panel.fine_codes), len(total)), -np.inf)
    for lag in range(1, LAGS + 1):
        number = np.zeros(len(frequent))
        falls, known = np.zeros((2, len(frequent), len(total)))
        for part, portion in portions(days):
            cells = slice(part.start * stand.streams, part.stop * stand.streams)
            there = _lagged_presence(panel, frequent, lag, portion)
            number += there.sum(axis=0)
            falls += there.T @ fall[cells]
            known += there.T @ information[cells]
        # As in `penalties`, x being 0 or 1.
        variance = np.maximum(known - known**2 / total, 1e-8)
        common = number >= LAGGED_CELLS
        asked[lag - 1, frequent[common]] = (falls / np.sqrt(variance))[common]
    return asked


def _lagged_presence(panel: CountPanel, codes: IntArray, lag: int, days: IntArray) -> VectorArray:
    """1 where a code was there so many days before, [cell, code]."""
    at = days - lag
    there = panel.fine[:, np.maximum(at, 0)][..., codes] > 0
    there[:, at < 0] = False
    cells = there.shape[0] * there.shape[1]
    return there.swapaxes(0, 1).reshape(cells, len(codes)).astype(np.float32)


def _add_levels(stand: _Stand, levels: Columns, days: IntArray) -> _Stand:
    """With the columns of standing levels."""
    size = len(stand.names)
    new = torch.zeros(len(levels.names), stand.theta.shape[1])
    return replace(
        stand,
        names=stand.names + levels.names,
        matrix=torch.cat(
            [stand.matrix[:, :size], _flat(levels.at(days)), stand.matrix[:, size:]], 1
        ),
        theta=torch.cat([stand.theta[:size], new, stand.theta[size:]]),
    )
