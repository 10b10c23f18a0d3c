"""The cell network: it learns from surprises, is weighed against the stack, sees no later day."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows

from gdelphi.common.errors import ForecastError
from gdelphi.common.threads import at_once
from gdelphi.common.types import FloatArray
from gdelphi.model.cell_fit import (
    CELL_FOLDER,
    CellData,
    CellFit,
    CellSettings,
    added_logits,
    begin_cells,
    blended,
    cell_network_of,
    choose_weights,
    column_scale,
    fit_cells,
)
from gdelphi.model.cell_inputs import CellInputs, by_horizon, cell_inputs
from gdelphi.model.cell_network import CellConfig, CellNetwork
from gdelphi.model.direct_reading import DirectReading
from gdelphi.stack.fitted import CountForecasters
from gdelphi.stack.linear import expit
from gdelphi.stack.week import WeekStack
from helpers.small_stack import TRAIN, small_panel, small_stack

CPU = torch.device("cpu")
FEW = CellSettings(epochs=1, batch=64)


# --- how far it goes from the stack ---------------------------------------------------------------


def cells(seed: int, spread: float = 1.0) -> FloatArray:
    return np.random.default_rng(seed).normal(scale=spread, size=(120, 4, 20, 3))


def drawn(logits: FloatArray) -> FloatArray:
    return (np.random.default_rng(8).random(logits.shape) < expit(logits)).astype(np.float64)


def test_a_network_that_is_noise_has_no_weight_and_a_better_one_has_all() -> None:
    law = cells(1)
    stack, network = law.copy(), law.copy()
    network[..., 0] += cells(2)[..., 0]  # there the stack is right, and the network is not
    stack[..., 1] = 0.0  # there the stack knows nothing
    stack[..., 2] = 0.0
    network[..., 2] = 2.5 * law[..., 2]  # the right way, too far
    weights, gains = choose_weights(stack, network, drawn(law))
    assert weights == (0.0, 1.0, 0.4)
    assert gains[0] == 0.0
    assert min(gains[1:]) > 0.01


def test_a_gain_that_may_be_chance_gives_no_weight() -> None:
    law = cells(1)
    stack = law + 0.3 * cells(2)
    network = stack + 0.02 * cells(3)
    few = slice(0, 10)
    weights, gains = choose_weights(stack[few], network[few], drawn(law)[few])
    assert weights == (0.0, 0.0, 0.0)
    assert gains == (0.0, 0.0, 0.0)


def test_days_without_outcomes_decide_nothing() -> None:
    law = cells(1)
    weights, _ = choose_weights(law * 0, law, np.full(law.shape, np.nan))
    assert weights == (0.0, 0.0, 0.0)


def test_weight_0_is_the_stack_to_the_bit_and_weight_1_the_network() -> None:
    stack, network = cells(1), cells(2)
    said = blended(stack, network, (0.0, 0.5, 1.0))
    np.testing.assert_array_equal(said[..., 0], stack[..., 0])
    np.testing.assert_allclose(said[..., 1], (stack[..., 1] + network[..., 1]) / 2)
    np.testing.assert_allclose(said[..., 2], network[..., 2])


# --- what it can learn ----------------------------------------------------------------------------


def planted(days: int = 400, streams: int = 4, roots: int = 6) -> tuple[CellInputs, FloatArray]:
    """Root 0 is likely after a surprise of root 1, two days before; columns are noise."""
    random = np.random.default_rng(5)
    surprises = random.normal(size=(days, streams, 14, 2 * roots)).astype(np.float32)
    logits = np.zeros((days, streams, roots, 3))
    logits[:, :, 0] = np.where(surprises[:, :, -2, 1] > 0, 2.0, -2.0)[..., None]
    columns = random.normal(size=(days, streams, roots, 5)).astype(np.float32)
    base = np.zeros_like(logits)
    came = (random.random(logits.shape) < expit(logits)).astype(np.float64)
    came[3, 1] = np.nan  # a cell that is not known teaches nothing
    return CellInputs(columns, surprises, base, base), came


def test_it_learns_what_surprises_tell() -> None:
    inputs, came = planted()
    data = CellData(inputs, came, CPU)
    settings = CellSettings(epochs=30, learning_rate=1e-2, weight_decay=0.0)
    begun = begin_cells(CellConfig(columns=5, roots=6), data, np.arange(300), settings=settings)
    network = begun()
    added = added_logits(network, data, np.arange(300, 400))
    surprised = inputs.surprises[300:, :, -2, 1] > 0
    assert added[..., 0, 0][surprised].mean() > 1.0
    assert added[..., 0, 0][~surprised].mean() < -1.0
    assert abs(added[..., 3, 0]).mean() < 0.7  # of which nothing is known


def test_the_same_seed_gives_the_same_network_and_random_numbers_are_left_alone() -> None:
    inputs, came = planted(60)
    data, config = CellData(inputs, came, CPU), CellConfig(columns=5, roots=6)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two, other = (
        added_logits(
            begin_cells(config, data, np.arange(60), settings=replace(FEW, seed=seed))(),
            data,
            np.arange(60),
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one, two)
    assert abs(one - other).max() > 1e-6


def test_untrained_it_adds_nothing_and_streams_do_not_mix() -> None:
    config = CellConfig(columns=5, roots=6)
    network = CellNetwork(config).eval()
    columns, surprises = torch.randn(8, 6, 5), torch.randn(8, 14, 12)
    assert not network(columns, surprises).any()
    torch.nn.init.normal_(network.out)
    torch.nn.init.normal_(network.own.weight)
    whole = network(columns, surprises)
    assert whole.shape == (config.members, 8, 6, 3)
    assert (whole[0] - whole[1]).abs().max() > 0.01  # members differ
    torch.testing.assert_close(network(columns[2:4], surprises[2:4]), whole[:, 2:4])


def test_it_says_what_its_formula_says() -> None:
    """As the docstrings give it, member by member: signs on the inputs, scales on the outputs."""
    config = CellConfig(columns=5, roots=6)
    network = CellNetwork(config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    network.mean.normal_()
    columns, surprises = 3 * torch.randn(8, 6, 5), torch.randn(8, 14, 12)
    state = network.recurrent(F.gelu(network.surprise(surprises)))[1][0]
    scaled = ((columns - network.mean) / network.deviation).clamp(-5, 5)
    shown = network.shown(state)[:, None].expand(-1, 6, -1)
    cells = torch.cat([scaled, shown, network.root.expand(8, -1, -1)], dim=2)
    layer = network.hidden
    for member in range(config.members):
        signed = (cells * layer.signs[member]) @ layer.weight
        hidden = F.gelu(signed * layer.scales[member] + layer.bias[member])
        own = network.own(state).view(8, 6, -1)
        expected = hidden @ network.out[member] + own + network.level
        torch.testing.assert_close(network(columns, surprises)[member], expected)


def test_networks_that_are_trained_at_once_are_those_that_are_trained_in_turn() -> None:
    inputs, came = planted(60)
    data, config = CellData(inputs, came, CPU), CellConfig(columns=5, roots=6)

    def jobs() -> list[Callable[[], CellNetwork]]:
        parts = (np.arange(40), np.arange(60))
        return [begin_cells(config, data, part, settings=FEW) for part in parts]

    for one, other in zip(at_once(jobs(), threads=2), at_once(jobs(), threads=1), strict=True):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name


def test_columns_are_scaled_by_mean_and_deviation_of_the_days_of_training() -> None:
    columns = torch.randn(70, 4, 6, 5) * 3 + 100
    days = np.arange(3, 70, 2)
    mean, deviation = column_scale(columns, days)
    flat = columns[days].double().flatten(0, 2)
    torch.testing.assert_close(mean, flat.mean(0))
    torch.testing.assert_close(deviation, flat.std(0))


# --- over a stack ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> CountForecasters:
    return CountForecasters(small_stack(tmp_path_factory), small_panel())


@pytest.fixture(scope="module")
def fitted(counts: CountForecasters) -> CellFit:
    found = fit_cells(counts, FEW)
    return replace(found, weights=(0.5,) * len(found.weights))  # so few steps may have earned none


def reading(counts: CountForecasters, fit: CellFit | None) -> DirectReading:
    assert counts.fit.week is not None
    week = WeekStack(counts, counts.fit.week)
    return DirectReading(counts.stack, fit, counts.panel.roots, week)


def said(counts: CountForecasters, fit: CellFit | None, origin: date) -> FloatArray:
    """Of the whole week, tomorrow first; and tomorrow by itself is the same."""
    direct = reading(counts, fit)
    week = direct.week(origin)
    np.testing.assert_array_equal(direct.tomorrow(origin), week[:, 0])
    return week


@pytest.mark.slow
def test_surprises_are_what_was_not_expected(counts: CountForecasters) -> None:
    day = counts.panel.roots.days[230]
    answers = counts.stack.answers(counts.panel.roots, day - timedelta(days=1))
    one_day = type(answers)(*(logits[:, None] for logits in answers))
    inputs = cell_inputs(counts, [day], one_day, None, before=14)
    yesterday = counts.panel.roots.counts[:, 229] - counts.expected_rows(day - timedelta(days=1))
    newest = inputs.surprises[0, :, -1]
    size = yesterday.shape[1]
    assert (np.sign(newest[:, :size]) == np.sign(yesterday)).all()
    assert np.corrcoef(newest[:, :size].ravel(), yesterday.ravel())[0, 1] > 0.5
    np.testing.assert_allclose(
        newest[:, size:], np.broadcast_to(2 * newest[:, :size].mean(0), newest[:, size:].shape),
        rtol=1e-5,
    )  # fmt: skip
    assert np.isfinite(inputs.columns).all()


@pytest.mark.slow
def test_cells_of_many_days_at_once_are_those_of_each_day(counts: CountForecasters) -> None:
    positions = np.arange(60, 240, 5)  # more than are kept
    table, expected = counts.cells_of(positions)
    for place, position in enumerate(positions.tolist()):
        day = counts.panel.roots.days[position]
        np.testing.assert_array_equal(table.values[place], counts.table(day).values[0])
        np.testing.assert_array_equal(expected[place], counts.expected_rows(day))
        few = counts.cells_of(positions[max(place - 1, 0) : place + 1])
        np.testing.assert_array_equal(few[0].values[-1], table.values[place])
        np.testing.assert_array_equal(few[1][-1], expected[place])


@pytest.mark.slow
def test_no_day_after_the_origin_is_looked_at(counts: CountForecasters, fitted: CellFit) -> None:
    origin = counts.panel.roots.days[228]
    cut = CountForecasters(counts.fit, counts.panel.until(origin))
    np.testing.assert_array_equal(said(counts, fitted, origin), said(cut, fitted, origin))
    changed = counts.panel.roots.counts.copy()
    changed[:, 229:] += 50
    roots = replace(counts.panel.roots, counts=changed, volume=changed.sum(axis=2))
    other = CountForecasters(counts.fit, replace(counts.panel, roots=roots))
    np.testing.assert_array_equal(said(counts, fitted, origin), said(other, fitted, origin))


@pytest.mark.slow
def test_days_of_fitting_are_answered_by_what_has_not_seen_them(
    counts: CountForecasters, fitted: CellFit
) -> None:
    days = counts.panel.roots.days
    for position, known in ((180, True), (200, True), (100, False)):
        origin = days[position - 1]
        direct = said(counts, fitted, origin)
        if known:
            kept = fitted.at(days[position])
            assert kept is not None
            np.testing.assert_array_equal(direct, by_horizon(kept))
        else:
            np.testing.assert_array_equal(direct, said(counts, None, origin))
    later = said(counts, fitted, days[230]) - said(counts, None, days[230])
    assert (np.nanmax(abs(later), axis=(0, 2, 3)) > 1e-4).all(), "at every horizon"
    assert fitted.days[0] >= days[TRAIN].toordinal()


@pytest.mark.slow
def test_without_epochs_the_stack_is_the_direct_reading(counts: CountForecasters) -> None:
    nothing = fit_cells(counts, CellSettings(epochs=0))
    assert nothing.weights == (0.0,) * 24
    known = counts.fit.out_of_fold
    stack = known.answers.stack[:, known.folds >= 2]
    np.testing.assert_allclose(nothing.logits[:3], stack, rtol=1e-6)
    origin = counts.panel.roots.days[228]
    np.testing.assert_array_equal(said(counts, nothing, origin), said(counts, None, origin))


@pytest.mark.slow
def test_it_is_kept_with_its_stack_and_trained_again_for_other_settings(
    counts: CountForecasters, tmp_path: Path
) -> None:
    steps: list[str] = []
    folder = tmp_path / CELL_FOLDER
    first = cell_network_of(counts, tmp_path, FEW, device=CPU, on_step=steps.append)
    assert steps
    steps.clear()
    again = cell_network_of(counts, tmp_path, FEW, device=CPU, on_step=steps.append)
    assert not steps
    origin = counts.panel.roots.days[228]
    heavy = {"weights": (1.0,) * 24}
    one, two = (said(counts, replace(fit, **heavy), origin) for fit in (first, again))
    np.testing.assert_array_equal(one, two)
    assert json.loads((folder / "config.json").read_text())["settings"]["seed"] == 0
    cell_network_of(counts, tmp_path, replace(FEW, seed=4), device=CPU, on_step=steps.append)
    assert steps
    assert json.loads((folder / "config.json").read_text())["settings"]["seed"] == 4
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ForecastError, match=r"cell network.*gdelphi train --fresh"):
        CellFit.load(folder)
