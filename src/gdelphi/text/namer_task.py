"""What the namer learns from: points with their phrases.

Three kinds of examples: phrases of training days; phrases put together from the slots that are
known, with actors that no day had (a nationality and a role that never met); atoms of descriptors,
which lie between the points that they stand for. A tenth of all phrases, chosen by a digest of
their codes, is held out of all three and of the observed phrases that naming is compared with.
"""

import zlib
from collections import Counter
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gdelphi.common.types import (
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.gdelt.cameo import (
    actor_types,
    countries,
    event_codes,
)
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.phrases import canonical, sentence
from gdelphi.measures.space import Points
from gdelphi.model.task import Loss, StepBatch
from gdelphi.text.compact import SPECIAL
from gdelphi.text.corpus import IGNORED
from gdelphi.text.data import TextData, step_random
from gdelphi.text.namer import (
    KIND,
    Namer,
    PhraseKey,
    agreement,
    blocks_of,
    naming_model,
)
from gdelphi.text.t5 import text_loss
from gdelphi.text.task import TextTask
from gdelphi.text.vocabulary import Vocabulary, learn_vocabulary

HELD_OUT: Final = 10  # one phrase of so many
LARGER: Final = 4  # a batch has so many times the phrases that the forecaster's has sequences
MADE_ACTORS: Final = 2000  # actors that are learned from though no day had them
MOST_WORDS: Final = 8000  # of the vocabulary: more than the tables have
EVALUATED: Final = 256  # held-out phrases that a training is evaluated on
SEED: Final = 20


class Examples(NamedTuple):
    """Points with their phrases."""

    points: VectorArray
    weights: FloatArray
    keys: list[PhraseKey]


def held_out(key: PhraseKey) -> bool:
    """Whether a phrase is kept from all training."""
    return zlib.crc32("\t".join(key).encode()) % HELD_OUT == 0


class Slots:
    """Vectors of codes and actors, and phrases by their places in them."""

    def __init__(self, data: TextData, made_actors: int) -> None:
        self.space, pack = data.space, data.pack
        self.blocks = blocks_of(data.space)
        points = Points(data.space, open_cache(data.settings))
        known = list(pack.keys["actor"])
        made = [key for key in make_actors(made_actors) if key not in set(known)]
        self.actors = [*known, *made]
        codes = list(pack.keys["verb"])
        self.codes = [*codes, *(code for code in event_codes() if code not in set(codes))]
        self._actor = points.actors(self.actors)
        self._verb = points.verbs(self.codes)

    def points(self, places: IntArray) -> VectorArray:
        """Points of phrases by their places (code, actor 1, actor 2), [n, 3] -> [n, dim]."""
        tables = (self._verb, self._actor, self._actor)
        parts = [
            np.float32(share**0.5) * table[places[:, number]]
            for number, (table, share) in enumerate(zip(tables, self.blocks.shares, strict=True))
        ]
        return np.concatenate(parts, axis=1)

    def keys(self, places: IntArray) -> list[PhraseKey]:
        return [
            (self.actors[first], self.codes[code], self.actors[second])
            for code, first, second in places.tolist()
        ]


def make_actors(number: int) -> list[str]:
    """Actors of random nationality and role; the same ones always."""
    random = np.random.default_rng(SEED)
    nations = sorted({country.cameo for country in countries() if country.cameo})
    roles = sorted(actor_types())
    actors: dict[str, None] = {}  # distinct, in the order of drawing
    while len(actors) < number:
        nation = "" if random.random() < 0.1 else str(random.choice(nations))
        more = "" if random.random() < 0.8 else str(random.choice(roles))
        actors[canonical(f"{nation}|||||{random.choice(roles)}|{more}")] = None
    return list(actors)


def observed_phrases(data: TextData, until: int) -> IntArray:
    """Distinct phrases of the clouds of the first days as places (code, actor 1, actor 2)."""
    pack, days = data.pack, []
    for day in np.flatnonzero(pack.present[:until]).tolist():
        clouds = [pack.cloud(day, stream)[0] for stream in range(pack.shape[1])]
        days.append(np.unique(np.concatenate(clouds), axis=0))
    return np.unique(np.concatenate(days), axis=0).astype(np.int64)


def learn_names(slots: Slots) -> Vocabulary:
    """All words of the phrases of these codes and actors: there are a few thousand."""
    counts: Counter[str] = Counter()
    for code in slots.codes:
        for subject, target in (("KEN", ""), ("|||||COP", ""), ("KEN", "UGA"), ("|||||COP", "UGA")):
            counts.update(sentence(subject, code, target).split())
    for key in slots.actors:
        counts.update(sentence(key, "010", key).split())
    return learn_vocabulary(counts, SPECIAL, fewest=1, most=MOST_WORDS)


class NamerTask(TextTask):
    """Phrases from points."""

    kind = KIND

    def __init__(self, data: TextData, made_actors: int = MADE_ACTORS) -> None:
        self.slots = Slots(data, made_actors)
        self._made_actors = made_actors
        text = data.settings.text
        settings = text.model_copy(update={"steps": text.namer_steps})
        super().__init__(data, settings, learn_names(self.slots))
        self._until = int(data.targets("train")[-1]) + 1
        phrases = observed_phrases(data, self._until)
        kept = np.array([not held_out(key) for key in self.slots.keys(phrases)], dtype=np.bool_)
        self.observed, self.others = phrases[kept], phrases[~kept]
        """places of phrases to learn from, and of those held out"""
        self._atoms = self._named_atoms()

    def origin(self) -> dict[str, Any]:
        return {**super().origin(), "made_actors": self._made_actors}

    def _named_atoms(self) -> IntArray:
        """Rows of the pack's atoms that may be learned from."""
        descriptors = self.data.descriptors
        per_day = (self.data.pack.facts.variants + 1) * self.data.pack.shape[1]
        last = int(descriptors.starts[self._until * per_day])
        distinct, back = np.unique(descriptors.places[:last], axis=0, return_inverse=True)
        out = [held_out(key) for key in descriptors.keys(distinct)]
        return np.flatnonzero(~np.array(out, dtype=np.bool_)[back])

    def model(self) -> nn.Module:
        return naming_model(self.settings, len(self.vocabulary), self.slots.blocks)

    # Examples.

    def phrases(self, places: IntArray, weights: FloatArray) -> Examples:
        """Phrases at their own points."""
        return Examples(self.slots.points(places), weights, self.slots.keys(places))

    def atoms(self, rows: IntArray) -> Examples:
        """Atoms of descriptors with what they are called."""
        points, weights, _ = self.data.pack.atom_columns()
        keys = self.data.descriptors.keys(self.data.descriptors.places[rows])
        return Examples(np.asarray(points[rows]), weights[rows].astype(np.float64), keys)

    def draw(self, random: np.random.Generator, number: int) -> Examples:
        """Random examples: half of them phrases of days, a quarter made, a quarter atoms."""
        quarter = number // 4
        seen = self.observed[random.integers(len(self.observed), size=number - 2 * quarter)]
        sizes = (len(self.slots.codes), len(self.slots.actors), len(self.slots.actors))
        made = np.stack([random.integers(size, size=quarter) for size in sizes], axis=1)
        made = made[[not held_out(key) for key in self.slots.keys(made)]]
        places = np.concatenate([seen, made])
        phrases = self.phrases(places, random.beta(0.5, 1.5, size=len(places)))
        atoms = self.atoms(random.choice(self._atoms, size=quarter))
        return Examples(
            np.concatenate([phrases.points, atoms.points]),
            np.concatenate([phrases.weights, atoms.weights]),
            phrases.keys + atoms.keys,
        )

    def labels(self, keys: list[PhraseKey]) -> Tensor:
        """What the decoder is to write."""
        rows = [[*self.vocabulary.numbers(sentence(*key).split()), 1] for key in keys]
        longest = max(map(len, rows))
        return torch.tensor([row + [IGNORED] * (longest - len(row)) for row in rows])

    def batch(self, step: int, *, process: int, processes: int) -> StepBatch:
        random, torch_seed = step_random(self.settings.seed, step, process)
        examples = self.draw(random, LARGER * self.settings.batch // processes)
        return StepBatch((examples, self.labels(examples.keys)), torch_seed)

    def loss(self, model: Any, data: tuple[Examples, Tensor]) -> Loss:
        examples, labels = data
        words = int((labels != IGNORED).sum())
        return Loss(self.nats(model, examples, labels) / max(words, 1), {})

    def nats(self, model: Any, examples: Examples, labels: Tensor) -> Tensor:
        """Of all words that are to be written, summed."""
        states = self.read(model, examples)
        mask = torch.ones(states.shape[:2], dtype=torch.long, device=states.device)
        return text_loss(model, states, mask, labels.to(states.device))

    @staticmethod
    def read(model: Any, examples: Examples) -> Tensor:
        """What the model makes of the points, [n, 4, width]."""
        points = torch.from_numpy(examples.points).to(model.device)
        states: Tensor = model.read(
            points, torch.from_numpy(examples.weights).to(points.device).float()
        )
        return states

    @cached_property
    def evaluated(self) -> Examples:
        """Held-out phrases that a training is evaluated on."""
        random = np.random.default_rng(SEED)
        size = min(EVALUATED, len(self.others))
        places = self.others[random.choice(len(self.others), size=size, replace=False)]
        return self.phrases(places, np.full(size, 0.2))

    def namer(self, model: Any) -> Namer:
        """Who names points with a model."""
        return Namer(model, self.vocabulary)

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Nats of a held-out phrase, and how many are read back as what they were."""
        phrases = self.evaluated
        nats = float(self.nats(model, phrases, self.labels(phrases.keys)))
        named = self.namer(model).name(phrases.points, phrases.weights)
        same = agreement([None if name is None else name[:3] for name in named], phrases.keys)
        return {
            "score": nats / len(phrases.keys),
            "event": same.event,
            "roles": same.roles,
            "countries": same.countries,
        }

    def about(self) -> str:
        return f"""A namer: from a point of the space {self.data.space.fingerprint} it writes the
phrase that the point stands for, in English. One phrase of {HELD_OUT} was held out; the figures are
of {len(self.evaluated.keys)} of these. The score is nats a phrase."""
