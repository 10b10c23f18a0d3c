"""What gdelphi knows by itself about CAMEO codes and countries: the packaged tables, typed.

The knowledge lives in tab-separated files under `tables/` and nowhere else; this module only reads
them. Chosen: plain text that a reviewer can diff, checked on reading, cached for the life of the
process. Not chosen: Python literals (thousands of lines of data in code) or the official files
themselves (labels in capitals, some damaged, no phrases, and no crosswalk between the CAMEO
three-letter countries of actors and the FIPS 10-4 two-letter countries of places).

Codes are compared exactly: case and leading zeros matter, `kur` and `KUR` are two codes.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar, cast, get_args

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import Level

TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "countries": "countries.tsv",
        "ethnics": "ethnics.tsv",
        "events": "events.tsv",
        "groups": "groups.tsv",
        "religions": "religions.tsv",
        "types": "types.tsv",
    }
)
"""Name of each packaged table and its file."""

CountryKind = Literal["country", "territory", "region", "subnational", "former", "other"]
TableRow = tuple[str | None, ...]
T = TypeVar("T", "EventCode", "Code", "Country")


class Table(NamedTuple):
    """A table as text: an empty field is None, nothing else is interpreted."""

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


@dataclass(frozen=True, slots=True)
class EventCode:
    """One CAMEO event code. The phrases start with their head verb in the base form."""

    code: str
    root: str
    base: str | None
    level: Level
    quad_class: int
    goldstein: float
    label: str
    verb: str
    verb_target: str


@dataclass(frozen=True, slots=True)
class Code:
    """One code of an actor table: a role, a known group, a religion or an ethnic group.

    `adjective` is what stands before another noun: Kurds, but Kurdish rebels.
    """

    code: str
    label: str
    noun: str
    adjective: str
    official: bool


@dataclass(frozen=True, slots=True)
class Country:
    """One place of the crosswalk; `same_as` is the FIPS code of the line that this one repeats."""

    fips: str | None
    cameo: str | None
    iso3: str | None
    name: str
    article: str | None
    adjective: str
    kind: CountryKind
    fips_official: bool | None
    cameo_official: bool | None
    same_as: str | None

    @property
    def place(self) -> str:
        """The name as it stands after "in": the United States, but Kenya."""
        return f"{self.article} {self.name}" if self.article else self.name


# --- tables as text -------------------------------------------------------------------------------


@cache
def table_rows(name: str) -> Table:
    """Columns and rows of a packaged table, every value as text or None."""
    return parse_table(_read(name).decode("utf-8"), source=_file_name(name))


def parse_table(text: str, *, source: str) -> Table:
    """Split a table; every line must have the header's number of fields and end with LF."""
    if not text.endswith("\n"):
        raise GdelphiError(f"{source}: last line has no end, the table is cut off or empty")
    lines = text[:-1].split("\n")
    columns = tuple(lines[0].split("\t"))
    rows: list[TableRow] = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("\t")
        if len(values) != len(columns):
            raise GdelphiError(
                f"{source}, line {number}: {len(values)} fields where the header has "
                f"{len(columns)}; fields are separated by single tabs"
            )
        rows.append(tuple(value or None for value in values))
    return Table(columns, tuple(rows))


def tables_fingerprint() -> str:
    """SHA-256 over the bytes of all packaged tables, in order of their names."""
    digest = hashlib.sha256()
    for name in sorted(TABLES):
        digest.update(_read(name))
    return digest.hexdigest()


def _file_name(name: str) -> str:
    if name not in TABLES:
        raise GdelphiError(f"no table named {name!r}; there are {', '.join(sorted(TABLES))}")
    return TABLES[name]


def _read(name: str) -> bytes:
    return (resources.files("gdelphi.gdelt") / "tables" / _file_name(name)).read_bytes()


# --- tables as objects ----------------------------------------------------------------------------


@cache
def event_codes() -> Mapping[str, EventCode]:
    """All CAMEO event codes of the official table, in its order."""
    source = _file_name("events")
    records = _records(table_rows("events"), EventCode, _event_code, source=source)
    return _keyed(records, "code", source=source)


@cache
def actor_types() -> Mapping[str, Code]:
    """Roles of actors: police, government, rebels."""
    return _codes("types")


@cache
def known_groups() -> Mapping[str, Code]:
    """Organizations with a code of their own."""
    return _codes("groups")


@cache
def religions() -> Mapping[str, Code]:
    """Religious affiliations of actors."""
    return _codes("religions")


@cache
def ethnic_groups() -> Mapping[str, Code]:
    """Ethnic affiliations of actors; most codes are lower-case."""
    return _codes("ethnics")


