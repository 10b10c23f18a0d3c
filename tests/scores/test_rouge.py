"""ROUGE of phrases and of texts, against answers by hand and a linear programme."""

import builtins
import math
from typing import Any

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from scipy.optimize import linprog

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray
from gdelphi.scores import rouge
from gdelphi.scores.rouge import (
    UNDEFINED,
    Rouge,
    WeightedText,
    expected_rouge,
    joined,
    matched_rouge,
    mean_rouge,
    phrase_rouge,
    published_rouge,
    random_day_reference,
    recall_rouge,
)

STUDENT = "the police arrest a student"
PROTESTERS = "the police arrest protesters"
RAIN = "heavy rain falls"
SPEECH = "some minister speaks"
WORDS = ("police", "army", "arrest", "visit", "student", "minister", "the", "a", "in", "Kenya")


def text(**weights: float) -> WeightedText:
    """A text of the phrases above, by their names."""
    return WeightedText([globals()[name] for name in weights], np.array(list(weights.values())))


def random_text(generator: np.random.Generator, count: int | None = None) -> WeightedText:
    count = count or int(generator.integers(3, 11))
    phrases = [" ".join(generator.choice(WORDS, size=4)) for _ in range(count)]
    return WeightedText(phrases, generator.dirichlet(np.ones(count)))


def programme(forecast: WeightedText, came: WeightedText, kind: int) -> float:
    """The best transport by another solver."""
    gain = np.array([[phrase_rouge(x, y)[kind] for y in came.phrases] for x in forecast.phrases])
    rows = np.kron(np.eye(len(gain)), np.ones(gain.shape[1]))
    columns = np.kron(np.ones(len(gain)), np.eye(gain.shape[1]))
    sums = np.concatenate([forecast.weights, came.weights])
    # The last sum follows from the others; with it rounding could make the programme infeasible.
    found = linprog(-gain.ravel(), A_eq=np.vstack([rows, columns])[:-1], b_eq=sums[:-1])
    return float(-found.fun)


# --- phrases --------------------------------------------------------------------------------------


def test_rouge_of_two_phrases_by_hand() -> None:
    """5 and 4 words with 3 in common, 4 and 3 pairs of neighbours with 2 in common."""
    assert phrase_rouge(STUDENT, PROTESTERS) == pytest.approx((6 / 9, 4 / 7, 6 / 9))
    assert phrase_rouge("one two three", "three two one") == pytest.approx((1, 0, 1 / 3))
    assert phrase_rouge(RAIN, SPEECH) == (0, 0, 0)


def test_rouge_of_phrases_is_the_same_either_way_round() -> None:
    assert phrase_rouge(PROTESTERS, STUDENT) == phrase_rouge(STUDENT, PROTESTERS)


def test_a_verb_is_the_same_in_singular_and_plural_and_capitals_mean_nothing() -> None:
    assert phrase_rouge("The army Visits Kenya", "the army visit kenya") == (1, 1, 1)


def test_equal_phrases_score_one_even_if_they_have_no_neighbouring_words() -> None:
    for phrase in ("rain", "", "Ω"):
        assert phrase_rouge(phrase, phrase) == (1, 1, 1)
    assert phrase_rouge("rain", "") == (0, 0, 0)


# --- texts ----------------------------------------------------------------------------------------


def test_a_text_against_itself_scores_one_in_any_order() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        came = random_text(generator)
        order = generator.permutation(len(came.phrases))
        shuffled = WeightedText([came.phrases[index] for index in order], came.weights[order])
        assert matched_rouge(shuffled, came) == pytest.approx((1, 1, 1), abs=1e-12)


def test_the_order_of_phrases_means_nothing_to_any_score() -> None:
    generator = np.random.default_rng(1)
    forecast, came = random_text(generator), random_text(generator)
    turned = WeightedText(forecast.phrases[::-1], forecast.weights[::-1])
    assert matched_rouge(turned, came) == pytest.approx(matched_rouge(forecast, came), abs=1e-12)
    assert matched_rouge(came, forecast) == pytest.approx(matched_rouge(forecast, came), abs=1e-12)


def test_texts_without_a_common_word_score_zero() -> None:
    assert matched_rouge(text(RAIN=0.3, SPEECH=0.7), text(STUDENT=1)) == (0, 0, 0)


def test_weight_goes_first_to_the_same_phrase_and_the_rest_to_the_most_alike() -> None:
    """0.5 and 0.1 stay, 0.3 goes from student to protesters, and 0.1 from student to rain."""
    forecast = text(STUDENT=0.9, RAIN=0.1)
    came = text(RAIN=0.2, PROTESTERS=0.3, STUDENT=0.5)
    found = matched_rouge(forecast, came)
    assert found == pytest.approx((0.6 + 0.3 * 6 / 9, 0.6 + 0.3 * 4 / 7, 0.6 + 0.3 * 6 / 9))


