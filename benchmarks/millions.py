"""How divergences and tests grow to a million rows, each in a process of its own; and what many rows are good for."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np

import condcs

CASES = (
    (10**4, 1.0, 0.01),
    (10**5, 1.0, 0.01),
    (10**6, 1.0, 0.01),
    (10**5, 0.35, 0.05),
    (10**6, 0.35, 0.05),
    (10**5, 0.1, 0.05),
)
"""Rows per sample, bandwidths in units of the median rule, and the relative error asked for."""

SCRIPT = """
import resource, time, numpy as np, condcs
n, factor, error = {rows}, {factor}, {error}
rng = np.random.default_rng(0)
def sample(shift, slope):
    x = rng.normal(size=(n, 5)) + shift
    return x, np.sin(x[:, 0]) + 0.5 * x.mean(1) + slope * x[:, 0] + 0.5 * rng.normal(size=n)
(xp, yp), (xq, yq) = sample(0.0, 0.0), sample(0.2, 0.3)
widths = dict(bandwidth_x=factor * condcs.bandwidth(xp, xq), bandwidth_y=factor * condcs.bandwidth(yp, yq))
start = time.process_time()
found = condcs.conditional_cs(xp, yp, xq, yq, **widths, method=condcs.Sampled(error, max_seconds=600))
seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{{n:>9,}} + as many, {{factor:4}} of the median: {{found:.5f}}, standard error "
      f"{{found.standard_error / found:.2%}}, {{found.n_anchors}} anchors, {{seconds:.1f}} s, {{peak:.1f}} GB")
"""


TESTS = (10**5, 10**6)
"""Pooled rows of tests with 500 resamples."""

TEST_SCRIPT = """
import resource, time, numpy as np, condcs
rng = np.random.default_rng(0)
def sample(shift):
    x = rng.normal(size=({rows} // 2, 5)) + shift
    return x, np.sin(x[:, 0]) + 0.5 * x.mean(1) + 0.5 * rng.normal(size=len(x))
start, wall = time.process_time(), time.perf_counter()
condcs.conditional_test(*sample(0.0), *sample(0.2), n_resamples=500, rng=0)
seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
wall = time.perf_counter() - wall
print(f"{rows:>9,} pooled rows: {{seconds:.0f}} s of processor time, {{wall:.0f}} s, {{peak:.1f}} GB")
"""


def main() -> None:
    print("conditional_cs, d_x = 5, d_y = 1, sampled")
    for rows, factor, error in CASES:
        script = SCRIPT.format(rows=rows, factor=factor, error=error)
        subprocess.run([sys.executable, "-c", script], check=True)
    print("conditional_test, d_x = 5, d_y = 1, 500 resamples")
    for rows in TESTS:
        subprocess.run([sys.executable, "-c", TEST_SCRIPT.format(rows=rows)], check=True)


ROWS, SOME, RUNS = 50_000, 2_000, 10
CHANGES = {"none (level)": 0.0, "0.03 x2": 0.03}


def power(changes: dict[str, float] = CHANGES, runs: int = RUNS) -> None:
    """Reject at level 0.05: all rows, and a random sample of them."""
    print(f"share of {runs} runs with p <= 0.05; y = sin(x1) + mean(x) + change + noise, x shifts by 0.2 in each of 5")
    for name, change in changes.items():
        rejected = dict.fromkeys((SOME, ROWS), 0)
        for seed in range(runs):
            rng = np.random.default_rng([seed, round(100 * change)])
            xp, xq = rng.normal(size=(2, ROWS, 5)) + np.array([0.0, 0.2])[:, None, None]
            yp, yq = (np.sin(x[:, 0]) + x.mean(1) + 0.5 * rng.normal(size=ROWS) for x in (xp, xq))
            yq += change * xq[:, 1]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for rows in rejected:
                    part = (xp[:rows], yp[:rows], xq[:rows], yq[:rows])
                    rejected[rows] += condcs.conditional_test(*part, n_resamples=99, rng=seed).pvalue <= 0.05
        shares = ", ".join(f"{2 * rows:,} rows: {count / runs:.2f}" for rows, count in rejected.items())
        print(f"  {name:<14} {shares}", flush=True)
