"""Train a challenger beside the model in use, and promote it if it is not worse."""

from datetime import date

from prefect import flow, get_run_logger

from gdelphi_flows.artifacts import show_decision
from gdelphi_flows.shared import (
    Tasks,
    chosen_workers,
    flow_settings,
    locked_run,
    notify_failure,
    run_day,
)

STEPS = 5


@flow(name="gdelphi-train", on_failure=[notify_failure], on_crashed=[notify_failure])
def train(as_of: date | None = None, name: str | None = None) -> None:
    """Embed, train, train a namer, calibrate, promote.

    Training holds no run lock: it only reads, and takes hours.
    """
    settings, log = flow_settings(), get_run_logger()
    from gdelphi.app import pipeline
    from gdelphi.measures.embed import embed

    folder = pipeline.challenger_folder(settings, run_day(as_of), name)
    do = Tasks(settings, STEPS)
    with chosen_workers(settings), locked_run(settings, "measures for training"):
        do("embed", lambda: embed(settings))
    trained = do("train", lambda: pipeline.train_challenger(settings, folder))
    log.info(f"trained {trained.steps} steps into {folder}, score {trained.score:.5f}")
    if settings.flows.namer:
        do("names", lambda: pipeline.train_namer(settings))
    with locked_run(settings, f"calibration of {folder.name}"):
        do("calibrate", lambda: pipeline.calibrate_challenger(settings, folder))
        decided = do("promote", lambda: pipeline.decide(settings, folder, log.info))
    show_decision(decided)
