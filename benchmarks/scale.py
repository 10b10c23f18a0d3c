"""Whether what is done every day takes longer when the store has more.

Stores of several sizes are made (`--rows 2000000 10000000`), each the beginning of the next, and
every stage of a day is measured on each in turn: status, profiles, a new daily into the store,
`embed` and `sequences` of that day, `forecast`, `report`, with the disk that a store takes and the
peak memory of any stage. A figure is given with its ratio to the smallest store in the same run;
CPU seconds stand beside the time, since a machine that does other work as well stretches time
alone. Rows per second of ingestion against bare DuckDB are measured as in ingest.py.

A day has 20,480 rows unless told otherwise: GDELT's mean since 1979 is about 18,000. So 10 million
rows are 16 months, 50 million 7 years, 300 million 40 years. The model is trained on the smallest
store for a few steps, and serves all: the training days are the same. Disk: about 120 bytes a row
for the store, and as much again for measures.

    python benchmarks/scale.py --rows 2000000 10000000                 minutes
    python benchmarks/scale.py --rows 10000000 50000000 300000000      hours; 100 GB of disk
    python benchmarks/scale.py --rows 10000000 300000000 --stages status profiles ingest
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from ingest import FIRST_DAY, ROOT, Benchmark, Ratios, compare_speed, machine, show, verdict
from made_archive import make_dailies
from measured import ROW_GROUP

GROWTH: Final = 1.3
STATUS_SECONDS: Final = 1.0
PEAK_MB: Final = 2048
FEWEST_DAYS: Final = 80  # that the splits of `measured.scale_settings` need
BYTES_A_ROW: Final = 300
STAGES: Final = ("speed", "status", "profiles", "ingest", "embed", "pack", "forecast", "report")
PROFILE_DAYS: Final = 60


class Sizes:
    """The stores of a run, from the smallest to the largest, and what was measured on each."""

    def __init__(self, benchmark: Benchmark, rows: Sequence[int], a_day: int, streams: int) -> None:
        self.benchmark, self.streams, self.a_day = benchmark, streams, a_day
        self.stores = {size: benchmark.fresh(f"store-{size}") / "s.duckdb" for size in rows}
        self.days: dict[int, int] = {}
        self.found: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self.model = benchmark.folder / "model"

    def make(self) -> None:
        """Ingest a few dailies, and multiply them."""
        number = ROW_GROUP // self.a_day
        base = make_dailies(
            self.benchmark.fresh("base"), number, first=FIRST_DAY, rows=ROW_GROUP // number
        )
        for size, store in self.stores.items():
            store.with_suffix(".first").write_text(FIRST_DAY.isoformat())
            self.benchmark.run("gdelphi", store=store, archive=base.folder, label="days")
            made = self.benchmark.run("multiply", store=store, rows=size)
            self.days[size] = made["days"]
            taken = f"made in {made['seconds']:.0f} s"
            print(f"a store of {made['rows']:,} rows, {made['days']:,} days, {taken}")

    def measure(self, stage: str, job: str, **arguments: Any) -> None:
        """One job on every store."""
        for size, store in self.stores.items():
            given = {key: self.given(value, size) for key, value in arguments.items()}
            found = self.benchmark.run(job, store=store, **given)
            self.found.setdefault(stage, {}).setdefault(size, []).append(found)

    @staticmethod
    def given(value: Any, size: int) -> Any:
        return value(size) if callable(value) else value

    def next_daily(self, turn: int) -> Callable[[int], Path]:
        """A function that makes, for a store of a size, an archive of the day after its last."""

        def made(size: int) -> Path:
            folder = self.benchmark.fresh(f"next-{size}-{turn}")
            day = FIRST_DAY + timedelta(days=self.days[size] + turn)
            next_id = 10**12 + turn * 10**6
            return make_dailies(folder, 1, first=day, next_id=next_id, rows=self.a_day).folder

        return made

    def as_of(self, turn: int) -> Callable[[int], date]:
        return lambda size: FIRST_DAY + timedelta(days=self.days[size] + turn + 1)


def measure(sizes: Sizes, stages: Sequence[str], turns: int) -> None:
    """Every stage of a day, on all stores, some days one after the other."""
    streams = {"streams": sizes.streams}
    smallest = next(iter(sizes.stores.values()))
    if {"embed", "pack", "forecast", "report"} & set(stages):
        sizes.measure("embed of all days", "embed", **streams)
        sizes.measure("pack of all days", "pack", **streams)
    if {"forecast", "report"} & set(stages):
        trained = sizes.benchmark.run("train", store=smallest, model=sizes.model, **streams)
        print(f"a model trained and calibrated in {trained['seconds']:.0f} s")
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
        daily = "all days" not in stage
        goal = verdict(met=ratios.median <= GROWTH, goal=f"at most {GROWTH}") if daily else ""
        if stage == "status":
            longest = median(found["seconds"] for found in by_size[rows[-1]])
            goal += "; " + verdict(met=longest < STATUS_SECONDS, goal=f"under {STATUS_SECONDS:g} s")
        table.append([*cells, str(ratios), goal])
        figures[stage] = {str(size): by_size[size] for size in rows}
    others = _sizes_and_peaks(sizes)
    for name, value, unit in others:
        table.append([name, *(f"{value[size]:,.0f} {unit}" for size in rows), "", ""])
        figures[name] = {str(size): value[size] for size in rows}
    head = ["seconds (of CPU)", *(f"{size:,} rows" for size in rows), "ratio of CPU", ""]
    show("Every stage of a day, on stores of several sizes (in turns)", head, table)
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
    parser.add_argument("--turns", type=int, default=2, help="new days (default 2)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="only these")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures here")
    given = parser.parse_args()
    if ROW_GROUP % given.rows_a_day:
        parser.error(f"--rows-a-day must divide {ROW_GROUP:,}: for example {ROW_GROUP // 6:,}")
    if min(given.rows) < FEWEST_DAYS * given.rows_a_day and set(given.stages) - {
        "speed", "status", "profiles", "ingest",
    }:  # fmt: skip
        parser.error(f"the smallest store must have {FEWEST_DAYS} days: raise --rows")
    return given


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and the folder is removed
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    with tempfile.TemporaryDirectory(prefix="gdelphi-scale-") as folder:
        need, free = sum(given.rows) * BYTES_A_ROW, shutil.disk_usage(folder).free
        if free < 1.2 * need:
            raise SystemExit(
                f"about {1.2 * need / 1e9:.0f} GB are needed in {Path(folder).parent}, which has "
                f"{free / 1e9:.0f} GB: set TMPDIR to another disk, or take fewer rows"
            )
        benchmark = Benchmark(Path(folder), given.turns, False, {"machine": about})
        if "speed" in given.stages:
            made = make_dailies(benchmark.fresh("daily"), 1, first=FIRST_DAY)
            compare_speed(benchmark, f"a daily of {made.rows:,} rows", made.folder, "daily")
            real = ROOT.parent / "shared" / "data" / "gdelt2-world"
            if real.is_dir():
                compare_speed(benchmark, "real 15-minute files", real, "quarter-hour")
        sizes = Sizes(benchmark, sorted(given.rows), given.rows_a_day, given.streams)
        sizes.make()
        measure(sizes, given.stages, given.turns)
        tell(sizes, benchmark.figures)
        if given.json:
            given.json.write_text(json.dumps(benchmark.figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
