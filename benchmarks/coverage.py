"""How often does the interval of a divergence cover what samples of that size show on average."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import condcs

FloatArray = np.ndarray[Any, Any]

ROWS, RUNS = 200, 100
SHIFT = 0.5
"""By how much normal x moves between the samples."""


def _normal(rng: np.random.Generator, second: bool) -> FloatArray:
    return np.asarray(rng.normal(size=ROWS) + SHIFT * second)


def _uniform(rng: np.random.Generator, second: bool) -> FloatArray:
    return np.asarray(rng.uniform(-1, 1, size=ROWS))


CASES: dict[str, tuple[Callable[..., FloatArray], Callable[[FloatArray, bool, FloatArray], FloatArray]]] = {
    "constant change, uniform x": (_uniform, lambda x, second, e: np.sin(2 * x) + 0.5 * second + 0.5 * e),
    "constant change, normal x": (_normal, lambda x, second, e: x + 0.7 * second + e),
    "change of slope, uniform x": (_uniform, lambda x, second, e: (1 - 1.5 * second) * x + 0.5 * e),
    "change of slope, normal x": (_normal, lambda x, second, e: (1 - second) * x + e),
}


def main() -> None:
    print(f"conditional_test, {ROWS} + {ROWS} rows, {RUNS} samples: estimates, and coverage of intervals of 95%")
    for place, (name, (inputs, response)) in enumerate(CASES.items()):
        found = []
        for run in range(RUNS):
            rng = np.random.default_rng((place, run))
            samples = []
            for second in (False, True):
                x = inputs(rng, second)
                samples += [x, response(x, second, rng.normal(size=ROWS))]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = condcs.conditional_test(*samples, n_resamples=99, rng=run, n_jobs=1)
                found.append(result.estimate(n_resamples=120, rng=run))
        values, low, high = np.array(found).T
        covered = np.mean((low <= values.mean()) & (values.mean() <= high))
        print(f"  {name:28s} mean {values.mean():.3f}, deviation {values.std():.3f}, coverage {covered:.2f}")
