"""Every standard event has a point, and what is near it is told by it."""

import hashlib
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.types import Level
from gdelphi.measures.basis import (
    Basis,
    fit_basis,
    project,
)
from gdelphi.measures.cloud_update import gather
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import (
    Fitted,
    PhraseWeights,
    Points,
    fit_space,
    weigh_phrases,
)
from gdelphi.ot.sphere import unit
from gdelphi.store.ingest import ingest
from helpers.archives import settings_for
from helpers.measured_world import Measured, cloud_of, measured

LEVELS: tuple[Level, ...] = ("root", "base", "full")
TRAINING_DAYS, HELD_OUT_DAY, FILES_A_DAY = ("20250517", "20250519"), "20250521", 2
STREAMS, HELD_OUT, ACTORS = ("US", "UP", "UK", "IN", "IS"), 400, 40


@pytest.fixture(scope="module", params=["slots", "sentence"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory, request.param)


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


# --- the points of standard events ----------------------------------------------------------------


@pytest.mark.parametrize(("level", "size"), [("root", 20), ("base", 146), ("full", 290)])
def test_every_code_of_a_level_has_a_point(world: Measured, level: Level, size: int) -> None:
    basis = fit_basis(world.points(), world.phrases, level)
    assert (basis.level, basis.codes) == (level, standard_events(level))
    assert len(basis.codes) == len(basis.points) == size
    assert np.abs(np.linalg.norm(basis.points.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert len(np.unique(basis.points, axis=0)) == size


def test_a_root_stands_at_the_centroid_of_the_training_phrases_with_it(slots: Measured) -> None:
    basis = fit_basis(slots.points(), slots.phrases, "root")
    own = {code: weight for code, weight in slots.phrases.codes.items() if code[:2] == "14"}
    assert len(own) > 1
    verbs = slots.points().verbs(sorted(own)).astype(np.float64)
    centroid = np.array([own[code] for code in sorted(own)]) @ verbs
    expected = centroid / np.linalg.norm(centroid)
    assert np.abs(basis.points[basis.codes.index("14")] - expected).max() < 1e-6


def test_a_sentence_counts_with_its_weight(tmp_path_factory: pytest.TempPathFactory) -> None:
    points = measured(tmp_path_factory, "sentence").points()
    heavy, light = ("KEN", "190", "UGA", "KE"), ("UGA", "193", "", "UG")
    phrases = PhraseWeights({}, {}, {heavy: 3.0, light: 1.0}, Fitted("", "", "", 1, 1, 2))
    basis = fit_basis(points, phrases, "root")
    sums = np.array([3.0, 1.0]) @ points.sentences([heavy, light]).astype(np.float64)
    found = basis.points[basis.codes.index("19")]
    assert np.abs(found - sums / np.linalg.norm(sums)).max() < 1e-6


def test_a_code_that_was_never_seen_stands_at_its_own_phrase(world: Measured) -> None:
    seen = {lineage(code).full for code in world.phrases.codes}
    basis = fit_basis(world.points(), world.phrases, "full")
    unseen = [code for code in basis.codes if code not in seen]
    assert len(unseen) > 20
    points = world.points()
    if world.space.settings.layout == "slots":
        own = points.verbs(unseen)
    else:
        own = points.sentences([("", code, "", "WORLD") for code in unseen])
        assert sentence("", "190", "").startswith("someone")
    found = basis.points[[basis.codes.index(code) for code in unseen]]
    assert np.abs(found - own).max() < 1e-6


def test_codes_that_no_table_has_are_left_out(slots: Measured) -> None:
    unknown = slots.phrases._replace(codes={**slots.phrases.codes, "9999": 5.0, "": 5.0})
    for level in LEVELS:
        with_them = fit_basis(slots.points(), unknown, level)
        without = fit_basis(slots.points(), slots.phrases, level)
        assert with_them.points.tobytes() == without.points.tobytes()


# --- projection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_the_own_verb_of_a_code_is_projected_onto_it(slots: Measured, level: Level) -> None:
    nothing = slots.phrases._replace(codes={})
    basis = fit_basis(slots.points(), nothing, level)
    verbs = slots.points().verbs(basis.codes)
    assert basis.nearest(verbs).tolist() == list(range(len(basis.codes)))
    if level != "root":  # no row carries a root alone: its phrase is near its codes, not at one
        assert np.abs(np.diag(basis.cosines(verbs)) - 1).max() < 1e-5


def test_points_of_a_cloud_are_projected_by_their_verbs(slots: Measured) -> None:
    basis = fit_basis(slots.points(), slots.phrases, "full")
    assert basis.starts.tolist() == list(range(290))
    assert basis.finest.tobytes() == basis.points.tobytes()
    codes = [code for code in ("1411", "190", "042", "010") if code in slots.phrases.codes]
    cloud = cloud_of({("KEN", code, "UGA|||||GOV"): 1.0 for code in codes})
    found = project(slots.points(), basis, cloud)
    assert found.keys == basis.codes
    assert found.values() == [lineage(code).full for code in codes]
    assert project(slots.points(), basis, cloud_of({})).values() == []


def axes(*codes: str, starts: tuple[int, ...] | None = None, finest: int = 0) -> Basis:
    """A basis whose finest codes are the axes; each code begins at one of them."""
    size = finest or len(codes)
    begins = np.array(starts or range(len(codes)), dtype=np.int64)
    unused = np.zeros((len(codes), size), dtype=np.float32)
    return Basis("root", codes, unused, np.eye(size, dtype=np.float32), begins)


def test_cosines_do_not_depend_on_length_and_ties_go_to_the_smaller_code() -> None:
    basis = axes("01", "02", "03")
    events = np.array([[0.0, 0.03, 0.04], [0.5, 0.5, 0.0]], dtype=np.float32)
    assert basis.cosines(events)[0].tolist() == pytest.approx([0, 0.6, 0.8])
    assert basis.nearest(events).tolist() == [2, 0]
    nothing = basis.cosines(np.zeros((1, 3), dtype=np.float32))
    assert nothing.tolist() == [[1.0, 0.0, 0.0]]  # a direction, not NaN


def test_soft_assignment_is_a_softmax_of_cosines() -> None:
    shares = axes("01", "02").soft(np.array([[0.6, 0.8]], dtype=np.float32), 0.1)
    assert shares[0, 1] / shares[0, 0] == pytest.approx(np.exp(2.0), rel=1e-5)
    assert shares.dtype == np.float64


def test_a_code_is_as_near_as_the_nearest_of_its_finest_and_takes_what_they_take() -> None:
    basis = axes("01", "02", starts=(0, 2), finest=3)
    events = np.array([[0.48, 0.64, 0.6], [0.6, 0.0, 0.8]], dtype=np.float32)
    assert basis.cosines(events) == pytest.approx(np.array([[0.64, 0.6], [0.6, 0.8]]))
    assert basis.nearest(events).tolist() == [0, 1]
    masses = np.exp(np.array([0.48, 0.64, 0.6]) / 0.1)
    expected = np.array([masses[0] + masses[1], masses[2]]) / masses.sum()
    assert basis.soft(events, 0.1)[0] == pytest.approx(expected, rel=1e-5)


def test_levels_do_not_contradict_each_other(world: Measured) -> None:
    root, base, full = (fit_basis(world.points(), world.phrases, level) for level in LEVELS)
    events = world.space.event_part(world.points().of(world.cloud("WORLD", 1)))
    named = [base.codes[place] for place in base.nearest(events)]
    assert [root.codes[place] for place in root.nearest(events)] == [
        lineage(code).root for code in named
    ]
    assert named == [lineage(full.codes[place]).base for place in full.nearest(events)]
    for coarse, fine in ((root, base), (base, full)):
        shares = fine.soft(events, 0.1)
        for place, code in enumerate(coarse.codes):
            inside = [getattr(lineage(each), coarse.level) == code for each in fine.codes]
            added = shares[:, inside].sum(axis=1)
            assert np.abs(coarse.soft(events, 0.1)[:, place] - added).max() < 1e-12


def test_soft_assignment_sums_to_one_and_sharpens_as_it_cools(world: Measured) -> None:
    basis = fit_basis(world.points(), world.phrases, "full")
    events = world.space.event_part(world.points().of(world.cloud("TZ", 1)))
    largest = []
    for temperature in (1.0, 0.1, 0.01, 1e-6):
        shares = basis.soft(events, temperature)
        assert np.isfinite(shares).all()
        assert np.abs(shares.sum(axis=1) - 1).max() < 1e-12
        assert (shares.argmax(axis=1) == basis.nearest(events)).all()
        largest.append(shares.max(axis=1))
    for warmer, colder in pairwise(largest[:3]):
        assert (colder > warmer).all()
    assert np.median(largest[-1]) > 0.999


# --- real phrases with the real encoder -----------------------------------------------------------


def test_root_and_base_of_phrases_of_another_day_are_found(
    shared_data: Path, tmp_path: Path
) -> None:
    """Slots in the default encoder; centroids from the phrases of two days, held against a third.

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
    phrases = weigh_phrases(seen, sentences=False)
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
        basis = fit_basis(points, phrases, level)
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
