"""Two samples of a batch, pooled: sizes, weights, labels, and the sums that their divergences are made of."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from condcs.measures.formulas import conditional_terms, pooled_terms
from condcs.nn.exponents import DENSE_ROWS, log_or_minus_infinity, log_sum
from condcs.nn.reduction import Part
from condcs.nn.tensors import check_weights, class_table

TILED = f"above {DENSE_ROWS:,} rows only totals are kept, to save memory"
"""Why there are no shares of rows in a large batch."""


class Batch:
    """Two samples, pooled: sizes, weights, and the sums that their divergences are made of."""

    def __init__(self, source: Tensor, target: Tensor, weights_source: Any, weights_target: Any) -> None:
        self.sizes = (source.shape[0], target.shape[0])
        self.n = sum(self.sizes)
        self.dense = self.n <= DENSE_ROWS
        self.slices = (slice(0, self.sizes[0]), slice(self.sizes[0], self.n))
        self.weights = (
            check_weights("weights_source", weights_source, source),
            check_weights("weights_target", weights_target, target),
        )
        self.row_weights = [0.0 if w is None else log_or_minus_infinity(w) for w in self.weights]
        self.log_totals = [
            math.log(m) if w is None else w.sum().log() for m, w in zip(self.sizes, self.weights, strict=True)
        ]

    def shares(self, g: int) -> Any:
        """Weights of a sample, summing to 1."""
        w = self.weights[g]
        assert w is not None
        return w / w.sum()

    def marginal_parts(self, log_a: Tensor, factor: float = 1.0) -> list[Part]:
        """Log of the mean kernel value within and between the samples."""
        (s, t), (ws, wt), (ms, mt) = self.slices, self.row_weights, self.log_totals
        return [
            Part(factor, log_a[s, 0] + ws - 2 * ms, s),
            Part(factor, log_a[t, 1] + wt - 2 * mt, t),
            Part(-2 * factor, log_a[s, 1] + ws - ms - mt, s),
        ]

    def conditional_parts(self, log_a: Tensor, log_b: Tensor, factor: float) -> list[Part]:
        """Prop. 2: B[j,h] / (A[j,g] A[j,h]) over the rows j of g, for all g and h."""
        parts = []
        for g, (rows, weights) in enumerate(zip(self.slices, self.row_weights, strict=True)):
            for h in (0, 1):
                terms = conditional_terms(log_b[rows, h] - log_a[rows, h], log_a[rows, g]) + weights
                parts.append(Part(factor if g == h else -factor, terms, rows))
        return parts

    def pooled_parts(self, log_a: Tensor, log_b: Tensor, factor: float) -> list[Part]:
        """All integrals over both samples: f_g f_h / (B_g + B_h) with f = B / A."""
        everyone = slice(0, self.n)
        log_f, log_r = log_b - log_a, log_sum(log_b, 1)
        weights = torch.cat([log_r.new_zeros(m) + w for m, w in zip(self.sizes, self.row_weights, strict=True)])
        terms = [(1.0, 0, 0), (1.0, 1, 1), (-2.0, 0, 1)]
        return [
            Part(c * factor, pooled_terms(log_f[:, g], log_f[:, h], log_r) + weights, everyone) for c, g, h in terms
        ]


def labels_of(y_source: Any, y_target: Any, zs: Tensor, zt: Tensor) -> tuple[Tensor, Tensor]:
    """Labels of both batches as tables with the same columns."""
    tables = [y for y in (y_source, y_target) if isinstance(y, Tensor) and (y.is_floating_point() or y.ndim > 1)]
    classes = tables[0].flatten(1).shape[1] if tables and tables[0].ndim > 1 else 1 if tables else None
    ys = class_table("y_source", y_source, zs.shape[0], classes)
    return ys.to(zs.dtype), class_table("y_target", y_target, zt.shape[0], classes).to(zs.dtype)
