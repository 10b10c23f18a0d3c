"""Sharing independent portions of work among processes, with results in their order.

Only as many portions are under way as keep all processes busy, so that results waiting for their
turn stay few. Processes are spawned, not forked: a fork of a process with threads (Arrow, torch)
may hang. Each limits its linear algebra to one thread: many small products gain nothing from more.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from threading import Thread
from time import sleep
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from gdelphi.common.errors import GdelphiError

Item = TypeVar("Item")
ItemIn = TypeVar("ItemIn", contravariant=True)
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

FEWEST_PORTIONS = 4  # below, further processes are not worth the second that their start takes
PORTIONS_AHEAD = 3  # for each process
PARENT_CHECK_SECONDS = 1.0


class Work(Protocol[ItemIn, ResultOut]):
    """What is done with an item. It is sent to each process once, so it must be picklable."""

    def do(self, item: ItemIn) -> ResultOut: ...


def share(
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    portion: int = 8,
    processes: int | None = None,
) -> Iterator[Result]:
    """The result of each item, in their order."""
    processes = processes or os.cpu_count() or 1
    portions = [items[start : start + portion] for start in range(0, len(items), portion)]
    if processes == 1 or len(portions) < FEWEST_PORTIONS:
        with threadpool_limits(1):
            yield from map(work.do, items)
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(work,)
    ) as pool:
        under_way: deque[Future[list[Any]]] = deque()
        try:
            for some in portions:
                under_way.append(pool.submit(_do, some))
                if len(under_way) >= PORTIONS_AHEAD * processes:
                    yield from under_way.popleft().result()
            while under_way:
                yield from under_way.popleft().result()
        except BrokenProcessPool:
            raise GdelphiError(
                "a process was killed while it worked, most likely for want of memory: close other "
                "programs or take fewer days at a time; what is done stays done"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_work: Work[Any, Any] | None = None  # of this process, when it is one of a pool


def _begin(work: Work[Any, Any]) -> None:
    global _work
    _work = work
    threadpool_limits(1)
    Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """A parent that is killed cannot stop its pool, whose processes would wait for work forever."""
    while os.getppid() == parent:
        sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def _do(items: Sequence[Any]) -> list[Any]:
    assert _work is not None  # noqa: S101 - set when the process began
    return [_work.do(item) for item in items]
