"""What a simulated world offers a forecaster: baselines and oracles on its last days.

The room between the pooled stack of baselines and the fair oracle is what there is to learn. What
each ingredient contributes is shown twice: by an oracle that does not see it, on the same days, and
by the room that is left in a world in which it is switched off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.common.types import Forecaster
from gdelphi.judge.compare import JudgedForecasts, ScoreLine, compare, score_table
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.stack.baselines import Climatology, Ewma
from gdelphi.stack.linear import default_stack
from gdelphi.world.archive import load_world
from gdelphi.world.config import (
    INGREDIENTS,
    Ingredient,
    WorldConfig,
)
from gdelphi.world.law import (
    ROOTS,
    Ints,
    Law,
)
from gdelphi.world.oracle import (
    Oracle,
    OracleEvidence,
    OracleLevel,
    read_evidence,
)
from gdelphi.world.oracle_week import PATHS, WeekOracle
from gdelphi.world.rows import code_shares
from gdelphi.world.simulate import published, simulate

TEST_SHARE = 0.2
FIT_FROM = 0.4  # the stack is fitted from here to the embargo before the test days
EMBARGO_DAYS = 7
FEW_SAMPLES = 1  # for oracles of which only `occurs` is asked, which needs none
BETWEEN = (0.05, 0.95)


@dataclass(frozen=True)
class Panel:
    """A world as forecasters and oracles see it."""

    law: Law
    profiles: Profiles
    evidence: OracleEvidence
    regimes: Ints  # [S, D]

    def days(self, start: float, end: float) -> tuple[date, ...]:
        """Present days of a stretch, given as shares of all days."""
        first, last = (round(share * len(self.profiles.days)) for share in (start, end))
        there = self.profiles.present
        return tuple(self.profiles.days[i] for i in range(first, last) if there[i])

    @property
    def test_days(self) -> tuple[date, ...]:
        """The last fifth of the days, on which forecasters are judged."""
        return self.days(1 - TEST_SHARE, 1)

    @property
    def fit_days(self) -> tuple[date, ...]:
        """The days that a stack is fitted on, well before the test days."""
        return self.days(FIT_FROM, 1 - TEST_SHARE)[:-EMBARGO_DAYS]

    def oracle(self, blind_to: Ingredient | None = None, *, knows_all: bool = False) -> Oracle:
        """The fair oracle, one that does not see an ingredient, or one that sees hidden regimes."""
        shares = code_shares(self.law.config)
        regimes = self.regimes if knows_all else None
        if blind_to is None:
            return Oracle(self.law, self.evidence, shares, regimes=regimes)
        return Oracle(self.law, self.evidence, shares, blind_to=blind_to, samples=FEW_SAMPLES)

    def week_oracle(self, blind_to: Ingredient | None = None, *, paths: int = PATHS) -> WeekOracle:
        """The fair oracle of the week, or one that does not see an ingredient."""
        return WeekOracle(self.oracle(blind_to), paths=paths)


@dataclass(frozen=True)
class Contribution:
    """What one ingredient is worth, by the Brier score of `occurs`."""

    ingredient: Ingredient
    blind_loss: float  # relative loss of an oracle that does not see it
    room_without: float | None  # stack to fair oracle, in a world without it


@dataclass(frozen=True)
class Description:
    """The tables of `gdelphi world describe`."""

    streams: int
    days: int
    rows_a_day: float
    test_days: int
    lines: list[ScoreLine]
    active_lines: list[ScoreLine]
    room: float  # (stack - fair oracle) / stack, Brier score of `occurs`
    between: float  # share of cells whose fair probability is neither near 0 nor near 1
    contributions: list[Contribution]


def ingested_panel(settings: Settings, folder: Path) -> Panel:
    """A world through the front door: its archive in the store."""
    config, regimes, _ = load_world(folder)
    law = Law(config)
    last = law.day(config.days - 1)
    profiles = read_profiles(settings, streams=law.map.streams, since=law.day(0), until=last)
    return Panel(law, profiles, read_evidence(settings, law), regimes)


def simulated_panel(config: WorldConfig) -> Panel:
    """The same without files: for studies of many worlds. Weights are drawn like those of rows."""
    law = Law(config)
    level = OracleLevel(law, ROOTS, {root: {root: 1.0} for root in ROOTS})
    days = list(simulate(law))
    news = [published(law, day) for day in days]
    present = np.array([not day.missing for day in days])
    counts = np.stack([day_news.counts for day_news in news]).astype(np.int64)
    counts[~present] = 0
    weights = level.weights_of(np.random.default_rng([config.seed, 6]), counts)
    evidence = OracleEvidence(
        counts.astype(float),
        np.stack([day.announcements for day in days]),
        np.stack([day_news.pair_conflicts for day_news in news]),
        present,
    )
    by_stream = counts.swapaxes(0, 1)
    profiles = Profiles(
        law.map.streams,
        tuple(day.day for day in days),
        ROOTS,
        np.ascontiguousarray(by_stream),
        np.ascontiguousarray(weights.swapaxes(0, 1)),
        np.ascontiguousarray(by_stream.sum(axis=2)),
        present,
    )
    return Panel(law, profiles, evidence, np.stack([day.regime for day in days], axis=1))


def judge_panel(panel: Panel, forecasters: Sequence[Forecaster]) -> JudgedForecasts:
    """All forecasters on the last fifth of the days."""
    return compare(
        forecasters, panel.profiles, panel.test_days, training_days=panel.days(0, 1 - TEST_SHARE)
    )


def describe(panel: Panel, *, ingredients: bool = False, on_step: OnStep = silent) -> Description:
    """The scores of baselines and oracles; with `ingredients`, also of worlds without each."""
    on_step("fitting the stack")
    stack = default_stack().fit(panel.profiles, panel.fit_days)
    blind = [panel.oracle(blind_to=ingredient) for ingredient in INGREDIENTS]
    fair = panel.oracle()
    on_step("judging forecasters and oracles")
    shown: list[Forecaster] = [Climatology(), Ewma(), stack, fair, panel.oracle(knows_all=True)]
    judged = judge_panel(panel, [*shown, *blind])
    names = {forecaster.name for forecaster in shown}
    lines = score_table(judged)
    brier = {line.forecaster: line.brier for line in lines if line.target == "occurs"}
    contributions = []
    for oracle, ingredient in zip(blind, INGREDIENTS, strict=True):
        room = None
        if ingredients:
            on_step(f"a world without {ingredient}")
            room = room_of(simulated_panel(panel.law.config.without(ingredient)))
        loss = brier[oracle.name] / brier[fair.name] - 1
        contributions.append(Contribution(ingredient, loss, room))
    sure = judged.probabilities[fair.name]["occurs"]
    volume = panel.profiles.volume[:, panel.profiles.present]
    return Description(
        streams=len(panel.profiles.streams),
        days=len(panel.profiles.days),
        rows_a_day=float(volume.sum(axis=0).mean()),
        test_days=len(judged.days),
        lines=[line for line in lines if line.forecaster in names],
        active_lines=[
            line for line in score_table(judged, cells="active") if line.forecaster in names
        ],
        room=1 - brier[fair.name] / brier[stack.name],
        between=float(((sure > BETWEEN[0]) & (sure < BETWEEN[1])).mean()),
        contributions=contributions,
    )


def room_of(panel: Panel) -> float:
    """(stack - fair oracle) / stack: Brier score of `occurs` on the test days."""
    stack = default_stack().fit(panel.profiles, panel.fit_days)
    fair = Oracle(panel.law, panel.evidence, code_shares(panel.law.config), samples=FEW_SAMPLES)
    judged = judge_panel(panel, [stack, fair])
    brier = {line.forecaster: line.brier for line in score_table(judged) if line.target == "occurs"}
    return 1 - brier[fair.name] / brier[stack.name]
