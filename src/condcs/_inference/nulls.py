r"""Nulls: how group labels (or neighbours, or windows) are redrawn so that nothing but the null hypothesis changes.

Under H0, p(y|x) = q(y|x), the label of a row depends on its x alone. So the labels may be redrawn from P(group | x)
while all rows stay where they are. What each null assumes about that probability is the difference between them:

- "permutation": it does not depend on x at all, i.e. p(x) = q(x). The paper's Algorithm 2.
- "propensity": it is a sum of smooth functions, one per column of x (or whatever classifier or probabilities you give).
- "local": within a small cell of x its log-odds are linear in x.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs._core.groups import label_type
from condcs._inference.balanced_draws import local_draws, propensity_draws
from condcs._inference.smoothing import in_deviations

FloatArray = np.ndarray[Any, Any]
Labels = np.ndarray[Any, Any]
Draw = Callable[[int], Labels]
"""Takes how many draws to make, and returns labels, one draw per row (count x n)."""

NULLS = ("propensity", "permutation", "local")

CELL_ROWS = 10
"""Fewest rows of a cell of the local null."""

_SMALLEST_GROUP = 2
_FOLDS = 5
_REDRAWS = 100
_UNIFORM_NUMBERS = 2**24


def label_sampler(
    null: str,
    x: FloatArray | None,
    groups: Labels,
    *,
    propensity: Any = None,
    neighbours: int = CELL_ROWS,
    categorical: Sequence[bool] | None = None,
    rng: np.random.Generator,
) -> Draw:
    """Return a function that redraws the group labels of the pooled rows under a null.

    Parameters
    ----------
    null : {"propensity", "permutation", "local"}
        Which null.
    x : array, shape (n, d), float64
        Pooled inputs, labels coded as numbers. "permutation" and given probabilities do without.
    groups : array of int, shape (n,)
        Group of each pooled row, 0 to G - 1.
    propensity : None, classifier, or array of shape (n,) or (n, G)
        For "propensity". None is a logistic regression on splines of each column, and the labels are redrawn with the
        balance of x held (below). A scikit-learn classifier is fitted on four fifths of the rows to give the
        probabilities of the others, and the labels are independent draws. Given probabilities are used as they are: one
        per row and group, or for two groups the probability of the second.
    neighbours : int
        For "local": fewest rows of a cell. Cells come from splitting at the median of the widest column until they
        would become smaller, and hold less than twice as many.
    categorical : sequence of bool, optional
        Which columns of `x` are labels. Without it, columns of at most 8 distinct values count as such for "propensity"
        and none for "local".
    rng : Generator
        Where the randomness comes from.

    Returns
    -------
    callable
        ``draw(count)`` gives an int8 array (count, n); int32 for more than 127 groups. Every group has at least 2 rows.

    Notes
    -----
    An estimated propensity fits the sample's own imbalance of x; labels drawn from it freely add fresh imbalance on
    top, and the test rejects far too seldom. The imbalance
    that the fit has used up is a sufficient statistic, so the honest null is the law of the labels *given* it: labels
    are exchanged between rows by a Metropolis chain that keeps the group sums of the features (co-sufficient
    sampling). "local" does the same within cells, with x itself as the features. Both keep the group sizes. All chains
    start from one hub that a chain from the observed labels has reached, which makes observed and redrawn labels
    exchangeable however long the chains are (Besag and Clifford 1989).

    Cost: "permutation" O(n) per draw; "propensity" and "local" O(10 n d) per draw, after a fit of milliseconds.

    Examples
    --------
    >>> import numpy as np
    >>> draw = label_sampler("permutation", None, np.repeat([0, 1], [3, 2]), rng=np.random.default_rng(0))
    >>> draw(4).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """
    check_choice("null", null, NULLS)
    groups = np.asarray(groups)
    count = int(groups.max()) + 1
    sizes = np.bincount(groups, minlength=count)
    if sizes.min() < _SMALLEST_GROUP:
        raise DataError(f"every group must have at least 2 rows, got {int(sizes.min())}. Collect more observations.")
    labels = groups.astype(label_type(count))
    if null == "permutation":
        return lambda number: rng.permuted(np.broadcast_to(labels, (number, len(labels))), axis=1)
    if null == "propensity" and propensity is not None and not hasattr(propensity, "fit"):
        return independent_draws(check_probabilities(propensity, len(labels), count), rng)
    if x is None:
        raise ParameterError(f'`null`="{null}" must have an x to condition on, got None. Pass null="permutation".')
    if null == "local":
        check_integer("neighbours", neighbours, 2)
        flags = np.zeros(x.shape[1], bool) if categorical is None else np.asarray(categorical, bool)
        return local_draws(x, flags, labels, count, neighbours, rng)
    if propensity is not None:
        return independent_draws(cross_fitted(propensity, x, groups, count), rng)
    return propensity_draws(x, labels, count, categorical, rng)


def local_permutations(x1: FloatArray, *, neighbours: int, count: int, rng: np.random.Generator) -> Labels:
    """Permutations for the null "y independent of x2 given x1": each row receives the index of a neighbour in x1.

    Rows come in random order and take a random one of their nearest neighbours (themselves included) that nobody has
    taken yet, or any if all are taken, so that indices repeat as little as possible (Runge 2018). Columns are compared
    in units of their standard deviation. Cost O(n log n) for the neighbours, then O(count n k).

    Parameters
    ----------
    x1 : array, shape (n, d)
        What is conditioned on.
    neighbours : int
        Neighbours to choose from, the row itself included; at most n.
    count : int
        Number of draws.
    rng : Generator
        Where the randomness comes from.

    Returns
    -------
    array of int, shape (count, n)
        One draw per row.

    Examples
    --------
    >>> import numpy as np
    >>> x1 = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> drawn = local_permutations(x1, neighbours=2, count=50, rng=np.random.default_rng(0))
    >>> bool(np.all(np.abs(x1[drawn, 0] - x1[:, 0]) < 0.2))
    True
    """
    from scipy.spatial import cKDTree

    from condcs._inference.compiled_draws import assign_neighbours

    x1 = np.asarray(x1, np.float64).reshape(len(x1), -1)
    k = min(check_integer("neighbours", neighbours, 2), len(x1))
    units = in_deviations(x1)
    # A speck of noise breaks ties at random: without it, rows of one category would all see the same few.
    units = units + 1e-9 * rng.standard_normal(units.shape)
    table = cKDTree(units).query(units, k)[1].reshape(len(x1), k)
    drawn = np.empty((count, len(x1)), np.int64)
    assign_neighbours(table.astype(np.int64), rng.integers(0, 2**63, size=count).astype(np.uint64), drawn)
    return drawn


def circular_shifts(n: int, *, minimum_offset: int, count: int, rng: np.random.Generator) -> Labels:
    """Draw offsets of circular shifts of n values, uniform among those that move them by `minimum_offset` or more.

    Examples
    --------
    >>> import numpy as np
    >>> circular_shifts(10, minimum_offset=4, count=100, rng=np.random.default_rng(0)).max()
    np.int64(6)
    """
    check_integer("minimum_offset", minimum_offset, 1, n // 2, because=f" (half of the {n} values)")
    return rng.integers(minimum_offset, n - minimum_offset + 1, size=count)


def shifted_windows(n: int, *, window: int, minimum_offset: int, count: int, rng: np.random.Generator) -> Labels:
    """Draw the starts of two windows of a pair of series, far enough apart to have nothing to do with each other.

    The paper's surrogates: x[i : i + window] with y[j : j + window], (i, j) uniform among the pairs with
    |i - j| >= `minimum_offset`.

    Parameters
    ----------
    n : int
        Length of the series.
    window : int
        Length of the windows.
    minimum_offset : int
        Least distance between the starts.
    count : int
        Number of draws.
    rng : Generator
        Where the randomness comes from.

    Returns
    -------
    array of int, shape (count, 2)
        Starts i and j.

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
    # There are last + 1 - d pairs of starts at distance d: distances are drawn in that proportion, then the place.
    distances = np.arange(minimum_offset, last + 1)
    pairs = np.where(distances == 0, 1, 2) * (last + 1 - distances)
    distance = rng.choice(distances, size=count, p=pairs / pairs.sum())
    low = rng.integers(0, last + 1 - distance)
    turned = rng.random(count) < 0.5
    return np.stack([np.where(turned, low + distance, low), np.where(turned, low, low + distance)], axis=1)


