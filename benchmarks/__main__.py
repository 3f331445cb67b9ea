"""``python -m benchmarks [core|memory|inference]``: every figure is a ratio or a peak measured in this one run."""

from __future__ import annotations

import sys

from benchmarks import core, inference, memory

PARTS = {"core": core.main, "memory": memory.main, "inference": inference.main}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; there are {', '.join(PARTS)}")
    for name in chosen:
        PARTS[name]()
