"""Flips random bits of all that a demo has on disk, one at a time, and asks `gdelphi verify`.

    gdelphi demo --out data/demo
    python benchmarks/flips.py --folder data/demo --flips 100

A place is drawn among all bytes of a part (store, measures, models, ...), so large files are hit
more often; each part that is there gets the same number of flips. Every flip is taken back. Fails
if a flip was not found, or was found without a word on what to do. Prints one line a part.
"""

import argparse
import random
import sys
from pathlib import Path

from gdelphi.app.verify import verify
from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures.clouds import measures_folder

PARTS = (
    "store", "measures", "packs", "embeddings", "models", "forecasts", "scores", "reports",
    "backtest",
)  # fmt: skip
LEFT_OUT = (".lock",)


def files_of(settings: Settings, part: str) -> list[Path]:
    """The files of a part that hold something."""
    beside = settings.store.parent
    places = {
        "store": [settings.store, settings.store.with_name(settings.store.name + ".sha256")],
        "measures": [
            path for path in measures_folder(settings).rglob("*") if "packs" not in path.parts
        ],
        "packs": list((measures_folder(settings) / "packs").rglob("*")),
        "embeddings": list((settings.embed.cache or beside / "embeddings").rglob("*")),
        "models": list(settings.flows.models.rglob("*")),
        "forecasts": [
            path for path in (beside / "forecasts").rglob("*") if "scores" not in path.parts
        ],
        "scores": list((beside / "forecasts" / "scores").rglob("*")),
        "reports": list((settings.report.folder or beside / "reports").rglob("*")),
        "backtest": list(settings.report.backtest.rglob("*")) if settings.report.backtest else [],
    }
    found = [path for path in places[part] if path.is_file() and path.stat().st_size]
    return sorted(path for path in found if path.name not in LEFT_OUT)


def parts_of(settings: Settings) -> list[str]:
    """The parts that are there."""
    return [part for part in PARTS if files_of(settings, part)]


def flip(path: Path, place: int, bit: int) -> None:
    """Change a bit; done twice, nothing is changed."""
    with path.open("r+b") as file:
        file.seek(place)
        (code,) = file.read(1)
        file.seek(place)
        file.write(bytes([code ^ (1 << bit)]))


def try_flips(settings: Settings, part: str, number: int, rng: random.Random) -> list[str]:
    """Flip bits of a part; returns those that were not found."""
    files = files_of(settings, part)
    sizes = [path.stat().st_size for path in files]
    missed = []
    for _ in range(number):
        path = rng.choices(files, sizes)[0]
        place, bit = rng.randrange(path.stat().st_size), rng.randrange(8)
        flip(path, place, bit)
        try:
            damages = [damage for each in verify(settings) for damage in each.damages]
        finally:
            flip(path, place, bit)
        if not damages or not all(damage.remedy for damage in damages):
            missed.append(f"bit {bit} of byte {place:,} of {path}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("data/demo"))
    parser.add_argument("--flips", type=int, default=100, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    settings = load_settings(given.folder / "gdelphi.toml").settings
    if any(part.damages for part in verify(settings)):
        sys.exit("the folder is damaged already")
    rng, missed = random.Random(given.seed), []
    parts = parts_of(settings)
    for number, part in enumerate(parts):
        share = given.flips // len(parts) + (number < given.flips % len(parts))
        found = try_flips(settings, part, share, rng)
        missed += found
        print(f"{part:10} {share - len(found)} of {share} flips found", flush=True)
    for place in missed:
        print(f"MISSED: {place}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
