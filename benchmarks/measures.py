"""Study: what the representation keeps of a day. Prints Markdown tables and draws two figures.

    python benchmarks/measures.py [--work FOLDER] [--shared ../shared/data] [--only PART]

Three corpora: a week of GDELT 2.0 of the whole world, two years of GDELT 1.0 from Georgia, and the
default simulated world. Everything is fitted on the first 60% of the days; days are drawn from
validation A (of the week: from its last three days). Parts: corpora, shares, quantisation, rule.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from gdelphi.common.sections import MeasureSettings
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.splits import split_days, training_end
from gdelphi.common.types import (
    WORLD,
    FloatArray,
    IntArray,
    Measure,
)
from gdelphi.measures.basis import standard_basis
from gdelphi.measures.cloud_update import gather
from gdelphi.measures.clouds import (
    Cloud,
    Clouds,
    measures_folder,
)
from gdelphi.measures.descriptors import describe_day
from gdelphi.measures.embed import training_clouds
from gdelphi.measures.encoder import EmbeddingCache, open_cache
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.space import (
    PhraseWeights,
    Points,
    fit_space,
    place_of,
    weigh_phrases,
)
from gdelphi.ot.quantise import (
    AtomRule,
    explained,
    quantise,
    quantise_adaptively,
)
from gdelphi.ot.sphere import effective_rank, mean_cosine
from gdelphi.store.ingest import IngestRequest, ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config

DAYS = 60  # stream-days of each corpus
FEWEST_ROWS, MOST_ROWS = 50, 1500  # of a drawn stream-day
HELD_OUT = 2000  # phrases
ATOMS = (5, 10)
SEED = 7

VARIANTS: dict[str, MeasureSettings] = {
    **{
        f"verb {weight:g}": MeasureSettings(
            verb_weight=weight, actor1_weight=round((1 - weight) * 4 / 7, 3)
        )
        for weight in (0.34, 0.5, 0.65, 0.8)
    },
    "verb .65, 256 dimensions": MeasureSettings(verb_dimensions=128, actor_dimensions=64),
    "verb .65, 32 dimensions": MeasureSettings(verb_dimensions=16, actor_dimensions=8),
}


@dataclass(frozen=True)
class Corpus:
    """A store with its clouds."""

    name: str
    settings: Settings
    clouds: Clouds

    @property
    def cutoff(self) -> date:
        days = self.clouds.days
        return training_end(days[0], days[-1], self.settings.split)

    def later_days(self) -> list[date]:
        """Validation A; of a corpus too short for it, all days after the cutoff."""
        days = self.clouds.days
        if (days[-1] - days[0]).days < 100:
            return [day for day in days if day > self.cutoff]
        first, last = split_days(days[0], days[-1], self.settings.split).validation_a
        return [day for day in days if first <= day <= last]

    def drawn(self) -> list[Cloud]:
        """Random stream-days of a usual size."""
        places = [
            (stream, day)
            for day in self.later_days()
            for stream, said in (self.clouds.on(day) or _none()).statistics.items()
            if stream != WORLD and FEWEST_ROWS <= said.volume <= MOST_ROWS
        ]
        random = np.random.default_rng(SEED)
        chosen = random.choice(len(places), min(DAYS, len(places)), replace=False)
        return [self.clouds.cloud(*places[place]) for place in sorted(chosen)]


def _none() -> "Clouds":
    raise SystemExit("a day went away while the study ran")


def corpora(work: Path, shared: Path) -> Iterator[Corpus]:
    """The stores, made where they are not there yet."""
    archives = {
        "gdelt2-world": shared / "gdelt2-world",
        "gdelt1-georgia": shared / "gdelt1-georgia",
        "default world": work / "archive",
    }
    for name, archive in archives.items():
        settings = load_settings(
            None,
            {
                "store": work / f"{name.replace(' ', '-')}.duckdb",
                "ingest.archive": str(archive),
                "embed.cache": work / "embeddings",
            },
        ).settings
        if name == "default world" and not archive.exists():
            create_world(world_config("default"), archive)
        if not settings.store.exists():
            ingest(settings, IngestRequest())
        gather(settings)
        yield Corpus(name, settings, Clouds(measures_folder(settings)))


# --- corpora --------------------------------------------------------------------------------------


def show_corpora(all_corpora: list[Corpus]) -> None:
    print("\n| corpus | rows | distinct phrases | rows of the 5,000 commonest | distinct actors |")
    print("|---|---|---|---|---|")
    shown: dict[str, list[str]] = {}
    for corpus in all_corpora:
        rows: Counter[tuple[str, str, str, str]] = Counter()
        actors: set[str] = set()
        for day in corpus.clouds.days:
            on = corpus.clouds.on(day)
            for stream in on.streams if on else ():
                if on is None or stream == WORLD:
                    continue
                cloud = on.cloud(stream)
                for phrase, count in zip(cloud.phrases(), cloud.numbers.rows.tolist(), strict=True):
                    rows[*phrase, stream] += count
                actors.update(cloud.actor1.alone().keys, cloud.actor2.alone().keys)
        total = rows.total()
        top = sum(count for _, count in rows.most_common(5000))
        print(
            f"| {corpus.name} | {total:,} | {len(rows):,} | {top / total:.1%} | {len(actors):,} |"
        )
        keys = sorted(rows)
        random = np.random.default_rng(SEED)
        shown[corpus.name] = [
            sentence(first, code, second, place_of(at))
            for first, code, second, at in (keys[place] for place in random.choice(len(keys), 20))
        ]
    for name, phrases in shown.items():
        print(f"\n20 random phrases of {name}:\n")
        print("\n".join(f"- {phrase}" for phrase in phrases))


# --- shares ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """What descriptors keep of days; means over stream-days."""

    root: float
    base: float
    root_variation: float
    base_variation: float
    actor1: float
    actor2: float


def kept_by(clouds: list[Cloud], points: Points, atoms: int) -> Kept:
    rule = AtomRule(atoms, atoms, 1.0)
    return Kept(*np.mean([_kept(cloud, points, rule) for cloud in clouds], axis=0))


def _kept(cloud: Cloud, points: Points, rule: AtomRule) -> list[float]:
    descriptor = describe_day(cloud, points, rule)
    own = [lineage(code) for code in cloud.code.values()]
    found = [lineage(code) for code in descriptor.phrases.code]
    weights, members = cloud.weights, descriptor.members
    results = []
    for level in ("root", "base"):
        true = np.array([getattr(each, level) for each in own])
        atom = np.array([getattr(each, level) for each in found])
        results.append(float(weights @ (true == atom[members])))
    variations = []
    for level in ("root", "base"):
        true_shares = _shares([getattr(each, level) for each in own], weights)
        atom_shares = _shares([getattr(each, level) for each in found], descriptor.weights)
        codes = set(true_shares) | set(atom_shares)
        gaps = [abs(true_shares.get(code, 0) - atom_shares.get(code, 0)) for code in codes]
        variations.append(sum(gaps) / 2)
    actors = []
    for slot, named in (
        (cloud.actor1, descriptor.phrases.actor1),
        (cloud.actor2, descriptor.phrases.actor2),
    ):
        same = [key == named[atom] for key, atom in zip(slot.values(), members, strict=True)]
        actors.append(float(weights @ np.array(same)))
    return [*results, *variations, *actors]


def _shares(codes: list[str], weights: FloatArray) -> dict[str, float]:
    shares: dict[str, float] = {}
    for code, weight in zip(codes, weights.tolist(), strict=True):
        shares[code] = shares.get(code, 0.0) + weight
    return shares


def ceiling(clouds: list[Cloud], atoms: int) -> tuple[float, float]:
    """Share of the largest roots and bases: what that many atoms could keep at best."""
    best = []
    for cloud in clouds:
        own = [lineage(code) for code in cloud.code.values()]
        levels = [
            _shares([getattr(each, level) for each in own], cloud.weights)
            for level in ("root", "base")
        ]
        best.append([sum(sorted(shares.values())[-atoms:]) for shares in levels])
    root, base = np.mean(best, axis=0)
    return float(root), float(base)


def training(corpus: Corpus) -> PhraseWeights:
    return weigh_phrases(training_clouds(corpus.clouds, corpus.cutoff))


def held_out(corpus: Corpus) -> list[tuple[str, str, str, str]]:
    """Phrases of later days that no training day has."""
    seen = {
        phrase
        for cloud in training_clouds(corpus.clouds, corpus.cutoff)
        for phrase in cloud.phrases()
    }
    new: set[tuple[str, str, str, str]] = set()
    for cloud in corpus.drawn():
        new.update((*phrase, cloud.stream) for phrase in cloud.phrases() if phrase not in seen)
    keys = sorted(new)
    random = np.random.default_rng(SEED)
    chosen = random.choice(len(keys), min(HELD_OUT, len(keys)), replace=False)
    return [keys[place] for place in sorted(chosen)]


def recovered(keys: list[tuple[str, str, str, str]], points: Points) -> tuple[float, float]:
    """Share of held-out phrases whose root and base the projection onto the basis gives back."""
    verbs = points.verbs([code for _, code, _, _ in keys])
    scores = []
    for level in ("root", "base"):
        basis = standard_basis(points, level)
        right = [
            basis.codes[place] == getattr(lineage(key[1]), level)
            for place, key in zip(basis.nearest(verbs), keys, strict=True)
        ]
        scores.append(float(np.mean(right)))
    return scores[0], scores[1]


def cosines(
    points: Points, cache: EmbeddingCache, clouds: list[Cloud]
) -> tuple[float, float, float]:
    """Mean cosine of two phrases as encoded and as placed, and the effective rank when placed."""
    keys, weights, placed = [], [], []
    for cloud in clouds[:20]:
        keys += [sentence(*phrase, place_of(cloud.stream)) for phrase in cloud.phrases()]
        weights.append(cloud.weights)
        placed.append(points.of(cloud))
    together, mass = np.concatenate(placed), np.concatenate(weights)
    raw = mean_cosine(cache.embed(keys), mass)
    return raw, mean_cosine(together, mass), effective_rank(together, mass)


def show_shares(all_corpora: list[Corpus]) -> None:
    for corpus in all_corpora:
        cache = open_cache(corpus.settings)
        clouds, phrases, keys = corpus.drawn(), training(corpus), held_out(corpus)
        print(f"\n**{corpus.name}**: {len(clouds)} stream-days, {len(keys):,} held-out phrases\n")
        print("| share of the verb | root / base of held-out phrases | cosine | rank |", end="")
        print("".join(f" {m} atoms: root | base | TV root | TV base | actors |" for m in ATOMS))
        print("|---|---|---|---|" + "---|---|---|---|---|" * len(ATOMS))
        for name, settings in VARIANTS.items():
            points = Points(fit_space(settings, phrases, cache), cache)
            root, base = recovered(keys, points)
            raw, placed, rank = cosines(points, cache, clouds)
            print(
                f"| {name} | {root:.1%} / {base:.1%} | {raw:.2f} to {placed:.2f} | {rank:.0f} |",
                end="",
            )
            for atoms in ATOMS:
                kept = kept_by(clouds, points, atoms)
                print(
                    f" {kept.root:.3f} | {kept.base:.3f} | {kept.root_variation:.3f} | "
                    f"{kept.base_variation:.3f} | {kept.actor1:.2f}, {kept.actor2:.2f} |",
                    end="",
                )
            print(flush=True)
        bounds = [ceiling(clouds, atoms) for atoms in ATOMS]
        print("| *most that so many atoms can keep* | | | |", end="")
        print("".join(f" {root:.3f} | {base:.3f} | | | |" for root, base in bounds))


# --- quantisation ---------------------------------------------------------------------------------


def default_points(corpus: Corpus) -> Points:
    cache = open_cache(corpus.settings)
    phrases = weigh_phrases(training_clouds(corpus.clouds, corpus.cutoff))
    return Points(fit_space(corpus.settings.measures, phrases, cache), cache)


def distance(cloud: Measure, chosen: IntArray) -> float:
    """W2 to the measure on some of the cloud's points that is nearest to it."""
    nearest = (cloud.points @ cloud.points[chosen].T).max(axis=1)
    return float(np.sqrt(max(2 - 2 * float(cloud.weights @ nearest), 0.0)))


