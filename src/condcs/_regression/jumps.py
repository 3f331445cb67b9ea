r"""Jumps: where in x something changes at once, which no smooth function follows.

They are looked for in residuals of smooth regressions, in three ways: along a column (residuals left and right of a
place), in a corner of two columns (residuals times the signs of both), and between the values of a column that has few.
Each is a squared contrast in units of its variance, and a jump where it is larger than the largest of as many normal
variables as there are numbers in x, for each column of residuals.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, RealArray

JumpBox = tuple[tuple[int, float, float], ...]
"""Rows between two values of some columns: column, lower end (outside) and upper end (inside) of each."""

Jump = tuple[float, list[JumpBox]]
"""How large a jump is, and the boxes whose indicators follow it."""

_SHARES = (32, 16, 8)
"""Windows on either side of a place: one of so many equal parts of the rows."""
_FEWEST_ROWS = 12
_MOST_VALUES, _ROWS_PER_VALUE = 40, 10
_CORNER_PLACES, _MOST_PLACES, _FEWEST_PLACES = 50, 15, 3
_MARGIN = 2.0
"""By so much a squared contrast must be larger than the largest of as many squared normal variables."""
_ROWS_PER_JUMP = 20
_NEGLIGIBLE = 1e-3
_CLIPPED = 3.0


def jumps(x: RealArray, residuals: RealArray) -> list[JumpBox]:
    """Return the boxes whose indicators follow the jumps of residuals (n x m) along x (n x d), the largest ones.

    The residuals are in units of the deviations of the variables that they are left of.
    """
    size = np.sqrt((residuals**2).mean(axis=0))
    # What is explained to the third digit leaves approximation errors, not noise.
    left = np.clip(residuals[:, size > _NEGLIGIBLE] / size[size > _NEGLIGIBLE], -_CLIPPED, _CLIPPED)
    if not left.size or not x.size:
        return []
    bound = _MARGIN + 2 * np.log(x.size * left.shape[1])
    order = np.argsort(x.T, axis=1, kind="stable").T
    places, in_order = np.take_along_axis(x, order, axis=0), left[order]
    scores = _differences(in_order)
    found = [jump for j in range(x.shape[1]) for jump in _along(j, places[:, j], in_order[:, j], scores[:, j], bound)]
    found += _corners(x, places, left, bound)
    kept: list[JumpBox] = []
    for _, boxes in sorted(found, key=lambda jump: -jump[0]):
        if len(kept) + len(boxes) <= len(x) // _ROWS_PER_JUMP:
            kept += boxes
    return list(dict.fromkeys(kept))


def inside(x: RealArray, box: JumpBox) -> BoolArray:
    """Return which rows lie in a box."""
    return np.asarray(np.all([(x[:, j] > low) & (x[:, j] <= high) for j, low, high in box], axis=0))


def _along(j: int, x: RealArray, left: RealArray, scores: FloatArray, bound: float) -> Iterator[Jump]:
    """Yield jumps along a sorted column: all of its values at once if there are few, or places, far enough apart."""
    ends = np.append(np.flatnonzero(x[1:] > x[:-1]), len(x) - 1)
    if len(ends) <= min(_MOST_VALUES, len(x) // _ROWS_PER_VALUE):
        score, counts = _between(left, ends)
        if score > bound:
            boxes = [((j, low, high),) for low, high in pairwise(x[ends].tolist())]
            yield score, [box for box, count in zip(boxes, counts[1:], strict=True) if count >= _FEWEST_ROWS]
        return
    scores = np.where(x[1:] > x[:-1], scores, 0.0)
    apart = max(len(x) // _SHARES[0], _FEWEST_ROWS)
    while scores[k := int(scores.argmax())] > bound:
        yield float(scores[k]), [((j, float(x[k]), np.inf),)]
        scores[max(k - apart, 0) : k + apart] = 0.0


def _between(left: RealArray, ends: RealArray) -> tuple[float, FloatArray]:
    """Return how much sorted residuals differ between values, as a squared normal variable, and the rows of each."""
    counts = np.diff(ends, prepend=-1)
    sums = np.diff(np.cumsum(left, axis=0)[ends], axis=0, prepend=0.0)
    freedom = max(len(ends) - 1, 1)
    ratio = float((sums**2 / counts[:, None]).sum(axis=0).max()) / freedom
    # The cube root of a chi-squared variable is nearly normal (Wilson, Hilferty).
    normal = (np.cbrt(ratio) - 1 + 2 / (9 * freedom)) / np.sqrt(2 / (9 * freedom))
    return max(normal, 0.0) ** 2, counts


def _differences(left: RealArray) -> FloatArray:
    """Return squared differences of mean residuals before and after each gap between rows (n - 1 x d).

    The residuals (n x d x m) are sorted along each column. The largest difference of all windows and residuals counts,
    in units of its variance by the residuals in the windows, or by all if that is larger.
    """
    n = len(left)
    none = np.zeros((1, *left.shape[1:]))
    sums, squares = (np.concatenate([none, np.cumsum(v, axis=0)]) for v in (left, left**2))
    found = np.zeros((n - 1, *left.shape[1:]))
    for h in {max(n // share, _FEWEST_ROWS) for share in _SHARES}:
        if 2 * h > n:
            continue
        start, middle, end = (slice(k, n + 1 - 2 * h + k) for k in (0, h, 2 * h))
        before, after = sums[middle] - sums[start], sums[end] - sums[middle]
        within = (squares[end] - squares[start] - (before**2 + after**2) / h) / (2 * h - 2)
        gaps = found[h - 1 : n - h]
        np.maximum(gaps, (after - before) ** 2 / (2 * h * np.maximum(within, 1.0)), out=gaps)
    return np.asarray(found.max(axis=2))


def _corners(x: RealArray, in_order: RealArray, left: RealArray, bound: float) -> list[Jump]:
    """Return the largest jump of each pair of columns: both cuts, and the corner between them."""
    n, d = x.shape
    places = min(_CORNER_PLACES // d, _MOST_PLACES)
    if d < 2 or places < _FEWEST_PLACES:
        return []
    cuts = in_order[np.arange(1, places + 1) * n // (places + 1)]
    above = (x[:, :, None] > cuts.T).reshape(n, -1)
    share = above.mean(axis=0)
    deviations = np.sqrt(share * (1 - share))
    signs = (above - share) / np.where(deviations > 0, deviations, np.inf)
    rough = np.array([signs.T @ (own[:, None] * signs) for own in left.T]) ** 2 / n
    found = []
    for i, j in combinations(range(d), 2):
        block = rough.reshape(-1, d, places, d, places)[:, i, :, j]
        target, a, b = np.unravel_index(block.argmax(), block.shape)
        if block[target, a, b] > bound:
            own, s, t = left[:, target], cuts[a, i], cuts[b, j]
            for _ in range(2):
                s = _best_cut(x[:, i], own * _signs(x[:, j], t))
                t = _best_cut(x[:, j], own * _signs(x[:, i], s))
            both = _signs(x[:, i], s) * _signs(x[:, j], t)
            score = float((own @ both) ** 2 / (np.maximum(own**2, 1.0) @ both**2))
            first, second = (i, s, np.inf), (j, t, np.inf)
            if score > bound:
                found.append((score, [(first,), (second,), (first, second)]))
    return found


def _signs(x: RealArray, cut: RealArray | float) -> FloatArray:
    found = np.where(x > cut, 1.0, -1.0)
    return np.asarray(found - found.mean(axis=0))


def _best_cut(column: RealArray, values: RealArray) -> float:
    """Return the value of a column that parts other values best."""
    order = np.argsort(column, kind="stable")
    x, sums = column[order], np.cumsum(values[order] - values.mean())[:-1]
    below = np.arange(1, len(x))
    scores = sums**2 / (below * (len(x) - below))
    scores[(x[1:] == x[:-1]) | (np.minimum(below, len(x) - below) < _FEWEST_ROWS)] = 0.0
    return float(x[scores.argmax()])
