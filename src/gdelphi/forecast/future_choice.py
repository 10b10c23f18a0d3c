"""How futures are made, moved or recombined: chosen on validation B.

moved        past days drawn by the model's attention, whose atoms its transport blocks move on
recombined   past days drawn by a law that agrees with what is published, which take some roots from
             a second day (`recombine.py`)

`gdelphi calibrate` compares both by the energy score of the futures as they are published, with
their weights, on days of validation B. The better of the two is kept in futures.json beside the
model. Without that file futures are recombined, which has been better on all data so far.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from gdelphi.common.errors import ForecastError
from gdelphi.forecast.archive import FUTURES_FILE

T = TypeVar("T")
FutureWay = Literal["moved", "recombined"]


@dataclass(frozen=True)
class FutureChoice:
    """How futures are made, and the mean energy scores that decided it."""

    way: FutureWay
    moved: float
    recombined: float
    days: int
    """target days that were compared"""
    futures: int
    """streams and days that were compared"""


def read_future_choice(folder: Path) -> FutureChoice | None:
    """What was chosen for a model; None: nothing, or between ways that there are no longer."""

    def make(values: Mapping[str, Any]) -> FutureChoice | None:
        return None if "atoms" in values else FutureChoice(**values)

    return read_choice(folder / FUTURES_FILE, make)


def read_choice(path: Path, make: Callable[[Mapping[str, Any]], T]) -> T | None:
    """What `gdelphi calibrate` has chosen and kept in a file; None: nothing."""
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ForecastError(
            f"{path} cannot be read ({error}): delete it, and run `gdelphi calibrate`"
        ) from None
