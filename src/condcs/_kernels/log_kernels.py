r"""Kernels as exponents: each gives :math:`\log k(a, b)` for blocks of rows, so that nothing underflows unasked.

A log kernel holds the pooled sample twice, as `left` rows and `right` columns, in the form that makes one block cheap.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray, backend_of
from condcs._core.errors import DataError
from condcs._core.vocabulary import named

Features = tuple[Array, ...]


class LogKernel:
    """Exponents of one kernel over the pooled sample."""

    may_vanish = False  # whether the kernel can be exactly zero (exponent minus infinity)
    reaches_far = False  # whether exponents can be so large that their rounding shows in differences between them
    floats_per_pair = 1  # numbers held in memory for each pair while a block is evaluated

    def __init__(self, backend: Backend, left: Features, right: Features | None = None) -> None:
        self.backend = backend
        # Pooled features of the rows and of the columns of a block.
        self.left, self.right = left, left if right is None else right

    @property
    def dtype(self) -> Any:
        """Floating type of the exponents."""
        if self.backend.name == "numpy":
            return np.result_type(*self.left)
        return max((a.dtype for a in self.left), key=lambda d: self.backend.xp.finfo(d).bits)

    def evaluate(self, left: Features, right: Features) -> Array:
        """Return the exponents of `left` rows against `right` rows."""
        raise NotImplementedError

    def relative(self, left: Features, right: Features, reference: Array) -> Array:
        """Return the exponents of each `left` row, relative to its exponent at the `right` row whose index is given."""
        exponents = self.evaluate(left, right)
        return exponents - _entries(self.backend, exponents, reference)

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the exponents of pooled `rows` against pooled `columns` (slices or index arrays)."""
        return self.evaluate(tuple(a[rows] for a in self.left), tuple(a[columns] for a in self.right))

    def diagonal(self) -> Array | None:
        """Return the exponents of each row with itself, or None where all are zero."""
        return None

    def take(self, rows: Any) -> LogKernel:
        """Return the same kernel on other rows of the pool, e.g. in another order."""
        taken = copy.copy(self)
        taken.left = tuple(a[rows] for a in self.left)
        taken.right = taken.left if self.right is self.left else tuple(a[rows] for a in self.right)
        return taken


class Expanded(LogKernel):
    r"""Gaussian kernel by one matrix product.

    With z the data in units of the bandwidth, rows :math:`[z, -|z|^2/2, 1]` times columns :math:`[z, 1, -|z|^2/2]` give
    :math:`-|z_i - z_j|^2 / 2` directly. Exact to rounding of :math:`|z|^2`, so only used where that is small enough.
    """

    def __init__(self, backend: Backend, z: Array, half_norm: Array) -> None:
        ones = backend.xp.ones_like(half_norm)
        left, right = (backend.concat([z, *last], axis=1) for last in ((-half_norm, ones), (ones, -half_norm)))
        super().__init__(backend, (left,), (right,))
        self.z, self.half_norm = z, half_norm

    def take(self, rows: Any) -> LogKernel:
        return Expanded(self.backend, self.z[rows], self.half_norm[rows])

    def evaluate(self, left: Features, right: Features) -> Array:
        return left[0] @ right[0].T


class Differences(LogKernel):
    r"""Gaussian kernel by differences: :math:`-\sum_c ((a_c - b_c) / \sigma_c)^2 / 2`, exact wherever the data lie."""

    reaches_far = True

    def __init__(self, backend: Backend, values: Array, widths: Array) -> None:
        super().__init__(backend, (values,))
        self.widths = widths
        self.floats_per_pair = 1 if backend.name == "numpy" else values.shape[1]

    def evaluate(self, left: Features, right: Features) -> Array:
        return -0.5 * _squared_distances(self.backend, left[0], right[0], self.widths)

    def relative(self, left: Features, right: Features, reference: Array) -> Array:
        return _relative_exponents(left[0], right[0], reference, self.widths)


