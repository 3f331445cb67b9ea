"""Peak memory above the inputs, forward and backward, each in a process of its own (a peak never falls)."""

from __future__ import annotations

import subprocess
import sys

PREPARE = """
import resource, time, numpy as np, condcs
rng = np.random.default_rng(0)
data = [rng.normal(size=({rows}, d)) for d in (10, 1, 10, 1)]
small = [a[:600] for a in data]
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""
FORWARD = """
def run(arrays):
    condcs.conditional_cs(*arrays, method="exact")
"""
BACKWARD = """
import torch
def run(arrays):
    condcs.conditional_cs(*(torch.tensor(a, requires_grad=True) for a in arrays)).backward()
"""
MEASURE = """
run(small)
before, start = peak(), time.perf_counter()
run(data)
print(peak() - before, time.perf_counter() - start)
"""


def measure(code: str, rows: int) -> tuple[float, float]:
    """Return (peak in MB above the inputs, seconds)."""
    script = PREPARE.format(rows=rows) + code + MEASURE
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak, seconds = (float(v) for v in done.stdout.split())
    return peak, seconds


def main() -> None:
    rows = 50_000
    print(f"peak memory above the inputs, {rows:,} + {rows:,} rows, d_x = 10, d_y = 1, float64")
    for name, code in (("conditional_cs, numpy", FORWARD), ("its gradient, torch", BACKWARD)):
        peak, seconds = measure(code, rows)
        print(f"  {name:<24} {peak:6.0f} MB   {seconds:6.1f} s", flush=True)
