"""Where the conditionals differ, in words: a shallow tree over x on the witness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import Array
from condcs._core.checks import check_integer
from condcs._core.errors import public
from condcs._inference.witness import Witness, local_witness
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import Kernel

FloatArray = np.ndarray[Any, Any]

# A region of fewer rows than this, or than a twentieth of them, is an anecdote.
_SMALLEST_REGION = 10
_SMALLEST_SHARE = 0.05
# A cut must explain at least this share of the variance.
_LEAST_GAIN = 0.01
# Neighbouring rows are above the band together: up to this many times the nominal share is nothing unusual.
_CHANCE = 3.0


@dataclass(frozen=True)
class Region:
    """A box in x and how much the conditionals differ in it.

    Attributes
    ----------
    bounds : tuple of (name, low, high)
        The columns that bound it: low < x <= high, infinite where open.
    ratio : float
        Mean witness in the region over the mean of all rows.
    value : float
        Mean witness in the region, less what chance alone gives.
    share : float
        Share of the pooled rows that lie in it.
    significant : float
        Share of its rows where the witness is above the band.
    """

    bounds: tuple[tuple[str, float, float], ...]
    ratio: float
    value: float
    share: float
    significant: float

    @property
    def words(self) -> str:
        """The region's bounds in words."""
        return " and ".join(_interval(*bound) for bound in self.bounds) or "everywhere"

    def __str__(self) -> str:
        """Say where, how much and how large."""
        return f"{self.words}: {_times(self.ratio)} the average, {self.share:.0%} of rows"


@dataclass(frozen=True)
class Explanation:
    """Regions of x by how much the conditionals differ there, most first.

    Attributes
    ----------
    regions : tuple of Region
        They cover all of x and do not overlap.
    witness : Witness
        The witness at the rows that the tree was grown on.
    """

    regions: tuple[Region, ...]
    witness: Witness

    def __str__(self) -> str:
        """Table of the regions."""
        head = ("region", "difference", "rows", "above band")
        rows = [(r.words, _times(r.ratio), f"{r.share:.0%}", f"{r.significant:.0%}") for r in self.regions]
        widths = [max(len(row[c]) for row in [head, *rows]) for c in range(len(head))]
        lines = []
        for row in [head, tuple("-" * width for width in widths), *rows]:
            numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())
        overall = sum(region.share * region.significant for region in self.regions)
        if overall <= _CHANCE * (1 - self.witness.confidence_level):
            lines.append(f"Only {overall:.0%} of all rows are above the band of chance: no evidence of a difference.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Table of the regions."""
        return str(self)


@public
def explain(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    max_regions: int = 4,
    max_rows: int = 1000,
    n_resamples: int = 100,
    confidence_level: float = 0.95,
    null: str = "propensity",
    propensity: Any = None,
    bandwidth_x: Bandwidth = "silverman",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Explanation:
    r"""Name the regions of x where p(y|x) and q(y|x) differ most.

    A regression tree with at most `max_regions` leaves is grown over x on the `witness` at the pooled rows, less its
    mean under the null: few neighbours look like a difference, and that is not one. Ratios are to the average of this
    excess over all rows (negative excess counts as 0 there). Cost as `witness` with `max_rows` points.

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`. Columns of DataFrames keep their names.
    max_regions : int
        Most leaves of the tree.
    max_rows : int
        The tree is grown on this many pooled rows, chosen at random, or on all if there are fewer.
    n_resamples : int
        Resamples of the null, at least 19 for confidence_level 0.95.
    confidence_level, null, propensity, bandwidth_x, bandwidth_y, kernel_x, kernel_y, weights_p, weights_q
        As in `witness`.
    rng : int, Generator or None
        Seed of the choice of rows and of the resamples.

    Returns
    -------
    Explanation
        Regions, most different first; prints as a table.

    Notes
    -----
    Regions were chosen because they differ: a share above the band is a description, not a test. Label columns are cut
    by their codes.

    Examples
    --------
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(200)
    >>> found = explain(data.xp, data.yp, data.xq, data.yq)
    >>> found.regions[0].bounds[0][0], found.regions[0].ratio > 2
    ('x', True)
    """
    count = check_integer("max_regions", max_regions, 2)
    rows = check_integer("max_rows", max_rows, 20)
    check_integer("n_resamples", n_resamples, 1)
    found = local_witness(
        (xp, yp, xq, yq),
        at=None,
        max_rows=rows,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        null=null,
        propensity=propensity,
        bandwidth_x=bandwidth_x,
        bandwidth_y=bandwidth_y,
        kernel_x=kernel_x,
        kernel_y=kernel_y,
        weights=(weights_p, weights_q),
        rng=rng,
    )
    return Explanation(_regions(found, count), found)


def _regions(found: Witness, count: int) -> tuple[Region, ...]:
    """Grow the tree and read its leaves."""
    from sklearn.tree import DecisionTreeRegressor

    if found.expected is None or found.band is None:
        raise TypeError("a witness without resamples")
    compared = ~np.isnan(found.values)
    x, values = found.at[compared], found.values[compared]
    above = values > found.band[compared]
    # Where no label is shared the divergence is infinite; the largest finite one keeps averages meaningful.
    values = np.minimum(values, values[np.isfinite(values)].max(initial=1.0))
    excess = np.maximum(values - found.expected[compared], 0.0)
    smallest = min(max(_SMALLEST_REGION, int(np.ceil(_SMALLEST_SHARE * len(x)))), max(1, len(x) // 2))
    variance = float(excess.var())
    tree = DecisionTreeRegressor(
        max_leaf_nodes=count,
        min_samples_leaf=smallest,
        min_impurity_decrease=_LEAST_GAIN * variance,
        random_state=0,
    ).fit(x, excess)
    leaves = tree.apply(x)
    average = float(excess.mean())
    regions = []
    for leaf, box in _boxes(tree.tree_):
        here = leaves == leaf
        value = float(excess[here].mean())
        bounds = tuple((found.names[c], low, high) for c, (low, high) in sorted(box.items()))
        ratio = value / average if average > 0 else 0.0
        regions.append(Region(bounds, ratio, value, float(here.mean()), float(above[here].mean())))
    return tuple(sorted(regions, key=lambda region: -region.ratio))


def _boxes(tree: Any) -> Iterator[tuple[int, dict[int, tuple[float, float]]]]:
    """Leaves of a fitted tree with the interval of each column that leads to them."""
    waiting: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while waiting:
        node, box = waiting.pop()
        if tree.children_left[node] == tree.children_right[node]:
            yield node, box
            continue
        column, cut = int(tree.feature[node]), float(tree.threshold[node])
        low, high = box.get(column, (-np.inf, np.inf))
        waiting.append((int(tree.children_left[node]), {**box, column: (low, cut)}))
        waiting.append((int(tree.children_right[node]), {**box, column: (cut, high)}))


def _interval(name: str, low: float, high: float) -> str:
    if low == -np.inf:
        return f"{name} <= {high:.3g}"
    return f"{name} > {low:.3g}" if high == np.inf else f"{low:.3g} < {name} <= {high:.3g}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x"
