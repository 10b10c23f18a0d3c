"""What a report says, as data: report.json is this, and its JSON schema is made from it.

All pages, tables and feeds are made from this object alone, so that whatever an analyst sees
can be checked in report.json, and a page can be made again without store and model. Nothing in it
is HTML, and nothing in it is trusted: text comes from news.
"""

from datetime import date, datetime
from typing import Final, Literal

from pydantic import Field

from gdelphi.common.types import Level, Target
from gdelphi.forecast.unusual import CONFLICT as CONFLICT
from gdelphi.report.content_base import Content, Number
from gdelphi.report.week_content import CountryWeek, WeekReport

FORMAT: Final = 1
MEASURES_NEWS: Final = (
    "This measures news, not events: what is forecast is what will be reported and coded, "
    "in the sources that GDELT reads."
)


WEEKDAY: Final = "weekday"
"""the member that says how often it came on such days of the week"""


# --- a country ------------------------------------------------------------------------------------


class WeightedPhrase(Content):
    """A phrase of a day in brief."""

    weight: Number = Field(
        description="share of the weight of all the day's reports, expected or counted, that are "
        "of this kind: all of it has the root of the phrase"
    )
    words: str
    code: str
    root: str = Field(default="", description="the kind of event that its share is counted in")
    drawn: str | None = Field(
        default=None,
        description="of tomorrow: the phrase of the past that it comes from, if it is another",
    )


class Probability(Content):
    """What is published of one standard event and target, and what else could be said."""

    level: Level
    code: str
    label: str
    target: Target
    published: Number
    which: Literal["combined", "stack"]
    stack: Number | None = Field(description="what everything without the network would say")
    usual: Number | None = Field(
        description="how often it has come in all; a surge, on days of the last 52 weeks"
    )
    yesterday: Number | None = Field(
        description="what the forecast made one origin earlier said of the same day"
    )
    beyond: bool = Field(
        default=False,
        description="beyond all that was published on the days of calibration: how good such "
        "numbers are is not known",
    )
    members: dict[str, Number] = Field(description="what each member says")

    @property
    def usual_then(self) -> float | None:
        """How often it has come on such a day of the week, where that is known; surges have no
        frequency by weekday."""
        return self.usual if self.target == "surge" else self.members.get(WEEKDAY, self.usual)


class Share(Content):
    """The share of a root in the day's news, with its past.

    Without a forecast, mean and quantiles are those of the past days.
    """

    code: str
    label: str
    mean: Number
    q05: Number
    q25: Number
    q50: Number
    q75: Number
    q95: Number
    past: list[Number | None] = Field(description="one for each of the report's past days")


class Argument(Content):
    """Who, to whom or where, if an event happens."""

    words: str
    value: str
    probability: Number


class Evidence(Content):
    """A past report of an event."""

    day: date
    words: str
    place: str | None
    mentions: int
    source: str | None = Field(description="as GDELT has it: a URL, or plain text")


class Event(Content):
    """A likely event, reconstructed."""

    level: Level
    code: str
    label: str
    headline: Number = Field(description="published probability that it is among the five largest")
    occurs: Number
    who: list[Argument]
    whom: list[Argument]
    where: list[Argument]
    evidence: list[Evidence]


class FuturePoint(Content):
    """An atom of a future, on the plane."""

    x: Number
    y: Number
    size: Number = Field(description="its weight in the future's day")
    root: str


class Future(Content):
    """One of the possible next days."""

    day: date = Field(description="the past day that it was drawn from")
    weight: Number
    points: list[FuturePoint]


class Fan(Content):
    """The futures of a stream in two dimensions: x and y within -1 and 1."""

    futures: list[Future]
    effective: Number = Field(description="number of equally weighted futures that say as much")
    explained: Number = Field(description="part of the atoms' variance that the plane shows")
    landmarks: dict[str, tuple[Number, Number]] = Field(description="where standard events lie")


class CountryReport(Content):
    """All about one stream."""

    stream: str
    name: str
    iso3: str | None = Field(description="for the map; none for what is no country")
    conflict_surge: Number | None = Field(
        description="largest published probability of a surge among the conflict roots"
    )
    conflict_code: str | None = Field(description="the root that has it")
    change: Number | None = Field(
        description="largest distance of a root's headline probability from what is usual, signed"
    )
    change_code: str | None
    brief: list[WeightedPhrase] = Field(description="tomorrow in brief; empty without a forecast")
    latest: list[WeightedPhrase] = Field(description="the origin's own day in brief")
    rows: list[int | None] = Field(description="reports on each of the report's past days")
    probabilities: list[Probability]
    shares: list[Share]
    events: list[Event]
    fan: Fan | None
    week: CountryWeek | None = Field(
        default=None, description="the seven days after the origin, if the forecast has them"
    )
    timeline: "Timeline | None" = Field(
        default=None, description="what was said of the last sixty days, and what came"
    )


# --- what was said, and what came -----------------------------------------------------------------


class PastSaid(Content):
    """What was published of a root as a headline on past days."""

    code: str
    label: str
    published: list[Number | None]
    came: list[bool | None]


