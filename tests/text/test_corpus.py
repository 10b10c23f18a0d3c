"""The corpus: sequences of words say what the descriptors say, and datasets are written whole."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.measures.grammar import parse
from gdelphi.text.compact import (
    SPECIAL,
    actor_word,
    read_day,
    weight_word,
)
from gdelphi.text.corpus import (
    IGNORED,
    Corpus,
    learn_words,
)
from gdelphi.text.data import TextData, training_sequences
from gdelphi.text.dataset import write_dataset
from gdelphi.text.forecaster_task import ForecasterTask
from gdelphi.text.probabilities import events_of
from gdelphi.text.vocabulary import Vocabulary, learn_vocabulary
from helpers.text_world import check_batch_is_its_members, data, settings

__all__ = ["data", "settings"]

DAY = 40


@pytest.fixture(scope="module")
def corpus(data: TextData) -> Corpus:
    vocabulary = learn_words(data.descriptors, 79, context=10, fewest=1, most=5000)
    return Corpus(data.descriptors, vocabulary, context=10, whole_days=3)


def sentences(corpus: Corpus, stream: int, target: int) -> list[Counter[str]]:
    """The words at each position of a context."""
    plain = np.zeros((1, corpus.context), dtype=np.int64)
    source = corpus.source(np.array([stream]), np.array([target]), plain)
    found: list[Counter[str]] = [Counter() for _ in range(source.mask.shape[1])]
    for word, place in zip(source.words.tolist(), source.places.tolist(), strict=True):
        found[place][corpus.vocabulary.words[word]] += 1
    return found


def test_the_text_of_a_day_is_its_descriptor(data: TextData) -> None:
    pack, said = data.pack, data.descriptors
    for stream in range(len(pack.facts.streams)):
        phrases, measure = pack.atom_phrases(DAY, stream), pack.atoms(DAY, stream)
        text = read_day(said.text(DAY, stream), said.homes[stream])
        assert [(each.actor1, each.code, each.actor2) for each in text.phrases] == list(
            zip(*phrases, strict=True)
        )
        written = [weight_word(weight) for weight in measure.weights]
        assert said.text(DAY, stream)[4::4] == written


def test_a_missing_day_is_a_word(data: TextData) -> None:
    assert data.descriptors.text(20, 0) == ["?"]


def test_the_context_has_a_position_for_each_old_day_and_each_new_phrase(corpus: Corpus) -> None:
    for stream in range(4):
        found = sentences(corpus, stream, DAY)
        sizes = [len(corpus.pack.atoms(day, stream).weights) for day in range(DAY - 3, DAY)]
        assert len(found) == 1 + corpus.context + sum(sizes)
        assert found[0] == Counter([f"@{corpus.pack.facts.streams[stream]}", "Sat"])
        heads = [each for each in found if any(word[0] == "v" for word in each)]
        ages = [word for each in heads for word in each if word[0] == "d"]
        assert ages == [f"d{age}" for age in range(10, 0, -1)]
        last = corpus.pack.atom_phrases(DAY - 1, stream)
        home = corpus.descriptors.homes[stream]
        if last.code:
            assert found[-1][last.code[-1]] and found[-1][actor_word(last.actor1[-1], home)]
            assert found[-1]["d1"] and found[-1][">" + actor_word(last.actor2[-1], home)]


def test_a_batch_is_what_its_members_are(corpus: Corpus) -> None:
    check_batch_is_its_members(corpus, DAY)


def test_labels_are_the_text_and_its_end(corpus: Corpus) -> None:
    streams, targets = np.arange(4), np.full(4, DAY)
    labels = corpus.labels(streams, targets, np.zeros(4, dtype=np.int64))
    for stream, row in enumerate(labels):
        words = corpus.vocabulary.read(number for number in row.tolist() if number != IGNORED)
        assert words == [*corpus.descriptors.text(DAY, stream), "</s>"]


def test_shares_that_descriptors_name(corpus: Corpus) -> None:
    places = dict(events_of("root"))
    named = corpus.descriptors.named(places, 20, range(corpus.pack.facts.days))
    text = read_day(corpus.descriptors.text(DAY, 0), corpus.descriptors.homes[0])
    wanted = np.zeros(20)
    for phrase in text.phrases:
        wanted[places[phrase.code]] += phrase.weight
    np.testing.assert_allclose(named[0, DAY], wanted)
    assert not named[:, 20].any()


def test_rare_words_are_said_more_plainly(data: TextData) -> None:
    few = learn_words(data.descriptors, 79, context=10, fewest=40, most=5000)
    corpus = Corpus(data.descriptors, few, context=10, whole_days=3)
    assert len(few) < 400
    unknown = few.number["<unk>"]
    assert (corpus.words == unknown).mean() < 0.05
    all_words = learn_words(data.descriptors, 79, context=10, fewest=1, most=9999)
    known = Corpus(data.descriptors, all_words, context=10, whole_days=3)
    assert not (known.words == known.vocabulary.number["<unk>"]).any()


# --- vocabulary -----------------------------------------------------------------------------------


def test_a_vocabulary_is_saved_and_read(tmp_path: Path) -> None:
    made = learn_vocabulary(Counter({"b": 3, "a": 3, "rare": 1}), (*SPECIAL, "x"), fewest=2, most=6)
    assert made.words == (*SPECIAL, "x", "a", "b")
    made.save(tmp_path)
    read = Vocabulary.load(tmp_path)
    assert read.words == made.words
    assert read.read(read.numbers(["a", "strange", "x"])) == ["a", "<unk>", "x"]


def test_a_vocabulary_that_is_not_there_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="gdelphi text train"):
        Vocabulary.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TrainingError, match="cannot be read"):
        Vocabulary.load(tmp_path)


# --- datasets -------------------------------------------------------------------------------------


def test_a_dataset_holds_sequences_of_texts(data: TextData, tmp_path: Path) -> None:
    seen: list[int] = []
    made = write_dataset(
        data, tmp_path / "a.parquet", 520, on_written=lambda done, _: seen.append(done)
    )
    rows = pq.read_table(made.path).to_pylist()
    assert seen == [500, 520] and len(rows) == made.sequences == 520
    assert made.descriptors == 520 * 11 and made.peak_bytes > 0
    drawn = list(islice(training_sequences(data), 520))
    for row, (stream, target, variants) in list(zip(rows, drawn, strict=True))[::100]:
        assert row["stream"] == data.pack.facts.streams[stream]
        assert row["target_day"] == data.sequences.day(target)
        texts = [
            " ".join(data.descriptors.text(day, stream, variant))
            for day, variant in zip(range(target - 10, target + 1), variants, strict=True)
        ]
        assert [*row["context"], row["target"]] == texts
    phrases = sum(
        len(read_day(text.split(), "").phrases)
        for row in rows
        for text in (*row["context"], row["target"])
        if text != "?"
    )
    assert phrases == made.phrases
    again = write_dataset(data, tmp_path / "b.parquet", 520)
    assert again.path.read_bytes() == made.path.read_bytes()


def test_drawing_goes_by_its_seed(data: TextData) -> None:
    first = list(islice(training_sequences(data, seed=1), 50))
    assert first == list(islice(training_sequences(data, seed=1), 50))
    assert first != list(islice(training_sequences(data, seed=2), 50))


def test_what_is_drawn_lies_in_its_part_and_reaches_everything(data: TextData) -> None:
    streams, targets, variants = zip(*islice(training_sequences(data), 1500), strict=True)
    assert set(targets) == set(data.targets("train").tolist())
    assert set(streams) == {0, 1, 2, 3}
    assert {len(each) for each in variants} == {data.sequences.context_days + 1}
    assert {each[-1] for each in variants} == {0}  # a random descriptor is that of half a day
    counts = Counter(variant for each in variants for variant in each[:-1])
    assert set(counts) == {0, 1, 2}
    assert counts[0] / counts.total() == pytest.approx(1 / 3, abs=0.03)
    test = {target for _, target, _ in islice(training_sequences(data, part="test"), 200)}
    assert test <= set(data.targets("test").tolist())


def test_training_reads_the_sequences_of_the_dataset(data: TextData, tmp_path: Path) -> None:
    """Row by row, the dataset is what the forecaster's steps are made of, in their order."""
    task, size = ForecasterTask(data), data.settings.text.batch
    made = write_dataset(data, tmp_path / "a.parquet", 3 * size)
    rows = pq.read_table(made.path).to_pylist()
    drawn = list(islice(training_sequences(data), 3 * size))
    for step in (1, 2, 3):
        batch = task.batch(step, process=0, processes=1).data
        mine = slice((step - 1) * size, step * size)
        written = [
            " ".join(task.vocabulary.read(number for number in row if number not in (IGNORED, 1)))
            for row in batch.labels.tolist()
        ]
        assert written == [row["target"] for row in rows[mine]]
        streams, targets, variants = (np.array(values) for values in zip(*drawn[mine], strict=True))
        source = task.corpus.source(streams, targets, variants[:, :-1])
        assert all(np.array_equal(one, two) for one, two in zip(source, batch.source, strict=True))


def test_a_dataset_in_english_is_read_by_the_grammar(data: TextData, tmp_path: Path) -> None:
    made = write_dataset(data, tmp_path / "a.parquet", 5, form="english")
    lines = [
        line
        for row in pq.read_table(made.path).to_pylist()
        for line in row["target"].split("; ")
        if line
    ]
    assert lines and all(parse(line.rpartition(" (")[0]) for line in lines)


def test_no_days_to_learn_from_is_an_error(settings: Settings, data: TextData) -> None:
    class Nothing:
        splits, context_days = data.sequences.splits, data.sequences.context_days

        def targets(self, part: str) -> list[int]:
            return []

    with pytest.raises(TrainingError, match="no day of train"):
        data._replace(sequences=Nothing()).targets("train")  # type: ignore[arg-type]
