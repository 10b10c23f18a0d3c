"""The report's pages as text: what stands in them, and what cannot."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from gdelphi.common.percent import percent
from gdelphi.report import views
from gdelphi.report.content import DataGap
from gdelphi.report.outlines import (
    HEIGHT,
    WIDTH,
    natural_earth,
    outlines,
)
from gdelphi.report.page import (
    FrontEntry,
    render,
    render_front,
)
from gdelphi.report.payload import kind, payload
from gdelphi.report.plain import (
    anchor,
    one_line,
    script_json,
    web_address,
    with_code,
)
from helpers.report_example import STREAMS, example_report
from helpers.report_hostile import HOSTILE, LONG, hostile_report


class Reader(HTMLParser):
    """Elements, attributes and inline texts of a page, as a browser would take them apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self._within: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.inline:
            self.inline[tag].append("")
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within in self.inline:
            self.inline[self._within][-1] += data

    def addresses(self) -> set[str]:
        return {
            value
            for _, attributes in self.tags
            for name, value in attributes.items()
            if name in ("href", "src", "action", "xlink:href", "srcset", "data") and value
        }


@pytest.fixture(scope="module")
def full() -> str:
    return render(example_report())


@pytest.fixture(scope="module")
def hostile() -> str:
    return render(hostile_report())


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z-]+)"', page)


# --- what is there --------------------------------------------------------------------------------


def test_the_masthead_says_when_and_how_good(full: str) -> None:
    report = example_report()
    for words in (
        "Wednesday 15 March 2023",
        "15 March 2023, 00:17 UTC",
        "15 March 2023, 04:02 UTC",
        "15 March 2023, 04:06 UTC",
        report.banners[0],
        report.record.verdict,
        report.note,
    ):
        assert words in full
    assert full.index(report.record.verdict) < full.index('id="section-changes"')


def test_all_sections_stand_and_the_table_has_every_country(full: str) -> None:
    assert sections(full) == [
        f"section-{name}"
        for name in ("week", "changes", "map", "countries", "country", "record", "data")
    ]
    assert len(re.findall(r"<tr data-index=", full)) == len(STREAMS)
    assert full.count('class="land q') == len(STREAMS)


def test_a_model_without_skill_is_told_at_the_top() -> None:
    report = example_report(streams=("KE",))
    record = report.record.model_copy(
        update={"skilful": False, "verdict": "No better than the baselines."}
    )
    page = render(report.model_copy(update={"record": record, "stale": True, "hindsight": True}))
    top = page[: page.index('id="section-changes"')]
    for words in ("No skill over the baselines", "No better than", "Stale", "Made in hindsight"):
        assert words in top


def test_a_report_without_forecast_shows_what_is_there() -> None:
    page = render(example_report(streams=("KE", "UG"), forecast=False))
    assert "No forecast for" in page
    assert "Nothing judged yet" in page
    assert "section-changes" not in sections(page)
    assert "Traceback" not in page


def test_data_are_called_complete_only_where_nothing_of_the_day_is_missing() -> None:
    report = example_report(streams=("KE",), futures=2).model_copy(
        update={"missing": [], "partial": False}
    )
    assert "Data complete" in render(report)
    gap = DataGap(first=report.origin, last=report.origin, why="2 files are missing")
    cut = render(report.model_copy(update={"missing": [gap]}))
    assert "Last file loaded" in cut and "Data complete" not in cut


def test_a_report_without_countries_is_a_page() -> None:
    assert sections(render(example_report(streams=(), forecast=False)))[-1] == "section-data"


def test_a_backtest_is_called_one(full: str) -> None:
    assert "Backtest, not published forecasts" in full


def test_fifty_countries_with_a_hundred_futures_stay_below_three_megabytes() -> None:
    """Weight for each country beyond those of a small page, times fifty."""
    small, large = (
        len(render(example_report(streams=tuple(STREAMS[:count]), futures=100)).encode())
        for count in (2, 4)
    )
    assert small + 48 * (large - small) / 2 < 3_000_000


def test_the_front_page_lists_the_newest_first_and_links_to_folders() -> None:
    report = example_report(streams=tuple(STREAMS[:12]))
    older = report.model_copy(update={"origin": report.days[-2], "target_day": report.origin})
    page = render_front([FrontEntry.of(older, "2023-03-13"), FrontEntry.of(report, "2023-03-14")])
    links = re.findall(r'href="([^"]+/index\.html)"', page)
    assert links == ["2023-03-14/index.html", "2023-03-13/index.html"]
    assert report.banners[0] in page
    assert page.count("Make public statement") == 2
    assert "There is no report yet" in render_front([])


