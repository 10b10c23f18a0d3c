"""The packaged tables: complete, consistent, true to the official tables and to real rows."""

import hashlib
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdelphi.common.errors import GdelphiError
from gdelphi.gdelt import cameo, shapes
from gdelphi.gdelt.cameo import (
    TABLES,
    actor_types,
    countries,
    country_by_cameo,
    country_by_fips,
    country_by_iso3,
    ethnic_groups,
    event_codes,
    known_groups,
    parse_table,
    quad_class,
    religions,
    root_codes,
    table_rows,
    tables_fingerprint,
)
from gdelphi.gdelt.countries import FILE as NAMES

EVENTS = list(event_codes().values())
HEAD_VERBS = """
    abduct accept accuse acknowledge allow apologize appeal arrest assassinate assault attempt
    ban block carry cast coerce commit confiscate consider consult cooperate criticize cut
    declare decline defend defy demand demobilize demonstrate deny deport destroy detonate
    disapprove display downgrade ease end engage express fight file find forgive grant halt hold
    host impose inflict investigate issue kill launch make mediate meet mobilize negotiate
    occupy offer open order perform pledge praise protest provide raise rally receive reduce
    refuse reject release return riot scale share sign stage talk threaten torture use violate
    voice yield
"""
# Countries that GDELT calls by another name than the crosswalk.
GDELT_NAMES = {
    "BF": "bahamas, the",
    "BK": "bosnia-herzegovina",
    "CF": "congo",
    "CG": "democratic republic of the congo",
    "IV": "cote d'ivoire",
    "LO": "slovak republic",
    "MC": "macau",
    "MK": "macedonia",
    "SV": "svalbard",
    "VM": "vietnam, republic of",
    "VQ": "virgin islands",
    "WZ": "swaziland",
}
CODE_TABLES = [
    (actor_types, "CAMEO.type.txt"),
    (known_groups, "CAMEO.knowngroup.txt"),
    (religions, "CAMEO.religion.txt"),
    (ethnic_groups, "CAMEO.ethnic.txt"),
]
CODE_TABLE_NAMES = ["types", "groups", "religions", "ethnics"]


def official(path: Path, *, header: bool = True) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()[1 if header else 0 :]
    return [(code.strip(), label.strip()) for code, label in (line.split("\t") for line in lines)]


def real_rows(folder: Path, *, every: int) -> Iterator[list[str]]:
    """Rows of every n-th zip of an archive, as lists of text."""
    archives = sorted(folder.glob("*.zip"))[::every]
    assert archives, f"no zips in {folder}"
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                for line in archive.read(name).decode("utf-8", "replace").split("\n"):
                    if line:
                        yield line.split("\t")


# --- events ---------------------------------------------------------------------------------------


def test_events_are_the_310_official_codes_in_their_order(shared_data: Path) -> None:
    codes = [code for code, _ in official(shared_data / "cameo" / "CAMEO.eventcodes.txt")]
    assert list(event_codes()) == codes
    assert len(codes) == 310


def test_labels_are_the_official_ones_but_for_the_damaged(shared_data: Path) -> None:
    def plain(label: str) -> str:
        return re.sub(r"[\s,-]+", " ", label).strip().lower()

    labels = official(shared_data / "cameo" / "CAMEO.eventcodes.txt")
    changed = {code for code, label in labels if plain(label) != plain(event_codes()[code].label)}
    assert changed == {"033", "0355", "044", "1056", "183", "2041"}


def test_goldstein_values_are_the_official_ones(shared_data: Path) -> None:
    scale = dict(official(shared_data / "cameo" / "CAMEO.goldsteinscale.txt"))
    assert {event.code: event.goldstein for event in EVENTS} == {
        code: float(value) for code, value in scale.items()
    }


