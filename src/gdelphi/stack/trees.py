"""Boosted trees: LightGBM on the table of cells, each target apart, streams and roots together.

Trees add to a given logit and never start from nothing: without a single tree the answer is that
logit. How many trees there are is decided on days that they were not grown on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import BoolArray, FloatArray

MOST_ROUNDS: Final = 500
PATIENCE: Final = 30  # rounds without a gain after which growing stops
FEWEST_ROUNDS: Final = 5
MORE_ROUNDS: Final = 1.1  # with the days that growing stopped on there is more to learn from
SETTINGS: Final = {
    "objective": "binary",
    "learning_rate": 0.06,
    "num_leaves": 15,
    "min_data_in_leaf": 200,
    "lambda_l2": 20.0,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "cat_smooth": 200.0,
    "cat_l2": 50.0,
    "max_bin": 127,
    "force_col_wise": True,
    "deterministic": True,
    "num_threads": 1,  # several fits are under way at once
    "verbosity": -1,
}

CellRows = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosters of one target; their mean counts."""

    boosters: Sequence[lgb.Booster]

    def added(self, table: CellRows) -> FloatArray:
        """What the trees add to the logit of each row of a table, [row]."""
        total = np.zeros(len(table))
        for booster in self.boosters:
            total += np.asarray(booster.predict(table, raw_score=True, num_threads=1))
        return total / max(len(self.boosters), 1)

    def save(self, folder: Path, name: str) -> None:
        """Write one text file for each booster."""
        for number, booster in enumerate(self.boosters):
            booster.save_model(folder / f"{name}-{number}.txt")

    @classmethod
    def load(cls, folder: Path, name: str) -> "Trees":
        """What `save` wrote; none: nothing is added."""
        found = sorted(folder.glob(f"{name}-*.txt"))
        try:
            return cls([lgb.Booster(model_file=path) for path in found])
        except lgb.basic.LightGBMError as error:
            raise ForecastError(
                f"{folder}/{name}-*.txt cannot be read ({error}): train the model again"
            ) from None


class TreeGrower:
    """Grows trees on parts of one table, which is sorted into bins once."""

    def __init__(self, table: CellRows, names: Sequence[str], categories: Sequence[str]) -> None:
        self._table = table
        self._facts: dict[str, Any] = {
            "feature_name": [name.replace(" ", "_") for name in names],
            "categorical_feature": [names.index(name) for name in categories],
        }
        self._bins = lgb.Dataset(
            table,
            np.zeros(len(table)),  # each part is given outcomes of its own
            params={"max_bin": SETTINGS["max_bin"], "verbosity": -1},
            free_raw_data=True,
            **self._facts,
        ).construct()

    def rounds(
        self, grow: BoolArray, stop: BoolArray, outcome: FloatArray, start: FloatArray
    ) -> int:
        """How many rounds of growing on some rows are best on others; outcomes and logits to start
        from are given for all rows."""
        if not _learnable(outcome[grow]) or not stop.any():
            return 0
        booster = lgb.train(
            SETTINGS,
            self._part(grow, outcome, start),
            MOST_ROUNDS,
            valid_sets=[self._part(stop, outcome, start)],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
        )
        return int(booster.best_iteration)

    def grow(
        self,
        rows: BoolArray,
        outcome: FloatArray,
        start: FloatArray,
        *,
        rounds: int,
        seeds: int = 1,
    ) -> Trees:
        """Trees grown on some rows; the mean of several seeds is steadier than one."""
        if rounds < FEWEST_ROUNDS or not _learnable(outcome[rows]):
            return Trees(())
        part = self._part(rows, outcome, start)
        return Trees([lgb.train({**SETTINGS, "seed": seed}, part, rounds) for seed in range(seeds)])

    def _part(self, rows: BoolArray, outcome: FloatArray, start: FloatArray) -> Any:
        # Cut out by hand: `Dataset.subset` of LightGBM 4.7 damages memory with few rows.
        return lgb.Dataset(
            self._table[rows],
            outcome[rows],
            init_score=start[rows],
            reference=self._bins,
            params=SETTINGS,
            free_raw_data=True,
            **self._facts,
        ).construct()


def _learnable(outcome: FloatArray) -> bool:
    return len(np.unique(outcome)) > 1
