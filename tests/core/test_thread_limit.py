"""Limits on threads: set by the first block that needs them, lifted by the last, whatever order they leave in."""

from __future__ import annotations

import threading

import pytest
import threadpoolctl

from condcs._core.settings import one_blas_thread, one_thread


def threads(api: str) -> list[int]:
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == api]


@pytest.mark.parametrize("outer", [one_thread, one_blas_thread])
@pytest.mark.parametrize("inner", [one_thread, one_blas_thread])
def test_overlapping_blocks(outer, inner):
    """The first to leave does not lift the limit while the other still counts on it; the last one does."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with outer():
            inside.set()
            leave.wait(30)

    blas = threadpoolctl.ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        before = threads("blas"), threads("openmp")
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(30)
        with inner():
            leave.set()
            thread.join()
            assert set(threads("blas")) == {1}
        assert (threads("blas"), threads("openmp")) == before


def test_limit_of_one_thread_does_not_leak_to_another():
    """OpenMP keeps a number per thread: the one who leaves last gets back its own, not what the first one had."""
    import sklearn.neighbors  # noqa: F401 (brings an OpenMP library)

    openmp = threadpoolctl.ThreadpoolController().select(user_api="openmp")
    assert openmp.lib_controllers
    inside, leave = threading.Event(), threading.Event()

    def other():
        with openmp.limit(limits=1), one_thread():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with openmp.limit(limits=3):
        thread.start()
        inside.wait(30)
        with one_thread():
            leave.set()
            thread.join()
        assert {pool["num_threads"] for pool in openmp.info()} == {3}
