"""The comparison of two tables as an assertion, for the tests of a pipeline."""

from __future__ import annotations

import inspect
from typing import Any

from condcs._core.errors import public
from condcs._core.printable import harmless
from condcs.comparison._comparing import Columns, compare
from condcs.comparison._result import Comparison
from condcs.comparison._wording import responses, set_lines, sizes, where


@public
def assert_same_relation(
    reference: Any,
    current: Any,
    *,
    y: Columns,
    x: Columns | None = None,
    alpha: float = 0.01,
    tolerance: float | None = None,
    **options: Any,
) -> Comparison:
    """Raise an AssertionError if the relation of y to x changed between two tables.

    The same tables with the same `rng` always pass or always fail. Where nothing changed, an assertion on new tables
    fails with probability alpha; that the inputs shifted is no failure.

    Parameters
    ----------
    reference, current : DataFrame, pyarrow Table, dict of columns, 2-d array, str or Path
        The two tables, as in `condcs.compare`.
    y, x : str, int or sequence of them
        Response and inputs, as in `condcs.compare`.
    alpha : float
        Level of the test: how often an unchanged relation fails.
    tolerance : float, optional
        A change that does not matter, in the units of y, as in `condcs.compare`.
    **options
        Further keywords of `condcs.compare`, such as ``missing="drop"``.

    Returns
    -------
    Comparison
        What was found, if the relation did not change.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def month(slope):
    ...     area = rng.normal(100, 20, size=120)
    ...     return {"area": area, "price": slope * area + rng.normal(0, 10, size=120)}
    >>> checked = assert_same_relation(month(2), month(2), y="price")
    >>> assert_same_relation(month(2), month(3), y="price")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: The relation of price to the inputs changed...
    """
    __tracebackhide__ = True  # pytest then shows the line of the test, not this one
    if tolerance is not None:
        options["tolerance"] = tolerance
    # Unwrapped, so that errors name this function.
    found: Comparison = inspect.unwrap(compare)(reference, current, y=y, x=x, alpha=alpha, **options)
    if found.relation_changed:
        raise AssertionError(failure_words(found))
    return found


def failure_words(found: Comparison) -> str:
    """Say what changed and where, the answer first: pytest shows the first line in its summary."""
    blocks = [
        [found.verdict, *responses(found)],
        set_lines(where(found)) if found.regions else [],
        [f"{role}: {title}, {rows}" for role, title, rows in sizes(found).rows],
        [f"- {note}" for note in found.notes],
    ]
    return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)
