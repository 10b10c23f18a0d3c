"""What is published: chosen on validation B by answers that were not fitted on it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    make_forecast,
)
from gdelphi.forecast.publisher import (
    BLOCKS,
    Levels,
    Publisher,
    coherent,
    fit_publisher,
)
from gdelphi.forecast.stack import (
    Stack,
    default_stack,
    expit,
)
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import Profiles, standard_events
from gdelphi.scores.probabilities import brier
from helpers.profiles import day_number
from helpers.stack_cases import DAYS, Told, changing_world

BEFORE = [day_number(number) for number in range(40, 100)]
TUNING = [day_number(number) for number in range(100, 124)]
ORIGIN = day_number(130)


def noise(seed: int) -> Told:
    """A reading that knows nothing."""
    random = np.random.default_rng(seed)
    return Told(expit(random.normal(0, 1.5, size=(8, DAYS, 10))), name=f"noise {seed}")


@pytest.fixture(scope="module")
def world() -> tuple[Profiles, FloatArray]:
    return changing_world()


@pytest.fixture(scope="module")
def published(world: tuple[Profiles, FloatArray]) -> Publisher:
    """With the truth about *occurs* as a reading."""
    history, truth = world
    return fit_publisher("root", history, [Told(truth)], before=BEFORE, validation_b=TUNING)


def test_readings_that_know_more_are_published(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    choice = published.choices["occurs"]
    assert choice.published == "combined"
    assert choice.combined < 0.8 * choice.stack
    said = published.forecast(world[0], ORIGIN)
    combined = published.combined.forecast(world[0], ORIGIN)
    for one, other in zip(said, combined, strict=True):
        assert one.forecaster == "published"
        kept = (one.headline < one.occurs) & ~(one.surge >= one.occurs)
        assert kept.any()
        np.testing.assert_array_equal(one.occurs[kept], other.occurs[kept])


def turning(truth: FloatArray) -> Told:
    """A reading that is right in the first block, wrong in the second and silent after."""
    told = np.full_like(truth, 0.5)
    first = (TUNING[0] - day_number(0)).days
    size = len(TUNING) // BLOCKS
    told[:, first : first + size] = truth[:, first : first + size]
    told[:, first + size : first + 2 * size] = 1 - truth[:, first + size : first + 2 * size]
    return Told(told, name="turning")


def test_a_combination_that_does_worse_on_other_days_is_not_published(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    found = fit_publisher("root", history, [turning(truth)], before=BEFORE, validation_b=TUNING)
    choice = found.choices["occurs"]
    assert choice.stack == pytest.approx(choice.combined, rel=1e-12)
    assert (choice.published, choice.ridge) == ("stack", None)
    combined = found.combined.forecast(history, ORIGIN)[3]
    said, bar = found.forecast(history, ORIGIN)[3], found.stack.forecast(history, ORIGIN)[3]
    kept = (said.headline < said.occurs) & ~(said.surge >= said.occurs)
    assert kept.any()
    np.testing.assert_array_equal(said.occurs[kept], bar.occurs[kept])
    np.testing.assert_allclose(combined.occurs, bar.occurs, rtol=1e-12)


def test_readings_that_know_nothing_cost_next_to_nothing(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, _ = world
    readings = [noise(seed) for seed in range(100, 112)]
    found = fit_publisher("root", history, readings, before=BEFORE, validation_b=TUNING[:9])
    later = [day_number(number) for number in range(124, 156)]
    free = found.combined.fit_examples(found.combined.examples(history, TUNING[:9]))
    bar = mean_error(found.stack, history, later)
    assert mean_error(found.combined, history, later) < 1.01 * bar
    assert mean_error(free, history, later) > 1.03 * bar, "what happens when nothing holds them"


def mean_error(stack: Stack, history: Profiles, days: Sequence[date]) -> float:
    lessons = stack.examples(history, days)
    found = [
        brier(stack.answer(each, "occurs"), each.outcomes["occurs"].ravel()) for each in lessons
    ]
    return float(np.concatenate(found).mean())


def test_each_day_is_answered_by_what_was_fitted_on_other_blocks(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    history, _ = world
    plain, bar = replace(published.combined, fitted=None), default_stack()
    choice = published.choices["occurs"]
    lessons, known = plain.examples(history, TUNING), bar.examples(history, TUNING)
    size = len(lessons) // BLOCKS
    mine, others = [], []
    for block in range(BLOCKS):
        own = slice(block * size, (block + 1) * size)
        rest, other = ([*each[: own.start], *each[own.stop :]] for each in (lessons, known))
        stack = bar.fit_examples([*bar.examples(history, BEFORE), *other])
        fitted = plain.fit_around(rest, stack.coefficients(), {"occurs": choice.ridge})
        came = [each.outcomes["occurs"].ravel() for each in lessons[own]]
        for day, other_day, answer in zip(lessons[own], known[own], came, strict=True):
            mine.append(brier(fitted.answer(day, "occurs"), answer))
            others.append(brier(stack.answer(other_day, "occurs"), answer))
    assert choice.combined == pytest.approx(np.concatenate(mine).mean())
    assert choice.stack == pytest.approx(np.concatenate(others).mean())


def test_the_stack_that_is_published_learns_from_validation_b_too(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    alone = default_stack().fit(world[0], [*BEFORE, *TUNING]).coefficients()
    for target in TARGETS:
        assert published.stack.coefficients()[target] == pytest.approx(alone[target])


def test_days_that_are_judged_take_no_part(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    history, truth = world
    after = (TUNING[-1] - history.days[0]).days + 1
    weights, told = history.weights.copy(), truth.copy()
    weights[:, after:] = 1 - weights[:, after:]
    told[:, after:] = 0.5
    counts = (weights > 0).astype(np.int64)
    changed = replace(history, weights=weights, counts=counts, volume=counts.sum(axis=2))
    found = fit_publisher("root", changed, [Told(told)], before=BEFORE, validation_b=TUNING)
    assert found.combined.coefficients() == published.combined.coefficients()
    assert found.stack.coefficients() == published.stack.coefficients()
    assert found.choices == published.choices


def test_a_target_that_is_never_defined_is_left_to_the_stack(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    early = [day_number(number) for number in range(30, 45)]  # surges need 60 days
    found = fit_publisher("root", history, [Told(truth)], before=early[:8], validation_b=early[8:])
    choice = found.choices["surge"]
    assert (choice.published, choice.cells) == ("stack", 0)
    assert np.isnan(choice.combined)


def test_too_few_days_to_choose_on_are_refused(world: tuple[Profiles, FloatArray]) -> None:
    history, truth = world
    with pytest.raises(ForecastError, match="2 present days of validation B are too few"):
        fit_publisher("root", history, [Told(truth)], before=BEFORE, validation_b=TUNING[:2])


# --- on disk --------------------------------------------------------------------------------------


def test_a_saved_publisher_says_the_same(
    world: tuple[Profiles, FloatArray], published: Publisher, tmp_path: Path
) -> None:
    history, truth = world
    published.save(tmp_path / "p.json")
    again = Publisher.load(tmp_path / "p.json", [Told(truth)])
    assert again.choices == published.choices
    for one, other in zip(
        published.forecast(history, ORIGIN), again.forecast(history, ORIGIN), strict=True
    ):
        for target in TARGETS:
            np.testing.assert_array_equal(one.probability(target), other.probability(target))


def test_what_cannot_be_loaded_says_how_to_make_it(published: Publisher, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with pytest.raises(ForecastError, match=r"no .*p\.json: `gdelphi calibrate`"):
        Publisher.load(path, [])
    path.write_text("{")
    with pytest.raises(ForecastError, match="cannot be read"):
        Publisher.load(path, [])
    published.save(path)
    with pytest.raises(ForecastError, match=r"combines .*told, not"):
        Publisher.load(path, [])
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "choices": {}}))
    with pytest.raises(ForecastError, match="cannot be read"):
        Publisher.load(path, [])


# --- levels ---------------------------------------------------------------------------------------


def forecast(codes: tuple[str, ...], occurs: FloatArray) -> Forecast:
    half = np.full(len(codes), 0.5)
    samples = np.zeros((1, len(codes)))
    return make_forecast(
        Forecast("f", "KE", date(2014, 1, 1), 1, codes, occurs, half, half, samples, np.ones(1))
    )


def random_levels(seed: int) -> Levels:
    random = np.random.default_rng(seed)
    return Levels(
        *(
            forecast(standard_events(level), random.random(len(standard_events(level))))
            for level in ("root", "base", "full")
        )
    )


def made_coherent(levels: Levels) -> Levels:
    return Levels(**coherent(levels._asdict()))


def test_a_code_is_held_to_what_it_is_a_kind_of() -> None:
    before = random_levels(0)
    after = made_coherent(before)
    root = dict(zip(after.root.codes, after.root.occurs, strict=True))
    base = dict(zip(after.base.codes, after.base.occurs, strict=True))
    full = dict(zip(after.full.codes, after.full.occurs, strict=True))
    given = dict(zip(before.full.codes, before.full.occurs, strict=True))
    for code, probability in full.items():
        above = lineage(code)
        assert probability <= base[above.base]
        if given[code] >= 0.5:  # what its headline and surge have
            assert probability == min(given[code], base[above.base])
        assert base[above.base] <= root[above.root]


def test_no_headline_and_no_surge_is_likelier_than_that_it_occurs(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    before = random_levels(2)
    undefined = replace(before.base, surge=np.full(len(before.base.codes), np.nan))
    after = made_coherent(before._replace(base=undefined))
    assert np.isnan(after.base.surge).all()
    said = published.forecast(world[0], ORIGIN)
    for each in (*after, *said):
        assert (each.headline <= each.occurs).all()
        assert not (each.surge > each.occurs).any()


@pytest.mark.parametrize("seed", range(20))
def test_to_make_numbers_agree_is_to_project_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = random.random(3)
    said = forecast(("01",), given[:1])
    said = replace(said, headline=given[1:2], surge=given[2:])
    made = made_coherent(random_levels(seed)._replace(root=all_codes(said))).root
    found = np.array([made.occurs[0], made.headline[0], made.surge[0]])
    possible = random.random((20_000, 3))
    possible[:, 0] = possible.max(axis=1)
    distance = ((possible - given) ** 2).sum(axis=1)
    assert ((found - given) ** 2).sum() <= distance.min() + 1e-12
    for came in ([0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]):
        assert ((found - came) ** 2).sum() <= ((given - came) ** 2).sum() + 1e-12


def all_codes(said: Forecast) -> Forecast:
    """The same numbers for each root."""
    codes = standard_events("root")
    many = {name: np.full(len(codes), getattr(said, name)[0]) for name in TARGETS}
    return replace(said, codes=codes, share_samples=np.zeros((1, len(codes))), **many)


def test_fewer_levels_are_the_same_from_the_root_down() -> None:
    levels = random_levels(3)._asdict()
    whole = coherent(levels)
    for number in (1, 2):
        part = coherent(dict(list(levels.items())[:number]))
        assert list(part) == list(whole)[:number]
        for level, forecast in part.items():
            np.testing.assert_array_equal(forecast.occurs, whole[level].occurs)
            np.testing.assert_array_equal(forecast.headline, whole[level].headline)


def test_levels_that_agree_stay_as_they_are() -> None:
    once = made_coherent(random_levels(1))
    twice = made_coherent(once)
    for level in range(3):
        np.testing.assert_array_equal(once[level].occurs, twice[level].occurs)


def test_a_perfect_reading_is_taken_as_it_is(published: Publisher) -> None:
    fitted = published.combined.coefficients()["occurs"]
    assert fitted["logit told"] == pytest.approx(1, abs=0.25)
