"""A day in brief: what an analyst reads, and the rows behind it; and the commands that show it."""

import csv
import io
import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.brief import day_in_brief
from gdelphi.measures.cloud_update import cloud_on
from gdelphi.measures.embed import embed
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.command_line import gdelphi

DAY = date(2014, 2, 24)
WEEKS = 6
KENYA = {"ActionGeo_CountryCode": "KE", "ActionGeo_FullName": "Nairobi, Kenya", "IsRootEvent": 1}
POLICE = {"Actor1Code": "KENCOP", "Actor1CountryCode": "KEN", "Actor1Type1Code": "COP"}
RIOT = {"EventCode": "145", "EventBaseCode": "145", "EventRootCode": "14", "QuadClass": 3}
PRAISE = {"EventCode": "051", "EventBaseCode": "051", "EventRootCode": "05", "QuadClass": 1}
FIGHT = {"EventCode": "190", "EventBaseCode": "190", "EventRootCode": "19", "QuadClass": 4}


def lines_of(day: date, riots: int) -> list[str]:
    """Police riot (many times), praise (twice) and fight (once) in Kenya; something in Ukraine."""
    start = day.toordinal() * 100
    plan = [*[(RIOT, 20)] * riots, (PRAISE, 5), (PRAISE, 3), (FIGHT, 1)]
    found = [
        event_line(start + number, day, NumMentions=mentions, **KENYA, **POLICE, **codes)
        for number, (codes, mentions) in enumerate(plan)
    ]
    # A second row of the same article must not be shown as a second source.
    found.append(
        event_line(
            start + 50, day, NumMentions=2, SOURCEURL=f"https://news.example/{start}",
            **KENYA, **POLICE, **RIOT,
        )
    )  # fmt: skip
    found.append(event_line(start + 60, day, **{**KENYA, "ActionGeo_CountryCode": "UP"}, **FIGHT))
    return found


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("brief")
    maker = ArchiveMaker(folder / "archive")
    for week in range(WEEKS, -1, -1):
        day = DAY - timedelta(weeks=week)
        maker.day(day, lines_of(day, 12 if week == 0 else 2))
    maker.write_lists()
    found = settings_for(
        folder / "s.duckdb", maker.folder, embed__encoder="hashing", measures__verb_dimensions=3,
        measures__actor_dimensions=2,
    )  # fmt: skip
    ingest(found)
    embed(found)
    return found


def words(settings: Settings, command: str, *more: str) -> list[str]:
    return [command, *more, "--store", str(settings.store)]


def test_a_day_in_brief_tells_shares_words_events_and_what_is_usual(settings: Settings) -> None:
    brief = day_in_brief(settings, "KE", DAY)
    assert [atom.code for atom in brief.atoms] == ["145", "051", "190"]
    assert brief.atoms[0].phrase == "Kenyan police riot in violent protest in Kenya"
    assert (brief.atoms[0].rows, brief.atoms[0].phrases) == (13, 1)
    assert brief.atoms[0].root == "Protest"
    assert sum(atom.share for atom in brief.atoms) == pytest.approx(1)
    assert brief.statistics.volume == 16
    assert brief.usual_volume == 6
    assert brief.explained == pytest.approx(1)
    assert brief.distance == pytest.approx(0, abs=1e-3)


def test_rows_behind_an_atom_are_its_own_each_source_once_the_most_told_first(
    settings: Settings,
) -> None:
    riot, praise, fight = day_in_brief(settings, "KE", DAY).atoms
    start = DAY.toordinal() * 100
    assert [row.event_id for row in riot.evidence] == [start, start + 1, start + 2]
    assert [row.event_id for row in praise.evidence] == [start + 12, start + 13]
    assert [row.mentions for row in praise.evidence] == [5, 3]
    assert [row.event_id for row in fight.evidence] == [start + 14]
    assert fight.evidence[0].place == "Nairobi, Kenya"
    assert fight.evidence[0].source == f"https://news.example/{start + 14}"


def test_the_world_has_a_brief_too(settings: Settings) -> None:
    brief = day_in_brief(settings, "WORLD", DAY)
    assert brief.name == "the world"
    assert brief.statistics.volume == 17
    assert all(" in Kenya" not in atom.phrase for atom in brief.atoms)


