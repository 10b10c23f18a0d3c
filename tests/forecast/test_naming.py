"""Names of futures: three of them, chosen on validation B, and none that knows what came."""

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gdelphi.app.commands.calibrate import show_calibrated
from gdelphi.app.commands.explain import show_explanation
from gdelphi.app.commands.forecast import show_forecast
from gdelphi.app.promote import promote
from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.forecast import archive as forecasts
from gdelphi.forecast import naming as names
from gdelphi.forecast.archive import model_fingerprint
from gdelphi.forecast.calibrate import calibrate, is_calibrated
from gdelphi.forecast.explain import explain
from gdelphi.forecast.forecast import (
    ForecastRequest,
    ForecastResult,
    forecast,
)
from gdelphi.forecast.naming import (
    NAMER_FOLDER,
    NAMES_FILE,
    NAMINGS,
    ChosenNames,
    NameBook,
    NameScore,
    NearestNames,
    ObservedPhrases,
    WrittenNames,
    digest_of,
    keep_names,
    read_chosen,
)
from gdelphi.forecast.naming_choice import (
    choose_names,
    namer_to_try,
    spread,
)
from gdelphi.forecast.origin import ForecastOrigin
from gdelphi.forecast.prediction import (
    Naming,
    Phrase,
    Prediction,
)
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.phrases import sentence
from gdelphi.report.report import ReportRequest, make_report
from gdelphi.text.data import load_text_data
from gdelphi.text.namer import Namer
from gdelphi.text.namer_task import NamerTask
from helpers.forecast_world import FUTURES, model, one_thread, predictor, settings
from helpers.measured_world import changed, day_at, tree_of
from helpers.text_world import TEXT, train_here

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["model", "one_thread", "predictor", "settings"]

ORIGIN = day_at(77)
NAMER: dict[str, Any] = {
    **TEXT, "namer_steps": 300, "batch": 8, "evaluate_every": 300, "save_every": 300, "width": 32,
    "inner": 32,
}  # fmt: skip


@cache
def _task(settings: Settings) -> NamerTask:
    return NamerTask(load_text_data(changed(settings, "text", **NAMER)), made_actors=20)


