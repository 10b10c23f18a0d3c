"""All stages once, on a small simulated world: what `gdelphi demo` does.

The world is simulated so that it works offline, in minutes, and so that the closing table can show
what no real data can: how far the model is from the best that anybody could do. Every stage is the
one that real data take; nothing is made for the demo but the settings, which are left in a file.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final

from gdelphi.app.promote import promote
from gdelphi.common.errors import GdelphiError
from gdelphi.common.files import remove_folder
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.types import AHEAD
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.origin import resolve_origin
from gdelphi.judge.backtest import BacktestRequest, backtest
from gdelphi.judge.day import BacktestOptions
from gdelphi.judge.score import score_forecasts
from gdelphi.measures.embed import embed
from gdelphi.model.train import train
from gdelphi.report.report import ReportRequest, make_report
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config

STEPS: Final = 100
DECODER_STEPS: Final = 15
FORECASTS: Final = 2  # from the last origins, so that the report can compare with yesterday
EVERY: Final = 4  # the backtest judges every fourth day
FUTURES: Final = 50
CONFIG: Final = "gdelphi.toml"
MARKER: Final = ".gdelphi-demo"
"""a file that says that a folder was made by a demo, and may be removed by the next"""


@dataclass(frozen=True)
class DemoResult:
    """What a demo made, and where."""

    folder: Path
    config: Path
    report: Path
    backtest: dict[str, Any]
    """its summary.json"""
    stream: str
    as_of: date
    seconds: float


def demo(folder: Path, *, seed: int = 7, on_step: OnStep = silent) -> DemoResult:
    """Simulate a world in a folder, and take it through all stages to its report."""
    began = monotonic()
    _clear(folder)
    on_step("simulating a world of 250 days and 8 countries")
    world = world_config("demo", {"seed": seed})
    created = create_world(world, folder / "archive")
    settings = _settings(folder, seed)
    on_step(f"reading its {created.rows:,} reports into the store")
    ingest(settings)
    on_step("turning every country's day into points on the sphere")
    embed(settings)
    on_step(f"training a model for {STEPS} steps")
    train(settings, folder / "models" / "latest")
    on_step("calibrating it, and taking it into use")
    promote(settings, folder / "models" / "latest")
    on_step("judging it on days that it has not seen, beside baselines and oracles")
    options = BacktestOptions(world=folder / "archive", futures=FUTURES, text=False, horizon=AHEAD)
    current = folder / "models" / "current"
    summary = backtest(
        settings, BacktestRequest(current, folder / "backtest", every=EVERY, options=options)
    )
    as_of = world.start + timedelta(days=world.days)
    last = resolve_origin(settings, "latest", as_of=as_of).origin
    for back in reversed(range(FORECASTS)):
        on_step(f"forecasting the day after {last - timedelta(days=back)}")
        forecast(settings, ForecastRequest(current, last - timedelta(days=back), as_of=as_of))
    score_forecasts(settings, folder / "forecasts", as_of=as_of)
    on_step("writing the report")
    written = make_report(settings, ReportRequest(as_of=as_of))
    stream = written.report.countries[0].stream
    return DemoResult(
        folder, folder / CONFIG, written.folder, summary, stream, as_of, monotonic() - began
    )


def _clear(folder: Path) -> None:
    """Remove an earlier demo. Only the marker tells one: a folder with settings and an archive may
    be somebody's production. The marker stays, so that a demo killed here can be run again."""
    marker = folder / MARKER
    if marker.is_file() and not folder.is_symlink():
        for path in list(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            elif path != marker:
                path.unlink()
        return
    if folder.is_symlink() or (folder.exists() and (folder.is_file() or any(folder.iterdir()))):
        raise GdelphiError(
            f"{folder} was not made by `gdelphi demo`: nothing in it was changed. Name another "
            "folder with --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("`gdelphi demo` made this folder, and empties it when it is run again.\n")


def _settings(folder: Path, seed: int) -> Settings:
    text = f"""# The settings of a demo; paths are meant from this file's folder.
store = "store.duckdb"

[ingest]
archive = "archive"
downloads = "downloads"

[train]
steps = {STEPS}
decoder_steps = {DECODER_STEPS}
seed = {seed}

[report]
folder = "reports"
backtest = "backtest"
title = "What the simulated news may bring"

[flows]
models = "models"
"""
    (folder / CONFIG).write_text(text, encoding="utf-8")
    return load_settings(folder / CONFIG).settings
