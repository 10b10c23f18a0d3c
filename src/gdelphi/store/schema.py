"""The store's schema as an ordered list of named migrations, with a comment on everything.

There is no primary key on `events`: it triples the load time and quintuples the file. That an id
stands there once is kept by the loader. A migration that has been released is never edited; a
change is a new entry at the end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdelphi.gdelt.layouts import EVENT_COLUMNS, REDUCED
from gdelphi.store.actor_countries import BLANK_COUNTRIES
from gdelphi.store.sums import TABLES, TOLD

SUMS = "sums"
"""the migration after which the tables of sums are to be filled"""


@dataclass(frozen=True)
class Migration:
    """A named step; all steps of an opening run in one transaction."""

    name: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class CodeTable:
    """A packaged table that is copied into the store."""

    source: str
    comment: str


CODE_TABLES: Mapping[str, CodeTable] = {
    "cameo_events": CodeTable(
        "events", "CAMEO event codes: root, base, quad class, Goldstein value"
    ),
    "cameo_types": CodeTable("types", "CAMEO actor types (roles)"),
    "cameo_groups": CodeTable("groups", "CAMEO known groups"),
    "cameo_religions": CodeTable("religions", "CAMEO religions"),
    "cameo_ethnics": CodeTable("ethnics", "CAMEO ethnic groups"),
    "countries": CodeTable(
        "countries", "countries: FIPS-2, CAMEO-3 and ISO-3 codes, name, adjective"
    ),
}
_CODE_TYPES = {"quad_class": "TINYINT", "goldstein": "DOUBLE"}

STATUSES = {
    "listed": "in the archive's list, not tried yet",
    "loaded": "its rows are in the store (accepted may be 0: a day without events)",
    "missing": "the archive does not have it",
    "rejected": "its bytes are not a good event file",
    "failed": "it could not be fetched",
}

_CORE_COMMENTS = {
    "GLOBALEVENTID": "GDELT's id of the row, unique in this table",
    "SQLDATE": "date of the event as the text tells it; may lie years off the news day",
    "MonthYear": "SQLDATE as YYYYMM",
    "Year": "SQLDATE as YYYY",
    "FractionDate": "SQLDATE as a year with fraction",
    "IsRootEvent": "1 if the event is in the lead of an article",
    "EventCode": "CAMEO code, 2 to 4 digits with leading zeros",
    "EventBaseCode": "CAMEO code at the second level (3 digits)",
    "EventRootCode": "CAMEO code at the first level (2 digits)",
    "QuadClass": "verbal (1) or material (2) cooperation, verbal (3) or material (4) conflict",
    "GoldsteinScale": "theoretical impact of the event type, -10 to 10",
    "NumMentions": "mentions in the first update that had the event",
    "NumSources": "sources in the first update that had the event",
    "NumArticles": "articles in the first update that had the event",
    "AvgTone": "average tone of those articles, -100 to 100",
    "DATEADDED": "when the row was added at the source (backfiles: the day of the backfill)",
    "SOURCEURL": "address or citation of the first article (none before 2013-04)",
    "NewsDay": "day on which the row became known; SQLDATE for backfiles",
    "FileId": "file that brought the row: ledger.file_id",
    "StoryDuplicate": "true if a row with a lower id has the same actors, code, place and days",
}
_ACTOR_COMMENTS = {
    "Code": "full CAMEO code of actor {}",
    "Name": "name of actor {} as found in the text",
    "CountryCode": "CAMEO three-letter country of actor {} (not FIPS)",
    "KnownGroupCode": "CAMEO known group of actor {}",
    "EthnicCode": "CAMEO ethnic group of actor {}",
    "Religion1Code": "CAMEO religion of actor {}",
    "Religion2Code": "second CAMEO religion of actor {}",
    "Type1Code": "CAMEO role of actor {}",
    "Type2Code": "second CAMEO role of actor {}",
    "Type3Code": "third CAMEO role of actor {}",
}
_GEO_COMMENTS = {
    "Type": "resolution of the place of {}: 1 country, 2 US state, 3 US city, 4 city, 5 state",
    "FullName": "place of {} as found in the text",
    "CountryCode": "FIPS 10-4 two-letter country of the place of {} (GM is Germany)",
    "ADM1Code": "FIPS country and first-level region of the place of {}",
    "ADM2Code": "second-level region of the place of {} (GDELT 2.0)",
    "Lat": "latitude of the place of {}",
    "Long": "longitude of the place of {}",
    "FeatureID": "GNS or GNIS id of the place of {}",
}


_VIEW_COMMENTS = {
    "daily_counts": "rows per stream and news day; WORLD is the stream of all rows",
    "days": "what is known about each news day: its files and whether it is complete",
    "phrase_dates": "files whose event dates are 0, 1, 7, 30, 365 or 3650 days back only: resolved "
    "phrases",
}


def event_comments() -> dict[str, str]:
    """A comment for each column of `events`."""
    comments = dict(_CORE_COMMENTS)
    for number in (1, 2):
        for part, text in _ACTOR_COMMENTS.items():
            comments[f"Actor{number}{part}"] = text.format(number)
    for prefix, what in (
        ("Actor1Geo", "actor 1"),
        ("Actor2Geo", "actor 2"),
        ("ActionGeo", "the event"),
    ):
        for part, text in _GEO_COMMENTS.items():
            comments[f"{prefix}_{part}"] = text.format(what)
    return comments


def create_code_table(name: str, columns: tuple[str, ...]) -> Iterator[str]:
    """The statements that make (again) the store's copy of a packaged table."""
    typed = ", ".join(
        f"{column} {'BOOLEAN' if 'official' in column else _CODE_TYPES.get(column, 'VARCHAR')}"
        for column in columns
    )
    yield f"CREATE OR REPLACE TABLE {name} ({typed})"
    yield f"COMMENT ON TABLE {name} IS {quoted(CODE_TABLES[name].comment)}"


