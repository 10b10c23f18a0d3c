"""What the atoms of futures are called, before readers.

An atom of a future comes from an atom of a past day and was moved on. It may be called

    origin    by the phrase of the atom that it comes from, wherever it lies now
    nearest   by the phrase nearest to where it lies, of those that the stream's days up to the
              origin had
    namer     by what the namer writes of where it lies, which may be a phrase that never occurred

Which one it is was decided on validation B (`name_choice`) and is kept in the model's folder, in
names.json, with a copy of the namer if that was the best: a forecast needs nothing but this folder.
Without names.json atoms are called by their origin. Whatever they are called, they are traced to
news by the phrase that they come from: a name is for reading, and no report stands behind it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.forecast.prediction import (
    Names,
    Naming,
    Phrase,
)
from gdelphi.measures.pack import Pack
from gdelphi.measures.space import Space
from gdelphi.text.namer import Namer

FORMAT: Final = 1
NAMES_FILE: Final = "names.json"  # part of a model's fingerprint: see `forecasts`
NAMER_FOLDER: Final = "namer"
NAMINGS: Final[tuple[Naming, ...]] = get_args(Naming)
NOT_COPIED: Final = ("state", ".lock", ".*")
AT_ONCE: Final = 8192  # observed phrases whose points are in memory


# --- the namings ----------------------------------------------------------------------------------


class NearestNames:
    """By the nearest of given phrases."""

    by: Naming = "nearest"

    def __init__(self, pack: Pack, space: Space, slots: npt.NDArray[Any]) -> None:
        """Phrases by the positions of their slots in the pack's tables, [phrase, block]."""
        self._pack, self._space, self._slots = pack, space, slots

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """The nearest phrase of each point; of equally near ones the first."""
        if not len(self._slots):
            return [None] * len(weights)
        best = np.full(len(points), -np.inf, dtype=np.float32)
        found = np.zeros(len(points), dtype=np.int64)
        for start in range(0, len(self._slots), AT_ONCE):
            some = self._pack.points(self._slots[start : start + AT_ONCE], self._space)
            cosines = points @ some.T
            place = cosines.argmax(axis=1)
            value = cosines[np.arange(len(place)), place]
            found = np.where(value > best, start + place, found)
            best = np.maximum(best, value)
        named = self._pack.phrases_of(self._slots[found])
        return [Phrase(*each) for each in zip(*named, strict=True)]


class WrittenNames:
    """By what a namer writes."""

    by: Naming = "namer"

    def __init__(self, namer: Namer) -> None:
        self._namer = namer

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """The phrase of each point; None where what was written is no phrase."""
        found = self._namer.name(points, weights)
        return [None if each is None else Phrase(*each[:3]) for each in found]


class ObservedPhrases:
    """The phrases of each stream's clouds, and when it had them first."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._known: dict[int, tuple[npt.NDArray[Any], IntArray]] = {}

    def until(self, stream: int, last: int) -> npt.NDArray[Any]:
        """Phrases of the days up to one, as positions in the pack's tables, [phrase, block]."""
        if stream not in self._known:
            self._known[stream] = self._first_days(stream)
        slots, first = self._known[stream]
        return slots[first <= last]

    def _first_days(self, stream: int) -> tuple[npt.NDArray[Any], IntArray]:
        days = [self._pack.cloud(day, stream)[0] for day in range(self._pack.facts.days)]
        slots, place = np.unique(np.concatenate(days), axis=0, return_index=True)
        ends = np.cumsum([len(each) for each in days])
        return slots, np.searchsorted(ends, place, side="right").astype(np.int64)


# --- what was chosen ------------------------------------------------------------------------------


@dataclass(frozen=True)
class NameScore:
    """What the words of one naming were worth: ROUGE-1, 2 and L, means over streams and days."""

    futures: tuple[float, ...]
    brief: tuple[float, ...]
    """of the expected day"""
    renamed: float
    """share of atoms that are called other than what they come from"""
    unreadable: float
    """share of atoms that could not be named"""

    @property
    def mean(self) -> float:
        """By which namings are compared."""
        return float(np.mean([*self.futures, *self.brief]))


