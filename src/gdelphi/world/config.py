"""The simulated world's constants: every law with its strength, in one object.

The world's memory is its news: what happens depends on rows that were published, never on unseen
events, except for one hidden regime per country. So the law of tomorrow given the past can be
written down, and its only hidden part filtered exactly; that is what makes an oracle possible.

For country c, root code r and day t the number of rows published is negative binomial with mean

    rate[c,r,t] = activity[t] * weekday[r,t] * usual[c,r] * relative[c,r,t]
    relative    = base[r] * regime[z[c,t],r] + ladder + contagion + tension + occasions

and dispersion k. All parts of `relative` average 1 in the long run, base[r] being what the others
leave, so `usual` is the mean and the ladder's strengths sum to less than one: the world is stable.

    ladder      sum over edges (s -> r): strength * kernel[lag] * n[c,s,t-lag] / usual[c,s]
    contagion   strength[r] * (rows of root r in the neighbours yesterday) / (their usual number)
    tension     strength[r] * mean over rivals j of T[c,j,t], where with memory m
                T[t+1] = m * T[t] + (1 - m) * (conflict rows between c and j) / (their usual number)
    occasions   sum over kinds: echo[r] on the day that was announced `lead_days` before

Past numbers of rows are divided by that day's activity. A day that is missing from the archive has
published nothing, so it is remembered as empty.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdelphi.common.errors import ConfigError

MEMORY_DAYS = 14  # the longest look back: lead of the earliest announcement
LADDER_DAYS = 7
Ingredient = Literal["ladder", "contagion", "tension", "occasions", "regime", "weekly"]
INGREDIENTS: tuple[Ingredient, ...] = (
    "ladder", "contagion", "tension", "occasions", "regime", "weekly",
)  # fmt: skip

CONFLICT_ROOTS = ("10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20")

# Shares of the root codes among 366,175 rows of GDELT 2.0 in May 2025.
ROOT_SHARES: Mapping[str, float] = {
    "01": 0.1360, "02": 0.0693, "03": 0.0669, "04": 0.2679, "05": 0.0918, "06": 0.0234,
    "07": 0.0332, "08": 0.0345, "09": 0.0185, "10": 0.0125, "11": 0.0634, "12": 0.0250,
    "13": 0.0174, "14": 0.0074, "15": 0.0024, "16": 0.0099, "17": 0.0471, "18": 0.0138,
    "19": 0.0590, "20": 0.0007,
}  # fmt: skip

# Weight of a row in its day's cloud: ln(1 + mentions), halved for events outside an article's lead.
# Drawn for each row by itself, in proportions like GDELT's.
MENTIONS: Mapping[int, float] = {
    1: 0.16, 2: 0.28, 3: 0.07, 4: 0.13, 5: 0.07, 6: 0.09, 8: 0.06, 10: 0.13, 20: 0.01,
}  # fmt: skip
LEAD_SHARE = 0.56


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edge(_Frozen):
    """Rows of one root beget rows of another some days later."""

    source: str
    target: str
    strength: float = Field(gt=0, lt=1)
    lag: int = Field(ge=1, le=LADDER_DAYS)


class Occasion(_Frozen):
    """Something scheduled: announced by rows of a code of its own, felt on its day."""

    name: str
    code: str
    lead_days: int = Field(ge=1, le=MEMORY_DAYS)
    daily_probability: float = Field(gt=0, lt=1)
    echo: Mapping[str, float]


class Dirt(_Frozen):
    """What is wrong with real files, in measured proportions."""

    missing_days: float = 0.005
    no_place: float = 0.02  # rows without a country, beside those of the streams
    blank_actor1: float = 0.09
    blank_actor2: float = 0.27
    anniversary_rows: float = 0.03  # event date exactly a year back
    late_rows: float = 0.015  # event date some days back
    future_rows: float = 0.001
    retold_stories: float = 0.10
    unknown_codes: float = 0.002


class Switches(_Frozen):
    """Which ingredients are on. An ingredient that is off has its average effect."""

    ladder: bool = True
    contagion: bool = True
    tension: bool = True
    occasions: bool = True
    regime: bool = True
    weekly: bool = True


def _edges(*edges: tuple[str, str, float, int]) -> tuple[Edge, ...]:
    return tuple(Edge(source=s, target=t, strength=a, lag=lag) for s, t, a, lag in edges)


class WorldConfig(_Frozen):
    """A world. The same object and version give the same bytes."""

    seed: int = 7
    start: date = date(2021, 1, 4)
    days: int = Field(800, ge=60)
    streams: int = Field(30, ge=2, le=90)
    switches: Switches = Switches()
    dirt: Dirt | None = Dirt()

    # Volumes: lognormal across countries, as in GDELT (median 26 rows a day, log-deviation 2).
    volume_median: float = 20.0
    volume_deviation: float = 2.0
    volume_most: float = 1200.0
    mix_deviation: float = 0.3  # how much countries differ in their shares of the roots
    growth_per_year: float = 0.10
    weekend: float = 0.6  # of a working day's volume
    protest_days: tuple[float, ...] = (0.7, 0.7, 0.7, 0.7, 1.8, 1.8, 0.7)  # root 14, from Monday

    dispersion: float = 4.0
    kernel: tuple[float, float] = (0.8, 0.1)  # at the edge's lag, and at the days beside it
    ladder: tuple[Edge, ...] = _edges(
        ("14", "17", 0.45, 2), ("14", "18", 0.50, 3), ("18", "19", 0.35, 1), ("17", "19", 0.10, 3),
        ("19", "20", 0.60, 2), ("18", "17", 0.20, 4), ("13", "14", 0.30, 2), ("13", "15", 0.45, 4),
        ("10", "13", 0.50, 4), ("02", "10", 0.50, 6), ("11", "12", 0.50, 3), ("12", "16", 0.50, 5),
        ("12", "11", 0.30, 2), ("18", "09", 0.60, 2), ("19", "07", 0.55, 3), ("05", "06", 0.60, 5),
        ("11", "08", 0.50, 7), ("02", "01", 0.30, 1), ("03", "04", 0.25, 3), ("05", "04", 0.30, 2),
        ("05", "03", 0.40, 6), ("16", "05", 0.20, 4), ("10", "02", 0.30, 3),
    )  # fmt: skip
    contagion: Mapping[str, float] = {
        "09": 0.20, "14": 0.30, "17": 0.05, "18": 0.30, "19": 0.20, "20": 0.20,
    }  # fmt: skip
    tension: Mapping[str, float] = {
        "10": 0.20, "11": 0.30, "12": 0.20, "13": 0.25, "15": 0.35, "16": 0.30, "17": 0.05,
        "19": 0.20,
    }  # fmt: skip
    tension_memory: float = 0.5
    rival_share: float = 0.25  # of conflict rows that are visibly between a country and its rivals
    occasions: tuple[Occasion, ...] = (
        Occasion(
            name="election", code="0241", lead_days=14, daily_probability=1 / 60,
            echo={"02": 6, "05": 2, "10": 6, "11": 5, "14": 5},
        ),
        Occasion(
            name="anniversary", code="018", lead_days=7, daily_probability=1 / 40,
            echo={"12": 4, "13": 4, "14": 5, "17": 6},
        ),
        Occasion(
            name="summit", code="037", lead_days=5, daily_probability=1 / 30,
            echo={"03": 7, "04": 3, "05": 6, "06": 6, "07": 4, "08": 7},
        ),
    )  # fmt: skip

    # The hidden regime of a country: calm, tense, crisis.
    regime_moves: tuple[tuple[float, ...], ...] = (
        (0.970, 0.025, 0.005), (0.030, 0.940, 0.030), (0.010, 0.050, 0.940),
    )  # fmt: skip
    regime_cooperation: tuple[float, ...] = (1.1, 0.9, 0.6)  # roots 01 to 08
    regime_verbal: tuple[float, ...] = (0.3, 1.1, 4.0)  # roots 09 to 13
    regime_material: tuple[float, ...] = (0.15, 1.2, 7.0)  # roots 14 to 20

    def without(self, ingredient: Ingredient) -> "WorldConfig":
        """The same world with one ingredient at its average."""
        switches = self.switches.model_copy(update={ingredient: False})
        return self.model_copy(update={"switches": switches})


PRESETS: Mapping[str, WorldConfig] = {
    "default": WorldConfig(),
    "demo": WorldConfig(days=250, streams=8, volume_median=40.0, volume_deviation=1.2),
}


def world_config(preset: str, changes: Mapping[str, Any]) -> WorldConfig:
    """A preset with some of its numbers changed."""
    try:
        return WorldConfig(**{**PRESETS[preset].model_dump(), **changes})
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{wrong['loc'][0]} = {wrong['input']!r}: {wrong['msg']}") from None
