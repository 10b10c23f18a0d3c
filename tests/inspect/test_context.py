"""Less, shuffled and strange memory; a law that is in the context alone."""

import numpy as np
import pytest
import torch

from gdelphi.inspect.context import by_stream, exchange, remember, show, shuffle
from gdelphi.inspect.rotations import (
    LENGTH,
    PERIODS,
    SequenceReader,
    errors_of,
    least_squares,
    periodic,
    rotations,
    train_reader,
)
from gdelphi.model.network import Context

pytestmark = pytest.mark.usefixtures("one_thread")


def context() -> Context:
    """Two sequences of 3 days with a memory of 5; every number tells its day."""
    day, short = torch.arange(5.0), torch.arange(2.0, 5.0)
    memory = (day[None, :, None] + torch.tensor([0.0, 100.0])[:, None, None]).expand(2, 5, 4)
    days = (short[None, :, None] + torch.tensor([0.0, 100.0])[:, None, None]).expand(2, 3, 4)
    both = days[:, :, None].expand(2, 3, 3, 4)
    return Context(
        points=both, weights=days, features=memory, counts=memory,
        weekday=torch.arange(5).expand(2, 5), present=torch.ones(2, 5, dtype=torch.bool),
        occurs=memory, headline=memory, shares=memory, thresholds=days, pooled=both, usual=days,
        direct=both,
    )  # fmt: skip


def test_memory_and_days_are_cut_at_their_end() -> None:
    past, clouds = context(), torch.zeros(2, 3, 1, 1)
    assert remember(2)(past, clouds)[0].present.tolist()[0] == [False, False, False, True, True]
    assert remember(99)(past, clouds)[0].present.all()
    cut, shown = show(1)(past, clouds)
    assert cut.days == shown.shape[1] == 1
    assert cut.weights[0, 0, 0] == 4
    assert cut.features.shape == past.features.shape


def test_shuffling_keeps_a_day_whole_and_the_dates_in_place() -> None:
    past = context()
    clouds = torch.arange(3.0)[None, :, None, None].expand(2, -1, 1, 1)
    mixed, shown = shuffle(torch.Generator().manual_seed(1))(past, clouds)
    assert sorted(shown[0, :, 0, 0].tolist()) == [0, 1, 2]
    assert sorted(mixed.features[0, :, 0].tolist()) == [0, 1, 2, 3, 4]
    assert mixed.features[0, :, 0].tolist() != [0, 1, 2, 3, 4]
    torch.testing.assert_close(mixed.features, mixed.occurs)
    torch.testing.assert_close(mixed.weekday, past.weekday)
    torch.testing.assert_close(mixed.thresholds, past.thresholds)


def test_another_sequences_memory_takes_the_place_of_ones_own() -> None:
    past, shown = exchange(context(), torch.arange(2.0)[:, None, None, None].expand(2, 3, 1, 1))
    assert past.features[0, 0, 0] == 100
    assert past.features[1, 0, 0] == 0
    assert shown[:, 0, 0, 0].tolist() == [1, 0]
    assert past.usual[0, 0, 0] == 2
    streams, ends = by_stream((np.array([0, 0, 1, 1]), np.array([7, 8, 7, 8])))
    assert streams.tolist() == [0, 1, 0, 1]
    assert ends.tolist() == [7, 7, 8, 8]


def test_least_squares_is_exact_for_rotations_and_not_for_long_periods() -> None:
    generator = torch.Generator().manual_seed(0)
    points = rotations(20, generator)
    errors = errors_of(least_squares(points[:, :-1]), points[:, 1:])
    assert max(errors[3:]) < 1e-2
    assert errors[0] > 0.5
    points = periodic(50, generator)
    assert errors_of(least_squares(points[:, :-1]), points[:, 1:])[-1] > 0.1


def test_sequences_keep_their_laws() -> None:
    generator = torch.Generator().manual_seed(0)
    points = rotations(10, generator)
    assert points.shape == (10, LENGTH + 1, 3)
    assert (points.norm(dim=2) - 1).abs().max() < 1e-4
    angles = (points[:, 1:] * points[:, :-1]).sum(dim=2)
    torch.testing.assert_close(angles, angles[:, :1].expand_as(angles), rtol=0, atol=1e-4)
    again = periodic(10, generator)
    for sequence in again:
        assert any(torch.equal(sequence[p:], sequence[:-p]) for p in range(*PERIODS))


def test_a_reader_sees_no_later_point() -> None:
    torch.manual_seed(0)
    reader = SequenceReader().eval()
    points = rotations(4, torch.Generator().manual_seed(0))[:, :-1]
    changed = points.clone()
    changed[:, 9:] = 0.5
    with torch.no_grad():
        torch.testing.assert_close(reader(points)[:, :9], reader(changed)[:, :9])


def test_a_reader_learns_from_context() -> None:
    """After a short training it is nearer to the next point with ten points than with one."""
    generator = torch.Generator().manual_seed(0)
    reader = train_reader(rotations, generator, steps=60)
    points = rotations(100, generator)
    with torch.no_grad():
        errors = errors_of(reader(points[:, :-1]), points[:, 1:])
    assert errors[10] < 0.7 * errors[0]
