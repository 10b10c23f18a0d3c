"""From the store to measures: the stage behind `gdelphi embed`.

    events -> clouds -> texts encoded -> space (fitted once, on training days) -> descriptors

Run again it does only what is missing: days that are new or have changed, texts never met. The
space is fitted when there is none and then stays: a model learns the points it gives. Days that
come later are placed in it; `refit` fits a new one, after which models have to be trained again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from gdelphi.common.checksums import is_damaged
from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import atomic_write
from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.common.splits import training_end
from gdelphi.common.types import WORLD, VectorArray
from gdelphi.common.workers import share
from gdelphi.measures.basis import finest_points
from gdelphi.measures.cloud_update import Gathered, gather
from gdelphi.measures.clouds import (
    Cloud,
    Clouds,
    measures_folder,
    read_day,
)
from gdelphi.measures.descriptor_files import (
    Described,
    days_due,
    update_descriptors,
)
from gdelphi.measures.encoder import EmbeddingCache, open_cache
from gdelphi.measures.phrases import (
    actor,
    lineage,
    verb,
)
from gdelphi.measures.space import (
    PLACING,
    CloudSums,
    PhraseWeights,
    Points,
    Space,
    cloud_sums,
    fit_space,
    load_space,
    weigh_sums,
)


class EmbedProgress(Protocol):
    """What a long run tells whoever watches."""

    def gathered(self, done: int, total: int, rows: int) -> None: ...
    def encoded(self, done: int, total: int) -> None: ...
    def described(self, done: int, total: int, made: int) -> None: ...


@dataclass(frozen=True)
class EmbedResult:
    """What a run did."""

    folder: Path
    gathered: Gathered
    texts: int
    """distinct texts of the days that were looked at"""
    encoded: int
    """of which were encoded now"""
    space: Space
    fitted: bool
    """the space was fitted in this run"""
    described: Described
    seconds: float


def embed(
    settings: Settings,
    *,
    refit: bool = False,
    force: bool = False,
    progress: EmbedProgress | None = None,
) -> EmbedResult:
    """Bring the measures of a store up to date."""
    began = perf_counter()
    watching = progress or SILENT
    gathered = gather(settings, force=force, on_day=watching.gathered)
    folder = measures_folder(settings)
    clouds = Clouds(folder)
    since = settings.measures.since
    if not clouds.days and since:
        raise MeasuresError(
            f"{settings.store} has no days since {since}: set an earlier measures.since, or ingest "
            "later days"
        )
    if not clouds.days:
        raise MeasuresError(f"{settings.store} has no days: `gdelphi ingest` brings some")
    cache = open_cache(settings)
    before = cache.size
    fit = refit or not (folder / "space" / "space.json").exists()
    there = None if fit else _fitting(settings, folder)
    if there:
        Points(there, cache)  # refuses another encoder before it is asked for anything
    days = clouds.days if there is None else days_due(settings, there)
    cutoff = _cutoff(settings, clouds)
    actors, codes = set[str](), set[str]()

    def sums() -> Iterator[CloudSums]:
        for seen in share(_Look(settings, cutoff if fit else date.min), days):
            actors.update(seen.actors)
            codes.update(seen.codes)
            yield from seen.sums

    phrases = _weighed(sums(), cutoff)
    texts = sorted(_texts_of(actors, codes))
    new = [text for text, known in zip(texts, cache.known(texts), strict=True) if not known]
    cache.embed(new, watching.encoded)
    space = there or _fit(settings, phrases, cache)
    described = update_descriptors(settings, space, watching.described)
    return EmbedResult(
        folder,
        gathered,
        len(texts),
        cache.size - before,
        space,
        fit,
        described,
        perf_counter() - began,
    )


def texts_of(clouds: Clouds, days: Iterable[date]) -> set[str]:
    """All texts that the points of some days are made from."""
    actors: set[str] = set()
    codes: set[str] = set()
    for on in filter(None, map(clouds.on, days)):
        first, events, second = on.dictionaries()
        actors.update(first, second)
        codes.update(events)
    return _texts_of(actors, codes)


def _texts_of(actors: Iterable[str], codes: Iterable[str]) -> set[str]:
    with_lineage = {above for code in codes for above in (code, *lineage(code))}
    return {actor(key).text for key in actors} | {verb(code) for code in with_lineage}


def training_clouds(clouds: Clouds, until: date) -> Iterator[Cloud]:
    """The clouds of all countries up to a day."""
    for day in clouds.days:
        if day > until:
            return
        on = clouds.on(day)
        for stream in sorted(on.streams) if on else ():
            if on and stream != WORLD:
                yield on.cloud(stream)


def training_phrases(settings: Settings, clouds: Clouds) -> PhraseWeights:
    """The phrases of the training days, with their weights."""
    until = _cutoff(settings, clouds)
    return _weighed(map(cloud_sums, training_clouds(clouds, until)), until)


def _weighed(sums: Iterable[CloudSums], cutoff: date) -> PhraseWeights:
    phrases = weigh_sums(sums)
    return phrases._replace(fitted=phrases.fitted._replace(cutoff=cutoff.isoformat()))


def _cutoff(settings: Settings, clouds: Clouds) -> date:
    """The last day that a space may be fitted on."""
    return training_end(clouds.days[0], clouds.days[-1], settings.split)


class _Seen(NamedTuple):
    """What was found in a day's clouds."""

    actors: set[str]
    codes: set[str]
    sums: list[CloudSums]
    """of a training day"""


@dataclass(frozen=True)
class _Look:
    """Reads the clouds of days: work that processes can share."""

    settings: Settings
    until: date
    """last day whose weights are wanted"""

    def do(self, item: date) -> _Seen:
        on = read_day(Clouds(measures_folder(self.settings)).files.path(item))
        first, events, second = on.dictionaries()
        sums = []
        if item <= self.until:
            sums = [cloud_sums(on.cloud(name)) for name in sorted(on.streams) if name != WORLD]
        return _Seen({*first, *second}, {*events}, sums)


def finest_codes(settings: Settings, space: Space) -> VectorArray:
    """The finest codes as points of a space, [finest, verb dimensions]: what atoms are projected
    through. Computed once, and kept."""
    path = measures_folder(settings) / "basis" / f"{space.fingerprint}.npy"
    if path.exists() and not is_damaged(path):
        kept: VectorArray = np.load(path)
        return kept
    finest = finest_points(Points(space, open_cache(settings)))
    with atomic_write(path) as part, part.open("wb") as file:
        np.save(file, finest)
    return finest


def _fit(settings: Settings, phrases: PhraseWeights, cache: EmbeddingCache) -> Space:
    space = fit_space(settings.measures, phrases, cache)
    space.save(measures_folder(settings) / "space")
    return space


def _fitting(settings: Settings, folder: Path) -> Space:
    """The space that is there, if it is the one that the settings ask for."""
    space = load_space(folder / "space")
    for name in PLACING:
        there, wanted = getattr(space.settings, name), getattr(settings.measures, name)
        if there != wanted:
            raise MeasuresError(
                f"the space in {folder / 'space'} has measures.{name} = {there}, the settings say "
                f"{wanted}: set it back, or fit a new one with `gdelphi embed --refit`"
            )
    until = settings.split.train_until
    if until is not None and space.fitted.until > until.isoformat():
        raise MeasuresError(
            f"the space in {folder / 'space'} was fitted on days up to {space.fitted.until}, after "
            f"split.train_until = {until}: set that back, or run `gdelphi embed --refit`"
        )
    return space
