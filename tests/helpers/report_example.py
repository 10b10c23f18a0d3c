"""Reports that look like real ones, made by hand and by chance: full, or without forecast."""

from datetime import UTC, date, datetime, timedelta
from functools import cache

import numpy as np

from gdelphi.common.types import Target
from gdelphi.gdelt.cameo import (
    EventCode,
    country_by_fips,
    event_codes,
)
from gdelphi.report.content import (
    CONFLICT,
    Argument,
    Bin,
    Change,
    CountryReport,
    DataGap,
    Event,
    Evidence,
    Fan,
    Future,
    FuturePoint,
    Probability,
    Provenance,
    Record,
    RecordWindow,
    Report,
    Share,
    SkillLine,
    Verdict,
    WeightedPhrase,
)
from gdelphi.report.week import country_week, week_report
from helpers.report_week import example_week

ORIGIN = date(2023, 3, 14)
DAYS = [ORIGIN - timedelta(days=59 - back) for back in range(60)]
STREAMS = (  # noqa: SIM905 - readable as words
    "KE UG TZ ET SO SU EG UP RS PL TU SY IZ IR IS IN PK CH FR GM UK NI ML BR CO VE MX US BM JA HU"
).split()
TARGETS: tuple[Target, ...] = ("occurs", "headline", "surge")


@cache
def codes(level: str) -> tuple[EventCode, ...]:
    return tuple(event for event in event_codes().values() if event.level == level)


def _probability(
    event: EventCode, target: Target, published: float, chance: np.random.Generator
) -> Probability:
    near = [float(np.clip(published + chance.normal(0, 0.07), 0.002, 0.998)) for _ in range(3)]
    return Probability(
        level=event.level,
        code=event.code,
        label=event.label,
        target=target,
        published=published,
        which="combined",
        stack=near[0],
        usual=near[1],
        yesterday=near[2],
        members={"profiles": near[0], "atoms": near[1], "climatology": near[2]},
    )


def _probabilities(chance: np.random.Generator, finer: int) -> list[Probability]:
    found = []
    for event in (*codes("root"), *codes("base")[:finer], *codes("full")[:finer]):
        occurs = float(chance.beta(2.0, 1.2 if event.level == "root" else 4.0))
        headline, surge = occurs * float(chance.beta(1, 2)), float(chance.beta(2, 14))
        for target, value in zip(TARGETS, (occurs, headline, surge), strict=True):
            found.append(_probability(event, target, value, chance))
    return found