def quoted(text: str) -> str:
    """A string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _comment(kind: str, name: str, text: str) -> str:
    return f"COMMENT ON {kind} {name} IS {quoted(text)}"


def _bookkeeping() -> Iterator[str]:
    yield "CREATE TABLE migrations (number INTEGER, name VARCHAR, applied_at TIMESTAMP)"
    yield _comment("TABLE", "migrations", "schema changes that this store has seen, in their order")
    yield "CREATE TABLE meta (key VARCHAR, value VARCHAR)"
    yield _comment("TABLE", "meta", "what else the store knows about itself")
    yield "CREATE SEQUENCE file_ids"
    yield """
        CREATE TABLE ledger (
            file_id BIGINT, archive VARCHAR, name VARCHAR, kind VARCHAR, span VARCHAR,
            first_day DATE, last_day DATE, status VARCHAR, reason VARCHAR, listed BOOLEAN,
            size BIGINT, md5 VARCHAR, stamp VARCHAR, layout VARCHAR, text_bytes BIGINT,
            rows_in BIGINT, accepted BIGINT, rejected BIGINT, duplicates BIGINT, repaired BIGINT,
            tries INTEGER, first_seen TIMESTAMP, last_tried TIMESTAMP, loaded_at TIMESTAMP
        )"""
    meanings = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    yield _comment("TABLE", "ledger", "one row for every file that an archive has or ought to have")
    yield _comment("COLUMN", "ledger.status", meanings)
    yield _comment(
        "COLUMN", "ledger.rows_in", "lines of the file = accepted + rejected + duplicates"
    )
    yield _comment("COLUMN", "ledger.duplicates", "rows whose id another row has: see `duplicates`")
    yield _comment(
        "COLUMN", "ledger.repaired", "rows with bytes that are no UTF-8, replaced by U+FFFD"
    )
    yield _comment("COLUMN", "ledger.listed", "false: expected by the calendar, but in no list")
    yield _comment(
        "COLUMN", "ledger.stamp", "size and time of change, for files without a checksum"
    )
    yield _comment(
        "COLUMN", "ledger.kind", "events, translated (feed of translated news) or reduced"
    )
    yield """
        CREATE TABLE runs (
            run_id VARCHAR, archive VARCHAR, since DATE, until DATE, started_at TIMESTAMP,
            finished_at TIMESTAMP, planned INTEGER, loaded INTEGER, accepted BIGINT,
            missing INTEGER, rejected INTEGER, failed INTEGER, succeeded BOOLEAN
        )"""
    yield _comment("TABLE", "runs", "ingestion runs; one that was killed has no finished_at")


def _events() -> Iterator[str]:
    own = {"NewsDay": "DATE", "FileId": "BIGINT"}
    yield f"CREATE TABLE events ({_columns({**EVENT_COLUMNS, **own, 'StoryDuplicate': 'BOOLEAN'})})"
    yield _comment("TABLE", "events", "GDELT events, one row for each id; names as in the codebook")
    for column, text in event_comments().items():
        yield _comment("COLUMN", f"events.{column}", text)
    yield f"CREATE TABLE duplicates ({_columns({**EVENT_COLUMNS, **own, 'place': 'INTEGER'})})"
    yield _comment(
        "TABLE", "duplicates", "rows whose id is in events from an earlier news day, file or line"
    )
    yield _comment(
        "COLUMN", "duplicates.place", "1: the first row of its file with this id, 2: the second"
    )
    yield """
        CREATE TABLE rejects (
            file_id BIGINT, file VARCHAR, line BIGINT, reason VARCHAR, raw VARCHAR
        )"""
    yield _comment("TABLE", "rejects", "rows that could not be read, with their place and raw text")
    yield f"CREATE TABLE reduced_events ({_columns({**REDUCED.columns, 'FileId': 'BIGINT'})})"
    yield _comment(
        "TABLE", "reduced_events", "MASTERREDUCEDV2: no ids and no countries, so never in events"
    )


_COUNTRY_LINKED = """
    CREATE VIEW country_linked AS SELECT
        GLOBALEVENTID, SQLDATE, MonthYear, Year, FractionDate, IsRootEvent, EventCode,
        EventBaseCode, EventRootCode, QuadClass, GoldsteinScale, Actor1Geo_CountryCode,
        Actor2Geo_CountryCode,
        coalesce(
            least(Actor1Geo_CountryCode, Actor2Geo_CountryCode, ActionGeo_CountryCode)
            <> greatest(Actor1Geo_CountryCode, Actor2Geo_CountryCode, ActionGeo_CountryCode),
            false
        ) AS Multi_Country_Flag,
        ActionGeo_CountryCode AS Stream, NewsDay
    FROM events"""

_DAILY_COUNTS = """
    CREATE VIEW daily_counts AS SELECT
        if(grouping(ActionGeo_CountryCode) = 1, 'WORLD', ActionGeo_CountryCode) AS Stream, NewsDay,
        count(*) AS rows, count(*) FILTER (WHERE NOT StoryDuplicate) AS stories,
        sum(NumMentions) AS mentions,
        count(*) FILTER (WHERE QuadClass = 1) AS verbal_cooperation,
        count(*) FILTER (WHERE QuadClass = 2) AS material_cooperation,
        count(*) FILTER (WHERE QuadClass = 3) AS verbal_conflict,
        count(*) FILTER (WHERE QuadClass = 4) AS material_conflict
    FROM events
    GROUP BY GROUPING SETS ((ActionGeo_CountryCode, NewsDay), (NewsDay))"""

# Which files speak for a day, and what has become of them. A file over many days speaks for each.
_DAYS_OF = """
    WITH spoken AS (
        SELECT unnest(generate_series(first_day, last_day, INTERVAL 1 DAY))::DATE AS day,
            status, layout, span
        FROM ledger WHERE kind <> 'reduced' AND first_day IS NOT NULL AND last_day IS NOT NULL
    ), counted AS (
        SELECT NewsDay AS day, count(*) AS rows FROM events GROUP BY NewsDay
    ), files AS (
        SELECT day, count(*) AS files,
            count(*) FILTER (WHERE status = 'loaded') AS loaded,
            count(*) FILTER (WHERE status = 'missing') AS missing,
            count(*) FILTER (WHERE status = 'rejected') AS rejected,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status = 'listed') AS untried,
            coalesce(bool_or(layout = 'backfile'), false) AS backfile
        FROM spoken GROUP BY day
    )
    SELECT day AS NewsDay, coalesce(rows, 0) AS rows, files, loaded, missing, rejected, failed,
        untried, backfile,
        rejected + failed + untried = 0 AS complete,
        CASE
            WHEN rejected > 0 THEN 'rejected'
            WHEN failed > 0 THEN 'failed'
            WHEN untried > 0 THEN 'untried'
            WHEN loaded = 0 THEN 'missing'
            WHEN missing > 0 THEN 'partial'
            WHEN rows IS NULL THEN 'empty'
            ELSE 'present'
        END AS state
    FROM files LEFT JOIN counted USING (day)"""


def _unknown_codes() -> Iterator[str]:
    yield f"""
        CREATE VIEW unknown_codes AS
        SELECT kind, column_name, code, sum(rows)::BIGINT AS rows, min(NewsDay) AS first_day,
            max(NewsDay) AS last_day
        FROM odd_codes WHERE kind <> '{TOLD}' GROUP BY ALL"""
    yield _comment("VIEW", "unknown_codes", "codes in events that no table has")
    yield f"CREATE VIEW blank_countries AS {BLANK_COUNTRIES}"
    yield _comment(
        "VIEW", "blank_countries", "actors without a country code whose actor code tells one"
    )


def _views() -> Iterator[str]:
    yield _COUNTRY_LINKED
    yield _comment(
        "VIEW", "country_linked", "events with their countries: 14 columns, stream, news day"
    )
    yield _comment(
        "COLUMN",
        "country_linked.Multi_Country_Flag",
        "whether the known countries of both actors and the event differ",
    )
    yield _comment(
        "COLUMN", "country_linked.Stream", "country of the event (FIPS); NULL if unknown"
    )
    yield _DAILY_COUNTS
    yield _comment("VIEW", "daily_counts", _VIEW_COMMENTS["daily_counts"])
    yield f"CREATE VIEW days AS {_DAYS_OF}"
    yield _comment("VIEW", "days", _VIEW_COMMENTS["days"])


def _rejects_in_numbers() -> Iterator[str]:
    yield "ALTER TABLE rejects ADD COLUMN rows BIGINT DEFAULT 1"
    yield _comment(
        "COLUMN", "rejects.rows", "how many rows this stands for: beyond 10,000 of a file, many"
    )


def _no_secrets() -> Iterator[str]:
    """Earlier versions told the user and password of an archive's address in reasons."""
    for table, column in (("ledger", "reason"), ("ledger", "archive"), ("runs", "archive")):
        yield (
            f"UPDATE {table} SET {column} = regexp_replace({column}, "
            f"'(https?://)[^/@ ]*@', '\\1', 'g') WHERE contains({column}, '@')"
        )


