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
        errors["ours"] += len(links(data, TigramiteTest(sig_samples=199)) ^ truth)
        errors["linear"] += len(links(data, ParCorr()) ^ truth)
    # Sixteen absent links at level 0.01: more than one false one would be a surprise of 1%.
    assert errors["ours"] <= 1
    assert errors["linear"] >= 4


def test_value_and_pvalue_agree_with_the_independence_test():
    import condcs
    from condcs.adapters import TigramiteTest

    x, y, z = np.random.default_rng(0).normal(size=(3, 200))
    test = TigramiteTest(sig_samples=99, bandwidth=0.3)
    value, pvalue = test.run_test_raw(x[:, None], (y + x)[:, None], z[:, None])[:2]

    def ranks(v):
        return (np.argsort(np.argsort(v)) + 0.5) / len(v)

    widths = {"bandwidth_y": 0.3, "bandwidth_x1": 0.3, "bandwidth_x2": 0.3}
    expected = condcs.conditional_cs_predictors(ranks(y + x), ranks(z), ranks(x), **widths)
    assert value == pytest.approx(expected, rel=1e-12)
    assert pvalue == pytest.approx(0.01)


def test_tigramite_is_imported_only_when_asked_for():
    """Its licence must not reach programs that do not use it."""
    code = "import condcs, condcs.causal, condcs.adapters, sys; print('tigramite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