def test_real_rows_have_the_tables_root_base_quad_class_and_goldstein(shared_data: Path) -> None:
    unknown: Counter[str] = Counter()
    checked = 0
    for folder, every in (("gdelt2-world", 12), ("gdelt1-georgia", 6)):
        for row in real_rows(shared_data / folder, every=every):
            code, base, root, quad, goldstein = row[26:31]
            event = event_codes().get(code)
            if event is None:
                unknown[code] += 1
                continue
            found = (base, root, int(quad), float(goldstein))
            assert found == (event.base, event.root, event.quad_class, event.goldstein), code
            checked += 1
    assert checked > 30_000
    assert set(unknown) <= {"106"}


def test_every_event_has_its_root_and_base_in_the_table() -> None:
    lengths = {"root": 2, "base": 3, "full": 4}
    for event in EVENTS:
        assert lengths[event.level] == len(event.code)
        assert event.root == event.code[:2]
        assert event_codes()[event.root].level == "root"
        if event.level == "root":
            assert event.base is None
        else:
            assert event.base == event.code[:3]
            assert event_codes()[event.base].level == "base"


def test_roots_are_01_to_20_and_quad_classes_follow_them() -> None:
    assert root_codes() == tuple(f"{number:02d}" for number in range(1, 21))
    classes = "".join(str(quad_class(root)) for root in root_codes())
    assert classes == "11111" + "2222" + "33333" + "444444"
    assert all(event.quad_class == quad_class(event.root) for event in EVENTS)


@pytest.mark.parametrize("root", ["1", "21", "010", "0233", ""])
def test_quad_class_of_no_root_is_refused(root: str) -> None:
    with pytest.raises(GdelphiError, match="no CAMEO root"):
        quad_class(root)


@pytest.mark.parametrize("attribute", ["verb", "verb_target"])
def test_verb_phrases_are_all_different(attribute: str) -> None:
    counts = Counter(getattr(event, attribute) for event in EVENTS)
    assert [phrase for phrase, count in counts.items() if count > 1] == []


def test_verb_phrases_have_one_target_or_none() -> None:
    for event in EVENTS:
        assert event.verb_target.count("{target}") == 1, event
        assert not set("{}") & set(event.verb + event.verb_target.replace("{target}", "")), event


def test_verb_phrases_keep_the_rules_of_grammar() -> None:
    for event in EVENTS:
        for phrase in (event.verb, event.verb_target.replace("{target}", "target")):
            assert re.fullmatch(r"[a-z]+( [a-z-]+,?)*", phrase), phrase
            assert not phrase.endswith(","), phrase
            assert not re.search(r"not spec|unspecified|\bbelow\b", phrase), phrase
            assert len(phrase.split()) <= 13, phrase
            # Only the first word is inflected, so a second verb must not be joined to it.
            assert not re.match(r"[a-z]+,? (and|or) ", phrase), phrase


def test_head_verbs_are_verbs_in_the_base_form() -> None:
    # Every head verb is listed: a phrase that starts with a noun or an inflected verb fails here.
    used = {phrase.split()[0] for event in EVENTS for phrase in (event.verb, event.verb_target)}
    assert used == set(HEAD_VERBS.split())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("0233", "appeal humanitarian aid"),
        ("036", "meet negotiate"),
        ("043", "host visit"),
        ("0871", "ceasefire"),
        ("1041", "demand leadership"),
        ("116", "guilty"),
        ("1322", "threaten ban parties"),
        ("1431", "strike boycott leadership"),
        ("1623", "humanitarian aid"),
        ("175", "violent repression"),
        ("193", "fight small arms"),
        ("203", "ethnic cleansing"),
    ],
)
def test_phrases_say_what_the_code_means(code: str, words: str) -> None:
    event = event_codes()[code]
    for word in words.split():
        assert word in event.verb
        assert word in event.verb_target


# --- actors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("load", "file"), CODE_TABLES, ids=CODE_TABLE_NAMES)
def test_code_tables_hold_every_official_code_once(load, file, shared_data: Path) -> None:
    codes = {code for code, _ in official(shared_data / "cameo" / file)}
    assert {code for code, entry in load().items() if entry.official} == codes