@pytest.fixture(scope="module")
def namer(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namer after a few steps; not to be changed."""
    torch.set_num_threads(1)
    return train_here(_task(settings), tmp_path_factory.mktemp("names") / "namer").folder


def chosen(by: Naming, namer: Path) -> ChosenNames:
    """A choice that nobody made."""
    score = NameScore((0.5, 0.3, 0.5), (0.5, 0.3, 0.5), 0.0, 0.0)
    scores = dict.fromkeys(NAMINGS, score)
    return ChosenNames(by, digest_of(namer), "2021-01-01", "2021-01-02", 2, 8, scores)


def named(predictor: Predictor, folder: Path, by: Naming, namer: Path) -> Predictor:
    """A predictor with a copy of a model, which names futures in a given way."""
    made = Path(shutil.copytree(predictor.folder, folder / by))
    keep_names(made, chosen(by, namer), namer)
    return Predictor(predictor.settings, made, number=FUTURES)


@pytest.fixture(scope="module")
def nearest(
    predictor: Predictor, namer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    """A predictor that names futures by the nearest phrase; not to be changed."""
    return named(predictor, tmp_path_factory.mktemp("predictor"), "nearest", namer)


@pytest.fixture(scope="module")
def written(
    predictor: Predictor, namer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    """A predictor that names futures by a namer; not to be changed."""
    return named(predictor, tmp_path_factory.mktemp("predictor"), "namer", namer)


@cache
def predicted(predictor: Predictor) -> list[Prediction]:
    return predictor.predict(ORIGIN)


def words_of(prediction: Prediction) -> list[Any]:
    futures = prediction.futures
    return [futures.called, futures.calls.tolist(), futures.unreadable, prediction.brief]


# --- the namings ----------------------------------------------------------------------------------


def test_without_a_choice_atoms_are_called_by_their_origin(predictor: Predictor) -> None:
    assert not (predictor.folder / NAMES_FILE).exists()
    for prediction in predictor.predict(ORIGIN):
        futures = prediction.futures
        assert futures.naming == "origin" and futures.called is futures.phrases
        assert futures.calls is futures.named and not futures.renamed.any()
        assert all(atom.phrase == atom.drawn for atom in prediction.brief)


def test_an_observed_phrase_is_nearest_to_itself(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = predictor.pack
    slots = ObservedPhrases(pack).until(0, 60)
    points = pack.points(slots, predictor.space)
    own = [Phrase(*each) for each in zip(*pack.phrases_of(slots), strict=True)]
    weights = np.full(len(own), 0.1)
    for at_once in (8192, 7):
        monkeypatch.setattr(names, "AT_ONCE", at_once)
        found = NearestNames(pack, predictor.space, slots).name(points, weights)
        assert sum(new == old for new, old in zip(found, own, strict=True)) > 0.9 * len(own)
        places = [own.index(each) for each in found if each is not None]
        # A few actors lie at one point: the hashing encoder knows few words.
        np.testing.assert_allclose((points * points[places]).sum(axis=1), 1, atol=1e-5)
    assert NearestNames(pack, predictor.space, slots[:0]).name(points[:2], weights[:2]) == [
        None,
        None,
    ]


def test_only_phrases_of_the_stream_up_to_a_day_are_observed(predictor: Predictor) -> None:
    observed, pack = ObservedPhrases(predictor.pack), predictor.pack
    for stream in range(2):
        for last in (0, 30, 78):
            clouds = [pack.cloud(day, stream)[0].tolist() for day in range(last + 1)]
            wanted = {tuple(row) for cloud in clouds for row in cloud}
            assert {tuple(row) for row in observed.until(stream, last).tolist()} == wanted
    assert len(observed.until(0, 30)) < len(observed.until(0, 78))


def test_the_nearest_phrase_is_one_of_the_past(nearest: Predictor) -> None:
    predictions = predicted(nearest)
    assert any(prediction.futures.renamed.any() for prediction in predictions)
    for place, prediction in enumerate(predictions):
        futures = prediction.futures
        assert futures.naming == "nearest"
        assert not (futures.renamed & ~futures.heavy).any(), "light atoms keep their phrase"
        slots = ObservedPhrases(nearest.pack).until(place, nearest.sampler.position(ORIGIN))
        past = {Phrase(*each) for each in zip(*nearest.pack.phrases_of(slots), strict=True)}
        assert {futures.called[call] for call in futures.calls[futures.heavy]} <= past
        assert {atom.phrase for atom in prediction.brief} <= past


def garbled(like: Predictor, since: int) -> Predictor:
    """A predictor with random phrases in place of all that clouds had from a day on."""
    predictor = Predictor(like.settings, like.folder, number=FUTURES)
    slots, _ = predictor.pack._clouds
    starts = predictor.pack._panel["cloud_starts"]
    after = slots[starts[since * predictor.pack.shape[1]] :]
    random = np.random.default_rng(3)
    sizes = [len(predictor.pack.keys[name]) for name in ("verb", "actor", "actor")]
    after[:] = np.stack([random.integers(size, size=len(after)) for size in sizes], axis=1)
    return predictor


def test_garbage_after_the_origin_changes_no_name(nearest: Predictor) -> None:
    before = list(map(words_of, predicted(nearest)))
    end = nearest.sampler.position(ORIGIN)
    assert list(map(words_of, garbled(nearest, end + 1).predict(ORIGIN))) == before
    late = list(map(words_of, garbled(nearest, end - 30).predict(ORIGIN)))
    assert late != before, "garbage is noticed where it may be"


def test_what_a_namer_cannot_say_keeps_its_phrase_and_is_counted(
    predictor: Predictor, settings: Settings
) -> None:
    task = _task(settings)
    torch.manual_seed(0)
    mute = WrittenNames(Namer(task.model(), task.vocabulary))  # type: ignore[arg-type]
    futures = replace(predictor.predict(ORIGIN)[0].futures, names=mute)
    heavy = futures.heavy
    found = mute.name(futures.points[heavy], futures.weights[heavy].astype(np.float64))
    assert futures.unreadable == found.count(None) > 0
    drawn = [futures.phrases[place] for place in futures.named[heavy]]
    called = [futures.called[place] for place in futures.calls[heavy]]
    for new, own, shown in zip(found, drawn, called, strict=True):
        assert shown == (new or own)


def test_a_namer_calls_atoms_where_they_lie(
    predictor: Predictor, written: Predictor, namer: Path
) -> None:
    prediction = predicted(written)[1]
    futures = prediction.futures
    assert futures.naming == "namer" and futures.renamed.any()
    given = Predictor(predictor.settings, predictor.folder, number=FUTURES, namer=namer)
    assert words_of(given.predict(ORIGIN, [given.streams[1]])[0]) == words_of(prediction)
    heavy = futures.heavy
    found = Namer.load(namer, predictor.space).name(
        futures.points[heavy], futures.weights[heavy].astype(np.float64)
    )
    new = [each[:3] for each in found if each is not None]
    assert new and set(new) <= set(futures.called)


# --- the choice -----------------------------------------------------------------------------------


def test_the_naming_whose_words_came_true_most_is_kept(
    predictor: Predictor, model: Path, namer: Path
) -> None:
    own = Predictor(predictor.settings, model, number=FUTURES)
    steps: list[str] = []
    found = choose_names(own, steps.append, namer=namer, days=2)
    assert found is not None and found == read_chosen(model)
    assert set(found.scores) == set(NAMINGS)
    best = max(score.mean for score in found.scores.values())
    assert found.scores[found.by].mean == best
    assert 0 < found.scores["origin"].mean < 1 and found.scores["origin"].renamed == 0
    assert found.scores["nearest"].unreadable == 0 < found.scores["nearest"].renamed
    assert found.days == 2 and 2 <= found.texts <= 2 * len(predictor.streams)
    tuning = [day.isoformat() for day in own.target_days("validation_b")]
    assert tuning[0] <= found.since <= found.until <= tuning[-1], "test days choose nothing"
    assert steps[-1] == "comparing names of futures, day 2 of 2"
    assert (model / NAMER_FOLDER).exists() == (found.by == "namer")
    assert own.predict(ORIGIN)[0].futures.naming == found.by
    assert own.names.by == found.by and is_calibrated(own)


def test_calibrating_tells_of_names(
    predictor: Predictor, model: Path, namer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = calibrate(Predictor(predictor.settings, model, number=4), namer=namer)
    assert result.names == read_chosen(model)
    show_calibrated(result, json=True)
    said = json.loads(capsys.readouterr().out)["names"]
    assert set(said["scores"]) == set(NAMINGS) and len(said["scores"]["namer"]["brief"]) == 3
    show_calibrated(result, json=False)
    assert "names by" in capsys.readouterr().out


def test_without_a_namer_that_fits_nothing_is_chosen(
    predictor: Predictor, model: Path, namer: Path, tmp_path: Path
) -> None:
    here = changed(predictor.settings, "flows", models=tmp_path / "models")
    own = Predictor(here, model, number=FUTURES)
    assert namer_to_try(own, None) is None
    other = Path(shutil.copytree(namer, tmp_path / "models" / "text-namer"))
    assert namer_to_try(own, None) == other
    said = json.loads((other / "training.json").read_text())
    said["origin"]["space"] = "another"
    (other / "training.json").write_text(json.dumps(said))
    assert namer_to_try(own, None) is None
    with pytest.raises(TrainingError, match="names points of the space another"):
        namer_to_try(own, other)
    with pytest.raises(TrainingError, match="no model of words"):
        namer_to_try(own, tmp_path / "nowhere")
    (model / NAMES_FILE).write_text("stale")
    assert choose_names(own, print) is None
    assert not (model / NAMES_FILE).exists() and own.names.by == "origin"


def test_a_model_chooses_again_with_its_own_namer(
    predictor: Predictor, model: Path, namer: Path, tmp_path: Path
) -> None:
    keep_names(model, chosen("namer", namer), namer)
    here = changed(predictor.settings, "flows", models=tmp_path / "models")
    assert namer_to_try(Predictor(here, model, number=4), None) == model.resolve() / NAMER_FOLDER
    keep_names(model, chosen("namer", namer), model / NAMER_FOLDER)
    assert digest_of(model / NAMER_FOLDER) == digest_of(namer)
    keep_names(model, chosen("nearest", namer), namer)
    assert not (model / NAMER_FOLDER).exists()


def test_days_are_spread_evenly() -> None:
    days = [day_at(number) for number in range(10)]
    assert spread(days, 4) == [days[0], days[3], days[6], days[9]]
    assert spread(days, 20) == days


# --- forecasts ------------------------------------------------------------------------------------


def asked(model: Path, out: Path) -> ForecastRequest:
    return ForecastRequest(model=model, origin=ORIGIN, streams="top2", futures=FUTURES, out=out)


@pytest.fixture(scope="module")
def issued(nearest: Predictor, tmp_path_factory: pytest.TempPathFactory) -> ForecastResult:
    return forecast(nearest.settings, asked(nearest.folder, tmp_path_factory.mktemp("issued")))


def test_a_forecast_needs_nothing_but_the_models_folder(
    predictor: Predictor, model: Path, namer: Path, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(namer, tmp_path / "namer"))
    plain = model_fingerprint(model)
    keep_names(model, chosen("namer", source), source)
    assert model_fingerprint(model) != plain, "names are part of what a forecast is made from"
    before = forecast(predictor.settings, asked(model, tmp_path / "one")).forecast
    shutil.rmtree(source)
    moved = Path(shutil.copytree(model, tmp_path / "moved"))
    again = forecast(predictor.settings, asked(moved, tmp_path / "two")).forecast
    assert before.manifest.named == again.manifest.named
    assert before.manifest.named is not None and before.manifest.named.by == "namer"
    assert before.manifest.id == again.manifest.id
    one, two = tree_of(before.folder), tree_of(again.folder)
    assert all(one[name] == two[name] for name in one if name.endswith(".parquet"))


def test_tables_give_the_name_and_where_it_was_drawn_from(
    nearest: Predictor, issued: ForecastResult, capsys: pytest.CaptureFixture[str]
) -> None:
    told = issued.forecast.manifest.named
    assert told is not None and told.by == "nearest" and 0 < told.renamed <= told.atoms
    prediction = {each.stream: each for each in predicted(nearest)}
    renamed = 0
    for row in issued.forecast.table("futures").to_pylist():
        futures = prediction[row["stream"]].futures
        there = futures.weights[row["future"]] > 0
        own = zip(row["drawn_actor1"], row["drawn_code"], row["drawn_actor2"], strict=True)
        drawn = [futures.phrases[place] for place in futures.named[row["future"]][there]]
        assert list(own) == drawn
        called = list(zip(row["actor1"], row["code"], row["actor2"], strict=True))
        calls = futures.calls[row["future"]][there]
        assert called == [futures.called[place] for place in calls]
        renamed += sum(one != other for one, other in zip(called, drawn, strict=True))
    assert renamed == told.renamed
    for row in issued.forecast.table("brief").to_pylist():
        atom = prediction[row["stream"]].brief[row["rank"] - 1]
        assert (row["drawn_actor1"], row["drawn_code"], row["drawn_actor2"]) == atom.drawn
        assert row["phrase"] == sentence(*atom.phrase, row["stream"])
    show_forecast(issued, json=False)
    assert "names by the nearest observed phrase" in capsys.readouterr().out


def test_an_explanation_gives_both(
    written: Predictor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gdelphi.forecast.explain.ATOMS_SHOWN", 10_000)
    stream = written.streams[0]
    prediction = predicted(written)[0]
    futures = prediction.futures
    having = futures.happens[futures.renamed.any(axis=1)].any(axis=0)
    code = prediction.levels.root.codes[int(np.flatnonzero(having)[0])]
    found = explain(written, stream, code, ForecastOrigin(ORIGIN, partial=False))
    called = {sentence(*each, stream) for each in futures.called}
    own = {sentence(*each, stream) for each in futures.phrases}
    other = [atom for atom in found.atoms if atom.drawn]
    assert other, "no atom is called otherwise"
    for atom in found.atoms:
        assert atom.phrase in called and set(atom.drawn) <= own
        assert atom.drawn != (atom.phrase,) and (atom.drawn or atom.phrase in own)
    show_explanation(found, json=False)
    assert f"drawn from: {other[0].drawn[0]}" in " ".join(capsys.readouterr().out.split())


def test_a_report_shows_names_and_says_how_they_came_about(
    nearest: Predictor, issued: ForecastResult, tmp_path: Path
) -> None:
    request = ReportRequest(
        forecasts=issued.forecast.folder.parents[1], out=tmp_path,
        as_of=ORIGIN + timedelta(days=1),
    )  # fmt: skip
    written = make_report(nearest.settings, request)
    assert written.report.naming is not None
    assert "nearest to where the model has moved it" in written.report.naming
    prediction = {each.stream: each for each in predicted(nearest)}
    for country in written.report.countries:
        for phrase, atom in zip(country.brief, prediction[country.stream].brief, strict=True):
            assert phrase.words == sentence(*atom.phrase, country.stream)
            drawn = sentence(*atom.drawn, country.stream)
            assert phrase.drawn == (None if atom.drawn == atom.phrase else drawn)
    page, text = (
        (written.folder / name).read_text(encoding="utf-8") for name in ("index.html", "report.md")
    )
    assert "nearest to where the model has moved it" in page
    assert "nearest to where the model has moved it" in text and "drawn from:" in text


def test_a_model_in_use_has_its_namer(written: Predictor, tmp_path: Path) -> None:
    here = changed(written.settings, "flows", models=tmp_path / "models")
    decided = promote(here, written.folder)
    used = here.flows.models / decided.current
    assert model_fingerprint(used) == decided.current == model_fingerprint(written.folder)
    assert not (used / NAMER_FOLDER / "state").exists()
    found = Predictor(here, used, number=FUTURES).predict(ORIGIN)
    assert list(map(words_of, found)) == list(map(words_of, predicted(written)))


# --- what is damaged ------------------------------------------------------------------------------


def test_a_changed_namer_is_refused(predictor: Predictor, namer: Path, tmp_path: Path) -> None:
    predictor = named(predictor, tmp_path, "namer", namer)
    with (predictor.folder / NAMER_FOLDER / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ForecastError, match=r"is not the namer that names\.json"):
        predictor.names.at(0, 60)
    shutil.rmtree(predictor.folder / NAMER_FOLDER)
    with pytest.raises(ForecastError, match="gdelphi calibrate"):
        predictor.predict(ORIGIN)


@pytest.mark.parametrize("text", ["", "{}", '{"format": 9}', '{"format": 1, "by": "poet"}'])
def test_a_damaged_choice_is_named(predictor: Predictor, model: Path, text: str) -> None:
    (model / NAMES_FILE).write_text(text)
    book = NameBook(model, predictor.pack, predictor.space)
    with pytest.raises(ForecastError, match=r"names\.json cannot be read.*gdelphi calibrate"):
        book.at(0, 60)


def test_both_places_have_the_same_name_of_the_file() -> None:
    assert forecasts.NAMES_FILE == NAMES_FILE
