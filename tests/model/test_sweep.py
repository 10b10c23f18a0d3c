"""Sweeps: which runs there are, and what is refused before anything is trained."""

from pathlib import Path

import pytest
import typer

from gdelphi.app.commands.sweep import parse_seeds, parse_values
from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import Settings
from gdelphi.model.sweep import SweepRequest, sweep_runs


def request(**values: tuple[str, ...]) -> SweepRequest:
    return SweepRequest(Path("out"), (0, 3), {f"train.{name}": of for name, of in values.items()})


def test_all_combinations_are_tried_with_each_seed() -> None:
    runs = sweep_runs(Settings(), request(width=("8", "16"), dropout=("0.1",)))
    assert [run.name for run in runs] == [
        "width=8,dropout=0.1,seed=0", "width=8,dropout=0.1,seed=3",
        "width=16,dropout=0.1,seed=0", "width=16,dropout=0.1,seed=3",
    ]  # fmt: skip
    assert [run.settings.train.width for run in runs] == [8, 8, 16, 16]
    assert [run.settings.train.seed for run in runs] == [0, 3, 0, 3]
    assert len({run.choice for run in runs}) == 2
    assert [run.name for run in sweep_runs(Settings(), request())] == ["seed=0", "seed=3"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"widht": ("8",)}, "'train.widht' cannot be swept"),
        ({"seed": ("8",)}, "but the seed"),
        ({"width": ("wide",)}, r"train\.width: .*'wide'"),
        ({"width": ("7",)}, "width must be even"),
        ({"width": ("8",) * 501}, "1002 runs: a sweep has 1 to 1000"),
    ],
)
def test_what_cannot_be_tried_is_refused(values: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        sweep_runs(Settings(), request(**values))


def test_seeds_and_values_as_users_write_them() -> None:
    assert parse_seeds("0-2, 7") == (0, 1, 2, 7)
    assert parse_values("train.width=64, 96") == ("train.width", ("64", "96"))
    for wrong in ("", "a", "1-b", "-1"):
        with pytest.raises(typer.BadParameter, match="no seeds like"):
            parse_seeds(wrong)
    with pytest.raises(typer.BadParameter, match=r"like train\.width=64,96"):
        parse_values("train.width")
