"""What answers hold. The HTTP API's schema and the schemas of tools are made from these classes."""

from datetime import date, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gdelphi.common.types import Level, Target

UnitFloat = Annotated[float, Field(ge=0, le=1)]


class Answer(BaseModel):
    """Base: frozen, nothing besides what is declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- what is there --------------------------------------------------------------------------------


class ForecastInfo(Answer):
    """A stored forecast."""

    id: str
    origin: date = Field(description="the last news day that it knows")
    target_day: date = Field(description="the day after")
    streams: list[str]
    week: bool = Field(description="the seven days after the origin, not tomorrow alone")
    partial: bool = Field(description="the origin's news day was not complete")
    hindsight: bool = Field(description="something was fitted on days after the origin")
    issued_at: datetime
    model: str = Field(description="fingerprint of the model")
    futures: int = Field(description="possible days drawn for each stream")
    scored: bool = Field(description="its day has come and was held against it")
    report: str | None = Field(description="where its report is served")


class ForecastList(Answer):
    """Stored forecasts, the newest first."""

    total: int
    offset: int
    forecasts: list[ForecastInfo]


class StatusAnswer(Answer):
    """How fresh everything is."""

    as_of: date = Field(description="today, UTC")
    verdict: str
    stale: bool
    incomplete: bool
    first_day: date | None
    last_day: date | None
    latest_complete_day: date | None
    rows: int
    last_run_at: datetime | None
    fingerprint: str
    newest_forecast: ForecastInfo | None
    forecast_age_days: int | None = Field(description="days since the origin of the newest")
    version: str


class StreamInfo(Answer):
    """A country that is forecast."""

    stream: str = Field(description="FIPS 10-4 code, or WORLD")
    country: str


class EventInfo(Answer):
    """A standard event."""

    code: str = Field(description="CAMEO; text, with its zeros")
    label: str
    level: Level
    root: str
    quad_class: str


# --- forecasts ------------------------------------------------------------------------------------


class ProbabilityRow(Answer):
    """One probability, with all that it is about."""

    stream: str
    country: str
    day: date = Field(description="that is forecast; of the week, its last")
    horizon: int = Field(ge=0, le=7, description="days after the origin; 0: within the week")
    level: Level
    code: str
    label: str
    target: Target
    published: UnitFloat | None = Field(description="null: undefined")
    stack: UnitFloat | None
    usual: UnitFloat | None
    low: UnitFloat | None = Field(description="the lowest that a forecaster behind it says")
    high: UnitFloat | None


class ProbabilitiesAnswer(Answer):
    """Probabilities of a forecast, a page of them."""

    forecast: ForecastInfo
    total: int
    offset: int
    rows: list[ProbabilityRow]


class DayPhrase(Answer):
    """A phrase and its share of a day."""

    weight: float
    phrase: str


class FutureDay(Answer):
    """A possible day."""

    number: int
    weight: UnitFloat
    drawn_from: date | None = Field(description="the past day that it is made of")
    second_day: date | None = Field(description="a past day that lends it some roots")
    roots: list[str] = Field(description="that occur")
    phrases: list[DayPhrase]


class PossibleWeek(Answer):
    """A possible week: the roots of each of its days."""

    number: int
    weight: UnitFloat
    drawn_from: date | None
    second_week: date | None
    days: list[list[str]]


class FuturesAnswer(Answer):
    """Possible tomorrows, or possible weeks, of one stream; the heaviest first."""

    forecast: ForecastInfo
    stream: str
    country: str
    total: int
    offset: int
    expected: list[DayPhrase] = Field(description="the expected day in a few phrases")
    days: list[FutureDay]
    weeks: list[PossibleWeek]


# --- explanations ---------------------------------------------------------------------------------


class PastDay(Answer):
    """A past day that possible days have the event from."""

    day: date
    futures: int
    weight: float


class PossibleArgument(Answer):
    """Somebody or somewhere that may take part."""

    words: str
    probability: float


class ReportRow(Answer):
    """A past report of such an event."""

    day: date
    phrase: str
    place: str | None
    mentions: int
    source: str | None


class ExplanationAnswer(Answer):
    """What stands behind one probability, as far as the stored forecast tells."""

    forecast: ForecastInfo
    about: ProbabilityRow
    before: UnitFloat | None = Field(description="what the forecast before said of the same day")
    which: str | None = Field(description="combined or stack")
    members: dict[str, float | None]
    counted: str = Field(description="the root that is counted in the possible days")
    futures: int
    having: int
    having_weight: float
    days: list[PastDay]
    expected_rows: float | None = Field(description="reports expected over the horizon")
    usual_rows: float | None
    who: list[PossibleArgument]
    to_whom: list[PossibleArgument]
    where: list[PossibleArgument]
    reports: list[ReportRow]
    sentences: list[str] = Field(description="the same in words")
    more: str = Field(description="the command that shows what each member adds")


# --- scores ---------------------------------------------------------------------------------------


class TargetScore(Answer):
    """Brier scores of a target over scored forecasts."""

    target: Target
    forecasts: int
    cells: int
    published: float
    stack: float
    usual: float
    better_than_usual: float | None = Field(description="1 - published / usual")


class ScoresAnswer(Answer):
    """How good stored forecasts of tomorrow have been; those made in hindsight are left out."""

    level: Level
    since: date | None
    until: date | None
    lines: list[TargetScore]


class OutcomeRow(ProbabilityRow):
    """A probability and what came."""

    came: bool | None = Field(description="null: undefined, or not known yet")


class OutcomesAnswer(Answer):
    """What a forecast said and what came, the worst misses first."""

    forecast: ForecastInfo
    total: int
    offset: int
    rows: list[OutcomeRow]


# --- news -----------------------------------------------------------------------------------------


class NewsRow(Answer):
    """A reported event."""

    id: int
    day: date
    stream: str | None
    code: str | None
    label: str | None
    phrase: str
    place: str | None
    mentions: int
    goldstein: float | None
    tone: float | None
    root_event: bool
    source: str | None


class NewsAnswer(Answer):
    """Events of a day and stream, the most mentioned first."""

    day: date
    stream: str
    country: str
    state: str = Field(description="present, empty, partial, missing, ... or unknown")
    total: int
    offset: int
    rows: list[NewsRow]
