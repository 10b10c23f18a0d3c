"""Phrases: every row reads as English, different codes read differently, nothing is ever empty."""

import itertools
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import assume, given, settings, strategies

from gdelphi.gdelt.cameo import (
    actor_types,
    countries,
    country_by_fips,
    ethnic_groups,
    event_codes,
    known_groups,
    religions,
    root_codes,
)
from gdelphi.measures import phrases
from gdelphi.measures.phrases import (
    ACTOR_COLUMNS,
    Actor,
    Lineage,
    actor,
    actor_key_sql,
    canonical,
    lineage,
    place,
    sentence,
    verb,
)
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, rows, settings_for
from helpers.phrase_cases import EVENTS, KEYS, Row, random_keys, real_rows

PLURAL_GROUPS = {
    "communists",
    "the heavily indebted poor countries",
    "Polisario guerrillas",
    "the People's Mujahedeen",
    "the Taliban",
    "international war crimes tribunals",
    "the Palestinian Territories",
}


@pytest.fixture(scope="module")
def real(shared_data: Path) -> set[Row]:
    """Different rows of the real archives."""
    found: set[Row] = set()
    for name, every in (("gdelt2-world", 8), ("gdelt1-georgia", 8), ("gdelt1-icews", 40)):
        found.update(real_rows(shared_data / name, every=every))
    assert len(found) > 30_000
    return found


def readings(keys: Iterable[str]) -> dict[str, set[str]]:
    """Text of actors -> their canonical keys."""
    found: dict[str, set[str]] = {}
    for key in keys:
        found.setdefault(actor(key).text, set()).add(canonical(key))
    return found


def ambiguous(keys: Iterable[str]) -> dict[str, set[str]]:
    return {text: found for text, found in readings(keys).items() if len(found) > 1}


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor1", "code", "actor2", "where", "text"),
    [
        # domestic
        ("KEN|||||COP", "13", "KEN|||||OPP", "KE",
         "Kenyan police threaten Kenyan opposition groups in Kenya"),
        ("KEN|||||GOV", "0253", "KEN|||||REB", "KE",
         "the Kenyan government appeals to Kenyan rebels to release people or property in Kenya"),
        # cross-border
        ("KEN", "051", "UGA", "KE", "Kenya praises Uganda in Kenya"),
        ("USA", "1055", "PRK", "CH",
         "the United States demands that North Korea allow international involvement in China"),
        ("RUS|||||MIL", "192", "GEO", "GG",
         "Russian military forces occupy territory of Georgia in Georgia"),
        # known groups
        ("KEN|||||GOV", "111", "|UNO||||IGO", "KE",
         "the Kenyan government criticizes the United Nations in Kenya"),
        ("AFG|TAL||||INS", "193", "WST|NAT||||IGO|MIL", "AF",
         "the Taliban fight NATO military forces with small arms and light weapons in Afghanistan"),
        ("EUR|EEC||||IGO", "163", "RUS", None,
         "the European Union imposes an embargo, boycott or sanctions on Russia"),
        # blank actors
        ("", "193", "", "GG", "someone fights with small arms and light weapons in Georgia"),
        ("GEO|||||JUD", "116", "", "GG",
         "Georgian courts find a defendant guilty or liable in Georgia"),
        ("", "173", "|||JEW", "US", "someone arrests Jews in the United States"),
        ("", "", "", None, "someone acts"),
        # codes that no table has
        ("ITA", "106", "TUR", "UP",
         "Italy issues a demand to Turkey in a way coded 106 in Ukraine"),
        ("ITA", "1213", "", None, "Italy rejects material cooperation in a way coded 1213"),
        ("XYZ", "051", "KEN|||||PTX", "XX",
         "a country coded XYZ praises Kenyan actors in a role coded PTX "
         "in an unlisted country (XX)"),
    ],
)  # fmt: skip
def test_sentences(actor1: str, code: str, actor2: str, where: str | None, text: str) -> None:
    assert sentence(actor1, code, actor2, where) == text


