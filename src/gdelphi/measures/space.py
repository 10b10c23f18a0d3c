"""The space: how a phrase becomes a point on the unit sphere, fitted on training phrases and saved.

Two layouts. `slots`: a point is the concatenation of blocks for the verb, actor 1 and actor 2, each
centred, reduced and of length 1, times the root of its share; so inner products are sums over
slots, an atom can be read back slot by slot, and a few thousand texts are encoded instead of
hundreds of thousands of sentences. `sentence`: a point is the centred embedding of the whole
sentence. Slots are the default: docs/measures.md has the comparison.

In slots a verb's embedding is the mean over its lineage (root, base, full code): CAMEO's hierarchy
is known, and sibling codes with unlike wordings ("riot", "stage a hunger strike") come to lie
together. `lineage = false` uses the code's own phrase alone.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import MeasureSettings
from gdelphi.common.types import (
    WORLD,
    FloatArray,
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
    sentence,
    verb,
)
from gdelphi.ot.sphere import Centring, fit_centring

FORMAT: Final = 1
SENTENCES_FITTED = 20_000  # the heaviest ones that a centring of sentences is fitted on

Sentence = tuple[str, str, str, str]
"""keys of actor 1, event and actor 2, and the stream whose place it names"""


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
    """Training phrases: total weight of each actor key, event code and sentence."""

    actors: Mapping[str, float]
    codes: Mapping[str, float]
    sentences: Mapping[Sentence, float]
    """filled for the sentence layout only"""
    fitted: Fitted

    def heaviest_sentences(self) -> list[Sentence]:
        """Those that something is fitted on. Ties go by the codes: no order matters."""
        ranked = sorted(self.sentences.items(), key=lambda item: (-item[1], item[0]))
        return [key for key, _ in ranked[:SENTENCES_FITTED]]


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
        return sum(block.dimension for block in self._laid_out())

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of each block in a point, in their order."""
        if self.settings.layout == "sentence":
            return (1.0,)
        first = self.settings.actor1_weight
        return (self.settings.verb_weight, first, 1 - self.settings.verb_weight - first)

    def _laid_out(self) -> list[Centring]:
        if self.settings.layout == "sentence":
            return [self.blocks["sentence"]]
        return [self.blocks["verb"], self.blocks["actor"], self.blocks["actor"]]

    def event_part(self, points: VectorArray) -> VectorArray:
        """What of points [n, dim] says which event it is: the verb's block, or all of it."""
        return points[:, : self._laid_out()[0].dimension]

    def slot_part(self, points: VectorArray, slot: Literal["actor1", "actor2"]) -> VectorArray:
        """An actor's block of points [n, dim]; only slots have it."""
        if self.settings.layout == "sentence":
            raise MeasuresError("a sentence has no block for an actor: use measures.layout = slots")
        verb_end, width = self.blocks["verb"].dimension, self.blocks["actor"].dimension
        start = verb_end if slot == "actor1" else verb_end + width
        return points[:, start : start + width]

    @cached_property
    def fingerprint(self) -> str:
        """A short name for everything that decides where a phrase lies."""
        digest = hashlib.sha256(json.dumps(self._said(), sort_keys=True).encode())
        for name in sorted(self.blocks):
            digest.update(self.blocks[name].mean.tobytes())
            digest.update(self.blocks[name].axes.tobytes())
        return digest.hexdigest()[:16]

    def _said(self) -> dict[str, Any]:
        chosen = self.settings.model_dump(mode="json", include=set(PLACING))
        return {
            "format": FORMAT,
            "encoder": self.encoder,
            "revision": self.revision,
            "wording": f"{GRAMMAR}-{tables_fingerprint()}",
            "settings": chosen,
            "kept": {name: round(block.kept, 6) for name, block in sorted(self.blocks.items())},
            "fitted": self.fitted._asdict(),
        }

    def save(self, folder: Path) -> None:
        """Write space.safetensors and space.json, the latter last: it says that both are there."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, VectorArray] = {}
        for name, block in self.blocks.items():
            tensors |= {f"{name}.mean": block.mean, f"{name}.axes": block.axes}
        beside = folder / ".space.part"
        save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, beside)
        beside.replace(folder / "space.safetensors")
        said = self._said() | {"fingerprint": self.fingerprint}
        beside.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
        beside.replace(folder / "space.json")


PLACING = (
    "layout",
    "verb_weight",
    "actor1_weight",
    "lineage",
    "verb_dimensions",
    "actor_dimensions",
    "sentence_dimensions",
)


def load_space(folder: Path) -> Space:
    """The space that `Space.save` has written."""
    path = folder / "space.json"
    if not path.exists():
        raise MeasuresError(f"no space in {folder}: `gdelphi embed` fits one")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        tensors = load_file(folder / "space.safetensors")
        blocks = {
            name: Centring(tensors[f"{name}.mean"], tensors[f"{name}.axes"], kept)
            for name, kept in said["kept"].items()
        }
        settings = MeasureSettings(**said["settings"])
        fitted = Fitted(**said["fitted"])
        space = Space(settings, said["encoder"], said["revision"], blocks, fitted)
        known = said["fingerprint"]
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
    raw = _Raw(settings, cache, on_encoded)
    blocks: dict[str, Centring] = {}
    if settings.layout == "sentence":
        chosen = phrases.heaviest_sentences()
        vectors = raw.sentences(chosen)
        weights = np.array([phrases.sentences[key] for key in chosen])
        blocks["sentence"] = fit_centring(vectors, weights, settings.sentence_dimensions)
    else:
        for name, source, size in (
            ("verb", phrases.codes, settings.verb_dimensions),
            ("actor", phrases.actors, settings.actor_dimensions),
        ):
            keys = sorted(source)
            vectors = raw.verbs(keys) if name == "verb" else raw.actors(keys)
            weights = np.array([source[key] for key in keys])
            blocks[name] = fit_centring(vectors, weights, size)
    encoder = cache.encoder
    return Space(settings, encoder.name, encoder.revision, blocks, phrases.fitted)


class _Raw:
    """Embeddings, not yet centred, of the texts of slots and sentences."""

    def __init__(
        self, settings: MeasureSettings, cache: EmbeddingCache, on_encoded: OnEncoded | None
    ) -> None:
        self._lineage = settings.lineage
        self._cache = cache
        self._on_encoded = on_encoded

    def _embed(self, texts: Sequence[str]) -> VectorArray:
        return self._cache.embed(texts, self._on_encoded)

    def verbs(self, codes: Sequence[str]) -> VectorArray:
        own = self._embed([verb(code) for code in codes])
        if not self._lineage:
            return own
        above = [lineage(code) for code in codes]
        roots = self._embed([verb(each.root) for each in above])
        bases = self._embed([verb(each.base) for each in above])
        mean: VectorArray = (own + bases + roots) / np.float32(3)
        return mean

    def actors(self, keys: Sequence[str]) -> VectorArray:
        return self._embed([actor(key).text for key in keys])

    def sentences(self, keys: Sequence[Sentence]) -> VectorArray:
        return self._embed(
            [sentence(first, code, second, place_of(at)) for first, code, second, at in keys]
        )


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
        self._raw = _Raw(space.settings, cache, on_encoded)
        self._known: dict[str, dict[str, VectorArray]] = {"verb": {}, "actor": {}}

    def of(self, cloud: Cloud) -> VectorArray:
        """The points of a cloud, [n, dim]."""
        if self.space.settings.layout == "sentence":
            return self.sentences([(*phrase, cloud.stream) for phrase in cloud.phrases()])
        blocks = (
            self._slot("verb", cloud.code),
            self._slot("actor", cloud.actor1),
            self._slot("actor", cloud.actor2),
        )
        parts = [
            np.float32(share**0.5) * block
            for share, block in zip(self.space.shares, blocks, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def measure(self, cloud: Cloud) -> Measure:
        """A cloud as a measure."""
        return Measure(self.of(cloud), cloud.weights)

    def sentences(self, keys: Sequence[Sentence]) -> VectorArray:
        """The points of sentences, [n, dim]; sentence layout only."""
        return self.space.blocks["sentence"].apply(self._raw.sentences(keys))

    def verbs(self, codes: Sequence[str]) -> VectorArray:
        """The verb block of event codes, of length 1, [n, verb dimensions]; slots only."""
        return self._look_up("verb", codes)

    def actors(self, keys: Sequence[str]) -> VectorArray:
        """The actor block of actors' keys, of length 1, [n, actor dimensions]; slots only."""
        return self._look_up("actor", keys)

    def table(self, block: str, keys: Sequence[Any]) -> VectorArray:
        """The same for a block by its name: verb, actor or sentence."""
        return self.sentences(keys) if block == "sentence" else self._look_up(block, keys)

    def _slot(self, block: str, coded: Coded) -> VectorArray:
        """A day's dictionary is long and a stream uses little of it: only that is looked up."""
        used, places = np.unique(coded.places, return_inverse=True)
        return self._look_up(block, [coded.keys[place] for place in used])[places]

    def _look_up(self, block: str, keys: Sequence[str]) -> VectorArray:
        known = self._known[block]
        missing = sorted({key for key in keys if key not in known})
        if missing:
            raw = self._raw.verbs(missing) if block == "verb" else self._raw.actors(missing)
            known.update(zip(missing, self.space.blocks[block].apply(raw), strict=True))
        if not keys:
            return np.zeros((0, self.space.blocks[block].dimension), dtype=np.float32)
        return np.stack([known[key] for key in keys])


