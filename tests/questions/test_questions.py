"""Questions: answered from what is stored, by names and codes, and refused with a reason."""

import subprocess
import sys
import threading
from datetime import date, timedelta
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from gdelphi.common.errors import NothingStored, QuestionError, UnknownName
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import forecasts_folder
from gdelphi.questions.forecasts import Kept
from gdelphi.questions.names import find_events, find_horizon, find_streams
from gdelphi.questions.questions import Questions
from gdelphi.questions.shared_reading import SharedReading
from helpers.question_world import FIRST, ORIGINS, STREAMS, make_world, said, world
from helpers.report_world import recipe_at, stored

__all__ = ["world"]


@pytest.fixture
def questions(world: Settings) -> Questions:
    return Questions(world)


# --- names ----------------------------------------------------------------------------------------


def test_countries_are_found_by_code_and_name_in_any_case() -> None:
    assert find_streams(["kenya", "UKR", "ke"], STREAMS) == ("KE", "UP")
    assert find_streams([], STREAMS) == find_streams(["All"], STREAMS) == STREAMS
    with pytest.raises(UnknownName, match=r"nearest are KE \(Kenya\)"):
        find_streams(["Kenia"], STREAMS)


def test_events_are_found_by_code_name_and_class() -> None:
    assert [event.code for event in find_events("protest")] == ["14"]
    assert [event.code for event in find_events("Material Conflict")] == [
        "15", "16", "17", "18", "19", "20",
    ]  # fmt: skip
    assert len(find_events("all")) == 20
    assert find_events("0231")[0] == ("full", "0231")
    with pytest.raises(UnknownName, match="with their zeros"):
        find_events("1")


def test_horizons_are_days_or_the_week() -> None:
    assert [find_horizon(given) for given in ("week", "0", "1", 7)] == [0, 0, 1, 7]
    for wrong in ("8", "-1", "٣", "", "1.0"):
        with pytest.raises(UnknownName, match="from 1 to 7, or week"):
            find_horizon(wrong)


# --- forecasts ------------------------------------------------------------------------------------


def test_the_newest_forecast_is_meant_unless_another_is_named(questions: Questions) -> None:
    assert questions.forecast_info().origin == ORIGINS[-1]
    assert questions.forecast_info(ORIGINS[0]).scored
    assert questions.forecast_info().report == "/reports/2014-01-03/index.html"
    assert questions.forecast_info(ORIGINS[0]).report is None
    with pytest.raises(NothingStored, match="no forecast from 2014-02-01: the newest is from"):
        questions.forecast_info(date(2014, 2, 1))
    with pytest.raises(NothingStored, match="no forecast 'x'"):
        questions.forecast_info(id="x")


def test_probabilities_are_what_is_stored(questions: Questions) -> None:
    answer = questions.probabilities(streams=["Kenya"], event="fight", target="headline", horizon=1)
    (row,) = answer.rows
    assert (row.stream, row.country, row.code, row.label) == ("KE", "Kenya", "19", "Fight")
    assert row.published == pytest.approx(0.7)
    assert (row.low, row.high) == (0.2, 0.7), "the lowest and highest of the members"
    assert row.day == ORIGINS[-1] + timedelta(days=1)
    assert questions.probabilities(event="20", target="surge", horizon=1).rows[0].published is None


def test_the_week_is_told_day_by_day_and_as_a_whole(questions: Questions) -> None:
    answer = questions.probabilities(streams=["KE"], event="19", target="occurs", limit=50)
    assert sorted(row.horizon for row in answer.rows) == list(range(8))
    days = {row.horizon: row.day for row in answer.rows}
    assert days[0] == days[7] == ORIGINS[-1] + timedelta(days=7)


