"""Linear memory: no n x n array above one tile, forward or backward."""

import subprocess
import sys
import textwrap

import pytest

# One n x n array in double precision would take 800 MB at this size.
ROWS = 5_000

PREPARE = f"""
import resource, numpy as np, condcs
rng = np.random.default_rng(0)
data = [rng.normal(size=({ROWS}, d)) for d in (10, 1, 10, 1)]
small = [a[:600] for a in data]
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""

FORWARD = """
condcs.conditional_cs(*small)
before = peak()
condcs.conditional_cs(*data)
print(peak() - before)
"""

BACKWARD = """
import torch
def gradient(arrays):
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    condcs.conditional_cs(*tensors).backward()
gradient(small)
before = peak()
gradient(data)
print(peak() - before)
"""

JAX_BACKWARD = """
import jax
jax.config.update("jax_enable_x64", True)
def gradient(arrays):
    arrays = [jax.numpy.asarray(a) for a in arrays]
    jax.block_until_ready(jax.grad(condcs.conditional_cs, argnums=(0, 1, 2, 3))(*arrays))
gradient(small)
before = peak()
gradient(data)
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("code", "limit_mb", "package"),
    [
        # Features and sums of all rows, a few MB, and tiles of half a megabyte: 15 MB.
        pytest.param(FORWARD, 60, "numpy", id="numpy"),
        # About ten arrays of 2^20 doubles, 8 MB each: 45 to 95 MB, by what the allocator gives back. Row blocks in
        # checkpoints, which keep what they were given, take 350 to 530.
        pytest.param(BACKWARD, 200, "torch", id="torch-gradient", marks=pytest.mark.slow),
        # As the compiler plans it, 280 MB.
        pytest.param(JAX_BACKWARD, 400, "jax", id="jax-gradient", marks=pytest.mark.slow),
    ],
)
def test_peak_memory_above_the_inputs(code, limit_mb, package):
    """10,000 pooled rows; in a process of its own, because the peak of a process never falls."""
    pytest.importorskip(package)
    script = textwrap.dedent(PREPARE) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < limit_mb
