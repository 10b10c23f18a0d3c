"""Work shared among processes gives what one process gives, and ends when something goes wrong."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy  # noqa: F401 - loads the library whose threads are counted
import pytest
from threadpoolctl import threadpool_info

from gdelphi.common import workers
from gdelphi.common.errors import GdelphiError
from gdelphi.common.workers import share


@dataclass(frozen=True)
class Square:
    """Squares, and tells which process did it."""

    def do(self, item: int) -> tuple[int, int]:
        return item * item, os.getpid()


@dataclass(frozen=True)
class SquareAfter:
    """The same, but the first item waits until another is done."""

    mark: Path
    other: int

    def do(self, item: int) -> tuple[int, int]:
        if item == self.other:
            self.mark.touch()
        patience = time.monotonic() + 300
        while item == 0 and not self.mark.exists() and time.monotonic() < patience:
            time.sleep(0.01)
        assert item or self.mark.exists(), "nobody else is at work"
        return item * item, os.getpid()


@dataclass(frozen=True)
class Marking:
    """Leaves a file for each item that was begun; one item goes wrong in some way."""

    folder: Path
    how: str
    wrong: int = 0

    def do(self, item: int) -> int:
        (self.folder / str(item)).touch()
        if item == self.wrong and self.how == "raise":
            raise LookupError(f"item {item} is wrong")
        if item == self.wrong and self.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
        return item

    def begun(self) -> set[int]:
        return {int(path.name) for path in self.folder.iterdir()}


class Unpicklable:
    """Work that cannot be sent to another process."""

    def __init__(self) -> None:
        self.secret = lambda: None

    def do(self, item: int) -> int:
        return item


def test_results_come_in_order_from_processes_that_work_at_once(tmp_path: Path) -> None:
    work = SquareAfter(tmp_path / "mark", 3 * 2 * workers.PORTIONS_AHEAD - 1)
    found = list(share(work, range(60), portion=3, processes=2))
    assert [result for result, _ in found] == [item * item for item in range(60)]
    processes = {process for _, process in found}
    assert os.getpid() not in processes
    assert len(processes) == 2


@pytest.mark.parametrize(("items", "processes"), [(60, 1), (9, 2), (0, 2), (1, None)])
def test_one_process_or_little_work_is_done_on_the_spot(items: int, processes: int | None) -> None:
    found = list(share(Square(), range(items), portion=3, processes=processes))
    assert found == [(item * item, os.getpid()) for item in range(items)]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_exception_arrives_after_the_results_before_it(tmp_path: Path, processes: int) -> None:
    results = share(Marking(tmp_path, "raise", 5), range(40), portion=1, processes=processes)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(LookupError, match="item 5 is wrong"):
        next(results)


def test_after_an_exception_work_that_waits_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PORTIONS_AHEAD", 1000)  # all of it waits
    work = Marking(tmp_path, "raise")
    with pytest.raises(LookupError):
        list(share(work, range(200), portion=1, processes=2))
    assert len(work.begun()) < 200


def test_little_is_begun_before_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PORTIONS_AHEAD", 2)
    work = Marking(tmp_path, "well")
    results = share(work, range(80), portion=2, processes=2)
    assert work.begun() == set()
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert work.begun() <= set(range(8)), "four portions of two"


def test_an_interruption_ends_the_processes(tmp_path: Path) -> None:
    def interrupted(results: Iterator[int]) -> None:
        for _ in results:
            raise KeyboardInterrupt

    work = Marking(tmp_path, "well")
    results = share(work, range(200), portion=1, processes=2)
    with pytest.raises(KeyboardInterrupt):
        interrupted(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    begun = work.begun()
    assert len(begun) < 20
    time.sleep(0.1)
    assert work.begun() == begun, "nobody works on"


def test_a_process_that_dies_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    with pytest.raises(GdelphiError, match="was killed while it worked"):
        list(share(Marking(tmp_path, "die"), range(40), portion=1, processes=2))


@dataclass(frozen=True)
class Staying:
    """Says which process works, and works on for long."""

    folder: Path

    def do(self, item: int) -> int:
        (self.folder / str(os.getpid())).touch()
        time.sleep(600)
        return item


def stay(folder: Path) -> None:
    list(share(Staying(folder), range(40), portion=1, processes=2))


def running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_processes_of_a_killed_parent_end(tmp_path: Path) -> None:
    parent = get_context("spawn").Process(target=stay, args=(tmp_path,))
    parent.start()
    patience = time.monotonic() + 300
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < patience:
        time.sleep(0.05)
    working = [int(path.name) for path in tmp_path.iterdir()]
    assert len(working) == 2
    parent.kill()
    parent.join()
    while any(map(running, working)) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not any(map(running, working))


def test_work_that_cannot_be_sent_is_an_error_and_no_endless_wait() -> None:
    with pytest.raises((AttributeError, TypeError), match=r"pickle|local object"):
        list(share(Unpicklable(), range(40), portion=1, processes=2))


@dataclass(frozen=True)
class Threads:
    """How many threads the linear algebra that comes with numpy may use here."""

    def do(self, item: int) -> int:
        return max(library["num_threads"] for library in threadpool_info())


@pytest.mark.parametrize("processes", [1, 2])
def test_linear_algebra_has_one_thread_while_working_and_all_of_them_after(processes: int) -> None:
    before = threadpool_info()
    assert set(share(Threads(), range(16), portion=2, processes=processes)) == {1}
    assert threadpool_info() == before
