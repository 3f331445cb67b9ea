"""Losses: time with gradient beside a plain MMD of the same batch, and the memory of large batches."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

BATCH, COLUMNS, CLASSES = 256, 64, 2
LARGE = 50_000

MEMORY = """
import resource, time, torch
from condcs.nn import functional as F
make = torch.Generator().manual_seed(0)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def data(n):
    z = torch.randn(n, {columns}, generator=make).requires_grad_()
    return z, torch.randn(n, {classes}, generator=make).softmax(1)
def alignment(n):
    z, y = data(n)
    h = n // 2
    F.conditional_cs_alignment_loss(z[:h], y[:h], z[h:], y[h:]).backward()
def regression(n):
    z, y = data(n)
    F.conditional_cs_loss(z[:, :1], y[:, :1], y, bandwidth_x=0.1, bandwidth_y=1.0).backward()
{name}(6_000)
before, start = peak(), time.perf_counter()
{name}({rows})
print(peak() - before, time.perf_counter() - start)
"""


def ratios(calls: dict[str, Callable[[], Any]], base: str, rounds: int = 40) -> tuple[float, dict[str, float]]:
    """Return the shortest time of the base in seconds, and of each call in units of it.

    Calls take turns, so that whatever else the machine does slows all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    shortest = {name: min(t[2:]) for name, t in times.items()}
    return shortest[base], {name: t / shortest[base] for name, t in shortest.items()}


def plain_mmd(source: Any, target: Any, sigma: float) -> Any:
    """Return the squared MMD as it is usually written: one Gram matrix by cdist, three means."""
    import torch

    z, n = torch.cat([source, target]), len(source)
    K = torch.exp(-torch.cdist(z, z).square() / (2 * sigma**2))
    return K[:n, :n].mean() + K[n:, n:].mean() - 2 * K[:n, n:].mean()


def main() -> None:
    import torch

    from condcs.nn import functional as F

    make = torch.Generator().manual_seed(0)
    zs, zt = (torch.randn(BATCH, COLUMNS, generator=make) for _ in range(2))
    ys = torch.nn.functional.one_hot(torch.arange(BATCH) % CLASSES, CLASSES).float()
    yt = torch.randn(BATCH, CLASSES, generator=make).softmax(1)
    sigma = 11.0  # about the median distance

    def once(loss: Callable[[Any, Any, Any], Any]) -> Callable[[], None]:
        def call() -> None:
            loss(*(t.clone().requires_grad_() for t in (zs, zt, yt))).backward()

        return call

    losses = {
        "plain MMD": lambda a, b, c: plain_mmd(a, b, sigma),
        "mmd_loss": lambda a, b, c: F.mmd_loss(a, b, bandwidth=sigma),
        "cs_loss": lambda a, b, c: F.cs_loss(a, b, bandwidth=sigma),
        "mk_mmd_loss (5 kernels)": lambda a, b, c: F.mk_mmd_loss(a, b, bandwidth=sigma),
        "djp_mmd_loss": lambda a, b, c: F.djp_mmd_loss(a, ys, b, c, bandwidth=sigma),
        "conditional_cs_alignment_loss": lambda a, b, c: F.conditional_cs_alignment_loss(a, ys, b, c),
        "conditional_cs_loss": lambda a, b, c: F.conditional_cs_loss(c, ys, zs, bandwidth_x=1.0, bandwidth_y=1.0),
        "cmmd_loss": lambda a, b, c: F.cmmd_loss(a, ys, b, c, bandwidth=sigma),
    }
    base, found = ratios({name: once(loss) for name, loss in losses.items()}, "plain MMD")
    print(f"one loss with gradient, batches of {BATCH} + {BATCH}, d = {COLUMNS}, float32")
    print(f"  as multiples of a plain MMD ({base * 1e3:.1f} ms)")
    for name, ratio in found.items():
        print(f"  {name:<32} {ratio:5.2f}", flush=True)
    print(f"peak memory above that of a batch of 6,000, batch of {LARGE:,}, d = {COLUMNS}, float32, with gradient")
    for name in ("alignment", "regression"):
        script = MEMORY.format(columns=COLUMNS, classes=CLASSES, name=name, rows=LARGE)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        peak, spent = (float(v) for v in done.stdout.split())
        print(f"  {name:<32} {peak:5.0f} MB   {spent:6.1f} s", flush=True)
