"""Every standard event has a point, and what is near it is told by it."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.types import LEVELS, Level
from gdelphi.measures.basis import Basis, standard_basis
from gdelphi.measures.cloud_update import gather
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import (
    Points,
    fit_space,
    weigh_phrases,
)
from gdelphi.ot.sphere import unit
from gdelphi.store.ingest import ingest
from helpers.archives import settings_for
from helpers.measured_world import Measured, cloud_of, measured

TRAINING_DAYS, HELD_OUT_DAY, FILES_A_DAY = ("20250517", "20250519"), "20250521", 2
STREAMS, HELD_OUT, ACTORS = ("US", "UP", "UK", "IN", "IS"), 400, 40


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


# --- the points of standard events ----------------------------------------------------------------


@pytest.mark.parametrize(("level", "size"), [("root", 20), ("base", 146), ("full", 290)])
def test_every_code_of_a_level_has_its_finest_codes(
    world: Measured, level: Level, size: int
) -> None:
    basis = standard_basis(world.points(), level)
    assert (basis.level, basis.codes) == (level, standard_events(level))
    assert len(basis.codes) == len(basis.starts) == size
    assert basis.finest.shape == (290, world.space.blocks["verb"].dimension)
    assert np.abs(np.linalg.norm(basis.finest.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert len(np.unique(basis.finest, axis=0)) == 290


# --- projection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_the_own_verb_of_a_code_is_projected_onto_it(world: Measured, level: Level) -> None:
    basis = standard_basis(world.points(), level)
    verbs = world.points().verbs(basis.codes)
    assert basis.nearest(verbs).tolist() == list(range(len(basis.codes)))
    if level != "root":  # no row carries a root alone: its phrase is near its codes, not at one
        assert np.abs(np.diag(basis.cosines(verbs)) - 1).max() < 1e-5


def test_points_of_a_cloud_are_projected_by_their_verbs(world: Measured) -> None:
    basis = standard_basis(world.points(), "full")
    assert basis.starts.tolist() == list(range(290))
    codes = [code for code in ("1411", "190", "042", "010") if code in world.phrases.codes]
    cloud = cloud_of({("KEN", code, "UGA|||||GOV"): 1.0 for code in codes})
    nearest = basis.nearest(world.space.verb_part(world.points().of(cloud)))
    assert [basis.codes[place] for place in nearest] == [lineage(code).full for code in codes]
    assert basis.nearest(world.space.verb_part(world.points().of(cloud_of({})))).tolist() == []


def axes(*codes: str, starts: tuple[int, ...] | None = None, finest: int = 0) -> Basis:
    """A basis whose finest codes are the axes; each code begins at one of them."""
    size = finest or len(codes)
    begins = np.array(starts or range(len(codes)), dtype=np.int64)
    return Basis("root", codes, np.eye(size, dtype=np.float32), begins)


def test_cosines_do_not_depend_on_length_and_ties_go_to_the_smaller_code() -> None:
    basis = axes("01", "02", "03")
    events = np.array([[0.0, 0.03, 0.04], [0.5, 0.5, 0.0]], dtype=np.float32)
    assert basis.cosines(events)[0].tolist() == pytest.approx([0, 0.6, 0.8])
    assert basis.nearest(events).tolist() == [2, 0]
    nothing = basis.cosines(np.zeros((1, 3), dtype=np.float32))
    assert nothing.tolist() == [[1.0, 0.0, 0.0]]  # a direction, not NaN


def test_a_code_is_as_near_as_the_nearest_of_its_finest() -> None:
    basis = axes("01", "02", starts=(0, 2), finest=3)
    events = np.array([[0.48, 0.64, 0.6], [0.6, 0.0, 0.8]], dtype=np.float32)
    assert basis.cosines(events) == pytest.approx(np.array([[0.64, 0.6], [0.6, 0.8]]))
    assert basis.nearest(events).tolist() == [0, 1]


def test_levels_do_not_contradict_each_other(world: Measured) -> None:
    root, base, full = (standard_basis(world.points(), level) for level in LEVELS)
    events = world.space.verb_part(world.points().of(world.cloud("WORLD", 1)))
    named = [base.codes[place] for place in base.nearest(events)]
    assert [root.codes[place] for place in root.nearest(events)] == [
        lineage(code).root for code in named
    ]
    assert named == [lineage(full.codes[place]).base for place in full.nearest(events)]


# --- real phrases with the real encoder -----------------------------------------------------------


def test_root_and_base_of_phrases_of_another_day_are_found(
    shared_data: Path, tmp_path: Path
) -> None:
    """The default encoder; a space from the phrases of two days, held against a third.

    Actors have a block of their own: a few of them are enough to have one, and are quick.
    """
    archive = some_files(shared_data / "gdelt2-world", tmp_path / "archive")
    settings = settings_for(tmp_path / "s.duckdb", archive)
    ingest(settings)
    gather(settings)
    clouds = Clouds(measures_folder(settings))
    *training, last = clouds.days
    assert len(training) == len(TRAINING_DAYS)
    cache = open_cache(settings)
    seen = [clouds.cloud(stream, day) for day in training for stream in STREAMS]
    phrases = weigh_phrases(seen)
    heaviest = sorted(phrases.actors, key=lambda key: -phrases.actors[key])[:ACTORS]
    few = phrases._replace(actors={key: phrases.actors[key] for key in heaviest})
    points = Points(fit_space(settings.measures, few, cache), cache)
    known = {phrase for cloud in seen for phrase in cloud.phrases()}
    new = [
        phrase for stream in STREAMS for phrase in clouds.cloud(stream, last).phrases()
        if phrase not in known
    ][:HELD_OUT]  # fmt: skip
    assert len(new) == HELD_OUT
    codes = [code for _, code, _ in new]
    assert len(set(codes)) > 50
    verbs = np.float32(0.65**0.5) * points.verbs(codes)
    for level, least in (("root", 0.98), ("base", 0.98)):
        basis = standard_basis(points, level)
        found = [basis.codes[place] for place in basis.nearest(unit(verbs))]
        right = [getattr(lineage(code), level) for code in codes]
        assert np.mean([one == other for one, other in zip(found, right, strict=True)]) >= least


def some_files(source: Path, folder: Path) -> Path:
    """A few 15-minute files of the three days, as an archive of their own."""
    folder.mkdir()
    lines = []
    for day in (*TRAINING_DAYS, HELD_OUT_DAY):
        for path in sorted(source.glob(f"{day}*.export.CSV.zip"))[:FILES_A_DAY]:
            content = path.read_bytes()
            shutil.copyfile(path, folder / path.name)
            md5 = hashlib.md5(content).hexdigest()
            site = "http://data.gdeltproject.org/gdeltv2"
            lines.append(f"{len(content)} {md5} {site}/{path.name}\n")
    (folder / "masterfilelist.txt").write_text("".join(lines))
    return folder
