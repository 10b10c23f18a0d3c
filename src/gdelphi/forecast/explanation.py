"""What an explanation holds: a published number, and every step back to the reports behind it.

Plain objects of numbers and words, which the command line shows and JSON keeps; `explain` makes
them.
"""

from dataclasses import dataclass
from datetime import date

from gdelphi.common.types import Level
from gdelphi.forecast.arguments import ArgumentKind
from gdelphi.forecast.reconstruct import Candidate


@dataclass(frozen=True)
class MemberContribution:
    """What one feature adds to the logit; nothing where it takes no part."""

    name: str
    probability: float | None
    """of a member"""
    adds: float | None


@dataclass(frozen=True)
class TargetExplained:
    """One published probability, and where it comes from."""

    target: str
    published: float | None
    """None: undefined"""
    which: str
    """combined or stack"""
    stack: float | None
    came: tuple[float | None, ...]
    """share of the known days among the last 30 and 365 on which it came"""
    parts: tuple[MemberContribution, ...]
    """members by size, then day of the week, volume of news, recent level and intercept"""
    logit: float | None
    """the sum of the parts"""
    moved: bool
    """so that it agrees with the code's parent, or with *occurs*"""


@dataclass(frozen=True)
class DrawnDay:
    """A past day on which the event came, and the futures drawn from it."""

    day: date
    futures: int
    weight: float


@dataclass(frozen=True)
class AtomExplained:
    """Atoms of such futures that are near to the event, and of one name."""

    phrase: str
    """their name"""
    drawn: tuple[str, ...]
    """phrases of the past that they come from, the heaviest first; empty: the same phrase only"""
    code: str
    cosine: float
    """with the event, after transport"""
    weight: float
    """expected share of the day"""
    futures: int


@dataclass(frozen=True)
class SourceReport:
    """A row of the store on one of those days."""

    day: date
    event_id: int
    phrase: str
    place: str | None
    mentions: int
    source: str | None


@dataclass(frozen=True)
class Explanation:
    """All that stands behind the probabilities of one event."""

    stream: str
    name: str
    origin: date
    target_day: date
    partial: bool
    level: Level
    code: str
    label: str
    targets: tuple[TargetExplained, ...]
    futures: int
    having: int
    """futures whose drawn day has the event"""
    having_weight: float
    days: tuple[DrawnDay, ...]
    atoms: tuple[AtomExplained, ...]
    reports: tuple[SourceReport, ...]
    arguments: dict[ArgumentKind, tuple[Candidate, ...]]
    """who, to whom, where, if it happens"""


# --- the week -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeekTargetExplained:
    """One published probability of a day further on, or within the week."""

    target: str
    published: float | None
    """None: undefined"""
    stack: float | None
    simple: float | None
    """of the simple stack"""
    usual: float | None
    parts: tuple[MemberContribution, ...]
    """of the stack's regression for this horizon, and what the network adds"""
    logit: float | None
    """the sum of the parts"""
    moved: bool
    """so that it agrees with other days and targets"""


@dataclass(frozen=True)
class ExpectedRows:
    """Reports that are expected on a day."""

    day: date
    expected: float
    usual: float | None


@dataclass(frozen=True)
class WeekExplanation:
    """All that stands behind the probabilities of one event at a horizon."""

    stream: str
    name: str
    origin: date
    horizon: int
    """days ahead; 0: within the week"""
    days: tuple[date, ...]
    """that it is about"""
    partial: bool
    code: str
    label: str
    targets: tuple[WeekTargetExplained, ...]
    rows: tuple[ExpectedRows, ...]
    onset: bool
    """no report of it on the last 30 days"""
    possible: int
    """number of possible weeks"""
    having: int
    """of them, those that have it at this horizon"""
    having_weight: float
    drawn: tuple[DrawnDay, ...]
    """the past days that these have it from; of the week, the first days of the past weeks"""
    reports: tuple[SourceReport, ...]
    arguments: dict[ArgumentKind, tuple[Candidate, ...]]
