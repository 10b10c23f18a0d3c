"""Scores of weighted samples against closed forms, double sums and their own expectation."""

import itertools
from collections.abc import Callable
from datetime import date

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    FloatArray,
    Forecast,
    make_forecast,
)
from gdelphi.scores.samples import (
    all_scores,
    coverage,
    crps,
    fair_crps,
    pit,
    pit_bounds,
    pit_histogram,
    quantile,
)

NAN = float("nan")
Score = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def column(*values: float) -> FloatArray:
    """Samples of a single code."""
    return np.array(values, dtype=np.float64)[:, None]


def random_case(
    seed: int, leading: tuple[int, ...] = (3, 4), samples: int = 12, codes: int = 5
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares with atoms at 0 and ties, uneven weights of which some are 0, and outcomes."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(-4, 8, size=(*leading, samples, codes)).clip(0) / 8
    weights = generator.dirichlet(np.full(samples, 0.5), size=leading)
    weights[..., 0] = 0
    weights /= weights.sum(axis=-1, keepdims=True)
    came = generator.integers(-4, 8, size=(*leading, codes)).clip(0) / 8
    return drawn, weights, came


def double_sum(values: FloatArray, weights: FloatArray, came: float, *, fair: bool) -> float:
    """The definition, pair by pair, for one code."""
    within = pairs = 0.0
    for k, m in itertools.product(range(len(values)), repeat=2):
        if not (fair and k == m):
            within += weights[k] * weights[m] * abs(values[k] - values[m])
            pairs += weights[k] * weights[m]
    return float(weights @ np.abs(values - came) - within / pairs / 2)


def integral(values: FloatArray, weights: FloatArray, came: float) -> float:
    """The other definition: (F - 1{x >= y})^2 over the steps of F."""
    places = np.unique([*values, came])
    height = np.array([weights[values <= place].sum() for place in places[:-1]])
    return float((np.diff(places) * (height - (places[:-1] >= came)) ** 2).sum())


# --- CRPS -----------------------------------------------------------------------------------------


def test_the_crps_of_a_single_value_is_its_absolute_error() -> None:
    assert crps(column(0.3), np.ones(1), np.array([0.75])) == pytest.approx([0.45], abs=1e-12)
    spoilt = crps(column(0.3, 0.9), np.array([1.0, 0.0]), np.array([0.75]))
    assert spoilt == pytest.approx([0.45], abs=1e-12)


@pytest.mark.parametrize("came", [-0.5, 0.0, 0.25, 1.0, 1.5])
def test_the_crps_of_a_two_point_law_by_hand(came: float) -> None:
    """Weight p on 1, the rest on 0: the outcome's mean distance, less p (1 - p)."""
    p = 0.3
    expected = p * abs(1 - came) + (1 - p) * abs(came) - p * (1 - p)
    found = crps(column(0, 1), np.array([1 - p, p]), np.array([came]))
    assert found == pytest.approx([expected], abs=1e-12)


def test_of_equal_weights_on_a_grid_the_crps_is_the_uniform_laws() -> None:
    """(y^3 + (1 - y)^3) / 3 for the uniform law on 0 to 1, which a fine grid comes close to."""
    count, came = 20_000, np.array([0.2])
    grid = ((np.arange(count) + 0.5) / count)[:, None]
    found = crps(grid, np.full(count, 1 / count), came)
    assert found == pytest.approx((came**3 + (1 - came) ** 3) / 3, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_are_their_double_sums_and_the_integral(seed: int) -> None:
    samples, weights, came = random_case(seed)
    plain, fair = crps(samples, weights, came), fair_crps(samples, weights, came)
    for cell in np.ndindex(came.shape):
        values, given = samples[(*cell[:-1], slice(None), cell[-1])], weights[cell[:-1]]
        y = float(came[cell])
        assert plain[cell] == pytest.approx(double_sum(values, given, y, fair=False), abs=1e-10)
        assert fair[cell] == pytest.approx(double_sum(values, given, y, fair=True), abs=1e-10)
        assert plain[cell] == pytest.approx(integral(values, given, y), abs=1e-10)


@pytest.mark.parametrize("score", [crps, fair_crps])
def test_batched_scores_are_looped_ones_and_the_order_of_samples_means_nothing(
    score: Score,
) -> None:
    samples, weights, came = random_case(7)
    batched = score(samples, weights, came)
    order = np.random.default_rng(0).permutation(samples.shape[-2])
    for cell in np.ndindex(weights.shape[:-1]):
        alone = score(samples[cell][order], weights[cell][order], came[cell])
        assert alone == pytest.approx(batched[cell], abs=1e-12)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.2, 0.8], [0.6, 0.3, 0.1]])
