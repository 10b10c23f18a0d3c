"""A command as a flow: what it shares is done by the workers that the settings choose."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from gdelphi.common.settings import Settings
from gdelphi_flows.shared import chosen_workers

T = TypeVar("T")


def run_as_flow(name: str, settings: Settings, work: Callable[[], T]) -> T:
    """What a command does, as a flow whose portions are done by the chosen workers."""
    doing = _Doing(settings, work)
    before = _doing.set(doing)
    try:
        flow(name=f"gdelphi-{name}", persist_result=False)(_do)(return_state=True)
    finally:
        _doing.reset(before)
    if doing.error is not None:  # here, where Prefect prints no traceback of it
        raise doing.error
    result: T = doing.result
    return result


@dataclass
class _Doing:
    settings: Settings
    work: Callable[[], Any]
    result: Any = None
    error: Exception | None = None


# Not a parameter of the flow: those, like the flow itself, are sent along with each portion.
_doing: ContextVar[_Doing] = ContextVar("doing")


def _do() -> State[None]:
    doing = _doing.get()
    try:
        with chosen_workers(doing.settings):
            doing.result = doing.work()
    except Exception as error:  # noqa: BLE001 - it is raised when the flow has ended
        doing.error = error
        return Failed(message=str(error))
    return Completed()
