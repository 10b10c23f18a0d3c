"""What a reader has to know first: everything that makes this report less than a good one.

A stale or partial run still publishes, since a missing report is worse than a marked one; the mark
is a sentence with dates, at the top.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from gdelphi.common.errors import ConfigError
from gdelphi.common.sections import SplitSettings
from gdelphi.common.settings import Settings
from gdelphi.common.splits import split_days
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.report.content import Record
from gdelphi.report.past import PastNews
from gdelphi.report.plain import clean, counted
from gdelphi.store.status import Status

FURTHEST: Final = 3000  # days: who needs more has set a split by dates
NEXT: Final = "`gdelphi embed`, `gdelphi train` and `gdelphi forecast` make one"


@dataclass(frozen=True)
class ReportState:
    """What banners are made from."""

    settings: Settings
    status: Status
    origin: date
    partial: bool
    manifest: ForecastManifest | None
    past: PastNews
    record: Record
    problems: Sequence[str]
    """of other forecasts in the folder"""
    unknown: Sequence[str]
    """streams of the watchlist that the report does not have"""

    @property
    def gap_at_origin(self) -> str | None:
        """What is wrong with the origin's day, if anything."""
        states = (gap.state for gap in self.status.gaps if gap.first <= self.origin <= gap.last)
        return next(states, None)


def is_stale(settings: Settings, origin: date, as_of: date) -> bool:
    """Whether an origin lies too far back, as the settings have it."""
    return (as_of - origin).days > settings.status.stale_after_days


def banners(state: ReportState) -> list[str]:
    """The sentences, the gravest first."""
    return [clean(sentence) for sentence in _sentences(state)]


def _sentences(state: ReportState) -> Iterator[str]:
    manifest = state.manifest
    if manifest is None:
        yield no_forecast(state.settings, state.status)
    elif state.record.skilful is False:
        yield state.record.verdict
    if state.partial:
        yield (
            f"Partial: the news day {state.origin} was not complete when this was made. A day that "
            "is still coming in looks quiet."
        )
    elif state.gap_at_origin == "partial":
        yield f"Some files of the news day {state.origin} are missing at the source."
    if is_stale(state.settings, state.origin, state.status.as_of):
        behind = (state.status.as_of - state.origin).days
        yield (
            f"Stale: the last news day in this report is {state.origin}, {counted(behind, 'day')} "
            f"before {state.status.as_of}."
        )
    if manifest is not None:
        yield from _about_forecast(manifest)
    yield from _about_days(state.past)
    if state.unknown:
        yield f"The watchlist names {', '.join(state.unknown)}, of which this report has nothing."
    for problem in state.problems:
        yield f"A stored forecast was passed over: {problem}."


def _about_forecast(manifest: ForecastManifest) -> Iterator[str]:
    if manifest.hindsight:
        yield (
            f"In hindsight: what is published was fitted on days up to {manifest.fitted_until}, "
            f"after the origin {manifest.recipe.origin}. This is no forecast to judge by."
        )
    if manifest.issued_at.date() > manifest.target_day:
        yield (
            f"Made afterwards: the forecast was issued on {manifest.issued_at:%Y-%m-%d}, after its "
            f"day {manifest.target_day} had ended, from news up to {manifest.recipe.origin} alone."
        )


def _about_days(past: PastNews) -> Iterator[str]:
    missing = past.missing
    if missing:
        named = ", ".join(day.isoformat() for day in missing[-3:])
        more = f", the last of them {named}" if len(missing) > 3 else f" ({named})"
        yield (
            f"{counted(len(missing), 'day')} of the last {len(past.days)} "
            f"{'is' if len(missing) == 1 else 'are'} missing{more}."
        )


# --- why there is no forecast ---------------------------------------------------------------------


def no_forecast(settings: Settings, status: Status) -> str:
    """Why a report has no forecast, and what to do."""
    if status.first_day is None or status.last_day is None:
        return f"No forecast: the store has no days yet. `gdelphi ingest` brings some; {NEXT}."
    days = (status.last_day - status.first_day).days + 1
    needed = days_needed(settings)
    if needed is not None and days < needed:
        return (
            f"No forecast: too short to train. The store has {counted(days, 'day')}, "
            f"{status.first_day} to {status.last_day}; with these settings a model needs at "
            f"least {needed}: "
            f"{settings.sequences.context_days} to look back on, and days left for training, two "
            f"validations and a test. `gdelphi ingest` brings more; then {NEXT}."
        )
    return (
        f"No forecast: none has been made. The store has {counted(days, 'day')}, enough to train; "
        f"{NEXT}."
    )


def days_needed(settings: Settings) -> int | None:
    """The fewest days that a model can be trained on; None where dates are set for the split."""
    if (
        settings.split.train_until
        or settings.split.validation_a_until
        or settings.split.validation_b_until
    ):
        return None
    context = settings.sequences.context_days
    return next(
        (days for days in range(1, FURTHEST) if _are_enough(days, context, settings.split)), None
    )


def _are_enough(days: int, context: int, split: SplitSettings) -> bool:
    """Whether every part has a day, and training has one with its context before it."""
    first = date(2000, 1, 1)  # any
    try:
        parts = split_days(first, first + timedelta(days=days - 1), split)
    except ConfigError:
        return False
    return (parts.train[1] - first).days >= context
