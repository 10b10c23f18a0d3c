"""Inspecting: what `gdelphi inspect` does.

    model + the store's days -> parts, one after the other -> inspect.html, inspect.json

A part that does not apply to a model says why, in a line; the others go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from gdelphi import __version__
from gdelphi.common.errors import ConfigError, GdelphiError
from gdelphi.common.files import write_json_atomically, write_text_atomically
from gdelphi.common.settings import Settings
from gdelphi.inspect.page import InspectedPart, render
from gdelphi.inspect.parts import PARTS, Part
from gdelphi.inspect.subject import Subject, open_subject
from gdelphi.measures.packing import OnPacked

OnPart = Callable[[str, int, int], None]
"""called with a part's title, its steps done and its steps to do"""


@dataclass(frozen=True)
class Inspection:
    """What was found."""

    model: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[InspectedPart, ...]
    made: str
    seconds: float

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "gdelphi": __version__,
            "model": self.model,
            "made": self.made,
            "seconds": self.seconds,
            "facts": dict(self.facts),
            "parts": [part.plain() for part in self.parts],
        }


@dataclass(frozen=True)
class InspectResult:
    """What `gdelphi inspect` did."""

    inspection: Inspection
    page: Path
    data: Path


def chosen_parts(numbers: Sequence[str]) -> tuple[Part, ...]:
    """The parts of these numbers, in the order of the page; all of them where none is named."""
    known = {str(part.number): part for part in PARTS}
    strange = [number for number in numbers if number not in known]
    if strange:
        raise ConfigError(
            f"--only: no part {', '.join(strange)}; there are "
            + "; ".join(f"{part.number} {part.title.lower()}" for part in PARTS)
        )
    return tuple(part for part in PARTS if not numbers or str(part.number) in numbers)


def inspect_model(
    settings: Settings,
    model: Path,
    out: Path | None = None,
    *,
    only: Sequence[str] = (),
    seed: int = 0,
    orders: tuple[float, ...] = (0.5, 2.0),
    on_part: OnPart = lambda *_: None,
    on_packed: OnPacked | None = None,
) -> InspectResult:
    """Look at a model, part by part, and write the page and its numbers into a folder."""
    parts = chosen_parts(only)
    subject = open_subject(settings, model, seed=seed, orders=orders, on_packed=on_packed)
    inspection = inspect_subject(subject, parts, on_part)
    folder = out or settings.store.parent / "inspect" / model.resolve().name
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "inspect.html", folder / "inspect.json"
    write_json_atomically(data, inspection.plain())
    write_text_atomically(
        page, render(inspection.model, inspection.facts, inspection.parts, inspection.made)
    )
    return InspectResult(inspection, page, data)


def inspect_subject(
    subject: Subject, parts: Sequence[Part], on_part: OnPart = lambda *_: None
) -> Inspection:
    """The parts of an opened subject."""
    began = perf_counter()
    found = [_look(part, subject, on_part) for part in parts]
    return Inspection(
        model=str(subject.folder),
        facts=_facts(subject),
        parts=tuple(found),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(perf_counter() - began, 1),
    )


def _look(part: Part, subject: Subject, on_part: OnPart) -> InspectedPart:
    began = perf_counter()
    on_part(part.title, 0, 1)
    try:
        result = part.look(subject, lambda done, total: on_part(part.title, done, total))
    except GdelphiError as error:
        # Not only NotApplicable: what a part needs may be missing or damaged, and the error says
        # what to do about it.
        on_part(part.title, 1, 1)
        reason = " ".join(str(error).split())
        return InspectedPart(part.number, part.title, None, reason, 0.0)
    return InspectedPart(part.number, part.title, result, "", round(perf_counter() - began, 1))


def _facts(subject: Subject) -> tuple[tuple[str, str], ...]:
    """What a reader has to know of the model first."""
    config, training = subject.model.config, subject.trained.training
    kept = f"step {training.get('best_step', 0):,} of {training.get('step', 0):,}"
    facts = [
        ("Kept", kept if subject.is_trained else "no step: the weights are untrained"),
        ("Width, heads", f"{config.width}, {config.heads}"),
        ("Decoder, transport", f"{config.layers} and {config.transport_layers} blocks"),
        ("Space", f"{config.dimension} dimensions"),
    ]
    if subject.opened is None:
        return (*facts, ("Days", f"none: {subject.reason}"))
    pack = subject.predictor.pack
    return (*facts, ("Days", f"{pack.facts.days:,} of {len(pack.facts.streams)} streams"))
