"""gdelphi: from the world's coded news events to forecasts that say how good they are."""

from importlib.metadata import version

__version__ = version("gdelphi")
