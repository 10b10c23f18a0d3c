"""What the page's template shows of a report: small objects with words and drawings ready."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from gdelphi.report import marks
from gdelphi.report.content import (
    Change,
    CountryReport,
    Record,
    RecordWindow,
    Report,
    SkillLine,
)
from gdelphi.report.outlines import (
    HEIGHT,
    WIDTH,
    outlines,
)
from gdelphi.report.safe import anchor, clean

TARGET_WORDS: Final = {"occurs": "is reported", "headline": "headline", "surge": "surge"}
TOP: Final = 3


class MapFrame(NamedTuple):
    """Size and scales of the map."""

    width: float
    height: float
    sequential: tuple[float, ...]
    diverging: tuple[float, ...]


MAP: Final = MapFrame(WIDTH, HEIGHT, marks.SEQUENTIAL, marks.DIVERGING)


class ChangeView(NamedTuple):
    """One of the watchlist's changes."""

    anchor: str
    name: str
    label: str
    target: str
    published: str
    before: str
    against: str
    difference: str
    way: str
    reasons: list[str]
    bar: Markup


def change(found: Change) -> ChangeView:
    """A change in words, and its drawing."""
    return ChangeView(
        anchor=anchor(found.stream),
        name=clean(found.name, 48),
        label=clean(found.label, 80),
        target=TARGET_WORDS[found.target],
        published=marks.percent(found.published),
        before=marks.percent(found.before),
        against="yesterday" if found.against == "yesterday" else "usually",
        difference=marks.points(found.published - found.before),
        way="up" if found.published >= found.before else "down",
        reasons=[clean(reason, 240) for reason in found.reasons],
        bar=marks.bar_of_change(found.published, found.before),
    )


class Land(NamedTuple):
    """A country on the map; `number` is its place in the report, None for what is no stream."""

    path: str
    dot: tuple[float, float] | None
    number: int | None
    anchor: str
    shade: str
    words: str


def lands(countries: Sequence[CountryReport]) -> list[Land]:
    """All countries in the order of drawing: dots last, so that nothing covers them."""
    numbers = {country.stream: number for number, country in enumerate(countries)}
    drawn = []
    for fips, outline in outlines().items():
        number = numbers.get(fips)
        if number is None:
            if outline.path:
                drawn.append(Land(outline.path, None, None, "", "none", ""))
            continue
        country = countries[number]
        value = country.conflict_surge
        shade = "known" if value is None else marks.step(value, marks.SEQUENTIAL, "q")
        forecast = "no forecast" if value is None else marks.percent(value)
        words = f"{clean(country.name, 48)}: {forecast}"
        link = anchor(country.stream)
        drawn.append(Land(outline.path, outline.dot, number, link, shade, words))
    return sorted(drawn, key=lambda land: land.dot is not None)


def labels(country: CountryReport) -> dict[str, str]:
    """Labels of the country's roots by code."""
    found = {s.code: s.label for s in country.shares}
    return found | {p.code: p.label for p in country.probabilities if p.level == "root"}


class Top(NamedTuple):
    """A likely headline."""

    label: str
    chance: str


class CountryRow(NamedTuple):
    """A country in the table."""

    number: int
    anchor: str
    stream: str
    name: str
    full_name: str
    watched: bool
    surge: float | None
    surge_label: str
    shade: str
    change: float | None
    change_label: str
    top: list[Top]
    latest: list[str]
    spark: Markup
    reports: int | None


def _all_watched(report: Report) -> bool:
    """Whether a mark would tell nothing."""
    return {country.stream for country in report.countries} <= set(report.watchlist)


def line(number: int, report: Report) -> CountryRow:
    """A country's row of the table."""
    country = report.countries[number]
    names = labels(country)
    headlines = sorted(
        (p for p in country.probabilities if p.level == "root" and p.target == "headline"),
        key=lambda p: p.published,
        reverse=True,
    )
    return CountryRow(
        number=number,
        anchor=anchor(country.stream),
        stream=clean(country.stream, 12),
        name=clean(country.name, 48),
        full_name=clean(country.name, 400),
        watched=country.stream in report.watchlist and not _all_watched(report),
        surge=country.conflict_surge,
        surge_label=clean(names.get(country.conflict_code or "", country.conflict_code or ""), 48),
        shade=marks.step(country.conflict_surge, marks.SEQUENTIAL, "q"),
        change=country.change,
        change_label=clean(names.get(country.change_code or "", country.change_code or ""), 48),
        top=[Top(clean(p.label, 48), marks.percent(p.published)) for p in headlines[:TOP]],
        latest=[clean(phrase.words, 80) for phrase in country.latest[:TOP]],
        spark=marks.sparkline(country.rows),
        reports=country.rows[-1] if country.rows else None,
    )


class SkillView(NamedTuple):
    """A line of the table of skill, with its drawing."""

    line: SkillLine
    target: str
    drawing: Markup


class WindowView(NamedTuple):
    """A stretch of judged days."""

    window: RecordWindow
    lines: list[SkillView]
    reach: float


def window(found: RecordWindow) -> WindowView:
    """A window with its intervals drawn on one scale."""
    most = marks.reach(found.lines)
    lines = [
        SkillView(line, TARGET_WORDS[line.target], marks.interval(line, most))
        for line in found.lines
    ]
    return WindowView(found, lines, most)


def calibration(record: Record) -> list[tuple[str, Markup]]:
    """A plot for each target that has bins."""
    found = []
    for target, words in TARGET_WORDS.items():
        bins = [b for b in record.calibration if b.target == target]
        if bins:
            found.append((words, marks.calibration_plot(bins)))
    return found
