"""Shared by tests: phrase cases."""

import random
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies

from gdelphi.gdelt.cameo import (
    actor_types,
    countries,
    ethnic_groups,
    event_codes,
    known_groups,
    religions,
)

COUNTRIES = [country.cameo for country in countries() if country.cameo]


TABLE_CODES = (
    COUNTRIES,
    list(known_groups()),
    list(ethnic_groups()),
    list(religions()),
    list(religions()),
    *[list(actor_types())] * 3,
)


class Row(NamedTuple):
    """What a sentence is made of."""

    actor1: str
    code: str
    actor2: str
    place: str


def key_of(columns: Iterable[str]) -> str:
    return "|".join(code.strip() for code in columns).rstrip("|")


def real_rows(folder: Path, *, every: int) -> Iterator[Row]:
    """Rows of every n-th zip of an archive."""
    archives = sorted(folder.glob("*.zip"))[::every]
    assert archives, f"no zips in {folder}"
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                for line in archive.read(name).decode("utf-8", "replace").splitlines():
                    values = line.split("\t")
                    country = values[53 if len(values) == 61 else 51]
                    yield Row(key_of(values[7:15]), values[26], key_of(values[17:25]), country)


def random_keys(count: int) -> Iterator[str]:
    """Actors of known codes that nobody has seen, each column filled or not."""
    rng = random.Random(20)
    for _ in range(count):
        filled = (rng.choice(codes) if rng.random() < 0.4 else "" for codes in TABLE_CODES)
        yield "|".join(filled)


KEYS = strategies.one_of(
    strategies.text(),
    strategies.lists(strategies.text(max_size=4), max_size=9).map("|".join),
    strategies.tuples(
        *(strategies.one_of(strategies.just(""), strategies.sampled_from(c)) for c in TABLE_CODES)
    ).map("|".join),
)


EVENTS = strategies.one_of(
    strategies.text(),
    strategies.from_regex(r"[0-9]{1,5}"),
    strategies.sampled_from([*event_codes()]),
)
