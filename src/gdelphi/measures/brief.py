"""The day in brief: a few phrases with everything that an analyst asks about them next.

Each phrase stands for reports of its own root alone (root_phrases.py), and comes with its share,
its standard event, the other phrases that it stands for and the reports behind them; the day's
volume and tone beside what is usual for the stream, where usual is the median of up to eight known
days of the same weekday before it.
"""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.clouds import (
    NOTHING,
    Cloud,
    Clouds,
    DayState,
    SetStatistics,
    measures_folder,
)
from gdelphi.measures.descriptors import Descriptor
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.evidence import SourceRow, rows_behind
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.root_phrases import describe_by_root
from gdelphi.measures.space import (
    Points,
    load_space,
    place_of,
)
from gdelphi.ot.quantise import Quantisation, explained
from gdelphi.store.connection import Store

USUAL_WEEKS = 8
PHRASES_SHOWN = 4
ROWS_SHOWN = 3


@dataclass(frozen=True)
class AtomInBrief:
    """One atom, readable."""

    share: float
    """of the day's weight"""
    phrase: str
    code: str
    event: str
    """label of the code"""
    root: str
    """label of its root"""
    rows: int
    phrases: int
    """distinct ones that it stands for"""
    same_root: float
    """share of its weight that has the atom's root code"""
    others: tuple[tuple[str, float], ...]
    """the heaviest other phrases, with their share of the day"""
    evidence: tuple[SourceRow, ...]


@dataclass(frozen=True)
class DayInBrief:
    """A stream's day, readable."""

    stream: str
    name: str
    day: date
    state: DayState
    partial: bool
    backfile: bool
    statistics: SetStatistics
    usual_volume: float | None
    """median of the same weekday in the weeks before; None if there are too few"""
    usual_tone: float | None
    shown: float
    """share of the day's weight that the atoms stand for"""
    explained: float
    """share of the day's spread that the atoms explain"""
    distance: float
    """W2 between the atoms and the cloud"""
    atoms: tuple[AtomInBrief, ...]


def day_in_brief(settings: Settings, stream: str, day: date) -> DayInBrief:
    """Describe a stream's day from the measures and the store."""
    folder = measures_folder(settings)
    clouds = Clouds(folder)
    cloud = clouds.cloud(stream, day)
    if cloud.state == "missing":
        raise MeasuresError(_not_there(clouds, day))
    points = Points(load_space(folder / "space"), open_cache(settings))
    descriptor = describe_by_root(cloud, points, settings.measures.most_atoms)
    with Store(settings).reading() as connection:
        evidence = rows_behind(connection, cloud, descriptor, most=ROWS_SHOWN)
    usual = _usual(clouds, stream, day)
    measure = points.measure(cloud)
    quantisation = Quantisation(
        descriptor.points, descriptor.weights, descriptor.members, descriptor.cost
    )
    phrases = list(cloud.phrases())
    return DayInBrief(
        stream=stream,
        name=stream_name(stream),
        day=day,
        state=cloud.state,
        partial=cloud.partial,
        backfile=cloud.backfile,
        statistics=cloud.statistics,
        usual_volume=None if usual is None else usual[0],
        usual_tone=None if usual is None else usual[1],
        shown=float(descriptor.weights.sum()),
        explained=explained(measure, quantisation),
        distance=descriptor.cost**0.5,
        atoms=tuple(
            _atom(cloud, descriptor, number, phrases=phrases, evidence=tuple(rows))
            for number, rows in enumerate(evidence)
        ),
    )


def _not_there(clouds: Clouds, day: date) -> str:
    days = clouds.days
    if not days:
        return f"no clouds in {clouds.files.folder}: `gdelphi embed` makes them"
    return (
        f"{day} is not among the days that are embedded ({days[0]} to {days[-1]}, "
        f"{len(days)} known): `gdelphi status` says why, `gdelphi embed` brings what is new"
    )


def _usual(clouds: Clouds, stream: str, day: date) -> tuple[float, float] | None:
    past = [clouds.on(day - timedelta(weeks=week)) for week in range(1, USUAL_WEEKS + 1)]
    known = [on.statistics.get(stream, NOTHING) for on in past if on is not None]
    if len(known) < USUAL_WEEKS // 2:
        return None
    volumes = [statistics.volume for statistics in known]
    tones = [statistics.tone for statistics in known if statistics.volume]
    return float(np.median(volumes)), float(np.median(tones)) if tones else 0.0


def _atom(
    cloud: Cloud,
    descriptor: Descriptor,
    number: int,
    *,
    phrases: list[tuple[str, str, str]],
    evidence: tuple[SourceRow, ...],
) -> AtomInBrief:
    own = tuple(column[number] for column in descriptor.phrases)
    members = np.flatnonzero(descriptor.members == number)
    weights = cloud.weights[members]
    root = lineage(own[1]).root
    same = [lineage(phrases[place][1]).root == root for place in members]
    others = [place for place in members if phrases[place] != own][:PHRASES_SHOWN]
    at = place_of(cloud.stream)
    return AtomInBrief(
        share=float(descriptor.weights[number]),
        phrase=sentence(own[0], own[1], own[2], at),
        code=own[1],
        event=_label(own[1]),
        root=_label(root),
        rows=int(descriptor.rows[number]),
        phrases=len(members),
        same_root=float(weights @ np.array(same)) / max(float(weights.sum()), 1e-300),
        others=tuple(
            (sentence(*phrases[place], at), float(cloud.weights[place])) for place in others
        ),
        evidence=evidence,
    )


def _label(code: str) -> str:
    event = event_codes().get(code)
    return event.label if event else f"unlisted code {code}"
