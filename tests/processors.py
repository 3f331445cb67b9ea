"""The same computation on other kinds of processors: a child process with parts of this one switched off."""

from __future__ import annotations

import os
import subprocess
import sys

AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
PROCESSORS = {
    "as it is": {},
    "no AVX-512": {"NPY_DISABLE_CPU_FEATURES": AVX512},
    "no AVX2": {"NPY_DISABLE_CPU_FEATURES": f"{AVX512} AVX2 FMA3"},
    "BLAS of Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS of Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "plain libm": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable"},
    "numba for any x86": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}
"""Environment variables that make numpy, OpenBLAS, the C library and numba choose other instructions."""


def output_on(processor: str, code: str) -> str:
    """Run `code` in a new process on one of PROCESSORS and return what it prints."""
    clean = {k: v for k, v in os.environ.items() if k not in {k for p in PROCESSORS.values() for k in p}}
    child = subprocess.run(
        [sys.executable, "-c", code], env=clean | PROCESSORS[processor], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    return child.stdout
