"""Shared by tests: command line."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from gdelphi.app.cli import main

WIDTH = {"COLUMNS": "120"}


def gdelphi(*words: str, given: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line here: to start a process takes longer than most commands."""
    told, errors = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.dict(os.environ, {**WIDTH, **variables}),
        mock.patch.multiple(sys, argv=["gdelphi", *words], stdin=io.StringIO(given)),
        redirect_stdout(told),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(words, code, told.getvalue(), errors.getvalue())


def gdelphi_process(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own, as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "gdelphi", *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, **WIDTH},
        check=False,
    )
