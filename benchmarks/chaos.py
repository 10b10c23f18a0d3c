"""Kills every writing command at random moments, while files change at the source, and compares.

    gdelphi demo --out data/demo
    python benchmarks/chaos.py --demo data/demo --kills 1000 --work /tmp/chaos

Two folders with the same archive: in one, each command is killed (SIGKILL, with all that it has
started) at random moments until it has been killed as often as is its share, and then run to its
end; in the other it is run once, undisturbed. After each round both must hold the same rows,
measures, forecasts, scores and reports, and `gdelphi verify` must find no damage. Prints a line a
round; fails at the first difference.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from trial_folder import AS_OF, Trial, change_a_day, damages, digests, make_trial

ROUND = (
    ("ingest",),
    ("embed",),
    ("forecast", "--streams", "top2", "--futures", "20", "--as-of", AS_OF),
    ("score", "--as-of", AS_OF),
    ("report", "--as-of", AS_OF),
    ("promote", "--force"),
)
"""the writing commands, in the order of a night"""
LONGEST = 600.0  # seconds that a command may take


class Campaign:
    """Counts what happens."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kills = dict.fromkeys((words[0] for words in ROUND), 0)
        self.too_late = 0
        self.changes = 0
        self.seconds = dict.fromkeys(self.kills, 5.0)

    def kill_often(self, trial: Trial, words: tuple[str, ...], times: int) -> None:
        """Kill a command `times` times at moments drawn over the time that it takes."""
        for _ in range(times):
            log = subprocess.DEVNULL
            process = subprocess.Popen(
                trial.command(*words), stdout=log, stderr=log, start_new_session=True
            )
            try:
                process.wait(self.rng.uniform(0.3, 1.05) * self.seconds[words[0]])
                self.too_late += 1
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.kills[words[0]] += 1
            if words[0] == "ingest" and self.rng.random() < 0.3:
                change_a_day(trial.archive, self.rng)
                self.changes += 1

    def finish(self, trial: Trial, words: tuple[str, ...], *, measure: bool = False) -> None:
        """Run a command to its end."""
        began = time.monotonic()
        done = subprocess.run(
            trial.command(*words), capture_output=True, text=True, timeout=LONGEST, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(words)} failed in {trial.folder}: {done.stdout}{done.stderr}")
        if measure:
            self.seconds[words[0]] = time.monotonic() - began


def compare(killed: Trial, calm: Trial) -> list[str]:
    """What is not the same in both folders."""
    one, other = digests(killed), digests(calm)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, default=Path("data/demo"))
    parser.add_argument("--work", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--in-a-row", type=int, default=4, help="kills of a command in a round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no later round")
    given = parser.parse_args()
    began, campaign, number = time.monotonic(), Campaign(given.seed), 0
    hidden = 1 + given.kills // (given.in_a_row * len(ROUND))
    killed = make_trial(given.demo, given.work / "killed", hidden=min(hidden, 60))
    shutil.copytree(killed.folder, given.work / "calm", symlinks=True)
    calm = Trial(given.work / "calm", killed.archive)
    config = calm.config.read_text()
    assert str(killed.archive) in config, "both read one archive"
    while sum(campaign.kills.values()) < given.kills and time.monotonic() - began < given.seconds:
        number += 1
        if killed.hidden:
            killed.grow()
        change_a_day(killed.archive, campaign.rng)
        campaign.changes += 1
        for words in ROUND:
            campaign.kill_often(killed, words, given.in_a_row)
            campaign.finish(killed, words)
            campaign.finish(calm, words, measure=True)
        differing, damaged = compare(killed, calm), damages(killed)
        if differing or damaged:
            sys.exit(f"round {number}: {differing[:20]} differ; damaged: {damaged[:20]}")
        kills = ", ".join(f"{name} {times}" for name, times in campaign.kills.items())
        print(
            f"round {number}: {sum(campaign.kills.values())} kills ({kills}), "
            f"{campaign.too_late} came too late, {campaign.changes} changes at the source: "
            "both folders are the same, nothing is damaged",
            flush=True,
        )
    print(f"done in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
