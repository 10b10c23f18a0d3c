"""The measure decoder: untrained it is its start, its blocks go down the divergence to past days,
and it treats days as measures."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.model.decoder import (
    SINKHORN,
    SWIFT,
    DecoderConfig,
    MeasureDecoder,
    SpaceTime,
    blend,
)
from gdelphi.ot.entropic import sinkhorn_divergence
from gdelphi.ot.geometry import Measures
from helpers.sphere_cases import unit
from helpers.training_world import one_thread

__all__ = ["one_thread"]
DIMENSION, DAYS, POINTS, ATOMS = 6, 5, 7, 4


def cases(seed: int = 0, streams: int = 2) -> tuple[Measures, SpaceTime]:
    """Starts whose last atom does not exist, and a past whose last day is not there."""
    draw = torch.Generator().manual_seed(seed)
    points = unit(torch.randn(streams, ATOMS, DIMENSION, generator=draw))
    weights = torch.rand(streams, ATOMS, generator=draw) + 0.1
    weights[:, -1] = 0
    past = unit(torch.randn(streams, DAYS, POINTS, DIMENSION, generator=draw))
    masses = torch.rand(streams, DAYS, POINTS, generator=draw) + 0.1
    masses = masses / masses.sum(dim=2, keepdim=True)
    masses[:, -1] = 0
    lags = torch.arange(DAYS).expand(streams, -1).float()
    return Measures(points, weights / weights.sum(dim=1, keepdim=True)), SpaceTime(
        past, masses, lags
    )


def decoder(*, step: float = 0.0, reweighing: float = 0.0, blocks: int = 1) -> MeasureDecoder:
    """A decoder whose blocks make given steps."""
    made = MeasureDecoder(DecoderConfig(blocks=blocks)).eval()
    with torch.no_grad():
        for block in made.blocks:
            block.step.fill_(step / SWIFT)
            block.reweighing.fill_(reweighing / SWIFT)
    return made


def mean_divergence(atoms: Measures, past: SpaceTime, kernel: Tensor) -> Tensor:
    """sum_s k_s S(atoms, day s) of each stream."""
    total = torch.zeros(len(kernel))
    for day in range(DAYS - 1):
        target = Measures(past.points[:, day], past.weights[:, day])
        total += kernel[:, day] * sinkhorn_divergence(atoms, target, SINKHORN).value
    return total


@torch.no_grad()
def test_untrained_it_is_its_start() -> None:
    start, past = cases()
    decoded = decoder(blocks=3)(start, past)
    torch.testing.assert_close(decoded.points, start.points)
    torch.testing.assert_close(decoded.weights, start.weights)


@torch.no_grad()
def test_with_one_atom_and_one_day_a_step_goes_towards_the_mean_of_its_points() -> None:
    # One atom carries all of the day, so the plan needs no solving: the pull is the day's mean.
    start, past = cases(streams=1)
    one = Measures(start.points[:, :1], torch.ones(1, 1))
    past = SpaceTime(past.points[:, :1], past.weights[:, :1], past.lags[:, :1])
    mean = (past.weights[0, 0, :, None] * past.points[0, 0]).sum(dim=0)
    atom = one.points[0, 0]
    expected = atom + 0.5 * (mean - (mean @ atom) * atom)
    decoded = decoder(step=0.5)(one, past)
    torch.testing.assert_close(decoded.points[0, 0], expected / expected.norm())
    torch.testing.assert_close(decoded.weights, torch.ones(1, 1))


@torch.no_grad()
@pytest.mark.parametrize(("step", "reweighing"), [(0.3, 0.0), (0.0, 0.5), (0.3, 0.5)])
def test_a_step_lowers_the_divergence_to_past_days(step: float, reweighing: float) -> None:
    start, past = cases()
    model = decoder(step=step, reweighing=reweighing)
    kernel = model.blocks[0].kernel(past)
    before = mean_divergence(start, past, kernel)
    after = mean_divergence(model(start, past), past, kernel)
    assert (after < before - 1e-4).all()


@torch.no_grad()
def test_atoms_stay_on_the_sphere_and_those_that_are_not_there_stay_away() -> None:
    start, past = cases()
    decoded = decoder(step=1.0, reweighing=1.0, blocks=3)(start, past)
    torch.testing.assert_close(decoded.points.norm(dim=2), torch.ones(2, ATOMS))
    torch.testing.assert_close(decoded.weights.sum(dim=1), torch.ones(2))
    assert (decoded.weights[:, -1] == 0).all()


@torch.no_grad()
def test_days_are_measures() -> None:
    """Neither the order of points nor splitting one, nor what stands where nothing is, matters."""
    start, past = cases()
    model = decoder(step=0.7, reweighing=0.7, blocks=2)
    known = model(start, past)
    order = torch.randperm(POINTS, generator=torch.Generator().manual_seed(1))
    halves = SpaceTime(
        past.points[:, :, order].repeat(1, 1, 2, 1),
        past.weights[:, :, order].repeat(1, 1, 2) / 2,
        past.lags,
    )
    strange = past.points.clone()
    strange[:, -1] = math.nan  # a day that is not there
    for other in (halves, past._replace(points=strange)):
        decoded = model(start, other)
        torch.testing.assert_close(decoded.points, known.points, atol=1e-3, rtol=0)
        torch.testing.assert_close(decoded.weights, known.weights, atol=1e-3, rtol=0)


@torch.no_grad()
def test_streams_do_not_see_each_other() -> None:
    start, past = cases()
    model = decoder(step=0.7, reweighing=0.7, blocks=2)
    both = model(start, past)
    first = model(Measures(*(part[:1] for part in start)), SpaceTime(*(part[:1] for part in past)))
    torch.testing.assert_close(both.points[:1], first.points, atol=1e-4, rtol=0)


def test_the_kernel_is_a_mixture_of_half_lives() -> None:
    _, past = cases()
    block = decoder().blocks[0]
    with torch.no_grad():
        block.recency.copy_(torch.tensor([10.0, 0.0, 0.0, 0.0]))
    expected = 0.5 ** (np.arange(DAYS - 1) / block.lives[0].item())
    kernel = block.kernel(past).detach()[0].numpy()
    np.testing.assert_allclose(kernel[:-1], expected / expected.sum(), rtol=1e-5)
    assert kernel[-1] == 0


def test_the_weekday_of_tomorrow_counts_by_its_factor() -> None:
    draw, lags = cases(streams=1)[1], torch.tensor([[0.0, 5.0, 6.0, 13.0, 0.0]])
    past = draw._replace(lags=lags)
    block = decoder().blocks[0]
    before = block.kernel(past).detach()[0]
    with torch.no_grad():
        block.weekday.fill_(math.log(3) / SWIFT)
        block.recency.copy_(torch.tensor([0.0, 0.0, 0.0, 10.0]))
    after = block.kernel(past).detach()[0]
    decay = 0.5 ** (lags[0, :4] / block.lives[-1])
    raised = decay * torch.tensor([1.0, 1.0, 3.0, 3.0])
    torch.testing.assert_close(after[:4], raised / raised.sum())
    assert before.sum().item() == pytest.approx(1.0)


def test_the_blend_goes_from_the_start_to_what_was_decoded() -> None:
    start, past = cases()
    with torch.no_grad():
        decoded = decoder(step=1.0, reweighing=1.0)(start, past)
    for strength, end in ((0.0, start), (1.0, decoded)):
        mixed = blend(start, decoded, strength)
        torch.testing.assert_close(mixed.points, end.points)
        torch.testing.assert_close(mixed.weights, end.weights)
    halfway = blend(start, decoded, 0.5)
    torch.testing.assert_close(halfway.points.norm(dim=2), torch.ones(2, ATOMS))
    odds = halfway.weights[:, 0] / halfway.weights[:, 1]
    ends = [one.weights[:, 0] / one.weights[:, 1] for one in (start, decoded)]
    torch.testing.assert_close(odds, (ends[0] * ends[1]).sqrt())


def test_every_parameter_of_the_steps_learns() -> None:
    start, past = cases()
    model = decoder(step=0.1, reweighing=0.1, blocks=2)
    decoded = model(start, past)
    target = Measures(past.points[:, 0], past.weights[:, 0])
    sinkhorn_divergence(decoded, target, SINKHORN).value.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
    assert all(block.step.grad.abs() > 0 for block in model.blocks)