def best_partition(cloud: Measure, atoms: int) -> float:
    """W2^2 of the exact optimum, over all partitions; for a handful of points."""
    sums = cloud.points.astype(np.float64) * cloud.weights[:, None]
    best = np.inf

    def place(point: int, parts: list[FloatArray]) -> None:
        nonlocal best
        if point == len(sums):
            best = min(best, 2 - 2 * sum(float(np.linalg.norm(part)) for part in parts))
            return
        for number, part in enumerate(parts):
            parts[number] = part + sums[point]
            place(point + 1, parts)
            parts[number] = part
        if len(parts) < atoms:
            place(point + 1, [*parts, sums[point]])

    place(0, [])
    return max(best, 0.0)


def show_quantisation(all_corpora: list[Corpus]) -> None:
    print(
        "\n| corpus | atoms | descriptor | random atoms | heaviest phrases | descriptor best on |"
    )
    print("|---|---|---|---|---|---|")
    random = np.random.default_rng(SEED)
    exact: list[float] = []
    for corpus in all_corpora:
        points = default_points(corpus)
        measures = [points.measure(cloud) for cloud in corpus.drawn()]
        for atoms in (3, *ATOMS):
            rows = []
            for measure in measures:
                drawn = [
                    distance(measure, random.choice(len(measure.weights), atoms, replace=False))
                    for _ in range(20)
                ]
                heaviest = distance(measure, np.argsort(-measure.weights, kind="stable")[:atoms])
                rows.append((quantise(measure, atoms).cost ** 0.5, float(np.mean(drawn)), heaviest))
            mine, drawn_mean, heavy = np.mean(rows, axis=0)
            wins = np.mean([row[0] < min(row[1:]) for row in rows])
            print(
                f"| {corpus.name} | {atoms} | {mine:.3f} | {drawn_mean:.3f} | {heavy:.3f} | "
                f"{wins:.0%} |"
            )
        for measure in measures[:20]:
            few = random.choice(len(measure.weights), 9, replace=False)
            weights = measure.weights[few] / measure.weights[few].sum()
            small = Measure(measure.points[few], weights)
            optimum = best_partition(small, 3)
            exact.append(quantise(small, 3).cost / optimum - 1)
    print(
        f"\nExact optimum, 9 phrases of a day and 3 atoms, {len(exact)} cases: W2^2 is "
        f"{np.mean(exact):.3%} above it on average, {np.max(exact):.2%} at most, equal in "
        f"{np.mean(np.array(exact) < 1e-6):.0%}."
    )


