"""Drawing laws: other equations for the same world, by a seed.

A forecaster that is good in one world may have learnt its edges by heart. Many worlds, each with a
law of its own, show whether it reads a law from the news. `draw_law` keeps what is no law (the
world's seed, days, countries and rivals, switches and dirt) and draws the rest from the ranges
below. Where nothing else is said, all values between the two limits are equally likely; real
numbers are rounded to three digits, so that `truth/world.json` can be read.

Two rules keep worlds plausible. An edge takes no more of its target than the other parts leave,
and a row begets at most `MOST_BEGOTTEN` rows by one edge: else one row of the rarest root would
bring hundreds of the commonest. A law that `Law` refuses is drawn again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from gdelphi.common.errors import ConfigError
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    LADDER_DAYS,
    MEMORY_DAYS,
    ROOT_SHARES,
    Edge,
    Occasion,
    WorldConfig,
)
from gdelphi.world.law import LEAST_BASE, ROOTS, Law
from gdelphi.world.marginals import CODES

Range = tuple[float, float]
Whole = tuple[int, int]
"""both limits can be drawn"""

TRIES: Final = 100

# Volumes, as multiples of the given world's: the size of a preset stays.
VOLUME_MEDIAN: Final[Range] = (0.6, 1.6)
VOLUME_DEVIATION: Final[Range] = (0.7, 1.1)
MIX_DEVIATION: Final[Range] = (0.1, 0.5)
GROWTH_PER_YEAR: Final[Range] = (-0.1, 0.3)
WEEKEND: Final[Range] = (0.4, 1.0)
PROTEST_DAYS: Final[Whole] = (1, 3)  # consecutive weekdays
PROTEST_PEAK: Final[Range] = (1.0, 3.0)  # a protest day against another
DISPERSION: Final[Range] = (2.0, 8.0)  # logarithms equally likely

EDGES: Final[Whole] = (12, 28)
STRENGTH: Final[Range] = (0.10, 0.60)
LAG: Final[Whole] = (1, LADDER_DAYS)
MOST_BEGOTTEN: Final = 3.0  # rows of the target for a row of the source
KERNEL_PEAK: Final[Range] = (0.5, 1.0)  # share of the edge's lag; the days beside it have the rest

CONTAGIOUS: Final[Whole] = (3, 8)  # roots
CONTAGION: Final[Range] = (0.05, 0.30)
TENSE: Final[Whole] = (4, 10)  # conflict roots
TENSION: Final[Range] = (0.05, 0.35)
TENSION_MEMORY: Final[Range] = (0.2, 0.8)
RIVAL_SHARE: Final[Range] = (0.15, 0.35)

OCCASIONS: Final[Whole] = (2, 4)
LEAD_DAYS: Final[Whole] = (2, MEMORY_DAYS)
DAYS_BETWEEN: Final[Whole] = (30, 90)  # announcements of a kind in a country, on average
ECHOES: Final[Whole] = (3, 6)  # roots
ECHO: Final[Range] = (2.0, 7.0)
RARE_CODE: Final = 0.05  # an announcing code has at most this share of its root's rows
ENOUGH_CODES: Final = 5  # of a root, so that occasions leave it some

STAY: Final[Range] = (0.90, 0.98)  # in a regime, a day
COOPERATION: Final[tuple[Range, ...]] = ((1.0, 1.2), (0.8, 1.0), (0.5, 0.8))  # calm, tense, crisis
VERBAL: Final[tuple[Range, ...]] = ((0.2, 0.6), (0.9, 1.3), (2.0, 5.0))
MATERIAL: Final[tuple[Range, ...]] = ((0.1, 0.5), (0.9, 1.5), (3.0, 8.0))


def draw_law(config: WorldConfig, seed: int) -> WorldConfig:
    """The same world under another law. The same seed and version give the same law."""
    if seed < 0:
        raise ConfigError(f"the seed of a law is {seed}: give 0 or more")
    rng = np.random.default_rng([seed, 8])
    for _ in range(TRIES):
        drawn = config.model_copy(update=_law(rng, config))
        try:
            Law(drawn)
        except ConfigError as error:
            refused = error
        else:
            return drawn
    raise ConfigError(f"no law for seed {seed} in {TRIES} tries; the last was refused: {refused}")


def _law(rng: Generator, config: WorldConfig) -> dict[str, Any]:
    """Every number of a law, whether or not they agree with each other."""
    contagion = _strengths(rng, ROOTS, CONTAGIOUS, CONTAGION)
    tension = _strengths(rng, CONFLICT_ROOTS, TENSE, TENSION)
    occasions = _occasions(rng)
    peak = _real(rng, KERNEL_PEAK)
    return {
        **_volumes(rng, config),
        "ladder": _ladder(rng, _room(contagion, tension, occasions)),
        "kernel": (peak, round((1 - peak) / 2, 4)),
        "contagion": contagion,
        "tension": tension,
        "tension_memory": _real(rng, TENSION_MEMORY),
        "rival_share": _real(rng, RIVAL_SHARE),
        "occasions": occasions,
        "regime_moves": _moves(rng),
        "regime_cooperation": tuple(_real(rng, limits) for limits in COOPERATION),
        "regime_verbal": tuple(_real(rng, limits) for limits in VERBAL),
        "regime_material": tuple(_real(rng, limits) for limits in MATERIAL),
    }


def _volumes(rng: Generator, config: WorldConfig) -> dict[str, Any]:
    first, length = int(rng.integers(7)), _whole(rng, PROTEST_DAYS)
    peak, busy = _real(rng, PROTEST_PEAK), {(first + n) % 7 for n in range(length)}
    return {
        "volume_median": round(config.volume_median * _real(rng, VOLUME_MEDIAN), 3),
        "volume_deviation": round(config.volume_deviation * _real(rng, VOLUME_DEVIATION), 3),
        "mix_deviation": _real(rng, MIX_DEVIATION),
        "growth_per_year": _real(rng, GROWTH_PER_YEAR),
        "weekend": _real(rng, WEEKEND),
        "protest_days": tuple(peak if weekday in busy else 1.0 for weekday in range(7)),
        "dispersion": round(float(np.exp(rng.uniform(*np.log(DISPERSION)))), 3),
    }


def _strengths(
    rng: Generator, roots: Sequence[str], number: Whole, limits: Range
) -> dict[str, float]:
    """Some of the roots, each with a strength."""
    chosen = rng.choice(len(roots), _whole(rng, number), replace=False)
    return {roots[place]: _real(rng, limits) for place in sorted(chosen.tolist())}


def _occasions(rng: Generator) -> tuple[Occasion, ...]:
    """Kinds of occasions with codes of their own, rare ones."""
    rare = [
        code
        for codes in CODES.values()
        if len(codes) >= ENOUGH_CODES
        for code, share in codes.items()
        if share <= RARE_CODE
    ]
    codes = rng.choice(len(rare), _whole(rng, OCCASIONS), replace=False)
    return tuple(
        Occasion(
            name=f"occasion {number}",
            code=rare[code],
            lead_days=_whole(rng, LEAD_DAYS),
            daily_probability=1 / _whole(rng, DAYS_BETWEEN),
            echo=_strengths(rng, ROOTS, ECHOES, ECHO),
        )
        for number, code in enumerate(codes.tolist(), start=1)
    )


def _room(
    contagion: Mapping[str, float], tension: Mapping[str, float], occasions: Sequence[Occasion]
) -> dict[str, float]:
    """What edges may take of each root's mean."""
    room = {}
    for root in ROOTS:
        echoes = sum(each.daily_probability * each.echo.get(root, 0.0) for each in occasions)
        taken = contagion.get(root, 0.0) + tension.get(root, 0.0) + echoes
        room[root] = 1 - LEAST_BASE - taken
    return room


