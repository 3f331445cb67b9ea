"""How fast are distances between time series: against aeon's DTW, against the core estimator, and what they hold."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

import condcs
from condcs._kernels.compiled import power_of_two
from condcs.timeseries import ccs_pairwise_distance, cluster, embed

THREADS = 2
REPEATS = 3
# The orders are those that reproduce the paper's clusters best; the speed hardly depends on them.
SETS = {"faceall": 10, "ecg5000": 10, "pendigits": 1}
CORE_PAIRS = 200


def load(name: str) -> np.ndarray:
    """Return the series (n, time, channels) from the folder named by CONDCS_DATA."""
    folder = os.environ.get("CONDCS_DATA")
    path = Path(folder or "") / "timeseries" / name / f"{name}.npz"
    if folder is None or not path.exists():
        raise FileNotFoundError(f"{name}: set CONDCS_DATA to the folder that holds timeseries/{name}/{name}.npz")
    with np.load(path, allow_pickle=False) as held:
        return held["X"].astype(np.float64)


def once(function) -> tuple[float, float]:
    """Return seconds on the wall, and of all processors together: those hold on a busy machine too."""
    wall, work = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - work


@numba.njit(fastmath={"contract", "reassoc", "nsz"})
def sum_of_powers(exponents: np.ndarray) -> float:
    total = 0.0
    for j in range(exponents.size):
        total += power_of_two(exponents[j])
    return total


def seconds_per_exponential(count: int = 100_000, repeats: int = 20) -> float:
    """Processor time of an exponential as the engine takes it, in a loop that does nothing else."""
    exponents = -10 * np.random.default_rng(0).random(count)
    sum_of_powers(exponents)
    return min(once(lambda: sum_of_powers(exponents))[1] for _ in range(repeats)) / count


def core_seconds_per_pair(X: np.ndarray, order: int, **widths: float) -> np.ndarray:
    """Times of a pair with the core estimator, which embeds the two series and is called once; medians unless given."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(len(X), 2, replace=False) for _ in range(CORE_PAIRS)]

    def run() -> None:
        for i, j in pairs:
            condcs.conditional_cs(*embed(X[i], order), *embed(X[j], order), **widths)

    # On a busy machine BLAS threads that wait for one another make small samples ten times as slow.
    with threadpool_limits(1, user_api="blas"), condcs.config_context(n_threads=1):
        run()
        return np.min([once(run) for _ in range(REPEATS)], axis=0) / CORE_PAIRS


def compare(name: str, order: int) -> None:
    from aeon.distances import dtw_pairwise_distance

    X = load(name)
    channels_first = np.ascontiguousarray(X.transpose(0, 2, 1))
    pairs = len(X) * (len(X) - 1) / 2
    dtw_pairwise_distance(channels_first[:4], n_jobs=THREADS)
    dtw, _ = once(lambda: dtw_pairwise_distance(channels_first, n_jobs=THREADS))
    print(
        f"{name}: {len(X):,} series of length {X.shape[1]}, {X.shape[2]} channel(s), order {order}, {THREADS} threads"
    )
    print(f"  aeon dtw_pairwise_distance     {dtw:7.2f} s   {1e6 * dtw / pairs:8.2f} microseconds a pair")
    for rule, widths in (("pooled-median", {"bandwidth_x": 1.0, "bandwidth_y": 1.0}), ("pair-median", {})):
        ccs_pairwise_distance(X[:40], order=order, bandwidth=rule, layout="ntc", n_jobs=THREADS)
        ours, work = once(
            lambda rule=rule: ccs_pairwise_distance(X, order=order, bandwidth=rule, layout="ntc", n_jobs=THREADS)
        )
        core, core_work = core_seconds_per_pair(X, order, **widths) * pairs
        print(
            f"  conditional CS, {rule:<14} {ours:7.2f} s   {1e6 * ours / pairs:8.2f} microseconds a pair"
            f" = {ours / dtw:.2f} x DTW\n    the core estimator pair by pair takes {core / ours:.0f} x the time, and"
            f" {core_work / work:.1f} x the processor time",
            flush=True,
        )
    # Two for each pair of windows, of one series or of both; widths of the pair's own leave nothing to use again.
    windows = 2 * (X.shape[1] - order)
    exponentials = windows * (windows - 1)
    share = exponentials * pairs * seconds_per_exponential() / work
    print(f"    with widths per pair, {exponentials:,} exponentials a pair alone take {share:.0%} of that", flush=True)


