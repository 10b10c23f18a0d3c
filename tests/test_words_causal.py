"""Language models as authors of days and names: only what is added to them is trained and kept,
and they take the places of T5."""

import json
import shutil
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, masking_utils

from causal_world import as_gguf, small_language_model
from gdelphi.backtest import leaks
from gdelphi.checkpoint import TrainingError
from gdelphi.config import Settings
from gdelphi.profiles import read_profiles
from gdelphi.types import ForecastError
from gdelphi.words.causal import ADAPTED, Pieces, adapted, find_base, pieces_of
from gdelphi.words.causal_author import CausalAuthor, write
from gdelphi.words.causal_days import Telling, read, tell
from gdelphi.words.causal_namer import CausalNamer
from gdelphi.words.causal_tasks import CausalForecastTask, CausalNamingTask
from gdelphi.words.corpus import IGNORED
from gdelphi.words.forecaster import TextForecaster, TextModel, faults, text_forecaster
from gdelphi.words.learning import TextGround
from gdelphi.words.naming import Namer
from gdelphi.words.tasks import make_task, task_on
from gdelphi.words.training import TextTrained, train_task
from measured_world import changed, day_at
from training_world import same_run
from words_world import Stop, Watcher, ground, settings

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["ground", "settings"]

ORIGIN = day_at(70)


