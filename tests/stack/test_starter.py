"""The shipped network: the same in NumPy as in torch, and better than the baselines it starts
from on a world that it has not seen."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from safetensors.numpy import save_file

from gdelphi.common.errors import ForecastError
from gdelphi.scores.probabilities import brier
from gdelphi.stack.context import ContextTable, context_table
from gdelphi.stack.linear import expit
from gdelphi.stack.starter import Starter, load_starter, shipped_starter
from helpers.small_stack import DAYS, small_panel


def random_starter(columns: int = 6, width: int = 4) -> Starter:
    random = np.random.default_rng(0)
    shapes = ((columns + 1, width), (width + 1, width), (width, 3), (columns + 1, 3))
    layers = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    mean = random.normal(size=columns).astype(np.float32)
    return Starter(mean, np.full(columns, 2, np.float32), *layers, np.ones(3, np.float32))


def random_table(columns: int = 6) -> ContextTable:
    random = np.random.default_rng(1)
    shape = (2, 3, 20)
    base = random.normal(size=(*shape, 3)).astype(np.float32)
    base[0, 0, 0, 2] = np.nan
    shown = random.normal(0, 8, (*shape, columns)).astype(np.float32)
    return ContextTable(shown, base, base)


def test_numpy_and_torch_agree() -> None:
    starter, table = random_starter(), random_table()
    first, second, out, linear = (torch.from_numpy(values) for values in starter[2:6])
    shown = torch.from_numpy((table.columns - starter.mean) / starter.deviation).clamp(-5, 5)
    hidden = F.gelu(shown @ first[:-1] + first[-1], approximate="tanh")
    hidden = hidden + F.gelu(hidden @ second[:-1] + second[-1], approximate="tanh")
    added = hidden @ out + shown @ linear[:-1] + linear[-1]
    np.testing.assert_allclose(
        starter.logits(table), added.numpy() + table.base, rtol=1e-4, atol=1e-4
    )
    assert np.isnan(starter.probabilities(table)[0, 0, 0, 2])


def test_a_target_of_which_no_part_counts_stays_at_the_base() -> None:
    starter = random_starter()._replace(part=np.array([1, 0, 0.5], np.float32))
    table, whole = random_table(), random_starter().logits(random_table())
    said = starter.logits(table)
    np.testing.assert_array_equal(said[..., 1], table.base[..., 1])
    np.testing.assert_allclose(said[..., 2], (table.base[..., 2] + whole[..., 2]) / 2, atol=1e-5)


def test_other_columns_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ForecastError, match="knows 6 columns, not 7"):
        random_starter().logits(random_table(7))
    path = tmp_path / "starter.safetensors"
    save_file(random_starter()._asdict(), path)
    assert load_starter(path).mean.tolist() == random_starter().mean.tolist()
    path.write_bytes(b"nothing")
    with pytest.raises(ForecastError, match=r"starter.safetensors holds no starter network"):
        load_starter(path)


@pytest.mark.slow
def test_the_shipped_network_beats_its_start_on_a_world_that_it_has_not_seen() -> None:
    panel = small_panel()
    days = [day for day in range(100, DAYS, 2) if panel.roots.present[day]]
    table = context_table(panel, days)
    said, base = shipped_starter().probabilities(table), expit(table.base.astype(np.float64))
    for target in range(2):
        ours, bar = (
            np.nanmean(brier(chances[..., target], table.outcomes[..., target]))
            for chances in (said, base)
        )
        assert ours < 0.99 * bar
