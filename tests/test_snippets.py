"""The Python snippets of the documents run, on a world that is smaller than the demo's."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.predictor import Predictor
from helpers.forecast_world import FUTURES, one_thread, predictor, settings
from helpers.training_world import SEQUENCES

__all__ = ["one_thread", "predictor", "settings"]

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def demo(
    predictor: Predictor, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder whose data/demo is what `gdelphi demo` leaves, of a smaller world; made once."""
    above = tmp_path_factory.mktemp("demo")
    folder = above / "data" / "demo"
    shutil.copytree(predictor.folder, folder / "models" / "current")
    shutil.copytree(str(settings.ingest.archive), folder / "archive")
    shutil.copyfile(settings.store, folder / "store.duckdb")
    assert settings.measures.folder is not None
    shutil.copytree(settings.measures.folder, folder / "measures")
    tables: dict[str, dict[str, Any]] = {
        "ingest": {"archive": "archive", "downloads": "downloads"},
        "embed": {"encoder": "hashing"},
        "measures": {"folder": "measures"},
        "split": {"embargo_days": 2},
        "sequences": {**SEQUENCES, "variants": 2},
        "train": settings.train.model_dump(exclude_none=True, exclude_defaults=True),
        "report": {"folder": "reports"},
        "flows": {"models": "models"},
    }
    lines = ['store = "store.duckdb"']
    for name, values in tables.items():
        lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in values.items())]
    (folder / "gdelphi.toml").write_text("\n".join(lines), encoding="utf-8")
    loaded = load_settings(str(folder / "gdelphi.toml")).settings
    forecast(loaded, ForecastRequest(folder / "models" / "current", futures=FUTURES))
    return above


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


def snippets(page: Path) -> str:
    """The Python blocks of a page, or the cells of a notebook, one after the other."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text("utf-8"))["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(block for block in found if not block.startswith(">>> "))


DOCUMENTS = (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*.ipynb"))
PAGES = [page for page in DOCUMENTS if snippets(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_snippets_of_a_page_run(
    page: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    exec(compile(snippets(page), str(page), "exec"), {"__name__": "snippet"})