@pytest.fixture(scope="module")
def language(ground: TextGround, tmp_path_factory: pytest.TempPathFactory) -> TextGround:
    """Data, and settings that name a language model."""
    folder = small_language_model(tmp_path_factory.mktemp("lm") / "base", ground)
    return ground._replace(
        settings=changed(
            ground.settings, "text", language_model=folder, language_days=2, lora_rank=4, batch=16,
            steps=20, namer_steps=20, save_every=5, evaluate_every=10,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(language: TextGround, tmp_path_factory: pytest.TempPathFactory) -> TextTrained:
    torch.set_num_threads(1)
    return train_task(CausalForecastTask(language), tmp_path_factory.mktemp("m") / "text-lm")


@pytest.fixture(scope="module")
def named(language: TextGround, tmp_path_factory: pytest.TempPathFactory) -> TextTrained:
    torch.set_num_threads(1)
    return train_task(CausalNamingTask(language), tmp_path_factory.mktemp("n") / "namer-lm")


@pytest.fixture(scope="module")
def pieces(language: TextGround) -> Pieces:
    return pieces_of(find_base(language.settings.text.language_model))


# --- days in English ------------------------------------------------------------------------------


def test_a_day_is_read_back_as_it_was_told(ground: TextGround) -> None:
    for stream, name in enumerate(ground.pack.facts.streams):
        for day in (20, 41, 60):
            phrases = list(ground.said.phrases(ground.said.descriptor(day, stream)))
            found = read(tell(21, phrases), name)
            assert (found.volume, found.faults) == (5, 0)
            assert [each[:3] for each in found.phrases] == [each[:3] for each in phrases]
            assert sum(each.weight for each in found.phrases) == pytest.approx(float(bool(phrases)))
            for said, came in zip(found.phrases, phrases, strict=True):
                assert said.weight == pytest.approx(came.weight, rel=0.4, abs=0.02)


def test_what_is_no_phrase_is_counted() -> None:
    good = "Kenyan police threaten Uganda"
    told = read(f" 8+ reports: {good} (60%); who knows (20%); {good} in Kenya (20%)", "KE")
    assert (told.volume, told.faults) == (4, 1)
    assert [round(each.weight, 2) for each in told.phrases] == [0.75, 0.25]
    assert told.phrases[0][:3] == ("KEN|||||COP", "13", "UGA")
    assert read(f" 8+ reports: {good} in Uganda (60%)", "KE").faults == 1  # not of this stream
    assert read(f" 8+ reports: {good} (0%)", "KE").faults == 1
    assert read(f"{good}", "KE").faults == 1  # no volume
    assert read(" 0+ reports: nothing", "KE") == (0, (), 0)
    assert read(f" 8+ reports: {good} (13%); Kenyan pol", "KE").faults == 1  # cut off
    assert read("", "KE").faults == 2


def test_phrases_without_weights_share_equally() -> None:
    first, second = "Kenyan police threaten Uganda", "Uganda makes a statement"
    assert [x.weight for x in read(f" 8+ reports: {first}; {second}", "KE").phrases] == [0.5, 0.5]
    mixed = read(f" 8+ reports: {first} (30%); {first} (10%); {second}", "KE").phrases
    assert [round(x.weight, 3) for x in mixed] == [0.5, 0.167, 0.333]


def test_an_example_is_what_is_told_and_then_asked_for(
    language: TextGround, pieces: Pieces
) -> None:
    telling = Telling(language.said, pieces, 2)
    numbers, labels = telling.example(0, 60, [0, 0, 0], last=True)
    told = telling.context(0, 60)
    assert numbers[: len(told)] == told and set(labels[: len(told)]) == {IGNORED}
    assert labels[len(told) :] == numbers[len(told) :] and numbers[-1] == pieces.end
    phrases = language.said.phrases(language.said.descriptor(60, 0))
    rows = float(language.pack.statistics[60, 0, 0])
    assert pieces.text(numbers[len(told) :]) == tell(rows, phrases)
    assert pieces.text(told).startswith("Tanzania.\n")
    assert pieces.text(told[-len(pieces.numbers(f"{day_at(60):%A},")) :]) == f"{day_at(60):%A},"
    _, every = telling.example(0, 60, [0, 0, 0])
    assert sum(each != IGNORED for each in every) > sum(each != IGNORED for each in labels)


# --- training -------------------------------------------------------------------------------------


def test_only_what_is_added_is_trained_and_saved(
    trained: TextTrained, language: TextGround
) -> None:
    assert trained.score < trained.untrained
    tensors = load_file(trained.folder / "model.safetensors")
    assert tensors and all("lora_" in name for name in tensors)
    assert all(any(part in name for part in ADAPTED) for name in tensors)
    assert sum(each.numel() for each in tensors.values()) == trained.learned < trained.parameters
    state = load_file(trained.folder / "state" / "run.safetensors")
    assert all("lora_" in name for name in state)
    said = json.loads((trained.folder / "training.json").read_text())["origin"]
    base = find_base(language.settings.text.language_model)
    assert said["language_model"] == base.said() and said["text"]["lora_rank"] == 4
    assert not (trained.folder / "tokenizer.json").exists()
    assert base.digest in (trained.folder / "README.md").read_text()


def test_untrained_it_is_the_language_model_itself(language: TextGround, pieces: Pieces) -> None:
    text = language.settings.text
    base = find_base(text.language_model)
    made, plain = adapted(base, text), AutoModelForCausalLM.from_pretrained(base.path)
    given = torch.tensor([pieces.numbers("Kenyan police threaten Uganda")])
    torch.testing.assert_close(made(given).logits, plain(given).logits)


@pytest.mark.parametrize("kind", ["forecaster", "namer"])
def test_a_run_that_was_killed_ends_like_one_that_was_not(
    kind: str, language: TextGround, trained: TextTrained, named: TextTrained, tmp_path: Path
) -> None:
    task = CausalForecastTask(language) if kind == "forecaster" else CausalNamingTask(language)
    whole = trained if kind == "forecaster" else named
    with pytest.raises(Stop):
        train_task(task, tmp_path / "m", progress=Watcher(stop_at=13))
    watcher = Watcher()
    assert train_task(task, tmp_path / "m", progress=watcher).began_at == 10
    assert watcher.steps[0] == 11
    assert same_run(tmp_path / "m", whole.folder)


def test_weights_elsewhere_go_on_and_other_weights_do_not(
    language: TextGround, trained: TextTrained, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained.folder, tmp_path / "m"))
    base = language.settings.text.language_model
    assert base is not None
    moved = Path(shutil.copytree(base, tmp_path / "moved"))
    same = changed(language.settings, "text", language_model=moved)
    assert train_task(CausalForecastTask(language._replace(settings=same)), folder).steps == 20
    small_language_model(tmp_path / "other", language, seed=1)
    strange = changed(language.settings, "text", language_model=tmp_path / "other")
    with pytest.raises(TrainingError, match=r"language_model.digest is \w+ there and \w+ now"):
        train_task(CausalForecastTask(language._replace(settings=strange)), folder)


def test_more_days_than_a_sequence_has_are_refused(language: TextGround) -> None:
    many = language._replace(settings=changed(language.settings, "text", language_days=11))
    with pytest.raises(TrainingError, match="sequences have 10 days"):
        CausalForecastTask(many)


# --- the language model on disk -------------------------------------------------------------------


def test_a_base_with_other_weights_is_refused(
    language: TextGround, trained: TextTrained, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained.folder, tmp_path / "m"))
    said = json.loads((folder / "training.json").read_text())
    base = Path(said["origin"]["language_model"]["path"])
    said["origin"]["language_model"]["path"] = str(tmp_path / "gone")
    (folder / "training.json").write_text(json.dumps(said))
    with pytest.raises(TrainingError, match=r"gone is not there: name .* text\.language_model"):
        TextModel(folder, language.said)
    found = TextModel(folder, language.said, number=2, language_model=base)
    assert isinstance(found.author, CausalAuthor)
    other = small_language_model(tmp_path / "other", language, seed=1)
    with pytest.raises(TrainingError, match="other has other weights"):
        TextModel(folder, language.said, language_model=other)


