"""Study: what phrases of a day in brief stand for. Prints a Markdown table.

    python benchmarks/brief.py STORE.toml... [--days 60]

For each store, given by its settings, random stream-days of 50 to 1,500 rows: the W2-optimal atoms
that the models are trained with, named after their plurality root, and the phrases that readers
see, which are made within roots. *pure*: share of the phrases' weight that has the root of its
phrase. *under 60%*: share of phrases less pure. *shown*: share of the day that phrases stand for.
*W2*: distance of the atoms, with the best weights, to the day; its mean, and the ratio.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gdelphi.common.settings import load_settings
from gdelphi.common.types import WORLD, FloatArray
from gdelphi.measures.clouds import Cloud, Clouds, measures_folder
from gdelphi.measures.descriptors import Descriptor, atom_rule, describe_day
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import lineage
from gdelphi.measures.root_phrases import describe_by_root, nearest_cost
from gdelphi.measures.space import Points, load_space

FEWEST_ROWS, MOST_ROWS = 50, 1500
SEED = 7


class Purity(NamedTuple):
    """Of the phrases of one day."""

    weights: FloatArray
    pure: FloatArray
    """share of each phrase's weight that has its root"""
    distance: float


def purity(cloud: Cloud, day: Descriptor, points: Points) -> Purity:
    """What the phrases of a day stand for, counted over its points."""
    roots = np.array([lineage(code).root for code in cloud.code.values()])
    pure = []
    for number, code in enumerate(day.phrases.code):
        members = np.flatnonzero(day.members == number)
        same = roots[members] == lineage(code).root
        pure.append(float(cloud.weights[members] @ same) / float(cloud.weights[members].sum()))
    distance = nearest_cost(points.measure(cloud), day.points) ** 0.5
    return Purity(day.weights, np.array(pure), distance)


def drawn_days(clouds: Clouds, number: int) -> Iterator[Cloud]:
    """Random stream-days of a usual size."""
    places = [
        (stream, day)
        for day in clouds.days
        if (on := clouds.on(day)) is not None
        for stream, said in on.statistics.items()
        if stream != WORLD and FEWEST_ROWS <= said.volume <= MOST_ROWS
    ]
    random = np.random.default_rng(SEED)
    for place in sorted(random.choice(len(places), min(number, len(places)), replace=False)):
        yield clouds.cloud(*places[place])


def table_rows(config: Path, number: int) -> Iterator[str]:
    """The rows of one store: before and after."""
    settings = load_settings(config).settings
    folder = measures_folder(settings)
    points = Points(load_space(folder / "space"), open_cache(settings))
    rule, measures = atom_rule(settings.measures), settings.measures
    days = list(drawn_days(Clouds(folder), number))
    ways = {
        "optimal atoms": [purity(day, describe_day(day, points, rule), points) for day in days],
        "within roots": [
            purity(day, describe_by_root(day, points, measures.most_atoms), points) for day in days
        ],
    }
    first = float(np.mean([found.distance for found in ways["optimal atoms"]]))
    for name, found in ways.items():
        weights = np.concatenate([one.weights for one in found])
        pure = np.concatenate([one.pure for one in found])
        distance = float(np.mean([one.distance for one in found]))
        cells = [
            config.parent.name, name, f"{len(days)}", f"{len(weights) / len(days):.1f}",
            f"{weights @ pure / weights.sum():.1%}", f"{(pure < 0.6).mean():.1%}",
            f"{weights.sum() / len(days):.1%}", f"{distance:.3f}", f"{distance / first:.3f}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stores", nargs="+", type=Path, help="gdelphi.toml of embedded stores")
    parser.add_argument("--days", type=int, default=60, help="stream-days of each")
    arguments = parser.parse_args()
    print("| store | phrases | days | a day | pure | under 60% | shown | W2 | to optimal |")
    print("|---|---|---|---|---|---|---|---|---|")
    for config in arguments.stores:
        for row in table_rows(config, arguments.days):
            print(row, flush=True)


if __name__ == "__main__":
    main()
