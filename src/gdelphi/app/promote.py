"""Which model is in use, and when another takes its place.

    models/current          a link to the folder of the model in use
    models/3f9c2a71b0d4e586 models that are or were in use, named by their fingerprint
    models/promotions.jsonl who decided what, when, on what scores

A challenger takes the place of the model in use if it is not worse on validation B: both are asked
for the same days and streams, and the Brier score of each target, of the roots, is taken relative
to the stack's, so that no target counts more than another. As everywhere a day is answered by a
combination that was fitted on other days (`fit_publisher`), and days that the incumbent was
trained or stopped on are left out.

What is in use is a copy: another training into the challenger's folder must not change it. The link
is replaced in one moment, so a forecast at any time finds a whole model. The log is written before
the link is, so it may hold a switch that did not come about, and never lacks one that did.
"""

import getpass
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import mean
from typing import Any, Final, Literal

from gdelphi.common.checksums import CHECKSUMS
from gdelphi.common.errors import PromotionError, TrainingError
from gdelphi.common.files import (
    alone,
    atomic_write,
    remove_folder,
    remove_left_over,
    text_digest,
)
from gdelphi.common.lines import append_line
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import model_fingerprint
from gdelphi.forecast.calibrate import ensure_calibrated
from gdelphi.forecast.members import model_members
from gdelphi.forecast.predictor import BEFORE, Predictor
from gdelphi.forecast.publisher import (
    BLOCKS,
    PublishedChoice,
    fit_publisher,
)
from gdelphi.measures.profiles import read_profiles
from gdelphi.model.checkpoint import check_model_files

CURRENT: Final = "current"
LOG: Final = "promotions.jsonl"
NOT_COPIED: Final = ("state", ".lock", ".*.part")
Action = Literal["promoted", "kept", "rolled back", "in use already"]


@dataclass(frozen=True)
class ModelComparison:
    """Two models on the same days. Scores are Brier scores over the stack's: 1 is as good as it,
    less is better."""

    since: date
    until: date
    days: int
    streams: int
    targets: Mapping[str, tuple[float, float]]
    """target -> the challenger's, the incumbent's"""

    @property
    def challenger(self) -> float:
        return mean(scores[0] for scores in self.targets.values())

    @property
    def incumbent(self) -> float:
        return mean(scores[1] for scores in self.targets.values())

    @property
    def worse(self) -> bool:
        return self.challenger > self.incumbent


@dataclass(frozen=True)
class PromotionResult:
    """What became of a challenger, or of a way back."""

    action: Action
    link: Path
    current: str
    """name of the model in use now"""
    previous: str | None
    """and of the one before"""
    reason: str
    compared: ModelComparison | None = None


def current_link(settings: Settings) -> Path:
    """The link to the model in use, whether or not there is one."""
    return settings.flows.models / CURRENT


def model_in_use(settings: Settings) -> Path | None:
    """The folder of the model in use; None if there is none yet.

    The folder itself and not the link: a forecast reads a model's files one after another, and the
    link may be switched meanwhile.
    """
    link = current_link(settings)
    if link.is_symlink() and not link.exists():
        raise PromotionError(
            f"{link} points to {link.readlink()}, which is gone: bring it back from a copy, or "
            "put another in use with `gdelphi promote --model FOLDER --force`"
        )
    return link.resolve() if link.exists() else None


# --- promotion ------------------------------------------------------------------------------------


def promote(
    settings: Settings, challenger: Path, *, force: bool = False, on_step: OnStep = silent
) -> PromotionResult:
    """Put a model in use if it is not worse than the one that is."""
    challenger = challenger.resolve()
    with _alone(settings):
        on_step("opening the challenger")
        predictor = Predictor(settings, challenger)
        ensure_calibrated(predictor, on_step)
        name = model_fingerprint(challenger)
        incumbent = _incumbent(settings, force=force)
        link, before = current_link(settings), incumbent.name if incumbent else None
        if incumbent and before == name:
            sound = _problem(incumbent) is None
            _copy(challenger, incumbent)
            reason = "it is the same model" if sound else "its damaged copy was replaced"
            return PromotionResult("in use already", link, name, _previous(settings), reason)
        compared = None
        if incumbent and not force:
            compared = compare(settings, predictor, incumbent, on_step=on_step)
            if compared.worse:
                reason = f"worse on validation B: {_scores(compared)}"
                _log(settings, "kept", before, str(before), challenger, reason, compared)
                return PromotionResult(
                    "kept", link, str(before), _previous(settings), reason, compared
                )
        reason = _why(incumbent, compared)
        _copy(challenger, settings.flows.models / name)
        _log(settings, "promoted", before, name, challenger, reason, compared)
        _switch(settings, name)
        return PromotionResult("promoted", link, name, before, reason, compared)


