"""The report's page in a real browser."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gdelphi.common.percent import percent, thousandths
from gdelphi.report import views
from gdelphi.report.page import (
    FrontEntry,
    render,
    render_front,
)
from helpers.browser import browser, is_too_wide, opened
from helpers.report_example import STREAMS, example_report
from helpers.report_hostile import hostile_report
from helpers.report_past import with_past

__all__ = ["browser"]

PHONE, DESKTOP = 380, 1280
WIDTHS = (390, 820, 1280)
SECTIONS = {"full": 8, "hostile": 7, "tomorrow": 6, "none": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages: full, without a forecast, of tomorrow alone, hostile, and the front."""
    made = tmp_path_factory.mktemp("pages")
    full = with_past(example_report(streams=tuple(STREAMS[:12]), futures=10))
    for name, report in (
        ("full", full),
        ("none", example_report(streams=tuple(STREAMS[:5]), forecast=False)),
        ("tomorrow", example_report(streams=tuple(STREAMS[:5]), futures=10, week=False)),
        ("hostile", hostile_report()),
    ):
        (made / f"{name}.html").write_text(render(report), encoding="utf-8")
    entries = [FrontEntry.of(report, "2023-03-14") for report in (full, hostile_report())]
    (made / "front.html").write_text(render_front(entries), encoding="utf-8")
    return made


def text(page: Any, selector: str) -> str:
    return str(page.inner_text(selector))


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", ["full", "none", "tomorrow", "hostile", "front"])
def test_a_page_is_quiet_and_fits(browser: Any, folder: Path, name: str, width: int) -> None:
    """Neither request, message nor dialog; nothing sticks out; all sections stand."""
    with opened(browser, folder / f"{name}.html", width=width) as (page, watch):
        assert not is_too_wide(page)
        if name != "front":
            assert page.locator("main > section").count() == SECTIONS[name]
            assert page.locator("#country article h3").count() == 1
        assert page.evaluate("window.hacked") is None
        assert watch.trouble == []


def test_every_country_of_a_hostile_report_opens_and_nothing_runs(
    browser: Any, folder: Path
) -> None:
    with opened(browser, folder / "hostile.html", width=PHONE) as (page, watch):
        names = page.locator(".choose-country option").count()
        for _ in range(names):
            page.click("button.next")
            for details in page.locator("#country details").all():
                details.evaluate("element => { element.open = true; }")
            assert page.locator("#country .fan svg").count() == 1
            assert not is_too_wide(page)
        assert page.locator("#country a[target=_blank]").count() == 0
        assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
        assert page.evaluate("window.hacked") is None
        assert "\u202e" not in page.content()
        assert watch.trouble == []


def test_the_policy_refuses_what_the_page_did_not_bring(browser: Any, folder: Path) -> None:
    """Even if escaping failed, nothing would run and nothing would be fetched."""
    with opened(browser, folder / "full.html") as (page, watch):
        page.evaluate(
            """() => {
              const script = document.createElement('script');
              script.textContent = 'window.hacked = 1';
              document.body.append(script);
              const image = document.createElement('img');
              image.src = 'https://example.org/x.png';
              document.body.append(image);
            }"""
        )
        for _ in range(600):  # messages come when the browser has time for them
            refused = sum("Content Security Policy" in message for message in watch.messages)
            if refused >= 2:
                break
            page.wait_for_timeout(100)
        assert refused >= 2
        assert page.evaluate("window.hacked") is None


def test_the_table_sorts_and_filters(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "full.html") as (page, watch):
        first = "table.countries tbody tr:not([hidden]) th"
        page.click("table.countries thead button:has-text('Country')")
        names = page.locator(first).all_inner_texts()
        assert [n.strip(" ●") for n in names] == sorted(n.strip(" ●") for n in names)
        assert page.get_attribute("table.countries thead th", "aria-sort") == "ascending"
        page.click("table.countries thead button:has-text('Country')")
        assert page.locator(first).all_inner_texts() == names[::-1]
        page.click("table.countries thead button:has-text('surge')")
        surges = page.eval_on_selector_all(
            "table.countries tbody tr",
            "rows => rows.map(row => Number(row.cells[1].dataset.value))",
        )
        assert surges == sorted(surges, reverse=True)
        page.fill(".filter", "ken")
        assert [n.strip(" ●") for n in page.locator(first).all_inner_texts()] == ["Kenya"]
        assert "1 of 12" in text(page, ".count")
        assert watch.trouble == []


def test_a_country_is_found_by_code_alias_and_the_start_of_words(
    browser: Any, folder: Path
) -> None:
    with opened(browser, folder / "full.html") as (page, watch):
        names = "table.countries tbody tr:not([hidden]) th"
        for typed in ("ken", "KEN", "ke", "kénya"):
            page.fill(".filter", typed)
            assert "Kenya" in "".join(page.locator(names).all_inner_texts()), typed
        page.fill(".filter", "enya")  # no word begins so
        assert page.locator(names).count() == 0
        assert watch.trouble == []


