"""What one more day costs a pack, with few days before it and with many, on a store that is there.

    python benchmarks/pack_day.py --config data/icews/gdelphi.toml --days 365 3650

The store has to be embedded. Its measures are looked at through a folder of links in which later
days are hidden: so many days are packed first (`gdelphi sequences`), then one more at a time, at
every length in turn. `--changed` has the day before the new one changed as well. Figures are CPU
seconds, the median of the turns, with the ratio of the longest history to the shortest. Splits are
set so that no new day is one of training.

    python benchmarks/pack_day.py --config data/icews/gdelphi.toml --days 365 --kills 200

With `--kills` packing is killed at random moments of the processor's time instead, eight times a
day, then run to its end, beside a history in which nothing is killed: after every kill all packs
are sound, and at last both have the same bytes.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from unittest import mock

from gdelphi.common.checksums import file_digest, file_states
from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures import packing
from gdelphi.measures.cloud_update import stale_days
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.day_files import DayFolder
from gdelphi.measures.pack import Pack

LINKED = ("clouds", "descriptors", "space", "days.json")


class History:
    """The first days of a store, and a pack of them."""

    def __init__(self, settings: Settings, folder: Path, days: int) -> None:
        self.first = min(DayFolder(measures_folder(settings) / "clouds").made_from())
        self.days = days
        folder.mkdir()
        for name in LINKED:
            (folder / name).symlink_to(measures_folder(settings) / name)
        until = self.first + timedelta(days=180)
        splits = {
            "train_until": until,
            "validation_a_until": until + timedelta(days=60),
            "validation_b_until": until + timedelta(days=120),
        }
        self.settings = settings.model_copy(
            update={
                "measures": settings.measures.model_copy(update={"folder": folder}),
                "split": settings.split.model_copy(update=splits),
            }
        )
        self.changed: date | None = None

    def pack(self) -> tuple[float, packing.Packed]:
        """CPU seconds of packing the days so far, as `gdelphi sequences` does."""
        last = self.first + timedelta(days=self.days - 1)
        plain = DayFolder.made_from

        def made_from(folder: DayFolder) -> dict[date, str]:
            known = {day: key for day, key in plain(folder).items() if day <= last}
            if self.changed in known:
                known[self.changed] += "'"
            return known

        def none_stale(settings: Settings) -> list[date]:
            stale_days(settings)  # for its time: all that are hidden are stale
            return []

        hidden = mock.patch.object(DayFolder, "made_from", made_from)
        with hidden, mock.patch.object(packing, "stale_days", none_stale):
            began = time.process_time()
            packed = packing.make_sequences(self.settings).packed
            return time.process_time() - began, packed

    @property
    def packs(self) -> list[Path]:
        return sorted(self.settings.measures.folder.glob("packs/[!.]*"))  # type: ignore[union-attr]

    def pack_in_child(self, kill_after: float | None = None) -> float | None:
        """Pack in a process of its own, so that this one has nothing open; its CPU seconds, None
        if it was killed. The kernel ends it as suddenly as by SIGKILL."""
        child = os.fork()
        if not child:
            if kill_after is not None:
                signal.setitimer(signal.ITIMER_PROF, max(kill_after, 1e-3))
            self.pack()
            os._exit(0)
        _, status, usage = os.wait4(child, 0)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            sys.exit("packing failed")
        return None if os.WIFSIGNALED(status) else usage.ru_utime + usage.ru_stime


def kill_packing(killed: History, calm: History, kills: int, seed: int) -> None:
    """Days are added to both, and to one with kills; fails at the first difference."""
    rng, struck, late = random.Random(seed), 0, 0
    for history in (killed, calm):
        history.pack_in_child()
    while struck < kills:
        if rng.random() < 0.3:
            killed.changed = calm.changed = killed.first + timedelta(days=killed.days - 1)
        for history in (killed, calm):
            history.days += 1
        seconds = calm.pack_in_child() or 0.0
        for _ in range(8):  # most of them late, when something is written
            if killed.pack_in_child(seconds * rng.choice((rng.random(), rng.uniform(0.7, 1)))):
                late += 1
                break
            struck += 1
            for folder in killed.packs:
                Pack(folder)
                if any(state in ("damaged", "missing") for _, state in file_states(folder)):
                    sys.exit(f"{folder} is damaged after {struck} kills")
        killed.pack_in_child()
        one, other = ({path.name: digests(path) for path in each.packs} for each in (killed, calm))
        if one != other:
            sys.exit(f"packs differ after {struck} kills")
    print(f"{struck} kills, {late} came too late, {killed.days} days: all packs sound and the same")


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: file_digest(path) for path in folder.iterdir() if path.name != "checksums.txt"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--days", type=int, nargs="+", default=[365, 3650])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--changed", action="store_true", help="the day before changes too")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    settings = load_settings(given.config).settings
    with tempfile.TemporaryDirectory(dir=given.config.parent) as folder:
        if given.kills:
            killed, calm = (
                History(settings, Path(folder) / name, given.days[0]) for name in ("killed", "calm")
            )
            kill_packing(killed, calm, given.kills, given.seed)
            return
        histories = [
            History(settings, Path(folder) / str(days), days - given.turns) for days in given.days
        ]
        for history in histories:
            seconds, packed = history.pack()
            print(
                f"{history.days} days of {len(packed.streams)} streams packed in {seconds:.1f} CPU "
                f"s, {packed.bytes / 1e6:.0f} MB",
                flush=True,
            )
        found: dict[int, list[float]] = {}
        for _ in range(given.turns):
            for number, history in enumerate(histories):
                if given.changed:
                    history.changed = history.first + timedelta(days=history.days - 1)
                history.days += 1
                found.setdefault(number, []).append(history.pack()[0])
    medians = [median(found[number]) for number in range(len(histories))]
    for days, seconds in zip(given.days, medians, strict=True):
        print(f"one more day after {days}: {seconds:.3f} CPU s")
    print(f"ratio {medians[-1] / medians[0]:.2f}")


if __name__ == "__main__":
    main()