@pytest.mark.parametrize(("load", "file"), CODE_TABLES, ids=CODE_TABLE_NAMES)
def test_labels_and_nouns_are_clean(load, file) -> None:
    for entry in load().values():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ()/.,'-]*", entry.label), entry
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9 '-]*", entry.noun), entry
        assert entry.noun == entry.noun.strip() and "  " not in entry.noun
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9 '-]*", entry.adjective), entry
        assert entry.adjective == " ".join(
            entry.adjective.split()
        ) and not entry.adjective.startswith("the "), entry


@pytest.mark.parametrize(("load", "file"), CODE_TABLES, ids=CODE_TABLE_NAMES)
def test_adjectives_differ_where_nouns_do(load, file) -> None:
    pairs = {(entry.noun, entry.adjective) for entry in load().values()}
    counts = Counter(adjective for _, adjective in pairs)
    assert [adjective for adjective, count in counts.items() if count > 1] == []


def test_ethnic_adjectives_are_told_from_those_of_citizens() -> None:
    citizens = {country.adjective for country in countries()}
    assert not citizens & {entry.adjective for entry in ethnic_groups().values()}


def test_adjectives_that_must_be_right() -> None:
    assert ethnic_groups()["kur"].adjective == "Kurdish"
    assert ethnic_groups()["pol"].adjective == "ethnic Polish"
    assert ethnic_groups()["gsw"].adjective == "German-speaking Swiss"
    assert religions()["JEW"].adjective == "Jewish"
    assert known_groups()["UNO"].adjective == "United Nations"
    assert actor_types()["JUD"].adjective == "judicial"


def test_nouns_that_must_be_right() -> None:
    assert actor_types()["COP"].noun == "police"
    assert actor_types()["GOV"].noun == "government"
    assert actor_types()["INS"].noun == "insurgents"
    assert known_groups()["UNO"].noun == "the United Nations"
    assert known_groups()["NAT"].noun == "NATO"
    assert known_groups()["EEC"].noun == "the European Union"
    assert religions()["CTH"].noun == "Catholics"
    assert religions()["SUN"].noun == "Sunni Muslims"
    assert ethnic_groups()["aar"].noun == "Afar people"
    assert ethnic_groups()["kur"].noun == "Kurds"


def test_codes_that_official_tables_bring_twice_have_one_meaning() -> None:
    labels = {code: ethnic_groups()[code].label for code in ("bod", "moh", "mon", "wel")}
    assert labels == {"bod": "Bodo", "moh": "Mohawk", "mon": "Mongol", "wel": "Welsh"}
    assert known_groups()["CEM"].label == "Common Market for Eastern and Southern Africa"


def test_codes_that_two_tables_share_have_one_noun() -> None:
    shared = set(actor_types()) & set(known_groups())
    assert shared == {"AMN", "IRC", "UNO"}
    assert all(actor_types()[code].noun == known_groups()[code].noun for code in shared)


def test_codes_are_compared_exactly() -> None:
    assert {"kur", "KUR"} <= set(ethnic_groups())
    assert "cop" not in actor_types()
    assert country_by_fips("gm") is None
    assert "1" not in event_codes() and "01" in event_codes()


# --- countries ------------------------------------------------------------------------------------


def test_crosswalk_holds_every_official_code_once(shared_data: Path) -> None:
    folder = shared_data / "cameo"
    fips = [c.fips for c in countries() if c.fips_official]
    names = [c.cameo for c in countries() if c.cameo_official]
    assert sorted(fips) == sorted(
        code for code, _ in official(folder / "FIPS.country.txt", header=False)
    )
    assert sorted(names) == sorted(code for code, _ in official(folder / "CAMEO.country.txt"))


@pytest.mark.parametrize(("attribute", "length"), [("fips", 2), ("cameo", 3), ("iso3", 3)])
def test_no_country_code_occurs_twice(attribute: str, length: int) -> None:
    codes = [code for country in countries() if (code := getattr(country, attribute))]
    assert [code for code, count in Counter(codes).items() if count > 1] == []
    assert all(re.fullmatch(rf"[A-Z]{{{length}}}", code) for code in codes)


