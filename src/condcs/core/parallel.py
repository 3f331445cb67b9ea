"""Calls spread over the processes of this machine or the workers of a Dask cluster: the one place that knows how.

Functions of condcs compute on threads. Those with much to do (resampling tests, pairwise matrices of series,
experiments) send it elsewhere if joblib says so::

    from dask.distributed import Client

    client = Client("tcp://127.0.0.1:8786")
    with joblib.parallel_config(backend="dask"):
        result = condcs.conditional_test(xp, yp, xq, yq, n_resamples=5000, rng=0)

``backend="loky", n_jobs=4`` does the same with four processes of this machine, and ``--dask tcp://127.0.0.1:8786`` on
the command line. Two commands start a cluster on one machine (``pip install 'condcs[dask]'``)::

    dask scheduler --host 127.0.0.1 --port 8786
    dask worker tcp://127.0.0.1:8786 --nworkers auto --nthreads 1

The answer is the same wherever it is computed: random numbers are drawn by the caller, work is cut into the same
pieces, and a piece is computed on one thread. Dask gives the pieces of a lost worker to another one. Whoever reaches
a cluster can run any code on it: keep it to machines that you trust.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar
from uuid import uuid4

from condcs.core.errors import CondcsError, CondcsWarning, ParameterError, warn_caller
from condcs.core.thread_limit import one_thread

T = TypeVar("T")

CONNECT_SECONDS = 10
"""How long to wait for a scheduler, and for its first worker."""


class ClusterError(CondcsError):
    """A Dask cluster could not be reached, has no usable workers, or was lost."""


@dataclass(frozen=True)
class Workers:
    """Processes that can be given calls: those of a Dask cluster if there is a client, else of this machine."""

    count: int
    client: Any = None


class Shared(Generic[T]):
    """Something large that many calls use: sent to a worker once, and made ready there once.

    Parameters
    ----------
    make : callable
        Makes it; only this is sent.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make
        self.key = f"condcs-shared-{uuid4().hex}"
        self._lock = threading.Lock()
        self._made: list[T] = []

    @property
    def ready(self) -> T:
        """The thing itself, made when first asked for."""
        with self._lock:
            if not self._made:
                self._made.append(self.make())
            return self._made[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"make": self.make, "key": self.key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _made=[])


def active_workers(n_jobs: int | None = None) -> Workers | None:
    """Return the workers that ``joblib.parallel_config`` has put in force, or None if work is to stay on threads here.

    Parameters
    ----------
    n_jobs : int, optional
        Processes of this machine instead of the number in force. Of a cluster all workers are used.
    """
    if "joblib" not in sys.modules:
        return None
    from joblib.parallel import LokyBackend, MultiprocessingBackend, get_active_backend

    # The hint matters only where nothing was chosen: joblib's own default would be processes.
    backend, configured = get_active_backend(prefer="threads")
    client = getattr(backend, "client", None)
    if client is not None:
        return None if _inside_dask_worker() else Workers(_cluster_size(client), client)
    if isinstance(backend, LokyBackend | MultiprocessingBackend):
        count = backend.effective_n_jobs(configured if n_jobs is None else n_jobs)
        return Workers(count) if count > 1 else None
    return None


def spread(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], workers: Workers, *, ahead: str = "all"
) -> Generator[tuple[int, T], None, None]:
    """Yield (number of the call, result) of each call, in the order in which they end.

    Every call computes on one thread, so that workers never fight for cores; a call that starts calls of its own keeps
    them to itself. Closing the generator gives up what has not ended.

    Parameters
    ----------
    function : callable
        What is called.
    calls : iterable of tuple
        Positional arguments of each call; a `Shared` among them arrives as what it makes.
    workers : Workers
        Where the calls go.
    ahead : str
        How many calls are sent before results have come in, as joblib's ``pre_dispatch``. "all" suits calls that are
        small: workers that join later find something to do. Otherwise e.g. "3*n_jobs", and `calls` is used up by
        another thread.

    Raises
    ------
    ClusterError
        If the cluster is lost, or a call has brought down several workers in a row.
    """
    from joblib import Parallel, delayed, parallel_config
    from joblib.parallel import BACKENDS

    if workers.client is None and "loky" not in BACKENDS:
        warn_caller(
            "No processes can be started here: the system has no shared memory for semaphores (/dev/shm), or "
            "JOBLIB_MULTIPROCESSING is 0. The work is done in this process, with the same result.",
            CondcsWarning,
        )
        for index, arguments in enumerate(calls):
            with one_thread():
                result = function(*(a.ready if isinstance(a, Shared) else a for a in arguments))
            yield index, result
        return
    run = uuid4().hex
    futures: dict[str, Any] = {}

    def packed() -> Iterator[Any]:
        parent = 0 if workers.client is not None else os.getpid()
        for index, arguments in enumerate(calls):
            if workers.client is not None:
                arguments = tuple(_held(workers.client, futures, a) for a in arguments)
            # One tuple: joblib would put larger arguments on one worker alone, and they would be lost with it.
            yield delayed(_call)((run, parent, function, index, arguments))

    with ExitStack() as stack:
        if workers.client is None:
            stack.enter_context(parallel_config(backend="loky", n_jobs=workers.count, inner_max_num_threads=1))
        else:
            stack.enter_context(parallel_config(backend=_dask_backend(workers.client)))
        # Batches of one: results of a larger batch would all wait for its last call, and be lost with it.
        parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=ahead)
    with ExitStack() as stack:
        if workers.client is not None:
            stack.enter_context(_cluster_errors(workers.client))
        results = parallel(packed())
        try:
            # Not `yield from`: whoever closes this generator would close that one before its warning is silenced.
            while (found := next(results, None)) is not None:
                yield found
        finally:
            with warnings.catch_warnings():
                # Whoever closes the generator knows that some calls have not ended.
                warnings.simplefilter("ignore", UserWarning)
                results.close()


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


