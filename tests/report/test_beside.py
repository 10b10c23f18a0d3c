"""A report beside that of a week before, from a folder and without a server."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gdelphi.report.beside import BESIDE, EarlierReport, beside_page, rows_of
from gdelphi.report.content import Report
from gdelphi.report.page import render
from helpers.browser import browser, is_too_wide, opened
from helpers.report_example import STREAMS, example_report

__all__ = ["browser"]

WEEK = timedelta(days=7)


@pytest.fixture(scope="module")
def now() -> Report:
    return example_report(streams=tuple(STREAMS[:4]), futures=2)


@pytest.fixture(scope="module")
def folder(now: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two reports, and the page beside the newer one."""
    out = tmp_path_factory.mktemp("reports")
    moved = {"origin": now.origin - WEEK, "target_day": now.target_day - WEEK}
    before = now.model_copy(update={**moved, "countries": now.countries[:3]})
    for report in (before, now):
        place = out / str(report.origin)
        place.mkdir()
        (place / "report.json").write_text(report.model_dump_json(), encoding="utf-8")
        (place / "index.html").write_text(render(report), encoding="utf-8")
    page = beside_page(now, out, before.origin)
    (out / str(now.origin) / BESIDE).write_text(page, encoding="utf-8")
    return out


@pytest.mark.parametrize("width", [390, 1280])
def test_a_country_is_opened_in_both_reports(
    browser: Any, folder: Path, now: Report, width: int
) -> None:
    with opened(browser, folder / str(now.origin) / BESIDE, width=width) as (page, watch):
        assert not is_too_wide(page)
        country = now.countries[2]
        page.click(f"a[data-anchor='#{country.stream}']")
        frames = [page.frame_locator("iframe").nth(number) for number in (0, 1)]
        for frame in frames:
            frame.locator(f"#country h3 bdi:has-text('{country.name}')").wait_for()
        days = [Path(frame.url.split("#")[0]).parent.name for frame in page.frames[1:]]
        assert days == [str(now.origin - WEEK), str(now.origin)]
        assert watch.messages + watch.dialogs == []


def test_the_largest_change_stands_first_and_strangers_last(now: Report) -> None:
    said = [0.2, 0.9, 0.5]
    earlier = EarlierReport.model_validate(
        {
            "countries": [
                {"stream": country.stream, "week": {"conflict": {"published": value}}}
                for country, value in zip(now.countries, said, strict=False)
            ]
        }
    )
    rows = rows_of(now, earlier)
    changes = [abs(row.change) for row in rows if row.change is not None]
    assert changes == sorted(changes, reverse=True) and len(changes) == 3
    assert rows[-1].before is None
    stranger = now.countries[3]
    assert rows[-1].name == stranger.name
    weeks = {c.name: c.week.conflict.published for c in now.countries if c.week and c.week.conflict}
    assert {row.name: row.now for row in rows} == weeks


def test_a_report_that_cannot_be_read_is_shown_and_not_compared(
    now: Report, tmp_path: Path
) -> None:
    day = now.origin - WEEK
    (tmp_path / str(day)).mkdir()
    (tmp_path / str(day) / "report.json").write_text("{")
    page = beside_page(now, tmp_path, day)
    assert f'src="../{day}/index.html"' in page
    assert all(row.change is None for row in rows_of(now, None))
