"""Explaining a number: from what is published back to the reports that it rests on.

    published <- members and what each adds to the logit <- futures that have the event
      <- the days that those were drawn from <- atoms and their phrases <- rows of the store

The logit is that of the regression which is published for the target, the combination or the stack:
its parts add up to the published number, unless it was moved to agree with its parent or another
target, which is said. Not chosen: importances by leaving members out, which would not add up.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import OnStep, silent
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
from gdelphi.forecast.origin import ForecastOrigin, known_stream
from gdelphi.forecast.prediction import Phrase, Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.publisher import AnyStack
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.phrases import (
    actor_key_sql,
    canonical,
    lineage,
    sentence,
)
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import place_of
from gdelphi.measures.targets import occurs_of, outcomes
from gdelphi.ot.sphere import unit
from gdelphi.stack.fitted import RECENT_LEVEL
from gdelphi.stack.linear import (
    INTERCEPT,
    expit,
)
from gdelphi.stack.week_parts import VOLUME, WEEKDAY
from gdelphi.store.connection import Connection, Store

RECENT: Final = (30, 365)
"""days over which the past rate of an event is given"""
DAYS_SHOWN: Final = 12
ATOMS_SHOWN: Final = 8
ORIGINS_SHOWN: Final = 3  # phrases that atoms of one name come from
REPORTS_SHOWN: Final = 8
REPORTS_A_DAY: Final = 2
ROWS_LOOKED_AT: Final = 500
SLIGHT: Final = 1e-4  # share of a day below which an atom tells nothing
_COLUMNS: Final = {"root": "EventRootCode", "base": "EventBaseCode", "full": "EventCode"}


def explain(
    predictor: Predictor,
    stream: str,
    code: str,
    at: ForecastOrigin,
    *,
    level: Level | None = None,
    on_step: OnStep = silent,
) -> Explanation:
    """What stands behind the published probabilities of a stream and an event."""
    stream = known_stream(predictor, stream)
    chosen = level or level_of_event(code)
    check_event(code, chosen)
    ensure_calibrated(predictor, on_step)
    on_step(f"forecasting {at.origin + timedelta(days=1)}")
    prediction = predictor.predict(at.origin, [stream], partial=at.partial)[0]
    return _Explainer(predictor, prediction, chosen, code).explain()


def check_event(code: str, level: Level) -> None:
    """Refuse a code that a level does not have."""
    if code not in standard_events(level):
        raise ForecastError(f"no {level} code {code}: {_nearest(code, standard_events(level))}")


def level_of_event(code: str) -> Level:
    """The level that a code is meant at: 14, 145 or 1451; 145 is a base."""
    if code not in event_codes():
        raise ForecastError(f"no event {code}: {_nearest(code, tuple(event_codes()))}")
    return level_of(code)


def _nearest(code: str, codes: Sequence[str]) -> str:
    near = get_close_matches(code, codes, 5, cutoff=0.5) or list(codes[:5])
    labelled = ", ".join(f"{match} ({event_codes()[match].label})" for match in near)
    return f"CAMEO codes are text, with their zeros; near are {labelled}"


class _Atom(NamedTuple):
    """An atom of a future."""

    cosine: float
    mass: float
    future: int
    drawn: Phrase
    """that it comes from"""


def _origins(phrase: Phrase, atoms: Sequence[_Atom]) -> list[Phrase]:
    """The phrases that atoms of one name come from, the heaviest first; none if it is that name
    alone."""
    masses: Counter[Phrase] = Counter()
    for atom in atoms:
        masses[atom.drawn] += atom.mass  # type: ignore[assignment]
    ranked = sorted(masses, key=lambda drawn: (-masses[drawn], drawn))
    return [] if ranked == [phrase] else ranked[:ORIGINS_SHOWN]


class _Explainer:
    """A prediction and an event of it, with what is at hand to explain it."""

    def __init__(
        self, predictor: Predictor, prediction: Prediction, level: Level, code: str
    ) -> None:
        self.predictor, self.prediction, self.level, self.code = predictor, prediction, level, code
        self.stream, self.origin = prediction.stream, prediction.origin
        self.history = predictor.known_at(level, self.origin)
        self.row = predictor.streams.index(self.stream)
        self.place = self.history.codes.index(code)

    def explain(self) -> Explanation:
        prediction = self.prediction
        first = self.history.days[0]
        drawn = [(day - first).days for day in self._drawn_from]
        has = occurs_of(self.history.counts[self.row, drawn, self.place])  # futures, [K]
        days = self._days(has)
        with Store(self.predictor.settings).reading() as connection:
            weight = {drawn.day: drawn.weight for drawn in days[:DAYS_SHOWN]}
            reports = reports_on(connection, weight, self.stream, self.level, self.code)
        likely = reconstructor(self.predictor, self.origin).arguments(
            self.stream, self.code, self.origin, level=self.level
        )
        return Explanation(
            stream=self.stream,
            name=stream_name(self.stream),
            origin=self.origin,
            target_day=prediction.target_day,
            partial=prediction.partial,
            level=self.level,
            code=self.code,
            label=event_codes()[self.code].label,
            targets=tuple(self._target(target) for target in TARGETS),
            futures=len(has),
            having=int(has.sum()),
            having_weight=float(prediction.futures.reweighted.weights[has].sum()),
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
            published=known_or_none(published),
            which=which,
            stack=known_or_none(members["stack"].probability(target)[self.place]),
            came=tuple(self._past_rate(target, days) for days in RECENT),
            parts=parts,
            logit=None if np.isnan(published) else logit,
            moved=bool(abs(published - expit(np.array(logit))) > 1e-9),
        )

    def _parts(self, stack: AnyStack, target: str) -> tuple[MemberContribution, ...]:
        """Members by size, then what stands beside them; members of the other regression last."""
        values = self.prediction.contributions[self.level][stack.name][target][self.place]
        added = dict(zip(stack.features(), values.tolist(), strict=True))
        probabilities = {
            name: known_or_none(forecast.probability(target)[self.place])
            for name, forecast in self.prediction.members[self.level].items()
            if name != "stack" or f"logit {name}" in added
        }
        own = {
            member.name: known_or_none(added[f"logit {member.name}"]) for member in stack.members
        }
        weekday = [value for name, value in added.items() if name.startswith("weekday ")]
        volume = [
            added[name] for name in ("log relative volume", "log usual volume") if name in added
        ]
        order = sorted(own, key=lambda name: -abs(own[name] or 0.0))
        intercept = stack.coefficients()[target][INTERCEPT]
        return (
            *(MemberContribution(name, probabilities[name], own[name]) for name in order),
            *(
                MemberContribution(name, probability, None)
                for name, probability in probabilities.items()
                if name not in own
            ),
            *([MemberContribution(WEEKDAY, None, sum(weekday))] if weekday else []),
            *([MemberContribution(VOLUME, None, sum(volume))] if volume else []),
            *(
                [MemberContribution(RECENT_LEVEL, None, added[RECENT_LEVEL])]
                if RECENT_LEVEL in added
                else []
            ),
            MemberContribution(INTERCEPT, None, intercept),
        )

    def _past_rate(self, target: str, days: int) -> float | None:
        """The rate of the target on the known ones of the last days."""
        values = [outcome[target][0, self.place] for outcome in self._outcomes[:days]]
        known = [value for value in values if not np.isnan(value)]
        return float(np.mean(known)) if known else None

    @cached_property
    def _outcomes(self) -> list[dict[str, FloatArray]]:
        """Outcomes of all codes on the origin's day, the day before, and so on."""
        own = slice(self.row, self.row + 1)
        history = replace(
            self.history,
            streams=self.history.streams[own],
            counts=self.history.counts[own],
            weights=self.history.weights[own],
            volume=self.history.volume[own],
        )
        before = [self.origin - timedelta(days=ago) for ago in range(1, max(RECENT) + 1)]
        return [outcomes(history, day) for day in before if day >= history.days[0]]

    # Futures, atoms and reports.

    @cached_property
    def _drawn_from(self) -> list[date]:
        """The day that each future has the event's root from."""
        roots = self.prediction.levels.root.codes
        return self.prediction.futures.days_of(roots.index(lineage(self.code).root))

    def _days(self, has: BoolArray) -> list[DrawnDay]:
        """The days that the futures with the event have it from, the heaviest first."""
        weights = self.prediction.futures.reweighted.weights
        drawn: dict[date, list[float]] = {}
        for number in np.flatnonzero(has):
            drawn.setdefault(self._drawn_from[number], []).append(weights[number])
        days = [DrawnDay(day, len(masses), float(sum(masses))) for day, masses in drawn.items()]
        return sorted(days, key=lambda day: (-day.weight, day.day))

    def _atoms(self, has: BoolArray) -> list[AtomExplained]:
        """The atoms of those futures that are nearest to the event, by their names."""
        futures = self.prediction.futures
        chosen = has[:, None] & (futures.weights > 0)
        masses = futures.reweighted.weights[:, None] * futures.weights * futures.gates
        numbers: IntArray = np.nonzero(chosen)[0]
        columns = (
            self._cosines(futures.points[chosen]), masses[chosen], numbers,
            futures.drawn_index[chosen], futures.shown_index[chosen],
        )  # fmt: skip
        by_phrase: dict[Phrase, list[_Atom]] = {}
        for cosine, mass, future, drawn, shown in zip(*columns, strict=True):
            atom = _Atom(float(cosine), float(mass), int(future), futures.drawn_phrases[drawn])
            by_phrase.setdefault(futures.shown_phrases[shown], []).append(atom)
        place = place_of(self.stream)
        explained = [
            AtomExplained(
                phrase=sentence(*phrase, place),
                drawn=tuple(sentence(*drawn, place) for drawn in _origins(phrase, atoms)),
                code=phrase.code,
                cosine=max(atom.cosine for atom in atoms),
                weight=sum(atom.mass for atom in atoms),
                futures=len({atom.future for atom in atoms}),
            )
            for phrase, atoms in by_phrase.items()
        ]
        explained = [atom for atom in explained if atom.weight >= SLIGHT]
        explained.sort(key=lambda atom: (-round(atom.cosine, 2), -atom.weight, atom.phrase))
        return explained[:ATOMS_SHOWN]

    def _cosines(self, points: VectorArray) -> VectorArray:
        """Of points [n, dimension] with the nearest of the event's finest codes, [n]."""
        finest: VectorArray = self.predictor.sampler.model.atom_reading.finest.cpu().numpy()
        codes = standard_events("full")
        own = [
            at for at, code in enumerate(codes) if getattr(lineage(code), self.level) == self.code
        ]
        cosines = unit(points[:, : finest.shape[1]]) @ finest[own].T
        nearest: VectorArray = cosines.max(axis=1)
        return nearest


