r"""Labels redrawn with the balance of x held: the law of the labels given the statistic that estimating it used up.

If the log-odds of the labels are :math:`\beta' f(x)`, the group sums of f are sufficient for :math:`\beta`, and the law
of the labels given these sums depends on nothing unknown. It is sampled by exchanging labels between rows. The sums are
held softly, to a small share of their natural variance: with continuous x no other labelling has exactly the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from condcs._core.settings import current_settings
from condcs._inference.smoothing import in_deviations

FloatArray = np.ndarray[Any, Any]
Labels = np.ndarray[Any, Any]

# Columns of no more distinct values than this are taken as categories: a spline needs room between its knots.
_FEW_VALUES = 8
# Features per column of x: 6 make a cubic spline of 5 knots; fewer where there would be less than 10 rows to each.
_FEATURES, _ROWS_PER_FEATURE = 6, 10
# Inverse strength of the classifier's ridge penalty, on standardised features. Weaker penalties change nothing, because
# what is estimated is also held; much stronger ones fall short of the shift, and too many are rejected.
_RIDGE = 1.0
# Share of its natural variance that the imbalance of x keeps in a redrawn sample. At 0.2 tests are conservative.
_KEPT_VARIANCE = 0.05
# Proposed exchanges of a chain, per row.
_PROPOSALS = 10


class BalancedDraws:
    """Chains of label exchanges within cells, from one hub. Callable: ``draws(count)`` is an array (count, n).

    Parameters
    ----------
    labels : array of int, shape (n,)
        Observed labels.
    features : array, shape (n, k)
        Features whose group sums are held; their scale is how firmly.
    centre : array, shape (G, k)
        What the sums are held to.
    logits : array, shape (n, G)
        Log-probabilities of the labels.
    cells : array of int, shape (n,)
        Labels are exchanged within a cell only.
    rng : Generator
        Where the randomness comes from.
    """

    def __init__(
        self,
        labels: Labels,
        features: FloatArray,
        centre: FloatArray,
        logits: FloatArray,
        cells: Labels,
        rng: np.random.Generator,
    ) -> None:
        self._features, self._centre, self._logits = np.ascontiguousarray(features), centre, logits
        self._cells, self._rng = cells.astype(np.int64), rng
        self._size = np.bincount(self._cells)
        self._first = np.concatenate([[0], np.cumsum(self._size)[:-1]])
        self._members = np.argsort(self._cells, kind="stable")
        # Observed labels and draws are exchangeable if both are reached from one hub by chains that can run backwards.
        self._hub = self._chains(labels, 1)[0]

    def __call__(self, count: int) -> Labels:
        """Make `count` draws."""
        return self._chains(self._hub, count)

    def _chains(self, start: Labels, count: int) -> Labels:
        from condcs._inference.compiled_draws import swap_chains

        n, groups = self._logits.shape
        excess = (start[:, None] == np.arange(groups)).T.astype(np.float64) @ self._features - self._centre
        seeds = self._rng.integers(0, 2**63, size=count).astype(np.uint64)
        drawn = np.empty((count, n), start.dtype)
        workers = min(current_settings().n_threads, count)

        def run(part: slice) -> None:
            swap_chains(
                start,
                excess,
                self._features,
                self._logits,
                self._cells,
                self._first,
                self._size,
                self._members,
                _PROPOSALS * n,
                seeds[part],
                drawn[part],
            )

        # Each draw has a seed of its own, so the result does not depend on how draws are spread over threads.
        ends = [round(count * i / workers) for i in range(workers + 1)]
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(run, (slice(a, b) for a, b in pairwise(ends))))
        return drawn


def propensity_draws(
    x: FloatArray, labels: Labels, count: int, categorical: Sequence[bool] | None, rng: np.random.Generator
) -> BalancedDraws:
    """Labels from a logistic regression on splines of each column, given the group sums of the splines."""
    from sklearn.linear_model import LogisticRegression

    features = spline_features(x, categorical)
    model = LogisticRegression(C=_RIDGE, max_iter=2000).fit(features, labels)
    probabilities = model.predict_proba(features)
    spread = 0.5 * (probabilities * (1 - probabilities)).sum(axis=1)
    centred = features - spread @ features / spread.sum()
    held = _held(centred, spread, 1 / _RIDGE, count)
    logits = np.log(np.maximum(probabilities, 1e-300))
    return BalancedDraws(labels, held, probabilities.T @ held, logits, np.zeros(len(x), np.int64), rng)


def local_draws(
    x: FloatArray, categorical: Labels, labels: Labels, count: int, neighbours: int, rng: np.random.Generator
) -> BalancedDraws:
    """Labels exchanged within cells of x, given the group means of x."""
    cells = median_cells(x, categorical, neighbours)
    one_hot = (labels[:, None] == np.arange(count)).astype(np.float64)
    sizes = np.bincount(cells)
    shares = np.stack([np.bincount(cells, weights=column) for column in one_hot.T], axis=1) / sizes[:, None]
    spread = 0.5 * (shares * (1 - shares)).sum(axis=1) * sizes / np.maximum(sizes - 1, 1)
    numeric = in_deviations(x[:, ~categorical])
    means = [np.bincount(cells, weights=column) / sizes for column in numeric.T]
    centred = numeric - np.stack(means, axis=1)[cells] if means else numeric
    held = _held(centred, spread[cells], 0.0, count)
    return BalancedDraws(labels, held, one_hot.T @ held, np.zeros((len(x), count)), cells, rng)


def median_cells(x: FloatArray, categorical: Labels, smallest: int) -> Labels:
    """Cell of each row: categories apart, then split at the median of the widest column while halves are big enough.

    Cells hold at least `smallest` rows (fewer if a category has fewer) and less than twice as many.
    """
    numeric = in_deviations(x[:, ~categorical])
    cells = np.empty(len(x), np.int64)
    if categorical.any():
        start = np.unique(x[:, categorical], axis=0, return_inverse=True)[1].reshape(-1)
        waiting = [np.flatnonzero(start == value) for value in range(start.max() + 1)]
    else:
        waiting = [np.arange(len(x))]
    found = 0
    while waiting:
        rows = waiting.pop()
        if len(rows) < 2 * smallest or not numeric.shape[1]:
            cells[rows] = found
            found += 1
            continue
        values = numeric[rows]
        column = values[:, np.argmax(np.ptp(values, axis=0))]
        order = rows[np.argsort(column, kind="stable")]
        waiting += [order[: len(rows) // 2], order[len(rows) // 2 :]]
    return cells


def spline_features(x: FloatArray, categorical: Sequence[bool] | None) -> FloatArray:
    """Standardised cubic splines of every column of numbers, and indicators of every category."""
    from sklearn.preprocessing import SplineTransformer

    n, d = x.shape
    per_column = min(_FEATURES, n // (_ROWS_PER_FEATURE * d))
    blocks = []
    for c, column in enumerate(in_deviations(x).T):
        values = np.unique(column)
        if categorical[c] if categorical is not None else len(values) <= _FEW_VALUES:
            blocks.append((column[:, None] == values[1:]).astype(np.float64))
            continue
        knots = np.unique(np.quantile(column, np.linspace(0, 1, max(per_column - 1, 1))))
        if len(knots) < 2:
            blocks.append(column[:, None])
        else:
            spline = SplineTransformer(knots=knots[:, None], degree=3, include_bias=False)
            blocks.append(spline.fit_transform(column[:, None]))
    return in_deviations(np.hstack(blocks))


def _held(centred: FloatArray, spread: FloatArray, ridge: float, count: int) -> FloatArray:
    """Turn centred features into uncorrelated ones, scaled by how firmly the sum of each is to be held.

    `spread` is the variance of a row's label. Of a direction with information d, a ridge fit uses up the share
    d / (d + ridge); what the observed labels keep of its natural variance is the square of the rest.
    """
    information, directions = np.linalg.eigh(centred.T @ (centred * spread[:, None]))
    used = information / (information + ridge) if ridge else np.ones_like(information)
    kept = np.maximum((1 - used) ** 2, _KEPT_VARIANCE)
    # Directions that were hardly estimated need no holding, and those without information cannot be held.
    chosen = (kept < 0.9) & (information > 1e-8 * max(information.max(initial=0.0), 1e-8))
    scale = np.sqrt((1 - kept[chosen]) / (kept[chosen] * information[chosen]))
    # With G groups of equal size the sums of one direction have G - 1 degrees of freedom of variance 2 / G (1 - 1 / G).
    return np.asarray(centred @ (directions[:, chosen] * scale) * np.sqrt(count - 1))
