"""Settings of what runs by itself: the report, and the schedule."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ReportSettings(BaseModel):
    """The morning report."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path | None = Field(None, description="where reports go; `reports` beside the store")
    title: str = Field("What the news may bring", description="at the top of the page")
    watchlist: tuple[str, ...] = Field(
        (), description="streams whose largest changes stand at the top; all if empty"
    )
    past_days: int = Field(60, ge=7, le=365, description="days shown before the forecast")
    backtest: Path | None = Field(
        None, description="folder of a backtest, shown until forecasts have been judged"
    )
    address: str | None = Field(
        None, description="URL under which reports are published, for the Atom feed"
    )


class FlowSettings(BaseModel):
    """What runs unattended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: Path = Field(Path("models"), description="folder of models; `current` in it is in use")
    streams: str = Field("all", description="what the daily forecast is about: KE,UP, top50, all")
    daily: str = Field("30 11 * * *", description="cron of ingest, forecast, scores, report (UTC)")
    training: str = Field("0 1 * * 0", description="cron of training (UTC); empty: not scheduled")
    namer: bool = Field(
        True, description="train a namer for points too, once for a space: it may name futures"
    )
    server: str | None = Field(
        None, description="URL of a Prefect server; unset, `gdelphi serve` starts one of its own"
    )
    port: int = Field(4200, ge=1024, le=65535, description="of the Prefect server that is started")
    notify_url: str | None = Field(
        None, description="webhook that a failure is posted to, as JSON with a field text"
    )
    notify_command: str | None = Field(
        None, description="command that is run on a failure, with the message as its standard input"
    )
    timeout_hours: float = Field(12.0, gt=0, description="after which a flow is given up")
