"""From the arguments of a public function to what the formulas work on: checked, pooled, with kernels and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray, IntArray, backend_of
from condcs._core.checks import (
    Groups,
    Parts,
    Variable,
    check_choice,
    check_same_rows,
    check_variable,
    check_weights,
    float_type,
    without_absent_rows,
)
from condcs._core.errors import DataError, ParameterError
from condcs._core.vocabulary import named, setting
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.named_kernels import Kernel, KernelOption, check_kernel, kernel_of_widths, log_kernel

MarginalEstimator = Literal["resubstitution", "plugin"]


@dataclass(frozen=True)
class KernelVariable:
    """A pooled variable with its kernel and its bandwidths."""

    variable: Variable
    kernel: LogKernel
    widths: FloatArray | None
    option: KernelOption

    @property
    def has_numbers(self) -> bool:
        """Whether some column has a bandwidth that callers choose; labels have none."""
        return bool(self.option.number_columns(len(self.variable.names)))


@dataclass(frozen=True)
class Inputs:
    """Array library, type to compute in, and type to return, common to all arguments of one call."""

    backend: Backend
    dtype: Any
    returned: Any

    @classmethod
    def of(cls, *arrays: Any) -> Inputs:
        """Look at all arrays of a call."""
        backend = backend_of(*arrays)
        return cls(backend, *float_type(backend, arrays))

    def kernel_variable(
        self, parts: Parts, role: str, kernel: Kernel, bandwidth: Bandwidth, *, response: bool = False
    ) -> KernelVariable:
        """Check one variable and make its kernel; `role` ends the names of its options: "_x", or "" if marginal."""
        option = check_kernel(f"kernel{role}", kernel)
        variable = check_variable(
            parts,
            self.backend,
            self.dtype,
            labels=option.labels,
            kernel_option=option.option,
            stem=role.strip("_") or "y",
        )
        exponents, widths = log_kernel(option, f"bandwidth{role}", bandwidth, variable, self.backend, response=response)
        return KernelVariable(variable, exponents, widths, option)

    def numbers(self, parts: Parts, *, stem: str = "x", min_rows: int = 2) -> Variable:
        """Check a variable that must hold numbers (measures without kernels)."""
        return check_variable(parts, self.backend, self.dtype, stem=stem, min_rows=min_rows)

    def weights(self, parts: Parts, sizes: tuple[int, ...]) -> Groups:
        """Check sample weights and return the groups."""
        return check_weights(parts, sizes, self.backend, self.dtype)

    def result(self, value: Array) -> Array:
        """Return a result in the caller's library and floating type; a float for numpy scalars."""
        if self.backend.name == "numpy":
            return np.asarray(value, self.returned)[()]
        return value if value.dtype == self.returned else self.backend.xp.astype(value, self.returned)


@dataclass(frozen=True)
class ConditionalProblem:
    """Pooled x and y with kernels, and the groups of the pool."""

    inputs: Inputs
    x: KernelVariable
    y: KernelVariable
    groups: Groups

    @property
    def variables(self) -> list[KernelVariable]:
        """Both variables."""
        return [self.x, self.y]


def pair(name: str, p: Any, q: Any) -> list[tuple[str, Any]]:
    """Return the parts of a variable of two samples: "x" stands for `xp` and `xq`."""
    return [(f"{name}p", p), (f"{name}q", q)]


def bandwidths(bandwidth: Bandwidth | None, **single: Bandwidth) -> tuple[Bandwidth, ...]:
    """Return the bandwidths of several variables, by the names of their options; plain `bandwidth` sets all of them."""
    if bandwidth is None:
        return tuple(single.values())
    refuse_both([name for name, value in single.items() if not (isinstance(value, str) and value == "median")])
    return (bandwidth,) * len(single)


def refuse_both(single: Sequence[str]) -> None:
    """Refuse bandwidths of single variables beside the plain one."""
    if single:
        raise ParameterError(
            f"{named('bandwidth')} must not be given together with {named(single[0])}, which it sets too. Leave one "
            "out."
        )


def conditional_problem(
    x_parts: Parts,
    y_parts: Parts,
    weight_parts: Parts,
    kernel_x: Kernel,
    kernel_y: Kernel,
    bandwidth_x: Bandwidth,
    bandwidth_y: Bandwidth,
    bandwidth: Bandwidth | None = None,
) -> ConditionalProblem:
    """Check the samples of a conditional measure, one part per group; rows of weight 0 are absent."""
    bandwidth_x, bandwidth_y = bandwidths(bandwidth, bandwidth_x=bandwidth_x, bandwidth_y=bandwidth_y)
    weight_parts, x_parts, y_parts = without_absent_rows(weight_parts, x_parts, y_parts)
    inputs = Inputs.of(*(a for _, a in (*x_parts, *y_parts)), *(w for _, w in weight_parts))
    x = inputs.kernel_variable(x_parts, "_x", kernel_x, bandwidth_x)
    y = inputs.kernel_variable(y_parts, "_y", kernel_y, bandwidth_y, response=True)
    check_same_rows(x.variable, x_parts, y.variable, y_parts)
    return ConditionalProblem(inputs, x, y, inputs.weights(weight_parts, x.variable.sizes))


