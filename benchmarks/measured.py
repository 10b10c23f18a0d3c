"""What the benchmarks measure, each job in a process of its own.

`python measured.py JOB` takes a job as JSON (its name and arguments), carries it out and prints
what it found as JSON. Time is taken inside, from call to return, so that starting Python and
importing count for nobody; memory is the peak of the whole process.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from gdelphi.common.settings import Settings, load_settings
from gdelphi.gdelt.layouts import BY_NAME, Layout
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from gdelphi.store.status import read_status
from made_archive import DAILY_ROWS, list_lines

import_module("pandas")  # DuckDB imports it with the first parameter it is given; see above

Found = dict[str, Any]

ROW_GROUP = 122_880  # rows that DuckDB writes as one


def settings_for(store: str, archive: str, label: str | None = None) -> Settings:
    downloads = Path(store).with_suffix(".downloads")
    given = {"store": store, "ingest.archive": archive, "ingest.downloads": downloads}
    return load_settings(flags={**given, "ingest.label": label}).settings


def peak_megabytes() -> float:
    """Peak memory of this process.

    Linux counts the parent's memory into a child's ru_maxrss (it is taken over at exec), so the
    kernel's own high-water mark is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def gdelphi(*, store: str, archive: str, label: str | None = None) -> Found:
    """An archive's zips into a store; a new one is made with its schema."""
    settings = settings_for(store, archive, label)
    began = time.perf_counter()
    result = ingest(settings)
    seconds = time.perf_counter() - began
    if not result.succeeded or result.rejected or result.duplicates:
        raise SystemExit(f"{archive}: {result.rejected} rejected, {result.problems}")
    return {"seconds": seconds, "rows": result.accepted, "files": result.loaded}


def empty_store(*, store: str) -> Found:
    """A store with nothing in it."""
    settings = settings_for(store, ".")
    began = time.perf_counter()
    with Store(settings).writing():
        pass
    return {"seconds": time.perf_counter() - began, "rows": 0}


def bare_duckdb(*, texts: Sequence[str], database: str, layout: str) -> Found:
    """Unzipped texts into a table by DuckDB's own reader: nothing checked, marked or noted."""
    import duckdb

    kind = BY_NAME[layout]
    types = ", ".join(f"'{name}': '{each}'" for name, each in kind.columns.items())
    began = time.perf_counter()
    with closing(duckdb.connect(database)) as connection:
        connection.execute(
            f"""
            CREATE TABLE events AS FROM read_csv({list(texts)!r}, columns = {{{types}}},
                auto_detect = false, header = false, delim = '\t', quote = '', escape = '',
                nullstr = '', dateformat = '%Y%m%d', timestampformat = '{kind.time_format}')
            """
        )
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "rows": _rows_of(database)}


def pandas(*, zips: Sequence[str], database: str, layout: str) -> Found:
    """Zips through pandas into the same kind of table."""
    import duckdb
    import pandas as pd

    kind = BY_NAME[layout]
    texts = [name for name, each in kind.columns.items() if each in _AS_TEXT]
    dtypes: Any = dict.fromkeys(texts, "str")
    began = time.perf_counter()
    with closing(duckdb.connect(database)) as connection:
        typed = ", ".join(f"{name} {each}" for name, each in kind.columns.items())
        connection.execute(f"CREATE TABLE events ({typed})")
        connection.execute("BEGIN TRANSACTION")
        for path in zips:
            frame = pd.read_csv(
                path, sep="\t", header=None, names=list(kind.columns), dtype=dtypes, quoting=3,
                keep_default_na=False, na_values=[""], low_memory=False,
            )  # fmt: skip
            connection.register("frame", frame)
            connection.execute(f"INSERT INTO events SELECT {', '.join(_casts(kind))} FROM frame")
            connection.unregister("frame")
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "rows": _rows_of(database)}


_AS_TEXT = ("VARCHAR", "DATE", "TIMESTAMP")


def _casts(layout: Layout) -> Iterator[str]:
    for name, kind in layout.columns.items():
        if kind in ("DATE", "TIMESTAMP"):
            form = "%Y%m%d" if kind == "DATE" else layout.time_format
            yield f"strptime({name}, '{form}')::{kind}"
        else:
            yield f"{name}::{kind}"


