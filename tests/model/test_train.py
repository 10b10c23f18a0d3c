"""Training: it learns, ends the same whatever happens to it, and says what goes wrong."""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.model import loop as loop_module
from gdelphi.model import train as train_module
from gdelphi.model.batches import Batch
from gdelphi.model.checkpoint import load_measure_model, read_metrics, step_files
from gdelphi.model.data import TrainingData
from gdelphi.model.loop import Trained, TrainingRun, kept_steps, made_ahead
from gdelphi.model.losses import training_loss
from gdelphi.model.optimizer import learning_rate
from gdelphi.model.processes import accelerator_for
from gdelphi.model.task import Loss
from gdelphi.model.train import MeasureTask, estimate_training, train
from gdelphi.model.validation import Evaluation
from helpers.measured_world import changed, day_at
from helpers.training_world import (
    Stop,
    Watcher,
    data,
    one_thread,
    same_run,
    settings,
    undisturbed,
)

__all__ = ["data", "one_thread", "settings", "undisturbed"]


def run_of(data: TrainingData) -> TrainingRun:
    """A run before its first step, in this process."""
    accelerator = accelerator_for(data.settings.train)
    return TrainingRun(MeasureTask(data, accelerator.device), accelerator)


# --- it learns ------------------------------------------------------------------------------------


def test_training_gets_better_than_untrained(undisturbed: Trained, data: TrainingData) -> None:
    assert (undisturbed.steps, undisturbed.stopped, undisturbed.began_at) == (40, "steps", 0)
    assert undisturbed.best_step > 0
    assert undisturbed.score < undisturbed.untrained
    run = run_of(data)
    batches = [run.batch(step).data for step in range(1000, 1005)]
    before = [training_loss(run.ema, batch).total.item() for batch in batches]
    run.ema.load_state_dict(load_measure_model(undisturbed.folder).model.state_dict())
    after = [training_loss(run.ema, batch).total.item() for batch in batches]
    assert np.mean(after) < 0.99 * np.mean(before)


def test_what_is_kept_scores_as_it_was_said_to(undisturbed: Trained, data: TrainingData) -> None:
    kept = load_measure_model(undisturbed.folder)
    maker = data.batches(torch.device("cpu"))
    found = train_module.evaluate(kept.model, maker, data.arrays, data.validation_a)
    assert found.score == pytest.approx(undisturbed.score, abs=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"cloud_attention": "sinkhorn", "transport": "flow", "transport_gradient": "adjoint"},
        {"cloud_attention": "l2", "decoder_attention": "sigmoid", "transport": "flow"},
        {"cloud_attention": "sigmoid", "decoder_attention": "l2"},
    ],
)
def test_other_kinds_of_attention_and_transport_learn_too(
    data: TrainingData, changes: dict[str, Any]
) -> None:
    chosen = changed(data.settings, "train", **changes)
    run = run_of(replace(data, settings=chosen))
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for step in range(3):
        measured = run.step(step, run.batch(step))
        assert math.isfinite(measured["loss"])
    moved = {
        name for name, tensor in run.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }  # fmt: skip
    for part in ("day_encoder", "decoder.blocks", "transport"):
        own = {name for name, _ in run.model.named_parameters() if name.startswith(part)}
        assert own <= moved


def test_no_training_target_lies_after_the_last_training_day(data: TrainingData) -> None:
    run = run_of(data)
    splits = data.sequences.splits
    ends = np.concatenate([run.batch(step).data.ends for step in range(200)])
    assert day_at(int(ends.max()) + 1) <= splits.train[1] < splits.validation_a[0]
    assert set(ends) == set(data.ends)
    assert all(day_at(int(target)) >= splits.validation_a[0] for target in data.validation_a)


def test_the_learning_rate_rises_and_falls(settings: Settings) -> None:
    rates = [learning_rate(settings.train, step) for step in range(1, 41)]
    assert rates.index(max(rates)) == settings.train.warm_up
    assert max(rates) == pytest.approx(settings.train.learning_rate)
    assert rates[: settings.train.warm_up + 1] == sorted(rates[: settings.train.warm_up + 1])
    assert rates[settings.train.warm_up :] == sorted(rates[settings.train.warm_up :], reverse=True)
    assert 0 < rates[-1] < 0.01 * max(rates)


def test_only_matrices_decay(data: TrainingData) -> None:
    groups = run_of(data).optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [data.settings.train.weight_decay, 0.0]
    assert {each.ndim for each in groups[1]["params"]} == {1}
    assert min(each.ndim for each in groups[0]["params"]) == 2


