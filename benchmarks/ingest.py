"""How fast `gdelphi ingest` is, what memory it takes, and whether either grows.

Four questions, each with its goal:

1. rows per second from zips to a closed store, beside bare DuckDB (which gets the texts unzipped
   and checks nothing) and pandas
2. peak memory, whatever the number and size of files
3. the cost of a file that arrives when the store already has few or many
4. the cost of loading into a store of tens of millions of rows (--big-store ROWS)

Machines are noisy, so a figure is a ratio of things measured in turns (A, B, C, A, B, C, ...),
given as its median and range. All data is made by `made_archive.py`; real 15-minute files are
measured too where there are some. Everything happens in a temporary folder (TMPDIR) that is removed
at the end.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from made_archive import (
    DAILY_ROWS,
    QUARTER_ROWS,
    QUARTERS_A_DAY,
    MadeArchive,
    make_dailies,
    make_quarters,
)
from measured import arrive

ROOT = Path(__file__).resolve().parent.parent
FIRST_DAY = date(2015, 3, 1)
BYTES_A_ROW = 300  # that a store takes on disk, with room to spare

OF_DUCKDB, OF_PANDAS, PEAK_MB, GROWTH = 0.8, 2.5, 1024, 1.25


@dataclass
class Benchmark:
    """A run of the benchmark: its folder, how often, and what it found."""

    folder: Path
    repeat: int
    quick: bool
    figures: dict[str, Any] = field(default_factory=dict)

    def fresh(self, name: str) -> Path:
        """An empty folder below the benchmark's own."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def run(self, job: str, **arguments: Any) -> dict[str, Any]:
        """Do a job of `measured.py` in a process of its own, out of reach of settings."""
        child = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / "measured.py"), "-"],
            input=json.dumps({"job": job, **arguments}, default=str),
            env={k: v for k, v in os.environ.items() if not k.startswith("GDELPHI_")},
            cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        measured: dict[str, Any] = json.loads(child.stdout)
        return measured


@dataclass(frozen=True)
class Ratios:
    """Ratios of things that were measured in turns."""

    values: Sequence[float]

    @classmethod
    def of(cls, above: Iterable[float], below: Iterable[float]) -> "Ratios":
        return cls([a / b for a, b in zip(above, below, strict=True)])

    @property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.values):.2f}..{max(self.values):.2f})"

    def figures(self) -> dict[str, Any]:
        return {"median": self.median, "values": list(self.values)}


