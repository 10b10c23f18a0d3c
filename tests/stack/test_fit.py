"""The stack as it is fitted, kept and asked, on a small simulated world."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import TARGETS
from gdelphi.judge.compare import garble
from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.targets import outcomes
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.scores.probabilities import brier
from gdelphi.stack.cells import cell_table
from gdelphi.stack.expected_week import expected_week
from gdelphi.stack.files import load_stack, save_stack
from gdelphi.stack.fit import FitDays, fit_stack
from gdelphi.stack.fitted import (
    INTENSITY,
    LOGISTIC,
    POOLED,
    STACK,
    TREES,
    CountForecasters,
    StackFit,
)
from gdelphi.stack.linear import SIMPLE, ask, expit
from gdelphi.stack.usual import usual_of
from gdelphi.stack.week import WeekAnswer, WeekStack
from gdelphi.stack.week_fit import _regress_with
from gdelphi.stack.week_lines import PastWeeks
from gdelphi.stack.week_parts import ANY_DAY, EXPECTED, WEEKDAY, line_parts
from helpers.small_stack import (
    DAYS,
    VALIDATION_B,
    days_between,
    small_fit_days,
    small_panel,
    small_stack,
)

pytestmark = pytest.mark.slow

GAP = 140  # a day that is missing


@pytest.fixture(scope="module")
def panel() -> CountPanel:
    return small_panel()


@pytest.fixture(scope="module")
def fit_days() -> FitDays:
    return small_fit_days()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> StackFit:
    return small_stack(tmp_path_factory)


def asked(fitted: StackFit, panel: CountPanel, day: date) -> dict[str, np.ndarray]:
    """Probabilities of the stack and its members, [target, stream, root]."""
    answers = ask([CountForecasters(fitted, panel).stack], panel.roots, day - timedelta(days=1))
    return {
        name: np.stack([[one.probability(target) for one in found] for target in TARGETS])
        for name, found in answers.items()
    }


def test_it_beats_the_simple_stack_on_days_that_nothing_was_fitted_on(
    panel: CountPanel, fitted: StackFit
) -> None:
    counts = CountForecasters(fitted, panel)
    errors: dict[str, list[float]] = {SIMPLE: [], STACK: []}
    for day in days_between(panel, VALIDATION_B, DAYS):
        origin = day - timedelta(days=1)
        answers, came = ask([counts.stack], panel.roots, origin), outcomes(panel.roots, origin)
        for name, list_of_errors in errors.items():
            said = np.stack([one.occurs for one in answers[name]])
            list_of_errors.append(float(brier(said, came["occurs"]).mean()))
    assert np.mean(errors[STACK]) < np.mean(errors[SIMPLE])


def test_no_day_after_the_origin_is_looked_at(panel: CountPanel, fitted: StackFit) -> None:
    day = panel.roots.days[225]
    whole, cut = asked(fitted, panel, day), asked(fitted, panel.until(panel.roots.days[224]), day)
    for name in POOLED:
        np.testing.assert_array_equal(whole[name], cut[name])
    np.testing.assert_array_equal(whole[STACK], cut[STACK])


def test_a_saved_fit_answers_as_the_one_in_memory(
    panel: CountPanel, fitted: StackFit, tmp_path: Path
) -> None:
    save_stack(fitted, tmp_path / "stack")
    again = load_stack(tmp_path / "stack")
    for at in (130, 228, DAYS - 1):  # one of them was fitted on
        day = panel.roots.days[at]
        one, other = asked(fitted, panel, day), asked(again, panel, day)
        for name in (SIMPLE, INTENSITY, TREES, LOGISTIC, STACK):
            np.testing.assert_array_equal(one[name], other[name])


def test_the_day_after_the_last_is_forecast(panel: CountPanel, fitted: StackFit) -> None:
    said = asked(fitted, panel, panel.roots.days[-1] + timedelta(days=1))
    assert np.isfinite(said[STACK][:2]).all()


def test_days_of_fitting_are_answered_out_of_fold(
    panel: CountPanel, fit_days: FitDays, fitted: StackFit
) -> None:
    """What came on such a day may not change the answer about it: with other outcomes on the days
    of a fold, its answers differ only by what those days tell of each other."""
    day = fit_days.train[10]
    known = fitted.out_of_fold.at(day, STACK)
    assert known is not None
    np.testing.assert_allclose(asked(fitted, panel, day)[STACK], expit(known), atol=1e-7)
    assert fitted.out_of_fold.at(panel.roots.days[VALIDATION_B], STACK) is None
    assert fitted.out_of_fold.at(panel.roots.days[0], STACK) is None


def test_answers_out_of_fold_are_worse_than_those_that_saw_the_day(
    panel: CountPanel, fit_days: FitDays, fitted: StackFit
) -> None:
    nothing = replace(fitted, out_of_fold=fitted.out_of_fold._replace(days=np.zeros(0, np.int64)))
    errors: dict[str, list[float]] = {"out of fold": [], "seen": []}
    for day in fit_days.train[::6]:
        came = outcomes(panel.roots, day - timedelta(days=1))["occurs"]
        for name, fit in (("out of fold", fitted), ("seen", nothing)):
            (trees,) = (
                one for one in CountForecasters(fit, panel).stack.members if one.name == TREES
            )
            said = trees.forecast(panel.roots, day - timedelta(days=1))
            occurs = np.stack([one.occurs for one in said])
            errors[name].append(float(brier(occurs, came).mean()))
    assert np.mean(errors["seen"]) < np.mean(errors["out of fold"])


def test_too_few_days_are_refused_with_the_number_that_is_needed(panel: CountPanel) -> None:
    short = FitDays(*(days_between(panel, *edge) for edge in ((50, 80), (80, 90), (90, 100))))
    with pytest.raises(ForecastError, match=r"\d+ days to learn from are too few, at least 120"):
        fit_stack(panel, short)


def test_odd_streams_and_a_missing_month_are_fitted(panel: CountPanel, fit_days: FitDays) -> None:
    """A stream that is the same every day, one without rows, one of 12,000 rows a day."""
    present = panel.roots.present.copy()
    present[100:131] = False
    counts = panel.roots.counts.copy()
    counts[0], counts[1] = 3, 0
    counts[2] = np.random.default_rng(0).poisson(600, counts[2].shape)
    counts[:, ~present] = 0
    odd = replace(
        panel,
        roots=replace(
            panel.roots, counts=counts, weights=1.5 * counts, volume=counts.sum(axis=2),
            present=present,
        ),
        fine=np.where(present[:, None], panel.fine, 0).astype(np.uint16),
        pairs=np.where(present[:, None, None, None], panel.pairs, 0).astype(np.uint16),
        acted=np.where(present[:, None], panel.acted, 0).astype(np.uint16),
        world=np.where(present[:, None], panel.world, 0),
    )  # fmt: skip
    occurs, headline, surge = asked(fit_stack(odd, fit_days), odd, odd.roots.days[-1])[STACK]
    assert (occurs[0] > 0.95).all()
    assert (occurs[1] < 0.01).all()
    assert (occurs[2] > 0.999).all()
    assert np.isfinite(headline).all()
    assert np.isnan(surge[1]).all()  # a stream without rows has no surges


def test_a_damaged_folder_is_named_with_the_remedy(fitted: StackFit, tmp_path: Path) -> None:
    save_stack(fitted, tmp_path)
    (tmp_path / "tables.safetensors").write_bytes(b"nothing")
    with pytest.raises(ForecastError, match=r"holds no stack that can be read.*train --fresh"):
        load_stack(tmp_path)


def test_the_table_of_cells_looks_back_only(panel: CountPanel, fitted: StackFit) -> None:
    days = np.array([100, 150])

    def table(given: CountPanel, asked_days: np.ndarray) -> np.ndarray:
        norms = fitted.intensity.norms
        return cell_table(
            given,
            asked_days,
            usual=usual_of(given, norms.weekdays),
            factors=norms.weekdays,
            affinities=norms.affinities,
            expected_rows=fitted.intensity.expected_rows(given, asked_days),
            seasons=True,
        ).values

    whole = table(panel, days)
    cut = table(panel.until(panel.roots.days[99]), days[:1])
    np.testing.assert_array_equal(whole[:1], cut)
    assert np.isfinite(whole).all()


@pytest.mark.parametrize("rows", [0, 2])
def test_streams_that_never_change_are_fitted_without_a_warning(
    rows: int, panel: CountPanel, recwarn: pytest.WarningsRecorder
) -> None:
    counts = np.full_like(panel.roots.counts[:2], rows)
    counts[:, ~panel.roots.present] = 0
    roots = replace(
        panel.roots,
        streams=panel.roots.streams[:2],
        counts=counts,
        weights=counts.astype(np.float64),
        volume=counts.sum(axis=2),
    )
    same = replace(
        panel, roots=roots, fine=panel.fine[:2], pairs=panel.pairs[:, :2, :2], acted=panel.acted[:2]
    )
    parts = FitDays(*(days_between(same, *edge) for edge in pairwise((50, 150, 170, 190))))
    said = asked(fit_stack(same.until(parts.validation_b[-1]), parts), same, same.roots.days[200])
    occurs = said[STACK][0]
    assert (occurs > 0.9).all() if rows else (occurs < 0.1).all()
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


# --- the week ahead -------------------------------------------------------------------------------


def week_stack(fitted: StackFit, panel: CountPanel) -> WeekStack:
    assert fitted.week is not None
    return WeekStack(CountForecasters(fitted, panel), fitted.week)


def said_of_week(fitted: StackFit, panel: CountPanel, origin: date) -> WeekAnswer:
    return week_stack(fitted, panel).answer(panel.roots, origin)


def test_the_first_day_of_an_expected_week_is_the_intensitys_own(
    panel: CountPanel, fitted: StackFit
) -> None:
    origins = np.array([60, 143, 230, DAYS - 1])
    week = expected_week(fitted.intensity, panel, origins)
    np.testing.assert_array_equal(week[:, 0], fitted.intensity.expected_rows(panel, origins + 1))
    assert np.isfinite(week).all() and (week > 0).all()


def test_expected_weeks_are_near_what_comes_on_average(panel: CountPanel, fitted: StackFit) -> None:
    origins = np.arange(60, DAYS - 8)
    origins = origins[[bool(panel.roots.present[at : at + 8].all()) for at in origins]]
    week = expected_week(fitted.intensity, panel, origins)
    for ahead in range(1, 8):
        came = panel.roots.counts[:, origins + ahead].sum()
        assert abs(week[:, ahead - 1].sum() / came - 1) < 0.15, "rows grow, and bursts are capped"


def test_the_week_beats_the_simple_stack_beyond_tomorrow(
    panel: CountPanel, fitted: StackFit
) -> None:
    week = week_stack(fitted, panel)
    errors: list[list[float]] = [[], []]
    for at in range(VALIDATION_B, DAYS - 8):
        origin = panel.roots.days[at]
        answer, came = week.answer(panel.roots, origin), week_outcomes(panel.roots, origin)
        outcome = np.concatenate([came.daily[0, 1:], came.within[:1]])
        for logits, found in zip((answer.logits, answer.simple), errors, strict=True):
            found.append(float(np.nanmean(brier(expit(logits[0, 1:]), outcome))))
    assert np.mean(errors[0]) < np.mean(errors[1])


def test_no_day_after_the_origin_is_looked_at_for_any_horizon(
    panel: CountPanel, fitted: StackFit
) -> None:
    origin = panel.roots.days[224]
    after = slice(225, None)
    strange = replace(panel, roots=garble(panel.roots, origin), fine=panel.fine.copy(),
                      pairs=panel.pairs.copy(), acted=panel.acted.copy())  # fmt: skip
    strange.fine[:, after], strange.pairs[after], strange.acted[:, after] = 9, 9, 9
    honest = said_of_week(fitted, panel, origin)
    for other in (strange, panel.until(origin)):
        for one, another in zip(honest, said_of_week(fitted, other, origin), strict=True):
            np.testing.assert_array_equal(one, another)


def test_a_saved_week_answers_as_the_one_in_memory(
    panel: CountPanel, fitted: StackFit, tmp_path: Path
) -> None:
    save_stack(fitted, tmp_path / "stack")
    again = load_stack(tmp_path / "stack")
    for at in (129, DAYS - 1):
        both = (said_of_week(fit, panel, panel.roots.days[at]) for fit in (fitted, again))
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(one, other)
    (tmp_path / "stack" / "week.json").unlink()
    assert load_stack(tmp_path / "stack").week is None, "of a time before there were weeks"


def test_tomorrow_is_the_first_day_of_the_week(panel: CountPanel, fitted: StackFit) -> None:
    origin = panel.roots.days[230]
    answer = said_of_week(fitted, panel, origin)
    tomorrow = asked(fitted, panel, panel.roots.days[231])
    np.testing.assert_allclose(expit(answer.logits[:, 0]), tomorrow[STACK], atol=1e-12)
    assert answer.logits.shape == (3, 8, 4, 20) and answer.rows.shape == (7, 4, 20)
    surge = answer.logits[TARGETS.index("surge")]
    assert (np.isnan(surge) == np.isnan(surge[0])).all(), "undefined on all days or on none"
    assert np.isfinite(answer.logits[:2]).all()


def test_how_often_past_weeks_had_it(panel: CountPanel) -> None:
    roots = panel.roots
    past, origin = PastWeeks(roots), 200
    threshold = np.full(roots.counts.shape[::2], 0.2)
    threshold[0, 0] = np.nan
    rates = expit(past.rates(origin, threshold))
    assert rates.shape == (2, 3, 4, 20)
    ends = [e for e in range(6, origin + 1) if roots.present[e - 6 : e + 1].all()]
    weeks = np.array([(roots.counts[:, e - 6 : e + 1] > 0).any(axis=1) for e in ends])
    weights = 0.5 ** ((origin - np.array(ends)) / 365)
    pooled = (weeks.sum(axis=(0, 1)) + 0.5) / (len(ends) * 4 + 1)
    by_hand = (np.einsum("d,dsr->sr", weights, weeks) + 2 * pooled) / (weights.sum() + 2)
    np.testing.assert_allclose(rates[1, 0], np.clip(by_hand, 1e-4, 1 - 1e-4), atol=1e-4)
    assert np.isnan(rates[:, 2, 0, 0]).all() and np.isfinite(rates[:, 2, 1]).all()


def test_what_the_parts_of_the_week_add_is_its_logit(fitted: StackFit, panel: CountPanel) -> None:
    assert fitted.week is not None
    stack = WeekStack(CountForecasters(fitted, panel), fitted.week)
    origin = panel.roots.days[VALIDATION_B + 3]
    answer = stack.answer(panel.roots, origin)
    members = {member.name for member in fitted.simple.members}
    for target in TARGETS:
        for horizon, place in ((2, 1), (7, 6), (0, 7)):
            for cell in ((0, 3), (2, 18)):
                logit = answer.logits[(TARGETS.index(target), place, *cell)]
                if np.isnan(logit):
                    continue
                parts = line_parts(stack, panel.roots, origin, cell, target, horizon)
                assert sum(part.adds for part in parts) == pytest.approx(logit)
                names = [part.name for part in parts]
                assert len(names) == len(set(names))
                if horizon:
                    assert {EXPECTED, WEEKDAY} | members <= set(names)
                else:
                    (any_day,) = (part for part in parts if part.name == ANY_DAY)
                    days = expit(answer.logits[(TARGETS.index(target), slice(7), *cell)])
                    assert any_day.probability == pytest.approx(1 - np.prod(1 - days), abs=1e-5)


def test_expected_rows_that_mislead_are_left_out() -> None:
    random = np.random.default_rng(0)
    columns = random.normal(size=(120, 4, 20, 5))
    early = np.arange(120) < 80
    law = columns[..., 0].copy()
    law[early] += 2 * columns[early][..., 4]  # what the last column said of the past
    law[~early] -= 2 * columns[~early][..., 4]  # it says the contrary of later on
    outcome = (random.random(law.shape) < expit(law)).astype(float)
    misled = _regress_with(columns, outcome, early, more=2)
    assert (misled.values[3:] == 0).all() and abs(misled.values[0]) > 0.3
    law = columns[..., 0] + 2 * columns[..., 4]
    outcome = (random.random(law.shape) < expit(law)).astype(float)
    assert abs(_regress_with(columns, outcome, early, more=2).values[4] - 2) < 0.2
