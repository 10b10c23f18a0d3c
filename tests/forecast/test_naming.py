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
from gdelphi.forecast import naming
from gdelphi.forecast.archive import NAMES_FILE, model_fingerprint
from gdelphi.forecast.calibrate import calibrate, is_calibrated
from gdelphi.forecast.explain import explain
from gdelphi.forecast.forecast import (
    ForecastRequest,
    ForecastResult,
    forecast,
)
from gdelphi.forecast.naming import (
    NAMER_FOLDER,
    NAMINGS,
    AtomNames,
    NamingChoice,
    NamingScore,
    NearestPhraseNamer,
    ObservedPhrases,
    WrittenPhraseNamer,
    keep_names,
    namer_digest,
    read_naming_choice,
)
from gdelphi.forecast.naming_choice import (
    choose_names,
    namer_to_try,
    spread_days,
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
from helpers.edited import edited
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


def chosen(by: Naming, namer: Path) -> NamingChoice:
    """A choice that nobody made."""
    score = NamingScore((0.5, 0.3, 0.5), (0.5, 0.3, 0.5), 0.0, 0.0)
    scores = dict.fromkeys(NAMINGS, score)
    return NamingChoice(by, namer_digest(namer), "2021-01-01", "2021-01-02", 2, 8, scores)


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
    return [
        futures.shown_phrases,
        futures.shown_index.tolist(),
        futures.unreadable,
        prediction.brief,
    ]


# --- the namings ----------------------------------------------------------------------------------


def test_without_a_choice_atoms_are_called_by_their_origin(predictor: Predictor) -> None:
    assert not (predictor.folder / NAMES_FILE).exists()
    for prediction in predictor.predict(ORIGIN):
        futures = prediction.futures
        assert futures.naming == "origin" and futures.shown_phrases is futures.drawn_phrases
        assert futures.shown_index is futures.drawn_index and not futures.renamed.any()
        assert all(atom.phrase == atom.drawn for atom in prediction.brief)


def test_an_observed_phrase_is_nearest_to_itself(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = predictor.pack
    slots = ObservedPhrases(pack).until(0, 60)
    points = pack.points(slots, predictor.space)
    own = [Phrase(*codes) for codes in zip(*pack.phrases_of(slots), strict=True)]
    weights = np.full(len(own), 0.1)
    for at_once in (8192, 7):
        monkeypatch.setattr(naming, "AT_ONCE", at_once)
        names = NearestPhraseNamer(pack, predictor.space, slots).name(points, weights)
        assert sum(new == old for new, old in zip(names, own, strict=True)) > 0.9 * len(own)
        places = [own.index(codes) for codes in names if codes is not None]
        # A few actors lie at one point: the hashing encoder knows few words.
        np.testing.assert_allclose((points * points[places]).sum(axis=1), 1, atol=1e-5)
    assert NearestPhraseNamer(pack, predictor.space, slots[:0]).name(points[:2], weights[:2]) == [
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
        past = {Phrase(*codes) for codes in zip(*nearest.pack.phrases_of(slots), strict=True)}
        assert {futures.shown_phrases[call] for call in futures.shown_index[futures.heavy]} <= past
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
    mute = WrittenPhraseNamer(Namer(task.model(), task.vocabulary))  # type: ignore[arg-type]
    futures = replace(predictor.predict(ORIGIN)[0].futures, namer=mute)
    heavy = futures.heavy
    names = mute.name(futures.points[heavy], futures.weights[heavy].astype(np.float64))
    assert futures.unreadable == names.count(None) > 0
    drawn = [futures.drawn_phrases[place] for place in futures.drawn_index[heavy]]
    called = [futures.shown_phrases[place] for place in futures.shown_index[heavy]]
    for new, own, shown in zip(names, drawn, called, strict=True):
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
    names = Namer.load(namer, predictor.space).name(
        futures.points[heavy], futures.weights[heavy].astype(np.float64)
    )
    new = [name[:3] for name in names if name is not None]
    assert new and set(new) <= set(futures.shown_phrases)


# --- the choice -----------------------------------------------------------------------------------


def test_the_naming_whose_words_came_true_most_is_kept(
    predictor: Predictor, model: Path, namer: Path
) -> None:
    own = Predictor(predictor.settings, model, number=FUTURES)
    steps: list[str] = []
    choice = choose_names(own, steps.append, namer=namer, days=2)
    assert choice is not None and choice == read_naming_choice(model)
    assert set(choice.scores) == set(NAMINGS)
    best = max(score.mean for score in choice.scores.values())
    assert choice.scores[choice.by].mean == best
    assert 0 < choice.scores["origin"].mean < 1 and choice.scores["origin"].renamed == 0
    assert choice.scores["nearest"].unreadable == 0 < choice.scores["nearest"].renamed
    assert choice.days == 2 and 2 <= choice.texts <= 2 * len(predictor.streams)
    tuning = [day.isoformat() for day in own.target_days("validation_b")]
    assert tuning[0] <= choice.since <= choice.until <= tuning[-1], "test days choose nothing"
    assert steps[-1] == "comparing names of futures, day 2 of 2"
    assert (model / NAMER_FOLDER).exists() == (choice.by == "namer")
    assert own.predict(ORIGIN)[0].futures.naming == choice.by
    assert own.names.by == choice.by and is_calibrated(own)


def test_calibrating_tells_of_names(
    predictor: Predictor, model: Path, namer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = calibrate(Predictor(predictor.settings, model, number=4), namer=namer)
    assert result.names == read_naming_choice(model)
    show_calibrated(result, json=True)
    content = json.loads(capsys.readouterr().out)["names"]
    assert set(content["scores"]) == set(NAMINGS) and len(content["scores"]["namer"]["brief"]) == 3
    show_calibrated(result, json=False)
    assert "names by" in capsys.readouterr().out


def test_without_a_namer_that_fits_nothing_is_chosen(
    predictor: Predictor, model: Path, namer: Path, tmp_path: Path
) -> None:
    here = changed(predictor.settings, "flows", models=tmp_path / "models")
    own = Predictor(here, model, number=FUTURES)
    assert namer_to_try(own, None) is None
    other = edited(Path(shutil.copytree(namer, tmp_path / "models" / "text-namer")))
    assert namer_to_try(own, None) == other
    record = json.loads((other / "training.json").read_text())
    record["origin"]["space"] = "another"
    (other / "training.json").write_text(json.dumps(record))
    assert namer_to_try(own, None) is None
    with pytest.raises(TrainingError, match="names points of the space another"):
        namer_to_try(own, other)
    with pytest.raises(TrainingError, match="no text model"):
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
    assert namer_digest(model / NAMER_FOLDER) == namer_digest(namer)
    keep_names(model, chosen("nearest", namer), namer)
    assert not (model / NAMER_FOLDER).exists()


def test_days_are_spread_evenly() -> None:
    days = [day_at(number) for number in range(10)]
    assert spread_days(days, 4) == [days[0], days[3], days[6], days[9]]
    assert spread_days(days, 20) == days


# --- forecasts ------------------------------------------------------------------------------------


def request_for(model: Path, out: Path) -> ForecastRequest:
    return ForecastRequest(model=model, origin=ORIGIN, streams="top2", futures=FUTURES, out=out)


@pytest.fixture(scope="module")
def issued(nearest: Predictor, tmp_path_factory: pytest.TempPathFactory) -> ForecastResult:
    return forecast(
        nearest.settings, request_for(nearest.folder, tmp_path_factory.mktemp("issued"))
    )


def test_a_forecast_needs_nothing_but_the_models_folder(
    predictor: Predictor, model: Path, namer: Path, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(namer, tmp_path / "namer"))
    plain = model_fingerprint(model)
    keep_names(model, chosen("namer", source), source)
    assert model_fingerprint(model) != plain, "names are part of what a forecast is made from"
    before = forecast(predictor.settings, request_for(model, tmp_path / "one")).forecast
    shutil.rmtree(source)
    moved = Path(shutil.copytree(model, tmp_path / "moved"))
    again = forecast(predictor.settings, request_for(moved, tmp_path / "two")).forecast
    assert before.manifest.named == again.manifest.named
    assert before.manifest.named is not None and before.manifest.named.by == "namer"
    assert before.manifest.id == again.manifest.id
    one, two = tree_of(before.folder), tree_of(again.folder)
    assert all(one[name] == two[name] for name in one if name.endswith(".parquet"))


def test_tables_give_the_name_and_where_it_was_drawn_from(
    nearest: Predictor, issued: ForecastResult, capsys: pytest.CaptureFixture[str]
) -> None:
    info = issued.forecast.manifest.named
    assert info is not None and info.by == "nearest" and 0 < info.renamed <= info.atoms
    prediction = {one.stream: one for one in predicted(nearest)}
    renamed = 0
    for row in issued.forecast.table("futures").to_pylist():
        futures = prediction[row["stream"]].futures
        there = futures.weights[row["future"]] > 0
        own = zip(row["drawn_actor1"], row["drawn_code"], row["drawn_actor2"], strict=True)
        drawn = [
            futures.drawn_phrases[place] for place in futures.drawn_index[row["future"]][there]
        ]
        assert list(own) == drawn
        called = list(zip(row["actor1"], row["code"], row["actor2"], strict=True))
        calls = futures.shown_index[row["future"]][there]
        assert called == [futures.shown_phrases[place] for place in calls]
        renamed += sum(one != other for one, other in zip(called, drawn, strict=True))
    assert renamed == info.renamed
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
    explanation = explain(written, stream, code, ForecastOrigin(ORIGIN, partial=False))
    called = {sentence(*phrase, stream) for phrase in futures.shown_phrases}
    own = {sentence(*phrase, stream) for phrase in futures.drawn_phrases}
    other = [atom for atom in explanation.atoms if atom.drawn]
    assert other, "no atom is called otherwise"
    for atom in explanation.atoms:
        assert atom.phrase in called and set(atom.drawn) <= own
        assert atom.drawn != (atom.phrase,) and (atom.drawn or atom.phrase in own)
    show_explanation(explanation, json=False)
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
    prediction = {one.stream: one for one in predicted(nearest)}
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
    predictions = Predictor(here, used, number=FUTURES).predict(ORIGIN)
    assert list(map(words_of, predictions)) == list(map(words_of, predicted(written)))


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
    names = AtomNames(model, predictor.pack, predictor.space)
    with pytest.raises(ForecastError, match=r"names\.json cannot be read.*gdelphi calibrate"):
        names.at(0, 60)
