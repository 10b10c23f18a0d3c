"""All questions in one place. The HTTP API, the tools of language models and alerts ask these."""

from collections.abc import Sequence
from datetime import UTC, date
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from gdelphi import __version__
from gdelphi.common.errors import QuestionError
from gdelphi.common.settings import Settings
from gdelphi.common.types import Level
from gdelphi.forecast.tidy import TOMORROW
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.gdelt.find_names import find_event, stream_among
from gdelphi.measures.phrases import sentence
from gdelphi.measures.space import place_of
from gdelphi.questions.answers import (
    DayPhrase,
    EventInfo,
    ExplanationAnswer,
    ForecastInfo,
    ForecastList,
    FutureDay,
    FuturesAnswer,
    NewsAnswer,
    OutcomeRow,
    OutcomesAnswer,
    PossibleWeek,
    ProbabilitiesAnswer,
    ProbabilityRow,
    ScoresAnswer,
    StatusAnswer,
    StreamInfo,
)
from gdelphi.questions.explanations import AskedCell, explain_stored
from gdelphi.questions.forecasts import LATEST, OpenForecast, StoredForecasts, chosen_rows
from gdelphi.questions.judged import StoredScores
from gdelphi.questions.names import (
    QUAD_CLASSES,
    find_events,
    find_horizon,
    find_streams,
    find_target,
    known_streams,
)
from gdelphi.questions.news import StoreNews, utc_today

MOST_ROWS: Final = 1000
"""of one answer"""
FEW: Final = 100
PHRASES_SHOWN: Final = 8


Order = Literal["stored", "published", "above usual"]


