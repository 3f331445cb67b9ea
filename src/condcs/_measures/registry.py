"""The registry of measures: what each can do, so that tests, matrices and experiments need not know which they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from condcs._core.arrays import Array
from condcs._core.checks import Parts, check_choice, check_options
from condcs._core.errors import ParameterError, ShapeError, public
from condcs._core.printable import Printable
from condcs._core.vocabulary import named
from condcs._kernels.row_chunks import PAIRS
from condcs._measures.bregman import conditional_bregman, conditional_bregman_pairs
from condcs._measures.conditional import (
    conditional_cs,
    conditional_cs_pairs,
    conditional_cs_sums,
    conditional_euclidean,
    conditional_euclidean_pairs,
    conditional_euclidean_sums,
)
from condcs._measures.formulas import RowSums
from condcs._measures.inputs import Problem, conditional_problem, marginal_problem, numeric_problem, pair_of
from condcs._measures.marginal import (
    cs,
    cs_pairs,
    cs_sums,
    joint_mmd,
    joint_mmd_pairs,
    mmd,
    mmd_pairs,
    mmd_sums,
)
from condcs._measures.neighbours import conditional_kl, conditional_kl_pairs
from condcs._measures.operator import conditional_mmd, conditional_mmd_pairs
from condcs._measures.sampled import (
    RowsInMemory,
    Sampled,
    SampledFloat,
    SampledMatrix,
    SamplingMethod,
    sampled_value,
    sampling_of,
)

MeasureName = Literal[
    "cs",
    "mmd",
    "joint_mmd",
    "conditional_cs",
    "conditional_euclidean",
    "conditional_mmd",
    "conditional_kl",
    "conditional_bregman",
]

_KERNELS_WITH_X = {
    "kernel_x": "gaussian",
    "kernel_y": "gaussian",
    "bandwidth_x": "median",
    "bandwidth_y": "median",
    "bandwidth": None,
}
_KERNEL_WITHOUT_X = {"kernel": "gaussian", "bandwidth": "median"}


@dataclass(frozen=True)
class Measure(Printable):
    """A divergence between two samples and its capabilities.

    Attributes
    ----------
    name : str
        Its name in the registry and in the public API.
    function : callable
        ``f(xp, yp, xq, yq, **options)``, or ``f(yp, yq, **options)`` if not `takes_x`.
    pairs : callable
        ``f(problem, **options)``: all pairs of a pool's groups at once (G x G).
    takes_x : bool
        Whether samples are pairs (x, y).
    conditional : bool
        Whether it compares p(y|x), and so ignores (in the limit) how x is distributed.
    differentiable : bool
        Whether gradients flow through torch and JAX arrays.
    symmetric : bool
        Whether exchanging the samples leaves it as it is.
    weighted : bool
        Whether rows can have weights.
    nonnegative : bool
        Whether the estimate, not only its limit, is never negative (with default options).
    gram : bool
        Whether it is made of Gram matrices, so that it has kernels and bandwidths of x and y.
    row_sums : callable, optional
        ``f(rows, **options)``: the divergence of two groups as sums over rows, for suppliers that see only some.
    """

    name: str
    function: Callable[..., Array]
    pairs: Callable[..., Array]
    takes_x: bool = True
    conditional: bool = True
    differentiable: bool = True
    symmetric: bool = True
    weighted: bool = True
    nonnegative: bool = False
    gram: bool = True
    row_sums: Callable[..., RowSums] | None = None

    @property
    def products(self) -> tuple[tuple[int, ...], ...]:
        """Which variables enter the products of kernels whose masses `row_sums` is made of."""
        return PAIRS if self.conditional else (tuple(range(1 + self.takes_x)),)

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of the keyword options."""
        parameters = inspect.signature(self.function).parameters.values()
        # How a value is computed is no option of what it is: tests have ways of their own.
        return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "method")

    def problem(
        self, x_parts: Parts, y_parts: Parts, weight_parts: Parts, options: dict[str, Any]
    ) -> tuple[Problem, dict[str, Any]]:
        """Check the samples, one part per group; return them pooled, with kernels, and the options that are left."""
        if not self.gram:
            return numeric_problem(x_parts, y_parts), options
        defaults = _KERNELS_WITH_X if self.takes_x else _KERNEL_WITHOUT_X
        # The plug-in estimator of a marginal measure is a choice of kernel.
        kernel_options = {*defaults, *(() if self.takes_x else ("estimator",))}
        problem_options = {**defaults, **{k: v for k, v in options.items() if k in kernel_options}}
        value_options = {k: v for k, v in options.items() if k not in kernel_options}
        if self.takes_x:
            return conditional_problem(x_parts, y_parts, weight_parts, **problem_options), value_options
        return marginal_problem(y_parts, weight_parts, **problem_options), value_options

    def __call__(self, *samples: Array, **options: Any) -> Array:
        """Evaluate the measure."""
        return self.function(*samples, **options)


