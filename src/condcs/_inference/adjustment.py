"""What all parts of an answer about two samples rest on: regressions on x, and P(sample | x), fitted once.

The test, the sizes of a change, its regions and the parts of a loss read an `Adjustment`; none of them fits its own, so
that no two parts of an answer contradict each other by their fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, LabelArray, RealArray
from condcs._inference.propensities import Propensity, chosen_propensity
from condcs._inference.responses import jumping_targets
from condcs._regression.smoother import Smoother


@dataclass(frozen=True)
class Adjustment:
    """The rows of two samples, the regressions on their x, and the probability of each sample given x."""

    x: FloatArray  # (n, d): inputs, labels coded as numbers
    categorical: tuple[bool, ...]  # (d,): which columns are labels
    labels: LabelArray  # (n,): which sample a row is from, 0 or 1
    weights: FloatArray  # (n,): how much a row counts: in each sample, the mean is 1
    smoother: Smoother  # for regressions on x
    propensity: Propensity  # P(sample | x)
    jumping: RealArray | None = None  # (n, t): what jumps along x were looked for in; the smoother follows them

    @classmethod
    def of(
        cls,
        x: FloatArray,
        categorical: Sequence[bool],
        sizes: tuple[int, int],
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
        clusters: IntArray | None = None,
        propensity: Any = None,
        responses: tuple[FloatArray, Sequence[bool]] | None = None,
    ) -> Adjustment:
        """Fit the regressions on x, and P(sample | x) if it is not passed; the rows of the first sample come first.

        With responses (n x c, and which columns are labels) all regressions follow the jumps of these, and of the
        labels, along x.
        """
        labels = np.repeat([0, 1], sizes)
        smoother = Smoother(x, categorical, clusters)
        jumping = None
        if responses is not None:
            jumping = jumping_targets(responses, (labels[:, None], (True,)))
            smoother = smoother.following_jumps(jumping)
        fitted = chosen_propensity(propensity, x, smoother, clusters, labels, 2, rng)
        if weights is None:
            weights = np.ones(len(x))
        else:
            # Each sample may have a unit of its own.
            means = np.array([weights[labels == group].mean() for group in (0, 1)])  # (2,)
            weights = weights / means[labels]  # (n,)
        return cls(x, tuple(categorical), labels, weights, smoother, fitted, jumping)

    def smoother_of(self, rows: IntArray, clusters: IntArray | None) -> Smoother:
        """Return regressions of some rows on x, which follow jumps if those of all rows do."""
        smoother = Smoother(self.x[rows], self.categorical, clusters)
        return smoother if self.jumping is None else smoother.following_jumps(self.jumping[rows])

    @property
    def surprise(self) -> FloatArray:
        """Label minus its probability (n,)."""
        return np.asarray(self.labels - self.propensity.of_rows[:, 1])
