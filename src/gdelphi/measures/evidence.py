"""Evidence: the rows of the store that stand behind a phrase or an atom of a day.

A cloud keeps codes and sums, not ids; the rows are looked up when somebody asks for them, by the
same canonical keys that made the cloud, so that what is shown is what was counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gdelphi.common.types import WORLD
from gdelphi.measures.clouds import Cloud
from gdelphi.measures.descriptors import NO_ATOM, Descriptor
from gdelphi.measures.phrases import actor_key_sql, canonical
from gdelphi.store.connection import Connection


@dataclass(frozen=True)
class SourceRow:
    """One row of the store behind a point."""

    event_id: int
    mentions: int
    place: str | None
    source: str | None
    """address or citation of the first article"""


_ROWS = f"""
    SELECT {actor_key_sql(1)}, coalesce(EventCode, ''), {actor_key_sql(2)}, GLOBALEVENTID,
        coalesce(NumMentions, 1), ActionGeo_FullName, SOURCEURL
    FROM events WHERE NewsDay = ? AND (? OR ActionGeo_CountryCode = ?)
    ORDER BY coalesce(NumMentions, 1) DESC, IsRootEvent DESC, GLOBALEVENTID"""


def rows_behind(
    connection: Connection, cloud: Cloud, descriptor: Descriptor, *, most: int = 5
) -> list[list[SourceRow]]:
    """For each atom up to `most` rows, each source once; none of points that no atom stands for.

    Those that carry the atom's own code come first, then those with more mentions.
    """
    atom_of = dict(zip(cloud.phrases(), descriptor.members.tolist(), strict=True))
    same_code: list[list[SourceRow]] = [[] for _ in range(len(descriptor))]
    other_codes: list[list[SourceRow]] = [[] for _ in range(len(descriptor))]
    for phrase, row in _rows(connection, cloud):
        atom = atom_of.get(phrase, NO_ATOM)
        if atom != NO_ATOM:
            same = phrase[1] == descriptor.phrases.code[atom]
            (same_code if same else other_codes)[atom].append(row)
    return [
        _one_of_a_source([*own, *rest])[:most]
        for own, rest in zip(same_code, other_codes, strict=True)
    ]


def _one_of_a_source(rows: list[SourceRow]) -> list[SourceRow]:
    """The same without further rows from one source; rows without a source all stay."""
    first = {row.source: row for row in reversed(rows)}
    return [row for row in rows if row.source is None or first[row.source] is row]


def _rows(connection: Connection, cloud: Cloud) -> Iterator[tuple[tuple[str, str, str], SourceRow]]:
    for first, code, second, *rest in connection.rows(
        _ROWS, [cloud.day, cloud.stream == WORLD, cloud.stream]
    ):
        yield (canonical(first), code, canonical(second)), SourceRow(*rest)