class Questions:
    """Answers from what a store and its forecasts hold; safe to share among threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.forecasts = StoredForecasts(settings)
        self.judged = StoredScores(self.forecasts)
        self.news = StoreNews(settings)

    # What is there.

    def status(self) -> StatusAnswer:
        """How fresh the store and the newest forecast are."""
        status, today = self.news.status(), utc_today()
        newest = self.forecasts.published()[-1:]
        words = ["stale"] * status.stale + ["incomplete"] * status.incomplete
        words += ["the clock is behind the store"] * status.clock_behind
        run = status.last_successful_run
        return StatusAnswer(
            as_of=today,
            verdict=", ".join(words) or "complete and fresh",
            stale=status.stale,
            incomplete=status.incomplete,
            first_day=status.first_day,
            last_day=status.last_day,
            latest_complete_day=status.latest_complete_day,
            rows=status.rows,
            last_run_at=run["finished_at"].replace(tzinfo=UTC) if run else None,
            fingerprint=status.fingerprint,
            newest_forecast=self.forecasts.info(newest[0]) if newest else None,
            forecast_age_days=(today - newest[0].recipe.origin).days if newest else None,
            version=__version__,
        )

    def streams(self) -> list[StreamInfo]:
        """The countries of the newest forecast."""
        streams = self.forecasts.manifest().recipe.streams
        return [StreamInfo(stream=stream, country=stream_name(stream)) for stream in streams]

    def events_known(self, level: Level | None = None) -> list[EventInfo]:
        """The standard events."""
        return [
            EventInfo(
                code=event.code,
                label=event.label,
                level=event.level,
                root=event.root,
                quad_class=QUAD_CLASSES[event.quad_class - 1],
            )
            for event in event_codes().values()
            if level in (None, event.level)
        ]

    def forecast_list(
        self,
        since: date | None = None,
        until: date | None = None,
        limit: int = FEW,
        offset: int = 0,
    ) -> ForecastList:
        """Stored forecasts, the newest first."""
        _check_page(limit, offset)
        return self.forecasts.list(since, until, limit, offset)

    def forecast_info(self, origin: date | str = LATEST, id: str | None = None) -> ForecastInfo:  # noqa: A002
        """What is told of one forecast."""
        return self.forecasts.info(self.forecasts.manifest(origin, id))

    # What is forecast.

    def probabilities(
        self,
        origin: date | str = LATEST,
        id: str | None = None,  # noqa: A002
        *,
        streams: Sequence[str] = (),
        event: str | None = None,
        level: Level | None = None,
        target: str | None = None,
        horizon: str | int | None = None,
        order: Order = "stored",
        limit: int = FEW,
        offset: int = 0,
    ) -> ProbabilitiesAnswer:
        """Probabilities of a forecast: in the order of streams and codes, the highest first, or
        those furthest above their usual first. What is not given leaves nothing out."""
        _check_page(limit, offset)
        forecast = self._open(origin, id)
        chosen = self._chosen(forecast, streams, event, level, target, horizon)
        table = _ordered(chosen, order)
        return ProbabilitiesAnswer(
            forecast=self.forecasts.info(forecast.manifest),
            total=len(table),
            offset=offset,
            rows=[ProbabilityRow(**row) for row in table.slice(offset, limit).to_pylist()],
        )

    def futures(
        self,
        stream: str,
        origin: date | str = LATEST,
        id: str | None = None,  # noqa: A002
        *,
        week: bool = False,
        limit: int = FEW,
        offset: int = 0,
    ) -> FuturesAnswer:
        """Possible tomorrows, or weeks, of a stream, the heaviest first."""
        _check_page(limit, offset)
        forecast = self._open(origin, id)
        name = stream_among(stream, forecast.streams)
        rows = forecast.rows("weeks" if week else "futures", name, WEEKS if week else FUTURES)
        rows.sort(key=lambda row: (-row["weight"], row["future"]))
        page = rows[offset : offset + limit]
        brief = sorted(forecast.rows("brief", name), key=lambda row: row["rank"])
        return FuturesAnswer(
            forecast=self.forecasts.info(forecast.manifest),
            stream=name,
            country=stream_name(name),
            total=len(rows),
            offset=offset,
            expected=[DayPhrase(weight=row["weight"], phrase=row["phrase"]) for row in brief],
            days=[] if week else [_future(row) for row in page],
            weeks=[_week(row) for row in page] if week else [],
        )

    def explanation(
        self,
        stream: str,
        event: str,
        origin: date | str = LATEST,
        id: str | None = None,  # noqa: A002
        *,
        target: str = "headline",
        horizon: str | int = TOMORROW,
    ) -> ExplanationAnswer:
        """What stands behind one probability."""
        forecast = self._open(origin, id)
        cell = AskedCell(
            stream_among(stream, forecast.streams),
            find_event(event),
            find_target(target),
            find_horizon(horizon),
        )
        before = self.forecasts.before(forecast.manifest)
        return explain_stored(forecast, self.forecasts.info(forecast.manifest), cell, before)

    # What came.

    def scores(
        self, level: Level = "root", since: date | None = None, until: date | None = None
    ) -> ScoresAnswer:
        """How good stored forecasts have been."""
        return self.judged.scores(level, since, until)

    def outcomes(
        self,
        origin: date | str = LATEST,
        id: str | None = None,  # noqa: A002
        *,
        streams: Sequence[str] = (),
        event: str | None = None,
        level: Level | None = None,
        target: str | None = None,
        horizon: str | int | None = None,
        limit: int = FEW,
        offset: int = 0,
    ) -> OutcomesAnswer:
        """What a forecast said and what came of it, the worst misses first."""
        _check_page(limit, offset)
        forecast = self._open(origin, id)
        came = self.judged.outcomes(forecast.manifest)
        rows = []
        for row in self._chosen(forecast, streams, event, level, target, horizon).to_pylist():
            key = (row["stream"], row["level"], row["code"], row["target"], row["horizon"])
            if row["published"] is not None and key in came:
                rows.append(OutcomeRow(**row, came=came[key]))
        rows.sort(key=lambda row: (-_miss(row), row.stream, row.code))
        return OutcomesAnswer(
            forecast=self.forecasts.info(forecast.manifest),
            total=len(rows),
            offset=offset,
            rows=rows[offset : offset + limit],
        )

    # What was reported.

    def events(
        self,
        day: date,
        stream: str,
        *,
        event: str | None = None,
        limit: int = FEW,
        offset: int = 0,
    ) -> NewsAnswer:
        """Reported events of a day and stream, the most mentioned first."""
        _check_page(limit, offset)
        name = stream_among(stream, known_streams())
        return self.news.events(day, name, find_event(event) if event else None, limit, offset)

    # Help.

    def _open(self, origin: date | str, id: str | None) -> OpenForecast:  # noqa: A002
        return self.forecasts.open(self.forecasts.manifest(origin, id))

    def _chosen(
        self,
        forecast: OpenForecast,
        streams: Sequence[str],
        event: str | None,
        level: Level | None,
        target: str | None,
        horizon: str | int | None,
    ) -> Any:
        events = find_events(event) if event else ()
        if events and level is None:
            level = events[0].level
        return chosen_rows(
            forecast.tidy,
            streams=find_streams(streams, forecast.streams) if streams else None,
            codes=[one.code for one in events] if event else None,
            level=level,
            target=find_target(target) if target else None,
            horizon=None if horizon is None else find_horizon(horizon),
        )


FUTURES: Final = (
    "stream", "future", "day", "weight", "roots", "weights", "gates", "actor1", "code", "actor2",
    "donor",
)  # fmt: skip
WEEKS: Final = ("stream", "future", "weight", "start", "donor", "roots")


def _ordered(table: pa.Table, order: Order) -> pa.Table:
    """Those for which nothing is known last."""
    if order == "stored":
        return table
    by = table["published"]
    if order == "above usual":
        by = pc.subtract(by, table["usual"])
    return table.take(pc.sort_indices(by, sort_keys=[("", "descending")]))


def _miss(row: OutcomeRow) -> float:
    """How far off a probability was."""
    return abs((row.published or 0.0) - float(row.came or 0.0))


def _future(row: Any) -> FutureDay:
    atoms = zip(*(row[name] for name in ("weights", "actor1", "code", "actor2")), strict=True)
    place = place_of(row["stream"])
    phrases: dict[str, float] = {}
    for weight, actor1, code, actor2 in atoms:
        words = sentence(actor1, code, actor2, place)
        phrases[words] = phrases.get(words, 0.0) + weight
    heaviest = sorted(phrases, key=lambda words: (-phrases[words], words))[:PHRASES_SHOWN]
    return FutureDay(
        number=row["future"],
        weight=min(row["weight"], 1.0),
        drawn_from=row["day"],
        second_day=row["donor"],
        roots=row["roots"],
        phrases=[DayPhrase(weight=phrases[words], phrase=words) for words in heaviest],
    )


def _week(row: Any) -> PossibleWeek:
    return PossibleWeek(
        number=row["future"],
        weight=min(row["weight"], 1.0),
        drawn_from=row["start"],
        second_week=row["donor"],
        days=row["roots"],
    )


def _check_page(limit: int, offset: int) -> None:
    if not 1 <= limit <= MOST_ROWS:
        raise QuestionError(f"limit {limit} is not between 1 and {MOST_ROWS}")
    if offset < 0:
        raise QuestionError(f"offset {offset} is below 0")
