"""``python -m benchmarks [PART ...]``: all parts, or those named; every figure is measured in this one run."""

from __future__ import annotations

import sys

from benchmarks import causal, core, explore, hops, inference, memory, nn, power, processors, regions, timeseries

PARTS = {
    "core": core.main,
    "memory": memory.main,
    "power": power.main,
    "inference": inference.main,
    "causal": causal.main,
    "timeseries": timeseries.main,
    "nn": nn.main,
    "explore": explore.main,
    "explore-exact": explore.exact,
    "explore-ppo": explore.ppo,
    "processors": processors.main,
    "regions": regions.main,
    "hops": hops.main,
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; there are {', '.join(PARTS)}")
    for name in chosen:
        PARTS[name]()
