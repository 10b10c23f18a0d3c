"""The judge of arguments: scores with known values, fair rivals, intervals."""

from math import log

import numpy as np
import pytest

from gdelphi.common.errors import ArgumentsError
from gdelphi.forecast.argument_recency import component_names
from gdelphi.forecast.arguments import ArgumentHistory
from gdelphi.forecast.mixture import EDGES
from gdelphi.forecast.reconstruct import Mixtures, Reconstructor
from gdelphi.judge.arguments import (
    FORECASTERS,
    RECONSTRUCTION,
    JudgedArguments,
    fit_forecasters,
    gain,
    judge,
    table,
)
from gdelphi.scores.probabilities import Bootstrap
from helpers.argument_histories import ArgumentRow, at, history_of, random_history


def told_by(history: ArgumentHistory, **shares: float) -> Reconstructor:
    """A forecaster with given shares of components, the same in all buckets."""
    names = component_names("root")
    row = [shares.get(name.replace(" ", "_"), 0.0) for name in names]
    mixture = np.tile(row, (len(EDGES) + 1, 1))
    mixtures: Mixtures = {("root", kind): mixture for kind in ("actor1", "actor2", "region")}
    return Reconstructor(history, mixtures, (at(0), at(0)))


def test_scores_are_weighted_in_a_cell_and_cells_count_alike() -> None:
    rows: list[ArgumentRow] = [
        ("KE", 0, "141", "A", 3.0), ("KE", 0, "141", "B", 1.0), ("UP", 0, "141", "B", 1.0),
        # Kenya: 3/4 of the weight is the first guess, 1/4 somebody else; in two codes of a root.
        ("KE", 1, "141", "A", 2.0), ("KE", 1, "145", "A", 1.0), ("KE", 1, "145", "C", 1.0),
        # Ukraine: all on what was the second guess of nobody here, but known elsewhere.
        ("UP", 1, "141", "A", 5.0),
    ]  # fmt: skip
    history = history_of(rows, 2)
    forecaster = told_by(history, root_always=0.8, anyone=0.1, somebody_else=0.1)
    judged = judge(history, {"it": forecaster}, [at(1)], ["root"])
    assert [one.kind for one in judged] == ["actor1", "actor2", "region"]
    scores = judged[0].scores["it"]
    kenya = -0.75 * log(0.8 * 0.75 + 0.05) - 0.25 * log(0.1)
    assert scores[0] == pytest.approx([0.75, 0.75, kenya])
    assert scores[1] == pytest.approx([0, 0, -log(0.05)])
    line = table(judged, "it")[0]
    assert (line.cells, line.forecaster) == (2, "it")
    assert line.means == pytest.approx([0.375, 0.375, (kenya - log(0.05)) / 2])


def test_what_never_changes_is_foreseen_by_all() -> None:
    history = history_of([("KE", day, "141", "A", 1.0) for day in range(60)], 60)
    forecasters = fit_forecasters(history, history.days[20:40], ["root"])
    for line in table(judge(history, forecasters, history.days[45:], ["root"])):
        assert line.means[:2] == (1, 1)
        assert line.means[2] < 0.1
        assert line.cells == 15


def test_the_reconstruction_follows_a_drift_that_frequencies_miss() -> None:
    rows: list[ArgumentRow] = [
        ("KE", day, "141", "ABCDEFGH"[day // 20 % 8], 1.0) for day in range(200)
    ]
    history = history_of(rows, 200)
    forecasters = fit_forecasters(history, history.days[60:110], ["root"])
    assert list(forecasters) == list(FORECASTERS)
    lines = {
        line.forecaster: line
        for line in table(judge(history, forecasters, history.days[120:], ["root"]))
        if line.kind == "actor1"
    }
    assert lines["frequencies"].gains[2].low > 0
    assert lines["frequencies"].gains[0].low > 0
    assert lines[RECONSTRUCTION].means[0] > 0.8
    assert lines[RECONSTRUCTION].gains[0].value == 0


def test_days_after_the_last_test_day_do_not_matter() -> None:
    history, garbled = random_history(5, days=60), random_history(6, days=60)
    kept = history.observed["actor1"]
    late = garbled.observed["actor1"]
    rows: list[ArgumentRow] = []
    for source, observed, own in ((history, kept, kept.day <= 50), (garbled, late, late.day > 50)):
        rows += [
            (source.streams[stream], day, source.events[event][2], observed.values[value], weight)
            for stream, day, event, value, weight in zip(
                *(column[own].tolist() for column in observed[1:]), strict=True
            )
        ]
    other = history_of(rows, 60)
    results = []
    for one in (history, other):
        forecasters = fit_forecasters(one, one.days[20:35], ["root"])
        results.append(judge(one, forecasters, one.days[36:51], ["root"])[0].scores)
    for name, scores in results[0].items():
        assert np.array_equal(scores, results[1][name])


def test_the_gain_is_the_mean_difference_over_cells() -> None:
    random = np.random.default_rng(0)
    days, day = tuple(at(number) for number in range(40)), np.sort(random.integers(0, 40, 300))
    difference = random.normal(0.1, 1, 300)
    judged = JudgedArguments("root", "actor1", days, day, np.arange(300), {})
    result = gain(judged, difference, Bootstrap(resamples=400))
    assert result.value == pytest.approx(difference.mean())
    assert result.low < result.value < result.high
    assert 2 / 300**0.5 < result.high - result.low < 6 / 300**0.5


def test_kinds_that_no_row_has_and_days_outside_are_left_out() -> None:
    history = history_of([("KE", day, "141", "", 1.0) for day in range(10)], 10)
    forecaster = told_by(history, root_always=1.0)
    judged = judge(history, {"it": forecaster}, [at(0), at(5), at(99)], ["root"])
    assert [one.kind for one in judged] == ["actor1", "actor2"]  # no region is known
    assert len(judged[0].cell) == 1  # nothing comes before the first day
    assert np.isnan(table(judged, "it")[0].gains[0].low)  # too few days to resample


def test_a_reference_that_was_not_judged_is_refused() -> None:
    history = random_history()
    judged = judge(history, {"it": told_by(history, anyone=1.0)}, history.days[5:], ["root"])
    with pytest.raises(ArgumentsError, match="no forecaster 'reconstruction' was judged"):
        table(judged)
