"""The text forecaster: it writes what T5 would write, resumes to the same bytes, and is a
forecaster like all others."""

import dataclasses
import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import T5ForConditionalGeneration

from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.judge.compare import leaks
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.model.task import Loss
from gdelphi.text.compact import read_day
from gdelphi.text.corpus import Corpus
from gdelphi.text.data import TextData
from gdelphi.text.decoding import T5Decoder
from gdelphi.text.forecaster import (
    TextForecaster,
    TextModel,
    faults,
    text_forecaster,
)
from gdelphi.text.forecaster_task import ForecasterTask
from gdelphi.text.generate import LONGEST, TextGenerator
from gdelphi.text.probabilities import (
    TextReader,
    classes,
    shares_of_text,
)
from gdelphi.text.t5 import embed_source, t5_of
from gdelphi.text.train import TextTrained
from helpers.edited import edited
from helpers.measured_world import changed, day_at
from helpers.text_world import Stop, Watcher, data, settings, train_here, trained
from helpers.training_world import same_run

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["data", "settings", "trained"]

ORIGIN = day_at(70)


@pytest.fixture(scope="module")
def forecaster(trained: TextTrained, data: TextData) -> TextForecaster:
    return text_forecaster(trained.folder, data.pack, number=12)


@pytest.fixture(scope="module")
def history(settings: Settings, data: TextData) -> Profiles:
    streams, last = data.pack.facts.streams, day_at(79)
    return read_profiles(settings, "root", streams, since=day_at(0), until=last)


def model_and_corpus(forecaster: TextForecaster) -> tuple[T5ForConditionalGeneration, Corpus]:
    generator: TextGenerator = forecaster.model.generator
    return generator.model, generator.corpus


# --- writing --------------------------------------------------------------------------------------


def test_the_writer_is_t5(forecaster: TextForecaster) -> None:
    model, corpus = model_and_corpus(forecaster)
    plain = np.zeros((1, corpus.context), dtype=np.int64)
    states, mask = embed_source(model, corpus.source(np.array([1]), np.array([60]), plain))
    with torch.no_grad():
        encoded = model.encoder(inputs_embeds=states, attention_mask=mask)
        memory = T5Decoder(model).remember(encoded.last_hidden_state[0])
        greedy = T5Decoder(model).write(memory, np.full((1, 12), np.nan))
        given = torch.from_numpy(np.concatenate([[[0]], greedy[:, :-1]], axis=1))
        logits = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=given).logits
    wanted = logits.argmax(-1)[0].tolist()
    size = wanted.index(1) + 1 if 1 in wanted else len(wanted)
    assert greedy[0, :size].tolist() == wanted[:size] and not greedy[0, size:].any()


def test_words_are_drawn_by_their_probability(forecaster: TextForecaster) -> None:
    model, corpus = model_and_corpus(forecaster)
    plain = np.zeros((1, corpus.context), dtype=np.int64)
    states, mask = embed_source(model, corpus.source(np.array([1]), np.array([60]), plain))
    with torch.no_grad():
        encoded = model.encoder(inputs_embeds=states, attention_mask=mask)
        start = torch.zeros(1, 1, dtype=torch.long)
        said = model(encoder_outputs=encoded, decoder_input_ids=start).logits[0, 0].softmax(-1)
        memory = T5Decoder(model).remember(encoded.last_hidden_state[0])
        even = (np.arange(4000)[:, None] + 0.5) / 4000
        first = T5Decoder(model).write(memory, even)[:, 0]
    drawn = np.bincount(first, minlength=len(said)) / 4000
    np.testing.assert_allclose(drawn, said.numpy(), atol=1e-3)


def test_texts_that_have_ended_do_not_change_the_others(forecaster: TextForecaster) -> None:
    """The batch is made smaller on the way: each text is what it is alone."""
    uniform = np.random.default_rng(3).random((9, LONGEST))
    together = forecaster.model.write(0, 60, uniform)
    alone = [forecaster.model.write(0, 60, uniform[n : n + 1]).written[0] for n in range(9)]
    assert together.written == alone
    assert len({len(text.split()) for text in alone}) > 1


def test_guided_texts_have_no_faults_and_others_are_counted(
    trained: TextTrained, data: TextData, forecaster: TextForecaster
) -> None:
    guided = forecaster.model.at(ORIGIN)
    missed, phrases = faults(guided)
    assert missed == 0 and phrases > 0
    for text in (text for said in guided for text in said.texts):
        codes = [phrase.code for phrase in text.phrases]
        assert len(set(codes)) == len(codes)  # no event is named twice
    free = TextModel(trained.folder, data.descriptors, number=12, guided=False)
    assert faults(free.at(ORIGIN))[0] > 0  # a tiny model writes much nonsense


