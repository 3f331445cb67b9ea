"""``python -m benchmarks jumps``: how often true hypotheses are rejected where the density of x and the mean of y jump.

Both jump at the same places, so that both lines of defence of the default test would be wrong there in the same way.
What jumps, and how, was written down before the first run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

import condcs
from condcs._core.arrays import FloatArray

TRIALS = 40
# Of a rate of .10 among so many: the table is printed with it.
STANDARD_ERROR = sqrt(0.10 * 0.90 / TRIALS)
TILT = 0.7
"""The density of the samples is proportional to exp(+tilt) and exp(-tilt) times a step of height 1 or -1."""


@dataclass(frozen=True)
class Jumps:
    """A true hypothesis: both the density of x and the mean of y follow the heights of steps."""

    title: str
    rows: int
    columns: int
    heights: Callable[[FloatArray], FloatArray]
    """From x (n, d), uniform between 0 and 1, to heights (n,) between -1 and 1."""

    def draw(self, sign: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return x (n, d) with more rows where the signed heights are large, and y (n,)."""
        candidates = rng.random((8 * self.rows, self.columns))
        density = np.exp(sign * TILT * self.heights(candidates))
        chosen = rng.choice(len(candidates), self.rows, replace=False, p=density / density.sum())
        x = candidates[chosen]
        return x, self.heights(x) + 0.5 * rng.normal(size=self.rows)


def alternating(steps: int) -> Callable[[FloatArray], FloatArray]:
    """Return steps of equal width along the first column, up and down in turn."""
    return lambda x: 1.0 - 2.0 * (np.floor(steps * x[:, 0]) % 2)


def saw(x: FloatArray) -> FloatArray:
    """Return four teeth along the first column: a slope that starts again at a quarter, a half and three quarters."""
    return 2.0 * (4.0 * x[:, 0] % 1.0) - 1.0


def uneven(x: FloatArray) -> FloatArray:
    """Return five steps of unequal widths and heights along the first column."""
    return np.array([0.2, -1.0, 0.6, -0.4, 1.0])[np.searchsorted([0.1, 0.35, 0.5, 0.85], x[:, 0])]


def two_columns(x: FloatArray) -> FloatArray:
    """Return the mean of a step along each of two columns."""
    return (np.sign(x[:, 0] - 0.4) + np.sign(0.6 - x[:, 1])) / 2


def signs(columns: int) -> Callable[[FloatArray], FloatArray]:
    """Return the product of the signs of some columns about their centre."""
    return lambda x: np.prod(np.sign(x[:, :columns] - 0.5), axis=1)


def cells(x: FloatArray) -> FloatArray:
    """Return one height for each of the eight corners of three columns."""
    corner = (x[:, :3] > 0.5) @ np.array([1, 2, 4])
    return np.random.default_rng(8).uniform(-1, 1, 8)[corner]


def hour(x: FloatArray) -> FloatArray:
    """Return one height for each of 24 hours, which stand in the first column."""
    return np.random.default_rng(24).uniform(-1, 1, 24)[np.floor(24 * x[:, 0]).astype(int)]


SCENARIOS = (
    Jumps("eight steps along one x", 200, 1, alternating(8)),
    Jumps("the same", 1000, 1, alternating(8)),
    Jumps("four saw teeth along one x", 300, 1, saw),
    Jumps("five uneven steps along one of two inputs", 250, 2, uneven),
    Jumps("steps along two of four inputs", 300, 4, two_columns),
    Jumps("the sign of a product of two of four inputs", 200, 4, signs(2)),
    Jumps("the sign of a product of three of five inputs", 500, 5, signs(3)),
    Jumps("a height for each corner of three of five inputs", 500, 5, cells),
    Jumps("the hour of the day, beside a number", 400, 2, hour),
)


def rejected(scenario: Jumps) -> float:
    """Return the share of true hypotheses that the default test rejects at level .05."""
    rejections = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng([trial, len(scenario.title)])
        first, second = scenario.draw(1.0, rng), scenario.draw(-1.0, rng)
        with warnings.catch_warnings():
            # The question is what the p-value says, not whether a warning stands beside it.
            warnings.simplefilter("ignore")
            rejections += condcs.conditional_test(*first, *second, rng=trial).pvalue <= 0.05
    return rejections / TRIALS


def codes_rejected() -> float:
    """Return the same for `independence_test`, where x and y both have a mean for each of 20 codes beside a number."""
    rejections = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        code, number = rng.integers(0, 20, 400), rng.normal(size=400)
        of_code = rng.normal(size=(2, 20))
        x, y = of_code[:, code] + number + rng.normal(size=(2, 400))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z = np.column_stack([code, number])
            rejections += condcs.independence_test(x, y, given=z, rng=trial).pvalue <= 0.05
    return rejections / TRIALS


def main() -> None:
    """Print the table."""
    print(f"True hypotheses rejected at level .05; {TRIALS} trials each, so that .10 +- {STANDARD_ERROR:.2f}")
    for scenario in SCENARIOS:
        print(f"{scenario.title:50} {scenario.rows:5} + {scenario.rows:<5} {rejected(scenario):.2f}", flush=True)
    print(f"{'independence given 20 codes and a number':50} {400:13} {codes_rejected():.2f}")
