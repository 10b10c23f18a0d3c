"""What is published: the combination of all members where it has earned it, else the stack.

The combination is fitted on validation B, starting from the stack and held to it. How strongly, and
whether the result is better than the stack, is decided there too, for each target: a block of days
is answered by a combination and a stack that were fitted on the other blocks, so that no day judges
what was fitted on it. The days on which forecasts are judged take no part in any of this. Fitted
from nothing, the combination of nine members was worse than the stack where there is one country
and a year (docs/LOG.md).

Numbers are made coherent at the end. What is a headline or surges has occurred, so neither may be
likelier than that; and a code does not occur more likely than what it is a kind of. A headline
among 290 codes need not belong to a headline among 20.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    Forecaster,
    History,
    Level,
)
from gdelphi.forecast.stack import (
    Stack,
    StackExample,
    default_stack,
)
from gdelphi.measures.phrases import lineage
from gdelphi.scores.probabilities import brier

RIDGES: Final = (None, 3000.0, 300.0, 30.0, 1.0)  # how strongly it is held to the stack; None: fast
BLOCKS: Final = 3  # of validation B, each answered by what was fitted on the others
PUBLISHED: Final = "published"
COMBINED: Final = "combined"
SHARES_OF: Final = "profiles"


@dataclass(frozen=True)
class Choice:
    """How a target came to be published as it is. Brier scores on validation B."""

    published: str
    combined: float
    stack: float
    cells: int
    ridge: float | None = None
    """with which the combination is held to the stack; None: it is the stack"""


@dataclass(frozen=True, eq=False)
class Publisher:
    """A forecaster: what is published at one level."""

    level: Level
    combined: Stack
    stack: Stack
    choices: Mapping[str, Choice]
    name: str = PUBLISHED
    fitted: tuple[date, date] | None = None
    """first and last target day that any of it was fitted on"""

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        said = {COMBINED: self.combined.forecast(history, origin, horizon)}
        said["stack"] = self.stack.forecast(history, origin, horizon)
        shares = self._shares(history, origin, horizon)
        chosen = {target: said[self.choices[target].published] for target in TARGETS}
        return [
            _within(
                replace(
                    each,
                    forecaster=self.name,
                    occurs=chosen["occurs"][number].occurs,
                    headline=chosen["headline"][number].headline,
                    surge=chosen["surge"][number].surge,
                )
            )
            for number, each in enumerate(shares)
        ]

    def _shares(self, history: History, origin: date, horizon: int) -> list[Forecast]:
        for member in self.combined.members:
            if member.name == SHARES_OF:
                return member.forecast(history, origin, horizon)
        return self.combined.forecast(history, origin, horizon)

    def save(self, path: Path, model: str = "") -> None:
        """Write it as JSON: coefficients and choices, and of which model they speak."""
        said = {
            "model": model,
            "level": self.level,
            "members": [member.name for member in self.combined.members],
            "combined": self.combined.coefficients(),
            "stack": self.stack.coefficients(),
            "choices": {target: asdict(choice) for target, choice in self.choices.items()},
            "fitted": [day.isoformat() for day in self.fitted or ()],
        }
        beside = path.with_name(f".{path.name}.part")  # whole or not at all
        beside.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
        beside.replace(path)

    @classmethod
    def load(cls, path: Path, readings: Sequence[Forecaster], model: str = "") -> "Publisher":
        """A saved publisher over the same readings of the same model, in the same order."""
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            choices = {target: Choice(**said["choices"][target]) for target in TARGETS}
            level, names, spoken_of = said["level"], said["members"], said["model"]
            days = [date.fromisoformat(day) for day in said.get("fitted", ())]
            bar = replace(default_stack(), fitted=said["stack"])
            combined = replace(combination_of(readings), fitted=said["combined"])
        except FileNotFoundError:
            raise ForecastError(f"no {path}: `gdelphi calibrate` makes it") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ForecastError(
                f"{path} cannot be read ({error}): make it again with `gdelphi calibrate`"
            ) from None
        if spoken_of != model:
            raise ForecastError(
                f"{path} was fitted to another model: make it again with `gdelphi calibrate`"
            )
        given = [member.name for member in combined.members]
        if names != given:
            raise ForecastError(
                f"{path} combines {', '.join(names)}, not {', '.join(given)}: make it again with "
                "`gdelphi calibrate`"
            )
        return cls(level, combined, bar, choices, fitted=(days[0], days[-1]) if days else None)


def combination_of(readings: Sequence[Forecaster]) -> Stack:
    """The combination of readings with all baselines, not fitted yet."""
    return Stack([*default_stack().members, *readings], name=COMBINED)


def fit_publisher(
    level: Level,
    history: History,
    readings: Sequence[Forecaster],
    *,
    before: Sequence[date],
    tuning: Sequence[date],
    horizon: int = 1,
) -> Publisher:
    """Fit on validation B (`tuning`); the stack also learns from the days before it."""
    return fit_lessons(
        level,
        readings,
        earlier=default_stack().lessons(history, before, horizon),
        lessons=combination_of(readings).lessons(history, tuning, horizon),
        days=(min([*before, *tuning]), max([*before, *tuning])),
    )


def fit_lessons(
    level: Level,
    readings: Sequence[Forecaster],
    *,
    earlier: Sequence[StackExample],
    lessons: Sequence[StackExample],
    days: tuple[date, date],
) -> Publisher:
    """The same from lessons: of the stack before validation B, of the combination on it. `days` are
    the first and the last that they were asked for."""
    combination, bar = combination_of(readings), default_stack()
    if len(lessons) < BLOCKS:
        raise ForecastError(
            f"{len(lessons)} present days of validation B are too few to fit on: give it more by "
            "split.validation_b or split.validation_b_until"
        )
    plain = [_only(bar, combination, lesson) for lesson in lessons]
    stack = bar.fit_lessons([*earlier, *plain])
    blocks = list(_blocks(stack, lessons, plain, earlier))
    choices = {target: _chosen(combination, blocks, target) for target in TARGETS}
    ridges = {target: choice.ridge for target, choice in choices.items()}
    return Publisher(
        level,
        combination.fit_around(lessons, stack.coefficients(), ridges),
        stack,
        choices,
        fitted=days,
    )


def _only(bar: Stack, combination: Stack, lesson: StackExample) -> StackExample:
    """A lesson of the combination with the columns of the stack alone."""
    names = combination.features()
    columns = [names.index(name) for name in bar.features()]
    return lesson._replace(
        said={target: matrix[:, columns] for target, matrix in lesson.said.items()}
    )


def _chosen(combination: Stack, blocks: Sequence["_Block"], target: str) -> Choice:
    others = _joined(_errors(each.stack, day, target) for each in blocks for day in each.plain)
    found = [
        _choose(_answered(combination, blocks, target, ridge), others, ridge) for ridge in RIDGES
    ]
    return min(found, key=lambda each: each.combined)


class _Block(NamedTuple):
    """Days of validation B, and what can be fitted without them."""

    own: Sequence[StackExample]
    plain: Sequence[StackExample]
    """the same for the stack"""
    rest: Sequence[StackExample]
    stack: Stack


def _blocks(
    bar: Stack,
    lessons: Sequence[StackExample],
    plain: Sequence[StackExample],
    earlier: Sequence[StackExample],
) -> Iterator[_Block]:
    """The blocks of validation B; `bar` is the stack that was fitted on all of it."""
    edges = np.linspace(0, len(lessons), BLOCKS + 1).round().astype(int).tolist()
    for first, last in pairwise(edges):
        without = [*earlier, *plain[:first], *plain[last:]]
        stack = bar.fit_lessons(without, like=bar.coefficients())
        rest = [*lessons[:first], *lessons[last:]]
        yield _Block(lessons[first:last], plain[first:last], rest, stack)


def _answered(
    combination: Stack, blocks: Sequence[_Block], target: str, ridge: float | None
) -> FloatArray:
    """Errors on each block of a combination that was fitted on the others."""
    fitted = [
        combination.fit_around(each.rest, each.stack.coefficients(), {target: ridge})
        for each in blocks
    ]
    return _joined(
        _errors(found, day, target)
        for found, each in zip(fitted, blocks, strict=True)
        for day in each.own
    )


def _joined(errors: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate(list(errors))


def _choose(errors: FloatArray, others: FloatArray, ridge: float | None) -> Choice:
    known = ~(np.isnan(errors) | np.isnan(others))
    if not known.any():
        return Choice("stack", float("nan"), float("nan"), 0, ridge)
    mine, bar = float(errors[known].mean()), float(others[known].mean())
    better = ridge is not None and mine < bar
    return Choice(COMBINED if better else "stack", mine, bar, int(known.sum()), ridge)


def _errors(stack: Stack, lesson: StackExample, target: str) -> FloatArray:
    return brier(stack.answer(lesson, target), lesson.came[target].ravel())


# --- levels ---------------------------------------------------------------------------------------


class Levels(NamedTuple):
    """Forecasts of one stream at the three levels."""

    root: Forecast
    base: Forecast
    full: Forecast


def coherent(levels: Levels) -> Levels:
    """The same with P(child occurs) <= P(parent occurs), and headline and surge <= occurs."""
    root = _within(levels.root)
    base = below(levels.base, root, "root")
    return Levels(root, base, below(levels.full, base, "base"))


def below(children: Forecast, parents: Forecast, level: Level) -> Forecast:
    """Children no likelier to occur than their parents, which are of the level."""
    place = {code: number for number, code in enumerate(parents.codes)}
    above = [place[getattr(lineage(code), level)] for code in children.codes]
    most = parents.occurs[above]
    made = _within(children)
    capped = {
        name: np.minimum(getattr(made, name), most) for name in ("occurs", "headline", "surge")
    }
    return replace(made, **capped)


def _within(said: Forecast) -> Forecast:
    """The nearest numbers with headline and surge no likelier than occurs.

    Where one is, it and occurs become their mean. That is the projection onto what is possible, and
    what came is possible: so the squared errors of the three can only fall in sum, where lowering
    the one or raising the other would trust one of them. Undefined stays undefined.
    """
    rivals = np.fmax(said.headline, said.surge), np.fmin(said.headline, said.surge)
    occurs = np.where(rivals[0] > said.occurs, (said.occurs + rivals[0]) / 2, said.occurs)
    both = ~np.isnan(said.surge) & (rivals[1] > occurs)
    occurs = np.where(both, (said.occurs + rivals[0] + rivals[1]) / 3, occurs)
    headline, surge = (np.minimum(each, occurs) for each in (said.headline, said.surge))
    return replace(said, occurs=occurs, headline=headline, surge=surge)
