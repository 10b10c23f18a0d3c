"""The context network: it learns from where many worlds left it, is weighed against what was said
before, speaks of tomorrow only, and sees no later day."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import FloatArray
from gdelphi.model import context_fit
from gdelphi.model.cell_fit import CELL_FOLDER, CellFit, CellSettings, fit_cells
from gdelphi.model.context_fit import (
    CONTEXT_FOLDER,
    FINE_TUNING,
    ContextFit,
    context_network_of,
    fit_context,
    validation_logits,
)
from gdelphi.model.direct_reading import DirectReading
from gdelphi.model.starter_network import StarterNetwork, StarterSettings, train_starter
from gdelphi.stack.context import ContextTable
from gdelphi.stack.fitted import CountForecasters
from gdelphi.stack.linear import expit
from gdelphi.stack.starter import Starter, shipped_starter
from gdelphi.stack.week import WeekStack
from helpers.small_stack import TRAIN, VALIDATION_A, VALIDATION_B, small_panel, small_stack

FEW = replace(FINE_TUNING, steps=3, batch=64)
NO_CELLS = CellSettings(epochs=0)


# --- the network ----------------------------------------------------------------------------------


def learnable(seed: int, cells: int = 4000) -> ContextTable:
    """Cells whose first column moves the first target."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(cells, 5)).astype(np.float32)
    base = random.normal(size=(cells, 3)).astype(np.float32)
    law = base + np.array([1.5, 0, 0]) * columns[:, :1]
    came = (random.random(law.shape) < expit(law)).astype(np.float32)
    came[::7, 2] = np.nan
    return ContextTable(columns, base, came)


SCALE = np.zeros(5, np.float32), np.ones(5, np.float32)


def log_loss(network: Starter, table: ContextTable) -> FloatArray:
    said = expit(network.logits(table))
    hit = np.where(table.outcomes == 1, said, 1 - said)
    return -np.nanmean(np.log(np.where(np.isnan(table.outcomes), np.nan, hit)), axis=0)


def test_it_learns_what_moves_a_target_and_forgets_nothing_that_it_began_with() -> None:
    settings = StarterSettings(steps=150, batch=512, learning_rate=1e-2)
    trained = train_starter(None, learnable(1), SCALE, settings)
    untrained = train_starter(None, learnable(1), SCALE, replace(settings, steps=0))
    other = learnable(2)
    np.testing.assert_allclose(untrained.logits(other), other.base, atol=1e-6)
    before, after = log_loss(untrained, other), log_loss(trained, other)
    assert after[0] < before[0] - 0.1
    assert after[1] < before[1] + 0.02
    np.testing.assert_array_equal(
        train_starter(trained, learnable(1), SCALE, replace(settings, steps=0)).logits(other),
        trained.logits(other),
    )


