"""The measure transformer: time and memory against the size of clouds, and against bare products.

    python benchmarks/model.py [--quick] [--turns 7]

1. Forward and backward of the model, and of its day encoder alone, on clouds of n points. The
   encoder touches each point twice, so time should grow as n; the exponent is fitted to the sizes
   from 1,024 points on, where fixed costs no longer count.
2. The model's floating-point operations (torch's counter: products and attention, forward and
   backward) per second, against those of one large matrix product. Small widths cannot reach it:
   their time goes into normalisation, softmax and the calls themselves.
3. Peak memory of a process that does one such step, against one that only makes the model and the
   batch. A process for each size, since memory that was once used is not given back.

Sizes take turns in an order that rotates, and a ratio is the median of those within turns: a shared
machine's speed swings by factors. The best time stands beside it.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from gdelphi.model.config import TARGET_COUNT, WEEK, MeasureConfig
from gdelphi.model.network import Context, DayEncoder, MeasureModel

SIZES = (64, 256, 1024, 4096, 16384)
FITTED_FROM = 1024
DAYS, MEMORY = 10, 60
PRODUCT = 2048  # rows and columns of the bare product
GOAL_EXPONENT, GOAL_SHARE = 1.1, 0.4

Job = Callable[[], object]
Sizes = tuple[int, ...]


def attention_operations(query: Sizes, key: Sizes, value: Sizes, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def attention_backward_operations(
    outer: Sizes, query: Sizes, key: Sizes, value: Sizes, *_: Any, **__: Any
) -> int:
    return int(sdpa_backward_flop_count(outer, query, key, value))


UNCOUNTED = {  # torch's counter knows attention's kernels for other devices, not the CPU's
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_operations,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        attention_backward_operations
    ),
}


class Shape(NamedTuple):
    """A model and a batch whose speed is compared with a bare product."""

    width: int
    layers: int
    batch: int
    days: int
    points: int


SHAPES = (
    Shape(96, 2, 12, 50, 64),
    Shape(384, 4, 8, 50, 64),
    Shape(768, 6, 8, 50, 64),
    Shape(1536, 4, 8, 50, 64),
)


# --- what is measured -----------------------------------------------------------------------------


def made_past(config: MeasureConfig, shape: Shape, memory: int) -> Context:
    """Random numbers of the right kinds."""
    draw = torch.Generator().manual_seed(0)
    batch, days, codes = shape.batch, shape.days, config.codes

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=draw)

    points = torch.randn(batch, days, shape.points, config.dimension, generator=draw)
    return Context(
        points=F.normalize(points, dim=3),
        weights=uniform(batch, days, shape.points).softmax(dim=2),
        features=torch.randn(batch, memory, config.features, generator=draw),
        counts=torch.randn(batch, memory, codes, generator=draw),
        weekday=torch.arange(memory).expand(batch, -1) % WEEK,
        present=torch.ones(batch, memory, dtype=torch.bool),
        occurs=uniform(batch, memory, codes).round(),
        headline=uniform(batch, memory, codes).round(),
        shares=uniform(batch, memory, codes).softmax(dim=2),
        thresholds=0.4 * uniform(batch, days, codes),
        pooled=0.1 + 0.8 * uniform(batch, days, TARGET_COUNT, codes),
        usual=0.1 + 3 * uniform(batch, days, codes),
    )


def model_job(config: MeasureConfig, shape: Shape, memory: int = MEMORY) -> Job:
    torch.manual_seed(0)
    model, past = MeasureModel(config).train(), made_past(config, shape, memory)

    def step() -> None:
        said = model(past)
        loss = said.direct.sum() + said.profiles.sum() + said.log_rate.sum()
        loss.backward()

    return step


def encoder_job(config: MeasureConfig, shape: Shape) -> Job:
    torch.manual_seed(0)
    encoder, past = DayEncoder(config), made_past(config, shape, MEMORY)
    points, weights = past.points.flatten(0, 1), past.weights.flatten(0, 1)
    return lambda: encoder(points, weights).sum().backward()


def cloud_shape(points: int) -> Shape:
    return Shape(96, 2, 1, DAYS, points)


def product_job() -> Job:
    left, right = torch.randn(2, PRODUCT, PRODUCT)
    return lambda: left @ right


def operations(job: Job) -> int:
    """Floating-point operations of a job, by torch's counter."""
    with FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
        job()
    return int(counter.get_total_flops())


# --- measuring ------------------------------------------------------------------------------------


