"""Phrases for the atoms of futures, as readers see them.

An atom of a future comes from an atom of a past day and was moved on. It may be named

    origin    by the phrase of the atom that it comes from, wherever it lies now
    nearest   by the phrase nearest to where it lies, of those that the stream's days up to the
              origin had
    namer     by what the namer writes of where it lies, which may be a phrase that never occurred

Which one it is was decided on validation B (naming_choice.py) and is kept in the model's folder, in
names.json, with a copy of the namer if that was the best: a forecast needs nothing but this folder.
Without names.json atoms are named by their origin. Whatever they are named, they are traced to news
by the phrase that they come from: a name is for reading, and no report stands behind it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import numpy.typing as npt

from gdelphi.common.checksums import CHECKSUMS, remove_file
from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.files import (
    DIGEST_LENGTH,
    atomic_write,
    file_digest,
    remove_folder,
    remove_left_over,
    write_json_atomically,
)
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.forecast.archive import NAMES_FILE
from gdelphi.forecast.prediction import (
    AtomNamer,
    Naming,
    Phrase,
)
from gdelphi.measures.pack import Pack
from gdelphi.measures.space import Space

if TYPE_CHECKING:
    from gdelphi.text.namer import Namer

FORMAT: Final = 1
NAMER_FOLDER: Final = "namer"
NAMINGS: Final[tuple[Naming, ...]] = get_args(Naming)
NOT_COPIED: Final = ("state", ".lock", ".*")
AT_ONCE: Final = 8192  # observed phrases whose points are in memory


# --- the namings ----------------------------------------------------------------------------------


class NearestPhraseNamer:
    """Names points by the nearest of given phrases."""

    by: Naming = "nearest"

    def __init__(self, pack: Pack, space: Space, slots: npt.NDArray[Any]) -> None:
        """`slots` are the phrases by their positions in the pack's tables, [phrase, block]."""
        self._pack, self._space, self._slots = pack, space, slots

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """The nearest phrase of each point; of equally near ones the first."""
        if not len(self._slots):
            return [None] * len(weights)
        best = np.full(len(points), -np.inf, dtype=np.float32)
        nearest = np.zeros(len(points), dtype=np.int64)
        for start in range(0, len(self._slots), AT_ONCE):
            portion = self._pack.points(self._slots[start : start + AT_ONCE], self._space)
            cosines = points @ portion.T
            place = cosines.argmax(axis=1)
            cosine = cosines[np.arange(len(place)), place]
            nearest = np.where(cosine > best, start + place, nearest)
            best = np.maximum(best, cosine)
        columns = self._pack.phrases_of(self._slots[nearest])
        return [Phrase(*codes) for codes in zip(*columns, strict=True)]


class WrittenPhraseNamer:
    """Names points by what a namer writes of them."""

    by: Naming = "namer"

    def __init__(self, namer: "Namer") -> None:
        self._namer = namer

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """The phrase of each point; None where what was written is no phrase."""
        written = self._namer.name(points, weights)
        return [None if phrase is None else Phrase(*phrase[:3]) for phrase in written]


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
        ends = np.cumsum([len(day_slots) for day_slots in days])
        return slots, np.searchsorted(ends, place, side="right").astype(np.int64)


# --- what was chosen ------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamingScore:
    """How good one naming was: ROUGE-1, 2 and L of its phrases, means over streams and days."""

    futures: tuple[float, ...]
    brief: tuple[float, ...]
    """of the expected day"""
    renamed: float
    """share of atoms that are named other than the phrase that they come from"""
    unreadable: float
    """share of atoms that could not be named"""

    @property
    def mean(self) -> float:
        """By which namings are compared."""
        return float(np.mean([*self.futures, *self.brief]))


@dataclass(frozen=True)
class NamingChoice:
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
    scores: Mapping[Naming, NamingScore]

    def save(self, folder: Path) -> None:
        """Write names.json."""
        write_json_atomically(folder / NAMES_FILE, {"format": FORMAT, **asdict(self)})


