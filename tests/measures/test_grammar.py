"""The grammar: a phrase is read back as the codes that it was made from, and nothing else is."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.grammar import (
    Parsed,
    parse,
    parse_actor,
)
from gdelphi.measures.phrases import (
    actor,
    canonical,
    place,
    sentence,
)
from helpers.measured_world import measured
from helpers.phrase_cases import EVENTS, KEYS, random_keys, real_rows

PLACES = strategies.none() | strategies.sampled_from(["KE", "US", "GG", "WE", "RS", "XX", "a b"])


def agrees(parsed: Parsed | None, actor1: str, code: str, actor2: str, where: str | None) -> bool:
    wanted = (canonical(actor1), code, canonical(actor2), place(where))
    return parsed is not None and (*parsed[:3], place(parsed.place)) == wanted


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Kenyan police threaten Kenyan opposition groups in Kenya",
         ("KEN|||||COP", "13", "KEN|||||OPP", "KE")),
        ("Kenya praises Uganda", ("KEN", "051", "UGA", None)),
        ("someone acts", ("", "", "", None)),
        ("the Taliban fight NATO military forces with small arms and light weapons in Afghanistan",
         ("|TAL", "193", "|NAT||||MIL", "AF")),
        ("Italy issues a demand to Turkey in a way coded 106 in Ukraine",
         ("ITA", "106", "TUR", "UP")),
        ("a country coded XYZ praises Kenyan actors in a role coded PTX in an unlisted country "
         "(XX)", ("XYZ", "051", "KEN|||||PTX", "XX")),
    ],
)  # fmt: skip
def test_phrases_are_read_back(text: str, codes: tuple[str, str, str, str | None]) -> None:
    assert parse(text) == Parsed(*codes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Kenya",
        "praises",
        "Kenya praise Uganda",  # a state is singular
        "police threatens Kenya",
        "Kenya praises Uganda in Atlantis",
        "Kenya praises  Uganda",
        "Kenya praises Uganda praises Kenya",
        "the Kenya praises Uganda",
    ],
)
def test_what_is_no_phrase_is_none(text: str) -> None:
    assert parse(text) is None


@settings(deadline=None, max_examples=300)
@given(actor1=KEYS, code=EVENTS, actor2=KEYS, where=PLACES)
def test_any_codes_are_read_back(actor1: str, code: str, actor2: str, where: str | None) -> None:
    assert agrees(parse(sentence(actor1, code, actor2, where)), actor1, code, actor2, where)


def test_every_event_with_and_without_a_target_is_read_back() -> None:
    for code in event_codes():
        for subject in ("KEN", "|||||COP"):
            for target in ("", "USA", "USA|||||GOV|MIL"):
                text = sentence(subject, code, target, "US")
                assert parse(text) == Parsed(subject, code, target, "US"), text


def test_random_actors_are_read_back() -> None:
    for key in random_keys(3_000):
        assert parse_actor(actor(key).text) == canonical(key)


def test_all_phrases_of_a_store_are_read_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    clouds = Clouds(measures_folder(measured(tmp_path_factory).settings))
    number = 0
    for day in clouds.days[::8]:
        on = clouds.on(day)
        assert on is not None
        for stream in on.streams:
            for phrase in on.cloud(stream).phrases():
                assert agrees(parse(sentence(*phrase, stream)), *phrase, stream)
                number += 1
    assert number > 200


def test_real_rows_are_read_back(shared_data: Path) -> None:
    rows = sorted(set(real_rows(shared_data / "gdelt2-world", every=40)))
    random.Random(0).shuffle(rows)
    for row in rows[:4_000]:
        assert agrees(parse(sentence(*row)), *row), row
