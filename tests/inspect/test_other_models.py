"""Models that lack something: every part finds something, or says in a line why it cannot."""

from pathlib import Path
from typing import Any

from gdelphi.common.settings import Settings
from gdelphi.inspect.inspect import inspect_model
from gdelphi.inspect.parts import PARTS
from gdelphi.inspect.result import PartResult
from gdelphi.model.train import train
from helpers.forecast_world import one_thread, settings
from helpers.inspect_sizes import small
from helpers.measured_world import changed

__all__ = ["one_thread", "settings", "small"]

NOTHING_LEARNED = 1e-30  # a learning rate with which no step is better than none


def inspected(
    settings: Settings, folder: Path, **changes: Any
) -> tuple[dict[int, PartResult], dict[int, str], dict[str, str]]:
    """Results and reasons by the numbers of the parts, and the facts, of a model trained so."""
    train(changed(settings, "train", steps=1, evaluate_every=1, **changes), folder / "model")
    found = inspect_model(settings, folder / "model", folder / "page").inspection
    assert [part.number for part in found.parts] == [part.number for part in PARTS]
    assert all((part.result is None) != (part.reason == "") for part in found.parts)
    assert not any("\n" in part.reason for part in found.parts)
    results = {part.number: part.result for part in found.parts if part.result}
    return results, {part.number: part.reason for part in found.parts}, dict(found.facts)


def test_an_untrained_model_without_transport(
    small: None, settings: Settings, tmp_path: Path
) -> None:
    results, reasons, facts = inspected(
        settings, tmp_path, transport_layers=0, learning_rate=NOTHING_LEARNED
    )
    assert facts["Kept"] == "no step: the weights are untrained"
    # It has not been calibrated either: nothing is published that reports could change.
    for number in (3, 8):
        assert "gdelphi calibrate" in reasons.pop(number)
    assert not any(reasons.values())
    assert not any(name.startswith("transport") for name, _ in results[1].figures)
    assert not any(name.startswith("atoms of futures") for name, _ in results[4].figures)
    for number in (1, 4):
        assert "train.transport_layers = 0" in results[number].words


def test_a_model_without_decoder_blocks_that_moves_atoms_by_a_flow(
    small: None, settings: Settings, tmp_path: Path
) -> None:
    results, reasons, facts = inspected(
        settings, tmp_path, layers=0, transport="flow", cloud_attention="l2"
    )
    assert facts["Decoder, transport"].startswith("0 and 1")
    assert reasons.pop(1) == "bounds are of softmax attention, and this model's is l2"
    assert set(results) == {part.number for part in PARTS} - {1, 3, 8}
    assert results[4].charts[0].title.startswith("The flow")