_ALL = (
    Measure("cs", cs, cs_pairs, takes_x=False, conditional=False, nonnegative=True, row_sums=cs_sums),
    Measure("mmd", mmd, mmd_pairs, takes_x=False, conditional=False, nonnegative=True, row_sums=mmd_sums),
    Measure("joint_mmd", joint_mmd, joint_mmd_pairs, conditional=False, nonnegative=True, row_sums=mmd_sums),
    Measure("conditional_cs", conditional_cs, conditional_cs_pairs, row_sums=conditional_cs_sums),
    Measure(
        "conditional_euclidean",
        conditional_euclidean,
        conditional_euclidean_pairs,
        row_sums=conditional_euclidean_sums,
    ),
    Measure("conditional_mmd", conditional_mmd, conditional_mmd_pairs, weighted=False, nonnegative=True),
    Measure(
        "conditional_kl",
        conditional_kl,
        conditional_kl_pairs,
        differentiable=False,
        symmetric=False,
        weighted=False,
        gram=False,
    ),
    Measure(
        "conditional_bregman",
        conditional_bregman,
        conditional_bregman_pairs,
        symmetric=False,
        weighted=False,
        nonnegative=True,
        gram=False,
    ),
)


class Measures(Mapping[str, Measure]):
    """Measures by name; read-only."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._by_name = {measure.name: measure for measure in measures}

    def __getitem__(self, name: str) -> Measure:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        """Name the measures; what each can do is in the measure itself."""
        return f"Measures({', '.join(self)})"


MEASURES: Mapping[str, Measure] = Measures(_ALL)
"""All measures by name."""


def measure_named(name: str) -> Measure:
    """Return a registered measure, or say which there are."""
    return MEASURES[check_choice("measure", name, tuple(MEASURES))]


@public
def pairwise(
    groups: Sequence[Any],
    *,
    measure: MeasureName = "conditional_cs",
    weights: Sequence[Array | None] | None = None,
    method: SamplingMethod = "auto",
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
        The name of a measure in `condcs.MEASURES`.
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
    allowed = chosen.options - {"weights_p", "weights_q", "unbiased"}
    check_options(options, allowed, measure)
    if weights is not None and not chosen.weighted:
        raise ParameterError(
            f"{named('weights')} must be None for {measure!r}, which takes no sample weights. Leave it out."
        )
    xs, ys = _split(groups, chosen)
    weights_by_group = [None] * len(ys) if weights is None else weights
    if not isinstance(weights_by_group, Sequence) or len(weights_by_group) != len(ys):
        got = len(weights_by_group) if isinstance(weights_by_group, Sequence) else type(weights_by_group).__name__
        raise ShapeError(
            f"{named('weights')} must have one entry per group ({len(ys)}), got {got}. Use None for no weights."
        )
    weight_parts = [(f"weights[{i}]", w) for i, w in enumerate(weights_by_group)]
    problem, value_options = chosen.problem(xs, ys, weight_parts, options)
    sampled = sampling_of(method, problem.inputs.backend, problem.groups.n)
    if sampled is not None and chosen.row_sums is None and method != "auto":
        able = ", ".join(m.name for m in MEASURES.values() if m.row_sums is not None)
        raise ParameterError(
            f'{named("method")} must be "exact" for {measure!r}: anchors are for {able} only. Leave it out.'
        )
    if sampled is not None and chosen.row_sums is not None:
        return _sampled_pairs(chosen, problem, value_options, sampled)
    return problem.inputs.result(chosen.pairs(problem, **value_options))


def _sampled_pairs(measure: Measure, problem: Any, options: dict[str, Any], sampled: Sampled) -> SampledMatrix:
    """Sample one pair of groups after the other: as many anchors as for all at once, with half the code."""
    row_sums = measure.row_sums
    assert row_sums is not None

    def value(g: int, h: int) -> SampledFloat:
        pair = pair_of(problem, g, h)
        rows = RowsInMemory(pair.variables, measure.products, pair.groups)
        return sampled_value(sampled, rows, row_sums(rows, **options))

    count = problem.groups.count
    entries = [[SampledFloat(0.0, 0.0, 0)] * count for _ in range(count)]
    for g in range(count):
        for h in range(g + 1, count):
            entries[g][h] = entries[h][g] = value(g, h)
            if options.get("estimator") in ("p", "q"):
                entries[h][g] = value(h, g)
    return SampledMatrix(entries)


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
