"""Listening to modules: what they are given and what they give, while a model runs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from torch import Tensor, nn


class ModuleCall(NamedTuple):
    """One call of a module."""

    given: tuple[Tensor, ...]
    made: Tensor
    """the first of its results"""


class Recorder:
    """Keeps the calls of some modules while a block runs."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.calls: list[list[ModuleCall]] = [[] for _ in modules]
        """of each module, in their order"""
        self._hooks = [
            module.register_forward_hook(self._keeper(number))
            for number, module in enumerate(modules)
        ]

    def _keeper(self, number: int) -> Callable[[nn.Module, tuple[Tensor, ...], Any], None]:
        def keep(_: nn.Module, given: tuple[Tensor, ...], made: Any) -> None:
            first: Tensor = made[0] if isinstance(made, tuple) else made
            self.calls[number].append(ModuleCall(given, first.detach()))

        return keep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
