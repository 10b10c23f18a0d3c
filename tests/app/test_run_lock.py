"""One run at a time, and a run that did not end is noticed."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gdelphi.app import run_lock as run_locks
from gdelphi.app.run_lock import (
    lock_file,
    run_lock,
    take_unended,
)
from gdelphi.common.errors import RunLockError
from gdelphi.common.settings import Settings, load_settings
from helpers.measured_world import changed

KILLED = """
import os, signal, sys
from gdelphi.common.settings import load_settings
from gdelphi.app.run_lock import run_lock
with run_lock(load_settings().settings, "daily run for 2021-03-01"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(flags={"store": tmp_path / "s.duckdb"}).settings


def killed_run(settings: Settings) -> None:
    environment = {"GDELPHI_STORE": str(settings.store)}
    ended = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
    assert ended.returncode == -9


def test_a_run_that_was_killed_is_told_of_once(settings: Settings) -> None:
    killed_run(settings)
    told: list[str] = []
    for _ in range(2):
        with run_lock(settings, "the next", on_unended=told.append):
            pass
    assert len(told) == 1
    assert "did not end" in told[0] and "daily run for 2021-03-01" in told[0]


def test_whoever_looks_first_takes_the_message(settings: Settings) -> None:
    assert take_unended(settings) is None
    killed_run(settings)
    assert "daily run for 2021-03-01" in str(take_unended(settings))
    assert take_unended(settings) is None
    with run_lock(settings, "at work"):
        assert take_unended(settings) is None, "a run at work has not ended, and that is right"


def test_a_run_that_fails_has_ended(settings: Settings) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(settings, "fails"):
        raise ZeroDivisionError
    assert take_unended(settings) is None
    lock_file(settings).write_text("not JSON")
    assert "cannot be read" in str(take_unended(settings))


def test_the_second_waits_for_the_first(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_locks, "PAUSE", 0.01)
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        def wait(message: str) -> None:
            order.append(message)
            waiting.set()

        with run_lock(settings, "second", on_wait=wait):
            order.append("second")

    other = threading.Thread(target=second)
    with run_lock(settings, "first"):
        other.start()
        assert waiting.wait(60)
        order.append("first")
    other.join()
    assert order[1:] == ["first", "second"] and "waiting for another run: first" in order[0]


def test_waiting_has_an_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_locks, "PAUSE", 0.01)
    short = changed(settings, "flows", timeout_hours=1e-5)
    with (
        run_lock(settings, "first"),
        pytest.raises(RunLockError, match=r"still works on .*first.*flows.timeout_hours"),
        run_lock(short, "second"),
    ):
        pass
