"""What may be asked over HTTP: the parameters, with their limits. Others are refused by name."""

from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from gdelphi.common.types import Level, Target
from gdelphi.questions.questions import FEW, MOST_ROWS, Order

DAY: Final = r"^\d{4}-\d{2}-\d{2}$"
ORIGIN: Final = r"^(latest|\d{4}-\d{2}-\d{2})$"
LONGEST_NAME: Final = 80
MOST_STREAMS: Final = 50
FURTHEST_PAGE: Final = 1_000_000


def _calendar_day(text: str) -> str:
    """A day as text: numbers are no days, though pydantic would take them for seconds."""
    date.fromisoformat(text)
    return text


Horizon = Literal["1", "2", "3", "4", "5", "6", "7", "week"]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Day = Annotated[
    str,
    Field(pattern=DAY, json_schema_extra={"format": "date"}),
    AfterValidator(_calendar_day),
]
Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="of a forecast")]


class Asked(BaseModel):
    """Base: a parameter that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class AskedPage(Asked):
    """A part of a long answer."""

    limit: int = Field(FEW, ge=1, le=MOST_ROWS)
    offset: int = Field(0, ge=0, le=FURTHEST_PAGE)


class AskedForecast(Asked):
    """Which of several forecasts of an origin; without an id the published one."""

    id: Id | SkipJsonSchema[None] = None


class AskedTime(Asked):
    """From one origin to another."""

    since: Day | SkipJsonSchema[None] = None
    until: Day | SkipJsonSchema[None] = None


class AskedForecasts(AskedTime, AskedPage):
    """Of the list of forecasts."""


class AskedScores(AskedTime):
    """Of scores."""

    level: Level = "root"


class AskedLevel(Asked):
    """Of the list of standard events."""

    level: Level | SkipJsonSchema[None] = None


class AskedOutcomes(AskedForecast, AskedPage):
    """Which probabilities."""

    stream: list[Annotated[str, Field(max_length=LONGEST_NAME)]] = Field(
        default=[], max_length=MOST_STREAMS, description="codes or names; none: all"
    )
    event: Name | SkipJsonSchema[None] = Field(
        None, description="a code, a name, or a class: all, conflict, material conflict, ..."
    )
    level: Level | SkipJsonSchema[None] = None
    target: Target | SkipJsonSchema[None] = None
    horizon: Horizon | SkipJsonSchema[None] = None


class AskedProbabilities(AskedOutcomes):
    """Which probabilities, in which order."""

    order: Order = "stored"


class AskedFutures(AskedForecast, AskedPage):
    """Whose futures."""

    stream: Name
    horizon: Literal["1", "week"] = "1"


class AskedExplanation(AskedForecast):
    """Which probability."""

    stream: Name
    event: Name
    target: Target = "headline"
    horizon: Horizon = "1"


class AskedNews(AskedPage):
    """Which events."""

    day: Day
    stream: Name
    event: Name | SkipJsonSchema[None] = None


def day_of(text: str | None) -> date | None:
    """A parameter as a day."""
    return date.fromisoformat(text) if text else None
