"""Settings: three layers in rising order, and no key that is silently ignored."""

from pathlib import Path

import pytest

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import (
    env_name,
    known_keys,
    load_settings,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_without_anything_the_defaults_hold() -> None:
    loaded = load_settings()
    assert loaded.settings.store == Path("data/gdelphi.duckdb")
    assert {origin for _, _, origin in loaded.rows()} == {"default"}


def test_a_flag_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "gdelphi.toml", "[ingest]\njobs = 2\nattempts = 2\ntimeout_seconds = 2\n")
    monkeypatch.setenv("GDELPHI_INGEST_JOBS", "3")
    monkeypatch.setenv("GDELPHI_INGEST_ATTEMPTS", "3")
    loaded = load_settings(flags={"ingest.jobs": 4, "ingest.label": None})
    ingest = loaded.settings.ingest
    assert (ingest.jobs, ingest.attempts, ingest.timeout_seconds) == (4, 3, 2.0)
    assert loaded.origins["ingest.jobs"] == "flag"
    assert loaded.origins["ingest.attempts"] == "environment GDELPHI_INGEST_ATTEMPTS"
    assert loaded.origins["ingest.timeout_seconds"] == "gdelphi.toml"
    assert "ingest.label" not in loaded.origins


def test_every_setting_can_be_given_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "store": "x.duckdb", "store_data": "d", "store_as_of": "2020-01-01",
        "store_wait_seconds": "1", "store_memory": "1GB",
        "store_threads": "1", "store_serve_reads": "false",
        "ingest.archive": "gdelt2", "ingest.label": "mirror",
        "ingest.translated": "true", "ingest.reduced": "true", "ingest.jobs": "7",
        "ingest.default_days": "7", "ingest.default_gigabytes": "7", "ingest.downloads": "d",
        "ingest.keep_downloads": "true", "ingest.attempts": "7", "ingest.backoff_seconds": "7",
        "ingest.timeout_seconds": "7", "ingest.max_unpacked_gigabytes": "7",
        "ingest.max_download_gigabytes": "7",
        "embed.encoder": "hashing", "embed.cache": "c", "embed.device": "cpu",
        "embed.precision": "float32", "embed.batch_size": "7", "measures.folder": "m",
        "measures.since": "2020-01-01",
        "measures.verb_weight": "0.7", "measures.actor1_weight": "0.1",
        "measures.verb_dimensions": "7", "measures.actor_dimensions": "7",
        "measures.fewest_atoms": "2", "measures.most_atoms": "7", "measures.explained": "0.7",
        "sequences.streams": "7", "sequences.only": '["KE"]', "sequences.context_days": "7",
        "sequences.memory_days": "7", "sequences.variants": "7", "split.train": "0.5",
        "split.validation_a": "0.1", "split.validation_b": "0.1", "split.train_until": "2020-01-01",
        "split.validation_a_until": "2020-02-01", "split.validation_b_until": "2020-03-01",
        "split.embargo_days": "3", "report.folder": "r", "report.title": "t",
        "report.watchlist": '["KE"]', "report.past_days": "30", "report.backtest": "b",
        "report.address": "https://a.example", "report.charts": "png",
        "flows.models": "m", "flows.streams": "top5",
        "flows.daily": "0 6 * * *", "flows.training": "0 2 * * 0", "flows.namer": "false",
        "flows.server": "http://p",
        "flows.port": "4300", "flows.notify_url": "http://n", "flows.notify_command": "cat",
        "flows.timeout_hours": "1", "flows.runner": "dask",
        "train.steps": "7", "train.batch": "7", "train.points": "7",
        "train.learning_rate": "0.7", "train.warm_up": "7", "train.weight_decay": "0.7",
        "train.clip": "7", "train.ema": "0.7", "train.patience": "7", "train.evaluate_every": "7",
        "train.save_every": "7", "train.log_every": "7", "train.seed": "7", "train.device": "cpu",
        "train.precision": "float32", "train.width": "8", "train.layers": "1", "train.heads": "2",
        "train.queries": "7", "train.day_heads": "7", "train.slots": "7",
        "train.transport_layers": "7", "train.dropout": "0.7", "train.profiles_weight": "7",
        "train.direct_weight": "7", "train.rows_weight": "7", "train.atoms_weight": "7",
        "train.energy_weight": "7", "train.futures": "7", "train.decoder_steps": "7",
        "train.cell_epochs": "7", "train.context_steps": "7",
        "train.cloud_attention": "l2", "train.decoder_attention": "l2",
        "train.transport": "flow", "train.transport_steps": "7",
        "train.transport_gradient": "adjoint", "train.keep_checkpoints": "7",
        "text.steps": "7", "text.batch": "7", "text.learning_rate": "0.7", "text.warm_up": "7",
        "text.weight_decay": "0.7", "text.clip": "7", "text.ema": "0.7", "text.patience": "7",
        "text.evaluate_every": "7", "text.evaluate_days": "7", "text.save_every": "7",
        "text.log_every": "7", "text.seed": "7", "text.width": "8", "text.inner": "7",
        "text.layers": "7", "text.heads": "2", "text.dropout": "0.7", "text.whole_days": "7",
        "text.fewest": "7", "text.pretrained": "t5", "text.namer_steps": "7",
        "status.stale_after_days": "7", "status.volume_weeks": "7", "status.volume_factor": "7",
        "api.host": "::1", "api.port": "7", "api.hosts": '["a.example"]',
        "api.requests_per_minute": "7", "alerts.rules": '[{"name": "a", "threshold": 0.5}]',
        "alerts.quiet_hours": "22-07", "alerts.summary": "friday", "alerts.most": "7",
    }  # fmt: skip
    assert set(given) == set(known_keys())
    for key, value in given.items():
        monkeypatch.setenv(env_name(key), value)
    loaded = load_settings()
    assert all(origin == f"environment {env_name(key)}" for key, _, origin in loaded.rows())
    assert loaded.settings.ingest.jobs == 7
    assert loaded.settings.store == Path("x.duckdb")


