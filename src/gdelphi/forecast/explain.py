"""Explaining a number: from what is published back to the reports that it rests on.

    published <- members and what each adds to the logit <- futures that have the event
      <- the days that those were drawn from <- atoms and their phrases <- rows of the store

The logit is that of the regression which is published for the target, the combination or the stack:
its parts add up to the published number, unless it was moved to agree with its parent or another
target, which is said. Not chosen: importances by leaving members out, which would not add up.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import OnStep
from gdelphi.common.types import (
    TARGETS,
    WORLD,
    BoolArray,
    FloatArray,
    IntArray,
    Level,
    VectorArray,
)
from gdelphi.forecast.arguments import level_of
from gdelphi.forecast.calibrate import ensure_calibrated, reconstructor
from gdelphi.forecast.explanation import (
    AtomExplained,
    DrawnDay,
    Explanation,
    MemberContribution,
    SourceReport,
    TargetExplained,
)
from gdelphi.forecast.origin import ForecastOrigin, check_stream
from gdelphi.forecast.prediction import Phrase, Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.stack import (
    INTERCEPT,
    WEEKDAYS,
    Stack,
    expit,
)
from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.brief import name_of
from gdelphi.measures.phrases import (
    actor_key_sql,
    canonical,
    lineage,
    sentence,
)
from gdelphi.measures.profiles import (
    Profiles,
    occurs_of,
    outcomes,
    standard_events,
)
from gdelphi.measures.space import place_of
from gdelphi.ot.sphere import unit
from gdelphi.store.connection import Connection, Store

RECENT: Final = (30, 365)
"""days over which it is said how often an event came"""
DAYS_SHOWN: Final = 12
ATOMS_SHOWN: Final = 8
ORIGINS_SHOWN: Final = 3  # phrases that atoms called the same come from
REPORTS_SHOWN: Final = 8
REPORTS_A_DAY: Final = 2
ROWS_LOOKED_AT: Final = 500
SLIGHT: Final = 1e-4  # share of a day below which an atom tells nothing
WEEKDAY: Final = "day of the week"  # a baseline is called weekday
VOLUME: Final = "volume of news"
_COLUMNS: Final = {"root": "EventRootCode", "base": "EventBaseCode", "full": "EventCode"}


def explain(
    predictor: Predictor,
    stream: str,
    code: str,
    at: ForecastOrigin,
    *,
    level: Level | None = None,
    on_step: OnStep | None = None,
) -> Explanation:
    """Explain what is published about a stream and an event."""
    check_stream(predictor, stream)
    chosen = level or level_of_event(code)
    if code not in standard_events(chosen):
        raise ForecastError(f"no {chosen} code {code}: {_nearest(code, standard_events(chosen))}")
    say = on_step or (lambda _: None)
    ensure_calibrated(predictor, say)
    say(f"forecasting {at.origin + timedelta(days=1)}")
    prediction = predictor.predict(at.origin, [stream], partial=at.partial)[0]
    return _Asked(predictor, prediction, chosen, code).explained()


def level_of_event(code: str) -> Level:
    """The level that a code is meant at: 14, 145 or 1451; 145 is a base."""
    if code not in event_codes():
        raise ForecastError(f"no event {code}: {_nearest(code, tuple(event_codes()))}")
    return level_of(code)


def _nearest(code: str, codes: Sequence[str]) -> str:
    near = get_close_matches(code, codes, 5, cutoff=0.5) or list(codes[:5])
    said = ", ".join(f"{each} ({event_codes()[each].label})" for each in near)
    return f"CAMEO codes are text, with their zeros; near are {said}"


class _Atom(NamedTuple):
    """An atom of a future."""

    cosine: float
    mass: float
    future: int
    drawn: Phrase
    """that it comes from"""


def _origins(phrase: Phrase, atoms: Sequence[_Atom]) -> list[Phrase]:
    """The phrases that atoms come from, the heaviest first; none if all are called by theirs."""
    masses: Counter[Phrase] = Counter()
    for atom in atoms:
        masses[atom.drawn] += atom.mass  # type: ignore[assignment]
    ranked = sorted(masses, key=lambda each: (-masses[each], each))
    return [] if ranked == [phrase] else ranked[:ORIGINS_SHOWN]


class _Asked:
    """A question about one event, and what is at hand to answer it."""

    def __init__(
        self, predictor: Predictor, prediction: Prediction, level: Level, code: str
    ) -> None:
        self.predictor, self.prediction, self.level, self.code = predictor, prediction, level, code
        self.stream, self.origin = prediction.stream, prediction.origin
        self.history = predictor.known_at(level, self.origin)
        self.row = predictor.streams.index(self.stream)
        self.place = self.history.codes.index(code)

    def explained(self) -> Explanation:
        prediction = self.prediction
        has = self._has()
        days = self._days(has)
        with Store(self.predictor.settings).reading() as connection:
            reports = self._reports(connection, days)
        likely = reconstructor(self.predictor, self.origin).arguments(
            self.stream, self.code, self.origin, level=self.level
        )
        return Explanation(
            stream=self.stream,
            name=name_of(self.stream),
            origin=self.origin,
            target_day=prediction.target_day,
            partial=prediction.partial,
            level=self.level,
            code=self.code,
            label=event_codes()[self.code].label,
            targets=tuple(self._target(target) for target in TARGETS),
            futures=len(has),
            having=int(has.sum()),
            having_weight=float(prediction.futures.tilted.weights[has].sum()),
            days=tuple(days),
            atoms=tuple(self._atoms(has)),
            reports=tuple(reports),
            arguments={"actor1": likely.actor1, "actor2": likely.actor2, "region": likely.region},
        )

    # Probabilities.

    def _target(self, target: str) -> TargetExplained:
        published = self.prediction.level(self.level).probability(target)[self.place]
        which = self.prediction.published[self.level][target]
        publisher = self.predictor.publisher(self.level)
        parts = self._parts(publisher.stack if which == "stack" else publisher.combined, target)
        logit = sum(part.adds for part in parts if part.adds is not None)
        members = self.prediction.members[self.level]
        return TargetExplained(
            target=target,
            published=_known(published),
            which=which,
            stack=_known(members["stack"].probability(target)[self.place]),
            came=tuple(self._came(target, days) for days in RECENT),
            parts=parts,
            logit=None if np.isnan(published) else logit,
            moved=bool(abs(published - expit(np.array(logit))) > 1e-9),
        )

    def _parts(self, stack: Stack, target: str) -> tuple[MemberContribution, ...]:
        """Members by size, then what stands beside them; members of the other regression last."""
        added = self._contributions(stack, target)
        said = {
            name: _known(each.probability(target)[self.place])
            for name, each in self.prediction.members[self.level].items()
            if name != "stack"
        }
        own = {member.name: _known(added[f"logit {member.name}"]) for member in stack.members}
        order = sorted(own, key=lambda name: -abs(own[name] or 0.0))
        intercept = stack.coefficients()[target][INTERCEPT]
        return (
            *(MemberContribution(name, said[name], own[name]) for name in order),
            *(MemberContribution(name, said[name], None) for name in said if name not in own),
            MemberContribution(WEEKDAY, None, sum(added[f"weekday {name}"] for name in WEEKDAYS)),
            MemberContribution(
                VOLUME, None, added["log relative volume"] + added["log usual volume"]
            ),
            MemberContribution(INTERCEPT, None, intercept),
        )

    def _contributions(self, stack: Stack, target: str) -> dict[str, float]:
        """Feature -> what it adds to the logit."""
        values = self.prediction.contributions[self.level][stack.name][target][self.place]
        return dict(zip(stack.features(), values.tolist(), strict=True))

    def _came(self, target: str, days: int) -> float | None:
        """How often it came on the known ones of the last days."""
        found = [came[target][0, self.place] for came in self._outcomes[:days]]
        known = [each for each in found if not np.isnan(each)]
        return float(np.mean(known)) if known else None

    @cached_property
    def _outcomes(self) -> list[dict[str, FloatArray]]:
        """What came of all codes on the origin's day, the day before, and so on."""
        alone = _of_stream(self.history, self.row)
        before = [self.origin - timedelta(days=ago) for ago in range(1, max(RECENT) + 1)]
        return [outcomes(alone, day) for day in before if day >= alone.days[0]]

    # Futures, atoms and reports.

    def _has(self) -> BoolArray:
        """The futures whose drawn day has the event."""
        first = self.history.days[0]
        drawn = [(day - first).days for day in self.prediction.futures.days]
        return occurs_of(self.history.counts[self.row, drawn, self.place])

    def _days(self, has: BoolArray) -> list[DrawnDay]:
        weights = self.prediction.futures.tilted.weights
        found: dict[date, list[float]] = {}
        for number in np.flatnonzero(has):
            found.setdefault(self.prediction.futures.days[number], []).append(weights[number])
        days = [DrawnDay(day, len(each), float(sum(each))) for day, each in found.items()]
        return sorted(days, key=lambda each: (-each.weight, each.day))

    def _atoms(self, has: BoolArray) -> list[AtomExplained]:
        """The atoms of those futures that are nearest to the event, by what they are called."""
        futures = self.prediction.futures
        there = has[:, None] & (futures.weights > 0)
        masses = futures.tilted.weights[:, None] * futures.weights * futures.gates
        cosines = self._cosines(futures.points[there])
        found: dict[Phrase, list[_Atom]] = {}
        rows: IntArray = np.nonzero(there)[0]
        for cosine, mass, future, drawn, called in zip(
            cosines, masses[there], rows, futures.named[there], futures.calls[there], strict=True
        ):
            atom = _Atom(float(cosine), float(mass), int(future), futures.phrases[drawn])
            found.setdefault(futures.called[called], []).append(atom)
        atoms = [self._atom(phrase, each) for phrase, each in found.items()]
        atoms = [atom for atom in atoms if atom.weight >= SLIGHT]
        atoms.sort(key=lambda each: (-round(each.cosine, 2), -each.weight, each.phrase))
        return atoms[:ATOMS_SHOWN]

    def _cosines(self, points: VectorArray) -> VectorArray:
        """Of points [n, dimension] with the nearest of the event's finest codes, [n]."""
        finest: VectorArray = self.predictor.sampler.model.atom_reading.finest.cpu().numpy()
        codes = standard_events("full")
        own = [
            at for at, each in enumerate(codes) if getattr(lineage(each), self.level) == self.code
        ]
        cosines = unit(points[:, : finest.shape[1]]) @ finest[own].T
        nearest: VectorArray = cosines.max(axis=1)
        return nearest

    def _atom(self, phrase: Phrase, atoms: Sequence[_Atom]) -> AtomExplained:
        place = place_of(self.stream)
        return AtomExplained(
            phrase=sentence(*phrase, place),
            drawn=tuple(sentence(*each, place) for each in _origins(phrase, atoms)),
            code=phrase.code,
            cosine=max(atom.cosine for atom in atoms),
            weight=sum(atom.mass for atom in atoms),
            futures=len({atom.future for atom in atoms}),
        )

    def _reports(self, connection: Connection, days: Sequence[DrawnDay]) -> list[SourceReport]:
        """Rows with the event on those days, the heaviest day first, each source once."""
        weight = {each.day: each.weight for each in days[:DAYS_SHOWN]}
        if not weight:
            return []
        rows = connection.rows(
            _ROWS.format(column=_COLUMNS[self.level], days=", ".join("?" * len(weight))),
            [*weight, self.code, self.stream == WORLD, self.stream, ROWS_LOOKED_AT],
        )
        found = [_report(*row) for row in rows]
        found.sort(key=lambda each: (-weight[each.day] * np.log1p(each.mentions), each.event_id))
        return _spread(_told_once(found))[:REPORTS_SHOWN]


