"""How fast are the causal tests, against kernel Granger and transfer entropy; all ratios from this one run.

Linear and kernel Granger and transfer entropy are this package's own; the full eigensolver is LAPACK's through numpy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from condcs import config_context
from condcs.causal import (
    ConditionalCS,
    KernelGranger,
    ShiftedWindows,
    TransferEntropy,
    causal_graph,
    causal_score,
    causal_test,
)
from condcs.datasets import make_henon_chain

THREADS = 2


def once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def single_test(window: int = 1024, resamples: int = 100) -> None:
    x, y = make_henon_chain(2 * window + 2, n_maps=2).series.T
    short_x, short_y = x[: window + 2], y[: window + 2]

    def test(**options: Any) -> Any:
        settings = {"null": ShiftedWindows(n_windows=1), "n_resamples": resamples, "rng": 0}
        return causal_test(x, y, embedding=2, **{"null": "windows", **settings, **options})

    test()
    ours = median(once(test) for _ in range(3))
    print(f"causal_test, T = {window:,}, order 2, score + {resamples} surrogates of one window, {THREADS} threads")
    print(f"  ours, bandwidth chosen             {ours:9.3f} s")
    fixed = median(once(lambda: test(measure=ConditionalCS(bandwidth=0.2))) for _ in range(3))
    print(f"  ours, bandwidth given              {fixed:9.3f} s")
    default = median(once(lambda: test(null="windows")) for _ in range(3))
    print(f"  ours, mean of 5 windows (default)  {default:9.3f} s")
    rows = {
        "transfer entropy, Frenzel-Pompe": TransferEntropy(),
        "transfer entropy, four entropies": TransferEntropy(estimator="entropies"),
        "kernel Granger, low-rank": KernelGranger(),
    }
    for title, measure in rows.items():
        seconds = once(lambda measure=measure: test(measure=measure))
        print(f"  {title:<34} {seconds:9.3f} s    = {seconds / ours:.1f} x ours")
    # A score of the full eigensolver takes so long that a few stand for all.
    full = KernelGranger(bandwidth=1.0, eigensolver="full")
    score = median(once(lambda: causal_score(short_x, short_y, embedding=2, measure=full)) for _ in range(3))
    seconds = (1 + resamples) * score
    print(f"  kernel Granger, full eigensolver   {seconds:9.3f} s    = {seconds / ours:.0f} x ours (101 x one score)")


def all_pairs(length: int = 1024, resamples: int = 100) -> None:
    series = make_henon_chain(length).series
    causal_graph(series[:200], n_resamples=2, rng=0)
    for order in (1, 2):
        seconds = once(
            lambda order=order: causal_graph(series, embedding=order, null="windows", n_resamples=resamples, rng=0)
        )
        print(f"causal_graph, 5 series x {length:,}, 20 links, P = {resamples}, order {order}:  {seconds:.2f} s")


def memory(length: int = 4096, resamples: int = 100) -> None:
    import resource

    series = make_henon_chain(length).series
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = once(lambda: causal_graph(series, embedding=2, null="windows", n_resamples=resamples, rng=0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    print(f"causal_graph, 5 series x {length:,}, P = {resamples}: {seconds:.1f} s, peak {peak:.0f} MB above the inputs")


def main() -> None:
    with config_context(n_threads=THREADS):
        memory()
        all_pairs()
        single_test()
