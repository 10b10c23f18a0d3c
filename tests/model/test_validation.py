"""Evaluation: the arrays are what the model says, window by window, and know no future."""

import numpy as np
import pytest
import torch

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.model.batches import BatchMaker
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.futures import AtomTable, Drawing
from gdelphi.model.network import MeasureModel
from gdelphi.model.validation import (
    READINGS,
    Evaluation,
    FutureSampling,
    evaluate,
)
from helpers.training_world import one_thread, small_settings

__all__ = ["one_thread"]

TARGETS = np.array([79, 61, 62, 66, 70, 71, 45])  # 66 is missing; the last day is 79


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return load_training_data(small_settings(tmp_path_factory))


@pytest.fixture(scope="module")
def maker(data: TrainingData) -> BatchMaker:
    return data.batches(torch.device("cpu"))


@pytest.fixture(scope="module")
def model(data: TrainingData) -> MeasureModel:
    """With weights that say something."""
    torch.manual_seed(0)
    made = data.model()
    with torch.no_grad():
        for each in made.parameters():
            each.add_(0.05 * torch.randn_like(each))
    return made


def after(model: MeasureModel, maker: BatchMaker, *, end: int, origin: int) -> FloatArray:
    """What is said after an origin in the window that ends on a day, stream by stream."""
    model.eval()
    streams = []
    for stream in range(4):
        with torch.no_grad():
            said = model(maker.make(np.array([stream]), np.array([end])).past)
        logits = torch.stack([said.profiles, said.direct])[:, 0, origin - end - 1]
        streams.append(logits.double().sigmoid().numpy())
    model.train()
    return np.stack(streams, axis=1)


def found_by(
    model: MeasureModel, maker: BatchMaker, data: TrainingData, targets: IntArray, stride: int
) -> Evaluation:
    return evaluate(model, maker, data.arrays, targets, stride=stride)


