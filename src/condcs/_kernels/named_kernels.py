"""The kernels that callers name, and what becomes of an option ``kernel_x=`` on a pooled sample.

A new kernel is one class of `LogKernel`, and one row of `NAMED_KERNELS` with its name in `KernelName`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from condcs._core.arrays import NUMPY, Array, Backend, FloatArray
from condcs._core.checks import Variable
from condcs._core.errors import DataError, ParameterError
from condcs._core.vocabulary import named, setting
from condcs._kernels.bandwidths import Bandwidth, column_widths
from condcs._kernels.label_similarities import label_similarities
from condcs._kernels.log_kernels import AitchisonAitken, Delta, Function, Laplacian, LogKernel, gaussian, product

KernelName = Literal["gaussian", "laplacian", "delta", "aitchison-aitken"]
Kernel = KernelName | Sequence[KernelName] | Callable[[Array, Array], Array]
"""A kernel's name, one name per column, or a function of two blocks of rows that returns their Gram block."""


class MakeKernel(Protocol):
    """How a named kernel is made for some columns of the pool."""

    def __call__(
        self, backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None, *, by_column: bool
    ) -> LogKernel:
        """Make the kernel.

        Parameters
        ----------
        backend : library of the arrays
        values : (n, d)
        widths : (d,)
            For labels the similarities by the kernel's own rule, NaN if it has none.
        centre : (d,) or None
            What to subtract first: rows are then rounded alike, whichever others come with them.
        by_column : bool
            Whether every column was given a kernel of its own: then the kernel is a product over columns.
        """


@dataclass(frozen=True)
class NamedKernel:
    """A kernel that callers name."""

    make: MakeKernel
    of_labels: bool = False
    """Whether it asks only if values are equal: its columns are labels, and callers give them no bandwidth."""
    similarities: Callable[[FloatArray], FloatArray] | None = None
    """For labels: how similar two of a column are that differ (d,), from the pooled rows (n, d). Without, they have
    nothing in common: the kernel is 0."""


def _gaussian(
    backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None, *, by_column: bool
) -> LogKernel:
    # A Gaussian of several columns is the product of Gaussians of each.
    return gaussian(backend, values, widths, centre)


def _laplacian(
    backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None, *, by_column: bool
) -> LogKernel:
    return Laplacian.of(backend, values, widths, by_column=by_column)


def _delta(
    backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None, *, by_column: bool
) -> LogKernel:
    return Delta(backend, values)


def _aitchison_aitken(
    backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None, *, by_column: bool
) -> LogKernel:
    return AitchisonAitken(backend, values, widths)


NAMED_KERNELS: dict[str, NamedKernel] = {
    "gaussian": NamedKernel(_gaussian),
    "laplacian": NamedKernel(_laplacian),
    "delta": NamedKernel(_delta, of_labels=True),
    "aitchison-aitken": NamedKernel(_aitchison_aitken, of_labels=True, similarities=label_similarities),
}
"""What callers can name. A row here needs its name in `KernelName` as well, which tools for types read."""


def is_of_labels(name: str) -> bool:
    """Say whether a named kernel compares labels."""
    return NAMED_KERNELS[name].of_labels


def borrowing(kernel: Kernel) -> Kernel:
    """Return a kernel option in which labels borrow strength from one another, where they were to be equal.

    Callers of tests name "delta" to say which columns are labels. If no two rows share the labels of all columns, a
    test by equality has nothing to compare.
    """
    if isinstance(kernel, list | tuple):
        return tuple("aitchison-aitken" if name == "delta" else name for name in kernel)
    return "aitchison-aitken" if isinstance(kernel, str) and kernel == "delta" else kernel


def is_of_numbers(kernel: Kernel) -> bool:
    """Say whether one named kernel of numbers is given for all columns."""
    return isinstance(kernel, str) and not is_of_labels(kernel)


@dataclass(frozen=True)
class KernelOption:
    """A kernel option as given by the caller, checked for form before the data are seen."""

    option: str
    kernel: Any

    @property
    def labels(self) -> bool | tuple[bool, ...]:
        """Which columns are labels: all, none, or one flag per column."""
        if callable(self.kernel):
            return False
        if isinstance(self.kernel, tuple):
            return tuple(is_of_labels(name) for name in self.kernel)
        return is_of_labels(self.kernel)

    def names(self, columns: int) -> tuple[str, ...]:
        """Return the kernel of each column; empty for a function of all of them."""
        if callable(self.kernel):
            return ()
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,) * columns

    def label_columns(self, columns: int) -> list[int]:
        """Return which of so many columns are labels."""
        return [c for c, name in enumerate(self.names(columns)) if is_of_labels(name)]

    def matched_columns(self, columns: int) -> list[int]:
        """Return which of so many columns must be equal: rows that differ there have nothing in common."""
        names = self.names(columns)
        return [c for c in self.label_columns(columns) if NAMED_KERNELS[names[c]].similarities is None]

    def number_columns(self, columns: int) -> list[int]:
        """Return which of so many columns have a bandwidth."""
        return [c for c, name in enumerate(self.names(columns)) if not is_of_labels(name)]


