"""Packing: from the day files of clouds and descriptors to a pack that training reads.

Streams are chosen by their rows on training days. What an earlier pack has is taken over
(`pack_reuse.py`), the rest is made. The random descriptors are made here, by several
processes; days are written in their order, so one seed gives one pack, whatever the machine.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from gdelphi.common.checksums import CHECKSUMS, damaged_files
from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import atomic_write, remove_folder, text_digest
from gdelphi.common.settings import Settings
from gdelphi.common.splits import (
    PARTS,
    SplitPart,
    Splits,
)
from gdelphi.common.types import WORLD
from gdelphi.common.workers import share
from gdelphi.measures.cloud_update import stale_days
from gdelphi.measures.clouds import (
    Cloud,
    Clouds,
    measures_folder,
)
from gdelphi.measures.count_panel import CountPanel, read_count_panel
from gdelphi.measures.day_files import keep_json
from gdelphi.measures.descriptor_files import Descriptors, days_due
from gdelphi.measures.descriptors import (
    atom_rule,
    describe_day,
    random_parts,
)
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.pack import (
    FORMAT,
    Pack,
    PackFacts,
)
from gdelphi.measures.pack_reuse import (
    EarlierPack,
    MadeFrom,
    Stretch,
    beginning_of,
    earlier_packs,
    remove_packs,
    stretches,
)
from gdelphi.measures.pack_rows import Made, PackRows, pack_rows
from gdelphi.measures.pack_writer import Beginning, PackWriter
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import (
    Points,
    Space,
    load_space,
)

OnPacked = Callable[[int, int, int], None]
"""days done, days to do, points packed"""


@dataclass(frozen=True)
class Packed:
    """What a run did."""

    folder: Path
    made: bool
    """false: a pack of the same days was there"""
    streams: tuple[str, ...]
    days: int
    present: int
    points: int
    atoms: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class SequencesMade:
    """What `gdelphi sequences` did."""

    packed: Packed
    targets: dict[SplitPart, int]
    """days that can be targets, in each part of the split"""
    splits: Splits
    seconds: float


def make_sequences(
    settings: Settings, *, seed: int = 0, on_day: OnPacked | None = None
) -> SequencesMade:
    """Pack the days; say which of them can be targets."""
    began = perf_counter()
    space = load_space(measures_folder(settings) / "space")
    # Whoever takes numbers from the pack looks at all of it; a new day alone is not worth that.
    packed = pack_days(settings, space, seed=seed, on_day=on_day, check=False)
    sequences = Sequences(Pack(packed.folder), settings)
    targets = {part: len(sequences.targets(part)) for part in PARTS}
    return SequencesMade(packed, targets, sequences.splits, perf_counter() - began)


def training_streams(settings: Settings, clouds: Clouds, until: date) -> tuple[str, ...]:
    """The countries with the most rows up to a day, or those that the settings name."""
    made_from = {day: key for day, key in clouds.files.made_from().items() if day <= until}

    def count() -> dict[str, int]:
        rows: dict[str, int] = {}
        for on in filter(None, map(clouds.on, sorted(made_from))):
            for stream, statistics in on.statistics.items():
                rows[stream] = rows.get(stream, 0) + statistics.volume
        rows.pop(WORLD, None)
        return rows

    path = measures_folder(settings) / "volumes.json"
    rows = keep_json(path, text_digest(repr(sorted(made_from.items()))), count)
    only = settings.sequences.only
    strange = [stream for stream in only if stream not in rows and stream != WORLD]
    if strange:
        raise MeasuresError(
            f"sequences.only: no rows from {', '.join(strange)} up to {until}; streams are FIPS "
            "10-4 codes (GM is Germany) or WORLD"
        )
    if only:
        return only
    if not rows:
        raise MeasuresError(
            f"no country has rows up to {until}, the last training day: set another split, or "
            "name streams in sequences.only"
        )
    ranked = sorted(rows, key=lambda stream: (-rows[stream], stream))
    return tuple(ranked[: settings.sequences.streams])


def pack_days(
    settings: Settings,
    space: Space,
    *,
    seed: int = 0,
    on_day: OnPacked | None = None,
    check: bool = True,
) -> Packed:
    """Pack all days, unless a pack of the same days, streams and space is there already. With
    `check` all of it is held against its checksums, and what is damaged is made again."""
    began = perf_counter()
    clouds = Clouds(measures_folder(settings))
    facts = _facts(settings, space, clouds, seed)
    behind = stale_days(settings)
    if behind:  # profiles are read from the store, and would be newer than the clouds
        raise MeasuresError(
            f"{len(behind)} days have changed in the store, {behind[0]} the first: run "
            "`gdelphi embed`"
        )
    due = days_due(settings, space)
    if due:  # else a pack of new clouds and old descriptors would be taken for up to date
        raise MeasuresError(
            f"{len(due)} days have no descriptors that are up to date, {due[0]} the first: run "
            "`gdelphi embed`"
        )
    root = measures_folder(settings) / "packs"
    folder = root / text_digest(repr((FORMAT, facts, seed)))
    made_from = _made_from(settings, facts, clouds, seed)

    def make(earlier: list[EarlierPack]) -> None:
        with atomic_write(folder) as part:
            _write(settings, space, facts, part, earlier, seed=seed, on_day=on_day)
            made_from.write(part)
            remove_folder(folder)  # not whole, or made by another process meanwhile

    made = not (folder / "pack.json").exists()
    if made:
        make(earlier_packs(root, made_from))
    if check and damaged_files(folder):  # it would give other probabilities under the same name
        made = True
        make([one for one in earlier_packs(root, made_from) if one.sound])
    remove_packs(root, folder, facts.streams)  # always: a run may have been killed before it
    with suppress(OSError):  # used now: the others go before it
        os.utime(folder)
    return _packed(folder, made=made, seconds=perf_counter() - began)


def _packed(folder: Path, *, made: bool, seconds: float) -> Packed:
    pack = Pack(folder)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name != CHECKSUMS)
    points, atoms = pack.sizes
    present = int(pack.present.sum())
    streams = pack.facts.streams
    return Packed(folder, made, streams, pack.facts.days, present, points, atoms, size, seconds)


def _facts(settings: Settings, space: Space, clouds: Clouds, seed: int) -> PackFacts:
    known = clouds.files.made_from()
    if not known:
        raise MeasuresError(f"no clouds in {clouds.files.folder}: `gdelphi embed` makes them")
    first, last = min(known), max(known)
    cutoff = settings.split.train_until or date.fromisoformat(space.fitted.cutoff)
    days = json.dumps([[day.isoformat(), known[day]] for day in sorted(known)])
    rule = atom_rule(settings.measures)
    return PackFacts(
        streams=training_streams(settings, clouds, cutoff),
        cutoff=cutoff.isoformat(),
        first_day=first.isoformat(),
        days=(last - first).days + 1,
        variants=settings.sequences.variants,
        dimension=space.dimension,
        space=space.fingerprint,
        data=text_digest(f"{days}{rule}{seed}"),
    )


def _made_from(settings: Settings, facts: PackFacts, clouds: Clouds, seed: int) -> MadeFrom:
    known = clouds.files.made_from()
    first = date.fromisoformat(facts.first_day)
    days = (known.get(first + timedelta(days=number)) for number in range(facts.days))
    rule = atom_rule(settings.measures)
    recipe = (FORMAT, facts.space, facts.dimension, facts.variants, rule, seed)
    return MadeFrom(text_digest(repr(recipe)), facts.first_day, tuple(days))


def _write(
    settings: Settings,
    space: Space,
    facts: PackFacts,
    folder: Path,
    earlier: list[EarlierPack],
    *,
    seed: int,
    on_day: OnPacked | None,
) -> None:
    work = _Work(settings, space, seed)
    first = date.fromisoformat(facts.first_day)
    days = [first + timedelta(days=number) for number in range(facts.days)]
    writer = _writer(folder, facts, work.points, beginning_of(earlier, facts.streams))
    try:
        runs = stretches(earlier, facts.streams, range(writer.days, facts.days))
        lacking = [
            (days[number], run.lacking(facts.streams))
            for run in runs
            for number in run.days
            if None in run.streams
        ]
        made = share(work, lacking)
        with ThreadPoolExecutor(1) as beside:  # the store is read while days are made
            counts = [
                (
                    group,
                    None if group.whole else beside.submit(_counts, settings, facts, group.days),
                )
                for group in _counted_together(runs, days)
            ]
            for run in runs:
                if run.whole:
                    writer.take_days(run.whole.pack, run.whole.days(run.days))
                else:
                    for number in run.days:
                        _add_day(writer, run, number, next(made) if None in run.streams else None)
                        if on_day:
                            on_day(number + 1, len(days), writer.points)
                if on_day and run.whole:
                    on_day(run.days.stop, len(days), writer.points)
            for group, panel in counts:
                if panel:
                    writer.add_counts(panel.result())
                elif group.whole:
                    writer.take_counts(group.whole.pack, group.whole.days(group.span))
        writer.close()
    except BaseException:
        writer.abandon()
        raise


def _writer(
    folder: Path, facts: PackFacts, points: Points, beginning: Beginning | None
) -> PackWriter:
    if beginning:
        try:
            return PackWriter(folder, facts, points, beginning)
        except FileNotFoundError:  # another process has removed that pack
            shutil.rmtree(folder)
    return PackWriter(folder, facts, points)


def _add_day(writer: PackWriter, run: Stretch, number: int, made: PackRows | None) -> None:
    """A day of which some streams are made, and others lie in earlier packs."""
    had = next((one for one in run.streams if one), None)
    if made and not had:
        writer.add_day(made)
        return
    if had:
        known, partial, backfile = had.pack.flags[number + had.shift].tolist()
        writer.add_flags(known=known, partial=partial, backfile=backfile)
    fresh = iter(map(made.stream, range(len(made.sizes))) if made else ())
    for stream, one in zip(writer.streams, run.streams, strict=True):
        if one:
            writer.take_stream(one.pack, number + one.shift, one.place[stream])
        else:
            writer.add_rows(next(fresh))
    writer.end_days()


class _CountGroup(NamedTuple):
    """Days whose counts come from one place: of those that a pack of the same streams has, that
    pack. Not one of other streams: who acts for a country depends on all of them."""

    whole: EarlierPack | None
    """None: the store"""
    span: range
    days: tuple[date, date]


def _counted_together(runs: Sequence[Stretch], days: Sequence[date]) -> Iterator[_CountGroup]:
    for whole, group in groupby(runs, key=lambda run: run.whole):
        some = list(group)
        span = range(some[0].days.start, some[-1].days.stop)
        yield _CountGroup(whole, span, (days[span.start], days[span.stop - 1]))


def _counts(settings: Settings, facts: PackFacts, days: tuple[date, date]) -> CountPanel:
    """The counts of days, from the store."""
    roots = read_profiles(settings, "root", facts.streams, since=days[0], until=days[1])
    return read_count_panel(settings, roots)


# --- the work, in one process or in several -------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """What a process needs to make the random descriptors of a day."""

    settings: Settings
    space: Space
    seed: int

    @cached_property
    def points(self) -> Points:
        return Points(self.space, open_cache(self.settings))

    @cached_property
    def _clouds(self) -> Clouds:
        return Clouds(measures_folder(self.settings))

    @cached_property
    def _descriptors(self) -> Descriptors:
        return Descriptors(self.settings, self.space)

    def do(self, item: tuple[date, tuple[str, ...]]) -> PackRows:
        """The clouds of some streams on a day, and the descriptors of each, its own first."""
        day, streams = item
        on = self._clouds.on(day)
        if on is None:
            return pack_rows([self._made(self._clouds.cloud(stream, day)) for stream in streams])
        self.points.meet(*on.dictionaries())
        return pack_rows([self._made(on.cloud(stream)) for stream in streams])

    def _made(self, cloud: Cloud) -> Made:
        if cloud.stream == WORLD:  # its descriptors are not kept
            own = describe_day(cloud, self.points, atom_rule(self.settings.measures))
        else:
            own = self._descriptors.of(cloud)
        seed = part_seed(self.seed, cloud.day, cloud.stream)
        number = self.settings.sequences.variants
        return Made(cloud, own, random_parts(cloud, self.points, own, seed, number))


def part_seed(seed: int, day: date, stream: str) -> tuple[int, ...]:
    """The seed of random descriptors: the same whatever other streams and days are packed."""
    return seed, day.toordinal(), int.from_bytes(stream.encode())