# --- forecasts ------------------------------------------------------------------------------------


def test_it_is_a_forecaster(forecaster: TextForecaster, history: Profiles) -> None:
    said = forecaster.forecast(history, ORIGIN)
    assert [each.stream for each in said] == list(history.streams)
    for each in said:
        assert each.forecaster == "text" and len(each.share_weights) == 12
        assert (each.occurs > 0).all() and (each.occurs < 1).all()
    assert said[0].occurs.tolist() == forecaster.forecast(history, ORIGIN)[0].occurs.tolist()


def test_it_does_not_look_ahead(forecaster: TextForecaster, history: Profiles) -> None:
    assert not leaks(forecaster, history, ORIGIN)


def test_a_later_day_changes_nothing(
    trained: TextTrained, data: TextData, forecaster: TextForecaster
) -> None:
    """Texts at an origin are the same where the pack ends with it."""
    before = forecaster.model.at(ORIGIN)
    said = data.descriptors
    places = said.places.copy()
    last = said.descriptor(71, 0).start
    places[last:] = places[last:][::-1]
    garbled = dataclasses.replace(said, places=places)
    after = TextModel(trained.folder, garbled, number=12).at(ORIGIN)
    assert [each.written for each in after] == [each.written for each in before]
    garbled_now = dataclasses.replace(said, places=np.roll(said.places, 7, axis=0))
    other = TextModel(trained.folder, garbled_now, number=12).at(ORIGIN)
    assert [each.written for each in other] != [each.written for each in before]


def test_it_speaks_of_all_levels(
    forecaster: TextForecaster, settings: Settings, history: Profiles
) -> None:
    for level, number in (("base", 146), ("full", 290)):
        fine = read_profiles(settings, level, history.streams, since=day_at(0), until=day_at(79))  # type: ignore[arg-type]
        assert forecaster.forecast(fine, ORIGIN)[0].occurs.shape == (number,)


