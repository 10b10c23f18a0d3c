"""What is published: the combination of all members where it has earned it, else the stack.

The combination is fitted on validation B, starting from the stack and held to it; where there is a
pooled stack, from the reading *direct*, which is that stack or better (model/cell_fit.py). How
strongly, and whether the result is better than the stack, is decided there too, for each target: a
block of days is answered by a combination and a stack that were fitted on the other blocks, so that
no day judges what was fitted on it. The days on which forecasts are judged take no part in any of
this. Fitted from nothing, the combination of nine members was worse than the stack where there is
one country and a year (docs/LOG.md).

Numbers are made coherent at the end. What is a headline or surges has occurred, so neither may be
likelier than that; and a code does not occur more likely than what it is a kind of. A headline
among 290 codes need not belong to a headline among 20.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.files import write_json_atomically
from gdelphi.common.types import (
    LEVELS,
    TARGETS,
    FloatArray,
    Forecast,
    Forecaster,
    History,
    Level,
)
from gdelphi.forecast.coherent_week import within_occurs
from gdelphi.forecast.member_range import negative_members, range_said, within_members
from gdelphi.measures.phrases import lineage
from gdelphi.scores.probabilities import brier
from gdelphi.stack.fitted import PooledStack
from gdelphi.stack.linear import (
    INTERCEPT,
    Answers,
    Coefficients,
    Combination,
    Stack,
    StackExample,
    ask,
    default_stack,
)

RIDGES: Final = (None, 3000.0, 300.0, 30.0, 1.0)
"""how strongly the combination is held to its start; None: it is that"""
BLOCKS: Final = 3  # of validation B, each answered by what was fitted on the others
ERRORS: Final = 2.0  # standard errors by which a combination must be better than the stack
PUBLISHED: Final = "published"
COMBINED: Final = "combined"
WITHOUT_NETWORK: Final = "without network"
SHARES_OF: Final = "profiles"
DIRECT: Final = "direct"
SAME: Final = 1e-9  # relative difference of scores that is none

AnyStack = Stack | PooledStack


@dataclass(frozen=True)
class PublishedChoice:
    """How a target came to be published as it is. Brier scores on validation B."""

    published: str
    combined: float
    stack: float
    cells: int
    ridge: float | None = None
    """with which the combination is held to its start; None: it is that"""
    lowest: float = float("nan")
    """Brier score of the best combination, however it is held: by it models are compared"""
    said: tuple[float, float] = (0.0, 1.0)
    """lowest and highest probability on validation B: beyond, nobody knows how good they are"""


@dataclass(frozen=True, eq=False)
class Publisher:
    """A forecaster: what is published at one level."""

    level: Level
    combined: Stack
    stack: AnyStack
    choices: Mapping[str, PublishedChoice]
    name: str = PUBLISHED
    fitted: tuple[date, date] | None = None
    """first and last target day that any of it was fitted on"""
    without: Stack | None = None
    """the same without the members that have a network, where that is not the stack itself"""

    @property
    def members(self) -> Sequence[Forecaster]:
        """The two that are chosen between, for each target; with them what is fitted alike without
        a network, to be compared with."""
        return (self.combined, self.stack, *([self.without] if self.without else []))

    def all_members(self) -> list[Forecaster]:
        """All that it is made of, each once: readings and the stack, then what that is made of."""
        found: dict[str, Forecaster] = {}
        waiting: list[Forecaster] = [*self.combined.members, self.stack]
        while waiting:
            one = waiting.pop(0)
            if one.name not in found:
                found[one.name] = one
                waiting += one.members if isinstance(one, Combination) else ()
        return list(found.values())

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        return self.combine(history, ask(self.members, history, origin, horizon))

    def combine(self, _: History, answers: Answers) -> list[Forecast]:
        """The same from the answers of combination, stack and their members.

        Shares are those of the model's reading *profiles*, where there is a model. No number lies
        outside of what the members say.
        """
        chosen = {target: answers[choice.published] for target, choice in self.choices.items()}
        said = [
            replace(
                shares,
                forecaster=self.name,
                occurs=chosen["occurs"][number].occurs,
                headline=chosen["headline"][number].headline,
                surge=chosen["surge"][number].surge,
            )
            for number, shares in enumerate(answers.get(SHARES_OF, answers[COMBINED]))
        ]
        names = {member.name for member in self.all_members()} - {self.stack.name}
        members = {name: answers[name] for name in names if name in answers}
        return [_within_occurs(one) for one in within_members(said, members)]

    def save(self, path: Path, model: str = "") -> None:
        """Write it as JSON: coefficients and choices, and the digest of the model that they fit."""
        content = {
            "model": model,
            "level": self.level,
            "members": [member.name for member in self.combined.members],
            "combined": self.combined.coefficients(),
            "stack": self.stack.coefficients(),
            "without": self.without.coefficients() if self.without else None,
            "choices": {target: asdict(choice) for target, choice in self.choices.items()},
            "fitted": [day.isoformat() for day in self.fitted or ()],
        }
        write_json_atomically(path, content)

    @classmethod
    def load(
        cls,
        path: Path,
        readings: Sequence[Forecaster],
        model: str = "",
        pooled: PooledStack | None = None,
    ) -> "Publisher":
        """A saved publisher over the same readings of the same model, in the same order, and over
        the same pooled stack if it had one."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            choices = {target: _read_choice(content["choices"][target]) for target in TARGETS}
            level, names, fitted_to = content["level"], content["members"], content["model"]
            days = [date.fromisoformat(day) for day in content.get("fitted", ())]
            stack = pooled or replace(default_stack(), fitted=content["stack"])
            combined = replace(combination_of(readings, pooled), fitted=content["combined"])
            without = replace(plain_stack_of(pooled), fitted=content["without"]) if pooled else None
        except FileNotFoundError:
            raise ForecastError(f"no {path}: `gdelphi calibrate` makes it") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ForecastError(
                f"{path} cannot be read ({error}): make it again with `gdelphi calibrate`"
            ) from None
        if fitted_to != model:
            raise ForecastError(
                f"{path} was fitted to another model: make it again with `gdelphi calibrate`"
            )
        given = [member.name for member in combined.members]
        if names != given:
            raise ForecastError(
                f"{path} combines {', '.join(names)}, not {', '.join(given)}: make it again with "
                "`gdelphi calibrate`"
            )
        fitted = (days[0], days[-1]) if days else None
        publisher = cls(level, combined, stack, choices, fitted=fitted, without=without)
        publisher.refuse_negative_weights(str(path))
        return publisher

    def refuse_negative_weights(self, where: str) -> None:
        """Refuse a combination in which a member counts against itself."""
        start = _start(self.combined, self.stack)
        for target, choice in self.choices.items():
            if choice.published != COMBINED or choice.ridge is None:
                continue
            against = negative_members(self.combined.coefficients()[target], start[target])
            if against:
                raise ForecastError(
                    f"{where}: {target} is combined with a negative weight of {against[0]}, so it "
                    "may be what no member says: make it again with `gdelphi calibrate`"
                )


