"""Preparing files for loading: fetched, verified, unpacked and recognised, in threads.

At most a window of files is under way, bounded in number and bytes, so memory and disk stay flat
whatever the archive's size. What is ready is delivered in batches large enough for DuckDB to write
full row groups, or as it is when it has waited for some seconds.
"""

import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from gdelphi.common.errors import (
    FetchFailed,
    FileMissing,
    FileRefused,
)
from gdelphi.common.files import is_alive
from gdelphi.common.sections import IngestSettings
from gdelphi.gdelt.archive import Archive
from gdelphi.gdelt.faults import describe_error, raise_if_exhausted
from gdelphi.gdelt.fetch import Fetched
from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import Layout
from gdelphi.gdelt.unpack import (
    UnpackedFile,
    layout_of,
    unpack,
)
from gdelphi.store.fast_load import ReadyFile
from gdelphi.store.ledger import Entry
from gdelphi.store.plan import FileTask
from gdelphi.store.text_table import PassingText, Room

BATCH_BYTES = 3 << 25  # of text: enough for full row groups, short enough for those who wait
BATCH_FILES = 512
BATCH_SECONDS = 5.0  # a ready file waits no longer for company
LARGEST_PASSING = 1 << 24  # zipped bytes of a file whose text is read while it is unpacked
READERS = 2  # threads that make tables of texts while these are unpacked
WINDOW_BYTES = 1 << 26  # zipped bytes under way at once; unpacked they are about ten times that


@dataclass(frozen=True)
class FileProblem:
    """A file that could not be fetched or read, and what the ledger shall say about it."""

    name: str
    status: str
    reason: str
    is_new: bool  # not known before this run
    out_of_reach: bool = False  # the archive did not give it, and may not give the next either


Outcome = ReadyFile | FileProblem


def problem_of(name: str, error: Exception, status_before: str) -> FileProblem:
    """What the ledger shall say about a file that met an error; the system's errors are raised.

    Errors of the disk may pass, so the file counts as failed; all others are in the file's content.
    """
    raise_if_exhausted(error, name)
    explained = isinstance(error, FileMissing | FetchFailed | FileRefused)
    reason = str(error) if explained else f"{name}: {describe_error(error)}"
    if isinstance(error, FileMissing):
        status = "missing"
    else:
        status = "failed" if isinstance(error, FetchFailed | OSError) else "rejected"
    out_of_reach = isinstance(error, FetchFailed)
    return FileProblem(
        name, status, reason, is_new=status_before != status, out_of_reach=out_of_reach
    )


