"""A row of weight 0 counts as absent: every answer is that for the data without it, bandwidths included."""

import warnings

import numpy as np
import pytest

import condcs
from condcs._measures.registry import MEASURES

N, M = 14, 11
WEIGHTED = [name for name, measure in MEASURES.items() if measure.weighted]
ESTIMATORS = {
    "cs": [{}, {"estimator": "plugin"}],
    "mmd": [{}, {"unbiased": True}, {"kernel": "laplacian"}],
    "joint_mmd": [{}, {"unbiased": True}],
    "conditional_cs": [{"estimator": name} for name in ("paper", "pooled", "p", "q")],
}
"""Options of single measures that have a formula of their own; others are tried with their defaults."""
CASES = [(name, options) for name in WEIGHTED for options in ESTIMATORS.get(name, [{}])]


def draw(seed, numbers=False):
    """Two samples, and weights of which every third is 0; absent rows lie far off and have labels of their own."""
    rng = np.random.default_rng(seed)
    weights = [np.where(np.arange(n) % 3 == 1, 0.0, rng.exponential(size=n) + 0.1) for n in (N, M)]
    samples = []
    for place, w in enumerate(weights):
        x, labels = rng.normal(size=(len(w), 2)), rng.integers(0, 2, len(w))
        x[w == 0] = 50.0 + 7 * place
        labels[w == 0] = 8 + place
        samples.append((x, x[:, :1] ** 2 if numbers else labels[:, None]))
    return samples, weights


def without(samples, weights):
    return [[a[w > 0] for a in s] for s, w in zip(samples, weights, strict=True)], [w[w > 0] for w in weights]


def evaluated(measure, samples, weights, options):
    arrays = [a for s in samples for a in (s if MEASURES[measure].takes_x else s[1:])]
    return MEASURES[measure](*arrays, weights_p=weights[0], weights_q=weights[1], **options)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize(("measure", "options"), CASES)
def test_the_pooled_estimator_gave_nan_for_a_row_of_weight_zero(measure, options, labels):
    """It had a label of its own; of the others, bandwidths and warnings looked at such rows."""
    if labels:
        options = {**options, "kernel_y": "delta"} if MEASURES[measure].takes_x else {"kernel": "delta"}
    for seed in range(20):
        samples, weights = draw(seed, numbers=not labels)
        expected = evaluated(measure, *without(samples, weights), options)
        assert evaluated(measure, samples, weights, options) == expected
        assert np.isfinite(expected)


@pytest.mark.parametrize("measure", WEIGHTED)
def test_an_absent_row_may_hold_nan(measure):
    samples, weights = draw(0, numbers=True)
    for (x, y), w in zip(samples, weights, strict=True):
        x[w == 0], y[w == 0] = np.nan, np.inf
    assert evaluated(measure, samples, weights, {}) == evaluated(measure, *without(samples, weights), {})


@pytest.mark.parametrize("measure", [name for name in WEIGHTED if MEASURES[name].row_sums is not None])
def test_absent_rows_of_the_sampled_method_and_of_chunks(measure):
    samples, weights = draw(1)
    labels = {"kernel_y": "delta"} if MEASURES[measure].takes_x else {"kernel": "delta"}
    options = {"method": condcs.Sampled(rng=0), **labels}
    present = without(samples, weights)
    expected = evaluated(measure, *present, options)
    assert evaluated(measure, samples, weights, options) == expected
    parts = [(*(s if MEASURES[measure].takes_x else s[1:]), w) for s, w in zip(samples, weights, strict=True)]
    shorter = [tuple(a[p[-1] > 0] for a in p) for p in parts]
    found = condcs.chunked_divergence(*parts, measure=measure, **options)
    assert found == condcs.chunked_divergence(*shorter, measure=measure, **options)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("measure", WEIGHTED)
def test_absent_rows_of_several_groups(measure):
    samples, weights = draw(2)
    labels = {"kernel_y": "delta"} if MEASURES[measure].takes_x else {"kernel": "delta"}

    def matrix(samples, weights):
        groups = [tuple(s) if MEASURES[measure].takes_x else s[1] for s in (*samples, samples[0])]
        return condcs.pairwise(groups, measure=measure, weights=[*weights, weights[0]], **labels)

    assert np.array_equal(matrix(samples, weights), matrix(*without(samples, weights)))


