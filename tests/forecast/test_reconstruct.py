"""Who does what to whom, and where: kernels with known values, mixtures, evidence, leakage."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS, FloatArray, Level
from gdelphi.forecast.argument_months import read_arguments
from gdelphi.forecast.argument_recency import (
    HALF_LIVES,
    LAST_SEEN,
    RecencyIndex,
    component_names,
    frequency_component,
    outcomes_by_day,
)
from gdelphi.forecast.arguments import (
    KINDS,
)
from gdelphi.forecast.mixture import (
    EDGES,
    fit_mixture,
    fit_shares,
)
from gdelphi.forecast.precedents import Likely, PastEvent, find_precedents, past_reports
from gdelphi.forecast.reconstruct import Reconstructor, fit_reconstructor
from gdelphi.measures.profiles import standard_events
from gdelphi.store.connection import Store
from helpers.argument_histories import STREAMS, at, history_of, random_history
from helpers.arguments import BLANK, PRAISE, row, store_of


def component_probabilities(
    index: RecencyIndex, component: str, stream: str, code: str
) -> dict[str, float]:
    """A component's distribution in a cell."""
    names = component_names(index.level)
    cells = index.cells(STREAMS.index(stream))[[index.code(code)]]
    mixed = index.mixture(cells, np.eye(len(names))[[names.index(component)]])
    return {
        value: mixed.probability(0, place)
        for value, place in index.place.items()
        if index.seen[place]
    }


# --- kernels --------------------------------------------------------------------------------------


def test_a_kernel_halves_weights_with_every_half_life() -> None:
    rows = [("KE", 0, "145", "A", 2.0), ("KE", 7, "145", "B", 1.0), ("KE", 14, "145", "C", 1.0)]
    index = RecencyIndex(history_of(rows, 20), "actor1", "root")
    index.advance(14)
    assert component_probabilities(index, "root 7", "KE", "14") == pytest.approx(
        {"A": 0.5 / 2, "B": 0.5 / 2, "C": 1 / 2}
    )
    assert component_probabilities(index, "root always", "KE", "14") == pytest.approx(
        {"A": 0.5, "B": 0.25, "C": 0.25}
    )
    assert component_probabilities(index, LAST_SEEN, "KE", "14") == pytest.approx(
        {"A": 0, "B": 0, "C": 1}
    )


def test_an_event_without_a_past_takes_that_of_the_next_wider_scope() -> None:
    rows = [("KE", 0, "141", "A", 1.0), ("KE", 1, "051", "B", 3.0), ("UP", 1, "051", "C", 1.0)]
    index = RecencyIndex(history_of(rows, 5), "actor1", "base")
    index.advance(3)
    assert component_probabilities(index, "base always", "KE", "145")["A"] == 1  # its root's past
    assert component_probabilities(index, "base always", "KE", "190") == pytest.approx(
        {"A": 0.25, "B": 0.75, "C": 0}
    )
    assert component_probabilities(index, LAST_SEEN, "KE", "145")["A"] == 1
    assert component_probabilities(index, LAST_SEEN, "KE", "190")["B"] == 1  # the stream's last day


def test_a_stream_without_a_past_takes_anyone_and_a_world_without_one_nobody() -> None:
    rows = [("KE", 0, "141", "A", 1.0), ("KE", 1, "051", "B", 3.0)]
    index = RecencyIndex(history_of(rows, 5), "actor1", "full")
    index.advance(1)
    for name in component_names("full")[:-1]:
        assert component_probabilities(index, name, "UP", "190") == pytest.approx(
            {"A": 0.5, "B": 0.5}
        )
    assert sum(component_probabilities(index, "somebody else", "UP", "190").values()) == 0
    nothing = RecencyIndex(history_of([("KE", 4, "141", "A", 1.0)], 5), "actor1", "root")
    nothing.advance(2)
    assert component_probabilities(nothing, "root 7", "KE", "14") == {}
    assert (
        nothing.mixture(nothing.cells(0), np.ones((20, len(component_names("root")))) / 13)
        .top(5)[0]
        .size
        == 0
    )


