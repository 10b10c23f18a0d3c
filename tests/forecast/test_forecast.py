"""Issuing forecasts: from a command to files that are the same whenever they are made."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import gdelphi
from gdelphi.app.cli import main
from gdelphi.app.commands.calibrate import show_calibrated
from gdelphi.common.errors import ForecastError, GdelphiError, UnknownCountry
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import MANIFEST, ForecastArchive
from gdelphi.forecast.calibrate import (
    calibrate,
    ensure_calibrated,
    is_calibrated,
)
from gdelphi.forecast.forecast import (
    ForecastRequest,
    ForecastResult,
    forecast,
)
from gdelphi.forecast.loaded_model import LoadedModel, load_model
from gdelphi.forecast.origin import choose_streams, resolve_origin
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.summary import summarise_forecast
from gdelphi.forecast.tidy import COLUMNS
from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.gdelt.countries import stream_name
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.packing import pack_days
from gdelphi.measures.space import load_space
from gdelphi.store.ingest import IngestRequest as IngestRequest
from gdelphi.store.ingest import ingest
from helpers.forecast_world import FUTURES, model, one_thread, predictor, settings
from helpers.measured_world import (
    DAYS,
    GONE,
    changed,
    day_at,
    in_one_process,
    represent_quietly,
    tree_of,
)
from helpers.training_world import variables

__all__ = ["model", "one_thread", "predictor", "settings"]

ORIGIN = day_at(77)
NOW = day_at(DAYS)
"""the day after the last"""


def request_for(predictor: Predictor, out: Path, **given: Any) -> ForecastRequest:
    values = {"model": predictor.folder, "origin": ORIGIN, "futures": FUTURES, "out": out}
    return ForecastRequest(**{**values, **given})


@pytest.fixture(scope="module")
def issued(predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> ForecastResult:
    """A forecast of all streams."""
    return forecast(predictor.settings, request_for(predictor, tmp_path_factory.mktemp("issued")))


def content(folder: Path) -> dict[str, bytes]:
    """All files, and the manifest without the time."""
    files = tree_of(folder)
    manifest = json.loads(files.pop(MANIFEST))
    manifest.pop("issued_at")
    return {**files, MANIFEST: json.dumps(manifest).encode()}


def rows_of(issued: ForecastResult, table: str, stream: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = issued.forecast.table(table).to_pylist()
    return [row for row in rows if row["stream"] == stream]


# --- the same forecast ----------------------------------------------------------------------------


def test_the_same_forecast_is_found_and_not_made_again(
    predictor: Predictor, issued: ForecastResult
) -> None:
    out = issued.forecast.folder.parents[1]
    before = tree_of(out)
    again = forecast(predictor.settings, request_for(predictor, out))
    assert issued.made
    assert not again.made
    assert again.forecast.manifest == issued.forecast.manifest
    assert tree_of(out) == before


def test_the_same_forecast_made_elsewhere_has_the_same_bytes(
    predictor: Predictor, issued: ForecastResult, tmp_path: Path
) -> None:
    again = forecast(predictor.settings, request_for(predictor, tmp_path))
    assert again.made
    assert content(again.forecast.folder) == content(issued.forecast.folder)


def test_a_stream_alone_has_the_numbers_that_it_has_among_others(
    predictor: Predictor, issued: ForecastResult, tmp_path: Path
) -> None:
    stream = predictor.streams[2]
    alone = forecast(predictor.settings, request_for(predictor, tmp_path, streams=stream))
    assert alone.forecast.manifest.id != issued.forecast.manifest.id
    for table in ("probabilities", "shares", "futures", "brief", "events", "evidence"):
        assert rows_of(alone, table, stream) == rows_of(issued, table, stream)
        assert alone.forecast.table(table).num_rows == len(rows_of(alone, table, stream))


def test_days_that_came_later_change_no_byte(
    predictor: Predictor, issued: ForecastResult, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The store as it was on the day of the forecast."""
    folder = tmp_path_factory.mktemp("earlier")
    store, measures = folder / "s.duckdb", folder / "measures"
    earlier = predictor.settings.model_copy(update={"store": store})
    earlier = changed(earlier, "measures", folder=measures)
    ingest(earlier, IngestRequest((), None, ORIGIN, False))
    shutil.copytree(measures_folder(predictor.settings) / "space", measures / "space")
    represent_quietly(earlier)
    with in_one_process():
        pack_days(earlier, load_space(measures / "space"))
    result = forecast(earlier, request_for(predictor, folder / "out", as_of=NOW))
    assert content(result.forecast.folder) == content(issued.forecast.folder)


