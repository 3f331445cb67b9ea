"""The calls themselves: where they go, and how their results come back."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from condcs._core.errors import CondcsWarning, warn_caller
from condcs._core.settings import current_settings, one_blas_thread, one_thread

T = TypeVar("T")


@dataclass(frozen=True)
class Workers:
    """Processes that can be given calls: those of a Dask cluster if there is a client, else of this machine."""

    count: int
    client: Any = None


class Shared(Generic[T]):
    """Something large that many calls use: only `make` is sent to a worker, once, and called there once."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make
        self.key = f"condcs-shared-{uuid4().hex}"
        self._lock = threading.Lock()
        self._instance: list[T] = []

    @property
    def ready(self) -> T:
        """The thing itself, made when first asked for."""
        with self._lock:
            if not self._instance:
                self._instance.append(self.make())
            return self._instance[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"make": self.make, "key": self.key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _instance=[])


def active_workers(n_jobs: int | None = None) -> Workers | None:
    """Return the workers that ``joblib.parallel_config`` has chosen, or None if work is to stay on threads here.

    `n_jobs` processes of this machine take the place of the number that was configured; of a cluster all are used.
    """
    if "joblib" not in sys.modules:
        return None
    from joblib.parallel import get_active_backend

    # The hint matters only where nothing was chosen: joblib's own default would be processes.
    backend, configured = get_active_backend(prefer="threads")
    client = getattr(backend, "client", None)
    if client is not None:
        from condcs._parallel.dask_cluster import cluster_size, inside_worker

        return None if inside_worker() else Workers(cluster_size(client), client)
    # Backends of others, which spread calls in ways of their own, are left alone.
    if _uses_threads(backend) or not type(backend).__module__.startswith("joblib."):
        return None
    count = backend.effective_n_jobs(configured if n_jobs is None else n_jobs)
    return Workers(count) if count > 1 else None


def spread(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], workers: Workers, *, ahead: int | None = None
) -> Generator[tuple[int, T], None, None]:
    """Yield (number of the call, result) of each call, in the order in which they end.

    Every call computes on one thread, so that workers never fight for cores; a call that starts calls of its own keeps
    them to itself. A `Shared` among the arguments of a call arrives as what it makes. Closing the generator gives up
    what has not ended. A `ClusterError` says that the cluster is lost, or that a call brought down several workers.

    By default all calls are sent at once: workers that join later find something to do. Of calls that hold much, only
    so many per worker are sent `ahead` of results; another thread may then use them up.
    """
    if workers.client is not None:
        from condcs._parallel.dask_cluster import cluster_results

        return cluster_results(function, calls, workers.client, None if ahead is None else ahead * workers.count)
    if _processes_can_be_started():
        return _process_results(function, calls, workers.count, "all" if ahead is None else f"{ahead}*n_jobs")
    warn_caller(
        "No processes can be started here: the system has no shared memory for semaphores (/dev/shm), or "
        "JOBLIB_MULTIPROCESSING is 0. The work is done in this process, with the same result.",
        CondcsWarning,
    )
    return ((index, answer(function, arguments)) for index, arguments in enumerate(calls))


def answer(function: Callable[..., T], arguments: Iterable[Any]) -> T:
    """Answer a call on one thread."""
    with one_thread():
        return function(*(a.ready if isinstance(a, Shared) else a for a in arguments))


def in_order(results: Generator[tuple[int, T], None, None]) -> Generator[T, None, None]:
    """Yield the results of `spread` in the order of the calls, each as soon as those before it have come in."""
    early: dict[int, T] = {}
    following = 0
    with closing(results):
        for index, result in results:
            early[index] = result
            while following in early:
                yield early.pop(following)
                following += 1


def _processes_can_be_started() -> bool:
    from joblib import parallel_config
    from joblib.parallel import get_active_backend

    with warnings.catch_warnings():
        # Where there are no processes, joblib warns and takes threads.
        warnings.simplefilter("ignore", UserWarning)
        with parallel_config(backend="loky"):
            return not _uses_threads(get_active_backend()[0])


def _uses_threads(backend: Any) -> bool:
    return bool(getattr(backend, "uses_threads", False))


def _process_results(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], count: int, ahead: str
) -> Generator[tuple[int, T], None, None]:
    from joblib import Parallel, delayed, parallel_config

    run, parent = uuid4().hex, os.getpid()
    packed = (delayed(_call)(run, parent, function, index, arguments) for index, arguments in enumerate(calls))
    with parallel_config(backend="loky", n_jobs=count, inner_max_num_threads=1):
        # Batches of one: results of a larger batch would all wait for its last call, and be lost with it.
        parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=ahead)
    results: Iterator[tuple[int, T]] = parallel(packed)
    try:
        # Not `yield from`: whoever closes this generator would close that one before its warning is silenced.
        while (numbered_result := next(results, None)) is not None:
            yield numbered_result
    finally:
        with warnings.catch_warnings():
            # Whoever closes the generator knows that some calls have not ended.
            warnings.simplefilter("ignore", UserWarning)
            results.close()  # type: ignore[attr-defined]


def _call(run: str, parent: int, function: Callable[..., T], index: int, arguments: tuple[Any, ...]) -> tuple[int, T]:
    """Answer one call, in a process of this machine."""
    _end_with(parent)
    return index, answer(function, [_shared_in_process(run, a) if isinstance(a, Shared) else a for a in arguments])


_shared_by_run: dict[str, dict[str, Shared[Any]]] = {}


def _shared_in_process(run: str, shared: Shared[Any]) -> Shared[Any]:
    """Return what an earlier call of the same run brought to this process: that one has been made ready."""
    if run not in _shared_by_run:
        _shared_by_run.clear()
        _shared_by_run[run] = {}
    return _shared_by_run[run].setdefault(shared.key, shared)


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """End this worker soon after its parent: one that was killed cannot tell its workers to stop waiting for work."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_threads(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], n_threads: int | None = None
) -> Iterator[T]:
    """Yield the result of each call in the order of the calls, a few of which are taken up ahead of time."""
    n_threads = current_settings().n_threads if n_threads is None else n_threads
    with one_blas_thread():
        if n_threads == 1:
            yield from (function(*call) for call in calls)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            pending: deque[Future[T]] = deque()
            for call in calls:
                pending.append(pool.submit(copy_context().run, partial(function, *call)))
                if len(pending) > n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
