"""PC with our test finds a graph that correlations cannot see."""

import numpy as np
import pytest

pytest.importorskip("causallearn")


@pytest.fixture
def collider():
    """Two independent causes of z, each through its square: nothing is correlated with anything."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 300))
    z = x**2 + y**2 + 0.3 * rng.normal(size=300)
    return np.column_stack([x, y, z])


def edges(data, test, **options):
    from causallearn.search.ConstraintBased.PC import pc

    found = pc(data, 0.05, test, show_progress=False, **options).G.graph
    # causal-learn: graph[j, i] = 1 and graph[i, j] = -1 stands for i -> j.
    return {(i, j) for i in range(3) for j in range(3) if found[j, i] == 1 and found[i, j] == -1}, np.count_nonzero(
        found
    )


@pytest.mark.slow
def test_pc_orients_a_collider_that_fisher_z_misses(collider):
    import condcs.adapters._causal_learn  # noqa: F401  (registers the name)

    arrows, ends = edges(collider, "condcs")
    assert arrows == {(0, 2), (1, 2)}
    assert ends == 4
    assert edges(collider, "fisherz")[0] != {(0, 2), (1, 2)}


def test_pvalue_does_not_depend_on_the_order_of_calls(collider):
    from causallearn.utils.cit import CIT

    import condcs.adapters._causal_learn  # noqa: F401

    first, second = (CIT(collider, "condcs", n_resamples=99, rng=1) for _ in range(2))
    calls = [(0, 1, [2]), (2, 0, None), (1, 2, [0])]
    assert [first(*c) for c in calls] == [second(*c) for c in calls[::-1]][::-1]
    assert first(0, 2) == first(2, 0)
    assert 0 < first(0, 1, [2]) <= 1
    assert CIT(collider, "condcs")(0, 2) < 1e-4 < first(0, 2)


def test_it_is_known_by_the_package_too():
    from condcs.adapters import CausalLearnTest

    assert CausalLearnTest.__name__ == "CausalLearnTest"
