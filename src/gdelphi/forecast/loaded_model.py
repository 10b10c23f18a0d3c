"""A model at work on a store, for use from Python: what `gdelphi.load` returns.

Errors are Python's own as well as gdelphi's: a name that is not known is a ValueError, a model that
is not there a FileNotFoundError, and messages speak of arguments, not of flags.
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from gdelphi.common.errors import ForecastError, ModelMissing, QuestionError
from gdelphi.common.settings import load_settings
from gdelphi.common.types import AHEAD, WITHIN
from gdelphi.forecast.calibrate import ensure_calibrated
from gdelphi.forecast.origin import ForecastOrigin, resolve_origin
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.tables import prediction_tables
from gdelphi.forecast.tidy import TOMORROW, tidy_tables
from gdelphi.forecast.week_tables import week_tables
from gdelphi.gdelt.find_names import stream_among

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]

FLAGS: Final = {
    "--origin latest": 'origin="latest"',
    "--allow-partial": "allow_partial=True",
    "--horizon 1": "horizon=1",
}
"""as the command line calls arguments"""
SHOWN: Final = 6  # streams


class LoadedModel:
    """A model at work on a store, for use from Python; see `gdelphi.load`."""

    def __init__(self, predictor: Predictor, folder: Path | str | None = None) -> None:
        self.predictor = predictor
        self.folder = Path(folder or predictor.folder)
        """as it was given: it may be a link"""

    def __repr__(self) -> str:
        streams = ", ".join(self.streams[:SHOWN]) + (", ..." if len(self.streams) > SHOWN else "")
        ahead = f"tomorrow and {AHEAD} days" if self.predictor.week_stack else "tomorrow"
        return (
            f"<gdelphi model {self.folder}: {len(self.streams)} streams ({streams}), "
            f"{ahead}, from {self.predictor.settings.store}>"
        )

    @property
    def streams(self) -> tuple[str, ...]:
        """Codes of the streams that it can forecast."""
        return self.predictor.streams

    def forecast(
        self,
        streams: str | Sequence[str] | None = None,
        horizon: int | Literal["week"] | None = None,
        *,
        origin: date | str = "latest",
        allow_partial: bool = False,
    ) -> "pandas.DataFrame":
        """Probabilities of countries as a tidy data frame, a row for each.

        `streams` are codes or names, one or several; all if None. `horizon` is a number of days
        from 1 to 7, or "week" for within the week; everything if None. The origin is a day, its ISO
        form, or "latest", the last complete day of the store. Nothing is stored.

        Columns: stream, country, day, horizon (0: within the week), level, code, label, target,
        published, stack, usual, low, high (lowest and highest that a forecaster behind it says).
        """
        ahead = self._horizon(horizon)
        chosen = self._streams(streams)
        at = self._origin(origin, allow_partial=allow_partial)
        week = self.predictor.week_stack is not None  # the usual comes from there too
        ensure_calibrated(self.predictor)
        predictions = self.predictor.predict(at.origin, chosen, partial=at.partial, week=week)
        tables = prediction_tables(predictions)
        if week:
            tables |= week_tables(predictions, self.predictor.pack)
        frame = tidy_tables(tables, at.origin).to_pandas(date_as_object=False)
        return frame if ahead is None else frame[frame.horizon == ahead].reset_index(drop=True)

    def predict(
        self, stream: str, origin: date | str = "latest", *, allow_partial: bool = False
    ) -> Prediction:
        """The whole prediction of a stream: futures, members, expected day and, as its `week`, the
        seven days, if the model speaks of them."""
        (chosen,) = self._streams(stream)
        at = self._origin(origin, allow_partial=allow_partial)
        ensure_calibrated(self.predictor)
        return self.predictor.predict(at.origin, [chosen], partial=at.partial, week=True)[0]

    # What is asked for.

    def _streams(self, streams: str | Sequence[str] | None) -> list[str]:
        if streams is None:
            return list(self.streams)
        names = [streams] if isinstance(streams, str) else list(streams)
        strange = [name for name in names if not isinstance(name, str)]
        if strange:
            raise TypeError(f"streams are texts like 'KE' or 'Kenya', not {strange[0]!r}")
        if not names:
            raise QuestionError("no streams are named: leave them out for all")
        return list(dict.fromkeys(stream_among(name, self.streams) for name in names))

    def _horizon(self, horizon: Any) -> int | None:
        if horizon is None:
            return None
        if horizon in ("week", WITHIN) and not isinstance(horizon, bool):
            ahead = WITHIN
        elif isinstance(horizon, int) and 1 <= horizon <= AHEAD and not isinstance(horizon, bool):
            ahead = horizon
        else:
            raise QuestionError(
                f"horizon is a number of days from 1 to {AHEAD} or 'week', not {horizon!r}; a day "
                "to forecast from is given as origin="
            )
        if ahead != TOMORROW and self.predictor.week_stack is None:
            raise QuestionError(f"the model in {self.folder} speaks of tomorrow only")
        return ahead

    def _origin(self, origin: date | str, *, allow_partial: bool) -> ForecastOrigin:
        day: date | Literal["latest"]
        if isinstance(origin, str) and origin != "latest":
            try:
                day = date.fromisoformat(origin)
            except ValueError:
                raise QuestionError(
                    f"origin {origin!r} is neither a day like 2014-06-01 nor latest"
                ) from None
        else:
            day = "latest" if isinstance(origin, str) else origin
        try:
            return resolve_origin(self.predictor.settings, day, allow_partial=allow_partial)
        except ForecastError as error:
            message = str(error)
            for flag, argument in FLAGS.items():
                message = message.replace(flag, argument)
            raise QuestionError(message) from None


def load_model(
    folder: Path | str, store: Path | str | None = None, config: Path | str | None = None
) -> LoadedModel:
    """A trained model and the store that it forecasts from; calibrated, if it was not."""
    settings = load_settings(
        Path(config) if config else None, {"store": Path(store) if store else None}
    ).settings
    if not Path(folder).is_dir():
        raise ModelMissing(f"no model in {folder}: `gdelphi train` makes one")
    predictor = Predictor(settings, Path(folder))
    ensure_calibrated(predictor)
    return LoadedModel(predictor, folder)
