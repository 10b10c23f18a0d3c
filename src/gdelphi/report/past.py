"""What the store knows of the days up to an origin: rows, shares, the last day in brief, gaps.

A report is made while others may want to write, so the store is opened twice and briefly, and
everything else comes from files. The day in brief is made from the clouds that `gdelphi embed` has
left; without them the day's largest roots stand for it, with their number of reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import CacheError, EncoderError, MeasuresError, ReportError
from gdelphi.common.settings import Settings
from gdelphi.common.types import IntArray
from gdelphi.measures.clouds import Clouds, DayClouds, measures_folder
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.measures.root_phrases import describe_by_root
from gdelphi.measures.space import Points, load_space, place_of
from gdelphi.measures.targets import headline_of
from gdelphi.report.content import DataGap, WeightedPhrase
from gdelphi.report.plain import (
    clean,
    counted,
    label_of,
    number,
)
from gdelphi.store.connection import Connection, Store
from gdelphi.store.status import Status

MEDIAN_DAYS: Final = 60  # that a share is compared with
RECENT: Final = 7  # days over which headlines are counted
ROOTS_SHOWN: Final = 5  # of a day without a descriptor
STREAMS_SHOWN: Final = 50  # without a forecast: those with the most rows
_WHY: Final = {
    "missing": "the archive does not have it",
    "partial": "some files are missing at the source",
    "rejected": "a file is not a good event file",
    "failed": "a file could not be fetched",
    "never tried": "it was never tried; `gdelphi ingest` brings it",
}


class StreamLevel(NamedTuple):
    """A root's share on a day, and what it has been."""

    share: float
    median: float
    days: int
    """that the median is of"""


@dataclass(frozen=True, eq=False)
class PastNews:
    """The days of some streams up to and with an origin."""

    origin: date
    days: tuple[date, ...]
    """those that the report shows; the history may reach further back"""
    history: Profiles
    complete_at: datetime | None

    def _place(self, stream: str) -> int:
        return self.history.streams.index(stream)

    def rows(self, stream: str) -> list[int | None]:
        """Reports on each day shown; None where the day is missing."""
        volume = self.history.volume[self._place(stream)][self._shown]
        return [
            int(value) if known else None
            for value, known in zip(volume, self.history.present[self._shown], strict=True)
        ]

    def shares(self, stream: str) -> dict[str, list[float | None]]:
        """The share of each root on each day shown."""
        shares = self.history.shares[self._place(stream)][self._shown]
        shares = np.where(self.history.present[self._shown, None], shares, np.nan)
        return {
            code: [number(value) for value in shares[:, place]]
            for place, code in enumerate(self.history.codes)
        }

    @property
    def missing(self) -> list[date]:
        """Days shown of which nothing is known."""
        known = self.history.present[self._shown]
        return [day for day, there in zip(self.days, known, strict=True) if not there]

    @property
    def _shown(self) -> slice:
        return slice(len(self.history.days) - len(self.days), None)

    def counts(self, stream: str) -> IntArray:
        """Reports of each root on the origin's day."""
        counts: IntArray = self.history.counts[self._place(stream), -1]
        return counts

    def headlines(self, stream: str, code: str) -> tuple[int, int]:
        """On how many of the last seven days a root was a headline, and how many are known."""
        known = self.history.present[-RECENT:]
        weights = self.history.weights[self._place(stream), -RECENT:]
        headline = headline_of(weights)[:, self.history.codes.index(code)]
        return int(headline[known].sum()), int(known.sum())

    def standing(self, stream: str, code: str) -> StreamLevel | None:
        """A root's share on the origin's day, and the median of the days before, if known."""
        place = self._place(stream), slice(None), self.history.codes.index(code)
        shares, known = self.history.shares[place], self.history.present
        before = shares[:-1][known[:-1]][-MEDIAN_DAYS:]
        if not known[-1] or len(before) < RECENT:
            return None
        return StreamLevel(float(shares[-1]), float(np.median(before)), len(before))


