"""Conditional independence: what the test evaluates on many orders of x2, Prop. 4 or another measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from condcs._core.checks import Groups
from condcs._core.errors import ParameterError
from condcs._core.progress import report_done
from condcs._core.settings import current_settings
from condcs._inference.anchors import total
from condcs._inference.statistics import FloatArray
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.row_sums import exp_in_place, row_sums
from condcs._measures.formulas import PredictorForm, linear_predictor_divergence
from condcs._measures.inputs import KernelVariable
from condcs._measures.registry import Measure

ORDER_ANCHORS = 100
"""Anchor rows of many: each meets all rows again in every order of x2."""

_ROWS = 1_024
"""Rows that meet all anchors at once."""

GRAM_BUDGET = 2 * 2**30
"""Bytes that n x n Gram matrices may take: n = 11,500 if x2 is ranks of one column; above, pairs are visited anew."""

_WIDTHS = frozenset({"bandwidth", "bandwidth_x", "bandwidth_y"})
_FIXED = _WIDTHS | {"kernel", "kernel_x", "kernel_y", "weights_p", "weights_q"}


@dataclass(frozen=True)
class View:
    """One way of looking at x2: a kernel; of the ranks of one column also a table of its values by distance of places.

    Attributes
    ----------
    variable : KernelVariable
        What is looked at, and its kernel.
    places : array of int, optional
        Place of each row among the sorted values, in half steps: ties share the mean of theirs.
    table : array, optional
        Value of the kernel for rows that are 0, 1, 2 ... half steps apart.
    """

    variable: KernelVariable
    places: np.ndarray[Any, Any] | None = None
    table: FloatArray | None = None


Orders = np.ndarray[Any, Any]
Statistic = Callable[[Orders], FloatArray]


def predictor_statistic(
    y: LogKernel,
    x1: LogKernel | None,
    views: Sequence[View],
    n: int,
    form: PredictorForm,
    anchors: Orders | None = None,
) -> Statistic:
    """Return a function from orders of x2 (P x n) to values of Prop. 4 for each view of x2 (P x views).

    With anchors the outer sums are over these rows.
    """
    if anchors is not None:
        return partial(_at_anchors, y, x1, [view.variable.kernel for view in views], n, form, anchors)
    groups = Groups((n,))
    factors = [x1] if x1 is not None else []
    (b1,) = (s[:, 0] for s in row_sums([product([*factors, y])], groups))
    a1 = row_sums(factors, groups)[0][:, 0] if factors else np.full(n, float(n))

    def value(a12: FloatArray, b12: FloatArray) -> FloatArray:
        return linear_predictor_divergence(a1, b1, a12, b12, form)

    tables = [view.table for view in views if view.table is not None]
    places = [view.places for view in views if view.places is not None]
    in_tables = len(tables) == len(places) == len(views)
    if (2 if in_tables else 2 + len(views)) * 8 * n * n > GRAM_BUDGET:

        def visited(orders: Orders) -> FloatArray:
            results = []
            for order in orders:
                moved = [product([*factors, view.variable.kernel.take(order)]) for view in views]
                sums = row_sums([*moved, *(product([m, y]) for m in moved)], groups)
                rows = np.stack([s[:, 0] for s in sums])
                results.append(value(rows[: len(views)], rows[len(views) :]))
                report_done(1)
            return np.array(results)

        return visited
    everywhere = slice(0, n)
    K1 = _gram(x1, everywhere, everywhere) if x1 is not None else np.ones((n, n))
    K1L = K1 * _gram(y, everywhere, everywhere)
    if in_tables:
        second: tuple[Any, ...] = np.stack(tables), np.stack(places)
    else:
        second = (np.stack([_gram(view.variable.kernel, everywhere, everywhere) for view in views]),)

    def indexed(orders: Orders) -> FloatArray:
        from condcs._inference.relabelling_loops import permuted_rank_sums, permuted_row_sums

        row_sums_of = permuted_rank_sums if in_tables else permuted_row_sums
        workers = current_settings().n_threads
        chunks = np.array_split(np.ascontiguousarray(orders), min(workers, len(orders)))
        with ThreadPoolExecutor(workers) as threads:
            sums = list(threads.map(lambda chunk: row_sums_of(K1, K1L, *second, chunk), chunks))
        return np.concatenate([value(a12, b12) for a12, b12 in sums])

    return indexed


def _at_anchors(
    y: LogKernel,
    x1: LogKernel | None,
    second: Sequence[LogKernel],
    n: int,
    form: PredictorForm,
    anchors: Orders,
    orders: Orders,
) -> FloatArray:
    """Return Prop. 4 (P x views) with outer sums over the anchors and inner sums over all rows."""

    def sums(rows: slice) -> FloatArray:
        """Sum K1, K1 L (first row), and these times K2 for every order and view, over the rows (sums x 2 x anchors)."""
        first = _gram(x1, anchors, rows) if x1 is not None else np.ones((len(anchors), rows.stop - rows.start))
        both = np.stack([first, first * _gram(y, anchors, rows)])
        found = [both.sum(axis=2)]
        for order in orders:
            for kernel in second:
                moved = _gram(kernel, order[anchors], order[rows])
                found.append(np.einsum("kai,ai->ka", both, moved))
        return np.array(found)

    (a1, b1), *moved = total(sums, n, _ROWS)
    masses = np.array(moved).reshape(len(orders), len(second), 2, len(anchors))
    return linear_predictor_divergence(a1, b1, masses[:, :, 0], masses[:, :, 1], form)


def _gram(kernel: LogKernel, rows: slice | Orders, columns: slice | Orders) -> FloatArray:
    gram = np.ascontiguousarray(kernel.block(rows, columns), dtype=np.float64)
    exp_in_place(gram)
    return gram


def check_options(measure: Measure, options: dict[str, Any]) -> None:
    """Refuse options that the measure does not have, or that `independence_test` sets itself."""
    # Prop. 4 has no estimators to choose from.
    known = measure.options - _FIXED if measure.name != "conditional_cs" else frozenset()
    for name in options:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ParameterError(
                f"`{name}` must be an option of {measure.name!r} in this test. Its options are: {listed}; widths are "
                "given as bandwidth_x, bandwidth_y and bandwidth_given."
            )


def copy_statistic(
    measure: Measure,
    y: KernelVariable,
    x1: KernelVariable | None,
    x2: KernelVariable,
    reference: Orders,
    options: dict[str, Any],
) -> Callable[[Orders], FloatArray]:
    """Return a function from orders of x2 (P x n) to divergences from the copy with x2 in the order `reference`.

    If y is independent of x2 given x1, the sample and its shuffled copies are exchangeable, and so are their
    divergences from one more copy. Every variable is in units of its width, so that all kernels have width 1 and
    measures without kernels see columns of one scale.
    """
    response, second = _scaled(y, "y"), _scaled(x2, "x")
    given = [] if x1 is None else [_scaled(x1, "given")]
    # Gram measures only: the kernel of correntropy compares single numbers and finds its own width.
    ones = dict.fromkeys(measure.options & _WIDTHS, 1.0) if measure.gram else {}

    def sample(order: Orders) -> tuple[FloatArray, ...]:
        x = np.concatenate([*given, second[order]], axis=1)
        return (x, response) if measure.takes_x else (np.concatenate([x, response], axis=1),)

    copy = sample(reference)

    def values(orders: Orders) -> FloatArray:
        return np.array([float(measure(*sample(order), *copy, **{**ones, **options})) for order in orders])

    return values


def _scaled(variable: KernelVariable, role: str) -> FloatArray:
    if variable.widths is None or np.isnan(variable.widths).any():
        raise ParameterError(
            f'`kernel_{role}` must be "gaussian" for another measure than conditional_cs, which works on numbers. '
            'Use measure="conditional_cs" for labels and other kernels.'
        )
    return np.asarray(variable.variable.values / variable.widths, dtype=np.float64)
