"""Metrics for TensorBoard, beside metrics.jsonl.

metrics.jsonl is the record: when a run goes on, lines of steps that are done again are dropped from
it. TensorBoard's files can only be added to. So they are written anew from the record when a run
begins, and follow it line by line from there; deleted, nothing is lost.
"""

import shutil
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from gdelphi.common.errors import TrainingError
from gdelphi.model.checkpoint import ModelFolder

FOLDER: Final = "tensorboard"


def summary_writer() -> Any:
    """What writes TensorBoard's files; an error in words where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise TrainingError(
            "--tensorboard needs a package that is not installed: pip install 'gdelphi[board]'"
        ) from None
    return SummaryWriter


class TensorBoardWriter:
    """Shows a folder's metrics in TensorBoard while they are written."""

    def __init__(self, folder: ModelFolder) -> None:
        place = folder.folder / FOLDER
        shutil.rmtree(place, ignore_errors=True)
        self._writer = summary_writer()(str(place))
        for line in folder.lines():
            self.add(line)
        self._folder = folder

    def __enter__(self) -> Self:
        self._folder.on_line = self.add
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.on_line = None
        self._writer.close()

    def add(self, line: Mapping[str, Any]) -> None:
        """Show the numbers of a line."""
        for name, value in numbers_of(line):
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()


def numbers_of(line: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a line of metrics, with the names of what they are in: log_loss/direct/occurs.
    The step is no number of its own."""
    for name, value in line.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{above}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            yield f"{above}{name}", float(value)