def test_only_these_codes_are_not_official() -> None:
    assert {c.fips for c in countries() if c.fips_official is False} == {"RB", "OC", "YI"}
    assert {c.cameo for c in countries() if c.cameo_official is False} == {"KSV", "SSD"}
    assert all((c.fips is None) == (c.fips_official is None) for c in countries())
    assert all((c.cameo is None) == (c.cameo_official is None) for c in countries())


@pytest.mark.parametrize(
    ("fips", "cameo_code", "iso3", "adjective"),
    [
        ("AS", "AUS", "AUS", "Australian"),
        ("AU", "AUT", "AUT", "Austrian"),
        ("BG", "BGD", "BGD", "Bangladeshi"),
        ("BM", "MMR", "MMR", "Myanmar"),
        ("BU", "BGR", "BGR", "Bulgarian"),
        ("CB", "KHM", "KHM", "Cambodian"),
        ("CF", "COG", "COG", "Republic of Congo"),
        ("CG", "COD", "COD", "DR Congo"),
        ("CH", "CHN", "CHN", "Chinese"),
        ("CI", "CHL", "CHL", "Chilean"),
        ("CT", "CAF", "CAF", "Central African"),
        ("EI", "IRL", "IRL", "Irish"),
        ("EK", "GNQ", "GNQ", "Equatorial Guinean"),
        ("ES", "SLV", "SLV", "Salvadoran"),
        ("GA", "GMB", "GMB", "Gambian"),
        ("GB", "GAB", "GAB", "Gabonese"),
        ("GG", "GEO", "GEO", "Georgian"),
        ("GM", "DEU", "DEU", "German"),
        ("GV", "GIN", "GIN", "Guinean"),
        ("IM", "IMY", "IMN", "Manx"),
        ("IZ", "IRQ", "IRQ", "Iraqi"),
        ("JA", "JPN", "JPN", "Japanese"),
        ("KN", "PRK", "PRK", "North Korean"),
        ("KS", "KOR", "KOR", "South Korean"),
        ("KV", "KSV", None, "Kosovan"),
        ("LO", "SVK", "SVK", "Slovak"),
        ("MJ", "MTN", "MNE", "Montenegrin"),
        ("NG", "NER", "NER", "Nigerien"),
        ("NI", "NGA", "NGA", "Nigerian"),
        ("NU", "NIC", "NIC", "Nicaraguan"),
        ("OD", "SSD", "SSD", "South Sudanese"),
        ("RI", "SRB", "SRB", "Serbian"),
        ("RO", "ROM", "ROU", "Romanian"),
        ("RP", "PHL", "PHL", "Philippine"),
        ("RS", "RUS", "RUS", "Russian"),
        ("SF", "ZAF", "ZAF", "South African"),
        ("SN", "SGP", "SGP", "Singaporean"),
        ("SP", "ESP", "ESP", "Spanish"),
        ("SW", "SWE", "SWE", "Swedish"),
        ("SZ", "CHE", "CHE", "Swiss"),
        ("TT", "TMP", "TLS", "East Timorese"),
        ("TU", "TUR", "TUR", "Turkish"),
        ("UK", "GBR", "GBR", "British"),
        ("UP", "UKR", "UKR", "Ukrainian"),
        ("US", "USA", "USA", "American"),
        ("VM", "VNM", "VNM", "Vietnamese"),
        ("WA", "NAM", "NAM", "Namibian"),
        ("ZA", "ZMB", "ZMB", "Zambian"),
    ],
)
def test_countries_that_must_be_right(
    fips: str, cameo_code: str, iso3: str | None, adjective: str
) -> None:
    country = country_by_fips(fips)
    assert country is not None
    assert country is country_by_cameo(cameo_code)
    assert (country.iso3, country.adjective) == (iso3, adjective)
    if iso3 is not None:
        assert country_by_iso3(iso3) is country


def test_cameo_codes_are_iso_codes_except_where_cameo_kept_its_own() -> None:
    differing = {(c.cameo, c.iso3) for c in countries() if c.cameo and c.iso3 and c.cameo != c.iso3}
    assert differing == {("IMY", "IMN"), ("MTN", "MNE"), ("ROM", "ROU"), ("TMP", "TLS")}
    without = {c.cameo for c in countries() if c.cameo and not c.iso3 and c.kind != "region"}
    assert without == {"ANT", "BAG", "GZS", "KSV", "WSB"}


