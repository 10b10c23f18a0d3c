"""`gdelphi world create --law`: another law for the same world, kept beside its files."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gdelphi.app.cli import app
from gdelphi.world.archive import load_world
from gdelphi.world.config import world_config
from gdelphi.world.draw_law import draw_law

SIZE = {"days": 60, "streams": 2}


@pytest.mark.parametrize("law", [None, 3], ids=["usual law", "drawn law"])
def test_the_law_is_that_of_the_option(law: int | None, tmp_path: Path) -> None:
    words = ["world", "create", "--preset", "demo", "--clean", "--out", str(tmp_path / "world")]
    words += [word for key, value in SIZE.items() for word in (f"--{key}", str(value))]
    done = CliRunner().invoke(app, [*words, *(["--law", str(law)] if law is not None else [])])
    assert done.exit_code == 0, done.output
    usual = world_config("demo", {**SIZE, "dirt": None})
    expected = usual if law is None else draw_law(usual, law)
    assert load_world(tmp_path / "world")[0] == expected


def test_a_law_below_zero_is_refused(tmp_path: Path) -> None:
    words = ["world", "create", "--law", "-1", "--out", str(tmp_path / "world")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--law" in done.output
    assert not (tmp_path / "world").exists()
