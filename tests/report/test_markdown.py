"""report.md: readable, and nothing in it is obeyed."""

import re

import pytest

from gdelphi.report.content import MEASURES_NEWS, Report
from gdelphi.report.markdown import markdown
from gdelphi.report.markdown_text import escape
from helpers.report_example import example_report
from helpers.report_hostile import hostile_report


@pytest.fixture(scope="module")
def report() -> Report:
    return example_report(streams=("KE", "UP"))


def test_the_document_says_what_the_page_must(report: Report) -> None:
    text = markdown(report)
    assert MEASURES_NEWS in text
    for banner in report.banners:
        assert f"> **{banner}**" in text
    assert report.record.verdict in text
    assert "complete at 2023-03-15 00:17 UTC" in text
    assert "forecast made: 2023-03-15 04:02 UTC" in text
    assert text.count("\n## Kenya (KE)\n") == 1
    change = report.changes[0]
    assert f"1. **{change.name}: {change.label}** as" in text
    assert f"   - {change.reasons[0]}" in text
    assert "<https://example.org/news/2023/03/a-report?id=1&x=2>" in text
    assert "- 2023-01-31: the archive does not have it" in text
    assert "model: 51f0a9aa73d1c2e4" in text
    assert "\n\n\n" not in text


def test_tables_have_as_many_cells_as_their_heads(report: Report) -> None:
    """Every row as its head: of what is unusual, of a country's week, of headlines, of skill."""
    rows = [line.replace(r"\|", "") for line in markdown(report).splitlines()]
    lengths = {line.count("|") for line in rows if line.startswith("|")}
    assert lengths == {6, 12, 8, 9}


def test_without_a_forecast_none_is_spoken_of() -> None:
    text = markdown(example_report(streams=("KE",), forecast=False))
    assert text.startswith("# gdelphi morning report: Tuesday 2023-03-14\n")
    assert "forecast made" not in text
    assert "The last day in brief" in text
    assert "largest changes" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](javascript:b)", r"\[a\](javascript:b)"),
        ("<img src=x>", r"\<img src=x\>"),
        ("a|b", r"a\|b"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("0.1.0", "0.1.0"),
        ("two\n\nlines", "two lines"),
        ("2023-03-14 (plain)", "2023-03-14 (plain)"),
        ("`a` *b* _c_", r"\`a\` \*b\* \_c\_"),
    ],
)
def test_marks_are_shown_as_they_are(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_hostile_text_makes_no_link_tag_or_heading() -> None:
    text = markdown(hostile_report())
    assert not re.search(r"(?<!\\)<(?!https?://)", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    plain = [line for line in markdown(example_report()).splitlines() if line.startswith("#")]
    assert len(headings) == len(plain) - 25  # six countries in place of thirty-one


def test_commands_in_our_own_sentences_stay_commands(report: Report) -> None:
    changed_report = report.model_copy(update={"banners": ["Run `gdelphi score` now, a_b."]})
    assert r"> **Run `gdelphi score` now, a\_b.**" in markdown(changed_report)