def weigh_phrases(clouds: Iterable[Cloud], *, sentences: bool) -> PhraseWeights:
    """Sum the weights of training clouds by slot. Every cloud with points counts as 1 in all."""
    actors: dict[str, float] = {}
    codes: dict[str, float] = {}
    whole: dict[Sentence, float] = {}
    streams: set[str] = set()
    days: set[str] = set()
    number = points = 0
    for cloud in clouds:
        if not len(cloud):
            continue
        _add(codes, cloud.code, cloud.weights)
        _add(actors, cloud.actor1, cloud.weights)
        _add(actors, cloud.actor2, cloud.weights)
        if sentences:
            for phrase, weight in zip(cloud.phrases(), cloud.weights.tolist(), strict=True):
                key = (*phrase, cloud.stream)
                whole[key] = whole.get(key, 0.0) + weight
        streams.add(cloud.stream)
        days.add(cloud.day.isoformat())
        number, points = number + 1, points + len(cloud)
    last = max(days, default="")
    fitted = Fitted(min(days, default=""), last, last, len(streams), number, points)
    return PhraseWeights(actors, codes, whole, fitted)


def _add(totals: dict[str, float], slot: Coded, weights: FloatArray) -> None:
    sums = np.bincount(slot.places, weights=weights, minlength=len(slot.keys))
    for place in np.flatnonzero(sums):
        key = slot.keys[place]
        totals[key] = totals.get(key, 0.0) + float(sums[place])
