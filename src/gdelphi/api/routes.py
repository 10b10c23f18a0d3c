"""The questions as addresses: each a line that passes the parameters on."""

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Query

from gdelphi.api.asked import (
    ORIGIN,
    AskedExplanation,
    AskedForecast,
    AskedForecasts,
    AskedFutures,
    AskedLevel,
    AskedNews,
    AskedOutcomes,
    AskedProbabilities,
    AskedScores,
    day_of,
)
from gdelphi.common.errors import NothingStored
from gdelphi.questions.answers import (
    Answer,
    EventInfo,
    ExplanationAnswer,
    ForecastInfo,
    ForecastList,
    FuturesAnswer,
    NewsAnswer,
    OutcomesAnswer,
    ProbabilitiesAnswer,
    ScoresAnswer,
    StatusAnswer,
    StreamInfo,
)
from gdelphi.questions.forecasts import LATEST
from gdelphi.questions.questions import Questions

T = TypeVar("T")


class ErrorAnswer(Answer):
    """What is said when a question is not answered."""

    error: str
    message: str


REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in {
        304: "not modified",
        401: "a token is wanted",
        404: "not there, or no such name",
        413: "with a body",
        414: "too long",
        421: "another host is meant",
        422: "not a question",
        429: "too many requests",
        503: "the store is busy, or damaged",
    }.items()
}
del REFUSED[304]["model"]
Origin = Annotated[
    str, Path(pattern=ORIGIN, description="last news day that the forecast knows, or latest")
]


def origin_of(text: str) -> date | str:
    """An origin in an address; a day that no calendar has is one without a forecast."""
    if text == LATEST:
        return text
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NothingStored(f"there is no day {text}") from None


def make_router(questions: Questions) -> APIRouter:
    """All questions, below /api."""
    router = APIRouter(prefix="/api", responses=REFUSED)
    for add in (_add_lists, _add_forecasts, _add_outcomes):
        add(router, questions)
    return router


def _add_lists(router: APIRouter, questions: Questions) -> None:
    @router.get("/status", tags=["state"])
    def status() -> StatusAnswer:
        """How fresh the store and the newest forecast are."""
        return questions.status()

    @router.get("/streams", tags=["state"])
    def streams() -> list[StreamInfo]:
        """The countries of the newest forecast."""
        return questions.streams()

    @router.get("/codes", tags=["state"])
    def codes(asked: Annotated[AskedLevel, Query()]) -> list[EventInfo]:
        """The standard events and what they are called."""
        return questions.events_known(asked.level)

    @router.get("/events", tags=["news"])
    def events(asked: Annotated[AskedNews, Query()]) -> NewsAnswer:
        """Reported events of a day and stream, the most mentioned first."""
        return questions.events(
            date.fromisoformat(asked.day), asked.stream, event=asked.event, limit=asked.limit,
            offset=asked.offset,
        )  # fmt: skip


def _add_forecasts(router: APIRouter, questions: Questions) -> None:
    @router.get("/forecasts", tags=["forecasts"])
    def forecasts(asked: Annotated[AskedForecasts, Query()]) -> ForecastList:
        """Stored forecasts, the newest first."""
        since, until = day_of(asked.since), day_of(asked.until)
        return questions.forecast_list(since, until, asked.limit, asked.offset)

    @router.get("/forecasts/{origin}", tags=["forecasts"])
    def forecast(origin: Origin, asked: Annotated[AskedForecast, Query()]) -> ForecastInfo:
        """One stored forecast."""
        return questions.forecast_info(origin_of(origin), asked.id)

    @router.get("/forecasts/{origin}/probabilities", tags=["forecasts"])
    def probabilities(
        origin: Origin, asked: Annotated[AskedProbabilities, Query()]
    ) -> ProbabilitiesAnswer:
        """Probabilities of events, tomorrow and within the week."""
        return _asked(questions.probabilities, origin, asked)

    @router.get("/forecasts/{origin}/futures", tags=["forecasts"])
    def futures(origin: Origin, asked: Annotated[AskedFutures, Query()]) -> FuturesAnswer:
        """Possible tomorrows, or weeks, of a country."""
        return questions.futures(
            asked.stream, origin_of(origin), asked.id, week=asked.horizon == "week",
            limit=asked.limit, offset=asked.offset,
        )  # fmt: skip

    @router.get("/forecasts/{origin}/explanation", tags=["forecasts"])
    def explanation(
        origin: Origin, asked: Annotated[AskedExplanation, Query()]
    ) -> ExplanationAnswer:
        """What stands behind one probability."""
        return questions.explanation(
            asked.stream, asked.event, origin_of(origin), asked.id, target=asked.target,
            horizon=asked.horizon,
        )  # fmt: skip


def _add_outcomes(router: APIRouter, questions: Questions) -> None:
    @router.get("/scores", tags=["scores"])
    def scores(asked: Annotated[AskedScores, Query()]) -> ScoresAnswer:
        """How good stored forecasts have been."""
        return questions.scores(asked.level, day_of(asked.since), day_of(asked.until))

    @router.get("/forecasts/{origin}/outcomes", tags=["scores"])
    def outcomes(origin: Origin, asked: Annotated[AskedOutcomes, Query()]) -> OutcomesAnswer:
        """What a forecast said and what came, the worst misses first."""
        return _asked(questions.outcomes, origin, asked)


def _asked(question: Callable[..., T], origin: str, asked: AskedOutcomes) -> T:
    """A question with all parameters; `stream` may be given several times."""
    given = asked.model_dump()
    return question(origin_of(origin), given.pop("id"), streams=given.pop("stream"), **given)