@dataclass(frozen=True)
class Preparation:
    """Prepares the files of one archive; `known` are its entries in the ledger."""

    archive: Archive
    settings: IngestSettings
    known: Mapping[str, Entry]
    folder: Path
    on_bytes: Callable[[int], None]
    readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "read"))
    room: Room = field(default_factory=lambda: Room(2 * BATCH_BYTES))

    def prepare(self, task: FileTask) -> Outcome:
        """Fetch, verify, unpack and recognise one file; runs in a thread.

        Errors of one file end here: they are noted as its problem, and the run goes on.
        """
        try:
            return self._ready(task.file)
        except Exception as error:  # noqa: BLE001 - judged below
            return problem_of(task.file.name, error, self.known[task.file.name].status)

    def _ready(self, file: SourceFile) -> ReadyFile:
        stamp = self.archive.stamp(file)  # before reading: a later change shows
        fetched = self.archive.fetch(file, self.on_bytes)
        file_id = self.known[file.name].file_id
        passing = PassingText(file_id, file.first_day, self.readers, self.room)
        if fetched.size > LARGEST_PASSING:
            passing.leave()
        try:
            text, layout = self._read(fetched, file, passing)
        except BaseException as error:
            passing.leave()
            if not isinstance(error, FileRefused):
                raise
            aside = self.archive.discard(fetched.path, spoiled=True)
            raise FileRefused(f"{error}; kept as {aside}") from None
        table = passing.table(layout)
        return ReadyFile(file_id, self.archive.label, file, fetched, stamp, text, layout, table)

    def _read(
        self, fetched: Fetched, file: SourceFile, passing: PassingText
    ) -> tuple[UnpackedFile, Layout | None]:
        most = int(self.settings.max_unpacked_gigabytes * (1 << 30))
        text = unpack(fetched.path, file, self.folder, most=most, pass_on=passing.pass_on)
        try:
            return text, layout_of(text, file)
        except FileRefused:
            text.remove()
            raise

    def deliver(self, tasks: deque[FileTask]) -> Iterator[list[Outcome]]:
        """Prepare tasks over a moving window; yields what is done, in batches.

        When the last files all failed to be fetched, the archive is out of reach: what is left in
        `tasks` then is for the next run, instead of waiting for each of them in turn.
        """
        patience = max(8, 2 * self.settings.jobs)
        failures_in_a_row = 0
        under_way: dict[Future[Outcome], FileTask] = {}
        batch = _Batch()
        with ThreadPoolExecutor(self.settings.jobs, thread_name_prefix="fetch") as pool:
            try:
                while True:
                    while tasks and failures_in_a_row < patience and _has_room(under_way):
                        task = tasks.popleft()
                        under_way[pool.submit(self.prepare, task)] = task
                    if not under_way:
                        break
                    done, _ = wait(under_way, timeout=batch.patience, return_when=FIRST_COMPLETED)
                    for future in done:
                        del under_way[future]
                        outcome = future.result()
                        failed = isinstance(outcome, FileProblem) and outcome.out_of_reach
                        failures_in_a_row = failures_in_a_row + 1 if failed else 0
                        batch.add(outcome)
                    if failures_in_a_row >= patience:
                        idle = [future for future in under_way if future.cancel()]
                        tasks.extendleft(under_way.pop(future) for future in reversed(idle))
                    if batch.due:
                        yield from self._hand_over(batch)
                yield from self._hand_over(batch)
            except BaseException:
                for future in under_way:
                    future.cancel()
                self.archive.close()  # ends the pauses between tries
                raise
            finally:
                self.readers.shutdown(wait=False, cancel_futures=True)

    def _hand_over(self, batch: "_Batch") -> Iterator[list[Outcome]]:
        taken = batch.take()
        yield taken
        # Whoever took them has loaded them by now.
        for outcome in taken:
            if isinstance(outcome, ReadyFile) and outcome.table is not None:
                self.room.give(outcome.text.size)


def _has_room(under_way: Mapping[Future[Outcome], FileTask]) -> bool:
    size = sum(task.file.size or WINDOW_BYTES // BATCH_FILES for task in under_way.values())
    return not under_way or (len(under_way) < BATCH_FILES and size < WINDOW_BYTES)


class _Batch:
    """Outcomes, until there are enough of them or they have waited long enough."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.size = 0
        self.since = 0.0

    def add(self, outcome: Outcome) -> None:
        if not self.outcomes:
            self.since = time.monotonic()
        self.outcomes.append(outcome)
        self.size += outcome.text.size if isinstance(outcome, ReadyFile) else 0

    @property
    def due(self) -> bool:
        full = self.size >= BATCH_BYTES or len(self.outcomes) >= BATCH_FILES
        return full or self.patience == 0

    @property
    def patience(self) -> float | None:
        """Seconds until the batch is due as it is; None while it is empty."""
        if not self.outcomes:
            return None
        return max(0.0, self.since + BATCH_SECONDS - time.monotonic())

    def take(self) -> list[Outcome]:
        taken = sorted(self.outcomes, key=_by_day)
        self.outcomes, self.size = [], 0
        return taken


def _by_day(outcome: Outcome) -> tuple[date, str]:
    if isinstance(outcome, FileProblem):
        return date.min, outcome.name
    return outcome.file.first_day or date.min, outcome.file.name


@contextlib.contextmanager
def work_folder(place: Path) -> Iterator[Path]:
    """A folder for unpacked texts; those that killed runs left behind are removed."""
    if place.is_dir():
        for old in place.iterdir():
            if old.name.isdigit() and not is_alive(int(old.name)):
                shutil.rmtree(old, ignore_errors=True)
    folder = place / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.rmdir()  # unless another process uses it
