"""Long work here, or shared with the workers that `flows.runner` names.

The flows stand above this package and are not everybody's: they are imported by name, and only
when they are asked for.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import CONFIG_NAME, ENV_CONFIG, Settings, with_absolute_paths

T = TypeVar("T")


def carry_out(
    settings: Settings, name: str, work: Callable[[Settings], T], config: Path | None
) -> T:
    """What a command does: in this process and its children, or as a flow whose portions are done
    by workers elsewhere. These have other folders: the paths in the settings are absolute then."""
    if settings.flows.runner == "local":
        return work(settings)
    whole = with_absolute_paths(settings)
    result: T = import_flows("gdelphi_flows.serve").run_shared(
        whole, name, lambda: work(whole), config or found_config()
    )
    return result


def found_config() -> Path | None:
    """The settings file in force when none is given: a run that starts elsewhere has to be told."""
    named = os.environ.get(ENV_CONFIG)
    if named:
        return Path(named)
    return Path(CONFIG_NAME) if Path(CONFIG_NAME).is_file() else None


def import_flows(module: str) -> Any:
    """A module of the flows, which may not be installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise GdelphiError(
            f'the flows are not installed ({error}): pip install "gdelphi[flows]"'
        ) from None
