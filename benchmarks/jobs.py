"""Jobs of the library, each beside what a user would take instead: ``python -m benchmarks.jobs NAME`` measures one.

A job is measured in a process of its own, on one thread, in processor time, so that a busy machine changes ratios
little and the peak of memory is the job's. The floor is what the job cannot avoid: its exponentials and multiply-adds,
at the speed that loops of nothing else reach in the same process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
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
    """What was measured, in seconds of one core and megabytes; a floor of 0 is not known."""

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
    from condcs.explore import TransitionBuffer

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, n, 1))
    widths = {"bandwidth_x": 1.0, "bandwidth_y": 1.0}
    made = TransitionBuffer(n, 1, 1, **widths)
    for state, following in zip(x, y, strict=True):
        made.push(state, following)

    def ours() -> None:
        for state in x[:100]:
            made.push(state, state)
            made.divergence()

    old, new = made.halves()
    return Work(
        ours, lambda: condcs.conditional_cs(*old, *new, **widths, method="exact"), times=100, exponentials=100 * 4 * n
    )


def chunked(n: int) -> Work:
    import pyarrow as pa
    from pyarrow import parquet

    data, folder = samples(n), tempfile.mkdtemp()
    widths = _widths(data)
    names = [f"x{c}" for c in range(5)]
    paths = [f"{folder}/{sample}.parquet" for sample in "pq"]
    for path, x, y in zip(paths, data[::2], data[1::2], strict=True):
        columns = {**dict(zip(names, x.T, strict=True)), "y": y[:, 0]}
        parquet.write_table(pa.table(columns), path, row_group_size=10_000)
    found = condcs.conditional_cs(*data, **widths, method="sampled")
    pairs = 2 * n * found.n_anchors
    return Work(
        lambda: condcs.chunked_divergence(*paths, x=names, y="y", **widths),
        lambda: condcs.conditional_cs(*data, **widths, method="exact"),
        exponentials=2 * pairs,
        multiply_adds=pairs * (7 + 8 + 2),
    )


def independence(n: int) -> Work:
    from causallearn.utils.cit import CIT

    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2))
    x = z.sum(axis=1, keepdims=True) + rng.normal(size=(n, 1))
    y = z[:, :1] ** 2 + 0.3 * x + rng.normal(size=(n, 1))
    table = np.column_stack([y, x, z])
    return Work(
        lambda: condcs.independence_test(x, y, given=z, n_resamples=200, rng=0, n_jobs=1),
        lambda: CIT(table, "kci")(0, 1, [2, 3]),
    )


def explained(n: int) -> Work:
    from sklearn.tree import DecisionTreeRegressor

    data = samples(n, 2)
    x, y = np.concatenate(data[::2]), np.concatenate(data[1::2])[:, 0]
    label = np.random.default_rng(1).permutation(np.repeat([0.0, 1.0], n))
    return Work(
        lambda: condcs.explain(*data, n_resamples=200, rng=0),
        lambda: DecisionTreeRegressor(max_depth=4).fit(np.column_stack([x, label]), y),
        times=201,
    )


def comparison(n: int) -> Work:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_predict

    data = samples(n)
    tables = [{**{f"x{c}": x[:, c] for c in range(5)}, "y": y[:, 0]} for x, y in (data[:2], data[2:])]
    rows = np.concatenate([np.column_stack(data[:2]), np.column_stack(data[2:])])
    label = np.repeat([0, 1], n)
    return Work(
        lambda: condcs.compare(*tables, y="y", n_jobs=1),
        lambda: cross_val_predict(HistGradientBoostingClassifier(random_state=0), rows, label, cv=5),
    )


def drift(n: int) -> Work:
    from condcs.drift import ConditionalDriftDetector

    xp, yp, xq, yq = samples(n, 3)
    detector = ConditionalDriftDetector(xp, yp[:, 0], expected_run_length=10_000)
    recent = slice(0, 200)

    def ours() -> None:
        for row, value in zip(xp[:500], yp[:500, 0], strict=True):
            detector.update(row, value)

    widths = _widths([xp, yp, xq, yq])
    return Work(ours, lambda: condcs.conditional_cs(xp, yp, xq[recent], yq[recent], **widths), times=500)


def series(n: int) -> Work:
    from aeon.distances import dtw_pairwise_distance

    from condcs.timeseries import ccs_pairwise_distance

    X = np.random.default_rng(0).normal(size=(n, 1, 60)).cumsum(axis=2)
    pairs, windows = n * (n - 1) / 2, 2 * 57
    return Work(
        lambda: ccs_pairwise_distance(X, order=3, n_jobs=1),
        lambda: dtw_pairwise_distance(X, n_jobs=1),
        exponentials=pairs * windows * (windows - 1),
    )


def influence(n: int) -> Work:
    from tigramite.independence_tests.cmiknn import CMIknn

    from condcs.causal import causal_test
    from condcs.datasets import make_henon_chain

    x, y = make_henon_chain(n, n_maps=2).series.T
    lagged = y[2:, None], x[1:-1, None], np.column_stack([y[1:-1], y[:-2]])

    def other() -> object:
        test = CMIknn(significance="shuffle_test", sig_samples=100, workers=1, seed=0)
        return test.run_test_raw(*lagged)

    return Work(lambda: causal_test(x, y, embedding=2, n_resamples=100, rng=0), other)


def loss(n: int) -> Work:
    import torch

    from benchmarks.nn import plain_mmd
    from condcs.nn import functional

    torch.set_num_threads(1)
    make = torch.Generator().manual_seed(0)
    zs, zt = (torch.randn(n, 64, generator=make) for _ in range(2))
    ys, yt = (torch.randn(n, 2, generator=make).softmax(1) for _ in range(2))

    def repeated(call: Callable[..., Any]) -> Call:
        def run() -> None:
            for _ in range(10):
                call(*(t.clone().requires_grad_() for t in (zs, zt))).backward()

        return run

    return Work(
        repeated(lambda a, b: functional.conditional_cs_alignment_loss(a, ys, b, yt)),
        repeated(lambda a, b: plain_mmd(a, b, 11.0)),
    )


JOBS = {
    "conditional_cs": Job("conditional_cs, exact, rows + rows", "dense Gram matrices", (1000, 2000, 4000), exact),
    "sampled": Job("conditional_cs to 1%, rows + rows", "the exact value", (5_000, 15_000, 45_000), sampled),
    "chunked": Job(
        "chunked_divergence to 1%, Parquet, rows + rows", "the exact value in memory", (5_000, 15_000, 45_000), chunked
    ),
    "mmd": Job("mmd, rows + rows", "scikit-learn's rbf_kernel", (1000, 2000, 4000), mmd),
    "pairwise": Job("pairwise, groups of 60 rows", "one pair after the other", (10, 20, 40), pairwise),
    "conditional_test": Job(
        "conditional_test, 200 permutations", "re-split, dense Gram matrices", (150, 300, 600), permutations
    ),
    "independence_test": Job(
        "independence_test, 200 random signs, rows", "KCI of causal-learn", (200, 400, 800), independence
    ),
    "explain": Job(
        "explain, 200 resamples, rows + rows", "a tree, 200 times (scikit-learn)", (400, 800, 1600), explained
    ),
    "compare": Job(
        "compare of two tables, rows + rows", "boosted trees, 5 folds (scikit-learn)", (500, 1000, 2000), comparison
    ),
    "watch": Job("500 rows of drift detection, reference rows", "a new value at each row", (500, 1000, 2000), drift),
    "cluster": Job("distances of all pairs of series", "DTW of aeon", (50, 100, 200), series),
    "causal_test": Job("causal_test, 100 surrogates, times", "CMIknn of tigramite", (300, 500, 800), influence),
    "loss": Job("10 alignment losses with gradients, rows + rows", "a plain MMD", (64, 128, 256), loss),
    "explore": Job("100 steps of a buffer of transitions", "a new value at each step", (500, 1000, 2000), window),
}
"""Every job of the library. One whose rival is not installed is left out."""


def seconds(function: Call, repeats: int = 3) -> float:
    """Return the median processor time of some calls; of a single one if that takes more than two seconds."""
    times: list[float] = []
    while len(times) < repeats and not (times and times[0] > 2.0):
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
        name,
        job.title,
        job.instead,
        job.sizes[1],
        times[1],
        other / times[1],
        times[1] / floor if floor else 0.0,
        growth,
        peak,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(measure(sys.argv[1]))))
