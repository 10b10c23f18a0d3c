"""The decoder's start is what it says, nothing looks past its last day, and training is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gdelphi.app.commands.train import decoder_line
from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.measures.pack import Pack
from gdelphi.model.data import TrainingData
from gdelphi.model.decoder import DecoderConfig
from gdelphi.model.decoder_start import POOLED_DAYS, RecentDays, summary, thin
from gdelphi.model.decoder_task import (
    DECODER_FILE,
    DECODER_FOLDER,
    DecoderSettings,
    DecoderTask,
    gather,
    load_decoder,
    make_example,
    read_decoder_choice,
    train_decoder,
)
from gdelphi.model.processes import training_device
from gdelphi.model.train import train
from helpers.measured_world import changed
from helpers.training_world import data, one_thread, settings

__all__ = ["data", "one_thread", "settings"]
END, STREAM, CPU = 50, 0, torch.device("cpu")
TINY: dict[str, Any] = {
    "steps": 6, "evaluate_every": 3, "examples": 24, "evaluated": 12, "fewest": 4, "batch": 4,
    "blocks": 2, "days": 10, "points": 16, "warm_up": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def recent(data: TrainingData) -> RecentDays:
    return RecentDays(data.arrays.pack, data.space)


# --- the start ------------------------------------------------------------------------------------


def test_thinning_keeps_the_measure() -> None:
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    kept, masses = thin(weights, 4)
    assert kept.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(masses, weights)
    kept, masses = thin(weights, 2)
    assert (kept.tolist(), masses.tolist()) == ([0, 1], [0.5, 0.5])
    many = np.random.default_rng(0).random(1000)
    kept, masses = thin(many, 100)
    assert masses.sum() == pytest.approx(1)
    assert abs(masses @ kept - many @ np.arange(1000) / many.sum()) < 10


def test_the_recent_cloud_is_the_mean_of_days_by_recency(recent: RecentDays) -> None:
    half_life = 9.0
    cloud = recent.recent_cloud(STREAM, END, half_life, most=None)
    assert cloud is not None
    expected: dict[tuple[int, ...], float] = {}
    for day in range(max(END - POOLED_DAYS + 1, 0), END + 1):
        slots, weights = recent.pack.cloud(day, STREAM)
        for phrase, weight in zip(slots.tolist(), weights.tolist(), strict=True):
            share = weight * 0.5 ** ((END - day) / half_life)
            expected[tuple(phrase)] = expected.get(tuple(phrase), 0.0) + share
    total = sum(expected.values())
    found = dict(zip(map(tuple, cloud.slots.tolist()), cloud.measure.weights, strict=True))
    assert found.keys() == expected.keys()
    for phrase, share in expected.items():
        assert found[phrase] == pytest.approx(share / total, rel=1e-5)


def test_the_start_has_no_more_atoms_than_asked_for(recent: RecentDays) -> None:
    cloud = recent.recent_cloud(STREAM, END, 9.0)
    assert cloud is not None
    atoms = summary(cloud, 5)
    assert len(atoms.weights) == 5
    assert atoms.weights.sum() == pytest.approx(1)


def test_a_stream_without_a_past_has_no_start(recent: RecentDays) -> None:
    assert recent.recent_cloud(STREAM, -1, 9.0) is None
    assert make_example(recent, DecoderConfig(), STREAM, 0) is None


def test_last_days_are_those_with_points_the_latest_first(recent: RecentDays) -> None:
    past = recent.last_days(STREAM, END, days=100, most=16)
    filled = [day for day in range(END, -1, -1) if len(recent.pack.cloud(day, STREAM)[1])]
    there = past.weights.sum(axis=1) > 0
    assert past.lags[there].tolist() == [END - day for day in filled]
    np.testing.assert_allclose(past.weights[there].sum(axis=1), 1, rtol=1e-5)


def test_nothing_looks_past_its_last_day(
    recent: RecentDays, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (
        recent.recent_cloud(STREAM, END, 9.0),
        recent.last_days(STREAM, END, days=20, most=16),
    )
    whole = Pack.cloud

    def only_the_past(self: Pack, day: int, stream: int) -> Any:
        assert day <= END, "the future was looked at"
        return whole(self, day, stream)

    monkeypatch.setattr(Pack, "cloud", only_the_past)
    again = (
        recent.recent_cloud(STREAM, END, 9.0),
        recent.last_days(STREAM, END, days=20, most=16),
    )
    assert known[0] is not None
    assert again[0] is not None
    np.testing.assert_array_equal(known[0].measure.weights, again[0].measure.weights)
    for one, other in zip(known[1], again[1], strict=True):
        np.testing.assert_array_equal(one, other)


# --- training -------------------------------------------------------------------------------------


def test_examples_are_of_training_days_and_validation_a(data: TrainingData) -> None:
    task = DecoderTask(data, CPU, DecoderSettings(**TINY))
    assert {one.target for one in task.examples} <= set((data.ends + 1).tolist())
    assert {one.target for one in task.evaluated} <= set(data.validation_a.tolist())
    start, past = gather(task.recent, task.examples[:3])
    assert start.points.shape[:2] == (*past.points.shape[:1], start.weights.shape[1])
    assert (past.lags >= 0).all()


def test_the_start_is_the_nearest_of_those_that_were_tried(data: TrainingData) -> None:
    task = DecoderTask(data, CPU, DecoderSettings(**TINY))
    config = task.config
    name = f"half-life {config.start_half_life:g}, {config.atoms} atoms"
    assert task.starts[name] == min(task.starts.values())
    untrained = task.evaluate(task.model())["score"]
    assert untrained == pytest.approx(task.starts[name], rel=1e-5)


def test_what_is_kept_is_never_worse_than_the_start_on_validation_a(
    data: TrainingData, tmp_path: Path
) -> None:
    with training_device(data.settings.train) as accelerator:
        made = DecoderSettings(**TINY)
        choice = train_decoder(data, tmp_path / "decoder", accelerator, settings=made)
        known = read_decoder_choice(tmp_path / "decoder")
        assert known == choice
        assert not choice.skipped
        assert choice.decoded <= choice.start
        assert choice.start == pytest.approx(min((choice.starts or {}).values()), rel=1e-5)
        loaded = load_decoder(tmp_path / "decoder")
        assert loaded is not None
        assert loaded.choice == choice
        # Run again, it is there; its file is not written again.
        before = (tmp_path / "decoder" / DECODER_FILE).stat().st_mtime_ns
        train_decoder(data, tmp_path / "decoder", accelerator, settings=made)
        assert (tmp_path / "decoder" / DECODER_FILE).stat().st_mtime_ns == before


def test_too_few_days_are_told(data: TrainingData, tmp_path: Path) -> None:
    with training_device(data.settings.train) as accelerator:
        made = DecoderSettings(**{**TINY, "fewest": 10_000})
        choice = train_decoder(data, tmp_path / "decoder", accelerator, settings=made)
    assert "10000 are needed" in choice.skipped
    assert load_decoder(tmp_path / "decoder") is None


@pytest.mark.slow
def test_gdelphi_train_leaves_a_decoder_beside_the_model(
    settings: Settings, tmp_path: Path
) -> None:
    train(changed(settings, "train", steps=2, decoder_steps=6), tmp_path / "model")
    found = load_decoder(tmp_path / "model" / DECODER_FOLDER)
    assert found is not None
    assert found.choice.examples == 48
    assert "validation A" in decoder_line(tmp_path / "model")
    assert decoder_line(tmp_path) == "none: it was not trained"


def test_a_damaged_choice_is_told(tmp_path: Path) -> None:
    (tmp_path / DECODER_FILE).write_text("{")
    with pytest.raises(TrainingError, match="delete it"):
        read_decoder_choice(tmp_path)
    assert read_decoder_choice(tmp_path / "elsewhere") is None
