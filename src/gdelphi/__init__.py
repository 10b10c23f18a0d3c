"""gdelphi: from the world's coded news events to forecasts that say how good they are."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdelphi.forecast.loaded_model import LoadedModel

__version__ = version("gdelphi")


def load(
    model: Path | str, store: Path | str | None = None, config: Path | str | None = None
) -> "LoadedModel":
    """A trained model at work on a store: `load("models/current").forecast(["Kenya", "SO"])`."""
    from gdelphi.forecast.loaded_model import load_model

    return load_model(model, store, config)
