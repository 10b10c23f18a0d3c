"""Part 3: what missing and wrong reports do to what is published."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.publisher import PUBLISHED
from gdelphi.inspect.result import Chart, NotApplicable, PartResult, ResultTable, series
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.inspect.wrong_reports import FAULTS, with_fault, without_day
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.pack import Pack

PART: Final = 3
SHARES: Final = (0.01, 0.05, 0.20)
DAYS: Final = 14  # last days whose rows are at fault
ORIGINS: Final = 2
MEMBERS: Final = (PUBLISHED, "stack", "profiles", "direct", "atoms")
JUDGED: Final = 0.05  # the share that the verdict speaks of

MemberAnswers = dict[str, FloatArray]
"""member -> probabilities [target, stream, code]"""


@dataclass(frozen=True)
class Movement:
    """How far probabilities have moved."""

    mean: float
    high: float
    """95% have moved by less"""
    largest: float


def movement(before: FloatArray, after: FloatArray) -> Movement:
    """Of two arrays of probabilities; undefined ones are left out."""
    change = np.abs(after - before)
    known = change[~np.isnan(change)]
    if not len(known):
        return Movement(0.0, 0.0, 0.0)
    return Movement(float(known.mean()), float(np.quantile(known, 0.95)), float(known.max()))


def answers_at(predictor: Predictor, end: int) -> MemberAnswers:
    """What members say of the roots on the day after a position."""
    origin = predictor.sequences.day(end)
    said = predictor.forecasts_at(origin, ("root",)).answers["root"]
    return {
        member: np.array([[getattr(one, target) for one in said[member]] for target in TARGETS])
        for member in MEMBERS
        if member in said
    }


def inspect_robustness(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Change of probabilities under faults of the last days' rows."""
    predictor = subject.predictor
    if not predictor.path("root").exists():
        raise NotApplicable(
            f"what the model publishes has not been fitted: `gdelphi calibrate --model "
            f"{subject.folder}` does"
        )
    random = subject.random(PART)
    clouds = Clouds(measures_folder(predictor.settings))
    ends = np.flatnonzero(predictor.pack.present)[-ORIGINS:].tolist()
    total = 2 * len(ends) + len(ends) * (len(FAULTS) * len(SHARES) + 1)
    done = 0
    found: dict[tuple[str, float], list[MemberAnswers]] = {}
    known, ordinary = [], []
    for end in ends:
        known.append(answers_at(predictor, end))
        ordinary.append(answers_at(predictor, end - 1))
        done += 2
        on_step(done, total)
        days = list(range(max(end - DAYS + 1, 0), end + 1))
        for fault in FAULTS:
            for share in SHARES:
                pack = with_fault(predictor.pack, clouds, days, fault, share, random)
                found.setdefault((fault, share), []).append(_asked(predictor, pack, end))
                done += 1
                on_step(done, total)
        pack = without_day(predictor.pack, end)
        found.setdefault(("the last day is missing", 1.0), []).append(_asked(predictor, pack, end))
        done += 1
        on_step(done, total)
    moved = {
        key: {member: _moved(known, after, member) for member in known[0]}
        for key, after in found.items()
    }
    usual = {member: _moved(known, ordinary, member) for member in known[0]}
    return _result(moved, usual, [str(predictor.sequences.day(end)) for end in ends])


def _asked(predictor: Predictor, pack: Pack, end: int) -> MemberAnswers:
    return answers_at(predictor.with_pack(pack), end)


def _moved(before: list[MemberAnswers], after: list[MemberAnswers], member: str) -> Movement:
    return movement(
        np.stack([answers[member] for answers in before]),
        np.stack([answers[member] for answers in after]),
    )


def _result(
    moved: dict[tuple[str, float], dict[str, Movement]],
    usual: dict[str, Movement],
    origins: list[str],
) -> PartResult:
    worst = max(FAULTS, key=lambda fault: moved[fault, JUDGED][PUBLISHED].mean)
    at, day = moved[worst, JUDGED][PUBLISHED], usual[PUBLISHED]
    steady = at.mean <= day.mean
    verdict = (
        f"{JUDGED:.0%} of rows at fault move a published probability by {100 * at.mean:.2f} points "
        f"in the mean, where a day moves it by {100 * day.mean:.2f}"
    )
    if not steady:
        verdict += ": the forecast hangs on single reports"
    shown = [
        series(f"rows {fault}", [100 * share for share in SHARES],
               [100 * moved[fault, share][PUBLISHED].mean for share in SHARES])
        for fault in FAULTS
    ]  # fmt: skip
    line = series(
        "a day's usual change", [100 * share for share in SHARES], [100 * day.mean] * len(SHARES),
        "guide",
    )  # fmt: skip
    rows = [
        (
            f"{fault}, {share:.0%}" if share < 1 else fault,
            *(f"{100 * one.mean:.2f}" for one in by_member.values()),
        )
        for (fault, share), by_member in moved.items()
    ]
    rows.append(("a day's usual change", *(f"{100 * one.mean:.2f}" for one in usual.values())))
    return PartResult(
        verdict,
        _words(moved, worst, origins),
        (
            Chart(
                "Published probabilities", "rows at fault, per cent", "mean change in points",
                (*shown, line), log_x=True,
            ),
        ),
        (ResultTable("Mean change in points, by member", ("fault", *usual), tuple(rows)),),
        tuple(
            (f"{fault} {share:g}: mean change", by_member[PUBLISHED].mean)
            for (fault, share), by_member in moved.items()
        ),
        alarm=not steady,
    )  # fmt: skip


def _words(
    moved: dict[tuple[str, float], dict[str, Movement]], worst: str, origins: list[str]
) -> str:
    at = moved[worst, JUDGED][PUBLISHED]
    missing = moved["the last day is missing", 1.0][PUBLISHED]
    return (
        f"Rows of the last {DAYS} days before {' and '.join(origins)} were made to vanish, to come "
        "twice, or to carry another code, and everything was computed again from the changed days: "
        "stack, network and their combination. The dashed line is what a day usually changes, from "
        "one origin to the next. Of all probabilities 95% move by less than "
        f"{100 * at.high:.1f} points at {JUDGED:.0%} ({worst}), none by more than "
        f"{100 * at.largest:.1f}; without the last day at all the mean is "
        f"{100 * missing.mean:.2f}. Descriptors of days, from which futures are drawn, were left "
        "as they are."
    )