def test_in_bfloat16_the_losses_are_nearly_the_same(
    settings: Settings, undisturbed: Trained, tmp_path: Path
) -> None:
    halves = changed(settings, "train", precision="bfloat16", steps=10)
    watcher = Watcher()
    train(halves, tmp_path / "out", progress=watcher)
    first = read_metrics(undisturbed.folder)[1]["loss"]
    assert watcher.statuses[4].loss == pytest.approx(first, rel=0.1)


# --- it ends the same -----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_another_does_not(
    settings: Settings, undisturbed: Trained, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    train(settings, tmp_path / "again")
    assert torch.equal(before, torch.get_rng_state())
    assert same_run(undisturbed.folder, tmp_path / "again")
    train(changed(settings, "train", seed=1), tmp_path / "other")
    assert not same_run(undisturbed.folder, tmp_path / "other")


def test_a_finished_run_is_left_as_it_is(settings: Settings, undisturbed: Trained) -> None:
    again = train(settings, undisturbed.folder)
    assert (again.began_at, again.steps, again.score) == (40, 40, undisturbed.score)
    assert len(read_metrics(undisturbed.folder)) == 8 + 5


@pytest.mark.parametrize("stop_at", [3, 20, 34])
def test_a_run_that_was_stopped_goes_on_to_the_same_end(
    settings: Settings, undisturbed: Trained, tmp_path: Path, stop_at: int
) -> None:
    with pytest.raises(Stop):
        train(settings, tmp_path, progress=Watcher(stop_at))
    result = train(changed(settings, "train", log_every=2, save_every=7), tmp_path)
    assert result.began_at == (stop_at - 1) // 10 * 10
    assert same_run(undisturbed.folder, tmp_path)
    steps = [line["step"] for line in read_metrics(tmp_path) if "loss" in line]
    assert steps == sorted(set(steps))


# Children of one process, since importing torch takes longer than the training itself. The first
# ones are killed from outside at some moment; the others amid writing, when the part is there and
# not yet in its place.
KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
from gdelphi.common.settings import Settings
from gdelphi.model.train import train

torch.set_num_threads(1)
settings, out = Settings(**json.loads(sys.argv[1])), Path(sys.argv[2])
replace, number = Path.replace, 0

def dying(path, target):
    global number
    number += 1
    if number == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

kills = 0
rng = random.Random(0)
for attempt in range(9):
    dies_at = 0 if attempt < 4 else attempt - 2
    child = os.fork()
    if child == 0:
        Path.replace = dying
        train(settings, out)
        os._exit(0)
    if not dies_at:
        time.sleep(rng.uniform(0.05, 0.4))
        os.kill(child, signal.SIGKILL)
    kills += os.waitpid(child, 0)[1] == signal.SIGKILL
