"""From the store to measures: only what is missing, and nothing of what comes after the cutoff."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.errors import GdelphiError, MeasuresError
from gdelphi.common.progress import Silent
from gdelphi.common.settings import Settings
from gdelphi.common.splits import training_end
from gdelphi.common.types import VectorArray
from gdelphi.measures.basis import finest_points
from gdelphi.measures.cloud_update import gather
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.descriptor_files import descriptors_folder
from gdelphi.measures.descriptors import atom_rule
from gdelphi.measures.embed import (
    EmbedResult,
    embed,
    texts_of,
    training_clouds,
    training_phrases,
)
from gdelphi.measures.encoder import (
    HashingEncoder,
    SentenceEncoder,
    open_cache,
)
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import pack_days, training_streams
from gdelphi.measures.phrases import (
    actor,
    verb,
)
from gdelphi.measures.space import (
    Points,
    Space,
    fit_space,
)
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.measured_world import (
    DAY,
    DAYS,
    GONE,
    Measured,
    changed,
    copied_store,
    day_at,
    lines_of,
    measured,
    small_store,
    tree_of,
)

# Represents a store and dies when the third day is described; two are saved by then.
KILLED = """
import os, signal, sys
from pathlib import Path
from gdelphi.measures import descriptor_files as descriptors
from gdelphi.common.settings import load_settings
from gdelphi.common.progress import Silent
from gdelphi.measures.embed import embed
descriptors.SAVE_EVERY = 2
class Dying(Silent):
    def described(self, done, total, made):
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)
flags = {"store": Path(sys.argv[1]), "embed.encoder": "hashing", "split.embargo_days": 0}
embed(load_settings(flags=flags).settings, progress=Dying())
"""


def chosen(settings: Settings, clouds: Clouds) -> tuple[str, ...]:
    """The streams that are chosen on training days."""
    until = training_end(clouds.days[0], clouds.days[-1], settings.split)
    return training_streams(settings, clouds, until)


@pytest.fixture
def store(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return copied_store(tmp_path_factory, tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> tuple[ArchiveMaker, Settings]:
    return small_store(tmp_path)


def silence_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on an encoder that is asked anything fails the test."""

    def refuse(self: object, texts: Sequence[str]) -> VectorArray:
        raise AssertionError(f"asked for {texts[:3]}")

    for encoder in (HashingEncoder, SentenceEncoder):
        monkeypatch.setattr(encoder, "encode", refuse)


def work(result: EmbedResult) -> tuple[int, int, int, bool]:
    """Days gathered, texts encoded, days described, and whether a space was fitted."""
    return (result.gathered.built, result.encoded, result.described.built, result.fitted)


# --- again and again ------------------------------------------------------------------------------


def test_a_first_run_does_everything_and_says_so(store: Settings) -> None:
    result = embed(store)
    assert work(result) == (10, result.texts, 10, True)
    assert result.texts == open_cache(store).size
    assert result.folder == measures_folder(store)
    assert result.gathered.rows == 140
    assert result.described.atoms >= result.described.descriptors > 20


