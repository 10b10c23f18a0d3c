"""What `gdelphi verify` does: hold everything on disk against its checksums.

Store, measures (with packs and fitted stacks), embeddings, models, forecasts with their scores,
reports and the backtest that they quote. A file that is not what was written, or is gone, is named
with the way back: most of it is made again by a command, a record has to come from a copy. Nothing
is changed. A file without a checksum is counted: it was written by an earlier version, or by
somebody else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gdelphi.app.promote import LOG, model_in_use, read_decisions
from gdelphi.common.checksums import CHECKSUMS, FileState, file_states
from gdelphi.common.errors import GdelphiError, PromotionError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import ForecastArchive, forecasts_folder
from gdelphi.judge.files import SCORES
from gdelphi.measures.clouds import measures_folder
from gdelphi.report.report import reports_folder
from gdelphi.store.connection import Store
from gdelphi.store.seal import seal_path, seal_state

NOT_OURS: Final = (".lock",)
STATES: Final[dict[FileState, str]] = {
    "damaged": "is not what was written",
    "missing": "is gone",
    "bad list": "has lines that cannot be read",
}


@dataclass(frozen=True)
class Damage:
    """A file that is not as it should be, and what to do."""

    path: Path
    says: str
    remedy: str


@dataclass
class VerifiedPart:
    """A part of what is on disk."""

    name: str
    place: Path
    sound: int = 0
    """files that are what was written"""
    unknown: int = 0
    """files without a checksum"""
    damages: list[Damage] = field(default_factory=list)


def verify(settings: Settings, *, on_step: OnStep = silent) -> Iterator[VerifiedPart]:
    """Yield the parts one by one, as they have been looked at."""
    on_step("store")
    yield _store(settings)
    for name, place, remedy in _folders(settings):
        if place.is_dir():
            on_step(name)
            part = _embeddings(place) if name == "embeddings" else _folder(name, place, remedy)
            if name == "forecasts":
                _add_forecasts(part)
            if name == "models":
                _add_promotions(part, settings)
            yield part


def _folders(settings: Settings) -> Iterator[tuple[str, Path, Callable[[Path], str]]]:
    """Name, place and remedies of everything beside the store."""
    yield "measures", measures_folder(settings), _measures_remedy
    cache = settings.embed.cache or settings.store.parent / "embeddings"
    yield "embeddings", cache, _embeddings_remedy
    yield "models", settings.flows.models, _model_remedy
    yield "forecasts", forecasts_folder(settings), _forecast_remedy
    yield "reports", reports_folder(settings), _report_remedy
    if settings.report.backtest:
        again = "delete it, and run `gdelphi backtest` again"
        yield "backtest", settings.report.backtest, lambda _: again


def _store(settings: Settings) -> VerifiedPart:
    """The whole file against its seal, and every block of it by reading every row."""
    part = VerifiedPart("store", settings.store)
    remedy = (
        "docs/operations.md, a damaged store: restore it from a backup and `gdelphi ingest` what "
        "has come since, or move it away and ingest all again"
    )
    try:
        store = Store(settings)
        if not store.exists():
            return part
        with store.reading(alone=True) as connection:
            for (table,) in connection.rows(
                "SELECT table_name FROM duckdb_tables() "
                "WHERE NOT internal AND database_name = current_database()"
            ):
                connection.rows(f'SELECT bit_xor(hash("{table}")) FROM "{table}"')
            wrong = connection.rows(
                "SELECT name FROM ledger LEFT JOIN (SELECT FileId, count(*) AS n FROM events "
                "GROUP BY FileId) ON file_id = FileId "
                "WHERE status = 'loaded' AND kind <> 'reduced' AND accepted <> coalesce(n, 0)"
            )
            sums = connection.wrong_sums()
    except GdelphiError as error:
        part.damages.append(Damage(settings.store, str(error), remedy))
        return part
    for (name,) in wrong[:20]:
        says = f"has other rows of {name} than its ledger says"
        part.damages.append(Damage(settings.store, says, remedy))
    for table, number in sums.items():
        says = f"has {number} sums in {table} that are not those of its rows"
        part.damages.append(Damage(settings.store, says, remedy))
    state = seal_state(settings.store) if settings.store_catalog is None else "none"
    if state == "damaged":
        noted = seal_path(settings.store)
        says = f"or {noted} is not what was written, though every row of it can be read"
        known = f"if a copy was put back, or another program wrote to it, delete {noted}; else "
        part.damages.append(Damage(settings.store, says, known + remedy))
    part.sound += not part.damages
    part.unknown += state == "none"
    return part


def _folder(name: str, place: Path, remedy: Callable[[Path], str]) -> VerifiedPart:
    part = VerifiedPart(name, place)
    for path, state in file_states(place):
        inside = path.relative_to(place).parts
        if path.name in NOT_OURS or path.suffix == ".lock" or any(map(is_half_done, inside)):
            continue
        if state == "sound":
            part.sound += path.name != CHECKSUMS
        elif state == "unknown":
            part.unknown += 1
        else:
            part.damages.append(Damage(path, STATES[state], remedy(path)))
    return part


def is_half_done(name: str) -> bool:
    """Whether a name is that of something being written or removed; a kill may leave it so."""
    return name.endswith(".part")


def _embeddings(place: Path) -> VerifiedPart:
    """Each encoder's file of vectors against its checksum."""
    part = VerifiedPart("embeddings", place)
    for path in sorted(place.glob("*.sqlite")):
        state = seal_state(path)
        part.sound += state == "sound"
        part.unknown += state == "none"
        if state == "damaged":
            part.damages.append(Damage(path, STATES["damaged"], _embeddings_remedy(path)))
    return part


