"""The layouts of GDELT's event files: which column is what, told by their number.

Column names are those of GDELT's codebooks. The store's table has the 61 columns of GDELT 2.0;
older layouts fill a part of it. Codes and feature ids are text: leading zeros matter, and feature
ids are letters in places. Dates are typed as dates, so that an impossible one is found on reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Layout:
    """One kind of file."""

    name: str
    columns: Mapping[str, str]  # codebook name -> type in the store, in the order of the file
    required: tuple[str, ...]  # without these a row cannot be identified or placed in time
    time_format: str = "%Y%m%d"  # of DATEADDED: GDELT 2.0 gives the second
    has_header: bool = False

    @property
    def width(self) -> int:
        return len(self.columns)


def _actor(number: int) -> dict[str, str]:
    parts = (
        "Code", "Name", "CountryCode", "KnownGroupCode", "EthnicCode",
        "Religion1Code", "Religion2Code", "Type1Code", "Type2Code", "Type3Code",
    )  # fmt: skip
    return {f"Actor{number}{part}": "VARCHAR" for part in parts}


def _geo(prefix: str, *, adm2: bool) -> dict[str, str]:
    columns = {f"{prefix}_Type": "TINYINT", f"{prefix}_FullName": "VARCHAR"}
    columns |= {f"{prefix}_CountryCode": "VARCHAR", f"{prefix}_ADM1Code": "VARCHAR"}
    if adm2:
        columns[f"{prefix}_ADM2Code"] = "VARCHAR"
    columns |= {f"{prefix}_Lat": "DOUBLE", f"{prefix}_Long": "DOUBLE"}
    return columns | {f"{prefix}_FeatureID": "VARCHAR"}


def _event_columns(*, adm2: bool, url: bool) -> Mapping[str, str]:
    columns = {
        "GLOBALEVENTID": "BIGINT",
        "SQLDATE": "DATE",
        "MonthYear": "INTEGER",
        "Year": "INTEGER",
        "FractionDate": "DOUBLE",
        **_actor(1),
        **_actor(2),
        "IsRootEvent": "TINYINT",
        "EventCode": "VARCHAR",
        "EventBaseCode": "VARCHAR",
        "EventRootCode": "VARCHAR",
        "QuadClass": "TINYINT",
        "GoldsteinScale": "DOUBLE",
        "NumMentions": "INTEGER",
        "NumSources": "INTEGER",
        "NumArticles": "INTEGER",
        "AvgTone": "DOUBLE",
        **_geo("Actor1Geo", adm2=adm2),
        **_geo("Actor2Geo", adm2=adm2),
        **_geo("ActionGeo", adm2=adm2),
        "DATEADDED": "TIMESTAMP",
    }
    if url:
        columns["SOURCEURL"] = "VARCHAR"
    return MappingProxyType(columns)


_REDUCED_COLUMNS = MappingProxyType(
    {
        "Date": "DATE",
        "Source": "VARCHAR",
        "Target": "VARCHAR",
        "CAMEOCode": "VARCHAR",
        "NumEvents": "INTEGER",
        "NumArts": "INTEGER",
        "QuadClass": "TINYINT",
        "Goldstein": "DOUBLE",
        **{
            f"{who}Geo{part}": kind
            for who in ("Source", "Target", "Action")
            for part, kind in (("Type", "TINYINT"), ("Lat", "DOUBLE"), ("Long", "DOUBLE"))
        },
    }
)

_IDENTITY = ("GLOBALEVENTID", "SQLDATE")
BACKFILE = Layout("backfile", _event_columns(adm2=False, url=False), _IDENTITY)
DAILY = Layout("daily", _event_columns(adm2=False, url=True), _IDENTITY)
QUARTER = Layout(
    "quarter-hour", _event_columns(adm2=True, url=True), _IDENTITY, time_format="%Y%m%d%H%M%S"
)
REDUCED = Layout("reduced", _REDUCED_COLUMNS, ("Date", "CAMEOCode"), has_header=True)

LAYOUTS: Mapping[int, Layout] = MappingProxyType(
    {layout.width: layout for layout in (BACKFILE, DAILY, QUARTER, REDUCED)}
)
BY_NAME: Mapping[str, Layout] = MappingProxyType(
    {layout.name: layout for layout in LAYOUTS.values()}
)

EVENT_COLUMNS = QUARTER.columns

# Files that lie beside the events in GDELT's archives, by their number of columns.
OTHER_FILES: Mapping[int, str] = MappingProxyType(
    {
        16: "a GDELT 2.0 mentions file",
        27: "a GDELT 2.0 knowledge-graph (GKG) file",
        11: "a GDELT 1.0 knowledge-graph (GKG) file",
        15: "a GDELT 1.0 knowledge-graph counts file",
    }
)
