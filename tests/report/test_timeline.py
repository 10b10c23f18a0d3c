"""What was said and what came: the last judged day, time lines, and links between days."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.report.content import CONFLICT
from gdelphi.report.day_links import days_in, links_of, next_link, tell_neighbours
from gdelphi.report.news import news_of
from gdelphi.report.page import render
from gdelphi.report.record import JudgedCells, PastForecasts
from gdelphi.report.timeline import past_said, timeline_of, yesterday_of
from helpers.measured_world import day_at, measured
from helpers.report_countries import past_of
from helpers.report_example import example_report
from helpers.report_world import write_backtest

DAY = date(2021, 3, 1)
NUMBER = 8


def judged(number: int = NUMBER) -> PastForecasts:
    """KE: fights were said with 90% and never came; protests with 5% and came on the last day."""
    cells = (("KE", "14"), ("KE", "19"), ("UG", "01"))
    said = np.tile([0.05, 0.9, 0.5], (number, 1))
    came = np.zeros((number, 3))
    came[-1, 0] = 1.0
    came[0, 2] = np.nan
    one = JudgedCells(said, np.full_like(said, 0.5), came)
    nothing = JudgedCells(*(np.full_like(said, np.nan) for _ in range(3)))
    days = tuple(DAY + timedelta(days=at) for at in range(number))
    return PastForecasts(days, cells, {"headline": one, "surge": nothing, "occurs": nothing})


def test_yesterday_begins_with_its_worst_misses() -> None:
    found = yesterday_of(judged())
    assert found is not None
    assert (found.day, found.asked, found.came) == (DAY + timedelta(days=NUMBER - 1), 3, 1)
    assert found.expected == pytest.approx(1.45)
    assert [(miss.code, miss.came) for miss in found.misses] == [("14", True), ("19", False)]
    losses = [(miss.published - miss.came) ** 2 for miss in found.misses]
    assert losses == sorted(losses, reverse=True)
    assert found.stack == pytest.approx(0.25)
    assert yesterday_of(PastForecasts((), (), {})) is None


def test_a_time_line_has_what_was_said_and_what_came(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "s.duckdb")
    said = past_said(settings, judged(), LAST)
    assert said is not None and said[0] == "forecasts"
    line = timeline_of(*said, "KE")
    assert line is not None and [each.code for each in line.lines] == ["14", "19"]
    assert line.lines[0].published == [0.05] * NUMBER
    assert line.lines[0].came == [False] * (NUMBER - 1) + [True]
    assert timeline_of(*said, "UG") is None  # nothing of conflict
    assert past_said(settings, PastForecasts((), (), {}), LAST) is None


LAST = date(2021, 6, 1)


def test_a_backtest_stands_in_while_few_forecasts_are_judged(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "s.duckdb")
    days = [DAY + timedelta(days=at) for at in range(20)]
    said = {"published": 0.7, "stack": 0.5, "simple stack": 0.5}
    write_backtest(tmp_path / "backtest", days, said, lambda *_: 1.0, first_allowed=DAY)
    found = past_said(settings, judged(2), LAST)
    assert found is not None and found[0] == "backtest"
    line = timeline_of(*found, "KE")
    assert line is not None and len(line.lines) == len(CONFLICT)
    assert all(line.lines[0].came) and len(line.days) == 20


def test_the_next_day_is_put_into_the_page_before(tmp_path: Path) -> None:
    report = example_report(streams=("KE",), futures=3)
    origin = report.origin
    later, earlier = origin + timedelta(days=1), origin - timedelta(days=7)
    for day in (earlier, origin):
        (tmp_path / str(day)).mkdir()
        links = links_of(day, days_in(tmp_path))
        (tmp_path / str(day) / "index.html").write_text(render(report, links), encoding="utf-8")
        tell_neighbours(tmp_path, day)
    first = (tmp_path / str(earlier) / "index.html").read_text(encoding="utf-8")
    assert next_link(origin) in first  # it was not there when the page was written
    second = (tmp_path / str(origin) / "index.html").read_text(encoding="utf-8")
    assert f'href="../{earlier}/index.html">← Day before' in second
    assert f'href="../{earlier}/index.html">A week before' in second
    assert next_link(None) in second and next_link(later) not in second
    assert links_of(later, [origin]).following is None
    (tmp_path / "2021-99-99").mkdir()
    (tmp_path / "2021-99-99" / "index.html").write_text("no report")
    assert days_in(tmp_path) == [earlier, origin]


def test_news_are_told_without_a_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    world = measured(tmp_path_factory)
    past = past_of(world.settings, day_at(70), world.pack.facts.streams)
    news = news_of(world.settings, past)
    assert news.reports and all(report.source for report in news.reports)
    mentions = [report.mentions for report in news.reports]
    assert mentions == sorted(mentions, reverse=True)
    assert len({report.source for report in news.reports}) == len(news.reports)
    rows = past.rows(news.volumes[0].stream)
    assert news.volumes[0].reports == rows[-1]
    assert news.volumes[0].ratio == pytest.approx(rows[-1] / news.volumes[0].usual, abs=1e-4)  # type: ignore[operator]
    gaps = [one.share - one.median for one in news.shares]
    assert gaps == sorted(gaps, reverse=True) and all(gap > 0 for gap in gaps)
    bare = example_report(streams=("KE",), forecast=False)
    page = render(bare.model_copy(update={"news": news}))
    assert "Most mentioned reports" in page and news.reports[0].words.split(" in ")[0][:20] in page
