"""The daily run: ingest, embed, forecast, score yesterday's, report, alerts."""

from datetime import date

from prefect import flow, get_run_logger

from gdelphi_flows.artifacts import show_run
from gdelphi_flows.shared import (
    Tasks,
    chosen_workers,
    flow_settings,
    locked_run,
    notify_failure,
    run_day,
)

STEPS = 6


@flow(name="gdelphi-daily", on_failure=[notify_failure], on_crashed=[notify_failure])
def daily(as_of: date | None = None) -> None:
    """Everything that is due on a day; if a step fails, the run does, after all it could do."""
    settings, log = flow_settings(), get_run_logger()
    what = f"daily run for {run_day(as_of)}"
    with chosen_workers(settings), locked_run(settings, what):
        from gdelphi.app import pipeline

        run = pipeline.daily(settings, as_of=as_of, do=Tasks(settings, STEPS), on_step=log.info)
    show_run(settings, run)
    run.raise_troubles()
