"""What the stack expects stands before the days, honestly, and is never written."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gdelphi.common.types import Forecaster, IntArray
from gdelphi.measures.profiles import standard_events
from gdelphi.stack.linear import expit
from gdelphi.text.compact import is_actor
from gdelphi.text.corpus import Corpus, learn_words
from gdelphi.text.data import TextData
from gdelphi.text.expected import (
    LOGIT_UNIT,
    NAMED,
    DayExpectation,
    StackExpectation,
    expected_text,
    expected_vocabulary,
    expected_words,
)
from gdelphi.text.forecaster_task import ForecasterTask
from helpers.small_stack import DAYS, VALIDATION_B, small_panel, small_stack
from helpers.text_world import check_batch_is_its_members, data, settings

__all__ = ["data", "settings"]

ROOTS = standard_events("root")
DAY = 40


class GivenDays:
    """Expects as many rows as the day has a position, and chances that fall from root to root."""

    roots = ROOTS

    @property
    def stack(self) -> Forecaster:
        raise NotImplementedError

    def at(self, target: int) -> DayExpectation:
        logits = np.linspace(3, -3, len(ROOTS)) + 0.01 * target
        chances = np.broadcast_to(expit(logits), (3, 4, len(ROOTS))).copy()
        chances[2, :, 1] = np.nan
        return DayExpectation(np.full(4, float(target)), chances)

    def known(self, targets: IntArray) -> IntArray:
        return targets[targets >= 30]


@pytest.fixture(scope="module")
def told(data: TextData) -> TextData:
    return data._replace(expected=GivenDays())


@pytest.fixture(scope="module")
def corpus(told: TextData) -> Corpus:
    vocabulary = learn_words(
        told.descriptors, 79, context=10, fewest=1, most=5000, expected=told.expected
    )
    return Corpus(told.descriptors, vocabulary, context=10, whole_days=3, expected=told.expected)


@pytest.mark.slow
def test_days_of_fitting_are_answered_out_of_fold(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    panel, fit = small_panel(), small_stack(tmp_path_factory)
    pack = SimpleNamespace(first_day=panel.roots.days[0], profiles=panel.roots, count_panel=panel)
    expected = StackExpectation(fit, cast(Any, pack))
    known = expected.known(np.arange(DAYS))
    assert len(known) == len(fit.out_of_fold.days) >= 120 and known.max() < VALIDATION_B
    told = expected.at(int(known[30]))
    np.testing.assert_allclose(
        told.chances, expit(fit.out_of_fold.logits["stack"][:, 30]), atol=1e-6
    )
    later = expected.at(225)
    answers = expected.stack.forecast(panel.roots, panel.roots.days[224])
    np.testing.assert_allclose(later.chances[1], [one.headline for one in answers])
    assert later.rows.shape == (4,) and (later.rows > 0).all()


def test_the_likeliest_headlines_are_named_with_their_chances() -> None:
    chances = np.full((3, 1, 20), 0.01)
    chances[:, 0, 4], chances[:, 0, 13] = (0.9, 0.8, np.nan), (0.5, 0.6, 0.2)
    day = DayExpectation(np.array([20.0]), chances)
    words = expected_words(day, 0, ROOTS)
    assert len(words) == 1 + 4 * NAMED
    assert [word for word, _ in words[:9]] == [
        "~v5", f"{ROOTS[4]}0", "~o", "~h", "~s", f"{ROOTS[13]}0", "~o", "~h", "~s",
    ]  # fmt: skip
    assert words[2].weight == pytest.approx(np.log(9) / LOGIT_UNIT)
    assert words[4].weight == 0  # a surge that is not defined says nothing
    assert words[6].weight == pytest.approx(0)  # even odds
    said = expected_text(day, 0, ROOTS)
    assert said.startswith(f"~v5 {ROOTS[4]}0 ~o90 ~h80 {ROOTS[13]}0 ")


def test_it_stands_between_the_stream_and_the_days(corpus: Corpus) -> None:
    plain = np.zeros((1, corpus.context), dtype=np.int64)
    source = corpus.source(np.array([2]), np.array([DAY]), plain)
    found: list[Counter[str]] = [Counter() for _ in range(source.mask.shape[1])]
    for word, place in zip(source.words.tolist(), source.places.tolist(), strict=True):
        found[place][corpus.vocabulary.words[word]] += 1
    sizes = [len(corpus.pack.atoms(day, 2).weights) for day in range(DAY - 3, DAY)]
    assert len(found) == 1 + NAMED + corpus.context + sum(sizes)
    assert found[0] == Counter([f"@{corpus.pack.facts.streams[2]}", "Sat", "~v6"])
    assert [each[f"{root}0"] for each, root in zip(found[1:], ROOTS[:NAMED], strict=False)] == [
        1
    ] * NAMED
    assert found[1 + NAMED]["d10"] == 1  # the first day


def test_a_batch_is_what_its_members_are(corpus: Corpus) -> None:
    check_batch_is_its_members(corpus, DAY)


def test_words_of_the_prompt_are_nobody() -> None:
    """So a guided text never has them."""
    assert not any(is_actor(word) for word in expected_vocabulary())


def test_training_is_told_what_was_expected_and_only_of_days_that_are_known(
    told: TextData, data: TextData
) -> None:
    task = ForecasterTask(told)
    assert told.targets("train").min() == 30 > data.targets("train").min()
    assert told.targets("validation_a").tolist() == data.targets("validation_a").tolist()
    assert set(expected_vocabulary()) <= set(task.vocabulary.words)
    assert not set(expected_vocabulary()) & set(ForecasterTask(data).vocabulary.words)
