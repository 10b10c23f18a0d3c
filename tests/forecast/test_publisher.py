"""What is published: chosen on validation B by answers that were not fitted on it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    make_forecast,
)
from gdelphi.forecast.member_range import beyond, hold, negative_members
from gdelphi.forecast.publisher import (
    BLOCKS,
    LevelForecasts,
    Publisher,
    fit_publisher,
    make_coherent,
)
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import Profiles, standard_events
from gdelphi.scores.probabilities import brier
from gdelphi.stack.linear import (
    Stack,
    ask,
    default_stack,
    expit,
    logit,
)
from helpers.profiles import day_number
from helpers.stack_cases import DAYS, GivenForecaster, changing_world

BEFORE = [day_number(number) for number in range(40, 100)]
VALIDATION_B = [day_number(number) for number in range(100, 124)]
ORIGIN = day_number(130)


def noise(seed: int) -> GivenForecaster:
    """A reading that knows nothing."""
    random = np.random.default_rng(seed)
    return GivenForecaster(expit(random.normal(0, 1.5, size=(8, DAYS, 10))), name=f"noise {seed}")


@pytest.fixture(scope="module")
def world() -> tuple[Profiles, FloatArray]:
    return changing_world()


@pytest.fixture(scope="module")
def published(world: tuple[Profiles, FloatArray]) -> Publisher:
    """With the truth about *occurs* as a reading."""
    history, truth = world
    return fit_publisher(
        "root", history, [GivenForecaster(truth)], before=BEFORE, validation_b=VALIDATION_B
    )


def test_readings_that_know_more_are_published(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    choice = published.choices["occurs"]
    assert choice.published == "combined"
    assert choice.combined < 0.8 * choice.stack
    forecasts = published.forecast(world[0], ORIGIN)
    combined = published.combined.forecast(world[0], ORIGIN)
    for one, other in zip(forecasts, combined, strict=True):
        assert one.forecaster == "published"
        kept = (one.headline < one.occurs) & ~(one.surge >= one.occurs)
        assert kept.any()
        np.testing.assert_array_equal(one.occurs[kept], other.occurs[kept])


def turning(truth: FloatArray) -> GivenForecaster:
    """A reading that is right in the first block, wrong in the second and silent after."""
    probabilities = np.full_like(truth, 0.5)
    first = (VALIDATION_B[0] - day_number(0)).days
    size = len(VALIDATION_B) // BLOCKS
    probabilities[:, first : first + size] = truth[:, first : first + size]
    probabilities[:, first + size : first + 2 * size] = (
        1 - truth[:, first + size : first + 2 * size]
    )
    return GivenForecaster(probabilities, name="turning")


def test_a_combination_that_does_worse_on_other_days_is_not_published(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    publisher = fit_publisher(
        "root", history, [turning(truth)], before=BEFORE, validation_b=VALIDATION_B
    )
    choice = publisher.choices["occurs"]
    assert choice.stack == pytest.approx(choice.combined, rel=1e-12)
    assert (choice.published, choice.ridge) == ("stack", None)
    combined = publisher.combined.forecast(history, ORIGIN)[3]
    published = publisher.forecast(history, ORIGIN)[3]
    stack = publisher.stack.forecast(history, ORIGIN)[3]
    kept = (published.headline < published.occurs) & ~(published.surge >= published.occurs)
    assert kept.any()
    said = np.stack(
        [member.forecast(history, ORIGIN)[3].occurs for member in publisher.combined.members]
    )
    held = np.clip(stack.occurs, said.min(axis=0), said.max(axis=0))
    assert (held != stack.occurs).any()  # the stack says what no member says
    np.testing.assert_array_equal(published.occurs[kept], held[kept])
    np.testing.assert_allclose(combined.occurs, stack.occurs, rtol=1e-12)


def test_of_readings_that_say_the_same_none_counts_against_the_other(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    noise = np.random.default_rng(8).normal(size=(2, *truth.shape))
    sharp, sharper = (
        GivenForecaster(expit((1 + number / 2) * logit(truth) + noise[number] / 50), name=name)
        for number, name in enumerate(("sharp", "sharper"))
    )
    publisher = fit_publisher(
        "root", history, [sharp, sharper], before=BEFORE, validation_b=VALIDATION_B
    )
    choice = publisher.choices["occurs"]
    assert choice.published == "combined" and choice.ridge is not None
    fitted = publisher.combined.coefficients()["occurs"]
    start = publisher.stack.coefficients()["occurs"]
    assert negative_members(fitted, start) == []
    assert choice.said[0] < 0.1 and choice.said[1] > 0.9
    answers = ask(publisher.members, history, ORIGIN)
    members = [answers[member.name] for member in publisher.all_members() if member.name != "stack"]
    for place, one in enumerate(publisher.forecast(history, ORIGIN)):
        said = np.stack([answer[place].occurs for answer in members])
        loose = (one.headline < one.occurs) & ~(one.surge >= one.occurs)
        assert (one.occurs >= said.min(axis=0) - 1e-12)[loose].all()
        assert (one.occurs <= said.max(axis=0) + 1e-12)[loose].all()


def test_numbers_are_held_to_what_is_said_and_marked_beyond_it() -> None:
    said = np.array([[0.04, 0.2, np.nan], [0.34, 0.1, np.nan]])
    held = hold(np.array([0.48, 0.15, 0.7]), said)
    np.testing.assert_array_equal(held, [0.34, 0.15, 0.7])
    assert np.isnan(hold(np.array([np.nan, 0.15, 0.7]), said)[0])
    marks = beyond(np.array([0.01, 0.5, 0.97, np.nan]), (0.02, 0.9))
    assert marks == [True, False, True, False]


def test_a_kept_combination_with_a_negative_weight_is_refused(
    published: Publisher, tmp_path: Path
) -> None:
    path = tmp_path / "published-root.json"
    published.save(path)
    readings = [published.combined.members[-1]]
    assert Publisher.load(path, readings).choices["occurs"].said == published.choices["occurs"].said
    content = json.loads(path.read_text())
    assert content["choices"]["occurs"]["published"] == "combined"
    content["combined"]["occurs"]["logit given"] = -1.47
    path.write_text(json.dumps(content))
    with pytest.raises(ForecastError, match=r"negative weight of given.*gdelphi calibrate"):
        Publisher.load(path, readings)


def test_where_there_is_no_pooled_stack_a_combination_is_held_against_the_simple_one(
    world: tuple[Profiles, FloatArray], tmp_path: Path
) -> None:
    """With too few days for a pooled stack the combination starts from the simple one, and may give
    a member as little as that does, also if a reading is called direct."""
    history, truth = world
    path = tmp_path / "published-root.json"
    reading = GivenForecaster(truth, name="direct")
    fit_publisher("root", history, [reading], before=BEFORE, validation_b=VALIDATION_B).save(path)
    content = json.loads(path.read_text())
    assert content["choices"]["occurs"]["published"] == "combined"
    for part, weight in (("stack", -0.888), ("combined", -0.8881)):
        content[part]["occurs"]["logit weekday"] = weight
    path.write_text(json.dumps(content))
    assert Publisher.load(path, [reading]).combined.coefficients() == content["combined"]
    content["combined"]["occurs"]["logit weekday"] = -1.5
    path.write_text(json.dumps(content))
    with pytest.raises(ForecastError, match="negative weight of weekday"):
        Publisher.load(path, [reading])


def test_readings_that_know_nothing_cost_next_to_nothing(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, _ = world
    readings = [noise(seed) for seed in range(100, 112)]
    publisher = fit_publisher(
        "root", history, readings, before=BEFORE, validation_b=VALIDATION_B[:9]
    )
    later = [day_number(number) for number in range(124, 156)]
    free = publisher.combined.fit_examples(publisher.combined.examples(history, VALIDATION_B[:9]))
    bar = mean_error(publisher.stack, history, later)
    assert mean_error(publisher.combined, history, later) < 1.01 * bar
    assert mean_error(free, history, later) > 1.03 * bar, "what happens when nothing holds them"


def mean_error(stack: Stack, history: Profiles, days: Sequence[date]) -> float:
    examples = stack.examples(history, days)
    errors = [
        brier(stack.answer(example, "occurs"), example.outcomes["occurs"].ravel())
        for example in examples
    ]
    return float(np.concatenate(errors).mean())


def test_each_day_is_answered_by_what_was_fitted_on_other_blocks(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    history, _ = world
    plain, bar = replace(published.combined, fitted=None), default_stack()
    choice = published.choices["occurs"]
    examples, known = plain.examples(history, VALIDATION_B), bar.examples(history, VALIDATION_B)
    size = len(examples) // BLOCKS
    mine, others = [], []
    for block in range(BLOCKS):
        own = slice(block * size, (block + 1) * size)
        rest, other = ([*part[: own.start], *part[own.stop :]] for part in (examples, known))
        stack = bar.fit_examples([*bar.examples(history, BEFORE), *other])
        fitted = plain.fit_around(rest, stack.coefficients(), {"occurs": choice.ridge})
        outcome = [example.outcomes["occurs"].ravel() for example in examples[own]]
        for day, other_day, answer in zip(examples[own], known[own], outcome, strict=True):
            mine.append(brier(fitted.answer(day, "occurs"), answer))
            others.append(brier(stack.answer(other_day, "occurs"), answer))
    assert choice.combined == pytest.approx(np.concatenate(mine).mean())
    assert choice.stack == pytest.approx(np.concatenate(others).mean())


def test_the_stack_that_is_published_learns_from_validation_b_too(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    alone = default_stack().fit(world[0], [*BEFORE, *VALIDATION_B]).coefficients()
    for target in TARGETS:
        assert published.stack.coefficients()[target] == pytest.approx(alone[target])


def test_days_that_are_judged_take_no_part(
    world: tuple[Profiles, FloatArray], published: Publisher
) -> None:
    history, truth = world
    after = (VALIDATION_B[-1] - history.days[0]).days + 1
    weights, probabilities = history.weights.copy(), truth.copy()
    weights[:, after:] = 1 - weights[:, after:]
    probabilities[:, after:] = 0.5
    counts = (weights > 0).astype(np.int64)
    changed = replace(history, weights=weights, counts=counts, volume=counts.sum(axis=2))
    publisher = fit_publisher(
        "root", changed, [GivenForecaster(probabilities)], before=BEFORE, validation_b=VALIDATION_B
    )
    assert publisher.combined.coefficients() == published.combined.coefficients()
    assert publisher.stack.coefficients() == published.stack.coefficients()
    assert publisher.choices == published.choices


def test_a_target_that_is_never_defined_is_left_to_the_stack(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    early = [day_number(number) for number in range(30, 45)]  # surges need 60 days
    publisher = fit_publisher(
        "root", history, [GivenForecaster(truth)], before=early[:8], validation_b=early[8:]
    )
    choice = publisher.choices["surge"]
    assert (choice.published, choice.cells) == ("stack", 0)
    assert np.isnan(choice.combined)


def test_too_few_days_to_choose_on_are_refused(world: tuple[Profiles, FloatArray]) -> None:
    history, truth = world
    with pytest.raises(ForecastError, match="2 present days of validation B are too few"):
        fit_publisher(
            "root", history, [GivenForecaster(truth)], before=BEFORE, validation_b=VALIDATION_B[:2]
        )


# --- on disk --------------------------------------------------------------------------------------


def test_a_saved_publisher_says_the_same(
    world: tuple[Profiles, FloatArray], published: Publisher, tmp_path: Path
) -> None:
    history, truth = world
    published.save(tmp_path / "p.json")
    again = Publisher.load(tmp_path / "p.json", [GivenForecaster(truth)])
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
    with pytest.raises(ForecastError, match=r"combines .*given, not"):
        Publisher.load(path, [])
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "choices": {}}))
    with pytest.raises(ForecastError, match="cannot be read"):
        Publisher.load(path, [])


# --- levels ---------------------------------------------------------------------------------------


def forecast(codes: tuple[str, ...], occurs: FloatArray) -> Forecast:
    half = np.full(len(codes), 0.5)
    samples = np.zeros((1, len(codes)))
    return make_forecast(
        Forecast("f", "KE", date(2014, 1, 1), 1, codes, occurs, half, half, samples, np.ones(1))
    )


def random_levels(seed: int) -> LevelForecasts:
    random = np.random.default_rng(seed)
    return LevelForecasts(
        *(
            forecast(standard_events(level), random.random(len(standard_events(level))))
            for level in ("root", "base", "full")
        )
    )


def made_coherent(levels: LevelForecasts) -> LevelForecasts:
    return LevelForecasts(**make_coherent(levels._asdict()))


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
    forecasts = published.forecast(world[0], ORIGIN)
    for one in (*after, *forecasts):
        assert (one.headline <= one.occurs).all()
        assert not (one.surge > one.occurs).any()


@pytest.mark.parametrize("seed", range(20))
def test_to_make_numbers_agree_is_to_project_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = random.random(3)
    given_forecast = forecast(("01",), given[:1])
    given_forecast = replace(given_forecast, headline=given[1:2], surge=given[2:])
    made = made_coherent(random_levels(seed)._replace(root=all_codes(given_forecast))).root
    projected = np.array([made.occurs[0], made.headline[0], made.surge[0]])
    possible = random.random((20_000, 3))
    possible[:, 0] = possible.max(axis=1)
    distance = ((possible - given) ** 2).sum(axis=1)
    assert ((projected - given) ** 2).sum() <= distance.min() + 1e-12
    for outcome in ([0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]):
        assert ((projected - outcome) ** 2).sum() <= ((given - outcome) ** 2).sum() + 1e-12


def all_codes(one: Forecast) -> Forecast:
    """The same numbers for each root."""
    codes = standard_events("root")
    many = {name: np.full(len(codes), getattr(one, name)[0]) for name in TARGETS}
    return replace(one, codes=codes, share_samples=np.zeros((1, len(codes))), **many)


def test_fewer_levels_are_the_same_from_the_root_down() -> None:
    levels = random_levels(3)._asdict()
    whole = make_coherent(levels)
    for number in (1, 2):
        part = make_coherent(dict(list(levels.items())[:number]))
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
    assert fitted["logit given"] == pytest.approx(1, abs=0.25)


# --- over a stack that is fitted already ----------------------------------------------------------


class GivenStack(GivenForecaster):
    """In the place of a pooled stack: its answers are given."""

    def coefficients(self) -> dict[str, dict[str, float]]:
        return {target: {} for target in TARGETS}


def half_right(truth: FloatArray) -> Any:
    """A stack that knows the half of every logit."""
    return GivenStack(expit(0.5 * np.log(truth / (1 - truth))), name="stack")


def test_a_network_that_knows_nothing_leaves_the_stack_as_it_is(
    world: tuple[Profiles, FloatArray],
) -> None:
    history, truth = world
    stack: Any = GivenStack(truth, name="stack")
    publisher = fit_publisher(
        "root", history, [noise(7)], before=BEFORE, validation_b=VALIDATION_B, pooled=stack
    )
    bar = stack.forecast(history, ORIGIN)
    for one, other in zip(publisher.combined.forecast(history, ORIGIN), bar, strict=True):
        np.testing.assert_allclose(one.occurs, other.occurs, atol=0.02)
    assert publisher.without is not None
    assert publisher.stack is stack


def test_what_the_network_adds_is_told_from_what_calibrating_the_stack_adds(
    world: tuple[Profiles, FloatArray],
) -> None:
    """The stack is too cautious. A regression over it alone mends that, and a network that says
    the same adds nothing to it."""
    history, truth = world
    stack = half_right(truth)
    same = GivenForecaster(stack.probabilities, name="network")
    publisher = fit_publisher(
        "root", history, [same], before=BEFORE, validation_b=VALIDATION_B, pooled=stack
    )
    assert publisher.without is not None
    later = [day_number(number) for number in range(124, 156)]
    examples = publisher.combined.examples(history, later)
    outcome = np.concatenate([example.outcomes["occurs"].ravel() for example in examples])
    said = {
        "stack": np.concatenate([expit(example.features["occurs"][:, 0]) for example in examples]),
        "without": np.concatenate(
            [
                publisher.without.answer(day, "occurs")
                for day in publisher.without.examples(history, later)
            ]
        ),
        "combined": np.concatenate([publisher.combined.answer(day, "occurs") for day in examples]),
    }
    score = {name: float(brier(values, outcome).mean()) for name, values in said.items()}
    assert score["without"] < 0.98 * score["stack"]
    assert score["combined"] == pytest.approx(score["without"], rel=0.01)


def test_a_publisher_over_a_pooled_stack_is_kept(
    world: tuple[Profiles, FloatArray], tmp_path: Path
) -> None:
    history, truth = world
    stack, reading = half_right(truth), GivenForecaster(truth)
    fitted = fit_publisher(
        "root", history, [reading], before=BEFORE, validation_b=VALIDATION_B, pooled=stack
    )
    assert fitted.choices["occurs"].published == "combined"
    fitted.save(tmp_path / "published.json", "weights")
    again = Publisher.load(tmp_path / "published.json", [reading], "weights", stack)
    names = [one.name for one in again.members]
    assert names == ["combined", "stack", "without network"]
    assert [one.name for one in again.all_members()] == ["stack", "given"]
    for one, other in zip(
        fitted.forecast(history, ORIGIN), again.forecast(history, ORIGIN), strict=True
    ):
        np.testing.assert_array_equal(one.occurs, other.occurs)
    with pytest.raises(ForecastError, match="combines stack, given, not climatology"):
        Publisher.load(tmp_path / "published.json", [reading], "weights")
