"""The model card of a measure transformer: README.md beside its weights, from what was measured."""

from collections.abc import Mapping
from typing import Any

from gdelphi import __version__
from gdelphi.model.checkpoint import TrainingRecord


def model_card(
    name: str, origin: Mapping[str, Any], record: TrainingRecord, parameters: int
) -> str:
    """What somebody who finds the folder has to know."""
    pack, split, train = origin["pack"], origin["split"], origin["train"]
    sequences = origin["sequences"]
    first, best = record.history[0], record.best
    return f"""# {name}

A measure transformer of gdelphi {__version__}: from the clouds of the last
{sequences["context_days"]} days and a memory of {sequences["memory_days"]} it says which standard
events the next day of a stream will bring.

| | |
|---|---|
| parameters | {parameters:,} (width {train["width"]}, {train["layers"]} layers) |
| streams | {len(pack["streams"])}: {", ".join(pack["streams"])} |
| trained on days | {split["train"][0]} to {split["train"][1]} |
| chosen on days | {split["validation_a"][0]} to {split["validation_a"][1]} (validation A) |
| kept step | {record.best_step} of {record.step} |
| seed | {train["seed"]} |
| space | {origin["space"]} |
| data | {pack["data"]} |

Log loss and Brier score on validation A, one day ahead. Untrained, both readings are the recency
bootstrap; the kept step was chosen on these days, so its figures flatter a little.

{_score_table(first, best)}

    from gdelphi.model.checkpoint import load_measure_model
    model, space, training = load_measure_model("{name}")

The model knows the streams and the space that it was trained with, and nothing else.
"""


def _score_table(first: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    head = "| reading | target | log loss | untrained | Brier score | untrained |"
    lines = [head, "|---|---|---|---|---|---|"]
    for reading, targets in best["log_loss"].items():
        for target, loss in targets.items():
            brier, before = best["brier"][reading][target], first["brier"][reading][target]
            cells = [loss, first["log_loss"][reading][target], brier, before]
            shown = " | ".join("none" if cell is None else f"{cell:.4f}" for cell in cells)
            lines.append(f"| {reading} | {target} | {shown} |")
    return "\n".join(lines)