def test_every_published_number_has_the_command_that_explains_it(
    browser: Any, folder: Path
) -> None:
    with opened(browser, folder / "full.html", hash="#UG") as (page, watch):
        page.locator("#country td.published .explains").first.click()
        code = page.locator("#country tbody th.event .code").first.inner_text()
        command = text(page, ".explain-line code")
        assert command == f"gdelphi explain --stream UG --event {code} --origin 2023-03-14"
        assert page.evaluate("getSelection().toString()") == command
        page.locator("#country td.within .explains").first.click()
        assert text(page, ".explain-line code").endswith(" --horizon week")
        assert page.locator("#country .past-said circle.came").count() == 30
        assert watch.trouble == []


def test_the_map_shows_what_is_followed_and_the_whole_if_asked(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "tomorrow.html") as (page, watch):
        box = page.get_attribute(".world svg", "viewBox")
        whole = page.get_attribute(".world svg", "data-whole")
        assert box != whole and float(box.split()[2]) < 960
        page.click(".map-zoom")
        assert page.get_attribute(".world svg", "viewBox") == whole
        fill = page.evaluate("getComputedStyle(document.querySelector('path.land.none')).fill")
        assert "hatch" in fill
        assert watch.trouble == []


def test_a_country_opens_by_click_hash_map_and_list(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "full.html", hash="#UG") as (page, watch):
        assert "Uganda" in text(page, "#country h3")
        page.click("table.countries a:has-text('Kenya')")
        page.wait_for_selector("#country h3:has-text('Kenya')")
        assert page.evaluate("location.hash") == "#KE"
        page.click("button.next")
        assert "Uganda" in text(page, "#country h3")
        page.click("button.previous")
        page.select_option(".choose-country", label="Egypt")
        assert "Egypt" in text(page, "#country h3")
        page.focus("a.land[href='#SO']")
        page.keyboard.press("Enter")
        page.wait_for_selector("#country h3:has-text('Somalia')")
        assert page.evaluate("location.hash") == "#SO"
        assert watch.trouble == []


def test_map_and_targets_can_be_chosen(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "full.html", hash="#KE") as (page, watch):
        land = "a.land[href='#KE']"
        assert " q" in page.get_attribute(land, "class")
        page.select_option(".map-what", label="14 Protest")
        page.select_option(".map-how", "surge-usual")
        assert " d" in page.get_attribute(land, "class")
        assert "points" in page.get_attribute(land, "aria-label")
        assert "Protest" in text(page, ".map-title")
        page.hover(land)
        assert "Kenya" in text(page, ".tooltip")
        before = text(page, "table.probabilities tbody")
        page.click("button[data-target=surge]")
        assert text(page, "table.probabilities tbody") != before
        assert watch.trouble == []


def test_the_numbers_drawn_are_those_of_the_report(browser: Any, folder: Path) -> None:
    """The way through embedded data and script loses and mixes nothing."""
    country = example_report(streams=("KE",), futures=10).countries[0]
    surges = [p for p in country.probabilities if p.target == "surge" and p.level == "root"]
    expected = {p.code: round(p.published * 1000) for p in surges}
    with opened(browser, folder / "full.html", hash="#KE") as (page, _):
        page.click("button[data-target=surge]")
        drawn = page.eval_on_selector_all(
            "table.probabilities tbody tr",
            "rows => rows.map(({cells}) => [cells[0].dataset.value, +cells[2].dataset.value])",
        )
        assert dict(drawn[:20]) == expected
        assert page.locator("#country .fan circle.point").count() == 10 * 9
        assert page.locator("#country .events a").first.get_attribute("href").startswith("https:")


def test_the_script_rounds_as_everything_else_does(browser: Any, folder: Path) -> None:
    script = (files("gdelphi.report") / "templates" / "base.js").read_text(encoding="utf-8")
    rules = script[script.index("function percent") : script.index("const way")]
    numbers = list(range(-1000, 1001))
    with opened(browser, folder / "full.html", width=DESKTOP) as (page, _):
        shown, signed = page.evaluate(
            f"numbers => {{ {rules} return [numbers.map(percent), numbers.map(points)]; }}", numbers
        )
    assert shown[1000:] == [percent(number / 1000) for number in numbers[1000:]]
    assert signed == [views.points(number / 1000) for number in numbers]


def test_dark_is_the_machines_choice_or_the_readers(browser: Any, folder: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, folder / "full.html", color_scheme="dark") as (page, watch):
        dark = page.evaluate(paper)
        page.click("button.theme")
        light = page.evaluate(paper)
        assert (dark, light) == ("rgb(20, 22, 26)", "rgb(251, 250, 247)")
        assert watch.trouble == []


def test_on_paper_all_countries_are_there_and_no_controls(browser: Any, folder: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, folder / "full.html", color_scheme="dark") as (page, watch):
        dark = page.evaluate(paper)
        page.evaluate("window.print = () => window.dispatchEvent(new Event('beforeprint'))")
        page.click(".print-all-countries")
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(paper) == "rgb(255, 255, 255)"
        assert page.locator("#all-countries article:visible").count() == 12
        controls = "select:visible, input:visible, :not(th) > button:not(.explains):visible"
        assert page.locator(controls).count() == 0
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("#all-countries article").count() == 0
        page.emulate_media(media="screen", color_scheme="dark")
        assert page.evaluate(paper) == dark
        assert watch.trouble == []