def test_strange_paths_are_told_in_one_line(language: TextGround, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="there is no"):
        find_base(tmp_path / "nothing.gguf")
    for name in ("a.gguf", "folder"):
        path = tmp_path / name
        if name == "folder":
            path.mkdir()
        else:
            path.write_bytes(b"no weights at all")
        with pytest.raises(TrainingError, match="no causal language model") as caught:
            pieces_of(find_base(path))
        assert "\n" not in str(caught.value)


def test_a_gguf_file_is_the_same_model(
    language: TextGround, pieces: Pieces, tmp_path: Path
) -> None:
    text = language.settings.text
    folder = find_base(text.language_model)
    file = find_base(as_gguf(folder.path, tmp_path / "small.gguf"))
    said = "Kenyan police threaten Uganda (20%); Uganda makes a statement"
    assert pieces_of(file).numbers(said) == pieces.numbers(said)
    assert pieces_of(file).end == pieces.end
    given = torch.tensor([pieces.numbers(said)])
    with torch.no_grad():
        same = [adapted(base, text)(given).logits for base in (file, folder)]
    torch.testing.assert_close(*same, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["forecaster", "namer"])
def test_without_the_extra_an_error_says_how_to_get_it(
    kind: str, language: TextGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(TrainingError, match=r"pip install 'gdelphi\[lm\]'"):
        make_task(language.settings, kind)


# --- writing --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forecaster(trained: TextTrained, ground: TextGround) -> TextForecaster:
    return text_forecaster(trained.folder, ground.pack, number=6)


def author(forecaster: TextForecaster) -> CausalAuthor:
    assert isinstance(forecaster.model.author, CausalAuthor)
    return forecaster.model.author


def test_likeliest_pieces_are_those_of_the_model_without_a_cache(
    forecaster: TextForecaster,
) -> None:
    who = author(forecaster)
    told = torch.tensor([who.telling.context(1, 60)])
    found = write(who.model, told, np.full((1, 12), np.nan), who.pieces.end)[0]
    for place in range(12):
        given = torch.cat([told, torch.from_numpy(found[None, :place])], dim=1)
        with torch.no_grad():
            assert int(who.model(given).logits[0, -1].argmax()) == found[place]
        if found[place] == who.pieces.end:
            break


def test_texts_of_one_context_are_what_each_is_alone(forecaster: TextForecaster) -> None:
    """In batches, out of which ended texts fall, and one by one."""
    who = author(forecaster)
    told = torch.tensor([who.telling.context(1, 60)])
    uniform = np.random.default_rng(0).random((27, 16))
    endless = write(who.model, told, uniform, -1)
    end = int(np.bincount(endless.ravel()).argmax())  # a common piece: the true end is rare here
    together = write(who.model, told, uniform, end)
    alone = [write(who.model, told, row[None], end)[0].tolist() for row in uniform]
    assert together.tolist() == alone
    assert len({row.index(end) for row in alone if end in row}) > 2


def test_it_is_a_forecaster_that_counts_what_it_cannot_read(
    forecaster: TextForecaster, settings: Settings, ground: TextGround
) -> None:
    said = forecaster.model.at(ORIGIN)
    assert len(said) == 4 and len(said[0].texts) == len(said[0].written) == 6
    missed, _ = faults(said)
    assert missed > 0  # so tiny a model writes hardly a phrase
    for each in said:
        for text, written in zip(each.texts, each.written, strict=True):
            assert text == read(f" {written}", ground.pack.facts.streams[said.index(each)])
    streams = ground.pack.facts.streams
    history = read_profiles(settings, "root", streams, since=day_at(0), until=day_at(79))
    found = forecaster.forecast(history, ORIGIN)
    assert [each.stream for each in found] == list(streams)
    assert all(((each.occurs > 0) & (each.occurs < 1)).all() for each in found)
    assert not leaks(forecaster, history, ORIGIN)
    with pytest.raises(ForecastError, match="reads 2 days"):
        forecaster.model.at(day_at(0))
    with pytest.raises(ForecastError):
        forecaster.model.at(day_at(ground.pack.facts.days - 1) + timedelta(days=1))


def test_texts_are_a_function_of_seed_stream_and_day(
    trained: TextTrained, ground: TextGround, forecaster: TextForecaster
) -> None:
    first = [each.written for each in forecaster.model.at(ORIGIN)]
    again = TextModel(trained.folder, ground.said, number=6)
    assert (
        again.write(1, 71, again._random(ground.pack.facts.streams[1], ORIGIN)).written == first[1]
    )
    assert first[0] != first[1]
    other = TextModel(trained.folder, ground.said, number=6, seed=1)
    name = ground.pack.facts.streams[1]
    assert other.write(1, 71, other._random(name, ORIGIN)).written != first[1]


# --- names ----------------------------------------------------------------------------------------


def test_a_namer_is_loaded_like_any_other(
    named: TextTrained, language: TextGround, tmp_path: Path
) -> None:
    assert named.kind == "namer" and named.score < named.untrained
    tensors = load_file(named.folder / "model.safetensors")
    assert {"verb.weight", "actor.weight", "weight.weight", "place"} <= set(tensors)
    assert not any("embed_tokens" in name for name in tensors)
    namer = Namer.load(named.folder, language.space)
    assert isinstance(namer, CausalNamer)
    some = CausalNamingTask(language).judged
    assert len(namer.words(some.points[:5], some.weights[:5])) == 5
    assert len(namer.name(some.points[:5], some.weights[:5])) == 5


def test_soft_prompts_depend_on_the_point(named: TextTrained, language: TextGround) -> None:
    namer = Namer.load(named.folder, language.space)
    points = torch.from_numpy(CausalNamingTask(language).judged.points[:2])
    with torch.no_grad():
        one, other = namer.model.read(points, torch.full((2,), 0.2))
        heavier = namer.model.read(points, torch.full((2,), 0.8))[0]
    assert one.shape == (4, 32)
    assert not torch.allclose(one, other)
    assert torch.equal(one[:3], heavier[:3]) and not torch.equal(one[3], heavier[3])


def test_a_namer_learns_which_phrase_belongs_to_which_point(language: TextGround) -> None:
    task = CausalNamingTask(language)
    torch.manual_seed(0)
    model = task.model()
    some = task.phrases(task.observed[[0, 200]], np.full(2, 0.3))
    swapped = some._replace(points=some.points[::-1].copy())
    learned = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=2e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss, _ = task._loss(model, some)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right, wrong = (float(task._loss(model, each)[0]) for each in (some, swapped))
    assert right < 0.7 * wrong
    one, other = task.namer(model).words(some.points, some.weights)
    assert one != other


# --- devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["forecaster", "namer"])
@pytest.mark.parametrize("pretrained", [False, True])
def test_batches_go_where_the_model_is(
    kind: str, pretrained: bool, language: TextGround, ground: TextGround,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """On a device that only knows shapes: a tensor that was left behind would not fit there."""
    task = task_on(language if pretrained else ground, kind)
    model = task.model().to("meta").train()
    # Whether a mask can be left out depends on its numbers, and there are none.
    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *_: False)
    loss, number = task.loss(model, np.random.default_rng(0))
    assert loss.device.type == "meta" and number > 0
    loss.backward()
