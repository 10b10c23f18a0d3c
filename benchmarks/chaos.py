"""Kills every writing command at random moments, while files change at the source, and compares.

    gdelphi demo --out data/demo
    python benchmarks/chaos.py --demo data/demo --kills 1000 --work /tmp/chaos

Two folders with the same archive. In one a command is run once, undisturbed; in the other it is
killed, with all that it has started, at moments drawn over the processor's time that the first
run took, and then run to its end. After each round both must hold the same rows, measures, packs,
forecasts, scores and reports, and `gdelphi verify` must find no damage. Commands are forked from a
process that has imported everything (`command_server.py`): a kill costs half a second of the
processor in place of twenty. Prints a line a round; fails at the first difference. With a folder
that is there already, a campaign goes on where it was stopped.

Training is killed by its own test: it takes too long for a thousand times.
"""

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from command_server import CommandServer, Ended
from trial_folder import AS_OF, Trial, change_a_day, damages, digests, make_trial

ROUND = (
    (("ingest",), 12),
    (("embed",), 12),
    (("sequences",), 8),
    (("forecast", "--streams", "top2", "--futures", "20", "--as-of", AS_OF), 5),
    (("score", "--as-of", AS_OF), 8),
    (("report", "--as-of", AS_OF), 8),
    (("promote", "--force"), 8),
)
"""the writing commands, in the order of a night, and how often each is killed in a round"""


class Campaign:
    """Two folders, and counts of what happens."""

    def __init__(self, killed: Trial, calm: Trial, server: CommandServer, seed: int) -> None:
        self.killed, self.calm, self.server = killed, calm, server
        self.rng = random.Random(seed)
        self.kills = dict.fromkeys((words[0] for words, _ in ROUND), 0)
        self.too_late = 0
        self.changes = 0
        self.seconds = 0.0
        """of the processor's time"""

    def play_round(self) -> list[str]:
        """A day comes, another changes, all commands are run; returns what is wrong after it."""
        if self.killed.hidden:
            self.killed.grow()
        self._change_a_day()
        for words, times in ROUND:
            undisturbed = self._finish(self.calm, words)
            self._kill(words, times, undisturbed.seconds)
            self._finish(self.killed, words)
            if words[0] == "ingest":  # a day may have changed since
                self._finish(self.calm, words)
        one, other = digests(self.killed), digests(self.calm)
        differing = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
        found = [f"{name} differs" for name in sorted(differing)]
        return found + damages(self.killed) + damages(self.calm)

    def _kill(self, words: tuple[str, ...], times: int, seconds: float) -> None:
        for _ in range(times):
            ended = self._run(self.killed, words, self.rng.uniform(0, seconds))
            if ended.killed:
                self.kills[words[0]] += 1
            else:
                self.too_late += 1
            if words[0] == "ingest" and (not ended.killed or self.rng.random() < 0.1):
                self._change_a_day()  # so that there is something to do

    def _finish(self, trial: Trial, words: tuple[str, ...]) -> Ended:
        ended = self._run(trial, words)
        if ended.killed or ended.code:
            sys.exit(f"{' '.join(words)} failed in {trial.folder}: {ended.output}")
        return ended

    def _run(self, trial: Trial, words: Iterable[str], kill_after: float | None = None) -> Ended:
        ended = self.server.run([*words, "--config", str(trial.config)], kill_after)
        if "Traceback" in ended.output:
            sys.exit(f"{' '.join(words)} in {trial.folder}: {ended.output}")
        self.seconds += ended.all_seconds
        return ended

    def _change_a_day(self) -> None:
        change_a_day(self.killed.archive, self.rng)
        self.changes += 1

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {times}" for name, times in self.kills.items())
        return (
            f"{sum(self.kills.values())} kills ({kills}), {self.too_late} came too late, "
            f"{self.changes} changes at the source, {self.seconds:.0f} s of the processor"
        )


def trials(demo: Path, work: Path, hidden: int) -> tuple[Trial, Trial]:
    """The folder in which commands are killed and the calm one; both read one archive."""
    if not (work / "calm").exists():
        shutil.rmtree(work, ignore_errors=True)  # of a start that was interrupted
        made = make_trial(demo, work / "killed", hidden=hidden)
        shutil.copytree(made.folder, work / "making", symlinks=True)
        (work / "making").rename(work / "calm")
    archive = work / "killed" / "archive"
    there = {path.name for path in archive.glob("*.zip")}
    later = [path for path in sorted((demo / "archive").glob("*.zip")) if path.name not in there]
    calm = Trial(work / "calm", archive)
    assert str(archive) in calm.config.read_text(), "both read one archive"
    return Trial(work / "killed", archive, later), calm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, default=Path("data/demo"))
    parser.add_argument("--work", type=Path, required=True, help="a folder of its own")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no later round")
    given = parser.parse_args()
    began, number = time.monotonic(), 0
    rounds = 1 + given.kills // sum(times for _, times in ROUND)
    killed, calm = trials(given.demo, given.work.absolute(), hidden=min(rounds, 60))
    campaign = Campaign(killed, calm, CommandServer(given.work / "output.log"), given.seed)
    while sum(campaign.kills.values()) < given.kills and time.monotonic() - began < given.seconds:
        number += 1
        wrong = campaign.play_round()
        if wrong:
            sys.exit(f"round {number}, {campaign}:\n" + "\n".join(wrong[:20]))
        print(f"round {number}: {campaign}: both folders are the same and sound", flush=True)
    campaign.server.close()
    print(f"done in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