@pytest.mark.parametrize("level", ["root", "base", "full"])
def test_day_by_day_and_all_at_once_give_the_same(level: Level) -> None:
    history = random_history()
    once, daily = (RecencyIndex(history, "actor1", level) for _ in range(2))
    once.advance(30)
    for day in range(31):
        daily.advance(day)
    for name in component_names(level):
        for code in (once.codes[once.code("14" if level == "root" else "141")],):
            assert component_probabilities(once, name, "KE", code) == pytest.approx(
                component_probabilities(daily, name, "KE", code)
            )


@pytest.mark.parametrize("level", ["root", "base", "full"])
def test_what_is_scored_is_what_is_said_and_sums_to_one(level: Level) -> None:
    history, names = random_history(1), component_names(level)
    index = RecencyIndex(history, "actor2", level)
    shares = np.random.default_rng(2).dirichlet(np.ones(len(names)))
    compared = 0
    for _, outcome in outcomes_by_day(index, history.days):
        cells = np.unique(outcome.cell)
        mixed = index.mixture(cells, np.tile(shares, (len(cells), 1)))
        seen = int(index.seen.sum())
        # All that has been seen, and somebody else; nobody at all is known before the first row.
        total = mixed.named.sum(axis=1) + seen * mixed.anyone + shares[-1]
        assert total == pytest.approx(1 if seen else shares[-1])
        for cell, value, probability in zip(
            outcome.cell, outcome.value, outcome.components @ shares, strict=True
        ):
            if index.seen[value]:
                number = int(np.searchsorted(cells, cell))
                assert mixed.probability(number, int(value)) == pytest.approx(probability)
                compared += 1
            else:
                assert probability == pytest.approx(shares[-1])
    assert compared > 30


def test_a_cell_of_decades_ago_leaves_no_broken_numbers() -> None:
    rows = [("KE", 0, "141", value, 1.0) for value in "ABC"] + [("KE", 1, "051", "D", 1.0)]
    index = RecencyIndex(history_of(rows, 3), "actor1", "root")
    for origin in (2, 3000, 7000, 7500, 9000):
        index.advance(origin)
        assert sum(component_probabilities(index, "root 7", "KE", "14").values()) == pytest.approx(
            1
        )
    assert component_probabilities(index, "root 30", "KE", "14") == pytest.approx(
        {"A": 1 / 3, "B": 1 / 3, "C": 1 / 3, "D": 0}
    )


def test_the_likeliest_come_first_and_ties_go_by_value() -> None:
    rows = [
        ("KE", 0, "141", value, weight) for value, weight in zip("DCBA", (1, 2, 2, 2), strict=True)
    ]
    index = RecencyIndex(history_of(rows, 3), "actor1", "root")
    index.advance(0)
    names = component_names("root")
    mixed = index.mixture(index.cells(0)[[13]], np.eye(len(names))[[names.index("root always")]])
    assert mixed.top(2)[0].tolist() == [0, 1]
    assert mixed.top(9)[0].tolist() == [0, 1, 2, 3]


def test_an_index_does_not_go_back() -> None:
    index = RecencyIndex(random_history(), "actor1", "root")
    index.advance(5)
    with pytest.raises(ArgumentsError, match="cannot go back"):
        index.advance(4)
    with pytest.raises(ArgumentsError, match="no standard event '145' at level root"):
        index.code("145")


# --- fitting --------------------------------------------------------------------------------------


def drawn(shares: FloatArray, number: int = 4000) -> FloatArray:
    """What components say of values drawn from their mixture; each is a distribution of its own."""
    random = np.random.default_rng(3)
    laws = random.dirichlet(np.full(12, 0.4), len(shares))
    values = random.choice(12, number, p=shares @ laws)
    return np.ascontiguousarray(laws[:, values].T)


