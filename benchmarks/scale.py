"""Whether what is done every day takes longer when the store has more.

Stores of several sizes are made (`--rows 2000000 10000000`), each the beginning of the next, and
every stage of a day is measured on each in turn: status, profiles, a new daily into the store,
`embed` and `sequences` of that day, `forecast`, `report`, with the disk that a store takes and the
peak memory of any stage. A figure is given with its ratio to the smallest store in the same run;
CPU seconds stand beside the time, since a machine that does other work as well stretches time
alone. Rows per second of ingestion against bare DuckDB are measured as in ingest.py.

A day has 20,480 rows unless told otherwise: GDELT's mean since 1979 is about 18,000. So 10 million
rows are 16 months, 50 million 7 years, 300 million 40 years.

MEASURES COVER THE LAST 200 DAYS OF EVERY STORE ALONE (`--measured-days`, 0: all days), by the
setting `measures.since`: to embed 40 years takes a day, and what is measured is the day after. So
what `embed`, `sequences`, `forecast` and `report` look at is the same in all sizes but for the
store itself; how they grow with the days that are measured is asked by `--measured-days 0` on small
stores. A model is trained for a few steps on each store, on as many days. A forecast is made once
before it is measured, as on the day before: it keeps the months that it looks back on.

Disk: about 115 bytes a row for the stores, each of which is the copy of the one before with more
rows; measures of 200 days about 1 GB for each. Figures are written after every stage (`--json`),
so a run that is stopped leaves what it has.

    python benchmarks/scale.py --rows 2000000 10000000 --measured-days 90      minutes
    python benchmarks/scale.py --rows 10000000 50000000 300000000 --json scale.json
                                                            about an hour; 50 GB of disk
    python benchmarks/scale.py --rows 10000000 300000000 --stages status profiles ingest

With `--stores FOLDER` the stores stay, and a later run takes them instead of making them again.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import duckdb

from ingest import ROOT, Benchmark, Ratios, compare_speed, machine, show, verdict
from made_archive import make_dailies
from measured import ROW_GROUP

FIRST_DAY: Final = date(1979, 1, 1)  # GDELT's; 300 million rows then end in 2019, not in the future
GROWTH: Final = 1.3
STATUS_SECONDS: Final = 1.0
PEAK_MB: Final = 2048
FEWEST_DAYS: Final = 80  # that the splits of `measured.scale_settings` need
BYTES_A_ROW: Final = 120  # of a store
MEASURED_BYTES: Final = 300  # of measures, for each row of a day that is measured
MEASURED_DAYS: Final = 200
STAGES: Final = ("speed", "status", "profiles", "ingest", "embed", "pack", "forecast", "report")
PROFILE_DAYS: Final = 60
ALL_EMBEDDED, ALL_PACKED = "embed of the measured days", "pack of the measured days"
TRAINED, FIRST_FORECAST = "train and calibrate", "first forecast"
ONCE: Final = (ALL_EMBEDDED, ALL_PACKED, TRAINED, FIRST_FORECAST)  # and not every day


class Sizes:
    """The stores of a run, from the smallest to the largest, and what was measured on each."""

    def __init__(
        self,
        benchmark: Benchmark,
        rows: Sequence[int],
        *,
        a_day: int,
        streams: int,
        measured_days: int,
        out: Path | None,
        kept: Path | None,
    ) -> None:
        """`measured_days` are the last ones of each store, 0: all; figures are written to `out`.

        Stores are made in the folder `kept`, or taken from there if an earlier run has made them.
        """
        self.benchmark, self.streams, self.a_day = benchmark, streams, a_day
        self.measured_days, self.out = measured_days, out
        folder = kept or benchmark.folder
        self.stores = {size: store_in(folder, size) for size in rows}
        self.days: dict[int, int] = {}
        self.found: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self.began = time.perf_counter()

    def make(self) -> None:
        """Ingest a few dailies, and multiply them; a larger store begins as a copy of a smaller."""
        number = ROW_GROUP // self.a_day
        base = make_dailies(
            self.benchmark.fresh("base"), number, first=FIRST_DAY, rows=ROW_GROUP // number
        )
        smaller: Path | None = None
        for size, store in self.stores.items():
            if is_made(store):
                self.days[size] = days_of(store)
                self.say(f"a store of {size:,} rows and {self.days[size]:,} days is there")
                smaller = store
                continue
            store.parent.mkdir(parents=True, exist_ok=True)
            if smaller:
                shutil.copyfile(smaller, store)
            else:
                self.benchmark.run("gdelphi", store=store, archive=base.folder, label="days")
            made = self.benchmark.run("multiply", store=store, rows=size)
            self.days[size] = days = made["days"]
            left_out = max(days - self.measured_days, 0) if self.measured_days else 0
            first = FIRST_DAY + timedelta(days=left_out)
            store.with_suffix(".first").write_text(first.isoformat())
            smaller = store
            self.note("made", size, made)
            self.say(f"a store of {made['rows']:,} rows, {days:,} days, measured from {first} on")

    def say(self, what: str) -> None:
        """A line of progress, with the seconds since the beginning."""
        print(f"[{time.perf_counter() - self.began:6.0f} s] {what}", flush=True)

    def note(self, stage: str, size: int, found: dict[str, Any]) -> None:
        """Add a figure, and write all there are."""
        self.benchmark.figures.setdefault(stage, {}).setdefault(str(size), []).append(found)
        self.write()

    def write(self) -> None:
        """All figures there are, so that a run that is stopped leaves them."""
        if self.out:
            part = self.out.with_name(f".{self.out.name}.part")
            part.write_text(json.dumps(self.benchmark.figures, indent=2) + "\n")
            part.replace(self.out)

    def model(self, size: int) -> Path:
        """The folder of a store's model."""
        return self.stores[size].with_name("model")

    def measure(self, stage: str, job: str, **arguments: Any) -> None:
        """One job on every store."""
        for size, store in self.stores.items():
            given = {key: self.given(value, size) for key, value in arguments.items()}
            found = self.benchmark.run(job, store=store, **given)
            self.say(f"{stage}, {size:,} rows: {found['seconds']:.2f} s, {found['cpu']:.2f} of CPU")
            self.found.setdefault(stage, {}).setdefault(size, []).append(found)
            self.note(stage, size, found)

    @staticmethod
    def given(value: Any, size: int) -> Any:
        return value(size) if callable(value) else value

    def next_daily(self, turn: int) -> Callable[[int], Path]:
        """A function that makes, for a store of a size, an archive of the day after its last."""

        def made(size: int) -> Path:
            folder = self.benchmark.fresh(f"next-{size}-{turn}")
            day = FIRST_DAY + timedelta(days=self.days[size] + turn)
            next_id = 10**12 + (self.days[size] + turn) * 10**6
            return make_dailies(folder, 1, first=day, next_id=next_id, rows=self.a_day).folder

        return made

    def as_of(self, turn: int) -> Callable[[int], date]:
        return lambda size: FIRST_DAY + timedelta(days=self.days[size] + turn + 1)


