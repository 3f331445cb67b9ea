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

_WINDOW_DIVISORS = (32, 16, 8)
"""A window on either side of a place has a 32nd, 16th or 8th of the rows. Of single steps by 0.5 to 1 deviations at
400 rows the widest finds nearly all that are found (49 of 100 at 0.75, with the narrower ones 52); narrow ones are for
jumps that follow closely on one another."""
_FEWEST_ROWS = 12
"""Rows of a window, or of a value, at least: the mean of fewer is not nearly normal, as the bound of a jump takes it.
In noise, 200 rows along one column, something is found in 8 of 100 searches with 4 or 8 rows, in 5 with 12 and in 3
with 20, and steps are found as often with all of these."""
_MOST_VALUES, _ROWS_PER_VALUE = 40, 10
"""Values of a column that are compared as such, at most, and rows for each of them: an indicator per value takes as
many degrees of freedom. A column with more is searched from place to place."""
_CUTS_OF_ALL_COLUMNS, _MOST_CUTS, _FEWEST_CUTS = 50, 15, 3
"""Cuts of all columns together among which a corner of two columns is sought, and of one column at most and at least.
Each pair of cuts costs a pass over the rows: 50 cuts have 2,500 pairs. Corners are so sought among 16 columns at most;
where exactly they lie is found afterwards, among all rows."""
_REFINEMENTS = 2
"""How often the two cuts of a corner are placed anew, each given the other."""
_MARGIN = 2.0
"""By so much a squared contrast must be larger than the largest of as many squared normal variables. In noise (200 to
1,000 rows, one to five columns, 200 searches of each) something is then found in 1 to 5 of 100 searches, with 0 in 4 to
13 and with 4 in 0 to 3; of steps by 0.75 deviations at 400 rows 52 of 100 are found, with 0 and 4 instead 66 and 43."""
_ROWS_PER_JUMP = 20
"""Rows for each indicator: more of them would follow single rows, because they are hardly penalised."""
_NEGLIGIBLE = 1e-3
"""Deviation of residuals, in units of their variable, below which they are no noise: what is explained to the third
digit leaves errors of approximation, which look like jumps."""
_CLIPPED = 3.0
"""Residuals are cut off at so many deviations, so that no single row makes a jump. With 2, fewer steps are found; 3, 5
and 50 found alike in noise that is normal or has heavy tails (t with 3 degrees of freedom)."""


def jumps(x: RealArray, residuals: RealArray) -> list[JumpBox]:
    """Return the boxes whose indicators follow the jumps of residuals (n x m) along x (n x d), the largest ones.

    The residuals are in units of the deviations of the variables whose regression they come from.
    """
    deviations = np.sqrt((residuals**2).mean(axis=0))  # (m,)
    is_noise = deviations > _NEGLIGIBLE
    scaled = np.clip(residuals[:, is_noise] / deviations[is_noise], -_CLIPPED, _CLIPPED)  # (n, m')
    if not scaled.size or not x.size:
        return []
    # The largest of N squared normal variables is about 2 log N.
    bound = _MARGIN + 2 * np.log(x.size * scaled.shape[1])
    order = np.argsort(x.T, axis=1, kind="stable").T  # (n, d)
    sorted_x = np.take_along_axis(x, order, axis=0)  # (n, d)
    sorted_residuals = scaled[order]  # (n, d, m'): along each column
    scores = _squared_differences(sorted_residuals)  # (n - 1, d)
    candidates: list[Jump] = []
    for j in range(x.shape[1]):
        candidates += _jumps_along(j, sorted_x[:, j], sorted_residuals[:, j], scores[:, j], bound)
    candidates += _largest_corners(x, sorted_x, scaled, bound)
    largest: list[JumpBox] = []
    for _, boxes in sorted(candidates, key=lambda jump: -jump[0]):
        if len(largest) + len(boxes) <= len(x) // _ROWS_PER_JUMP:
            largest += boxes
    return list(dict.fromkeys(largest))


def inside(x: RealArray, box: JumpBox) -> BoolArray:
    """Return which rows lie in a box."""
    return np.asarray(np.all([(x[:, j] > low) & (x[:, j] <= high) for j, low, high in box], axis=0))


