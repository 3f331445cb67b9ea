"""How work is spread over threads and tiles. No setting changes a result beyond rounding."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any

from condcs._core.errors import ParameterError, public


@dataclass(frozen=True)
class Settings:
    """Execution settings."""

    n_threads: int  # of the tiled CPU path
    # Rows and columns of one tile: 256 x 256 doubles, half a megabyte, stay in a core's second-level cache.
    tile: int = 256


def _default_threads() -> int:
    """Return the threads that ``CONDCS_NUM_THREADS`` asks for, or else all cores."""
    threads = os.environ.get("CONDCS_NUM_THREADS", "").strip()
    if threads.isdecimal() and int(threads) > 0:
        return int(threads)
    if threads:
        raise ParameterError(
            f"`CONDCS_NUM_THREADS` must be a positive integer, got {threads!r}. "
            "Set it to e.g. 2, or unset it to use all cores."
        )
    return cores()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_settings: ContextVar[Settings | None] = ContextVar("condcs_settings", default=None)


def current_settings() -> Settings:
    """Return the settings of the enclosing `config_context`, or else the defaults of the machine."""
    settings = _settings.get()
    if settings is None:
        settings = Settings(n_threads=_default_threads())
        _settings.set(settings)
    return settings


@public
@contextlib.contextmanager
def config_context(*, n_threads: int | None = None, tile: int | None = None) -> Iterator[Settings]:
    """Set threads and tile size within a ``with`` block.

    Results do not depend on either beyond rounding (1e-12), and not at all on the number of threads.

    Parameters
    ----------
    n_threads : int, optional
        Threads of the tiled CPU path; by default all cores this process may use, or ``CONDCS_NUM_THREADS``.
    tile : int, optional
        Rows and columns of one tile.

    Examples
    --------
    >>> with config_context(n_threads=1) as settings:
    ...     settings.n_threads
    1
    """
    for name, value in (("n_threads", n_threads), ("tile", tile)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1):
            raise ParameterError(
                f"config_context: `{name}` must be a positive integer, got {value!r}. Pass e.g. {name}=2."
            )
    outer = current_settings()
    settings = replace(outer, n_threads=int(n_threads or outer.n_threads), tile=int(tile or outer.tile))
    token = _settings.set(settings)
    try:
        yield settings
    finally:
        _settings.reset(token)


# One thread within a block: of BLAS, or of everything (ours, BLAS and OpenMP).


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread within a ``with`` block; blocks on several threads of a process may overlap.

    For products too small for BLAS threads: they cost more than they bring, fight with ours for the same cores, and
    their last digits would depend on how they are split.
    """
    _blas_limit.enter(_blas())
    try:
        yield
    finally:
        _blas_limit.leave()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within a ``with`` block: ours, BLAS and OpenMP, and no processes.

    Sums over threads round differently from sums over one. Blocks on several threads of a process may overlap.
    """
    from joblib import parallel_config
    from threadpoolctl import ThreadpoolController

    # Looked up afresh: what a block will call may have been loaded a moment ago.
    libraries = ThreadpoolController()
    _blas_limit.enter(libraries.select(user_api="blas"))
    # That of OpenMP belongs to each thread.
    openmp_limit = libraries.select(user_api="openmp").limit(limits=1)
    try:
        with config_context(n_threads=1), parallel_config(backend="sequential"):
            yield
    finally:
        openmp_limit.restore_original_limits()
        _blas_limit.leave()


class _BlasLimit:
    """BLAS on one thread from the first that enters to the last that leaves.

    The limit is the process's: if each block restored what it had found, one could lift the limit while another still
    counts on it, or leave it behind for good. It is set on the libraries of BLAS alone: `threadpool_limits` with
    ``user_api`` sets only those, but on leaving it restores all, to what the thread that entered had found.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # blocks that have been entered and not left
        self._limits = list[Any]()  # set by those, the last one to be lifted first

    def enter(self, libraries: Any) -> None:
        with self._lock:
            if any(library.num_threads != 1 for library in libraries.lib_controllers):
                self._limits.append(libraries.limit(limits=1))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            while self._inside == 0 and self._limits:
                self._limits.pop().restore_original_limits()


_blas_limit = _BlasLimit()


@lru_cache(maxsize=1)
def _blas() -> Any:
    """Return the libraries of BLAS that numpy, scipy and compiled code call."""
    # Only a library that is loaded is found.
    import scipy.linalg.cython_blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