class Laplacian(LogKernel):
    r"""Laplacian kernel: :math:`-|(a - b) / \sigma|`, Euclidean norm, or the sum over columns (a product kernel)."""

    reaches_far = True

    def __init__(self, backend: Backend, values: Array, widths: Array, *, by_column: bool) -> None:
        super().__init__(backend, (values,))
        self.widths, self.by_column = widths, by_column
        self.floats_per_pair = 1 if backend.name == "numpy" else values.shape[1]

    @classmethod
    def of(cls, backend: Backend, values: Array, widths: FloatArray, *, by_column: bool) -> Laplacian:
        """Make the kernel of rows (n, d) in the caller's units, with a width for each column."""
        return cls(backend, *_safe_units(backend, values, widths), by_column=by_column)

    def evaluate(self, left: Features, right: Features) -> Array:
        a, b = left[0], right[0]
        xp = self.backend.xp
        if self.by_column and self.backend.name == "numpy":
            return -_weighted_distances(a, b, "cityblock", w=1 / self.widths)
        if self.by_column:
            return -xp.sum(xp.abs(a[:, None, :] - b[None, :, :]) / self.widths, axis=-1)
        squared = _squared_distances(self.backend, a, b, self.widths)
        # The square root has no derivative at 0: coinciding rows get the constant 0 instead of 0/0.
        apart = squared > 0
        return -xp.where(apart, xp.sqrt(xp.where(apart, squared, xp.ones_like(squared))), xp.zeros_like(squared))

    def relative(self, left: Features, right: Features, reference: Array) -> Array:
        if self.by_column:
            return super().relative(left, right, reference)
        # A difference of roots is that of the squares over the sum.
        exponents, xp = self.evaluate(left, right), self.backend.xp
        sums = -(exponents + _entries(self.backend, exponents, reference))
        sums = xp.where(sums > 0, sums, xp.ones_like(sums))
        return 2 * _relative_exponents(left[0], right[0], reference, self.widths) / sums


class Delta(LogKernel):
    """Labels: 1 where all columns are equal, else 0."""

    may_vanish = True

    def __init__(self, backend: Backend, values: Array) -> None:
        super().__init__(backend, (backend.detach(values),))
        self.floats_per_pair = values.shape[1]

    def evaluate(self, left: Features, right: Features) -> Array:
        xp = self.backend.xp
        a, b = left[0], right[0]
        equal = a[:, :1] == b[:, 0]
        for column in range(1, a.shape[1]):
            equal = equal & (a[:, column : column + 1] == b[:, column])
        if self.backend.name == "numpy":
            return np.where(equal, a.dtype.type(0), a.dtype.type(-np.inf))
        zero = xp.zeros_like(a[:, :1] * b[:, 0])
        return xp.where(equal, zero, zero - xp.inf)


_MOST_INDICATORS = 50
"""Labels of a column above which it is compared by equality. Up to about so many one matrix product of indicators is
faster than a comparison of all pairs (20 labels: 1 against 2 ns for each pair and column), and these stay small."""


