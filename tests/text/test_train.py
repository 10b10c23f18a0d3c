"""Training of the text models by several processes: one model, by the mean of their gradients."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.model.loop import TrainingRun
from gdelphi.model.processes import accelerator_for
from gdelphi.text.data import TextData
from gdelphi.text.forecaster_task import ForecasterTask
from gdelphi.text.train import train_text_model
from helpers.measured_world import changed
from helpers.text_world import data, settings
from helpers.training_world import variables

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]
__all__ = ["data", "settings"]


def test_two_processes_train_one_text_forecaster(
    settings: Settings, data: TextData, tmp_path: Path
) -> None:
    chosen = changed(settings, "text", steps=1, dropout=0.0)
    text = chosen.text.model_dump(exclude={"pretrained"})
    given = {f"GDELPHI_TEXT_{name.upper()}": str(value) for name, value in text.items()}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    words = ["gdelphi", "text", "train", "--json", "--out", str(tmp_path / "two")]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**variables(chosen), **given, **place, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in "01"
    ]  # fmt: skip
    told = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert json.loads("".join(shown for shown, _ in told))["steps"] == 1  # one of the two tells
    # The first step by hand: the mean of both processes' gradients.
    task = ForecasterTask(data._replace(settings=chosen))
    run = TrainingRun(task, accelerator_for(chosen.train))
    for process in range(2):
        batch = task.batch(1, process=process, processes=2)
        (task.loss(run.model, batch.data).total / 2).backward()
    expected = {name: tensor.grad for name, tensor in run.model.named_parameters()}
    norm = torch.nn.utils.get_total_norm(expected.values())
    weights = load_file(tmp_path / "two" / "state" / "run.safetensors")
    for name, gradient in expected.items():  # AdamW's first moment: a tenth of the gradient
        clipped = gradient * min(1.0, chosen.text.clip / float(norm))
        torch.testing.assert_close(weights[f"exp_avg.{name}"], 0.1 * clipped, atol=1e-6, rtol=1e-3)
    with pytest.raises(TrainingError, match="processes is 2 there and 1 now"):
        train_text_model(chosen, "forecaster", tmp_path / "two")