@cache
def countries() -> tuple[Country, ...]:
    """The crosswalk: countries, territories and regions, one line each."""
    source = _file_name("countries")
    return _records(table_rows("countries"), Country, _country, source=source)


def country_by_fips(code: str) -> Country | None:
    """The place of a two-letter code of a Geo column, if known."""
    return _countries_by("fips").get(code)


def country_by_cameo(code: str) -> Country | None:
    """The place of a three-letter code of an Actor column, if known."""
    return _countries_by("cameo").get(code)


def country_by_iso3(code: str) -> Country | None:
    """The place of an ISO 3166-1 alpha-3 code, if known."""
    return _countries_by("iso3").get(code)


@cache
def root_codes() -> tuple[str, ...]:
    """The 20 two-digit roots, 01 to 20."""
    return tuple(code for code, event in event_codes().items() if event.level == "root")


def quad_class(root: str) -> int:
    """1 verbal cooperation, 2 material cooperation, 3 verbal conflict, 4 material conflict."""
    event = event_codes().get(root)
    if event is None or event.level != "root":
        raise GdelphiError(f"no CAMEO root {root!r}; roots are 01 to 20, as text")
    return event.quad_class


# --- from text to objects -------------------------------------------------------------------------


class _Fields:
    """One row by column name; says what is wrong with a field instead of guessing."""

    def __init__(self, columns: tuple[str, ...], row: TableRow) -> None:
        self._values = dict(zip(columns, row, strict=True))

    def maybe(self, column: str) -> str | None:
        return self._values[column]

    def text(self, column: str) -> str:
        value = self._values[column]
        if value is None:
            raise ValueError(f"{column} is empty")
        return value

    def one_of(self, column: str, allowed: tuple[str, ...]) -> str:
        value = self.text(column)
        if value not in allowed:
            raise ValueError(f"{column} is {value!r}, not one of {', '.join(allowed)}")
        return value

    def flag(self, column: str) -> bool:
        return self.one_of(column, ("0", "1")) == "1"


def _event_code(row: _Fields) -> EventCode:
    return EventCode(
        code=row.text("code"),
        root=row.text("root"),
        base=row.maybe("base"),
        level=cast(Level, row.one_of("level", get_args(Level))),
        quad_class=int(row.one_of("quad_class", ("1", "2", "3", "4"))),
        goldstein=float(row.text("goldstein")),
        label=row.text("label"),
        verb=row.text("verb"),
        verb_target=row.text("verb_target"),
    )


def _code(row: _Fields) -> Code:
    return Code(
        code=row.text("code"),
        label=row.text("label"),
        noun=row.text("noun"),
        adjective=row.text("adjective"),
        official=row.flag("official"),
    )


def _country(row: _Fields) -> Country:
    fips, cameo = row.maybe("fips"), row.maybe("cameo")
    if fips is None and cameo is None:
        raise ValueError("neither a FIPS nor a CAMEO code")
    return Country(
        fips=fips,
        cameo=cameo,
        iso3=row.maybe("iso3"),
        name=row.text("name"),
        article=row.maybe("article"),
        adjective=row.text("adjective"),
        kind=cast(CountryKind, row.one_of("kind", get_args(CountryKind))),
        fips_official=row.flag("fips_official") if fips else None,
        cameo_official=row.flag("cameo_official") if cameo else None,
        same_as=row.maybe("same_as"),
    )


def _records(
    table: Table, record: type[T], build: Callable[[_Fields], T], *, source: str
) -> tuple[T, ...]:
    """Build one record a row; the header must name the fields of the record, in their order."""
    expected = tuple(field.name for field in fields(record))
    if table.columns != expected:
        raise GdelphiError(
            f"{source}: columns are {', '.join(table.columns)}; expected {', '.join(expected)}"
        )
    records: list[T] = []
    for number, row in enumerate(table.rows, start=2):
        try:
            records.append(build(_Fields(table.columns, row)))
        except ValueError as error:
            raise GdelphiError(f"{source}, line {number}: {error}") from error
    return tuple(records)


def _keyed(records: Iterable[T], attribute: str, *, source: str) -> Mapping[str, T]:
    """Records by one of their codes, those without it left out; a code may occur only once."""
    keyed: dict[str, T] = {}
    for record in records:
        code = getattr(record, attribute)
        if code is None:
            continue
        if code in keyed:
            raise GdelphiError(f"{source}: {attribute} {code!r} occurs on two lines")
        keyed[code] = record
    return MappingProxyType(keyed)


def _codes(name: str) -> Mapping[str, Code]:
    source = _file_name(name)
    return _keyed(_records(table_rows(name), Code, _code, source=source), "code", source=source)


@cache
def _countries_by(attribute: Literal["fips", "cameo", "iso3"]) -> Mapping[str, Country]:
    return _keyed(countries(), attribute, source="countries.tsv")
