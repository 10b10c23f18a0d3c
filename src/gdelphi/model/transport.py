"""Transport: the atoms of drawn days move on the sphere, and are read as standard events.

    TransportBlock   moves every atom along the sphere, by attention among atoms and to a context
    AtomTransport    blocks of these, which also change weights and gates: drawn days to futures
    FlowTransport    the same by a flow in continuous time (flow.py), if the settings say so
    AtomReading      what futures say of the standard events: the reading called *atoms*

An atom has a weight (how much of the day it is) and a gate (whether it exists at all): a future
whose gates are closed is an empty day, and a day with few atoms can get more.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.model.config import LIMIT, TARGET_COUNT, TINY, MeasureConfig, logits_of
from gdelphi.model.flow import AtomPlaces, SphereFlow, Surroundings

OPEN, CLOSED = 4.0, -4.0  # logits of gates before training
EMPTY = 0.5  # a future that less likely has any atom is an empty day
HEADLINES = 5  # largest standard events of a day
LEAST_HEADLINE = 0.04  # share; with few atoms the fifth largest may have nearly none
SWIFT = 10.0  # a parameter that must go far in few steps is multiplied by this


class Futures(NamedTuple):
    """Drawn days, moved on. N futures of n atoms each."""

    points: Tensor
    """[N, n, dimension]"""
    weights: Tensor
    """[N, n], summing to 1"""
    gates: Tensor
    """probability that the atom exists, [N, n]"""


def exists(futures: Futures) -> Tensor:
    """The probability that a future has any atom at all, [N]: 1 - prod(1 - gate_i)."""
    # By logarithms: a product of many factors near 1 loses its digits, a sum does not.
    probability: Tensor = -torch.expm1(torch.log1p(-futures.gates.clamp(max=1 - LIMIT)).sum(dim=1))
    return probability


class TransportBlock(nn.Module):
    """x <- normalise(x + P_x v): moves points along the sphere; P_x takes away what is along x.

    v sums self-attention among the points, weighted by their masses, cross-attention to a context,
    and an MLP. The output layer starts at zero: no point moves.
    """

    def __init__(self, config: MeasureConfig, *, attention: bool = True) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention = attention
        width = config.width
        self.enter = nn.Linear(config.dimension, width)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.query = nn.Linear(width, width, bias=False)
        self.context = nn.Linear(width, 2 * width, bias=False)
        self.mixed = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, config.dimension)
        self.gate = nn.Linear(width, 2)
        for layer in (self.leave, self.gate):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        points: Tensor,
        log_weights: Tensor,
        context: Tensor | None = None,
        there: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points [N, n, dimension] moved, and changes [N, n, 2] of their weight and gate logits.
        A context [G, c, width] is shared by N / G of them, one group after the other. Given which
        points are `there` [N, n], no others are moved, which in a batch of days of few atoms is
        half of the work."""
        if there is None:
            return self._move(points, log_weights, context)
        place = there.flatten().nonzero()[:, 0]
        flat = points.flatten(0, 1)
        moved, change = self._move(flat[place], log_weights, context, place)
        changes = points.new_zeros(len(flat), 2).index_copy_(0, place, change)
        return flat.index_copy(0, place, moved).view_as(points), changes.view(*there.shape, 2)

    def _move(
        self,
        points: Tensor,
        log_weights: Tensor,
        context: Tensor | None,
        place: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The same of points [..., dimension], all of them or those at some places."""
        tokens = self.enter(points)
        if self.attention:
            heard = self._attend(self.norm(tokens), log_weights, context, place)
            tokens = tokens + self.mixed(heard)
        tokens = tokens + self.mlp(tokens)
        # P_x v = v - <v, x> x is tangent to the sphere at x; going back to length 1 after the step
        # is a retraction: the exponential map up to terms of third order, without its sines.
        step = self.leave(tokens)
        step = step - (step * points).sum(dim=-1, keepdim=True) * points
        return F.normalize(points + step, dim=-1), self.gate(tokens)

    def _attend(
        self,
        tokens: Tensor,
        log_weights: Tensor,
        context: Tensor | None,
        place: Tensor | None = None,
    ) -> Tensor:
        """What the points [N, n, width] learn from each other and from the context; or those at
        some places among all N n, [place, width]."""
        (number, size), width = log_weights.shape, tokens.shape[-1]

        def padded(values: Tensor) -> Tensor:
            if place is None:
                return values
            whole = values.new_zeros(number * size, values.shape[-1])
            return whole.index_copy_(0, place, values).view(number, size, -1)

        def chosen(values: Tensor) -> Tensor:
            return values if place is None else values.flatten(0, 1)[place]

        split = padded(self.project(tokens)).view(number, size, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        # softmax_j(<q_i, k_j> + ln w_j): an integral against the measure of the points.
        bias = log_weights[:, None, None].to(query.dtype)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(number, size, width)
        if context is None:
            return chosen(mixed)
        # Futures of one origin share its context: their points ask together.
        groups = len(context)
        pair = self.context(context).view(groups, -1, 2, self.heads, width // self.heads)
        keys, values = pair.permute(2, 0, 3, 1, 4)
        queries = padded(self.query(tokens)).view(groups, -1, self.heads, width // self.heads)
        crossed = F.scaled_dot_product_attention(queries.transpose(1, 2), keys, values)
        return chosen(mixed + crossed.transpose(1, 2).reshape(number, size, width))


class AtomTransport(nn.Module):
    """Moves the atoms of drawn days, and changes their weights and gates, given a state.

    Atoms beyond those of the drawn day come from the recent days of the stream, with gates nearly
    closed: so a quiet day can become a busy one.
    """

    def __init__(self, config: MeasureConfig, *, attention: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            TransportBlock(config, attention=attention) for _ in range(config.transport_layers)
        )
        self.state = nn.Linear(config.width, config.width)

    def forward(
        self, points: Tensor, weights: Tensor, spare: Tensor, context: Tensor, state: Tensor
    ) -> Futures:
        """Futures from atoms [N, n, dimension] with weights [N, n] (0: none), of which `spare`
        [N, n] (bool) are not the drawn day's; context [G, c, width] and state [G, width] of G
        origins with N / G futures each, one origin after the other."""
        there = weights > 0
        log_weights = torch.where(there, weights.clamp(min=TINY).log(), -math.inf)
        logits = torch.where(spare, CLOSED, OPEN).to(points.dtype)  # of the gates
        seen = torch.cat([context, self.state(state)[:, None]], dim=1)
        points = points * there[..., None]
        chosen = None if torch.is_grad_enabled() else there  # training has its batches as they were
        for block in self.blocks:
            # An atom counts by its weight times the probability that it exists: ln w + ln gate. A
            # future without any atom has nothing to attend to: its rows are kept finite.
            log_masses = log_weights + F.logsigmoid(logits)
            log_masses = torch.where(there.any(dim=1, keepdim=True), log_masses, 0.0)
            points, change = block(points, log_masses, seen, chosen)
            log_weights = log_weights + change[..., 0]
            logits = logits + change[..., 1]
        return _futures(points, log_weights, logits, there)


def _futures(points: Tensor, log_weights: Tensor, logits: Tensor, there: Tensor) -> Futures:
    """Futures from atoms with ln weights and gate logits, of which some are not there."""
    gates = logits.sigmoid() * there
    masses = (log_weights + F.logsigmoid(logits)).masked_fill(~there, -math.inf)
    points = points * there[..., None]  # and no gradient through what stood in empty slots
    return Futures(points, masses.softmax(dim=1).nan_to_num(0.0), gates)


class FlowTransport(nn.Module):
    """Moves the atoms of drawn days by a flow on the sphere; a state and its context shift the
    flow's perceptron. Given and giving what `AtomTransport` does."""

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.steps, self.gradient = config.transport_steps, config.transport_gradient
        """any number of steps may be set after training"""
        self.flow = SphereFlow(config.dimension, config.width, config.transport_layers)
        self.state = nn.Linear(config.width, config.width)
        self.context = nn.Linear(config.width, config.width, bias=False)

    def forward(
        self, points: Tensor, weights: Tensor, spare: Tensor, context: Tensor, state: Tensor
    ) -> Futures:
        there = weights > 0
        log_weights = torch.where(there, weights.clamp(min=TINY).log(), -math.inf)
        logits = torch.where(spare, CLOSED, OPEN).to(points.dtype)
        shift = self.state(state) + self.context(context.mean(dim=1))
        shift = shift.repeat_interleave(len(points) // len(shift), dim=0)
        # What stands in empty slots is seen by nobody, but has to be on the sphere.
        somewhere = F.one_hot(torch.zeros_like(there, dtype=torch.int64), points.shape[2])
        places = AtomPlaces(
            torch.where(there[..., None], points, somewhere.to(points)),
            points.new_zeros(*points.shape[:2], 2),
        )
        around = Surroundings(log_weights, logits, shift)
        moved = self.flow(places, around, steps=self.steps, gradient=self.gradient)
        changes = moved.changes
        return _futures(
            moved.points, log_weights + changes[..., 0], logits + changes[..., 1], there
        )


class AtomReading(nn.Module):
    """What futures say of the standard events.

    Each atom is assigned softly to the finest codes by the cosine of its event part, and a root
    takes what its codes take: pi_ik is how much of atom i is root k. A root occurs in a future if
    one of its atoms is it, 1 - prod_i (1 - gate_i pi_ik); its share is sum_i weight_i pi_ik; it is
    a headline if its share is among the largest, a surge if it is above the threshold, both
    softened so that they can be learned. The probability is the mean over futures, smoothed as
    baselines are. A few atoms tell less than a day of a hundred rows: a logistic calibration, which
    starts as none, makes up for what is systematic about that.
    """

    finest: Tensor
    roots: Tensor

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.register_buffer("finest", torch.zeros(config.finest, config.event_dimension))
        self.register_buffer("roots", torch.zeros(config.finest, config.codes))
        self.temperature = nn.Parameter(torch.zeros(1))
        self.sharpness = nn.Parameter(torch.zeros(2))
        self.slope = nn.Parameter(torch.zeros(TARGET_COUNT))
        self.level = nn.Parameter(torch.zeros(TARGET_COUNT * config.codes))

    def set_basis(self, finest: Tensor, roots: Tensor) -> None:
        """The finest codes as points [finest, event dimension], and the root of each, [finest]."""
        self.finest.copy_(finest)
        self.roots.copy_(F.one_hot(roots, self.roots.shape[1]))

    def assign(self, points: Tensor, there: Tensor | None = None) -> Tensor:
        """pi, [..., codes], summing to 1, of points [..., dimension]; 0 of those that are not
        `there` [...], if that is given."""
        if there is not None:
            place = there.flatten().nonzero()[:, 0]
            pi = self.assign(points.flatten(0, -2)[place])
            whole = pi.new_zeros(there.numel(), pi.shape[1]).index_copy_(0, place, pi)
            return whole.view(*there.shape, -1)
        events = F.normalize(points[..., : self.finest.shape[1]].float(), dim=-1)
        near = (events @ self.finest.mT / _swiftly(self.temperature, 0.05)).softmax(dim=-1)
        return near @ self.roots

    def forward(
        self,
        futures: Futures,
        chances: Tensor,
        thresholds: Tensor,
        pooled: Tensor,
        assigned: Tensor | None = None,
    ) -> Tensor:
        """Logits [G, target, codes] of G origins from their futures, one origin after the other,
        with probabilities `chances` [G, K]; thresholds [G, codes], pooled rates [G, target, codes].
        `assigned` is what `assign` says of the points, if it is known.
        """
        by_future = self.each(futures, thresholds, assigned)
        # Smoothed by one day's worth of the pooled rate r: p = (n mean + r) / (n + 1), where
        # n = 1 / sum chances^2 is the effective number of futures.
        number = 1 / chances.detach().square().sum(dim=1).clamp(min=TINY)[:, None, None]
        mean = torch.einsum("gk,gktc->gtc", chances, by_future)
        probabilities = (number * mean + pooled) / (number + 1)
        level = SWIFT * self.level.view(TARGET_COUNT, -1)
        calibrated = _swiftly(self.slope, 1.0)[:, None] * logits_of(probabilities) + level
        undefined = thresholds.isnan()
        surge = calibrated[:, 2].masked_fill(undefined, math.nan)
        return torch.cat([calibrated[:, :2], surge[:, None]], dim=1)

    def shares(self, futures: Futures, assigned: Tensor) -> Tensor:
        """Of the roots in each future, [N, codes]. They sum to the probability that it has any atom
        at all: a future of closed gates is an empty day."""
        shares: Tensor = (futures.weights[..., None] * assigned).sum(dim=1)
        return shares * exists(futures)[:, None]

    def each(self, futures: Futures, thresholds: Tensor, assigned: Tensor | None = None) -> Tensor:
        """Probabilities by each future alone, [G, K, target, codes]."""
        groups = len(thresholds)
        if assigned is None:
            assigned = self.assign(futures.points)  # pi
        # occurs: 1 - prod_i (1 - gate_i pi_ik), by logarithms.
        none = torch.log1p(-(futures.gates[..., None] * assigned).clamp(max=1 - LIMIT))
        occurs = -torch.expm1(none.sum(dim=1)).unflatten(0, (groups, -1))
        # headline: the share against a cut halfway between the fifth and the sixth largest. The
        # cut is held fixed, or a code could become a headline by making the others smaller.
        shares = self.shares(futures, assigned).unflatten(0, (groups, -1))
        largest = shares.detach().topk(min(HEADLINES + 1, shares.shape[2]), dim=2).values
        cut = largest[..., -2:].mean(dim=2, keepdim=True).clamp(min=LEAST_HEADLINE)
        headline = (_swiftly(self.sharpness[0], 100.0) * (shares - cut)).sigmoid()
        # surge: the share against the threshold.
        above = shares - thresholds.nan_to_num(1.0)[:, None]
        surge = (_swiftly(self.sharpness[1], 40.0) * above).sigmoid()
        return torch.stack([occurs, headline, surge], dim=2)


def _swiftly(parameter: Tensor, start: float) -> Tensor:
    """A positive number that begins at `start` and moves SWIFT times as fast as other parameters:
    what scales everything has to go far in a few hundred steps."""
    return start * (SWIFT * parameter).exp()