def test_real_rows_have_one_sentence_each(real: set[Row]) -> None:
    meanings: dict[str, tuple[str, ...]] = {}
    for row in real:
        country = country_by_fips(row.place)
        where = country.place if country else row.place  # RB and RI are both Serbia
        meaning = (canonical(row.actor1), row.code, canonical(row.actor2), where)
        assert meanings.setdefault(sentence(*row), meaning) == meaning
    assert len(meanings) > 30_000


def test_real_rows_read_without_codes(real: set[Row]) -> None:
    for row in real:
        text = sentence(*row)
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9 ,'-]*", text), text
        assert "  " not in text and "coded" not in text.replace(f"in a way coded {row.code}", "")
        assert "the the" not in text and "people people" not in text, text


@settings(deadline=None, max_examples=300)
@given(actor1=KEYS, code=EVENTS, actor2=KEYS, where=strategies.none() | strategies.text())
def test_any_codes_give_a_line_of_text(
    actor1: str, code: str, actor2: str, where: str | None
) -> None:
    assume("None" not in f"{actor1}{code}{actor2}{where or ''}")
    text = sentence(actor1, code, actor2, where)
    assert len(text.split()) >= 2
    assert text == " ".join(text.split()) and text.isprintable()
    assert not set("{}") & set(text) and "None" not in text
    assert verb(code) and actor(actor1).text


@settings(deadline=None, max_examples=300)
@given(first=EVENTS, second=EVENTS)
def test_any_two_event_codes_read_differently(first: str, second: str) -> None:
    assume(first != second)
    assert verb(first) != verb(second)
    assert sentence("KEN", first, "UGA") != sentence("KEN", second, "UGA")


@settings(deadline=None, max_examples=500)
@given(first=KEYS, second=KEYS)
def test_two_actors_read_alike_only_if_their_canonical_keys_agree(first: str, second: str) -> None:
    assert (actor(first).text == actor(second).text) == (canonical(first) == canonical(second))


# --- keys -----------------------------------------------------------------------------------------


def test_key_of_sql_is_the_key_of_the_columns(tmp_path: Path) -> None:
    keys = [
        "",
        "KEN",
        "KEN|||||COP",
        "|UNO||||IGO|DEV",
        "|||CHR|CTH",
        "||kur||||REB",
        "A|B|C|D|E|F|G|H",
    ]
    day = date(2014, 1, 1)
    maker = ArchiveMaker(tmp_path / "archive")
    lines = []
    for number, (one, two) in enumerate(itertools.product(keys, repeat=2), start=1):
        values = {}
        for who, key in ((1, one), (2, two)):
            codes = (key.split("|") + [""] * 8)[:8]
            columns = (f"Actor{who}{column}" for column in ACTOR_COLUMNS)
            values |= dict(zip(columns, codes, strict=True))
        lines.append(event_line(number, day, **values))
    maker.day(day, lines)
    maker.write_lists()
    store = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(store)
    found = rows(
        store,
        f"SELECT {actor_key_sql(1)}, {actor_key_sql(2)} FROM events ORDER BY GLOBALEVENTID",
    )
    assert found == list(itertools.product(keys, repeat=2))


