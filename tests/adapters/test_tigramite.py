"""PCMCI with our test on a nonlinear system with a known graph, beside partial correlation."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tigramite")


def simulate(n=400, seed=0):
    """0 drives 1 through its square, 1 drives 2 through its absolute value, one step later; noise is independent."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n + 50, 3))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t, 0] = 0.4 * x[t - 1, 0] + noise[t, 0]
        x[t, 1] = 0.5 * (x[t - 1, 0] ** 2 - 1.2) + noise[t, 1]
        x[t, 2] = 1.2 * abs(x[t - 1, 1] - 0.2) + 0.4 * noise[t, 2]
    return x[50:]


def links(data, test):
    from tigramite import data_processing
    from tigramite.pcmci import PCMCI

    found = PCMCI(data_processing.DataFrame(data), cond_ind_test=test).run_pcmci(tau_max=1, tau_min=1, pc_alpha=0.05)
    significant = found["p_matrix"][:, :, 1] <= 0.01
    return {(i, j) for i, j in np.argwhere(significant) if i != j}


@pytest.mark.slow
def test_pcmci_finds_links_that_partial_correlation_misses():
    from tigramite.independence_tests.parcorr import ParCorr

    from condcs.adapters import TigramiteTest

    truth = {(0, 1), (1, 2)}
    errors = {"ours": 0, "linear": 0}
    for seed in range(4):
        data = simulate(seed=seed)
        errors["ours"] += len(links(data, TigramiteTest()) ^ truth)
        errors["linear"] += len(links(data, ParCorr()) ^ truth)
    # Sixteen absent links at level 0.01: more than one false one would be a surprise of 1%.
    assert errors["ours"] <= 1
    assert errors["linear"] >= 4


def test_value_and_pvalue_agree():
    from condcs._inference.repeated_independence import RepeatedIndependence
    from condcs.adapters import TigramiteTest

    x, y, z = np.random.default_rng(0).normal(size=(3, 150, 1))
    value, pvalue = TigramiteTest().run_test_raw(x, y + 0.3 * x, z)[:2]

    def ranks(v):
        return (np.argsort(np.argsort(v, axis=0), axis=0) + 0.5) / len(v)

    expected = RepeatedIndependence()(ranks(x), ranks(y + 0.3 * x), ranks(z)).pvalue
    assert pvalue == pytest.approx(expected, rel=1e-9)
    assert value == pytest.approx(-np.log10(expected))
    shuffled = TigramiteTest(significance="shuffle_test", sig_samples=99).run_test_raw(x, y + x, z)[1]
    assert shuffled == pytest.approx(0.01)
    # Resamples leave no p-value below 1 / 100; the closed form does.
    assert TigramiteTest().run_test_raw(x, y + x, z)[1] < 1e-4


def test_tigramite_is_imported_only_when_asked_for():
    """Its licence must not reach programs that do not use it."""
    code = "import condcs, condcs.causal, condcs.adapters, sys; print('tigramite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