def _jumps_along(j: int, x: RealArray, residuals: RealArray, scores: FloatArray, bound: float) -> Iterator[Jump]:
    """Yield jumps along a sorted column: all of its values at once if there are few, or places, far enough apart.

    The column is the j-th; `x` (n,) and the residuals (n, m) are sorted by it, and a score (n - 1,) is that of a jump
    between a row and the next.
    """
    # The last row of each value.
    ends = np.append(np.flatnonzero(x[1:] > x[:-1]), len(x) - 1)
    if len(ends) <= min(_MOST_VALUES, len(x) // _ROWS_PER_VALUE):
        score, row_counts = _difference_between_values(residuals, ends)
        if score > bound:
            boxes = [((j, low, high),) for low, high in pairwise(x[ends].tolist())]
            yield score, [box for box, count in zip(boxes, row_counts[1:], strict=True) if count >= _FEWEST_ROWS]
        return
    # No jump lies between equal values.
    scores = np.where(x[1:] > x[:-1], scores, 0.0)
    apart = max(len(x) // _WINDOW_DIVISORS[0], _FEWEST_ROWS)
    while scores.max() > bound:
        k = int(scores.argmax())
        yield float(scores[k]), [((j, float(x[k]), np.inf),)]
        scores[max(k - apart, 0) : k + apart] = 0.0


def _difference_between_values(residuals: RealArray, ends: RealArray) -> tuple[float, FloatArray]:
    """Return how much sorted residuals differ between values, as a squared normal variable, and the rows of each."""
    row_counts = np.diff(ends, prepend=-1)  # (values,)
    sums = np.diff(np.cumsum(residuals, axis=0)[ends], axis=0, prepend=0.0)  # (values, m)
    freedom = max(len(ends) - 1, 1)
    # The largest sum of squares between values, of all columns of residuals: chi-squared, here over its freedom.
    ratio = float((sums**2 / row_counts[:, None]).sum(axis=0).max()) / freedom
    # The cube root of a chi-squared variable is nearly normal (Wilson, Hilferty).
    normal = (np.cbrt(ratio) - 1 + 2 / (9 * freedom)) / np.sqrt(2 / (9 * freedom))
    return max(normal, 0.0) ** 2, row_counts


def _squared_differences(residuals: RealArray) -> FloatArray:
    """Return squared differences of mean residuals before and after each gap between rows (n - 1 x d).

    The residuals (n x d x m) are sorted along each column. The largest difference of all windows and residuals counts,
    in units of its variance by the residuals in the windows, or by all if that is larger.
    """
    n = len(residuals)
    # The sums of the first k rows, at k = 0 to n, so that the sum of a window is a difference of two.
    zeros = np.zeros((1, *residuals.shape[1:]))
    sums = np.concatenate([zeros, np.cumsum(residuals, axis=0)])
    squares = np.concatenate([zeros, np.cumsum(residuals**2, axis=0)])
    largest = np.zeros((n - 1, *residuals.shape[1:]))
    for h in {max(n // divisor, _FEWEST_ROWS) for divisor in _WINDOW_DIVISORS}:
        if 2 * h > n:
            continue
        # Windows of h rows on either side, for each gap that has as many.
        start, middle, end = (slice(k, n + 1 - 2 * h + k) for k in (0, h, 2 * h))
        below, above = sums[middle] - sums[start], sums[end] - sums[middle]
        within = (squares[end] - squares[start] - (below**2 + above**2) / h) / (2 * h - 2)
        # Both means have a variance of `within` / h; all residuals together have variance 1.
        differences = (above - below) ** 2 / (2 * h * np.maximum(within, 1.0))
        gaps = largest[h - 1 : n - h]
        np.maximum(gaps, differences, out=gaps)
    return np.asarray(largest.max(axis=2))


def _largest_corners(x: RealArray, sorted_x: RealArray, residuals: RealArray, bound: float) -> list[Jump]:
    """Return the largest jump of each pair of columns: both cuts, and the corner between them."""
    n, d = x.shape
    n_cuts = min(_CUTS_OF_ALL_COLUMNS // d, _MOST_CUTS)
    if d < 2 or n_cuts < _FEWEST_CUTS:
        return []
    cuts = sorted_x[np.arange(1, n_cuts + 1) * n // (n_cuts + 1)]  # (cuts, d): quantiles of each column
    is_above = (x[:, :, None] > cuts.T).reshape(n, -1)  # (n, d cuts)
    share = is_above.mean(axis=0)
    deviations = np.sqrt(share * (1 - share))
    signs = (is_above - share) / np.where(deviations > 0, deviations, np.inf)
    # Squared contrasts of each column of residuals with all products of two signs, in units of their variance.
    contrasts = np.array([signs.T @ (target[:, None] * signs) for target in residuals.T]) ** 2 / n
    contrasts = contrasts.reshape(-1, d, n_cuts, d, n_cuts)  # (m, d, cuts, d, cuts)
    corners = []
    for i, j in combinations(range(d), 2):
        of_pair = contrasts[:, i, :, j]  # (m, cuts, cuts)
        k, a, b = np.unravel_index(of_pair.argmax(), of_pair.shape)
        if of_pair[k, a, b] > bound:
            score, boxes = _refined_corner(x, (i, j), (cuts[a, i], cuts[b, j]), residuals[:, k])
            if score > bound:
                corners.append((score, boxes))
    return corners


def _refined_corner(
    x: RealArray, columns: tuple[int, int], cuts: tuple[RealArray | float, RealArray | float], residuals: RealArray
) -> Jump:
    """Return the corner that parts residuals (n,) best, from cuts of two columns that do so roughly."""
    i, j = columns
    cut_i, cut_j = cuts
    for _ in range(_REFINEMENTS):
        cut_i = _best_cut(x[:, i], residuals * _signs(x[:, j], cut_j))
        cut_j = _best_cut(x[:, j], residuals * _signs(x[:, i], cut_i))
    products = _signs(x[:, i], cut_i) * _signs(x[:, j], cut_j)  # (n,)
    # The contrast of the residuals with these, squared, over its variance by the residuals, or by 1 if that is larger.
    score = float((residuals @ products) ** 2 / (np.maximum(residuals**2, 1.0) @ products**2))
    first, second = (i, float(cut_i), np.inf), (j, float(cut_j), np.inf)
    return score, [(first,), (second,), (first, second)]


def _signs(x: RealArray, cut: RealArray | float) -> FloatArray:
    """Return on which side of a cut rows lie, -1 or 1, centred."""
    signs = np.where(x > cut, 1.0, -1.0)
    return np.asarray(signs - signs.mean(axis=0))


def _best_cut(column: RealArray, values: RealArray) -> float:
    """Return the value of a column that parts other values best."""
    n = len(column)
    order = np.argsort(column, kind="stable")
    x = column[order]
    sums = np.cumsum(values[order] - values.mean())[:-1]  # (n - 1,): of the rows up to each cut
    # Rows up to a cut behind each row but the last, and rows above it.
    below = np.arange(1, n)
    above = n - below
    scores = sums**2 / (below * above)
    # No cut lies between equal values, or leaves too few rows on a side.
    scores[(x[1:] == x[:-1]) | (np.minimum(below, above) < _FEWEST_ROWS)] = 0.0
    return float(x[scores.argmax()])