def days_of(store: Path) -> int:
    """Days from the first of all stores to the last of this one."""
    with duckdb.connect(str(store), read_only=True) as connection:
        (last,) = connection.execute("SELECT max(NewsDay) FROM file_days").fetchall()[0]
    return (last - FIRST_DAY).days + 1


def measure(sizes: Sizes, stages: Sequence[str], turns: int) -> None:
    """Every stage of a day, on all stores, some days one after the other."""
    streams = {"streams": sizes.streams}
    if {"embed", "pack", "forecast", "report"} & set(stages):
        sizes.measure(ALL_EMBEDDED, "embed", **streams)
        sizes.measure(ALL_PACKED, "pack", **streams)
    if {"forecast", "report"} & set(stages):
        sizes.measure(TRAINED, "train", model=sizes.model, **streams)
        given = {**streams, "model": sizes.model, "as_of": sizes.as_of(-1)}
        sizes.measure(FIRST_FORECAST, "forecast", **given)
    for turn in range(turns):
        for _ in range(3):  # short: one figure would be chance
            sizes.measure("status", "status")
            sizes.measure(
                f"profiles, {PROFILE_DAYS} days", "profiles", days=PROFILE_DAYS, **streams
            )
        if {"ingest", "embed", "pack", "forecast", "report"} & set(stages):
            sizes.measure(
                "ingest a new day", "gdelphi", archive=sizes.next_daily(turn), label="days"
            )
        if {"embed", "pack", "forecast", "report"} & set(stages):
            sizes.measure("embed a new day", "embed", **streams)
            sizes.measure("pack a new day", "pack", **streams)
        given = {**streams, "model": sizes.model, "as_of": sizes.as_of(turn)}
        for stage in ("forecast", "report"):
            if stage in stages:
                sizes.measure(stage, stage, **given)


def tell(sizes: Sizes, figures: dict[str, Any]) -> None:
    """The table: seconds and CPU seconds of each size, ratios to the smallest, goals."""
    rows = list(sizes.stores)
    table = []
    for stage, by_size in sizes.found.items():
        cells = [stage]
        for size in rows:
            seconds, cpu = (median(f[key] for f in by_size[size]) for key in ("seconds", "cpu"))
            cells.append(f"{seconds:.2f} ({cpu:.2f})")
        ratios = Ratios.of(*([f["cpu"] for f in by_size[size]] for size in (rows[-1], rows[0])))
        daily = stage not in ONCE
        goal = verdict(met=ratios.median <= GROWTH, goal=f"at most {GROWTH}") if daily else ""
        if stage == "status":
            longest = median(found["seconds"] for found in by_size[rows[-1]])
            goal += "; " + verdict(met=longest < STATUS_SECONDS, goal=f"under {STATUS_SECONDS:g} s")
        table.append([*cells, str(ratios), goal])
    others = _sizes_and_peaks(sizes)
    for name, value, unit in others:
        table.append([name, *(f"{value[size]:,.0f} {unit}" for size in rows), "", ""])
        figures[name] = {str(size): value[size] for size in rows}
    head = ["seconds (of CPU)", *(f"{size:,} rows" for size in rows), "ratio of CPU", ""]
    measured = f"the last {sizes.measured_days:,} days" if sizes.measured_days else "all days"
    show(
        f"Every stage of a day, on stores of several sizes (in turns); measures are of {measured}",
        head,
        table,
    )
    peak = max(
        found["peak_mb"] for by in sizes.found.values() for fs in by.values() for found in fs
    )
    print(f"  {verdict(met=peak < PEAK_MB, goal=f'under {PEAK_MB} MB')} ({peak:.0f} MB)")