@pytest.mark.parametrize("form", ["paper", "symmetric", "corrected"])
def test_absent_rows_of_responses_and_predictors(form):
    ((x, y), _), (w, _) = draw(3)
    kept = w > 0
    if form != "symmetric":
        options = {"form": form, "kernel_y": "delta", "kernel_x2": "delta"}
        found = condcs.conditional_cs_predictors(y, x, y[::-1] + x[:, :1].round(), weights=w, **options)
        rows = y[kept], x[kept], (y[::-1] + x[:, :1].round())[kept]
        assert found == condcs.conditional_cs_predictors(*rows, weights=w[kept], **options)
    if form != "corrected":
        options = {"form": form, "kernel_y": "delta"}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = condcs.conditional_cs_responses(x, y, (y + 1) % 2, weights=w, **options)
        assert found == condcs.conditional_cs_responses(
            x[kept], y[kept], ((y + 1) % 2)[kept], weights=w[kept], **options
        )


@pytest.mark.parametrize("kind", ["lists", "DataFrame", "Series", "pyarrow"])
def test_absent_rows_of_any_kind_of_table(kind):
    samples, weights = draw(4, numbers=True)
    pd = pytest.importorskip("pandas")

    def made(a):
        if kind == "lists":
            return a.tolist()
        frame = pd.DataFrame(a, columns=[f"c{i}" for i in range(a.shape[1])])
        if kind == "Series":
            return frame["c0"]
        return pytest.importorskip("pyarrow").Table.from_pandas(frame) if kind == "pyarrow" else frame

    (xp, yp), (xq, yq) = [[made(a) for a in s] for s in samples]
    (tp, sp), (tq, sq) = without(samples, weights)[0]
    if kind == "Series":
        tp, tq = tp[:, 0], tq[:, 0]
    found = condcs.conditional_cs(xp, yp, xq, yq, weights_p=list(weights[0]), weights_q=pd.Series(weights[1]))
    expected = condcs.conditional_cs(
        tp, sp, tq, sq, weights_p=weights[0][weights[0] > 0], weights_q=weights[1][weights[1] > 0]
    )
    # Columns of a table lie in memory in another order than rows of an array: sums differ in the last digit.
    assert found == pytest.approx(expected, rel=1e-12)


