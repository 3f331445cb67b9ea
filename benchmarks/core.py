"""How fast is `conditional_cs`: against the dense way, against the floor set by the exponentials, and as n grows."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from scipy.spatial.distance import cdist

import condcs

THREADS = 2
ROWS = 8_000
REPEATS = 5


def seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median wall time of `repeats` calls, after one that warms caches."""
    function()
    return median(_once(function) for _ in range(repeats))


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def samples(n: int, dx: int = 10, dy: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, d)) for d in (dx, dy, dx, dy)]


def dense(
    xp: np.ndarray, yp: np.ndarray, xq: np.ndarray, yq: np.ndarray, bx: np.ndarray | float, by: np.ndarray | float
) -> float:
    """Prop. 2 as it is usually written: full Gram matrices from cdist, exp, and sums."""

    def gram(a: np.ndarray, b: np.ndarray, width: float | np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * cdist(a / width, b / width, "sqeuclidean"))

    Kp, Kq, Kpq, Kqp = gram(xp, xp, bx), gram(xq, xq, bx), gram(xp, xq, bx), gram(xq, xp, bx)
    Lp, Lq, Lpq, Lqp = gram(yp, yp, by), gram(yq, yq, by), gram(yp, yq, by), gram(yq, yp, by)
    within_p = ((Kp * Lp).sum(1) / Kp.sum(1) ** 2).sum()
    within_q = ((Kq * Lq).sum(1) / Kq.sum(1) ** 2).sum()
    cross_p = ((Kpq * Lpq).sum(1) / (Kp.sum(1) * Kpq.sum(1))).sum()
    cross_q = ((Kqp * Lqp).sum(1) / (Kqp.sum(1) * Kq.sum(1))).sum()
    return float(np.log(within_p) + np.log(within_q) - np.log(cross_p) - np.log(cross_q))


def floor_seconds(n_pooled: int) -> float:
    """Return the time of the exponentials alone, by numpy: two for each unordered pair, buffers in the cache."""
    z = -np.abs(np.random.default_rng(0).normal(size=2**16))
    buffer = np.empty_like(z)
    per_number = seconds(lambda: [np.exp(z, out=buffer) for _ in range(20)], 9) / (20 * z.size)
    return 2 * per_number * n_pooled * (n_pooled + 1) / 2


def import_seconds() -> tuple[float, float]:
    """Return the time of `import numpy, scipy...` and of what `import condcs` adds, each the median of 9 processes."""
    base = "import time; s = time.perf_counter(); import numpy, scipy.spatial.distance, scipy.linalg, scipy.special"
    code = base + "; m = time.perf_counter(); import condcs; e = time.perf_counter(); print(m - s, e - m)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(9)]
    times = np.array([[float(v) for v in run.stdout.split()] for run in runs])
    first, second = np.median(times, axis=0)
    return float(first), float(second)


def _small_seconds(data: list[np.ndarray]) -> float:
    """Return the processor time of one call on few rows: the median of batches of fifty."""
    times = []
    for _ in range(41):
        start = time.process_time()
        for _ in range(50):
            condcs.conditional_cs(*data)
        times.append((time.process_time() - start) / 50)
    return median(times)


def main() -> None:
    data = samples(ROWS)
    bx, by = condcs.bandwidth(data[0], data[2]), condcs.bandwidth(data[1], data[3])
    with condcs.config_context(n_threads=THREADS):
        ours = seconds(lambda: condcs.conditional_cs(*data, method="exact"))
        difference = abs(condcs.conditional_cs(*data) - dense(*data, bx, by))
    naive = seconds(lambda: dense(*data, bx, by))
    lowest = floor_seconds(2 * ROWS)
    print(f"conditional_cs, {ROWS:,} + {ROWS:,} rows, d_x = 10, d_y = 1, float64, {THREADS} threads")
    print(f"  ours                              {ours:8.3f} s   (difference from the dense value {difference:.1e})")
    print(f"  dense (cdist, exp, sums)          {naive:8.3f} s   = {naive / ours:.1f} x ours")
    print(
        f"  floor: exponentials / threads     {lowest / THREADS:8.3f} s   ours = {ours / (lowest / THREADS):.2f} x this"
    )
    sizes = [1_000, 2_000, 4_000, 8_000, 16_000]
    with condcs.config_context(n_threads=THREADS):
        times, widths = [], {"bandwidth_x": bx, "bandwidth_y": by, "method": "exact"}
        for n in sizes:
            part = samples(n)
            times.append(seconds(lambda part=part: condcs.conditional_cs(*part, **widths), 3))
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    last = np.log(times[-1] / times[0]) / np.log(sizes[-1] / sizes[0])
    print(f"  growth from n = 2,000 to 32,000   n^{exponent:.2f} (fit), n^{last:.2f} (ends)")
    small = {columns: _small_seconds(samples(50, columns)) for columns in (1, 5, 10)}
    listed = ", ".join(f"{1e3 * time:.2f} ms ({columns})" for columns, time in small.items())
    print(f"  50 + 50 rows (columns of x), warm {listed} of processor time")
    base, added = import_seconds()
    print(f"  import condcs                     {added:8.3f} s beyond numpy and scipy ({base:.3f} s)")
