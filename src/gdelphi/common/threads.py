"""Independent jobs at once, by threads of this process.

For fits of minutes whose time is spent within torch, numpy and LightGBM, which leave the
interpreter to others meanwhile. Threads share the memory of the data, of which processes
(`workers.py`) would each need a copy. Each job has one thread of linear algebra, however many jobs
are under way: what it ends with depends neither on the number of cores nor on the other jobs.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def at_once(jobs: Sequence[Callable[[], Result]], *, threads: int | None = None) -> list[Result]:
    """The results of all jobs in their order. The first job to fail ends the others that have not
    begun."""
    number = min(threads or os.cpu_count() or 1, len(jobs))
    with one_thread_each():
        if number <= 1:
            return [job() for job in jobs]
        with ThreadPoolExecutor(
            number, "fit", initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            waiting = [pool.submit(job) for job in jobs]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                give_back_memory()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Within the block linear algebra has one thread, whoever asks for it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # of this thread, and of those that torch has not seen yet
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def give_back_memory() -> None:
    """What was freed goes back to the system. The C library of Linux keeps much of it, for each
    thread by itself, and large arrays are never put there again: after fits at once, a gigabyte."""
    with suppress(OSError, AttributeError, TypeError):  # another C library, or none by that way
        ctypes.CDLL(None).malloc_trim(0)