def _read_choice(content: Mapping[str, Any]) -> PublishedChoice:
    choice = PublishedChoice(**content)
    low, high = choice.said
    return replace(choice, said=(float(low), float(high)))


def combination_of(readings: Sequence[Forecaster], pooled: PooledStack | None = None) -> Stack:
    """The combination of readings with the pooled stack, or with all baselines where there is none;
    not fitted yet."""
    if pooled:
        return Stack([pooled, *readings], name=COMBINED, plain=True)
    return Stack([*default_stack().members, *readings], name=COMBINED)


def plain_stack_of(pooled: PooledStack) -> Stack:
    """The pooled stack behind a regression of its own, as the combination has it; not fitted."""
    return Stack([pooled], name=WITHOUT_NETWORK, plain=True)


def fit_publisher(
    level: Level,
    history: History,
    readings: Sequence[Forecaster],
    *,
    before: Sequence[date],
    validation_b: Sequence[date],
    pooled: PooledStack | None = None,
) -> Publisher:
    """Fit on the days of validation B. The stack also learns from the days before it, unless it is
    a pooled one, which is fitted already and answers on validation B out of fold."""
    earlier = [] if pooled else default_stack().examples(history, before)
    return fit_examples(
        level,
        readings,
        earlier=earlier,
        examples=combination_of(readings, pooled).examples(history, validation_b),
        days=(min([*before, *validation_b]), max([*before, *validation_b])),
        pooled=pooled,
    )