def read_naming_choice(folder: Path) -> NamingChoice | None:
    """The choice in names.json of a model's folder; None if it has none."""
    path = folder / NAMES_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT or content["by"] not in NAMINGS:
            raise ValueError("it is of another gdelphi")
        scores = {
            by: NamingScore(tuple(score.pop("futures")), tuple(score.pop("brief")), **score)
            for by, score in content.pop("scores").items()
        }
        return NamingChoice(scores=scores, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForecastError(
            f"{path} cannot be read ({error!r}): `gdelphi calibrate --model {folder}` makes it anew"
        ) from None


def namer_digest(folder: Path) -> str:
    """A short name for the files of a namer, less the checkpoint of its training."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        left_out = any(part[0] == "." or part in (*NOT_COPIED, CHECKSUMS) for part in inside.parts)
        if path.is_file() and not left_out:
            digest.update(str(inside).encode() + b"\0")
            digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()[:DIGEST_LENGTH]


def forget_names(folder: Path) -> None:
    """Name the futures of a model by their origin."""
    remove_file(folder / NAMES_FILE)
    remove_folder(folder / NAMER_FOLDER)


def keep_names(folder: Path, chosen: NamingChoice, namer: Path) -> None:
    """Keep a choice in a model's folder, and the namer if it was chosen. A run that is killed here
    leaves a model whose futures are named by their origin."""
    remove_left_over(folder)
    if chosen.by == "namer":
        with atomic_write(folder / NAMER_FOLDER) as part:
            shutil.copytree(namer, part, ignore=shutil.ignore_patterns(*NOT_COPIED))
            forget_names(folder)
    else:
        forget_names(folder)
    chosen.save(folder)


# --- the namer at an origin -----------------------------------------------------------------------


class AtomNames:
    """Gives the namers for the atoms of a pack's streams: as chosen in a model's folder, or a given
    text namer.

    Files are read when first needed: a model whose names are damaged can still be calibrated.
    """

    def __init__(
        self, folder: Path, pack: Pack, space: Space, *, namer: Path | None = None
    ) -> None:
        self.folder, self._pack, self._space, self._given = folder, pack, space, namer
        self._observed = ObservedPhrases(pack)

    @cached_property
    def by(self) -> Naming:
        """How atoms are named."""
        if self._given is not None:
            return "namer"
        chosen = read_naming_choice(self.folder)
        return chosen.by if chosen else "origin"

    def at(self, stream: int, origin: int, by: Naming | None = None) -> AtomNamer | None:
        """The namer of a stream's atoms at an origin, both given by their positions in the pack.

        None: atoms keep the phrase that they come from. `by` asks for another naming than the
        usual.
        """
        naming = by or self.by
        if naming == "nearest":
            return NearestPhraseNamer(self._pack, self._space, self._observed.until(stream, origin))
        return self._text_namer if naming == "namer" else None

    @cached_property
    def _text_namer(self) -> WrittenPhraseNamer:
        if self._given is not None:
            return WrittenPhraseNamer(load_namer(self._given, self._space))
        folder, chosen = self.folder / NAMER_FOLDER, read_naming_choice(self.folder)
        if chosen is None or namer_digest(folder) != chosen.namer:
            raise ForecastError(
                f"{folder} is not the namer that {NAMES_FILE} beside it tells of: bring it back "
                f"from a copy, or `gdelphi calibrate --model {self.folder}`"
            )
        return WrittenPhraseNamer(load_namer(folder, self._space))


def load_namer(folder: Path, space: Space) -> "Namer":
    """The namer in a folder, for points of a space."""
    from gdelphi.text.namer import Namer  # transformers takes 3 s to load: rarely needed

    return Namer.load(folder, space)


def namer_fits(folder: Path, space: Space) -> bool:
    """Whether a namer is there that names points of a space."""
    try:
        load_namer(folder, space)
    except TrainingError:
        return False
    return True
