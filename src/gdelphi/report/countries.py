"""From a stored forecast and the store to the countries of a report.

Only what is on disk is read: no model is loaded and nothing is forecast anew, so a report takes
seconds and says exactly what the forecast's files say. Of the 456 standard events all roots are
shown, and of finer codes those that are likely to matter: with all of them a page of 50 countries
would weigh as much as a film.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import StoredForecast
from gdelphi.forecast.stored_week import StoredWeek
from gdelphi.forecast.summary import USUAL
from gdelphi.forecast.tidy import NOT_MEMBERS
from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.space import place_of
from gdelphi.report.choose import CellKey
from gdelphi.report.content import (
    CONFLICT,
    Argument,
    CountryReport,
    Event,
    Evidence,
    Probability,
    Share,
    WeightedPhrase,
)
from gdelphi.report.fan import fan_of, root_points
from gdelphi.report.past import PastNews, latest_in_brief
from gdelphi.report.plain import (
    clean,
    clean_or_none,
    label_of,
    number,
)
from gdelphi.report.week import country_week

LIKELY: Final = {"headline": 0.05, "surge": 0.2, "occurs": 0.3}
"""a finer code is shown if it reaches one of these"""
MOST_FINER: Final = 25  # codes of a finer level
CANDIDATES: Final = 5  # for who, to whom and where
REPORTS: Final = 5  # as evidence of an event
# Of the stored tables. `forecast/tables.py` has them too, but brings with it all that makes
# forecasts: three seconds of imports. A test holds the two together.
ARGUMENTS: Final = {"actor1": "who", "actor2": "whom", "region": "where"}
QUANTILES: Final = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
MEMBER_DIGITS: Final = 4

TableRows = Sequence[Mapping[str, Any]]


def forecast_countries(
    settings: Settings,
    forecast: StoredForecast,
    past: PastNews,
    yesterday: Mapping[CellKey, float],
    week: StoredWeek | None = None,
) -> list[CountryReport]:
    """The streams of a forecast, in its order; with their week, if it has one."""
    tables = {name: _by_stream(forecast, name) for name in _TABLES}
    latest = latest_in_brief(settings, past)
    landmarks = root_points(settings)
    countries = []
    for stream in forecast.manifest.recipe.streams:
        own = {name: tables[name].get(stream, []) for name in tables}
        probabilities = probabilities_of(own["probabilities"], yesterday, week)
        country = bare_country(stream, past, latest[stream])
        countries.append(
            country.model_copy(
                update={
                    **_map_numbers(probabilities),
                    "brief": brief_phrases(own["brief"], own["shares"]),
                    "probabilities": probabilities,
                    "shares": _shares(own["shares"], past.shares(stream)),
                    "events": _events(own["events"], own["evidence"], own["probabilities"]),
                    "fan": fan_of(own["futures"], landmarks),
                    "week": country_week(week, stream) if week else None,
                }
            )
        )
    return countries


_TABLES: Final = ("probabilities", "shares", "futures", "brief", "events", "evidence")


def _by_stream(forecast: StoredForecast, name: str) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if name in forecast:
        for row in forecast.table(name).to_pylist():
            rows[row["stream"]].append(row)
    return rows


# --- without a forecast ---------------------------------------------------------------------------


def past_countries(settings: Settings, past: PastNews) -> list[CountryReport]:
    """What can be shown of streams without a forecast."""
    latest = latest_in_brief(settings, past)
    return [bare_country(stream, past, latest[stream]) for stream in past.history.streams]


def bare_country(stream: str, past: PastNews, latest: list[WeightedPhrase]) -> CountryReport:
    """A stream's past; nothing is said of tomorrow."""
    known = country_by_fips(stream)
    return CountryReport(
        stream=clean(stream),
        name=clean(stream_name(stream)),
        iso3=known.iso3 if known else None,
        conflict_surge=None,
        conflict_code=None,
        change=None,
        change_code=None,
        brief=[],
        latest=latest,
        rows=past.rows(stream),
        probabilities=[],
        shares=_past_shares(past.shares(stream)),
        events=[],
        fan=None,
    )


def _past_shares(past: Mapping[str, list[float | None]]) -> list[Share]:
    """Shares of the past days themselves, where there are any."""
    shares = []
    for code, series in past.items():
        known = sorted(value for value in series if value is not None)
        if known and known[-1] > 0:
            cuts = {name: _quantile(known, at) for name, at in QUANTILES.items()}
            mean = number(sum(known) / len(known)) or 0.0
            shares.append(Share(code=code, label=label_of(code), mean=mean, past=series, **cuts))
    return shares


def _quantile(known: Sequence[float], at: float) -> float:
    """Of sorted values, between the two that are nearest."""
    place = at * (len(known) - 1)
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return number(known[low] + (place - low) * (known[high] - known[low])) or 0.0


# --- probabilities --------------------------------------------------------------------------------


def probabilities_of(
    rows: TableRows, yesterday: Mapping[CellKey, float], week: StoredWeek | None = None
) -> list[Probability]:
    """All roots, and the finer codes that are likely; undefined targets are left out."""
    shown = {level: _likely(rows, level) for level in ("base", "full")}
    return [
        _probability(row, yesterday, week)
        for row in rows
        if number(row["published"]) is not None
        and (row["level"] == "root" or row["code"] in shown[row["level"]])
    ]


def _likely(rows: TableRows, level: str) -> set[str]:
    """The likeliest codes of a finer level, as headlines and then at all."""
    published: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["level"] == level:
            published[row["code"]][row["target"]] = number(row["published"]) or 0.0
    enough = [
        code
        for code, by_target in published.items()
        if any(by_target.get(target, 0.0) >= least for target, least in LIKELY.items())
    ]
    enough.sort(key=lambda code: (*(-published[code].get(target, 0.0) for target in LIKELY), code))
    return set(enough[:MOST_FINER])