def _ladder(rng: Generator, room: dict[str, float]) -> tuple[Edge, ...]:
    """Edges between different roots, in random order, as far as there is room for them."""
    pairs = [(source, target) for source in ROOTS for target in ROOTS if source != target]
    number = _whole(rng, EDGES)
    edges: list[Edge] = []
    for place in rng.permutation(len(pairs)).tolist():
        source, target = pairs[place]
        most = MOST_BEGOTTEN * ROOT_SHARES[source] / ROOT_SHARES[target]
        strength, lag = _real(rng, STRENGTH), _whole(rng, LAG)
        if strength <= min(most, room[target]) and len(edges) < number:
            room[target] -= strength
            edges.append(Edge(source=source, target=target, strength=strength, lag=lag))
    return tuple(edges)


def _moves(rng: Generator) -> tuple[tuple[float, ...], ...]:
    """A regime's daily moves: it stays, or goes to either of the two others."""
    rows = []
    for regime in range(3):
        leave = 1 - _real(rng, STAY)
        one = round(leave * rng.random(), 4)
        row = [one, round(leave - one, 4)]
        row.insert(regime, round(1 - sum(row), 4))
        rows.append(tuple(row))
    return tuple(rows)


def _real(rng: Generator, limits: Range) -> float:
    return round(float(rng.uniform(*limits)), 3)


def _whole(rng: Generator, limits: Whole) -> int:
    return int(rng.integers(limits[0], limits[1] + 1))
