"""The space: how a phrase becomes a point on the unit sphere, fitted on training phrases and saved.

A point is the concatenation of blocks for the verb, actor 1 and actor 2. A block is the embedding
of its text, centred, reduced to its leading axes and brought to length 1, times the root of its
share s (s_verb + s_actor1 + s_actor2 = 1):

    x = (sqrt(s_verb) v, sqrt(s_actor1) a1, sqrt(s_actor2) a2)

so |x| = 1, the inner product of two points is the mean of their blocks' cosines, weighted by the
shares, an atom can be read back block by block, and a few thousand texts are encoded in place of
hundreds of thousands of sentences. Not chosen: the embedding of the whole sentence, which keeps
less of a day (docs/LOG.md).

A verb's embedding is the mean over its lineage (root, base, full code): CAMEO's hierarchy is known,
and sibling codes with unlike wordings ("riot", "stage a hunger strike") come to lie together.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import DIGEST_LENGTH, atomic_write, write_json_atomically
from gdelphi.common.sections import MeasureSettings
from gdelphi.common.types import (
    WORLD,
    FloatArray,
    IntArray,
    Measure,
    VectorArray,
)
from gdelphi.gdelt.cameo import tables_fingerprint
from gdelphi.measures.clouds import Cloud, Coded
from gdelphi.measures.encoder import EmbeddingCache, OnEncoded
from gdelphi.measures.phrases import (
    GRAMMAR,
    actor,
    lineage,
    verb,
)
from gdelphi.ot.sphere import Centring, fit_centring

FORMAT: Final = 1
BLOCKS: Final = ("verb", "actor", "actor")
"""which table of vectors each block of a point is taken from: verb, actor 1, actor 2"""

# Spaces of this format were fitted with these, once settings. Models know a space by its
# fingerprint, so they stay part of it.
_CONSTANTS: Final = {"layout": "slots", "lineage": True, "sentence_dimensions": 128}
PLACING: Final = ("verb_weight", "actor1_weight", "verb_dimensions", "actor_dimensions")
"""the settings that decide where a phrase lies"""
DICTIONARIES: Final = 4  # of days whose keys' places are at hand


class Fitted(NamedTuple):
    """What a space was fitted on."""

    since: str
    until: str
    cutoff: str
    """last day that it might have seen"""
    streams: int
    stream_days: int
    phrases: int


class PhraseWeights(NamedTuple):
    """Training phrases: total weight of each actor key and event code."""

    actors: Mapping[str, float]
    codes: Mapping[str, float]
    fitted: Fitted


@dataclass(frozen=True, eq=False)
class Space:
    """A fitted space. `Points` applies it."""

    settings: MeasureSettings
    encoder: str
    revision: str
    blocks: Mapping[str, Centring]
    fitted: Fitted

    @property
    def dimension(self) -> int:
        return sum(self.blocks[name].dimension for name in BLOCKS)

    @property
    def shares(self) -> tuple[float, float, float]:
        """The share of each block in a point, in the order of `BLOCKS`."""
        verb_share, first = self.settings.verb_weight, self.settings.actor1_weight
        return verb_share, first, 1 - verb_share - first

    def join(self, blocks: Sequence[VectorArray]) -> VectorArray:
        """The points [n, dim] with these blocks of length 1, [n, block dimensions] each."""
        parts = [
            np.float32(share**0.5) * block for share, block in zip(self.shares, blocks, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def verb_part(self, points: VectorArray) -> VectorArray:
        """The block of points [n, dim] that says which event it is, [n, verb dimensions]."""
        return points[:, : self.blocks["verb"].dimension]

    @cached_property
    def fingerprint(self) -> str:
        """A short name for everything that decides where a phrase lies."""
        digest = hashlib.sha256(json.dumps(self._facts(), sort_keys=True).encode())
        for name in sorted(self.blocks):
            digest.update(self.blocks[name].mean.tobytes())
            digest.update(self.blocks[name].axes.tobytes())
        return digest.hexdigest()[:DIGEST_LENGTH]

    def _facts(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "encoder": self.encoder,
            "revision": self.revision,
            "wording": f"{GRAMMAR}-{tables_fingerprint()}",
            "settings": {
                **self.settings.model_dump(mode="json", include=set(PLACING)),
                **_CONSTANTS,
            },
            "kept": {name: round(block.kept, 6) for name, block in sorted(self.blocks.items())},
            "fitted": self.fitted._asdict(),
        }

    def save(self, folder: Path) -> None:
        """Write space.safetensors and space.json, the latter last: it says that both are there."""
        tensors: dict[str, VectorArray] = {}
        for name, block in self.blocks.items():
            tensors[f"{name}.mean"] = np.ascontiguousarray(block.mean)
            tensors[f"{name}.axes"] = np.ascontiguousarray(block.axes)
        with atomic_write(folder / "space.safetensors") as part:
            save_file(tensors, part)
        write_json_atomically(
            folder / "space.json", self._facts() | {"fingerprint": self.fingerprint}
        )


def load_space(folder: Path) -> Space:
    """The space that `Space.save` has written."""
    path = folder / "space.json"
    if not path.exists():
        raise MeasuresError(f"no space in {folder}: `gdelphi embed` fits one")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        tensors = load_file(folder / "space.safetensors")
        blocks = {
            name: Centring(tensors[f"{name}.mean"], tensors[f"{name}.axes"], facts["kept"][name])
            for name in ("verb", "actor")
        }
        settings = MeasureSettings(**{name: facts["settings"][name] for name in PLACING})
        fitted = Fitted(**facts["fitted"])
        space = Space(settings, facts["encoder"], facts["revision"], blocks, fitted)
        known = facts["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise MeasuresError(
            f"{folder} holds no space that can be read ({reason}): run `gdelphi embed --refit`"
        ) from None
    if space.fingerprint != known:
        raise MeasuresError(
            f"{path}: the fingerprint is {known}, but the files give "
            f"{space.fingerprint}: they were changed, or the packaged wording was. Run "
            "`gdelphi embed --refit`, and train again"
        )
    return space


def fit_space(
    settings: MeasureSettings,
    phrases: PhraseWeights,
    cache: EmbeddingCache,
    on_encoded: OnEncoded | None = None,
) -> Space:
    """Fit the centring of each block on the training phrases, by their weight."""
    texts = _Texts(cache, on_encoded)
    blocks: dict[str, Centring] = {}
    for name, source, size in (
        ("verb", phrases.codes, settings.verb_dimensions),
        ("actor", phrases.actors, settings.actor_dimensions),
    ):
        keys = sorted(source)
        weights = np.array([source[key] for key in keys])
        blocks[name] = fit_centring(texts.embed(name, keys), weights, size)
    encoder = cache.encoder
    return Space(settings, encoder.name, encoder.revision, blocks, phrases.fitted)


class _Texts:
    """Embeddings, not yet centred, of the texts of verbs and actors."""

    def __init__(self, cache: EmbeddingCache, on_encoded: OnEncoded | None) -> None:
        self._cache = cache
        self._on_encoded = on_encoded

    def embed(self, block: str, keys: Sequence[str]) -> VectorArray:
        """[n, raw] for event codes (block `verb`) or actors' keys (block `actor`)."""
        if block == "actor":
            return self._cache.embed([actor(key).text for key in keys], self._on_encoded)
        above = [lineage(code) for code in keys]
        own, bases, roots = (
            self._cache.embed([verb(code) for code in codes], self._on_encoded)
            for codes in (keys, [codes.base for codes in above], [codes.root for codes in above])
        )
        mean: VectorArray = (own + bases + roots) / np.float32(3)
        return mean