# A quarter of the 15-minute files have event dates that are nothing but "yesterday", "last week",
# "last month", "last year" and "ten years ago", counted back from the day of the file.
_PHRASE_DATES = """
    CREATE VIEW phrase_dates AS
    SELECT FileId, any_value(NewsDay) AS NewsDay, count(*) AS rows,
        count_if(SQLDATE <> NewsDay) AS other_days
    FROM events GROUP BY FileId
    HAVING count_if(SQLDATE <> NewsDay) > 0
        AND bool_and(NewsDay - SQLDATE IN (0, 1, 7, 30, 365, 3650))"""


def _what_sources_leave_out() -> Iterator[str]:
    yield _PHRASE_DATES
    yield _comment("VIEW", "phrase_dates", _VIEW_COMMENTS["phrase_dates"])


def _counted(stream: str) -> str:
    quads = {
        1: "verbal_cooperation", 2: "material_cooperation",
        3: "verbal_conflict", 4: "material_conflict",
    }  # fmt: skip
    counts = ", ".join(
        f"coalesce(sum(rows) FILTER (QuadClass = {quad}), 0)::BIGINT AS {name}"
        for quad, name in quads.items()
    )
    return f"""
        SELECT {stream} AS Stream, NewsDay, sum(rows)::BIGINT AS rows,
            sum(stories)::BIGINT AS stories, sum(mentions) AS mentions, {counts}
        FROM day_sums GROUP BY ALL"""


