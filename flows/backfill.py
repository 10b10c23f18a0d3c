"""Forecasts and reports of past days, as if there had been a run on each."""

from datetime import date

from prefect import flow, get_run_logger

from gdelphi_flows.artifacts import show_run
from gdelphi_flows.shared import (
    Tasks,
    chosen_workers,
    flow_settings,
    locked_run,
    notify_failure,
)


@flow(name="gdelphi-backfill", on_failure=[notify_failure], on_crashed=[notify_failure])
def backfill(since: date, until: date, as_of: date | None = None) -> None:
    """Ingest, embed, forecast, score and report from one day to another."""
    settings, log = flow_settings(), get_run_logger()
    steps = 3 + 2 * ((until - since).days + 1)
    what = f"backfill from {since} to {until}"
    with chosen_workers(settings), locked_run(settings, what):
        from gdelphi.app import pipeline

        do = Tasks(settings, steps)
        run = pipeline.backfill(settings, since, until, as_of=as_of, do=do, on_step=log.info)
    show_run(settings, run)
    run.raise_troubles()
