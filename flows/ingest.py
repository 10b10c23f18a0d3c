"""Bring what the archive has, and the store lacks, into the store."""

from datetime import date

from prefect import flow

from gdelphi_flows.artifacts import show_ingest
from gdelphi_flows.shared import Tasks, flow_settings, locked_run, notify_failure

# What flows call imports DuckDB or torch, so it is imported when one runs: the process that starts
# them has no use for it.


@flow(name="gdelphi-ingest", on_failure=[notify_failure], on_crashed=[notify_failure])
def ingest(as_of: date | None = None, since: date | None = None) -> None:
    """Ingest up to a day; `since` reaches further back than the last day there."""
    settings = flow_settings()
    with locked_run(settings, "ingest"):
        from gdelphi.app.bring import bring

        result = Tasks(settings, 1)("ingest", lambda: bring(settings, since, as_of))
    show_ingest(result)
