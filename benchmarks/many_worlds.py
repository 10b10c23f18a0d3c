"""A cell network that has seen many worlds: does it help on one that it has not seen?

    python benchmarks/many_worlds.py train --worlds 40 --out network/
    python benchmarks/many_worlds.py judge --network network/ --config gdelphi.toml
    python benchmarks/many_worlds.py judge --network network/ --preset default [--seed N] [--law N]

`train` draws laws (edges, lags, strengths, occasions, contagion, regimes, volumes), simulates
counts of each without files, fits a stack to it and trains one cell network over all of them.
`judge` compares three networks over the stack of other data, on its test days: *zero-shot*, as it
is; *fine-tuned*, trained on from there; *from scratch*. Each has the weight that validation A and B
give it, as in `gdelphi train`; the table has that, and what is gained against the stack, with 95%
intervals.
"""

import argparse
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.model.cell_fit import (
    CellData,
    CellSettings,
    day_outcomes,
    fit_cells,
    train_cells,
)
from gdelphi.model.cell_inputs import CellInputs, cell_inputs
from gdelphi.model.cell_network import CellConfig, CellNetwork
from gdelphi.scores.probabilities import brier, skill
from gdelphi.stack.fitted import STACK, CountForecasters
from gdelphi.world.config import world_config
from gdelphi.world.draw_law import draw_law
from stack import ask_all, simulated, simulated_stack, stored, tell

FIRST_LAW = 10_000  # laws of training; others are for judging
FINE_TUNING = 0.3  # of the learning rate


def world_cells(law: int, days: int, streams: int) -> tuple[CellInputs, FloatArray]:
    """What a cell network is shown of a drawn world on the days of fitting, and what came."""
    size = {"seed": law, "days": days, "streams": streams}
    counts, _ = simulated_stack(draw_law(world_config("default", size), law))
    known = counts.fit.out_of_fold
    fitted = [date.fromordinal(day) for day in known.days.tolist()]
    inputs = cell_inputs(counts, fitted, known.answers, None, before=CellConfig.days)
    return inputs, np.stack([day_outcomes(counts.panel.roots, day, week=False) for day in fitted])


def train(given: argparse.Namespace) -> None:
    """Train one network over many worlds, and keep it."""
    shown, came = [], []
    for number in range(given.worlds):
        tell(f"world {number + 1} of {given.worlds}")
        inputs, outcomes = world_cells(FIRST_LAW + number, given.days, given.streams)
        shown.append(inputs)
        came.append(outcomes)
    fewest = min(map(len, came))  # days, the last ones; worlds stand beside each other as streams
    together = CellInputs(
        *(np.concatenate([one[-fewest:] for one in each], 1) for each in zip(*shown, strict=True))
    )
    data = CellData(together, np.concatenate([x[-fewest:] for x in came], 1), torch.device("cpu"))
    config = CellConfig(columns=together.columns.shape[-1], roots=together.columns.shape[2])
    settings = CellSettings(epochs=given.epochs, most_steps=given.steps)
    network = train_cells(config, data, np.arange(fewest), settings=settings, on_step=tell)
    given.out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), given.out / "model.safetensors")
    (given.out / "config.json").write_text(json.dumps(config.to_dict()) + "\n", encoding="utf-8")
    size = (given.out / "model.safetensors").stat().st_size
    print(f"{given.worlds} worlds, {fewest} days of each; {size / 1e6:.2f} MB in {given.out}")


def judge(given: argparse.Namespace) -> None:
    """Compare the network, as it is and trained on, with one from scratch."""
    facts = json.loads((given.network / "config.json").read_text(encoding="utf-8"))
    seen = CellNetwork(CellConfig(**facts)).eval()
    seen.load_state_dict(load_file(given.network / "model.safetensors"))
    scratch = CellSettings()
    config = None
    if given.preset:
        config = world_config(given.preset, {} if given.seed is None else {"seed": given.seed})
        config = config if given.law is None else draw_law(config, given.law)
    fitted = simulated(config, scratch) if config else stored(given.config, scratch)
    # These networks speak of tomorrow only.
    counts = CountForecasters(replace(fitted.counts.fit, week=None), fitted.counts.panel)
    tuned = replace(scratch, learning_rate=FINE_TUNING * scratch.learning_rate)
    none = replace(scratch, epochs=0)
    fits = {
        "zero-shot": fit_cells(counts, none, on_step=tell, start=seen),
        "fine-tuned": fit_cells(counts, tuned, on_step=tell, start=seen),
        "from scratch": fit_cells(counts, scratch, on_step=tell),
    }
    days = fitted.days["test"][:: given.every]
    print(f"{len(days)} test days from {days[0]} to {days[-1]}\n")
    print(f"| cell network | {' | '.join(TARGETS)} | weights |\n|{'---|' * 5}")
    for name, cells in fits.items():
        said, came = ask_all(fitted._replace(cells=cells), [], days)
        gains = [
            skill(brier(said["direct"][n], came[n]), brier(said[STACK][n], came[n]))
            for n in range(len(TARGETS))
        ]
        row = [f"{one.value:+.3%} ({one.low:+.3%} to {one.high:+.3%})" for one in gains]
        print(f"| {name} | {' | '.join(row)} | {' / '.join(f'{w:g}' for w in cells.weights)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("train")
    making.add_argument("--worlds", type=int, default=40)
    making.add_argument("--days", type=int, default=400)
    making.add_argument("--streams", type=int, default=8)
    making.add_argument("--epochs", type=int, default=6)
    making.add_argument("--steps", type=int, default=6000, help="at most")
    making.add_argument("--out", type=Path, required=True)
    making.set_defaults(run=train)
    judging = commands.add_parser("judge")
    judging.add_argument("--network", type=Path, required=True)
    judging.add_argument("--config", type=Path)
    judging.add_argument("--preset")
    judging.add_argument("--seed", type=int)
    judging.add_argument("--law", type=int)
    judging.add_argument("--every", type=int, default=1, help="days from one to the next")
    judging.set_defaults(run=judge)
    given = parser.parse_args()
    try:
        given.run(given)
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