def _incumbent(settings: Settings, *, force: bool) -> Path | None:
    link = current_link(settings)
    if link.exists() and not link.is_symlink():
        raise PromotionError(
            f"{link} is a folder, not a link: give it another name beside it, and link to it with "
            f"`ln -s NAME {link}`"
        )
    return None if force and not link.exists() else model_in_use(settings)


def _why(incumbent: Path | None, compared: ModelComparison | None) -> str:
    if compared:
        return f"not worse on validation B: {_scores(compared)}"
    return "forced" if incumbent else "the first model in use"


def _scores(compared: ModelComparison) -> str:
    return f"{compared.challenger:.4f} against {compared.incumbent:.4f} of the stack's Brier score"


def rollback(settings: Settings) -> PromotionResult:
    """Put the model in use that was before; done again, it goes forward again."""
    with _alone(settings):
        incumbent, previous = model_in_use(settings), _previous(settings)
        if incumbent is None or previous is None:
            raise PromotionError(
                f"no model was in use before: {settings.flows.models / LOG} tells what was promoted"
            )
        folder = settings.flows.models / previous
        if not folder.exists():
            raise PromotionError(f"{folder}, which was in use before, is gone: nothing is changed")
        problem = _problem(folder)
        if problem:
            raise PromotionError(f"the model before cannot be used: {problem}. Nothing is changed")
        _log(settings, "rolled back", incumbent.name, previous, folder, "asked for")
        _switch(settings, previous)
        link = current_link(settings)
        return PromotionResult("rolled back", link, previous, incumbent.name, "asked for")


# --- comparing ------------------------------------------------------------------------------------


def compare(
    settings: Settings, challenger: Predictor, incumbent: Path, *, on_step: OnStep = silent
) -> ModelComparison:
    """Both models on validation B of the challenger, less what the incumbent was made with."""
    origin = _origin(incumbent)
    space = challenger.pack.facts.space
    if origin["space"] != space:
        raise PromotionError(
            f"the model in use was made in the space {origin['space']}, this one in {space}: they "
            "cannot be asked for the same days. --force puts it in use without a comparison"
        )
    known = set(origin["pack"]["streams"])
    streams = tuple(stream for stream in challenger.streams if stream in known)
    seen = date.fromisoformat(origin["split"]["validation_a"][1])
    days = [day for day in challenger.target_days("validation_b") if day > seen]
    if not streams or len(days) < BLOCKS:
        raise PromotionError(
            f"the models share {len(streams)} streams and {len(days)} days that neither was "
            "trained on: they cannot be compared. --force puts it in use without a comparison"
        )
    before = [day for part in ("train", "validation_a") for day in challenger.target_days(part)][
        -BEFORE:
    ]
    on_step(f"asking the model in use for {len(days)} days")
    theirs = _judged(settings, incumbent, streams, before, days)
    on_step(f"asking the challenger for {len(days)} days")
    ours = _judged(settings, challenger.folder, streams, before, days)
    targets = {
        target: (_relative(ours[target]), _relative(theirs[target]))
        for target in ours
        if ours[target].cells and theirs[target].cells and ours[target].stack > 0
    }
    if not targets:
        raise PromotionError("no target is defined on the days of validation B: set split.*")
    return ModelComparison(days[0], days[-1], len(days), len(streams), targets)


def _origin(folder: Path) -> dict[str, Any]:
    """What a model was made from, by its training.json."""
    try:
        text = (folder / "training.json").read_text(encoding="utf-8")
        origin: dict[str, Any] = json.loads(text)["origin"]
        origin["space"], origin["pack"]["streams"], origin["split"]["validation_a"][1]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise PromotionError(
            f"the model in use, {folder}, cannot be read ({error!r}): bring it back from a copy, "
            "or take the challenger with --force"
        ) from None
    return origin