def test_of_phrases_without_common_words_the_score_is_the_common_weight() -> None:
    found = matched_rouge(text(RAIN=0.6, SPEECH=0.4), text(SPEECH=0.7, RAIN=0.3))
    assert found == pytest.approx((0.7, 0.7, 0.7))


def test_more_phrases_are_no_free_win_and_a_phrase_said_twice_changes_nothing() -> None:
    came = text(STUDENT=1)
    assert matched_rouge(text(STUDENT=0.5, RAIN=0.25, SPEECH=0.25), came).one == pytest.approx(0.5)
    twice = WeightedText([STUDENT, STUDENT, RAIN], np.array([0.2, 0.3, 0.5]))
    once = text(STUDENT=0.5, RAIN=0.5)
    other = text(PROTESTERS=0.8, RAIN=0.2)
    assert matched_rouge(twice, other) == pytest.approx(matched_rouge(once, other))


@pytest.mark.parametrize("seed", range(5))
def test_the_transport_is_the_best_there_is(seed: int) -> None:
    generator = np.random.default_rng(seed)
    forecast, came = random_text(generator), random_text(generator)
    found = matched_rouge(forecast, came)
    best = [programme(forecast, came, kind) for kind in range(3)]
    assert found == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("sizes", [(1, 5), (6, 1), (2, 2), (7, 2), (2, 8)])
def test_texts_of_one_or_two_phrases_need_no_search(sizes: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        forecast, came = (random_text(generator, size) for size in sizes)
        best = [programme(forecast, came, kind) for kind in range(3)]
        assert matched_rouge(forecast, came) == pytest.approx(best, abs=1e-9)


def test_a_silent_forecast_scores_zero_and_a_day_without_text_has_no_score() -> None:
    silent = WeightedText([], np.zeros(0))
    assert matched_rouge(silent, text(RAIN=1)) == (0, 0, 0)
    assert all(math.isnan(value) for value in matched_rouge(text(RAIN=1), silent))
    assert all(math.isnan(value) for value in matched_rouge(silent, silent))


# --- futures --------------------------------------------------------------------------------------


def test_the_expected_score_is_the_weighted_mean_of_single_scores_in_any_order() -> None:
    generator = np.random.default_rng(2)
    futures, came = [random_text(generator) for _ in range(8)], random_text(generator)
    futures[3] = WeightedText([], np.zeros(0))
    weights = generator.dirichlet(np.ones(8))
    weights[5], weights[0] = 0, weights[0] + weights[5]
    single = np.array([matched_rouge(future, came) for future in futures])
    found = expected_rouge(futures, weights, came)
    assert found == pytest.approx(weights @ single, abs=1e-12)
    order = generator.permutation(8)
    permuted = expected_rouge([futures[index] for index in order], weights[order], came)
    assert permuted == pytest.approx(found, abs=1e-12)


def test_a_pair_of_phrases_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    counted = rouge._counted

    def counting(phrase: str) -> Any:
        asked.append(phrase)
        return counted(phrase)

    phrase_rouge.cache_clear()
    monkeypatch.setattr(rouge, "_counted", counting)
    one, other = text(STUDENT=0.5, RAIN=0.5), text(PROTESTERS=0.5, RAIN=0.5)
    for _ in range(3):
        expected_rouge([one] * 10, np.full(10, 0.1), other)
        expected_rouge([other] * 10, np.full(10, 0.1), one)
    assert len(asked) == 2 * 3, "both phrases of three pairs; equal ones are not looked at"


def test_phrases_score_what_the_library_says_to_the_last_bit() -> None:
    library = RougeScorer(rouge.KINDS, use_stemmer=True)
    generator = np.random.default_rng(7)
    phrases = [
        " ".join(generator.choice(WORDS, size=int(size))) for size in generator.integers(1, 14, 60)
    ]
    for one, other in zip(phrases, [*phrases[1:], "Écoles, -- fermées!"], strict=True):
        if one != other:
            scores = library.score(one, other)
            assert phrase_rouge(one, other) == tuple(scores[kind].fmeasure for kind in rouge.KINDS)


# --- random days ----------------------------------------------------------------------------------


def test_the_reference_is_the_mean_over_all_past_days_if_they_are_few() -> None:
    past = [text(STUDENT=1), text(RAIN=1), text(SPEECH=1), WeightedText([], np.zeros(0))]
    found = random_day_reference(past, text(PROTESTERS=1), generator=np.random.default_rng(0))
    assert found == pytest.approx((6 / 9 / 4, 4 / 7 / 4, 6 / 9 / 4))


def test_random_days_come_from_the_past_without_repetition_and_from_the_generator_alone() -> None:
    generator = np.random.default_rng(3)
    past, came = [random_text(generator) for _ in range(30)], random_text(generator)

    def reference(seed: int, number: int) -> Rouge:
        generator = np.random.default_rng(seed)
        return random_day_reference(past, came, generator=generator, number=number)

    single = [matched_rouge(day, came) for day in past]
    assert any(reference(1, 1) == pytest.approx(score, abs=1e-12) for score in single)
    assert reference(1, 7) == reference(1, 7) != reference(2, 7)
    assert reference(1, 30) == pytest.approx(np.mean(single, axis=0), abs=1e-12)


def test_template_words_earn_points_on_any_day() -> None:
    """Why there is a reference: days that have nothing in common but their country."""
    past = [WeightedText(["the army visits someone in Kenya"], np.ones(1))]
    came = WeightedText(["the police arrest a student in Kenya"], np.ones(1))
    found = random_day_reference(past, came, generator=np.random.default_rng(0))
    assert found == pytest.approx((6 / 13, 2 / 11, 6 / 13))


def test_without_past_days_there_is_no_reference() -> None:
    generator = np.random.default_rng(0)
    nothing = random_day_reference([], text(RAIN=1), generator=generator)
    assert all(math.isnan(value) for value in nothing)
    with pytest.raises(GdelphiError, match="at least one"):
        random_day_reference([text(RAIN=1)], text(RAIN=1), generator=generator, number=0)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        (np.array([0.5]), "for 2 phrases"),
        (np.array([0.5, 0.6]), "phrases must not be negative"),
        (np.array([-0.5, 1.5]), "phrases must not be negative"),
        (np.array([0.5, np.nan]), "phrases must not be negative"),
    ],
)
def test_weights_that_do_not_fit_their_phrases_are_refused(
    weights: FloatArray, complaint: str
) -> None:
    wrong, right = WeightedText([RAIN, SPEECH], weights), text(RAIN=1)
    for forecast, came in ((wrong, right), (right, wrong)):
        with pytest.raises(GdelphiError, match=complaint):
            matched_rouge(forecast, came)


