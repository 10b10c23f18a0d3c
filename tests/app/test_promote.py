"""Putting a model in use: only one that is not worse, and with a way back."""

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from gdelphi.app import promote as promotion
from gdelphi.app.cli import app
from gdelphi.app.promote import (
    ModelComparison,
    compare,
    current_link,
    model_in_use,
    promote,
    read_decisions,
    read_log,
    rollback,
)
from gdelphi.common.errors import PromotionError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import model_fingerprint
from gdelphi.forecast.calibrate import ensure_calibrated, is_calibrated
from gdelphi.forecast.predictor import Predictor
from helpers.edited import edited, flip_bit
from helpers.forecast_world import model, predictor, settings
from helpers.measured_world import changed
from helpers.training_world import one_thread, variables

__all__ = ["model", "one_thread", "predictor", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def here(settings: Settings, tmp_path: Path) -> Settings:
    """The small world's settings with a folder of models of their own."""
    return changed(settings, "flows", models=tmp_path / "models")


@pytest.fixture(scope="module")
def spoilt(
    settings: Settings, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The model with weights that know nothing, calibrated; not to be changed."""
    folder = Path(shutil.copytree(predictor.folder, tmp_path_factory.mktemp("spoilt") / "model"))
    torch.manual_seed(3)
    tensors = {name: each.clone() for name, each in load_file(folder / "model.safetensors").items()}
    for name in tensors:
        if tensors[name].is_floating_point() and "basis" not in name:
            tensors[name] += 2 * torch.randn_like(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edited(folder)
    ensure_calibrated(Predictor(settings, folder))
    return folder


def test_the_first_model_is_put_in_use_as_a_copy(here: Settings, model: Path) -> None:
    assert model_in_use(here) is None
    decided = promote(here, model)
    assert (decided.action, decided.previous) == ("promoted", None)
    used = model_in_use(here)
    assert used == here.flows.models / model_fingerprint(model) and used.name == decided.current
    assert current_link(here).readlink() == Path(used.name), "the link holds when all is moved"
    assert (model / "state").exists() and not (used / "state").exists()
    shutil.rmtree(model)
    assert is_calibrated(Predictor(here, used)), "what is in use needs nothing of the challenger"


def test_a_first_model_that_was_never_calibrated_is_calibrated(here: Settings, model: Path) -> None:
    for path in [*model.glob("published-*.json"), model / "calibrated.json"]:
        path.unlink()
    decided = promote(here, model)
    used = model_in_use(here)
    assert used is not None and used.name == decided.current == model_fingerprint(model)
    assert is_calibrated(Predictor(here, used))


def test_the_same_model_again_changes_nothing(here: Settings, model: Path) -> None:
    promote(here, model)
    assert promote(here, model).action == "in use already"
    assert promote(here, current_link(here)).action == "in use already"
    assert len(read_log(here)) == 1


def test_a_worse_challenger_stays_out_and_a_better_one_comes_in(
    here: Settings, model: Path, spoilt: Path
) -> None:
    good = promote(here, model).current
    kept = promote(here, spoilt)
    assert kept.action == "kept" and kept.current == good
    assert kept.compared is not None and kept.compared.challenger > kept.compared.incumbent
    assert model_in_use(here) == here.flows.models / good

    bad = promote(here, spoilt, force=True)
    assert (bad.action, bad.reason, bad.previous) == ("promoted", "forced", good)
    back = promote(here, model)
    assert back.action == "promoted" and back.current == good
    assert back.compared is not None and back.compared.challenger < back.compared.incumbent
    said = [(each["action"], each["from"], each["to"]) for each in read_log(here)]
    assert said == [
        ("promoted", None, good),
        ("kept", good, good),
        ("promoted", good, bad.current),
        ("promoted", bad.current, good),
    ]
    scores = read_log(here)[1]["compared"]
    assert set(scores["targets"]) == {"occurs", "headline", "surge"}
    assert all(each["who"] and each["at"] for each in read_log(here))


def test_both_are_asked_for_the_same_days_and_equals_are_equal(
    here: Settings, model: Path, predictor: Predictor
) -> None:
    compared = compare(here, Predictor(here, model), predictor.folder)
    days = predictor.target_days("validation_b")
    assert (compared.since, compared.until, compared.days) == (days[0], days[-1], len(days))
    assert compared.streams == len(predictor.streams)
    for ours, theirs in compared.targets.values():
        assert ours == theirs


def test_days_that_the_incumbent_was_stopped_on_are_left_out(
    here: Settings, model: Path, tmp_path: Path
) -> None:
    days = Predictor(here, model).target_days("validation_b")
    seen = Path(shutil.copytree(model, tmp_path / "seen"))
    _edit(seen, "validation_a", ["2021-01-04", days[1].isoformat()])
    compared = compare(here, Predictor(here, model), seen)
    assert compared.since == days[2] and compared.days == len(days) - 2
    _edit(seen, "validation_a", ["2021-01-04", days[-2].isoformat()])
    with pytest.raises(PromotionError, match=r"1 days that neither was trained on.*--force"):
        compare(here, Predictor(here, model), seen)


def _edit(folder: Path, part: str, days: list[str]) -> None:
    said = json.loads((folder / "training.json").read_text())
    said["origin"]["split"][part] = days
    (folder / "training.json").write_text(json.dumps(said))
    edited(folder)


def test_a_model_of_another_space_needs_force(here: Settings, model: Path) -> None:
    used = here.flows.models / promote(here, model).current
    said = json.loads((used / "training.json").read_text())
    said["origin"]["space"] = "0123456789abcdef"
    (used / "training.json").write_text(json.dumps(said))
    edited(used)
    (model / "README.md").write_text("another\n")
    (model / "arguments.json").write_text((model / "arguments.json").read_text() + "\n")
    edited(model)
    with pytest.raises(PromotionError, match=r"space 0123456789abcdef.*--force"):
        promote(here, model)
    assert model_in_use(here) == used
    assert promote(here, model, force=True).previous == used.name


def test_going_back_and_forward_again(here: Settings, model: Path, spoilt: Path) -> None:
    with pytest.raises(PromotionError, match="no model was in use before"):
        rollback(here)
    first = promote(here, model).current
    with pytest.raises(PromotionError, match="no model was in use before"):
        rollback(here)
    second = promote(here, spoilt, force=True).current
    assert (rollback(here).current, rollback(here).current) == (first, second)
    assert rollback(here).previous == second
    assert model_in_use(here) == here.flows.models / first
    shutil.rmtree(here.flows.models / second)
    with pytest.raises(PromotionError, match="is gone: nothing is changed"):
        rollback(here)


def test_a_switch_that_was_killed_after_its_log_did_not_happen(
    here: Settings, model: Path, spoilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = promote(here, model).current
    second = promote(here, spoilt, force=True).current

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(promotion, "_switch", killed)
        with pytest.raises(KeyboardInterrupt):
            rollback(here)
    assert model_in_use(here) == here.flows.models / second
    assert rollback(here).current == first, "the way back is from what is in use"
    with (here.flows.models / promotion.LOG).open("a") as file:
        file.write('{"action": "promo')
    assert rollback(here).current == second, "a line that was cut off is passed over"


def test_odd_folders_are_refused_with_a_remedy(here: Settings, model: Path) -> None:
    link = current_link(here)
    shutil.copytree(model, link)
    with pytest.raises(PromotionError, match=r"is a folder, not a link.*ln -s"):
        promote(here, model)
    shutil.rmtree(link)
    link.symlink_to("nowhere")
    with pytest.raises(PromotionError, match="points to nowhere, which is gone"):
        promote(here, model)
    assert promote(here, model, force=True).action == "promoted"
    with promotion._alone(here), pytest.raises(PromotionError, match="another promotion"):
        promote(here, model)
    (here.flows.models / promotion.CURRENT / "training.json").unlink()
    with pytest.raises(PromotionError, match=r"cannot be read.*bring it back"):
        compare(here, Predictor(here, model), link.resolve())


def test_worse_means_worse_in_the_mean_over_targets() -> None:
    day = date(2021, 1, 1)
    compared = ModelComparison(day, day, 9, 4, {"occurs": (0.9, 0.8), "surge": (0.8, 0.9)})
    assert not compared.worse and compared.challenger == pytest.approx(0.85)
    assert replace(compared, targets={"occurs": (0.9, 0.8), "surge": (0.81, 0.9)}).worse


def test_the_command_promotes_and_goes_back(here: Settings, model: Path, spoilt: Path) -> None:
    environment = {**variables(here), "GDELPHI_FLOWS_MODELS": str(here.flows.models)}
    run = CliRunner(env=environment)
    latest = Path(shutil.copytree(model, here.flows.models / "latest"))
    first = run.invoke(app, ["promote"])
    assert first.exit_code == 0 and "the first model in use" in first.stdout
    kept = run.invoke(app, ["promote", "--model", str(spoilt), "--json"])
    assert kept.exit_code == 1
    said = json.loads(kept.stdout)
    assert said["action"] == "kept" and said["challenger"] > said["incumbent"]
    forced = run.invoke(app, ["promote", "--model", str(spoilt), "--force"])
    assert forced.exit_code == 0 and "--rollback" in forced.stdout
    back = run.invoke(app, ["promote", "--rollback"])
    assert back.exit_code == 0 and model_fingerprint(latest) in back.stdout
    assert run.invoke(app, ["promote", "--rollback", "--force"]).exit_code == 2


# --- damage ---------------------------------------------------------------------------------------


def test_a_model_with_a_flipped_bit_is_neither_promoted_nor_gone_back_to(
    here: Settings, model: Path, spoilt: Path
) -> None:
    good = promote(here, model).current
    flip_bit(model / "model.safetensors", -1)
    with pytest.raises(TrainingError, match=r"model\.safetensors: not what was written"):
        promote(here, model, force=True)
    promote(here, spoilt, force=True)
    flip_bit(here.flows.models / good / "published-root.json", 100)
    with pytest.raises(PromotionError, match=r"published-root\.json: not what.*Nothing is changed"):
        rollback(here)
    in_use = model_in_use(here)
    assert in_use is not None and in_use.name == model_fingerprint(spoilt)


def test_a_damaged_folder_of_the_same_name_is_replaced_by_a_sound_copy(
    here: Settings, model: Path
) -> None:
    name = promote(here, model).current
    weights = here.flows.models / name / "model.safetensors"
    right = weights.read_bytes()
    flip_bit(weights, len(right) // 2)
    current_link(here).unlink()  # as after a failed switch: the folder alone is there
    assert promote(here, model).action == "promoted" and weights.read_bytes() == right
    flip_bit(weights, len(right) // 2)
    again = promote(here, model)
    assert again.action == "in use already" and "damaged copy was replaced" in again.reason
    assert weights.read_bytes() == right


def test_a_model_without_checksums_is_told_by_its_name(here: Settings, model: Path) -> None:
    name = promote(here, edited(model)).current
    used = edited(here.flows.models / name)
    assert promotion._problem(used) is None
    flip_bit(used / "arguments.json", 20)
    assert "is named by" in str(promotion._problem(used))


def test_lines_of_the_log_that_cannot_be_read_are_passed_over_and_told(
    here: Settings, model: Path, spoilt: Path
) -> None:
    good = promote(here, model).current
    promote(here, spoilt, force=True)
    log = here.flows.models / promotion.LOG
    text = log.read_text()
    first = text.splitlines()[0]
    log.write_text(f"{first}\nno JSON\n{text.splitlines()[1]}\n" + text.splitlines()[1][:40])
    assert rollback(here).current == good
    assert [each["action"] for each in read_log(here)] == ["promoted", "promoted", "rolled back"]
    decisions, problems = read_decisions(here)
    assert len(decisions) == 3 and [problem.split(" of ")[0] for problem in problems] == [
        "line 2", "line 4"
    ]  # fmt: skip
    assert rollback(here).action == "rolled back", "and forward again"
