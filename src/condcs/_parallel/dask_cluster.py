"""A Dask cluster: its address, its workers, the calls that they answer, and what became of it if it fails."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from condcs._core.errors import CondcsError, ParameterError
from condcs._core.version import condcs_version
from condcs._core.vocabulary import named
from condcs._parallel.spreading import Shared, Workers, answer

T = TypeVar("T")

CONNECT_SECONDS = 10
"""How long to wait for a scheduler, and for its first worker."""


class ClusterError(CondcsError):
    """A Dask cluster could not be reached, has no usable workers, or was lost."""


@contextmanager
def dask_cluster(address: str) -> Iterator[Workers]:
    """Use the workers of a Dask cluster within a ``with`` block, as ``joblib.parallel_config(backend="dask")`` does.

    The address is that of the scheduler, e.g. ``"tcp://127.0.0.1:8786"``; a `ClusterError` is raised if there is
    none at that address, or if its workers do not have this version of condcs.
    """
    from joblib import parallel_config

    client = _connected(address)
    try:
        workers = Workers(cluster_size(client), client)
        _check_versions(client)
        with parallel_config(backend="dask", client=client):
            yield workers
    finally:
        client.close()


def cluster_size(client: Any) -> int:
    """Return how many threads the workers have, or wait for the first of them."""
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


def inside_worker() -> bool:
    """Whether this is a call on a worker, whose own work stays where it is."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def cluster_results(
    function: Callable[..., T], calls: Iterable[tuple[Any, ...]], client: Any, ahead: int | None
) -> Generator[tuple[int, T], None, None]:
    """Yield (number of the call, result) of each call, in the order in which they end: see `spread`."""
    import distributed

    as_completed: Any = distributed.as_completed
    shared: dict[str, Any] = {}
    numbers: dict[Any, int] = {}
    waiting = enumerate(calls)
    running = as_completed(loop=client.loop, with_results=True)

    def send(count: int | None) -> None:
        for index, arguments in islice(waiting, count):
            positions = [position for position, argument in enumerate(arguments) if isinstance(argument, Shared)]
            held = [_held(client, shared, arguments[position]) for position in positions]
            call = _Call(function, tuple(None if isinstance(a, Shared) else a for a in arguments), tuple(positions))
            # Not pure: equal calls are calls of their own.
            future = client.submit(call, *held, pure=False)
            numbers[future] = index
            running.add(future)

    with _cluster_errors(client):
        try:
            send(ahead)
            for future, result in running:
                index = numbers.pop(future)
                # Errors of a call have been raised: this is one of Dask itself. The status does not tell: a future is
                # pending again if its worker is lost after the result has come.
                if isinstance(result, BaseException):
                    raise result
                yield index, result
                send(1)
        finally:
            if numbers and client.status == "running":
                client.cancel(list(numbers))


@dataclass(frozen=True)
class _Call:
    """A call as it travels; opaque to Dask, which would look for tasks in plain tuples."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    positions: tuple[int, ...]

    def __call__(self, *shared: Shared[Any]) -> Any:
        shared_arguments = dict(zip(self.positions, shared, strict=True))
        return answer(self.function, [shared_arguments.get(position, a) for position, a in enumerate(self.arguments)])


def _held(client: Any, futures: dict[str, Any], shared: Shared[Any]) -> Any:
    """Return the future of something shared. It is a task, not scattered data: Dask makes it again if it is lost."""
    if shared.key not in futures:
        futures[shared.key] = client.submit(_itself, shared, key=shared.key)
    return futures[shared.key]


def _itself(shared: Shared[T]) -> Shared[T]:
    return shared


def _connected(address: str) -> Any:
    if not isinstance(address, str) or "://" not in address:
        raise ParameterError(
            f"{named('dask')} must be the address of a scheduler, got {address!r}. Pass e.g. tcp://127.0.0.1:8786."
        )
    connect: Any
    try:
        from distributed import Client as connect
    except ModuleNotFoundError:
        raise ParameterError(
            f"{named('dask')} needs dask.distributed, which is not installed. Install it: pip install 'condcs[dask]'."
        ) from None
    try:
        with _no_garbage_collection():
            return connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    # AssertionError: what distributed raises now and then where a client is given up while it starts.
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        raise ClusterError(
            f"{named('dask')} must be the address of a running scheduler, got {address!r}: {_first_line(error)}. Start "
            "one with `dask scheduler --host 127.0.0.1 --port 8786`."
        ) from None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage while a client starts.

    The start holds a lock of distributed. A client that was given up and is collected at that moment closes itself, and
    waits for the same lock, in the same thread, for ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_versions(client: Any) -> None:
    version = condcs_version()
    try:
        worker_versions = client.run(condcs_version)
    except ImportError as error:
        raise ClusterError(f"Dask workers must have condcs {version} installed: {_first_line(error)}.") from None
    wrong = sorted({other for other in worker_versions.values() if other != version})
    if wrong:
        raise ClusterError(
            f"Dask workers must have condcs {version} installed, got {', '.join(wrong)}. Install the same version "
            "on all of them."
        )


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
            f"{error.allowed_failures + 1} Dask workers died while they answered the same call. They may be short of "
            "memory: start fewer of them, or look at their messages."
        ) from None
    except cancelled:
        raise ClusterError(f"The Dask scheduler at {address} was lost. Start it and its workers again.") from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
