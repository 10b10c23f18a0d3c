"""Tables of a backtest from files made by hand, and the controls."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gdelphi.common.errors import JudgeError
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.judge.compare import JudgedForecasts
from gdelphi.judge.day import cell_columns
from gdelphi.judge.expected import ExpectedScore, expected_table
from gdelphi.judge.files import BacktestFolder
from gdelphi.judge.futures import FutureScore, future_table
from gdelphi.judge.tables import (
    captured_fractions,
    ensemble_scores,
    forecaster_scores,
    read_judged,
    share_scores,
    shuffle_days,
    summarise,
)
from gdelphi.scores.probabilities import brier, skill
from gdelphi.scores.rouge import Rouge

STREAMS = ("KE", "UP")
CODES = ("01", "05", "14", "19")
SHAPE = (len(STREAMS), len(CODES), len(TARGETS))
FIRST = date(2024, 1, 1)
DAYS = 80


def days_of(number: int = DAYS) -> list[date]:
    return [FIRST + timedelta(days=ago) for ago in range(number)]


def made(
    probabilities: dict[str, FloatArray], outcome: FloatArray, folder: Path, rates: Any = 0.5
) -> Any:
    """A backtest of forecasts [day, stream, code, target]."""
    there = BacktestFolder(folder)
    origin = {"asked": {"forecasters": list(probabilities)}, "first_allowed": FIRST.isoformat()}
    there.begin(origin, {})
    columns = cell_columns(STREAMS, CODES)
    given = np.broadcast_to(np.asarray(rates, dtype=np.float64), SHAPE).ravel()
    there.write_cells(pa.table({**columns, "training_rate": given}))
    for number, day in enumerate(days_of(len(outcome))):
        values = {name: values_of[number].ravel() for name, values_of in probabilities.items()}
        table = pa.table({**columns, "outcome": outcome[number].ravel(), **values})
        shares = share_rows(number)
        there.write_day(
            day,
            {
                "probabilities": table,
                "shares": shares,
                "expected": expected_rows(number),
                "futures": future_rows(number),
            },
        )
    return there


def expected_rows(number: int) -> pa.Table:
    """The decoder is 10% nearer than its start, whatever the day."""
    far = 0.5 + 0.01 * number
    rouge = Rouge(0.6, 0.4, 0.5)
    return expected_table(
        [
            ExpectedScore(stream, name, part * far, rouge)
            for stream in STREAMS
            for name, part in (("decoder", 0.9), ("start", 1.0))
        ]
    )


def share_rows(number: int) -> pa.Table:
    """Published is twice as good as recency, and always inside its wider interval."""
    random = np.random.default_rng(number)
    cells = len(STREAMS) * len(CODES)
    scores = random.random(cells)
    return pa.table(
        {
            "forecaster": ["published"] * cells + ["recency"] * cells,
            "stream": [stream for stream in STREAMS for _ in CODES] * 2,
            "code": [*CODES] * len(STREAMS) * 2,
            "outcome": np.full(2 * cells, 0.1),
            "crps": np.concatenate([scores, 2 * scores]),
            "pit": random.random(2 * cells),
            "held_50": np.tile([0.0, 1.0], cells),
            "held_90": np.ones(2 * cells),
        }
    )


def future_rows(number: int) -> pa.Table:
    """On every second day one stream has none to compare with, on one day an ensemble has none."""
    rows = []
    for stream in STREAMS[: 1 + number % 2]:
        rows.append(FutureScore(stream, "tilted", 9, 0.75, 0.5, Rouge(0.3, 0.2, 0.1)))
        if number != 4:
            rows.append(FutureScore(stream, "recency", 9, 1.0, 0.6))
        rows.append(FutureScore(stream, "brief", 0, np.nan, np.nan, Rouge(0.5, 0.4, 0.3)))
    return future_table(rows)


def chances(seed: int = 0) -> FloatArray:
    """Probabilities that move from day to day, [day, stream, code, target]."""
    random = np.random.default_rng(seed)
    return 1 / (1 + np.exp(-random.normal(scale=1.5, size=(DAYS, *SHAPE))))


def happened(probabilities: FloatArray, seed: int = 1) -> FloatArray:
    drawn = np.random.default_rng(seed).random(probabilities.shape) < probabilities
    return drawn.astype(np.float64)


def lines_of(judged: JudgedForecasts, cells: Any = "all") -> dict[tuple[str, str], Any]:
    return {(line.forecaster, line.target): line for line in forecaster_scores(judged, cells)}


# --- controls -------------------------------------------------------------------------------------


def test_a_perfect_forecaster_has_no_error(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    judged = read_judged(made({"stack": truth, "perfect": outcome}, outcome, tmp_path), days_of())
    for target in TARGETS:
        line = lines_of(judged)["perfect", target]
        assert line.brier == line.calibration_error == line.reliability == 0
        assert line.log_score == pytest.approx(0, abs=1e-9)
        assert (line.skill.value, line.skill.low, line.skill.high) == (1, 1, 1)
        assert line.p_value < 1e-6


def test_the_base_rate_gets_the_uncertainty(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    rate = np.broadcast_to(outcome.mean(axis=(0, 1, 2)), outcome.shape)
    judged = read_judged(made({"stack": truth, "rate": rate}, outcome, tmp_path), days_of())
    for target in TARGETS:
        line = lines_of(judged)["rate", target]
        assert line.brier == pytest.approx(line.uncertainty)
        assert line.reliability == pytest.approx(0, abs=1e-12)
        assert line.resolution == pytest.approx(0, abs=1e-12)
        assert line.skill.high < 0


def test_skill_vanishes_when_days_are_shuffled(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    rate = np.broadcast_to(truth.mean(axis=0), truth.shape)
    # Half of what is known: with all of it, shuffled days would make it far worse than the stack.
    cautious = rate + 0.2 * (truth - rate)
    judged = read_judged(made({"stack": rate, "model": cautious}, outcome, tmp_path), days_of())
    before, after = lines_of(judged), lines_of(shuffle_days(judged))
    for target in TARGETS:
        assert before["model", target].skill.low > 0.05
        left = after["model", target].skill
        assert left.value < 0.01
        assert left.value < before["model", target].skill.low
    for target in TARGETS:
        total = [one.outcomes[target].sum() for one in (judged, shuffle_days(judged))]
        assert total[0] == total[1]


def test_two_equal_forecasters_are_not_told_apart(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    noise = np.random.default_rng(3).normal(scale=0.1, size=(2, *truth.shape))
    one, other = np.clip(truth + noise, 0, 1)
    judged = read_judged(made({"stack": one, "model": other}, outcome, tmp_path), days_of())
    for target in TARGETS:
        line = lines_of(judged)["model", target]
        assert line.skill.low < 0 < line.skill.high
        assert line.p_value > 0.05


# --- tables ---------------------------------------------------------------------------------------


def test_scores_are_means_over_the_chosen_cells(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    outcome[:, 0, 0, 2] = np.nan
    rates = np.full(SHAPE, 0.5)
    rates[1, 2] = 0.99
    model = np.clip(truth + 0.1, 0, 1)
    judged = read_judged(
        made({"stack": truth, "model": model}, outcome, tmp_path, rates), days_of()
    )
    line = lines_of(judged)["model", "surge"]
    errors = brier(model[..., 2], outcome[..., 2])
    assert line.number == DAYS * (SHAPE[0] * SHAPE[1] - 1)
    assert line.days == DAYS
    assert line.brier == pytest.approx(np.nanmean(errors))
    assert line.skill == skill(errors, brier(truth[..., 2], outcome[..., 2]))
    active = lines_of(judged, "active")["model", "occurs"]
    chosen = np.ones(SHAPE[:2], dtype=bool)
    chosen[1, 2] = False
    assert active.number == DAYS * chosen.sum()
    assert active.brier == pytest.approx(brier(model[..., 0], outcome[..., 0])[:, chosen].mean())
    parts = line.reliability - line.resolution + line.uncertainty + line.within
    assert parts == pytest.approx(line.brier)


def test_half_way_to_the_oracle_is_a_half(tmp_path: Path) -> None:
    outcome = np.zeros((20, *SHAPE))
    flat = np.ones((20, *SHAPE))
    probabilities = {"stack": flat, "model": flat * 0.75**0.5, "fair oracle": flat * 0.5**0.5}
    judged = read_judged(made(probabilities, outcome, tmp_path), days_of(20))
    lines = list(captured_fractions(list(forecaster_scores(judged, "all"))))
    assert {line.forecaster for line in lines} == {"stack", "model"}
    for line in lines:
        assert line.fraction == pytest.approx(0.5 if line.forecaster == "model" else 0)


def test_a_summary_has_all_tables(tmp_path: Path) -> None:
    truth = chances()
    outcome = happened(truth)
    folder = made({"published": truth, "stack": truth * 0.9}, outcome, tmp_path)
    summary = summarise(folder)
    streams = {line["part"] for line in summary["by_stream"]}
    classes = {line["part"] for line in summary["by_class"]}
    assert streams == set(STREAMS)
    assert len(classes) == 4
    for name, narrow in (("by_stream", streams), ("by_class", classes)):
        cells = [
            line["number"]
            for line in summary[name]
            if (line["forecaster"], line["target"]) == ("stack", "occurs")
        ]
        assert len(cells) == len(narrow)
        assert sum(cells) == DAYS * SHAPE[0] * SHAPE[1]
    assert len(summary["calibration"]) == 2 * len(TARGETS)
    assert summary["days"]["number"] == DAYS
    assert "NaN" not in folder.write_summary(summary).read_text()


def test_shares_are_compared_with_the_recency_bootstrap(tmp_path: Path) -> None:
    truth = chances()
    folder = made({"stack": truth}, happened(truth), tmp_path)
    scores = {line.forecaster: line for line in share_scores(folder, days_of())}
    assert scores["published"].skill.value == pytest.approx(0.5)
    assert scores["recency"].skill.value == 0
    assert scores["published"].coverage == {"50": 0.5, "90": 1.0}
    assert scores["published"].number == DAYS * SHAPE[0] * SHAPE[1]
    assert sum(scores["published"].pit) == pytest.approx(1)


def test_futures_are_compared_where_all_have_a_score(tmp_path: Path) -> None:
    truth = chances()
    folder = made({"stack": truth}, happened(truth), tmp_path)
    scores = {line.ensemble: line for line in ensemble_scores(folder, days_of())}
    cells = DAYS + DAYS // 2 - 1
    assert scores["tilted"].number == scores["recency"].number == cells
    assert scores["tilted"].skill.value == pytest.approx(0.25)
    assert scores["brief"].number == 0
    assert np.isnan(scores["brief"].energy)
    assert scores["brief"].rouge["rougeL"] == pytest.approx(0.3)
    assert np.isnan(scores["recency"].rouge["rouge1"])


# --- what cannot be summed up ---------------------------------------------------------------------


def test_files_that_do_not_belong_together_are_told(tmp_path: Path) -> None:
    truth = chances()
    folder = made({"stack": truth}, happened(truth), tmp_path / "one")
    day = days_of()[5]
    table = folder.read_day("probabilities", day)
    folder.write_day(
        day,
        {
            "probabilities": table.drop_columns(["stack"]),
            "shares": share_rows(5),
            "expected": expected_rows(5),
            "futures": future_rows(5),
        },
    )
    with pytest.raises(JudgeError, match=r"2024-01-06.parquet has other cells or forecasters"):
        summarise(folder)
    empty = BacktestFolder(tmp_path / "two")
    empty.begin({"asked": {"forecasters": []}}, {})
    with pytest.raises(JudgeError, match="no day is done"):
        summarise(empty)


def test_the_expected_day_is_held_against_its_start(tmp_path: Path) -> None:
    truth = chances()
    folder = made({"stack": truth}, happened(truth), tmp_path)
    lines = {line["measure"]: line for line in summarise(folder)["expected"]}
    assert lines["decoder"]["skill"]["value"] == pytest.approx(0.1)
    assert lines["decoder"]["skill"]["low"] == pytest.approx(0.1)
    assert lines["start"]["skill"]["value"] == 0
    assert lines["decoder"]["divergence"] == pytest.approx(0.9 * lines["start"]["divergence"])
    assert lines["decoder"]["rouge"]["rouge2"] == pytest.approx(0.4)
