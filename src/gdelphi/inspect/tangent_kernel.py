"""The neural tangent kernel of the direct head, and how it lies to what is to be learned.

For cells i, j (a root of a stream's day) K_ij = <df_i/dtheta, df_j/dtheta>, f the logit of *occurs*
and theta the head's parameters. Gradient descent on a squared loss learns the residual fastest
along the leading eigenvectors of K (Jacot, Gabriel and Hongler, Neural Tangent Kernel, 2018): a
head whose leading directions carry the residual learns quickly, one whose residual lies in the tail
does not learn it at all.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from gdelphi.common.types import TARGETS, FloatArray, IntArray
from gdelphi.model.batches import BatchMaker
from gdelphi.model.network import MeasureModel

CELLS: Final = 10  # of each sequence
AT_ONCE: Final = 6


@dataclass(frozen=True, eq=False)
class TangentKernel:
    """A kernel of cells, and what is left to learn of them."""

    gram: FloatArray
    residual: FloatArray
    """outcome less the probability of the profiles, [cell]"""

    def alignment(self) -> FloatArray:
        """Share of the residual's energy in the first k eigenvectors, [cell]; the last is 1."""
        _, vectors = np.linalg.eigh(self.gram)
        shares = (vectors[:, ::-1].T @ self.residual) ** 2
        along: FloatArray = np.cumsum(shares) / max(shares.sum(), 1e-300)
        return along

    def effective_rank(self) -> float:
        """exp of the entropy of the eigenvalues' shares."""
        values = np.linalg.eigvalsh(self.gram).clip(0.0)
        shares = values[values > 0] / max(values.sum(), 1e-300)
        return float(np.exp(-(shares * np.log(shares)).sum()))


def tangent_kernel(
    model: MeasureModel,
    maker: BatchMaker,
    windows: tuple[IntArray, IntArray],
    random: np.random.Generator,
) -> TangentKernel:
    """Of a few cells of each sequence, on the days after their ends."""
    parameters = [weights for weights in model.direct.parameters() if weights.requires_grad]
    streams, ends = windows
    gradients, residual = [], []
    occurs = TARGETS.index("occurs")
    for some in np.array_split(np.arange(len(ends)), -(-len(ends) // AT_ONCE)):
        batch = maker.make(streams[some], ends[some])
        output = model(batch.past, last=True)
        logits = output.direct[:, -1, occurs]
        came = batch.outcomes[:, -1, occurs]
        usual = output.profiles[:, -1, occurs].detach().sigmoid()
        for row in range(len(logits)):
            known = torch.nonzero(~came[row].isnan())[:, 0].numpy()
            for code in random.permutation(known)[:CELLS].tolist():
                found = torch.autograd.grad(
                    logits[row, code], parameters, retain_graph=True, allow_unused=True
                )
                parts = [
                    torch.zeros_like(weights) if one is None else one
                    for one, weights in zip(found, parameters, strict=True)
                ]
                gradients.append(torch.cat([part.flatten() for part in parts]).double())
                residual.append(float(came[row, code] - usual[row, code]))
    if not gradients:
        return TangentKernel(np.zeros((0, 0)), np.zeros(0))
    stacked = torch.stack(gradients)
    return TangentKernel((stacked @ stacked.T).numpy(), np.array(residual))
