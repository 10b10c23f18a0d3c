"""What was made from a past state of a lake is made again as of then, to the last byte.

A state of the store decides nearly all that a forecast or a report says. The rest is the clock:
when it was issued, and which day was today, by which days are complete or stale. Both come from the
forecast that was stored at the time; without one, from the commit that the state is.
"""

from datetime import UTC, date, datetime
from typing import Literal

from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import (
    ForecastArchive,
    ForecastManifest,
    forecasts_folder,
    read_manifest,
)
from gdelphi.store.connection import Store


def state_number(settings: Settings) -> int:
    """The number of the state that the settings read."""
    with Store(settings).reading() as connection:
        return int(connection.snapshot() or 0)


def committed_at(settings: Settings) -> datetime:
    """When the state that the settings read was committed, to the second."""
    with Store(settings).reading() as connection:
        time = connection.snapshot_time()
    return (time or datetime.now(UTC)).replace(microsecond=0)


def known_then(manifest: ForecastManifest, state: int) -> bool:
    """Whether a forecast was not made from a later state."""
    return manifest.snapshot is None or int(manifest.snapshot) <= state


def today_then(settings: Settings, origin: date | Literal["latest"]) -> date:
    """The day on which a forecast was made from the state that the settings read."""
    state = str(state_number(settings))
    made = [
        manifest
        for manifest in ForecastArchive(forecasts_folder(settings)).list()
        if manifest.snapshot == state and origin in ("latest", manifest.recipe.origin)
    ]
    return (made[-1].issued_at if made else committed_at(settings)).date()


def issued_before(settings: Settings, origin: date, id: str) -> datetime | None:  # noqa: A002
    """When the same forecast was issued first, if it is in the store's archive."""
    folder = ForecastArchive(forecasts_folder(settings)).path(origin, id)
    return read_manifest(folder).issued_at if folder.exists() else None
