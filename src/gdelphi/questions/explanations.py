"""What stands behind a probability, as far as the stored forecast itself tells.

Members, the possible days that have the event and the past days that they were drawn from, who may
take part, past reports. `gdelphi explain` tells more, what each member adds to the number: for that
a model has to be opened, which takes seconds and a gigabyte.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gdelphi.common.errors import NothingStored
from gdelphi.common.percent import percent
from gdelphi.common.texts import clean
from gdelphi.common.types import WITHIN
from gdelphi.forecast.tidy import TOMORROW, member_columns
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.find_names import EventName
from gdelphi.questions.answers import (
    ExplanationAnswer,
    ForecastInfo,
    PastDay,
    PossibleArgument,
    ProbabilityRow,
    ReportRow,
)
from gdelphi.questions.forecasts import OpenForecast, chosen_rows
from gdelphi.questions.names import horizon_words

DAYS_SHOWN: Final = 12
REPORTS_SHOWN: Final = 8
CANDIDATES_SHOWN: Final = 3
TARGET_WORDS: Final = {"occurs": "at all", "headline": "as a headline", "surge": "as a surge"}


class AskedCell(NamedTuple):
    """One probability of a forecast."""

    stream: str
    event: EventName
    target: str
    horizon: int


class _Counted(NamedTuple):
    futures: int
    having: int
    weight: float
    days: list[PastDay]


def explain_stored(
    forecast: OpenForecast, info: ForecastInfo, cell: AskedCell, before: OpenForecast | None
) -> ExplanationAnswer:
    """The explanation of one probability."""
    about = cell_of(forecast.tidy, cell)
    if about is None:
        raise NothingStored(
            f"of {cell.event.level} {cell.event.code} {horizon_words(cell.horizon)} the forecast "
            "says nothing: beyond tomorrow only roots are forecast, and only by models of the week"
        )
    root = event_codes()[cell.event.code].root
    counted = _counted(forecast, cell.stream, root, cell.horizon)
    which, members = _members(forecast, cell)
    rows, usual_rows = _expected_rows(forecast, cell.stream, cell.event.code, cell.horizon)
    people = _candidates(forecast, cell)
    earlier = _same_day_before(before, cell) if before else None
    reports = _reports(forecast, cell)
    return ExplanationAnswer(
        forecast=info,
        about=about,
        before=earlier,
        which=which,
        members=members,
        counted=root,
        futures=counted.futures,
        having=counted.having,
        having_weight=counted.weight,
        days=counted.days,
        expected_rows=rows,
        usual_rows=usual_rows,
        who=people["actor1"],
        to_whom=people["actor2"],
        where=people["region"],
        reports=reports,
        sentences=_sentences(about, earlier, counted, root),
        more=_command(info.origin, cell),
    )


def cell_of(tidy: pa.Table, cell: AskedCell) -> ProbabilityRow | None:
    """One row of a tidy table."""
    rows = chosen_rows(
        tidy, streams=[cell.stream], level=cell.event.level, codes=[cell.event.code],
        target=cell.target, horizon=cell.horizon,
    ).to_pylist()  # fmt: skip
    return ProbabilityRow(**rows[0]) if rows else None


def _same_day_before(before: OpenForecast, cell: AskedCell) -> float | None:
    """What the forecast before said of the same day; of the week, of its own week."""
    horizon = cell.horizon if cell.horizon == WITHIN else cell.horizon + 1
    row = cell_of(before.tidy, cell._replace(horizon=horizon))
    return row.published if row else None


def _members(forecast: OpenForecast, cell: AskedCell) -> tuple[str | None, dict[str, float | None]]:
    key: dict[str, str] = {}
    if cell.horizon == TOMORROW:
        table = forecast.stored.table("probabilities")
        names, key["level"] = member_columns(table), cell.event.level
    else:
        table = forecast.stored.table("week")
        names = ["stack", "simple stack", "usual"]
    key |= {"stream": cell.stream, "code": cell.event.code, "target": cell.target}
    for name, value in key.items():
        table = table.filter(pc.equal(table[name], value))
    if cell.horizon != TOMORROW:
        table = table.filter(pc.equal(table["horizon"], cell.horizon))
    row = table.to_pylist()[0]
    return row.get("which"), {name: row[name] for name in names}


def _counted(forecast: OpenForecast, stream: str, root: str, horizon: int) -> _Counted:
    """The possible days, or weeks, that have a root, and the past days that they have it from."""
    if horizon == TOMORROW:
        names = ["stream", "day", "weight", "roots", "donor", "lent"]
        rows = forecast.rows("futures", stream, names)
        found = [(row, "day") for row in rows if root in row["roots"]]
    else:
        names = ["stream", "start", "weight", "roots", "donor", "lent"]
        rows = forecast.rows("weeks", stream, names)
        found = [(row, "start") for row in rows if _week_has(row["roots"], root, horizon)]
    drawn: dict[date, list[float]] = {}
    into = timedelta(days=max(horizon - 1, 0))  # of a past week, to the day that is meant
    for row, first in found:
        lent = row["donor"] is not None and root in (row["lent"] or ())
        day = row["donor"] if lent else row[first]
        if day is not None:
            drawn.setdefault(day + into, []).append(row["weight"])
    days = [
        PastDay(day=day, futures=len(weights), weight=sum(weights))
        for day, weights in drawn.items()
    ]
    days.sort(key=lambda day: (-day.weight, day.day))
    weight = sum(row["weight"] for row, _ in found)
    return _Counted(len(rows), len(found), weight, days[:DAYS_SHOWN])


def _week_has(days: list[list[str]], root: str, horizon: int) -> bool:
    return root in days[horizon - 1] if horizon != WITHIN else any(root in day for day in days)


def _expected_rows(
    forecast: OpenForecast, stream: str, code: str, horizon: int
) -> tuple[float | None, float | None]:
    rows = [row for row in forecast.rows("week_rows", stream) if row["code"] == code]
    rows = [row for row in rows if horizon in (WITHIN, row["horizon"])]
    if not rows:
        return None, None
    return sum(row["rows"] or 0.0 for row in rows), sum(row["usual"] or 0.0 for row in rows)


def _candidates(forecast: OpenForecast, cell: AskedCell) -> dict[str, list[PossibleArgument]]:
    found: dict[str, list[PossibleArgument]] = {"actor1": [], "actor2": [], "region": []}
    rows = [row for row in forecast.rows("events", cell.stream) if _is_about(row, cell)]
    for row in sorted(rows, key=lambda row: row["rank"]):
        of_kind = found[row["argument"]]
        if len(of_kind) < CANDIDATES_SHOWN:
            words = clean(row["words"] or row["value"])
            of_kind.append(PossibleArgument(words=words, probability=row["probability"]))
    return found


def _reports(forecast: OpenForecast, cell: AskedCell) -> list[ReportRow]:
    rows = [row for row in forecast.rows("evidence", cell.stream) if _is_about(row, cell)]
    return [
        ReportRow(
            day=row["day"],
            phrase=clean(row["phrase"]),
            place=clean(row["place"]) if row["place"] else None,
            mentions=row["mentions"],
            source=clean(row["source"]) if row["source"] else None,
        )
        for row in sorted(rows, key=lambda row: row["rank"])[:REPORTS_SHOWN]
    ]


def _is_about(row: Mapping[str, Any], cell: AskedCell) -> bool:
    return (row["level"], row["code"]) == (cell.event.level, cell.event.code)


def _sentences(
    about: ProbabilityRow,
    before: float | None,
    counted: _Counted,
    root: str,
) -> list[str]:
    when = f"{horizon_words(about.horizon)} ({'to ' if not about.horizon else ''}{about.day})"
    event = f"{about.label} ({about.code}) in {about.country} {TARGET_WORDS[about.target]} {when}"
    told = [f"{event}: {percent(about.published)}, usually {percent(about.usual)}."]
    if before is not None:
        of = "its own week" if about.horizon == WITHIN else "the same day"
        told.append(f"The forecast before said {percent(before)} of {of}.")
    if about.low is not None and about.high is not None:
        lowest, highest = percent(about.low), percent(about.high)
        told.append(f"The forecasters behind it say {lowest} to {highest}.")
    if counted.futures:
        kind = "days" if about.horizon == TOMORROW else "weeks"
        label = event_codes()[root].label
        told.append(
            f"{counted.having} of {counted.futures} possible {kind} have {label} ({root}), "
            f"{percent(counted.weight)} of the weight."
        )
    if counted.days:
        days = ", ".join(str(day.day) for day in counted.days[:3])
        told.append(f"They have it from past {'days' if about.horizon else 'weeks'} as {days}.")
    return told


def _command(origin: date, cell: AskedCell) -> str:
    words = f"gdelphi explain --stream {cell.stream} --event {cell.event.code} --origin {origin}"
    if cell.horizon == TOMORROW:
        return words
    return f"{words} --horizon {'week' if cell.horizon == WITHIN else cell.horizon}"