def test_no_step_of_the_fit_makes_it_worse_and_it_finds_the_shares() -> None:
    truth = np.array([0.6, 0.3, 0.1])
    fit = fit_mixture(drawn(truth), np.ones(4000), np.full(3, 1 / 3), iterations=2000)
    assert fit.converged
    assert np.diff(fit.objective).min() >= -1e-9
    assert fit.shares == pytest.approx(truth, abs=0.06)
    short = fit_mixture(drawn(truth), np.ones(4000), np.full(3, 1 / 3), iterations=2)
    assert not short.converged
    blind = fit_mixture(np.zeros((3, 2)), np.ones(3), np.ones(2))  # what nobody foresaw
    assert blind.shares == pytest.approx([0.5, 0.5])


def test_components_that_are_not_allowed_get_nothing_and_others_never_die_out() -> None:
    history = random_history()
    index = RecencyIndex(history, "actor1", "root")
    outcomes = [outcome for _, outcome in outcomes_by_day(index, history.days[10:])]
    names = component_names("root")
    table = fit_shares(outcomes, names, [frequency_component("root"), "anyone"])
    assert table.shape == (len(EDGES) + 1, len(names))
    assert table.sum(axis=1) == pytest.approx(1)
    assert (table > 0).sum(axis=1).tolist() == [2] * len(table)
    assert (fit_shares(outcomes, names) > 0).all()
    assert fit_shares([], names) == pytest.approx(1 / len(names))


