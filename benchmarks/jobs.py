"""Jobs of the library, each beside what a user would take instead: ``python -m benchmarks.jobs NAME`` measures one.

A job is measured in a process of its own, on one thread, in processor time, so that a busy machine changes ratios
little and the peak of memory is the job's. The floor is what the job cannot avoid: its exponentials and multiply-adds,
at the speed that loops of nothing else reach in the same process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

import condcs
from benchmarks.core import dense

Call = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """A job at one size: our call, the other one with how often it has to run, and what cannot be avoided."""

    ours: Call
    other: Call
    times: float = 1.0
    exponentials: float = 0.0
    multiply_adds: float = 0.0


@dataclass(frozen=True)
class Job:
    """A job, the other way to do it, and sizes: the other way is measured at the second."""

    title: str
    instead: str
    sizes: tuple[int, int, int]
    prepare: Callable[[int], Work]


@dataclass(frozen=True)
class Measured:
    """What was measured, in seconds of one core and megabytes."""

    name: str
    title: str
    instead: str
    size: int
    seconds: float
    ratio: float
    floor: float
    growth: float
    peak_mb: float


def samples(n: int, d: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(2, n, d))
    return [xp, xp[:, :1] + rng.normal(size=(n, 1)), xq, 0.5 * xq[:, :1] + rng.normal(size=(n, 1))]


def _widths(data: list[np.ndarray]) -> dict[str, Any]:
    return {"bandwidth_x": condcs.bandwidth(data[0], data[2]), "bandwidth_y": condcs.bandwidth(data[1], data[3])}


def exact(n: int) -> Work:
    data = samples(n)
    widths = _widths(data)
    pairs = n * (2 * n + 1)
    return Work(
        lambda: condcs.conditional_cs(*data, **widths, method="exact"),
        lambda: dense(*data, *widths.values()),
        exponentials=2 * pairs,
        multiply_adds=pairs * (7 + 8 + 4),
    )


def sampled(n: int) -> Work:
    data = samples(n)
    widths = _widths(data)
    found = condcs.conditional_cs(*data, **widths, method="sampled")
    pairs = 2 * n * found.n_anchors
    return Work(
        lambda: condcs.conditional_cs(*data, **widths, method="sampled"),
        lambda: condcs.conditional_cs(*data, **widths, method="exact"),
        exponentials=2 * pairs,
        multiply_adds=pairs * (7 + 8 + 2),
    )


def mmd(n: int) -> Work:
    from sklearn.metrics.pairwise import rbf_kernel

    _, yp, _, yq = samples(n)
    width = condcs.bandwidth(yp, yq)

    def other() -> float:
        gamma = 0.5 / width**2
        own = rbf_kernel(yp, gamma=gamma).mean() + rbf_kernel(yq, gamma=gamma).mean()
        return float(own - 2 * rbf_kernel(yp, yq, gamma=gamma).mean())

    pairs = n * (2 * n + 1)
    return Work(lambda: condcs.mmd(yp, yq, bandwidth=width), other, exponentials=pairs, multiply_adds=5 * pairs)


def permutations(n: int) -> Work:
    data, resamples = samples(n), 200
    widths = _widths(data)
    x, y = np.concatenate(data[::2]), np.concatenate(data[1::2])
    order = np.random.default_rng(1).permutation(2 * n)
    p, q = order[:n], order[n:]
    return Work(
        lambda: condcs.conditional_test(
            *data, measure="conditional_cs", null="permutation", n_resamples=resamples, rng=0, n_jobs=1, **widths
        ),
        lambda: dense(x[p], y[p], x[q], y[q], *widths.values()),
        times=resamples + 1,
        exponentials=2 * n * (2 * n + 1),
        multiply_adds=2 * resamples * (2 * n) ** 2,
    )


def pairwise(n: int) -> Work:
    rng = np.random.default_rng(0)
    groups = [(x := rng.normal(size=(60, 2)), x[:, :1] + rng.normal(size=(60, 1))) for _ in range(n)]
    widths = {"bandwidth_x": 1.5, "bandwidth_y": 1.5}

    def other() -> list[float]:
        return [condcs.conditional_cs(*groups[g], *groups[h], **widths) for g in range(n) for h in range(g)]

    pairs = (60 * n) ** 2 / 2
    return Work(
        lambda: condcs.pairwise(groups, **widths, method="exact"),
        other,
        exponentials=2 * pairs,
        multiply_adds=pairs * 13,
    )


def window(n: int) -> Work:
    from condcs._measures.sliding_window import ReferenceWindow

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, n))
    made = ReferenceWindow(x, y, n, bandwidth_x=1.0, bandwidth_y=1.0)
    for value in x:
        made.push(value, value)

    def ours() -> None:
        for value in x[:100]:
            made.push(value, value)
            made.divergence()

    recent = made.recent()
    widths = {"bandwidth_x": 1.0, "bandwidth_y": 1.0}
    return Work(
        ours,
        lambda: condcs.conditional_cs(x, y, *recent, **widths, method="exact"),
        times=100,
        exponentials=100 * 2 * 2 * (2 * n),
    )


JOBS = {
    "conditional_cs": Job("conditional_cs, exact, rows + rows", "dense Gram matrices", (1000, 2000, 4000), exact),
    "sampled": Job("conditional_cs to 1%, rows + rows", "the exact value", (5_000, 15_000, 45_000), sampled),
    "mmd": Job("mmd, rows + rows", "scikit-learn's rbf_kernel", (1000, 2000, 4000), mmd),
    "conditional_test": Job(
        "conditional_test, 200 permutations", "re-split, dense Gram matrices", (150, 300, 600), permutations
    ),
    "pairwise": Job("pairwise, groups of 60 rows", "one pair after the other", (10, 20, 40), pairwise),
    "window": Job("100 steps of a sliding window", "a new value at each step", (250, 500, 1000), window),
}


def seconds(function: Call, repeats: int = 3) -> float:
    """Return the median processor time of some calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return max(median(times), 1e-9)


def unit_costs() -> tuple[float, float]:
    """Return the processor time of one exponential and of one multiply-add, in loops of nothing else."""
    from condcs._kernels.compiled import exp_in_place

    z = -np.abs(np.random.default_rng(0).normal(size=2**15))
    buffer = z.copy()

    def exponentials() -> None:
        for _ in range(20):
            buffer[:] = z
            exp_in_place(buffer)

    a = np.random.default_rng(0).normal(size=(512, 512))
    return seconds(exponentials, 9) / (20 * z.size), seconds(lambda: a @ a, 9) / 512**3


def measure(name: str) -> Measured:
    """Measure a job in this process."""
    job = JOBS[name]
    with condcs.config_context(n_threads=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job.prepare(job.sizes[0]).ours()
        works = [job.prepare(size) for size in job.sizes]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = [seconds(work.ours) for work in works]
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        middle = works[1]
        other = seconds(middle.other) * middle.times
        exponential, multiply_add = unit_costs()
    floor = middle.exponentials * exponential + middle.multiply_adds * multiply_add
    growth = float(np.polyfit(np.log(job.sizes), np.log(times), 1)[0])
    return Measured(
        name, job.title, job.instead, job.sizes[1], times[1], other / times[1], times[1] / floor, growth, peak
    )


if __name__ == "__main__":
    print(json.dumps(asdict(measure(sys.argv[1]))))
