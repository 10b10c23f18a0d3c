"""Measures of a past state of a lake, beside those of the present one.

Clouds and descriptors are kept of one state of the store. Who reads a past one (`store_as_of`)
needs those of that time: days that came later would be looked back on, and days that have changed
would be of today. They get a folder of their own, which shares its files with the present one where
nothing has changed, so that only days that have are made again. It can be removed at any time.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from gdelphi.common.files import atomic_write
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.measures.cloud_update import measured_fingerprints
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.day_files import DayFolder
from gdelphi.measures.embed import embed
from gdelphi.store.connection import at_one_state

SHARED: Final = (".parquet", ".npy", ".safetensors")  # files that are replaced, never changed
# they follow from the rest
LEFT_OUT: Final = shutil.ignore_patterns("packs", "stacks", "arguments", ".*")


def with_past_measures(settings: Settings, *, on_step: OnStep = silent) -> Settings:
    """Settings for a past state by its number, with measures of that state, which are made where
    those that are there are of another."""
    state = at_one_state(settings)
    present = measures_folder(settings)
    if not (present / "space" / "space.json").exists():
        return state  # nothing has been measured: whoever needs that will say so
    if DayFolder(present / "clouds").made_from() == measured_fingerprints(state):
        return state
    past = present.with_name(f"{present.name}.as-of-{state.store_as_of}")
    if not past.exists():
        with atomic_write(past) as part:
            shutil.copytree(present, part, ignore=LEFT_OUT, copy_function=_share)
    own = state.measures.model_copy(update={"folder": past})
    there = state.model_copy(update={"measures": own})
    on_step(f"measuring the lake as it was at {state.store_as_of}")
    embed(there)
    return there


def _share(source: str, target: str) -> None:
    """One more name for a file, or a copy where that cannot be, or where it is written into."""
    if Path(source).suffix in SHARED:
        try:
            os.link(source, target)
            return
        except OSError:  # another disk, or one that has no such names
            pass
    shutil.copy2(source, target)
