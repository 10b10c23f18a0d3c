"""A fitted stack on disk, and the one that belongs to a pack.

    stack.json                  days, coefficients of simple stack, base and pool
    intensity.safetensors       the intensity
    tables.safetensors          lines of the roots, weights of rows
    trees-TARGET-N.txt          boosted trees, in LightGBM's own format
    out_of_fold.safetensors     answers on the days of fitting
    week.json                   regressions of the week ahead, and in week.safetensors its answers

A fit depends on the days of a pack and on the split alone, so trainings of several networks on the
same days share one. stack.json is written last: without it a folder is not a stack.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gdelphi.common.checksums import damaged_files
from gdelphi.common.errors import ForecastError
from gdelphi.common.files import atomic_write, file_digest, remove_folder, text_digest
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.sequences import Sequences
from gdelphi.stack.fit import FEWEST_DAYS, FitDays, fit_stack
from gdelphi.stack.fitted import OutOfFold, StackFit, TableFit
from gdelphi.stack.intensity import Intensity
from gdelphi.stack.linear import SIMPLE, default_stack
from gdelphi.stack.logistic import LinearModel
from gdelphi.stack.root_lines import RootLines
from gdelphi.stack.trees import Trees
from gdelphi.stack.week_lines import WeekFit, WeekLines

FORMAT: Final = 3  # of what is read
FITTED: Final = 4  # of what is fitted: an older fit is made anew for a new model
FOLDER: Final = "stack"  # in that of a model
STACK: Final = "stack.json"
KEPT: Final = 2  # fits of earlier packs that stay beside a new one


def save_stack(fit: StackFit, folder: Path) -> None:
    """Write a fit into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    fit.intensity.save(folder / "intensity.safetensors")
    arrays: dict[str, npt.NDArray[Any]] = {"row_weights": fit.row_weights}
    for target, table in fit.tables.items():
        for name, values in asdict(table.lines).items():
            arrays[f"{target}.{name}"] = values
        table.trees.save(folder, f"trees-{target}")
    save_file(arrays, folder / "tables.safetensors")
    days, folds, expected, logits = fit.out_of_fold
    answers: dict[str, npt.NDArray[Any]] = {
        "days": days.astype(np.int64), "folds": folds.astype(np.int64), "expected rows": expected
    }  # fmt: skip
    answers |= logits
    save_file(answers, folder / "out_of_fold.safetensors")
    if fit.week is not None:
        _save_week(fit.week, folder)
    content = {
        "format": FORMAT,
        "intensity": fit.intensity.summary,
        "seasons": fit.seasons,
        "simple": fit.simple.coefficients(),
        "base": {target: _plain(table.base) for target, table in fit.tables.items()},
        "pool": {target: _plain(line) for target, line in fit.pool.items()},
    }
    (folder / "stack.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_stack(folder: Path) -> StackFit:
    """What `save_stack` wrote."""
    try:
        content = json.loads((folder / "stack.json").read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, not {FORMAT}")
        arrays = load_file(folder / "tables.safetensors")
        answers = load_file(folder / "out_of_fold.safetensors")
        tables = {
            target: TableFit(
                _line(content["base"][target]),
                Trees.load(folder, f"trees-{target}"),
                RootLines(*(arrays[f"{target}.{x}"] for x in ("mean", "deviation", "values"))),
            )
            for target in TARGETS
        }
        return StackFit(
            simple=replace(default_stack(), fitted=content["simple"], name=SIMPLE),
            intensity=Intensity.load(folder / "intensity.safetensors"),
            row_weights=arrays["row_weights"],
            tables=tables,
            pool={target: _line(content["pool"][target]) for target in TARGETS},
            seasons=content["seasons"],
            out_of_fold=OutOfFold(
                answers.pop("days"), answers.pop("folds"), answers.pop("expected rows"), answers
            ),
            week=_load_week(folder),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ForecastError(
            f"{folder} holds no stack that can be read ({reason}): train the model again with "
            "`gdelphi train --fresh`"
        ) from None


def _save_week(week: WeekFit, folder: Path) -> None:
    save_file(
        {"days": week.days.astype(np.int64), "logits": week.logits}, folder / "week.safetensors"
    )
    content = {
        name: {
            "days": {target: [_plain(line) for line in of] for target, of in lines.days.items()},
            "within": {target: _plain(line) for target, line in lines.within.items()},
            "escalation": _plain(lines.escalation),
        }
        for name, lines in (("stack", week.lines), ("simple", week.simple))
    }
    (folder / "week.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _load_week(folder: Path) -> WeekFit | None:
    if not (folder / "week.json").exists():
        return None
    content = json.loads((folder / "week.json").read_text(encoding="utf-8"))
    stack, simple = (
        WeekLines(
            {target: [_line(one) for one in lines["days"][target]] for target in TARGETS},
            {target: _line(lines["within"][target]) for target in TARGETS},
            _line(lines["escalation"]),
        )
        for lines in (content["stack"], content["simple"])
    )
    arrays = load_file(folder / "week.safetensors")
    return WeekFit(stack, simple, arrays["days"], arrays["logits"])


def _plain(line: LinearModel) -> dict[str, Any]:
    return {"values": line.values.tolist(), "intercept": line.intercept}


def _line(content: Mapping[str, Any]) -> LinearModel:
    return LinearModel(np.array(content["values"]), content["intercept"])


# --- the stack of a pack --------------------------------------------------------------------------


@dataclass(frozen=True)
class PackStack:
    """The stack that was fitted on the days of a pack."""

    folder: Path | None
    """where it lies; None: there is none"""
    reason: str = ""
    """why there is none"""

    def load(self) -> StackFit | None:
        return None if self.folder is None else load_stack(self.folder)

    def copied(self, out: Path) -> "PackStack":
        """The same in the folder of a model, unless it is there."""
        place = out / FOLDER
        if self.folder is not None and not (
            (place / STACK).exists()
            and file_digest(place / STACK) == file_digest(self.folder / STACK)
        ):
            self.copy(out)
        return self if self.folder is None else PackStack(place)

    def copy(self, out: Path) -> None:
        """Into the folder of a model, in place of one that is there."""
        if self.folder == out / FOLDER:
            return
        if self.folder is None:
            remove_folder(out / FOLDER)
            return
        with atomic_write(out / FOLDER) as part:
            shutil.copytree(self.folder, part)
            remove_folder(out / FOLDER)


def stack_of_pack(settings: Settings, sequences: Sequences, on_step: OnStep = silent) -> PackStack:
    """Fit the stack of a pack, unless it has been fitted already. With too few days there is
    none: the simple stack then stands alone."""
    parts = {
        part: [sequences.day(int(number)) for number in sequences.targets(part)]
        for part in ("train", "validation_a", "validation_b")
    }
    days = FitDays(*parts.values())
    number = sum(map(len, parts.values()))
    if number < FEWEST_DAYS or not all(days):
        return PackStack(None, f"{number} days to learn from are fewer than {FEWEST_DAYS}")
    origin = repr((FITTED, asdict(sequences.pack.facts), days))
    root = measures_folder(settings) / "stacks"
    folder = root / text_digest(origin)
    if not (folder / "stack.json").exists() or damaged_files(folder):
        try:
            fit = fit_stack(sequences.pack.count_panel, days, on_step)
        except ForecastError as error:
            return PackStack(None, str(error))
        with atomic_write(folder) as part:
            save_stack(fit, part)
            remove_folder(folder)
        _forget_older(root)
    return PackStack(folder)


def _forget_older(root: Path) -> None:
    made = [path for path in root.iterdir() if (path / "stack.json").exists()]
    made.sort(key=lambda path: (path / "stack.json").stat().st_mtime, reverse=True)
    for path in made[1 + KEPT :]:
        remove_folder(path)
