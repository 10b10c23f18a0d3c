"""Study: what carries the model. Each part is taken away in turn, and the rest trained and judged.

    python benchmarks/ablation.py --out FOLDER [--store STORE] [--config gdelphi.toml]
                                  [--steps N] [--every 5] [--only NAME ...] [--json FILE]

The same seed, data, splits and days for all. Judged are the test days of the split (each fifth of
them by default): Brier skill against the stack of the readings and of their combination, and the
energy score of the futures against past days drawn by recency, whose days have no learned attention
and are not moved. Runs that are there are not made again.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

from gdelphi.common.settings import Settings, load_settings
from gdelphi.judge.backtest import BacktestRequest, backtest
from gdelphi.judge.day import BacktestOptions
from gdelphi.model.losses import FutureSettings
from gdelphi.model.train import train

VARIANTS: Final[dict[str, dict[str, Any] | FutureSettings]] = {
    "everything": {},
    "no day attention": {"profiles_weight": 0.0},
    "no direct head": {"direct_weight": 0.0, "rows_weight": 0.0},
    "no transport": {"transport_layers": 0},
    "no spare atoms": FutureSettings(spare_atoms=False),
    "no energy score": {"energy_weight": 0.0},
    "no log loss of atoms": {"atoms_weight": 0.0},
    "plain divergence, not its root": FutureSettings(root=False),
    "losses of futures teach all": FutureSettings(teach_all=True),
}
"""settings that differ, or how futures are drawn and compared"""
COLUMNS: Final = (
    ("occurs", "profiles"),
    ("occurs", "direct"),
    ("occurs", "combined"),
    ("headline", "atoms"),
    ("headline", "combined"),
)
ENSEMBLES: Final = ("transported", "drawn")
FORECASTERS: Final = ("stack", "profiles", "direct", "atoms", "combined")


def study(settings: Settings, name: str, out: Path, *, every: int, steps: int) -> dict[str, Any]:
    """Train a variant and judge it."""
    folder = out / name.replace(" ", "-").replace(",", "")
    variant = VARIANTS[name]
    futures = variant if isinstance(variant, FutureSettings) else FutureSettings()
    changes = {} if isinstance(variant, FutureSettings) else variant
    training = settings.train.model_copy(update={**changes, "steps": steps})
    chosen = settings.model_copy(update={"train": training})
    train(chosen, folder / "model", futures=futures._replace(number=training.futures))
    asked = BacktestOptions(forecasters=FORECASTERS, futures=50, text=False)
    request = BacktestRequest(folder / "model", folder / "backtest", every=every, options=asked)
    return backtest(chosen, request)


def show(name: str, summary: dict[str, Any]) -> str:
    """The row of one variant."""
    skill = {
        (each["target"], each["forecaster"]): each["skill"]
        for each in summary["scores"]
        if each["cells"] == "all"
    }
    energy = {each["ensemble"]: each["skill"] for each in summary["futures"]}
    cells = [skill[key] for key in COLUMNS] + [energy[key] for key in ENSEMBLES]
    return f"| {name} | " + " | ".join(map(_percent, cells)) + " |"


def _percent(skill: dict[str, float]) -> str:
    return f"{skill['value']:+.2%} ({skill['low']:+.2%} to {skill['high']:+.2%})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(VARIANTS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    settings = load_settings(given.config, {"store": given.store}).settings
    heads = [f"{target}, {name}" for target, name in COLUMNS]
    heads += [f"energy, {name}" for name in ENSEMBLES]
    print("| variant | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(heads))
    found = {}
    for name in given.only or VARIANTS:
        found[name] = study(settings, name, given.out, every=given.every, steps=given.steps)
        print(show(name, found[name]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
