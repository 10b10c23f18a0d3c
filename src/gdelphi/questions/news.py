"""What the store says: events of a day and stream, and how fresh it is."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from threading import Lock
from typing import Any, Final

from gdelphi.common.settings import Settings
from gdelphi.common.texts import clean
from gdelphi.common.types import WORLD
from gdelphi.forecast.tidy import label_of
from gdelphi.gdelt.countries import stream_name
from gdelphi.gdelt.find_names import EventName
from gdelphi.measures.phrases import actor_key_sql, canonical, sentence
from gdelphi.questions.answers import NewsAnswer, NewsRow
from gdelphi.questions.forecasts import Kept
from gdelphi.questions.shared_reading import SharedReading
from gdelphi.store.status import Status, read_status_from

FRESH_SECONDS: Final = 5.0
"""for so long the state of the store is not looked at again"""
ANSWERS_KEPT: Final = 256
COLUMNS: Final = {"root": "EventRootCode", "base": "EventBaseCode", "full": "EventCode"}


class StoreNews:
    """The store, for questions."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._shared = SharedReading(settings)
        self._answers: Kept[object, NewsAnswer] = Kept(ANSWERS_KEPT)
        self._clock = clock
        self._looking = Lock()
        self._status: tuple[float, Status] | None = None

    def status(self) -> Status:
        """The state of the store, at most some seconds old."""
        with self._looking:
            now = self._clock()
            if self._status is None or now - self._status[0] > FRESH_SECONDS:
                with self._shared.reading() as connection:
                    status = read_status_from(connection, self._settings)
                self._status = now, status
            return self._status[1]

    def events(
        self, day: date, stream: str, event: EventName | None, limit: int, offset: int
    ) -> NewsAnswer:
        """Events of a day and stream, the most mentioned first."""
        key = (day, stream, event, limit, offset, self._shared.state())
        return self._answers.get(key, lambda: self._events(day, stream, event, limit, offset))

    def _events(
        self, day: date, stream: str, event: EventName | None, limit: int, offset: int
    ) -> NewsAnswer:
        where, values = "NewsDay = ?", [day]  # type: tuple[str, list[Any]]
        if stream != WORLD:
            where, values = f"{where} AND ActionGeo_CountryCode = ?", [*values, stream]
        if event:
            where, values = f"{where} AND {COLUMNS[event.level]} = ?", [*values, event.code]
        with self._shared.reading() as connection:
            states = connection.rows("SELECT state FROM days WHERE NewsDay = ?", [day])
            total = connection.value(f"SELECT count(*) FROM events WHERE {where}", values)
            rows = connection.rows(_ROWS.format(where=where), [*values, limit, offset])
        return NewsAnswer(
            day=day,
            stream=stream,
            country=stream_name(stream),
            state=states[0][0] if states else "unknown",
            total=total,
            offset=offset,
            rows=[_row(*row) for row in rows],
        )


_ROWS = f"""
    SELECT NewsDay, GLOBALEVENTID, ActionGeo_CountryCode, {actor_key_sql(1)}, EventCode,
        {actor_key_sql(2)}, ActionGeo_FullName, coalesce(NumMentions, 1), GoldsteinScale, AvgTone,
        coalesce(IsRootEvent, 0) = 1, SOURCEURL
    FROM events WHERE {{where}}
    ORDER BY coalesce(NumMentions, 1) DESC, GLOBALEVENTID LIMIT ? OFFSET ?"""


def _row(day: date, id: int, *rest: Any) -> NewsRow:  # noqa: A002 - as the column
    stream, actor1, code, actor2, place, mentions, goldstein, tone, root, source = rest
    return NewsRow(
        id=id,
        day=day,
        stream=stream,
        code=code,
        label=label_of(code) if code else None,
        phrase=clean(sentence(canonical(actor1), code or "", canonical(actor2), stream)),
        place=clean(place) if place else None,
        mentions=mentions,
        goldstein=goldstein,
        tone=tone,
        root_event=root,
        source=clean(source) if source else None,
    )


def utc_today() -> date:
    """By the clock that news days go by."""
    return datetime.now(UTC).date()
