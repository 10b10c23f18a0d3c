"""Charts as files: whole by themselves, with the report's own numbers, and safe."""

import struct
import sys
from xml.etree import ElementTree

import pytest

from gdelphi.common.errors import ReportError
from gdelphi.common.percent import percent
from gdelphi.report.charts import chart_files, chart_png
from gdelphi.report.content import Report
from helpers.report_example import STREAMS, example_report
from helpers.report_hostile import hostile_report
from helpers.report_past import with_past

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> Report:
    return with_past(example_report(streams=tuple(STREAMS[:3]), futures=2))


@pytest.fixture(scope="module")
def files(report: Report) -> dict[str, str]:
    return chart_files(report)


def words_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_country_has_its_week_and_time_line(files: dict[str, str], report: Report) -> None:
    streams = [country.stream for country in report.countries]
    wanted = {f"charts/{stream}-{kind}.svg" for stream in streams for kind in ("week", "timeline")}
    others = {f"charts/calibration-{target}.svg" for target in ("occurs", "headline", "surge")}
    assert set(files) == {*wanted, *others, "charts/map.svg"}


def test_a_chart_needs_nothing_but_itself_and_has_both_schemes(files: dict[str, str]) -> None:
    for svg in files.values():
        tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
        assert not tags & {"script", "image", "a", "use", "foreignObject"}
        assert "href" not in svg
        assert "@media(prefers-color-scheme:dark)" in svg
        assert "var(" not in svg


def test_numbers_are_those_of_the_report(files: dict[str, str], report: Report) -> None:
    country = report.countries[0]
    assert country.week
    words = words_of(files[f"charts/{country.stream}-week.svg"])
    for root in country.week.roots:
        if root.code in country.week.shown:
            chance = next(one.within for one in root.targets if one.target == "headline")
            said = f"{percent(chance.published)}, usually {percent(chance.usual)}"
            assert words[words.index(root.label) + 1] == said
    past = words_of(files[f"charts/{country.stream}-timeline.svg"])
    assert "came 30, expected 12.0" in past  # of 60 days, each said with a fifth


def test_hostile_text_stays_text_and_out_of_file_names() -> None:
    report = hostile_report()
    files = chart_files(report)
    assert all(name.isascii() and ".." not in name and name.count("/") == 1 for name in files)
    for svg in files.values():
        tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
        assert "script" not in tags


def test_a_report_without_a_forecast_has_calibration_at_most() -> None:
    bare = chart_files(example_report(streams=tuple(STREAMS[:2]), forecast=False))
    assert {name.split("/")[1].split("-")[0] for name in bare} <= {"calibration"}


def test_a_picture_has_1280_points_across(files: dict[str, str]) -> None:
    picture = chart_png(next(text for name, text in files.items() if name.endswith("-week.svg")))
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20]) == (1280,)


def test_without_resvg_a_picture_is_refused_with_the_remedy(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ReportError, match=r"gdelphi\[png\]"):
        chart_png(files["charts/map.svg"])
