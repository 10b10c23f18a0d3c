"""The vocabulary: which words a model knows, learned from the texts of training days.

A `tokenizers` model of whole words, saved as tokenizer.json beside the weights. Pieces of words
(BPE) were not chosen for the compact language: a word is a code, and half a code means nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from gdelphi.common.errors import TrainingError
from gdelphi.common.files import atomic_write
from gdelphi.text.compact import PAD, UNKNOWN

NAME = "tokenizer.json"


class Vocabulary:
    """Words and their numbers; 0 is padding, and what is not known has a number of its own."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.number: Mapping[str, int] = {word: place for place, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.number

    def numbers(self, words: Iterable[str]) -> list[int]:
        unknown = self.number[UNKNOWN]
        return [self.number.get(word, unknown) for word in words]

    def read(self, numbers: Iterable[int]) -> list[str]:
        return [self.words[number] for number in numbers]

    def first_known(self, words: Iterable[str]) -> int:
        """Of words in falling order of preference."""
        return next((self.number[word] for word in words if word in self.number),
                    self.number[UNKNOWN])  # fmt: skip

    def save(self, folder: Path) -> None:
        tokenizer: Any = Tokenizer(WordLevel(dict(self.number), unk_token=UNKNOWN))
        tokenizer.pre_tokenizer = WhitespaceSplit()
        with atomic_write(folder / NAME) as part:
            tokenizer.save(str(part))

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        path = folder / NAME
        if not path.exists():
            raise TrainingError(f"no {path}: `gdelphi text train --out {folder}` writes it")
        try:
            known: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab()
        except Exception as error:  # noqa: BLE001 - the library has no class of its own
            raise TrainingError(f"{path} cannot be read ({error}): train again") from None
        words = sorted(known, key=lambda word: known[word])
        if [known[word] for word in words] != list(range(len(words))) or words[0] != PAD:
            raise TrainingError(f"{path} is no vocabulary of gdelphi: train again")
        return cls(words)


def learn_vocabulary(
    counts: Counter[str], known: Sequence[str], *, fewest: int, most: int
) -> Vocabulary:
    """The words that are always there and the commonest of the others. Ties go by the word."""
    common = [word for word, number in counts.items() if number >= fewest and word not in known]
    common.sort(key=lambda word: (-counts[word], word))
    return Vocabulary((*dict.fromkeys(known), *common[: max(most - len(known), 0)]))
