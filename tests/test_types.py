"""What a type checker makes of a user's code: names are known after `import condcs`, wrong choices are errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CODE = """
import condcs

reveal_type(condcs.causal.causal_graph)
reveal_type(condcs.drift.ConditionalDriftDetector)
reveal_type(condcs.exceptions.ShapeError("words"))
reveal_type(condcs.compare("a.csv", "b.csv", y="price"))
condcs.TableOptions(missing="fill")
condcs.TableOptions(decimal=";")
condcs.conditonal_cs
condcs.conditional_cs([0.0], [0.0], [0.0], [0.0], estimator="both")
condcs.cs([0.0], [0.0], kernel="gauss")
condcs.bandwidth([0.0], rule="mode")
condcs.nn.CSLoss(reduction="max")
condcs.pairwise([[0.0], [1.0]], measure="euclidean")
condcs.chunked_divergence("p", "q", measure="conditional_kl")
condcs.cs([0.0], [0.0], bandwidth="mode")
condcs.conditional_test([0.0], [0.0], [0.0], [0.0], measure="euclidean")
condcs.independence_test([0.0], [0.0], measure="euclidean")
condcs.PermutedMeasure(bandwidth_x="mode")
condcs.explore.make_labyrinth
condcs.adapters.SklearnTest
"""


@pytest.mark.slow
def test_names_have_types_and_wrong_ones_are_errors(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "user.py").write_text(CODE, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", tmp_path / "user.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = {}
    for line in done.stdout.splitlines():
        found = line.partition("user.py:")[2].partition(": ")
        lines.setdefault(found[0], found[2])
    assert lines["4"].endswith('CausalGraph"')
    assert "ConditionalDriftDetector" in lines["5"]
    assert lines["6"] == 'note: Revealed type is "condcs._core.errors.ShapeError"'
    assert lines["7"] == 'note: Revealed type is "condcs.comparison._result.Comparison"'
    assert 'error: Argument "missing" to "TableOptions" has incompatible type' in lines["8"]
    assert 'error: Argument "decimal" to "TableOptions" has incompatible type' in lines["9"]
    assert 'has no attribute "conditonal_cs"' in lines["10"]
    assert 'error: Argument "estimator" to "conditional_cs" has incompatible type' in lines["11"]
    assert 'error: Argument "kernel" to "cs" has incompatible type' in lines["12"]
    assert 'error: Argument "rule" to "bandwidth" has incompatible type' in lines["13"]
    assert 'error: Argument "reduction" to "CSLoss" has incompatible type' in lines["14"]
    assert 'error: Argument "measure" to "pairwise" has incompatible type' in lines["15"]
    assert 'error: Argument "measure" to "chunked_divergence" has incompatible type' in lines["16"]
    assert 'error: Argument "bandwidth" to "cs" has incompatible type' in lines["17"]
    assert 'error: Argument "measure" to "conditional_test" has incompatible type' in lines["18"]
    assert 'error: Argument "measure" to "independence_test" has incompatible type' in lines["19"]
    assert 'error: Argument "bandwidth_x" to "PermutedMeasure" has incompatible type' in lines["20"]
    assert 'has no attribute "make_labyrinth"' in lines["21"]
    assert 'has no attribute "SklearnTest"' in lines["22"]
    assert done.returncode == 1