class Timeline(Content):
    """A country's published probabilities on judged days, with what came."""

    source: Literal["forecasts", "backtest"]
    days: list[date] = Field(description="target days")
    lines: list[PastSaid]


# --- the watchlist --------------------------------------------------------------------------------


class Change(Content):
    """One of the largest changes of the watchlist."""

    stream: str
    name: str
    code: str
    label: str
    target: Target
    published: Number
    before: Number
    against: Literal["last forecast", "usual"] = Field(
        description="before is what the forecast of one origin earlier said of the same day, or "
        "how often it came on such days of the week (a surge: on any day)"
    )
    reasons: list[str]


# --- how good it has been -------------------------------------------------------------------------


class SkillLine(Content):
    """Published against the stack, over the cells of a target."""

    level: Level
    target: Target
    published: Number = Field(description="Brier score")
    stack: Number
    skill: Number = Field(description="1 - published / stack")
    low: Number
    high: Number
    cells: int


class RecordWindow(Content):
    """A stretch of judged days."""

    days: int = Field(description="asked for: 30 or 90")
    first: date
    last: date
    judged: int = Field(description="days that were judged in it")
    lines: list[SkillLine]


class Bin(Content):
    """Cells with about the same published probability."""

    target: Target
    said: Number
    came: Number
    low: Number = Field(description="of the band that holds it 90 times in 100 if said is true")
    high: Number
    cells: int


class Verdict(Content):
    """A published probability and its outcome."""

    day: date
    stream: str
    name: str
    code: str
    label: str
    target: Target
    published: Number
    stack: Number | None
    came: bool


class Yesterday(Content):
    """The last judged day: headlines that were forecast, and those that came."""

    day: date
    asked: int = Field(description="headlines of roots that were forecast")
    expected: Number = Field(description="how many should have come: the sum of what was said")
    came: int
    brier: Number
    stack: Number = Field(description="the Brier score of the stack on the same day")
    misses: list[Verdict] = Field(description="the worst first")
    hits: list[Verdict]


class UnusualVolume(Content):
    """A country's number of reports on the last day, against the same weekday before."""

    stream: str
    name: str
    reports: int
    usual: Number = Field(description="median of the same weekday in up to eight weeks before")
    ratio: Number


class UnusualShare(Content):
    """A kind of event with a larger share of a country's news than usual."""

    stream: str
    name: str
    code: str
    label: str
    share: Number
    median: Number = Field(description="of the sixty days before")
    reports: int


class NewsReport(Evidence):
    """One of the most mentioned reports of the last day."""

    stream: str
    name: str


class News(Content):
    """The last day's news by themselves."""

    volumes: list[UnusualVolume] = Field(description="the furthest from usual first")
    shares: list[UnusualShare] = Field(description="the furthest above the median first")
    reports: list[NewsReport] = Field(description="the most mentioned first")


class Record(Content):
    """How good these forecasts have been."""

    source: Literal["forecasts", "backtest", "none"]
    note: str = Field(description="what was judged, in a sentence; why nothing, if nothing was")
    skilful: bool | None = Field(
        description="whether published is better than the stack beyond chance; unknown: null"
    )
    verdict: str = Field(description="the same in a sentence, for the top of the page")
    windows: list[RecordWindow]
    calibration: list[Bin]
    hits: list[Verdict] = Field(description="improbable by the stack, said by us, and it came")
    misses: list[Verdict] = Field(description="said, and did not come; or came unsaid")


# --- the report -----------------------------------------------------------------------------------


class DataGap(Content):
    """Days without data."""

    first: date
    last: date
    why: str


class Provenance(Content):
    """What the report was made from."""

    forecast: str | None = Field(description="id of the stored forecast")
    data: str | None = Field(description="fingerprint of the days up to the origin")
    model: str | None = Field(description="fingerprint of the model and what is fitted beside it")
    futures: int | None
    seed: int | None
    gdelphi: str
    trained_until: date | None
    fitted_until: date | None
    snapshot: str | None = Field(
        default=None, description="the state of the lake that it shows; null: the store is a file"
    )


class Report(Content):
    """One morning."""

    format: Literal[1] = 1
    title: str
    origin: date
    target_day: date
    complete_at: datetime | None = Field(description="when the origin's last file was loaded, UTC")
    issued_at: datetime = Field(description="when the forecast was made, or else the report; UTC")
    published_at: datetime
    partial: bool
    hindsight: bool
    stale: bool
    banners: list[str] = Field(description="what a reader has to know first")
    note: str = MEASURES_NEWS
    naming: str | None = Field(
        default=None, description="how the phrases of tomorrow came about, in a sentence"
    )
    days: list[date] = Field(description="the past days of rows and shares")
    week: WeekReport | None = Field(
        default=None, description="the seven days after the origin; null: tomorrow is all there is"
    )
    yesterday: Yesterday | None = Field(
        default=None, description="the last day of which a stored forecast has been judged"
    )
    news: News | None = Field(default=None, description="of the last day, without a forecast")
    watchlist: list[str] = Field(description="streams")
    changes: list[Change]
    countries: list[CountryReport]
    record: Record
    missing: list[DataGap]
    provenance: Provenance