def place_of(stream: str) -> str | None:
    """The place that a stream's sentences name: its country, none for the world's."""
    return None if stream == WORLD else stream


class Points:
    """Places phrases in a space. Each slot's keys are looked up once in the life of the object."""

    def __init__(
        self, space: Space, cache: EmbeddingCache, on_encoded: OnEncoded | None = None
    ) -> None:
        if (space.encoder, space.revision) != (cache.encoder.name, cache.encoder.revision):
            raise MeasuresError(
                f"the space was fitted with encoder {space.encoder} ({space.revision[:8]}), the "
                f"one in use is {cache.encoder.name} ({cache.encoder.revision[:8]}): set "
                "embed.encoder back, or run `gdelphi embed --refit`"
            )
        self.space = space
        self._texts = _Texts(cache, on_encoded)
        self._known = {name: _KnownVectors(block.dimension) for name, block in space.blocks.items()}

    def of(self, cloud: Cloud) -> VectorArray:
        """The points of a cloud, [n, dim]."""
        return self.space.join(
            [
                self._slot("verb", cloud.code),
                self._slot("actor", cloud.actor1),
                self._slot("actor", cloud.actor2),
            ]
        )

    def measure(self, cloud: Cloud) -> Measure:
        """A cloud as a measure."""
        return Measure(self.of(cloud), cloud.weights)

    def verbs(self, codes: Sequence[str]) -> VectorArray:
        """The verb block of event codes, of length 1, [n, verb dimensions]."""
        return self.vectors("verb", codes)

    def actors(self, keys: Sequence[str]) -> VectorArray:
        """The actor block of actors' keys, of length 1, [n, actor dimensions]."""
        return self.vectors("actor", keys)

    def _slot(self, block: str, coded: Coded) -> VectorArray:
        """A day's dictionary is long and a stream uses little of it: only that is looked up."""
        known = self._known[block]
        rows = known.rows_of(coded.keys)
        found = rows[coded.places]
        if (found < 0).any():
            lacking = np.unique(coded.places[found < 0])
            rows[lacking] = self._rows(block, [coded.keys[place] for place in lacking])
            found = rows[coded.places]
        return known.table[found]

    def meet(
        self, actor1: tuple[str, ...], codes: tuple[str, ...], actor2: tuple[str, ...]
    ) -> None:
        """Look up all keys of a day at once, for whoever goes through all of its streams."""
        self._rows("actor", [*actor1, *actor2])  # new ones are embedded together
        for block, keys in (("actor", actor1), ("verb", codes), ("actor", actor2)):
            self._known[block].rows_of(keys)[:] = self._rows(block, keys)

    def vectors(self, block: str, keys: Sequence[str]) -> VectorArray:
        """The block `verb` or `actor` of keys, of length 1, [n, block dimensions]."""
        rows = self._rows(block, keys)
        return self._known[block].table[rows]

    def _rows(self, block: str, keys: Sequence[str]) -> IntArray:
        """Where the vectors of keys are kept; new ones are embedded first."""
        known = self._known[block]
        missing = sorted({key for key in keys if key not in known.places})
        if missing:
            known.add(missing, self.space.blocks[block].apply(self._texts.embed(block, missing)))
        return np.array([known.places[key] for key in keys], dtype=np.int64)


