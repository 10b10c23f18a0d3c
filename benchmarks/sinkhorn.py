"""Entropic transport, forward and backward, against POT's batched solver, geomloss, OTT and RegOT.

The same problems for all: 64 clouds of n weighted points on the sphere and a descriptor of 8 atoms
for each, float32, the cost 1 - cosine, gradients for points and weights (POT's batched solver gives
none for weights). At equal accuracy: each library gets the loosest of its settings with which the
largest relative error of a value, against a converged float64 solution, stays below a bound; they
are chosen on some of the problems and the error is reported on all. Contestants take turns in an
order that rotates; a figure is the median of the ratios within turns, with their range. OTT is
compiled before it is timed. RegOT solves one problem after the other, in float64, and knows no
gradients: they follow from its plan and duals. A library that is not installed is left out, and the
table says so; a venv of its own keeps theirs apart from what gdelphi needs:

    pip install geomloss ott-jax regot
"""

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.ot.entropic import (
    SinkhornSettings,
    sinkhorn,
    sinkhorn_divergence,
)
from gdelphi.ot.geometry import Measures

ATOMS = 8
MOST_ITERATIONS = 2000
LIBRARIES = {"ot": "POT", "geomloss": "geomloss", "ott": "ott-jax", "regot": "regot"}
"""module -> package"""
TUNED_ON = 32  # problems of the batch on which settings are chosen
Contestant = Callable[[Measures, Measures], Tensor]


class Setup(NamedTuple):
    """One line of a table."""

    batch: int
    points: int
    dim: int
    epsilon: float
    debiased: bool


@dataclass(frozen=True)
class Entry:
    """A contestant with the settings that were chosen for it."""

    name: str
    settings: str
    value: Contestant


# --- the problems ---------------------------------------------------------------------------------


def unit(points: Tensor) -> Tensor:
    return torch.nn.functional.normalize(points, dim=-1)