def fit_examples(
    level: Level,
    readings: Sequence[Forecaster],
    *,
    earlier: Sequence[StackExample],
    examples: Sequence[StackExample],
    days: tuple[date, date],
    pooled: PooledStack | None = None,
) -> Publisher:
    """The same from examples: of the stack before validation B, of the combination on it. `days`
    are the first and the last that members were asked about."""
    combination = combination_of(readings, pooled)
    plain_stack = _as_it_is(pooled) if pooled else default_stack()
    if len(examples) < BLOCKS:
        raise ForecastError(
            f"{len(examples)} present days of validation B are too few to fit on: give it more by "
            "split.validation_b or split.validation_b_until"
        )
    plain = [_stack_columns(plain_stack, combination, example) for example in examples]
    stack = plain_stack if pooled else plain_stack.fit_examples([*earlier, *plain])
    blocks = list(_blocks(stack, examples, plain, earlier, refitted=pooled is None))
    direct = _direct_alone(combination) if pooled else None
    choices = {target: _choose_ridge(combination, blocks, target, direct) for target in TARGETS}
    without = None
    if pooled:
        alone = plain_stack_of(pooled)
        own = [block._replace(own=block.plain, rest=block.plain_rest) for block in blocks]
        ridges = {target: _choose_ridge(alone, own, target).ridge for target in TARGETS}
        without = alone.fit_around(plain, stack.coefficients(), ridges)
    ridges = {target: choice.ridge for target, choice in choices.items()}
    combined = combination.fit_around(examples, direct or stack.coefficients(), ridges)
    for target, choice in choices.items():
        answers = [
            combined.answer(own, target)
            if choice.published == COMBINED
            else stack.answer(one, target)
            for own, one in zip(examples, plain, strict=True)
        ]
        choices[target] = replace(choice, said=range_said(answers))
    return Publisher(
        level,
        combined,
        pooled or stack,
        choices,
        fitted=days,
        without=without,
    )


def _as_it_is(pooled: PooledStack) -> Stack:
    """A stack of one member that hands on its answers."""
    feature = plain_stack_of(pooled).features()[0]
    return replace(
        plain_stack_of(pooled),
        fitted={target: {INTERCEPT: 0.0, feature: 1.0} for target in TARGETS},
    )


def _start(combination: Stack, stack: AnyStack) -> Coefficients:
    """What a combination is held to: the reading *direct*, which begins at the pooled stack, if
    there are both; else the stack."""
    direct = _direct_alone(combination) if isinstance(stack, PooledStack) else None
    return direct or stack.coefficients()


def _direct_alone(combination: Stack) -> Coefficients | None:
    """Coefficients that hand on the reading *direct*, if it is among the members."""
    feature = f"logit {DIRECT}"
    if feature not in combination.features():
        return None
    return {target: {INTERCEPT: 0.0, feature: 1.0} for target in TARGETS}


def _stack_columns(stack: Stack, combination: Stack, example: StackExample) -> StackExample:
    """An example of the combination with the columns of the stack alone."""
    names = combination.features()
    columns = [names.index(name) for name in stack.features()]
    features = {target: matrix[:, columns] for target, matrix in example.features.items()}
    return example._replace(features=features)


class _Block(NamedTuple):
    """Days of validation B, and what can be fitted without them."""

    own: Sequence[StackExample]
    plain: Sequence[StackExample]
    """the same for the stack"""
    rest: Sequence[StackExample]
    plain_rest: Sequence[StackExample]
    stack: Stack


def _blocks(
    stack: Stack,
    examples: Sequence[StackExample],
    plain: Sequence[StackExample],
    earlier: Sequence[StackExample],
    *,
    refitted: bool,
) -> Iterator[_Block]:
    """The blocks of validation B; `stack` is the one that was fitted on all of it, and is fitted
    again without each block unless its answers there are out of fold anyway."""
    edges = np.linspace(0, len(examples), BLOCKS + 1).round().astype(int).tolist()
    for first, last in pairwise(edges):
        plain_rest = [*plain[:first], *plain[last:]]
        fitted = stack
        if refitted:
            fitted = stack.fit_examples([*earlier, *plain_rest], like=stack.coefficients())
        rest = [*examples[:first], *examples[last:]]
        yield _Block(examples[first:last], plain[first:last], rest, plain_rest, fitted)


