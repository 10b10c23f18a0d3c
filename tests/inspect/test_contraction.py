"""No expansion is above its bound, and constants grow with n as published."""

import math

import pytest
import torch
from torch import Tensor

from gdelphi.inspect.bounds import (
    HeadNorms,
    kernel_parts,
    masked_bound,
    mean_field_bound,
    points_bound,
    points_bound_w1,
)
from gdelphi.inspect.expansion import conditional_wasserstein, expansion, local_constant, slope
from gdelphi.inspect.layer_findings import (
    adversarial_points,
    encoder_tokens,
    growth,
    inspect_encoder,
    inspect_layer,
    inspect_masked,
)
from gdelphi.inspect.layers import (
    AttentionLayer,
    decoder_layers,
    encoder_bound,
    encoder_local_bound,
    transport_layers,
)
from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import Block, MeasureModel
from gdelphi.model.transport import TransportBlock

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH, HEADS = 16, 2


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module", params=[1.0, 6.0], ids=["as initialised", "steep"])
def model(request: pytest.FixtureRequest) -> MeasureModel:
    """Random weights, as they are and so large that attention picks single points."""
    torch.manual_seed(1)
    config = MeasureConfig(
        dimension=12, width=WIDTH, heads=HEADS, queries=2, context_days=6, finest=5,
        event_dimension=4,
    )  # fmt: skip
    made = MeasureModel(config)
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if "project" in name or "distance" in name:
                weights.mul_(request.param)
        made.decoder.distance.normal_(0, 0.3 * request.param)
    return made.eval()


def sphere(number: int, dimension: int, generator: torch.Generator) -> Tensor:
    points = torch.randn(number, dimension, generator=generator)
    return points / points.norm(dim=1, keepdim=True)


# --- layers are what the model has ----------------------------------------------------------------