print(kills, train(settings, out).steps)
"""


def test_killed_at_any_moment_it_ends_with_the_same_weights(
    settings: Settings, undisturbed: Trained, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", KILLED, settings.model_dump_json(), str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    kills, steps = map(int, done.stdout.split())
    assert (kills >= 5, steps) == (True, 40), done.stdout
    assert same_run(undisturbed.folder, tmp_path / "out")


def test_a_steps_batch_depends_on_seed_step_and_process_alone(data: TrainingData) -> None:
    run = run_of(data)
    first, seed = run.batch(7).data, run.batch(7).seed
    run.step(1, run.batch(1))
    again = run.batch(7).data
    assert all(map(torch.equal, (*first.past[:2], first.past.features), (
        *again.past[:2], again.past.features)))  # fmt: skip
    assert not np.array_equal(first.ends, run.batch(8).data.ends)
    second = run.task.batch(7, process=1, processes=1)
    assert not np.array_equal(first.ends, second.data.ends)
    assert len({seed, run.batch(8).seed, second.seed}) == 3


def test_batches_come_in_their_order_and_failures_come_out() -> None:
    def make(step: int) -> int:
        time.sleep(0.001 * (step % 3))
        if step == 8:
            raise Stop
        return step * step

    assert list(made_ahead(make, range(7))) == [step * step for step in range(7)]
    assert list(made_ahead(make, range(0))) == []
    with pytest.raises(Stop):
        list(made_ahead(make, range(20)))
    begun = made_ahead(make, range(5))
    assert next(begun) == 0
    begun.close()


# --- it stops when it should ----------------------------------------------------------------------


def scripted(monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> list[dict[str, torch.Tensor]]:
    """Evaluations with given scores; the weights that each of them saw."""
    seen: list[dict[str, torch.Tensor]] = []
    real = train_module.evaluate

    def evaluate(model: Any, *given: Any, **options: Any) -> Evaluation:
        found = real(model, *given, **options)
        seen.append({name: each.clone() for name, each in model.state_dict().items()})
        monkeypatch.setattr(Evaluation, "score", property(lambda _: scores[len(seen) - 1]))
        return found

    monkeypatch.setattr(train_module, "evaluate", evaluate)
    monkeypatch.setattr(Evaluation, "score", property(lambda _: math.nan))
    return seen


def test_it_stops_when_patience_is_at_its_end_and_keeps_the_best(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = scripted(monkeypatch, [0.5, 0.4, 0.3, 0.35, 0.3, 0.31, 0.1])
    patient = changed(settings, "train", evaluate_every=3, patience=3)
    result = train(patient, tmp_path)
    assert (result.steps, result.stopped, result.best_step) == (15, "patience", 6)
    assert (result.score, result.untrained) == (0.3, 0.5)
    kept = load_measure_model(tmp_path).model.state_dict()
    assert all(torch.equal(kept[name], each) for name, each in seen[2].items())
    assert not all(torch.equal(kept[name], each) for name, each in seen[3].items())
    assert len(seen) == 6
    assert train(patient, tmp_path).steps == 15


def test_where_nothing_helps_the_untrained_model_is_kept(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [0.1, 0.2, 0.3])
    result = train(changed(settings, "train", patience=2), tmp_path)
    assert (result.best_step, result.score) == (0, 0.1)


@pytest.mark.parametrize(
    ("step", "most", "kept"),
    [
        (0, 0, []), (90, 0, []), (0, 3, [0]), (20, 3, [0, 10, 20]), (30, 3, [0, 20]),
        (40, 3, [0, 20, 40]), (60, 3, [0, 40]), (85, 3, [0, 40, 80]), (500, 1, [0]),
    ],
)  # fmt: skip
def test_weights_are_kept_evenly_from_the_first_step_on(
    step: int, most: int, kept: list[int]
) -> None:
    assert list(kept_steps(step, 10, most)) == kept


def test_weights_along_the_way_are_those_that_were_evaluated(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = scripted(monkeypatch, [0.5] * 9)
    short = changed(settings, "train", evaluate_every=3, steps=8)
    train(short, tmp_path)
    kept = step_files(tmp_path)
    assert list(kept) == [0, 3, 6]
    for place, path in enumerate(kept.values()):
        weights = load_file(path)
        assert weights
        assert all(torch.equal(weights[name], seen[place][name]) for name in weights)
    train(changed(short, "train", keep_checkpoints=0), tmp_path, resume=False)
    assert not step_files(tmp_path)


Spoiler = Callable[[int, Loss], Loss]


def spoil(monkeypatch: pytest.MonkeyPatch, spoiler: Spoiler) -> None:
    """Change the loss by the number of the step."""
    steps = iter(range(1, 1000))

    def spoilt(model: Any, batch: Batch, weights: Any, **options: Any) -> Loss:
        return spoiler(next(steps), training_loss(model, batch, weights, **options))

    monkeypatch.setattr(train_module, "training_loss", spoilt)


@pytest.mark.parametrize(
    ("spoiler", "message"),
    [
        (lambda step, loss: loss._replace(total=loss.total * (math.nan if step > 24 else 1)),
         "at step 25 the loss is nan"),
        (lambda step, loss: loss._replace(total=loss.total * (1e30 if step > 24 else 1) ** 2),
         r"at step 25 the loss is \S+, its gradient (inf|nan)"),
        (lambda step, loss: loss._replace(total=loss.total * (9 if step > 24 else 1)),
         r"at step 29 the loss is .* the lowest loss was [01]\."),
    ],
)  # fmt: skip
def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoiler: Spoiler,
    message: str,
) -> None:
    monkeypatch.setattr(loop_module, "DIVERGING_STEPS", 5)
    with monkeypatch.context() as spoilt:
        spoil(spoilt, spoiler)
        with pytest.raises(TrainingError, match=f"diverges: {message}.*train.learning_rate"):
            train(changed(settings, "train", save_every=2), tmp_path)
    kept = load_measure_model(tmp_path)
    assert kept.training["best_step"] <= 20
    assert all(each.isfinite().all() for each in kept.model.parameters())
    assert train(changed(settings, "train", save_every=2), tmp_path).began_at == 24


def test_want_of_memory_names_the_settings(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: Any, **__: Any) -> Loss:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(train_module, "training_loss", greedy)
    with pytest.raises(TrainingError, match=r"train.batch \(now 4\) or train.points \(now 8\)"):
        train(settings, tmp_path)
    with pytest.raises(TrainingError, match=r"lower train.batch"):
        estimate_training(settings)


def test_other_failures_stay_what_they_are(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Loss:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(train_module, "training_loss", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        train(settings, tmp_path)


def test_a_split_without_days_and_a_missing_gpu_are_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingError, match=r"no day of train .* has 60 days before it"):
        train(changed(settings, "sequences", context_days=60), tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no GPU: set auto or cpu"):
        train(changed(settings, "train", device="cuda"), tmp_path)