def check_probabilities(propensity: Any, n: int, count: int) -> FloatArray:
    """Return given probabilities, one per pooled row and group."""
    try:
        given = np.asarray(propensity, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`propensity` must be None, a scikit-learn classifier or an array of probabilities, got {propensity!r}. "
            "Pass e.g. sklearn.ensemble.RandomForestClassifier()."
        ) from error
    if given.ndim == 1 and count == 2:
        given = np.column_stack([1 - given, given])
    if given.shape != (n, count):
        raise ShapeError(
            f"`propensity` must hold one probability per pooled row and group, shape ({n}, {count})"
            f"{f' or ({n},)' if count == 2 else ''}, got {np.shape(propensity)}. The first sample's rows come first."
        )
    if not np.all((given >= 0) & (given <= 1)) or not np.allclose(given.sum(axis=1), 1, atol=1e-6):
        raise DataError(
            "`propensity` must hold probabilities: between 0 and 1, and adding up to 1 over the groups of a row. "
            "Divide each row by its sum."
        )
    return given


def independent_draws(probabilities: FloatArray, rng: np.random.Generator) -> Draw:
    """Draw each row's label from its own probabilities, again for every draw that leaves a group short of rows."""
    n, count = probabilities.shape
    dtype = label_type(count)
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    if ((probabilities > 0).sum(axis=0) < _SMALLEST_GROUP).any():
        raise DataError(
            "`propensity` must leave every group at least 2 rows, but gives some group a positive probability in "
            "fewer. The samples may not overlap in x: there is nothing to compare."
        )

    def draw(number: int) -> Labels:
        labels = np.empty((number, n), dtype)
        short = np.arange(number)
        for _ in range(_REDRAWS):
            smallest = []
            # A few draws at a time: their random numbers take eight times the memory of labels.
            for part in np.array_split(short, -(-len(short) * n // _UNIFORM_NUMBERS)):
                uniform = rng.random((len(part), n))
                drawn = np.zeros((len(part), n), dtype)
                for g in range(count - 1):
                    drawn += uniform >= steps[:, g]
                labels[part] = drawn
                smallest.append(np.stack([(drawn == g).sum(axis=1) for g in range(count)]).min(axis=0))
            short = short[np.concatenate(smallest) < _SMALLEST_GROUP]
            if not len(short):
                return labels
        raise DataError(
            f"`propensity` must leave every group at least 2 rows, but {_REDRAWS} redraws in a row did not. The "
            'samples hardly overlap in x; pass null="local", or probabilities further from 0 and 1.'
        )

    return draw


def cross_fitted(classifier: Any, x: FloatArray, groups: Labels, count: int) -> FloatArray:
    """Probabilities of each row from a classifier that has not seen it: a flexible one would repeat its label."""
    if not hasattr(classifier, "predict_proba"):
        raise ParameterError(
            f"`propensity` must have a method predict_proba, got {type(classifier).__name__}. "
            "Wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    smallest = int(np.bincount(groups).min())
    folds = min(_FOLDS, smallest)
    position = np.empty(len(groups), np.int64)
    for g in range(count):
        rows = np.flatnonzero(groups == g)
        position[rows] = np.arange(len(rows)) % folds
    probabilities = np.empty((len(groups), count))
    for fold in range(folds):
        held = position == fold
        model = _clone(classifier).fit(x[~held], groups[~held])
        probabilities[held] = model.predict_proba(x[held])
    return check_probabilities(probabilities, len(groups), count)


def _clone(classifier: Any) -> Any:
    from sklearn.base import clone

    try:
        return clone(classifier)
    except TypeError:
        return copy.deepcopy(classifier)