def test_a_decoder_layer_is_the_attention_of_its_block(
    model: MeasureModel, generator: torch.Generator
) -> None:
    block, layer = model.decoder.blocks[0], decoder_layers(model)[0]
    assert isinstance(block, Block)
    tokens = torch.randn(12, WIDTH, generator=generator)
    days = torch.arange(6).repeat_interleave(2)
    with torch.no_grad():
        normed = block.before(tokens)
        split = block.project(normed).view(1, 12, 3, HEADS, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mask = model.decoder._mask(6, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        wanted = block.out(mixed.transpose(1, 2).reshape(12, WIDTH)) - block.out.bias
        torch.testing.assert_close(layer(normed, days=days), wanted, rtol=1e-4, atol=1e-5)
    assert normed.norm(dim=1).max() <= layer.radius * (1 + 1e-5)


def test_a_transport_layer_is_the_attention_of_its_block(
    model: MeasureModel, generator: torch.Generator
) -> None:
    block, layer = model.transport.blocks[0], transport_layers(model)[0]
    assert isinstance(block, TransportBlock)
    tokens = torch.randn(1, 7, WIDTH, generator=generator)
    log_weights = torch.rand(1, 7, generator=generator).log()
    with torch.no_grad():
        normed = block.norm(tokens)
        wanted = block.mixed(block._attend(normed, log_weights, None)) - block.mixed.bias
        found = layer(normed[0], log_weights[0])
    torch.testing.assert_close(found, wanted[0], rtol=1e-4, atol=1e-5)


def test_the_written_out_encoder_is_the_models(
    model: MeasureModel, generator: torch.Generator
) -> None:
    points = sphere(9, 12, generator)
    weights = torch.full((9,), 1 / 9)
    with torch.no_grad():
        wanted = model.day_encoder(points[None], weights[None])[0]
        found = encoder_tokens(model.day_encoder, points, weights)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


# --- nothing is above its bound -------------------------------------------------------------------


def test_no_expansion_is_above_its_bound(model: MeasureModel, generator: torch.Generator) -> None:
    clouds = [(sphere(n, 12, generator), torch.full((n,), 1 / n)) for n in (5, 20)]
    findings = [inspect_encoder(model.day_encoder, clouds, generator)]
    for layer in decoder_layers(model):
        inputs = [layer.radius * sphere(12, WIDTH, generator).view(6, 2, WIDTH)]
        findings.append(inspect_masked(layer, inputs, generator))
    for layer in transport_layers(model):
        inputs = [layer.radius * sphere(n, WIDTH, generator) for n in (5, 20)]
        inputs.append(adversarial_points(layer, 20))
        findings.append(inspect_layer(layer, inputs, generator))
    assert [one.name for one in findings if one.broken] == []
    assert all(one.found > 0 for one in findings)
    assert all(one.ascended >= one.random for one in findings[1:])


def test_a_value_above_its_bound_would_be_found(
    model: MeasureModel, generator: torch.Generator
) -> None:
    """With norms that are too small by far, the same findings are broken."""
    layer = transport_layers(model)[0]
    small = AttentionLayer(
        layer.name, layer.kind, layer.logit, layer.value, layer.radius, layer.distance
    )
    small.__dict__["norms"] = [HeadNorms(1e-4, 1e-4, 1.0)] * HEADS
    inputs = [layer.radius * sphere(8, WIDTH, generator)]
    assert inspect_layer(small, inputs, generator).broken


def test_the_bound_of_given_clouds_lies_between_what_is_found_and_the_bound_of_all(
    model: MeasureModel, generator: torch.Generator
) -> None:
    points, weights = sphere(30, 12, generator), torch.full((30,), 1 / 30)
    encoder = model.day_encoder
    local = encoder_local_bound(encoder, points, weights)
    found = local_constant(
        lambda moved: encoder_tokens(encoder, moved, weights), points, weights,
        generator=generator, out_weights=torch.ones(encoder.queries),
    )  # fmt: skip
    assert 0 < found.value <= local <= 10 ** encoder_bound(encoder)


def test_the_form_without_its_added_n_is_no_bound() -> None:
    """A mean, A = 0: its constant is |V|, where |V| s sqrt(12 n + 3) says 0."""
    layer = AttentionLayer("mean", "transport", torch.zeros(1, 3, 3), torch.eye(3)[None], 1.0)
    points = torch.eye(3)
    found = local_constant(
        layer, points, torch.full((3,), 1 / 3), generator=torch.Generator().manual_seed(0)
    )
    assert found.value == pytest.approx(1.0, abs=1e-5)
    assert points_bound(layer.norms, 3) == pytest.approx(math.log10(3), abs=1e-6)
    assert 10 ** mean_field_bound(layer.norms) == pytest.approx(1.0)


# --- growth ---------------------------------------------------------------------------------------


def test_adversarial_clouds_grow_as_the_root_of_n_and_the_mean_field_bound_does_not() -> None:
    """One direction asks, another answers: A = c u v'."""
    logit = torch.zeros(1, 4, 4)
    logit[0, 0, 1] = 18.0
    layer = AttentionLayer("planted", "transport", logit, torch.eye(4)[None], 1.0)
    sizes = [64, 256, 1024]
    points = sphere(1024, 4, torch.Generator().manual_seed(0))
    real, adversarial = growth(layer, points, sizes, torch.Generator().manual_seed(0))
    assert slope(sizes, adversarial) == pytest.approx(0.5, abs=0.03)
    assert slope(sizes, real) < 0.45
    bounds = [10 ** points_bound(layer.norms, size) for size in sizes]
    assert all(found < bound for found, bound in zip(adversarial, bounds, strict=True))
    assert slope(sizes, bounds) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("reach", [0.0, 0.1, 3.0, 500.0])
def test_bounds_in_closed_form(reach: float) -> None:
    head = HeadNorms(value=2.0, logit=reach / 4, radius=2.0)
    wanted = (math.log(2) + math.log(1 + 3 * reach) + 2 * reach) / math.log(10)
    assert mean_field_bound([head]) == pytest.approx(wanted)
    assert mean_field_bound([head, head]) == pytest.approx(wanted + math.log10(2))
    assert masked_bound([head]) >= mean_field_bound([head]) - 1e-9
    squared = 3 * 4 * (reach**2 * (4 * 10 + 1) + 10)
    assert points_bound([head], 10) == pytest.approx(math.log10(squared) / 2)
    assert 10 ** points_bound_w1([head], 10) == pytest.approx(2 * (reach + 10 * (1 + 2 * reach)))
    parts = kernel_parts(head)
    assert parts.product == pytest.approx(parts.potential + math.log10(2))
    assert parts.product <= mean_field_bound([head]) + 1e-9


def test_the_conditional_distance_is_that_of_each_day() -> None:
    """Days that swap their points are apart, though all points together are the same."""
    one = torch.tensor([[[0.0], [1.0]], [[5.0], [6.0]]])
    assert conditional_wasserstein(one, one + 2.0) == pytest.approx(2.0)
    assert conditional_wasserstein(one, one.flip(1)) == 0.0
    assert conditional_wasserstein(one, one.flip(0)) == pytest.approx(5.0)


def test_a_linear_map_expands_by_its_norm(generator: torch.Generator) -> None:
    matrix = torch.diag(torch.tensor([3.0, 1.0]))
    points, even = torch.randn(6, 2, generator=generator), torch.full((6,), 1 / 6)
    found = local_constant(lambda x: x @ matrix, points, even, generator=generator, iterations=40)
    assert found.value == pytest.approx(3.0, abs=1e-3)
    other = points + torch.tensor([0.1, 0.0])
    for order in (1, 2):
        ratio = expansion(lambda x: x @ matrix, points, other, even, order=order)
        assert ratio == pytest.approx(3.0, abs=1e-3)
