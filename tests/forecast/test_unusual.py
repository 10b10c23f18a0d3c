"""The week of a stored forecast: read as it was written, and ranked by one number."""

import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gdelphi.forecast import stored_week
from gdelphi.forecast.stored_week import Chances, StoredWeek, read_week
from gdelphi.forecast.summary import summarise_forecast
from gdelphi.forecast.unusual import (
    CONFLICT,
    FEWEST_ROWS,
    LEAST,
    RANKED,
    bits,
    escalating,
    most_unusual,
    onsets,
    ranked_cells,
    unusual_roots,
    unusual_streams,
)
from helpers.report_week import ROOTS, example_week
from helpers.report_world import recipe_at, stored

ORIGIN = date(2023, 3, 14)
STREAMS = ("KE", "UG", "SO")


@pytest.fixture(scope="module")
def said() -> StoredWeek:
    return example_week(STREAMS, ORIGIN)


def chances(published: float | None, usual: float | None) -> Chances:
    return Chances(published, None, None, usual)


# --- reading --------------------------------------------------------------------------------------


def test_what_is_read_is_what_was_stored(tmp_path: Path, said: StoredWeek) -> None:
    forecast = stored(tmp_path, recipe_at(ORIGIN, STREAMS, week=True))
    read = read_week(forecast)
    assert read is not None
    assert read.days[0] == date(2023, 3, 15) and len(read.days) == 7
    undefined = ("KE", ROOTS[-1], "surge")
    assert read.cells[undefined].within == stored_week.UNDEFINED
    assert read.cells[undefined].best_day is None
    own = {key: cell for key, cell in said.cells.items() if key[1:] != undefined[1:]}
    assert {key: read.cells[key] for key in own} == own
    assert read.rows == said.rows
    assert set(read.escalations) == set(STREAMS[:-1])  # it is not asked of the last
    assert read.possible["KE", "01"] == (4, 4, 1.0)
    assert read.possible["KE", "19"] == (1, 4, 0.25)


def test_a_forecast_of_tomorrow_alone_has_no_week(tmp_path: Path) -> None:
    forecast = stored(tmp_path, recipe_at(ORIGIN, STREAMS))
    assert read_week(forecast) is None
    assert summarise_forecast(forecast).week is None


def test_the_best_day_is_the_likeliest(said: StoredWeek) -> None:
    for cell in said.cells.values():
        assert cell.best_day is not None
        most = max(day.published or 0 for day in cell.days)
        assert cell.days[cell.best_day].published == most


# --- what is unusual ------------------------------------------------------------------------------


def test_bits_are_the_expected_gain_in_log_score() -> None:
    expected = 0.5 * math.log2(0.5 / 0.2) + 0.5 * math.log2(0.5 / 0.8)
    assert bits(chances(0.5, 0.2)) == pytest.approx(expected)
    assert bits(chances(0.3, 0.3)) == 0
    assert bits(chances(0.1, 0.4)) < 0 < bits(chances(0.4, 0.1))
    assert bits(chances(None, 0.4)) == bits(chances(0.4, None)) == 0
    assert 0 < bits(chances(0.02, 0.01)) < LEAST < bits(chances(0.4, 0.2))
    assert math.isfinite(bits(chances(1.0, 0.0)))


def test_streams_are_ranked_by_one_joint_number(said: StoredWeek) -> None:
    ranked = unusual_streams(said)
    worth = {stream: bits(said.conflict[stream]) for stream in STREAMS}
    assert [one.stream for one in ranked] == sorted(
        (stream for stream in STREAMS if worth[stream] >= LEAST), key=lambda each: -worth[each]
    )
    assert [one.chances for one in ranked] == [said.conflict[one.stream] for one in ranked]
    # One noisy event of six, however large, does not move a country up.
    last = ranked[-1].stream
    key = (last, "19", "surge")
    noisy = replace(said.cells[key], within=chances(0.98, 0.02))
    again = unusual_streams(replace(said, cells={**said.cells, key: noisy}))
    assert [one.stream for one in again] == [one.stream for one in ranked]


def test_without_it_streams_are_ranked_by_the_sum_over_conflict(said: StoredWeek) -> None:
    said = replace(said, conflict={})
    ranked = unusual_streams(said)
    totals = {
        stream: sum(bits(cell.within) for cell in ranked_cells(said, stream)) for stream in STREAMS
    }
    assert [one.stream for one in ranked] == sorted(
        (stream for stream in STREAMS if totals[stream] >= LEAST), key=lambda each: -totals[each]
    )
    for one in ranked:
        assert one.bits == pytest.approx(totals[one.stream])
        amounts = [bits(cell.within) for cell in one.cells]
        assert amounts == sorted(amounts, reverse=True) and amounts[-1] >= LEAST
        assert {cell.code for cell in one.cells} <= set(CONFLICT)
        assert {cell.target for cell in one.cells} <= set(RANKED)


def test_events_that_hardly_come_are_left_out(said: StoredWeek) -> None:
    rare = {key: rows._replace(usual=(0.01,) * 7) for key, rows in said.rows.items()}
    assert unusual_streams(replace(said, rows=rare)) == []
    assert most_unusual(replace(said, rows=rare)) == []
    for stream in STREAMS:
        for cell in ranked_cells(said, stream, conflict=False):
            assert said.rows[stream, cell.code].usual_within >= FEWEST_ROWS


def test_onsets_are_all_quiet_cells_the_likeliest_first(said: StoredWeek) -> None:
    quiet = onsets(said)
    assert {(cell.stream, cell.code) for cell in quiet} == {
        key for key, rows in said.rows.items() if rows.onset
    }
    amounts = [cell.within.published or 0 for cell in quiet]
    assert amounts == sorted(amounts, reverse=True)
    assert {cell.target for cell in quiet} == {"occurs"}


def test_escalations_are_those_above_their_usual(said: StoredWeek) -> None:
    given = {"KE": chances(0.5, 0.1), "UG": chances(0.1, 0.5), "SO": chances(0.9, 0.1)}
    found = escalating(replace(said, escalations=given))
    assert [stream for stream, _ in found] == ["SO", "KE"]


def test_a_streams_roots_are_those_furthest_from_usual_either_way(said: StoredWeek) -> None:
    chosen = unusual_roots(said, "KE", 5)
    assert chosen == sorted(chosen) and len(chosen) == 5

    def distance(code: str) -> float:
        return sum(abs(bits(cell.within)) for cell in said.of_root("KE", code))

    others = set(ROOTS) - set(chosen)
    assert min(map(distance, chosen)) >= max(map(distance, others))


def test_the_summary_has_the_week(tmp_path: Path, said: StoredWeek) -> None:
    found = summarise_forecast(stored(tmp_path, recipe_at(ORIGIN, STREAMS, week=True))).week
    assert found is not None
    assert list(found.days) == said.days
    assert set(found.streams) == set(STREAMS)
    first = found.unusual[0]
    cell = said.cells[first.stream, first.code, first.target]
    assert (first.published, first.usual) == (cell.within.published, cell.within.usual)
    assert first.days == tuple(day.published for day in cell.days)
    line = found.streams["KE"][0]
    assert line.published == said.cells["KE", line.code, "headline"].within.published
