"""Gaussian clouds under attention in flat space: particles against equations for their moments.

    dx/dt = V integral of y p(x, y) dmu(y)

with the densities of attention.py, queries Q x and keys K y. If mu is the Gaussian N(m, S), then
tilting it by exp(<Q x, K y>) gives a Gaussian whose mean is affine in x. So the velocity is affine,
a Gaussian stays one, and with A = Q'K

    softmax   v(x) = V (m + S A' x)
    l2        v(x) = V (S^-1 + K'K)^-1 (S^-1 m + A' x)

and dm/dt = E v, dS/dt = E[v (x - m)'] + its transpose (Castin, Ablin, Carrillo, Peyré 2025). For
the sigmoid, by Stein's identity,

    sigmoid   v(x) = V (m E sigmoid(s) + S A' x E sigmoid'(s)),   s ~ N(<A'x, m>, x'A S A'x)

which is not affine: mean and covariance have these derivatives while the cloud is Gaussian, which
it ceases to be. The equations are then those of the nearest Gaussian (moment closure), and the
study shows how far they stay with the particles.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from gdelphi.common.types import FloatArray

FlatKind = Literal["softmax", "l2", "sigmoid"]
NODES = 24  # of Gauss and Hermite's rule along each axis


class FlatAttention(NamedTuple):
    """Attention with a linear value in flat space."""

    kind: FlatKind
    query: FloatArray
    """Q, [k, d]"""
    key: FloatArray
    """K, [k, d]"""
    value: FloatArray
    """V, [d, d]"""


class Gaussian(NamedTuple):
    """N(m, S)."""

    mean: FloatArray
    covariance: FloatArray


class GaussianStudy(NamedTuple):
    """A Gaussian cloud after some time."""

    particles: Gaussian
    """its moments"""
    equations: Gaussian
    """what the equations say"""
    excess: float
    """largest excess kurtosis along an axis of the cloud: 0 for a Gaussian"""


def gaussian_cloud(start: Gaussian, nodes: int = NODES) -> tuple[FloatArray, FloatArray]:
    """Points [nodes^d, d] and weights of Gauss and Hermite's rule: a cloud that is Gaussian up to
    moments of order 2 nodes - 1, without the noise of a sample. For few dimensions."""
    places, masses = np.polynomial.hermite_e.hermegauss(nodes)
    axes = len(start.mean)
    grid = np.stack(np.meshgrid(*[places] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    weights = np.prod(np.meshgrid(*[masses] * axes, indexing="ij"), axis=0).reshape(-1)
    points = start.mean + grid @ np.linalg.cholesky(start.covariance).T
    kept = weights > weights.max() * 1e-14
    return points[kept], weights[kept] / weights[kept].sum()


def particle_flow(
    points: FloatArray, weights: FloatArray, attention: FlatAttention, *, time: float, steps: int
) -> FloatArray:
    """Where the points [n, d] of a cloud are after some time; Runge and Kutta's steps."""
    return _runge_kutta(
        lambda places: _velocity(places, weights, attention), points, time / steps, steps
    )


def gaussian_flow(
    start: Gaussian, attention: FlatAttention, *, time: float, steps: int
) -> Gaussian:
    """Mean and covariance after some time, by the equations."""
    axes = len(start.mean)

    def change(flat: FloatArray) -> FloatArray:
        now = Gaussian(flat[:axes], flat[axes:].reshape(axes, axes))
        mean, cross = _moment_rates(now, attention)
        return np.concatenate([mean, (cross + cross.T).reshape(-1)])

    flat = np.concatenate([start.mean, start.covariance.reshape(-1)])
    ended = _runge_kutta(change, flat, time / steps, steps)
    return Gaussian(ended[:axes], ended[axes:].reshape(axes, axes))


def gaussian_study(
    start: Gaussian, attention: FlatAttention, *, time: float = 1.0, steps: int = 40
) -> GaussianStudy:
    """Particles and equations from the same Gaussian, side by side."""
    points, weights = gaussian_cloud(start)
    moved = particle_flow(points, weights, attention, time=time, steps=steps)
    found = moments(moved, weights)
    centred = (moved - found.mean) @ np.linalg.eigh(found.covariance)[1]
    fourth = weights @ centred**4 / (weights @ centred**2) ** 2
    equations = gaussian_flow(start, attention, time=time, steps=steps)
    return GaussianStudy(found, equations, float(np.abs(fourth - 3).max()))


def moments(points: FloatArray, weights: FloatArray) -> Gaussian:
    """Mean and covariance of a cloud."""
    mean = weights @ points
    centred = points - mean
    return Gaussian(mean, (weights[:, None] * centred).T @ centred)


def _velocity(points: FloatArray, weights: FloatArray, attention: FlatAttention) -> FloatArray:
    """Of each point, [n, d]."""
    queries, keys = points @ attention.query.T, points @ attention.key.T
    logits = queries @ keys.T
    if attention.kind == "sigmoid":
        density = weights / (1 + np.exp(-logits))
    else:
        if attention.kind == "l2":
            logits = logits - np.square(keys).sum(axis=1) / 2
        density = weights * np.exp(logits - logits.max(axis=1, keepdims=True))
        density = density / density.sum(axis=1, keepdims=True)
    pulled: FloatArray = density @ points @ attention.value.T
    return pulled


def _moment_rates(now: Gaussian, attention: FlatAttention) -> tuple[FloatArray, FloatArray]:
    """E v, [d], and E[v (x - m)'], [d, d]."""
    mean, covariance = now
    affinity = attention.query.T @ attention.key  # A
    if attention.kind == "sigmoid":
        points, weights = gaussian_cloud(now, NODES)
        tilted = points @ affinity  # A'x
        middle = tilted @ mean
        spread = np.sqrt(np.einsum("ni,ij,nj->n", tilted, covariance, tilted).clip(0))
        places, masses = np.polynomial.hermite_e.hermegauss(NODES)
        heard = 1 / (1 + np.exp(-(middle[:, None] + spread[:, None] * places)))
        masses = masses / masses.sum()
        level, slope = heard @ masses, (heard * (1 - heard)) @ masses
        pooled = level[:, None] * mean + slope[:, None] * (tilted @ covariance)
        velocity = pooled @ attention.value.T
        return weights @ velocity, (weights[:, None] * velocity).T @ (points - mean)
    if attention.kind == "softmax":
        constant, linear = attention.value @ mean, attention.value @ covariance @ affinity.T
    else:
        precision = np.linalg.inv(covariance)
        narrowed = np.linalg.inv(precision + attention.key.T @ attention.key)
        constant = attention.value @ narrowed @ precision @ mean
        linear = attention.value @ narrowed @ affinity.T
    return constant + linear @ mean, linear @ covariance


def _runge_kutta(
    change: Callable[[FloatArray], FloatArray], start: FloatArray, step: float, steps: int
) -> FloatArray:
    """The classical rule of fourth order."""
    at = start
    for _ in range(steps):
        first = change(at)
        second = change(at + step / 2 * first)
        third = change(at + step / 2 * second)
        at = at + step / 6 * (first + 2 * second + 2 * third + change(at + step * third))
    return at
