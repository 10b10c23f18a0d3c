"""Study: how often alerts come true, and how many are false. Prints a Markdown table.

    python benchmarks/alerts.py FOLDER [--preset default] [--days N] [--streams N] [--steps 100]
                                [--origins 91]

Simulates a world in the folder, takes it through the store, measures and training, forecasts from
the last origins (all of them after validation B: nothing has seen a day that is forecast), scores,
and tries four rules on what was stored, as `gdelphi alerts --dry-run --since` does. A folder that
has part of it is gone on with.
"""

import argparse
from datetime import date, timedelta
from pathlib import Path

from gdelphi.alerts.alerts import DryRun, dry_run
from gdelphi.app.pipeline import possible_origins
from gdelphi.common.errors import GdelphiError
from gdelphi.common.percent import percent
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.forecast import ForecastRequest, forecasts, open_predictor
from gdelphi.judge.score import score_forecasts
from gdelphi.measures.embed import embed
from gdelphi.model.train import train
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import WorldConfig, world_config

SETTINGS = """store = "store.duckdb"

[ingest]
archive = "archive"

[train]
steps = {steps}
decoder_steps = 0
seed = 7

[[alerts.rules]]
name = "surge within the week, 25 points above its usual"
target = "surge"
horizon = "week"
threshold = 0.25
against = "usual"

[[alerts.rules]]
name = "headline tomorrow, 30 points above its usual"
target = "headline"
horizon = 1
threshold = 0.3
against = "usual"

[[alerts.rules]]
name = "surge tomorrow, at least 50%"
target = "surge"
horizon = 1
threshold = 0.5

[[alerts.rules]]
name = "surge tomorrow, 20 points above the forecast before"
target = "surge"
horizon = 1
threshold = 0.2
against = "last"
"""


def step(text: str) -> None:
    """What is being done."""
    print(text, flush=True)


def prepare(folder: Path, world: WorldConfig, steps: int) -> Settings:
    """A store with its measures and a model."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "archive").exists():
        step(f"simulating {world.days} days of {world.streams} countries")
        create_world(world, folder / "archive")
    config = folder / "gdelphi.toml"
    config.write_text(SETTINGS.format(steps=steps), encoding="utf-8")
    settings = load_settings(config).settings
    step("ingest, embed")
    ingest(settings)
    embed(settings)
    step(f"training, {steps} steps")
    train(settings, folder / "model")
    return settings


def forecast_days(settings: Settings, model: Path, origins: list[date], as_of: date) -> None:
    """A stored forecast of each origin, and its scores."""
    request = ForecastRequest(model, as_of=as_of)
    predictor = open_predictor(settings, request)
    made = forecasts(settings, request, origins, predictor)
    for origin, result in zip(origins, made, strict=True):
        if isinstance(result, GdelphiError):
            raise result
        if result.forecast.manifest.hindsight:
            raise SystemExit(f"{origin} was fitted on: --origins has to be less")
        step(f"forecast from {origin}")
    score_forecasts(settings, settings.store.parent / "forecasts", as_of=as_of)


def table(tried: DryRun) -> str:
    """The table of docs/alerts.md."""
    head = "rule (event = conflict) | alerts | over | came true | any such cell | false a week"
    lines = [f"| {head} |", "|---|---|---|---|---|---|"]
    for rule in tried.rules:
        false = "–" if rule.false_per_week is None else f"{rule.false_per_week:.1f}"
        shares = (percent(rule.precision), percent(rule.rate))
        cells = (rule.rule, str(rule.alerts), str(rule.known), *shares, false)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--days", type=int, help="of the world [the preset's]")
    parser.add_argument("--streams", type=int, help="of the world [the preset's]")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--origins", type=int, default=91)
    arguments = parser.parse_args()
    size = {"days": arguments.days, "streams": arguments.streams}
    given = {name: value for name, value in size.items() if value}
    world = world_config(arguments.preset, given)
    settings = prepare(arguments.folder, world, arguments.steps)
    as_of = world.start + timedelta(days=world.days)
    origins = possible_origins(settings, as_of)[-arguments.origins :]
    forecast_days(settings, arguments.folder / "model", origins, as_of)
    tried = dry_run(settings, since=origins[0])
    days = f"{tried.since} to {tried.until}"
    print(f"\n{tried.origins} forecasts of {world.streams} countries, {days}")
    print(f"\n{table(tried)}")


if __name__ == "__main__":
    main()