class AitchisonAitken(LogKernel):
    r"""Labels that borrow strength from one another: :math:`\sum_c \log r_c [a_c \ne b_c]`, r a similarity.

    With indicators of the labels, times :math:`\sqrt{-\log r_c}`, it is one matrix product plus a constant.
    """

    def __init__(self, backend: Backend, values: Array, similarities: FloatArray) -> None:
        values = backend.detach(values)
        super().__init__(backend, (values,))
        self.penalties = -np.log(similarities)  # (d,): minus the exponent of two labels that differ
        self.labels = [np.unique(column) for column in backend.to_numpy(values).T]
        self.multiplied = [c for c, labels in enumerate(self.labels) if len(labels) <= _MOST_INDICATORS]
        self.compared = [c for c, labels in enumerate(self.labels) if len(labels) > _MOST_INDICATORS]

    def evaluate(self, left: Features, right: Features) -> Array:
        a, b = left[0], right[0]
        exponents = self.backend.xp.zeros_like(a[:, :1] * b[:, 0])
        for c in self.compared:
            differ = a[:, c : c + 1] != b[:, c]
            exponents = exponents - float(self.penalties[c]) * self._as_numbers(differ, a)
        if not self.multiplied:
            return exponents
        equal = self._indicators(a) @ self._indicators(b).T
        return exponents + equal - float(self.penalties[self.multiplied].sum())

    def _indicators(self, rows: Array) -> Array:
        """Return an indicator of each label, times the root of the penalty of its column (rows x labels)."""
        blocks = []
        for c in self.multiplied:
            is_label = rows[:, c : c + 1] == self.backend.from_numpy(self.labels[c], rows)
            blocks.append(self._as_numbers(is_label, rows) * float(np.sqrt(self.penalties[c])))
        return self.backend.concat(blocks, axis=1)

    def _as_numbers(self, truths: Array, like: Array) -> Array:
        """Return 1 for true and 0 for false, of the type of another array."""
        if self.backend.name == "numpy":
            return truths.astype(like.dtype)
        return self.backend.xp.astype(truths, like.dtype)


# Rows whose pairs show whether a user's kernel is symmetric, evenly spaced: enough for one that is not, and no cost.
_CHECKED_ROWS = 8


