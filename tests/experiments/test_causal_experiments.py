"""What fig3 counts, what netsim ranks, and the systems of causalcompass."""

import os
from pathlib import Path

import numpy as np
import pytest

from condcs_reproduction import causalcompass, experiment_named, fig3, netsim

needs_netsim = pytest.mark.skipif(
    not Path(os.environ.get("CONDCS_DATA", "/nowhere"), "netsim", "netsim.npz").exists(),
    reason="netsim.npz not found (set CONDCS_DATA)",
)


def test_every_pair_has_one_kind():
    """Hénon chain of 5: 4 direct, 6 indirect, 4 reverse, 6 other anticausal; NLVAR3: 3 and 3."""
    counts = {s: {k: len(pairs) for k, pairs in fig3.kinds(s).items()} for s in fig3.SYSTEMS}
    assert counts["henon"] == {"direct": 4, "indirect": 6, "reverse of direct": 4, "other anticausal": 6}
    assert counts["nlvar3"] == {"direct": 3, "anticausal": 3}
    assert fig3.kinds("henon")["reverse of direct"] == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_rates_count_significant_links():
    pvalues = [[None, 0.01, 0.2], [0.05, None, 0.06], [1.0, 0.04, None]]
    others = [[None, 0.5, 0.2], [0.5, None, 0.06], [1.0, 0.04, None]]
    results = {"nlvar3; m": {0: {"pvalues": pvalues}, 1: {"pvalues": others}}}
    shares = fig3.rates(results, "nlvar3", "m", 0.05)
    assert shares.tolist() == [[0, 0.5, 0], [0.5, 0, 0], [0, 1, 0]]
    assert fig3.rates(results, "henon", "m", 0.05) is None


def test_methods_of_a_repeat_see_the_same_series():
    experiment = experiment_named("fig3")
    tasks = experiment.tasks(experiment.parameters, 2)
    streams = {(t.arguments["system"], t.repeat): t.stream for t in tasks}
    assert all(t.stream == streams[t.arguments["system"], t.repeat] for t in tasks)
    assert len(set(streams.values())) == 4


def test_default_window_is_the_papers():
    """With 2,050 samples, half of the rows is 1,024 for both systems, and half a window the paper's 512."""
    n = experiment_named("fig3").parameters["n"]
    assert (n - 2) // 2 == (n - 1) // 2 == 1024


@needs_netsim
def test_netsim_leaves_out_the_copy_and_the_largest():
    assert np.array_equal(netsim.network(1)[0], netsim.network(21)[0])
    assert netsim.network(4)[1].shape == (50, 50)
    assert not {4, 21} & set(netsim.SIMULATIONS)
    assert len(netsim.SIMULATIONS) == 26


@needs_netsim
def test_netsim_direction_of_the_adjacency():
    """Simulation 1: 0 -> 1 -> 2 -> 3 -> 4 and 0 -> 4."""
    assert sorted(map(tuple, np.argwhere(netsim.network(1)[1]).tolist())) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]


def test_undirected_ranking_takes_the_stronger_direction():
    links = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], bool)
    off = ~np.eye(3, dtype=bool)
    strength = np.array([0.0, 1.0, 5.0, 2.0, 0.0, 3.0])  # 0-1, 0-2, 1-0, 1-2, 2-0, 2-1
    assert netsim._undirected(links, strength, off) == 1.0


def test_lorenz_links_are_those_of_its_equations():
    """dx_j / dt = (x_{j+1} - x_{j-2}) x_{j-1} - x_j + F: three causes each, around the circle."""
    links = causalcompass.lorenz_links(6)
    assert np.flatnonzero(links[:, 2]).tolist() == [0, 1, 3]
    assert links.sum(axis=0).tolist() == [3] * 6


@pytest.mark.parametrize("flaw", causalcompass.FLAWS)
@pytest.mark.parametrize("system", ["var", "lorenz"])
def test_systems_stay_bounded(system, flaw):
    series, links = causalcompass.simulated(system, flaw, 6, 80, 3, np.random.default_rng(1))
    assert series.shape == (80, 6)
    assert np.abs(series).max() < 1e4
    assert not links.diagonal().any()
    assert (links.sum(axis=0) == (1 if system == "var" else 3)).all()
    binary = [len(np.unique(column)) == 2 for column in series.T]
    assert sum(binary) == (3 if flaw == "mixed" else 0)


def test_coefficients_have_the_spectral_radius_that_is_asked_for():
    """Two series of order 3, one driven by the other: roots of the two characteristic polynomials."""
    patterns = np.tile(np.array([[1.0, 0.0], [1.0, 2.0]]), (3, 1, 1))
    coefficients = causalcompass.scaled_lags(patterns)
    roots = [np.abs(np.roots([1.0, *-coefficients[:, i, i]])).max() for i in (0, 1)]
    assert max(roots) == pytest.approx(0.95)
    np.testing.assert_allclose(coefficients[2] * coefficients[0], coefficients[1] ** 2)


