"""The tables of docs/text.md, as Markdown on the standard output.

    python benchmarks/text.py names --store STORE --namer FOLDER [--model FOLDER] [--every 6]
    python benchmarks/text.py texts --store STORE --model FOLDER --text-model FOLDER
                                     [--world ARCHIVE] [--every 6] [--config gdelphi.toml]
    python benchmarks/text.py random_days --config gdelphi.toml --text-models FOLDER ...
                                     [--model FOLDER] [--part test] [--every 6]
    python benchmarks/text.py skill --backtest FOLDER [--plain FOLDER]
    python benchmarks/text.py days  --store STORE --model FOLDER --text-model FOLDER
                                     --stream GG [--number 5]

`names`: held-out phrases from their points back to words, and atoms of test days, by the namer and
by the nearest observed phrase; with --model, words of its futures on test days under each naming.
`texts`: ROUGE in three forms and energy scores of everybody who says anything about the next day.
`random_days`: futures of text forecasters against random days of the same stream, both also with
weights that make them agree with what is published: by --model, else by the stack. `skill`: Brier
scores of a backtest with --text-model, beside one without (--plain). `days`: real days side by
side. `gdelphi text data` says itself what a dataset costs.
"""

import argparse
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

from gdelphi.app.console import number, skill_cells
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.types import TARGETS, FloatArray, Forecaster
from gdelphi.forecast.expected_day import expected_day_in_brief
from gdelphi.forecast.naming import AtomNames
from gdelphi.forecast.naming_choice import NamingComparison
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.text_weights import WeightedTexts, agreeing_weights, weigh_texts
from gdelphi.forecast.wording import day_text, normalise, written_text
from gdelphi.judge.backtest import summarise_folder
from gdelphi.judge.simulated import ingested_panel
from gdelphi.judge.texts import (
    FORMS,
    TextJudge,
    TextScore,
)
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import sentence
from gdelphi.measures.space import Points
from gdelphi.ot.energy import sliced_energy_score
from gdelphi.scores.probabilities import Bootstrap, resampled_totals
from gdelphi.scores.probabilities import skill as skill_of
from gdelphi.scores.rouge import Rouge, WeightedText, expected_rouge, matched_rouge
from gdelphi.text.compact import DayText, read_day
from gdelphi.text.corpus import IGNORED, PackDescriptors
from gdelphi.text.data import load_text_data, with_stack
from gdelphi.text.forecast import in_english
from gdelphi.text.forecaster import TextForecaster, TextModel, faults, text_forecaster
from gdelphi.text.measures import TextPlacer
from gdelphi.text.namer import (
    Agreement,
    Namer,
    PhraseKey,
    agreement,
    nearest,
)
from gdelphi.text.namer_task import (
    Examples,
    NamerTask,
    held_out,
)
from gdelphi.text.probabilities import TextReader
from gdelphi.text.t5 import embed_source

RANDOM = "random days"
ROUGE_TEXTS = 25  # of a hundred: ROUGE costs more than all else together
PHRASES = 3000  # held-out phrases, and atoms, that names are compared on