def _judged(
    settings: Settings,
    folder: Path,
    streams: tuple[str, ...],
    before: Sequence[date],
    days: Sequence[date],
) -> Mapping[str, PublishedChoice]:
    """Brier scores of the roots, each day answered by what was fitted on others."""
    predictor = Predictor(settings, folder)
    first = predictor.pack.first_day
    history = read_profiles(predictor.settings, "root", streams, since=first, until=days[-1])
    readings = model_members(predictor.sampler, streams, "root")
    return fit_publisher("root", history, readings, before=before, validation_b=days).choices


def _relative(choice: PublishedChoice) -> float:
    """The best combination's score over the stack's, whether or not it would be published: two
    models that both stand behind the stack still differ in their futures."""
    return choice.lowest / choice.stack


# --- folders, link and log ------------------------------------------------------------------------


def _alone(settings: Settings) -> AbstractContextManager[None]:
    folder = settings.flows.models
    return alone(folder, PromotionError(f"another promotion is at work in {folder}: wait for it"))


def _copy(source: Path, folder: Path) -> None:
    """Copy a model without the checkpoint of its training, whole or not at all.

    A folder of that name is taken as it is only if it holds what it is named by: a disk may have
    changed it since, and then the copy takes its place.
    """
    if folder.exists() and _problem(folder) is None:
        return
    remove_left_over(folder.parent)
    with atomic_write(folder) as part:
        shutil.copytree(source, part, ignore=shutil.ignore_patterns(*NOT_COPIED))
        problem = _problem(part, name=folder.name)
        if problem:
            raise PromotionError(f"{source} cannot be copied: {problem}. Nothing is changed")
        remove_folder(folder)


def _problem(folder: Path, name: str | None = None) -> str | None:
    """What is wrong with a model that is to be put in use; None: nothing.

    Its checksums tell, or, for a model that was made before there were any, its name. A model in
    use that was calibrated again has another fingerprint than its name, and sound checksums.
    """
    try:
        check_model_files(folder, "train it again")
        listed = (folder / CHECKSUMS).exists() and name is None
        if not listed and model_fingerprint(folder) != (name or folder.name):
            return f"{folder} does not hold the model that it is named by"
    except (TrainingError, OSError) as error:
        return str(error)
    return None


def _switch(settings: Settings, name: str) -> None:
    link = current_link(settings)
    part = link.with_name(f".{CURRENT}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(name, target_is_directory=True)
    part.replace(link)


def _log(
    settings: Settings,
    action: Action,
    before: str | None,
    after: str,
    source: Path,
    reason: str,
    compared: ModelComparison | None = None,
) -> None:
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "who": _who(),
        "action": action,
        "from": before,
        "to": after,
        "source": str(source),
        "reason": reason,
        "compared": asdict(compared) if compared else None,
    }
    entry["check"] = _check(entry)
    append_line(settings.flows.models / LOG, json.dumps(entry, default=str))


def _check(entry: Mapping[str, Any]) -> str:
    """A mark by which a line that was changed is told."""
    return text_digest(json.dumps(entry, default=str, sort_keys=True))


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return str(os.getuid())


def _previous(settings: Settings) -> str | None:
    """The model that the one in use has taken the place of."""
    incumbent = model_in_use(settings)
    switches = [entry for entry in read_log(settings) if entry["action"] != "kept"]
    for entry in reversed(switches):
        if incumbent and entry["to"] == incumbent.name:
            before: str | None = entry["from"]
            return before
    return None


def read_log(settings: Settings) -> list[dict[str, Any]]:
    """All decisions, the first one first; lines that cannot be read are left out."""
    return read_decisions(settings)[0]


def read_decisions(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """All decisions, the first one first, and which lines cannot be read: one that a killed
    process has cut off, or that somebody has edited, is not to keep models out of use."""
    path = settings.flows.models / LOG
    decisions, problems = [], []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entry["action"], entry["from"], entry["to"]
            if entry.pop("check", None) not in (None, _check(entry)):
                raise ValueError("it was changed")
        except (ValueError, KeyError, TypeError):
            if line.strip():
                problems.append(f"line {number} of {path} cannot be read, and is passed over")
            continue
        decisions.append(entry)
    return decisions, problems