def test_the_fit_turns_to_what_foretells_best() -> None:
    """What was last seen comes again for a while, then another; long kernels lag behind."""
    rows = [("KE", day, "141", "ABCDEFGH"[day // 10 % 8], 1.0) for day in range(160)]
    fitted = fit_reconstructor(history_of(rows, 160), [at(day) for day in range(60, 150)], ["root"])
    table = fitted.mixtures["root", "actor1"]
    names = component_names("root")
    quick = [names.index(name) for name in ("root 7", "stream 7", LAST_SEEN)]
    used = table[2]  # the bucket in which the cell was
    assert used[quick].sum() > 0.8


def test_without_days_there_is_nothing_to_fit() -> None:
    with pytest.raises(ArgumentsError, match="no days to fit"):
        fit_reconstructor(random_history(), [])


# --- what is said ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return store_of(
        tmp_path_factory.mktemp("reconstruct"), [day_of(number) for number in range(12)]
    )


def day_of(number: int) -> list[str]:
    """Police riot twice in Nyanza (one source), nobody once in Western; something is praised."""
    start = 100 * number
    western = {"ActionGeo_ADM1Code": "KE09", "ActionGeo_FullName": "Busia, Western, Kenya"}
    return [
        row(start, SOURCEURL=f"https://news.example/{number}", NumMentions=9),
        row(start + 1, SOURCEURL=f"https://news.example/{number}", NumMentions=8),
        row(start + 2, **BLANK, **western, NumMentions=2),
        row(start + 3, **PRAISE),
    ]


@pytest.fixture(scope="module")
def fitted(settings: Settings) -> Reconstructor:
    history = read_arguments(settings, STREAMS)
    return fit_reconstructor(history, [at(day) for day in range(4, 9)])


def test_likely_arguments_read_well_and_leave_a_remainder(fitted: Reconstructor) -> None:
    arguments = fitted.arguments("KE", "14", at(9))
    assert [candidate.words for candidate in arguments.actor1] == ["Kenyan police", "nobody named"]
    assert [candidate.words for candidate in arguments.actor2] == ["nobody named"]
    assert [candidate.words for candidate in arguments.region] == ["Nyanza", "Western"]
    weights = np.log1p([9, 8, 2])
    police = weights[:2].sum() / weights.sum()
    assert arguments.actor1[0].probability == pytest.approx(police, abs=0.1)
    for kind in KINDS:
        assert 0 < arguments.rest(kind) < 0.2
        assert sum(candidate.probability for candidate in arguments.candidates(kind)) <= 1
    assert arguments.evidence is None


def test_all_levels_are_told_apart(fitted: Reconstructor) -> None:
    assert fitted.arguments("KE", "145", at(9)).actor1[0].words == "Kenyan police"
    full = fitted.arguments("KE", "145", at(9), level="full", most=1)
    assert [candidate.words for candidate in full.actor1] == ["Kenyan police"]


def test_an_event_that_never_was_leans_on_the_stream(fitted: Reconstructor) -> None:
    arguments = fitted.arguments("KE", "193", at(9))
    assert arguments.actor1[0].words == "Kenyan police"
    nothing = fitted.arguments("UP", "193", at(9))
    assert nothing.actor1 == ()
    assert nothing.rest("actor1") == 1


def test_an_earlier_origin_may_be_asked_for_later(fitted: Reconstructor) -> None:
    before = fitted.arguments("KE", "14", at(3))
    fitted.arguments("KE", "14", at(10))
    assert fitted.arguments("KE", "14", at(3)) == before


def test_nothing_after_the_origin_changes_a_byte(
    settings: Settings, fitted: Reconstructor, tmp_path: Path
) -> None:
    """Garbage after the origin: other actors, regions, names and sources."""
    garbage = {
        "Actor1CountryCode": "ABW", "Actor1Type1Code": "AGR", "Actor2CountryCode": "FRA",
        "ActionGeo_ADM1Code": "KE01", "ActionGeo_FullName": "X, Garbage, Kenya",
        "NumMentions": 999,
    }  # fmt: skip
    days = [day_of(number) for number in range(10)]
    days += [
        [row(100 * day + number, **garbage) for number in range(30)]
        + [row(100 * day + 50, ActionGeo_FullName="X, Garbage, Kenya")]
        for day in (10, 11)
    ]
    garbled = read_arguments(store_of(tmp_path, days), STREAMS)
    other = fit_reconstructor(garbled, [at(day) for day in range(4, 9)])
    fitted = Reconstructor(fitted.history, fitted.mixtures, fitted.fitted)  # asked nothing before
    other_settings = settings.model_copy(update={"store": tmp_path / "s.duckdb"})
    with Store(settings).reading() as honest, Store(other_settings).reading() as late:
        for code in ("14", "145", "190", "051"):
            expected = fitted.arguments("KE", code, at(9), connection=honest)
            assert other.arguments("KE", code, at(9), connection=late) == expected
    for key, table in fitted.mixtures.items():
        assert np.array_equal(other.mixtures[key], table)


@pytest.mark.parametrize(
    ("stream", "code", "origin", "complaint"),
    [
        ("FR", "14", at(9), "'FR' was not read"),
        ("KE", "9X", at(9), "no standard event '9X'"),
        ("KE", "14", at(-1), "is not among the days read"),
        ("KE", "14", at(12), "is not among the days read"),
    ],
)
def test_what_cannot_be_told_is_refused(
    fitted: Reconstructor, stream: str, code: str, origin: date, complaint: str
) -> None:
    with pytest.raises(ArgumentsError, match=complaint):
        fitted.arguments(stream, code, origin)


def test_a_level_that_was_not_fitted_is_refused(fitted: Reconstructor) -> None:
    narrow = fit_reconstructor(fitted.history, [at(5)], ["root"])
    with pytest.raises(ArgumentsError, match="nothing was fitted for actor1 at level base"):
        narrow.arguments("KE", "145", at(9))


# --- evidence -------------------------------------------------------------------------------------


def test_evidence_is_recent_told_once_and_not_after_the_origin(
    settings: Settings, fitted: Reconstructor
) -> None:
    with Store(settings).reading() as connection:
        evidence = fitted.arguments("KE", "14", at(9), connection=connection).evidence
    assert evidence is not None
    assert [(row.day, row.mentions) for row in evidence.rows] == [(at(9 - n), 9) for n in range(5)]
    assert evidence.rows[0].event_id == 900
    assert evidence.rows[0].place == "Kisumu, Nyanza, Kenya"
    assert evidence.rows[0].source == "https://news.example/9"
    assert evidence.rows[0].phrase == "Kenyan police riot in violent protest in Kenya"
    assert evidence.phrases[0][0] == "Kenyan police riot in violent protest in Kenya"
    assert sum(share for _, share in evidence.phrases) == pytest.approx(1)


def test_evidence_prefers_the_likely_arguments(settings: Settings) -> None:
    with Store(settings).reading() as connection:
        likely: Likely = {"actor1": {"": 0.9}, "region": {"KE09": 1.0}}
        precedents = find_precedents(connection, "KE", "14", at(9), most=2, likely=likely)
        assert [row.phrase for row in precedents.rows] == [
            "someone riots in violent protest in Kenya"
        ] * 2
        none = find_precedents(connection, "KE", "193", at(9))
        assert (none.rows, none.phrases) == ((), ())
        with pytest.raises(ArgumentsError, match="at level root"):
            find_precedents(connection, "KE", "145", at(9), level="root")


def test_evidence_of_long_ago_is_found_when_there_is_no_other(settings: Settings) -> None:
    with Store(settings).reading() as connection:
        precedents = find_precedents(connection, "KE", "14", at(900), most=3)
        world = find_precedents(connection, "WORLD", "14", at(900), most=3)
    assert [row.day for row in precedents.rows] == [at(11), at(10), at(9)]
    assert world == precedents


def test_past_reports_of_many_events_are_those_of_each(settings: Settings) -> None:
    asked = [
        PastEvent(stream, level, code)
        for stream in ("KE", "UP", "WORLD")
        for level, code in (("root", "14"), ("root", "19"), ("base", "145"), ("full", "1411"))
    ]
    with Store(settings).reading() as connection:
        for origin in (at(9), at(900)):  # among the days, and long after them
            together = past_reports(connection, asked, origin)
            assert together == {one: past_reports(connection, [one], origin)[one] for one in asked}
            assert any(together.values()) and not all(together.values())


# --- on disk --------------------------------------------------------------------------------------


def test_what_is_saved_and_loaded_says_the_same(fitted: Reconstructor, tmp_path: Path) -> None:
    path = tmp_path / "reconstruction.json"
    fitted.save(path)
    again = Reconstructor.load(path, fitted.history)
    fresh = Reconstructor(fitted.history, fitted.mixtures, fitted.fitted)
    assert again.arguments("KE", "14", at(9)) == fresh.arguments("KE", "14", at(9))
    assert again.fitted == fitted.fitted


@pytest.mark.parametrize("damage", ["cut", "version", "component", "sum", "list", "gone"])
def test_a_damaged_file_is_refused(fitted: Reconstructor, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "reconstruction.json"
    fitted.save(path)
    content = json.loads(path.read_text())
    shares = content["mixtures"]["root"]["actor1"]["shares"]
    if damage == "version":
        content["version"] = 0
    elif damage == "component":
        shares["root 8"] = shares.pop("root 7")
    elif damage == "sum":
        shares["root 7"][0] += 1
    path.write_text("[]" if damage == "list" else json.dumps(content))
    if damage == "cut":
        path.write_text(path.read_text()[:-50])
    if damage == "gone":
        path.unlink()
    with pytest.raises(ArgumentsError, match=r"holds no reconstruction .*: fit it again"):
        Reconstructor.load(path, fitted.history)


def test_half_lives_end_with_all_days_alike() -> None:
    assert np.isinf(HALF_LIVES[-1])
    assert frequency_component("base") == "base always"
    assert len(component_names("full")) == 4 * len(HALF_LIVES) + 3


@pytest.mark.parametrize("seed", range(3))
def test_levels_that_share_their_sums_say_what_each_says_alone(seed: int) -> None:
    history = random_history(seed)
    shares = {
        (level, kind): np.random.default_rng(seed).dirichlet(
            np.ones(len(component_names(level))), len(EDGES) + 1
        )
        for level in LEVELS
        for kind in KINDS
    }
    fitted = (history.days[0], history.days[-1])
    together = Reconstructor(history, shares, fitted)
    for day in (30, 20, 35):  # back in time too: nothing later may be left over
        for level, kind in shares:
            alone = Reconstructor(history, {(level, kind): shares[level, kind]}, fitted)
            code = standard_events(level)[3]
            asked = (kind, history.streams[0], code, history.days[day])
            if day == 35:  # the one alone goes the same way
                alone.likely(kind, history.streams[0], code, history.days[20], level=level)
            assert together.likely(*asked, level=level) == alone.likely(*asked, level=level)
