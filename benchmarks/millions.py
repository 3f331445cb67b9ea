"""How divergences, tests and comparisons grow to a million rows, each in a process of its own; what rows are good for.

Each line says wall time, processor time of all cores together, and the peak of memory of the whole process.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import warnings
from typing import Any

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

MEASURE = """
import json, resource, time, numpy as np, condcs
rng = np.random.default_rng(0)
def sample(rows, shift, slope):
    x = rng.normal(size=(rows, 5)) + shift
    return x, np.sin(x[:, 0]) + 0.5 * x.mean(1) + slope * x[:, 0] + 0.5 * rng.normal(size=rows)
found = {{}}
{prepare}
wall, processor = time.perf_counter(), time.process_time()
{run}
found["wall"], found["processor"] = time.perf_counter() - wall, time.process_time() - processor
found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(found))
"""


def _measured(prepare: str, run: str) -> dict[str, Any]:
    """Run a script in a process of its own; return what it found, with times in seconds and the peak in GB."""
    script = MEASURE.format(prepare=prepare, run=run)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cost(found: dict[str, Any]) -> str:
    return f"{found['wall']:.1f} s, {found['processor']:.1f} s of processor time, {found['peak']:.1f} GB"


def main() -> None:
    """Divergences to a given error, and how their time grows."""
    print("conditional_cs, d_x = 5, d_y = 1, sampled")
    times = {}
    for rows, factor, error in CASES:
        prepare = f"""
(xp, yp), (xq, yq) = sample({rows}, 0.0, 0.0), sample({rows}, 0.2, 0.3)
widths = dict(bandwidth_x={factor} * condcs.bandwidth(xp, xq), bandwidth_y={factor} * condcs.bandwidth(yp, yq))
condcs.conditional_cs(xp[:5000], yp[:5000], xq[:5000], yq[:5000], **widths, method="sampled")
"""
        run = f"""
value = condcs.conditional_cs(xp, yp, xq, yq, **widths, method=condcs.Sampled({error}, max_seconds=600))
found.update(value=float(value), error=value.standard_error / value, anchors=value.n_anchors)
"""
        found = _measured(prepare, run)
        times[rows, factor] = found["processor"]
        said = f"{found['value']:.5f}, standard error {found['error']:.2%} ({error:.0%} asked for)"
        print(f"{rows:>11,} + as many, {factor:4} of the median: {said}, {_cost(found)}", flush=True)
    growth = math.log(times[10**6, 1.0] / times[10**4, 1.0]) / math.log(100)
    print(f"  growth of processor time from 10^4 to 10^6 rows per sample at 1%: n^{growth:.2f}")


def tests() -> None:
    """Tests with 500 resamples."""
    print("conditional_test, d_x = 5, d_y = 1, 500 resamples")
    for rows in (10**5, 10**6):
        prepare = f"samples = (*sample({rows // 2}, 0.0, 0.0), *sample({rows // 2}, 0.2, 0.0))"
        found = _measured(prepare, "condcs.conditional_test(*samples, n_resamples=500, rng=0)")
        print(f"{rows:>11,} pooled rows: {_cost(found)}", flush=True)


def compare(rows: int = 10**6) -> None:
    """Compare two Parquet files of ten columns."""
    with tempfile.TemporaryDirectory() as folder:
        prepare = f"""
import pyarrow as pa, pyarrow.parquet
for name, shift in (("p", 0.0), ("q", 0.2)):
    x = rng.normal(size=({rows}, 9)) + shift
    columns = {{f"x{{c}}": x[:, c] for c in range(9)}}
    columns["y"] = np.sin(x[:, 0]) + 0.5 * x.mean(1) + shift * x[:, 1] + 0.5 * rng.normal(size={rows})
    pa.parquet.write_table(pa.table(columns), f"{folder}/{{name}}.parquet")
del x, columns
"""
        run = f"""
result = condcs.compare("{folder}/p.parquet", "{folder}/q.parquet", y="y", rng=0)
found["says"] = str(result).splitlines()[:3]
"""
        found = _measured(prepare.replace("{{", "{").replace("}}", "}"), run)
    print(f"compare, {rows:,} + {rows:,} rows, 10 columns, Parquet: {_cost(found)}")
    print("  " + "\n  ".join(found["says"]))


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
