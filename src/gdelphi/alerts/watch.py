"""Rules held against forecasts, one after the other.

A rule watches cells: countries, events, a target and a horizon. A cell raises an alert when it
reaches the threshold, and no other until it has been clearly below it (`release`), so that a number
that wavers about the threshold is told of once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from gdelphi.common.errors import ConfigError, UnknownName
from gdelphi.common.sections import AlertRule
from gdelphi.common.types import WITHIN, Level
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.forecast.tidy import TOMORROW
from gdelphi.questions.answers import ProbabilityRow
from gdelphi.questions.forecasts import OpenForecast, StoredForecasts, chosen_rows
from gdelphi.questions.names import find_events, find_horizon, find_streams, known_streams


class Alert(BaseModel):
    """A probability that has reached a rule's threshold."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rule: str
    origin: date
    forecast: str
    """its id"""
    cell: ProbabilityRow
    before: float | None
    """what the forecast before said: of the same day, or of its own week"""
    value: float
    """what was held against the threshold"""


@dataclass
class WatchState:
    """Which cells of which rules are above their threshold, and since which origin."""

    on: dict[str, date] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchedCell:
    """A cell that a rule looks at."""

    rule: AlertRule
    row: ProbabilityRow
    before: float | None

    @property
    def key(self) -> str:
        """Its name in the state."""
        return f"{self.rule.name}|{self.row.stream}|{self.row.level}|{self.row.code}"

    @property
    def value(self) -> float | None:
        """What is held against the threshold; None: not known."""
        against = {"absolute": 0.0, "usual": self.row.usual, "last": self.before}
        than = against[self.rule.against]
        if self.row.published is None or than is None:
            return None
        return self.row.published - than


class Meant(NamedTuple):
    """What a rule is about, by codes."""

    level: Level
    codes: tuple[str, ...]
    streams: tuple[str, ...] | None
    """None: all"""
    horizon: int


def meant_by(rule: AlertRule) -> Meant:
    """What a rule is about; names that are not known are refused."""
    try:
        events = find_events(rule.event)
        streams = find_streams(rule.streams, known_streams()) if rule.streams else None
    except UnknownName as error:
        raise ConfigError(f"alerts.rules, {rule.name!r}: {error}") from None
    level, horizon = events[0].level, find_horizon(rule.horizon)
    if level != "root" and horizon != TOMORROW:
        raise ConfigError(
            f"alerts.rules, {rule.name!r}: beyond tomorrow only roots are forecast, and "
            f"{rule.event} is finer: horizon = 1, or the root"
        )
    return Meant(level, tuple(event.code for event in events), streams, horizon)


def watched_cells(
    rule: AlertRule, forecast: OpenForecast, before: OpenForecast | None
) -> Iterator[WatchedCell]:
    """The cells that a rule looks at in a forecast."""
    meant = meant_by(rule)
    said: Mapping[tuple[str, str], float | None] = {}
    if before is not None:
        ahead = meant.horizon if meant.horizon == WITHIN else meant.horizon + 1
        rows = _rows(rule, meant._replace(horizon=ahead), before)
        said = {(row.stream, row.code): row.published for row in rows}
    for row in _rows(rule, meant, forecast):
        yield WatchedCell(rule, row, said.get((row.stream, row.code)))


def _rows(rule: AlertRule, meant: Meant, forecast: OpenForecast) -> list[ProbabilityRow]:
    table = chosen_rows(
        forecast.tidy, streams=meant.streams, level=meant.level, codes=meant.codes,
        target=rule.target, horizon=meant.horizon,
    )  # fmt: skip
    return [ProbabilityRow(**row) for row in table.to_pylist()]


def watch(
    cells: Iterator[WatchedCell], manifest: ForecastManifest, state: WatchState
) -> list[Alert]:
    """The alerts of a forecast; the state is brought up to it."""
    alerts = []
    for cell in cells:
        value, rule = cell.value, cell.rule
        if value is None:
            continue
        if cell.key not in state.on and value >= rule.threshold:
            state.on[cell.key] = manifest.recipe.origin
            alerts.append(
                Alert(
                    rule=rule.name,
                    origin=manifest.recipe.origin,
                    forecast=manifest.id,
                    cell=cell.row,
                    before=cell.before,
                    value=value,
                )
            )
        elif value < rule.threshold - rule.release:
            state.on.pop(cell.key, None)
    return sorted(alerts, key=lambda one: (-one.value, one.cell.stream, one.cell.code))


def cells_of(
    rules: tuple[AlertRule, ...], forecasts: StoredForecasts, manifest: ForecastManifest
) -> list[WatchedCell]:
    """The cells of all rules in a forecast."""
    forecast, before = forecasts.open(manifest), forecasts.before(manifest)
    return [cell for rule in rules for cell in watched_cells(rule, forecast, before)]
