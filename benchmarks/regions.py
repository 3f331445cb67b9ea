"""``python -m benchmarks regions``: how well regions fit, and how often one is listed where nothing changed.

Of every pair of samples the regions of `condcs.explain` are compared with the place where the relation was changed. The
method was tuned on other positions, noise, numbers of columns and seeds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import condcs
from condcs._core.arrays import FloatArray

ROWS = 400
RUNS = 20


@dataclass(frozen=True)
class Pair:
    """Two samples, of which the second is changed where `bounds` say.

    `bounds` are by column: an interval, or a set of codes. `labels` has the shares of the codes of the first column in
    either sample. The change is added to the mean in units of the noise, multiplies the noise, or is added to the
    logit.
    """

    bounds: dict[int, Any]
    kind: str = "mean"
    change: float = 1.5
    columns: int = 5
    labels: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    noise: float = 0.5
    uneven: bool = False
    shift: str = "mean"

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return x and y of both samples, labels 0 and 1 of the rows, and which rows lie in the region."""
        x = rng.normal(size=(2 * ROWS, self.columns))
        second = np.arange(2 * ROWS) >= ROWS
        if self.labels is not None:
            parts = [rng.choice(len(p), ROWS, p=p) for p in self.labels]
            x[:, 0] = np.concatenate(parts)
        numbers = 0 if self.labels is None else 1
        moved = second if self.shift != "none" else np.zeros_like(second)
        if self.shift == "correlation":
            x[moved, numbers + 1] = 0.7 * x[moved, numbers] + 0.71 * x[moved, numbers + 1]
        elif self.shift == "by label":
            x[moved, 1] += np.linspace(-1, 1, 4)[x[moved, 0].astype(int) % 4]
        else:
            x[moved, numbers] += 0.5
        inside = np.ones(len(x), bool)
        for column, bound in self.bounds.items():
            values = x[:, column]
            inside &= (
                np.isin(values, list(bound)) if isinstance(bound, set) else (values > bound[0]) & (values <= bound[1])
            )
        signal = np.sin(1.5 * x[:, numbers])
        if self.columns > numbers + 1:
            signal = signal + 0.5 * x[:, numbers] * x[:, numbers + 1]
        if self.labels is not None:
            signal = signal + np.linspace(-1, 1, len(self.labels[0]))[x[:, 0].astype(int)] * x[:, 1]
        return x, self._response(signal, x[:, numbers], inside & second, rng), second, inside

    def _response(
        self, signal: FloatArray, first: FloatArray, changed: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        if self.kind == "share":
            chance = 1 / (1 + np.exp(-(signal + self.change * changed)))
            return (rng.random(len(signal)) < chance).astype(float)
        noise = self.noise * (0.5 + 1 / (1 + np.exp(-2 * first)) if self.uneven else np.ones(len(signal)))
        if self.kind == "spread":
            noise = noise * np.where(changed, self.change, 1.0)
        added = self.change * self.noise * changed if self.kind == "mean" else 0.0
        return signal + noise * rng.normal(size=len(signal)) + added


FOUR = ((0.3, 0.25, 0.25, 0.2), (0.2, 0.3, 0.2, 0.3))
SIX = ((0.15, 0.15, 0.2, 0.2, 0.15, 0.15), (0.1, 0.2, 0.25, 0.15, 0.15, 0.15))

CHANGED = {
    "interval": Pair({0: (-1.4, -0.5)}, columns=1, noise=1.0),
    "interval, uneven noise": Pair({0: (0.0, 1.0)}, columns=1, uneven=True),
    "half-line": Pair({0: (0.6, np.inf)}, columns=1, change=-1.5),
    "box in 2 of 5": Pair({2: (-0.8, 0.7), 4: (-0.4, np.inf)}, noise=0.3),
    "box in 2 of 8": Pair({5: (-0.1, np.inf), 1: (-0.7, 0.8)}, columns=8),
    "box, uneven noise": Pair({0: (-0.5, 0.9), 1: (-0.5, np.inf)}, uneven=True),
    "two of 4 labels": Pair({0: {0, 3}}, labels=FOUR, columns=3),
    "one of 6 labels": Pair({0: {2}}, labels=SIX, columns=3),
    "label x interval": Pair({0: {0}, 1: (-0.6, 1.2)}, labels=FOUR, columns=3, noise=1.0),
    "labels x half-line": Pair({0: {1, 3}, 1: (-np.inf, 0.4)}, labels=FOUR, columns=3, uneven=True),
    "label x half-line, an eighth of the rows": Pair({0: {1}, 2: (0.0, np.inf)}, labels=FOUR, columns=6, noise=0.8),
    "box in 2 of 5, 0.8 deviations": Pair({2: (-0.8, 0.7), 4: (-0.4, np.inf)}, change=0.8),
    "spread, interval": Pair({0: (-0.3, 1.0)}, "spread", 2.0, columns=1),
    "spread, 2 of 4 labels": Pair({0: {1, 2}}, "spread", 2.0, labels=FOUR, columns=3),
    "shares, half-line": Pair({0: (0.0, np.inf)}, "share", 2.0, columns=2),
    "shares, 2 of 4 labels": Pair({0: {0, 1}}, "share", 2.0, labels=FOUR, columns=3),
}
UNCHANGED = {
    "nothing shifts": Pair({}, change=0.0, shift="none"),
    "a mean shifts": Pair({}, change=0.0),
    "a correlation shifts": Pair({}, change=0.0, shift="correlation", noise=0.3),
    "a number shifts by label": Pair({}, change=0.0, labels=FOUR, columns=3, shift="by label"),
    "uneven noise, 8 columns": Pair({}, change=0.0, columns=8, uneven=True),
    "labels as response": Pair({}, "share", 0.0, shift="correlation"),
}


def listed(pair: Pair, seed: int, say: Callable[..., Any] = condcs.explain) -> tuple[FloatArray, FloatArray]:
    """Return which rows lie in the regions that are listed, and which in the true one."""
    rng = np.random.default_rng([2026, seed])
    x, y, second, truth = pair.draw(rng)
    kernels = ["delta" if pair.labels is not None and c == 0 else "gaussian" for c in range(x.shape[1])]
    kernel_y = "delta" if pair.kind == "share" else "gaussian"
    found = say(x[~second], y[~second], x[second], y[second], kernel_x=kernels, kernel_y=kernel_y, rng=seed)
    union = np.zeros(len(x), bool)
    for region in found.regions:
        inside = np.ones(len(x), bool)
        for name, bound in region.bounds.items():
            values = x[:, int(name[1:] or 1) - 1]
            if isinstance(bound[0], str):
                inside &= np.isin(values, [float(label) for label in bound])
            else:
                inside &= (values > bound[0]) & (values <= bound[1])
        union |= inside
    return union, truth


def main(runs: int = RUNS) -> None:
    """Print a table of both."""
    print(f"| {ROWS} + {ROWS} rows, {runs} pairs | a region listed | IoU | unchanged rows listed |")
    print("| --- | --- | --- | --- |")
    for name, pair in CHANGED.items():
        found = [listed(pair, seed) for seed in range(runs)]
        some = sum(bool(union.any()) for union, _ in found)
        shared = np.mean([(union & truth).sum() / (union | truth).sum() for union, truth in found])
        false = np.mean([(union & ~truth).sum() / (~truth).sum() for union, truth in found])
        print(f"| {name} | {some} of {runs} | {shared:.2f} | {false:.1%} |", flush=True)
    start, total = time.process_time(), 0
    for name, pair in UNCHANGED.items():
        some = sum(bool(listed(pair, seed)[0].any()) for seed in range(2 * runs))
        total += 2 * runs
        print(f"| nothing changed: {name} | {some} of {2 * runs} | | |", flush=True)
    print(f"\n{(time.process_time() - start) / total:.2f} s of processor time a pair", file=sys.stderr)
