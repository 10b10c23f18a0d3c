"""A model at work on a store, for use from Python: what `gdelphi.load` returns."""

from datetime import date
from pathlib import Path
from typing import Literal

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import load_settings
from gdelphi.forecast.archive import forecasts_folder as forecasts_folder
from gdelphi.forecast.archive import model_fingerprint as model_fingerprint
from gdelphi.forecast.calibrate import ensure_calibrated
from gdelphi.forecast.forecast import check_horizon
from gdelphi.forecast.origin import (
    check_stream,
    resolve_origin,
)
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor


class LoadedModel:
    """A model at work on a store, for use from Python; see `gdelphi.load`."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    @property
    def streams(self) -> tuple[str, ...]:
        """What it can be asked about."""
        return self.predictor.streams

    def forecast(
        self,
        stream: str,
        origin: date | str = "latest",
        *,
        horizon: int = 1,
        allow_partial: bool = False,
    ) -> Prediction:
        """What is published about a stream's day after an origin: a day, its ISO form, or the
        last complete one."""
        check_stream(self.predictor, stream)
        check_horizon(horizon)
        at = resolve_origin(self.predictor.settings, _origin(origin), allow_partial=allow_partial)
        ensure_calibrated(self.predictor, horizon=horizon)
        made = self.predictor.predict(at.origin, [stream], horizon=horizon, partial=at.partial)
        return made[0]


def _origin(given: date | str) -> date | Literal["latest"]:
    if isinstance(given, date) or given == "latest":
        return given  # type: ignore[return-value]
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ForecastError(
            f"origin {given!r} is neither a day like 2014-06-01 nor latest"
        ) from None


def load_model(
    folder: Path | str, store: Path | str | None = None, config: Path | str | None = None
) -> LoadedModel:
    """A trained model and the store that it forecasts from; calibrated, if it was not."""
    settings = load_settings(
        Path(config) if config else None, {"store": Path(store) if store else None}
    ).settings
    predictor = Predictor(settings, Path(folder))
    ensure_calibrated(predictor)
    return LoadedModel(predictor)
