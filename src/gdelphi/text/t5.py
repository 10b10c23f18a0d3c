"""The text model: a small T5, and its folder.

Built from a T5Config with random weights, or taken from a local folder of a pretrained T5 whose
embeddings are then as many as there are words. What is special is only how its encoder is fed: by
sums of embeddings of words (the forecaster, see corpus.py) or by projected points of the sphere
(the namer, see naming.py).
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration

from gdelphi.common.errors import TrainingError
from gdelphi.common.text_settings import TextSettings
from gdelphi.model.optimizer import trained_parameters
from gdelphi.text.corpus import Source


def t5_of(settings: TextSettings, words: int) -> T5ForConditionalGeneration:
    """A T5 before training."""
    if settings.pretrained is not None:
        return _pretrained(settings.pretrained, words)
    return T5ForConditionalGeneration(t5_config(settings, words))


def t5_config(settings: TextSettings, words: int) -> T5Config:
    made = T5Config(
        vocab_size=words,
        d_model=settings.width,
        d_kv=settings.width // settings.heads,
        d_ff=settings.inner,
        num_layers=settings.layers,
        num_decoder_layers=settings.layers,
        num_heads=settings.heads,
        dropout_rate=settings.dropout,
        pad_token_id=0,
        eos_token_id=1,
    )
    made.decoder_start_token_id = 0
    return made


def _pretrained(folder: Path, words: int) -> T5ForConditionalGeneration:
    try:
        model: T5ForConditionalGeneration = T5ForConditionalGeneration.from_pretrained(
            folder, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrainingError(f"text.pretrained: no T5 in {folder} ({reason})") from None
    model.resize_token_embeddings(words, mean_resizing=False)
    model.config.pad_token_id, model.config.eos_token_id = 0, 1
    model.config.decoder_start_token_id = 0
    return model


def embed_source(model: T5ForConditionalGeneration, source: Source) -> tuple[Tensor, Tensor]:
    """Inputs of the encoder [batch, position, width], and their mask."""
    table = model.shared.weight
    words, weights, places, mask = (torch.from_numpy(part).to(table.device) for part in source)
    given = torch.nn.functional.embedding(words, table) * weights[:, None]
    empty = torch.zeros(source.mask.size, table.shape[1], device=table.device)
    states = empty.index_add(0, places, given)
    return states.view(*source.mask.shape, -1), mask.long()


def text_loss(model: T5ForConditionalGeneration, states: Tensor, mask: Tensor, labels: Tensor
              ) -> Tensor:  # fmt: skip
    """Cross-entropy of all words that are to be written, summed."""
    logits = model(inputs_embeds=states, attention_mask=mask, labels=labels).logits
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
    )


def read_training(folder: Path, kind: str) -> dict[str, Any]:
    """What training.json of a model of words says."""
    path = folder / "training.json"
    if not path.exists():
        raise TrainingError(
            f"no model of words in {folder}: `gdelphi text train --kind {kind} --out {folder}`"
        )
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = said["origin"]["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} cannot be read ({error!r}): train it again") from None
    if found != kind:
        raise TrainingError(f"{folder} holds a {found}, not a {kind}: name the other folder")
    return said


def load_weights(model: torch.nn.Module, folder: Path) -> None:
    """The weights that a training has left."""
    try:
        tensors = load_file(folder / "model.safetensors")
        # Embeddings that the model uses in several places are saved once; what was not trained
        # is not saved at all.
        wanted = {name for name, _ in trained_parameters(model)}
        if set(tensors) != wanted:
            raise RuntimeError(f"its parameters are others: {sorted(set(tensors) ^ wanted)[:3]}")
        model.load_state_dict(tensors, strict=False)
    except (OSError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrainingError(
            f"the model in {folder} cannot be read ({reason}): train it again with "
            f"`gdelphi text train --out {folder} --fresh`"
        ) from None
    model.eval()
