"""The same computation on other kinds of processors: how far statistics, p-values and decisions move.

A child process is started with parts of this processor switched off, so that numpy, OpenBLAS, the C library and numba
choose other instructions. Their results differ in the last digit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
PROCESSORS = {
    "as it is": {},
    "numpy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": AVX512},
    "numpy without AVX2": {"NPY_DISABLE_CPU_FEATURES": f"{AVX512} AVX2 FMA3"},
    "BLAS of Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS of Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "C library without FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable"},
    "numba for any x86": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}

SAMPLES = """
import json
import numpy as np
import condcs
from condcs.causal import causal_test
from condcs.datasets import make_nlvar3
from condcs.drift import ConditionalDriftDetector

found = {}
def keep(name, result):
    found.setdefault(name, []).append([float(result.statistic), float(result.pvalue)])

for seed in range(12):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(80, 2)), rng.normal(0.4, 1, size=(80, 2))
    yp = xp[:, 0] + 0.5 * rng.normal(size=80)
    yq = xq[:, 0] + 0.25 * (seed % 3) + 0.5 * rng.normal(size=80)
    for null in ("propensity", "local", "permutation"):
        keep(f"conditional_test, {null}", condcs.conditional_test(xp, yp, xq, yq, null=null, n_resamples=199, rng=0))
    for measure in ("conditional_mmd", "conditional_kl", "conditional_bregman"):
        result = condcs.conditional_test(xp, yp, xq, yq, measure=measure, n_resamples=199, rng=0)
        keep(f"conditional_test, {measure}", result)
    # Rounded inputs: many ties.
    rounded = [np.round(a, 1) for a in (xp, yp, xq, yq)]
    keep("conditional_test, rounded data", condcs.conditional_test(*rounded, n_resamples=199, rng=0))
    keep("two_sample_test", condcs.two_sample_test(yp, yq, n_resamples=199, rng=0))
    x1, x2, x3 = make_nlvar3(300, rng=seed).series.T
    keep("causal_test", causal_test(x1, x3, n_resamples=99, rng=0))
    keep("causal_test", causal_test(x3, x1, n_resamples=99, rng=0))
    detector = ConditionalDriftDetector(np.round(xp, 2), np.round(yp, 2), expected_run_length=500)
    alarms = 0
    for row, value in zip(np.round(xq, 2), np.round(yq, 2)):
        alarms += detector.update(row, value).drift_detected
    found.setdefault("drift detector: statistic, alarms", []).append([detector.statistic, alarms])
print(json.dumps(found))
"""


def output_on(processor: str, code: str) -> str:
    """Run `code` in a new process on one of PROCESSORS and return what it prints."""
    switches = {name for settings in PROCESSORS.values() for name in settings}
    clean = {name: value for name, value in os.environ.items() if name not in switches}
    child = subprocess.run(
        [sys.executable, "-c", code], env=clean | PROCESSORS[processor], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def main() -> None:
    """Print how far statistics and p-values move between processors, and how many decisions at 0.05 change."""
    print("\n== processors: the same seeds with other instructions")
    base, *others = (json.loads(output_on(processor, SAMPLES)) for processor in PROCESSORS)
    print(f"{'':42}{'statistic (relative)':>22}{'p-value (largest)':>20}{'moved':>14}{'decisions':>11}")
    for name, rows in base.items():
        here = np.array(rows)
        there = np.array([other[name] for other in others])
        relative = np.abs(there[..., 0] / here[:, 0] - 1).max()
        moves = np.abs(there[..., 1] - here[:, 1])
        turned = int(((there[..., 1] <= 0.05) != (here[:, 1] <= 0.05)).sum())
        print(f"{name:42}{relative:>22.1e}{moves.max():>20.3f}{f'{(moves > 0).sum()} of {moves.size}':>14}{turned:>11}")
