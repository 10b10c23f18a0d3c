"""Study: how near the expected day is to the day that comes. A decoder is trained and judged alone.

    python benchmarks/decoder.py --config gdelphi.toml --out FOLDER [--part test] [--every 3]
                                 [--no-text] [--world ARCHIVE] [--set days=240 blocks=5 ...]

Trains a decoder on the store's pack (`gdelphi embed` and `gdelphi sequences` come first), unless
one is there, and compares it with its start, yesterday's descriptor, the usual day and random past
days, and with the archive of a simulated world with its oracle's days, on days of a part of the
split. `--set` changes DecoderSettings, for variants; judge those on
validation_a or validation_b.
"""

import argparse
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch

from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.splits import PARTS, SplitPart
from gdelphi.common.types import FloatArray, Forecast
from gdelphi.forecast.decoded_day import DayDecoder
from gdelphi.judge.expected import START, ExpectedJudge
from gdelphi.judge.simulated import Panel, ingested_panel
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.decoder_task import DecoderSettings, load_decoder, train_decoder
from gdelphi.model.processes import training_device
from gdelphi.scores.probabilities import skill


def trained(data: TrainingData, out: Path, changes: dict[str, float]) -> DayDecoder:
    """The decoder in a folder, trained if there is none."""
    wanted = DecoderSettings(**changes)  # type: ignore[arg-type]
    with training_device(data.settings.train) as accelerator:
        print(train_decoder(data, out, accelerator, settings=wanted))
    found = load_decoder(out)
    if found is None:
        raise SystemExit("too few days for a decoder")
    return DayDecoder(found, data.arrays.pack, data.space, "")


def judge(
    decoder: DayDecoder, days: list[int], panel: Panel | None, *, text: bool
) -> tuple[dict[str, FloatArray], dict[str, list[FloatArray]]]:
    """Divergences [day, stream] and ROUGE of each measure."""
    streams = decoder.recent.pack.facts.streams
    values: dict[str, FloatArray] = {}
    words: dict[str, list[FloatArray]] = {}
    judged, oracle = ExpectedJudge(decoder, text=text), None if panel is None else panel.oracle()
    for number, day in enumerate(days):
        known: Sequence[Forecast] = ()
        if panel is not None and oracle is not None:
            known = oracle.forecast(
                panel.profiles, decoder.recent.pack.first_day + timedelta(days=day - 1)
            )
        for score in judged.day(day - 1, known):
            table = values.setdefault(score.measure, np.full((len(days), len(streams)), np.nan))
            table[number, streams.index(score.stream)] = score.divergence
            words.setdefault(score.measure, []).append(np.array(score.rouge))
    return values, words


def study(
    settings: Settings,
    out: Path,
    part: SplitPart,
    every: int,
    changes: dict[str, float],
    text: bool,
    world: Path | None,
) -> None:
    """Train, judge, print."""
    data = load_training_data(settings)
    decoder = trained(data, out, changes)
    days = [int(day) for day in data.sequences.targets(part)[::every]]
    panel = None if world is None else ingested_panel(settings, world)
    values, words = judge(decoder, days, panel, text=text)
    for name, table in values.items():
        gain = skill(table, values[START])
        rouge = np.nanmean(np.array(words[name]), axis=0) if text else np.zeros(0)
        print(
            f"{name:12} {np.nanmean(table):.4f}  {gain.value:+.2%} "
            f"({gain.low:+.2%} to {gain.high:+.2%})  {rouge.round(4)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=PARTS, default="test")
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--no-text", action="store_true")
    parser.add_argument("--world", type=Path, metavar="ARCHIVE")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    pairs = (pair.split("=") for pair in asked.set)
    changes = {name: float(value) if "." in value else int(value) for name, value in pairs}
    settings = load_settings(asked.config).settings
    study(settings, asked.out, asked.part, asked.every, changes, not asked.no_text, asked.world)


if __name__ == "__main__":
    main()
