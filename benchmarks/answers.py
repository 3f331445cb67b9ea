"""``python -m benchmarks answers --save FILE`` and ``--against FILE``: what a change of the code did to fixed answers.

Divergences and p-values of 40 pairs of samples, verdicts of 30 pairs of tables, alarms of 8 streams, clusters, links.
The data are simulated here, with a seed each, so that the file of an older commit can be compared on any machine.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import condcs

SAMPLES, TABLES, STREAMS = 40, 30, 8
# Machines differ in the last digits of exponentials; a change of method moves an answer by far more than this.
RELATIVE = 1e-7

MEASURES = ("cs", "mmd", "conditional_cs", "conditional_mmd", "conditional_kl")


def samples(seed: int) -> tuple[np.ndarray, ...]:
    """Two samples; the inputs are shifted in every second pair, the relation in every third."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(60, 160)), 1 + seed % 3
    xp = rng.normal(size=(n, d))
    xq = rng.normal(0.5 * (seed % 2), 1, size=(n + 10, d))

    def response(x: np.ndarray, change: float) -> np.ndarray:
        noise = rng.normal(size=len(x)) * (0.5 if seed % 4 else 0.3 + 0.2 * np.abs(x[:, 0]))
        return np.sin(x[:, 0]) + change * (x[:, 0] > 0) + noise

    return xp, response(xp, 0.0), xq, response(xq, 0.8 * (seed % 3 == 0))


def tests() -> dict[str, Any]:
    """Statistics and p-values of the tests, and values of the measures."""
    answers: dict[str, Any] = {}
    for seed in range(SAMPLES):
        xp, yp, xq, yq = samples(seed)
        for null in ("propensity", "local", "permutation"):
            result = condcs.conditional_test(xp, yp, xq, yq, null=null, n_resamples=199, rng=seed)
            answers[f"conditional_test {null} {seed}"] = [result.statistic, result.pvalue]
        for measure in ("views", "cs"):
            options = {} if measure == "views" else {"measure": measure}
            result = condcs.two_sample_test(yp, yq, n_resamples=199, rng=seed, **options)
            answers[f"two_sample_test {measure} {seed}"] = [result.statistic, result.pvalue]
        result = condcs.independence_test(xp[:, 0], yp, given=xp[:, -1] ** 2, n_resamples=199, rng=seed)
        answers[f"independence_test {seed}"] = [result.statistic, result.pvalue]
        for name in MEASURES:
            data = (yp, yq) if name in ("cs", "mmd") else (xp, yp, xq, yq)
            answers[f"{name} {seed}"] = getattr(condcs, name)(*data)
    return answers


def table(rng: np.random.Generator, change: float, shift: float) -> dict[str, Any]:
    """A table of two numbers, labels and a response."""
    n = 300
    site = rng.choice(list("abc"), size=n, p=[0.5, 0.3, 0.2])
    age, size = rng.normal(40 + shift, 10, size=n), rng.lognormal(size=n)
    rent = 10 + 0.1 * age + np.log(size) + (site == "b") + rng.normal(size=n) + change * (site == "c")
    return {"site": site.tolist(), "age": age, "size": size, "rent": rent}


def comparisons() -> dict[str, Any]:
    """All fields of `compare` that can be written down, but for times."""
    answers: dict[str, Any] = {}
    for seed in range(TABLES):
        rng = np.random.default_rng(1000 + seed)
        reference, current = table(rng, 0.0, 0.0), table(rng, 1.5 * (seed % 2), 4.0 * (seed % 3 == 0))
        result = condcs.compare(reference, current, y="rent", rng=seed)
        answers[f"compare {seed}"] = {k: v for k, v in result.to_dict().items() if k not in ("seconds", "version")}
        answers[f"compare {seed}, words"] = str(result)
    return answers


def streams() -> dict[str, Any]:
    """Rows of alarms and the last evidence of the detector."""
    from condcs.drift import ConditionalDriftDetector

    answers: dict[str, Any] = {}
    for seed in range(STREAMS):
        rng = np.random.default_rng(2000 + seed)
        x = rng.normal(size=(1600, 2))
        y = np.round(x[:, 0] + 0.5 * rng.normal(size=1600), 6)
        y[900:] += (0.0, 0.5, 1.0)[seed % 3] * (x[900:, 1] > 0)
        detector = ConditionalDriftDetector(x[:500], y[:500], expected_run_length=2000)
        alarms = [row for row in range(500, 1600) if detector.update(x[row], y[row]).drift_detected]
        answers[f"stream {seed}"] = [alarms, float(detector.statistic)]
    return answers


def series() -> dict[str, Any]:
    """Labels of clusters and p-values of links."""
    from condcs.causal import causal_graph
    from condcs.datasets import make_nlvar3
    from condcs.timeseries import cluster

    rng = np.random.default_rng(3000)
    waves = [
        np.sin(np.arange(80) * (0.2 + 0.2 * (k % 2)) + rng.uniform(0, 6)) + 0.2 * rng.normal(size=80) for k in range(16)
    ]
    answers: dict[str, Any] = {"cluster": cluster(np.array(waves), 2, rng=0).labels.tolist()}
    for seed in range(2):
        graph = causal_graph(make_nlvar3(250, rng=seed).series, n_resamples=99, rng=0)
        answers[f"causal_graph {seed}"] = np.asarray(graph.pvalues, float).tolist()
    return answers


def differences(before: Any, now: Any, path: str = "") -> list[str]:
    """Where two answers differ by more than rounding, one line each."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*before, *(k for k in now if k not in before)]
        return [line for k in keys for line in differences(before.get(k), now.get(k), f"{path}/{k}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [line for k, (b, v) in pairs for line in differences(b, v, f"{path}[{k}]")]
    numbers = isinstance(before, float) and isinstance(now, (int, float))
    if before == now or (numbers and (math.isclose(before, now, rel_tol=RELATIVE, abs_tol=1e-12) or before != before)):
        return []
    return [f"{path}: {before!r} -> {now!r}"]


def main() -> None:
    """Compute all answers; write them to a file, or print which differ from those of a file."""
    flags = dict(zip(sys.argv, sys.argv[1:], strict=False))
    if not {"--save", "--against"} & set(flags):
        sys.exit("python -m benchmarks answers --save FILE | --against FILE")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = tests() | comparisons() | streams() | series()
    # Through JSON, so that both sides hold the same types.
    answers = json.loads(json.dumps(answers, default=lambda value: np.asarray(value).tolist()))
    if "--save" in flags:
        Path(flags["--save"]).write_text(json.dumps(answers, indent=1))
    if "--against" in flags:
        lines = differences(json.loads(Path(flags["--against"]).read_text()), answers)
        print(f"{len(lines)} differences in {len(answers)} answers")
        print("\n".join(lines[:200]))
