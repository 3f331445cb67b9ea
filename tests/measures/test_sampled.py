"""Divergences from anchors: near the exact value, as near as they say, and exact when all rows are anchors."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import norm

import condcs
from condcs import Sampled
from condcs._measures import sampled
from condcs.exceptions import OverlapError, OverlapWarning, ParameterError, PrecisionWarning

COARSE = Sampled(relative_error=0.5)


def samples(n, d, rng, *, shift=0.2):
    """Two samples whose conditionals differ by a slope."""
    xp, xq = rng.normal(size=(n, d)), rng.normal(size=(n, d)) + shift
    yp, yq = (np.sin(x[:, 0]) + slope * x.mean(1) + 0.5 * rng.normal(size=n) for x, slope in ((xp, 0.5), (xq, 1.5)))
    return xp, yp, xq, yq


def scaled(data, factor):
    xp, yp, xq, yq = data
    return {"bandwidth_x": factor * condcs.bandwidth(xp, xq), "bandwidth_y": factor * condcs.bandwidth(yp, yq)}


def case(name):
    """Return samples and options of one kind of data."""
    rng = np.random.default_rng(5)
    kind, d, factor = name.split()
    data = samples(1500, int(d), rng)
    options = {}
    if kind == "heavy":
        data = (data[0] / rng.uniform(0.1, 1, (1500, 1)), data[1], data[2] / rng.uniform(0.1, 1, (1500, 1)), data[3])
    if kind == "unequal":
        data = (data[0][:60], data[1][:60], *data[2:])
    if kind == "islands":
        for x in (data[0], data[2]):
            x[:20] += 8 * np.sign(x[:20])
    if kind == "weights":
        options = {"weights_p": rng.exponential(size=1500) ** 2, "weights_q": rng.exponential(size=1500)}
    if kind == "mixed":
        for x in (data[0], data[2]):
            x[:, 0] = rng.integers(0, 4, len(x))
        options = {"kernel_x": ["delta"] + ["gaussian"] * (int(d) - 1)}
        widths = condcs.bandwidth(data[0][:, 1:], data[2][:, 1:])
        return data, {**options, "bandwidth_x": float(factor) * np.append(1.0, widths)}
    return data, {**options, **scaled(data, float(factor))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "plain 1 0.1",
        "plain 5 1",
        "plain 20 0.35",
        "heavy 2 0.35",
        "weights 5 0.1",
        "mixed 3 0.5",
        "unequal 3 0.35",
        "islands 3 0.1",
    ],
)
def test_error_bars_cover_the_exact_value(name):
    """Two standard errors are to cover it in 95% of all draws; of 20, five misses have a probability of 0.3%."""
    data, options = case(name)
    exact = condcs.conditional_cs(*data, **options, method="exact")
    found = [condcs.conditional_cs(*data, **options, method=Sampled(0.05, rng=seed)) for seed in range(20)]
    assert sum(abs(f - exact) > 2 * f.standard_error for f in found) < 5
    # Error bars are of use: none is wider than what was asked for, nor twenty times what the draws show.
    assert all(f.target_met and f.method == "sampled" for f in found)
    spread = np.std(found)
    floor = 0.05 * 0.05 * exact
    assert np.median([f.standard_error for f in found]) < 3 * spread + 2 * floor


def all_measures():
    rng = np.random.default_rng(2)
    xp, yp, xq, yq = samples(60, 2, rng)
    w = {"weights_p": rng.exponential(size=60), "weights_q": rng.exponential(size=60)}
    labels = rng.integers(0, 3, (2, 60))
    return {
        **{e: (condcs.conditional_cs, (xp, yp, xq, yq), {"estimator": e}) for e in ("paper", "pooled", "p", "q")},
        "weights": (condcs.conditional_cs, (xp, yp, xq, yq), w),
        "laplacian": (condcs.conditional_cs, (xp, yp, xq, yq), {"kernel_x": "laplacian"}),
        "labels": (condcs.conditional_cs, (labels[0], yp, labels[1], yq), {"kernel_x": "delta"}),
        "function": (condcs.conditional_cs, (xp, yp, xq, yq), {"kernel_y": lambda a, b: 3.0 / (1 + (a - b.T) ** 2)}),
        "euclidean": (condcs.conditional_euclidean, (xp, yp, xq, yq), {}),
        "cs": (condcs.cs, (yp, yq), w),
        "plugin": (condcs.cs, (yp, yq), {"estimator": "plugin"}),
        "mmd": (condcs.mmd, (yp, yq), {}),
        "unbiased": (condcs.mmd, (yp, yq), {"unbiased": True, **w}),
        "joint_mmd": (condcs.joint_mmd, (xp, yp, xq, yq), {}),
        "responses": (condcs.conditional_cs_responses, (xp, yp, yq), {}),
        "predictors": (condcs.conditional_cs_predictors, (yp, xp[:, 0], xp[:, 1]), {}),
        "as printed": (condcs.conditional_cs_predictors, (yp, xp[:, 0], xp[:, 1]), {"form": "paper"}),
        "a row very far away": (condcs.conditional_cs, (np.append(xp[:-1], [[1e10, 0]], 0), yp, xq, yq), {}),
        "far apart": (condcs.conditional_cs, (xp, yp, xq + 60, yq), {"bandwidth_x": 1.0}),
    }


@pytest.mark.parametrize("name", list(all_measures()))
def test_it_is_exact_when_all_rows_are_anchors(name):
    measure, data, options = all_measures()[name]
    found = measure(*data, **options, method="sampled")
    assert found == pytest.approx(measure(*data, **options, method="exact"), rel=1e-9, abs=1e-12)
    assert found.standard_error == 0.0
    assert found.method == "exact"


@pytest.mark.parametrize("name", ["paper", "pooled", "p", "euclidean", "cs", "unbiased", "joint_mmd", "predictors"])
def test_every_measure_is_near_its_exact_value(name):
    """Five standard errors and the seed fixed: a wrong coefficient or derivative is much farther off."""
    rng = np.random.default_rng(3)
    xp, yp, xq, yq = samples(3000, 2, rng)
    measure, data, options = all_measures()[name]
    options = {k: v for k, v in options.items() if not k.startswith("weights")}
    data = {4: (xp, yp, xq, yq), 3: (yp, xp[:, 0], xp[:, 1]), 2: (yp, yq)}[len(data)]
    found = measure(*data, **options, method=COARSE)
    exact = measure(*data, **options)
    assert abs(found - exact) <= 5 * found.standard_error + 1e-12
    assert found.n_anchors < 2000


def test_many_rows_are_sampled_by_default():
    """Unit-variance Gaussians: D = shift^2 / (bandwidth^2 + 2); quantiles, so that rows add 1e-4 to the error."""
    p = norm.ppf((np.arange(15_000) + 0.5) / 15_000)
    found = condcs.cs(p, p + 0.8, bandwidth=0.5)
    assert found == pytest.approx(0.8**2 / 2.25, abs=4 * found.standard_error + 1e-4)
    assert 0 < found.standard_error < 0.01 * found
    assert isinstance(found, float)
    assert not hasattr(condcs.cs(p, p + 0.8, bandwidth=0.5, method="exact"), "standard_error")


def test_labels_alone_are_exact_however_many_rows():
    """Equal rows are one row with their weight: a million of them are a table."""
    rng = np.random.default_rng(0)
    xp, yp, xq, yq = rng.integers(0, 3, (4, 200_000))
    tables = [np.histogram2d(x, y, 3)[0].ravel() for x, y in ((xp, yp), (xq, yq))]
    cells = np.indices((3, 3)).reshape(2, -1)
    kernels = {"kernel_x": "delta", "kernel_y": "delta"}
    exact = condcs.conditional_cs(*cells, *cells, weights_p=tables[0], weights_q=tables[1], **kernels)
    found = condcs.conditional_cs(xp, yp, xq, yq, **kernels)
    assert found == pytest.approx(exact, rel=1e-9)
    assert (found.standard_error, found.n_anchors) == (0.0, 18)


def test_categories_of_one_sample_alone_add_nothing():
    rng = np.random.default_rng(1)
    yp, yq = rng.normal(size=(2, 2000))
    cp, cq = rng.integers(0, 3, 2000), rng.integers(1, 5, 2000)
    with pytest.warns(OverlapWarning, match=r"\d+ of 4,000 rows") as told:
        found = condcs.conditional_cs(cp, yp, cq, yq, kernel_x="delta", method=COARSE)
    with pytest.warns(OverlapWarning) as as_told:
        exact = condcs.conditional_cs(cp, yp, cq, yq, kernel_x="delta")
    assert str(told[0].message) == str(as_told[0].message)
    assert abs(found - exact) <= 4 * found.standard_error
    with pytest.warns(OverlapWarning), pytest.raises(OverlapError, match="must overlap"):
        condcs.conditional_cs(cp, yp, cq + 9, yq, kernel_x="delta", method=COARSE)


def test_labels_of_one_sample_alone_are_counted_by_rows_not_by_kinds():
    """7 of 30 rows of p have a label that q lacks, two of them with weight 0: equal rows are one in the sums only."""
    xp, xq = np.repeat([0, 1, 2], [10, 13, 7]), np.repeat([0, 1], [8, 12])
    yp, yq = np.arange(30) % 2, np.arange(20) % 2
    weights = {"weights_p": np.where(np.arange(30) < 28, 1.0, 0.0), "weights_q": np.ones(20)}
    labels = {"kernel_x": "delta", "kernel_y": "delta", "method": "sampled"}
    with pytest.warns(OverlapWarning, match="^in 7 of 50 rows"):
        condcs.conditional_cs(xp, yp, xq, yq, **labels)
    with pytest.warns(OverlapWarning, match="^in 5 of 48 rows"):
        condcs.conditional_cs(xp, yp, xq, yq, **labels, **weights)


def test_a_weight_of_two_is_a_row_twice():
    """In expectation: other rows are drawn, so that the two answers differ by their errors."""
    data = samples(1500, 2, np.random.default_rng(4))
    twice = [np.concatenate([a, a[:700]]) for a in data]
    weights = np.where(np.arange(1500) < 700, 2.0, 1.0)
    widths = scaled(data, 0.7)
    one = condcs.conditional_cs(*data, **widths, weights_p=weights, weights_q=weights, method=COARSE)
    other = condcs.conditional_cs(*twice, **widths, method=COARSE)
    assert abs(one - other) <= 4 * np.hypot(one.standard_error, other.standard_error)


def test_the_answer_does_not_depend_on_threads_or_chunks(monkeypatch):
    data = samples(3000, 2, np.random.default_rng(6))
    with condcs.config_context(n_threads=1):
        one = condcs.conditional_cs(*data, method=COARSE)
    with condcs.config_context(n_threads=3):
        assert condcs.conditional_cs(*data, method=COARSE) == one
    monkeypatch.setattr(sampled, "CHUNK_ROWS", 700)
    chunked = condcs.conditional_cs(*data, method=COARSE)
    assert chunked == pytest.approx(one, rel=1e-10)
    assert chunked.standard_error == pytest.approx(one.standard_error, rel=1e-6)
    assert condcs.conditional_cs(*data, method=Sampled(0.5, rng=1)) != one


def test_an_error_that_was_not_reached_is_said():
    data = samples(3000, 5, np.random.default_rng(7))
    hasty = Sampled(relative_error=1e-5, max_seconds=1e-3)
    with pytest.warns(PrecisionWarning, match=r"standard error of .* more than the .* asked for, after \d+ anchors"):
        found = condcs.conditional_cs(*data, **scaled(data, 0.2), method=hasty)
    assert not found.target_met
    assert found.standard_error > 1e-5 * found


def test_more_precision_takes_more_anchors():
    data = samples(3000, 5, np.random.default_rng(8))
    coarse, fine = (condcs.conditional_cs(*data, **scaled(data, 0.3), method=Sampled(e)) for e in (0.5, 0.004))
    assert fine.n_anchors > coarse.n_anchors
    assert fine.standard_error <= 0.0041 * fine


def test_matrices_know_their_errors():
    rng = np.random.default_rng(9)
    groups = [(x := rng.normal(size=1500), slope * x + rng.normal(size=1500)) for slope in (0.0, 0.5, 1.0)]
    exact = condcs.pairwise(groups)
    found = condcs.pairwise(groups, method=COARSE)
    assert (abs(found - exact) <= 4 * found.standard_error).all()
    assert found.target_met
    assert (found.n_anchors[0] > 0).tolist() == [False, True, True]
    one_sided = condcs.pairwise(groups, estimator="p", method=COARSE)
    assert abs(one_sided - condcs.pairwise(groups, estimator="p")).max() <= 4 * one_sided.standard_error.max()
    with pytest.raises(ParameterError, match=r'`method` must be "exact" for .conditional_kl.'):
        condcs.pairwise(groups, measure="conditional_kl", method="sampled")


def test_a_sampled_float_is_a_float():
    found = condcs.SampledFloat(0.25, 0.003, 900)
    assert found + 1 == 1.25
    assert repr(found) == "0.25 (standard error 0.003 from 900 anchor rows)"
    assert f"{found:.1f}" == "0.2"
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.standard_error, again.n_anchors, again.target_met) == (0.25, 0.003, 900, True)


@pytest.mark.parametrize(
    "options", [{"relative_error": 0}, {"max_seconds": -1}, {"absolute_error": np.nan}, {"rng": None}]
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ParameterError, match=f"`{next(iter(options))}` must be"):
        Sampled(**options)


def test_methods_that_there_are_not():
    y = np.arange(5.0)
    with pytest.raises(
        ParameterError, match=r"`method` must be .auto., .exact., .sampled. or a condcs.Sampled, got 'fast'"
    ):
        condcs.cs(y, y + 1, method="fast")


def test_tensors_are_exact_or_refused():
    torch = pytest.importorskip("torch")
    y = torch.arange(5.0)
    with pytest.raises(ParameterError, match=r"`method` must be .exact. or .auto. for arrays of torch"):
        condcs.cs(y, y + 1, method="sampled")


def test_nothing_is_said_when_all_is_well():
    data = samples(1500, 2, np.random.default_rng(10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        condcs.conditional_cs(*data, method=COARSE)
