"""Benchmark: what forecasts and backtests cost.

    python benchmarks/forecast.py --model MODEL [--store STORE] [--config gdelphi.toml]
                                  [--futures 100] [--days 6]

(a) Sampling at an origin (all streams, all futures) against one forward pass of the network over
    the same contexts: how much futures add to what the context costs. Taken in turns, medians, so
    that a noisy machine touches both alike.
(b) The whole week against tomorrow alone: predictions of all streams with everything that is
    stored, taken in turns.
(c) A backtest of tomorrow and one of the week: seconds of a day with all forecasters, over a few
    days, and by that of 60 days.
(d) CPU seconds of a day of a backtest by its parts, in this process alone. Days after the first of
    a run are cheaper: words and encoded days of the past are kept.
"""

import argparse
import tempfile
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import torch

from gdelphi.common.settings import load_settings
from gdelphi.forecast.calibrate import ensure_calibrated
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.tables import prediction_tables
from gdelphi.forecast.week_tables import week_tables
from gdelphi.judge.backtest import BacktestRequest, backtest
from gdelphi.judge.day import BacktestDay, BacktestOptions
from gdelphi.judge.futures import text_can_be_scored
from gdelphi.model.sampler import STREAMS_AT_ONCE

ROUNDS = 5


@torch.no_grad()
def forward_pass(predictor: Predictor, end: int) -> float:
    """Seconds of the network alone, over the last days of all streams."""
    sampler, total = predictor.sampler, 0.0
    for start in range(0, len(predictor.streams), STREAMS_AT_ONCE):
        streams = np.arange(start, min(start + STREAMS_AT_ONCE, len(predictor.streams)))
        batch = sampler._maker.make(streams, np.full(len(streams), end))
        began = perf_counter()
        sampler.model(batch.past)
        total += perf_counter() - began
    return total


def tables_of(predictor: Predictor, origin: date, week: bool) -> None:
    """Predict, and make the tables that are stored."""
    predictions = predictor.predict(origin, week=week)
    prediction_tables(predictions)
    week_tables(predictions, predictor.pack)


def timed(work: object, *given: object) -> float:
    began = perf_counter()
    work(*given)  # type: ignore[operator]
    return perf_counter() - began


def parts_of_a_day(predictor: Predictor, days: list[date], futures: int) -> dict[str, float]:
    """CPU seconds of a day by part, the mean over days; the first is not counted."""
    options = BacktestOptions(futures=futures, text=text_can_be_scored())
    judge = BacktestDay(predictor.settings, predictor, options)
    judge.day(days[0])
    spent = {"whole day": 0.0, "asking": 0.0, "whole futures": 0.0, "expected day": 0.0}

    def timing(owner: object, name: str, part: str) -> None:
        work = getattr(owner, name)

        def timed_work(*given: object) -> object:
            began = process_time()
            try:
                return work(*given)
            finally:
                spent[part] += process_time() - began

        setattr(owner, name, timed_work)

    timing(judge, "ask", "asking")
    timing(judge._futures, "day", "whole futures")
    if judge._expected is not None:
        timing(judge._expected, "day", "expected day")
    began = process_time()
    for day in days[1:]:
        judge.day(day)
    spent["whole day"] = process_time() - began
    return {part: seconds / (len(days) - 1) for part, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--days", type=int, default=6)
    given = parser.parse_args()
    settings = load_settings(given.config, {"store": given.store}).settings
    predictor = Predictor(settings, given.model, number=given.futures)
    sampler, last = predictor.sampler, predictor.target_days("test")[-1]
    forward_pass(predictor, sampler.position(last))  # the first pass is slower than all others
    passes, samples = [], []
    for round_number in range(ROUNDS):
        origin = last - timedelta(days=round_number)
        passes.append(forward_pass(predictor, sampler.position(origin)))
        samples.append(timed(sampler._at, origin))
    shape = f"{len(predictor.streams)} streams x {given.futures} futures"
    one, whole = median(passes), median(samples)
    print(f"{shape}: {whole:.2f} s, {whole / one:.1f} times one forward pass ({one:.2f} s)")
    ensure_calibrated(predictor)
    tomorrow, weeks = [], []
    for round_number in range(ROUNDS):
        origin = last - timedelta(days=ROUNDS + round_number)
        tomorrow.append(timed(tables_of, predictor, origin, False))
        weeks.append(timed(tables_of, predictor, origin - timedelta(days=ROUNDS), True))
    alone, whole = median(tomorrow), median(weeks)
    print(f"tomorrow alone {alone:.2f} s, the week {whole:.2f} s: {whole / alone:.2f} times")
    days = predictor.target_days("test")[-given.days :]
    with_text = ", ".join(
        f"{part} {seconds:.2f}"
        for part, seconds in parts_of_a_day(predictor, days, given.futures).items()
    )
    print(f"CPU seconds of a day of a backtest, {len(predictor.streams)} streams: {with_text}")
    for horizon in (1, 7):
        with tempfile.TemporaryDirectory() as folder:
            options = BacktestOptions(futures=given.futures, horizon=horizon)
            request = BacktestRequest(
                given.model, Path(folder), since=days[0], until=days[-1], options=options
            )
            a_day = timed(backtest, settings, request) / len(days)
        print(
            f"backtest to horizon {horizon}, {len(days)} days, {len(predictor.streams)} streams: "
            f"{a_day:.1f} s a day with loading; 60 days would take {a_day:.1f} minutes"
        )


if __name__ == "__main__":
    main()