def reports_on(
    connection: Connection, weight: Mapping[date, float], stream: str, level: Level, code: str
) -> list[SourceReport]:
    """Rows with an event on days, the heaviest day first: a few of each day, and of each source
    one."""
    if not weight:
        return []
    rows = connection.rows(
        _ROWS.format(column=_COLUMNS[level], days=", ".join("?" * len(weight))),
        [*weight, code, stream == WORLD, stream, ROWS_LOOKED_AT],
    )
    reports = [_report(*row) for row in rows]
    reports.sort(key=lambda row: (-weight[row.day] * np.log1p(row.mentions), row.event_id))
    sources: set[str] = set()
    shown_of: Counter[date] = Counter()
    chosen = []
    for report in reports:
        if report.source in sources:
            continue
        if report.source is not None:
            sources.add(report.source)
        shown_of[report.day] += 1
        if shown_of[report.day] <= REPORTS_A_DAY:
            chosen.append(report)
    return chosen[:REPORTS_SHOWN]


_ROWS = f"""
    SELECT NewsDay, GLOBALEVENTID, {actor_key_sql(1)}, coalesce(EventCode, ''), {actor_key_sql(2)},
        ActionGeo_CountryCode, ActionGeo_FullName, coalesce(NumMentions, 1), SOURCEURL
    FROM events WHERE NewsDay IN ({{days}}) AND {{column}} = ? AND (? OR ActionGeo_CountryCode = ?)
    ORDER BY coalesce(NumMentions, 1) DESC, GLOBALEVENTID LIMIT ?"""


def _report(day: date, event_id: int, *rest: Any) -> SourceReport:
    actor1, code, actor2, country, place, mentions, source = rest
    phrase = sentence(canonical(actor1), code, canonical(actor2), country)
    return SourceReport(day, event_id, phrase, place, mentions, source)


def known_or_none(value: Any) -> float | None:
    """A number, or None for not-a-number."""
    return None if np.isnan(value) else float(value)
