"""The expected day by the decoder: in words, chosen on validation B, and without a look ahead."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import silent
from gdelphi.common.types import Measure
from gdelphi.forecast.archive import EXPECTED_FILE, model_fingerprint
from gdelphi.forecast.calibrate import choose_expected_day
from gdelphi.forecast.decoded_day import (
    DayDecoder,
    choose_shown,
    divergences_of,
    keep_expected_choice,
    name_decoded_day,
    read_expected_choice,
)
from gdelphi.forecast.expected_day import expected_day_in_brief
from gdelphi.forecast.prediction import BriefAtom
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.expected import DECODER, START, USUAL, YESTERDAY, ExpectedJudge
from gdelphi.judge.past_days import last_year, oracle_days
from gdelphi.measures.pack import Pack
from gdelphi.measures.phrases import lineage
from gdelphi.measures.targets import shares_of
from gdelphi.model.data import load_training_data
from gdelphi.model.decoder_start import RecentCloud, summary
from gdelphi.model.decoder_task import DECODER_FOLDER, DecoderSettings, train_decoder
from gdelphi.model.processes import training_device
from gdelphi.stack.baselines import Climatology
from helpers.forecast_world import FUTURES, model, one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["model", "one_thread", "predictor", "settings"]

END = 70
TINY: dict[str, Any] = {
    "steps": 3, "evaluate_every": 3, "examples": 12, "evaluated": 8, "fewest": 4, "batch": 4,
    "blocks": 2, "days": 10, "points": 16, "warm_up": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder."""
    folder = tmp_path_factory.mktemp("trained") / DECODER_FOLDER
    data = load_training_data(predictor.settings)
    with training_device(data.settings.train) as accelerator:
        train_decoder(data, folder, accelerator, settings=DecoderSettings(**TINY))
    return folder


@pytest.fixture
def decoding(model: Path, predictor: Predictor, trained: Path) -> Predictor:
    """A predictor of a model with a decoder."""
    shutil.copytree(trained, model / DECODER_FOLDER)
    return Predictor(predictor.settings, model, number=FUTURES)


def decoder_of(predictor: Predictor) -> DayDecoder:
    assert predictor.decoder is not None
    return predictor.decoder


def assert_within_roots(brief: Sequence[BriefAtom], shares: Mapping[str, float]) -> None:
    """Phrases of a root have no more than its share together."""
    assert brief
    for root, share in shares.items():
        own = [atom.weight for atom in brief if lineage(atom.phrase.code).root == root]
        assert sum(own) <= share + 1e-9


def test_the_brief_is_the_decoders_its_starts_or_the_futures(
    decoding: Predictor, predictor: Predictor
) -> None:
    forecasts = decoding.forecasts_at(day_at(END), ("root",))
    futures = forecasts.futures(0)
    day = decoder_of(decoding).at(END)[0]
    assert day is not None
    roots = forecasts.published(0, futures)["root"]
    shares = dict(zip(roots.codes, roots.share_mean.tolist(), strict=True))
    for shown, atoms in ((True, day.decoded), (False, day.start)):
        decoding.shows_decoder = shown
        named = name_decoded_day(atoms, day.recent, decoding.pack, shares)
        assert forecasts.brief(0, futures, roots) == named
    # A model without a decoder has the mean of its futures.
    assert predictor.decoder is None
    other = predictor.forecasts_at(day_at(END), ("root",))
    mean = expected_day_in_brief(futures, predictor.settings.measures, shares)
    assert other.brief(0, other.futures(0), roots) == mean
    assert_within_roots(mean, shares)


def test_a_brief_is_in_phrases_of_the_recent_past(decoding: Predictor) -> None:
    for day in decoder_of(decoding).at(END):
        assert day is not None
        brief = name_decoded_day(day.decoded, day.recent, decoding.pack)
        weights = [atom.weight for atom in brief]
        assert 0 < sum(weights) <= 1 + 1e-9
        assert weights == sorted(weights, reverse=True)
        assert len({atom.phrase for atom in brief}) == len(brief) <= len(day.decoded.weights)
        shares = {f"{root:02}": root / 210 for root in range(1, 21)}
        assert_within_roots(
            name_decoded_day(day.decoded, day.recent, decoding.pack, shares), shares
        )
        columns = decoding.pack.phrases_of(day.recent.slots)
        known = set(zip(*columns, strict=True))
        assert all(tuple(atom.phrase) in known for atom in brief)


def test_atoms_at_points_are_called_as_those_points(decoding: Predictor) -> None:
    recent = decoder_of(decoding).recent.recent_cloud(0, END, 10.0)
    assert recent is not None
    two = RecentCloud(Measure(recent.measure.points[:2], np.array([0.5, 0.5])), recent.slots[:2])
    atoms = Measure(recent.measure.points[[1, 0]], np.array([0.7, 0.3]))
    brief = name_decoded_day(atoms, two, decoding.pack)
    phrases = list(zip(*decoding.pack.phrases_of(two.slots), strict=True))
    assert [tuple(atom.phrase) for atom in brief] == [phrases[1], phrases[0]]
    # Atoms that have drawn together, one of them without points of its own, are one phrase.
    same = Measure(recent.measure.points[[0, 0]], np.array([0.6, 0.4]))
    first = RecentCloud(Measure(recent.measure.points[:1], np.ones(1)), recent.slots[:1])
    (only,) = name_decoded_day(same, first, decoding.pack)
    assert (tuple(only.phrase), only.weight) == (phrases[0], 1.0)