def test_a_row_has_no_third_actor() -> None:
    with pytest.raises(ValueError, match="actors 1 and 2, not 3"):
        actor_key_sql(3)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("", ""),
        ("||||||||", ""),
        ("KEN|||||COP", "KEN|||||COP"),
        ("|||||GOV|GOV", "|||||GOV"),
        ("|||||GOV|MIL|MIL", "|||||GOV|MIL"),
        ("|||||COP|GOV|COP", "|||||COP|GOV"),
        ("|||||GOV||MIL", "|||||GOV|MIL"),
        ("|||||GOV|MIL", "|||||GOV|MIL"),  # the order says which is the main role
        ("|||||MIL|GOV", "|||||MIL|GOV"),
        ("|||CHR|CHR", "|||CHR"),
        ("|||CHR|CTH", "|||CTH"),
        ("|||SHI|MOS", "|||SHI"),
        ("|||MOS|CHR", "|||MOS|CHR"),
        ("||KUR|||REB", "||kur|||REB"),
        ("||jew", "|||JEW"),
        ("||jew|JEW", "|||JEW"),
        ("||cri|CTH|MOS", "|||CTH|MOS"),
        ("||jew|CHR|MOS", "||jew|CHR|MOS"),  # there is no third column for religions
        ("|||||UNO", "|UNO"),
        ("|UNO||||UNO|IGO", "|UNO"),
        ("|||||GRP", "|GRP"),
        ("|NAT||||UNO", "|NAT||||UNO"),
        ("|PSE", "PSE"),
        ("PSE|PSE||||REB", "PSE|||||REB"),
        ("ISR|PSE", "ISR|PSE"),
        ("GBR|||SHN||EDU", "SHN|||||EDU"),
        ("EUR|EEC||||IGO|LEG", "|EEC||||LEG"),
        ("USA|EEC||||IGO", "USA|EEC"),
        ("AFG|TAL||||INS", "|TAL"),
        ("PAK|TAL||||INS", "PAK|TAL"),
        ("|ALQ|jew|CHR|MOS", "|ALQ||JEW|CHR"),
        (" KEN || ", "KEN"),
    ],
)
def test_keys_of_one_actor_become_one(raw: str, key: str) -> None:
    assert canonical(raw) == key
    assert actor(raw) == actor(key)


@settings(deadline=None, max_examples=300)
@given(key=KEYS)
def test_canonical_keys_are_their_own(key: str) -> None:
    assert canonical(canonical(key)) == canonical(key)


# --- actors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "plural"),
    [
        ("", "someone", False),
        # countries and regions: states are singular whatever their name
        ("KEN", "Kenya", False),
        ("USA", "the United States", False),
        ("NLD", "the Netherlands", False),
        ("PHL", "the Philippines", False),
        ("SLB", "the Solomon Islands", False),
        ("FLK", "the Falkland Islands", True),
        ("PSE", "the Palestinian Territories", True),
        ("AFR", "Africa", False),
        ("WST", "the West", False),
        ("BLK", "the Balkans", True),
        ("CAU", "the Caucasus", False),
        # governments
        ("|||||GOV", "a government", False),
        ("KEN|||||GOV", "the Kenyan government", False),
        ("||sco|||GOV", "the Scottish government", False),
        ("|||MOS||GOV", "a Muslim government", False),
        ("|||ALE||GOV", "an Alawite government", False),
        ("|||||GOV|HLH", "health authorities", True),
        ("KEN|||||GOV|MIL", "Kenyan military authorities", True),
        ("GEO|||||GOV|JUD|ELI", "Georgian judicial and elite authorities", True),
        ("EUR|EEC||||IGO|GOV", "European Union officials", True),
        # roles
        ("|||||COP", "police", True),
        ("USA|||||MED", "American news media", True),
        ("|||||COP|GOV", "government police", True),
        ("|||||GOV|COP", "police authorities", True),
        ("USA|||||MNC|MED", "American multinational media companies", True),
        ("|||||NGO|HRI|MED", "non-governmental human rights and media organizations", True),
        # ethnic groups and religions
        ("||kur", "Kurds", True),
        ("SYR||kur", "Syrian Kurds", True),
        ("SYR||kur|||REB", "Syrian Kurdish rebels", True),
        ("GEO||arm|||CVL", "Georgian ethnic Armenian civilians", True),
        ("NGA|||CHR||CVL", "Nigerian Christian civilians", True),
        ("|||CHR|CTH|EDU", "Catholic schools and students", True),
        ("USA|||JEW", "American Jews", True),
        ("||mar|HIN", "Marathi Hindus", True),
        ("|||JEW|CHR", "Jews and Christians", True),
        ("|||JEW|CHR|MED", "Jewish and Christian news media", True),
        # known groups
        ("|UNO", "the United Nations", False),
        ("|NAT", "NATO", False),
        ("|TAL", "the Taliban", True),
        ("|GRP", "Greenpeace", False),
        ("|UNO||||IGO|DEV", "United Nations development agencies", True),
        ("AFG|TAL||||INS|REB", "Taliban rebels", True),
        ("PAK|TAL||||INS", "the Pakistani Taliban", True),
        ("KEN|IRC||||NGO|HLH", "the Kenyan Red Cross", False),
        ("RUS|CMN", "the Russian communists", True),
        # codes that no table has
        ("XYZ", "a country coded XYZ", False),
        ("XYZ|||||COP", "police of a country coded XYZ", True),
        ("XYZ|||||GOV", "the government of a country coded XYZ", False),
        ("|XYZ", "a group coded XYZ", False),
        ("KEN|XYZ", "Kenyan actors of a group coded XYZ", True),
        ("XYZ|IRC", "the Red Cross of a country coded XYZ", False),
        ("||xyz", "an ethnic group coded xyz", False),
        ("KEN||xyz|||REB", "Kenyan rebels of an ethnic group coded xyz", True),
        ("|||XYZ", "actors of a religion coded XYZ", True),
        ("|||CHR|XYZ", "Christians of a second religion coded XYZ", True),
        ("|||||PTX", "actors in a role coded PTX", True),
        ("KEN|||||GOV|PTX", "the Kenyan government in a second role coded PTX", False),
        ("KEN|||||PTX|GOV", "Kenyan government actors in a role coded PTX", True),
        ("|||||a b", "actors in a role coded a%20b", True),
    ],
)
def test_actors(key: str, text: str, plural: bool) -> None:
    assert actor(key) == Actor(text, plural)


