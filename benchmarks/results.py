"""The tables of docs/results.md: how much better than the stack trained models are, on days that
nothing was fitted on.

    python benchmarks/results.py --store STORE --model models/a [--model models/b ...]
                                 [--world ARCHIVE] [--config gdelphi.toml] --out FOLDER
                                 [--summarise]

A backtest of each model (`gdelphi backtest`), in a folder of its own under --out; days that are
judged already are not judged again. Markdown on the standard output. The first model's tables are
shown whole. Several models are several seeds: their skill is also given as mean and range. With
--world, also the part of the way from the simple stack to the fair oracle that forecasters come.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gdelphi.app.commands.backtest import BacktestBar
from gdelphi.app.console import chance, number, skill_cells
from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import load_settings
from gdelphi.common.types import TARGETS
from gdelphi.judge.backtest import (
    BacktestRequest,
    backtest,
    summarise_folder,
)
from gdelphi.judge.day import BacktestOptions
from gdelphi.judge.futures import text_can_be_scored

MEMBERS = (
    "climatology", "weekday", "persistence", "ewma", "recency", "analogues", "simple stack",
    "intensity", "trees", "logistic", "stack", "profiles", "direct", "atoms", "without network",
    "combined", "published",
)  # fmt: skip
Summary = Mapping[str, Any]
Row = Sequence[str]


def summaries(given: argparse.Namespace) -> list[Summary]:
    """The backtest of each model."""
    settings = load_settings(given.config, {"store": given.store}).settings
    names = [model.resolve().name for model in given.model]
    if len(set(names)) < len(names):
        raise GdelphiError(f"models of the same name would share a folder: {', '.join(names)}")
    options = BacktestOptions(world=given.world, futures=given.futures, text=text_can_be_scored())
    if given.summarise:
        return [summarise_folder(given.out / name) for name in names]
    made: list[Summary] = []
    for name, model in zip(names, given.model, strict=True):
        request = BacktestRequest(
            model, given.out / name, every=given.every, options=options, processes=given.processes
        )
        with BacktestBar() as bar:
            made.append(backtest(settings, request, bar))
    return made


def forecasters(summary: Summary) -> list[str]:
    """Those shown: members, and oracles if there are any."""
    there = dict.fromkeys(line["forecaster"] for line in summary["scores"])
    oracles = [name for name in there if "oracle" in name]
    return [*(name for name in MEMBERS if name in there), *oracles]


def table(title: str, head: Row, rows: Iterator[Row]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


# --- one model ------------------------------------------------------------------------------------


def score_rows(summary: Summary, cells: str) -> Iterator[Row]:
    lines = {
        (line["target"], line["forecaster"]): line
        for line in summary["scores"]
        if line["cells"] == cells
    }
    for target in TARGETS:
        for name in forecasters(summary):
            line = lines[target, name]
            yield (
                target, name, number(line["brier"]), number(line["log_score"]),
                number(line["calibration_error"], 4), *skill_cells(line["skill"]),
                chance(line["p_value"]), skill_cells(line["over_simple"])[0],
            )  # fmt: skip


def network_rows(summary: Summary) -> Iterator[Row]:
    for line in summary["network"]:
        yield line["cells"], line["target"], *skill_cells(line["skill"]), chance(line["p_value"])


def share_rows(summary: Summary) -> Iterator[Row]:
    for line in summary["shares"]:
        held = [number(line["coverage"][level], 3) for level in ("50", "90")]
        yield line["forecaster"], number(line["crps"]), *skill_cells(line["skill"]), *held


def future_rows(summary: Summary) -> Iterator[Row]:
    for line in summary["futures"]:
        rouge = [number(line["rouge"][kind], 3) for kind in ("rouge1", "rouge2", "rougeL")]
        energy, sinkhorn = number(line["energy"]), number(line["sinkhorn"], 4)
        yield line["ensemble"], energy, *skill_cells(line["skill"]), sinkhorn, *rouge


def class_rows(summary: Summary) -> Iterator[Row]:
    for line in summary["by_class"]:
        if line["forecaster"] == "published":
            yield line["part"], line["target"], number(line["brier"]), *skill_cells(line["skill"])


def show(summary: Summary) -> None:
    """The tables of one model."""
    days, streams = summary["days"], len(summary["origin"]["streams"])
    first, last = days["first"], days["last"]
    print(f"{days['number']} days from {first} to {last}, {streams} streams, one day ahead.")
    head: Row = ("target", "forecaster", "Brier", "log score", "calibration error",
            "skill against the stack", "95%", "p", "over the simple stack")  # fmt: skip
    table("All cells:", head, score_rows(summary, "all"))
    table("Active cells:", head, score_rows(summary, "active"))
    head = ("cells", "target", "skill", "95%", "p")
    table("What the network adds (published against without network):", head, network_rows(summary))
    head = ("class", "target", "Brier", "skill against the stack", "95%")
    table("What is published by class of event, active cells:", head, class_rows(summary))
    head = ("forecaster", "CRPS", "skill against recency", "95%", "50% held", "90% held")
    table("Shares:", head, share_rows(summary))
    head = ("futures", "energy score", "skill against recency", "95%", "Sinkhorn distance",
            "ROUGE-1", "ROUGE-2", "ROUGE-L")  # fmt: skip
    table("Whole futures:", head, future_rows(summary))


# --- several --------------------------------------------------------------------------------------


def over_models(values: Sequence[float], percent: bool = True) -> str:
    """Mean and range."""
    form = "{:.2%}" if percent else "{:.5f}"
    mean = form.format(np.mean(values))
    if len(values) == 1:
        return mean
    return f"{mean} ({form.format(min(values))} to {form.format(max(values))})"


def by_target(
    of_models: Sequence[Summary], table_name: str, cells: str, value: Callable[[Summary], float]
) -> Iterator[Row]:
    """A row for each forecaster, a column for each target."""
    for name in forecasters(of_models[0]):
        columns = []
        for target in TARGETS:
            values = [
                value(line)
                for summary in of_models
                for line in summary[table_name]
                if (line["cells"], line["target"], line["forecaster"]) == (cells, target, name)
            ]
            columns.append(over_models(values) if values else "")
        if any(columns):
            yield name, *columns


def show_together(of_models: Sequence[Summary]) -> None:
    """What all models have in common."""
    head = ("forecaster", *TARGETS)
    for cells in ("all", "active"):
        if len(of_models) > 1:
            title = f"Skill against the stack, {cells} cells, mean and range of {len(of_models)}:"
            table(title, head, by_target(of_models, "scores", cells, lambda x: x["skill"]["value"]))
        title = f"Skill against the simple stack, {cells} cells:"
        over = by_target(of_models, "scores", cells, lambda x: x["over_simple"]["value"])
        table(title, head, over)
        if of_models[0]["captured"]:
            title = f"Part of the way from the simple stack to the fair oracle, {cells} cells:"
            table(title, head, by_target(of_models, "captured", cells, lambda x: x["fraction"]))
    if len(of_models) > 1:
        table(
            "Skill of whole futures against recency, mean and range:",
            ("futures", "skill"),
            future_ranges(of_models),
        )


def future_ranges(of_models: Sequence[Summary]) -> Iterator[Row]:
    for line in of_models[0]["futures"]:
        name = line["ensemble"]
        values = [
            row["skill"]["value"]
            for summary in of_models
            for row in summary["futures"]
            if row["ensemble"] == name
        ]
        if not np.isnan(values).any():
            yield name, over_models(values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--model", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--world", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--processes", type=int)
    parser.add_argument(
        "--summarise", action="store_true", help="only make the tables, of backtests that are there"
    )
    given = parser.parse_args()
    try:
        of_models = summaries(given)
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")
    show(of_models[0])
    show_together(of_models)


if __name__ == "__main__":
    main()
