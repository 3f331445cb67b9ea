"""Install the built wheels into an environment of their own, extra by extra, and run what each extra promises.

The environment lies outside the repository, so that nothing is found there but what the wheels hold.

    python .ci/smoke.py dist/condcs-*.whl dist/condcs_reproduction-*.whl
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

SAMPLES = """
import numpy as np
import condcs
rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
"""

USES = {
    "": SAMPLES
    + """
assert condcs.conditional_cs(x, y, x, y + 1) > 0.05
assert condcs.conditional_test(x, y, x + 0.1, y[::-1] + 3, n_resamples=99, rng=0).pvalue <= 0.05
""",
    "cli": """
import subprocess, sys, pathlib
command = [str(pathlib.Path(sys.executable).with_name("condcs"))]
assert subprocess.run([*command, "--version"]).returncode == 0
assert subprocess.run([*command, "demo", "--rows", "60"], stdout=subprocess.DEVNULL).returncode == 0
assert subprocess.run([*command, "compare", "none.csv", "none.csv", "--y", "y"], capture_output=True).returncode == 2
absent = subprocess.run([*command, "reproduce", "fig5", "--quick"], capture_output=True, text=True)
assert absent.returncode == 2 and "pip install condcs-reproduction" in absent.stderr, absent
""",
    "timeseries": """
import numpy as np
from condcs.timeseries import cluster
series = [np.sin(np.arange(40) * speed) for speed in (0.3, 0.31, 1.1, 1.12)]
labels = cluster(np.array(series), 2, method="k_medoids", order=3, factor=1.0, scaling="raw").labels
assert labels.tolist() == [0, 0, 1, 1], labels
from condcs.timeseries import baseline_pairwise_distance
assert baseline_pairwise_distance(np.array(series), measure="dtw").shape == (4, 4)
""",
    "causal": """
from condcs.causal import causal_graph
from condcs.datasets import make_nlvar3
graph = causal_graph(make_nlvar3(200, rng=2).series, n_resamples=39, rng=0)
assert graph.pvalues.shape == (3, 3)
from condcs.adapters import CausalLearnTest
""",
    "rl": """
import gymnasium
from condcs.explore import IntrinsicReward
env = IntrinsicReward(gymnasium.make("MountainCar-v0"), weight=1.0)
env.reset(seed=0)
for _ in range(30):
    reward = env.step(env.action_space.sample())[1]
import subprocess, sys, pathlib
command = [str(pathlib.Path(sys.executable).with_name("condcs")), "explore"]
done = subprocess.run([*command, "mountain-car", "--seeds", "1", "--steps", "50"], stdout=subprocess.DEVNULL)
assert done.returncode == 0
absent = subprocess.run([*command, "maze"], capture_output=True, text=True)
assert absent.returncode == 2 and "pip install condcs-reproduction" in absent.stderr, absent
""",
    "drift": SAMPLES
    + """
from condcs.drift import ConditionalDriftDetector
detector = ConditionalDriftDetector(x, y, expected_run_length=100)
for row, value in zip(x, y):
    detector.update(row, value)
""",
    "dask": SAMPLES
    + """
import joblib, dask, distributed
assert condcs.cs(x, x + 1) > 0
""",
    "torch": SAMPLES
    + """
import torch
a, b = torch.tensor(x), torch.tensor(y, requires_grad=True)
condcs.conditional_cs(a, b, a + 0.1, b.detach() + 1).backward()
assert torch.isfinite(b.grad).all() and b.grad.abs().sum() > 0
from condcs.nn import ConditionalCSLoss
""",
    "jax": SAMPLES
    + """
import jax
assert float(condcs.cs(jax.numpy.asarray(x), jax.numpy.asarray(x) + 1)) > 0
""",
    "adapt": """
from condcs.adapters import ConditionalCSRegressor, DeepConditionalCS
""",
}

REPRODUCTION = """
import subprocess, sys, pathlib
condcs = str(pathlib.Path(sys.executable).with_name("condcs"))
commands = ["reproduce fig5 --quick", "explore maze --method random --rows 4 --seeds 1 --steps 50"]
for command in commands:
    assert subprocess.run([condcs, *command.split()], stdout=subprocess.DEVNULL).returncode == 0, command
from condcs_reproduction.adaptation import DomainAdapter
"""


def main(library: str, reproduction: str) -> None:
    """Install and try each extra in turn, then the experiments; `torch` by the version of constraints.txt."""
    path = Path(library).resolve()
    suffixes = {f"[{extra}]" if extra else "": use for extra, use in USES.items()}
    steps = [(f"condcs{suffix}", f"{path}{suffix}", use) for suffix, use in suffixes.items()]
    steps.append(("condcs-reproduction", str(Path(reproduction).resolve()), REPRODUCTION))
    # What the tests run with, without its hashes: of the wheel itself there is none.
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    lock = [line.removesuffix(" \\") for line in lines if "==" in line]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "env", with_pip=True)
        python = str(Path(folder, "env", "Scripts" if os.name == "nt" else "bin", "python"))
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("\n".join(["torch==2.13.0", *lock]))
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, "-c", str(constraints)]
        for name, target, use in steps:
            if name == "condcs[torch]":  # by pip, which takes the CPU build from wherever it is set up to look for it
                subprocess.run([python, "-m", "pip", "install", "-qq", "torch==2.13.0"], check=True, env=clean)
            subprocess.run([*uv, target], check=True, cwd=folder, env=clean)
            done = subprocess.run([python, "-W", "ignore", "-c", use], cwd=folder, env=clean, check=False)
            if done.returncode:
                sys.exit(f"{name}: what it promises does not work")
            print(f"{name}: works", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
