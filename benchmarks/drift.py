"""Rows that the drift detector takes in per second of processor time, one by one and many at once; and its memory."""

from __future__ import annotations

import resource
import time

import numpy as np

from condcs.drift import ConditionalDriftDetector

ROWS, COLUMNS = 20_000, 5
LONG, CHUNK = 1_000_000, 50_000


def main() -> None:
    """Print rows per second after start-up, for a smooth relation and for one with a strong interaction of inputs."""
    rng = np.random.default_rng(0)
    for name, interaction in (("additive", 0.0), ("interaction", 2.0)):
        x = rng.normal(size=(1200 + ROWS, COLUMNS))
        y = x[:, 0] + np.sin(x[:, 1]) + interaction * x[:, 2] * x[:, 3] + 0.5 * rng.normal(size=len(x))
        detector = ConditionalDriftDetector(x[:1200], y[:1200], expected_run_length=1e9)
        x, y = x[1200:], y[1200:]
        detector.update_many(x[:500], y[:500])
        detector.update(x[0], y[0])
        start = time.process_time()
        detector.update_many(x, y)
        middle = time.process_time()
        for row, value in zip(x, y, strict=True):
            detector.update(row, value)
        many, one = ROWS / (middle - start), ROWS / (time.process_time() - middle)
        print(f"{name}: update_many {many:,.0f} rows/s, update {one:,.0f} rows/s, {COLUMNS} inputs")
    peaks = []
    for _ in range(LONG // CHUNK):
        x = rng.normal(size=(CHUNK, COLUMNS))
        detector.update_many(x, x[:, 0] + 0.5 * rng.normal(size=CHUNK))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"{LONG:,} rows: peak memory {peaks[0]:.0f} MB after the first {CHUNK:,}, {peaks[-1]:.0f} MB at the end")
