"""What `gdelphi text train` can train."""

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import Settings
from gdelphi.measures.packing import OnPacked
from gdelphi.text.forecaster_task import (
    ForecastTask,
    TextData,
    load_text_data,
)
from gdelphi.text.namer_task import NamingTask
from gdelphi.text.train import TextTask


def make_task(settings: Settings, kind: str, on_packed: OnPacked | None = None) -> TextTask:
    """A task by its name, forecaster or namer."""
    if kind not in ("forecaster", "namer"):
        raise ConfigError(f"no model of words is called {kind!r}: forecaster, namer")
    return task_on(load_text_data(settings, on_packed), kind)


def task_on(ground: TextData, kind: str) -> TextTask:
    """The same, of data that are there."""
    return ForecastTask(ground) if kind == "forecaster" else NamingTask(ground)