def _sizes_and_peaks(sizes: Sizes) -> list[tuple[str, dict[int, float], str]]:
    def measures_of(store: Path) -> float:
        files = store.parent.rglob("*")
        return sum(p.stat().st_size for p in files if p.is_file()) - store.stat().st_size

    peaks = {
        size: max(found["peak_mb"] for by in sizes.found.values() for found in by[size])
        for size in sizes.stores
    }
    return [
        ("store", {n: s.stat().st_size / 1e6 for n, s in sizes.stores.items()}, "MB"),
        ("measures and the rest", {n: measures_of(s) / 1e6 for n, s in sizes.stores.items()}, "MB"),
        ("peak memory of a stage", peaks, "MB"),
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[2_000_000, 10_000_000], metavar="ROWS",
        help="rows of the stores (default 2000000 10000000)",
    )  # fmt: skip
    parser.add_argument("--rows-a-day", type=int, default=ROW_GROUP // 6, help="default 20480")
    parser.add_argument("--streams", type=int, default=50, help="default 50")
    parser.add_argument(
        "--measured-days", type=int, default=MEASURED_DAYS, metavar="N",
        help=f"last days of each store that are measured (default {MEASURED_DAYS}; 0: all)",
    )  # fmt: skip
    parser.add_argument("--turns", type=int, default=2, help="new days (default 2)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="only these")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures here")
    parser.add_argument(
        "--stores", type=Path, metavar="FOLDER",
        help="make the stores here and keep them, or take those that an earlier run has left",
    )  # fmt: skip
    given = parser.parse_args()
    if ROW_GROUP % given.rows_a_day:
        parser.error(f"--rows-a-day must divide {ROW_GROUP:,}: for example {ROW_GROUP // 6:,}")
    days = min(given.rows) // given.rows_a_day
    days = min(days, given.measured_days or days)
    if days < FEWEST_DAYS and set(given.stages) - {"speed", "status", "profiles", "ingest"}:
        parser.error(
            f"{FEWEST_DAYS} days must be measured, of the smallest store too: raise --rows or "
            "--measured-days"
        )
    return given


def bytes_needed(given: argparse.Namespace) -> int:
    """Disk that a run takes: the stores that are not there yet, and the measures of each."""
    measured = given.measured_days * given.rows_a_day
    rows = sum(min(rows, measured) if measured else rows for rows in given.rows)
    there = [rows for rows in given.rows if given.stores and is_made(store_in(given.stores, rows))]
    return (sum(given.rows) - sum(there)) * BYTES_A_ROW + rows * MEASURED_BYTES


def store_in(folder: Path, rows: int) -> Path:
    """The file of a store of a size."""
    return folder / f"store-{rows}" / "s.duckdb"


def is_made(store: Path) -> bool:
    """Whether a run has made a store to its end."""
    return store.with_suffix(".first").exists()


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and the folder is removed
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    with tempfile.TemporaryDirectory(prefix="gdelphi-scale-") as folder:
        on = given.stores or Path(folder)
        on.mkdir(parents=True, exist_ok=True)
        need, free = bytes_needed(given), shutil.disk_usage(on).free
        if free < 1.2 * need:
            raise SystemExit(
                f"about {1.2 * need / 1e9:.0f} GB are needed in {given.stores or on.parent}, which "
                f"has {free / 1e9:.0f} GB: take fewer rows, or another disk by --stores or TMPDIR"
            )
        benchmark = Benchmark(Path(folder), given.turns, False, {"machine": about})
        if "speed" in given.stages:
            made = make_dailies(benchmark.fresh("daily"), 1, first=FIRST_DAY)
            compare_speed(benchmark, f"a daily of {made.rows:,} rows", made.folder, "daily")
            real = ROOT.parent / "shared" / "data" / "gdelt2-world"
            if real.is_dir():
                compare_speed(benchmark, "real 15-minute files", real, "quarter-hour")
        sizes = Sizes(
            benchmark, sorted(given.rows), a_day=given.rows_a_day, streams=given.streams,
            measured_days=given.measured_days, out=given.json and given.json.absolute(),
            kept=given.stores and given.stores.absolute(),
        )  # fmt: skip
        sizes.make()
        measure(sizes, given.stages, given.turns)
        tell(sizes, benchmark.figures)
        sizes.write()


if __name__ == "__main__":
    main()
