"""The textbook case of reading a law in context: sequences on the sphere, each with its own law.

    rotation   x_{t+1} = R x_t, R a rotation drawn for each sequence
    periodic   x_{t+p} = x_t, p and the p points drawn for each sequence

A small causal decoder of the model's own blocks is trained to say the next point from those before
it; the law is nowhere but in the context. Beside it stands least squares on the same context,
x_{t+1} ~ M x_t, which knows the form of the law: it is exact for rotations from d pairs on, and
wrong for periods longer than d (the setting of Sander, Giryes, Suzuki, Blondel and Peyre, How do
Transformers perform In-Context Autoregressive Learning?, 2024).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import Block

DIMENSION: Final = 3
LENGTH: Final = 16
WIDTH, HEADS, LAYERS = 48, 4, 2
STEPS: Final = 500
BATCH: Final = 64
RATE: Final = 3e-3
TESTED: Final = 256
PERIODS: Final = (2, 7)


@dataclass(frozen=True)
class TextbookErrors:
    """Mean distance to the next point, by the number of points seen."""

    title: str
    lengths: tuple[int, ...]
    decoder: tuple[float, ...]
    least_squares: tuple[float, ...]
    chance: float
    """of a point by chance: the mean distance of two points of the sphere"""


def rotations(number: int, generator: torch.Generator) -> Tensor:
    """Sequences [number, LENGTH + 1, DIMENSION] that turn by a rotation of their own."""
    skew = torch.randn(number, DIMENSION, DIMENSION, generator=generator)
    turn = torch.linalg.matrix_exp(skew - skew.mT)
    points = [_sphere(number, generator)]
    for _ in range(LENGTH):
        points.append(torch.einsum("bij,bj->bi", turn, points[-1]))
    return torch.stack(points, dim=1)


def periodic(number: int, generator: torch.Generator) -> Tensor:
    """Sequences that come back after a period of their own."""
    periods = torch.randint(PERIODS[0], PERIODS[1], (number, 1), generator=generator)
    points = torch.stack([_sphere(number, generator) for _ in range(PERIODS[1])], dim=1)
    places = torch.arange(LENGTH + 1)[None] % periods
    return points.gather(1, places[..., None].expand(-1, -1, DIMENSION))


def _sphere(number: int, generator: torch.Generator) -> Tensor:
    return F.normalize(torch.randn(number, DIMENSION, generator=generator), dim=1)


class SequenceReader(nn.Module):
    """The model's causal blocks over points of the sphere, one token each."""

    def __init__(self) -> None:
        super().__init__()
        config = MeasureConfig(width=WIDTH, heads=HEADS, dropout=0.0)
        self.enter = nn.Linear(2 * DIMENSION, WIDTH)
        self.distance = nn.Parameter(torch.zeros(HEADS, LENGTH))
        self.blocks = nn.ModuleList(Block(config) for _ in range(LAYERS))
        self.leave = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, DIMENSION))

    def forward(self, points: Tensor) -> Tensor:
        """The next point after each, [B, T, DIMENSION], from points up to it. A token holds its
        point and the one before: a pair is what a law is read from."""
        before = F.pad(points, (0, 0, 1, 0))[:, :-1]
        tokens = self.enter(torch.cat([points, before], dim=2))
        place = torch.arange(points.shape[1])
        behind = place[:, None] - place[None]
        mask = self.distance[:, behind.clamp(min=0)].masked_fill(behind < 0, -torch.inf)
        for block in self.blocks:
            tokens = block(tokens, mask)
        return F.normalize(self.leave(tokens), dim=2)


def train_reader(
    draw: Callable[[int, torch.Generator], Tensor],
    generator: torch.Generator,
    *,
    steps: int = STEPS,
    on_step: Callable[[], None] = lambda: None,
) -> SequenceReader:
    """A reader of sequences of one kind, trained on fresh ones in each step."""
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        reader = SequenceReader()
    optimizer = torch.optim.AdamW(reader.parameters(), lr=RATE, weight_decay=0.01)
    for step in range(steps):
        for group in optimizer.param_groups:  # warm up, then down to nothing
            group["lr"] = RATE * min(1.0, (step + 1) / 50) * (1 - step / steps)
        points = draw(BATCH, generator)
        loss = (reader(points[:, :-1]) - points[:, 1:]).square().sum(dim=2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        on_step()
    return reader.eval()


def least_squares(points: Tensor) -> Tensor:
    """The next point after each [B, T, DIMENSION] by x_{s+1} ~ M x_s on the pairs before it, of
    least norm; the point itself where there is no pair."""
    known = points.double()
    guesses = [known[:, 0]]
    for t in range(1, points.shape[1]):
        given, came = known[:, :t], known[:, 1 : t + 1]
        law = torch.linalg.pinv(given, rtol=1e-6) @ came
        guesses.append(torch.einsum("bi,bij->bj", known[:, t], law))
    return F.normalize(torch.stack(guesses, dim=1), dim=2).to(points.dtype)


def errors_of(guesses: Tensor, came: Tensor) -> tuple[float, ...]:
    """Mean distance by position."""
    return tuple((guesses - came).norm(dim=2).mean(dim=0).tolist())


def textbook(
    seed: int, on_step: Callable[[], None] = lambda: None, *, steps: int = STEPS
) -> list[TextbookErrors]:
    """Both kinds of sequences."""
    found = []
    for title, draw in (("A rotation of its own", rotations), ("A period of its own", periodic)):
        generator = torch.Generator().manual_seed(seed)
        reader = train_reader(draw, generator, steps=steps, on_step=on_step)
        points = draw(TESTED, generator)
        with torch.no_grad():
            guesses = reader(points[:, :-1])
        found.append(
            TextbookErrors(
                title,
                tuple(range(1, LENGTH + 1)),
                errors_of(guesses, points[:, 1:]),
                errors_of(least_squares(points[:, :-1]), points[:, 1:]),
                float((_sphere(TESTED, generator) - _sphere(TESTED, generator)).norm(dim=1).mean()),
            )
        )
    return found
