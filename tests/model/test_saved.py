"""Networks in folders."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gdelphi.model.config import MeasureConfig
from gdelphi.model.decoder import DecoderConfig, MeasureDecoder


def test_a_folder_has_all_sizes_and_the_class_that_has_them(tmp_path: Path) -> None:
    MeasureDecoder(DecoderConfig(blocks=2)).save_pretrained(tmp_path / "a" / "decoder")
    said = json.loads((tmp_path / "a" / "decoder" / "config.json").read_text())
    assert said["architectures"] == ["MeasureDecoder"]
    assert said["model_type"] == "gdelphi_decoder"
    assert (said["blocks"], said["days"]) == (2, 120)


def test_what_was_saved_is_opened_for_use(tmp_path: Path) -> None:
    model = MeasureDecoder(DecoderConfig(blocks=2, half_lives=(3.0, 9.0)))
    for each in model.parameters():
        torch.nn.init.normal_(each)
    model.save_pretrained(tmp_path)
    again = MeasureDecoder.from_pretrained(tmp_path)
    assert not again.training
    assert again.config == model.config
    assert again.config.half_lives == (3.0, 9.0)
    assert again.device == torch.device("cpu")
    assert model.state_dict().keys() == again.state_dict().keys()
    assert all(torch.equal(each, again.state_dict()[name]) for name, each in
               model.state_dict().items())  # fmt: skip


def test_files_that_transformers_wrote_are_read(tmp_path: Path) -> None:
    said = {"architectures": ["MeasureModel"], "model_type": "gdelphi_measure", "width": 24,
            "transformers_version": "5.0.0", "dtype": "float32", "half_lives": [2.0]}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(said))
    config = MeasureConfig.from_pretrained(tmp_path)
    assert (config.width, config.half_lives, config.codes) == (24, (2.0,), 20)


@pytest.mark.parametrize("text", ['{"model_type": "t5"}', "[]", "{}"])
def test_sizes_of_another_network_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match="not of a gdelphi_decoder"):
        DecoderConfig.from_pretrained(tmp_path)


def test_a_forecast_needs_no_transformers() -> None:
    """It takes longer to import than all the rest."""
    modules = "gdelphi.forecast.predictor, gdelphi.app.pipeline, gdelphi.judge.backtest"
    heavy = "transformers", "torch._dynamo", "sentence_transformers"
    said = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
