"""Coverage: of intervals, what samples of that size show on average; of error bars of anchors, the exact value."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import condcs
from condcs._core.arrays import FloatArray

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


SAMPLED_ROWS, DATASETS, SEEDS = 20_000, 4, 10
"""Pooled rows, data sets of each kind, and draws of anchors from each."""

# Kind, columns of x, bandwidths in units of the median rule, and the relative error asked for.
SAMPLED_CASES: tuple[tuple[str, int, float, float], ...] = (
    ("normal", 1, 0.1, 0.05),
    ("normal", 5, 0.35, 0.05),
    ("weights", 3, 0.35, 0.05),
    ("categories", 4, 0.5, 0.05),
    ("normal", 1, 0.35, 0.01),
    ("normal", 5, 1.0, 0.01),
    ("imbalanced", 3, 1.0, 0.01),
    ("normal", 20, 1.0, 0.01),
    ("normal", 1, 2.0, 0.01),
    ("heavy tails", 2, 2.0, 0.01),
    ("weights", 5, 2.0, 0.01),
    ("normal", 20, 2.0, 0.01),
)


def sampled() -> None:
    """Say how often two standard errors of a sampled divergence cover the exact value."""
    runs = DATASETS * SEEDS
    print(
        f"conditional_cs, {SAMPLED_ROWS:,} pooled rows, {runs} draws: how often two standard errors cover the exact D"
    )
    print(f"  {'kind':<12}{'d':>3}{'medians':>9}{'target':>8}{'covered':>9}{'error':>8}{'anchors':>9}{'seconds':>9}")
    for place, (kind, columns, factor, target) in enumerate(SAMPLED_CASES):
        covered, errors, anchors = [], [], []
        start = time.process_time()
        for number in range(DATASETS):
            samples, options = _two_samples(kind, columns, np.random.default_rng((7, place, number)))
            xp, yp, xq, yq = samples
            options["bandwidth_y"] = factor * condcs.bandwidth(yp, yq)
            numbers = slice(1, None) if kind == "categories" else slice(None)
            widths = np.ones(columns)
            widths[numbers] = factor * condcs.bandwidth(xp[:, numbers], xq[:, numbers])
            options["bandwidth_x"] = widths
            exact = condcs.conditional_cs(*samples, **options, method="exact")
            for seed in range(SEEDS):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    method = condcs.Sampled(target, max_seconds=600, rng=seed)
                    found = condcs.conditional_cs(*samples, **options, method=method)
                covered.append(abs(found - exact) <= 2 * found.standard_error + 1e-10 * abs(exact))
                errors.append(found.standard_error / abs(found))
                anchors.append(found.n_anchors)
        row = f"{np.mean(covered):>9.3f}{np.mean(errors):>8.2%}{np.mean(anchors):>9,.0f}"
        print(f"  {kind:<12}{columns:>3}{factor:>9}{target:>8.0%}{row}{time.process_time() - start:>9.0f}", flush=True)


def _two_samples(kind: str, columns: int, rng: np.random.Generator) -> tuple[list[FloatArray], dict[str, Any]]:
    """Draw (xp, yp, xq, yq) and the options that go with them."""
    rows = (SAMPLED_ROWS // 10, SAMPLED_ROWS - SAMPLED_ROWS // 10) if kind == "imbalanced" else (SAMPLED_ROWS // 2,) * 2
    samples: list[FloatArray] = []
    for second, n in enumerate(rows):
        x = rng.standard_t(2, size=(n, columns)) if kind == "heavy tails" else rng.normal(size=(n, columns))
        x += 0.2 * second
        y = np.sin(x[:, -1]) + 0.5 * x.mean(axis=1) + 0.3 * second * x[:, -1] + 0.5 * rng.normal(size=n)
        if kind == "categories":
            x[:, 0] = rng.integers(8, size=n) // 2
            y += 0.5 * x[:, 0]
        samples += [x, y]
    if kind == "weights":
        return samples, {name: rng.lognormal(size=n) for name, n in zip(("weights_p", "weights_q"), rows, strict=True)}
    return samples, {"kernel_x": ["delta", *["gaussian"] * (columns - 1)]} if kind == "categories" else {}
