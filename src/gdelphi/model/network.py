"""The measure transformer: from the clouds of past days to the distribution of the next one.

Read top to bottom:

    DayEncoder       a cloud of any number of points -> a few tokens, by attention against a measure
    Decoder          tokens of days, block-causal: day s is seen by day t iff s <= t
    DayAttention     a probability over past days: which of them tomorrow will resemble
    rates            those days' profiles, weighted: the reading called *profiles*
    CodeIntensity    how many rows of each code to expect: counts teach more than yes or no
    DirectHead       a residual on the profiles, cell by cell: the reading called *direct*, unless
                     stack and cell network give that one (cell_network.py)
    AtomTransport    moves the atoms of a drawn day on the sphere (transport.py), or FlowTransport
    AtomReading      what those atoms say of the standard events: the reading called *atoms*
    MeasureModel     all of it

Attention integrates against a measure: a softmax over points with log-weights added to the logits.
So permuting points changes nothing, splitting a point's weight changes nothing, and points of
weight zero do not exist. An ordinary transformer would count points instead of weighing them.

Every output layer starts at zero. Untrained, the probability over past days is the recency
bootstrap, the direct reading is that too, and transport leaves all atoms in their place: training
is judged by what it adds to a baseline, not by how far it gets from noise.

Chosen: attention that samples. A softmax over past days is kept as what it is, a probability, and a
future is one of those days moved on; ordinary attention would average them into a day that cannot
happen.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.model.attention import attention_density, attention_logits, measure_attention
from gdelphi.model.config import LIMIT, TARGET_COUNT, TINY, WEEK, MeasureConfig, logits_of
from gdelphi.model.saved import SavedModel
from gdelphi.model.transport import AtomReading, AtomTransport, FlowTransport

CELL_HALF_LIVES = (2.0, 7.0, 30.0, 90.0, 365.0)  # rates that the direct head is shown
CODE_WIDTH = 16


class Context(NamedTuple):
    """What a batch of sequences knows. B sequences of T days; the memory has L days and ends with
    the last of them, so day t of the sequence stands at L - T + t of the memory."""

    points: Tensor
    """clouds, [B, T, n, dimension]"""
    weights: Tensor
    """of the points, [B, T, n]; 0 is padding"""
    features: Tensor
    """of the memory's days, [B, L, features]"""
    counts: Tensor
    """rows by code against the usual, [B, L, codes]; 0 is as usual"""
    weekday: Tensor
    """of the memory's days, [B, L], 0 to 6"""
    present: Tensor
    """[B, L], bool"""
    occurs: Tensor
    """[B, L, codes], 1 or 0"""
    headline: Tensor
    """[B, L, codes], 1 or 0"""
    shares: Tensor
    """[B, L, codes]"""
    thresholds: Tensor
    """share that a surge after day t exceeds, [B, T, codes]; NaN where undefined"""
    pooled: Tensor
    """rates over all streams, [B, T, target, codes]"""
    usual: Tensor
    """rows by code that are usual after each day, [B, T, codes], above 0"""
    direct: Tensor
    """logits that stack and cell network give after each day, [B, T, target, codes]; NaN where they
    say nothing"""

    @property
    def days(self) -> int:
        return self.points.shape[1]

    def last(self) -> "Context":
        """The same with the last day of the sequences alone; the memory stays."""
        names = ("points", "weights", "thresholds", "pooled", "usual", "direct")
        return self._replace(**{name: getattr(self, name)[:, -1:] for name in names})


class ModelOutput(NamedTuple):
    """The model's output after each day of a sequence."""

    day_probabilities: Tensor
    """over the memory's days, [B, T, L]"""
    profiles: Tensor
    """logits of the profile reading, [B, T, target, codes]; NaN where undefined"""
    direct: Tensor
    """logits of the direct reading, the same shape"""
    log_rate: Tensor
    """ln of the expected rows, [B, T, codes]"""
    dispersion: Tensor
    """k of the negative binomial, [codes]: variance = mean + mean^2 / k"""
    states: Tensor
    """[B, T, width]"""
    tokens: Tensor
    """of all days, [B, T, tokens, width]"""


# --- attention against a measure ------------------------------------------------------------------


