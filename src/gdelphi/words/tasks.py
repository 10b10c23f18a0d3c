"""What `gdelphi text train` can train."""

from gdelphi.config import Settings
from gdelphi.errors import ConfigError
from gdelphi.packing import OnPacked
from gdelphi.words.learning import ForecastTask, TextGround, text_ground
from gdelphi.words.naming_task import NamingTask
from gdelphi.words.training import Task


def make_task(settings: Settings, kind: str, on_packed: OnPacked | None = None) -> Task:
    """A task by its name, forecaster or namer."""
    if kind not in ("forecaster", "namer"):
        raise ConfigError(f"no model of words is called {kind!r}: forecaster, namer")
    return task_on(text_ground(settings, on_packed), kind)


def task_on(ground: TextGround, kind: str) -> Task:
    """The same, of data that are there."""
    return ForecastTask(ground) if kind == "forecaster" else NamingTask(ground)