def test_hidden_causes_act_on_series_without_a_link():
    links = np.zeros((6, 6), bool)
    links[0, 1] = links[3, 2] = True
    pairs = causalcompass.unlinked_pairs(links, np.random.default_rng(0))
    assert len(pairs) == len(set(pairs)) == 6
    assert not {(0, 1), (2, 3)} & set(pairs)


def test_a_regression_on_all_series_ranks_the_links_of_a_long_var_first():
    series, links = causalcompass.simulated("var", "none", 5, 3000, 3, np.random.default_rng(0))
    found = causalcompass.granger_of_all(series, 3)
    off = ~np.eye(5, dtype=bool)
    assert found[links].min() > found[off & ~links].max()


def test_curved_influences_leave_no_linear_trace():
    """The square of the cause is correlated with its effect, the cause itself hardly (n = 3,000: 0.02 by chance)."""
    series, links = causalcompass.simulated("curved", "none", 5, 3000, 1, np.random.default_rng(0))
    for source, target in np.argwhere(links):
        cause, effect = series[:-1, source], series[1:, target] - 0.5 * series[:-1, target]
        assert abs(np.corrcoef(cause, effect)[0, 1]) < 0.35
        assert np.corrcoef(np.cos(2 * cause), effect)[0, 1] > 0.75


def test_methods_see_the_same_system_and_slow_ones_only_the_tiny_size():
    """Three sizes of 11 systems: two with five flaws each, one without. Of 12 methods 4 on the tiny size only.

    Three of those are run on the systems without flaws alone, and only one of these more than once.
    """
    experiment = experiment_named("causalcompass")
    every = {**experiment.parameters, "methods": list(causalcompass.METHODS)}
    tasks = experiment.tasks(every, 1)
    slow = [t for t in tasks if t.arguments["method"] in causalcompass.SLOW]
    assert {t.arguments["size"] for t in slow} == {"tiny"}
    assert len(tasks) == 11 * (9 + 8 + 8) + 3 * 3
    assert len(experiment.tasks(every, 2)) - len(tasks) == 11 * (9 + 8 + 8) + 3
    assert len({t.stream for t in tasks}) == 33


def test_tests_are_compared_on_the_series_that_both_have_seen():
    """Two draws of three: differences 0.1 and 0.3, so that their mean has a standard error of 0.1."""
    names = ["PCMCI+ of the effect, condcs", "PCMCI+ of the effect, CMIknn"]
    ours, theirs = (causalcompass.case_of("tiny", "curved", "none", name) for name in names)
    results = {
        ours: {k: {"auprc": a, "seconds": 0.5} for k, a in enumerate([0.9, 1.0, 0.2])},
        theirs: {k: {"auprc": a, "seconds": s} for k, (a, s) in enumerate([(0.8, 10.0), (0.7, 20.0)])},
    }
    row = causalcompass._beside(results, {"systems": ["curved"], "flaws": ["none"]}, names[1]).cells
    found = row["curved autoregression, as it should be"]
    assert (found["difference"].ours, found["difference"].error) == pytest.approx((0.2, 0.1))
    assert (found["series drawn"].ours, found["times as fast"].ours) == (2, 30)


@pytest.mark.parametrize(("method", "most"), [("PCMCI+, condcs", None), ("PCMCI+ of the effect, condcs", 0)])
def test_causes_of_the_cause_are_left_out_where_a_method_says_so(monkeypatch, method, most):
    pcmci = pytest.importorskip("tigramite.pcmci")
    asked = []

    def run(self, **options):
        asked.append(options["max_conds_px"])
        return {"p_matrix": np.ones((2, 2, 2)), "val_matrix": np.ones((2, 2, 2)), "graph": np.full((2, 2, 2), "")}

    monkeypatch.setattr(pcmci.PCMCI, "run_pcmciplus", run)
    causalcompass.strengths(method, np.zeros((30, 2)), 1, 9, np.random.default_rng(0))
    assert asked == [most]


def test_generators_of_causalcompass_are_loaded_without_its_algorithms(tmp_path, monkeypatch):
    """Importing the package itself would need a dozen others; graphs of targets by sources are turned around."""
    folder = tmp_path / "causalcompass" / "datasets"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("import a_package_that_nobody_has")
    (folder / "__init__.py").write_text("from .vanilla import simulate_var")
    (folder / "vanilla.py").write_text(
        "import numpy as np\n"
        "def simulate_var(p, T, lag, sparsity, seed):\n"
        "    return np.ones((T, p)), np.ones((p, p)), np.eye(p, dtype=int) + np.eye(p, k=1, dtype=int)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    causalcompass.compass_generators.cache_clear()
    series, links = causalcompass.simulated("compass-var", "none", 3, 40, 1, np.random.default_rng(0))
    causalcompass.compass_generators.cache_clear()
    assert series.shape == (40, 3)
    assert links.astype(int).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
