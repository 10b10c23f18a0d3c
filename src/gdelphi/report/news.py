"""The last day's news by themselves: what is worth opening the page for before there is a model.

Volumes against the median of the same weekday in the weeks before (of any day, in a store of a few
days), kinds of event whose share is
furthest above its median, and the reports that were mentioned most, with their links.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gdelphi.common.settings import Settings
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.phrases import actor_key_sql, canonical, sentence
from gdelphi.report.content import News, NewsReport, UnusualShare, UnusualVolume
from gdelphi.report.past import MEDIAN_DAYS, PastNews
from gdelphi.report.plain import clean, clean_or_none, label_of, number
from gdelphi.store.connection import Store

WEEKS: Final = 8
FEWEST: Final = 3  # days before that tell what is usual
FEWEST_ROWS: Final = 20  # of a day whose shares mean something
LEAST_REPORTS: Final = 3  # of a kind that is called unusual
VOLUMES: Final = 6
SHARES: Final = 8
REPORTS: Final = 12
_TOP: Final = f"""
    SELECT ActionGeo_CountryCode, {actor_key_sql(1)}, coalesce(EventCode, ''), {actor_key_sql(2)},
        coalesce(NumMentions, 1), ActionGeo_FullName, SOURCEURL
    FROM events
    WHERE NewsDay = ? AND list_contains(?, ActionGeo_CountryCode) AND SOURCEURL IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY SOURCEURL ORDER BY coalesce(NumMentions, 1) DESC, GLOBALEVENTID) = 1
    ORDER BY coalesce(NumMentions, 1) DESC, IsRootEvent DESC, GLOBALEVENTID LIMIT ?"""


def news_of(settings: Settings, past: PastNews) -> News:
    """What was unusual on the last day, and its most mentioned reports."""
    streams = past.history.streams
    volumes = [found for stream in streams if (found := _volume(past, stream))]
    volumes.sort(key=lambda one: -max(one.ratio, 1 / one.ratio))
    shares = [found for stream in streams for found in _shares(past, stream)]
    shares.sort(key=lambda one: one.median - one.share)
    return News(
        volumes=volumes[:VOLUMES], shares=shares[:SHARES], reports=_reports(settings, past, streams)
    )


def _volume(past: PastNews, stream: str) -> UnusualVolume | None:
    """A stream's reports against those of the same weekday in the weeks before."""
    history, place = past.history, past.history.streams.index(stream)
    if not history.present[-1]:
        return None
    before = [
        float(history.volume[place, at])
        for week in range(1, WEEKS + 1)
        if (at := len(history.days) - 1 - 7 * week) >= 0 and history.present[at]
    ]
    if len(before) < FEWEST:  # a store of a few days: any day before
        before = history.volume[place, :-1][history.present[:-1]].tolist()
    now, usual = int(history.volume[place, -1]), float(np.median(before)) if before else 0.0
    if len(before) < FEWEST or not usual or not now:
        return None
    return UnusualVolume(
        stream=clean(stream),
        name=clean(stream_name(stream)),
        reports=now,
        usual=usual,
        ratio=number(now / usual) or 1.0,
    )


def _shares(past: PastNews, stream: str) -> list[UnusualShare]:
    """Kinds of event of a stream with a larger share than usual."""
    history, counts = past.history, past.counts(stream)
    shares = history.shares[history.streams.index(stream)]
    before = shares[:-1][history.present[:-1]][-MEDIAN_DAYS:]
    if counts.sum() < FEWEST_ROWS or len(before) < FEWEST or not history.present[-1]:
        return []
    medians = np.median(before, axis=0)
    found = []
    for place, code in enumerate(history.codes):
        if shares[-1, place] > medians[place] and counts[place] >= LEAST_REPORTS:
            found.append(
                UnusualShare(
                    stream=clean(stream),
                    name=clean(stream_name(stream)),
                    code=code,
                    label=label_of(code),
                    share=number(shares[-1, place]) or 0.0,
                    median=number(medians[place]) or 0.0,
                    reports=int(counts[place]),
                )
            )
    return found


def _reports(settings: Settings, past: PastNews, streams: Sequence[str]) -> list[NewsReport]:
    with Store(settings).reading() as connection:
        rows = connection.rows(_TOP, [past.origin, list(streams), REPORTS])
    return [
        NewsReport(
            day=past.origin,
            stream=clean(stream),
            name=clean(stream_name(stream)),
            words=clean(sentence(canonical(first), code, canonical(second), stream)),
            place=clean_or_none(place),
            mentions=mentions,
            source=clean_or_none(source),
        )
        for stream, first, code, second, mentions, place, source in rows
    ]
