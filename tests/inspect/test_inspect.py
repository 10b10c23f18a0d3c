"""All parts on a trained model, on one that does not fit the store, and on calls that are wrong."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gdelphi.app.commands.inspect import _orders, show_inspection
from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.inspect.checkpoints import checkpoints
from gdelphi.inspect.inspect import chosen_parts, inspect_model, inspect_subject
from gdelphi.inspect.parts import PARTS
from gdelphi.inspect.subject import Subject, open_subject
from gdelphi.model.checkpoint import load_measure_model
from helpers.forecast_world import model, one_thread, predictor, settings
from helpers.inspect_sizes import small

__all__ = ["model", "one_thread", "predictor", "settings", "small"]


@pytest.fixture
def subject(predictor: Predictor) -> Subject:
    return Subject(predictor.folder, load_measure_model(predictor.folder), predictor, "")


def test_every_part_finds_something_on_a_trained_model(small: None, subject: Subject) -> None:
    told: dict[str, tuple[int, int]] = {}
    found = inspect_subject(
        subject, PARTS, lambda title, done, total: told.update({title: (done, total)})
    )
    assert [part.reason for part in found.parts] == [""] * len(PARTS)
    for part in found.parts:
        assert part.result is not None
        assert part.result.verdict
        assert len(part.result.words) > 100
        assert part.result.charts
        done, total = told[part.title]
        assert done == total > 1
    # Nothing is above its bound on trained weights either.
    first = found.parts[0].result
    assert first is not None
    assert "above its bound" not in first.verdict
    figures = dict(first.figures)
    for name in ("encoder", "decoder block 1", "transport block 1"):
        assert 0 < figures[f"{name}: found"] <= 10 ** figures[f"{name}: log10 of the bound"]
    # Half of the rows cannot matter less than a twentieth; probabilities move by less than one.
    third = next(part.result for part in found.parts if part.number == 3)
    assert third is not None
    moved = dict(third.figures)
    assert all(0 < value < 1 for value in moved.values())
    plain = json.loads(json.dumps(found.plain()))
    assert [part["number"] for part in plain["parts"]] == [part.number for part in PARTS]
    assert not any(math.isnan(value) for value in plain["parts"][0]["figures"].values())


def test_a_model_that_does_not_fit_the_store_gets_a_line_for_each_part(
    predictor: Predictor,
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = settings.model_copy(
        update={
            "store": tmp_path / "none.duckdb",
            "measures": settings.measures.model_copy(update={"folder": tmp_path / "none"}),
        }
    )
    result = inspect_model(elsewhere, predictor.folder, tmp_path / "out")
    parts = result.inspection.parts
    assert all(part.result is None and "\n" not in part.reason for part in parts)
    assert all(part.reason == parts[0].reason != "" for part in parts)
    assert result.page.read_text().count("oes not apply") == 2 * len(PARTS)
    stored = json.loads(result.data.read_text())
    assert stored["parts"][0]["not_applicable"] == parts[0].reason
    show_inspection(result, json=False)
    assert capsys.readouterr().out.count("does not apply") == len(PARTS)
    show_inspection(result, json=True)
    assert json.loads(capsys.readouterr().out) == stored


def test_a_model_of_another_space_is_told_before_anything_is_packed(
    predictor: Predictor, settings: Settings, tmp_path: Path
) -> None:
    other = replace(predictor.space, revision="another")
    other.save(tmp_path / "measures" / "space")
    changed = settings.measures.model_copy(update={"folder": tmp_path / "measures"})
    subject = open_subject(settings.model_copy(update={"measures": changed}), predictor.folder)
    assert subject.opened is None
    assert subject.reason.startswith(f"the model speaks of the space {predictor.space.fingerprint}")
    assert other.fingerprint in subject.reason
    assert [path.name for path in (tmp_path / "measures").iterdir()] == ["space"]


def test_untrained_weights_are_called_so(subject: Subject) -> None:
    nothing = {**subject.trained.training, "best_step": 0}
    untrained = Subject(
        subject.folder, subject.trained._replace(training=nothing), subject.opened, ""
    )
    facts = dict(inspect_subject(untrained, ()).facts)
    assert facts["Kept"] == "no step: the weights are untrained"
    assert "step" in dict(inspect_subject(subject, ()).facts)["Kept"]


def test_the_plane_is_drawn_over_the_steps_that_training_kept(
    small: None, subject: Subject, model: Path
) -> None:
    best = subject.trained.training["best_step"]
    copied = replace(subject, folder=model)
    whole = checkpoints(copied)
    assert list(whole.models) == [0, 10, 20]
    assert (whole.kept, whole.drawn, whole.unreadable) == (best, False, ())
    assert whole.models[best] is subject.model
    (part,) = inspect_subject(copied, chosen_parts(["5"])).parts
    assert part.result is not None
    assert "after 0, 10 and 20 steps" in part.result.words
    plane = next(chart for chart in part.result.charts if "plane" in chart.title)
    assert [len(layer.x) for layer in plane.series] == [3] * len(plane.series)
    # The run's checkpoint stands for its last step; a file that is not what was written does not.
    path = model / "state" / "step-20.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"xxxx")
    (model / "state" / "step-10.safetensors").write_bytes(b"nothing")
    damaged = checkpoints(copied)
    assert list(damaged.models) == sorted({0, best, 20})
    assert damaged.unreadable == ("step-10.safetensors", "step-20.safetensors")
    # A model in use is a copy without any of them.
    shutil.rmtree(model / "state")
    alone = checkpoints(copied)
    assert (list(alone.models), alone.drawn) == ([0, best], True)


def test_what_is_published_must_have_been_fitted(small: None, subject: Subject) -> None:
    """Without it the part on wrong reports says what to do, and changes nothing."""
    path = subject.predictor.path("root")
    aside = path.with_suffix(".aside")
    path.rename(aside)
    try:
        (part,) = inspect_subject(subject, chosen_parts(["3"])).parts
    finally:
        aside.rename(path)
    assert part.result is None
    assert "gdelphi calibrate" in part.reason


def test_parts_are_chosen_by_number(settings: Settings, tmp_path: Path) -> None:
    assert [part.number for part in chosen_parts(["4", "1"])] == [1, 4]
    assert chosen_parts([]) == PARTS
    with pytest.raises(ConfigError, match="no part 99; there are 1 lipschitz"):
        chosen_parts(["1", "99"])
    with pytest.raises(TrainingError, match="no model in"):
        open_subject(settings, tmp_path / "nothing")


def test_orders_are_numbers_other_than_one() -> None:
    assert _orders("0.5, 3") == (0.5, 3.0)
    for wrong in ("1", "0", "-2", "x", "", "nan"):
        with pytest.raises(ConfigError, match="--alpha"):
            _orders(wrong)
