"""Reconstruction: who is likely to do it, to whom and where, given that an event happens tomorrow.

For each kind of argument a mixture of distributions of past days (argument_recency.py): recency
kernels over the event's own past, that of the codes above it and that of the whole stream, the last
day on which it was seen, and two small remainders: anyone who has ever been seen, and somebody
else. How much each counts is fitted by expectation maximisation on days that nothing else was
fitted on, apart for each level, kind and bucket of how much recent past a cell has: an event that
was seen twice has to lean on its stream, one of every day need not.

Chosen because it is exact to fit, reads each row once, and holds both baselines (frequencies, last
seen) as special cases, so that a fit can hardly lose to them. Not chosen: actors as products of
country and role (on real days the product of the marginals adds nothing to kernels over whole
actors), a network (there are a thousand values and a dozen rows in a cell), or what the model's
futures say of who acts (fitted, its share is nothing; docs/LOG.md).

Probabilities are of values that some row had up to the origin; whatever is new is one outcome,
"somebody else", so all sum to 1. Regions are given that a region is named.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.files import write_json_atomically
from gdelphi.common.types import LEVELS, FloatArray, Level
from gdelphi.forecast.argument_recency import (
    SCOPES,
    Mixture,
    RecencyIndex,
    component_names,
    outcomes_by_day,
)
from gdelphi.forecast.argument_sums import KindSums
from gdelphi.forecast.arguments import (
    KINDS,
    ArgumentHistory,
    ArgumentKind,
    level_of,
)
from gdelphi.forecast.mixture import (
    EDGES,
    evidence_bucket,
    fit_shares,
)
from gdelphi.forecast.precedents import Precedents, find_precedents
from gdelphi.store.connection import Connection

VERSION: Final = 1

Mixtures = Mapping[tuple[Level, ArgumentKind], FloatArray]
"""[bucket, component] for each level and kind; buckets sum to 1"""


# --- fitting --------------------------------------------------------------------------------------


ComponentChoice = Callable[[Level], Sequence[str]]


def fit_reconstructor(
    history: ArgumentHistory, days: Iterable[date], levels: Sequence[Level] = LEVELS
) -> "Reconstructor":
    """The reconstructor whose mixtures are fitted on target days, each seen from the day before."""
    fitted = fit_reconstructors(history, days, {"reconstruction": component_names}, levels)
    return fitted["reconstruction"]


def fit_reconstructors(
    history: ArgumentHistory,
    days: Iterable[date],
    allowed: Mapping[str, ComponentChoice],
    levels: Sequence[Level] = LEVELS,
) -> dict[str, "Reconstructor"]:
    """The same for several names, each with components of its own, as baselines have."""
    target_days = sorted(set(days))
    if not target_days:
        raise ArgumentsError("no days to fit the reconstruction on: name some")
    mixtures: dict[str, dict[tuple[Level, ArgumentKind], FloatArray]] = {
        name: {} for name in allowed
    }
    for level in levels:
        for kind in KINDS:
            index = RecencyIndex(history, kind, level)
            outcomes = [outcome for _, outcome in outcomes_by_day(index, target_days)]
            for name, components in allowed.items():
                table = fit_shares(outcomes, component_names(level), components(level))
                mixtures[name][level, kind] = table
    fitted = (target_days[0], target_days[-1])
    return {name: Reconstructor(history, tables, fitted) for name, tables in mixtures.items()}


# --- likely arguments -----------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A likely value of an argument."""

    value: str
    """key of an actor, code of a region"""
    words: str
    probability: float


@dataclass(frozen=True)
class Arguments:
    """The likely arguments of an event, if it happens on the day after the origin."""

    stream: str
    code: str
    origin: date
    actor1: tuple[Candidate, ...]
    actor2: tuple[Candidate, ...]
    region: tuple[Candidate, ...]
    """given that a region is named"""
    evidence: Precedents | None
    """None if no store was given to look into"""

    def candidates(self, kind: ArgumentKind) -> tuple[Candidate, ...]:
        """The likely values of a kind."""
        candidates: tuple[Candidate, ...] = getattr(self, kind)
        return candidates

    def rest(self, kind: ArgumentKind) -> float:
        """The probability of all values that are not listed, known or new."""
        return max(0.0, 1 - sum(candidate.probability for candidate in self.candidates(kind)))