def test_weights_that_do_not_fit_their_futures_are_refused() -> None:
    came = text(RAIN=1)
    with pytest.raises(GdelphiError, match="for 2 futures"):
        expected_rouge([came, came], np.ones(1), came)
    with pytest.raises(GdelphiError, match="futures must not be negative"):
        expected_rouge([came, came], np.ones(2), came)


def test_without_pot_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ot":
            raise ImportError(name)
        return real(name, *rest, **more)

    rouge._transport.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(GdelphiError, match="pip install pot"):
        three = text(RAIN=0.5, SPEECH=0.25, STUDENT=0.25)  # fewer need no search
        matched_rouge(three, three)


# --- whole texts ----------------------------------------------------------------------------------


def plain_text(*phrases: str) -> WeightedText:
    """Phrases of falling weight."""
    weights = np.arange(len(phrases), 0, -1.0)
    return WeightedText(phrases, weights / weights.sum() if len(phrases) else weights)


def test_phrases_are_joined_by_weight() -> None:
    assert joined(WeightedText(["a b", "c d"], np.array([0.2, 0.8]))) == "c d. a b"


def test_published_rouge_is_the_librarys() -> None:
    found = published_rouge(
        plain_text("police threaten Kenya"), plain_text("police threatens Uganda")
    )
    assert found == pytest.approx((2 / 3, 1 / 2, 2 / 3))  # the stemmer makes one verb of two
    assert published_rouge(plain_text("x y"), plain_text("x y")) == pytest.approx((1, 1, 1))


def test_recall_counts_what_of_the_reference_is_there() -> None:
    came = plain_text("a b c", "a b d")
    found = recall_rouge(plain_text("a b c e f"), came)
    assert found == pytest.approx((3 / 6, 2 / 5, 3 / 6))
    assert recall_rouge(plain_text("a b", "c a b d e e e"), came).one == 1  # length costs nothing
    assert recall_rouge(plain_text(), came) == (0, 0, 0)


def test_nothing_that_came_has_no_score() -> None:
    assert math.isnan(published_rouge(plain_text("a"), plain_text()).one)
    assert math.isnan(recall_rouge(plain_text("a"), plain_text()).one)
    assert math.isnan(mean_rouge([UNDEFINED]).one)
    assert mean_rouge([UNDEFINED, Rouge(1, 0, 0), Rouge(0, 0, 1)]) == Rouge(0.5, 0, 0.5)


def test_a_mean_by_weights_leaves_out_what_is_undefined() -> None:
    scores = [Rouge(1, 0, 0), UNDEFINED, Rouge(0, 0, 1)]
    assert mean_rouge(scores, np.array([0.3, 0.6, 0.1])) == pytest.approx((0.75, 0, 0.25))
    assert math.isnan(mean_rouge(scores, np.array([0.0, 1.0, 0.0])).one)
