"""Fixtures that many tests share."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdelphi.common.garbage import collect_rarely
from gdelphi.common.settings import ENV_PREFIX

collect_rarely()

# The problems of tests are too small for threads to help, and threads that wait spinning take the
# cores from the other workers; read when torch and numpy are loaded, here and in what tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

LONG = (
    "flows/test_dask_workers.py", "flows/test_serve.py", "store/test_real_archives.py",
    "store/test_load.py", "flows/test_flows.py", "app/test_pipeline.py", "store/test_lake.py",
    "app/test_train_command.py", "model/test_train.py", "store/test_kill.py",
    "measures/test_cloud_update.py", "judge/test_backtest.py", "forecast/test_forecast.py",
    "store/test_http_ingest.py", "measures/test_encoder.py", "app/test_promote.py",
    "measures/test_embed.py", "common/test_workers.py", "world/test_archive.py",
    "app/test_cli.py", "gdelt/test_fetch.py", "world/test_oracle.py", "store/test_connection.py",
)  # fmt: skip
"""files that take longest: begun first, they leave no worker alone at the end"""

RATHER_LONG = (
    "judge/test_pooled_stack.py", "store/test_ingest.py", "measures/test_pack.py",
    "model/test_cell_fit.py", "text/test_train.py", "forecast/test_naming.py",
    "stack/test_fit.py", "tests/test_campaigns.py", "report/test_again.py", "judge/test_refit.py",
    "text/test_expected.py", "app/test_text_command.py", "judge/test_simulated.py",
    "gdelt/test_archive.py", "api/test_api.py", "inspect/test_other_models.py",
    "inspect/test_inspect.py", "tests/test_snippets.py",
)  # fmt: skip
"""begun next; most of their tests are short"""

SLOW_FIXTURES = {"browser", "pinned", "predictor", "shared_data", "trained", "undisturbed"}
"""a browser is started, a model trained, real data read: whatever asks for one of them is slow"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, whole and in their order; mark what is slow by its file or fixtures."""
    order = {
        name: number for number, name in enumerate(("tests/test_lint.py", *LONG, *RATHER_LONG))
    }
    names = {item: f"{item.path.parent.name}/{item.path.name}" for item in items}
    items.sort(key=lambda item: order.get(names[item], len(order)))
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if names[item] in LONG or SLOW_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """All that the tests import is never garbage."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real event data: a folder beside the project, or where the variable TEST_DATA points."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TEST_DATA", default))
    if not (folder / "README.md").is_file():
        pytest.skip(f"no real event data at {folder} (TEST_DATA names its folder)")
    return folder


@pytest.fixture(autouse=True)
def clean_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the person who runs the tests reach them."""
    for name in list(os.environ):
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch with one thread: the problems of tests are too small for two to help."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
