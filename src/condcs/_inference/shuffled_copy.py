"""Conditional independence by any measure: the sample against a copy of itself in which x2 was shuffled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condcs._core.errors import ParameterError
from condcs._inference.statistics import FloatArray
from condcs._measures.inputs import KernelVariable
from condcs._measures.registry import Measure

OrderArray = np.ndarray[Any, Any]

_WIDTHS = frozenset({"bandwidth", "bandwidth_x", "bandwidth_y"})
_FIXED = _WIDTHS | {"kernel", "kernel_x", "kernel_y", "weights_p", "weights_q"}


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
    reference: OrderArray,
    options: dict[str, Any],
) -> Callable[[OrderArray], FloatArray]:
    """Return a function from orders of x2 (P x n) to divergences from the copy with x2 in the order `reference`.

    If y is independent of x2 given x1, the sample and its shuffled copies are exchangeable, and so are their
    divergences from one more copy. Every variable is in units of its width, so that all kernels have width 1 and
    measures without kernels see columns of one scale.
    """
    response, second = _scaled(y, "y"), _scaled(x2, "x")
    given = [] if x1 is None else [_scaled(x1, "given")]
    # Gram measures only: the kernel of correntropy compares single numbers and finds its own width.
    ones = dict.fromkeys(measure.options & _WIDTHS, 1.0) if measure.gram else {}

    def sample(order: OrderArray) -> tuple[FloatArray, ...]:
        x = np.concatenate([*given, second[order]], axis=1)
        return (x, response) if measure.takes_x else (np.concatenate([x, response], axis=1),)

    copy = sample(reference)

    def values(orders: OrderArray) -> FloatArray:
        return np.array([float(measure(*sample(order), *copy, **{**ones, **options})) for order in orders])

    return values


def _scaled(variable: KernelVariable, role: str) -> FloatArray:
    if variable.widths is None or np.isnan(variable.widths).any():
        raise ParameterError(
            f'`kernel_{role}` must be "gaussian" for another measure than conditional_cs, which works on numbers. '
            'Use measure="conditional_cs" for labels and other kernels.'
        )
    return np.asarray(variable.variable.values / variable.widths, dtype=np.float64)
