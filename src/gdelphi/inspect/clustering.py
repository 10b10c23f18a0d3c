"""Part 4: do points draw together on their way through the layers?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import Measure
from gdelphi.inspect.flow import Concentration, attention_field, concentration, flow
from gdelphi.inspect.layers import transport_blocks
from gdelphi.inspect.pieces import STUDY_STEPS, PieceStudy, study_pieces
from gdelphi.inspect.recorder import Recorder
from gdelphi.inspect.result import Chart, ChartSeries, PartResult, ResultTable, series, short
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.sampler import Sampler

PART: Final = 4
CLOUDS: Final = 4
CLOUD_POINTS: Final = 64
FUTURES: Final = 16
SEQUENCES: Final = 8
TIME, STEPS, BETA = 10.0, 40, 1.0
FUTURE_ATOMS: Final = "atoms of futures"
NO_BLOCKS: Final = "the model has no blocks that points could collapse in"
COLLAPSED: Final = 0.95  # mean cosine from which points are one


@dataclass(frozen=True)
class Passage:
    """Concentration of points before the first layer of some kind and after each."""

    name: str
    steps: tuple[Concentration, ...]

    @property
    def collapses(self) -> bool:
        """Whether many points go in and one comes out."""
        return self.steps[-1].mean_cosine > COLLAPSED > self.steps[0].mean_cosine


def _mean(found: Sequence[Concentration]) -> Concentration:
    return Concentration(*np.mean(np.array(found), axis=0).tolist())


# --- the model's layers ---------------------------------------------------------------------------


def decoder_passage(subject: Subject) -> Passage | None:
    """Of the tokens of sequences, all days together; None without a block."""
    model, past = subject.model, subject.batch(SEQUENCES).past
    if not len(model.decoder.blocks):
        return None
    with torch.no_grad(), Recorder(list(model.decoder.blocks)) as recorder:
        model.decoder(model.encode(past), past)
    first = recorder.calls[0][0][0][0]
    states = [first, *(calls[0][1] for calls in recorder.calls)]
    even = torch.ones(first.shape[1])
    return Passage(
        "tokens of the decoder",
        tuple(_mean([concentration(one, even) for one in state]) for state in states),
    )


def transport_passage(subject: Subject) -> Passage | None:
    """Of the atoms of futures, by the mass that they count with; None without transport."""
    blocks = transport_blocks(subject.model)
    if not blocks:
        return None
    predictor = subject.predictor
    sampler = Sampler(subject.trained, predictor.sampler.arrays, number=FUTURES, seed=subject.seed)
    origin = predictor.sequences.day(int(subject.validation_ends[-1]))
    with Recorder(blocks) as recorder:
        sampler.at(origin)
    states: list[list[Concentration]] = [[] for _ in range(len(blocks) + 1)]
    for calls in zip(*recorder.calls, strict=True):  # one call a group of streams
        masses = calls[0][0][1].exp()
        points = [calls[0][0][0], *(made for _, made in calls)]
        some = [row for row in range(len(masses)) if (masses[row] > 0).sum() > 1]
        for state, at in zip(states, points, strict=True):
            state += [concentration(at[row], masses[row]) for row in some]
    if not states[0]:
        return None
    return Passage(FUTURE_ATOMS, tuple(_mean(state) for state in states))


# --- the flow -------------------------------------------------------------------------------------


def flow_passage(name: str, clouds: Sequence[Measure], values: Sequence[Tensor]) -> Passage:
    """Of clouds under the self-attention flow, each with a value matrix of its own."""
    paths = []
    for cloud, value in zip(clouds, values, strict=True):
        points = torch.from_numpy(cloud.points).float()
        weights = torch.from_numpy(cloud.weights).float()
        field = attention_field(value, BETA)
        states = [points, *flow(points, weights, field, time=TIME, steps=STEPS)]
        paths.append([concentration(state, weights) for state in states])
    return Passage(name, tuple(_mean(at) for at in zip(*paths, strict=True)))


def random_value(dimension: int, generator: torch.Generator) -> Tensor:
    """A value matrix of independent normal entries, of spectral norm near 2."""
    value: Tensor = torch.randn(dimension, dimension, generator=generator) / dimension**0.5
    return value


# --- the part -------------------------------------------------------------------------------------


def inspect_clustering(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Spread of points through the layers beside the flow, and the study of separation."""
    clouds = subject.clouds(CLOUDS, CLOUD_POINTS)
    generator, dimension = subject.generator(PART), clouds[0].points.shape[1]
    total = 3 + STUDY_STEPS
    identity = torch.eye(dimension)
    at_random = [random_value(dimension, generator) for _ in clouds]
    flows = [
        flow_passage("flow, V = identity", clouds, [identity] * len(clouds)),
        flow_passage("flow, V random", clouds, at_random),
    ]
    on_step(1, total)
    found = [decoder_passage(subject)]
    on_step(2, total)
    found.append(transport_passage(subject))
    on_step(3, total)
    passages = [passage for passage in found if passage is not None]
    study = study_pieces(lambda done, _: on_step(3 + done, total))
    return _result(passages, flows, study)


def _curve(passage: Passage, time: float | None = None) -> ChartSeries:
    steps = len(passage.steps) - 1
    x = [number if time is None else time * number / steps for number in range(steps + 1)]
    return series(passage.name, x, [step.mean_cosine for step in passage.steps])


def _result(
    passages: list[Passage],
    flows: list[Passage],
    study: PieceStudy,
) -> PartResult:
    collapsing = [passage.name for passage in passages if passage.collapses]
    spread = "; ".join(
        f"{one.name} {one.steps[0].mean_cosine:.2f} to {one.steps[-1].mean_cosine:.2f}"
        for one in passages
    )
    verdict = f"no collapse: mean cosine {spread}" if passages else NO_BLOCKS
    if collapsing:
        verdict = f"collapse to a point: {', '.join(collapsing)} (mean cosine {spread})"
    words = (
        "Attention tends to draw points together: under the bare flow with V = identity the "
        f"store's clouds go from a mean cosine of {flows[0].steps[0].mean_cosine:.2f} to "
        f"{flows[0].steps[-1].mean_cosine:.2f} in {TIME:.0f} units of time, with random V to "
        f"{flows[1].steps[-1].mean_cosine:.2f}. A trained network should not: what has become one "
        "point cannot be told apart again. "
    )
    if passages:
        words += f"It {'does here' if collapsing else 'does not'}. "
    if not any(one.name == FUTURE_ATOMS for one in passages):
        words += (
            "No block moves the atoms of futures here (train.transport_layers = 0, or "
            "train.transport = flow: see part 7). "
        )
    rows = [
        (one.name, *(short(value) for step in (one.steps[0], one.steps[-1]) for value in step))
        for one in (*passages, *flows)
    ]
    table = ResultTable(
        "Concentration, first and last",
        ("points", "mean cosine", "atoms", "mean cosine after", "atoms after"),
        tuple(rows),
    )
    return PartResult(
        verdict,
        words + study.words(),
        (*_charts(passages, flows), *study.charts()),
        (table,),
        (
            *((f"{one.name}: mean cosine after", one.steps[-1].mean_cosine) for one in passages),
            *study.figures(),
        ),
        alarm=bool(collapsing),
    )


def _charts(passages: list[Passage], flows: list[Passage]) -> tuple[Chart, ...]:
    layers = tuple(_curve(one) for one in passages)
    bare = tuple(_curve(one, TIME) for one in flows)
    return (
        *((Chart("The model's layers", "layers passed", "mean cosine", layers),) if layers else ()),
        Chart("The flow, from the store's clouds", "time", "mean cosine", bare),
    )