def test_kinds_agree_with_the_codes() -> None:
    kinds = Counter(c.kind for c in countries() if c.same_as is None)
    assert kinds["country"] == 197  # 193 members of the UN, 2 observers, Taiwan, Kosovo
    assert kinds["region"] == 25
    for country in countries():
        if country.kind in ("region", "subnational", "other", "former"):
            assert country.iso3 is None, country
        if country.kind == "country" and country.same_as is None and country.name != "Kosovo":
            assert country.iso3 is not None, country


def test_names_and_adjectives_tell_places_apart() -> None:
    places = [c for c in countries() if c.same_as is None]
    for attribute in ("name", "adjective"):
        counts = Counter(getattr(c, attribute) for c in places)
        assert [value for value, count in counts.items() if count > 1] == []
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z '-]*", c.name + c.adjective) for c in countries())


def test_repeated_lines_name_an_existing_first_line() -> None:
    repeated = {c.fips: c.same_as for c in countries() if c.same_as}
    assert repeated == {"RB": "RI", "OC": "OS"}
    for code, first in repeated.items():
        one, other = country_by_fips(code), country_by_fips(first)
        assert one and other and other.same_as is None
        assert (one.name, one.adjective, one.kind) == (other.name, other.adjective, other.kind)


def test_place_has_its_article() -> None:
    places = {code: country_by_fips(code).place for code in ("US", "NL", "KE", "GA", "GM")}
    assert places == {
        "US": "the United States",
        "NL": "the Netherlands",
        "KE": "Kenya",
        "GA": "the Gambia",
        "GM": "Germany",
    }
    with_article = {c.iso3 for c in countries() if c.article and c.kind == "country" and c.iso3}
    assert " ".join(sorted(with_article)) == (
        "ARE BHS CAF COD COG COM CZE DOM GBR GMB MDV MHL NLD PHL PSE SLB SYC USA"
    )
    assert {c.article for c in countries()} == {None, "the"}


def test_unknown_country_codes_are_none() -> None:
    assert country_by_fips("XX") is None
    assert country_by_cameo("GM") is None
    assert country_by_iso3("") is None


def test_actors_are_mostly_seen_in_the_crosswalks_country(shared_data: Path) -> None:
    seen: dict[str, Counter[str]] = {}
    unknown: Counter[str] = Counter()
    for row in real_rows(shared_data / "gdelt2-world", every=1):
        for actor, place in ((row[7], row[37]), (row[17], row[45])):
            if place and country_by_fips(place) is None:
                unknown[place] += 1
            if actor and country_by_cameo(actor) is None:
                unknown[actor] += 1
            if actor and place:
                seen.setdefault(actor, Counter())[place] += 1
    assert not unknown

    wrong, agreeing = set(), 0
    for code, places in seen.items():
        country = country_by_cameo(code)
        if country is None or country.fips is None or places.total() < 30:
            continue
        if places.most_common(1)[0][0] == country.fips:
            agreeing += 1
        else:
            wrong.add(code)
    # GDELT takes the word "male" for the capital of the Maldives, and Elizabeth II for the queen
    # of Saint Kitts and Nevis alone.
    assert wrong <= {"MDV", "KNA"}
    assert agreeing > 160


def test_real_country_names_are_those_of_the_crosswalk(shared_data: Path) -> None:
    names: dict[str, Counter[str]] = {}
    for row in real_rows(shared_data / "gdelt2-world", every=2):
        for block in (35, 43, 51):
            kind, name, code = row[block : block + 3]
            if kind == "1" and name:
                names.setdefault(code, Counter())[name.lower()] += 1
    differing = {}
    for code, counts in names.items():
        country = country_by_fips(code)
        assert country is not None, code
        if (name := counts.most_common(1)[0][0]) != country.name.lower():
            differing[code] = name
    assert differing.items() <= GDELT_NAMES.items()
    assert len(names) > 180


