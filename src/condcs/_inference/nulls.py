r"""Nulls: how group labels (or neighbours, or windows) are redrawn so that nothing but the null hypothesis changes.

Under H0, p(y|x) = q(y|x), the label of a row depends on its x alone. So the labels may be redrawn from P(group | x)
while all rows stay where they are. What each null assumes about that probability is the difference between them:

- "permutation": it does not depend on x at all, i.e. p(x) = q(x). The paper's Algorithm 2.
- "propensity", the default of tests of p(y|x): one of several regressions estimates it well. Its module is
  `condcs._inference.propensities`.
- "local": within a small cell of x its log-odds are linear in x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, LabelArray, RealArray
from condcs._core.checks import check_integer, label_type
from condcs._core.errors import ParameterError
from condcs._core.settings import current_settings
from condcs._parallel.spreading import on_threads
from condcs._regression.standardised import in_deviations

Draw = Callable[[int], LabelArray]
"""Takes how many draws to make, and returns labels, one draw per row (count x n)."""

NULLS = ("propensity", "permutation", "local")

_FEWEST_ROWS_OF_CELL = 10
"""Fewest rows of a cell of the local null: in smaller ones, few labellings hold the means of x in each sample."""

_VARIANCE_SHARE = 0.05
"""Share of its natural variance that the imbalance of x has in a redrawn sample. At 0.2 tests are conservative."""
_PROPOSALS = 10
"""Proposed exchanges of a chain for each row. Draws are valid with any number; after few they are still close to the
hub, and so to the observed labels, which costs power. The time of a draw is proportional to it."""
_LEAST_INFORMATION = 1e-8
"""Part of the largest information below which a direction of x has none: it is divided by, and less is rounding."""
_TIE_BREAKING = 1e-9
"""Noise, in standard deviations of a column, that tells equal rows apart; other rows must differ by much more."""


def label_sampler(
    null: str,
    x: FloatArray | None,
    labels: LabelArray,
    *,
    is_category: Sequence[bool] | None = None,
    rng: np.random.Generator,
) -> Draw:
    """Return a function that permutes the labels of samples: everywhere ("permutation") or within cells of x ("local").

    Samples are numbered 0 to G - 1 and keep their sizes; draws are int8, int32 for more than 127 samples. `is_category`
    says which columns of x are categories, none by default.

    Examples
    --------
    >>> import numpy as np
    >>> draw = label_sampler("permutation", None, np.repeat([0, 1], [3, 2]), rng=np.random.default_rng(0))
    >>> draw(4).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """
    n_samples = int(labels.max()) + 1
    labels = labels.astype(label_type(n_samples))
    if null == "permutation":
        return lambda count: rng.permuted(np.broadcast_to(labels, (count, len(labels))), axis=1)
    assert x is not None
    flags = np.zeros(x.shape[1], bool) if is_category is None else np.asarray(is_category, bool)
    return LocalDraws(x, flags, labels, n_samples, rng)


class LocalDraws:
    r"""Labels exchanged within cells of x, with the means of x in each sample held. ``draws(count)`` is (count, n).

    If the log-odds of the labels are linear in x within a cell, :math:`\beta' x`, the samples' sums of x are sufficient
    for :math:`\beta`, and the law of the labels given these sums depends on nothing unknown. It is sampled by a
    Metropolis chain that exchanges labels between rows of a cell. The sums are held softly, to a small share of their
    natural variance: with continuous x no other labelling has exactly the same. All chains start from one hub that a
    chain from the observed labels has reached, which makes observed and redrawn labels exchangeable however long the
    chains are (Besag and Clifford 1989). Cost O(10 n d) per draw.
    """

    def __init__(
        self, x: FloatArray, is_category: BoolArray, labels: LabelArray, n_samples: int, rng: np.random.Generator
    ) -> None:
        self._rng, self._n_samples = rng, n_samples
        self._cells = median_cells(x, is_category, _FEWEST_ROWS_OF_CELL)  # (n,)
        # The rows cell by cell, and where those of each cell begin among them.
        self._members = np.argsort(self._cells, kind="stable")  # (n,)
        self._size = np.bincount(self._cells)  # (cells,)
        self._first = np.concatenate([[0], np.cumsum(self._size)[:-1]])  # (cells,)
        self._features = np.ascontiguousarray(self._held_features(in_deviations(x[:, ~is_category]), labels))
        self._sums = self._sums_of_samples(labels)
        # Observed labels and draws are exchangeable if both are reached from one hub by chains that can run backwards.
        self._hub = self._chains(labels, 1)[0]

    def __call__(self, count: int) -> LabelArray:
        """Make `count` draws."""
        return self._chains(self._hub, count)

    def _chains(self, start: LabelArray, count: int) -> LabelArray:
        """Return the labels that so many chains from `start` end with (count x n)."""
        from condcs._inference.compiled_loops import swap_chains

        n = len(start)
        excess = self._sums_of_samples(start) - self._sums
        seeds = self._rng.integers(0, 2**63, size=count).astype(np.uint64)
        drawn = np.empty((count, n), start.dtype)
        cells = self._cells, self._first, self._size, self._members
        of_all_chains = start, excess, self._features, *cells, _PROPOSALS * n
        # Each draw has a seed of its own, so the result does not depend on how draws are spread over threads.
        workers = min(current_settings().n_threads, count)
        parts = zip(np.array_split(seeds, workers), np.array_split(drawn, workers), strict=True)
        list(on_threads(swap_chains, ((*of_all_chains, *part) for part in parts), workers))
        return drawn

    def _sums_of_samples(self, labels: LabelArray) -> FloatArray:
        """Return the sums of the features over each sample (G x features)."""
        return np.asarray((labels == np.arange(self._n_samples)[:, None]).astype(np.float64) @ self._features)

    def _held_features(self, numeric: RealArray, labels: LabelArray) -> FloatArray:
        """Turn columns, less their means in each cell, into uncorrelated ones, scaled by how firmly each is held."""
        cells, sizes = self._cells, self._size
        counts = [np.bincount(cells, weights=labels == g, minlength=len(sizes)) for g in range(self._n_samples)]
        shares = np.stack(counts, axis=1) / sizes[:, None]  # (cells, G)
        # Half the sum over the samples of a label's variance in its cell, without replacement.
        spread = 0.5 * (shares * (1 - shares)).sum(axis=1) * sizes / np.maximum(sizes - 1, 1)  # (cells,)
        means = [np.bincount(cells, weights=column) / sizes for column in numeric.T]
        centred = numeric - np.stack(means, axis=1)[cells] if means else numeric
        # Variance of the sums of the columns under permutations within cells, and its principal directions.
        information, directions = np.linalg.eigh(centred.T @ (centred * spread[cells][:, None]))
        # Directions without information cannot be held.
        chosen = information > _LEAST_INFORMATION * max(information.max(initial=0.0), _LEAST_INFORMATION)
        scale = np.sqrt((1 - _VARIANCE_SHARE) / (_VARIANCE_SHARE * information[chosen]))
        # With G samples of equal size the sums of one direction have G - 1 degrees of freedom of variance
        # 2 / G (1 - 1 / G).
        return np.asarray(centred @ (directions[:, chosen] * scale) * np.sqrt(self._n_samples - 1))


def median_cells(x: FloatArray, is_category: BoolArray, smallest: int) -> IntArray:
    """Cell of each row: categories apart, then split at the median of the widest column while halves are big enough.

    Cells hold at least `smallest` rows (fewer if a category has fewer) and less than twice as many.
    """
    numeric = in_deviations(x[:, ~is_category])
    cells = np.empty(len(x), np.int64)
    if is_category.any():
        category = np.unique(x[:, is_category], axis=0, return_inverse=True)[1].reshape(-1)  # (n,)
        waiting = [np.flatnonzero(category == code) for code in range(category.max() + 1)]
    else:
        waiting = [np.arange(len(x))]
    cell = 0
    while waiting:
        rows = waiting.pop()
        if len(rows) < 2 * smallest or not numeric.shape[1]:
            cells[rows] = cell
            cell += 1
            continue
        values = numeric[rows]
        column = values[:, np.argmax(np.ptp(values, axis=0))]
        order = rows[np.argsort(column, kind="stable")]
        waiting += [order[: len(rows) // 2], order[len(rows) // 2 :]]
    return cells


def local_permutations(z: FloatArray, *, neighbours: int, count: int, rng: np.random.Generator) -> IntArray:
    """Permutations (count x n) for the null "y independent of x given z": each row receives the index of a neighbour.

    Rows come in random order and take a random one of their nearest neighbours in z (n x d), themselves included, that
    nobody has taken yet, or any if all are taken, so that indices repeat as little as possible (Runge 2018). Columns
    are compared in units of their standard deviation. Cost O(n log n) for the neighbours, then O(count n k).

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> drawn = local_permutations(z, neighbours=2, count=50, rng=np.random.default_rng(0))
    >>> bool(np.all(np.abs(z[drawn, 0] - z[:, 0]) < 0.2))
    True
    """
    from scipy.spatial import cKDTree

    from condcs._inference.compiled_loops import assign_neighbours

    z = np.asarray(z, np.float64).reshape(len(z), -1)  # (n, d)
    k = min(check_integer("neighbours", neighbours, 2), len(z))
    standardised = in_deviations(z)
    # A speck of noise breaks ties at random: without it, rows of one category would all see the same few.
    standardised = standardised + _TIE_BREAKING * rng.standard_normal(standardised.shape)
    table = cKDTree(standardised).query(standardised, k)[1].reshape(len(z), k)
    drawn = np.empty((count, len(z)), np.int64)
    assign_neighbours(table.astype(np.int64), rng.integers(0, 2**63, size=count).astype(np.uint64), drawn)
    return drawn


def circular_shifts(n: int, *, minimum_offset: int, count: int, rng: np.random.Generator) -> IntArray:
    """Draw offsets of circular shifts of n values, uniform among those that move them by `minimum_offset` or more.

    Examples
    --------
    >>> import numpy as np
    >>> circular_shifts(10, minimum_offset=4, count=100, rng=np.random.default_rng(0)).max()
    np.int64(6)
    """
    check_integer("minimum_offset", minimum_offset, 1, n // 2, because=f" (half of the {n} values)")
    return rng.integers(minimum_offset, n - minimum_offset + 1, size=count)


def shifted_windows(n: int, *, window: int, minimum_offset: int, count: int, rng: np.random.Generator) -> IntArray:
    """Draw the starts (count x 2) of windows of two series of length n, too far apart to have to do with each other.

    The paper's surrogates: x[i : i + window] with y[j : j + window], (i, j) uniform among the pairs with
    |i - j| >= `minimum_offset`.

    Examples
    --------
    >>> import numpy as np
    >>> starts = shifted_windows(3000, window=1024, minimum_offset=512, count=100, rng=np.random.default_rng(0))
    >>> bool(np.abs(starts[:, 0] - starts[:, 1]).min() >= 512)
    True
    """
    check_integer("window", window, 1, n, because=" (the length of the series)")
    last = n - window
    if check_integer("minimum_offset", minimum_offset, 0) > last:
        raise ParameterError(
            f"`minimum_offset` must be at most {last} for windows of {window} in a series of {n}, got "
            f"{minimum_offset}. Use a longer series, shorter windows or a smaller offset."
        )
    # There are last + 1 - d pairs of starts at distance d, and as many with x and y exchanged: distances are drawn in
    # that proportion, then the starts.
    distances = np.arange(minimum_offset, last + 1)
    n_pairs = np.where(distances == 0, 1, 2) * (last + 1 - distances)
    distance = rng.choice(distances, size=count, p=n_pairs / n_pairs.sum())  # (count,)
    earlier = rng.integers(0, last + 1 - distance)
    later = earlier + distance
    x_is_later = rng.random(count) < 0.5
    return np.stack([np.where(x_is_later, later, earlier), np.where(x_is_later, earlier, later)], axis=1)
