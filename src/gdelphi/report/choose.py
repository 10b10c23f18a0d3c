"""Which stored forecasts a report is made from.

Of several forecasts at an origin the one about the most streams is published, and of these the one
that was issued last: a trial run about two countries must not take the place of the whole. A
forecast that cannot be read is named and passed over: one damaged folder of last year must not keep
this morning's report from coming out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from gdelphi.common.errors import ForecastError
from gdelphi.forecast.archive import (
    ForecastArchive,
    ForecastManifest,
    StoredForecast,
)
from gdelphi.forecast.stored_week import StoredWeek, read_week

HORIZON: Final = 1
SECOND: Final = 1  # place of the second day of a week
CellKey = tuple[str, str, str, str]
"""stream, level, code, target"""


@dataclass(frozen=True)
class ForecastFolder:
    """The forecasts of a folder for the next day, and what is wrong with others."""

    path: Path
    manifests: tuple[ForecastManifest, ...]
    problems: tuple[str, ...] = ()

    def at(self, origin: date) -> ForecastManifest | None:
        """The one that is published at an origin."""
        return best(manifest for manifest in self.manifests if manifest.recipe.origin == origin)

    def newest(self, until: date) -> date | None:
        """The last origin up to a day that has one."""
        origins = (manifest.recipe.origin for manifest in self.manifests)
        return max((origin for origin in origins if origin <= until), default=None)

    def load(self, manifest: ForecastManifest) -> StoredForecast:
        """The forecast itself, checked; others that are damaged are no matter."""
        forecast = ForecastArchive(self.path).find(manifest.recipe)
        if forecast is None:
            raise ForecastError(f"the forecast {manifest.id} is no longer in {self.path}")
        return forecast

    def week_before(self, origin: date) -> StoredWeek | None:
        """The week of the forecast that was made one origin earlier, if it has one."""
        manifest = self.at(origin - timedelta(days=1))
        return None if manifest is None else read_week(self.load(manifest))


def said_before(week: StoredWeek | None) -> Mapping[CellKey, float]:
    """What the forecast of one origin earlier said of the day that is tomorrow now: of the same
    day, so that no weekday is compared with another. Only roots are forecast so far ahead."""
    if week is None:
        return {}
    said = {key: cell.days[SECOND].published for key, cell in week.cells.items()}
    return {
        (stream, "root", code, target): value
        for (stream, code, target), value in said.items()
        if value is not None
    }


def best(manifests: Iterable[ForecastManifest]) -> ForecastManifest | None:
    """The one with the most streams, then the one that was issued last."""
    return max(manifests, key=rank, default=None)


def rank(manifest: ForecastManifest) -> tuple[int, datetime, str]:
    """What decides between forecasts at one origin."""
    return len(manifest.recipe.streams), manifest.issued_at, manifest.id


def read_forecast_folder(folder: Path) -> ForecastFolder:
    """Look through a folder of forecasts; one that is not there has none."""
    read, problems = ForecastArchive(folder).read()
    manifests = sorted(read, key=lambda one: (one.recipe.origin, one.id))
    tomorrow = tuple(one for one in manifests if one.recipe.horizon == HORIZON)
    return ForecastFolder(folder, tomorrow, tuple(problems))