def test_a_damaged_forecast_is_an_error_and_not_made_again(
    predictor: Predictor, issued: ForecastResult, tmp_path: Path
) -> None:
    shutil.copytree(issued.forecast.folder.parents[1], tmp_path / "out")
    stored = ForecastArchive(tmp_path / "out").load(ORIGIN)
    (stored.folder / "shares.parquet").write_bytes(b"nothing")
    with pytest.raises(ForecastError, match="damaged, or was edited"):
        forecast(predictor.settings, request_for(predictor, tmp_path / "out"))
    assert (stored.folder / "shares.parquet").read_bytes() == b"nothing"


# --- what is in it --------------------------------------------------------------------------------


def test_an_analyst_who_counts_futures_finds_the_published_number(issued: ForecastResult) -> None:
    for stream in issued.forecast.manifest.recipe.streams:
        futures = rows_of(issued, "futures", stream)
        assert len(futures) == FUTURES
        assert sum(row["weight"] for row in futures) == pytest.approx(1)
        for row in rows_of(issued, "probabilities", stream):
            if (row["level"], row["target"]) == ("root", "occurs"):
                counted = sum(
                    future["weight"] for future in futures if row["code"] in future["roots"]
                )
                assert counted == pytest.approx(row["futures"])
            else:
                assert row["futures"] is None


def test_what_is_published_is_a_probability_of_a_named_kind(issued: ForecastResult) -> None:
    table = issued.forecast.table("probabilities").to_pandas()
    assert set(table["which"]) <= {"combined", "stack"}
    known = table["published"].dropna()
    assert 0 <= known.min() <= known.max() <= 1
    assert table.query("target != 'surge'")["published"].notna().all()
    assert table.query("level == 'full'")["direct"].isna().all()
    assert table.query("level == 'root'")["direct"].notna().any()
    headline = table.query("target == 'headline'").set_index(["stream", "level", "code"])
    occurs = table.query("target == 'occurs'").set_index(["stream", "level", "code"])
    assert (headline["published"] <= occurs["published"]).all()
    free = headline["published"] < occurs["published"]  # else it was moved, to agree
    stack = headline[free].query("which == 'stack'")
    known = {"published", "which", "beyond", "stack", "target", "futures"}
    said = stack[[name for name in stack.columns if name not in known]].astype(float)
    held = stack["stack"].clip(said.min(axis=1), said.max(axis=1))  # within what members say
    np.testing.assert_array_equal(stack["published"], held)


def test_shares_have_quantiles_in_their_order(issued: ForecastResult) -> None:
    table = issued.forecast.table("shares").to_pandas()
    quantiles = table[["q05", "q25", "q50", "q75", "q95"]].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    roots = table.query("level == 'root'").groupby("stream")["mean"].sum()
    assert roots.max() <= 1 + 1e-9


def test_futures_hold_their_atoms(issued: ForecastResult) -> None:
    for row in issued.forecast.table("futures").to_pylist():
        lists = ("points", "weights", "gates", "spare", "actor1", "code", "actor2")
        assert len({len(row[name]) for name in lists}) == 1
        assert sum(row["weights"]) == pytest.approx(1, abs=1e-5) or not row["weights"]
        assert any(row["spare"]) <= bool(row["lent"])
        for day in (row["day"], row["donor"]):
            assert day <= ORIGIN
            assert day not in [day_at(number) for number in GONE]


