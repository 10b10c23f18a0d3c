"""The first step of a run, apart from the others: it needs no model, so torch is not imported."""

from datetime import date

from gdelphi.common.errors import PipelineError
from gdelphi.common.settings import Settings
from gdelphi.store.ingest import IngestRequest, IngestResult, ingest


def bring(settings: Settings, since: date | None = None, until: date | None = None) -> IngestResult:
    """Ingest; an error unless all that the archive has is there."""
    result = ingest(settings, IngestRequest(since=since, until=until))
    if not result.succeeded:
        first = result.problems[0] if result.problems else None
        example = f"; the first: {first.name}, {first.reason}" if first else ""
        raise PipelineError(
            f"{len(result.problems) + result.not_tried} files of {result.archive} could not be "
            f"loaded{example}. `gdelphi status` tells of all"
        )
    return result