def test_probabilities_can_be_had_in_pages_and_in_order(questions: Questions) -> None:
    whole = questions.probabilities(level="root", horizon=1, limit=1000)
    parts = [
        questions.probabilities(level="root", horizon=1, limit=50, offset=at) for at in (0, 50)
    ]
    assert whole.total == 2 * 20 * 3
    assert whole.rows[:100] == [row for part in parts for row in part.rows]
    ordered = questions.probabilities(horizon="week", order="above usual", limit=1000).rows
    above = [row.published - row.usual for row in ordered if row.published and row.usual]
    assert above == sorted(above, reverse=True)
    assert ordered[-1].published is None, "what is undefined stands last"
    with pytest.raises(QuestionError, match="limit 0"):
        questions.probabilities(limit=0)


def test_futures_have_phrases_and_weeks_have_days(questions: Questions) -> None:
    answer = questions.futures("Ukraine", limit=2)
    assert (answer.total, len(answer.days), answer.weeks) == (4, 2, [])
    assert answer.days[0].roots == ["19"] and "Kenya" in answer.days[0].phrases[0].phrase
    weeks = questions.futures("Ukraine", week=True)
    assert weeks.days == [] and len(weeks.weeks[0].days) == 7


def test_an_explanation_leads_from_the_number_to_reports(questions: Questions) -> None:
    told = questions.explanation("KE", "19")
    assert told.about.published == pytest.approx(0.7)
    assert (told.futures, told.having, told.having_weight) == (4, 4, 1.0)
    assert told.members["ewma"] == 0.4 and told.which == "combined"
    assert [person.words for person in told.who] == ["actor1 number 1", "actor1 number 2"]
    assert told.reports[0].source == "https://news.example/1"
    assert "4 of 4 possible days have Fight (19), >99% of the weight." in told.sentences
    assert told.more.startswith("gdelphi explain --stream KE --event 19 --origin 2014-01-03")
    week = questions.explanation("KE", "19", horizon="week")
    assert [day.day for day in week.days] == [ORIGINS[-1] - timedelta(days=20)], "its first day"
    assert (week.futures, week.having) == (4, 1) and "--horizon week" in week.more
    assert set(week.members) == {"stack", "simple stack", "usual"}
    with pytest.raises(NothingStored, match="only roots are forecast"):
        questions.explanation("KE", "190", horizon=3)


def test_what_the_forecast_before_said_is_of_the_same_day(questions: Questions) -> None:
    told = questions.explanation("KE", "19", horizon=2)
    talks = questions.explanation("KE", "01", horizon=1)
    assert talks.days == [], "no possible tomorrow has them"
    earlier = questions.probabilities(
        ORIGINS[1], streams=["KE"], event="19", target="headline", horizon=3
    )
    assert told.about.day == earlier.rows[0].day
    assert told.before == earlier.rows[0].published


def test_a_new_forecast_is_seen_at_once_and_a_damaged_one_named(tmp_path: Path) -> None:
    settings = make_world(tmp_path)
    questions = Questions(settings)
    assert questions.forecast_list().total == 3
    later = ORIGINS[-1] + timedelta(days=1)
    made = stored(forecasts_folder(settings), recipe_at(later, STREAMS), said(ORIGINS[-1]))
    assert questions.forecast_info().origin == later
    (made.folder / "probabilities.parquet").write_bytes(b"x")
    with pytest.raises(NothingStored, match="is damaged: `gdelphi verify`") as error:
        questions.probabilities()
    assert str(tmp_path) not in str(error.value), "no paths are told"


def test_without_forecasts_the_remedy_is_told(tmp_path: Path, world: Settings) -> None:
    with pytest.raises(NothingStored, match="`gdelphi forecast` makes one"):
        Questions(world.model_copy(update={"store": tmp_path / "s.duckdb"})).streams()


# --- what came ------------------------------------------------------------------------------------


def test_scores_are_means_over_forecasts_that_were_judged(questions: Questions) -> None:
    answer = questions.scores()
    lines = {line.target: line for line in answer.lines}
    assert (answer.since, answer.until) == ORIGINS[:2]
    fight = ((1 - 0.5) ** 2 + (1 - 0.6) ** 2) / 2
    assert lines["occurs"].published == pytest.approx((fight + 39 * 0.04) / 40)
    assert lines["occurs"].cells == 80 and lines["surge"].cells == 76
    assert questions.scores(since=ORIGINS[-1]).lines == []