def test_reconstructed_events_come_with_reports_up_to_the_origin(issued: ForecastResult) -> None:
    events = issued.forecast.table("events").to_pandas()
    assert set(events["argument"]) == {"actor1", "actor2", "region"}
    assert (
        events.groupby(["stream", "level", "code", "argument"])["probability"].sum() < 1.001
    ).all()
    evidence = issued.forecast.table("evidence").to_pylist()
    assert evidence
    assert max(row["day"] for row in evidence) <= ORIGIN


def test_the_brief_is_told_from_the_files(issued: ForecastResult) -> None:
    summary = summarise_forecast(issued.forecast)
    assert [stream.stream for stream in summary.streams] == list(
        issued.forecast.manifest.recipe.streams
    )
    for stream in summary.streams:
        assert len(stream.headlines) == 5
        assert stream.brief
        assert 1 <= stream.effective <= FUTURES
    far = [abs(stream.published - stream.usual) for stream in summary.changes]
    assert far == sorted(far, reverse=True)


# --- origins --------------------------------------------------------------------------------------


def test_latest_is_the_last_complete_day(settings: Settings) -> None:
    assert resolve_origin(settings, "latest", as_of=NOW).origin == day_at(DAYS - 1)
    today = resolve_origin(settings, "latest", as_of=day_at(DAYS - 1))  # the last day is not over
    assert (today.origin, today.partial) == (day_at(DAYS - 2), False)


@pytest.mark.parametrize(
    ("number", "as_of", "why"),
    [
        (GONE[1], NOW, "the store has none of its files"),
        (DAYS - 1, day_at(DAYS - 1), "it is not over"),
        (DAYS + 5, NOW, "the store has none of its files"),
    ],
)
def test_a_partial_origin_is_refused_unless_it_is_allowed(
    settings: Settings, number: int, as_of: date, why: str
) -> None:
    with pytest.raises(ForecastError, match=rf"not a complete news day \({why}\).*--allow-partial"):
        resolve_origin(settings, day_at(number), as_of=as_of)
    allowed = resolve_origin(settings, day_at(number), as_of=as_of, allow_partial=True)
    assert allowed.partial


def test_a_forecast_from_a_partial_origin_is_marked(predictor: Predictor, tmp_path: Path) -> None:
    request = request_for(
        predictor, tmp_path, origin=day_at(GONE[1]), streams=predictor.streams[0], as_of=NOW
    )
    with pytest.raises(ForecastError, match="--allow-partial"):
        forecast(predictor.settings, request)
    result = forecast(
        predictor.settings,
        request_for(
            predictor, tmp_path, origin=day_at(GONE[1]), streams=predictor.streams[0], as_of=NOW,
            allow_partial=True,
        ),
    )  # fmt: skip
    assert result.forecast.manifest.recipe.partial
    assert json.loads((result.forecast.folder / MANIFEST).read_text())["partial"] is True


def test_a_model_without_a_week_says_so_and_forecasts_tomorrow(
    predictor: Predictor, tmp_path: Path
) -> None:
    request = request_for(predictor, tmp_path, horizon=7, streams=predictor.streams[0])
    with pytest.raises(ForecastError, match="speaks of tomorrow only: train one on at least 120"):
        forecast(predictor.settings, request)
    stored = forecast(predictor.settings, replace(request, horizon=None)).forecast
    assert not stored.manifest.recipe.week and "week.parquet" not in stored.manifest.files


def test_horizons_beyond_a_week_are_refused(predictor: Predictor, tmp_path: Path) -> None:
    with pytest.raises(ForecastError, match="not between 1 and 7"):
        forecast(predictor.settings, request_for(predictor, tmp_path, horizon=8))


# --- streams --------------------------------------------------------------------------------------


def test_streams_are_named_ranked_or_all(predictor: Predictor) -> None:
    first, second, *_ = predictor.streams
    assert choose_streams(predictor, "all", ORIGIN) == predictor.streams
    assert choose_streams(predictor, f"{second.lower()}, {first}", ORIGIN) == (first, second)
    rows = predictor.pack.statistics[:78, :, 0].sum(axis=0)
    assert choose_streams(predictor, "top1", ORIGIN) == (predictor.streams[int(rows.argmax())],)
    assert choose_streams(predictor, "top50", ORIGIN) == predictor.streams