_ROWS = f"""
    SELECT NewsDay, GLOBALEVENTID, {actor_key_sql(1)}, coalesce(EventCode, ''), {actor_key_sql(2)},
        ActionGeo_CountryCode, ActionGeo_FullName, coalesce(NumMentions, 1), SOURCEURL
    FROM events WHERE NewsDay IN ({{days}}) AND {{column}} = ? AND (? OR ActionGeo_CountryCode = ?)
    ORDER BY coalesce(NumMentions, 1) DESC, GLOBALEVENTID LIMIT ?"""


def _report(day: date, event_id: int, *rest: Any) -> SourceReport:
    actor1, code, actor2, country, place, mentions, source = rest
    phrase = sentence(canonical(actor1), code, canonical(actor2), country)
    return SourceReport(day, event_id, phrase, place, mentions, source)


def _told_once(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """The same without further rows from one source; rows without a source all stay."""
    first = {each.source: each for each in reversed(reports)}
    return [each for each in reports if each.source is None or first[each.source] is each]


def _spread(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """The same with a few of each day only."""
    seen: Counter[date] = Counter()
    found = []
    for each in reports:
        seen[each.day] += 1
        if seen[each.day] <= REPORTS_A_DAY:
            found.append(each)
    return found


def _of_stream(history: Profiles, row: int) -> Profiles:
    """A history of one stream alone."""
    own = slice(row, row + 1)
    return replace(
        history,
        streams=history.streams[own],
        counts=history.counts[own],
        weights=history.weights[own],
        volume=history.volume[own],
    )


def _known(value: Any) -> float | None:
    """A number, or None for not-a-number."""
    return None if np.isnan(value) else float(value)
