"""Arrays of any library: which one it is, how to reach numpy, and how to get back.

numpy is the fast path and is recognised first; torch and JAX are recognised without importing them.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.errors import DataError

Array = Any
"""An array of numpy, torch, JAX or another library of the array API standard."""


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

    def to_numpy(self, a: Array) -> np.ndarray[Any, Any]:
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
    counts = weights > 0
    logs = xp.log(xp.where(counts, weights, xp.ones_like(weights)))
    return xp.where(counts, logs, -xp.inf * xp.ones_like(weights))


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
    positive = total > 0
    log_total = xp.log(xp.where(positive, total, xp.ones_like(total)))
    return xp.where(positive, log_total + xp.squeeze(peak, axis=axis), -xp.inf * xp.ones_like(total))