def table(title: str, head: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def settings_of(given: argparse.Namespace) -> Settings:
    return load_settings(given.config, {"store": given.store}).settings


# --- names ----------------------------------------------------------------------------------------


def rouge_one(named: Sequence[PhraseKey | None], right: Sequence[PhraseKey]) -> float:
    """Mean ROUGE-1 of names with the right ones; nothing for what cannot be read."""
    one = np.ones(1)
    scores = [
        0.0 if name is None else matched_rouge(
            WeightedText([sentence(*name)], one), WeightedText([sentence(*key)], one)
        ).one
        for name, key in zip(named, right, strict=True)
    ]  # fmt: skip
    return float(np.mean(scores))


def name_row(name: str, what: Agreement, rouge: float) -> Sequence[str]:
    shares = (what.event, what.root, what.roles, what.countries, what.whole, what.new)
    return (name, *(f"{share:.1%}" for share in shares), f"{what.unreadable:.2%}", f"{rouge:.3f}")


def names(given: argparse.Namespace) -> None:
    """Round trips: phrase -> point -> words."""
    settings = settings_of(given)
    task = NamerTask(load_text_data(settings))
    namer = Namer.load(given.namer, task.data.space)
    random = np.random.default_rng(1)
    size = min(PHRASES, len(task.others))
    places = task.others[random.choice(len(task.others), size=size, replace=False)]
    observed = frozenset(task.slots.keys(task.observed))
    table_of = task.slots.points(task.observed)
    keys = task.slots.keys(task.observed)
    head = ("names by", "event code", "root", "both roles", "both countries", "whole phrase",
            "right and never observed", "unreadable", "ROUGE-1")  # fmt: skip
    print(f"{len(task.observed):,} observed phrases, {len(task.others):,} held out; "
          f"{len(task.vocabulary):,} words")  # fmt: skip

    def rows(some: Examples) -> Iterator[Sequence[str]]:
        began = process_time()
        named = [None if x is None else x[:3] for x in namer.name(some.points, some.weights)]
        milliseconds = 1e3 * (process_time() - began) / len(some.keys)
        near = [keys[at] for at in nearest(some.points, table_of)]
        yield name_row("nearest observed", agreement(near, some.keys, observed),
                       rouge_one(near, some.keys))  # fmt: skip
        yield name_row(f"namer ({milliseconds:.1f} ms)", agreement(named, some.keys, observed),
                       rouge_one(named, some.keys))  # fmt: skip

    phrases = task.phrases(places, np.full(size, 0.2))
    table(f"{size:,} held-out phrases, at their own points:", head, rows(phrases))
    rows_of = atoms_of_test_days(task, random)
    table(f"{len(rows_of):,} atoms of test days:", head, rows(task.atoms(rows_of)))
    new = np.array([held_out(key) for key in task.atoms(rows_of).keys])
    if new.any():
        held = task.atoms(rows_of[new])
        table(f"{int(new.sum()):,} of these that are called by held-out phrases:", head, rows(held))
    if given.model:
        futures(given, settings)


def futures(given: argparse.Namespace, settings: Settings) -> None:
    """Words of futures and of the expected day, under each naming."""
    predictor = Predictor(settings, given.model)
    if not predictor.path("root").exists():
        predictor.calibrate("root")
    names_of = AtomNames(predictor.folder, predictor.pack, predictor.space, namer=given.namer)
    comparison = NamingComparison(predictor, names_of)
    days = predictor.target_days("test")[:: given.every]
    for day in days:
        comparison.add(day)
    head = ("names by", *(f"{what} {kind}" for what in ("futures", "expected day")
                          for kind in ("ROUGE-1", "2", "L")), "renamed", "unreadable")  # fmt: skip

    def rows() -> Iterator[Sequence[str]]:
        for by, score in comparison.scores().items():
            rouge = (f"{value:.3f}" for value in (*score.futures, *score.brief))
            yield by, *rouge, f"{score.renamed:.1%}", f"{score.unreadable:.2%}"

    title = f"Futures on {len(days)} test days from {days[0]} to {days[-1]}"
    table(f"{title}, {comparison.texts:,} days of streams:", head, rows())


def atoms_of_test_days(task: NamerTask, random: np.random.Generator) -> np.ndarray:
    """Atoms of days' own descriptors."""
    descriptors, streams = task.data.descriptors, task.data.pack.shape[1]
    slices = [
        descriptors.descriptor(day, stream)
        for day in task.data.targets("test").tolist()
        for stream in range(streams)
    ]
    atoms = np.concatenate([np.arange(each.start, each.stop) for each in slices])
    return random.choice(atoms, size=min(PHRASES, len(atoms)), replace=False)


# --- texts ----------------------------------------------------------------------------------------


def texts(given: argparse.Namespace) -> None:
    """ROUGE and energy scores of everybody's words."""
    settings = settings_of(given)
    predictor = Predictor(settings, given.model)
    if not predictor.path("root").exists():
        predictor.calibrate("root")
    oracle = ingested_panel(predictor.settings, given.world).oracle() if given.world else None
    judge = TextJudge(predictor, oracle, text=text_forecaster(given.text_model, predictor.pack))
    days = predictor.target_days("test")[:: given.every]
    scores = [score for day in days for score in judge.day(day)]
    print(f"{len(days)} days from {days[0]} to {days[-1]}, {len(predictor.streams)} streams.")
    head = ["forecaster", "energy score"]
    head += [f"{form} {kind}" for form in FORMS for kind in ("1", "2", "L")]
    names = dict.fromkeys(score.forecaster for score in scores)
    rows = (text_row(name, [x for x in scores if x.forecaster == name]) for name in names)
    table("Energy score (lower is better), ROUGE (higher):", head, rows)
    show_faults(given, predictor, days[:: max(len(days) // 3, 1)])


def text_row(name: str, scores: Sequence[TextScore]) -> Sequence[str]:
    energy = float(np.mean([score.energy for score in scores]))
    rouge = [
        f"{np.nanmean([score.rouge[form][kind] for score in scores]):.3f}"
        for form in FORMS
        for kind in range(3)
    ]
    return (name, "" if np.isnan(energy) else number(energy), *rouge)


def show_faults(given: argparse.Namespace, predictor: Predictor, days: Sequence[object]) -> None:
    """Texts written without a guide: how much of them is no phrase."""
    free = TextModel(given.text_model, predictor.pack, guided=False)
    missed = phrases = 0
    began = perf_counter()
    for day in days:
        some = faults(free.at(day - timedelta(days=1)))  # type: ignore[operator]
        missed, phrases = missed + some[0], phrases + some[1]
    print(f"\nNot guided, {missed:,} groups of words were no phrase beside {phrases:,} phrases "
          f"({(perf_counter() - began) / len(days):.1f} s a day).")  # fmt: skip


# --- against random days --------------------------------------------------------------------------


Scored = tuple[int, str, float, Rouge]
"""day, forecaster, energy score and ROUGE of a stream"""


def random_days(given: argparse.Namespace) -> None:
    """Texts against random days, on the streams that have a text on a day."""
    settings = settings_of(given)
    data = with_stack(load_text_data(settings))
    reader = TextReader(data.descriptors)
    models = {
        folder.name: TextForecaster(TextModel(folder, data.descriptors), reader)
        for folder in given.text_models
    }
    published: Forecaster
    if given.model:
        published = Predictor(settings, given.model).publisher("root")
    else:
        assert data.expected is not None, "fewer than 120 days: name a --model that weighs texts"
        published = data.expected.stack
    placer = TextPlacer(Points(data.space, open_cache(settings)), data.descriptors)
    days = data.targets(given.part)[given.every // 2 :: given.every].tolist()
    scored: list[Scored] = []
    for day in days:
        forecasts = published.forecast(data.pack.profiles, data.sequences.day(day - 1))
        for place, forecast in enumerate(forecasts):
            texts = {name: weigh_texts(model, data.pack.profiles, place, forecast)
                     for name, model in models.items()}  # fmt: skip
            weigh = partial(agreeing_weights, reader, data.pack.profiles, place, forecast=forecast)
            scored += against_random_days(data.descriptors, placer, day, place, texts, weigh)
    head = ("forecaster", "energy score", "against random days", "95%", "ROUGE-1", "2", "L",
            "ROUGE-1 beyond random days", "95%")  # fmt: skip
    title = f"{len(days)} days of {given.part}, {data.sequences.day(days[0])} to"
    number_of = sum(name == RANDOM for _, name, _, _ in scored)
    table(f"{title} {data.sequences.day(days[-1])}, {number_of} days of streams:", head,
          random_day_rows(scored))  # fmt: skip
    table("Texts of these days, all streams:", ("forecaster", "nats a day", "fewer", "95%"),
          nats_rows({name: one.model for name, one in models.items()}, days))  # fmt: skip


def text_nats(model: TextModel, day: int) -> FloatArray:
    """Nats of the text of a day under a model, [stream]."""
    generator = model.generator
    streams = np.arange(len(model.pack.facts.streams))
    targets, own = np.full(len(streams), day), np.zeros((len(streams), generator.context), int)
    labels = torch.from_numpy(generator.corpus.labels(streams, targets, own[:, 0]))
    with torch.no_grad():
        states, mask = embed_source(generator.model, generator.corpus.source(streams, targets, own))
        logits = generator.model(inputs_embeds=states, attention_mask=mask, labels=labels).logits
        nats = torch.nn.functional.cross_entropy(
            logits.mT, labels, ignore_index=IGNORED, reduction="none"
        )
    summed: FloatArray = nats.sum(dim=1).double().numpy()
    return summed


def nats_rows(models: Mapping[str, TextModel], days: Sequence[int]) -> Iterator[Sequence[str]]:
    """Nats a day, and what a model has fewer than the first."""
    sums = {name: np.array([text_nats(model, day).sum() for day in days])
            for name, model in models.items()}  # fmt: skip
    streams = len(next(iter(models.values())).pack.facts.streams)
    first = next(iter(sums.values()))
    for name, of_days in sums.items():
        yield (name, f"{of_days.mean() / streams:.3f}",
               *skill_cells(asdict(skill_of(of_days, first, Bootstrap(block_days=1)))))  # fmt: skip


def against_random_days(
    descriptors: PackDescriptors,
    placer: TextPlacer,
    day: int,
    place: int,
    models: Mapping[str, WeightedTexts],
    weigh: Callable[[list[DayText]], FloatArray],
) -> Iterator[Scored]:
    """The scores of one stream's day; none where it or a forecaster has no text. Random days are
    weighed too, by what their own texts stand for."""
    pack = descriptors.pack
    came, stream = day_text(pack, day, place), pack.facts.streams[place]
    past = [x for x in range(max(day - 365, 0), day) if len(pack.atoms(x, place).weights)]
    if not came.phrases or not past or any(len(one.texts) < 2 for one in models.values()):
        return
    random = np.random.default_rng([zlib.crc32(stream.encode()), day])
    drawn = random.choice(past, size=100).tolist()
    equal = np.full(100, 0.01)
    words = [day_text(pack, x, place) for x in drawn[:ROUGE_TEXTS]]
    measures = [pack.atoms(x, place) for x in drawn]
    home = descriptors.homes[place]
    weights = weigh([read_day(descriptors.text(x, place), home) for x in drawn])
    ensembles = {
        RANDOM: (measures, equal, words),
        f"{RANDOM}, weighed": (measures, weights, words),
    }
    for name, one in models.items():
        measures = [placer.measure(text, place, day - 1) for text in one.texts]
        words = [written_text(text, stream) for text in one.texts[:ROUGE_TEXTS]]
        equal = np.full(len(measures), 1 / len(measures))
        ensembles[f"{name}, as written"] = (measures, equal, words)
        ensembles[f"{name}, weighed"] = (measures, one.weights, words)
    for name, (measures, weights, words) in ensembles.items():
        energy = sliced_energy_score(measures, pack.atoms(day, place), weights=weights)
        rouge = expected_rouge(words, normalise(weights[: len(words)]), came)
        yield day, name, energy, rouge


def random_day_rows(scored: Sequence[Scored]) -> Iterator[Sequence[str]]:
    """Means, the energy skill against random days, and what ROUGE-1 has beyond them."""
    days = sorted({day for day, *_ in scored})
    names = dict.fromkeys(name for _, name, _, _ in scored)
    sums = {name: np.zeros((len(days), 5)) for name in names}
    for day, name, energy, rouge in scored:
        sums[name][days.index(day)] += [energy, *rouge, 1.0]
    apart = Bootstrap(block_days=1)  # the days do not follow each other
    reference = sums[RANDOM]
    for name, of_days in sums.items():
        means = of_days[:, :4].sum(axis=0) / of_days[:, 4].sum()
        energy_skill = asdict(skill_of(of_days[:, 0], reference[:, 0], apart))
        more = of_days[:, 1] - reference[:, 1]
        totals = resampled_totals(np.stack([more, reference[:, 4]], axis=1), apart)
        low, high = np.quantile(totals[:, 0] / totals[:, 1], [0.025, 0.975])
        yield (name, number(means[0]), *skill_cells(energy_skill),
               *(f"{rouge:.3f}" for rouge in means[1:]),
               f"{more.sum() / reference[:, 4].sum():+.4f}",
               f"{low:+.4f} to {high:+.4f}")  # fmt: skip


# --- skill ----------------------------------------------------------------------------------------


def skill(given: argparse.Namespace) -> None:
    """Brier scores and skill against the stack, of a backtest with a text forecaster."""
    summary = summarise_folder(given.backtest)
    shown = ["stack", "profiles", "direct", "atoms", "text", "combined", "fair oracle"]
    days = summary["days"]
    print(f"{days['number']} days from {days['first']} to {days['last']}.")
    lines = {
        (line["target"], line["forecaster"]): line
        for line in summary["scores"]
        if line["cells"] == "active"
    }
    plain = {}
    if given.plain:
        plain = {
            line["target"]: line
            for line in summarise_folder(given.plain)["scores"]
            if line["cells"] == "active" and line["forecaster"] == "combined"
        }

    def rows() -> Iterator[Sequence[str]]:
        for target in TARGETS:
            for name in shown:
                line = lines.get((target, name))
                if line:
                    yield target, name, number(line["brier"]), *skill_cells(line["skill"])
            if target in plain:
                line = plain[target]
                yield (target, "combined without text", number(line["brier"]),
                       *skill_cells(line["skill"]))  # fmt: skip

    head = ("target", "forecaster", "Brier", "skill against the stack", "95%")
    table("Active cells:", head, rows())
    head = ("futures", "energy score", "skill against recency", "95%")
    table("Whole futures:", head, ((line["ensemble"], number(line["energy"]),
          *skill_cells(line["skill"])) for line in summary["futures"]))  # fmt: skip


# --- days -----------------------------------------------------------------------------------------


def days(given: argparse.Namespace) -> None:
    """Days side by side: what came, what both models thought likeliest, three futures of each."""
    predictor = Predictor(settings_of(given), given.model, text=given.text_model)
    if not predictor.path("root").exists():
        predictor.calibrate("root")
    place = predictor.streams.index(given.stream)
    known = [
        day
        for day in predictor.target_days("test")
        if len(predictor.pack.atoms(predictor.sampler.position(day), place).weights) >= 3
    ]
    for day in known[:: max(len(known) // given.number, 1)][: given.number]:
        show_day(predictor, place, day)


def show_day(predictor: Predictor, place: int, day: object) -> None:
    stream, origin = predictor.streams[place], day - timedelta(days=1)  # type: ignore[operator]
    at = predictor.sampler.position(day)  # type: ignore[arg-type]
    phrases = zip(*predictor.pack.atom_phrases(at, place), strict=True)
    weights = predictor.pack.atoms(at, place).weights
    came = [f"{sentence(*x, stream)} ({w:.0%})" for x, w in zip(phrases, weights, strict=True)]
    roots = predictor.known_at("root", origin)
    published = predictor.publisher("root").forecast(roots, origin)[place]
    futures = predictor.make_futures(predictor.sampler.at(origin), place, roots, published)
    brief = [f"{sentence(*atom.phrase, stream)} ({atom.weight:.0%})"
             for atom in expected_day_in_brief(futures, predictor.settings.measures)]  # fmt: skip
    moved = []
    for n in np.flatnonzero(futures.exists)[:3].tolist():
        masses = futures.weights[n]
        order = [k for k in np.argsort(-masses).tolist() if masses[k] >= 0.005 * masses.sum()]
        moved.append([f"{sentence(*futures.shown_phrases[futures.shown_index[n][k]], stream)} "
                      f"({masses[k] / masses.sum():.0%})" for k in order])  # fmt: skip
    assert predictor.text is not None
    written = predictor.text.model.at(origin)[place]
    print(f"\n### {day}\n\n| | measure transformer | text forecaster |\n|---|---|---|")
    cell = "<br>".join
    print(f"| came | {cell(came)} | |")
    print(f"| likeliest | {cell(brief)} | {cell(in_english(written.likeliest, stream))} |")
    for n in range(3):
        left = cell(moved[n]) if n < len(moved) else ""
        print(f"| future {n + 1} | {left} | {cell(in_english(written.texts[n], stream))} |")


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    for work in (names, texts, random_days, skill, days):
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
        command.add_argument("--config", type=Path)
        command.add_argument("--store", type=Path)
        for name in ("--namer", "--model", "--text-model", "--world", "--backtest", "--plain"):
            command.add_argument(name, type=Path)
        command.add_argument("--text-models", type=Path, nargs="+", default=[])
        command.add_argument("--part", default="test")
        command.add_argument("--stream")
        command.add_argument("--number", type=int, default=5)
        command.add_argument("--every", type=int, default=6)
    given = parser.parse_args()
    given.work(given)


if __name__ == "__main__":
    main()