def test_what_it_cannot_do_is_an_error(
    forecaster: TextForecaster, history: Profiles, data: TextData, trained: TextTrained,
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(ForecastError, match="tomorrow only"):
        forecaster.forecast(history, ORIGIN, 2)
    with pytest.raises(ForecastError, match="reads 10 days"):
        forecaster.model.at(day_at(3))
    odd = dataclasses.replace(history, codes=tuple(f"{code}x" for code in history.codes))
    with pytest.raises(ForecastError, match="standard events"):
        forecaster.forecast(odd, ORIGIN)
    copied = edited(Path(shutil.copytree(trained.folder, tmp_path / "m")))
    said = json.loads((copied / "training.json").read_text())
    said["origin"]["space"] = "other"
    (copied / "training.json").write_text(json.dumps(said))
    with pytest.raises(TrainingError, match="learned the descriptors of the space other"):
        text_forecaster(copied, data.pack)
    said["origin"]["kind"] = "namer"
    (copied / "training.json").write_text(json.dumps(said))
    with pytest.raises(TrainingError, match="holds a namer, not a forecaster"):
        text_forecaster(copied, data.pack)
    with pytest.raises(TrainingError, match="no text model"):
        text_forecaster(tmp_path / "nowhere", data.pack)


# --- reading --------------------------------------------------------------------------------------


def test_classes_count_the_edges_that_are_exceeded() -> None:
    assert classes(np.array([0, 0.01, 0.06, 0.07, 1]), (0.0, 0.06)).tolist() == [0, 1, 1, 2, 2]


def test_named_events_occur_and_others_by_their_rate(
    forecaster: TextForecaster, history: Profiles, data: TextData
) -> None:
    """What a text names occurred on every past day whose text named it; what it does not name
    occurred at the rate of such days."""
    reader = TextReader(forecaster.model.descriptors)
    rates = reader.rates(history, ORIGIN)
    assert (rates.occurs >= 0).all() and (rates.occurs <= 1).all()
    stream = 0
    text = read_day(data.descriptors.text(60, stream), data.descriptors.homes[stream])
    shares = shares_of_text(text, "root")
    said, _ = reader.probabilities(rates, stream, [text], "root")
    named = shares > 0
    assert named.any() and said["occurs"][named].min() > said["occurs"][~named].mean()
    assert np.isnan(said["surge"]).tolist() == np.isnan(rates.threshold[stream]).tolist()


# --- training -------------------------------------------------------------------------------------


def test_training_improves_and_leaves_what_the_convention_asks_for(trained: TextTrained) -> None:
    assert trained.score < 0.8 * trained.untrained
    names = {path.name for path in trained.folder.iterdir()}
    assert {"model.safetensors", "config.json", "training.json", "metrics.jsonl", "README.md",
            "tokenizer.json", "state"} <= names  # fmt: skip
    card = (trained.folder / "README.md").read_text()
    assert "text forecaster" in card and f"step {trained.best_step} of {trained.steps}" in card


def test_a_run_that_was_killed_ends_like_one_that_was_not(
    data: TextData, trained: TextTrained, tmp_path: Path
) -> None:
    task = ForecasterTask(data)
    with pytest.raises(Stop):
        train_here(task, tmp_path / "m", progress=Watcher(stop_at=33))
    watcher = Watcher()
    result = train_here(task, tmp_path / "m", progress=watcher)
    assert result.began_at == 30 and watcher.statuses[0].step == 31
    assert same_run(tmp_path / "m", trained.folder)
    again = train_here(task, tmp_path / "m", progress=watcher)
    assert again.steps == trained.steps and watcher.statuses[-1].step == trained.steps


def test_a_folder_of_another_run_is_refused(
    data: TextData, trained: TextTrained, tmp_path: Path
) -> None:
    copied = edited(Path(shutil.copytree(trained.folder, tmp_path / "m")))
    other = data._replace(settings=changed(data.settings, "text", seed=1))
    with pytest.raises(TrainingError, match=r"text.seed is 0 there and 1 now"):
        train_here(ForecasterTask(other), copied)


def test_a_model_of_an_older_format_is_to_be_trained_again(
    data: TextData, trained: TextTrained, tmp_path: Path
) -> None:
    copied = edited(Path(shutil.copytree(trained.folder, tmp_path / "m")))
    training = json.loads((copied / "training.json").read_text())
    (copied / "training.json").write_text(json.dumps({**training, "format": 1}))
    with pytest.raises(TrainingError, match=r"format 1.* train it again with `gdelphi text train"):
        text_forecaster(copied, data.pack)


def test_a_model_without_the_stack_that_it_reads_is_not_whole(
    data: TextData, trained: TextTrained, tmp_path: Path
) -> None:
    copied = edited(Path(shutil.copytree(trained.folder, tmp_path / "m")))
    training = json.loads((copied / "training.json").read_text())
    assert training["origin"]["stack"] is None  # too few days
    training["origin"]["stack"] = "0123456789abcdef"
    (copied / "training.json").write_text(json.dumps(training))
    with pytest.raises(TrainingError, match=r"no folder stack/.*gdelphi text train"):
        text_forecaster(copied, data.pack)
    del training["origin"]["stack"]  # as models of before have it: they read none
    (copied / "training.json").write_text(json.dumps(training))
    assert text_forecaster(copied, data.pack, number=2).model.about(ORIGIN, 0).texts


def test_divergence_names_the_settings_of_text(
    data: TextData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(self: ForecasterTask, model: Any, batch: Any) -> Loss:
        loss = real(self, model, batch)
        return loss._replace(total=loss.total * float("nan"))

    real = ForecasterTask.loss
    monkeypatch.setattr(ForecasterTask, "loss", spoilt)
    with pytest.raises(TrainingError, match=r"at step 1 the loss is nan.*text.learning_rate"):
        train_here(ForecasterTask(data), tmp_path / "m")


def test_processes_share_a_batch(data: TextData) -> None:
    task = ForecasterTask(data)
    shares = [task.batch(3, process=rank, processes=2) for rank in range(2)]
    assert [len(share.data.labels) for share in shares] == [2, 2]
    assert shares[0].seed != shares[1].seed
    assert len(task.batch(3, process=0, processes=1).data.labels) == 4


def test_a_pretrained_t5_is_taken_up(data: TextData, tmp_path: Path) -> None:
    made = t5_of(data.settings.text, 50)
    made.save_pretrained(tmp_path / "t5")
    settings = data.settings.text.model_copy(update={"pretrained": tmp_path / "t5"})
    taken = t5_of(settings, 70)
    assert torch.equal(taken.shared.weight[:50], made.shared.weight)
    assert taken.shared.weight.shape[0] == 70
    gone = settings.model_copy(update={"pretrained": tmp_path / "gone"})
    with pytest.raises(TrainingError, match="no T5 in"):
        t5_of(gone, 70)


def test_texts_of_the_day_after_the_last_are_written(
    forecaster: TextForecaster, data: TextData
) -> None:
    last = day_at(data.pack.facts.days - 1)
    assert len(forecaster.model.at(last)) == 4
    with pytest.raises(ForecastError):
        forecaster.model.at(last + timedelta(days=1))
