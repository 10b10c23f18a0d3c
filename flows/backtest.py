"""Judge a model beside all baselines, on days that nothing was fitted on."""

from datetime import date
from pathlib import Path

from prefect import flow

from gdelphi_flows.artifacts import show_backtest
from gdelphi_flows.shared import Tasks, chosen_workers, flow_settings, notify_failure, run_day


@flow(name="gdelphi-backtest", on_failure=[notify_failure], on_crashed=[notify_failure])
def backtest(
    as_of: date | None = None,
    model: str | None = None,
    since: date | None = None,
    until: date | None = None,
    every: int = 1,
) -> None:
    """Score all forecasters from one day to another; the model in use unless another is named."""
    settings = flow_settings()
    from gdelphi.app.promote import current_link
    from gdelphi.judge.backtest import BacktestRequest, backtest

    folder = (Path(model) if model else current_link(settings)).resolve()
    out = settings.store.parent / "backtests" / f"{run_day(as_of)}-{folder.name}"
    request = BacktestRequest(folder, out, since, until, every)
    with chosen_workers(settings):
        summary = Tasks(settings, 1)("backtest", lambda: backtest(settings, request))
    show_backtest(summary, f"{folder.name}, kept in {out}")