class Function(LogKernel):
    """A user's kernel: a symmetric, non-negative function of two blocks of rows that returns their Gram block."""

    may_vanish = True

    def __init__(self, backend: Backend, values: Array, function: Callable[[Array, Array], Array], option: str) -> None:
        super().__init__(backend, (values,))
        self.function, self.option = function, option
        if not backend.is_traced(values):
            self._check_symmetry(values[:: max(1, values.shape[0] // _CHECKED_ROWS)])

    def _check_symmetry(self, some: Array) -> None:
        # Each pair of rows is visited once and serves both, so k(a, b) has to be k(b, a).
        gram = self.backend.to_numpy(self._gram(some, some))
        if not np.allclose(gram, gram.T, rtol=1e-3, atol=1e-6 * gram.max()):
            i, j = np.unravel_index(np.argmax(np.abs(gram - gram.T)), gram.shape)
            raise DataError(
                f"{named(self.option)} must be symmetric, got {gram[i, j]:.4g} for two rows and {gram[j, i]:.4g} for "
                "the same two exchanged. Symmetrize it, e.g. by averaging k(a, b) and k(b, a).T."
            )

    def _gram(self, a: Array, b: Array) -> Array:
        """Call the function and check what it returns."""
        backend, xp = self.backend, self.backend.xp
        gram = self.function(a, b)
        if backend.name == "numpy":
            gram = np.asarray(gram)
        elif backend_of(gram).name != backend.name:
            raise DataError(
                f"{named(self.option)} must return an array of its arguments' library ({backend.name}), got "
                f"{type(gram).__name__}. Use that library's functions in the kernel."
            )
        expected = (a.shape[0], b.shape[0])
        if tuple(gram.shape) != expected:
            raise DataError(
                f"{named(self.option)} must return a block of shape {expected} for that many rows, got "
                f"{tuple(gram.shape)}. A kernel takes two blocks of rows and returns the values of all pairs."
            )
        if "complex" in str(gram.dtype) or str(gram.dtype) == "object":
            raise DataError(
                f"{named(self.option)} must return real numbers, got {gram.dtype}. Take e.g. the absolute value."
            )
        # Kernels that count or compare return integers and booleans, whose logarithms are of low precision.
        common = xp.result_type(gram, a)
        gram = gram.astype(common, copy=False) if backend.name == "numpy" else xp.astype(gram, common)
        allowed = (gram >= 0) & (gram < xp.inf)
        if not backend.is_traced(gram) and not bool(xp.all(allowed)):
            bad = float(backend.to_numpy(gram)[~backend.to_numpy(allowed)][0])
            raise DataError(
                f"{named(self.option)} must not be negative, NaN or infinite, got {bad}. Divergences take logarithms "
                "of sums of kernel values: use a non-negative kernel, e.g. its absolute value or exponential."
            )
        return gram

    def evaluate(self, left: Features, right: Features) -> Array:
        xp = self.backend.xp
        gram = self._gram(left[0], right[0])
        positive = gram > 0
        return xp.where(positive, xp.log(xp.where(positive, gram, xp.ones_like(gram))), -xp.inf * xp.ones_like(gram))

    def diagonal(self) -> Array:
        values = self.left[0]
        rows = [self.evaluate((values[i : i + 1],), (values[i : i + 1],))[0] for i in range(values.shape[0])]
        return self.backend.concat(rows)


class Product(LogKernel):
    """Product of kernels: exponents add."""

    def __init__(self, factors: Sequence[LogKernel]) -> None:
        first = factors[0]
        left = tuple(a for f in factors for a in f.left)
        right = tuple(a for f in factors for a in f.right)
        super().__init__(first.backend, left, right)
        self.factors = tuple(factors)
        self.may_vanish = any(f.may_vanish for f in factors)
        self.reaches_far = any(f.reaches_far for f in factors)
        self.floats_per_pair = max(f.floats_per_pair for f in factors)

    def evaluate(self, left: Features, right: Features) -> Array:
        return self._sum(lambda factor, part: factor.evaluate(left[part], right[part]))

    def relative(self, left: Features, right: Features, reference: Array) -> Array:
        return self._sum(lambda factor, part: factor.relative(left[part], right[part], reference))

    def _sum(self, exponents: Callable[[LogKernel, slice], Array]) -> Array:
        """Add up what a function makes of each factor and of its part of the features."""
        total: Array = None
        start = 0
        for factor in self.factors:
            part = slice(start, start + len(factor.left))
            of_factor = exponents(factor, part)
            total = of_factor if total is None else total + of_factor
            start = part.stop
        return total

    def diagonal(self) -> Array | None:
        parts = [d for d in (f.diagonal() for f in self.factors) if d is not None]
        return sum(parts[1:], parts[0]) if parts else None

    def take(self, rows: Any) -> LogKernel:
        return Product([f.take(rows) for f in self.factors])


def product(factors: Sequence[LogKernel]) -> LogKernel:
    """Multiply kernels; Gaussians in expanded form stay one matrix product."""
    flat = [g for f in factors for g in (f.factors if isinstance(f, Product) else (f,))]
    expanded = [f for f in flat if isinstance(f, Expanded)]
    if len(expanded) > 1:
        backend = expanded[0].backend
        norms = [f.half_norm for f in expanded]
        merged = Expanded(backend, backend.concat([f.z for f in expanded], axis=1), sum(norms[1:], norms[0]))
        flat = [merged, *(f for f in flat if not isinstance(f, Expanded))]
    return flat[0] if len(flat) == 1 else Product(flat)


# Rounding of the expansion is about |z|^2 machine epsilons. The limits keep the exponent's error near 5e-12 in double
# precision (results are promised to 1e-10) and 1e-5 in single precision (promised to 1e-4).
EXACT_EXPONENT = {64: 1e4, 32: 50.0}
"""Exponents up to this size, by the bits of their type, are exact to 5e-12 (double precision) or 1e-5 (single)."""
# A width beyond these would turn into 0, infinity, or a number of few digits in that floating type.
_WIDTH_RANGE = {64: (2.3e-308, 1.7e308), 32: (1.2e-38, 3.4e38)}


def gaussian(backend: Backend, values: Array, widths: FloatArray, centre: FloatArray | None = None) -> LogKernel:
    """Make a Gaussian kernel with one width per column, in the cheapest form that is exact for these data.

    A `centre` other than the mean of the values rounds rows alike, whichever others come with them.
    """
    xp = backend.xp
    bits = xp.finfo(values.dtype).bits
    low, high = _WIDTH_RANGE[bits]
    if all(low < width < high for width in widths.tolist()) and not backend.is_traced(values):
        scale = backend.from_numpy(widths, values)
        with np.errstate(over="ignore", invalid="ignore"):
            z = (values - (backend.detach(values.mean(0)) if centre is None else centre)) / scale
            half_norm = 0.5 * (z * z).sum(1)[:, None]
            if float(backend.detach(half_norm).max()) <= EXACT_EXPONENT[bits]:
                return Expanded(backend, z, half_norm)
    return Differences(backend, *_safe_units(backend, values, widths))


def _safe_units(backend: Backend, values: Array, widths: FloatArray) -> tuple[Array, Array]:
    """Bring each column to units in which its width is between 1 and 2, and compress what would overflow when squared.

    Units are powers of two, so that differences round exactly as they do in the caller's units. Numbers too large to be
    squared keep their order on a logarithmic scale: rows that differ stay far apart.
    """
    xp = backend.xp
    if backend.name == "numpy" or (backend.name == "torch" and values.device.type != "mps"):
        # Far-apart rows have large exponents: single precision would leave no digits of their differences.
        values = values.astype(np.float64) if backend.name == "numpy" else values.double()
    exponent = np.floor(np.log2(widths))
    # ldexp in two steps: 2**exponent alone overflows or underflows for extreme widths.
    half = np.floor(-exponent / 2)
    first, second = np.exp2(half), np.exp2(-exponent - half)
    unit_widths = widths * first * second
    # The sum of d squares of differences, each at most 4 limits large and divided by a width of at least 1, is finite.
    limit = float(np.sqrt(float(xp.finfo(values.dtype).max)) / (16 * np.sqrt(values.shape[1])))
    with np.errstate(over="ignore"):
        scaled = values * backend.from_numpy(first, values) * backend.from_numpy(second, values)
        size = xp.abs(scaled)
        # The largest double is 2^1024, so the logarithm adds less than one more `limit`.
        compressed = xp.sign(scaled) * limit * (1 + xp.log2(xp.clip(size / limit, 1, None)) / 1024)
        scaled = xp.clip(xp.where(size > limit, compressed, scaled), -2 * limit, 2 * limit)
    return scaled, backend.from_numpy(unit_widths, values)


def _weighted_distances(a: Array, b: Array, metric: Literal["sqeuclidean", "cityblock"], w: Array = None) -> Array:
    # Imported here: a fifth of the time that `import condcs` takes.
    from scipy.spatial.distance import cdist

    return cdist(a, b, metric, w=w)


def _squared_distances(backend: Backend, a: Array, b: Array, widths: Array) -> Array:
    if backend.name == "numpy":
        return _weighted_distances(a, b, "sqeuclidean", w=1 / (widths * widths))
    difference = (a[:, None, :] - b[None, :, :]) / widths
    return backend.xp.sum(difference * difference, axis=-1)


def _relative_exponents(a: Array, b: Array, reference: Array, widths: Array) -> Array:
    r"""Return :math:`(|a_j - b_r|^2 - |a_j - b_i|^2) / 2` in units of the widths, with r the reference of row j.

    As :math:`\sum_c (b_{ic} - b_{rc}) ((a_{jc} - b_{ic}) + (a_{jc} - b_{rc})) / 2`: no digits are lost, however far a
    row is from all the others. One column at a time, so that memory is that of the result.
    """
    total: Array = None
    for c in range(a.shape[1]):
        a_column, b_column = a[:, c : c + 1], b[:, c]
        near = b_column[reference][:, None]
        part = ((b_column - near) / widths[c]) * (((a_column - b_column) + (a_column - near)) / widths[c])
        total = part if total is None else total + part
    return 0.5 * total


def _entries(backend: Backend, table: Array, reference: Array) -> Array:
    """Return the entry of each row of a table in its reference column, as a column."""
    device = {"device": table.device} if backend.name == "torch" else {}
    return table[backend.xp.arange(table.shape[0], **device), reference][:, None]
