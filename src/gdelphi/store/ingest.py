"""Ingesting an archive: list, subtract, fetch, load.

Files are prepared in threads (`prepare.py`) while the main thread loads them (`fast_load.py`). The
plan is written into the ledger first, so a killed run leaves on record what it owed. A file that
cannot be loaded is noted there with the reason, and the run goes on with the next.
"""

import contextlib
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gdelphi.common.progress import SILENT
from gdelphi.common.sections import IngestSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt.archive import (
    Archive,
    Listing,
    open_archive,
)
from gdelphi.store import ledger
from gdelphi.store.connection import (
    Connection,
    Store,
)
from gdelphi.store.fast_load import ReadyFile, load_files
from gdelphi.store.ledger import Counts, Entry
from gdelphi.store.migrate import utc_now
from gdelphi.store.plan import (
    Plan,
    choose_window,
    make_plan,
)
from gdelphi.store.prepare import (
    FileProblem,
    Preparation,
    problem_of,
    work_folder,
)
from gdelphi.store.rows import REASON_KIND
from gdelphi.store.sums import TOLD, in_files

SMALL_RUN = 60_000  # rows; a run that brings fewer leaves a piece that is worth merging
SMALL_RUNS = 64  # that many small runs, two thirds of a day of quarter hours, make merging due
COUNT_NAMES = ("rows_in", "accepted", "rejected", "duplicates", "repaired")


class IngestProgress(Protocol):
    """What a caller may watch; `fetched` is called from threads."""

    def planned(self, plan: Plan) -> None: ...
    def fetched(self, size: int) -> None: ...
    def file_done(self, rows: int) -> None: ...


@dataclass(frozen=True)
class IngestRequest:
    """Which days, and how; single files in place of a whole archive."""

    files: tuple[Path, ...] = ()
    since: date | None = None
    until: date | None = None
    force: bool = False


@dataclass
class IngestResult:
    """What a run did, or in a dry run would do."""

    archive: str
    listing: Listing
    plan: Plan
    loaded: int = 0
    rows_in: int = 0
    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    repaired: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    not_tried: int = 0
    reject_reasons: Counter[str] = field(default_factory=Counter)
    unknown_codes: list[tuple[Any, ...]] = field(default_factory=list)  # kind, code, rows
    seconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether all that was asked for is in the store or known to be missing at the source.

        A listed file that the archive turns out not to have is an alarm once; after that the ledger
        knows, and it is tried again without one.
        """
        return not self.not_tried and not any(
            problem.is_new or problem.status != "missing" for problem in self.problems
        )

    def add_file(self, counts: Counts) -> None:
        self.loaded += 1
        for name in COUNT_NAMES:
            setattr(self, name, getattr(self, name) + getattr(counts, name))


def ingest(
    settings: Settings, request: IngestRequest | None = None, progress: IngestProgress | None = None
) -> IngestResult:
    """Bring what an archive has, and the store lacks, into the store."""
    began = time.monotonic()
    request = request or IngestRequest()
    with contextlib.closing(open_archive(settings.ingest, request.files)) as archive:
        listing = archive.list_files(settings.ingest)
        with Store(settings).writing() as connection:
            plan = _plan(connection, settings.ingest, archive, listing, request)
            run = _Run(connection, archive, IngestResult(archive.label, listing, plan), progress)
            with work_folder(connection.store.place.scratch) as folder:
                run.carry_out(settings.ingest, folder)
    run.result.seconds = time.monotonic() - began
    return run.result


def plan_ingest(settings: Settings, request: IngestRequest | None = None) -> IngestResult:
    """What `ingest` would do; nothing is fetched but the archive's lists, nothing is written."""
    request = request or IngestRequest()
    store = Store(settings)
    with contextlib.closing(open_archive(settings.ingest, request.files)) as archive:
        listing = archive.list_files(settings.ingest)
        with store.reading() if store.exists() else contextlib.nullcontext() as connection:
            plan = _plan(connection, settings.ingest, archive, listing, request)
        return IngestResult(archive.label, listing, plan)


def _plan(
    connection: Connection | None,
    settings: IngestSettings,
    archive: Archive,
    listing: Listing,
    request: IngestRequest,
) -> Plan:
    """Compare what the archive lists with the ledger; without a store, nothing is known."""
    known: dict[str, Entry] = {}
    elsewhere: set[tuple[str, str]] = set()
    loaded = None
    if connection is not None:
        known = ledger.entries(connection, archive.label)
        elsewhere = ledger.loaded_elsewhere(connection, archive.label)
        loaded = ledger.loaded_days(connection, archive.label)
    window = choose_window(
        listing, settings, since=request.since, until=request.until, loaded=loaded
    )
    return make_plan(listing, known, elsewhere, window, force=request.force, stamp=archive.stamp)