class DayEncoder(nn.Module):
    """q learned queries integrate against a day's cloud. Linear in the number of points.

    The key projection is folded into the queries and the value projection applied after pooling, so
    that points are touched twice, by a dot product and by a sum. One more point, learned and of
    weight 1 beside the cloud's total of 1, stands for "nothing": an empty day is that alone.
    """

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.queries, self.heads, self.kind = config.queries, config.heads, config.cloud_attention
        scale = config.dimension**-0.5
        size = config.dimension if self.kind != "l2" else config.width // config.heads
        self.folded = nn.Parameter(torch.randn(config.queries * config.heads, size))
        self.nothing = nn.Parameter(scale * torch.randn(config.dimension))
        self.value = nn.Parameter(
            scale * torch.randn(config.heads, config.dimension, config.width // config.heads)
        )
        self.out = nn.Linear(config.width, config.width)
        if self.kind == "l2":  # |q - K x| needs the keys themselves
            shape = (config.heads, config.dimension, size)
            self.key = nn.Parameter(size**-0.5 * torch.randn(shape))

    def forward(self, points: Tensor, weights: Tensor) -> Tensor:
        """Tokens [days, q, width] of clouds [days, n, dimension] with weights [days, n]."""
        # Query a integrates against the cloud sum_j w_j delta(x_j):
        #     sum_j w_j exp(<a, x_j>) x_j / sum_j w_j exp(<a, x_j>),
        # which is ordinary attention with ln w_j added to its logits; ln 0 leaves padding out.
        days = len(points)
        nothing = self.nothing.expand(days, 1, -1)
        keys = torch.cat([points, nothing.to(points.dtype)], dim=1)[:, None]
        mass = torch.cat([weights, weights.new_ones(days, 1)], dim=1)
        bias = mass.log()[:, None, None].to(keys.dtype)
        folded = self.folded.to(keys.dtype).expand(days, 1, -1, -1)
        if self.kind == "softmax":
            pooled = F.scaled_dot_product_attention(folded, keys, keys, attn_mask=bias, scale=1.0)
            pooled = pooled.view(days, self.queries, self.heads, -1)
        else:
            density = attention_density(self._logits(folded, keys), bias, self.kind)
            pooled = (density.flatten(1, 2) @ keys[:, 0]).unflatten(1, (self.heads, -1))
            pooled = pooled.transpose(1, 2)
        values = torch.einsum("dqhx,hxv->dqhv", pooled, self.value)
        tokens: Tensor = self.out(values.flatten(2))
        return tokens

    def _logits(self, folded: Tensor, keys: Tensor) -> Tensor:
        """Of each head's queries against the points, [days, heads, q, n]."""
        if self.kind == "l2":
            queries = folded.unflatten(2, (self.queries, self.heads))[:, 0].transpose(1, 2)
            projected = torch.einsum("dnx,hxk->dhnk", keys[:, 0], self.key.to(keys.dtype))
            return attention_logits(queries, projected, self.kind)
        logits = attention_logits(folded[:, 0], keys[:, 0], self.kind)
        by_head: Tensor = logits.unflatten(1, (self.queries, self.heads)).transpose(1, 2)
        return by_head


class Block(nn.Module):
    """Pre-norm attention and MLP over tokens, with an additive mask."""

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.heads, self.kind = config.heads, config.decoder_attention
        self.before = nn.LayerNorm(config.width)
        self.project = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(config.width),
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(4 * config.width, config.width),
        )
        self.drop = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        batch, number, width = tokens.shape
        split = self.project(self.before(tokens)).view(batch, number, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = measure_attention(query, key, value, mask, kind=self.kind)
        tokens = tokens + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, number, width)))
        moved: Tensor = tokens + self.drop(self.mlp(tokens))
        return moved


class Decoder(nn.Module):
    """Block-causal attention over (day, token): masked attention on the space-time measure.

    Distance in days is a learned bias of each head, so nothing depends on where a sequence begins.
    """

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.days = config.context_days
        self.describe = nn.Sequential(
            nn.Linear(config.features + WEEK, config.width),
            nn.GELU(),
            nn.Linear(config.width, config.width),
        )
        self.lags = nn.Conv1d(config.codes, config.width, config.lag_days)
        self.lag_days = config.lag_days
        self.kind = nn.Parameter(0.02 * torch.randn(config.queries + 1, config.width))
        self.distance = nn.Parameter(torch.zeros(config.heads, config.context_days))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, clouds: Tensor, past: Context) -> tuple[Tensor, Tensor]:
        """States [B, T, width], tokens [B, T, tokens, width]; from clouds' [B, T, q, width]."""
        days = past.days
        recent = past.features[:, -days:]
        weekday = F.one_hot(past.weekday[:, -days:], WEEK).to(recent.dtype)
        described = self.describe(torch.cat([recent, weekday], dim=2))
        recent_counts = self.drop(last_days(past.counts, days, self.lag_days))
        lagged = self.lags(recent_counts.transpose(1, 2))
        described = described + lagged.transpose(1, 2)
        tokens = torch.cat([described[:, :, None], clouds], dim=2) + self.kind
        batch, _, number, width = tokens.shape
        flat = self.drop(tokens.reshape(batch, days * number, width))
        mask = self._mask(days, number)
        for block in self.blocks:
            flat = block(flat, mask)
        tokens = self.norm(flat).view(batch, days, number, width)
        return tokens[:, :, 0], tokens

    def _mask(self, days: int, number: int) -> Tensor:
        """[heads, tokens, tokens]: minus infinity where a later day would be seen."""
        day = torch.arange(days, device=self.distance.device).repeat_interleave(number)
        behind = day[:, None] - day[None, :]
        bias = self.distance[:, behind.clamp(0, self.days - 1)]
        return bias.masked_fill(behind < 0, -math.inf)