def verdict(*, met: bool, goal: str) -> str:
    return f"goal {goal}: {'met' if met else 'MISSED'}"


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with its columns aligned."""
    print(f"\n{title}")
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    for row in (head, *rows):
        print("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


# 1. Rows per second


def measure_speed(benchmark: Benchmark, data: Path) -> None:
    rows = DAILY_ROWS // 10 if benchmark.quick else DAILY_ROWS
    made = make_dailies(benchmark.fresh("speed-daily"), 1, first=FIRST_DAY, rows=rows)
    compare_speed(benchmark, f"a daily of {made.rows:,} rows", made.folder, "daily")
    world = data / "gdelt2-world"
    if not world.is_dir():
        print(f"\nReal 15-minute files: skipped, there is no {world} (--data FOLDER).")
        return
    compare_speed(benchmark, "real 15-minute files", world, "quarter-hour")


def compare_speed(benchmark: Benchmark, what: str, archive: Path, layout: str) -> None:
    zips = sorted(archive.glob("*.export.CSV.zip"))
    texts = unzip_all(zips, benchmark.fresh("texts"))
    measured: dict[str, list[dict[str, Any]]] = {}
    for turn in range(benchmark.repeat):
        place = benchmark.fresh("speed")
        jobs: list[tuple[str, dict[str, Any]]] = [
            ("gdelphi", {"store": place / "store.duckdb", "archive": archive}),
            ("bare_duckdb", {"texts": texts, "database": place / "bare", "layout": layout}),
            ("pandas", {"zips": zips, "database": place / "pandas", "layout": layout}),
            ("empty_store", {"store": place / "empty.duckdb"}),
        ]
        for job, arguments in jobs[turn % 4 :] + jobs[: turn % 4]:  # nobody is always first
            measured.setdefault(job, []).append(benchmark.run(job, **arguments))
    sizes = sum(path.stat().st_size for path in texts)
    shutil.rmtree(benchmark.folder / "texts")
    shutil.rmtree(benchmark.folder / "speed")
    report_speed(benchmark, f"{what}: {len(zips)} files, {sizes / 1e6:.0f} MB of text", measured)


def unzip_all(zips: Sequence[Path], into: Path) -> list[Path]:
    for path in zips:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(into)
    return sorted(into.iterdir())


def report_speed(
    benchmark: Benchmark, title: str, measured: dict[str, list[dict[str, Any]]]
) -> None:
    rates = {
        job: [run["rows"] / run["seconds"] for run in runs]
        for job, runs in measured.items()
        if job != "empty_store"
    }
    assert len({run["rows"] for job in rates for run in measured[job]}) == 1, "rows differ"
    of = {
        base: {job: Ratios.of(rates[job], rates[base]) for job in rates}
        for base in ("bare_duckdb", "pandas")
    }
    # By CPU too: where others work as well, time is theirs in part.
    used = {job: [run["cpu"] for run in measured[job]] for job in rates}
    by_cpu = {job: Ratios.of(used["bare_duckdb"], used[job]) for job in rates}
    peaks = {job: max(run["peak_mb"] for run in runs) for job, runs in measured.items()}
    table = [
        [
            job.replace("_", " "), f"{median(rates[job]):,.0f}", str(of["bare_duckdb"][job]),
            str(by_cpu[job]), str(of["pandas"][job]), f"{peaks[job]:.0f}",
        ]
        for job in rates
    ]  # fmt: skip
    show(
        f"1. Rows per second, {title}",
        ("", "rows/s", "to bare DuckDB", "by CPU", "to pandas", "peak MB"),
        table,
    )
    own, theirs = of["bare_duckdb"]["gdelphi"], of["pandas"]["gdelphi"]
    print(f"  {verdict(met=own.median >= OF_DUCKDB, goal=f'{OF_DUCKDB} of bare DuckDB')}")
    ours = by_cpu["gdelphi"].median
    print(f"  {verdict(met=ours >= OF_DUCKDB, goal=f'{OF_DUCKDB} of bare DuckDB by CPU')}")
    print(f"  {verdict(met=theirs.median >= OF_PANDAS, goal=f'{OF_PANDAS} times pandas')}")
    empty = median(run["seconds"] for run in measured["empty_store"])
    whole = median(run["seconds"] for run in measured["gdelphi"])
    print(f"  of gdelphi's {whole:.2f} s, {empty:.2f} s are for making an empty store")
    benchmark.figures.setdefault("speed", {})[title] = {
        "rows_per_second": rates,
        "of_bare_duckdb": own.figures(),
        "of_bare_duckdb_by_cpu": by_cpu["gdelphi"].figures(),
        "of_pandas": theirs.figures(),
        "peak_mb": peaks,
        "seconds": whole,
        "empty_store_seconds": empty,
    }


# 2. Peak memory


def measure_memory(benchmark: Benchmark, quarters: MadeArchive) -> None:
    dailies = make_dailies(
        benchmark.fresh("dailies"),
        3 if benchmark.quick else 8,
        first=FIRST_DAY,
        rows=DAILY_ROWS // 10 if benchmark.quick else DAILY_ROWS,
    )
    table = []
    for made, numbers in ((quarters, (50, 200, 1000)), (dailies, (1, 3, 8))):
        for number in numbers:
            if number > len(made.names):
                continue
            measured = benchmark.run(
                "gdelphi",
                store=benchmark.fresh("memory") / "s.duckdb",
                archive=first(benchmark, made, number),
            )
            what = f"{number} {'15-minute files' if made.quarter else 'dailies'}"
            benchmark.figures.setdefault("memory", {})[what] = measured
            met = measured["peak_mb"] < PEAK_MB
            table.append(
                [
                    what, f"{measured['rows']:,}", f"{measured['peak_mb']:.0f}",
                    f"{1000 * measured['seconds'] / number:.0f}",
                    verdict(met=met, goal=f"under {PEAK_MB} MB"),
                ]
            )  # fmt: skip
    show("2. Peak memory of one run", ("", "rows", "peak MB", "ms a file", ""), table)
    shutil.rmtree(dailies.folder)


def first(benchmark: Benchmark, made: MadeArchive, number: int, name: str = "first") -> Path:
    """An archive of the first files of another."""
    folder = benchmark.fresh(name)
    for file_name in made.names[:number]:
        (folder / file_name).hardlink_to(made.folder / file_name)
    if made.quarter:
        copy_lines(made.folder / "masterfilelist.txt", folder, number)
    else:
        copy_lines(made.folder / "md5sums", folder, number)
        copy_lines(made.folder / "filesizes", folder, number)
    return folder


def copy_lines(path: Path, into: Path, number: int) -> None:
    lines = path.read_text().splitlines(keepends=True)[:number]
    (into / path.name).write_text("".join(lines))


# 3. The cost of a file


def measure_growth(benchmark: Benchmark, made: MadeArchive) -> None:
    """One by one as they arrive; then whole days again from early, middle and late stores.

    A day's first and last file cost differently (stories are marked over the whole day), so whole
    days are compared, slot by slot. Each of the three stores is taken up where the first pass had
    left it, and the three take turns: what differs between them is only what they hold.
    """
    days = len(made.names) // QUARTERS_A_DAY
    starts = [QUARTERS_A_DAY * n for n in sorted({0, days // 2, days - 1})]
    steps, kept = one_by_one(benchmark, made, starts)
    show_first_pass(benchmark, steps)
    lanes = [replayed(benchmark, made, kept[start], start) for start in starts]
    taken = benchmark.run("live", stage=made.folder, lanes=lanes)["seconds"]
    report_growth(benchmark, "one by one, a run for each file", starts, taken)
    bulk: list[list[float]] = [[] for _ in starts]
    for _ in range(benchmark.repeat):
        for start, seconds in zip(starts, bulk, strict=True):
            lane = replayed(benchmark, made, kept[start], start)
            arrive(made.folder, Path(lane["archive"]), lane["names"])
            measured = benchmark.run(
                "gdelphi", store=lane["store"], archive=lane["archive"], label="live"
            )
            seconds.append(measured["seconds"] / len(lane["names"]))
    report_growth(benchmark, "in bulk, one run for a day's files", starts, bulk)


def one_by_one(
    benchmark: Benchmark, made: MadeArchive, starts: Sequence[int]
) -> tuple[list[float], dict[int, Path]]:
    """All files in turn; the store is copied at the starts."""
    archive, place = benchmark.fresh("live-archive"), benchmark.fresh("live")
    store, kept, seconds = place / "store.duckdb", {}, list[float]()
    benchmark.run("empty_store", store=store)
    for start, end in zip(starts, [*starts[1:], len(made.names)], strict=True):
        kept[start] = place / f"after-{start}.duckdb"
        shutil.copyfile(store, kept[start])
        lane = {"store": store, "archive": archive, "names": made.names[start:end]}
        seconds += benchmark.run("live", stage=made.folder, lanes=[lane])["seconds"][0]
    return seconds, kept


def replayed(benchmark: Benchmark, made: MadeArchive, store: Path, start: int) -> dict[str, Any]:
    """A lane: a copy of the store that has all files before `start`, and the day that follows."""
    place = benchmark.fresh(f"lane-{start}")
    copy = place / "store.duckdb"
    shutil.copyfile(store, copy)
    archive = first(benchmark, made, start, f"lane-{start}/archive")
    names = made.names[start : start + QUARTERS_A_DAY]
    return {"store": str(copy), "archive": str(archive), "names": names}


def show_first_pass(benchmark: Benchmark, seconds: Sequence[float]) -> None:
    """As it was, noise and all."""
    total = len(seconds)
    size = min(100, total // 3)
    windows = sorted({0, (total - size) * 4 // 9 // size * size, total - size})
    table = [
        [f"{n + 1}-{n + size}", f"{1000 * median(seconds[n : n + size]):.0f}"] for n in windows
    ]
    show(f"3. {total} files one by one (not in turns)", ("files", "median ms a file"), table)
    benchmark.figures["first_pass_seconds"] = list(seconds)


def report_growth(
    benchmark: Benchmark, how: str, starts: Sequence[int], seconds: Sequence[Sequence[float]]
) -> None:
    ratios = [Ratios.of(times, seconds[0]) for times in seconds]
    table = [
        [f"{start + 1}-{start + QUARTERS_A_DAY}", f"{1000 * median(times):.0f}", str(ratio)]
        for start, times, ratio in zip(starts, seconds, ratios, strict=True)
    ]
    show(f"3. Cost of a file, {how} (in turns)", ("files", "ms a file", "to the first day"), table)
    print(f"  {verdict(met=ratios[-1].median <= GROWTH, goal=f'flat, at most {GROWTH}')}")
    benchmark.figures.setdefault("growth", {})[how] = {
        str(start): {"seconds_a_file": list(times), "ratio": ratio.figures()}
        for start, times, ratio in zip(starts, seconds, ratios, strict=True)
    }


# 4. A store of tens of millions of rows


def measure_big_store(benchmark: Benchmark, rows: int) -> None:
    need, free = rows * BYTES_A_ROW, shutil.disk_usage(benchmark.folder).free
    if free < 1.2 * need:
        raise SystemExit(
            f"--big-store {rows} needs about {1.2 * need / 1e9:.0f} GB in "
            f"{benchmark.folder.parent}, which has {free / 1e9:.0f} GB: "
            "set TMPDIR to another disk, or take fewer rows"
        )
    stores = make_big_store(benchmark, rows)
    turns = max(1, min(benchmark.repeat, 3))
    after = FIRST_DAY + timedelta(days=benchmark.figures["big_store"]["days"] + 10)
    taken: dict[str, dict[str, list[float]]] = {}
    for turn in range(turns):
        for what, archive, label in next_files(
            benchmark, after + timedelta(days=3 * turn), rows, turn
        ):
            for name, store in stores.items():
                measured = benchmark.run("gdelphi", store=store, archive=archive, label=label)
                taken.setdefault(what, {}).setdefault(name, []).append(measured["seconds"])
    for _ in range(turns):
        for name, store in stores.items():
            measured = benchmark.run("status", store=store)
            taken.setdefault("read_status", {}).setdefault(name, []).append(measured["seconds"])
    report_big_store(benchmark, rows, taken)


def make_big_store(benchmark: Benchmark, rows: int) -> dict[str, Path]:
    """An empty store and one of many dailies, made out of one that was really ingested."""
    place = benchmark.fresh("big")
    base = make_dailies(benchmark.fresh("base"), 1, first=FIRST_DAY)
    stores = {"empty": place / "empty.duckdb", "big": place / "big.duckdb"}
    benchmark.run("empty_store", store=stores["empty"])
    benchmark.run("gdelphi", store=stores["big"], archive=base.folder, label="days")
    measured = benchmark.run("multiply", store=stores["big"], rows=rows)
    size, seconds = stores["big"].stat().st_size, measured["seconds"]
    print(f"\nA store of {measured['rows']:,} rows, {size / 1e9:.1f} GB, made in {seconds:.0f} s")
    benchmark.figures["big_store"] = {
        "rows": measured["rows"],
        "days": measured["days"],
        "bytes": size,
    }
    return stores


def next_files(
    benchmark: Benchmark, day: date, rows: int, turn: int
) -> Iterable[tuple[str, Path, str]]:
    """Files that neither store has: a daily, a batch of 15-minute files, a single one."""
    next_id = 2 * (rows + 10**9) + turn * 10**6
    daily = make_dailies(benchmark.fresh("next-daily"), 1, first=day, next_id=next_id)
    yield "a daily", daily.folder, "days"
    next_id, day = daily.next_id, day + timedelta(days=1)
    quarters = make_quarters(
        benchmark.fresh("next-quarters"), QUARTERS_A_DAY, first=day, next_id=next_id
    )
    batch = first(benchmark, quarters, QUARTERS_A_DAY - 1, "next-batch")
    yield f"{QUARTERS_A_DAY - 1} 15-minute files", batch, "quarters"
    arrive(quarters.folder, batch, quarters.names[-1:])
    yield "one 15-minute file", batch, "quarters"


def report_big_store(
    benchmark: Benchmark, rows: int, taken: dict[str, dict[str, list[float]]]
) -> None:
    table = []
    for what, by_store in taken.items():
        ratio = Ratios.of(by_store["big"], by_store["empty"])
        goal = verdict(met=ratio.median <= GROWTH, goal=f"flat, at most {GROWTH}")
        table.append(
            [
                what, f"{median(by_store['empty']):.2f}", f"{median(by_store['big']):.2f}",
                str(ratio), "" if what == "read_status" else goal,
            ]
        )  # fmt: skip
        benchmark.figures["big_store"][what] = {**by_store, "ratio": ratio.figures()}
    show(
        f"4. Into a store of {rows:,} rows (in turns)",
        ("", "s, empty", "s, big", "ratio", ""),
        table,
    )


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "duckdb": duckdb.__version__,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small files, one turn: does it run?")
    parser.add_argument("--repeat", type=int, metavar="N", help="turns (default 5; --quick 1)")
    parser.add_argument(
        "--big-store", type=int, metavar="ROWS",
        help=f"measure 4 too: 50000000 takes minutes and {50e6 * BYTES_A_ROW / 1e9:.0f} GB of disk",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", default=ROOT.parent / "shared" / "data",
        help="folder that holds gdelt2-world, real 15-minute files (default: ../shared/data)",
    )  # fmt: skip
    parser.add_argument("--only", type=int, nargs="+", choices=(1, 2, 3, 4), help="these questions")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures here")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and the folder is removed
    repeat = given.repeat or (1 if given.quick else 5)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()) + f", {repeat} turns")
    chosen = given.only or (1, 2, 3, 4)
    with tempfile.TemporaryDirectory(prefix="gdelphi-benchmark-") as folder:
        benchmark = Benchmark(Path(folder), repeat, given.quick, {"machine": about})
        if 1 in chosen:
            measure_speed(benchmark, given.data)
        if {2, 3} & set(chosen):
            files, rows = (2 * QUARTERS_A_DAY, 100) if given.quick else (1000, QUARTER_ROWS)
            made = make_quarters(benchmark.fresh("quarters"), files, first=FIRST_DAY, rows=rows)
            if 2 in chosen:
                measure_memory(benchmark, made)
            if 3 in chosen:
                measure_growth(benchmark, made)
        if 4 in chosen and given.big_store:
            measure_big_store(benchmark, given.big_store)
        if given.json:
            given.json.write_text(json.dumps(benchmark.figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
