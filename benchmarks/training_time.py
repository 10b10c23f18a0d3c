"""How long `gdelphi train` takes, stage by stage: seconds by the clock and of the processors.

    python benchmarks/training_time.py --config gdelphi.toml [--fresh] [--out FOLDER]

Trains with the settings of a store, as `gdelphi train` does, into a folder that is removed after
(or kept, with --out), and prints a table in Markdown: a line for each stage, with the seconds of
all processes and threads that were at work in it, and the most memory that this process has held.
What is kept beside the measures (the pack, the stack, the cell network) is used again, as in any
training; with --fresh it is removed first, so that all of it is timed. Seconds by the clock mean
something on a quiet machine only.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gdelphi.common.errors import GdelphiError
from gdelphi.common.files import remove_folder
from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures.clouds import measures_folder
from gdelphi.model.loop import TrainStatus
from gdelphi.model.train import train
from measured import peak_megabytes

PACKING = "packing"
CELLS = "training the cell network"  # how the lines of its steps begin
KEPT = ("packs", "stacks")  # folders of the measures that trainings share


class Moment(NamedTuple):
    """Where the clocks stood."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Moment":
        used = os.times()
        ended = used.children_user + used.children_system
        return cls(time.perf_counter(), used.user + used.system + ended + _server_seconds())


def _server_seconds() -> float:
    """CPU seconds of this process's children that still run, and of theirs that have ended: those
    who share work are forked by a server, which is such a child (Linux; elsewhere they are not
    counted)."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


class Stages:
    """Watches a training, and knows when each of its stages began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, Moment]] = [(PACKING, Moment.now())]

    def stage(self, what: str) -> None:
        name = CELLS if what.startswith(CELLS) else what
        if name != self.began[-1][0]:
            print(f"... {name}", file=sys.stderr)
            self.began.append((name, Moment.now()))

    def packed(self, *_: object) -> None:
        """Packing is the first stage."""

    def stepped(self, _: TrainStatus) -> None:
        """A step is no stage."""

    def show(self) -> None:
        """The table."""
        ends = [moment for _, moment in self.began[1:]] + [Moment.now()]
        print("| stage | seconds | CPU seconds |\n|---|---|---|")
        for (name, begin), end in zip(self.began, ends, strict=True):
            print(f"| {name} | {end.wall - begin.wall:.1f} | {end.cpu - begin.cpu:.1f} |")
        first, last = self.began[0][1], ends[-1]
        print(f"| all | {last.wall - first.wall:.1f} | {last.cpu - first.cpu:.1f} |")
        print(f"\n{os.cpu_count()} cores, {peak_megabytes():,.0f} MB at most in one process.")


def forget_kept(settings: Settings) -> None:
    """Remove what trainings of the same days share."""
    for name in KEPT:
        remove_folder(measures_folder(settings) / name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path)
    parser.add_argument("--fresh", action="store_true", help="time packing, stack and cells too")
    parser.add_argument("--out", type=Path, help="keep the model there")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="training-time-"))
    try:
        settings = load_settings(given.config, {}).settings
        if given.fresh:
            forget_kept(settings)
        stages = Stages()
        train(settings, out / "model", resume=False, progress=stages)
        stages.show()
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")
    finally:
        if given.out is None:
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
