"""The T5 of the text models, and their folders.

Built from a T5Config with random weights, or taken from a local folder of a pretrained T5 whose
embeddings are then as many as there are words. What is special is only how its encoder is fed: by
sums of embeddings of words (the forecaster, see corpus.py) or by projected points of the sphere
(the namer, see namer.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import TextSettings
from gdelphi.model.checkpoint import read_training, reason_of
from gdelphi.model.optimizer import set_weights
from gdelphi.text.corpus import IGNORED, Source

if TYPE_CHECKING:  # transformers takes 3 s of CPU to load, which most who import this do not need
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration


def t5_of(settings: TextSettings, words: int) -> "T5ForConditionalGeneration":
    """A T5 before training."""
    from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

    if settings.pretrained is not None:
        return _pretrained(settings.pretrained, words)
    return T5ForConditionalGeneration(t5_config(settings, words))


def t5_config(settings: TextSettings, words: int) -> "T5Config":
    """The sizes of a T5."""
    from transformers.models.t5.configuration_t5 import T5Config

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


def _pretrained(folder: Path, words: int) -> "T5ForConditionalGeneration":
    from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

    try:
        model: T5ForConditionalGeneration = T5ForConditionalGeneration.from_pretrained(
            folder, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise TrainingError(f"text.pretrained: no T5 in {folder} ({reason_of(error)})") from None
    model.resize_token_embeddings(words, mean_resizing=False)
    model.config.pad_token_id, model.config.eos_token_id = 0, 1
    model.config.decoder_start_token_id = 0
    return model


def embed_source(model: "T5ForConditionalGeneration", source: Source) -> tuple[Tensor, Tensor]:
    """Inputs of the encoder [batch, position, width], and their mask."""
    table = model.shared.weight
    words, weights, places, mask = (torch.from_numpy(part).to(table.device) for part in source)
    embedded = torch.nn.functional.embedding(words, table) * weights[:, None]
    empty = torch.zeros(source.mask.size, table.shape[1], device=table.device)
    states = empty.index_add(0, places, embedded)  # words at one position are summed
    return states.view(*source.mask.shape, -1), mask.long()


def text_loss(model: "T5ForConditionalGeneration", states: Tensor, mask: Tensor, labels: Tensor
              ) -> Tensor:  # fmt: skip
    """Cross-entropy of all words that are to be written, summed."""
    logits = model(inputs_embeds=states, attention_mask=mask, labels=labels).logits
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )


def read_text_training(folder: Path, kind: str) -> dict[str, Any]:
    """What training.json of a text model of this kind says."""
    command = f"gdelphi text train --kind {kind} --out {folder}"
    if not (folder / "training.json").exists():
        raise TrainingError(f"no text model in {folder}: `{command}` makes one")
    training = read_training(folder, f"train it again with `{command} --fresh`")
    there = training.get("origin", {}).get("kind", "measure transformer")
    if there != kind:
        raise TrainingError(f"{folder} holds a {there}, not a {kind}: name the other folder")
    return training


def load_weights(model: torch.nn.Module, folder: Path) -> None:
    """Give a model the weights that a training has left."""
    try:
        set_weights(model, load_file(folder / "model.safetensors"))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"the model in {folder} cannot be read ({reason_of(error)}): train it again with "
            f"`gdelphi text train --out {folder} --fresh`"
        ) from None
    model.eval()