OTHERS = {
    "conditional_test": lambda samples, **options: condcs.conditional_test(*samples, n_resamples=39, rng=0, **options),
    "witness": lambda samples, **options: condcs.witness(*samples, n_resamples=39, rng=0, **options),
    "explain": lambda samples, **options: condcs.explain(*samples, n_resamples=99, rng=0, **options),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("extra", ["alone", "propensity", "clusters"])
def test_absent_rows_of_tests_regions_and_the_witness(name, extra):
    """Sizes, clusters and probabilities that were given are those of the rows that are present."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 80, 1)), rng.normal(size=(2, 80, 1))
    weights = np.where(np.arange(80) % 4 == 1, 0.0, rng.uniform(1, 3, size=80))
    kept = weights > 0
    x[:, ~kept], y[:, ~kept] = 30.0, -9.0
    whole, present = (
        {"weights_p": weights, "weights_q": weights},
        {"weights_p": weights[kept], "weights_q": weights[kept]},
    )
    if extra == "propensity":
        probabilities = np.tile(0.4 + 0.2 * rng.random(80), 2)
        whole["propensity"], present["propensity"] = probabilities, probabilities[np.tile(kept, 2)]
    if extra == "clusters" and name != "witness":
        ids = np.repeat(np.arange(20), 4)
        ids[~kept] = 77
        whole |= {"clusters_p": ids, "clusters_q": ids}
        present |= {"clusters_p": ids[kept], "clusters_q": ids[kept]}
    call = OTHERS[name]
    expected = call([x[0][kept], y[0][kept], x[1][kept], y[1][kept]], **present)
    assert call([x[0], y[0], x[1], y[1]], **whole) == expected


@pytest.mark.parametrize("estimator", ["paper", "pooled", "p", "q"])
def test_gradients_at_absent_rows_are_zero(estimator):
    torch = pytest.importorskip("torch")
    samples, weights = draw(6)

    def gradients(samples, weights):
        tensors = [torch.as_tensor(a) for s in samples for a in s]
        xs = [tensors[0].requires_grad_(), tensors[2].requires_grad_()]
        ws = [torch.as_tensor(w).requires_grad_() for w in weights]
        options = {"estimator": estimator, "kernel_y": "delta"}
        value = condcs.conditional_cs(*tensors, weights_p=ws[0], weights_q=ws[1], **options)
        return value.item(), [g.numpy() for g in torch.autograd.grad(value, [*xs, *ws])]

    value, found = gradients(samples, weights)
    expected, of_present = gradients(*without(samples, weights))
    assert value == pytest.approx(expected, rel=1e-12)
    for gradient, other, w in zip(found, of_present, [*weights, *weights], strict=True):
        assert np.allclose(gradient[w > 0], other, rtol=1e-10, atol=1e-14)
        assert not gradient[w == 0].any()


@pytest.mark.slow
@pytest.mark.parametrize("call", ["paper", "pooled", "p", "q", "predictors"])
def test_absent_rows_inside_jit(call):
    """They cannot be dropped there, since weights are not known yet: the formulas leave them out, gradients too."""
    jax = pytest.importorskip("jax")
    samples, weights = draw(7)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        if call == "predictors":
            widths = {"bandwidth_x1": 0.9, "kernel_x2": "delta", "kernel_y": "delta"}

            def value(x, w):
                labels = jax.numpy.asarray(samples[0][1])
                return condcs.conditional_cs_predictors(labels, x, labels, weights=w, **widths)

            arguments = [samples[0][0], weights[0]]
            w = weights[0]
            y = samples[0][1][w > 0]
            expected = condcs.conditional_cs_predictors(y, samples[0][0][w > 0], y, weights=w[w > 0], **widths)
        else:

            def value(x, w):
                (_, yp), (xq, yq) = ([jax.numpy.asarray(a) for a in s] for s in samples)
                options = {"estimator": call, "bandwidth_x": 0.9, "kernel_y": "delta"}
                return condcs.conditional_cs(
                    x, yp, xq, yq, weights_p=w, weights_q=jax.numpy.asarray(weights[1]), **options
                )

            arguments = [samples[0][0], weights[0]]
            options = {"estimator": call, "bandwidth_x": 0.9, "kernel_y": "delta"}
            expected = evaluated("conditional_cs", *without(samples, weights), options)
        arguments = [jax.numpy.asarray(a) for a in arguments]
        assert float(jax.jit(value)(*arguments)) == pytest.approx(float(expected), rel=1e-10)
        gradients = jax.jit(jax.grad(value, argnums=(0, 1)))(*arguments)
        assert all(np.isfinite(np.asarray(g)).all() for g in gradients)
        assert not np.asarray(gradients[0])[weights[0] == 0].any()


@pytest.mark.parametrize("by_cluster", [False, True])
def test_absent_rows_of_the_test_of_two_samples(by_cluster):
    rng = np.random.default_rng(6)
    y, weights = rng.normal(size=(2, 60)), np.where(np.arange(60) % 4 == 1, 0.0, rng.uniform(1, 3, size=60))
    present = weights > 0
    y[:, ~present] = 40.0
    clusters = np.repeat(np.arange(20), 3)
    options, of_present = {}, {}
    if by_cluster:
        options = {"clusters_p": clusters, "clusters_q": clusters}
        of_present = {name: ids[present] for name, ids in options.items()}
    whole = condcs.two_sample_test(*y, weights_p=weights, weights_q=weights, n_resamples=39, rng=0, **options)
    kept = weights[present]
    expected = condcs.two_sample_test(
        y[0][present], y[1][present], weights_p=kept, weights_q=kept, n_resamples=39, rng=0, **of_present
    )
    assert whole == expected