@pytest.mark.parametrize(
    "text", ["", "30 11 * * *", "*/15 0-6,22 1,15 jan-MAR mon-fri", "0 1 * * 0"]
)
def test_cron_lines_are_taken(text: str) -> None:
    assert load_settings(None, {"flows.training": text}).settings.flows.training == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stoer = 'x'", r"unknown setting 'stoer'; the nearest known one is 'store'"),
        ("[ingest]\njbos = 2", r"unknown setting 'ingest.jbos'; .* 'ingest.jobs'"),
        ("[ingets]\njobs = 2", r"unknown setting 'ingets'; .* 'ingest'"),
        ("[ingest]\njobs = 0", r"ingest.jobs = 0 \(gdelphi.toml\)"),
        ("store_memory = 'lots'", r"store_memory = 'lots'"),
        ("ingest = 3", r"unknown setting 'ingest'"),
        ("[flows]\ndaily = 'every day'", r"flows.daily = 'every day' .*not a cron line: 2 fields"),
        ("[flows]\ndaily = '30 24 * * *'", r"'24' is no hour from 0 to 23"),
        ("[flows]\ntraining = '0 1 * * */0'", r"'\*/0' is no day of the week"),
        ("[report]\nwatchlist = 'KE'", r"report.watchlist = 'KE' \(gdelphi.toml\)"),
        ("store = ", r"gdelphi.toml cannot be read as TOML"),
    ],
)
def test_a_bad_file_is_named_with_the_key(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "gdelphi.toml", text)
    with pytest.raises(ConfigError, match=message):
        load_settings()


def test_an_unknown_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDELPHI_INGEST_JOB", "2")
    with pytest.raises(ConfigError, match=r"GDELPHI_INGEST_JOB; .* 'GDELPHI_INGEST_JOBS'"):
        load_settings()


def test_the_file_may_be_elsewhere_and_its_paths_start_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "etc"
    (folder / "mirror").mkdir(parents=True)
    text = "store = 's.duckdb'\n[ingest]\narchive = 'mirror'\n"
    path = write(folder / "mine.toml", text)
    monkeypatch.setenv("GDELPHI_CONFIG", str(path))
    settings = load_settings().settings
    assert settings.store == folder / "s.duckdb"
    assert settings.ingest.archive == str(folder / "mirror")


def test_a_file_may_be_named_by_a_string(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[ingest]\njobs = 2\n")
    loaded = load_settings(str(tmp_path / "x.toml"))
    assert loaded == load_settings(tmp_path / "x.toml")
    assert loaded.settings.ingest.jobs == 2


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no settings file at"):
        load_settings(tmp_path / "absent.toml")


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().settings.store = Path("y")  # type: ignore[misc]
