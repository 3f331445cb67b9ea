"""How fast are the tests, per resample, against other ways to the same kind of answer; all ratios from this one run.

pywhy-stats (kcd), causal-learn (KCI) and tigramite (CMIknn) are timed where they are installed:
``pip install causal-learn tigramite`` and ``pip install --no-deps --ignore-requires-python pywhy-stats``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np

import condcs
from benchmarks.core import dense

THREADS = 2


def once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def conditional(rows: int = 500, resamples: int = 500) -> None:
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(rows, d)) for d in (10, 1, 10, 1)]
    widths = {"bandwidth_x": condcs.bandwidth(data[0], data[2]), "bandwidth_y": condcs.bandwidth(data[1], data[3])}

    def test(null: str) -> None:
        condcs.conditional_test(*data, null=null, n_resamples=resamples, rng=0, n_jobs=THREADS)

    x, y = np.concatenate(data[::2]), np.concatenate(data[1::2])

    def split(estimate: Callable[..., object]) -> None:
        order = rng.permutation(2 * rows)
        p, q = order[:rows], order[rows:]
        estimate(x[p], y[p], x[q], y[q])

    test("permutation")
    ours = median(once(lambda: test("permutation")) for _ in range(5)) / resamples
    default = median(once(lambda: test("propensity")) for _ in range(3)) / resamples
    by_dense = median(
        once(lambda: split(lambda *s: dense(*s, widths["bandwidth_x"], widths["bandwidth_y"]))) for _ in range(9)
    )
    by_ours = median(once(lambda: split(lambda *s: condcs.conditional_cs(*s, **widths))) for _ in range(9))
    print(f"conditional_test, {rows} + {rows} rows, d_x = 10, P = {resamples}, {THREADS} threads, per resample")
    print(f"  ours, permutation null             {1e3 * ours:9.3f} ms")
    print(f"  ours, the default, all views       {1e3 * default:9.3f} ms   (regressions and propensity included)")
    print(f"  re-split and our estimator         {1e3 * by_ours:9.3f} ms   = {by_ours / ours:.0f} x ours")
    print(f"  re-split and dense Gram matrices   {1e3 * by_dense:9.3f} ms   = {by_dense / ours:.0f} x ours")
    try:
        from pywhy_stats import kcd
    except ImportError as error:
        print(f"  pywhy-stats kcd                    not run: {error}")
        return
    group = np.repeat([0, 1], rows)
    # Two sizes of the null, so that what is done once (Gram matrices, propensities) drops out of the difference.
    times = [once(lambda n=n: kcd.condind(x, y, group, null_sample_size=n, n_jobs=1, random_seed=0)) for n in (2, 12)]
    other = (times[1] - times[0]) / 10
    print(f"  pywhy-stats kcd                    {1e3 * other:9.3f} ms   = {other / ours:.0f} x ours")
    print(f"{'':45s}     = {other / default:.0f} x the default")


def independence(rows: int = 1_000, resamples: int = 200) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(rows, 2))
    x2 = z.sum(axis=1, keepdims=True) + rng.normal(size=(rows, 1))
    y = z[:, :1] ** 2 + 0.3 * x2 + rng.normal(size=(rows, 1))

    def test() -> None:
        condcs.independence_test(x2, y, given=z, null="local", n_resamples=resamples, rng=0, n_jobs=THREADS)

    test()
    ours = median(once(test) for _ in range(3))
    print(f"independence_test, n = {rows:,}, |z| = 2, {resamples} local permutations, {THREADS} threads")
    print(f"  ours                               {ours:9.3f} s")
    table = np.column_stack([y, x2, z])
    try:
        from causallearn.utils.cit import CIT

        times = median(once(lambda: CIT(table, "kci")(0, 1, [2, 3])) for _ in range(3))
        print(f"  causal-learn KCI (no resampling)   {times:9.3f} s    = {times / ours:.1f} x ours")
    except ImportError as error:
        print(f"  causal-learn KCI                   not run: {error}")
    try:
        from tigramite.independence_tests.cmiknn import CMIknn

        test_object = CMIknn(significance="shuffle_test", sig_samples=resamples, workers=THREADS, seed=0)
        times = once(lambda: test_object.run_test_raw(y, x2, z))
        print(f"  tigramite CMIknn, as many shuffles {times:9.3f} s    = {times / ours:.1f} x ours")
    except ImportError as error:
        print(f"  tigramite CMIknn                   not run: {error}")


def memory(rows: int = 10_000, resamples: int = 100) -> None:
    import resource

    rng = np.random.default_rng(0)
    data = [rng.normal(size=(rows, d)) for d in (3, 1, 3, 1)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = once(lambda: condcs.conditional_test(*data, null="permutation", n_resamples=resamples, rng=0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    print(f"conditional_test at {2 * rows:,} pooled rows, P = {resamples}")
    print(f"  peak above the inputs              {peak:9.0f} MB   ({seconds:.1f} s)")


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory()
        conditional()
        independence()