LARGE = """
import re, time, numpy as np
from condcs.timeseries import MatrixOutput, ccs_pairwise_distance
rng = np.random.default_rng(0)
X = rng.normal(size=({count}, 1, 40)).cumsum(axis=2)
def megabytes(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
ccs_pairwise_distance(X[:50], order=3, n_jobs={threads})
open("/proc/self/clear_refs", "w").write("5")  # the peak so far, that of the compiler, is forgotten
before, start = megabytes("VmRSS"), time.perf_counter()
D = ccs_pairwise_distance(X, order=3, n_jobs={threads}, output=MatrixOutput(dtype="float32"))
print(megabytes("VmHWM") - before, D.nbytes / 2**20, time.perf_counter() - start)
"""


def large(count: int, total: int = 20_000) -> None:
    """Run a block of a large collection in a process of its own, and say what the whole would need."""
    code = LARGE.format(count=count, threads=THREADS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, output, seconds = (float(v) for v in done.stdout.split())
    pairs = count * (count - 1) / 2
    hours = seconds / pairs * total * (total - 1) / 2 / 3600
    whole = (peak - output) + 4 * total**2 / 2**20
    print(f"{count:,} series of length 40, order 3, per-pair widths, float32, {THREADS} threads")
    print(f"  {seconds:.1f} s, peak {peak:.0f} MB above the input, of which the matrix is {output:.0f} MB")
    print(f"  {total:,} series: the matrix and as much besides, {whole:,.0f} MB, in {hours:.1f} hours at this rate")


def main() -> None:
    for name, order in SETS.items():
        compare(name, order)
    for count in (1_000, 2_000):
        large(count)


# Series, channels, time points.
CHOICES = [(30, 1, 20), (30, 3, 100), (30, 1, 300), (100, 1, 20), (100, 3, 30), (100, 1, 100), (100, 3, 100)]
CHOICES += [(200, 1, 30), (200, 3, 60), (400, 1, 20), (400, 3, 30), (600, 1, 30), (200, 1, 100), (60, 1, 300)]


def autoregressions(count: int, channels: int, length: int) -> np.ndarray:
    """Two kinds of series, each with a level and a spread of its own, so that both scalings are tried."""
    rng = np.random.default_rng(0)
    X = np.zeros((count, channels, length + 50))
    slope = np.where(np.arange(count) % 2, 0.8, -0.3)[:, None]
    for t in range(1, X.shape[2]):
        X[..., t] = slope * X[..., t - 1] + rng.normal(size=(count, channels))
    level, spread = rng.normal(size=(2, count, channels, 1))
    return X[..., 50:] * np.exp(0.3 * spread) + level


def choice() -> None:
    """Compare `cluster`, which chooses its settings, with one matrix of distances under the setting that it chose."""
    print("cluster(X, 2) in matrices of distances with the chosen window and factor (processor time, one thread)")
    cluster(autoregressions(12, 1, 40), 2, n_jobs=1)
    for sizes in CHOICES:
        X = autoregressions(*sizes)
        found = []
        ours = min(once(lambda X=X, found=found: found.append(cluster(X, 2, n_jobs=1)))[1] for _ in range(2))
        chosen = found[0].setting
        options = {"order": chosen.order, "factor": chosen.factor, "n_jobs": 1}
        one = min(once(lambda X=X, o=options: ccs_pairwise_distance(X, **o))[1] for _ in range(REPEATS))
        count, channels, length = sizes
        print(
            f"  {count} series of {length} values, {channels} channel(s): {ours / one:5.1f} matrices of "
            f"{1e3 * one:7.1f} ms, {ours:6.2f} s in all",
            flush=True,
        )
