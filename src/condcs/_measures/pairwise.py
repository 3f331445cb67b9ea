"""Divergences between all pairs of k groups, in one pass over the pooled sample where the measure allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from condcs._core.arrays import Array
from condcs._core.checks import Parts, check_options
from condcs._core.errors import ParameterError, ShapeError, public
from condcs._measures.inputs import pair_of
from condcs._measures.registry import MEASURES, Measure, measure_named
from condcs._measures.sampled import (
    Method,
    PooledRows,
    Sampled,
    SampledFloat,
    SampledMatrix,
    sampled_value,
    sampling_of,
)


@public
def pairwise(
    groups: Sequence[Any],
    *,
    measure: str = "conditional_cs",
    weights: Sequence[Array | None] | None = None,
    method: Method = "auto",
    **options: Any,
) -> Array:
    """Divergences between all pairs of k groups.

    Bandwidth rules look at all groups together, so one kernel serves every pair, and the Gram-based measures visit
    each pair of samples once: O(n^2 d) for n pooled rows, however many groups; memory O(n k).

    Parameters
    ----------
    groups : sequence of (x, y), or of y for marginal measures
        One entry per group.
    measure : str
        A registered measure: see `condcs._measures.registry.MEASURES`.
    weights : sequence of arrays, optional
        Sample weights of each group (None: one everywhere).
    method : {"auto", "exact", "sampled"} or `Sampled`
        As in `conditional_cs`, for each pair of groups; "auto" is exact up to 20,000 pooled rows.
    **options
        Keyword options of the measure, e.g. ``bandwidth_x``, ``kernel_y``, ``estimator``, ``k``.

    Returns
    -------
    array, shape (k, k)
        Entry (g, h) compares group g, as the first sample, with group h. The diagonal is 0. If it was sampled, a
        `SampledMatrix`: an array with the attributes ``standard_error``, ``n_anchors`` and ``target_met``.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 40)
    >>> D = pairwise([(x, x), (x, x**2), (x, -x)])
    >>> bool(D[0, 1] < D[0, 2]) and D.shape == (3, 3)
    True
    """
    chosen = measure_named(measure)
    # The unbiased MMD of a group with itself is not 0, and weights are given per group here.
    known = chosen.options - {"weights_p", "weights_q", "unbiased"}
    check_options(options, known, measure)
    if weights is not None and not chosen.weighted:
        raise ParameterError(f"`weights` must be None for {measure!r}, which takes no sample weights. Leave it out.")
    xs, ys = _split(groups, chosen)
    given = [None] * len(ys) if weights is None else weights
    if not isinstance(given, Sequence) or len(given) != len(ys):
        got = len(given) if isinstance(given, Sequence) else type(given).__name__
        raise ShapeError(f"`weights` must have one entry per group ({len(ys)}), got {got}. Use None for no weights.")
    weight_parts = [(f"weights[{i}]", w) for i, w in enumerate(given)]
    problem, own = chosen.problem(xs, ys, weight_parts, options)
    sampled = sampling_of(method, problem.inputs.backend, problem.groups.n)
    if sampled is not None and chosen.row_sums is None and method != "auto":
        able = ", ".join(m.name for m in MEASURES.values() if m.row_sums is not None)
        raise ParameterError(f'`method` must be "exact" for {measure!r}: anchors are for {able} only. Leave it out.')
    if sampled is not None and chosen.row_sums is not None:
        return _sampled_pairs(chosen, problem, own, sampled)
    return problem.inputs.result(chosen.pairs(problem, **own))


def _sampled_pairs(measure: Measure, problem: Any, options: dict[str, Any], sampled: Sampled) -> SampledMatrix:
    """Sample one pair of groups after the other: as many anchors as for all at once, with half the code."""
    row_sums = measure.row_sums
    assert row_sums is not None

    def value(g: int, h: int) -> SampledFloat:
        pair = pair_of(problem, g, h)
        rows = PooledRows(pair.variables, measure.products, pair.groups)
        return sampled_value(sampled, rows, row_sums(rows, **options))

    count = problem.groups.count
    found = [[SampledFloat(0.0, 0.0, 0)] * count for _ in range(count)]
    for g in range(count):
        for h in range(g + 1, count):
            found[g][h] = found[h][g] = value(g, h)
            if options.get("estimator") in ("p", "q"):
                found[h][g] = value(h, g)
    return SampledMatrix(found)


def _split(groups: Sequence[Any], measure: Measure) -> tuple[Parts, Parts]:
    if not isinstance(groups, Sequence) or len(groups) < 2:
        got = len(groups) if isinstance(groups, Sequence) else type(groups).__name__
        raise ShapeError(
            f"`groups` must be a sequence of at least two groups, got {got}. Pass e.g. [(x1, y1), (x2, y2)]."
        )
    if not measure.takes_x:
        return [], [(f"groups[{i}]", g) for i, g in enumerate(groups)]
    for i, group in enumerate(groups):
        if not isinstance(group, tuple | list) or len(group) != 2:
            raise ShapeError(
                f"`groups[{i}]` must be a pair (x, y) for {measure.name!r}, got {type(group).__name__}. "
                "Pass a list of (x, y) tuples."
            )
    return (
        [(f"groups[{i}][0]", x) for i, (x, _) in enumerate(groups)],
        [(f"groups[{i}][1]", y) for i, (_, y) in enumerate(groups)],
    )