# --- reading --------------------------------------------------------------------------------------


def test_table_rows_give_text_and_none_for_the_store() -> None:
    columns, rows = table_rows("events")
    first = dict(zip(columns, rows[0], strict=True))
    assert (first["code"], first["base"], first["goldstein"]) == ("01", None, "0.0")
    assert len(rows) == len(event_codes())
    for name in TABLES:
        columns, rows = table_rows(name)
        assert len(set(columns)) == len(columns)
        values = {type(value) for row in rows for value in row}
        assert values <= {str, type(None)}
        assert all(value == value.strip() for row in rows for value in row if value is not None)


def test_fingerprint_is_the_hash_of_all_code_tables_in_name_order() -> None:
    folder = Path(cameo.__file__).parent / "tables"
    others = (shapes.FILE, NAMES)
    files = sorted(path for path in folder.glob("*.tsv") if path.name not in others)
    assert [path.name for path in files] == sorted(TABLES.values())
    content = b"".join(path.read_bytes() for path in files)
    assert tables_fingerprint() == hashlib.sha256(content).hexdigest()


def test_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(GdelphiError, match="no table named 'planets'"):
        table_rows("planets")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut off or empty"),
        ("code\tlabel\nA\tb", "cut off or empty"),
        ("code\tlabel\nA\tb\nB\n", "t.tsv, line 3: 1 fields where the header has 2"),
        ("code\tlabel\nA\tb\tc\n", "t.tsv, line 2: 3 fields"),
    ],
)
def test_damaged_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(GdelphiError, match=message):
        parse_table(text, source="t.tsv")


CODE_HEADER = "code\tlabel\tnoun\tadjective\tofficial\n"
EVENT_HEADER = "\t".join(table_rows("events").columns) + "\n"
COUNTRY_HEADER = "\t".join(table_rows("countries").columns) + "\n"
EVENT_LINE = "01\t01\t\troot\t1\t0.0\tLabel\tact\tact on {target}\n"
COUNTRY_LINE = "KE\tKEN\tKEN\tKenya\t\tKenyan\tcountry\t1\t1\t\n"


@pytest.mark.parametrize(
    ("load", "text", "message"),
    [
        (religions, "code\tname\nA\tb\n", "columns are code, name; expected code, label"),
        (religions, CODE_HEADER + "A\tb\tc\td\tyes\n", "line 2: official is 'yes'"),
        (religions, CODE_HEADER + "A\tb\t\td\t1\n", "line 2: noun is empty"),
        (religions, CODE_HEADER + "A\tb\tc\td\t1\nA\td\te\tf\t1\n", "code 'A' occurs on two lines"),
        (event_codes, EVENT_HEADER + EVENT_LINE.replace("0.0", "low"), "line 2: could not convert"),
        (event_codes, EVENT_HEADER + EVENT_LINE.replace("\t1\t", "\t5\t"), "quad_class is '5'"),
        (event_codes, EVENT_HEADER + EVENT_LINE.replace("root", "top"), "level is 'top'"),
        (countries, COUNTRY_HEADER + COUNTRY_LINE.replace("KE\tKEN", "\t"), "neither a FIPS"),
        (countries, COUNTRY_HEADER + COUNTRY_LINE.replace("country", "realm"), "kind is 'realm'"),
        (countries, COUNTRY_HEADER + COUNTRY_LINE.replace("1\t1", "\t1"), "fips_official is empty"),
        (
            lambda: country_by_fips("KE"),
            COUNTRY_HEADER + COUNTRY_LINE + COUNTRY_LINE,
            "fips 'KE' occurs on two lines",
        ),
    ],
)
def test_damaged_tables_are_refused(
    load, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = (table_rows, religions, event_codes, countries, cameo._countries_by)
    with monkeypatch.context() as patch:
        patch.setattr(cameo, "_read", lambda name: text.encode())
        for cached in caches:
            cached.cache_clear()
        try:
            with pytest.raises(GdelphiError, match=message):
                load()
        finally:
            for cached in caches:
                cached.cache_clear()
