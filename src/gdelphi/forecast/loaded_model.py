"""A model at work on a store, for use from Python: what `gdelphi.load` returns."""

from datetime import date
from pathlib import Path
from typing import Literal

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import load_settings
from gdelphi.forecast.calibrate import ensure_calibrated
from gdelphi.forecast.origin import (
    known_stream,
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
        """Codes of the streams that it can forecast."""
        return self.predictor.streams

    def forecast(
        self,
        stream: str,
        origin: date | str = "latest",
        *,
        allow_partial: bool = False,
    ) -> Prediction:
        """The prediction of a stream for the day after an origin and, as its `week`, for all seven
        days, if the model speaks of them.

        The origin is a day, its ISO form, or `latest`, the last complete day of the store.
        """
        stream = known_stream(self.predictor, stream)
        if isinstance(origin, str) and origin != "latest":
            try:
                origin = date.fromisoformat(origin)
            except ValueError:
                raise ForecastError(
                    f"origin {origin!r} is neither a day like 2014-06-01 nor latest"
                ) from None
        day: date | Literal["latest"] = "latest" if isinstance(origin, str) else origin
        at = resolve_origin(self.predictor.settings, day, allow_partial=allow_partial)
        ensure_calibrated(self.predictor)
        return self.predictor.predict(at.origin, [stream], partial=at.partial, week=True)[0]


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