@dataclass(frozen=True)
class ChosenNames:
    """How the model's futures are named, and why."""

    by: Naming
    namer: str
    """digest of the namer that was tried"""
    since: str
    until: str
    """days of validation B that were looked at"""
    days: int
    texts: int
    """days of streams"""
    scores: Mapping[Naming, NameScore]

    def save(self, folder: Path) -> None:
        """Write names.json."""
        said = {"format": FORMAT, **asdict(self)}
        beside = folder / f".{NAMES_FILE}.part"
        beside.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
        beside.replace(folder / NAMES_FILE)


def read_chosen(folder: Path) -> ChosenNames | None:
    """What names.json of a model's folder says; None if it has none."""
    path = folder / NAMES_FILE
    if not path.exists():
        return None
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said.pop("format") != FORMAT or said["by"] not in NAMINGS:
            raise ValueError("it is of another gdelphi")
        scores = {
            by: NameScore(tuple(score.pop("futures")), tuple(score.pop("brief")), **score)
            for by, score in said.pop("scores").items()
        }
        return ChosenNames(scores=scores, **said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForecastError(
            f"{path} cannot be read ({error!r}): `gdelphi calibrate --model {folder}` makes it anew"
        ) from None


def digest_of(folder: Path) -> str:
    """A short name for the files of a namer, less the state of its training."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(_left_out(part) for part in inside.parts):
            digest.update(str(inside).encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _left_out(name: str) -> bool:
    return name.startswith(".") or name in NOT_COPIED


def forget_names(folder: Path) -> None:
    """Call the futures of a model by their origin."""
    (folder / NAMES_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / NAMER_FOLDER, ignore_errors=True)


def keep_names(folder: Path, chosen: ChosenNames, namer: Path) -> None:
    """Keep a choice in a model's folder, and the namer if it was chosen. A run that is killed here
    leaves a model whose futures are called by their origin."""
    beside = folder / f".{NAMER_FOLDER}.part"
    shutil.rmtree(beside, ignore_errors=True)
    if chosen.by == "namer":
        shutil.copytree(namer, beside, ignore=shutil.ignore_patterns(*NOT_COPIED))
    forget_names(folder)
    if chosen.by == "namer":
        beside.rename(folder / NAMER_FOLDER)
    chosen.save(folder)


# --- at a predictor -------------------------------------------------------------------------------


class NameBook:
    """Names for the atoms of a pack's streams, as a model's folder says, or by a given namer.

    Files are read when first needed: a model whose names are damaged can still be calibrated.
    """

    def __init__(
        self, folder: Path, pack: Pack, space: Space, *, namer: Path | None = None
    ) -> None:
        self.folder, self._pack, self._space, self._given = folder, pack, space, namer
        self._observed = ObservedPhrases(pack)

    @cached_property
    def by(self) -> Naming:
        """How atoms are called."""
        if self._given is not None:
            return "namer"
        chosen = read_chosen(self.folder)
        return chosen.by if chosen else "origin"

    def at(self, stream: int, origin: int, by: Naming | None = None) -> Names | None:
        """What calls the atoms of a stream at an origin, both by their positions in the pack; None:
        the phrase that they come from. `by` asks for another naming than the usual one."""
        naming = by or self.by
        if naming == "nearest":
            return NearestNames(self._pack, self._space, self._observed.until(stream, origin))
        return self._written if naming == "namer" else None

    @cached_property
    def _written(self) -> WrittenNames:
        if self._given is not None:
            return WrittenNames(Namer.load(self._given, self._space))
        folder, chosen = self.folder / NAMER_FOLDER, read_chosen(self.folder)
        if chosen is None or digest_of(folder) != chosen.namer:
            raise ForecastError(
                f"{folder} is not the namer that {NAMES_FILE} beside it tells of: bring it back "
                f"from a copy, or `gdelphi calibrate --model {self.folder}`"
            )
        return WrittenNames(Namer.load(folder, self._space))


def fitting_namer(folder: Path, space: Space) -> bool:
    """Whether a namer is there that names points of a space."""
    try:
        Namer.load(folder, space)
    except TrainingError:
        return False
    return True
