"""Level and power of the independence test beside KCI and CMIknn: how often each rejects, on the same data.

causal-learn (KCI) and tigramite (CMIknn) are run where they are installed: ``pip install causal-learn tigramite``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import condcs
from condcs._core.arrays import FloatArray

ROWS, RUNS, RESAMPLES, LEVEL = 200, 100, 200, 0.05
Test = Callable[[FloatArray, FloatArray, FloatArray, int], float]

# What x2 adds to y = z1^2 + z2 + noise, given z; x2 itself follows z.
ALTERNATIVES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "nothing (level)": lambda x2, noise: noise,
    "0.3 x2": lambda x2, noise: 0.3 * x2 + noise,
    "sin(2 x2)": lambda x2, noise: 0.6 * np.sin(2 * x2) + noise,
    "variance": lambda x2, noise: noise * np.exp(0.4 * x2),
}


def sample(name: str, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng([seed, list(ALTERNATIVES).index(name)])
    z = rng.normal(size=(ROWS, 2))
    x2 = z.sum(axis=1, keepdims=True) / 2 + rng.normal(size=(ROWS, 1))
    y = z[:, :1] ** 2 + z[:, 1:] + ALTERNATIVES[name](x2, rng.normal(size=(ROWS, 1)))
    return y, x2, z


def methods() -> dict[str, Test]:
    found: dict[str, Test] = {
        "condcs": lambda y, x2, z, seed: (
            condcs.independence_test(x2, y, given=z, n_resamples=RESAMPLES, rng=seed).pvalue
        ),
    }
    try:
        from causallearn.utils.cit import CIT

        found["KCI"] = lambda y, x2, z, seed: CIT(np.column_stack([y, x2, z]), "kci")(0, 1, [2, 3])
    except ImportError as error:
        print(f"  causal-learn KCI not run: {error}")
    try:
        from tigramite.independence_tests.cmiknn import CMIknn

        def cmi_knn(y: FloatArray, x2: FloatArray, z: FloatArray, seed: int) -> float:
            test = CMIknn(significance="shuffle_test", sig_samples=RESAMPLES, workers=1, seed=seed)
            return test.run_test_raw(y, x2, z)[1]

        found["CMIknn"] = cmi_knn
    except ImportError as error:
        print(f"  tigramite CMIknn not run: {error}")
    return found


def main() -> None:
    tests = methods()
    print(f"share of {RUNS} runs with p <= {LEVEL}; in brackets at the threshold where the level is exactly {LEVEL}")
    print(f"n = {ROWS}, |z| = 2, {RESAMPLES} permutations; y = z1^2 + z2 + what x2 adds")
    print("  x2 adds           " + "".join(f"{name:>16}" for name in tests))
    thresholds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ALTERNATIVES:
            cells = []
            for method, test in tests.items():
                pvalues = np.array([test(*sample(name, seed), seed) for seed in range(RUNS)])
                thresholds.setdefault(method, float(np.quantile(pvalues, LEVEL)))
                share, adjusted = np.mean(pvalues <= LEVEL), np.mean(pvalues <= thresholds[method])
                cells.append(f"{share:8.2f} ({adjusted:.2f})")
            print(f"  {name:<18}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
