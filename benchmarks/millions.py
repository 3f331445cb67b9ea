"""How `conditional_cs` grows to a million rows per sample, at a given standard error; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

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


def main() -> None:
    print("conditional_cs, d_x = 5, d_y = 1, sampled")
    for rows, factor, error in CASES:
        script = SCRIPT.format(rows=rows, factor=factor, error=error)
        subprocess.run([sys.executable, "-c", script], check=True)