# --- the rule for the number of atoms -------------------------------------------------------------


def show_rule(all_corpora: list[Corpus], figure: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    thresholds = (0.3, 0.4, 0.5, 0.6, 0.7)
    drawing, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    print("\n| corpus | explained | atoms, mean (10% to 90%) | root kept | base kept |")
    print("|---|---|---|---|---|")
    for corpus, colour in zip(all_corpora, ("#1f6f8b", "#d1495b", "#6a994e"), strict=True):
        points = default_points(corpus)
        clouds = corpus.drawn()
        measures = [points.measure(cloud) for cloud in clouds]
        curve = [
            np.mean([explained(measure, quantise(measure, m)) for measure in measures])
            for m in range(1, 13)
        ]
        axes[0].plot(range(1, 13), curve, color=colour, label=corpus.name)
        numbers, kept = [], []
        for threshold in thresholds:
            rule = AtomRule(3, 10, threshold)
            counts = [len(quantise_adaptively(measure, rule).weights) for measure in measures]
            roots = np.mean([_kept(cloud, points, rule)[:2] for cloud in clouds], axis=0)
            low, high = np.percentile(counts, [10, 90])
            print(
                f"| {corpus.name} | {threshold:g} | {np.mean(counts):.1f} "
                f"({low:.0f} to {high:.0f}) | {roots[0]:.3f} | {roots[1]:.3f} |",
                flush=True,
            )
            numbers.append(np.mean(counts))
            kept.append(roots[0])
        axes[1].plot(thresholds, numbers, "o-", color=colour)
        axes[2].plot(numbers, kept, "o-", color=colour)
    axes[0].axvspan(3, 10, color="#00000010")
    labels = (
        ("atoms", "share of the day's spread explained"),
        ("share to be explained (the rule)", "atoms, mean"),
        ("atoms, mean", "share of weight whose root is its atom's"),
    )
    for axis, (horizontal, vertical) in zip(axes, labels, strict=True):
        axis.set_xlabel(horizontal)
        axis.set_ylabel(vertical)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8)
    figure.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(figure, dpi=130)
    print(f"\nfigure: {figure}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("data/study"))
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/atoms.png"))
    parser.add_argument("--only", choices=["corpora", "shares", "quantisation", "rule"])
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[list[Corpus]], None]] = {
        "corpora": show_corpora,
        "shares": show_shares,
        "quantisation": show_quantisation,
        "rule": lambda found: show_rule(found, given.figure),
    }
    found = list(corpora(given.work, given.shared))
    for name, part in parts.items():
        if given.only in (None, name):
            part(found)


if __name__ == "__main__":
    sys.exit(main())