def test_groups_are_singular_but_for_those_with_a_plural_name() -> None:
    assert {actor(f"|{code}").text for code in known_groups() if actor(f"|{code}").plural} == (
        PLURAL_GROUPS
    )


def test_actors_of_real_rows_read_differently(real: set[Row]) -> None:
    keys = {key for row in real for key in (row.actor1, row.actor2)}
    assert len(keys) > 2_000
    assert ambiguous(keys) == {}


def test_random_actors_of_known_codes_read_differently() -> None:
    assert ambiguous(random_keys(30_000)) == {}


def test_all_religions_and_roles_in_any_order_read_differently() -> None:
    faiths, roles = ["", *religions()], ["", *actor_types()]
    believers = itertools.product(faiths, faiths, ["", "COP"])
    workers = itertools.product(roles, roles, ["", "GOV", "HLH", "INT", "LAB"])
    assert ambiguous(f"|||{'|'.join(codes)}" for codes in believers) == {}
    assert ambiguous(f"|||||{'|'.join(codes)}" for codes in workers) == {}


ADJECTIVES = {
    "country": {country.adjective for country in countries() if country.cameo},
    "ethnic": {entry.adjective for entry in ethnic_groups().values()},
    "people": {entry.noun for entry in ethnic_groups().values()},
    "religion": {entry.adjective for entry in religions().values()},
    "group": {entry.adjective for entry in known_groups().values()},
    "role": {entry.adjective for entry in actor_types().values()},
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("country", "ethnic"),
        ("country", "people"),
        ("country", "religion"),
        ("country", "group"),
        ("country", "role"),
        ("ethnic", "religion"),
        ("ethnic", "group"),
        ("ethnic", "role"),
        ("religion", "group"),
        ("religion", "role"),
        ("group", "role"),
    ],
)
def test_no_pair_of_words_reads_like_another(first: str, second: str) -> None:
    # A country's adjective and an ethnic group's might together be a third one's. What stands in
    # both tables has one canonical code; a country without people is not told by its adjective.
    firsts = ADJECTIVES[first] - ADJECTIVES[second] | {""}
    seconds = ADJECTIVES[second] | (set() if second == "people" else {""})
    seen: dict[str, tuple[str, str]] = {}
    for one, other in itertools.product(firsts, seconds):
        assert seen.setdefault(f"{one} {other}".strip(), (one, other)) == (one, other)


