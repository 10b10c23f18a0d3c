"""`gdelphi train`: what a user types and sees, and several processes at one model."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gdelphi.app.cli import main
from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.model import train as train_module
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.loop import Trained, TrainingRun
from gdelphi.model.task import Loss
from gdelphi.model.train import MeasureTask, train
from gdelphi.store.copy import copy_store
from helpers.measured_world import changed
from helpers.postgres import postgres
from helpers.training_world import (
    data,
    one_thread,
    same_tensors,
    settings,
    undisturbed,
    variables,
)

__all__ = ["data", "one_thread", "postgres", "settings", "undisturbed"]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class OneOfTwo:
    """Stands for a process beside another, which is a thread here."""

    num_processes, is_main_process, device = 2, False, torch.device("cpu")
    autocast = staticmethod(nullcontext)
    turn = Lock()  # threads share torch's random numbers, which a step sets at its beginning

    def __init__(self, process_index: int, flats: dict[int, torch.Tensor], meet: Barrier) -> None:
        self.process_index, self._flats, self._meet = process_index, flats, meet

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def reduce(self, flat: torch.Tensor, reduction: str) -> torch.Tensor:
        self._flats[self.process_index] = flat
        self.turn.release()
        self._meet.wait()
        mean = (self._flats[0] + self._flats[1]) / 2
        self._meet.wait()
        return mean


def in_two_threads(data: TrainingData, steps: int) -> dict[str, torch.Tensor]:
    """The weights after some steps of two processes; until they meet, one goes after the other."""
    flats: dict[int, torch.Tensor] = {}
    meet = Barrier(2)
    task = MeasureTask(data, torch.device("cpu"))
    runs = [TrainingRun(task, OneOfTwo(rank, flats, meet)) for rank in range(2)]

    def walk(run: TrainingRun) -> None:
        for step in range(1, steps + 1):
            batch = run.batch(step)
            OneOfTwo.turn.acquire()
            run.step(step, batch)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(walk, runs))
    first, second = (run.model.state_dict() for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)
    return first


def test_two_processes_train_one_model_by_the_mean_of_their_gradients(
    settings: Settings, undisturbed: Trained, tmp_path: Path, postgres: Any
) -> None:
    """From a lake, as on many machines."""
    chosen = changed(settings, "train", dropout=0.0, steps=20)
    lake = postgres.make_lake("trained_from", tmp_path)
    copy_store(chosen, Settings(**lake))
    of_lake = {f"GDELPHI_{name.upper()}": value for name, value in lake.items()}
    out = tmp_path / "two"
    launch = ["torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port(), "-m",
              "gdelphi", "train", "--json", "--out", str(out)]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", *launch],
        env={**variables(chosen), **of_lake}, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["score"] == pytest.approx(undisturbed.score, rel=0.03)
    assert done.stderr.count("step 5 of 20") == 1
    assert load_measure_model(out).training["origin"]["processes"] == 2
    weights, expected = (
        load_file(out / "state/run.safetensors"),
        in_two_threads(load_training_data(chosen), 20),
    )
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[f"weights.{name}"], tensor)
    with pytest.raises(TrainingError, match="processes is 2 there and 1 now"):
        train(chosen, out)


def test_a_batch_that_cannot_be_shared_evenly_is_refused(data: TrainingData) -> None:
    class Three(OneOfTwo):
        num_processes = 3

    with pytest.raises(ConfigError, match=r"train.batch = 4 .* among 3 processes"):
        TrainingRun(MeasureTask(data, torch.device("cpu")), Three(0, {}, Barrier(1)))


def test_when_one_process_is_killed_the_other_ends_with_an_error(
    settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    words = ["gdelphi", "train", "--out", str(out), "--steps", "100000"]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**variables(settings), **place, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for rank in "01"
    ]  # fmt: skip
    until = time.monotonic() + 300
    while not (out / "metrics.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.1)
    both[1].kill()
    try:
        _, errors = both[0].communicate(timeout=300)
    finally:
        for process in both:
            process.kill()
            process.communicate()
    assert both[0].returncode == 1
    (line,) = [line for line in errors.splitlines() if line.startswith("gdelphi: ")]
    assert "another process of this training was lost" in line
    assert "Traceback" not in errors


@pytest.fixture
def gdelphi(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, output, errors."""

    def call(*words: str) -> tuple[int, str, str]:
        for name, value in variables(settings).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["gdelphi", "train", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


Command = Callable[..., tuple[int, str, str]]


def test_the_command_trains_and_tells(
    gdelphi: Command, undisturbed: Trained, tmp_path: Path
) -> None:
    code, shown, errors = gdelphi("--out", str(tmp_path / "model"))
    assert code == 0, errors
    assert "40 (all steps done)" in shown
    assert "better)" in shown
    assert "step 5 of 40: loss " in errors
    name = "model.safetensors"
    assert same_tensors(undisturbed.folder / name, tmp_path / "model" / name)
    again = json.loads(gdelphi("--out", str(tmp_path / "model"), "--json")[1])
    assert (again["began_at"], again["score"]) == (40, undisturbed.score)
    code, _, errors = gdelphi("--out", str(tmp_path / "model"), "--seed", "3")
    *stages, last = errors.splitlines()
    assert code == 1 and all(line.startswith("...") for line in stages)
    assert last.startswith("gdelphi: ")
    assert "train.seed is 0 there and 3 now" in last
    assert gdelphi("--out", str(tmp_path / "model"), "--steps", "5", "--fresh")[0] == 0
    assert load_measure_model(tmp_path / "model").training["step"] == 5


def test_a_dry_run_estimates_and_leaves_nothing(gdelphi: Command) -> None:
    code, shown, _ = gdelphi("--dry-run")
    assert code == 0
    assert "would train on cpu in float32" in shown
    assert "4 streams, 37 days" in shown
    estimate = json.loads(gdelphi("--dry-run", "--json", "--steps", "80")[1])
    assert estimate["parameter_bytes"] == 4 * estimate["parameters"]
    assert estimate["batch_bytes"] > 4 * 10 * 8 * 96
    assert estimate["steps_per_epoch"] == 4  # 37 days of 4 streams, by 4 x 10
    assert estimate["seconds_in_all"] == pytest.approx(80 * estimate["seconds_per_step"])
    assert not Path("models").exists()


def test_the_command_draws_what_was_measured(
    gdelphi: Command, undisturbed: Trained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, shown, _ = gdelphi("--plot", "--out", str(undisturbed.folder))
    assert (code, shown) == (0, f"drew {undisturbed.folder / 'metrics.png'}\n")
    assert (undisturbed.folder / "metrics.png").read_bytes().startswith(b"\x89PNG")
    code, _, errors = gdelphi("--plot", "--out", str(tmp_path / "none"))
    assert (code, errors.count("\n")) == (1, 1)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install matplotlib" in gdelphi("--plot", "--out", str(undisturbed.folder))[2]


def test_interrupted_it_says_how_to_go_on(
    gdelphi: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: Any, **__: Any) -> Loss:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "training_loss", interrupted)
    code, _, errors = gdelphi("--out", str(tmp_path))
    assert (code, "run it again to go on" in errors) == (130, True)
