"""A forecast as one tidy table: a row for each probability, with words beside the codes.

    stream, country    FIPS code, and the country's name
    day, horizon       the day that is forecast, and how many days after the origin it is; horizon 0
                       is *within the week*, and its day the last of the seven
    level, code, label the standard event
    target             occurs, headline or surge
    published          the probability
    stack, usual       that of the stack, and how often it comes
    low, high          the lowest and the highest that any of the forecasters behind it says

Made from the tables of a forecast, on disk or not: so Python, the HTTP API and alerts have the same
numbers. Null where a target is undefined.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from gdelphi.common.types import AHEAD
from gdelphi.forecast.archive import StoredForecast
from gdelphi.forecast.stored_week import FORECASTERS
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name

COLUMNS: Final = (
    "stream", "country", "day", "horizon", "level", "code", "label", "target", "published", "stack",
    "usual", "low", "high",
)  # fmt: skip
SCHEMA: Final = pa.schema(
    [
        (name, {"day": pa.date32(), "horizon": pa.int8()}.get(name, pa.string()))
        for name in COLUMNS[: COLUMNS.index("published")]
    ]
    + [(name, pa.float64()) for name in COLUMNS[COLUMNS.index("published") :]]
)
NOT_MEMBERS: Final = (
    "stream", "level", "code", "target", "published", "which", "beyond", "stack", "usual",
    "futures",
)  # fmt: skip
"""columns of the table of probabilities that are no member's"""
CLIMATOLOGY: Final = "climatology"
TOMORROW: Final = 1


def tidy_stored(forecast: StoredForecast) -> pa.Table:
    """Of a forecast on disk."""
    names = [name for name in ("probabilities", "week") if name in forecast]
    tables = {name: forecast.table(name) for name in names}
    return tidy_tables(tables, forecast.manifest.recipe.origin)


def tidy_tables(tables: Mapping[str, pa.Table], origin: date) -> pa.Table:
    """Of the tables of a forecast: probabilities and, if it has one, week."""
    week = tables.get("week")
    parts = [_of_tomorrow(tables["probabilities"], week, origin)]
    if week is not None:
        parts.append(_of_week(week.filter(pc.not_equal(week["horizon"], TOMORROW)), origin))
    return pa.concat_tables(parts).combine_chunks()


def member_columns(table: pa.Table) -> list[str]:
    """The members in a table of probabilities."""
    return [name for name in table.column_names if name not in NOT_MEMBERS]


def _of_tomorrow(table: pa.Table, week: pa.Table | None, origin: date) -> pa.Table:
    usual = table["usual" if "usual" in table.column_names else CLIMATOLOGY]
    if week is not None and "usual" not in table.column_names:
        usual = _usual_by_frequency(table, week, usual)
    low, high = _range(table, member_columns(table))
    horizons = pa.array([TOMORROW] * len(table), pa.int8())
    columns = {name: table[name] for name in ("level", "published", "stack")}
    return _table(table, {**columns, "usual": usual, "low": low, "high": high}, horizons, origin)


def _usual_by_frequency(table: pa.Table, week: pa.Table, else_: pa.ChunkedArray) -> pa.Array:
    """How often roots came, which the week knows; of finer codes what the climatology says."""
    first = week.filter(pc.equal(week["horizon"], TOMORROW))
    keys = ("stream", "code", "target")
    said = zip(*(first[name].to_pylist() for name in (*keys, "usual")), strict=True)
    known = {(*key, "root"): value for *key, value in said}
    cells = zip(*(table[name].to_pylist() for name in (*keys, "level")), strict=True)
    values = [known.get(cell, other) for cell, other in zip(cells, else_.to_pylist(), strict=True)]
    return pa.array(values, pa.float64())


def _of_week(week: pa.Table, origin: date) -> pa.Table:
    behind = [name for name in FORECASTERS if name != "published"]
    low, high = _range(week, behind)
    columns = {name: week[name] for name in ("published", "stack", "usual")}
    level = pa.array(["root"] * len(week), pa.string())
    columns |= {"level": level, "low": low, "high": high}
    return _table(week, columns, week["horizon"], origin)


def _range(table: pa.Table, names: Sequence[str]) -> tuple[Any, Any]:
    columns = [table[name].cast(pa.float64()) for name in names]
    nothing = pa.nulls(len(table), pa.float64())
    if not columns:
        return nothing, nothing
    return pc.min_element_wise(*columns), pc.max_element_wise(*columns)


def _table(table: pa.Table, columns: Mapping[str, Any], horizons: Any, origin: date) -> pa.Table:
    """The columns in their order, with words and days."""
    days = {ahead: origin + timedelta(days=ahead or AHEAD) for ahead in range(AHEAD + 1)}
    streams, codes = table["stream"].to_pylist(), table["code"].to_pylist()
    names = {stream: stream_name(stream) for stream in set(streams)}
    labels = {code: label_of(code) for code in set(codes)}
    whole = {
        **columns,
        "stream": table["stream"],
        "code": table["code"],
        "target": table["target"],
        "country": pa.array([names[stream] for stream in streams], pa.string()),
        "label": pa.array([labels[code] for code in codes], pa.string()),
        "horizon": horizons,
        "day": pa.array([days[one] for one in horizons.to_pylist()], pa.date32()),
    }
    return pa.table([whole[name] for name in COLUMNS], names=list(COLUMNS)).cast(SCHEMA)


def label_of(code: str) -> str:
    """What an event is called; the code itself where no table has it."""
    event = event_codes().get(code)
    return event.label if event else code
