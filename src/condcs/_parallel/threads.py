"""Calls on threads of this process, their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from condcs._core.settings import current_settings
from condcs._core.thread_limit import one_blas_thread

T = TypeVar("T")


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