# --- the probability over past days ---------------------------------------------------------------


def recency(past: Context, half_lives: tuple[float, ...], memory_days: int) -> Tensor:
    """log of an equal mixture of exponential kernels over the present days, [B, T, L].

    Minus infinity for days after t, days too old and days that are missing.
    """
    length, days = past.present.shape[1], past.days
    end = torch.arange(length - days, length, device=past.present.device)
    age = end[:, None] - torch.arange(length, device=past.present.device)
    allowed = ((age >= 0) & (age < memory_days)) & past.present[:, None]
    # ln 2^(-age / h) for each half-life h, normalised over the allowed days, then mixed evenly.
    halvings = torch.stack([-math.log(2) / life * age.clamp(min=0) for life in half_lives])
    logits = halvings[:, None].masked_fill(~allowed, -math.inf).float()
    kernels = logits - logits.logsumexp(dim=3, keepdim=True).nan_to_num(neginf=0.0)
    if len(half_lives) == 1:
        return kernels[0]
    mixed: Tensor = kernels.logsumexp(dim=0) - math.log(len(half_lives))
    return mixed


class DayAttention(nn.Module):
    """Which past day will tomorrow resemble? Each head adds its affinities to the recency kernel.

    The key of a day speaks of the day itself and of the days before it: what is looked for is a day
    that followed a past like the present one.
    """

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.heads = config.day_heads
        self.half_lives, self.memory_days = config.half_lives, config.memory_days
        size = config.width // 2
        self.key = nn.Sequential(
            nn.Linear(3 * config.features + WEEK, config.width),
            nn.GELU(),
            nn.Linear(config.width, self.heads * size, bias=False),
        )
        self.query = nn.Linear(config.width, self.heads * size)
        self.same_weekday = nn.Linear(config.width, self.heads)
        self.mixture = nn.Linear(config.width, self.heads)
        for layer in (self.query, self.same_weekday, self.mixture):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, past: Context) -> Tensor:
        """Probabilities [B, T, L]; all 0 where no past day is present."""
        # For head h, target t and past day l:  p_h(l | t) = softmax_l(ln recency + <q_ht, k_hl> +
        # b_ht [same weekday]); the heads are mixed by a softmax of the state.
        kernel = recency(past, self.half_lives, self.memory_days)
        keys = self._keys(past)
        query = self.query(states).unflatten(2, (self.heads, -1))
        affinity = torch.einsum("bthk,blhk->bhtl", query, keys) / keys.shape[3] ** 0.5
        target = (past.weekday[:, -past.days :] + 1) % WEEK
        same = (target[:, :, None] == past.weekday[:, None, :]).to(states.dtype)
        affinity = affinity + self.same_weekday(states).transpose(1, 2)[..., None] * same[:, None]
        logits = kernel[:, None] + affinity.float()
        # A softmax over nothing is NaN, and its gradient too: it is not taken there.
        nothing = kernel.isneginf().all(dim=2)[:, None, :, None]
        by_head = logits.masked_fill(nothing, 0.0).softmax(dim=3) * ~nothing
        shares = self.mixture(states).softmax(dim=2).transpose(1, 2)[..., None].float()
        mixed: Tensor = (shares * by_head).sum(dim=1)
        return mixed

    def _keys(self, past: Context) -> Tensor:
        """Of the memory's days, from a day's features, those of the day before, the mean of the
        week before, and its weekday; [B, L, heads, size]."""
        before = F.pad(past.features, (0, 0, 1, 0))[:, :-1]
        week = F.avg_pool1d(F.pad(before.transpose(1, 2), (WEEK - 1, 0)), WEEK, stride=1).transpose(
            1, 2
        )
        weekday = F.one_hot(past.weekday, WEEK).to(before.dtype)
        described = torch.cat([past.features, before, week, weekday], dim=2)
        keys: Tensor = self.key(described).unflatten(2, (self.heads, -1))
        return keys


