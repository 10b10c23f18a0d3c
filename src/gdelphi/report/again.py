"""When a report is made, and what was known then: now, or of a past state of a lake, as it was.

A report that is made again has the bytes of the published one. So its time is that of the published
report, if that stands in the folder of reports and is of the same state; else that of the stored
forecast (`forecast/again.py`). Forecasts that were made later are not known, and those that were
judged have the scores that follow from the days as they were.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from gdelphi.common.settings import Settings
from gdelphi.forecast.again import committed_at, known_then, state_number
from gdelphi.forecast.archive import ForecastArchive, ForecastManifest
from gdelphi.judge.files import scores_path, week_scores_path
from gdelphi.measures.past_measures import with_past_measures
from gdelphi.report.choose import ForecastFolder
from gdelphi.report.lists import REPORT
from gdelphi.store.connection import at_one_state


class Moment(NamedTuple):
    """When a report is made, and from what."""

    settings: Settings
    """which read one state of the store"""
    at: datetime
    forecasts: ForecastFolder
    today: date | None
    """None: the present day"""


class _Made(BaseModel):
    model_config = ConfigDict(extra="ignore")

    snapshot: str | None = None


class _Published(BaseModel):
    """What is needed of a report.json."""

    model_config = ConfigDict(extra="ignore")

    published_at: datetime
    provenance: _Made


@contextmanager
def moment_of(
    settings: Settings,
    forecasts: ForecastFolder,
    origin: date | Literal["latest"],
    published: Path,
) -> Iterator[Moment]:
    """The present, or the past that `store_as_of` names. `published` is the folder of reports."""
    if settings.store_as_of is None:
        now = datetime.now(UTC).replace(microsecond=0)
        yield Moment(at_one_state(settings), now, forecasts, None)
        return
    state = state_number(settings)
    known = tuple(one for one in forecasts.manifests if known_then(one, state))
    forecasts = replace(forecasts, manifests=known)
    day = forecasts.newest(date.max) if origin == "latest" else origin
    at = _published_at(published / day.isoformat() / REPORT, state) if day else None
    if at is None:
        manifest = forecasts.at(day) if day else None
        at = manifest.issued_at if manifest else committed_at(settings)
    then = tuple(one for one in known if one.issued_at <= at)
    past = with_past_measures(settings)
    with tempfile.TemporaryDirectory(prefix="gdelphi-scores-") as folder:
        _score_then(past, forecasts.path, then, Path(folder), at.date())
        yield Moment(past, at, replace(forecasts, path=Path(folder), manifests=then), at.date())


def _published_at(path: Path, state: int) -> datetime | None:
    """When the report that is there was made, if it is of that state."""
    try:
        made = _Published.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return made.published_at if made.provenance.snapshot == str(state) else None


def _score_then(
    settings: Settings,
    folder: Path,
    manifests: Sequence[ForecastManifest],
    target: Path,
    today: date,
) -> None:
    """Copy forecasts with their scores, and score those anew whose days have changed since."""
    from gdelphi.judge.score import score_forecasts  # with all that makes forecasts

    if not manifests:
        return
    judged: list[Path] = []
    for manifest in manifests:
        at = manifest.recipe.origin, manifest.id
        shutil.copytree(ForecastArchive(folder).path(*at), ForecastArchive(target).path(*at))
        for path_of in (scores_path, week_scores_path):
            if path_of(folder, *at).exists():
                judged.append(path_of(target, *at))
                judged[-1].parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path_of(folder, *at), judged[-1])
    if not judged:
        return
    score_forecasts(settings, target, as_of=today)
    for path in set(target.glob("scores/*/*.parquet")) - set(judged):
        path.unlink()  # nobody had judged it