def test_the_same_seed_gives_the_same_network_and_another_one_does_not() -> None:
    settings = StarterSettings(steps=5, batch=64)
    one, same, other = (
        train_starter(None, learnable(1), SCALE, replace(settings, seed=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.first, same.first)
    assert not np.array_equal(one.first, other.first)


def test_arrays_and_network_are_made_of_each_other() -> None:
    shipped = shipped_starter()
    again = StarterNetwork.from_starter(shipped).starter(
        shipped.mean, shipped.deviation, shipped.part.tolist()
    )
    for ours, theirs in zip(again, shipped, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- beside the stack -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> CountForecasters:
    return CountForecasters(small_stack(tmp_path_factory), small_panel())


@pytest.fixture(scope="module")
def cells(counts: CountForecasters) -> CellFit:
    return fit_cells(counts, NO_CELLS)


@pytest.fixture(scope="module")
def fitted(counts: CountForecasters, cells: CellFit) -> ContextFit:
    found = fit_context(counts.panel, counts.fit.out_of_fold, cells, FEW)
    return replace(found, weights=(0.5, 0.25, 0.0))  # so few steps may have earned none


def reading(
    counts: CountForecasters, cells: CellFit | None, context: ContextFit | None
) -> DirectReading:
    assert counts.fit.week is not None
    week = WeekStack(counts, counts.fit.week)
    return DirectReading(counts.stack, cells, counts.panel.roots, week, context)


def origin_of(position: int) -> date:
    return small_panel().roots.days[position - 1]


def test_it_answers_for_validation_and_not_for_training_days(
    counts: CountForecasters, fitted: ContextFit
) -> None:
    days = small_panel().roots.days
    assert fitted.at(days[TRAIN - 1]) is None
    said = fitted.at(days[VALIDATION_A])
    assert said is not None
    assert said.shape == (4, 20, 3)
    assert fitted.days[-1] < days[VALIDATION_B].toordinal()


def test_tomorrow_is_moved_by_its_weights_and_further_days_are_not(
    counts: CountForecasters, fitted: ContextFit
) -> None:
    origin = origin_of(VALIDATION_B + 5)
    plain, moved = reading(counts, None, None), reading(counts, None, fitted)
    before, after = plain.week(origin), moved.week(origin)
    np.testing.assert_array_equal(before[:, 1:], after[:, 1:])
    np.testing.assert_array_equal(before[2], after[2])  # its weight is 0
    assert np.nanmax(np.abs(before[:2, 0] - after[:2, 0])) > 1e-4
    np.testing.assert_array_equal(moved.tomorrow(origin), after[:, 0])
    whole = reading(counts, None, replace(fitted, weights=(1.0, 1.0, 1.0)))
    halfway = (before[0, 0] + whole.tomorrow(origin)[0]) / 2
    np.testing.assert_allclose(after[0, 0], halfway, atol=1e-9)


def test_of_training_days_it_says_what_was_said_before(
    counts: CountForecasters, fitted: ContextFit
) -> None:
    origin = origin_of(TRAIN - 5)
    before, after = (reading(counts, None, one).tomorrow(origin) for one in (None, fitted))
    np.testing.assert_array_equal(before, after)


def test_a_validation_day_is_answered_by_the_network_that_has_not_seen_it(
    counts: CountForecasters, cells: CellFit, fitted: ContextFit
) -> None:
    place = len(fitted.days) // 2
    day = date.fromordinal(int(fitted.days[place]))
    after = reading(counts, None, fitted).tomorrow(day - timedelta(days=1))
    days, kept = validation_logits(cells, fitted)
    at = int(np.flatnonzero(days == fitted.days[place])[0])
    np.testing.assert_allclose(after, kept[:, at], atol=1e-5)
    before = validation_logits(cells, None)[1][:, at]
    expected = before[0] + 0.5 * (fitted.logits[0, place] - before[0])
    np.testing.assert_allclose(after[0], expected, atol=1e-5)


def test_days_after_the_origin_change_nothing(counts: CountForecasters, fitted: ContextFit) -> None:
    position = VALIDATION_B + 5
    origin = origin_of(position)
    roots = counts.panel.roots
    garbage = roots.counts.copy()
    garbage[:, position:] = 77
    fine = counts.panel.fine.copy()
    fine[:, position:] = 9
    other = replace(counts.panel, roots=replace(roots, counts=garbage), fine=fine)
    known = counts.fit.out_of_fold.days
    before = np.zeros((4, 20, 3))
    one, two = (
        context_fit.ContextReading(fitted, panel, known).moved(before, origin)
        for panel in (counts.panel, other)
    )
    np.testing.assert_array_equal(one, two)
    alone = context_fit.ContextReading(fitted, counts.panel.until(origin), known)
    np.testing.assert_array_equal(one, alone.moved(before, origin))


@pytest.mark.parametrize(
    ("steps", "most", "why"),
    [(0, 10_000, "train.context_steps is 0"), (3, 100, "at most 100 days of streams")],
)
def test_without_steps_or_with_much_to_learn_from_nothing_moves_and_it_says_why(
    counts: CountForecasters,
    cells: CellFit,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    steps: int,
    most: int,
    why: str,
) -> None:
    monkeypatch.setattr(context_fit, "MOST_LEARNED", most)
    known = counts.fit.out_of_fold
    found = fit_context(counts.panel, known, cells, replace(FEW, steps=steps))
    found.save(tmp_path, {})
    found = ContextFit.load(tmp_path)
    assert why in found.left_out
    assert not found.moves
    assert reading(counts, None, found).context is None
    np.testing.assert_array_equal(validation_logits(cells, found)[1], cells.logits[:3])


def test_it_is_kept_and_trained_again_after_another_cell_network(
    counts: CountForecasters, cells: CellFit, tmp_path: Path
) -> None:
    known, settings = counts.fit.out_of_fold, replace(FEW, steps=1)
    told: list[str] = []

    def made() -> ContextFit:
        return context_network_of(
            counts.panel, known, cells, tmp_path, settings, on_step=told.append
        )

    cells.save(tmp_path / CELL_FOLDER, NO_CELLS)
    first = made()
    number = len(told)
    again = made()
    assert len(told) == number
    np.testing.assert_array_equal(first.logits, again.logits)
    np.testing.assert_array_equal(first.network.first, again.network.first)
    assert (first.start, first.weights) == (again.start, again.weights)
    (tmp_path / CELL_FOLDER / "model.safetensors").write_bytes(b"another")
    made()
    assert len(told) > number


def test_a_damaged_one_is_named_with_the_remedy(fitted: ContextFit, tmp_path: Path) -> None:
    folder = tmp_path / CONTEXT_FOLDER
    fitted.save(folder, {})
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "format": 9}))
    with pytest.raises(ForecastError, match=r"context_network .*format 9.*gdelphi train --fresh"):
        ContextFit.load(folder)
