"""Study: one number for a country's week, from a backtest. Prints a Markdown table.

    python benchmarks/conflict_risk.py gdelphi.toml BACKTEST --model MODEL

Of each judged week and stream: did any of the six kinds of conflict surge? Compared are the joint
probability (forecast/conflict_risk.py, with theta from the 52 weeks before each origin), the
product as if they surged independently, the largest of the six, and how often any did in the
stream's own 52 weeks. *said*: mean probability; *came*: how often it came.
"""

import argparse
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from gdelphi.common.settings import load_settings
from gdelphi.common.types import History
from gdelphi.forecast.conflict_risk import any_surge, conflict_past, read_conflict_fit
from gdelphi.forecast.unusual import CONFLICT
from gdelphi.forecast.week import past_weeks
from gdelphi.judge.files import BacktestFolder
from gdelphi.measures.profiles import read_profiles
from gdelphi.store.status import read_status

WITHIN = 0


def judged(
    history: History, origin: date, rows: list[dict[str, Any]], theta: float | None
) -> dict[str, list[float]]:
    """Probabilities by who says them, and outcomes, of the streams of one origin."""
    past = conflict_past(history, np.stack([week.within for week in past_weeks(history, origin)]))
    by_stream: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        asked = row["horizon"] == WITHIN and row["target"] == "surge" and row["code"] in CONFLICT
        if asked and row["outcome"] == row["outcome"] and row["published"] == row["published"]:
            by_stream[row["stream"]].append(row)
    found: dict[str, list[float]] = defaultdict(list)
    for stream, own in by_stream.items():
        said = np.array([row["published"] for row in own])
        if theta is not None:
            found["joint"].append(float(any_surge(said, theta)))
        found["joined as past weeks"].append(float(any_surge(said, past.theta)))
        found["independent"].append(float(any_surge(said, 1.0)))
        found["largest of six"].append(float(said.max()))
        found["usual"].append(float(past.usual[history.streams.index(stream)]))
        found["came"].append(max(row["outcome"] for row in own))
        found["theta"].append(past.theta)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("backtest", type=Path)
    parser.add_argument("--model", type=Path, help="of which theta is taken")
    arguments = parser.parse_args()
    settings, backtest = (
        load_settings(arguments.config).settings,
        BacktestFolder(arguments.backtest),
    )
    fit = read_conflict_fit(arguments.model) if arguments.model else None
    streams = tuple(backtest.run()["origin"]["streams"])
    status = read_status(settings)
    if status.first_day is None or status.last_day is None:
        raise SystemExit(f"{settings.store} has no days")
    history = read_profiles(
        settings, "root", streams, since=status.first_day, until=status.last_day
    )
    values: dict[str, list[float]] = defaultdict(list)
    for day in backtest.days():
        rows = backtest.read_day("week", day).to_pylist()
        origin = date.fromordinal(day.toordinal() - 1)
        for name, numbers in judged(history, origin, rows, fit.theta if fit else None).items():
            values[name] += numbers
    came = np.array(values.pop("came"))
    theta = np.array(values.pop("theta"))
    print(
        f"{len(came)} weeks of streams, came {came.mean():.3f}, theta of past weeks "
        f"{theta.mean():.2f}, fitted {fit.theta if fit else None}\n"
    )
    print("| probability | said | Brier |\n|---|---|---|")
    for name, numbers in values.items():
        said = np.array(numbers)
        print(f"| {name} | {np.nanmean(said):.3f} | {np.nanmean((said - came) ** 2):.4f} |")


if __name__ == "__main__":
    main()