def test_the_fair_form_is_unbiased_for_any_fixed_weights_and_the_plain_one_is_not(
    weights: list[float],
) -> None:
    """Over all samples that can be drawn from a law of four values: no error of sampling."""
    values, law, came = np.array([0.0, 0.1, 0.4, 1.0]), np.array([0.4, 0.3, 0.2, 0.1]), 0.25
    given, outcome = np.array(weights), np.array([came])
    mean = {crps: 0.0, fair_crps: 0.0}
    for drawn in itertools.product(range(4), repeat=len(weights)):
        index = np.array(drawn)
        for score in mean:
            mean[score] += law[index].prod() * score(values[index, None], given, outcome)[0]
    exact = crps(values[:, None], law, outcome)[0]
    spread = float(law @ np.abs(values - came)) - exact
    assert mean[fair_crps] == pytest.approx(exact, abs=1e-12)
    assert mean[crps] - exact == pytest.approx((given**2).sum() * spread, abs=1e-12)
    assert mean[crps] > 1.2 * exact


@pytest.mark.parametrize("count", [2, 5, 20])
def test_the_average_fair_crps_does_not_depend_on_the_number_of_samples(count: int) -> None:
    """Of uniform samples, at the outcome 0.5: 1/12 for the law, and 1/(6 count) too much."""
    draws, came = 40_000, np.full((40_000, 1), 0.5)
    samples = np.random.default_rng(1).random((draws, count, 1))
    weights = np.full((draws, count), 1 / count)
    tolerance = 4 * 0.25 / np.sqrt(draws)  # four standard errors: a score deviates by under 0.25
    assert fair_crps(samples, weights, came).mean() == pytest.approx(1 / 12, abs=tolerance)
    biased = 1 / 12 + 1 / (6 * count)
    assert crps(samples, weights, came).mean() == pytest.approx(biased, abs=tolerance)


def test_no_forecast_beats_the_truth_in_expectation() -> None:
    """Laws on 0 and 1 against an outcome that is 1 with probability 0.3."""
    truth, said = 0.3, np.linspace(0, 1, 101)
    weights = np.stack([1 - said, said], axis=1)
    samples = np.broadcast_to(column(0, 1), (101, 2, 1))
    zero, one = (crps(samples, weights, np.full((101, 1), came))[:, 0] for came in (0.0, 1.0))
    assert said[np.argmin((1 - truth) * zero + truth * one)] == pytest.approx(truth)


def test_a_sample_with_all_the_weight_has_no_fair_score() -> None:
    found = fair_crps(column(0.3, 0.9), np.array([1.0, 0.0]), np.array([0.5]))
    assert np.isnan(found).all()


# --- quantiles and intervals ----------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.0, 0.05, 0.3, 0.5, 0.95, 1.0])
def test_quantiles_are_those_of_a_forecast(q: float) -> None:
    samples, weights, _ = random_case(3)
    found = quantile(samples, weights, q)
    for cell in np.ndindex(weights.shape[:-1]):
        forecast = make_forecast(
            Forecast(
                forecaster="any",
                stream="any",
                origin=date(2020, 1, 1),
                horizon=1,
                codes=tuple("abcde"),
                occurs=np.zeros(5),
                headline=np.zeros(5),
                surge=np.zeros(5),
                share_samples=samples[cell],
                share_weights=weights[cell],
            )
        )
        assert found[cell].tolist() == forecast.share_quantile(q).tolist()


def test_weights_that_sum_to_a_quantile_but_for_rounding_reach_it() -> None:
    samples = np.arange(10.0)[:, None]
    assert quantile(samples, np.full(10, 0.1), 0.3) == pytest.approx([2.0])
    assert quantile(samples, np.full(10, 0.1), 1.0) == pytest.approx([9.0])


def test_an_interval_holds_its_ends_and_nothing_beyond() -> None:
    samples, weights = np.arange(1.0, 11.0)[:, None] * np.ones(5), np.full(10, 0.1)
    found = coverage(samples, weights, np.array([1.9, 2.0, 5.5, 9.0, 9.1]), level=0.7)
    assert found.low.tolist() == [2.0] * 5
    assert found.high.tolist() == [9.0] * 5
    assert found.held.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert found.width.tolist() == [7.0] * 5


def test_the_coverage_of_a_fine_sample_is_its_level_and_that_of_an_atom_is_more() -> None:
    generator = np.random.default_rng(2)
    grid = np.broadcast_to(((np.arange(1000) + 0.5) / 1000)[:, None], (1000, 4000)).copy()
    weights, came = np.full(1000, 0.001), generator.random(4000)
    assert coverage(grid, weights, came, level=0.8).held.mean() == pytest.approx(0.8, abs=0.02)
    grid[:500], came[came < 0.5] = 0.0, 0.0
    assert coverage(grid, weights, came, level=0.8).held.mean() == pytest.approx(0.9, abs=0.02)


# --- probability integral transform ---------------------------------------------------------------


def test_the_bounds_enclose_the_weight_of_the_outcome_itself() -> None:
    samples, weights = column(0, 0, 0.2, 0.7), np.array([0.3, 0.2, 0.4, 0.1])
    many = np.repeat(samples, 5, axis=1)
    lower, upper = pit_bounds(many, weights, np.array([-0.1, 0.0, 0.1, 0.2, 0.9]))
    assert lower == pytest.approx([0.0, 0.0, 0.5, 0.5, 1.0])
    assert upper == pytest.approx([0.0, 0.5, 0.5, 0.9, 1.0])


