"""Networks that lie in a folder: config.json and model.safetensors.

Files and names are those of transformers (`config`, `save_pretrained`, `from_pretrained`). Its own
base class is for networks that are its own: to import it takes longer than to import torch, in
every process that opens a model.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import load_file, save_file
from torch import nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass
class SavedConfig:
    """The sizes of a network."""

    model_type: ClassVar[str]
    architectures: list[str] = field(default_factory=list, kw_only=True)
    """names of the classes that have these sizes"""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Sizes by their names; what is not said is as by default, what is no size is left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """The sizes of the network in a folder."""
        values = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.get("model_type") != cls.model_type:
            raise ValueError(f"{CONFIG} is not of a {cls.model_type}")
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """All sizes, also those that are as by default."""
        return {**asdict(self), "model_type": self.model_type}

    def to_json_string(self) -> str:
        """As config.json has it."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


class SavedModel(nn.Module):
    """A network that can be saved and opened; its modules initialise themselves."""

    config_class: ClassVar[type[SavedConfig]]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """The network in a folder, ready for use."""
        model = cls(cls.config_class.from_pretrained(folder))
        model.load_state_dict(load_file(folder / WEIGHTS))
        return model.eval()

    def save_pretrained(self, folder: Path) -> None:
        """Put it into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.config.architectures = [type(self).__name__]
        (folder / CONFIG).write_text(self.config.to_json_string(), encoding="utf-8")
        weights = {name: each.contiguous() for name, each in self.state_dict().items()}
        save_file(weights, folder / WEIGHTS, {"format": "pt"})
