"""Matrix-based Renyi entropies: of activations over a batch, without any density.

For a Gram matrix K of N samples, A_ij = K_ij / (N sqrt(K_ii K_jj)) has trace 1, and

    S_a(A)     = log2(tr A^a) / (1 - a)                         in bits; log2 N at most
    S_a(A, B)  = S_a(A o B / tr(A o B))                         o: entry by entry
    I_a(A; B)  = S_a(A) + S_a(B) - S_a(A, B)

(Sanchez Giraldo, Rao and Principe, Measures of Entropy from Data Using Infinitely Divisible
Kernels, 2014; several variables by the product of all their matrices: Yu, Sanchez Giraldo, Jenssen
and Principe, 2019). A joint entropy is at least each of its parts, for every order: A o B has
flatter eigenvalues than B. At most their sum it is for orders near 1 and, in all that was tried, up
to 2; for order 5 it is not, and what is "shared" may be negative. The kernel is Gaussian, and its
width follows one rule everywhere: it has fallen to 1/e at the median distance between samples.
Figures of different layers compare by that rule alone.
"""

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray

LEAST = 1e-12


def gaussian_gram(values: npt.NDArray[np.generic]) -> FloatArray:
    """The normalised Gram matrix [N, N] of samples [N, ...]: exp(-d^2 / m^2) / N, m the median
    distance. Samples that are all the same have no width: all entries are 1 / N."""
    flat = np.asarray(values, np.float64).reshape(len(values), -1)
    squares = (flat**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None] - 2 * flat @ flat.T, 0.0)
    np.fill_diagonal(distances, 0.0)
    others = distances[~np.eye(len(flat), dtype=bool)]
    median = float(np.median(others)) or float(others.mean())
    if median <= LEAST:
        return np.full(distances.shape, 1 / len(flat))
    gram: FloatArray = np.exp(-distances / median) / len(flat)
    return gram


def equality_gram(labels: npt.NDArray[np.generic]) -> FloatArray:
    """That of the kernel that is 1 for equal samples and 0 otherwise: S_a is then the Renyi entropy
    of the labels' shares."""
    same = np.asarray(labels)[:, None] == np.asarray(labels)[None]
    gram: FloatArray = same.astype(np.float64) / len(same)
    return gram


def entropy(gram: FloatArray, order: float) -> float:
    """S_a in bits, of a matrix of trace 1."""
    shares = np.linalg.eigvalsh(gram).clip(0.0)
    shares = shares / shares.sum()
    there = shares[shares > LEAST]
    if order == 1:
        return float(-(there * np.log2(there)).sum())
    return float(np.log2((there**order).sum()) / (1 - order))


def joint(*grams: FloatArray) -> FloatArray:
    """The Gram matrix of several variables together."""
    product = np.prod(np.stack(grams), axis=0)
    together: FloatArray = product / np.trace(product)
    return together


def mutual_information(one: FloatArray, other: FloatArray, order: float) -> float:
    """I_a of two variables in bits."""
    both = entropy(joint(one, other), order)
    return entropy(one, order) + entropy(other, order) - both
