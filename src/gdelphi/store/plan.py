"""Which files a run has to fetch: what the archive lists, less what the ledger has."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from gdelphi.common.errors import ConfigError
from gdelphi.common.sections import IngestSettings
from gdelphi.gdelt.archive import Listing
from gdelphi.gdelt.file_names import SourceFile, gaps
from gdelphi.store.ledger import Entry

FOLLOWED_DAYS = 30  # files that were in no list on their day are looked for so long


@dataclass(frozen=True)
class DayWindow:
    """The days that a run is about, and in words how they were chosen."""

    since: date | None
    until: date | None
    chosen: str
    heal: bool  # files that the ledger knows are looked at whatever their day


@dataclass(frozen=True)
class FileTask:
    """A file to fetch and the reason."""

    file: SourceFile
    why: str
    entered: bool  # the ledger has a row for it


@dataclass
class Plan:
    """What a run will do."""

    window: DayWindow
    tasks: list[FileTask] = field(default_factory=list)
    had: int = 0
    outside: int = 0
    gaps: list[SourceFile] = field(default_factory=list)

    @property
    def size(self) -> int | None:
        """Bytes to fetch, or None where the archive does not tell."""
        sizes = [task.file.size for task in self.tasks]
        return sum(size for size in sizes if size) if any(sizes) else None

    @property
    def reasons(self) -> Counter[str]:
        return Counter(task.why for task in self.tasks)


def choose_window(
    listing: Listing,
    settings: IngestSettings,
    *,
    since: date | None,
    until: date | None,
    loaded: tuple[date, date] | None,
) -> DayWindow:
    """The days of a run. Without `since`: from FOLLOWED_DAYS before the last day that this archive
    has brought, but not before the first: GDELT puts files on its site days late.

    A store that has nothing from this archive takes all of a small one, and the last
    `default_days` of a large one (GDELT's own has more than forty years).
    """
    if since and until and since > until:
        raise ConfigError(f"--since {since} is after --until {until}: no day lies between them")
    if since or listing.single:
        return DayWindow(since, until, "as asked", heal=False)
    if loaded:
        first = max(loaded[0], loaded[1] - timedelta(days=FOLLOWED_DAYS))
        words = f"from the last day in the store, and what came late in {FOLLOWED_DAYS} days"
        return DayWindow(first, until, words, heal=True)
    size = sum(file.size or 0 for file in listing.files.values())
    newest = max((file.last_day for file in listing.files.values() if file.last_day), default=None)
    if newest is None or size <= settings.default_gigabytes * 1e9:
        return DayWindow(None, until, "all that the archive has", heal=True)
    first = min(newest, until or newest) - timedelta(days=settings.default_days - 1)
    words = f"the last {settings.default_days} days of a large archive (--since takes more)"
    return DayWindow(first, until, words, heal=True)


def make_plan(
    listing: Listing,
    known: Mapping[str, Entry],
    elsewhere: set[tuple[str, str]],
    window: DayWindow,
    *,
    force: bool,
    stamp: Callable[[SourceFile], str | None],
) -> Plan:
    """Compare the archive's list with the ledger."""
    plan = Plan(window)
    in_order = sorted(
        listing.files.values(), key=lambda file: (file.first_day or date.min, file.name)
    )
    for file in in_order:
        entry = known.get(file.name)
        inside = file.overlaps(window.since, window.until)
        if not inside and not (window.heal and entry and file.overlaps(None, window.until)):
            plan.outside += 1
            continue
        why = _why(file, entry, elsewhere, stamp)
        if why is None and force and inside:
            why = "forced"
        if why is None:
            plan.had += 1
        else:
            plan.tasks.append(FileTask(file, why, entry is not None))
    absent = [] if listing.single else gaps(in_order, window.since, window.until)
    plan.gaps = [file for file in absent if file.name not in known]
    return plan


def _why(
    file: SourceFile,
    entry: Entry | None,
    elsewhere: set[tuple[str, str]],
    stamp: Callable[[SourceFile], str | None],
) -> str | None:
    """The reason to fetch a file, or None where the store has it."""
    if entry is None:
        return None if file.md5 and (file.name, file.md5) in elsewhere else "new"
    if entry.status != "loaded":
        return "new" if entry.status == "listed" else f"{entry.status} before"
    if file.md5 is not None:
        return "changed at source" if file.md5 != entry.md5 else None
    now = stamp(file)
    return "changed at source" if now is not None and now != entry.stamp else None