@pytest.mark.parametrize("text", ["", " , ", "top0"])
def test_no_streams_are_refused(predictor: Predictor, text: str) -> None:
    with pytest.raises(ForecastError, match=r"no streams? ?"):
        choose_streams(predictor, text, ORIGIN)


def test_streams_go_by_any_name_and_the_nearest_are_offered(predictor: Predictor) -> None:
    known = next(stream for stream in predictor.streams if country_of(stream)[1])
    name, cameo = country_of(known)
    for other in (cameo, name, name.lower()):
        assert choose_streams(predictor, other, ORIGIN) == (known,)
    with pytest.raises(UnknownCountry, match=rf"nearest are .*{known} \({name}\)"):
        choose_streams(predictor, f"{name}x", ORIGIN)


def country_of(stream: str) -> tuple[str, str]:
    country = country_by_fips(stream)
    assert country is not None
    return country.name, country.cameo or ""


# --- calibration ----------------------------------------------------------------------------------


def test_a_model_is_calibrated_once(predictor: Predictor) -> None:
    steps: list[str] = []
    ensure_calibrated(predictor, steps.append)
    assert steps == []


def test_a_model_that_was_trained_again_is_calibrated_again(
    predictor: Predictor, model: Path
) -> None:
    other = Predictor(predictor.settings, model, number=5)
    assert is_calibrated(other)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")  # the file of another training
    assert not is_calibrated(other)
    (model / "calibrated.json").unlink()
    assert not is_calibrated(other)


def test_what_is_published_does_not_depend_on_who_asks_first(
    predictor: Predictor, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "calibrated.json").unlink()
    steps: list[str] = []
    ensure_calibrated(Predictor(predictor.settings, model, number=3, seed=9), steps.append)
    assert "not been calibrated yet" in steps[0]
    first = {path.name: path.read_bytes() for path in model.glob("*.json")}
    show_calibrated(calibrate(Predictor(predictor.settings, model)), json=False)
    output = capsys.readouterr().out
    assert output.count("headline") == 3
    assert "validation B" in output
    assert {path.name: path.read_bytes() for path in model.glob("*.json")} == first


