"""A tiny causal language model with a tokenizer of its own, as somebody might have one on disk."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFWriter, TokenType
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gdelphi.words.causal_days import tell
from gdelphi.words.learning import TextGround

WORDS = 400


def small_language_model(folder: Path, ground: TextGround, *, seed: int = 0) -> Path:
    """A model with random weights that knows the words of a pack's days."""
    said = ground.said
    days = [tell(16, said.phrases(said.descriptor(day, 0))) for day in range(30, 60)]
    week = "Kenya. Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, not known\n"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [*days, week],
        trainers.BpeTrainer(
            vocab_size=WORDS, special_tokens=["<end>"], initial_alphabet=alphabet,
            show_progress=False,
        ),
    )  # fmt: skip
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer.get_vocab()), hidden_size=32, intermediate_size=48,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=2048, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def as_gguf(folder: Path, path: Path) -> Path:
    """The same model as one GGUF file, with plain numbers for weights."""
    model: Any = LlamaForCausalLM.from_pretrained(folder)
    config, words = model.config, json.loads((folder / "tokenizer.json").read_text())["model"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(words["vocab"], key=words["vocab"].__getitem__))
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(words["vocab"]) - 1)])
    writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
    writer.add_eos_token_id(0)
    for name, tensor in _tensors(model):
        writer.add_tensor(name, tensor.detach().float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """By the names of GGUF. It has the halves of queries and keys woven into each other."""
    config = model.config
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    for number, layer in enumerate(model.model.layers):
        own = layer.self_attn
        heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
        for part, count in heads.items():
            given = getattr(own, f"{part}_proj").weight
            woven = given.unflatten(0, (count, 2, -1)).transpose(1, 2).flatten(0, 2)
            yield f"blk.{number}.attn_{part}.weight", woven
        for name, module in (
            ("attn_v", own.v_proj), ("attn_output", own.o_proj), ("ffn_gate", layer.mlp.gate_proj),
            ("ffn_up", layer.mlp.up_proj), ("ffn_down", layer.mlp.down_proj),
            ("attn_norm", layer.input_layernorm), ("ffn_norm", layer.post_attention_layernorm),
        ):  # fmt: skip
            yield f"blk.{number}.{name}.weight", module.weight
