"""A network that has seen many worlds: what it says of data that it has never been trained on.

    python benchmarks/many_worlds.py draw --worlds 1000 --out worlds/ [--first 40000]
    python benchmarks/many_worlds.py train worlds/ --out starter.safetensors [--worlds 250]
    python benchmarks/many_worlds.py judge starter.safetensors --config gdelphi.toml [--history 120]
    python benchmarks/many_worlds.py judge starter.safetensors --preset default [--law N]

`draw` draws laws (edges, lags, strengths, occasions, contagion, regimes, volumes), simulates counts
of each without files, thins them to between 1 in 40 and all of their rows, loosens most of them (a
part of each stream's days is replaced by days from around it, so that dynamics are as weak as in
real news), and keeps the columns of `stack/context.py` on some days of each. It goes on where it
was. `train` trains the network of `stack/starter.py` over all of them, in minutes, and says how
good it is on laws that it was not shown. `judge` compares, on validation and test days of a store
or of a simulated world: baselines, the network as it is (*zero-shot*), trained on from there on the
days before validation (*fine-tuned*), the same from nothing (*from scratch*), and the simple stack
fitted on those days. `--history N` lets every block of 30 days see a store that began N days before
it, as after a first ingestion; nothing is fine-tuned then.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import process_time

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from gdelphi.common.errors import GdelphiError
from gdelphi.common.sections import SplitSettings
from gdelphi.common.settings import load_settings
from gdelphi.common.splits import split_days
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.model.context_fit import FINE_TUNING
from gdelphi.model.starter_network import StarterSettings, train_starter
from gdelphi.scores.probabilities import brier, skill
from gdelphi.stack.context import FIRST_DAY, ContextTable, context_table, enough_before
from gdelphi.stack.linear import default_stack, expit
from gdelphi.stack.starter import load_starter
from gdelphi.world.config import world_config
from gdelphi.world.draw_law import draw_law
from gdelphi.world.simulated_counts import simulated_count_panel
from stack import stored_panel, target_days, tell

FIRST_LAW = 40_000  # laws of training; others are for judging
SIZES = (130, 190, 260, 360, 500)  # days of a world
STREAMS = (3, 9)
CELLS = 120  # days times streams that are kept of a world
LEAST_THINNED = 1 / 40
LOOSENED = 0.6  # of the worlds
AROUND = 45  # days from which another day is taken
SHARD = 25  # worlds of a file
HELD_OUT = 12  # one law of so many is not trained on
PARTS = (1.0, 1.0, 0.3)  # of what is added that counts, chosen on validation days of real data
BLOCK = 30  # days that see one and the same beginning of a store
RIDGE_DAYS = 365  # that the simple stack learns from


# --- worlds ---------------------------------------------------------------------------------------


def thinned(panel: CountPanel, part: float, random: np.random.Generator) -> CountPanel:
    """A panel of a random part of its rows."""
    roots = panel.roots
    counts = random.binomial(roots.counts, part)
    weights = roots.weights * counts / np.maximum(roots.counts, 1)
    few = {
        name: random.binomial(getattr(panel, name), part).astype(getattr(panel, name).dtype)
        for name in ("fine", "pairs", "acted", "world")
    }
    kept = replace(roots, counts=counts, weights=weights, volume=counts.sum(axis=2))
    return replace(panel, roots=kept, **few)


def loosened(panel: CountPanel, part: float, random: np.random.Generator) -> CountPanel:
    """A panel with a part of each stream's days replaced by other days of it from around: levels
    stay, what follows from what is lost there."""
    roots = panel.roots
    there = np.flatnonzero(roots.present)
    old = (roots.counts, roots.weights, roots.volume, panel.fine)
    new = [values.copy() for values in old]
    for stream in range(len(roots.streams)):
        places = np.flatnonzero(random.random(len(there)) < part)
        moved = places + random.integers(-AROUND, AROUND + 1, len(places))
        other = there[np.clip(moved, 0, len(there) - 1)]
        for values, before in zip(new, old, strict=True):
            values[stream, there[places]] = before[stream, other]
    counts, weights, volume, fine = new
    return replace(
        panel, roots=replace(roots, counts=counts, weights=weights, volume=volume), fine=fine
    )


def drawn_world(law: int) -> ContextTable:
    """Columns of some days of a world, and what came."""
    random = np.random.default_rng(law)
    streams = int(random.integers(STREAMS[0], STREAMS[1] + 1))
    size = {"seed": law, "days": int(random.choice(SIZES)), "streams": streams}
    panel = simulated_count_panel(draw_law(world_config("default", size), law))
    part = float(np.exp(random.uniform(np.log(LEAST_THINNED), np.log(1.3))))
    if part < 1:
        panel = thinned(panel, part, random)
    if random.random() < LOOSENED:
        panel = loosened(panel, random.random(), random)
    days = np.flatnonzero(panel.roots.present)
    days = days[days >= FIRST_DAY + 15]  # surges need sixty days before them, some are missing
    number = min(len(days), CELLS // streams)
    return context_table(panel, sorted(random.choice(days, number, replace=False)))


def draw(given: argparse.Namespace) -> None:
    """Keep the columns of many worlds."""
    given.out.mkdir(parents=True, exist_ok=True)
    for first in range(given.first, given.first + given.worlds, SHARD):
        path = given.out / f"{first}.safetensors"
        if path.exists():
            continue
        found: dict[str, list[np.ndarray]] = {"columns": [], "base": [], "outcomes": [], "law": []}
        for law in range(first, first + SHARD):
            try:
                table = drawn_world(law)
            except GdelphiError as error:  # a law that is refused, or a world without enough days
                tell(f"law {law}: {error}")
                continue
            flat = {name: v.reshape(-1, v.shape[-1]) for name, v in table._asdict().items()}
            found["columns"].append(flat["columns"].astype(np.float16))
            found["base"].append(flat["base"])
            found["outcomes"].append(flat["outcomes"])
            found["law"].append(np.full(len(flat["base"]), law))
        save_file({name: np.concatenate(values) for name, values in found.items()}, path)
        tell(f"worlds to {first + SHARD}, {process_time():.0f} s of CPU")


# --- training -------------------------------------------------------------------------------------


def train(given: argparse.Namespace) -> None:
    """Train over the worlds of a folder."""
    parts = [load_file(path) for path in sorted(given.worlds_folder.glob("*.safetensors"))]
    data = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    laws = np.unique(data["law"])
    held = laws[::HELD_OUT]
    shown = np.setdiff1d(laws, held)[: given.worlds]
    inside, outside = np.isin(data["law"], shown), np.isin(data["law"], held)
    some = data["columns"][inside][::7].astype(np.float32)
    scale = some.mean(axis=0), np.maximum(some.std(axis=0), 1e-2)
    rows = ContextTable(*(data[name][inside] for name in ContextTable._fields))
    network = train_starter(None, rows, scale, StarterSettings(steps=given.steps), tell)
    starter = network._replace(part=np.array(PARTS, np.float32))
    save_file(starter._asdict(), given.out)
    columns, base, came = (
        data[name][outside].astype(np.float32)[:, None, None]
        for name in ("columns", "base", "outcomes")
    )
    whole = starter._replace(part=np.ones(len(TARGETS), np.float32))
    said = whole.probabilities(ContextTable(columns, base, came))
    gains = [
        1 - np.nanmean((said[..., n] - came[..., n]) ** 2)
        / np.nanmean((expit(base[..., n]) - came[..., n]) ** 2)
        for n in range(len(TARGETS))
    ]  # fmt: skip
    print(
        f"{len(shown)} worlds, {inside.sum():,} cells, {given.out.stat().st_size / 1e6:.2f} MB; on "
        f"{len(held)} worlds that it has not seen, against the mean of three baselines: "
        + " / ".join(f"{gain:+.2%}" for gain in gains)
    )


# --- judging --------------------------------------------------------------------------------------


def cut(panel: CountPanel, first: int, last: int) -> CountPanel:
    """The days of a panel from one position to another, both in it."""
    roots, days = panel.roots, slice(first, last + 1)
    kept = replace(
        roots, days=roots.days[days], present=roots.present[days], counts=roots.counts[:, days],
        weights=roots.weights[:, days], volume=roots.volume[:, days],
    )  # fmt: skip
    return replace(
        panel, roots=kept, fine=panel.fine[:, days], pairs=panel.pairs[days],
        acted=panel.acted[:, days], world=panel.world[days],
    )  # fmt: skip


def tables_of(panel: CountPanel, positions: np.ndarray, history: int) -> ContextTable:
    """Columns of target days; with `history` each block of them sees so many days before it."""
    if not history:
        return context_table(panel, positions)
    blocks = []
    for start in range(0, len(positions), BLOCK):
        own = positions[start : start + BLOCK]
        first = max(int(own[0]) - history, 0)
        blocks.append(context_table(cut(panel, first, int(own[-1])), own - first))
    return ContextTable(*(np.concatenate(values) for values in zip(*blocks, strict=True)))


def simple_stack(panel: CountPanel, positions: np.ndarray, history: int) -> FloatArray:
    """What the simple stack says of target days, fitted on the days before each block of them, at
    most a year of them; [day, stream, root, target]."""
    said = []
    size = BLOCK if history else len(positions)
    for start in range(0, len(positions), size):
        own = positions[start : start + size]
        first = max(int(own[0]) - history, 0) if history else 0
        roots = cut(panel, first, int(own[-1])).roots
        learned = range(max(FIRST_DAY, int(own[0]) - first - RIDGE_DAYS), int(own[0]) - first)
        stack = default_stack().fit(roots, [roots.days[at] for at in learned])
        for at in own - first:
            example = stack.example_at(roots, roots.days[at])
            shape = (len(roots.streams), len(roots.codes))
            said.append([stack.answer(example, target).reshape(shape) for target in TARGETS])
    return np.moveaxis(np.array(said), 1, -1)


def judge(given: argparse.Namespace) -> None:
    """Compare the network with baselines and with the simple stack."""
    starter = load_starter(given.weights)
    if given.preset:
        config = world_config(given.preset, {} if given.seed is None else {"seed": given.seed})
        config = config if given.law is None else draw_law(config, given.law)
        panel = simulated_count_panel(config)
        first, last = panel.roots.days[0], panel.roots.days[-1]
        days = target_days(panel.roots, split_days(first, last, SplitSettings()))
    else:
        settings = load_settings(given.config, {}).settings
        panel, found = stored_panel(settings)
        days = {name: list(part) for name, part in found.items()}

    enough = enough_before(panel)

    def positions(part: Sequence[date]) -> np.ndarray:
        at = np.array([(day - panel.roots.days[0]).days for day in part])
        return at[enough[at]][:: given.every]

    networks = {"zero-shot": starter}
    if not given.history:
        learned = tables_of(panel, positions(days["train"])[-given.most :], 0)
        scale = starter.mean, starter.deviation
        tuned = replace(FINE_TUNING, steps=given.steps)
        anew = StarterSettings(steps=given.steps)
        networks["fine-tuned"] = train_starter(starter, learned, scale, tuned, tell)
        networks["from scratch"] = train_starter(None, learned, scale, anew, tell)
    print(f"{len(panel.roots.streams)} streams; skill against the mean of three baselines\n")
    print(f"| days | forecaster | {' | '.join(TARGETS)} |\n|{'---|' * (2 + len(TARGETS))}")
    parts = {
        "validation": [*days["validation_a"], *days["validation_b"]],
        "test": days["test"],
    }
    for part, of_part in parts.items():
        at = positions(of_part)
        table = tables_of(panel, at, given.history)
        said = {name: one.probabilities(table) for name, one in networks.items()}
        whole_part = starter._replace(part=np.ones(len(TARGETS), np.float32))
        said["zero-shot, all of it"] = whole_part.probabilities(table)
        said["simple stack, fitted"] = simple_stack(panel, at, given.history)
        bar = expit(table.base.astype(np.float64))
        for name, chances in said.items():
            gains = [
                skill(*(brier(x[..., n], table.outcomes[..., n]) for x in (chances, bar)))
                for n in range(len(TARGETS))
            ]
            cells = [f"{one.value:+.2%} ({one.low:+.2%} to {one.high:+.2%})" for one in gains]
            print(f"| {len(at)} of {part} | {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--worlds", type=int, default=1000)
    drawing.add_argument("--first", type=int, default=FIRST_LAW, help="law of the first")
    drawing.add_argument("--out", type=Path, required=True)
    drawing.set_defaults(run=draw)
    training = commands.add_parser("train")
    training.add_argument("worlds_folder", type=Path)
    training.add_argument("--worlds", type=int, default=10**6, help="at most so many")
    training.add_argument("--steps", type=int, default=2000)
    training.add_argument("--out", type=Path, required=True)
    training.set_defaults(run=train)
    judging = commands.add_parser("judge")
    judging.add_argument("weights", type=Path)
    judging.add_argument("--config", type=Path)
    judging.add_argument("--preset")
    judging.add_argument("--seed", type=int)
    judging.add_argument("--law", type=int)
    judging.add_argument("--history", type=int, default=0, help="days of a store; 0: all")
    judging.add_argument("--every", type=int, default=1, help="days from one to the next")
    judging.add_argument("--most", type=int, default=600, help="training days to fine-tune on")
    judging.add_argument("--steps", type=int, default=600, help="of fine-tuning")
    judging.set_defaults(run=judge)
    given = parser.parse_args()
    torch.set_num_threads(1)  # the products are small
    try:
        given.run(given)
    except GdelphiError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