# --- the command line -----------------------------------------------------------------------------

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """The command line in this process: exit code, output, errors."""

    def call(*words: object) -> tuple[int, str, str]:
        for name, value in variables(settings).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["gdelphi", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


def test_the_command_shows_a_few_streams_one_by_one(
    predictor: Predictor, command: Call, tmp_path: Path
) -> None:
    words = (
        "forecast", "--model", predictor.folder, "--origin", ORIGIN, "--streams",
        predictor.streams[0], "--futures", FUTURES, "--out", tmp_path,
    )  # fmt: skip
    code, output, _ = command(*words)
    assert code == 0
    assert f"forecast of {day_at(78):%A} {day_at(78)} from {ORIGIN}" in output
    for part in ("published", "stack", "usual", "to whom", "futures that count", "kept in"):
        assert part in output
    code, output, _ = command(*words)
    assert code == 0
    assert "was there:" in output


def test_the_command_shows_the_largest_changes_of_many_streams(
    predictor: Predictor, command: Call, issued: ForecastResult
) -> None:
    out = issued.forecast.folder.parents[1]
    words = ("forecast", "--model", predictor.folder, "--origin", ORIGIN, "--futures", FUTURES,
             "--out", out)  # fmt: skip
    code, output, _ = command(*words)
    assert code == 0
    assert "furthest from what is usual" in output
    code, output, _ = command(*words, "--json")
    content = json.loads(output)
    assert content["id"] == issued.forecast.manifest.id
    assert content["made"] is False
    assert content["streams"][0]["headlines"][0]["published"] <= 1


def test_the_command_calibrates_and_tells(predictor: Predictor, command: Call, model: Path) -> None:
    code, output, errors = command("calibrate", "--model", model, "--json")
    assert code == 0
    assert "fitting who does what to whom" in errors
    assert {row[0] for row in json.loads(output)["choices"]} == {"root", "base", "full"}


@pytest.mark.parametrize(
    ("words", "exit_code", "part"),
    [
        (("--streams", "XX"), 2, "'XX' is no country's code or name"),
        (("--streams", "Nauru"), 1, "does not know Nauru (NR); there are"),
        (("--horizon", "9"), 2, "--horizon"),
        (("--origin", "soon"), 2, "'soon' is not a day"),
        (("--origin", "2001-01-01"), 1, "not a complete news day"),
        (("--model", "nowhere"), 1, "no model in nowhere"),
    ],
)
def test_errors_are_one_line(
    predictor: Predictor, command: Call, words: tuple[str, ...], exit_code: int, part: str
) -> None:
    code, output, errors = command("forecast", "--model", predictor.folder, "--as-of", NOW, *words)
    assert code == exit_code
    assert part in errors
    assert output == ""


# --- in Python ------------------------------------------------------------------------------------


def test_three_lines_of_python_make_a_forecast(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(predictor.settings).items():
        if name.startswith("GDELPHI_") and name != "GDELPHI_STORE":
            monkeypatch.setenv(name, value)
    loaded = gdelphi.load(predictor.folder, store=predictor.settings.store)
    assert loaded.streams == predictor.streams
    prediction = loaded.predict(predictor.streams[1], ORIGIN.isoformat())
    assert (prediction.stream, prediction.target_day) == (predictor.streams[1], day_at(78))
    check_tidy(loaded.forecast(list(predictor.streams[:2]), origin=ORIGIN), prediction)
    whole = loaded.forecast(stream_name(predictor.streams[1]).lower())
    assert whole.day.min() == pandas.Timestamp(day_at(DAYS))
    assert str(predictor.folder) in repr(loaded) and predictor.streams[0] in repr(loaded)


def check_tidy(frame: pandas.DataFrame, prediction: Prediction) -> None:
    """A row for each number, codes that are text, and what the prediction says."""
    assert tuple(frame.columns) == COLUMNS
    assert not frame.duplicated(["stream", "horizon", "level", "code", "target"]).any()
    own = frame[(frame.stream == prediction.stream) & (frame.horizon == 1)]
    roots = own[(own.level == "root") & (own.target == "occurs")].set_index("code")
    forecast = prediction.level("root")
    assert list(roots.index) == list(forecast.codes) and "01" in roots.index
    np.testing.assert_array_equal(roots.published, forecast.occurs)
    assert roots.label["14"] == "Protest"
    members = [one.occurs for name, one in prediction.members["root"].items() if name != "stack"]
    np.testing.assert_array_equal(roots.low, np.min(members, axis=0))
    np.testing.assert_array_equal(roots.high, np.max(members, axis=0))


@pytest.mark.parametrize(
    ("asked", "kind", "told"),
    [
        ({"streams": "XX"}, ValueError, "'XX' is no country's code or name"),
        ({"streams": ["KE", 3]}, TypeError, "not 3"),
        ({"streams": []}, ValueError, "leave them out"),
        ({"horizon": 8}, ValueError, "from 1 to 7 or 'week', not 8"),
        ({"horizon": "week"}, ValueError, "speaks of tomorrow only"),
        ({"horizon": "2021-03-01"}, ValueError, "is given as origin="),
        ({"horizon": True}, ValueError, "not True"),
        ({"origin": "soon"}, ValueError, "neither a day"),
        ({"origin": day_at(GONE[1])}, ValueError, r'origin="latest".*allow_partial=True'),
    ],
)
def test_errors_are_in_pythons_terms(
    predictor: Predictor, asked: dict[str, Any], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told) as error:
        LoadedModel(predictor).forecast(**asked)
    assert "--" not in str(error.value)
    assert kind is TypeError or isinstance(error.value, GdelphiError)


def test_a_model_that_is_not_there_is_named(predictor: Predictor) -> None:
    with pytest.raises(FileNotFoundError, match="no model in nowhere") as error:
        load_model("nowhere", predictor.settings.store)
    assert isinstance(error.value, GdelphiError)


def test_importing_gdelphi_stays_light() -> None:
    code = (
        "import sys, gdelphi; print([m for m in ('torch', 'numpy', 'duckdb') if m in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"