class _KnownVectors:
    """The vectors of keys that were met, in one growing array."""

    def __init__(self, dimension: int) -> None:
        self.places: dict[str, int] = {}
        self.table: VectorArray = np.zeros((0, dimension), dtype=np.float32)
        """[at least the keys so far, dimension]"""
        self._dictionaries: deque[tuple[tuple[str, ...], IntArray]] = deque(maxlen=DICTIONARIES)

    def add(self, keys: Sequence[str], vectors: VectorArray) -> None:
        first = len(self.places)
        size = first + len(keys)
        if size > len(self.table):
            grown = np.zeros((max(size, 2 * len(self.table)), self.table.shape[1]), np.float32)
            grown[:first] = self.table[:first]
            self.table = grown
        self.table[first:size] = vectors
        self.places.update(zip(keys, range(first, size), strict=True))

    def rows_of(self, keys: tuple[str, ...]) -> IntArray:
        """For each key of a dictionary the row of its vector; -1 until it is filled in. All streams
        of a day share one dictionary, so what was found for one serves the others."""
        for known, rows in self._dictionaries:
            if known is keys:
                return rows
        rows = np.full(len(keys), -1, dtype=np.int64)
        self._dictionaries.append((keys, rows))
        return rows


class CloudSums(NamedTuple):
    """The weights of one cloud by key: what is sent from a process that has read it."""

    stream: str
    day: date
    points: int
    codes: list[tuple[str, float]]
    actors: list[tuple[str, float]]
    """first actors, then second ones"""


def cloud_sums(cloud: Cloud) -> CloudSums:
    """The weights of a cloud by key."""
    weights = cloud.weights
    return CloudSums(
        cloud.stream, cloud.day, len(cloud), _sums(cloud.code, weights),
        [*_sums(cloud.actor1, weights), *_sums(cloud.actor2, weights)],
    )  # fmt: skip


def weigh_phrases(clouds: Iterable[Cloud]) -> PhraseWeights:
    """Sum the weights of training clouds by slot. Every cloud with points counts as 1 in all."""
    return weigh_sums(map(cloud_sums, clouds))


def weigh_sums(clouds: Iterable[CloudSums]) -> PhraseWeights:
    """The same from the sums of each cloud."""
    actors: dict[str, float] = {}
    codes: dict[str, float] = {}
    streams: set[str] = set()
    days: set[str] = set()
    number = points = 0
    for cloud in clouds:
        if not cloud.points:
            continue
        _add(codes, cloud.codes)
        _add(actors, cloud.actors)
        streams.add(cloud.stream)
        days.add(cloud.day.isoformat())
        number, points = number + 1, points + cloud.points
    last = max(days, default="")
    fitted = Fitted(min(days, default=""), last, last, len(streams), number, points)
    return PhraseWeights(actors, codes, fitted)


def _sums(slot: Coded, weights: FloatArray) -> list[tuple[str, float]]:
    sums = np.bincount(slot.places, weights=weights, minlength=len(slot.keys))
    places = np.flatnonzero(sums)
    keys = map(slot.keys.__getitem__, places.tolist())
    return list(zip(keys, sums[places].tolist(), strict=True))


def _add(totals: dict[str, float], sums: list[tuple[str, float]]) -> None:
    for key, value in sums:
        totals[key] = totals.get(key, 0.0) + value