def _rows_of(database: str) -> int:
    import duckdb

    with closing(duckdb.connect(database, read_only=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchall()[0][0])


def live(*, stage: str, lanes: Sequence[dict[str, Any]]) -> Found:
    """Files that arrive one by one, each followed by a run of `ingest`.

    A lane is a store and an archive into which files of the stage are moved in their order. Lanes
    take turns, so what the machine does besides falls on all of them alike.
    """
    seconds: list[list[float]] = [[] for _ in lanes]
    for turn in range(len(lanes[0]["names"])):
        for lane, taken in zip(lanes, seconds, strict=True):
            arrive(Path(stage), Path(lane["archive"]), [lane["names"][turn]])
            settings = settings_for(lane["store"], lane["archive"], "live")
            began = time.perf_counter()
            result = ingest(settings)
            taken.append(time.perf_counter() - began)
            if result.loaded != 1:
                raise SystemExit(f"{lane['names'][turn]}: {result.loaded} files loaded, not one")
    return {"seconds": seconds}


def arrive(stage: Path, archive: Path, names: Sequence[str]) -> None:
    """Files come into an archive and into its list."""
    with (archive / "masterfilelist.txt").open("a") as master:
        for name in names:
            (archive / name).hardlink_to(stage / name)
            master.write(list_lines(stage / name)[0])


def status(*, store: str) -> Found:
    """The time of `gdelphi status`."""
    settings = settings_for(store, ".")
    began = time.perf_counter()
    found = read_status(settings)
    return {"seconds": time.perf_counter() - began, "rows": found.rows}


def multiply(*, store: str, rows: int) -> Found:
    """The one daily of a store again and again, with later days and higher ids, and its ledger.

    A copy is exactly one row group. Whatever else is inserted leaves a row group that is not full,
    and the store's next checkpoints would spend their time on merging hundreds of those, which a
    store that grew by itself has done on the way.
    """
    copies = -(-rows // ROW_GROUP)
    began = time.perf_counter()
    with Store(settings_for(store, ".")).writing() as connection:
        connection.rows(f"CREATE TEMP TABLE base AS FROM events LIMIT {ROW_GROUP}")
        for number in range(1, copies):
            connection.rows(_shifted(number))
        connection.rows(
            f"""
            INSERT INTO ledger SELECT * EXCLUDE (n) REPLACE (
                nextval('file_ids') AS file_id, first_day + n::INTEGER AS first_day,
                last_day + n::INTEGER AS last_day, md5(n::VARCHAR) AS md5,
                {ROW_GROUP} AS rows_in, {ROW_GROUP} AS accepted,
                strftime(first_day + n::INTEGER, '%Y%m%d') || '.export.CSV.zip' AS name
            ) FROM (SELECT ledger.*, n FROM ledger, range(1, {copies}) numbers(n) ORDER BY n)
            """
        )
        total = connection.value("SELECT count(*) FROM events")
    return {"seconds": time.perf_counter() - began, "rows": total, "days": copies}


def _shifted(days: int) -> str:
    later = f"NewsDay + {days}"
    return f"""
        INSERT INTO events SELECT * REPLACE (
            GLOBALEVENTID + {days * DAILY_ROWS} AS GLOBALEVENTID, SQLDATE + {days} AS SQLDATE,
            strftime(SQLDATE + {days}, '%Y%m')::INTEGER AS MonthYear,
            year(SQLDATE + {days}) AS Year, ({later})::TIMESTAMP AS DATEADDED,
            {later} AS NewsDay, {days + 1} AS FileId
        ) FROM base
    """


JOBS: dict[str, Callable[..., Found]] = {
    "gdelphi": gdelphi,
    "empty_store": empty_store,
    "bare_duckdb": bare_duckdb,
    "pandas": pandas,
    "live": live,
    "status": status,
    "multiply": multiply,
}


def warm_up() -> None:
    """DuckDB imports pandas, if installed, when the first value is bound: no part of a job."""
    import duckdb

    with closing(duckdb.connect()) as connection:
        connection.execute("SELECT ?", [1]).fetchall()


def main() -> None:
    job = json.loads(sys.argv[1] if sys.argv[1] != "-" else sys.stdin.read())
    warm_up()
    found = JOBS[job.pop("job")](**job)
    print(json.dumps({**found, "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
