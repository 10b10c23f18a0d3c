"""The code is formatted and free of lint; `make lint` also checks types, which takes a minute."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("words", [["ruff", "check"], ["ruff", "format", "--check"]])
def test_the_checkers_have_nothing_to_say(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