def _add_forecasts(part: VerifiedPart) -> None:
    """Forecasts know the checksums of their own tables, those of earlier versions too."""
    archive = ForecastArchive(part.place)
    manifests, problems = archive.read()
    for manifest in manifests:
        try:
            archive.load(manifest.recipe.origin, manifest.id)
        except GdelphiError as error:
            problems.append(str(error))
    known = {str(damage.path.parent) for damage in part.damages}
    for problem in problems:
        if not any(folder in problem for folder in known):
            part.damages.append(Damage(part.place, problem, _forecast_remedy(part.place)))


def _add_promotions(part: VerifiedPart, settings: Settings) -> None:
    log = settings.flows.models / LOG
    for problem in read_decisions(settings)[1]:
        part.damages.append(Damage(log, problem, "nothing has to be done; delete the line"))
    try:
        model_in_use(settings)
    except PromotionError as error:
        part.damages.append(Damage(settings.flows.models, str(error), _model_remedy(log)))


# --- what to do -----------------------------------------------------------------------------------


def _measures_remedy(path: Path) -> str:
    if "space" in path.parts:
        return "bring the folder space/ back from a copy, or take that of the model in use"
    if "packs" in path.parts or "stacks" in path.parts:
        return f"delete {path.parent}: it is made again when it is needed"
    if path.suffix == ".parquet":
        return f"delete {path}, and run `gdelphi embed`"
    return f"delete {path}: it is made again"


def _embeddings_remedy(path: Path) -> str:
    return f"delete {path} and {seal_path(path)}: its texts are encoded again"


def _model_remedy(path: Path) -> str:
    if "state" in path.parts and path.name.startswith("step-"):
        return f"delete {path}: `gdelphi inspect` does without it"
    if "state" in path.parts:
        return f"delete {path.parent}: a training cannot be resumed from it"
    return (
        "bring its folder back from a copy; or `gdelphi promote --rollback`, or promote again the "
        "model that it was copied from"
    )


def _forecast_remedy(path: Path) -> str:
    if SCORES in path.parts:
        return f"delete {path}, and run `gdelphi score`"
    return "bring its folder back from a copy: a record cannot be made again; or move it away"


def _report_remedy(path: Path) -> str:
    day = path.parent.name
    origin = f" --origin {day}" if len(day) == len("2021-01-01") and day[:4].isdecimal() else ""
    return f"run `gdelphi report{origin}`"
