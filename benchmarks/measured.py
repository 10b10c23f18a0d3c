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
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from gdelphi.common.settings import Settings, load_settings
from gdelphi.gdelt.layouts import BY_NAME, Layout
from gdelphi.measures.embed import embed
from gdelphi.measures.packing import make_sequences
from gdelphi.measures.profiles import read_profiles
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from gdelphi.store.status import read_status
from gdelphi.store.sums import TABLES
from made_archive import list_lines

import_module("pandas")  # DuckDB imports it with the first parameter it is given; see above

Found = dict[str, Any]

ROW_GROUP = 122_880  # rows that DuckDB writes as one
TOLD_EVERY = 100  # copies, after which it is told how far `multiply` is


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


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started and saw end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


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
    """The dailies of a store again and again, with later days and higher ids, and their ledger. A
    store that has been multiplied before goes on from there.

    A copy is exactly one row group. Whatever else is inserted leaves a row group that is not full,
    and the store's next checkpoints would spend their time on merging hundreds of those, which a
    store that grew by itself has done on the way. The sums of a copy are those of the dailies,
    moved likewise: to add up all rows takes time.
    """
    copies = -(-rows // ROW_GROUP)
    began = time.perf_counter()
    with Store(settings_for(store, ".")).writing() as connection:
        had = connection.value("SELECT count(*) FROM events") // ROW_GROUP
        connection.rows(
            f"CREATE TEMP TABLE base AS FROM events ORDER BY GLOBALEVENTID LIMIT {ROW_GROUP}"
        )
        days = connection.value("SELECT count(DISTINCT NewsDay) FROM base")
        ids = connection.value("SELECT max(GLOBALEVENTID) - min(GLOBALEVENTID) + 1 FROM base")
        last = connection.value("SELECT max(NewsDay) FROM base")
        for number in range(had, copies):
            connection.rows(_shifted(number * days, number * ids))
            if number % TOLD_EVERY == 0:
                taken = time.perf_counter() - began
                print(f"  {number * ROW_GROUP:,} rows, {taken:.0f} s", file=sys.stderr, flush=True)
        connection.rows(
            f"""
            INSERT INTO ledger SELECT * EXCLUDE (n) REPLACE (
                file_id + n AS file_id, first_day + n AS first_day,
                last_day + n AS last_day,
                md5(concat(name, n)) AS md5, {ROW_GROUP // days} AS rows_in,
                {ROW_GROUP // days} AS accepted,
                strftime(first_day + n, '%Y%m%d') || '.export.CSV.zip' AS name
            ) FROM (
                SELECT ledger.*, ({days} * n)::INTEGER AS n
                FROM ledger, range({had}, {copies}) numbers(n) WHERE first_day <= DATE '{last}'
                ORDER BY n, file_id
            )
            """
        )
        for table in TABLES:
            connection.rows(_shifted_sums(table, days, ids, range(had, copies), last))
        total = connection.value("SELECT count(*) FROM events")
    return {"seconds": time.perf_counter() - began, "rows": total, "days": copies * days}


def _shifted(days: int, ids: int) -> str:
    later = f"NewsDay + {days}"
    return f"""
        INSERT INTO events SELECT * REPLACE (
            GLOBALEVENTID + {ids} AS GLOBALEVENTID, SQLDATE + {days} AS SQLDATE,
            strftime(SQLDATE + {days}, '%Y%m')::INTEGER AS MonthYear,
            year(SQLDATE + {days}) AS Year, ({later})::TIMESTAMP AS DATEADDED,
            {later} AS NewsDay, FileId + {days} AS FileId
        ) FROM base
    """


def _shifted_sums(table: str, days: int, ids: int, copies: range, last: date) -> str:
    """The sums of the dailies for each of their copies, with the days, files and ids of that."""
    moved = {
        "file_days": f"""FileId + n * {days} AS FileId,
            ids + rows * n * {ids} AS ids,
            squared_ids + 2 * ids * n * {ids} + rows * n * {ids} * n * {ids} AS squared_ids""",
        "day_sums": "",
        "odd_codes": f"FileId + n * {days} AS FileId",
    }[table]
    later = f"NewsDay + (n * {days})::INTEGER AS NewsDay"
    return f"""
        INSERT INTO {table} SELECT * EXCLUDE (n) REPLACE ({", ".join(filter(None, (later, moved)))})
        FROM (SELECT sums.*, n::HUGEINT AS n
            FROM {table} sums, range({copies.start}, {copies.stop}) numbers(n)
            WHERE NewsDay <= DATE '{last}')
        ORDER BY NewsDay
    """


# --- every stage of a day, on a store of any size (scale.py) --------------------------------------


def scale_settings(store: str, streams: int) -> Settings:
    """Settings under which stores of any size are measured from a day on, which is noted beside
    the store: as many days of each, with the same split of them."""
    first = date.fromisoformat(Path(store).with_suffix(".first").read_text())
    given = {
        "store": store,
        "measures.since": first,
        "ingest.archive": ".",
        "embed.encoder": "hashing",
        "sequences.streams": streams,
        "sequences.context_days": 20,
        "sequences.memory_days": 60,
        "sequences.variants": 2,
        "split.train_until": first + timedelta(days=49),
        "split.validation_a_until": first + timedelta(days=61),
        "split.validation_b_until": first + timedelta(days=73),
        "split.embargo_days": 1,
        "train.steps": 4,
        "train.decoder_steps": 2,
        "train.cell_epochs": 1,
        "train.device": "cpu",
    }
    return load_settings(flags=given).settings


def profiles(*, store: str, streams: int, days: int) -> Found:
    """The profiles of the largest streams over the last days."""
    settings = scale_settings(store, streams)
    with Store(settings).reading() as connection:
        last = connection.value("SELECT max(NewsDay) FROM file_days")
        since = last - timedelta(days=days - 1)
        largest = connection.rows(
            "SELECT Stream FROM daily_counts WHERE NewsDay BETWEEN ? AND ? AND Stream <> 'WORLD' "
            "GROUP BY ALL ORDER BY sum(rows) DESC, 1 LIMIT ?",
            [last - timedelta(days=30), last, streams],
        )
    began = time.perf_counter()
    read_profiles(settings, "root", [stream for (stream,) in largest], since=since, until=last)
    return {"seconds": time.perf_counter() - began}


def embed_days(*, store: str, streams: int) -> Found:
    """`gdelphi embed`."""
    began = time.perf_counter()
    embed(scale_settings(store, streams))
    return {"seconds": time.perf_counter() - began}


def pack(*, store: str, streams: int) -> Found:
    """`gdelphi sequences`."""
    settings = scale_settings(store, streams)
    began = time.perf_counter()
    packed = make_sequences(settings).packed
    return {"seconds": time.perf_counter() - began, "bytes": packed.bytes}


def train_model(*, store: str, streams: int, model: str) -> Found:
    """A model of a few steps, calibrated: it forecasts badly, and at the usual cost."""
    from gdelphi.forecast.calibrate import calibrate
    from gdelphi.forecast.predictor import Predictor
    from gdelphi.model.train import train

    settings = scale_settings(store, streams)
    began = time.perf_counter()
    train(settings, Path(model))
    calibrate(Predictor(settings, Path(model)))
    return {"seconds": time.perf_counter() - began}


def forecast_day(*, store: str, streams: int, model: str, as_of: str) -> Found:
    """`gdelphi forecast`, of the last complete day."""
    from gdelphi.forecast.forecast import ForecastRequest, forecast

    settings = scale_settings(store, streams)
    day = date.fromisoformat(as_of)
    began = time.perf_counter()
    forecast(settings, ForecastRequest(Path(model), as_of=day, horizon=1))
    return {"seconds": time.perf_counter() - began}


def report_day(*, store: str, streams: int, model: str, as_of: str) -> Found:
    """`gdelphi report`, of the last forecast."""
    from gdelphi.report.report import ReportRequest, make_report

    settings = scale_settings(store, streams)
    request = ReportRequest(as_of=date.fromisoformat(as_of), model=Path(model))
    began = time.perf_counter()
    make_report(settings, request)
    return {"seconds": time.perf_counter() - began}


JOBS: dict[str, Callable[..., Found]] = {
    "gdelphi": gdelphi,
    "empty_store": empty_store,
    "bare_duckdb": bare_duckdb,
    "pandas": pandas,
    "live": live,
    "status": status,
    "multiply": multiply,
    "profiles": profiles,
    "embed": embed_days,
    "pack": pack,
    "train": train_model,
    "forecast": forecast_day,
    "report": report_day,
}


IMPORTED: dict[str, Sequence[str]] = {
    "train": ("gdelphi.forecast.calibrate", "gdelphi.model.train"),
    "forecast": ("gdelphi.forecast.forecast",),
    "report": ("gdelphi.report.report",),
}
"""what jobs import that others do without"""


def warm_up(job: str) -> None:
    """Imports are no part of a job; DuckDB imports pandas when the first value is bound."""
    import duckdb

    for module in IMPORTED.get(job, ()):
        import_module(module)

    with closing(duckdb.connect()) as connection:
        connection.execute("SELECT ?", [1]).fetchall()


def main() -> None:
    job = json.loads(sys.argv[1] if sys.argv[1] != "-" else sys.stdin.read())
    warm_up(job["job"])
    before = cpu_seconds()
    found = JOBS[job.pop("job")](**job)
    cpu = cpu_seconds() - before
    print(json.dumps({**found, "cpu": cpu, "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