# --- what cannot be there -------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["full", "hostile", "front"])
def test_the_policy_names_the_hash_of_what_is_inlined(
    page: str, request: pytest.FixtureRequest
) -> None:
    text = render_front([]) if page == "front" else request.getfixturevalue(page)
    reader = Reader(text)
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv")) or ""
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    runs = [s for s in reader.inline["script"] if not s.startswith("{")]
    assert len(runs) == len(reader.inline["style"]) == 1
    for directive, inlined in (("script", runs[0]), ("style", reader.inline["style"][0])):
        digest = base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()
        assert f"{directive}-src 'sha256-{digest}';" in policy


@pytest.mark.parametrize("page", ["full", "hostile"])
def test_no_style_or_event_attribute_and_no_address_beyond_the_reports(
    page: str, request: pytest.FixtureRequest
) -> None:
    reader = Reader(request.getfixturevalue(page))
    for _, attributes in reader.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    for address in reader.addresses():
        assert re.fullmatch(r"#.*|(\.\./|charts/)?[a-z_]+\.(html|json|md|csv|xml|svg)", address), (
            address
        )


def test_hostile_text_stays_text(hostile: str) -> None:
    reader = Reader(hostile)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not {tag for tag, _ in reader.tags} & {
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    assert sections(hostile) == sections(render(example_report(streams=("KE",))))
    assert "\u202e" not in hostile
    assert "\u2028" not in hostile
    assert "{{ 7*7 }}" in hostile
    assert "javascript:" not in hostile.replace("javascript:window.hacked=4", "", 10_000)


def test_endless_names_are_cut(hostile: str) -> None:
    assert LONG not in hostile
    assert max(map(len, re.findall("N+", hostile))) <= 400


def test_embedded_data_is_json_that_no_text_can_end(hostile: str) -> None:
    reader = Reader(hostile)
    data = next(text for text in reader.inline["script"] if text.startswith("{"))
    assert not set("<>&\u2028\u2029") & set(data)
    country = json.loads(data)["countries"][0]
    assert country["brief"][0][1].startswith("<script>window.hacked=1</script>")
    assert all(e["address"] is None for event in country["events"] for e in event["evidence"])
    assert json.loads(script_json({HOSTILE: [HOSTILE]})) == {HOSTILE: [HOSTILE]}


@pytest.mark.parametrize(
    ("source", "linked"),
    [
        ("https://example.org/a?b=c&d=é", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        (" https://example.org", False),
        ("https://exam\nple.org", False),
        ("data:text/html,<b>", False),
        ("//example.org/x", False),
        ("https:///nowhere", False),
        ("http://[broken", False),
        ('https://example.org/"onclick="x', False),
        ("https://example.org/\u202etxt.exe", False),
        ("https://example.org/" + "x" * 3000, False),
        ("BBC Monitoring", False),
        ("", False),
        (None, False),
    ],
)
def test_only_whole_web_addresses_become_links(source: str | None, linked: bool) -> None:
    assert web_address(source) == (source if linked else None)


def test_clean_text_is_one_line_that_turns_nothing_around() -> None:
    assert one_line("a\u202eb\n\x00 c\u2066") == "ab c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert one_line("\ud800") == "?"
    assert str(with_code("run `a <b>` & see")) == "run <code>a &lt;b&gt;</code> &amp; see"
    assert str(with_code("one ` only <")) == "one ` only &lt;"
    assert anchor('"#<é') == "#%22%23%3C%C3%A9"


# --- numbers --------------------------------------------------------------------------------------


def test_numbers_are_never_certain_and_differences_have_signs() -> None:
    assert [percent(v) for v in (None, 0.0, 0.004, 0.344, 0.996, 1.0)] == [
        *("–", "<1%", "<1%", "34%", ">99%", ">99%")
    ]
    assert [views.points(v) for v in (None, 0.004, 0.12, -0.12)] == ["–", "0", "+12", "−12"]
    assert [views.signed_percent(v) for v in (0.0, 0.0123, -0.0123)] == ["0.0%", "+1.2%", "−1.2%"]


def test_colours_are_steps_of_the_scale() -> None:
    steps = [views.colour(v, views.SEQUENTIAL, "q") for v in (None, 0.0, 0.1, 0.49, 0.5, 1.0)]
    assert steps == ["none", "q0", "q1", "q4", "q5", "q5"]


def test_a_day_without_data_is_a_gap_in_the_line() -> None:
    assert str(views.sparkline([1, 2, None, 4])).count("M") == 2
    assert 'd=""' in str(views.sparkline([None, None]))


def test_codes_have_their_class() -> None:
    assert [
        kind(code) for code in ("01", "057", "08", "09", "138", "14", "203", "21", "x²", "")
    ] == [*(0, 0, 1, 2, 2, 3, 3, 4, 4, 4)]


def test_embedded_numbers_are_thousandths_of_the_reports() -> None:
    report = example_report(streams=("KE",), futures=3)
    country, short = report.countries[0], payload(report)
    line = short["countries"][0]["probabilities"][13]
    assert short["codes"][line[0]][0] == "14"
    said = next(p for p in country.probabilities if p.code == "14" and p.target == "surge")
    assert line[3][:2] == [round(said.published * 1000), round((said.stack or 0) * 1000)]
    assert country.fan is not None
    point = country.fan.futures[2].points[0]
    assert short["countries"][0]["fan"]["futures"][2][2][0] == round(point.x * 1000)


# --- colours --------------------------------------------------------------------------------------


def schemes() -> list[dict[str, str]]:
    """Colours of the light scheme, the chosen dark one, and the machine's dark one."""
    css = (resources.files("gdelphi.report") / "templates" / "base.css").read_text()
    blocks = re.findall(r":root[^{,]*\{([^}]*--paper[^}]*)\}", css)[:3]
    return [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_can_be_read_in_both_schemes() -> None:
    """WCAG AA: 4.5 for words, 3 for marks."""
    light, dark, machine = schemes()
    assert dark == machine
    for scheme in (light, dark):
        for name in ("ink", "quiet", "link", "accent", "more", "less", "warn"):
            for ground in ("paper", "sheet", "faint"):
                assert contrast(scheme[name], scheme[ground]) >= 4.5, (name, ground)
        assert contrast(scheme["warn"], scheme["warn-paper"]) >= 4.5
        for name in ("k0", "k1", "k2", "k3", "k4"):
            assert contrast(scheme[name], scheme["sheet"]) >= 3, name


def test_scales_go_one_way_in_lightness() -> None:
    """So that they are read without seeing hues."""
    for scheme in schemes()[:2]:
        ladder = [luminance(scheme[f"q{number}"]) for number in range(6)]
        assert ladder in (sorted(ladder), sorted(ladder, reverse=True))
        ends = [luminance(scheme[f"d{number}"]) for number in range(7)]
        for side in (ends[:4], ends[3:]):
            assert side in (sorted(side), sorted(side, reverse=True))


# --- the map --------------------------------------------------------------------------------------


def test_the_projection_has_its_published_values() -> None:
    """Natural Earth: the poles are lines of half the equator's length; the sides are symmetric."""
    assert natural_earth(180.0, 0.0)[0] == pytest.approx(0.8707 * 3.14159265, rel=1e-6)
    assert natural_earth(0.0, 90.0)[1] == pytest.approx(1.4224, abs=1e-3)
    assert natural_earth(-30.0, -40.0) == tuple(-v for v in natural_earth(30.0, 40.0))


def test_the_world_is_drawn_small_whole_and_within_the_frame() -> None:
    drawn = outlines()
    assert sum(len(outline.path) for outline in drawn.values()) < 150_000
    assert {"KE", "RS", "HU", "RI", "BM", "KV", "WE", "GZ", "SN"} <= drawn.keys()
    assert "AY" not in drawn  # Antarctica
    assert drawn["SN"].dot is not None
    for outline in drawn.values():
        for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", outline.path.replace("-", " -")):
            assert -1 <= float(x) <= WIDTH + 1
            assert -1 <= float(y) <= HEIGHT + 60


def test_a_path_comes_back_to_its_points() -> None:
    """Relative steps with their zeros left out still lead where the points are."""
    path = outlines()["KE"].path
    numbers = [float(n) for n in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", path)]
    xs = [sum(numbers[0 : 2 * n + 1 : 2]) for n in range(len(numbers) // 2)]
    ys = [sum(numbers[1 : 2 * n + 2 : 2]) for n in range(len(numbers) // 2)]
    assert (min(xs), max(xs)) == pytest.approx((569, 591), abs=4)
    assert (min(ys), max(ys)) == pytest.approx((222, 262), abs=6)
