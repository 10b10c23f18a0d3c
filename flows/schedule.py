"""The process that runs flows at their times; `serve.py` starts it and looks after it."""

import argparse
import asyncio
import signal
from contextlib import suppress
from datetime import timedelta
from typing import Any

from prefect.deployments.runner import RunnerDeployment
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
from gdelphi_flows.shared import settings_of
from gdelphi_flows.train import train

AT_ONCE = 2  # runs: a training beside the daily one; more wait for their turn in the queue
POLL_SECONDS = 10


def deployments(settings: Settings, every: float | None = None) -> list[RunnerDeployment]:
    """All flows; the daily one and training with their times."""
    times = {daily: settings.flows.daily, train: settings.flows.training}
    found = []
    for each in (daily, train, ingest, backfill, backtest):
        given: dict[str, Any] = {}
        if every and each is daily:
            given["interval"] = timedelta(seconds=every)
        elif not every and times.get(each):
            given["cron"] = cron_of(times[each]).cron
        made: Any = each.to_deployment(
            each.name.removeprefix("gdelphi-"), tags=["gdelphi"],
            entrypoint_type=EntrypointType.MODULE_PATH, **given,
        )  # fmt: skip
        found.append(made)
    return found


def cron_of(text: str) -> CronSchedule:
    """A time as cron writes it."""
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
        f"{name} next at {asyncio.run(cron_of(cron).get_dates(1))[0]:%Y-%m-%d %H:%M} UTC"
        for name, cron in times.items()
        if cron
    ]


class Gentle(Runner):
    """A runner that is asked to end as if by Ctrl-C: its own way leaves a warning each time."""

    def handle_sigterm(self, *_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGINT)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=float)
    given = parser.parse_args()
    settings = settings_of()
    made = deployments(settings, given.every)
    for line in next_runs(settings, given.every):
        print(f"gdelphi: {line}", flush=True)  # noqa: T201
    query = POLL_SECONDS if not given.every else max(1, min(POLL_SECONDS, int(given.every / 3)))
    runner = Gentle(limit=AT_ONCE, pause_on_shutdown=False, query_seconds=query)
    for deployment in made:
        runner.add_deployment(deployment)
    with suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


if __name__ == "__main__":
    main()
