"""Stored forecasts, kept at hand: which there are, and their tables.

A forecast's folder never changes, so one that was read and checked is kept. Which folders there are
is looked up anew when a folder's time has changed.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from gdelphi.common.errors import ForecastError, NothingStored
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import ForecastManifest, StoredForecast, forecasts_folder
from gdelphi.forecast.tidy import tidy_stored
from gdelphi.judge.files import scores_path
from gdelphi.questions.answers import ForecastInfo, ForecastList
from gdelphi.report.choose import ForecastFolder, rank, read_forecast_folder
from gdelphi.report.lists import PAGE
from gdelphi.report.report import reports_folder

LATEST: Final = "latest"
KEPT: Final = 6
"""forecasts that are kept: of 200 countries each takes some 50 MB"""
K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The last few of what was made, by their keys."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under a key; made, if nothing is."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._number:
                self._values.popitem(last=False)
        return made


@dataclass(frozen=True, eq=False)
class OpenForecast:
    """A stored forecast with its tidy table."""

    stored: StoredForecast
    tidy: pa.Table

    @property
    def manifest(self) -> ForecastManifest:
        return self.stored.manifest

    @property
    def streams(self) -> tuple[str, ...]:
        """That it is about."""
        return self.manifest.recipe.streams

    def rows(self, name: str, stream: str, columns: Sequence[str] | None = None) -> list[Any]:
        """The rows of a stream in one of its tables; none if it has no such table."""
        if name not in self.stored:
            return []
        table = self.stored.table(name, columns)
        rows: list[Any] = table.filter(pc.equal(table["stream"], stream)).to_pylist()
        return rows


class StoredForecasts:
    """The forecasts of a folder, for questions."""

    def __init__(self, settings: Settings) -> None:
        self.folder = forecasts_folder(settings)
        self.reports = reports_folder(settings)
        self._folders: Kept[object, ForecastFolder] = Kept(1)
        self._open: Kept[str, OpenForecast] = Kept(KEPT)

    # Which there are.

    def found(self) -> ForecastFolder:
        """The forecasts that can be read."""
        return self._folders.get(self._state(), lambda: read_forecast_folder(self.folder))

    def _state(self) -> Mapping[str, int] | tuple[tuple[str, int], ...]:
        """Changes whenever a forecast comes or goes."""
        days = sorted(self.folder.glob("*-*-*"))
        return tuple((day.name, day.stat().st_mtime_ns) for day in days if day.is_dir())

    def manifest(self, origin: date | str = LATEST, id: str | None = None) -> ForecastManifest:  # noqa: A002
        """The forecast that is meant: of an origin, or the newest; without an id the published
        one."""
        there = self.found().manifests
        if not there:
            raise NothingStored("there is no forecast yet: `gdelphi forecast` makes one")
        day = max(one.recipe.origin for one in there) if origin == LATEST else origin
        alike = [one for one in there if one.recipe.origin == day and id in (None, one.id)]
        if not alike:
            last = max(one.recipe.origin for one in there)
            raise NothingStored(
                f"no forecast{f' {id!r}' if id else ''} from {day}: the newest is from {last}"
            )
        return max(alike, key=rank)

    def published(self) -> list[ForecastManifest]:
        """One forecast for each origin, the one that is published, by their origins."""
        best: dict[date, ForecastManifest] = {}
        for one in self.found().manifests:
            origin = one.recipe.origin
            best[origin] = max(best.get(origin, one), one, key=rank)
        return [best[origin] for origin in sorted(best)]

    def list(self, since: date | None, until: date | None, limit: int, offset: int) -> ForecastList:
        """All of them between two origins, the newest first."""
        chosen = [
            one
            for one in self.found().manifests
            if (since or date.min) <= one.recipe.origin <= (until or date.max)
        ]
        chosen.sort(key=lambda one: (one.recipe.origin, *rank(one)), reverse=True)
        page = [self.info(one) for one in chosen[offset : offset + limit]]
        return ForecastList(total=len(chosen), offset=offset, forecasts=page)

    def info(self, manifest: ForecastManifest) -> ForecastInfo:
        """What is told of a forecast."""
        recipe = manifest.recipe
        return ForecastInfo(
            id=manifest.id,
            origin=recipe.origin,
            target_day=manifest.target_day,
            streams=list(recipe.streams),
            week=recipe.week,
            partial=recipe.partial,
            hindsight=manifest.hindsight,
            issued_at=manifest.issued_at,
            model=recipe.model,
            futures=recipe.futures,
            scored=self.scores(manifest).exists(),
            report=self.report(recipe.origin),
        )

    def report(self, origin: date) -> str | None:
        """Where the report of an origin is served, if there is one."""
        day = origin.isoformat()
        return f"/reports/{day}/{PAGE}" if (self.reports / day / PAGE).is_file() else None

    def scores(self, manifest: ForecastManifest) -> Path:
        """The file of its scores, there or not."""
        return scores_path(self.folder, manifest.recipe.origin, manifest.id)

    # What they say.

    def open(self, manifest: ForecastManifest) -> OpenForecast:
        """A forecast with its tables, checked once."""
        return self._open.get(manifest.id, lambda: self._read(manifest))

    def _read(self, manifest: ForecastManifest) -> OpenForecast:
        try:
            stored = self.found().load(manifest)
        except ForecastError:
            raise NothingStored(
                f"the forecast {manifest.id} from {manifest.recipe.origin} is damaged: "
                "`gdelphi verify` tells more"
            ) from None
        return OpenForecast(stored, tidy_stored(stored))

    def before(self, manifest: ForecastManifest) -> OpenForecast | None:
        """The published forecast of the origin before, if there is one."""
        day = manifest.recipe.origin - timedelta(days=1)
        earlier = self.found().at(day)
        return self.open(earlier) if earlier else None


def chosen_rows(
    table: pa.Table,
    *,
    streams: Sequence[str] | None = None,
    level: str | None = None,
    codes: Sequence[str] | None = None,
    target: str | None = None,
    horizon: int | None = None,
) -> pa.Table:
    """The rows of a tidy table that are asked for; None: all."""
    wanted = {
        "stream": streams,
        "code": codes,
        "level": None if level is None else [level],
        "target": None if target is None else [target],
        "horizon": None if horizon is None else [horizon],
    }
    for name, values in wanted.items():
        if values is not None:
            among = pa.array(list(values), table.schema.field(name).type)
            table = table.filter(pc.is_in(table[name], among))
    return table
