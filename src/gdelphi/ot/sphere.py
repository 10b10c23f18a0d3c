"""The sphere: unit vectors, and the centring that spreads a cone of embeddings over it.

Embeddings of template sentences crowd into a narrow cone: all of them share the template. A
`Centring` takes the mean of the training texts away, keeps the leading principal axes and puts the
result back on the unit sphere. Chosen: an exact eigendecomposition of the weighted covariance (a
few hundred dimensions at most), with signs fixed, so that one input has one result. Not chosen:
whitening, which blows rare directions up to the size of the common ones.
"""

from typing import NamedTuple

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray, VectorArray

NO_VARIANCE = 1e-10  # of the largest
TINY = 1e-6  # below this length a vector has no direction that rounding has not made


class Centring(NamedTuple):
    """x -> unit(axes @ (x - mean))."""

    mean: VectorArray
    """[raw]"""
    axes: VectorArray
    """[dim, raw], orthonormal rows, the direction of most variance first"""
    kept: float
    """share of the training variance along the axes"""

    @property
    def dimension(self) -> int:
        return len(self.axes)

    def apply(self, vectors: VectorArray) -> VectorArray:
        """Points on the unit sphere, [n, dim], for embeddings [n, raw].

        Not by a matrix product: its last bits depend on the number of rows, and a phrase has one
        point, whatever else was looked up with it and in which process.
        """
        moved: VectorArray = np.einsum("nr,dr->nd", vectors - self.mean, self.axes)
        return unit(moved)


def unit(vectors: VectorArray) -> VectorArray:
    """Rows brought to length 1. A row without a direction becomes the first axis: never NaN."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    first = np.zeros(vectors.shape[-1], dtype=np.float32)
    first[:1] = 1
    safe = np.maximum(lengths, TINY)
    return np.where(lengths < TINY, first, vectors / safe).astype(np.float32)


def fit_centring(vectors: VectorArray, weights: FloatArray, dimension: int) -> Centring:
    """The centring of embeddings [n, raw] that carry the weights [n]."""
    if len(vectors) == 0 or not weights.sum() > 0:
        raise GdelphiError("nothing to fit the sphere on: no training phrases")
    shares = weights / weights.sum()
    exact = vectors.astype(np.float64)
    mean = shares @ exact
    centred = exact - mean
    covariance = (centred * shares[:, None]).T @ centred
    values, axes = np.linalg.eigh(covariance)
    # Directions in which training phrases do not differ at all are made by rounding.
    real = max(int((values > values[-1] * NO_VARIANCE).sum()), 1)
    order = np.argsort(values, kind="stable")[::-1][: min(dimension, real)]
    chosen = axes[:, order].T
    # An eigenvector has no sign of its own: the largest entry is made positive.
    largest = np.argmax(np.abs(chosen), axis=1)
    chosen = chosen * np.sign(chosen[np.arange(len(chosen)), largest])[:, None]
    total = max(float(np.trace(covariance)), 1e-300)
    kept = min(float(values[order].clip(0).sum()) / total, 1.0)
    return Centring(mean.astype(np.float32), chosen.astype(np.float32), kept)


def mean_cosine(vectors: VectorArray, weights: FloatArray) -> float:
    """The mean cosine of two different vectors drawn by weight: how narrow the cone is.

    Drawn with replacement, pairs of a vector with itself are taken out again.
    """
    shares = weights / weights.sum()
    directions = unit(vectors).astype(np.float64)
    self_pairs = float((shares**2).sum())
    if self_pairs >= 1:
        return 1.0
    centre = shares @ directions
    return (float(centre @ centre) - self_pairs) / (1 - self_pairs)


def effective_rank(vectors: VectorArray, weights: FloatArray) -> float:
    """exp of the entropy of the normalised spectrum: how many directions the vectors use."""
    shares = weights / weights.sum()
    centred = vectors.astype(np.float64) - shares @ vectors.astype(np.float64)
    values = np.linalg.eigvalsh((centred * shares[:, None]).T @ centred).clip(0)
    spectrum = values[values > 0] / values.sum()
    return float(np.exp(-(spectrum * np.log(spectrum)).sum()))