def test_outcomes_have_the_worst_misses_first(questions: Questions) -> None:
    answer = questions.outcomes(ORIGINS[0], level="root", horizon=1)
    assert (answer.rows[0].code, answer.rows[0].came) == ("19", True)
    misses = [abs(row.published - row.came) for row in answer.rows if row.published is not None]
    assert misses == sorted(misses, reverse=True)
    assert questions.outcomes(ORIGINS[0], horizon="week", event="19").total == 2 * 3
    assert questions.outcomes(ORIGINS[-1]).total == 0, "its day has not come"


# --- news -----------------------------------------------------------------------------------------


def test_events_of_a_day_and_country(questions: Questions) -> None:
    world = questions.events(FIRST, "WORLD")
    assert world.total == 13 and world.state == "present"
    assert world.rows[0].mentions == 99
    assert world.rows[0].source == "https://news.example/[2J<script>", "without its ESC"
    kenya = questions.events(FIRST, "Kenya", limit=1)
    assert 0 < kenya.total < 13 and len(kenya.rows) == 1 and kenya.rows[0].stream == "KE"
    assert questions.events(FIRST, "Kenya", limit=1) is kenya, (
        "an unchanged store is not asked again"
    )
    fights = questions.events(FIRST, "WORLD", event="19")
    assert {row.code for row in fights.rows} <= {"190"}
    assert questions.events(date(2013, 1, 1), "KE").state == "unknown"


def test_status_is_of_store_and_forecast(questions: Questions) -> None:
    status = questions.status()
    assert (status.first_day, status.latest_complete_day) == (ORIGINS[0], ORIGINS[-1])
    assert status.stale and status.verdict == "stale" and status.rows == 39
    assert status.newest_forecast and status.newest_forecast.origin == ORIGINS[-1]
    assert status.last_run_at and status.last_run_at.tzinfo is not None


WRITER = """
import sys
from pathlib import Path
from gdelphi.common.settings import load_settings
from gdelphi.store.connection import Store
settings = load_settings(None, {"store": Path(sys.argv[1]), "store_wait_seconds": 20.0}).settings
with Store(settings).writing() as connection:
    print(connection.value("SELECT count(*) FROM events"))
"""


def test_readers_let_a_waiting_writer_in(tmp_path: Path) -> None:
    """Threads of which one is always reading; a process that wants to write gets in all the
    same."""
    settings = make_world(tmp_path)
    shared, written = SharedReading(settings), threading.Event()
    entered, turn = [0], threading.Condition()

    def read() -> None:
        while not written.is_set():
            with shared.reading() as connection, turn:
                connection.value("SELECT count(*) FROM events")
                entered[0] += 1
                own = entered[0]
                turn.notify_all()
                turn.wait_for(lambda own=own: entered[0] > own, 0.5)  # the next one has come

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    command = [sys.executable, "-c", WRITER, str(settings.store)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    written.set()
    for thread in threads:
        thread.join()
    assert ran.stdout.strip() == "39", ran.stderr


CELL = """
from pathlib import Path
from gdelphi.common.settings import load_settings
from gdelphi.questions.questions import Questions
settings = load_settings(None, {{"store": Path({store!r})}}).settings
print(Questions(settings).events(__import__("datetime").date(2014, 1, 1), "WORLD").total)
"""


def test_a_store_can_be_read_in_a_notebook(world: Settings) -> None:
    """DuckDB behaves differently there."""
    cell = nbformat.v4.new_code_cell(CELL.format(store=str(world.store)))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    assert notebook.cells[0].outputs[0].text.strip() == "13"


def test_only_the_last_few_are_kept() -> None:
    kept: Kept[int, int] = Kept(2)
    made: list[int] = []

    def make(value: int) -> int:
        made.append(value)
        return value

    for value in (1, 2, 1, 3, 1, 2):
        assert kept.get(value, lambda value=value: make(value)) == value
    assert made == [1, 2, 3, 2]
