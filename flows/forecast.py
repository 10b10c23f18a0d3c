"""The daily run: ingest, embed, forecast, score yesterday's, report."""

from datetime import date

from prefect import flow, get_run_logger

from gdelphi_flows.artifacts import show_run
from gdelphi_flows.shared import Tasks, day_of, my_turn, settings_of, tell

STEPS = 5


@flow(name="gdelphi-daily", on_failure=[tell], on_crashed=[tell])
def daily(as_of: date | None = None) -> None:
    """Everything that is due on a day; if a step fails, the run does, after all it could do."""
    settings, log = settings_of(), get_run_logger()
    with my_turn(settings, f"daily run for {day_of(as_of)}"):
        from gdelphi.app import pipeline

        run = pipeline.daily(settings, as_of=as_of, do=Tasks(settings, STEPS), on_step=log.info)
    show_run(settings, run)
    run.raise_troubles()
