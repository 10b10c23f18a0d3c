"""The compact language: days are written and read back; what is no phrase is counted."""

import pytest
from hypothesis import given, settings, strategies

from gdelphi.measures.phrases import canonical
from gdelphi.text.compact import (
    SHARE_LEVELS,
    DayText,
    PhraseText,
    actor_key,
    actor_word,
    always_known,
    home_of,
    is_actor,
    is_event,
    is_weight,
    nearest_level,
    plainer_actors,
    plainer_codes,
    read_day,
    volume_of,
    weight_word,
    write_day,
)
from helpers.phrase_cases import random_keys


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("", "-"),
        ("KEN", "="),
        ("USA", "USA"),
        ("KEN|||||COP", "=:COP"),
        ("USA|||||GOV|MIL", "USA:GOV,MIL"),
        ("|||||GOV", ":GOV"),
        ("|UNO", "|UNO"),
        ("KEN|||CHR||CVL", "=|||CHR||CVL"),
    ],
)
def test_actors_as_words(key: str, word: str) -> None:
    assert actor_word(key, "KEN") == word
    assert actor_key(word, "KEN") == key
    assert is_actor(word)


def test_own_actors_of_two_countries_are_one_word() -> None:
    assert actor_word("KEN|||||COP", "KEN") == actor_word("PER|||||COP", "PER")
    assert actor_key("=:COP", "PER") == "PER|||||COP"
    assert home_of("KE") == "KEN" and home_of("WORLD") == ""


def test_random_actors_are_read_back() -> None:
    for key in random_keys(2_000):
        word = actor_word(key, "KEN")
        assert actor_key(word, "KEN") == canonical(key) and " " not in word


def test_a_day_is_written_and_read_back() -> None:
    phrases = [
        PhraseText("KEN|||||COP", "141", "KEN|||||OPP", 0.8),
        PhraseText("USA|||||GOV", "042", "KEN", 0.2),
    ]
    words = write_day(20, phrases, "KEN")
    assert " ".join(words) == "v5 141 =:COP >=:OPP 80% 042 USA:GOV >= 20%"
    assert read_day(words, "KEN") == DayText(5, tuple(phrases), 0)
    assert read_day([*words, "</s>", "nonsense"], "KEN").faults == 0


@pytest.mark.parametrize(
    ("words", "phrases", "faults"),
    [
        ("v3", 0, 0),
        ("", 0, 1),  # not even a volume
        ("141 = >- 80%", 1, 1),
        ("v3 141 = >- 80% 141 = >-", 1, 1),  # the last one is cut off
        ("v3 141 >= - 80% 010 = >- 20%", 1, 1),
        ("v3 141 = >- v3 010 = >- 20%", 1, 1),
        ("v3 Mon 141 = >- 20%", 1, 1),
        ("v3 141 = >- 0%", 0, 1),
        ("v3 = = = =", 0, 1),
    ],
)
def test_what_is_no_phrase_is_counted(words: str, phrases: int, faults: int) -> None:
    found = read_day(words.split(), "KEN")
    assert (len(found.phrases), found.faults) == (phrases, faults)
    assert not found.phrases or sum(each.weight for each in found.phrases) == pytest.approx(1)


@settings(deadline=None)
@given(strategies.lists(strategies.sampled_from([*always_known(), "=", ">=", "USA:GOV", "d3"])))
def test_any_words_are_read_without_an_error(words: list[str]) -> None:
    found = read_day(words, "KEN")
    assert 4 * len(found.phrases) <= len(words)


@given(strategies.floats(0.001, 1))
def test_a_weight_is_written_as_the_nearest_level(share: float) -> None:
    ratios = [max(level / share, share / level) for level in (each / 100 for each in SHARE_LEVELS)]
    assert ratios[nearest_level(share)] == pytest.approx(min(ratios))
    assert is_weight(weight_word(share))


def test_volumes_are_binary_digits() -> None:
    assert [volume_of(rows) for rows in (0, 1, 2, 3, 4, 31, 32, 10**9)] == [0, 1, 2, 2, 3, 5, 6, 16]


def test_what_is_not_known_is_said_more_plainly() -> None:
    assert list(plainer_actors("KEN|TAL|kur|CHR||GOV|MIL")) == [
        "KEN|TAL|kur|CHR||GOV|MIL", "KEN|||||GOV|MIL|", "KEN|||||GOV", "KEN", "|||||GOV", ""
    ]  # fmt: skip
    assert list(plainer_codes("1411")) == ["1411", "1411", "141", "140"]
    assert list(plainer_codes("---")) == ["---"]


def test_words_of_different_kinds_are_told_apart() -> None:
    for word in always_known():
        assert is_event(word) + is_weight(word) + is_actor(word) <= 1, word