def rates(probabilities: Tensor, past: Context) -> Tensor:
    """How often each target came true under distributions over days [B, T, P, L], smoothed as
    baselines are: (n rate + pooled rate) / (n + 1), n the effective number of days.
    [B, T, P, target, codes]."""
    surged = (past.shares[:, None] > past.thresholds[:, :, None]).to(probabilities.dtype)
    days = past.days
    rate = torch.stack(
        [
            (probabilities.flatten(1, 2) @ past.occurs).unflatten(1, (days, -1)),
            (probabilities.flatten(1, 2) @ past.headline).unflatten(1, (days, -1)),
            probabilities @ surged,
        ],
        dim=3,
    )
    number = 1 / (probabilities**2).sum(dim=3).clamp(min=TINY)  # n = 1 / sum p^2
    number = torch.where(probabilities.sum(dim=3) > 0, number, 0.0)[..., None, None]
    return (number * rate + past.pooled[:, :, None]) / (number + 1)


# --- readings of a forecast -----------------------------------------------------------------------


class CodeIntensity(nn.Module):
    """Expected rows of each code: usual x (what the last days' counts add) x (what the state says).

    What the last days add is linear in their counts against the usual, by code and lag: which
    events follow which, and when. Untrained, the usual is expected.
    """

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.lag_days = config.lag_days
        self.ladder = nn.Conv1d(config.codes, config.codes, config.lag_days, bias=False)
        self.own = nn.Linear(config.width, config.codes)
        self.log_dispersion = nn.Parameter(torch.zeros(config.codes))
        self.drop = nn.Dropout(config.dropout)
        for weights in (self.ladder.weight, self.own.weight, self.own.bias):
            nn.init.zeros_(weights)

    def forward(self, states: Tensor, past: Context) -> tuple[Tensor, Tensor]:
        """ln of the expected rows, [B, T, codes], and the dispersion, [codes]."""
        counts = last_days(past.counts, past.days, self.lag_days).transpose(1, 2)
        added = compressed(self.ladder(counts).transpose(1, 2))
        moved = added + self.own(self.drop(states))
        return past.usual.log() + moved.float(), self.log_dispersion.exp()


def none_at_all(log_rate: Tensor, dispersion: Tensor) -> Tensor:
    """ln of the probability that no row comes, under a negative binomial with mean mu and
    dispersion k: ln P(0) = k ln(k / (k + mu)) = -k softplus(ln mu - ln k)."""
    zero: Tensor = -dispersion * F.softplus(log_rate - dispersion.log())
    return zero


class DirectHead(nn.Module):
    """A residual on the profile reading for each cell (target, code), the sum of two:

    - one small network for all codes and streams, which sees the state, the code, the expected
      rows and the cell's own rates under a few fixed kernels: what it learns in one stream serves
      in all;
    - a linear map of the state for each code.
    """

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__()
        self.memory_days = config.memory_days
        self.code = nn.Parameter(0.1 * torch.randn(config.codes, CODE_WIDTH))
        shown = TARGET_COUNT * (len(CELL_HALF_LIVES) + 2) + WEEK + 4
        self.state = nn.Linear(config.width, config.cell_width)
        self.cell = nn.Linear(shown + CODE_WIDTH, config.cell_width)
        self.hidden = nn.Sequential(
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.cell_width, config.cell_width),
            nn.GELU(),
        )
        self.out = nn.Linear(config.cell_width, TARGET_COUNT)
        self.own = nn.Linear(config.width, TARGET_COUNT * config.codes)
        self.drop = nn.Dropout(config.dropout)
        for layer in (self.out, self.own):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, past: Context, profiles: Tensor, expected: Tensor) -> Tensor:
        """Logits [B, T, target, codes]; `expected` [B, T, codes, 4] describes the expected rows."""
        profiles = profiles.detach()
        cells = self._shown(past, profiles)
        shown = torch.cat([cells, expected.detach()], dim=3).to(states.dtype)
        code = self.code.expand(*shown.shape[:3], -1)
        cells = self.cell(torch.cat([shown, code], dim=3)) + self.state(states)[:, :, None]
        pooled = self.out(self.hidden(cells)).transpose(2, 3)
        own = self.own(self.drop(states)).unflatten(2, (TARGET_COUNT, -1))
        moved: Tensor = profiles + (pooled + own).float()
        return moved

    @torch.no_grad()
    def _shown(self, past: Context, profiles: Tensor) -> Tensor:
        """What a cell is shown, [B, T, codes, shown]."""
        kernels = [recency(past, (life,), self.memory_days) for life in CELL_HALF_LIVES]
        # The rate on the target's weekday alone, over a year.
        target = (past.weekday[:, -past.days :] + 1) % WEEK
        same = target[:, :, None] == past.weekday[:, None, :]
        weekly = kernels[-1].masked_fill(~same, -math.inf).softmax(dim=2).nan_to_num(0.0)
        shares = torch.stack([*(kernel.exp() for kernel in kernels), weekly], dim=2)
        fixed = logits_of(rates(shares, past)).flatten(2, 3)
        logits = torch.cat([profiles, fixed], dim=2).nan_to_num(0.0).transpose(2, 3)
        lags = last_days(past.counts, past.days, WEEK).unfold(1, WEEK, 1)
        return torch.cat([logits / 4, lags], dim=3)


