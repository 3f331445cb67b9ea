"""Fixtures shared by all tests: array libraries, golden values, and the dense formula as an oracle."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# A shell that starts the tests in the background, or nohup, has signals ignored, and so do the processes that tests
# start and then interrupt.
for name in ("SIGINT", "SIGHUP"):
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)

GOLDEN = Path(__file__).parent / "golden" / "estimators.json"


@dataclass(frozen=True)
class Library:
    """An array library under test."""

    name: str
    asarray: Callable[..., Any]

    def to_numpy(self, a: Any) -> np.ndarray:
        return np.asarray(a.detach() if self.name == "torch" else a)


# JAX compiles every function anew for every shape.
@pytest.fixture(params=["numpy", "torch", pytest.param("jax", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Each array library in turn, in double precision."""
    context: Any = nullcontext()
    if request.param == "numpy":
        made = Library("numpy", np.asarray)
    elif request.param == "torch":
        torch = pytest.importorskip("torch")
        made = Library("torch", torch.as_tensor)
    else:
        jax = pytest.importorskip("jax")
        made = Library("jax", jax.numpy.asarray)
        context = jax.enable_x64(True)
    with context:
        yield made


def golden_cases() -> list[Any]:
    """One parameter per golden case."""
    return [pytest.param(case, id=f"case{case['seed']}") for case in json.loads(GOLDEN.read_text(encoding="utf-8"))]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
