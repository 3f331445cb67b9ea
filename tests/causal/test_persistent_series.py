"""Series whose steps vary less than their values: regressions are on their level and steps, and so is the choice."""

import numpy as np
import pytest
from scipy.signal import lfilter

from condcs.causal import Embedding, causal_graph, select_embeddings
from condcs.causal._conditions import Conditions
from condcs.causal._series import CausalProblem, Link, check_series_table, needs_steps, persistent_columns
from condcs.datasets import make_henon_chain


def linked_walks(n, seed, *, memory=0.0):
    """Two random walks; the steps of the first drive those of the second, and those of both have a memory."""
    steps = np.random.default_rng(seed).normal(size=(n, 2))
    for t in range(1, n):
        steps[t] += memory * steps[t - 1]
        steps[t, 1] += 0.3 * steps[t - 1, 0]
    return steps.cumsum(axis=0)


def problem_of(values, embedding):
    return CausalProblem(tuple(check_series_table("series", values)), embedding, (Link(0, 1),))


def test_walks_linked_by_their_steps_were_not_seen_as_linked():
    """Of ten such draws none had a p-value below 0.05 where values were regressed on values; now all have."""
    for seed in range(5):
        pvalues = causal_graph(linked_walks(300, seed), conditional=True, rng=0).pvalues
        assert pvalues[0, 1] < 0.05 < pvalues[1, 0]


def test_the_order_of_a_walk_with_autocorrelated_steps_was_1():
    """A likelihood of levels does not show a memory of steps, by which these walks are linked."""
    for seed in range(3):
        walks = linked_walks(300, seed, memory=0.4)
        assert {choice.order >= 2 for choice in select_embeddings({"x": walks[:, 0], "y": walks[:, 1]}).values()} == {
            True
        }
        assert causal_graph(walks, rng=0).pvalues[0, 1] < 0.05
    assert select_embeddings({"x": walks[:, 0], "y": walks[:, 1]}, max_order=1)["y"].order == 1


def test_which_series_are_persistent(rng):
    """The variance of the steps is 2 (1 - a) times that of the values, a the autocorrelation at one step: a > 0.75."""
    noise = rng.normal(size=(2000, 4))
    columns = [lfilter([1], [1, -a], noise[:, i]) for i, a in enumerate((0.9, 0.6, 0.0, 1.0))]
    assert persistent_columns(np.column_stack(columns)).tolist() == [True, False, False, True]
    assert not persistent_columns(make_henon_chain(300, n_maps=3, rng=0).series).any()
    alternate = np.where(np.arange(100) % 2, np.nan, np.arange(100.0))[:, None]
    assert not persistent_columns(alternate).any()  # no step is known
    assert not needs_steps(alternate)
    assert not needs_steps(noise[:, :1].cumsum(axis=0))
    assert needs_steps(linked_walks(300, 0, memory=0.4)[:, :1])


def test_level_and_steps_of_persistent_series_are_regressed_on():
    walks = linked_walks(100, 0)
    noise = np.random.default_rng(1).normal(size=100)
    problem = problem_of(np.column_stack([walks, noise]), Embedding(3, 2, delay=1))
    x, y, z = (series.values[:, 0] for series in problem.series)
    conditions, t = Conditions(problem), np.arange(5, 100)
    expected = [y[t - 1], y[t - 1] - y[t - 3], y[t - 3] - y[t - 5], z[t - 1], z[t - 3]]
    indices = ((1, 1), (1, 3), (1, 5), (2, 1), (2, 3))
    np.testing.assert_array_equal(conditions.columns(indices), np.column_stack(expected))
    source = [x[t - 1], x[t - 1] - x[t - 3], x[t - 3] - x[t - 5]]
    np.testing.assert_array_equal(conditions.source_past(problem.links[0]), np.column_stack(source))
    # The step to the target, if its last value is known; what is left of it is left of the target.
    np.testing.assert_array_equal(conditions.targets(1, indices)[:, 0], y[t] - y[t - 1])
    np.testing.assert_array_equal(conditions.targets(1, indices[1:])[:, 0], y[t])
    np.testing.assert_array_equal(conditions.targets(2, ((2, 1),))[:, 0], z[t])


@pytest.mark.parametrize("n", [200, 400])
def test_a_season_was_found_in_noise(n):
    """Of n / 4 autocorrelations the largest exceeded 3 standard errors in 5 and 16 of 200 draws.

    At the level of a single one, 0.00135, three or more of 200 have a probability of 0.003.
    """
    found = 0
    for seed in range(200):
        problem = problem_of(np.random.default_rng(seed).normal(size=(n, 2)), Embedding(1))
        found += bool(Conditions(problem)._season(1))
    assert found <= 2
