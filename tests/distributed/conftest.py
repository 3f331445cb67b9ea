"""A real cluster on this machine: a scheduler and two workers, started by the commands that the manual gives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

ALLOWED_FAILURES = 2
"""How many workers may die with a call in hand; the next one makes Dask give it up."""


def start(*words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(ALLOWED_FAILURES)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "dask", *words, "--no-dashboard"], env=environment, **quiet)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_scheduler() -> tuple[subprocess.Popen[bytes], str]:
    """Start a scheduler on a free port and wait until it listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start("scheduler", "--host", "127.0.0.1", "--port", str(port))
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"tcp://127.0.0.1:{port}"
        assert process.poll() is None
        time.sleep(0.1)


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of a scheduler with two worker processes; a dead one is replaced."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    scheduler, address = start_scheduler()
    workers = start("worker", address, "--nworkers", "2", "--nthreads", "1")
    try:
        with distributed.Client(address, set_as_default=False) as client:
            yield client
    finally:
        stop(workers)
        stop(scheduler)


@pytest.fixture
def cluster(client: Any) -> str:
    """Address of the scheduler, with both workers alive."""
    client.wait_for_workers(2)
    return str(client.scheduler.address)
