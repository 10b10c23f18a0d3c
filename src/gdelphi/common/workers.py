"""Sharing independent portions of work among processes, with results in their order.

Only as many portions are under way as keep all processes busy, so that results waiting for their
turn stay few. Processes are forked from one that has imported what they need and done nothing else
(multiprocessing's fork server): a fork of this process, which has threads (Arrow, torch), may hang,
and processes that import everything themselves take seconds each. Each limits its linear algebra to
one thread: many small products gain nothing from more.

Within `working_with`, portions go to workers elsewhere in place of processes of this machine. What
such workers are is not known here: the flows have those of a Dask cluster. Whoever shares work is
the one that commits: workers read, and write files of their own days.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from gdelphi.common.errors import GdelphiError

Item = TypeVar("Item")
ItemIn = TypeVar("ItemIn", contravariant=True)
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

FEWEST_PORTIONS = 4  # below, further processes are not worth the second that their start takes
PORTIONS_AHEAD = 3  # for each process
PORTIONS_EACH = 16  # that a worker elsewhere is sent, if there is much: each costs up to 90 ms
LARGEST_PORTION = 8  # times the usual one, so that a killed worker's is soon done again


class Work(Protocol[ItemIn, ResultOut]):
    """What is done with an item. It is sent to each process once, so it must be picklable."""

    def do(self, item: ItemIn) -> ResultOut: ...


class Promised(Protocol):
    """The results of a portion, which are waited for."""

    def result(self) -> list[Any]: ...

    def cancel(self) -> Any: ...


class Workers(Protocol):
    """Workers elsewhere, each a process of its own that sees the same files."""

    @property
    def number(self) -> int:
        """How many there are."""

    def submit(self, work: Work[Any, Any], items: Sequence[Any]) -> Promised:
        """Have a portion done. A worker that is lost is another's work."""


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


@contextmanager
def working_with(workers: Workers) -> Iterator[None]:
    """Within the block, work is shared among these."""
    before = _workers.set(workers)
    try:
        yield
    finally:
        _workers.reset(before)


def have_workers() -> bool:
    """Whether there are workers elsewhere."""
    return _workers.get() is not None


def share(
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    portion: int = 8,
    processes: int | None = None,
    preload: Sequence[str] = (),
) -> Iterator[Result]:
    """The result of each item, in their order. `preload` names further modules for later work, if
    this is what starts the server that processes come from."""
    workers = _workers.get()
    if workers is not None and len(items) > portion:
        each = -(-len(items) // (workers.number * PORTIONS_EACH))
        portions = _portions(items, max(portion, min(each, portion * LARGEST_PORTION)))
        ahead = PORTIONS_AHEAD * workers.number
        yield from _in_order(lambda some: workers.submit(work, some), portions, ahead)
        return
    processes = processes or os.cpu_count() or 1
    portions = _portions(items, portion)
    if processes == 1 or len(portions) < FEWEST_PORTIONS:
        with threadpool_limits(1):
            yield from map(work.do, items)
        return
    context = get_context("forkserver")
    # Heeded where there is no server yet.
    context.set_forkserver_preload([type(work).__module__, *preload])
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(work,)
    ) as pool:
        ahead = PORTIONS_AHEAD * processes
        try:
            yield from _in_order(lambda some: pool.submit(_do, some), portions, ahead)
        except BrokenProcessPool:
            raise GdelphiError(
                "a process was killed while it worked, most likely for want of memory: close other "
                "programs or take fewer days at a time; what is done stays done"
            ) from None


def _portions(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _in_order(
    submit: Callable[[Sequence[Item]], Promised], portions: Sequence[Sequence[Item]], ahead: int
) -> Iterator[Any]:
    """The results of all portions; whatever ends this, what has not begun is not begun."""
    under_way: deque[Promised] = deque()
    try:
        for some in portions:
            under_way.append(submit(some))
            if len(under_way) >= ahead:
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()
    finally:
        for waiting in under_way:
            waiting.cancel()


_work: Work[Any, Any] | None = None  # of this process, when it is one of a pool


def _begin(work: Work[Any, Any]) -> None:
    global _work
    _work = work
    threadpool_limits(1)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot stop its pool, whose processes would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(items: Sequence[Any]) -> list[Any]:
    assert _work is not None  # noqa: S101 - set when the process began
    return [_work.do(item) for item in items]


def do_alone(work: Work[Item, Result], items: Sequence[Item]) -> list[Result]:
    """A portion, as a process of a pool does it: linear algebra has one thread."""
    with threadpool_limits(1):
        return [work.do(item) for item in items]