@dataclass(frozen=True)
class MarginalProblem:
    """Pooled y with its kernel, and the groups of the pool."""

    inputs: Inputs
    y: KernelVariable
    groups: Groups

    @property
    def variables(self) -> list[KernelVariable]:
        """The variable."""
        return [self.y]


def marginal_problem(
    parts: Parts,
    weight_parts: Parts,
    kernel: Kernel,
    bandwidth: Bandwidth,
    estimator: MarginalEstimator = "resubstitution",
) -> MarginalProblem:
    """Check the samples of a marginal measure, one part per group; rows of weight 0 are absent.

    The plug-in estimator integrates products of two kernels: for the Gaussian, and only for it, that is the same
    kernel with sqrt(2) times the width.
    """
    check_choice("estimator", estimator, get_args(MarginalEstimator))
    if estimator == "plugin" and kernel != "gaussian":
        raise ParameterError(
            f"`{setting('estimator', 'plugin')}` must go with {setting('kernel', 'gaussian')}, got "
            f"{setting('kernel', kernel)}: only the Gaussian keeps its form under convolution. Pass "
            f"{setting('estimator', 'resubstitution')} for other kernels."
        )
    weight_parts, parts = without_absent_rows(weight_parts, parts)
    inputs = Inputs.of(*(a for _, a in parts), *(w for _, w in weight_parts))
    y = inputs.kernel_variable(parts, "", kernel, bandwidth, response=True)
    if estimator == "plugin" and y.widths is not None:
        y = inputs.kernel_variable(parts, "", kernel, math.sqrt(2) * y.widths, response=True)
    return MarginalProblem(inputs, y, inputs.weights(weight_parts, y.variable.sizes))


def kernel_with_points(problem: ConditionalProblem, parts: Parts) -> tuple[Variable, LogKernel]:
    """Pool the samples of x with points, the last of the parts, and make the kernel of all with the same bandwidths."""
    inputs, option = problem.inputs, problem.x.option
    backend_of(*(a for _, a in parts))
    labels, name = option.labels, option.option
    variable = check_variable(parts, inputs.backend, inputs.dtype, labels=labels, kernel_option=name, min_rows=1)
    return variable, kernel_of_widths(option, problem.x.widths, variable.values, inputs.backend)


@dataclass(frozen=True)
class NumericProblem:
    """Pooled x and y, both numbers, and the groups of the pool."""

    inputs: Inputs
    x: Variable
    y: Variable
    groups: Groups


Problem = ConditionalProblem | MarginalProblem | NumericProblem
AnyProblem = TypeVar("AnyProblem", bound=Problem)


def regrouped(problem: AnyProblem, rows: IntArray, sizes: tuple[int, ...]) -> AnyProblem:
    """Return the problem of some rows of the pool, in this order, in groups of these sizes; kernels are the same."""
    weights = problem.groups.weights
    groups = Groups(sizes, None if weights is None else weights[rows])
    named = ("y",) if isinstance(problem, MarginalProblem) else ("x", "y")
    changed: dict[str, Any] = {name: _taken(getattr(problem, name), rows) for name in named}
    return replace(problem, **changed, groups=groups)


def _taken(of: KernelVariable | Variable, rows: IntArray) -> KernelVariable | Variable:
    if isinstance(of, Variable):
        return replace(of, values=of.values[rows])
    return replace(of, variable=replace(of.variable, values=of.variable.values[rows]), kernel=of.kernel.take(rows))


def pair_of(problem: AnyProblem, g: int, h: int) -> AnyProblem:
    """Return the problem of two of the groups, in this order."""
    spans = problem.groups.slices[g], problem.groups.slices[h]
    rows = np.concatenate([np.arange(s.start, s.stop) for s in spans])
    return regrouped(problem, rows, tuple(s.stop - s.start for s in spans))


def numeric_problem(x_parts: Parts, y_parts: Parts) -> NumericProblem:
    """Check the samples of a measure without kernels, one part per group."""
    inputs = Inputs.of(*(a for _, a in (*x_parts, *y_parts)))
    x, y = inputs.numbers(x_parts, stem="x"), inputs.numbers(y_parts, stem="y")
    check_same_rows(x, x_parts, y, y_parts)
    for variable in (x, y):
        _check_varies(variable, inputs.backend)
    return NumericProblem(inputs, x, y, Groups(x.sizes))


def _check_varies(variable: Variable, backend: Backend) -> None:
    """Refuse columns that are constant over all groups: there a density or an invertible covariance does not exist."""
    values, xp = variable.values, backend.xp
    if backend.is_traced(values):
        return
    constant = backend.to_numpy(xp.max(values, axis=0) == xp.min(values, axis=0))
    if constant.any():
        name = variable.names[int(np.argmax(constant))]
        raise DataError(
            f"{variable.title} must vary in every column, but column {name!r} is constant over all samples. "
            "Drop that column: it says nothing about the difference."
        )
