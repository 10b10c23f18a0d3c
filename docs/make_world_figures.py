"""Draws the figures of docs/world.md from the default world: python docs/make_world_figures.py"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

from gdelphi.gdelt.cameo import event_codes
from gdelphi.judge.simulated import Panel, simulated_panel
from gdelphi.scores.reliability import reliability_table
from gdelphi.world.config import PRESETS
from gdelphi.world.law import INDEX, ROOTS
from gdelphi.world.oracle import OracleLevel
from gdelphi.world.rows import code_shares

FOLDER = Path(__file__).with_name("figures")
INK, BLUE, RED, GREY = "#222222", "#2b6cb0", "#c53030", "#a0aec0"


def volumes(panel: Panel) -> None:
    """Volumes of all streams on a log scale, and the world's week."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(2, 1))
    volume = panel.profiles.volume.astype(float)
    volume[:, ~panel.profiles.present] = np.nan
    order = np.argsort(np.nanmean(volume, axis=1))
    for rank, stream in enumerate(order):
        shade = plt.get_cmap("viridis")(rank / len(order))
        smooth = [np.nanmean(volume[stream, i : i + 28]) for i in range(volume.shape[1] - 27)]
        left.plot(panel.profiles.days[27:], np.maximum(smooth, 0.1), color=shade, lw=0.9)
    left.set_yscale("log")
    left.set_ylabel("rows a day, mean of 28 days")
    left.set_title("30 streams, from under 1 to over 1,000 rows a day", loc="left")
    weekday = np.array([day.weekday() for day in panel.profiles.days])
    total = np.nansum(volume, axis=0)
    total[~panel.profiles.present] = np.nan
    means = [np.nanmean(total[weekday == number]) for number in range(7)]
    right.bar(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"], means, color=BLUE)
    right.set_title("rows a day by weekday", loc="left")
    save(figure, "volumes")


def escalation(panel: Panel) -> None:
    """The strongest wave of protest in a middle-sized country, and what followed."""
    usual = panel.law.expected[:, INDEX["14"]]
    middle = [s for s in range(len(usual)) if 0.2 < usual[s] < 2]
    counts = panel.profiles.counts
    waves = counts[middle][:, 30:-30, INDEX["14"]] / usual[middle][:, None]
    place, day = np.unravel_index(waves.argmax(), waves.shape)
    stream, day = middle[int(place)], int(day) + 30
    window = slice(day - 12, day + 15)
    figure, axes = plt.subplots(3, 1, figsize=(9, 5.4), sharex=True)
    oracle = panel.oracle()
    level = OracleLevel(panel.law, ROOTS, code_shares(panel.law.config))
    days = panel.profiles.days[window]
    said = np.stack([level.occurs(*oracle.prospect(each))[stream] for each in days])
    for axis, root in zip(axes, ("14", "17", "18"), strict=True):
        axis.bar(days, counts[stream, window, INDEX[root]], color=GREY, label="rows")
        chance = axis.twinx()
        chance.plot(days, said[:, INDEX[root]], color=RED, lw=1.6)
        chance.set_ylim(0, 1.02)
        chance.set_ylabel("fair probability", color=RED)
        axis.set_title(f"{root} {event_codes()[root].label.lower()}", loc="left")
        axis.set_ylabel("rows")
    name = panel.law.map.places[stream].country.name
    figure.suptitle(f"An escalation: {name}", x=0.06, ha="left")
    save(figure, "escalation")


def excitation(panel: Panel) -> None:
    """Who begets whom, and after how many days."""
    figure, axis = plt.subplots(figsize=(6.4, 5.6))
    strength = panel.law.ladder.sum(axis=0)
    shown = axis.imshow(np.where(strength > 0, strength, np.nan), cmap="YlOrRd", vmin=0)
    for edge in panel.law.config.ladder:
        axis.text(
            INDEX[edge.target], INDEX[edge.source], edge.lag, ha="center", va="center", size=8
        )
    labels = [f"{root} {event_codes()[root].label.lower()[:24]}" for root in ROOTS]
    axis.set_yticks(range(len(ROOTS)), labels, size=7)
    axis.set_xticks(range(len(ROOTS)), ROOTS, size=7)
    axis.set_xlabel("begets (the number is the lag in days)")
    figure.colorbar(shown, label="share of the target's mean", shrink=0.8)
    save(figure, "excitation")


def calibration(panel: Panel) -> None:
    """Oracle probability against outcome, over all days."""
    oracle = panel.oracle()
    level = OracleLevel(panel.law, ROOTS, code_shares(panel.law.config))
    said = np.stack([level.occurs(*oracle.prospect(day)) for day in panel.profiles.days])
    came = (panel.profiles.counts > 0).astype(float).swapaxes(0, 1)
    came[~panel.profiles.present] = np.nan
    table = reliability_table(said, came, bins=20)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.plot([0, 1], [0, 1], color=GREY, lw=1)
    error = np.abs(np.stack([table.frequency - table.low, table.high - table.frequency]))
    left.errorbar(table.forecast, table.frequency, yerr=error, fmt="o", ms=4, color=RED)
    left.set_xlabel("probability of the fair oracle")
    left.set_ylabel("how often it came true")
    left.set_title(f"{int(table.count.sum()):,} forecasts", loc="left")
    right.hist(said.ravel(), bins=40, color=BLUE)
    right.set_yscale("log")
    right.set_xlabel("probability of the fair oracle")
    right.set_ylabel("cells")
    save(figure, "calibration")


def save(figure: "plt.Figure", name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    for axis in figure.axes:
        axis.spines[["top"]].set_visible(False)
        axis.tick_params(labelsize=8, colors=INK)
        axis.title.set_fontsize(9)
    figure.tight_layout()
    figure.savefig(FOLDER / f"world-{name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    sys.stdout.write(f"drew {name}\n")


def main() -> None:
    panel = simulated_panel(PRESETS["default"])
    for draw in (volumes, escalation, excitation, calibration):
        draw(panel)


if __name__ == "__main__":
    main()
