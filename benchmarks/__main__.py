"""``python -m benchmarks [PART ...]``: the page of all jobs, the parts named, or all of them (``all``)."""

from __future__ import annotations

import sys

from benchmarks import (
    answers,
    causal,
    cold,
    core,
    coverage,
    drift,
    effects,
    explore,
    hops,
    inference,
    jumps,
    memory,
    millions,
    nn,
    page,
    power,
    processors,
    regions,
    timeseries,
)

PARTS = {
    "core": core.main,
    "cold": cold.main,
    "memory": memory.main,
    "millions": millions.main,
    "millions-test": millions.tests,
    "millions-compare": millions.compare,
    "millions-power": millions.power,
    "power": power.main,
    "coverage": coverage.main,
    "coverage-sampled": coverage.sampled,
    "coverage-effects": effects.main,
    "inference": inference.main,
    "causal": causal.main,
    "timeseries": timeseries.main,
    "timeseries-choice": timeseries.choice,
    "nn": nn.main,
    "drift": drift.main,
    "explore": explore.main,
    "explore-exact": explore.exact,
    "explore-ppo": explore.ppo,
    "processors": processors.main,
    "regions": regions.main,
    "jumps": jumps.main,
    "hops": hops.main,
    "answers": answers.main,
    # Last: it ends the run if something got worse.
    "page": page.main,
}

if __name__ == "__main__":
    # The word after --save or --against is a file.
    words = [
        word for word, before in zip(sys.argv[1:], sys.argv, strict=False) if before not in ("--save", "--against")
    ]
    chosen = [word for word in words if not word.startswith("--")] or ["page"]
    # `answers` compares with a file, and has nothing to say without one.
    chosen = [name for name in PARTS if name != "answers"] if chosen == ["all"] else chosen
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; there are {', '.join(PARTS)}, and all")
    for name in chosen:
        PARTS[name]()
