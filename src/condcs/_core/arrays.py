"""Arrays of any library: which one it is, how to reach numpy, and how to get back.

numpy is the fast path and is recognised first; torch and JAX are recognised without importing them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from condcs._core.errors import DataError
from condcs._core.printable import Printable

Array = Any
"""An array of numpy, torch, JAX or another library of the array API standard."""

AnyArray = npt.NDArray[Any]
"""An array of numpy that may hold anything: numbers, flags, strings, objects."""

FloatArray = npt.NDArray[np.float64]
"""Numbers in double precision."""

RealArray = npt.NDArray[np.floating[Any]]
"""Numbers in single or double precision."""

IntArray = npt.NDArray[np.integer[Any]]
"""Row and column numbers, counts and codes, of any integer type."""

BoolArray = npt.NDArray[np.bool_]
"""Flags: a mask of rows or of columns."""

RowIndex = slice | IntArray
"""Some rows: a range of them, or their numbers."""

LabelArray = IntArray
"""Labels of rows, 0 to k - 1, of any integer type."""


@dataclass(frozen=True)
class Backend:
    """One array library: its namespace and the few things the array API standard does not cover."""

    name: str
    xp: Any
    device: Any = None

    def __reduce__(self) -> tuple[Any, tuple[str, str, Any]]:
        """Pickle the namespace by its name: modules have no pickle."""
        return _unpickled, (self.name, self.xp.__name__, self.device)

    def detach(self, a: Array) -> Array:
        """Return `a` as a constant for differentiation."""
        if self.name == "torch":
            return a.detach()
        if self.name == "jax":
            import jax

            return jax.lax.stop_gradient(a)
        return a

    def is_traced(self, a: Array) -> bool:
        """Whether the values of `a` cannot be looked at (inside `jax.jit` or `jax.vmap`; `jax.grad` lets us look)."""
        if self.name != "jax":
            return False
        import jax

        return isinstance(jax.lax.stop_gradient(a), jax.core.Tracer)

    def to_numpy(self, a: Array) -> AnyArray:
        """Copy `a` to a numpy array, cut off from differentiation."""
        if self.name == "numpy":
            return np.asarray(a)
        return np.asarray(self.detach(a).cpu() if self.name == "torch" else self.detach(a))

    def from_numpy(self, a: Any, like: Array) -> Array:
        """Bring numpy values to the library, dtype and device of `like`."""
        if self.name == "numpy":
            return np.asarray(a).astype(like.dtype, copy=False)
        if self.name == "torch":
            return self.xp.asarray(a, dtype=like.dtype, device=like.device)
        return self.xp.asarray(a, dtype=like.dtype)

    def replaced(self, a: Array, index: tuple[Any, ...], values: Array) -> Array:
        """Return `a` with other values at an index; a copy where the library differentiates, `a` itself in numpy."""
        if self.name == "torch":
            rows, *others = (self.xp.asarray(i, device=a.device) for i in index)
            return a.index_put((rows, *others), self.xp.astype(values, a.dtype))
        if self.name == "jax":
            return a.at[index].set(values)
        a[index] = values
        return a

    def concat(self, arrays: list[Array], axis: int = 0) -> Array:
        """Join arrays along `axis`."""
        return np.concatenate(arrays, axis) if self.name == "numpy" else self.xp.concat(arrays, axis=axis)


NUMPY = Backend("numpy", np)


def _unpickled(name: str, namespace: str, device: Any) -> Backend:
    return Backend(name, importlib.import_module(namespace), device)


def _library(a: Any) -> str:
    """Return the name of the library that an argument belongs to; numpy for lists and tables."""
    if isinstance(a, np.ndarray):
        return "numpy"
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(a, torch.Tensor):
        return "torch"
    if jax is not None and isinstance(a, jax.Array):
        return "jax"
    module = type(a).__module__.partition(".")[0]
    if module in ("pandas", "polars", "pyarrow", "builtins", "scipy", "numpy"):
        return "numpy"
    return "array-api" if hasattr(a, "__array_namespace__") or module == "cupy" else "numpy"


def backend_of(*arrays: Any) -> Backend:
    """Find the array library of the arguments; numpy arrays, lists and DataFrames mix with numpy only."""
    present = [a for a in arrays if a is not None]
    libraries = {_library(a) for a in present}
    foreign = libraries - {"numpy"}
    if not foreign:
        return NUMPY
    if len(libraries) > 1:
        raise DataError(
            f"all arrays must come from one library, got {' and '.join(sorted(libraries))}. "
            "Convert them first, e.g. with `torch.as_tensor` or `np.asarray`."
        )
    name = foreign.pop()
    if name == "torch":
        import array_api_compat.torch as xp

        devices = {str(a.device) for a in present}
        if len(devices) > 1:
            raise DataError(f"all tensors must be on one device, got {sorted(devices)}. Move them with `.to(device)`.")
        return Backend("torch", xp, present[0].device)
    if name == "jax":
        import jax.numpy

        return Backend("jax", jax.numpy)
    import array_api_compat

    return Backend(name, array_api_compat.array_namespace(*present))


def log_weights(backend: Backend, weights: Array) -> Array:
    """Log of sample weights; minus infinity for 0, with zero gradient there."""
    xp = backend.xp
    # As in `logsumexp`: the logarithm of 0 has an infinite gradient, even where it is not taken.
    is_present = weights > 0
    logs = xp.log(xp.where(is_present, weights, xp.ones_like(weights)))
    return xp.where(is_present, logs, -xp.inf * xp.ones_like(weights))


def logsumexp(backend: Backend, a: Array, axis: int) -> Array:
    """Log of the sum of exponentials along `axis`; minus infinity where every term is, with zero gradient there."""
    xp = backend.xp
    if backend.name == "numpy":
        peak = a.max(axis=axis, keepdims=True)
        if peak.min() > -np.inf:
            return np.log(np.exp(a - peak).sum(axis=axis)) + peak.squeeze(axis)
        with np.errstate(divide="ignore"):
            peak = np.where(peak == -np.inf, 0.0, peak)
            return np.log(np.exp(a - peak).sum(axis=axis)) + peak.squeeze(axis)
    peak = backend.detach(xp.max(a, axis=axis, keepdims=True))
    peak = xp.where(peak == -xp.inf, xp.zeros_like(peak), peak)
    total = xp.sum(xp.exp(a - peak), axis=axis)
    # Where the sum is 0, the logarithm is that of 1: that of 0 has an infinite gradient, even where it is not taken.
    is_positive = total > 0
    log_total = xp.log(xp.where(is_positive, total, xp.ones_like(total)))
    return xp.where(is_positive, log_total + xp.squeeze(peak, axis=axis), -xp.inf * xp.ones_like(total))


def evenly_spaced(n: int, most: int) -> IntArray:
    """Return the numbers of rows of a table, evenly spaced: the first and the last of n, and at most so many.

    Examples
    --------
    >>> evenly_spaced(7, 3).tolist(), evenly_spaced(2, 3).tolist()
    ([0, 3, 6], [0, 1])
    """
    return np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def ranked(table: Any) -> FloatArray:
    """Replace each column by its ranks, scaled to lie between 0 and 1; ties share their mean rank.

    Conditional independence does not change under monotone transforms of each variable; an estimate does, and on ranks
    no row lies far from all others. By sorting, not by `scipy.stats.rankdata`: loading scipy.stats takes as long as
    ranking a million rows.

    Examples
    --------
    >>> ranked([[3.0], [1.0], [100.0]]).ravel().tolist()
    [0.5, 0.16666666666666666, 0.8333333333333334]
    """
    values = np.asarray(table, np.float64)
    columns = values[:, None] if values.ndim == 1 else values
    ranks = np.empty_like(columns)
    for j, column in enumerate(columns.T):
        ordered = np.sort(column)
        rows_below = np.searchsorted(ordered, column, "left")
        rows_up_to = np.searchsorted(ordered, column, "right")
        # Twice the mean rank, which lies in the middle of the two.
        ranks[:, j] = rows_below + rows_up_to
    return np.asarray(ranks / (2 * max(1, len(values)))).reshape(values.shape)


# Equality of results that hold arrays: by value, and hashable.


class ByValue(Printable):
    """Base of frozen dataclasses with array fields, declared with ``eq=False``.

    The comparison that dataclasses make compares tuples of fields, which asks an array for one truth value and raises;
    so does their hash. Here two objects are equal if they are of one class and all their fields are: arrays of the same
    shape and values (NaN equals NaN), dictionaries and sequences of equal parts, everything else by ``==``. Equal
    objects have equal hashes. Those of arrays say their shapes only, so that a hash costs nothing.
    """

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal."""
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(a, b) for a, b in zip(_compared(self), _compared(other), strict=True))

    def __hash__(self) -> int:
        """Hash that equal objects share."""
        return hash((type(self), *(_key(value) for value in _compared(self))))


def _compared(of: Any) -> list[Any]:
    """Return the values of the fields that decide whether two dataclasses are equal."""
    return [getattr(of, field.name) for field in fields(of) if field.compare]


def _same(a: Any, b: Any) -> bool:
    """Whether two values of a field are equal, part by part."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    # The second is what NaN does, and nothing else.
    return bool(a == b) or bool(a != a and b != b)


def _key(value: Any) -> Any:
    """Something hashable that equal values share."""
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, Mapping):
        return frozenset(value)
    if isinstance(value, list | tuple):
        return tuple(_key(part) for part in value)
    return hash(value) if value == value else "nan"