def test_run_again_nothing_is_done(store: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    first = embed(store)
    before = tree_of(first.folder)
    silence_encoders(monkeypatch)
    again = embed(store)
    assert work(again) == (0, 0, 0, False)
    assert (again.gathered.had, again.described.had, again.texts) == (10, 10, 0)
    assert again.space.fingerprint == first.space.fingerprint
    assert tree_of(first.folder) == before


def test_a_changed_day_is_made_again_and_no_other(small: tuple[ArchiveMaker, Settings]) -> None:
    maker, settings = small
    first = embed(settings)
    before = tree_of(first.folder)
    maker.day(DAY + timedelta(days=4), lines_of(4, Actor2CountryCode="JPN"))
    maker.write_lists()
    ingest(settings)
    again = embed(settings)
    assert (again.gathered.built, again.described.built, again.fitted) == (1, 1, False)
    assert 0 < again.encoded <= 4  # Japan, with and without a role
    after = tree_of(first.folder)
    different = {name for name in after if after[name] != before.get(name)}
    assert after.keys() == before.keys()
    assert {Path(name).name for name in different} == {
        "2014-01-10.parquet", "manifest.json", "days.json",
    }  # fmt: skip
    assert len(different) == 5


def test_a_new_day_is_placed_in_the_space_that_is_there(
    small: tuple[ArchiveMaker, Settings],
) -> None:
    maker, settings = small
    first = embed(settings)
    maker.day(DAY + timedelta(days=10), lines_of(10, EventCode="204", EventRootCode="20"))
    maker.write_lists()
    ingest(settings)
    again = embed(settings)
    assert (again.gathered.built, again.described.built, again.fitted) == (1, 1, False)
    assert again.space.fingerprint == first.space.fingerprint


def test_by_force_everything_is_gathered_again_and_nothing_encoded(
    store: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = embed(store)
    before = tree_of(first.folder)
    silence_encoders(monkeypatch)
    assert work(embed(store, force=True)) == (10, 0, 0, False)
    assert tree_of(first.folder) == before


def test_a_refit_of_the_same_days_is_the_same_space_without_encoding(
    store: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = embed(store)
    before = tree_of(first.folder)
    silence_encoders(monkeypatch)
    assert work(embed(store, refit=True)) == (0, 0, 0, True)
    assert tree_of(first.folder) == before


def test_a_refit_takes_other_settings_and_describes_all_days_anew(
    store: Settings,
) -> None:
    first = embed(store)
    other = embed(changed(store, "measures", verb_weight=0.5), refit=True)
    assert work(other) == (0, 0, 10, True)
    assert other.space.shares == pytest.approx((0.5, 0.2, 0.3))
    assert other.space.fingerprint != first.space.fingerprint
    assert len(list((first.folder / "descriptors").iterdir())) == 2


@pytest.mark.parametrize("stage", ["gathered", "encoded", "described"])
def test_interrupted_at_any_stage_it_goes_on_to_the_same_bytes(
    store: Settings, tmp_path: Path, stage: str
) -> None:
    class Impatient(Silent):
        def gathered(self, done: int, total: int, rows: int) -> None:
            self._hear("gathered", done)

        def encoded(self, done: int, total: int) -> None:
            self._hear("encoded", done)

        def described(self, done: int, total: int, made: int) -> None:
            self._hear("described", done)

        def _hear(self, what: str, done: int) -> None:
            if what == stage and done >= 3:
                raise KeyboardInterrupt

    settings = changed(store, "measures", folder=tmp_path / "interrupted")
    with pytest.raises(KeyboardInterrupt):
        embed(settings, progress=Impatient())
    embed(settings)
    plain = changed(store, "embed", cache=tmp_path / "own")
    assert tree_of(embed(plain).folder) == tree_of(tmp_path / "interrupted")


def test_killed_in_the_middle_it_goes_on_from_there(store: Settings, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(store.store)], check=False, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    again = embed(store)
    assert work(again) == (0, 0, 8, False)
    plain = changed(store, "measures", folder=tmp_path / "plain")
    assert tree_of(embed(plain).folder) == tree_of(again.folder)


def test_progress_is_told_for_each_stage(store: Settings) -> None:
    heard: list[tuple[Any, ...]] = []

    class Listening:
        def gathered(self, done: int, total: int, rows: int) -> None:
            heard.append(("gathered", done, total, rows))

        def encoded(self, done: int, total: int) -> None:
            heard.append(("encoded", done, total))

        def described(self, done: int, total: int, made: int) -> None:
            heard.append(("described", done, total, made))

    result = embed(store, progress=Listening())
    assert heard[9] == ("gathered", 10, 10, 140)
    assert heard[10] == ("encoded", result.texts, result.texts)
    assert heard[-1] == ("described", 10, 10, result.described.descriptors)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("verb_weight", 0.5), ("actor1_weight", 0.1), ("verb_dimensions", 8),
        ("actor_dimensions", 8),
    ],
)  # fmt: skip
def test_settings_that_contradict_the_space_are_refused_by_their_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: object
) -> None:
    world = measured(tmp_path_factory)
    there = getattr(world.space.settings, name)
    with pytest.raises(
        MeasuresError, match=rf"measures\.{name} = {there}, the settings say {value}: .*--refit"
    ):
        embed(changed(world.settings, "measures", **{name: value}))