def compressed(values: Tensor) -> Tensor:
    """ln(1 + x) above 0, x below: what adds to a rate adds to its logarithm that much."""
    return torch.where(values > 0, values.clamp(min=0).log1p(), values)


def last_days(values: Tensor, days: int, before: int) -> Tensor:
    """The last `days` days and what each needs before it, [B, days + before - 1, ...]; zeros where
    there is nothing."""
    window = values[:, -(days + before - 1) :]
    return F.pad(window, (0, 0, days + before - 1 - window.shape[1], 0))


# --- the whole ------------------------------------------------------------------------------------


class MeasureModel(SavedModel):
    """The measure transformer."""

    config_class = MeasureConfig
    config: MeasureConfig

    def __init__(self, config: MeasureConfig) -> None:
        super().__init__(config)
        self.day_encoder = DayEncoder(config)
        self.decoder = Decoder(config)
        self.day_attention = DayAttention(config)
        self.intensity = CodeIntensity(config)
        self.direct = DirectHead(config)
        flows = config.transport == "flow" and config.transport_layers > 0
        self.transport = FlowTransport(config) if flows else AtomTransport(config)
        self.atom_reading = AtomReading(config)

    def encode(self, past: Context) -> Tensor:
        """The clouds of the sequences as tokens, [B, T, q, width]."""
        clouds: Tensor = self.day_encoder(past.points.flatten(0, 1), past.weights.flatten(0, 1))
        tokens: Tensor = clouds.unflatten(0, past.points.shape[:2])
        return tokens

    def forward(
        self,
        past: Context,
        *,
        last: bool = False,
        clouds: Tensor | None = None,
        direct_head: bool = True,
    ) -> ModelOutput:
        """What comes after each day of the sequences, or after the last one alone. `clouds` are
        the days' encoded clouds, if they are known already. Without the direct head, which takes a
        tenth of a training step, the direct reading is that of the profiles where stack and cell
        network say nothing."""
        states, tokens = self.decoder(self.encode(past) if clouds is None else clouds, past)
        if last:
            states, tokens, past = states[:, -1:], tokens[:, -1:], past.last()
        probabilities = self.day_attention(states, past)
        undefined = past.thresholds.isnan()[:, :, None]
        profiles = logits_of(rates(probabilities[:, :, None], past))[:, :, 0]
        profiles = torch.cat(
            [profiles[:, :, :2], profiles[:, :, 2:].masked_fill(undefined, math.nan)], dim=2
        )
        log_rate, dispersion = self.intensity(states, past)
        direct, unsaid = profiles.detach(), past.direct.isnan()
        if direct_head and bool(unsaid.any()):
            direct = self.direct(states, past, profiles, _expected(log_rate, dispersion, past))
        direct = torch.where(unsaid, direct, past.direct)
        return ModelOutput(probabilities, profiles, direct, log_rate, dispersion, states, tokens)


def _expected(log_rate: Tensor, dispersion: Tensor, past: Context) -> Tensor:
    """The expected rows of each code as features: against the usual, the logit that any comes,
    their share, and that against the threshold of a surge. [B, T, codes, 4]."""
    # The logit that any comes: ln((1 - P(0)) / P(0)).
    zero = none_at_all(log_rate, dispersion).clamp(max=-LIMIT)
    some = (-torch.expm1(zero)).clamp(min=LIMIT).log() - zero
    share = log_rate.log_softmax(dim=2)
    thresholds = past.thresholds.nan_to_num(1.0).clamp(min=1e-3).log()
    parts = (log_rate - past.usual.log(), some / 4, share / 4, share - thresholds)
    return torch.stack(parts, dim=3)