class _Run:
    """One run over one archive, with the store open."""

    def __init__(
        self,
        connection: Connection,
        archive: Archive,
        result: IngestResult,
        progress: IngestProgress | None,
    ) -> None:
        self.connection = connection
        self.archive = archive
        self.result = result
        self.progress = progress or SILENT
        self.run_id = uuid.uuid4().hex
        self.file_ids: list[int] = []

    def carry_out(self, settings: IngestSettings, folder: Path) -> None:
        known = self.connection.retry(self._begin)
        self.progress.planned(self.result.plan)
        preparation = Preparation(self.archive, settings, known, folder, self.progress.fetched)
        tasks = deque(self.result.plan.tasks)
        for outcomes in preparation.deliver(tasks):
            self._note(known, [outcome for outcome in outcomes if isinstance(outcome, FileProblem)])
            self._load(known, [outcome for outcome in outcomes if isinstance(outcome, ReadyFile)])
            self.connection.let_others_in()
        self.result.not_tried = len(tasks)
        self.connection.retry(self._finish)

    def _begin(self) -> dict[str, Entry]:
        plan, label = self.result.plan, self.archive.label
        new = [task.file for task in plan.tasks if not task.entered]
        with self.connection.transaction():
            ledger.enter(self.connection, label, new, "listed")
            ledger.enter(self.connection, label, plan.gaps, "missing", "in no list of the archive")
            self.connection.rows(
                "INSERT INTO runs (run_id, archive, since, until, started_at, planned) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [
                    self.run_id, label, plan.window.since, plan.window.until, utc_now(),
                    len(plan.tasks),
                ],
            )  # fmt: skip
        return ledger.entries(self.connection, label)

    def _load(self, known: dict[str, Entry], batch: list[ReadyFile]) -> None:
        again = self.connection.retry
        loaded = again(lambda: load_files(self.connection, batch)) if batch else {}
        for ready in batch:
            counts = loaded[ready.file_id]
            ready.text.remove()
            if isinstance(counts, Exception):
                name = ready.file.name
                self._note(known, [problem_of(name, counts, known[name].status)])
                continue
            self.archive.discard(ready.fetched.path, spoiled=False)
            self.file_ids.append(ready.file_id)
            self.result.add_file(counts)
            self.progress.file_done(counts.rows_in)

    def _note(self, known: dict[str, Entry], problems: Iterable[FileProblem]) -> None:
        for problem in problems:
            self.connection.retry(partial(self._note_problem, known, problem))
            self.result.problems.append(problem)
            self.progress.file_done(0)

    def _note_problem(self, known: dict[str, Entry], problem: FileProblem) -> None:
        with self.connection.transaction():
            file_id = known[problem.name].file_id
            ledger.note_problem(self.connection, file_id, problem.status, problem.reason)

    def _finish(self) -> None:
        result = self.result
        if result.rejected:
            reasons = self.connection.rows(
                f"SELECT {REASON_KIND}, sum(rejects.rows)::BIGINT "
                "FROM rejects JOIN ledger USING (file_id) "
                "WHERE loaded_at >= (SELECT started_at FROM runs WHERE run_id = ?) GROUP BY ALL",
                [self.run_id],
            )
            result.reject_reasons = Counter(dict(reasons))
        if result.loaded:
            result.unknown_codes = self.connection.rows(
                "SELECT kind, code, sum(rows)::BIGINT FROM odd_codes "
                f"WHERE {in_files(self.file_ids)} AND kind <> '{TOLD}' "
                "GROUP BY ALL ORDER BY 3 DESC, 2"
            )
        statuses = Counter(problem.status for problem in result.problems)
        with self.connection.transaction():
            self.connection.rows(
                "UPDATE runs SET finished_at = ?, loaded = ?, accepted = ?, missing = ?, "
                "rejected = ?, failed = ?, succeeded = ? WHERE run_id = ?",
                [
                    utc_now(), result.loaded, result.accepted, statuses["missing"],
                    statuses["rejected"], statuses["failed"], result.succeeded, self.run_id,
                ],
            )  # fmt: skip
        if 0 < result.accepted < SMALL_RUN and self._count_small_run() >= SMALL_RUNS:
            self.connection.compact()
            self.connection.rows("DELETE FROM meta WHERE key = 'small_runs'")

    def _count_small_run(self) -> int:
        """The number of small runs since the store was last compacted, with this one."""
        before = self.connection.rows("SELECT value FROM meta WHERE key = 'small_runs'")
        number = 1 + (int(before[0][0]) if before else 0)
        with self.connection.transaction():
            self.connection.rows("DELETE FROM meta WHERE key = 'small_runs'")
            self.connection.rows("INSERT INTO meta VALUES ('small_runs', ?)", [str(number)])
        return number