_PHRASE_DATES_OF_SUMS = """
    SELECT FileId, min(NewsDay) AS NewsDay, sum(rows)::BIGINT AS rows,
        sum(other_days)::BIGINT AS other_days
    FROM file_days GROUP BY FileId
    HAVING sum(other_days) > 0 AND bool_and(phrase_dated)"""


def _sums() -> Iterator[str]:
    for name, (columns, comment) in TABLES.items():
        yield f"CREATE TABLE {name} ({columns})"
        yield _comment("TABLE", name, comment)
    for view, select in {
        "daily_counts": f"{_counted('Stream')} UNION ALL {_counted(quoted('WORLD'))}",
        "days": _DAYS_OF.replace(
            "count(*) AS rows FROM events", "sum(rows)::BIGINT AS rows FROM file_days"
        ),
        "phrase_dates": _PHRASE_DATES_OF_SUMS,
    }.items():
        yield f"CREATE OR REPLACE VIEW {view} AS {select}"
        yield _comment("VIEW", view, _VIEW_COMMENTS[view])


MIGRATIONS: tuple[Migration, ...] = (
    Migration("files and runs", tuple(_bookkeeping())),
    Migration("events", tuple(_events())),
    Migration("views", tuple(_views())),
    Migration("rejects in numbers", tuple(_rejects_in_numbers())),
    Migration("no secrets", tuple(_no_secrets())),
    Migration("what sources leave out", tuple(_what_sources_leave_out())),
    Migration(SUMS, tuple(_sums())),
)

# Made anew together with the code tables that they are made from.
CODE_VIEWS: tuple[str, ...] = tuple(
    statement.replace("CREATE VIEW", "CREATE OR REPLACE VIEW") for statement in _unknown_codes()
)