def made(setup: Setup) -> tuple[Measures, Measures]:
    """Clouds of eight clusters, and descriptors near their centres with other weights."""
    generator = torch.Generator().manual_seed(setup.points + setup.dim)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    batch, n, dim, spread = setup.batch, setup.points, setup.dim, setup.dim**-0.5
    centres = unit(normal(batch, ATOMS, dim))
    own = centres.repeat(1, -(-n // ATOMS), 1)[:, :n]
    cloud = unit(own + 0.7 * spread * normal(batch, n, dim))
    atoms = unit(centres + 0.5 * spread * normal(batch, ATOMS, dim))
    return (
        Measures(cloud, torch.softmax(normal(batch, n), 1)),
        Measures(atoms, torch.softmax(normal(batch, ATOMS), 1)),
    )


def some(measures: Measures, count: int, dtype: torch.dtype = torch.float32) -> Measures:
    return Measures(*(tensor[:count].to(dtype) for tensor in measures))


def converged_value(source: Measures, target: Measures, setup: Setup) -> Tensor:
    """In float64, a few problems at a time."""
    settings = SinkhornSettings(epsilon=setup.epsilon, tolerance=1e-9, most_iterations=10_000)
    solve: Any = sinkhorn_divergence if setup.debiased else sinkhorn
    found = []
    for k in range(0, setup.batch, 4):
        pair = (Measures(*(t[k : k + 4].double() for t in each)) for each in (source, target))
        result = solve(*pair, settings)
        assert result.converged.all()
        found.append(result.value)
    return torch.cat(found)


# --- the contestants ------------------------------------------------------------------------------


def gdelphi_entries(setup: Setup) -> Iterator[Entry]:
    solve: Any = sinkhorn_divergence if setup.debiased else sinkhorn
    for tolerance in (1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5):
        settings = SinkhornSettings(epsilon=setup.epsilon, tolerance=tolerance)

        def value(a: Measures, b: Measures, settings: SinkhornSettings = settings) -> Tensor:
            found: Tensor = solve(a, b, settings).value
            return found

        yield Entry("gdelphi", f"tolerance {tolerance:.0e}", value)


def pot_entries(setup: Setup, method: str) -> Iterator[Entry]:
    """Its squared distance is twice our cost, so epsilon is doubled and the value halved."""
    from ot.batch import solve_sample_batch

    for tolerance in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):

        def value(a: Measures, b: Measures, tolerance: float = tolerance) -> Tensor:
            found = solve_sample_batch(
                a.points, b.points, 2 * setup.epsilon, a.weights, b.weights,
                method=method, reg_type="kl", tol=tolerance, max_iter=MOST_ITERATIONS,
            )  # fmt: skip
            halved: Tensor = found.value / 2
            return halved

        yield Entry(f"POT {method}", f"tolerance {tolerance:.0e}", value)


def geomloss_entries(setup: Setup) -> Iterator[Entry]:
    from geomloss import SamplesLoss

    for scaling in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
        loss = SamplesLoss(
            "sinkhorn", p=2, blur=setup.epsilon**0.5, scaling=scaling, diameter=2.0,
            debias=setup.debiased, backend="tensorized",
        )  # fmt: skip

        def value(a: Measures, b: Measures, loss: Any = loss) -> Tensor:
            found: Tensor = loss(a.weights, a.points, b.weights, b.points)
            return found

        yield Entry("geomloss", f"scaling {scaling}", value)


class Solved(torch.autograd.Function):
    """Values whose gradients, of points and weights of both, another library gives with them."""

    @staticmethod
    def forward(ctx: Any, solve: Any, *tensors: Tensor) -> Tensor:
        value, gradients = solve(*(tensor.detach().numpy() for tensor in tensors))
        ctx.save_for_backward(*(torch.tensor(np.asarray(g, np.float32)) for g in gradients))
        return torch.tensor(np.asarray(value))

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        (scale,) = given
        return None, *(
            gradient * scale.view(-1, *[1] * (gradient.dim() - 1)) for gradient in ctx.saved_tensors
        )


def solved_by(solve: Any) -> Contestant:
    def value(a: Measures, b: Measures) -> Tensor:
        found: Tensor = Solved.apply(solve, a.points, a.weights, b.points, b.weights)
        return found

    return value


def ott_entries(setup: Setup, *, kernel: bool) -> Iterator[Entry]:
    """Over the batch by vmap, compiled; gradients by the envelope theorem, as it does by itself.
    The squared distance is twice our cost here too."""
    import jax
    from ott.geometry.pointcloud import PointCloud
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    for tolerance in (5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-5):  # finely: it stops early
        solver = Sinkhorn(lse_mode=not kernel, threshold=tolerance, max_iterations=MOST_ITERATIONS)

        def one(x: Any, a: Any, y: Any, b: Any, solver: Any = solver) -> Any:
            geometry = PointCloud(x, y, epsilon=2 * setup.epsilon)
            return solver(LinearProblem(geometry, a, b)).reg_ot_cost / 2

        many = jax.jit(jax.vmap(jax.value_and_grad(one, argnums=(0, 1, 2, 3))))
        name = "OTT kernel" if kernel else "OTT"
        yield Entry(name, f"tolerance {tolerance:.0e}", solved_by(many))


def regot_entries(setup: Setup, method: str) -> Iterator[Entry]:
    """It adds epsilon sum P (log P - 1) to <C, P>: the same plan as ours, which gives the value."""
    import regot

    solver = getattr(regot, f"sinkhorn_{method}")

    for tolerance in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):

        def solve(*arrays: Any, tolerance: float = tolerance) -> Any:
            values, gradients = [], []
            for x, a, y, b in zip(*(array.astype(np.float64) for array in arrays), strict=True):
                cost = np.asfortranarray(1 - x @ y.T)
                found = solver(
                    cost, a / a.sum(), b / b.sum(), reg=setup.epsilon, tol=tolerance,
                    max_iter=MOST_ITERATIONS,
                )  # fmt: skip
                plan = np.asarray(found.plan)
                ratio = np.log(np.maximum(plan, 1e-300) / (a[:, None] * b))
                values.append(np.sum(plan * (cost + setup.epsilon * ratio)))
                # At the optimum cost + epsilon * ratio = f + g, potentials up to a constant.
                both = cost + setup.epsilon * ratio
                gradients.append((-plan @ y, both @ b, -plan.T @ x, a @ both))
            return np.array(values), [np.stack(kind) for kind in zip(*gradients, strict=True)]

        yield Entry(f"RegOT {method}", f"tolerance {tolerance:.0e}", solved_by(solve))


def ladders(setup: Setup) -> Iterator[Iterator[Entry]]:
    """The settings of each contestant, from the loosest on."""
    yield gdelphi_entries(setup)
    if find_spec("ot") and not setup.debiased:  # it has no debiased divergence in batches
        yield pot_entries(setup, "sinkhorn")
        yield pot_entries(setup, "log_sinkhorn")
    if find_spec("geomloss"):
        yield geomloss_entries(setup)
    if setup.debiased:  # of the others only OTT has it, over three problems of its own
        return
    if find_spec("ott") and find_spec("jax"):
        yield ott_entries(setup, kernel=False)
        yield ott_entries(setup, kernel=True)
    if find_spec("regot"):
        yield regot_entries(setup, "bcd")
        yield regot_entries(setup, "splr")


