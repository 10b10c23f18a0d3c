"""Shared by tests: stack cases."""

from dataclasses import dataclass
from datetime import date

import numpy as np

from gdelphi.common.types import (
    FloatArray,
    Forecast,
    History,
    make_forecast,
)
from gdelphi.measures.profiles import Profiles
from gdelphi.stack.linear import expit
from helpers.profiles import START, profiles_of

DAYS = 160


@dataclass(frozen=True, eq=False)
class GivenForecaster:
    """Says given probabilities of occurrence, [stream, day, code], and a half of all else."""

    probabilities: FloatArray
    name: str = "given"

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        at = (origin - START).days + horizon
        half = np.full(len(history.codes), 0.5)
        samples, weights = np.full((1, len(half)), 0.1), np.ones(1)
        return [
            make_forecast(
                Forecast(
                    self.name, stream, origin, horizon, history.codes,
                    self.probabilities[number, at], half, half, samples, weights,
                )
            )
            for number, stream in enumerate(history.streams)
        ]  # fmt: skip


def changing_world(seed: int = 0) -> tuple[Profiles, FloatArray]:
    """Days drawn from known probabilities that change every day."""
    generator = np.random.default_rng(seed)
    truth = expit(generator.normal(0, 1.5, size=(8, DAYS, 10)))
    return profiles_of((generator.random(truth.shape) < truth).astype(float)), truth