def _share(event: EventCode, chance: np.random.Generator) -> Share:
    level = float(chance.gamma(1.0, 0.08))
    past = np.clip(level * np.exp(chance.normal(0, 0.35, len(DAYS)).cumsum() * 0.25), 0, 1)
    cuts = np.quantile(
        past[-20:] * np.exp(chance.normal(0, 0.2, 20)), (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    q05, q25, q50, q75, q95 = (float(min(cut, 1.0)) for cut in cuts)
    series: list[float | None] = [float(value) for value in past]
    series[17] = None
    return Share(
        code=event.code,
        label=event.label,
        mean=q50,
        q05=q05,
        q25=q25,
        q50=q50,
        q75=q75,
        q95=q95,
        past=series,
    )


def _verb(event: EventCode) -> str:
    return event.verb_target.replace("{target}", "students")


def _phrases(name: str, chance: np.random.Generator, count: int) -> list[WeightedPhrase]:
    events = chance.choice(np.array(codes("base"), dtype=object), count, replace=False)
    weights = np.sort(chance.dirichlet(np.ones(count)))[::-1]
    return [
        WeightedPhrase(
            weight=float(weight), words=f"Police {_verb(event)} in {name}", code=event.code
        )
        for weight, event in zip(weights, events, strict=True)
    ]


def _arguments(values: tuple[str, ...]) -> list[Argument]:
    return [
        Argument(words=words, value=words[:3].upper(), probability=0.5 / (number + 1))
        for number, words in enumerate(values)
    ]


def _event(event: EventCode, name: str, chance: np.random.Generator) -> Event:
    sources = ("https://example.org/news/2023/03/a-report?id=1&x=2", "BBC Monitoring", None)
    return Event(
        level=event.level,
        code=event.code,
        label=event.label,
        headline=float(chance.uniform(0.2, 0.8)),
        occurs=float(chance.uniform(0.8, 1)),
        who=_arguments((f"{name} police", "protesters", "the government")),
        whom=_arguments(("students", f"citizens of {name}", "the opposition")),
        where=_arguments(("the capital", "the north")),
        evidence=[
            Evidence(
                day=ORIGIN - timedelta(days=number),
                words=f"Police {_verb(event)}",
                place=f"Capital, {name}",
                mentions=30 - number,
                source=source,
            )
            for number, source in enumerate(sources)
        ],
    )


def _fan(chance: np.random.Generator, futures: int) -> Fan:
    roots = codes("root")
    angles = np.linspace(0, 2 * np.pi, len(roots), endpoint=False) + chance.uniform(0, 1)
    radii = chance.uniform(0.35, 0.95, len(roots))
    places = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    liking, weights = chance.dirichlet(np.ones(len(roots))), chance.dirichlet(np.full(futures, 2.0))
    drawn = []
    for weight in weights:
        which = chance.choice(len(roots), 9, p=liking)
        spots = np.clip(places[which] + chance.normal(0, 0.08, (9, 2)), -1, 1)
        sizes = chance.dirichlet(np.ones(9))
        points = [
            FuturePoint(x=float(x), y=float(y), size=float(size), root=roots[root].code)
            for (x, y), size, root in zip(spots, sizes, which, strict=True)
        ]
        day = DAYS[int(chance.integers(len(DAYS)))]
        drawn.append(Future(day=day, weight=float(weight), points=points))
    landmarks = {
        root.code: (float(x), float(y)) for root, (x, y) in zip(roots, places, strict=True)
    }
    effective = float(1 / (weights**2).sum())
    return Fan(futures=drawn, effective=effective, explained=0.41, landmarks=landmarks)


def _best(found: list[Probability], target: Target, codes: tuple[str, ...]) -> Probability:
    fitting = [p for p in found if p.target == target and p.level == "root" and p.code in codes]
    return max(fitting, key=lambda p: p.published)


def example_country(
    stream: str, *, seed: int, forecast: bool = True, futures: int = 20
) -> CountryReport:
    """A country of the example; without a forecast it has only its past."""
    chance = np.random.default_rng(seed)
    known = country_by_fips(stream)
    name = known.name if known else stream
    found = _probabilities(chance, finer=6)
    surge = _best(found, "surge", CONFLICT)
    change = _best(found, "headline", tuple(event.code for event in codes("root")))
    volume = 40 * np.exp(chance.normal(1, 1)) * np.exp(chance.normal(0, 0.2, len(DAYS)))
    rows: list[int | None] = [int(value) for value in volume]
    rows[17] = None
    shares = [_share(event, chance) for event in codes("root")]
    latest = _phrases(name, chance, 4)
    iso3 = known.iso3 if known else None
    past = CountryReport(
        stream=stream,
        name=name,
        iso3=iso3,
        conflict_surge=None,
        conflict_code=None,
        change=None,
        change_code=None,
        brief=[],
        latest=latest,
        rows=rows,
        probabilities=[],
        shares=shares,
        events=[],
        fan=None,
    )
    if not forecast:
        return past
    return past.model_copy(
        update={
            "conflict_surge": surge.published,
            "conflict_code": surge.code,
            "change": change.published - (change.usual or 0),
            "change_code": change.code,
            "brief": _phrases(name, chance, 6),
            "probabilities": found,
            "events": [_event(event, name, chance) for event in codes("base")[7:10]],
            "fan": _fan(chance, futures),
        }
    )


def _change(country: CountryReport, number: int) -> Change:
    best = country.probabilities[(number * 7 + 1) % 60]
    before = min(0.95, max(0.02, best.published * (0.5 if number % 3 else 1.6)))
    return Change(
        stream=country.stream,
        name=country.name,
        code=best.code,
        label=best.label,
        target=best.target,
        published=best.published,
        before=before,
        against="last forecast" if number % 4 else "usual",
        reasons=[
            "the share of this event rose from 4% to 11% over the last three days",
            "past days like this one were followed by it 6 times in 10",
        ][: 1 + number % 2],
    )


def _window(days: int) -> RecordWindow:
    lines = [
        SkillLine(
            level="root",
            target=target,
            published=0.121 - 0.01 * number,
            stack=0.124 - 0.01 * number,
            skill=0.02 - 0.008 * number,
            low=0.004 - 0.011 * number,
            high=0.037 - 0.006 * number,
            cells=days * 600,
        )
        for number, target in enumerate(TARGETS)
    ]
    first = ORIGIN - timedelta(days=days - 1)
    return RecordWindow(days=days, first=first, last=ORIGIN, judged=days - 2, lines=lines)


def _calibration(chance: np.random.Generator) -> list[Bin]:
    found = []
    for target in TARGETS:
        for said in np.linspace(0.04, 0.96 if target != "surge" else 0.5, 9):
            spread = 0.03 + 0.05 * said * (1 - said)
            found.append(
                Bin(
                    target=target,
                    said=float(said),
                    came=float(np.clip(said + chance.normal(0, 0.025), 0, 1)),
                    low=float(max(0, said - spread)),
                    high=float(min(1, said + spread)),
                    cells=int(chance.integers(80, 4000)),
                )
            )
    return found


def _verdicts(countries: list[CountryReport], came: bool) -> list[Verdict]:
    return [
        Verdict(
            day=ORIGIN - timedelta(days=number),
            stream=country.stream,
            name=country.name,
            code=probability.code,
            label=probability.label,
            target=probability.target,
            published=0.61 - 0.03 * number,
            stack=0.24 + 0.01 * number,
            came=came,
        )
        for number, country in enumerate(countries[:5])
        for probability in country.probabilities[number * 3 + 2 : number * 3 + 3]
    ]


def _record(countries: list[CountryReport]) -> Record:
    return Record(
        source="backtest",
        note="No forecast has been judged yet; this is a backtest on days that training never saw.",
        skilful=True,
        verdict="In a backtest of 88 days, headlines were forecast better than by the baselines.",
        windows=[_window(30), _window(90)],
        calibration=_calibration(np.random.default_rng(5)),
        hits=_verdicts(countries, True),
        misses=_verdicts(countries[5:], False),
    )


NOTHING_JUDGED = Record(
    source="none",
    note="Nothing could be judged: the store holds too few days to train a model.",
    skilful=None,
    verdict="There is no forecast for this day, and nothing has been judged.",
    windows=[],
    calibration=[],
    hits=[],
    misses=[],
)


def example_report(
    *,
    streams: tuple[str, ...] = tuple(STREAMS),
    forecast: bool = True,
    futures: int = 20,
    week: bool = True,
) -> Report:
    """A plausible report; `forecast=False` is what a store too short to train gives, `week=False`
    what a model gives that speaks of tomorrow only."""
    countries = [
        example_country(stream, seed=number, forecast=forecast, futures=futures)
        for number, stream in enumerate(streams)
    ]
    record = _record(countries) if forecast else NOTHING_JUDGED
    said = example_week(streams, ORIGIN) if forecast and week else None
    if said:
        countries = [
            country.model_copy(update={"week": country_week(said, country.stream)})
            for country in countries
        ]
    return Report(
        title="gdelphi morning report",
        origin=ORIGIN,
        target_day=ORIGIN + timedelta(days=1),
        complete_at=datetime(2023, 3, 15, 0, 17, tzinfo=UTC),
        issued_at=datetime(2023, 3, 15, 4, 2, tzinfo=UTC),
        published_at=datetime(2023, 3, 15, 4, 6, tzinfo=UTC),
        partial=True,
        hindsight=False,
        stale=False,
        banners=["Partial data: 3 of 96 files of 14 March 2023 are missing at the source."],
        days=DAYS,
        week=week_report(said, record) if said else None,
        watchlist=list(streams[:10]),
        changes=[_change(c, n) for n, c in enumerate(countries[:10])] if forecast else [],
        countries=countries,
        record=record,
        missing=[DataGap(first=DAYS[17], last=DAYS[17], why="the archive does not have it")],
        provenance=Provenance(
            forecast="2023-03-14-7c1f" if forecast else None,
            data="b0c4a5d2e8f94a11",
            model="51f0a9aa73d1c2e4" if forecast else None,
            futures=futures if forecast else None,
            seed=0 if forecast else None,
            gdelphi="0.1.0",
            trained_until=date(2022, 9, 1) if forecast else None,
            fitted_until=date(2022, 12, 1) if forecast else None,
        ),
    )
