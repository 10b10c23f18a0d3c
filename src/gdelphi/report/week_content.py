"""What a report says of the seven days after its origin, as data: part of report.json.

A forecast without a week, of an older model or of one that speaks of tomorrow only, has none of it.
"""

from datetime import date
from typing import Literal

from pydantic import Field

from gdelphi.common.types import Target
from gdelphi.report.content_base import Content, Number

# --- a country ------------------------------------------------------------------------------------


class Chance(Content):
    """What is said of one target on a day, or within the week; null where it is undefined."""

    published: Number | None
    stack: Number | None = Field(description="what everything without the network says")
    simple: Number | None = Field(description="what a stack of baselines alone says")
    usual: Number | None = Field(description="how often it came in the last 52 weeks")


class WeekTarget(Content):
    """A target of a root."""

    target: Target
    days: list[Chance] = Field(description="the seven days")
    within: Chance = Field(description="on at least one of them")


class WeekRoot(Content):
    """A root over the week."""

    code: str
    label: str
    onset: bool = Field(description="no report of it on the last 30 days")
    targets: list[WeekTarget]
    rows: list[Number | None] = Field(description="expected reports on each day")
    usual_rows: list[Number | None]
    possible: int = Field(description="possible weeks that have it at least once")
    weight: Number = Field(description="their weight, of 1")


class CountryWeek(Content):
    """A country's week."""

    roots: list[WeekRoot] = Field(description="all roots")
    shown: list[str] = Field(description="codes of those that are furthest from their usual")
    possible: int = Field(description="number of possible weeks")
    escalation: Chance | None = Field(
        description="that reports of material conflict at least double against the last 28 days; "
        "null where there were too few"
    )
    conflict: Chance | None = Field(
        default=None,
        description="that any kind of conflict surges within the week; null in older forecasts",
    )


# --- all of them ----------------------------------------------------------------------------------


class UnusualEvent(Content):
    """An event of which more is said than usual, within the week."""

    stream: str
    name: str
    code: str
    label: str
    target: Target
    published: Number
    usual: Number | None
    best_day: date | None = Field(description="the likeliest of the seven days")
    best: Number | None = Field(description="the probability of that day")


class UnusualCountry(Content):
    """A country with more conflict ahead than is usual there."""

    stream: str
    name: str
    bits: Number = Field(description="by which countries are ranked")
    published: Number | None = Field(
        default=None, description="that any kind of conflict surges within the week"
    )
    usual: Number | None = Field(default=None, description="how often any did, in 52 weeks")
    events: list[UnusualEvent] = Field(description="the most unusual first")


class Escalation(Content):
    """A country whose material conflict may double."""

    stream: str
    name: str
    published: Number
    usual: Number | None


class WeekSkill(Content):
    """How good forecasts of a horizon and target have been, against the simple stack."""

    brier: Number
    skill: Number = Field(description="the part of the simple stack's Brier score that is saved")
    low: Number | None = Field(description="of its 95% interval; null: too few were judged")
    high: Number | None
    days: int = Field(description="origins that were judged")


WeekRecord = dict[int, dict[Target, WeekSkill]]
"""horizon, 1 to 7 or 0 for within the week -> target -> how good"""


class WeekReport(Content):
    """The seven days after the origin: what is likely and unusual."""

    days: list[date] = Field(description="the seven days")
    sentences: list[str] = Field(
        description="where conflict is furthest above its usual, what has risen most, and how far "
        "to trust it"
    )
    ranked_by: str = Field(description="how countries are ranked, in words")
    looked_at: int = Field(description="probabilities of conflict that the ranking is made of")
    unusual: list[UnusualCountry] = Field(description="the most unusual first")
    escalations: list[Escalation] = Field(description="likelier than usual; the largest gap first")
    escalations_asked: int = Field(description="countries that it was asked of")
    onsets: list[UnusualEvent] = Field(description="the likeliest events of which nothing came")
    onset_cells: int = Field(description="events of which nothing came for 30 days")
    onsets_expected: Number = Field(description="how many of them are expected within the week")
    record: WeekRecord | None = Field(
        description="how good forecasts of the week have been; null: not known yet"
    )
    record_source: Literal["forecasts", "backtest"] | None = Field(
        description="what was judged for it: stored forecasts, or a backtest"
    )