@contextmanager
def dask_cluster(address: str) -> Iterator[Workers]:
    """Use the workers of a Dask cluster within a ``with`` block, as ``joblib.parallel_config(backend="dask")`` does.

    Parameters
    ----------
    address : str
        Address of the scheduler, e.g. ``"tcp://127.0.0.1:8786"``.

    Raises
    ------
    ClusterError
        If nobody answers, or the workers do not have this version of condcs.
    """
    from joblib import parallel_config

    client = _connected(address)
    try:
        workers = Workers(_cluster_size(client), client)
        _check_versions(client)
        with parallel_config(backend="dask", client=client):
            yield workers
    finally:
        client.close()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(packed: tuple[str, int, Callable[..., T], int, tuple[Any, ...]]) -> tuple[int, T]:
    """Answer one call, in a worker."""
    run, parent, function, index, arguments = packed
    if parent:
        _end_with(parent)
        arguments = tuple(_kept(run, a) if isinstance(a, Shared) else a for a in arguments)
    with one_thread():
        return index, function(*(a.ready if isinstance(a, Shared) else a for a in arguments))


_kept_run: dict[str, dict[str, Shared[Any]]] = {}


def _kept(run: str, shared: Shared[Any]) -> Shared[Any]:
    """Return what an earlier call of the same run brought to this process: that one has been made ready."""
    if run not in _kept_run:
        _kept_run.clear()
        _kept_run[run] = {}
    return _kept_run[run].setdefault(shared.key, shared)


def _held(client: Any, futures: dict[str, Any], argument: Any) -> Any:
    """Return the future of something shared. It is a task, not scattered data: Dask makes it again if it is lost."""
    if not isinstance(argument, Shared):
        return argument
    if argument.key not in futures:
        futures[argument.key] = client.submit(_itself, argument, key=argument.key)
    return futures[argument.key]


def _itself(shared: Shared[T]) -> Shared[T]:
    return shared


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """End this worker soon after its parent: one that was killed cannot tell its workers to stop waiting for work."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _inside_dask_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _dask_backend(client: Any) -> Any:
    """Return joblib's Dask backend, with three faults mended.

    It would wait forever for a call that Dask has given up, leave calls that nobody waits for to the workers, and
    compute in this process while only one worker with one thread is there.
    """
    import asyncio

    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        async def _collect(self) -> None:
            while self._continue:
                async for future, result in self.waiting_futures:
                    self._results.pop(future)
                    report = self._callbacks.pop(future)
                    # An error of Dask itself, as (type, error, traceback); those of a call come as its result.
                    report(result[1] if future.status == "error" else result)
                await asyncio.sleep(0.01)

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, int(super().effective_n_jobs(n_jobs)))

        def abort_everything(self, ensure_ready: bool = True) -> None:
            super().abort_everything(ensure_ready)
            if self.client.status == "running":
                self.client.cancel(list(self._results))

    return Backend(client=client)


def _connected(address: str) -> Any:
    connect: Any
    try:
        from distributed import Client as connect
    except ModuleNotFoundError:
        raise ParameterError("`dask` must have dask.distributed. Install it: pip install 'condcs[dask]'.") from None
    if not isinstance(address, str) or "://" not in address:
        raise ParameterError(
            f"`dask` must be the address of a scheduler, got {address!r}. Pass e.g. tcp://127.0.0.1:8786."
        )
    try:
        return connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    # AssertionError: what distributed raises now and then where a client is given up while it starts.
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        raise ClusterError(
            f"`dask` must be the address of a running scheduler, got {address!r}: {_first_line(error)}. Start one with "
            "`dask scheduler --host 127.0.0.1 --port 8786`."
        ) from None


def _cluster_size(client: Any) -> int:
    with _cluster_errors(client):
        try:
            if not client.ncores():
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            address = client.scheduler.address
            raise ClusterError(
                f"The Dask scheduler at {address} must have workers, got none in {CONNECT_SECONDS} s. Start some with "
                f"`dask worker {address} --nworkers auto --nthreads 1`."
            ) from None
        return int(sum(client.ncores().values()))


def _version() -> str:
    return str(sys.modules["condcs"].__version__)


def _check_versions(client: Any) -> None:
    try:
        found = client.run(_version)
    except ImportError as error:
        raise ClusterError(f"Dask workers must have condcs {_version()} installed: {_first_line(error)}.") from None
    wrong = sorted({version for version in found.values() if version != _version()})
    if wrong:
        raise ClusterError(f"Dask workers must have condcs {_version()} installed, got {', '.join(wrong)}.")


@contextmanager
def _cluster_errors(client: Any) -> Iterator[None]:
    """Say in plain words what became of a cluster."""
    import asyncio
    import concurrent.futures

    import dask
    from distributed import CancelledError, KilledWorker

    address = client.scheduler.address if client.scheduler is not None else "its address"
    cancelled = (CancelledError, asyncio.CancelledError, concurrent.futures.CancelledError)
    try:
        # Labels and pools are in the graph on purpose, so that they outlive a worker.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            yield
    except KilledWorker as error:
        raise ClusterError(
            f"{error.allowed_failures + 1} Dask workers died of one and the same call. They may be short of memory: "
            "start fewer of them, or look at their messages."
        ) from None
    except cancelled:
        raise ClusterError(f"The Dask scheduler at {address} was lost. Start it and its workers again.") from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
