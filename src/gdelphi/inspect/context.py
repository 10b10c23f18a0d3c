"""Part 9: how much of the skill comes from the past that is shown, and is it read in context?"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.inspect.result import Chart, ChartSeries, PartResult, ResultTable, series
from gdelphi.inspect.rotations import STEPS, TextbookErrors, textbook
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.network import Context

PART: Final = 9
MEMORY: Final = (7, 14, 30, 60, 120, 365)
SHOWN: Final = (1, 3, 7, 14, 30, 50)
SEQUENCES: Final = 96
AT_ONCE: Final = 8
LEAST: Final = 1e-6
NAMES: Final = ("profiles", "direct")
OF_MEMORY: Final = ("features", "counts", "occurs", "headline", "shares")
OF_DAYS: Final = ("points", "weights", "thresholds", "pooled", "usual", "direct")

PastChange = Callable[[Context, Tensor], tuple[Context, Tensor]]
"""of a batch and of its encoded clouds [B, T, q, width]"""


def remember(days: int) -> PastChange:
    """Only the last days of the memory are there."""

    def change(past: Context, clouds: Tensor) -> tuple[Context, Tensor]:
        length = past.present.shape[1]
        recent = torch.arange(length) >= length - days
        return past._replace(present=past.present & recent), clouds

    return change


def show(days: int) -> PastChange:
    """Only the last days are read as a sequence, with their clouds; the memory stays."""

    def change(past: Context, clouds: Tensor) -> tuple[Context, Tensor]:
        cut = {name: getattr(past, name)[:, -days:] for name in OF_DAYS}
        return past._replace(**cut), clouds[:, -days:]

    return change


def shuffle(generator: torch.Generator) -> PastChange:
    """What happened on the days of memory, and the clouds read, in an order by chance."""

    def change(past: Context, clouds: Tensor) -> tuple[Context, Tensor]:
        order = torch.randperm(past.present.shape[1], generator=generator)
        moved = {name: getattr(past, name)[:, order] for name in (*OF_MEMORY, "present")}
        days = torch.randperm(past.days, generator=generator)
        return past._replace(**moved), clouds[:, days]

    return change


def exchange(past: Context, clouds: Tensor) -> tuple[Context, Tensor]:
    """Memory and clouds of another sequence of the batch; what is usual and thresholds stay."""
    moved = {name: getattr(past, name).roll(1, 0) for name in (*OF_MEMORY, "present")}
    return past._replace(**moved), clouds.roll(1, 0)


@torch.no_grad()
def losses(
    subject: Subject,
    windows: tuple[IntArray, IntArray],
    changes: Sequence[PastChange],
    on_step: OnPartStep = lambda *_: None,
) -> FloatArray:
    """Log loss of profiles and the network's own direct reading after the last day, under each
    change of the past, [change, reading]. Clouds are encoded once."""
    model, (streams, ends) = subject.model, windows
    total, cells = np.zeros((len(changes), 2)), np.zeros((len(changes), 2))
    chunks = np.array_split(np.arange(len(ends)), -(-len(ends) // AT_ONCE))
    for done, some in enumerate(chunks, 1):
        batch = subject.maker.make(streams[some], ends[some])
        clouds, came = model.encode(batch.past), batch.outcomes[:, -1]
        for row, change in enumerate(changes):
            past, encoded = change(batch.past, clouds)
            output = model(past, last=True, clouds=encoded)
            for number, logits in enumerate((output.profiles[:, -1], output.direct[:, -1])):
                known = ~came.isnan() & ~logits.isnan()
                lost = _log_loss(logits[known].double(), came[known].double())
                total[row, number] += float(lost.sum())
                cells[row, number] += int(known.sum())
        on_step(done, len(chunks))
    return total / np.maximum(cells, 1)


def _log_loss(logits: Tensor, came: Tensor) -> Tensor:
    hit = torch.where(came == 1, logits, -logits).sigmoid()
    return -hit.clamp(min=LEAST).log()


def by_stream(windows: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """The same in an order in which neighbours are of different streams, as far as there are."""
    streams, ends = windows
    order = np.lexsort((streams, ends))
    return streams[order], ends[order]


def inspect_context(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Scores with less memory, shuffled and strange memory; the textbook cases."""
    windows = by_stream(subject.windows(SEQUENCES))
    config, half = subject.model.config, 10
    memory = [days for days in MEMORY if days < config.memory_days] + [config.memory_days]
    shown = [days for days in SHOWN if days < config.context_days] + [config.context_days]
    changes = [
        *map(remember, memory), *map(show, shown), shuffle(subject.generator(PART)), exchange
    ]  # fmt: skip
    scored = losses(
        subject, windows, changes, lambda done, all_: on_step(round(half * done / all_), 2 * half)
    )
    by_memory, by_shown = list(scored[: len(memory)]), list(scored[len(memory) : -2])
    steps = iter(range(2 * STEPS))
    errors = textbook(
        subject.seed, lambda: on_step(half + half * next(steps) // (2 * STEPS), 2 * half)
    )
    on_step(2 * half, 2 * half)
    found = _Losses(memory, by_memory, shown, by_shown, scored[-2], scored[-1])
    return _result(found, errors, NAMES[:1] if subject.idle_head else NAMES)


class _Losses(NamedTuple):
    """Log losses, each [reading]."""

    memory: list[int]
    by_memory: list[FloatArray]
    shown: list[int]
    by_shown: list[FloatArray]
    shuffled: FloatArray
    exchanged: FloatArray


def _result(losses: _Losses, errors: list[TextbookErrors], names: tuple[str, ...]) -> PartResult:
    memory, by_memory = losses.memory, losses.by_memory
    full, shuffled, exchanged = by_memory[-1], losses.shuffled, losses.exchanged
    number = int(full[: len(names)].argmin())
    best = names[number]
    uses = shuffled[number] > full[number] and exchanged[number] > full[number]
    verdict = (
        f"log loss {full[number]:.4f} of the network's {best} with all memory, "
        f"{by_memory[0][number]:.4f} with {memory[0]} days, {shuffled[number]:.4f} shuffled, "
        f"{exchanged[number]:.4f} with another country's"
    )
    if not uses:
        verdict += ": the past that is shown is hardly used"
    rows = [
        (f"{days} days of memory", *(f"{value:.5f}" for value in found[: len(names)]))
        for days, found in zip(memory, by_memory, strict=True)
    ]
    wrong = {"memory shuffled": shuffled, "another country's memory": exchanged}
    rows += [
        (name, *(f"{value:.5f}" for value in found[: len(names)])) for name, found in wrong.items()
    ]
    rows += [
        (f"days read: {days}", *(f"{value:.5f}" for value in found[: len(names)]))
        for days, found in zip(losses.shown, losses.by_shown, strict=True)
    ]
    guides = {"shuffled": shuffled[number], "another country's": exchanged[number]}
    ends = (memory[0], memory[-1])
    lines = [series(f"{best}, {name}", ends, [at] * 2, "guide") for name, at in guides.items()]
    return PartResult(
        verdict,
        _words([one[number] for one in losses.by_shown], best, errors[0]),
        (
            _loss_chart("Days of memory", names, memory, by_memory, *lines),
            _loss_chart("Days read as a sequence", names, losses.shown, losses.by_shown),
            *map(_textbook_chart, errors),
        ),
        (ResultTable("Log loss on days of validation", ("past", *names), tuple(rows)),),
        (
            (f"{best}: log loss", float(full[number])),
            (f"{best}: log loss, memory shuffled", float(shuffled[number])),
            (f"{best}: log loss, another country's memory", float(exchanged[number])),
            *((f"{one.title}: decoder", one.decoder[-1]) for one in errors),
            *((f"{one.title}: least squares", one.least_squares[-1]) for one in errors),
        ),
        alarm=not uses,
    )


def _words(by_shown: list[float], best: str, rotation: TextbookErrors) -> str:
    return (
        "The past is taken away from the network in three ways: only the last days of its memory, "
        "its days in an order by chance, and the days of another country in place of its own. What "
        "it loses is what it reads from them. Fewer days read as a sequence (with their clouds) "
        f"change the loss of the {best} from {by_shown[-1]:.4f} to {by_shown[0]:.4f}. "
        "This is the network alone; what is published also rests on the "
        "stack. The textbook case asks whether the same causal blocks can read a law off their "
        "context at all: a small decoder is trained on sequences that turn by a rotation of their "
        f"own. After {rotation.lengths[-1]} points it is {rotation.decoder[-1]:.2f} away from the "
        f"next (a guess by chance: {rotation.chance:.2f}), where least squares on the same context "
        f"is {rotation.least_squares[-1]:.2f} away. Periodic sequences need no law but a look back."
    )


def _loss_chart(
    title: str,
    names: tuple[str, ...],
    days: list[int],
    losses: list[FloatArray],
    *guides: ChartSeries,
) -> Chart:
    by_reading = [
        series(name, days, [float(one[place]) for one in losses])
        for place, name in enumerate(names)
    ]
    return Chart(title, "days", "log loss", (*by_reading, *guides), log_x=True)


def _textbook_chart(errors: TextbookErrors) -> Chart:
    shown = (
        series("causal decoder", errors.lengths, errors.decoder),
        series("least squares", errors.lengths, errors.least_squares),
        series("by chance", errors.lengths, [errors.chance] * len(errors.lengths), "guide"),
    )
    return Chart(errors.title, "points of context", "distance to the next point", shown)
