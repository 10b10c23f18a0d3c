"""Jobs of several threads: their order, their linear algebra, what becomes of errors."""

from functools import partial
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch

from gdelphi.common.errors import ForecastError
from gdelphi.common.threads import at_once


def test_results_come_in_the_order_of_their_jobs() -> None:
    assert at_once([partial(pow, number, 2) for number in range(20)], threads=3) == [
        number**2 for number in range(20)
    ]
    assert at_once([]) == []


def test_jobs_run_at_the_same_time_each_with_one_thread_of_linear_algebra() -> None:
    both = Barrier(2, timeout=20)  # broken unless two jobs are under way

    def job() -> tuple[int, int]:
        both.wait()
        torch.ones(300, 300) @ torch.ones(300, 300)  # torch sets its number with the first product
        return get_ident(), torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        one, other = at_once([job, job], threads=2)
        assert torch.get_num_threads() == 2, "as it was"
    finally:
        torch.set_num_threads(before)
    assert one[0] != other[0]
    assert (one[1], other[1]) == (1, 1)


def test_a_job_ends_with_the_same_bits_whatever_the_number_of_threads() -> None:
    def job(seed: int) -> np.ndarray:
        matrix = torch.randn(400, 700, generator=torch.Generator().manual_seed(seed))
        return (matrix @ matrix.T).numpy()

    jobs = [partial(job, seed) for seed in range(4)]
    for one, other in zip(at_once(jobs, threads=1), at_once(jobs, threads=4), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_error_is_raised_and_jobs_that_have_not_begun_stay_so() -> None:
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ForecastError("the first")

    with pytest.raises(ForecastError, match="the first"):
        at_once([partial(job, number) for number in range(50)], threads=1)
    assert begun == [0]