def test_with_stride_1_each_origin_has_its_own_window(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    model.train()
    found = found_by(model, maker, data, TARGETS, 1)
    assert model.training
    assert found.probabilities.shape == (len(READINGS), len(TARGETS), 4, 3, 20)
    for place, target in enumerate(TARGETS):
        expected = after(model, maker, end=int(target) - 1, origin=int(target) - 1)
        np.testing.assert_allclose(found.probabilities[:2, place], expected, atol=1e-6)
    assert np.isnan(found.probabilities[2]).all()  # *atoms* has to be asked for


def test_a_window_answers_for_its_last_days(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    found = found_by(model, maker, data, TARGETS, 4)
    ends = {79: 79, 61: 63, 62: 63, 66: 67, 70: 71, 71: 71, 45: 47}  # of origins 78, 60, 61, ...
    for place, target in enumerate(TARGETS):
        expected = after(model, maker, end=ends[int(target)], origin=int(target) - 1)
        np.testing.assert_allclose(found.probabilities[:2, place], expected, atol=1e-6)


def test_what_else_is_asked_for_changes_nothing(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    together = found_by(model, maker, data, np.arange(40, 80), 5)
    alone = found_by(model, maker, data, TARGETS[:1], 5)
    last = together.probabilities[:, -1]
    np.testing.assert_allclose(alone.probabilities[:, 0], last, atol=1e-6)


def test_days_after_an_origin_do_not_matter(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    """In the longest window that answers for it, with everything after it made up."""
    origin, end = 70, 79
    batch = maker.make(np.arange(4), np.full(4, end))
    days = end - origin

    def spoilt(values: torch.Tensor) -> torch.Tensor:
        changed = values.clone()
        late = changed[:, -days:]
        if values.dtype == torch.bool:
            late.logical_not_()
        elif values.dtype == torch.int64:
            late.add_(1).remainder_(7)
        else:
            late.uniform_(0.1, 1)
        return changed

    model.eval()
    with torch.no_grad():
        before = model(batch.past)
        made_up = model(type(batch.past)(*map(spoilt, batch.past)))
    for one, other in ((before.profiles, made_up.profiles), (before.direct, made_up.direct)):
        kept = slice(None, -days)
        torch.testing.assert_close(one[:, kept], other[:, kept], equal_nan=True)
        assert not torch.equal(one[:, -1], other[:, -1])


def test_scores_are_those_of_the_cells_one_by_one(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    found = evaluate(model, maker, data.arrays, TARGETS, stride=4, sampling=sampling(data, every=2))
    assert np.isnan(found.outcomes[3]).all()  # the missing day
    for target in range(3):
        losses: list[list[float]] = [[], [], []]
        errors: list[list[float]] = [[], [], []]
        for cell in np.argwhere(~np.isnan(found.outcomes[:, :, target])):
            day, stream, code = cell
            came = found.outcomes[day, stream, target, code]
            for reading in range(3):
                said = found.probabilities[reading, day, stream, target, code]
                if reading == 2 and day % 2:
                    assert np.isnan(said)
                    continue
                losses[reading].append(-np.log(said if came else 1 - said))
                errors[reading].append((said - came) ** 2)
        assert found.cells[:, target].tolist() == list(map(len, losses))
        for reading in range(3):
            if losses[reading]:
                assert found.log_loss[reading, target] == pytest.approx(np.mean(losses[reading]))
                assert found.brier[reading, target] == pytest.approx(np.mean(errors[reading]))
    assert 0 < found.cells[2].sum() < found.cells[1].sum()
    weighed = np.nansum(found.cells[:2] * found.log_loss[:2])
    assert found.score == pytest.approx(weighed / found.cells[:2].sum())
    assert found.figures()["log_loss"]["direct"]["occurs"] == found.log_loss[1, 0]
    assert found.figures()["brier"]["atoms"]["occurs"] == found.brier[2, 0]


def test_a_target_without_cells_has_no_score(data: TrainingData, maker: BatchMaker) -> None:
    found = found_by(data.model(), maker, data, np.array([66]), 10)
    assert found.cells.tolist() == [[0, 0, 0]] * 3
    assert np.isnan(found.log_loss).all()
    assert found.figures()["brier"]["profiles"]["headline"] is None


# --- the reading of atoms -------------------------------------------------------------------------


def sampling(data: TrainingData, *, every: int = 1, seed: int = 0) -> FutureSampling:
    return FutureSampling(AtomTable(data.arrays.pack), Drawing(6, 12), every=every, seed=seed)


def test_futures_are_those_of_each_origin_whatever_else_is_asked_for(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    def atoms(targets: IntArray, seed: int = 0) -> FloatArray:
        asked = sampling(data, seed=seed)
        found = evaluate(model, maker, data.arrays, targets, stride=5, sampling=asked)
        return found.probabilities[2]

    together, alone = atoms(np.arange(60, 80)), atoms(TARGETS[:1])
    np.testing.assert_allclose(alone[0], together[-1], atol=1e-6)
    assert np.isfinite(together[:, :, :2]).all()
    assert np.abs(atoms(TARGETS[:1], seed=1) - alone)[:, :, :2].max() > 1e-3


def test_atoms_are_undefined_where_surges_are(
    model: MeasureModel, maker: BatchMaker, data: TrainingData
) -> None:
    found = evaluate(model, maker, data.arrays, TARGETS, sampling=sampling(data))
    direct, atoms = (found.probabilities[READINGS.index(name)] for name in ("direct", "atoms"))
    np.testing.assert_array_equal(np.isnan(direct), np.isnan(atoms))
    np.testing.assert_array_equal(found.cells[1], found.cells[2])


def test_a_portion_of_windows_without_any_futures_is_passed_over(
    model: MeasureModel, maker: BatchMaker, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first target has futures; the windows of the others come in other portions."""
    monkeypatch.setattr("gdelphi.model.validation.AT_ONCE", 4)
    targets = np.array([45, 61, 62, 70])
    asked = sampling(data, every=5)
    found = evaluate(model, maker, data.arrays, targets, sampling=asked)
    assert np.isfinite(found.probabilities[2, 0, :, :2]).all()
    assert np.isnan(found.probabilities[2, 1:]).all()