def in_turns(jobs: Sequence[Job], turns: int) -> np.ndarray:
    """Seconds [turn, job]; the first turn warms up and is left out."""
    seconds = np.zeros((turns + 1, len(jobs)))
    for turn in range(turns + 1):
        for step in range(len(jobs)):
            number = (turn + step) % len(jobs)
            began = time.perf_counter()
            jobs[number]()
            seconds[turn, number] = time.perf_counter() - began
    return seconds[1:]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """p of seconds ~ n^p over the large sizes, or over the last two where none are large."""
    large = sum(size >= FITTED_FROM for size in sizes)
    last = max(2, large)
    return float(np.polyfit(np.log(sizes[-last:]), np.log(seconds[-last:]), 1)[0])


def by_points(title: str, make: Callable[[MeasureConfig, Shape], Job], sizes: Sequence[int],
              turns: int) -> None:  # fmt: skip
    config = MeasureConfig()
    seconds = in_turns([make(config, cloud_shape(size)) for size in sizes], turns)
    print(f"\n{title}, {DAYS} clouds of n points\n")
    print(f"| n | best ms | to n = {sizes[0]} (range) | n to {sizes[0]} |\n|---|---|---|---|")
    for number, size in enumerate(sizes):
        ratios = seconds[:, number] / seconds[:, 0]
        print(
            f"| {size} | {1000 * seconds[:, number].min():.1f} | {median(ratios):.2f} "
            f"({ratios.min():.2f}..{ratios.max():.2f}) | {size / sizes[0]:.0f} |"
        )
    found = exponent(sizes, seconds.min(axis=0).tolist())
    print(f"\nexponent at the large sizes {found:.2f}, goal linear: "
          f"{'met' if found <= GOAL_EXPONENT else 'MISSED'}")  # fmt: skip


def against_product(shapes: Sequence[Shape], turns: int) -> None:
    print(f"\nAgainst a bare product of {PRODUCT} x {PRODUCT} matrices, float32\n")
    print("| width | layers | batch x days | GFLOP | best ms | of the product's speed (range) |")
    print("|---|---|---|---|---|---|")
    best = 0.0
    for shape in shapes:
        config = MeasureConfig(width=shape.width, layers=shape.layers, cell_width=shape.width // 2)
        job, product = model_job(config, shape, config.memory_days), product_job()
        counted = operations(job)
        seconds = in_turns([job, product], turns)
        speeds = np.array([counted, 2 * PRODUCT**3]) / seconds
        shares = speeds[:, 0] / speeds[:, 1]
        best = max(best, median(shares))
        print(
            f"| {shape.width} | {shape.layers} | {shape.batch} x {shape.days} "
            f"| {counted / 1e9:.1f} | {1000 * seconds[:, 0].min():.0f} | {median(shares):.2f} "
            f"({shares.min():.2f}..{shares.max():.2f}) |",
            flush=True,
        )
    verdict = "met" if best >= GOAL_SHARE else "MISSED"
    print(f"\ngoal, {GOAL_SHARE:.0%} of it on large shapes: {verdict} ({best:.0%})")


# --- memory ---------------------------------------------------------------------------------------


def peak_megabytes() -> float:
    """The kernel's high-water mark of this process. Not ru_maxrss where it can be helped: Linux
    counts the parent's memory into a child's."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def child(points: int, *, step: bool) -> None:
    """What a process of its own does: its peak, in MB, is all it prints."""
    job = model_job(MeasureConfig(), cloud_shape(points))
    if step:
        job()
    print(peak_megabytes())


def peak(points: int, *, step: bool) -> float:
    words = [sys.executable, __file__, "--child", str(points), *(["--step"] if step else [])]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def memory(sizes: Sequence[int]) -> None:
    print(f"\nPeak memory of a process, {DAYS} clouds of n points\n")
    print("| n | model and batch, MB | with a step, MB | the step's part, MB | clouds, MB |")
    print("|---|---|---|---|---|")
    for size in sizes:
        before, after = peak(size, step=False), peak(size, step=True)
        clouds = DAYS * size * (MeasureConfig().dimension + 1) * 4 / 1e6
        print(f"| {size} | {before:.0f} | {after:.0f} | {after - before:.0f} | {clouds:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small sizes and three turns")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, step=options.step)
        return
    sizes, shapes = (SIZES[:4], SHAPES[:2]) if options.quick else (SIZES, SHAPES)
    turns = min(3, options.turns) if options.quick else options.turns
    print(
        f"system {platform.system()}, cores {os.cpu_count()}, threads {torch.get_num_threads()}, "
        f"torch {torch.__version__}, {turns} turns"
    )
    by_points("Day encoder alone", encoder_job, sizes, turns)
    by_points("Model", model_job, sizes, turns)
    against_product(shapes, turns)
    memory(sizes)


if __name__ == "__main__":
    main()
