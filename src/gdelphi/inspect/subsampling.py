"""Part 2: how many points of a day are enough?"""

from dataclasses import dataclass
from time import process_time
from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import FloatArray, IntArray, Measure
from gdelphi.inspect.expansion import slope
from gdelphi.inspect.result import Chart, PartResult, ResultTable, series, short
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.decoder_start import thin
from gdelphi.model.network import Context, MeasureModel
from gdelphi.ot.references import exact_wasserstein

PART: Final = 2
SIZES: Final = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
LONG: Final = (100, 300, 1000, 3000, 10_000)
SEQUENCES: Final = 24
AT_ONCE: Final = 6
DRAWS: Final = 3
CLOUDS: Final = 3
REPEATS: Final = 5
LEAST: Final = 1e-6  # probability that a log is taken of


def inspect_subsampling(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Distances and forecasts as points are dropped, and what many points cost."""
    windows, random = subject.windows(SEQUENCES), subject.random(PART)
    clouds = subject.clouds(CLOUDS)
    largest = max(len(cloud.weights) for cloud in clouds)
    sizes = [size for size in SIZES if size < largest] or [SIZES[0]]
    total = len(sizes) + 3
    model = subject.model
    full = readings(model, subject.maker, windows)
    came = outcomes(subject.maker, windows)
    noise = np.mean([_difference(full, _resampled(subject, windows, random)) for _ in range(DRAWS)])
    on_step(1, total)
    heaviest, drawn, inputs, tokens, losses = [], [], [], [], []
    for done, size in enumerate(sizes, 2):
        maker = subject.maker_of(size)
        kept = readings(model, maker, windows)
        heaviest.append(_difference(full, kept))
        losses.append(log_loss(kept[0], came))
        drawn.append(_difference(full, readings(model, maker, windows, random)))
        changes = [thinned(model, cloud, size) for cloud in clouds]
        inputs.append(float(np.mean([change.distance for change in changes])))
        tokens.append(float(np.mean([change.tokens for change in changes])))
        on_step(done, total)
    costs = long_clouds(subject, random)
    on_step(total, total)
    losses.append(log_loss(full[0], came))
    found = _Findings(sizes, heaviest, drawn, inputs, tokens, losses, float(noise), largest)
    trained_with = subject.trained.training["origin"]["train"].get("points")
    return _result(found, costs, trained_with)


@dataclass(frozen=True)
class _Findings:
    sizes: list[int]
    heaviest: list[float]
    """root mean square change of probabilities, the heaviest points kept"""
    drawn: list[float]
    """the same, points drawn by weight"""
    inputs: list[float]
    """W1 between thinned cloud and cloud"""
    tokens: list[float]
    """change of the encoder's tokens"""
    losses: list[float]
    """log loss of the profiles with the heaviest points, and the last with all"""
    noise: float
    """change of probabilities when the days' rows are drawn again"""
    largest: int

    def enough(self, changes: list[float]) -> int:
        """The smallest size from which on the change stays within the sampling error."""
        enough = self.largest
        for size, change in zip(reversed(self.sizes), reversed(changes), strict=True):
            if change > self.noise:
                break
            enough = size
        return enough


# --- forecasts ------------------------------------------------------------------------------------


def readings(
    model: MeasureModel,
    maker: BatchMaker,
    windows: tuple[IntArray, IntArray],
    random: np.random.Generator | None = None,
) -> FloatArray:
    """Probabilities of profiles and direct after the last day, [reading, sequence, target, code];
    the direct reading is the network's own."""
    streams, ends = windows
    parts = [
        read_batch(model, maker.make(streams[some], ends[some], random).past)
        for some in np.array_split(np.arange(len(ends)), -(-len(ends) // AT_ONCE))
    ]
    return np.concatenate(parts, axis=1)


@torch.no_grad()
def read_batch(model: MeasureModel, past: Context) -> FloatArray:
    """The same of a batch."""
    output = model(past, last=True)
    both = torch.stack([output.profiles[:, -1], output.direct[:, -1]])
    probabilities: FloatArray = both.double().sigmoid().numpy()
    return probabilities


def outcomes(maker: BatchMaker, windows: tuple[IntArray, IntArray]) -> FloatArray:
    """What came on the day after the last, [sequence, target, code]; NaN where undefined."""
    streams, ends = windows
    batch = maker.make(streams, ends, clouds=False)
    came: FloatArray = batch.outcomes[:, -1].double().numpy()
    return came


def log_loss(probabilities: FloatArray, came: FloatArray) -> float:
    """The mean over the cells that are defined."""
    hit = np.where(came == 1, probabilities, 1 - probabilities)
    return float(-np.nanmean(np.log(np.where(np.isnan(came), np.nan, hit).clip(LEAST))))


def _difference(one: FloatArray, other: FloatArray) -> float:
    """Root mean square over the cells that are defined."""
    return float(np.sqrt(np.nanmean((one - other) ** 2)))


def _resampled(
    subject: Subject, windows: tuple[IntArray, IntArray], random: np.random.Generator
) -> FloatArray:
    """The readings when as many rows as a day has are drawn again from its own cloud: the
    sampling error of the forecast, as far as it rests on clouds."""
    streams, ends = windows
    volume = subject.predictor.pack.statistics[:, :, 0]
    parts = []
    for some in np.array_split(np.arange(len(ends)), -(-len(ends) // AT_ONCE)):
        batch: Batch = subject.maker.make(streams[some], ends[some])
        weights = batch.past.weights.double().numpy()
        days = ends[some][:, None] - np.arange(weights.shape[1] - 1, -1, -1)
        rows = volume[np.maximum(days, 0), streams[some][:, None]].astype(int)
        total = weights.sum(axis=2, keepdims=True)
        chances = np.where(total > 0, weights / np.maximum(total, 1e-300), 0.0)
        chances[..., 0] += 1 - chances.sum(axis=2)  # rounding, and empty days
        counts = random.multinomial(rows, chances.clip(0, 1))
        again = counts / np.maximum(rows, 1)[..., None] * (total > 0)
        past = batch.past._replace(weights=torch.from_numpy(again).float())
        parts.append(read_batch(subject.model, past))
    return np.concatenate(parts, axis=1)


# --- distances ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thinned:
    """A cloud with fewer points against the whole."""

    distance: float
    """W1 between the two"""
    tokens: float
    """distance of what the encoder makes of them"""


def thinned(model: MeasureModel, cloud: Measure, size: int) -> Thinned:
    """The heaviest points alone, as forecasts take them."""
    few = Measure(cloud.points[:size], cloud.weights[:size] / cloud.weights[:size].sum())
    with torch.no_grad():
        tokens = [_encoded(model, each) for each in (cloud, few)]
    return Thinned(exact_wasserstein(cloud, few, 1), float((tokens[0] - tokens[1]).norm()))


def _encoded(model: MeasureModel, cloud: Measure) -> Tensor:
    points = torch.from_numpy(cloud.points).float()[None]
    weights = torch.from_numpy(cloud.weights).float()[None]
    encoded: Tensor = model.day_encoder(points, weights)
    return encoded


@dataclass(frozen=True)
class LongCloud:
    """What so many points cost, and how far fewer are from them."""

    points: int
    milliseconds: float
    """of processor: a busy machine does not make it more"""
    tokens: float
    """distance of the tokens to those of all points, the mean over random parts"""


def long_clouds(subject: Subject, random: np.random.Generator) -> list[LongCloud]:
    """Clouds as long as the longest days: all reports of the validation days as one, parts of it
    drawn by weight."""
    pack, model = subject.predictor.pack, subject.model
    parts = [
        pack.cloud(int(day), stream)
        for day in subject.validation_ends
        for stream in range(len(subject.predictor.streams))
    ]
    slots = np.concatenate([slots for slots, _ in parts])
    weights = np.concatenate([weights for _, weights in parts]).astype(np.float64)
    chosen, masses = thin(weights / weights.sum(), None)
    everything = Measure(pack.points(slots[chosen], subject.predictor.space), masses)
    with torch.no_grad():
        whole = _encoded(model, everything)
        found = []
        for size in LONG:
            errors, seconds = [], []
            for _ in range(REPEATS):
                drawn = random.choice(len(masses), size=size, p=masses)
                part = Measure(everything.points[drawn], np.full(size, 1 / size))
                began = process_time()
                tokens = _encoded(model, part)
                seconds.append(process_time() - began)
                errors.append(float((tokens - whole).norm()))
            found.append(LongCloud(size, 1000 * min(seconds), float(np.mean(errors))))
    return found


# --- words ----------------------------------------------------------------------------------------


def _result(found: _Findings, costs: list[LongCloud], trained_with: int | None) -> PartResult:
    heaviest, drawn = found.enough(found.heaviest), found.enough(found.drawn)
    verdict = (
        f"{heaviest} points of a day are enough for a forecast, {drawn} drawn at random in training"
    )
    if trained_with is not None:
        verdict += f" (train.points is {trained_with})"
    exponent = slope([one.points for one in costs], [one.tokens for one in costs])
    rows = [(f"{c.points:,}", f"{c.milliseconds:.2f}", short(c.tokens)) for c in costs]
    columns = ("points", "ms of processor a cloud", "error of the tokens")
    return PartResult(
        verdict,
        _words(found, costs, exponent),
        _charts(found, costs),
        (_scores(found), ResultTable("What many points cost and bring", columns, tuple(rows))),
        (
            ("points enough, heaviest", heaviest),
            ("points enough, drawn", drawn),
            ("sampling error", found.noise),
            ("exponent of the tokens' error", exponent),
        ),
    )


def _scores(found: _Findings) -> ResultTable:
    names = [*(f"{size} heaviest" for size in found.sizes), "all"]
    changes = [*(f"{100 * change:.4f}" for change in found.heaviest), ""]
    rows = [
        (name, f"{loss:.5f}", change)
        for name, loss, change in zip(names, found.losses, changes, strict=True)
    ]
    columns = ("points kept", "log loss of profiles", "change in points (rms)")
    return ResultTable("Score on days of validation", columns, tuple(rows))


def _words(found: _Findings, costs: list[LongCloud], exponent: float) -> str:
    last, before = costs[-1], costs[len(costs) // 2]
    return (
        "Enough means: leaving the other points out changes probabilities by less "
        f"({short(100 * found.noise)} points, root mean square) than drawing as many rows again "
        "from the same days would, which is the sampling error that no model can undo. Forecasts "
        "keep the heaviest points of a day, training draws points by weight. This concerns the "
        "measure encoder and the readings that rest on it; the stack reads counts, not clouds. "
        f"The longest cloud of these days has {found.largest:,} points. For long clouds the error "
        f"of the tokens falls like n^{exponent:.2f} (n^(-1/2) is sampling): {last.points:,} points "
        f"cost {last.milliseconds:.1f} ms of processor a day in place of "
        f"{before.milliseconds:.1f} ms for {before.points:,}, and bring the error from "
        f"{short(before.tokens)} to {short(last.tokens)}."
    )


def _charts(found: _Findings, costs: list[LongCloud]) -> tuple[Chart, ...]:
    ends = (found.sizes[0], found.sizes[-1])
    forecasts = (
        series("the heaviest points", found.sizes, found.heaviest),
        series("points drawn by weight", found.sizes, found.drawn),
        series("sampling error of the days' rows", ends, [found.noise] * 2, "guide"),
    )
    distances = (
        series("W1 of the clouds", found.sizes, found.inputs),
        series("tokens of the encoder", found.sizes, found.tokens),
    )
    long = series(
        "parts drawn by weight", [one.points for one in costs], [one.tokens for one in costs]
    )
    kept = "points kept"
    return tuple(
        Chart(title, x_label, y_label, shown, log_x=True, log_y=True)
        for title, x_label, y_label, shown in (
            ("Forecast, as points are dropped", kept, "change of probabilities (rms)", forecasts),
            ("Input and output, as points are dropped", kept, "distance to the whole", distances),
            ("Long clouds", "points", "error of the tokens", (long,)),
        )
    )
