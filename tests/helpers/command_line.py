"""Shared by tests: command line."""

import os
import subprocess
import sys


def gdelphi(*words: str, given: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own, as a user does."""
    return subprocess.run(
        [sys.executable, "-c", "from gdelphi.app.cli import main; main()", *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120", **variables},
        check=False,
    )
