"""Tests side by side on the same samples: ours, the rivals, and what their rejections say about level and power."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._inference.conditional_tests import conditional_test
from condcs._inference.independence_tests import independence_test
from condcs_reproduction.level_scenarios import Pair
from condcs_reproduction.rivals import RIVALS, indicators
from condcs_reproduction.spec import Result, Results

OURS: Mapping[str, Mapping[str, Any]] = {
    "condcs": {},
    "condcs, paper": {"null": "permutation"},
    "condcs, local": {"null": "local"},
}
"""Options of `conditional_test`: the default first."""

DEFAULT = "condcs"
METHODS = (*OURS, *RIVALS)
COLOURS = {
    "condcs": "#d9621c",
    "condcs, paper": "#f0b48a",
    "condcs, local": "#c98a63",
    "GCM on ranks": "#2b6cb0",
    "PCM": "#7fb0de",
    "CP": "#38a169",
    "RCIT": "#805ad5",
    "KCI": "#b794f4",
    "ContextMMD": "#8a6d3b",
    "boosted classifier": "#718096",
}

NORMAL_QUANTILE = 1.959964

BROKEN = 0.10
"""A level is broken if its 95% interval lies above this."""


def conditional_pvalue(method: str, pair: Pair, n_resamples: int, rng: np.random.Generator) -> Result:
    """Test with one method whether p(y|x) is the same in both samples."""

    def ours() -> float:
        options: dict[str, Any] = {"kernel_x": _kernels(pair.x_labels), "kernel_y": _kernels(pair.y_labels)}
        options |= {"n_resamples": n_resamples, "rng": rng, "n_jobs": 1, **OURS[method]}
        return conditional_test(pair.xp, pair.yp, pair.xq, pair.yq, **options).pvalue

    def rival() -> float:
        y = indicators(np.vstack([pair.yp, pair.yq]), pair.y_labels)
        x = indicators(np.vstack([pair.xp, pair.xq]), pair.x_labels)
        group = np.repeat([0.0, 1.0], [len(pair.xp), len(pair.xq)])[:, None]
        return RIVALS[method](y, group, x, rng)

    return _timed(ours if method in OURS else rival)


def independence_pvalue(
    method: str, variables: tuple[FloatArray, FloatArray, FloatArray], n_resamples: int, rng: np.random.Generator
) -> Result:
    """Test with one method whether x and y are independent given z."""
    x, y, z = variables
    if method == DEFAULT:
        return _timed(lambda: independence_test(x, y, given=z, n_resamples=n_resamples, rng=rng, n_jobs=1).pvalue)
    return _timed(lambda: RIVALS[method](y, x, z, rng))


def _kernels(labels: Sequence[bool]) -> list[str]:
    return ["delta" if label else "gaussian" for label in labels]


def _timed(test: Any) -> Result:
    """Return the p-value, the seconds, which alone differ between runs, and whether there was a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        pvalue = float(test())
        seconds = time.perf_counter() - start
    return {"pvalue": pvalue, "seconds": round(seconds, 4), "warned": bool(caught)}


@dataclass(frozen=True)
class Rate:
    """How often a test rejected."""

    rejected: int
    trials: int

    @property
    def value(self) -> float:
        """Share of trials that rejected."""
        return self.rejected / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval."""
        square = NORMAL_QUANTILE**2
        middle = (self.rejected + square / 2) / (self.trials + square)
        half = NORMAL_QUANTILE * math.sqrt(self.trials * self.value * (1 - self.value) + square / 4)
        return middle - half / (self.trials + square), middle + half / (self.trials + square)

    @property
    def broken(self) -> bool:
        """Whether this level, of a true hypothesis at 0.05, is too high beyond chance."""
        return self.interval[0] > BROKEN


def rate_of(results: Results, case: str, level: float) -> Rate | None:
    """Count the rejections of a case; None if it has not been run."""
    pvalues = [trial["pvalue"] for trial in results.get(case, {}).values()]
    return Rate(sum(p <= level for p in pvalues), len(pvalues)) if pvalues else None
