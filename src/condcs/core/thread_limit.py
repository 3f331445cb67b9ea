"""One thread for everything within a block: ours, BLAS and OpenMP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from condcs.core.settings import config_context


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within a ``with`` block: ours, BLAS and OpenMP, and no processes.

    Sums over threads round differently from sums over one. Blocks on several threads of a process may overlap.
    """
    from joblib import parallel_config

    _thread_limit.enter()
    try:
        with config_context(n_threads=1), parallel_config(backend="sequential"):
            yield
    finally:
        _thread_limit.leave()


class _ThreadLimit:
    """BLAS and OpenMP on one thread from the first that enters to the last that leaves.

    The limit of BLAS is the process's, but a Dask worker may run several calls on threads: each on its own would
    restore the old limit while another still counts on the new one. That of OpenMP belongs to each thread. Each limit
    is set on its own libraries alone: `threadpool_limits(user_api=...)` sets only those, but on leaving it restores
    all, to what the thread that entered had found.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = threading.Lock(), 0, ExitStack()
        self._own = threading.local()

    def enter(self) -> None:
        from threadpoolctl import ThreadpoolController

        libraries = ThreadpoolController()
        with self._lock:
            if self._inside == 0:
                self._limit.enter_context(libraries.select(user_api="blas").limit(limits=1))
            self._inside += 1
        own = libraries.select(user_api="openmp").limit(limits=1)
        self._own.limits = [*getattr(self._own, "limits", []), own]

    def leave(self) -> None:
        self._own.limits.pop().restore_original_limits()
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


_thread_limit = _ThreadLimit()
