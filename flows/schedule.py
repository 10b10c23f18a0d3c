"""The process that runs flows at their times; `serve.py` starts it and looks after it."""

import argparse
import asyncio
import signal
from contextlib import suppress
from datetime import timedelta
from typing import Any

from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.runner import Runner
from prefect.server.schemas.schedules import CronSchedule
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import Settings
from gdelphi_flows.backfill import backfill
from gdelphi_flows.backtest import backtest
from gdelphi_flows.forecast import daily
from gdelphi_flows.ingest import ingest
from gdelphi_flows.shared import flow_settings
from gdelphi_flows.train import train

AT_ONCE = 2  # runs: a training beside the daily one; more wait in the queue
POLL_SECONDS = 10


def deployments(settings: Settings, every: float | None = None) -> list[RunnerDeployment]:
    """Deployments of all flows; the daily run and training have their times.

    `every`: seconds between daily runs in place of all times.
    """
    flows: tuple[Flow[Any, Any], ...] = (daily, train, ingest, backfill, backtest)
    times = {daily.name: settings.flows.daily, train.name: settings.flows.training}
    made = []
    for flow in flows:
        schedule: dict[str, Any] = {}
        if every and flow is daily:
            schedule["interval"] = timedelta(seconds=every)
        elif not every and times.get(flow.name):
            schedule["cron"] = parse_cron(times[flow.name]).cron
        deployment: Any = flow.to_deployment(
            flow.name.removeprefix("gdelphi-"), tags=["gdelphi"],
            entrypoint_type=EntrypointType.MODULE_PATH, **schedule,
        )  # fmt: skip
        made.append(deployment)
    return made


def parse_cron(text: str) -> CronSchedule:
    """A schedule (UTC) from a time as cron writes it."""
    try:
        return CronSchedule(cron=text, timezone="UTC")
    except ValidationError:
        raise ConfigError(f"flows: {text!r} is no cron time like '30 5 * * *'") from None


def next_runs(settings: Settings, every: float | None = None) -> list[str]:
    """When what is scheduled runs next, in words."""
    if every:
        return [f"daily run every {every:g} seconds"]
    times = {"daily run": settings.flows.daily, "training": settings.flows.training}
    return [
        f"{name} next at {asyncio.run(parse_cron(cron).get_dates(1))[0]:%Y-%m-%d %H:%M} UTC"
        for name, cron in times.items()
        if cron
    ]


class QuietRunner(Runner):
    """A runner that takes SIGTERM as Ctrl-C: its own way of ending leaves a warning each time."""

    def handle_sigterm(self, *_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGINT)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=float)
    every: float | None = parser.parse_args().every
    settings = flow_settings()
    made = deployments(settings, every)
    for line in next_runs(settings, every):
        print(f"gdelphi: {line}", flush=True)  # noqa: T201
    query = POLL_SECONDS if not every else max(1, min(POLL_SECONDS, int(every / 3)))
    runner = QuietRunner(limit=AT_ONCE, pause_on_shutdown=False, query_seconds=query)
    for deployment in made:
        runner.add_deployment(deployment)
    with suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


if __name__ == "__main__":
    main()