def check_kernel(option: str, kernel: Kernel) -> KernelOption:
    """Check the form of a kernel option."""
    if callable(kernel) or (isinstance(kernel, str) and kernel in NAMED_KERNELS):
        return KernelOption(option, kernel)
    names = (kernel,) if isinstance(kernel, str) else kernel
    if (
        not isinstance(names, Sequence)
        or not names
        or not all(isinstance(n, str) and n in NAMED_KERNELS for n in names)
    ):
        choices = ", ".join(repr(name) for name in NAMED_KERNELS)
        raise ParameterError(
            f"{named(option)} must be one of {choices}, one of these per column, or a function, got {kernel!r}. "
            f"Pass e.g. {setting(option, 'gaussian')}."
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
) -> tuple[LogKernel, FloatArray | None]:
    """Make the log kernel of one variable; also return its bandwidths (None where the kernel has none)."""
    widths = _widths_of_columns(kernel, bandwidth_option, bandwidth, variable, backend, response)
    return kernel_of_widths(kernel, widths, variable.values, backend), widths


def _widths_of_columns(
    kernel: KernelOption, option: str, bandwidth: Bandwidth, variable: Variable, backend: Backend, response: bool
) -> FloatArray | None:
    """Return the bandwidth of each column, for labels their similarity or NaN; None if no column has either."""
    columns = len(variable.names)
    numeric = kernel.number_columns(columns)
    if len(numeric) == columns:
        return column_widths(option, bandwidth, variable, backend, response=response)
    widths = np.full(columns, np.nan)
    if numeric:
        # One bandwidth per column may be given for all columns: those of labels are not read.
        per_column: Any = bandwidth
        is_sequence = isinstance(per_column, list | tuple) or getattr(per_column, "ndim", 0) == 1
        if is_sequence and len(per_column) == columns:
            bandwidth = [per_column[c] for c in numeric]
        names = tuple(variable.names[c] for c in numeric)
        numbers = Variable(variable.values[:, numeric], variable.sizes, names, variable.title)
        widths[numeric] = column_widths(option, bandwidth, numbers, backend, response=response)
    for name, named_kernel in NAMED_KERNELS.items():
        chosen = [c for c, other in enumerate(kernel.names(columns)) if other == name]
        if named_kernel.similarities is not None and chosen:
            _check_known(kernel.option, name, variable, backend)
            labels = backend.to_numpy(variable.values)[:, chosen]
            widths[chosen] = named_kernel.similarities(labels)
    return None if np.isnan(widths).all() else widths


def _check_known(option: str, kernel: str, variable: Variable, backend: Backend) -> None:
    """Refuse labels whose values are not known yet."""
    if backend.is_traced(variable.values):
        raise DataError(
            f"{named(option)} must be another kernel than {kernel!r} inside jax.jit and jax.vmap, where labels cannot "
            f"be counted. Pass {setting(option, 'delta')}."
        )


def kernel_of_widths(
    kernel: KernelOption,
    widths: FloatArray | None,
    values: Array,
    backend: Backend = NUMPY,
    centre: FloatArray | None = None,
) -> LogKernel:
    """Make the log kernel of some rows, with bandwidths that are known; one name per column makes a product."""
    if callable(kernel.kernel):
        return Function(backend, values, kernel.kernel, kernel.option)
    names = kernel.names(values.shape[1])
    if widths is None:
        widths = np.full(len(names), np.nan)
    by_column = isinstance(kernel.kernel, tuple)
    factors = list[LogKernel]()
    # In the order of the table, and all columns of one kernel together: the Gaussian is one matrix product.
    for name, named_kernel in NAMED_KERNELS.items():
        columns = [c for c, other in enumerate(names) if other == name]
        if not columns:
            continue
        whole = len(columns) == len(names)
        table = values if whole else values[:, columns]
        part = None if centre is None else centre[columns]
        factors.append(named_kernel.make(backend, table, widths[columns], part, by_column=by_column))
    return product(factors)