def _usual(row: Mapping[str, Any], week: StoredWeek | None) -> float | None:
    """How often it has come. The member that says so of the others says more of surges than their
    frequency, which the week alone has; of finer codes nobody has it."""
    if row["target"] != "surge":
        return number(row.get(USUAL))
    key = row["stream"], row["code"], row["target"]
    if week is None or row["level"] != "root" or key not in week.cells:
        return None
    return number(week.cells[key].days[0].usual)


def _probability(
    row: Mapping[str, Any], yesterday: Mapping[CellKey, float], week: StoredWeek | None
) -> Probability:
    key = row["stream"], row["level"], row["code"], row["target"]
    members = {
        clean(name): known
        for name, value in row.items()
        if name not in NOT_MEMBERS and (known := number(value, MEMBER_DIGITS)) is not None
    }
    return Probability(
        level=row["level"],
        code=row["code"],
        label=label_of(row["code"]),
        target=row["target"],
        published=number(row["published"]) or 0.0,
        which=row["which"],
        stack=number(row["stack"]),
        usual=_usual(row, week),
        yesterday=number(yesterday.get(key)),
        beyond=bool(row.get("beyond", False)),
        members=members,
    )


def _map_numbers(probabilities: Iterable[Probability]) -> dict[str, Any]:
    """What the map is coloured by."""
    roots = [p for p in probabilities if p.level == "root"]
    surges = [p for p in roots if p.target == "surge" and p.code in CONFLICT]
    surge = max(surges, key=lambda p: p.published, default=None)
    moved = [p for p in roots if p.target == "headline" and p.usual_then is not None]
    change = max(moved, key=lambda p: abs(p.published - (p.usual_then or 0.0)), default=None)
    return {
        "conflict_surge": surge.published if surge else None,
        "conflict_code": surge.code if surge else None,
        "change": number(change.published - (change.usual_then or 0.0)) if change else None,
        "change_code": change.code if change else None,
    }


# --- shares, the day in brief, events -------------------------------------------------------------


def _shares(rows: TableRows, past: Mapping[str, list[float | None]]) -> list[Share]:
    shares = []
    for row in rows:
        numbers = {name: number(row[name]) for name in ("mean", *QUANTILES)}
        if row["level"] == "root" and None not in numbers.values():
            code, label = row["code"], label_of(row["code"])
            shares.append(Share(code=code, label=label, past=past.get(code, []), **numbers))
    return shares


def brief_phrases(rows: TableRows, shares: TableRows) -> list[WeightedPhrase]:
    """Tomorrow's phrases, the heaviest first. Those of a root have no more than its expected share
    together: forecasts that were made before phrases kept to their root may give them more."""
    expected = {row["code"]: number(row["mean"]) for row in shares if row["level"] == "root"}
    given: dict[str, float] = defaultdict(float)
    for row in rows:
        given[lineage(row["code"]).root] += row["weight"]
    phrases = []
    for row in sorted(rows, key=lambda row: row["rank"]):
        root = lineage(row["code"]).root
        most, total = expected.get(root), given[root]
        factor = min(1.0, most / total) if most is not None and total > 0 else 1.0
        phrases.append(
            WeightedPhrase(
                weight=number(row["weight"] * factor) or 0.0,
                words=clean(row["phrase"]),
                code=clean(row["code"]),
                root=label_of(root),
                drawn=_drawn(row),
            )
        )
    return sorted(phrases, key=lambda phrase: -phrase.weight)


def _drawn(row: Mapping[str, Any]) -> str | None:
    """The phrase that one of tomorrow's comes from, if it is called otherwise; forecasts that were
    made before phrases could be named have none."""
    names = ("actor1", "code", "actor2")
    actor1, code, actor2 = (row.get(f"drawn_{name}") for name in names)
    if code is None or [actor1, code, actor2] == [row.get(name) for name in names]:
        return None
    return clean(sentence(actor1 or "", code, actor2 or "", place_of(row["stream"])))


def _events(events: TableRows, evidence: TableRows, probabilities: TableRows) -> list[Event]:
    """The likely events with their arguments, the likeliest of each level first."""
    published = {
        (row["level"], row["code"], row["target"]): row["published"] for row in probabilities
    }
    arguments: dict[tuple[str, str], Any] = {}
    for row in sorted(events, key=lambda row: row["rank"]):
        by_argument = arguments.setdefault(
            (row["level"], row["code"]), {name: [] for name in ARGUMENTS.values()}
        )
        by_argument[ARGUMENTS[row["argument"]]].append(_argument(row))
    reports = defaultdict(list)
    for row in sorted(evidence, key=lambda row: row["rank"]):
        reports[row["level"], row["code"]].append(_evidence(row))
    return [
        Event(
            level=level,
            code=code,
            label=label_of(code),
            headline=number(published.get((level, code, "headline"))) or 0.0,
            occurs=number(published.get((level, code, "occurs"))) or 0.0,
            **{name: candidates[:CANDIDATES] for name, candidates in by_argument.items()},
            evidence=reports[level, code][:REPORTS],
        )
        for (level, code), by_argument in arguments.items()
    ]


def _argument(row: Mapping[str, Any]) -> Argument:
    return Argument(
        words=clean(row["words"]),
        value=clean(row["value"]),
        probability=number(row["probability"]) or 0.0,
    )


def _evidence(row: Mapping[str, Any]) -> Evidence:
    return Evidence(
        day=row["day"],
        words=clean(row["phrase"]),
        place=clean_or_none(row["place"]),
        mentions=row["mentions"],
        source=clean_or_none(row["source"]),
    )
