"""One thread within a block: of BLAS, or of everything (ours, BLAS and OpenMP)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from condcs._core.settings import config_context


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
    own = libraries.select(user_api="openmp").limit(limits=1)
    try:
        with config_context(n_threads=1), parallel_config(backend="sequential"):
            yield
    finally:
        own.restore_original_limits()
        _blas_limit.leave()


class _BlasLimit:
    """BLAS on one thread from the first that enters to the last that leaves.

    The limit is the process's: if each block restored what it had found, one could lift the limit while another still
    counts on it, or leave it behind for good. It is set on the libraries of BLAS alone: `threadpool_limits` with
    ``user_api`` sets only those, but on leaving it restores all, to what the thread that entered had found.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._limits = threading.Lock(), 0, list[Any]()

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