def read_past(
    settings: Settings, origin: date, streams: Sequence[str] | None, status: Status
) -> PastNews:
    """Read the days up to an origin; without streams, of those with the most rows."""
    first = status.first_day or origin
    shown = max(first, origin - timedelta(days=settings.report.past_days - 1))
    since = max(first, origin - timedelta(days=max(settings.report.past_days, MEDIAN_DAYS + 1) - 1))
    if since > origin:
        raise ReportError(f"{settings.store} begins on {first}, after the origin {origin}")
    with Store(settings).reading() as connection:
        chosen = streams if streams is not None else _largest(connection, shown, origin)
        history = read_profiles(connection, "root", chosen, since=since, until=origin)
        complete_at = _complete_at(connection, origin)
    days = tuple(shown + timedelta(days=number) for number in range((origin - shown).days + 1))
    return PastNews(origin, days, history, complete_at)


def _largest(connection: Connection, since: date, until: date) -> list[str]:
    rows = connection.rows(
        "SELECT Stream FROM day_sums WHERE NewsDay BETWEEN ? AND ? AND Stream IS NOT NULL "
        "GROUP BY ALL ORDER BY sum(rows) DESC, 1 LIMIT ?",
        [since, until, STREAMS_SHOWN],
    )
    return [stream for (stream,) in rows]


def _complete_at(connection: Connection, origin: date) -> datetime | None:
    """When the last file that speaks for a day was loaded."""
    loaded_at = connection.value(
        "SELECT max(loaded_at) FROM ledger WHERE status = 'loaded' AND kind <> 'reduced' "
        "AND ? BETWEEN first_day AND last_day",
        [origin],
    )
    return loaded_at.replace(tzinfo=UTC, microsecond=0) if loaded_at else None


# --- the origin's day in brief --------------------------------------------------------------------


def latest_in_brief(settings: Settings, past: PastNews) -> Mapping[str, list[WeightedPhrase]]:
    """The origin's day of each stream: phrases that stand for reports of their own root, or else
    its largest roots."""
    embedded = _embedded(settings, past.origin)
    most = settings.measures.most_atoms
    return {
        stream: (_phrases(*embedded, stream, most) if embedded else [])
        or _largest_roots(past, stream)
        for stream in past.history.streams
    }


def _embedded(settings: Settings, day: date) -> tuple[DayClouds, Points] | None:
    """The day's clouds and the space, if it has been embedded."""
    folder = measures_folder(settings)
    try:
        clouds = Clouds(folder).on(day)
        return None if clouds is None else (
            clouds, Points(load_space(folder / "space"), open_cache(settings))
        )  # fmt: skip
    except (MeasuresError, CacheError, EncoderError):
        return None


def _phrases(clouds: DayClouds, points: Points, stream: str, most: int) -> list[WeightedPhrase]:
    try:
        day = describe_by_root(clouds.cloud(stream), points, most)
    except (MeasuresError, CacheError, EncoderError):  # `gdelphi embed` makes it again
        return []
    place = place_of(stream)
    return [
        WeightedPhrase(
            weight=number(weight) or 0.0,
            words=clean(sentence(first, code, second, place)),
            code=clean(code),
            root=label_of(lineage(code).root),
        )
        for weight, first, code, second in zip(day.weights, *day.phrases, strict=True)
    ]


def _largest_roots(past: PastNews, stream: str) -> list[WeightedPhrase]:
    """The day's largest roots by share, with their number of reports."""
    shares = past.history.shares[past.history.streams.index(stream), -1]
    counts = past.counts(stream)
    places = [place for place in np.argsort(-shares, kind="stable") if counts[place]]
    codes = past.history.codes
    return [
        WeightedPhrase(
            weight=number(shares[place]) or 0.0,
            words=f"{label_of(codes[place])} ({counted(int(counts[place]), 'report')})",
            code=codes[place],
            root=label_of(codes[place]),
        )
        for place in places[:ROOTS_SHOWN]
    ]


# --- what is missing ------------------------------------------------------------------------------


def gaps(status: Status, days: Sequence[date]) -> list[DataGap]:
    """The days among those shown that are not whole, and why."""
    days_missing = []
    for gap in status.gaps:
        first, last = max(gap.first, days[0]), min(gap.last, days[-1])
        if first <= last:
            why = _WHY.get(gap.state, gap.state)
            reason = f" ({clean(gap.reason)})" if gap.reason else ""
            days_missing.append(DataGap(first=first, last=last, why=why + reason))
    return days_missing