# --- measuring ------------------------------------------------------------------------------------


def error_of(value: Tensor, exact: Tensor) -> float:
    gap = ((value.detach().double() - exact) / exact).abs()
    return float(gap.nan_to_num(torch.inf).max())


def chosen(entries: Iterator[Entry], source: Measures, target: Measures, exact: Tensor,
           bound: float) -> Entry:  # fmt: skip
    """The first entry within the bound on some problems, or the best one."""
    best: tuple[float, Entry] | None = None
    for entry in entries:
        with torch.no_grad():
            value = entry.value(some(source, TUNED_ON), some(target, TUNED_ON))
        error = error_of(value, exact[:TUNED_ON])
        if best is None or error < best[0]:
            best = error, entry
        if error <= bound / 2:
            break
    assert best is not None
    return best[1]


def timed(entry: Entry, source: Measures, target: Measures) -> tuple[float, Tensor]:
    """Seconds of the processor for one forward and backward pass, and the values."""
    a, b = (Measures(*(t.detach().requires_grad_() for t in each)) for each in (source, target))
    began = time.process_time()  # others are at work on the same machine
    value = entry.value(a, b)
    value.sum().backward()  # type: ignore[no-untyped-call]
    return time.process_time() - began, value.detach()


def measure(setup: Setup, turns: int, bound: float) -> bool:
    """Print the lines of one set of problems. -> whether gdelphi is the quickest."""
    source, target = made(setup)
    exact = converged_value(source, target, setup)
    entries = [chosen(each, source, target, exact, bound) for each in ladders(setup)]
    seconds: list[list[float]] = [[] for _ in entries]
    errors = [0.0] * len(entries)
    for turn in range(turns + 1):
        for step in range(len(entries)):
            number = (turn + step) % len(entries)
            taken, value = timed(entries[number], source, target)
            errors[number] = error_of(value, exact)
            if turn:  # the first turn warms up
                seconds[number].append(taken)
    return report(setup, entries, seconds, errors, bound)


def report(setup: Setup, entries: Sequence[Entry], seconds: Sequence[Sequence[float]],
           errors: Sequence[float], bound: float) -> bool:  # fmt: skip
    quickest = True
    for entry, taken, error in zip(entries, seconds, errors, strict=True):
        ratios = [theirs / ours for theirs, ours in zip(taken, seconds[0], strict=True)]
        exact_enough = error <= bound
        if entry is not entries[0] and median(ratios) < 1:
            quickest = False
        print(
            f"  {setup.points:5d} {setup.dim:4d}  {entry.name:17s} {entry.settings:16s}"
            f"{1000 * median(taken):9.1f} ms  {median(ratios):6.2f} "
            f"({min(ratios):.2f}..{max(ratios):.2f})  {error:.0e}"
            f"{'' if exact_enough else '  bound missed'}",
            flush=True,
        )
    return quickest


def setups(options: argparse.Namespace) -> Iterator[tuple[str, list[Setup]]]:
    for epsilon in options.epsilon:
        cases = [
            Setup(options.batch, n, dim, epsilon, False)
            for dim in options.dims
            for n in options.points
        ]
        yield f"OT, epsilon {epsilon}", cases
        cases = [
            Setup(options.batch, n, dim, epsilon, True)
            for dim in options.dims
            for n in options.points
            if n <= options.most_debiased
        ]
        yield f"debiased divergence, epsilon {epsilon}", cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--points", type=int, nargs="*", default=[64, 256, 1024, 4096])
    parser.add_argument("--most-debiased", type=int, default=256, help="largest n for divergences")
    parser.add_argument("--dims", type=int, nargs="*", default=[64, 384])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.05, 0.01])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--bound", type=float, default=1e-3, help="relative error of a value")
    options = parser.parse_args()
    print(
        f"system {platform.system()}, cores {os.cpu_count()}, torch {torch.__version__}, "
        f"{options.turns} turns, batch {options.batch}, {ATOMS} atoms, error <= {options.bound:g}"
    )
    for module, package in LIBRARIES.items():
        if not find_spec(module):
            print(f"{package} is not installed and takes no part: pip install {package}")
    for title, cases in setups(options):
        print(
            f"\n{title}\n      n  dim  contestant        settings            median     to gdelphi"
        )
        missed = [case for case in cases if not measure(case, options.turns, options.bound)]
        verdict = f"MISSED at {[(c.points, c.dim) for c in missed]}" if missed else "met"
        print(f"  goal, the quickest everywhere: {verdict}")


if __name__ == "__main__":
    main()
