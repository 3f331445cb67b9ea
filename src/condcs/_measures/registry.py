"""The registry of measures: what each can do, so that tests, matrices and experiments need not know which they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from condcs._core.arrays import Array
from condcs._core.checks import Parts, check_choice
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
from condcs._measures.inputs import Problem, conditional_problem, marginal_problem, numeric_problem
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

_KERNELS_WITH_X = {"kernel_x": "gaussian", "kernel_y": "gaussian", "bandwidth_x": "median", "bandwidth_y": "median"}
_KERNEL_WITHOUT_X = {"kernel": "gaussian", "bandwidth": "median"}


@dataclass(frozen=True)
class Measure:
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
        given = {**defaults, **{k: v for k, v in options.items() if k in kernel_options}}
        own = {k: v for k, v in options.items() if k not in kernel_options}
        if self.takes_x:
            return conditional_problem(x_parts, y_parts, weight_parts, **given), own
        return marginal_problem(y_parts, weight_parts, **given), own

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

MEASURES: Mapping[str, Measure] = MappingProxyType({m.name: m for m in _ALL})
"""All measures by name."""


def measure_named(name: str) -> Measure:
    """Return a registered measure, or say which there are."""
    return MEASURES[check_choice("measure", name, tuple(MEASURES))]