def test_what_is_printed_without_asking_is_two_pages(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "full.html") as (page, watch):
        printed = page.pdf(format="A4", margin={"top": "1.2cm", "bottom": "1.2cm"})
        assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 2
        assert watch.trouble == []


def test_without_script_the_overview_stands(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "full.html", java_script_enabled=False) as (page, _):
        assert page.locator("ol.changes > li").count() == 10
        assert page.locator("a.land[class*=' q']").count() >= 10
        assert page.locator("table.countries tbody tr").count() == 12
        assert page.locator(".controls:visible").count() == 0
        assert "report.md" in text(page, "noscript")


# --- the week -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_screen_is_the_next_seven_days(browser: Any, folder: Path, width: int) -> None:
    """Three sentences within the first screen, the list right below them, also on a telephone."""
    week = example_report(streams=tuple(STREAMS[:12]), futures=10).week
    assert week is not None
    with opened(browser, folder / "full.html", width=width) as (page, watch):
        for number, sentence in enumerate(week.sentences):
            line = page.locator("ol.answers > li").nth(number)
            assert line.is_visible() and line.inner_text() == sentence
            box = line.bounding_box()
            assert box["y"] + box["height"] < 900
        yesterday = page.locator("#section-yesterday").bounding_box()
        assert yesterday["y"] < 900  # it begins on the first screen
        assert page.locator("ol.unusual > li:visible").count() == len(week.unusual)
        first = page.locator("ol.unusual > li").first
        assert week.unusual[0].name in first.inner_text()
        assert percent(week.unusual[0].events[0].published) in first.inner_text()
        assert first.bounding_box()["y"] > yesterday["y"]
        for part in ("#escalations", "#onsets", "#week-record"):
            assert page.locator(part).is_visible()
        assert not is_too_wide(page)
        assert watch.trouble == []


@pytest.mark.parametrize("width", [WIDTHS[0], WIDTHS[-1]])
def test_a_countrys_week_is_a_strip_of_days(browser: Any, folder: Path, width: int) -> None:
    """Its numbers are those of the report, of the target that is chosen; nothing sticks out."""
    report = example_report(streams=tuple(STREAMS[:12]), futures=10)
    week = next(country.week for country in report.countries if country.stream == "UG")
    assert week is not None
    with opened(browser, folder / "full.html", width=width, hash="#UG") as (page, watch):
        assert "Wed" in text(page, "#country table.strip thead")
        page.click("button[data-week-target=surge]")
        drawn = page.eval_on_selector_all(
            "#country table.strip tbody tr",
            "rows => rows.map(({cells}) => [...cells].slice(1).map((cell) => +cell.dataset.value))",
        )
        roots = [root for root in week.roots if root.code in week.shown]
        assert drawn == [
            [thousandths(one.published or 0) for one in (*target.days, target.within)]
            for target in (root.targets[2] for root in roots)
        ]
        words = text(page, "#country table.strip tbody")
        for root in roots:
            share = percent(root.weight)
            assert f"{root.possible} of 100 possible weeks have it, {share} of the weight" in words
        assert not is_too_wide(page)
        right = "element => element.getBoundingClientRect().right"
        assert page.locator("#country table.strip").evaluate(right) <= width
        assert watch.trouble == []


def test_without_a_week_the_page_says_so_and_has_no_strip(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "tomorrow.html", width=WIDTHS[0]) as (page, watch):
        assert "speaks of tomorrow only" in text(page, ".tomorrow-only")
        assert page.locator("#section-week, table.strip").count() == 0
        assert page.locator("ol.changes > li").count() > 0
        assert watch.trouble == []


def test_charts_are_saved_from_a_page_in_a_folder(browser: Any, folder: Path) -> None:
    """Both kinds, of what the script draws and of what the page brings, without a server."""
    with opened(browser, folder / "full.html") as (page, watch):
        name = text(page, "#country h3 bdi")
        for place, beginning in (
            (".past-said figure", f"{name}: Protest"),
            ("#country .fan", f"{name}: possible days"),
            (".world", "Conflict: any surge within the week"),
            (".calibrations figure", "Said and come"),
        ):
            with page.expect_download() as waited:
                page.locator(f"{place} .save button").first.click()
            saved = Path(waited.value.path()).read_text(encoding="utf-8")
            root = ElementTree.fromstring(saved)
            assert str(root[0].text).startswith(beginning)
            assert waited.value.suggested_filename.endswith(".svg")
            assert "var(" not in saved and "href" not in saved
            assert 'class="' not in saved
        with page.expect_download() as waited:
            page.locator(".past-said figure .save button").nth(1).click()
        picture = Path(waited.value.path()).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert waited.value.suggested_filename.endswith("-timeline-14.png")
        assert watch.messages + watch.dialogs == []