def test_the_randomised_transform_lies_where_the_uniform_number_says() -> None:
    samples, weights, came = column(0, 0.2), np.array([0.6, 0.4]), np.array([0.0])
    assert pit(samples, weights, came, np.array([0.25])) == pytest.approx([0.15])
    drawn = pit(samples, weights, came, np.random.default_rng(5))
    assert drawn == pytest.approx(0.6 * np.random.default_rng(5).random(1))


def test_outcomes_drawn_from_the_forecast_give_a_flat_histogram() -> None:
    generator = np.random.default_rng(6)
    weights = np.array([0.55, 0.25, 0.2])  # more than half of it at 0
    samples = np.broadcast_to(column(0, 0.1, 0.5), (20_000, 3, 1))
    came = generator.choice([0, 0.1, 0.5], p=weights, size=(20_000, 1))
    given = np.broadcast_to(weights, (20_000, 3))
    randomised = pit_histogram(pit(samples, given, came, generator))
    assert randomised.frequency == pytest.approx(np.full(10, 0.1), abs=0.01)
    spread = pit_histogram(*pit_bounds(samples, given, came))
    assert spread.frequency == pytest.approx(np.full(10, 0.1), abs=0.01)
    assert spread.cells == randomised.cells == 20_000
    not_randomised = pit_histogram(pit_bounds(samples, given, came).upper)
    assert not_randomised.frequency[0] == 0 and not_randomised.frequency[5] > 0.5


def test_outcomes_as_often_as_their_weights_say_give_an_exactly_flat_histogram() -> None:
    lower, upper = np.array([0.0, 0.0, 0.5, 0.75]), np.array([0.5, 0.5, 0.75, 1.0])
    assert pit_histogram(lower, upper, bins=8).frequency == pytest.approx(np.full(8, 0.125))


def test_single_values_belong_to_the_bin_whose_lower_edge_they_reach() -> None:
    found = pit_histogram(np.array([0.0, 0.5, 0.49, 1.0, NAN]), bins=2)
    assert found.frequency.tolist() == [0.5, 0.5]
    assert found.edges.tolist() == [0.0, 0.5, 1.0]
    assert found.cells == 4
    assert np.isnan(pit_histogram(np.array([NAN])).frequency).all()


# --- what is undefined, and what is refused -------------------------------------------------------


def test_an_unknown_outcome_or_sample_leaves_only_its_own_cell_undefined() -> None:
    samples, weights, came = random_case(8, leading=(2,))
    whole = crps(samples, weights, came)
    came[0, 1] = NAN
    samples[1, 3, 2] = NAN
    samples[:, 0] = NAN  # without weight
    undefined = np.zeros((2, 5), dtype=bool)
    undefined[0, 1] = undefined[1, 2] = True
    figures = [
        crps(samples, weights, came),
        fair_crps(samples, weights, came),
        coverage(samples, weights, came).held,
        pit(samples, weights, came, np.full((2, 5), 0.5)),
        *pit_bounds(samples, weights, came),
    ]
    for figure in figures:
        assert np.isnan(figure).tolist() == undefined.tolist()
    assert figures[0][~undefined] == pytest.approx(whole[~undefined], abs=1e-12)
    assert np.isnan(quantile(samples, weights, 0.5)).sum() == 1


def test_shapes_weights_and_levels_that_make_no_sense_are_refused() -> None:
    samples, weights, came = random_case(9)
    with pytest.raises(ForecastError, match="samples of shape"):
        crps(samples, weights[..., :-1], came)
    with pytest.raises(ForecastError, match="samples of shape"):
        crps(samples[..., :0, :], weights[..., :0], came)
    with pytest.raises(ForecastError, match="an outcome of shape"):
        crps(samples, weights, came[0])
    for wrong in (weights * 2, weights - 0.1, np.full_like(weights, NAN)):
        with pytest.raises(ForecastError, match="must sum to 1"):
            fair_crps(samples, wrong, came)
    with pytest.raises(ForecastError, match="level"):
        coverage(samples, weights, came, 1.1)
    with pytest.raises(ForecastError, match="quantile"):
        quantile(samples, weights, -0.1)
    with pytest.raises(ForecastError, match="uniform numbers"):
        pit(samples, weights, came, np.zeros(3))


def test_all_scores_at_once_are_those_that_are_asked_for_one_by_one() -> None:
    samples, weights, outcome = random_case(3)
    uniform = np.random.default_rng(4).random(outcome.shape)
    found = all_scores(samples, weights, outcome, uniform, (0.5, 0.9))
    assert np.array_equal(found.crps, crps(samples, weights, outcome), equal_nan=True)
    assert np.array_equal(found.pit, pit(samples, weights, outcome, uniform), equal_nan=True)
    for level, held in zip((0.5, 0.9), found.held, strict=True):
        alone = coverage(samples, weights, outcome, level).held
        assert np.array_equal(held, alone, equal_nan=True)