def _choose_ridge(
    combination: Stack,
    blocks: Sequence[_Block],
    target: str,
    given: Coefficients | None = None,
) -> PublishedChoice:
    """How the combination is held to its start, the stack or what is given, by cross-validation
    over blocks: of all ridges whose Brier score is within two standard errors of the lowest, the
    one that holds it most. Without a ridge it is the start, so a fitted combination is published
    only if it is better by more than that: with few days, the best of several is often the best by
    chance (docs/LOG.md)."""
    stack_errors = np.stack(
        [_errors(block.stack, day, target) for block in blocks for day in block.plain]
    )
    errors = []
    for ridge in RIDGES:
        of_days = []
        for block in blocks:
            start = given or block.stack.coefficients()
            fitted = combination.fit_around(block.rest, start, {target: ridge})
            of_days += [_errors(fitted, day, target) for day in block.own]
        errors.append(np.stack(of_days))
    chosen = _most_held(np.stack([_daily(values) for values in errors]))
    choices = [_choice(*each) for each in zip(errors, repeat(stack_errors), RIDGES, strict=False)]
    return replace(choices[chosen], lowest=min(choice.combined for choice in choices))


def _daily(errors: FloatArray) -> FloatArray:
    """Mean of each day that has a known cell, from errors [day, cell]."""
    known = ~np.isnan(errors)
    days = known.any(axis=1)
    means: FloatArray = np.where(known, errors, 0.0)[days].sum(axis=1) / known[days].sum(axis=1)
    return means


def _most_held(means: FloatArray) -> int:
    """The first of candidates whose mean over days, [candidate, day], is within ERRORS standard
    errors of the lowest one's."""
    if means.shape[1] < 2:
        return 0
    apart = means - means[np.argmin(means.mean(axis=1))]
    error = apart.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
    return int(np.argmax(apart.mean(axis=1) <= ERRORS * error))


def _choice(errors: FloatArray, stack_errors: FloatArray, ridge: float | None) -> PublishedChoice:
    known = ~(np.isnan(errors) | np.isnan(stack_errors))
    if not known.any():
        return PublishedChoice("stack", float("nan"), float("nan"), 0, ridge)
    combined, stack = float(errors[known].mean()), float(stack_errors[known].mean())
    better = combined < stack * (1 - SAME)
    return PublishedChoice(
        COMBINED if better else "stack", combined, stack, int(known.sum()), ridge
    )


def _errors(stack: Stack, example: StackExample, target: str) -> FloatArray:
    return brier(stack.answer(example, target), example.outcomes[target].ravel())


# --- levels ---------------------------------------------------------------------------------------


class LevelForecasts(NamedTuple):
    """Forecasts of one stream at the three levels."""

    root: Forecast
    base: Forecast
    full: Forecast


def make_coherent(forecasts: Mapping[Level, Forecast]) -> dict[Level, Forecast]:
    """Forecasts of levels from the root down, with P(child occurs) <= P(parent occurs), and
    headline and surge <= occurs."""
    coherent: dict[Level, Forecast] = {}
    for level, forecast in forecasts.items():
        above = LEVELS[LEVELS.index(level) - 1]
        if coherent:
            coherent[level] = cap_by_parents(forecast, coherent[above], above)
        else:
            coherent[level] = _within_occurs(forecast)
    return coherent


def cap_by_parents(children: Forecast, parents: Forecast, level: Level) -> Forecast:
    """Forecasts of codes, made no likelier than those of their parents, which are of the level."""
    place = {code: number for number, code in enumerate(parents.codes)}
    above = [place[getattr(lineage(code), level)] for code in children.codes]
    most = parents.occurs[above]
    children = _within_occurs(children)
    return replace(
        children,
        occurs=np.minimum(children.occurs, most),
        headline=np.minimum(children.headline, most),
        surge=np.minimum(children.surge, most),
    )


def _within_occurs(forecast: Forecast) -> Forecast:
    """The nearest numbers with headline and surge no likelier than occurs.

    That is the projection onto what is possible, and the outcome is possible: so the squared errors
    of the three can only fall in sum, where lowering the one or raising the other would trust one
    of them.
    """
    values = np.stack([forecast.occurs, forecast.headline, forecast.surge])
    occurs, headline, surge = within_occurs(values)
    return replace(forecast, occurs=occurs, headline=headline, surge=surge)
