"""One resolver of countries: every code and name that people use, and what is said about them."""

import pytest

from gdelphi.common.errors import ConfigError, UnknownCountry
from gdelphi.common.settings import load_settings
from gdelphi.gdelt.cameo import countries
from gdelphi.gdelt.countries import (
    find_stream,
    find_streams,
    nearest_streams,
    other_names,
    stream_name,
    with_streams,
)


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        ("KE", "KE"), ("ke", "KE"), ("KEN", "KE"), ("Kenya", "KE"), (" kenya ", "KE"),
        ("UA", "UP"), ("UKR", "UP"), ("ukraine", "UP"),
        ("ROM", "RO"), ("ROU", "RO"), ("DEU", "GM"), ("germany", "GM"),
        ("Côte d'Ivoire", "IV"), ("ivory coast", "IV"), ("Burma", "BM"), ("the gambia", "GA"),
        ("DRC", "CG"), ("Timor-Leste", "TT"), ("Turkiye", "TU"), ("uk", "UK"), ("GBR", "UK"),
        ("world", "WORLD"), ("WORLD", "WORLD"), ("The World", "WORLD"), ("SSD", "OD"), ("RB", "RB"),
    ],
)  # fmt: skip
def test_codes_and_names_in_any_case_mean_their_country(text: str, stream: str) -> None:
    assert find_stream(text).stream == stream


def test_every_country_is_found_by_all_that_it_is_called() -> None:
    for country in countries():
        if country.fips is None or country.same_as:
            continue
        for name in (country.fips, country.name, country.cameo, country.iso3):
            assert name is None or find_stream(name).stream == country.fips
            assert name is None or find_stream(name.lower()).stream == country.fips
        for name in other_names(country.fips).aliases:
            if len(name) != 2:  # two letters may be another country's FIPS code, which goes first
                assert find_stream(name).stream == country.fips


def test_two_letters_are_fips_and_a_note_says_where_iso_differs() -> None:
    germany = find_stream("GM")
    assert germany.name == "Germany"
    assert germany.note == (
        "GM is Germany (FIPS 10-4, as GDELT has it), not ISO's Gambia, which is GA here"
    )
    georgia = find_stream("ge")
    assert georgia.stream == "GG"
    assert georgia.note == "GE is no FIPS 10-4 code; by ISO 3166 it is Georgia, GG here"
    assert find_stream("KE").note is None
    assert find_stream("Germany").note is None
    assert "not ISO's Palestinian Territories" in str(find_stream("PS").note)
    assert find_stream("RB").note == "RB is an old code of Serbia, which is RI now"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Keny", "nearest are KE (Kenya)"),
        ("Zimbawe", "ZI (Zimbabwe)"),
        ("korea north", "is no country's code or name"),
        ("Palestine", "take WE (West Bank) or GZ (Gaza Strip)"),
        ("AFR", "Africa has no stream of its own"),
        ("QQ", "'QQ' is no country's code or name. Streams are"),
        ("", "is no country's"),
    ],
)
def test_what_is_no_country_is_refused_with_what_may_be_meant(text: str, told: str) -> None:
    with pytest.raises(UnknownCountry) as raised:
        find_stream(text)
    assert told in str(raised.value)


def test_codes_that_are_known_to_be_there_are_taken_as_they_stand() -> None:
    assert find_stream("qq", ["QQ"]).stream == "QQ"
    assert stream_name("QQ") == "country QQ"
    assert find_stream("GE", ["GG"]).stream == "GG"


def test_a_list_names_each_stream_once() -> None:
    assert [found.stream for found in find_streams("KE, Kenya,, ua")] == ["KE", "UP"]
    assert nearest_streams("guinea", ["PP", "KE"]) == ("PP",)


def test_settings_name_countries_as_people_do() -> None:
    flags = {
        "report.watchlist": ("Kenya", "ua"), "sequences.only": ("DEU", "WORLD"),
        "flows.streams": "ken, Georgia",
    }  # fmt: skip
    settings = with_streams(load_settings(None, flags).settings)
    assert settings.report.watchlist == ("KE", "UP")
    assert settings.sequences.only == ("GM", "WORLD")
    assert settings.flows.streams == "KE,GG"
    assert with_streams(load_settings(None, {"flows.streams": "top50"}).settings)
    for key, value in {
        "report.watchlist": ("Keny",), "sequences.only": ("QQ",), "flows.streams": "Keny",
    }.items():  # fmt: skip
        with pytest.raises(ConfigError, match=f"^{key}: "):
            with_streams(load_settings(None, {key: value}).settings)
    with pytest.raises(ConfigError, match="is empty"):
        with_streams(load_settings(None, {"flows.streams": " , "}).settings)
