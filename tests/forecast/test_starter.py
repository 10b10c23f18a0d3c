"""Forecasts of a store that no model has been trained on."""

import json
from datetime import timedelta

import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.forecast.starter import starter_forecast
from helpers.command_line import gdelphi
from helpers.measured_world import DAYS, Measured, day_at, measured

AFTER = day_at(DAYS) + timedelta(days=2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


def test_every_root_of_every_stream_has_its_chances(world: Measured) -> None:
    found = starter_forecast(world.settings, as_of=AFTER)
    assert (found.origin, found.target_day) == (day_at(DAYS - 1), day_at(DAYS))
    assert {stream.stream for stream in found.streams} == set(world.pack.facts.streams)
    for stream in found.streams:
        assert len({event.code for event in stream.events}) == 20
        assert all(0 < event.headline < 1 and 0 < event.occurs < 1 for event in stream.events)
        chances = [event.headline for event in stream.events]
        assert chances == sorted(chances, reverse=True)


def test_an_early_origin_sees_no_later_day_and_wants_two_months(world: Measured) -> None:
    early = starter_forecast(world.settings, origin=day_at(70), as_of=AFTER)
    assert early.days == 69  # two of the days up to it are missing
    with pytest.raises(
        ForecastError, match=r"30 days before .* are too few.*`gdelphi ingest --since`"
    ):
        starter_forecast(world.settings, origin=day_at(30), as_of=AFTER)


def test_without_a_model_the_command_says_what_the_shipped_network_says(
    world: Measured,
) -> None:
    place = ("--store", str(world.settings.store), "--as-of", str(AFTER))
    told = gdelphi("forecast", "--streams", "KE", *place, GDELPHI_FLOWS_MODELS="nowhere")
    assert told.returncode == 0, told.stderr
    assert "no model has been trained on this store" in told.stdout
    assert told.stdout.count("\nKE ") == 8
    said = gdelphi("forecast", "--json", *place, GDELPHI_FLOWS_MODELS="nowhere")
    content = json.loads(said.stdout)
    assert content["model"] is None
    assert len(content["streams"]) == 4
    asked = gdelphi("forecast", "--model", "nowhere/m", *place)
    assert asked.returncode == 1
