"""A phrase has one point on the sphere, made of its slots, and a space is kept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.checksums import CHECKSUMS
from gdelphi.common.errors import GdelphiError, MeasuresError
from gdelphi.common.sections import MeasureSettings
from gdelphi.measures import space as space_module
from gdelphi.measures.clouds import Cloud
from gdelphi.measures.embed import training_clouds
from gdelphi.measures.encoder import EmbeddingCache, HashingEncoder
from gdelphi.measures.phrases import lineage, verb
from gdelphi.measures.space import (
    Fitted,
    Points,
    Space,
    fit_space,
    load_space,
    weigh_phrases,
)
from gdelphi.ot.sphere import Centring
from helpers.measured_world import DAY, Measured, cloud_of, day_at, hashing_cache, measured

FITTED = Fitted("2014-01-06", "2014-01-06", "2014-01-06", 1, 1, 4)
PHRASES = {
    ("KEN|||||GOV", "042", "UKR"): 1.0,
    ("UKR", "1411", "KEN|||||COP"): 2.0,
    ("", "190", "RUS|||||MIL"): 0.5,
    ("DEU", "010", ""): 0.5,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


def small_space(cache: EmbeddingCache, **changes: object) -> Space:
    """A space fitted on four phrases."""
    settings = MeasureSettings(**changes)  # type: ignore[arg-type]
    return fit_space(settings, weigh_phrases([cloud_of(PHRASES)]), cache)


# --- points ---------------------------------------------------------------------------------------


def test_points_have_length_one(world: Measured) -> None:
    for stream in ("TZ", "KE", "WORLD"):
        points = world.points().of(world.cloud(stream, 1))
        assert points.shape == (len(world.cloud(stream, 1)), world.space.dimension)
        assert points.dtype == np.float32
        lengths = np.linalg.norm(points.astype(np.float64), axis=1)
        assert np.abs(lengths - 1).max() < 1e-6


def test_inner_products_are_sums_over_slots_of_share_times_cosine(world: Measured) -> None:
    cloud, points = world.cloud("TZ", 1), world.points()
    whole = points.of(cloud).astype(np.float64)
    first, code, second = cloud.phrase_columns()
    blocks = (points.verbs(code), points.actors(first), points.actors(second))
    assert world.space.shares == pytest.approx((0.65, 0.2, 0.15))
    expected = sum(
        share * block.astype(np.float64) @ block.T.astype(np.float64)
        for share, block in zip(world.space.shares, blocks, strict=True)
    )
    assert np.abs(whole @ whole.T - expected).max() < 1e-6


def test_two_phrases_that_share_two_slots_differ_by_the_third_alone(world: Measured) -> None:
    pair = cloud_of({("KEN", "042", "UKR"): 1.0, ("KEN", "190", "UKR"): 1.0})
    points = world.points()
    one, other = points.of(pair).astype(np.float64)
    cosine = float(np.prod(points.verbs(["042", "190"]), axis=0, dtype=np.float64).sum())
    assert one @ other == pytest.approx(0.35 + 0.65 * cosine, abs=1e-6)


def test_blocks_are_read_back_from_points(world: Measured) -> None:
    cloud, points, space = world.cloud("TZ", 1), world.points(), world.space
    whole = points.of(cloud)
    first, code, second = cloud.phrase_columns()
    verbs = space.verb_part(whole) / np.sqrt(0.65)
    assert np.abs(verbs - points.verbs(code)).max() < 1e-6
    width = space.blocks["actor"].dimension
    assert np.abs(whole[:, -2 * width : -width] / np.sqrt(0.2) - points.actors(first)).max() < 1e-6
    assert np.abs(whole[:, -width:] / np.sqrt(0.15) - points.actors(second)).max() < 1e-6
    assert verbs.shape[1] + 2 * width == space.dimension == whole.shape[1]


def test_a_phrase_has_the_same_bits_whatever_it_is_looked_up_with(world: Measured) -> None:
    keys = sorted(world.phrases.actors)
    together, alone = world.points(), world.points()
    for key in reversed(keys):
        alone.actors([key])
    assert together.actors(keys).tobytes() == alone.actors(keys).tobytes()
    codes = sorted(world.phrases.codes)
    by_seven = [world.points().verbs(codes[at : at + 7]) for at in range(0, len(codes), 7)]
    assert np.concatenate(by_seven).tobytes() == together.verbs(codes).tobytes()


def test_a_measure_is_the_points_with_the_weights_of_the_cloud(world: Measured) -> None:
    cloud = world.cloud("TZ", 3)
    measure = world.points().measure(cloud)
    assert measure.points.tobytes() == world.points().of(cloud).tobytes()
    assert measure.weights.sum() == pytest.approx(1, abs=1e-12)


def test_a_cloud_without_points_has_an_array_without_rows(world: Measured) -> None:
    missing = world.cloud("TZ", 20)
    assert missing.state == "missing"
    for cloud in (missing, cloud_of({})):
        points = world.points().of(cloud)
        assert points.shape == (0, world.space.dimension)
        assert points.dtype == np.float32


def test_blank_actors_and_unknown_codes_have_points(world: Measured) -> None:
    odd = cloud_of({("", "", ""): 1.0, ("XXQ|ZZ", "9999", "||q"): 1.0, ("", "1499", ""): 1.0})
    points = world.points().of(odd)
    assert np.isfinite(points).all()
    assert np.abs(np.linalg.norm(points, axis=1) - 1).max() < 1e-6
    assert len(np.unique(points, axis=0)) == 3


def test_a_phrase_at_the_mean_has_a_direction(world: Measured) -> None:
    mean = world.cache.embed([verb("190"), verb("190"), verb("19")]).sum(axis=0) / np.float32(3)
    axes = world.space.blocks["verb"].axes
    blocks = {**world.space.blocks, "verb": Centring(mean, axes, 1.0)}
    points = Points(Space(world.space.settings, "hashing", "1-64", blocks, FITTED), world.cache)
    (at_mean,) = points.of(cloud_of({("KEN", "190", "UKR"): 1.0}))
    assert np.isfinite(at_mean).all()
    assert np.linalg.norm(at_mean) == pytest.approx(1, abs=1e-6)
    assert points.verbs(["190"]).tolist() == [[1.0] + [0.0] * (len(axes) - 1)]


def test_a_space_of_one_phrase_has_points(tmp_path: Path) -> None:
    cache = hashing_cache(tmp_path)
    lone = weigh_phrases([cloud_of({("KEN", "190", "KEN"): 1.0})])
    points = Points(fit_space(MeasureSettings(), lone, cache), cache).of(cloud_of(PHRASES))
    assert np.abs(np.linalg.norm(points, axis=1) - 1).max() < 1e-6


def test_a_verb_is_the_mean_of_its_lineage(tmp_path: Path) -> None:
    cache = hashing_cache(tmp_path)
    space = small_space(cache)
    texts = [verb(code) for code in ("1411", "141", "14")]
    mean = cache.embed(texts).sum(axis=0, keepdims=True) / np.float32(3)
    expected = space.blocks["verb"].apply(mean)
    assert np.abs(Points(space, cache).verbs(["1411"]) - expected).max() < 1e-6


def test_shares_come_from_the_settings_and_actor_2_may_have_none(tmp_path: Path) -> None:
    cache = hashing_cache(tmp_path)
    space = small_space(cache, verb_weight=0.75, actor1_weight=0.25)
    assert space.shares == (0.75, 0.25, 0.0)
    one, other = Points(space, cache).of(
        cloud_of({("KEN", "190", "UKR"): 1.0, ("KEN", "190", "RUS"): 1.0})
    )
    assert np.array_equal(one, other)
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-6)


# --- fitting --------------------------------------------------------------------------------------


def test_weights_of_phrases_by_hand() -> None:
    first = cloud_of({("KEN", "190", "UKR"): 3.0, ("UKR", "042", ""): 1.0})
    second = cloud_of({("KEN", "190", "UKR"): 8.0}, stream="UP", day=day_at(0))
    found = weigh_phrases([first, second, cloud_of({}, stream="GM")])
    assert found.codes == {"190": pytest.approx(1.75), "042": pytest.approx(0.25)}
    assert found.actors == {
        "KEN": pytest.approx(1.75), "UKR": pytest.approx(2.0), "": pytest.approx(0.25),
    }  # fmt: skip
    assert found.fitted == Fitted(
        DAY.isoformat(), day_at(0).isoformat(), day_at(0).isoformat(), 2, 2, 3
    )


def test_the_order_of_clouds_makes_no_difference_but_rounding(world: Measured) -> None:
    clouds = list(training_clouds(world.clouds, day_at(47)))
    order = np.random.default_rng(0).permutation(len(clouds))
    codes, actors = sorted(world.phrases.codes), sorted(world.phrases.actors)
    products = []
    for each in (clouds, [clouds[place] for place in order]):
        phrases = weigh_phrases(each)
        assert phrases.fitted == world.space.fitted
        space = fit_space(world.space.settings, phrases, world.cache)
        points = Points(space, world.cache)
        parts = points.verbs(codes), points.actors(actors)
        products.append([part.astype(np.float64) @ part.T for part in parts])
    for one, other in zip(*products, strict=True):
        assert np.abs(one - other).max() < 1e-4


def test_training_points_are_centred(world: Measured) -> None:
    codes = sorted(world.phrases.codes)
    weights = np.array([world.phrases.codes[code] for code in codes])
    block = world.space.blocks["verb"]
    raw = world.cache.embed([verb(code) for code in codes])
    assert not np.allclose(weights @ raw / weights.sum(), block.mean, atol=1e-3)  # lineage
    above = [lineage(code) for code in codes]
    raw = raw + world.cache.embed([verb(code.base) for code in above])
    raw = raw + world.cache.embed([verb(code.root) for code in above])
    assert np.abs(weights @ raw / 3 / weights.sum() - block.mean).max() < 1e-6


def test_without_training_phrases_nothing_is_fitted(tmp_path: Path) -> None:
    with pytest.raises(GdelphiError, match="no training phrases"):
        fit_space(MeasureSettings(), weigh_phrases([cloud_of({})]), hashing_cache(tmp_path))


# --- on disk --------------------------------------------------------------------------------------


def test_a_saved_space_comes_back_with_its_fingerprint_bytes_and_points(
    world: Measured, tmp_path: Path
) -> None:
    world.space.save(tmp_path / "once")
    loaded = load_space(tmp_path / "once")
    assert loaded.fingerprint == world.space.fingerprint
    assert loaded.fitted == world.space.fitted
    loaded.save(tmp_path / "twice")
    for name in ("space.json", "space.safetensors"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "once").iterdir()) == [
        CHECKSUMS, "space.json", "space.safetensors",
    ]  # fmt: skip
    cloud = world.cloud("TZ", 1)
    assert Points(loaded, world.cache).of(cloud).tobytes() == world.points().of(cloud).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"verb_weight": 0.6}, {"actor1_weight": 0.1}, {"verb_dimensions": 8},
        {"actor_dimensions": 8},
    ],
)  # fmt: skip
def test_whatever_moves_points_changes_the_fingerprint(
    tmp_path: Path, change: dict[str, object]
) -> None:
    cache = hashing_cache(tmp_path)
    assert small_space(cache, **change).fingerprint != small_space(cache).fingerprint


def test_what_moves_no_point_leaves_the_fingerprint(tmp_path: Path) -> None:
    cache = hashing_cache(tmp_path)
    other = small_space(cache, most_atoms=5, explained=0.9, folder=tmp_path)
    assert other.fingerprint == small_space(cache).fingerprint


@pytest.fixture
def saved(world: Measured, tmp_path: Path) -> Path:
    world.space.save(tmp_path / "space")
    return tmp_path / "space"


def test_a_changed_byte_is_noticed(saved: Path) -> None:
    path = saved / "space.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(MeasuresError, match=r"were changed.*gdelphi embed --refit`, and train"):
        load_space(saved)


def test_a_changed_wording_is_noticed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "tables_fingerprint", lambda: "other")
    with pytest.raises(MeasuresError, match=r"packaged wording was.*gdelphi embed --refit"):
        load_space(saved)


def _edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "space.safetensors").unlink(),
        lambda folder: (folder / "space.safetensors").write_bytes(b"\x00" * 20),
        lambda folder: (folder / "space.json").write_text("{"),
        lambda folder: (folder / "space.json").write_bytes(b"\xff"),
        lambda folder: (folder / "space.json").write_text("[]"),
        lambda folder: _edit(folder / "space.json", lambda said: said.pop("fingerprint")),
        lambda folder: _edit(folder / "space.json", lambda said: said.update(kept=[])),
        lambda folder: _edit(folder / "space.json", lambda said: said.update(kept={"noun": 1})),
        lambda folder: _edit(folder / "space.json", lambda said: said.update(settings={"a": 1})),
        lambda folder: _edit(folder / "space.json", lambda said: said.update(fitted={"a": 1})),
    ],
    ids=["tensors gone", "no tensors", "no json", "no text", "a list", "no fingerprint",
         "no blocks", "another block", "other settings", "other facts"],
)  # fmt: skip
def test_files_that_hold_no_space_say_so_and_what_to_do(
    saved: Path, damage: Callable[[Path], object]
) -> None:
    damage(saved)
    with pytest.raises(MeasuresError, match=r"no space that can be read.*gdelphi embed --refit"):
        load_space(saved)


def test_a_space_of_another_format_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "FORMAT", 2)
    with pytest.raises(MeasuresError, match=r"gdelphi embed --refit"):
        load_space(saved)


def test_without_a_space_the_command_that_fits_one_is_named(saved: Path) -> None:
    for remove in ((saved / "space.json").unlink, lambda: shutil.rmtree(saved)):
        remove()
        with pytest.raises(MeasuresError, match=r"no space in .*`gdelphi embed` fits one"):
            load_space(saved)


def test_another_encoder_is_refused_with_both_names(world: Measured, tmp_path: Path) -> None:
    other = HashingEncoder(32)
    with pytest.raises(
        MeasuresError, match=r"hashing \(1-64\).*hashing \(1-32\).*embed\.encoder back, or.*--refit"
    ):
        Points(world.space, EmbeddingCache(tmp_path, other))
    other.name, other.revision = "minilm", "1-64"
    with pytest.raises(MeasuresError, match=r"encoder hashing.*is minilm"):
        Points(world.space, EmbeddingCache(tmp_path, other))


def test_points_ask_the_encoder_for_each_slot_once(tmp_path: Path) -> None:
    class Refusing(HashingEncoder):
        def encode(self, texts: object) -> object:  # type: ignore[override]
            raise AssertionError(f"asked for {texts}")

    cache = hashing_cache(tmp_path)
    space = small_space(cache)
    cloud: Cloud = cloud_of(PHRASES)
    expected = Points(space, cache).of(cloud)
    again = Points(space, EmbeddingCache(tmp_path, Refusing()))  # type: ignore[arg-type]
    assert again.of(cloud).tobytes() == expected.tobytes()
    with pytest.raises(AssertionError, match="asked for"):
        again.of(cloud_of({("FRA", "190", "ITA"): 1.0}))