def test_unlisted_codes_are_told_apart_wherever_they_stand() -> None:
    choices = [["", code, "XYZ"] for code in ("KEN", "UNO", "kur", "CHR", "MOS")]
    choices += [["", "GOV", "AA1"], ["", "MIL", "AA2"], ["", "COP", "AA3"]]
    assert ambiguous("|".join(codes) for codes in itertools.product(*choices)) == {}


# --- verbs ----------------------------------------------------------------------------------------


def test_all_verbs_differ_with_and_without_a_target() -> None:
    for who in ("KEN", "|||||COP"):
        for target in ("", "UGA"):
            assert len({sentence(who, code, target) for code in event_codes()}) == 310
    assert len({verb(code) for code in event_codes()}) == 310


@pytest.mark.parametrize(
    ("base", "singular"),
    [
        ("praise", "praises"),
        ("express praise", "expresses praise"),
        ("launch air attacks", "launches air attacks"),
        ("deny responsibility", "denies responsibility"),
        ("carry out a bombing", "carries out a bombing"),
        ("deploy", "deploys"),
        ("veto a plan", "vetoes a plan"),
        ("clash", "clashes"),
        ("fix a date", "fixes a date"),
        ("consult", "consults"),
    ],
)
def test_third_person_singular(base: str, singular: str) -> None:
    assert phrases._singular(base) == singular


@pytest.mark.parametrize("target", ["", "UGA", "|||||COP"])
def test_only_the_first_word_of_a_verb_depends_on_number(target: str) -> None:
    for code in event_codes():
        one = sentence("KEN", code, target).removeprefix("Kenya ").split()
        many = sentence("|||||COP", code, target).removeprefix("police ").split()
        assert one[1:] == many[1:]
        assert one[0] in {f"{many[0]}s", f"{many[0]}es", f"{many[0][:-1]}ies"}, one


def test_verbs_of_unlisted_codes_name_the_code() -> None:
    assert verb("14") == "protest"
    assert verb("106") == "issue a demand in a way coded 106"
    assert verb("1213") == "reject material cooperation in a way coded 1213"
    assert verb("9999") == "act in a way coded 9999"
    assert verb("---") == "act in a way coded ---"
    assert verb("") == "act"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1411", ("14", "141", "1411")),
        ("141", ("14", "141", "141")),
        ("14", ("14", "140", "140")),
        ("106", ("10", "100", "100")),
        ("1213", ("12", "121", "121")),
        ("1499", ("14", "140", "140")),
        ("", ("", "", "")),
        ("21", ("", "", "")),
        ("999", ("", "", "")),
        ("14111", ("", "", "")),
        ("14x", ("", "", "")),
        ("١٤١", ("", "", "")),
    ],
)
def test_lineage(code: str, expected: tuple[str, str, str]) -> None:
    assert lineage(code) == Lineage(*expected)


def test_lineage_of_known_codes_is_the_tables() -> None:
    for code, event in event_codes().items():
        found = lineage(code)
        assert found.root == event.root
        assert event_codes()[found.base].level == "base"
        assert lineage(found.full) == found
        if event.level != "root":
            assert found == (event.root, event.base, code)
    assert all(lineage(root).base == f"{root}0" for root in root_codes())


# --- places ---------------------------------------------------------------------------------------


def test_places() -> None:
    assert place("KE") == "in Kenya"
    assert place("US") == "in the United States"
    assert place("RB") == place("RI") == "in Serbia"
    assert place("XX") == "in an unlisted country (XX)"
    assert place(None) == place("") == ""


def test_places_differ_unless_one_repeats_the_other() -> None:
    codes = [country.fips for country in countries() if country.fips and not country.same_as]
    assert len({place(code) for code in codes}) == len(codes)
