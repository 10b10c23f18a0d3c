"""Pretrained causal language models: found, proven to be the same weights, and made trainable.

A model is a GGUF file or a folder, with its tokenizer in it. It is never copied: a training adds
small matrices to queries and values (LoRA, by `peft`), trains and saves only these, and notes where
the weights lay and their digest. The whole model would be half a gigabyte in every checkpoint and
state, three times over with moments and means, for weights that anybody can have again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from gdelphi.checkpoint import TrainingError
from gdelphi.config_text import TextSettings

ADAPTED: Final = ("q_proj", "v_proj")
PARTS: Final = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.model", "*.txt")
"""files of a folder that its digest is of"""
SMALLER: Final = 8
"""a step has so many times fewer examples than one of T5: a language model takes long"""
OF_T5: Final = frozenset(
    {"width", "inner", "layers", "heads", "dropout", "whole_days", "fewest", "most_words",
     "pretrained", "language_model", "namer_steps"}
)  # fmt: skip
"""settings that a training from a language model does not depend on; its weights have a digest"""


class Base(NamedTuple):
    """A language model on disk."""

    path: Path
    digest: str

    def said(self) -> dict[str, str]:
        """As an origin has it."""
        return {"path": str(self.path.resolve()), "digest": self.digest}


class Pieces:
    """The tokenizer of a language model. It lies with the model, so nothing of it is saved."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.end: int = tokenizer.eos_token_id

    def __len__(self) -> int:
        return len(self._tokenizer)

    def numbers(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return found

    def text(self, numbers: list[int]) -> str:
        """Up to the first end."""
        kept = numbers[: numbers.index(self.end)] if self.end in numbers else numbers
        found: str = self._tokenizer.decode(kept, clean_up_tokenization_spaces=False)
        return found

    def save(self, folder: Path) -> None: ...


# --- on disk --------------------------------------------------------------------------------------


def find_base(path: Path | None) -> Base:
    """The language model that a setting names."""
    if path is None:
        raise TrainingError("text.language_model: name a GGUF file, or a folder")
    if not path.exists():
        raise TrainingError(f"text.language_model: there is no {path}")
    return Base(path, _digest(path))


def base_of(folder: Path, origin: Mapping[str, Any], elsewhere: Path | None) -> Base:
    """The language model that a folder's model was trained from, proven by its digest."""
    path, digest = Path(origin["language_model"]["path"]), origin["language_model"]["digest"]
    seen = []
    for place in dict.fromkeys(each for each in (elsewhere, path) if each is not None):
        if not place.exists():
            seen.append(f"{place} is not there")
            continue
        found = _digest(place)
        if found == digest:
            return Base(place, digest)
        seen.append(f"{place} has other weights ({found})")
    raise TrainingError(
        f"{folder} was trained from the language model {digest}, but {' and '.join(seen)}: name "
        "the right file with text.language_model"
    )


def _digest(path: Path) -> str:
    files = [path]
    if path.is_dir():
        files = sorted({file for part in PARTS for file in path.glob(part)})
    total = hashlib.sha256()
    for file in files:
        total.update(b"" if file == path else f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:16]


# --- in memory ------------------------------------------------------------------------------------


def pieces_of(base: Base) -> Pieces:
    """The tokenizer of a language model."""
    from transformers import AutoTokenizer

    with _explained(base):
        tokenizer = AutoTokenizer.from_pretrained(**_named(base))
    if getattr(tokenizer, "eos_token_id", None) is None:
        raise TrainingError(f"{base.path}: its tokenizer has no word for the end of a text")
    return Pieces(tokenizer)


def adapted(base: Base, settings: TextSettings) -> Any:
    """A language model with matrices to train beside those of its queries and values."""
    from transformers import AutoModelForCausalLM

    peft = _peft()
    with _explained(base):
        model = AutoModelForCausalLM.from_pretrained(dtype=torch.float32, **_named(base))
        model.requires_grad_(False)
        rank = settings.lora_rank  # alpha as large: the learning rate is not scaled by the rank
        lora = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=list(ADAPTED))
        return peft.inject_adapter_in_model(lora, model)


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise _extra(error) from None
    return peft


def _extra(error: ImportError) -> TrainingError:
    return TrainingError(
        f"text.language_model needs more packages ({error.name or 'gguf'}): "
        "pip install 'gdelphi[lm]'"
    )


def _named(base: Base) -> dict[str, Any]:
    """How transformers is told which one."""
    if base.path.is_dir():
        return {"pretrained_model_name_or_path": base.path, "local_files_only": True}
    return {
        "pretrained_model_name_or_path": base.path.parent,
        "gguf_file": base.path.name,
        "local_files_only": True,
    }


@contextmanager
def _explained(base: Base) -> Iterator[None]:
    """No bars of its own, and one line where the library has many."""
    from transformers.utils import logging

    _peft()
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):  # GGUF's own bar knows no switch
            yield
    except ImportError as error:
        raise _extra(error) from None
    except Exception as error:  # noqa: BLE001 - whatever a strange file leads to
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrainingError(
            f"text.language_model: {base.path} is no causal language model with a tokenizer and "
            f"{' and '.join(ADAPTED)} ({reason})"
        ) from None
    finally:
        if shown:
            logging.enable_progress_bar()


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