def test_nothing_after_the_origin_is_looked_at(
    decoding: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = decoder_of(decoding).at(END)
    decoding.decoder = None
    whole = Pack.cloud

    def garbage(self: Pack, day: int, stream: int) -> Any:
        slots, weights = whole(self, day, stream)
        return (slots[:1], weights[:1]) if day > END else (slots, weights)

    monkeypatch.setattr(Pack, "cloud", garbage)
    again = decoder_of(Predictor(decoding.settings, decoding.folder, number=FUTURES)).at(END)
    for one, other in zip(known, again, strict=True):
        assert one is not None
        assert other is not None
        np.testing.assert_array_equal(one.decoded.points, other.decoded.points)
        np.testing.assert_array_equal(one.decoded.weights, other.decoded.weights)


def test_whose_atoms_are_shown_is_chosen_on_validation_b(
    decoding: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model_fingerprint(decoding.folder)
    choice = choose_expected_day(decoding, silent)
    assert choice is not None
    assert read_expected_choice(decoding.folder) == choice
    assert (choice.shown == "decoder") == (choice.decoder < choice.start) == decoding.shows_decoder
    assert model_fingerprint(decoding.folder) != before
    # A decoder that is worse than its start is not shown.
    decoder = decoder_of(decoding)
    days = decoder.at(END)
    spoiled = [
        day and day._replace(decoded=Measure(-day.start.points, day.start.weights)) for day in days
    ]
    monkeypatch.setattr(decoder, "at", lambda end: spoiled)
    worse = choose_shown(decoder, [END])
    assert worse.shown == "start"
    assert worse.decoder > worse.start
    keep_expected_choice(decoding.folder, worse)
    assert not Predictor(decoding.settings, decoding.folder, number=FUTURES).shows_decoder


def test_a_damaged_choice_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / EXPECTED_FILE).write_text("[]")
    with pytest.raises(ForecastError, match="gdelphi calibrate"):
        read_expected_choice(tmp_path)


def test_a_measure_is_at_no_distance_from_itself() -> None:
    points = np.eye(4, dtype=np.float32)
    measure = Measure(points[:3], np.array([0.5, 0.3, 0.2]))
    far = Measure(points[3:], np.ones(1))
    same, away = divergences_of([measure, far], [measure, measure])
    assert same == pytest.approx(0, abs=1e-5)
    assert away > 0.9


def test_the_judge_scores_five_measures_of_each_stream(decoding: Predictor) -> None:
    decoder = decoder_of(decoding)
    scores = ExpectedJudge(decoder, text=False).day(END)
    assert scores
    by_stream: dict[str, dict[str, float]] = {}
    for score in scores:
        by_stream.setdefault(score.stream, {})[score.measure] = score.divergence
    days = decoder.at(END)
    for stream, found in by_stream.items():
        assert set(found) == {DECODER, START, YESTERDAY, USUAL, "random days"}
        place = decoding.streams.index(stream)
        day = days[place]
        assert day is not None
        expected = decoder.divergences([day.start], END, [place])[0]
        assert found[START] == pytest.approx(expected, rel=1e-4)
    assert ExpectedJudge(decoder, text=False).day(decoding.pack.facts.days - 1) == []


def test_an_oracle_is_judged_by_the_past_days_nearest_to_its_samples(decoding: Predictor) -> None:
    decoder, pack = decoder_of(decoding), decoding.pack
    origin = pack.first_day + timedelta(days=END)
    past = [last_year(pack, place, END) for place in range(len(decoding.streams))]
    known = [
        replace(
            forecast,
            share_samples=shares_of(pack.weights[place, past[place][-3:]]),
            share_weights=np.full(3, 1 / 3),
        )
        for place, forecast in enumerate(
            Climatology().forecast(decoding.known_at("root", origin), origin)
        )
    ]
    scores = ExpectedJudge(decoder, text=False).day(END, known)
    found = {score.stream: score.divergence for score in scores if score.measure == "oracle days"}
    assert found
    for stream, divergence in found.items():
        place = decoding.streams.index(stream)
        assert oracle_days(pack, place, END, known[place].share_samples) == past[place][-3:]
        cloud = decoder.recent.mean_cloud(place, dict.fromkeys(past[place][-3:], 1.0))
        assert cloud is not None
        atoms = summary(cloud, decoder.model.config.atoms)
        measure = Measure(atoms.points, atoms.weights)
        expected = decoder.divergences([measure], END, [place])[0]
        assert divergence == pytest.approx(expected, rel=1e-4)
