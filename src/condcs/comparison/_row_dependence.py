"""Whether rows are independent of one another, as the p-values and intervals of a comparison assume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.printable import Printable
from condcs._inference.portmanteau import SEASONAL_LAGS, autocorrelations, lags_within, portmanteau_of_any_spread
from condcs._inference.responses import jumping_targets
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import normal_scores
from condcs._tables.kinds import OTHER, Column
from condcs._tables.pair import Pair

_LEVEL_IN_BOTH = 5e-4
"""P-value of both tables together below which rows are said to depend on their neighbours, if each table by itself
shows some of it too: of independent rows in one of 2,000 comparisons, for each target."""
_LEVEL_IN_EACH = 0.05
"""P-value that each table must then have by itself: one that is a series does not make one of the other."""
_LEVEL_IN_ONE = 1e-4
"""The same for one table alone, as where only one of them is a series: of independent rows one of the two is in one of
5,000 comparisons."""
_LEVEL_IF_SORTED = 0.02
"""By which factor both levels are smaller where a table is sorted by an input: what a regression cannot follow along
it, such as a step, is then shared by neighbours that are independent."""
_LEAST_RATIO_IN_ONE = 1.5
"""Variance of means over that of independent rows from which on one table alone is judged: below, p-values are hardly
too small, and what a regression cannot follow along a sorted column of x is soon as large."""
_CLEAR = 2.0
"""Standard errors of an autocorrelation beyond which it counts in the variance of a mean: the sum of all twelve would
have a standard error of 0.4 in 80 rows, more than an autocorrelation of 0.3."""
_MOST_ROWS = 4000
"""First rows of each table that are looked at: they show an autocorrelation of 0.06, and the fit takes a second."""
_BLOCKS = 20
"""Blocks of consecutive rows that are left out of a fit as wholes: each leaves 95% of the rows to it."""
_SHORTEST_BLOCK = 20
"""Rows of a block at least: an autocorrelation of 0.9 is below 0.4 over half of them."""
_MOST_LABELS = 8
"""Labels of a response whose residuals are tested: with many more, one of them would be flagged by chance."""


@dataclass(frozen=True)
class RowDependence(Printable):
    """Signs that rows are not independent of one another, so that p-values are too small and intervals too short.

    Attributes
    ----------
    copies : tuple of int
        Rows of the reference and of the current table that repeat other rows exactly; 0 where few do, where equal rows
        are to be expected, or where clusters say what belongs together.
    response : str, optional
        The response whose residuals given x depend most clearly on those of the rows before. It is None where rows were
        not tested: clusters say what belongs together, or rows are sorted by a response.
    sorted_by : str, optional
        An input by which the rows of a table are sorted. Residuals must then depend on one another more clearly, since
        errors of a regression along it look alike.
    pvalues : tuple of float, optional
        Of the portmanteau test of these residuals, in the reference and in the current table.
    pooled_pvalue : float, optional
        Of the same test of both tables together.
    autocorrelations : tuple of float, optional
        The largest autocorrelation of these residuals in each table, over 1 to 10, 12 or 24 rows. Where a p-value is
        small, blocks of rows are left out of the regression: one along time would follow what neighbours share.
    lags : tuple of int, optional
        Over how many rows it is: 1 from row to row, 7 over a week of days.
    variance_ratios : tuple of float, optional
        By which factor these autocorrelations multiply the variance of a mean: one plus twice the sum of those that are
        two standard errors away from 0.
    """

    copies: tuple[int, int] = (0, 0)
    response: str | None = None
    sorted_by: str | None = None
    pvalues: tuple[float, float] | None = None
    pooled_pvalue: float | None = None
    autocorrelations: tuple[float, float] | None = None
    lags: tuple[int, int] | None = None
    variance_ratios: tuple[float, float] | None = None

    @property
    def has_copies(self) -> bool:
        """Whether rows of a table repeat other rows exactly."""
        return any(self.copies)

    @property
    def dependent(self) -> tuple[bool, bool]:
        """Whether rows resemble their neighbours, in the reference and in the current table."""
        if self.pvalues is None or self.pooled_pvalue is None or self.variance_ratios is None:
            return False, False
        factor = 1.0 if self.sorted_by is None else _LEVEL_IF_SORTED
        in_both = self.pooled_pvalue < factor * _LEVEL_IN_BOTH and max(self.pvalues) < _LEVEL_IN_EACH
        # Neighbours that differ more than other rows do make p-values larger, not smaller.
        if in_both and min(self.variance_ratios) > 1:
            return True, True
        in_reference, in_current = (
            pvalue < factor * _LEVEL_IN_ONE and ratio >= _LEAST_RATIO_IN_ONE
            for pvalue, ratio in zip(self.pvalues, self.variance_ratios, strict=True)
        )
        return in_reference, in_current

    @property
    def along_rows(self) -> bool:
        """Whether rows resemble their neighbours in a table."""
        return any(self.dependent)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "copies": list(self.copies),
            "along_rows": self.along_rows,
            "response": self.response,
            "sorted_by": self.sorted_by,
            "pvalues": None if self.pvalues is None else list(self.pvalues),
            "pooled_pvalue": self.pooled_pvalue,
            "autocorrelations": None if self.autocorrelations is None else list(self.autocorrelations),
            "lags": None if self.lags is None else list(self.lags),
            "variance_ratios": None if self.variance_ratios is None else list(self.variance_ratios),
        }


def find_row_dependence(pair: Pair) -> RowDependence:
    """Count copies of rows, and test the residuals of y given x for dependence along the rows of each table.

    The residuals are those of each table's own regression: where the relation changed and x itself depends on the
    order of rows, residuals of a common one would too. Rows are in the order of their table, sampled ones as well.
    """
    copies = pair.reference.copies, pair.current.copies
    if pair.clusters_p is not None:
        return RowDependence(copies)
    rows_p = _first_rows(pair.x, pair.xp, pair.yp, pair.reference.copies)
    rows_q = _first_rows(pair.x, pair.xq, pair.yq, pair.current.copies)
    x = np.concatenate([pair.xp[rows_p], pair.xq[rows_q]])  # (rows, d)
    y = np.concatenate([pair.yp[rows_p], pair.yq[rows_q]])  # (rows, responses)
    tables = slice(0, len(rows_p)), slice(len(rows_p), None)
    # A table that was sorted by y has neighbours with like residuals, of other responses too; its rows may be
    # independent all the same.
    for column, values in zip(pair.y, y.T, strict=True):
        if any(_is_sorted(column, values[table]) for table in tables):
            return RowDependence(copies)
    categorical = [column.is_category for column in pair.x]
    names, targets = list[str](), list[FloatArray]()
    for column, values in zip(pair.y, y.T, strict=True):
        numbers = _varied(jumping_targets((values[:, None], [column.is_category])))
        if not column.is_category:
            # Of a skewed response, the autocorrelation is that of a few large values: its normal scores show it better.
            numbers = np.column_stack([numbers, normal_scores(values[:, None])])
        names += [column.name] * numbers.shape[1]
        targets.append(numbers)
    y_targets = np.hstack(targets)  # (rows, targets)
    residuals = [_residuals(x[table], y_targets[table], categorical) for table in tables]  # (rows, targets) each
    tested = [_PValues.of(*(of_table[:, k] for of_table in residuals)) for k in range(len(names))]
    if any(pvalues.are_suspicious for pvalues in tested):
        # Of an input that is smooth along the rows, such as the time, a regression follows what neighbours share, and
        # its residuals alternate. It cannot if it is made of rows that are far away.
        residuals = [_residuals(x[table], y_targets[table], categorical, in_blocks=True) for table in tables]
    sorted_by = _sorted_by(pair.x, [x[table] for table in tables])
    by_target = [
        _dependence(RowDependence(copies, name, sorted_by), tested[k], tuple(of_table[:, k] for of_table in residuals))
        for k, name in enumerate(names)
    ]
    # The clearest one: a target that is flagged before one that is not, then by the smallest p-value.
    return min(by_target, key=lambda each: (not each.along_rows, min(each.pvalues or (1.0,))))


class _PValues(NamedTuple):
    """P-values of the portmanteau test of one target."""

    of_tables: tuple[float, float]
    pooled: float  # of both tables together

    @classmethod
    def of(cls, reference: FloatArray, current: FloatArray) -> _PValues:
        """Test the residuals of both tables."""
        return cls((_tested(reference), _tested(current)), _tested(reference, current))

    @property
    def are_suspicious(self) -> bool:
        """Whether they are so small that rows may depend on their neighbours."""
        return self.pooled < _LEVEL_IN_BOTH or min(self.of_tables) < _LEVEL_IN_ONE


def _tested(*series: FloatArray) -> float:
    """P-value of series for any autocorrelation: from row to row, which is what most series have, or over more rows.

    Twice the smaller one of both p-values, because of two looks. The first look alone finds 0.5 in 80 rows.
    """
    from_row_to_row = portmanteau_of_any_spread(*series, lags=(1,))
    return min(1.0, 2 * min(from_row_to_row, portmanteau_of_any_spread(*series, lags=SEASONAL_LAGS)))


def _dependence(without_order: RowDependence, pvalues: _PValues, residuals: tuple[FloatArray, ...]) -> RowDependence:
    """Measure the dependence of one target in both tables."""
    of_p, of_q = (_along_rows(series) for series in residuals)
    return replace(
        without_order,
        pvalues=pvalues.of_tables,
        pooled_pvalue=pvalues.pooled,
        autocorrelations=(of_p.autocorrelation, of_q.autocorrelation),
        lags=(of_p.lag, of_q.lag),
        variance_ratios=(of_p.variance_ratio, of_q.variance_ratio),
    )


class _AlongRows(NamedTuple):
    """The largest autocorrelation of one series, its lag, and the ratio of variances."""

    autocorrelation: float
    lag: int
    variance_ratio: float


def _along_rows(series: FloatArray) -> _AlongRows:
    """Measure the dependence of a series on its rows before."""
    correlations = autocorrelations(series, SEASONAL_LAGS)
    if not len(correlations):
        return _AlongRows(0.0, 1, 1.0)
    lag = lags_within(len(series), SEASONAL_LAGS)[int(correlations.argmax())]
    # The variance of a mean of n rows is var(e) (1 + 2 sum rho_k) / n. Those within two standard errors of 0 add noise.
    clear = correlations[np.abs(correlations) > _CLEAR / np.sqrt(len(series))]
    return _AlongRows(float(correlations.max()), lag, 1 + 2 * float(clear.sum()))


def _first_rows(columns: Sequence[Column], x: FloatArray, y: FloatArray, copies: int) -> IntArray:
    """Return the first rows of a table whose residuals can be compared with those of their neighbours."""
    rows = np.arange(min(len(x), _MOST_ROWS))
    if copies:
        # Of copies the first one alone, because they are counted already.
        rows = np.sort(np.unique(np.column_stack([x, y])[rows], axis=0, return_index=True)[1])
    for column, values in zip(columns, x.T, strict=True):
        if column.is_category and OTHER in column.labels:
            merged = values[rows] == column.labels.index(OTHER)
            # In a table that is sorted by these labels, merged ones are in blocks, and x does not tell them apart.
            if _is_sorted(column, values[rows][~merged]):
                rows = rows[~merged]
    return rows


def _is_sorted(column: Column, values: FloatArray) -> bool:
    """Whether rows come in the order of a column: numbers that only rise or only fall, labels one after another."""
    steps = np.diff(values)
    if not steps.any():
        return False
    if column.is_category:
        return int((steps != 0).sum()) < len(np.unique(values))
    return bool((steps >= 0).all() or (steps <= 0).all())


def _sorted_by(columns: Sequence[Column], tables: Sequence[FloatArray]) -> str | None:
    """Name the first input of numbers by which the rows of a table (rows x columns) are sorted."""
    for index, column in enumerate(columns):
        if not column.is_category and any(_is_sorted(column, x[:, index]) for x in tables):
            return column.name
    return None


def _varied(targets: FloatArray) -> FloatArray:
    """Return the columns that vary most: of labels, those that are neither rare nor nearly everywhere."""
    order = np.argsort(-targets.var(axis=0), kind="stable")
    return np.asarray(targets[:, order[:_MOST_LABELS]])


def _residuals(x: FloatArray, targets: FloatArray, categorical: list[bool], *, in_blocks: bool = False) -> FloatArray:
    """Return what the regression of targets on the x of one table leaves, around 0.

    Left out of the fit of a row is the row itself, or the block of rows around it.
    """
    blocks = None
    if in_blocks:
        length = max(_SHORTEST_BLOCK, len(x) // _BLOCKS)
        blocks = np.minimum(np.arange(len(x)) // length, max(len(x) // length - 1, 0))
    smoother = Smoother(x, categorical, blocks).following_jumps(targets)
    residuals = np.asarray(smoother.residuals(targets).left_out, np.float64)
    return np.asarray(residuals - residuals.mean(axis=0))