class Reconstructor:
    """Fitted mixtures over a history. Origins are best asked for in their order."""

    def __init__(
        self,
        history: ArgumentHistory,
        mixtures: Mixtures,
        fitted: tuple[date, date],
    ) -> None:
        self.history, self.mixtures, self.fitted = history, mixtures, fitted
        self._sums: dict[ArgumentKind, KindSums] = {}
        self._indexes: dict[tuple[Level, ArgumentKind], RecencyIndex] = {}
        self._latest: dict[tuple[Level, ArgumentKind], tuple[str, int, Mixture]] = {}

    def arguments(
        self,
        stream: str,
        code: str,
        origin: date,
        *,
        level: Level | None = None,
        most: int = 5,
        connection: Connection | None = None,
    ) -> Arguments:
        """The likeliest values of each kind, with evidence if a store is given to look into."""
        at = level or level_of(code)
        candidates: dict[ArgumentKind, tuple[Candidate, ...]] = {}
        for kind in KINDS:
            likely = self.likely(kind, stream, code, origin, level=at, most=most)
            candidates[kind] = tuple(
                Candidate(value, self.history.words(kind, value, stream, origin), probability)
                for value, probability in likely.items()
            )
        evidence = None
        if connection is not None:
            likely_values = {
                kind: {candidate.value: candidate.probability for candidate in candidates[kind]}
                for kind in KINDS
            }
            evidence = find_precedents(
                connection, stream, code, origin, most=most, likely=likely_values, level=at
            )
        return Arguments(stream, code, origin, **candidates, evidence=evidence)

    def likely(
        self,
        kind: ArgumentKind,
        stream: str,
        code: str,
        origin: date,
        *,
        level: Level,
        most: int = 5,
    ) -> dict[str, float]:
        """The likeliest values of one kind and their probabilities, the likeliest first."""
        index = self._index(level, kind, origin)
        mixture = self._mixture(index, stream).at(index.code(code))
        values = index.observed.values
        likely = {values[at]: mixture.probability(0, at) for at in mixture.top(most)[0]}
        return dict(sorted(likely.items(), key=lambda item: (-item[1], item[0])))

    def _mixture(self, index: RecencyIndex, stream: str) -> Mixture:
        """The mixtures of all events of a stream: they share its kernels, and are made at once."""
        key = (index.level, index.kind)
        latest = self._latest.get(key)
        if latest is None or latest[:2] != (stream, index.origin):
            cells = index.cells(self.history.stream(stream))
            shares = self.mixtures[key][evidence_bucket(index.evidence(cells))]
            latest = self._latest[key] = (stream, index.origin, index.mixture(cells, shares))
        return latest[2]

    def _index(self, level: Level, kind: ArgumentKind, origin: date) -> RecencyIndex:
        """The index of a level and kind as it stands at an origin."""
        if (level, kind) not in self.mixtures:
            raise ArgumentsError(f"nothing was fitted for {kind} at level {level}: fit it too")
        at = self.history.day(origin)
        if not 0 <= at < len(self.history.days):
            days = f"{self.history.days[0]} to {self.history.days[-1]}"
            raise ArgumentsError(f"{origin} is not among the days read ({days}): read it too")
        if kind not in self._sums or self._sums[kind].origin > at:
            self._restart(kind)
        index = self._indexes[level, kind]
        index.advance(at)
        return index

    def _restart(self, kind: ArgumentKind) -> None:
        """Sums of a kind before its first day, and indexes of all fitted levels over them."""
        levels = [level for level, of in self.mixtures if of == kind]
        scopes = [scope for level in levels for scope in SCOPES[level]]
        sums = self._sums[kind] = KindSums(self.history, kind, scopes)
        for level in levels:
            self._indexes[level, kind] = RecencyIndex(self.history, kind, level, sums)

    # --- on disk ----------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the fitted shares as JSON; the history is not part of it."""
        mixtures: dict[str, Any] = {}
        for (level, kind), table in self.mixtures.items():
            mixtures.setdefault(level, {})[kind] = {
                "shares": dict(zip(component_names(level), table.T.tolist(), strict=True)),
            }
        content = {
            "version": VERSION,
            "fitted": [day.isoformat() for day in self.fitted],
            "edges": list(EDGES),
            "mixtures": mixtures,
        }
        write_json_atomically(path, content, indent=1)

    @classmethod
    def load(cls, path: Path, history: ArgumentHistory) -> "Reconstructor":
        """Fitted shares from a file, over a history."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["version"] != VERSION or content["edges"] != list(EDGES):
                raise ValueError("it is of another version")
            first, last = map(date.fromisoformat, content["fitted"])
            mixtures: dict[tuple[Level, ArgumentKind], FloatArray] = {}
            for level in content["mixtures"]:
                for kind, part in content["mixtures"][level].items():
                    mixtures[level, kind] = _table(component_names(level), part["shares"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArgumentsError(
                f"{path} holds no reconstruction ({error!r}): fit it again"
            ) from None
        return cls(history, mixtures, (first, last))


def _table(names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> FloatArray:
    """The shares of components as a checked table, [bucket, component]."""
    table = np.array([shares[name] for name in names], dtype=np.float64).T
    if table.shape != (len(EDGES) + 1, len(names)) or set(shares) != set(names):
        raise ValueError("its components are not those of this version")
    if not (table.min() >= 0 and np.allclose(table.sum(axis=1), 1)):
        raise ValueError("its shares do not sum to 1")
    return table
