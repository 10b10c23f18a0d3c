"""Commands of gdelphi from a process that has imported everything already, and their sudden ends.

A campaign of a thousand kills spends most of its time on imports if each command is a new Python.
So a process imports what the commands need, opens nothing and starts no thread, and then forks
for each command that it reads from its input: a line of JSON with the command's words and, if it
is to be killed, after how many seconds of the processor's time. The kernel counts them and sends a
signal that nobody handles, so the end is as sudden as SIGKILL and strikes at the same place of the
work however busy the machine is; what the command had started is killed with it. The answer is a
line too: how it ended, and the processor's time that it took.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

IMPORTED_LATE = (
    "pyarrow.parquet",
    "lightgbm",
    "scipy.optimize",
    "torch",
    "transformers",
    "safetensors",
)
"""what commands import from others when they need it"""


class Ended(NamedTuple):
    """How a command ended."""

    killed: bool
    code: int
    """its exit code, if it was not killed"""
    seconds: float
    """of the processor's time, without that of processes that it had started; 0 if it was killed"""
    all_seconds: float
    """with them"""
    output: str


class CommandServer:
    """Runs commands one at a time."""

    def __init__(self, log: Path) -> None:
        self.log = log
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **threads},
        )  # fmt: skip
        self._answer()  # it is ready

    def run(self, words: list[str], kill_after: float | None = None) -> Ended:
        """Run a command of gdelphi, to its end or until it is killed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([words, kill_after]) + "\n")
        self._process.stdin.flush()
        return Ended(*self._answer(), self.log.read_text(errors="replace"))

    def close(self) -> None:
        self._process.communicate()  # nothing more comes, so it ends

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("the process that runs the commands has ended")
        return json.loads(line)


def serve(log: Path) -> None:
    """Read commands until there are no more."""
    _import_all()
    answers = os.fdopen(os.dup(1), "w")
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        words, kill_after = json.loads(line)
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            answers.close()
            _run(words, kill_after, log, tell)
        os.close(tell)
        _, status, usage = os.wait4(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it had started
        own = float(os.read(told, 64) or 0)
        os.close(told)
        killed = os.WIFSIGNALED(status)
        code = -1 if killed else os.WEXITSTATUS(status)
        answer = [killed, code, own, usage.ru_utime + usage.ru_stime]
        print(json.dumps(answer), file=answers, flush=True)


def _import_all() -> None:
    import gdelphi

    for module in pkgutil.walk_packages(gdelphi.__path__, "gdelphi."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)


def _run(words: list[str], kill_after: float | None, log: Path, tell: int) -> None:
    """What the child does; if it comes to its end, it tells the time that it took."""
    from gdelphi.app.cli import main

    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in enumerate((nothing, file, file)):
        os.dup2(target, number)
    sys.argv = ["gdelphi", *words]
    began = time.process_time()
    if kill_after is not None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, max(kill_after, 1e-3))
    code: Any = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    except BaseException:  # noqa: BLE001 - the campaign looks at it
        sys.excepthook(*sys.exc_info())
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(tell, str(time.process_time() - began).encode())
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
