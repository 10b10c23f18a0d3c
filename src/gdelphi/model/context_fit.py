"""The context network: the network that has seen many worlds, trained on from there on the days of
a store, beside the stack; a part of `gdelphi train`, kept in the folder of its stack.

What it is shown (`stack/context.py`) is read off the past alone, by regressions that are made anew
every 45 days, where the stack's fits are made once. A little of it helps where there are few days
to learn from; where there are many it earns nothing and would take minutes, and is left out. As
with the cell network, one that has not seen
validation A and B answers for them, which decides for each target how far to go,

    direct = before + weight (context network - before),      before: stack and cell network

and a second one that has seen all days forecasts. It speaks of tomorrow.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gdelphi.common.errors import ForecastError
from gdelphi.common.files import atomic_write, file_digest, remove_folder
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.types import TARGETS, FloatArray, IntArray, VectorArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.model.cell_fit import (
    CELL_FOLDER,
    TRAIN_FOLDS,
    CellFit,
    choose_weights,
    settings_in,
)
from gdelphi.model.starter_network import StarterSettings, train_starter
from gdelphi.stack.context import ContextReader, ContextTable
from gdelphi.stack.fitted import OutOfFold
from gdelphi.stack.starter import Starter, load_starter, shipped_starter
from gdelphi.stack.usual import place_of

FORMAT: Final = 1
CONTEXT_FOLDER: Final = "context_network"  # in that of the stack
WEIGHTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
FINE_TUNING: Final = StarterSettings(steps=600, learning_rate=3e-4)
MOST_LEARNED: Final = 10_000  # days of streams; with more, the cell network learns as much itself
NOTHING: Final = (0.0,) * len(TARGETS)


@dataclass(frozen=True, eq=False)
class ContextFit:
    """A context network, and what was decided of it."""

    network: Starter
    start: date
    """a day on which the law is read; and every 45 days before and after it"""
    weights: tuple[float, ...]
    """by target: 0 is what was said before, 1 the network"""
    gains: tuple[float, ...]
    """by target: how much lower the log loss of validation A and B is"""
    days: IntArray
    """ordinals of validation A and B, increasing"""
    logits: VectorArray
    """what the first network says of them, [target, day, stream, root]"""
    left_out: str = ""
    """why none was trained; empty: one was"""

    @property
    def moves(self) -> bool:
        return any(self.weights)

    def moved(self, before: FloatArray, said: FloatArray) -> FloatArray:
        """What is said in the end; both [..., target]. Exactly `before` where the weight is 0."""
        weights = np.array(self.weights)
        moved: FloatArray = np.where(weights > 0, before + weights * (said - before), before)
        return moved

    def at(self, day: date) -> FloatArray | None:
        """[stream, root, target]; None if it is no day of validation A or B."""
        place = place_of(day, self.days)
        if place is None:
            return None
        return np.moveaxis(self.logits[:, place].astype(np.float64), 0, -1)

    def save(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Write it into an empty folder, with what it was made from."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.network._asdict(), folder / "model.safetensors")
        known: dict[str, npt.NDArray[Any]] = {
            "days": self.days.astype(np.int64), "logits": np.ascontiguousarray(self.logits)
        }  # fmt: skip
        save_file(known, folder / "out_of_fold.safetensors")
        content = {
            "format": FORMAT,
            "settings": dict(settings),
            "start": self.start.isoformat(),
            "weights": self.weights,
            "gains": self.gains,
            "left_out": self.left_out,
        }
        (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "ContextFit":
        """What `save` wrote."""
        try:
            content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}, not {FORMAT}")
            known = load_file(folder / "out_of_fold.safetensors")
            return cls(
                load_starter(folder / "model.safetensors"),
                date.fromisoformat(content["start"]),
                tuple(content["weights"]), tuple(content["gains"]), known["days"], known["logits"],
                content["left_out"],
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ForecastError(
                f"{folder} holds no context network that can be read ({reason}): train the model "
                "again with `gdelphi train --fresh`"
            ) from None


def context_network_of(
    panel: CountPanel,
    known: OutOfFold,
    cells: CellFit,
    stack_folder: Path,
    settings: StarterSettings = FINE_TUNING,
    *,
    on_step: OnStep = silent,
) -> ContextFit:
    """The context network in the folder of its stack; trained if there is none of these settings,
    or if the cell network has been trained again since."""
    folder = stack_folder / CONTEXT_FOLDER
    wanted = {
        **asdict(settings),
        "cell network": file_digest(stack_folder / CELL_FOLDER / "model.safetensors"),
    }
    if settings_in(folder, FORMAT) != wanted:
        fit = fit_context(panel, known, cells, settings, on_step=on_step)
        with atomic_write(folder) as part:
            fit.save(part, wanted)
            remove_folder(folder)
    return ContextFit.load(folder)


def fit_context(
    panel: CountPanel,
    known: OutOfFold,
    cells: CellFit,
    settings: StarterSettings = FINE_TUNING,
    *,
    on_step: OnStep = silent,
) -> ContextFit:
    """Train on the days that a stack was fitted on, and decide how far to go from what stack and
    cell network say of validation A and B."""
    first = panel.roots.days[0].toordinal()
    late = np.flatnonzero(known.folds >= TRAIN_FOLDS)
    early = np.flatnonzero(known.folds < TRAIN_FOLDS)
    start = date.fromordinal(int(known.days[early[0]]))
    panel = panel.until(date.fromordinal(int(known.days[-1])))
    reader = ContextReader(panel, start)
    at = known.days - first
    learned = [number for number in (*early, *late) if reader.knows(int(at[number]))]
    shipped = shipped_starter()
    early, late = (np.intersect1d(part, learned) for part in (early, late))
    left_out = _left_out(settings, len(early), len(late), known.expected.shape[1])
    if left_out:
        nothing = np.zeros((len(TARGETS), 0, *known.expected.shape[1:]), np.float32)
        return ContextFit(shipped, start, NOTHING, NOTHING, known.days[:0], nothing, left_out)
    on_step(f"reading the law off the days before each of {len(learned)} days")
    table = reader.table([int(at[number]) for number in learned])
    scale = shipped.mean, shipped.deviation
    part = len(early)
    validation = ContextTable(*(values[part:] for values in table))
    networks = []
    for what, cut in ((", without validation", slice(part)), ("", slice(None))):
        cells_shown = ContextTable(*(values[cut] for values in table))
        told = _told(on_step, what)
        networks.append(train_starter(shipped, cells_shown, scale, settings, told))
    said = networks[0].logits(validation)
    before = np.stack([_said_before(cells, int(known.days[number])) for number in late])
    weights, gains = choose_weights(
        before, said, validation.outcomes.astype(np.float64), candidates=WEIGHTS
    )
    kept = np.moveaxis(said, -1, 0).astype(np.float32)
    return ContextFit(networks[1], start, weights, gains, known.days[late], kept)


def _left_out(settings: StarterSettings, early: int, late: int, streams: int) -> str:
    """Why none is trained on so many days of training and of validation; empty: one is."""
    if not settings.steps:
        return "train.context_steps is 0"
    if not early or not late:
        return "too few days lie before those of training or validation"
    if (early + late) * streams > MOST_LEARNED:
        return f"for stores with at most {MOST_LEARNED:,} days of streams to learn from"
    return ""


def _told(on_step: OnStep, what: str) -> OnStep:
    return lambda step: on_step(f"training the context network{what}: {step}")


def _said_before(cells: CellFit, day: int) -> FloatArray:
    """What stack and cell network say of a day of validation A or B, [stream, root, target]."""
    said = cells.at(date.fromordinal(day))
    if said is None:
        raise ForecastError(
            f"the cell network has no answer for {date.fromordinal(day)}: train the model again "
            "with `gdelphi train --fresh`"
        )
    return said[..., : len(TARGETS)]


def validation_logits(cells: CellFit, context: ContextFit | None) -> tuple[IntArray, VectorArray]:
    """Days of validation A and B, and what is said of tomorrow in the end by stack, cell network
    and context network, [target, day, stream, root]."""
    said = cells.logits[: len(TARGETS)].copy()
    if context is not None and context.moves:
        places: Sequence[int] = np.flatnonzero(np.isin(cells.days, context.days)).tolist()
        before = np.moveaxis(said[:, places], 0, -1).astype(np.float64)
        moved = context.moved(before, np.moveaxis(context.logits, 0, -1).astype(np.float64))
        said[:, places] = np.moveaxis(moved, -1, 0).astype(np.float32)
    return cells.days, said


class ContextReading:
    """What a context network says at an origin of a panel."""

    def __init__(self, fit: ContextFit, panel: CountPanel, fitted: IntArray) -> None:
        """`fitted` are ordinals of the days that the stack was fitted on, increasing."""
        self.fit, self._fitted = fit, fitted
        self._first = panel.roots.days[0]
        self._reader = ContextReader(panel, fit.start)

    def moved(self, before: FloatArray, origin: date) -> FloatArray:
        """What is said of tomorrow in the end, [stream, root, target]. Of a training day, which
        both networks have seen, what was said before."""
        day = origin + timedelta(days=1)
        said = self.fit.at(day)
        if said is None:
            position = (day - self._first).days
            if place_of(day, self._fitted) is not None or not self._reader.knows(position):
                return before
            said = self.fit.network.logits(self._reader.table([position]))[0]
        return self.fit.moved(before, said)