def test_another_encoder_is_refused_before_it_encodes(
    small: tuple[ArchiveMaker, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, settings = small
    embed(settings)
    maker.day(DAY + timedelta(days=10), lines_of(10, Actor1CountryCode="JPN"))
    maker.write_lists()
    ingest(settings)
    silence_encoders(monkeypatch)
    with pytest.raises(
        MeasuresError, match=r"fitted with encoder hashing .*in use is minilm .*embed\.encoder back"
    ):
        embed(changed(settings, "embed", encoder="minilm"))


def test_a_store_without_days_is_refused(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "s.duckdb", tmp_path, embed__encoder="hashing")
    with Store(settings).writing():
        pass
    with pytest.raises(MeasuresError, match="has no days: `gdelphi ingest`"):
        embed(settings)


def test_a_first_day_behind_the_last_is_refused_by_its_name(
    small: tuple[ArchiveMaker, Settings],
) -> None:
    _, settings = small
    later = settings.measures.model_copy(update={"since": date(2030, 1, 1)})
    with pytest.raises(MeasuresError, match="no days since 2030-01-01: set an earlier measures"):
        embed(settings.model_copy(update={"measures": later}))


def test_training_days_without_a_country_are_refused(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(10):
        values = {"ActionGeo_CountryCode": ""} if number < 6 else {}
        maker.day(DAY + timedelta(days=number), lines_of(number, **values))
    maker.write_lists()
    settings = settings_for(
        tmp_path / "s.duckdb", maker.folder, embed__encoder="hashing", split__embargo_days=0
    )
    ingest(settings)
    with pytest.raises(GdelphiError, match="no training phrases"):
        embed(settings)
    with pytest.raises(MeasuresError, match=r"no country has rows up to 2014-01-11"):
        chosen(settings, Clouds(measures_folder(settings)))


# --- texts and training days ----------------------------------------------------------------------


def test_texts_are_those_that_the_points_are_made_from(
    store: Settings,
) -> None:
    gather(store)
    clouds = Clouds(measures_folder(store))
    (cloud,) = [clouds.cloud("GM", day) for day in clouds.days if len(clouds.cloud("GM", day))][:1]
    first, code, second = next(cloud.phrases())
    texts = texts_of(clouds, [cloud.day])
    assert {actor(first).text, actor(second).text, verb(code), verb(code[:2])} <= texts
    assert texts_of(clouds, [date(1999, 1, 1)]) == set()


def test_training_clouds_end_at_the_cutoff_and_leave_the_world_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = measured(tmp_path_factory)
    given = list(training_clouds(world.clouds, day_at(47)))
    assert {cloud.stream for cloud in given} == {"TZ", "ET", "UG", "KE"}
    assert {cloud.day for cloud in given} == {
        day_at(number) for number in range(48) if number not in GONE
    }
    fitted = world.space.fitted
    assert (fitted.since, fitted.until) == (str(day_at(0)), str(day_at(47)))
    assert fitted.stream_days == len(given)
    assert fitted.phrases == sum(map(len, given))
    assert world.phrases.fitted == fitted


def test_everything_on_disk_is_the_same_when_made_twice(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = measured(tmp_path_factory)
    space = fitted_again(world)
    assert space.fingerprint == world.space.fingerprint
    space.save(tmp_path)
    there = tree_of(measures_folder(world.settings) / "space")
    assert tree_of(tmp_path) == there
    assert len(world.clouds.days) == DAYS - len(GONE)


def fitted_again(world: Measured) -> Space:
    phrases = training_phrases(world.settings, world.clouds)
    return fit_space(world.settings.measures, phrases, world.cache)


# --- leakage --------------------------------------------------------------------------------------

SPAN, CUTOFF = 16, 9  # days, and the last of them that is for training


def garbage(number: int) -> list[str]:
    """Rows unlike anything before: loud new streams, codes and actors, dates in the training days,
    and numbers that rows of training days have."""
    day = DAY + timedelta(days=number)
    loud = [
        event_line(
            900_000 + 1000 * number + place, day, ActionGeo_CountryCode=("RS", "US")[place % 2],
            EventCode=("204", "9999", "")[place % 3], EventRootCode="20", EventBaseCode="204",
            Actor1CountryCode="QQQ", Actor1Type1Code="ZZZ", Actor2Religion1Code="MOS",
            NumMentions=1000 + place, SQLDATE=f"{DAY:%Y%m%d}", MonthYear=f"{DAY:%Y%m}",
        )
        for place in range(120)
    ]  # fmt: skip
    told_before = [
        event_line(1000 * place + place, day, ActionGeo_CountryCode="KE", NumMentions=99)
        for place in range(CUTOFF)
    ]
    return loud + told_before


def until_cutoff(settings: Settings, result: EmbedResult) -> dict[str, bytes]:
    """All bytes on disk that speak of days up to the cutoff, and what was fitted on them."""
    folder = result.folder
    rule = atom_rule(settings.measures)
    found = tree_of(folder / "space")
    for files in (Clouds(folder).files, descriptors_folder(settings, result.space, rule)):
        for number in range(CUTOFF + 1):
            path = files.path(DAY + timedelta(days=number))
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    points = Points(result.space, open_cache(settings))
    phrases = training_phrases(settings, Clouds(folder))
    found["phrases"] = repr(phrases).encode()
    found["basis"] = finest_points(points).tobytes()
    return found


def packed_until_cutoff(settings: Settings, result: EmbedResult) -> dict[str, Any]:
    """The content of a pack up to the cutoff."""
    pack = Pack(pack_days(settings, result.space).folder)
    until = CUTOFF + 1
    found: dict[str, Any] = {"streams": pack.facts.streams}
    for name in ("states", "statistics", "present", "partial", "backfile"):
        found[name] = getattr(pack, name)[:until].tobytes()
    found["counts"] = pack.counts[:, :until].tobytes()
    found["weights"] = pack.weights[:, :until].tobytes()
    for place in np.ndindex(until, len(pack.facts.streams)):
        slots, weights = pack.cloud(*place)
        found[f"cloud {place}"] = (slots.tobytes(), weights.tobytes())
        found[f"points {place}"] = pack.points(slots, result.space).tobytes()
        for variant in range(pack.facts.variants + 1):
            atoms = pack.atoms(*place, variant)
            named = pack.atom_phrases(*place, variant)
            found[f"atoms {place} {variant}"] = (*map(bytes, atoms), named)
    return found


def test_nothing_fitted_changes_when_days_after_the_cutoff_become_garbage(
    tmp_path: Path,
) -> None:
    maker, settings = small_store(tmp_path, days=SPAN, sequences__streams=2)
    plain = embed(settings)
    before = until_cutoff(settings, plain), packed_until_cutoff(settings, plain)
    assert plain.space.fitted.until == str(DAY + timedelta(days=CUTOFF))
    for number in range(CUTOFF + 1, SPAN):
        maker.day(DAY + timedelta(days=number), garbage(number))
    maker.write_lists()
    spoilt = settings.model_copy(update={"store": tmp_path / "spoilt" / "s.duckdb"})
    ingest(spoilt)
    other = embed(spoilt)
    last = Clouds(other.folder).on(DAY + timedelta(days=SPAN - 1))
    assert last is not None
    assert sorted(last.streams) == ["RS", "US", "WORLD"]  # what was told before belongs there
    after = until_cutoff(spoilt, other), packed_until_cutoff(spoilt, other)
    assert after[0] == before[0]
    assert after[1] == before[1]
    assert chosen(spoilt, Clouds(other.folder)) == ("KE", "UP")


def test_the_same_garbage_inside_the_training_days_changes_all_that_is_fitted(
    tmp_path: Path,
) -> None:
    """So the test above can fail."""
    maker, settings = small_store(tmp_path, days=SPAN, sequences__streams=2)
    plain = until_cutoff(settings, embed(settings))
    maker.day(DAY + timedelta(days=CUTOFF), garbage(CUTOFF))
    maker.write_lists()
    ingest(settings)
    spoilt = embed(settings, refit=True)
    after = until_cutoff(settings, spoilt)
    for name in ("space.json", "space.safetensors", "phrases", "basis"):
        assert after[name] != plain[name]
    assert chosen(settings, Clouds(spoilt.folder))[0] == "KE"
    assert set(chosen(settings, Clouds(spoilt.folder))) & {"RS", "US"}


def test_streams_that_are_named_are_taken_as_they_are(
    store: Settings,
) -> None:
    embed(store)
    clouds = Clouds(measures_folder(store))

    def choose(**given: Any) -> tuple[str, ...]:
        return chosen(changed(store, "sequences", **given), clouds)

    assert choose() == ("KE", "UP", "GM")
    assert choose(streams=1) == ("KE",)
    assert choose(only=("GM", "WORLD")) == ("GM", "WORLD")


def test_a_space_that_saw_days_after_the_training_end_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = measured(tmp_path_factory)
    late = date.fromisoformat(world.space.fitted.until)
    settings = changed(world.settings, "split", train_until=late - timedelta(days=1))
    with pytest.raises(MeasuresError, match=r"was fitted on days up to .* --refit"):
        embed(settings)
    kept = changed(world.settings, "split", train_until=late)
    assert not embed(kept).fitted
