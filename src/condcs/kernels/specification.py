"""From the `kernel` and `bandwidth` options of a public function to a log kernel on the pooled sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.core.arrays import Array, Backend
from condcs.core.checks import Variable
from condcs.core.errors import ParameterError
from condcs.kernels.bandwidths import Bandwidth, column_widths
from condcs.kernels.log_kernels import Delta, Function, LogKernel, gaussian, laplacian, product

Kernel = str | Sequence[str] | Callable[[Array, Array], Array]
"""A kernel's name, one name per column, or a function of two blocks of rows that returns their Gram block."""

KERNELS = ("gaussian", "laplacian", "delta")


@dataclass(frozen=True)
class KernelOption:
    """A kernel option as given by the caller, checked for form before the data are seen."""

    option: str
    kernel: Any

    @property
    def labels(self) -> bool | tuple[bool, ...]:
        """Which columns are labels: all, none, or one flag per column."""
        if isinstance(self.kernel, tuple):
            return tuple(name == "delta" for name in self.kernel)
        return bool(self.kernel == "delta") if isinstance(self.kernel, str) else False


def check_kernel(option: str, kernel: Kernel) -> KernelOption:
    """Check the form of a kernel option."""
    if callable(kernel):
        return KernelOption(option, kernel)
    names = (kernel,) if isinstance(kernel, str) else kernel
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str) and n in KERNELS for n in names):
        known = ", ".join(repr(k) for k in KERNELS)
        raise ParameterError(
            f"`{option}` must be one of {known}, one of these per column, or a function, got {kernel!r}. "
            f'Pass e.g. {option}="gaussian".'
        )
    return KernelOption(option, kernel if isinstance(kernel, str) else tuple(kernel))


def log_kernel(
    kernel: KernelOption,
    bandwidth_option: str,
    bandwidth: Bandwidth,
    variable: Variable,
    backend: Backend,
    *,
    response: bool,
) -> tuple[LogKernel, np.ndarray[Any, Any] | None]:
    """Make the log kernel of one variable; also return the widths in force (None where the kernel has none)."""
    values = variable.values
    if callable(kernel.kernel):
        return Function(backend, values, kernel.kernel, kernel.option), None
    if kernel.kernel == "delta":
        return Delta(backend, values), None
    if isinstance(kernel.kernel, str):
        widths = column_widths(bandwidth_option, bandwidth, variable, backend, response=response)
        make = gaussian if kernel.kernel == "gaussian" else _euclidean_laplacian
        return make(backend, values, widths), widths
    return _mixed(kernel.kernel, bandwidth_option, bandwidth, variable, backend, response)


def _euclidean_laplacian(backend: Backend, values: Array, widths: np.ndarray[Any, Any]) -> LogKernel:
    return laplacian(backend, values, widths, product=False)


def _mixed(
    names: tuple[str, ...], option: str, bandwidth: Bandwidth, variable: Variable, backend: Backend, response: bool
) -> tuple[LogKernel, np.ndarray[Any, Any] | None]:
    """Product over columns, each with its own kernel and, by rule, its own width."""
    numeric = [c for c, name in enumerate(names) if name != "delta"]
    widths = np.full(len(names), np.nan)
    if numeric:
        given: Any = bandwidth
        is_list = isinstance(given, list | tuple) or getattr(given, "ndim", 0) == 1
        if is_list and len(given) == len(names):
            bandwidth = [given[c] for c in numeric]
        part = Variable(
            variable.values[:, numeric], variable.sizes, tuple(variable.names[c] for c in numeric), variable.title
        )
        widths[numeric] = column_widths(option, bandwidth, part, backend, response=response)
    factors: list[LogKernel] = []
    for name in KERNELS:
        columns = [c for c, n in enumerate(names) if n == name]
        if not columns:
            continue
        values = variable.values[:, columns]
        if name == "gaussian":
            factors.append(gaussian(backend, values, widths[columns]))
        elif name == "laplacian":
            factors.append(laplacian(backend, values, widths[columns], product=True))
        else:
            factors.append(Delta(backend, values))
    return product(factors), widths if numeric else None
