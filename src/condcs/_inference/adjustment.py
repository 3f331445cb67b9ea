"""What all parts of an answer about samples rest on: the functions of x for regressions, and P(sample | x), once.

The test, the sizes of a change, its regions, the parts of a loss and the picture of the local divergence share one
`Adjustment`, so that no two parts of an answer contradict each other by what they adjust for. It holds no regression of
y: each part regresses targets of its own (y, its normal scores, its features, a loss) on the designs of the one
`Smoother`, which are made once, with the places where something jumps along x. P(sample | x) is fitted once, on the
same designs, and its balance checked. The exceptions:

- A test of weighted rows redraws labels from P(sample | x, weight), a fit of its own: a row keeps its weight when its
  label is redrawn. Its regressions on x are the shared ones.
- Sizes that are measured on some of the rows of long tables have the designs of these rows
  (`Adjustment.smoother_of`), and P(sample | x) is fitted to these as well.
- Whether rows depend on one another (`comparison._row_dependence`) is asked of each table by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, LabelArray, RealArray
from condcs._inference.propensities import Propensity, chosen_propensity
from condcs._inference.responses import jumping_targets
from condcs._regression.smoother import Smoother


class SmootherOfSamples(NamedTuple):
    """Designs for regressions on x, and the targets (n x t) whose jumps along x they follow; None if there are none."""

    smoother: Smoother
    jumping: RealArray | None


def smoother_of_samples(
    x: FloatArray,
    is_category: Sequence[bool],
    labels: LabelArray,
    clusters: IntArray | None,
    responses: tuple[FloatArray, Sequence[bool]] | None,
) -> SmootherOfSamples:
    """Return the designs on the x of pooled samples; with responses they follow jumps as `Adjustment.of` says."""
    smoother = Smoother(x, is_category, clusters)
    if responses is None:
        return SmootherOfSamples(smoother, None)
    jumping = jumping_targets(responses, (labels[:, None], (True,)))
    return SmootherOfSamples(smoother.following_jumps(jumping), jumping)


@dataclass(frozen=True)
class Adjustment:
    """The rows of all samples, the designs for regressions on their x, and the probability of each sample given x."""

    x: FloatArray  # (n, d): inputs, labels coded as numbers
    is_category: tuple[bool, ...]  # (d,): which columns are labels
    labels: LabelArray  # (n,): which sample a row is from, 0, 1, ...
    weights: FloatArray  # (n,): weights of the rows, with a mean of 1 in each sample
    smoother: Smoother  # designs, on which any targets are regressed
    propensity: Propensity  # P(sample | x)
    jumping: RealArray | None = None  # (n, t): targets whose jumps along x the smoother follows

    @classmethod
    def of(
        cls,
        x: FloatArray,
        is_category: Sequence[bool],
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
        clusters: IntArray | None = None,
        propensity: Any = None,
        responses: tuple[FloatArray, Sequence[bool]] | None = None,
    ) -> Adjustment:
        """Make the designs, and fit P(sample | x) if it is not passed; the samples lie one after the other.

        With responses (n x c, and flags of the columns of labels) the designs have indicators of the places where these
        or the samples' labels jump along x. Why that leaves a test its level: `responses`.
        """
        labels = np.repeat(np.arange(len(sizes)), sizes)
        smoother, jumping = smoother_of_samples(x, is_category, labels, clusters, responses)
        fitted = chosen_propensity(propensity, x, smoother, clusters, labels, len(sizes), rng)
        if weights is None:
            weights = np.ones(len(x))
        else:
            # Each sample may have weights on a scale of its own.
            means = np.array([weights[labels == sample].mean() for sample in range(len(sizes))])  # (G,)
            weights = weights / means[labels]  # (n,)
        return cls(x, tuple(is_category), labels, weights, smoother, fitted, jumping)

    def smoother_of(self, rows: IntArray, clusters: IntArray | None) -> Smoother:
        """Return the designs of some rows, which follow jumps if those of all rows do."""
        smoother = Smoother(self.x[rows], self.is_category, clusters)
        return smoother if self.jumping is None else smoother.following_jumps(self.jumping[rows])

    @property
    def clusters(self) -> IntArray | None:
        """Cluster of each row (n,), whose rows have one label between them; None if every row is by itself."""
        return self.propensity.units

    @property
    def surprise(self) -> FloatArray:
        """Label of one of two samples minus its probability (n,)."""
        return np.asarray(self.labels - self.propensity.of_rows[:, 1])

    @cached_property
    def balanced_share(self) -> FloatArray:
        """Share of the second of two samples at each row's x if both weighed the same (n,): s = q / (p + q)."""
        return self.propensity.balanced_share(self.labels)

    @property
    def common_weights(self) -> FloatArray:
        """Weights (n,) with which the pool is distributed over x as the inputs that two samples have in common.

        Their density is proportional to p q / (p + q), see `common_support`: where both samples weigh the same, the
        pool has the density (p + q) / 2, and s (1 - s) = p q / (p + q)^2.
        """
        s = self.balanced_share
        return np.asarray(self.weights / np.bincount(self.labels)[self.labels] * s * (1 - s))