def test_an_empty_day_is_said_to_be_empty_and_a_missing_one_is_named(settings: Settings) -> None:
    brief = day_in_brief(settings, "GM", DAY)
    assert (brief.state, brief.atoms, brief.explained) == ("empty", (), 1.0)
    with pytest.raises(MeasuresError, match=r"2014-02-23 is not among the days .*gdelphi status"):
        day_in_brief(settings, "KE", DAY - timedelta(days=1))
    with pytest.raises(MeasuresError, match=r"does not have 2014-02-23 \(days: 2014-01-13 to"):
        cloud_on(settings, "KE", DAY - timedelta(days=1))


def test_streams_are_called_by_name() -> None:
    assert (stream_name("GM"), stream_name("WORLD"), stream_name("ZQ")) == (
        "Germany",
        "the world",
        "country ZQ",
    )


# --- the commands ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_phrases_shows_a_day_with_weights(settings: Settings) -> None:
    done = gdelphi(*words(settings, "phrases", "--stream", "KE", "--day", str(DAY)))
    assert done.returncode == 0, done.stderr
    assert "KE on 2014-02-24: 16 rows, 3 distinct phrases" in done.stdout
    assert "Kenyan police riot in violent protest in Kenya" in done.stdout
    few = words(settings, "phrases", "--stream", "KE", "--day", "20140224", "--most", "1")
    assert "... and 2 more" in gdelphi(*few).stdout
    table = gdelphi(*few, "--format", "csv").stdout
    (row,) = csv.DictReader(io.StringIO(table))
    assert (row["rows"], row["code"]) == ("13", "cameo-145")


def test_phrases_of_a_day_that_is_not_there_fails_in_one_line(settings: Settings) -> None:
    done = gdelphi(*words(settings, "phrases", "--stream", "KE", "--day", "2014-02-23"))
    assert done.returncode == 1
    assert done.stderr.startswith("gdelphi: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_descriptor_prints_the_day_in_brief(settings: Settings) -> None:
    call = words(settings, "descriptor", "--stream", "KE", "--day", str(DAY))
    variables = {"GDELPHI_EMBED_ENCODER": "hashing"}
    done = gdelphi(*call, **variables)
    assert done.returncode == 0, done.stderr
    assert "Kenya (KE), Monday 2014-02-24" in done.stdout
    assert "16 reports, 3 distinct phrases, 2.7 times the usual Monday" in done.stdout
    assert "https://news.example/" in done.stdout
    said = json.loads(gdelphi(*call, "--json", **variables).stdout)
    assert [atom["code"] for atom in said["atoms"]] == ["145", "051", "190"]
    empty = words(settings, "descriptor", "--stream", "GM", "--day", str(DAY))
    assert "nothing was reported" in gdelphi(*empty, **variables).stdout


@pytest.mark.slow
def test_another_encoder_than_the_spaces_is_refused(settings: Settings) -> None:
    call = words(settings, "descriptor", "--stream", "KE", "--day", str(DAY))
    done = gdelphi(*call)
    assert done.returncode == 1
    assert "fitted with encoder hashing" in done.stderr
    assert "--refit" in done.stderr


@pytest.mark.slow
def test_embed_and_sequences_say_what_they_did(settings: Settings, tmp_path: Path) -> None:
    folder = {"GDELPHI_MEASURES_FOLDER": str(tmp_path / "m"), "GDELPHI_EMBED_ENCODER": "hashing"}
    done = gdelphi(*words(settings, "embed"), **folder)
    assert done.returncode == 0, done.stderr
    assert "7 days made (" in done.stdout
    assert "fitted now on 2014-01-13 to " in done.stdout
    again = json.loads(gdelphi(*words(settings, "embed", "--json"), **folder).stdout)
    assert (again["gathered"]["built"], again["encoded"], again["fitted"]) == (0, 0, False)
    short = {
        "GDELPHI_SEQUENCES_CONTEXT_DAYS": "3", "GDELPHI_SPLIT_EMBARGO_DAYS": "0", **folder,
    }  # fmt: skip
    made = gdelphi(*words(settings, "sequences", "--variants", "1"), **short)
    assert made.returncode == 0, made.stderr
    assert "43, of which 36 are missing" in made.stdout
    assert " target days, 2014-01-13 to " in made.stdout
    said = json.loads(
        gdelphi(*words(settings, "sequences", "--variants", "1", "--json"), **short).stdout
    )
    assert (said["made"], said["streams"]) == (False, ["KE", "UP"])


def test_sequences_without_measures_says_what_to_run(settings: Settings, tmp_path: Path) -> None:
    done = gdelphi(*words(settings, "sequences"), GDELPHI_MEASURES_FOLDER=str(tmp_path / "none"))
    assert done.returncode == 1
    assert "`gdelphi embed`" in done.stderr
