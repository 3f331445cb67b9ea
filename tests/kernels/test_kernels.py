"""Kernels: Gram matrices written out by plain formulas, against the divergences that use the library's."""

import warnings

import numpy as np
import pytest

import condcs
from condcs._core.errors import OverlapError, OverlapWarning

RNG = np.random.default_rng(5)
N, M = 24, 17
P, Q = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3)) + 0.3
YP, YQ = P[:, 0] + 0.3 * RNG.normal(size=N), -Q[:, 0] + 0.3 * RNG.normal(size=M)
LABELS_P, LABELS_Q = RNG.integers(0, 3, size=(N, 2)), RNG.integers(0, 3, size=(M, 2))
WIDTHS = np.array([0.7, 1.5, 3.0])


# The oracle: pooled n x n matrices, groups as columns of W


def indicator(weights_p=None, weights_q=None, n=N, m=M):
    W = np.zeros((n + m, 2))
    W[:n, 0] = 1 if weights_p is None else weights_p
    W[n:, 1] = 1 if weights_q is None else weights_q
    return W


def dense_conditional_cs(K, L, W=None):
    """Prop. 2: T[g,h] = sum_j W[j,g] B[j,h] / (A[j,g] A[j,h]), with 0 for a row that has no mass in a group."""
    W = indicator() if W is None else W
    A, B = K @ W, (K * L) @ W
    T = np.zeros((2, 2))
    for g in range(2):
        for h in range(2):
            rows = (A[:, g] > 0) & (A[:, h] > 0)
            T[g, h] = (W[rows, g] * B[rows, h] / (A[rows, g] * A[rows, h])).sum()
    return np.log(T[0, 0]) + np.log(T[1, 1]) - np.log(T[0, 1]) - np.log(T[1, 0])


def dense_cs(L, W=None):
    W = indicator() if W is None else W
    T = W.T @ L @ W
    return np.log(T[0, 0]) + np.log(T[1, 1]) - 2 * np.log(T[0, 1])


def pooled(p, q):
    pool = np.concatenate([np.asarray(a, dtype=object).reshape(len(a), -1) for a in (p, q)])
    return pool[:, None, :], pool[None, :, :]


def gaussian(p, q, widths):
    a, b = pooled(p, q)
    return np.exp(-(((a - b) / widths) ** 2).sum(-1).astype(float) / 2)


def laplacian(p, q, widths):
    """Euclidean distance in units of the widths."""
    a, b = pooled(p, q)
    return np.exp(-np.sqrt((((a - b) / widths) ** 2).sum(-1).astype(float)))


def laplacian_product(p, q, widths):
    """One factor per column: the distances add up."""
    a, b = pooled(p, q)
    return np.exp(-(abs(a - b) / widths).sum(-1).astype(float))


def delta(p, q):
    a, b = pooled(p, q)
    return (a == b).all(-1).astype(float)


L_GAUSSIAN = gaussian(YP, YQ, 0.8)

NUMERIC = {
    "gaussian, one width": ("gaussian", 1.3, gaussian(P, Q, 1.3)),
    "gaussian, a width per column": ("gaussian", WIDTHS, gaussian(P, Q, WIDTHS)),
    "gaussian, named per column": (["gaussian"] * 3, WIDTHS, gaussian(P, Q, WIDTHS)),
    "laplacian, one width": ("laplacian", 1.3, laplacian(P, Q, 1.3)),
    "laplacian, a width per column": ("laplacian", WIDTHS, laplacian(P, Q, WIDTHS)),
    "laplacian, named per column": (["laplacian"] * 3, WIDTHS, laplacian_product(P, Q, WIDTHS)),
    "gaussian and laplacian": (
        ["laplacian", "gaussian", "laplacian"],
        WIDTHS,
        laplacian_product(P[:, ::2], Q[:, ::2], WIDTHS[::2]) * gaussian(P[:, [1]], Q[:, [1]], WIDTHS[1]),
    ),
}


@pytest.mark.parametrize("name", NUMERIC)
def test_numeric_kernels(library, name):
    """Each kernel on x under the conditional divergence, and on y under the marginal one, on every library."""
    kernel, width, K = NUMERIC[name]
    p, q, yp, yq = (library.asarray(a) for a in (P, Q, YP, YQ))
    found = condcs.conditional_cs(p, yp, q, yq, kernel_x=kernel, bandwidth_x=width, bandwidth_y=0.8)
    assert float(found) == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN), rel=1e-11)
    assert float(condcs.cs(p, q, kernel=kernel, bandwidth=width)) == pytest.approx(dense_cs(K), rel=1e-11)


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("tile", [1, 7, 256])
def test_numeric_kernels_in_tiles(name, tile):
    """The Gram matrix falls into blocks of any size, with groups that end inside a block."""
    kernel, width, K = NUMERIC[name]
    with condcs.config_context(tile=tile):
        found = condcs.conditional_cs(P, YP, Q, YQ, kernel_x=kernel, bandwidth_x=width, bandwidth_y=0.8)
    assert found == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN), rel=1e-11)


@pytest.mark.parametrize("library", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("name", NUMERIC)
def test_numeric_kernels_in_single_precision(library, name):
    """Within 1e-4 of double precision, and the result stays single."""
    kernel, width, K = NUMERIC[name]
    p, q, yp, yq = (library.asarray(a.astype(np.float32)) for a in (P, Q, YP, YQ))
    found = condcs.conditional_cs(p, yp, q, yq, kernel_x=kernel, bandwidth_x=width, bandwidth_y=0.8)
    assert library.to_numpy(found).dtype == np.float32
    assert float(found) == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN), abs=1e-4)


@pytest.mark.parametrize("name", NUMERIC)
def test_kernels_see_differences_only(name):
    """Far from the origin, where squares of the values would swallow those of the differences."""
    kernel, width, _ = NUMERIC[name]
    p, q = np.round(P * 2**20) / 2**20, np.round(Q * 2**20) / 2**20  # exact after a shift by 2**30
    options = {"kernel_x": kernel, "bandwidth_x": width, "bandwidth_y": 0.8}
    near = condcs.conditional_cs(p, YP, q, YQ, **options)
    assert condcs.conditional_cs(p + 2.0**30, YP, q + 2.0**30, YQ, **options) == pytest.approx(near, rel=1e-11)


def test_laplacian_by_hand():
    """Points at distance 5 in the plane: exp(-5 / 2), or exp(-(3 + 4) / 2) with a factor per column."""
    p, q = [[0.0, 0.0], [0.0, 0.0]], [[3.0, 4.0], [3.0, 4.0]]
    assert condcs.cs(p, q, kernel="laplacian", bandwidth=2.0) == pytest.approx(5.0, rel=1e-14)
    assert condcs.cs(p, q, kernel=["laplacian"] * 2, bandwidth=2.0) == pytest.approx(7.0, rel=1e-14)


# Labels


def labels(kind):
    names = np.array([["red", "green", "blue"], ["s", "m", "l"]])
    coded = [LABELS_P, LABELS_Q]
    if kind == "integers":
        return coded
    if kind == "floats":
        return [c + 0.5 for c in coded]
    words = [np.stack([names[c][a[:, c]] for c in range(2)], axis=1) for a in coded]
    return words if kind == "strings" else [w.astype(object).tolist() for w in words]


@pytest.mark.parametrize("kind", ["integers", "floats", "strings", "lists"])
def test_delta(kind):
    """1 where all columns agree, whatever the labels are made of; the bandwidth plays no part."""
    p, q = labels(kind)
    K = delta(LABELS_P, LABELS_Q)
    assert condcs.cs(p, q, kernel="delta") == pytest.approx(dense_cs(K), rel=1e-13)
    one = delta(LABELS_P[:, 0], LABELS_Q[:, 0])
    column_p, column_q = ([row[0] for row in a] for a in (p, q))
    found = condcs.conditional_cs(column_p, YP, column_q, YQ, kernel_x="delta", bandwidth_y=0.8)
    assert found == pytest.approx(dense_conditional_cs(one, L_GAUSSIAN), rel=1e-13)
    found = condcs.conditional_cs(P, column_p, Q, column_q, kernel_y="delta", bandwidth_x=1.3)
    assert found == pytest.approx(dense_conditional_cs(gaussian(P, Q, 1.3), one), rel=1e-11)


def test_delta_on_every_library(library):
    """Integer tensors are labels."""
    p, q, yp, yq = (library.asarray(a) for a in (LABELS_P[:, 0], LABELS_Q[:, 0], YP, YQ))
    found = condcs.conditional_cs(p, yp, q, yq, kernel_x="delta", bandwidth_y=0.8)
    expected = dense_conditional_cs(delta(LABELS_P[:, 0], LABELS_Q[:, 0]), L_GAUSSIAN)
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_equal_labels_of_different_types_are_equal():
    """1 and 1.0 are the same label, also beside a column of strings; 1 and "1" are not."""
    p = np.array([[1, "a"], [2, "b"], [1, "b"]], dtype=object)
    q = np.array([[1.0, "a"], [2.0, "b"], [1.0, "b"]], dtype=object)
    assert condcs.cs(p, q, kernel="delta") == pytest.approx(0, abs=1e-14)
    with pytest.raises(OverlapError):
        condcs.cs(np.array([1, 2, "x"], dtype=object), np.array(["1", "2", "y"], dtype=object), kernel="delta")


def test_absent_categories_add_nothing_and_are_counted():
    """Rows of category 3 (only in p) and 4 (only in q) take no part in the cross terms: 3 + 2 rows, with a warning."""
    p, q = LABELS_P[:, 0].copy(), LABELS_Q[:, 0].copy()
    p[:3], q[:2] = 3, 4
    with pytest.warns(OverlapWarning, match=f"5 of {N + M} rows") as caught:
        found = condcs.conditional_cs(p, YP, q, YQ, kernel_x="delta", bandwidth_y=0.8)
    assert len(caught) == 1
    assert found == pytest.approx(dense_conditional_cs(delta(p, q), L_GAUSSIAN), rel=1e-13)
    own_terms_only = condcs.conditional_cs(p[3:], YP[3:], q[2:], YQ[2:], kernel_x="delta", bandwidth_y=0.8)
    assert abs(found - own_terms_only) > 0.01  # the rows still count in their own sample's term


def test_absent_categories_on_every_library(library):
    """The same rows are left out of the same terms."""
    p, q = LABELS_P[:, 0].copy(), LABELS_Q[:, 0].copy()
    p[:3], q[:2] = 3, 4
    arrays = [library.asarray(a) for a in (p, YP, q, YQ)]
    with pytest.warns(OverlapWarning, match=f"5 of {N + M} rows"):
        found = condcs.conditional_cs(*arrays, kernel_x="delta", bandwidth_y=0.8)
    assert float(found) == pytest.approx(dense_conditional_cs(delta(p, q), L_GAUSSIAN), rel=1e-12)


def test_the_overlap_warning_points_at_the_caller():
    """The line to look at is the one that made the call."""
    with pytest.warns(OverlapWarning) as caught:
        condcs.conditional_cs([1, 1, 2, 3], YP[:4], [1, 1, 2, 2], YQ[:4], kernel_x="delta")
    assert caught[0].filename == __file__


def test_a_category_of_weight_zero_is_absent(library):
    """A weight of 0 takes a row out of its sample, also where nothing else is left of its category."""
    p, q = LABELS_P[:, 0], LABELS_Q[:, 0]
    weights = (q != 2).astype(float)
    arrays = [library.asarray(a) for a in (p, YP, q, YQ)]
    options = {"kernel_x": "delta", "bandwidth_y": 0.8}
    with pytest.warns(OverlapWarning):
        found = condcs.conditional_cs(*arrays, weights_q=library.asarray(weights), **options)
    expected = dense_conditional_cs(delta(p, q), L_GAUSSIAN, indicator(weights_q=weights))
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_an_outlier_of_weight_zero_is_gone(library):
    """Weighting an outlier out is the same as leaving it out, however far off it lies."""
    xp, yp, weights = P[:, 0].copy(), YP.copy(), np.ones(N)
    xp[0], yp[0], weights[0] = 60.0, 5.0, 0.0
    arrays = [library.asarray(a) for a in (xp, yp, Q[:, 0], YQ)]
    options = {"bandwidth_x": 0.5, "bandwidth_y": 0.8}
    found = condcs.conditional_cs(*arrays, weights_p=library.asarray(weights), **options)
    assert float(found) == pytest.approx(condcs.conditional_cs(xp[1:], yp[1:], Q[:, 0], YQ, **options), rel=1e-11)


# Mixed columns

MIXED_KERNEL = ["gaussian", "delta", "laplacian"]


def mixed(kind, pd=None):
    numbers, words = ((P, Q), ([list("abc")[i] for i in a[:, 0]] for a in (LABELS_P, LABELS_Q)))
    rows = [[[n[0], w, n[2]] for n, w in zip(a, b, strict=True)] for a, b in zip(numbers, words, strict=True)]
    if kind == "lists":
        return rows
    if kind == "DataFrame":
        return [pd.DataFrame(r, columns=["dose", "group", "time"]) for r in rows]
    if kind == "object DataFrame":
        return [pd.DataFrame(r, columns=["dose", "group", "time"], dtype=object) for r in rows]
    return [np.array(r, dtype=object) for r in rows]


def dense_mixed(width_gaussian, width_laplacian):
    factors = (
        gaussian(P[:, [0]], Q[:, [0]], width_gaussian),
        delta(LABELS_P[:, 0], LABELS_Q[:, 0]),
        laplacian(P[:, [2]], Q[:, [2]], width_laplacian),
    )
    return factors[0] * factors[1] * factors[2]


@pytest.mark.parametrize("kind", ["lists", "object array", "DataFrame", "object DataFrame"])
def test_mixed_columns(kind):
    """A product with one factor per column, in whatever the columns come."""
    p, q = mixed(kind, pytest.importorskip("pandas") if "Frame" in kind else None)
    K = dense_mixed(0.7, 3.0)
    options = {"kernel_x": MIXED_KERNEL, "bandwidth_y": 0.8}
    # The width of a label column does not matter: any number, or None, or left out.
    for widths in ([0.7, 99.0, 3.0], [0.7, None, 3.0], (0.7, 3.0), np.array([0.7, np.nan, 3.0])):
        found = condcs.conditional_cs(p, YP, q, YQ, bandwidth_x=widths, **options)
        assert found == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN), rel=1e-11)
    assert condcs.cs(p, q, kernel=MIXED_KERNEL, bandwidth=2.0) == pytest.approx(
        dense_cs(dense_mixed(2.0, 2.0)), rel=1e-11
    )


def test_mixed_columns_by_rule():
    """A rule looks at the columns that have a width."""
    p, q = mixed("lists")
    widths = condcs.bandwidth(P[:, [0, 2]], Q[:, [0, 2]])
    assert condcs.cs(p, q, kernel=MIXED_KERNEL) == pytest.approx(dense_cs(dense_mixed(*widths)), rel=1e-11)


def test_mixed_columns_on_every_library(library):
    """Label columns hold numbers there."""
    p, q = (np.column_stack([a[:, 0], b[:, 0], a[:, 2]]) for a, b in ((P, LABELS_P), (Q, LABELS_Q)))
    arrays = [library.asarray(a) for a in (p, YP, q, YQ)]
    found = condcs.conditional_cs(*arrays, kernel_x=MIXED_KERNEL, bandwidth_x=[0.7, 1.0, 3.0], bandwidth_y=0.8)
    assert float(found) == pytest.approx(dense_conditional_cs(dense_mixed(0.7, 3.0), L_GAUSSIAN), rel=1e-11)


# Functions


def test_a_function_equal_to_a_named_kernel(library):
    """A callable gets blocks of rows in the arrays' own library and gives the same divergence."""
    xp = {"numpy": np}.get(library.name) or pytest.importorskip("torch" if library.name == "torch" else "jax.numpy")

    def kernel(a, b):
        return xp.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) / 1.3**2)

    p, q, yp, yq = (library.asarray(a) for a in (P, Q, YP, YQ))
    found = condcs.conditional_cs(p, yp, q, yq, kernel_x=kernel, bandwidth_y=0.8)
    assert float(found) == pytest.approx(dense_conditional_cs(gaussian(P, Q, 1.3), L_GAUSSIAN), rel=1e-11)
    assert float(condcs.cs(p, q, kernel=kernel)) == pytest.approx(dense_cs(gaussian(P, Q, 1.3)), rel=1e-11)


@pytest.mark.parametrize("tile", [5, 256])
@pytest.mark.parametrize("returned", [bool, np.int8, np.uint64, np.float32, np.float64, list])
def test_functions_that_count_or_compare(returned, tile):
    """A Gram block of integers or booleans is as good as one of floats: 1 + 3 [equal labels] up to 8 bits."""
    p, q = LABELS_P[:, 0], LABELS_Q[:, 0]
    factor = 0 if returned is bool else 1

    def kernel(a, b):
        block = (a == b.T) * (1 + 2 * factor) + factor
        return block.tolist() if returned is list else block.astype(returned)

    with condcs.config_context(tile=tile):
        found = condcs.cs(p, q, kernel=kernel)
    assert found == pytest.approx(dense_cs(delta(p, q) * (1 + 2 * factor) + factor), rel=1e-13)


def test_a_function_that_vanishes():
    """A kernel of compact support: rows without neighbours in the other sample are left out and counted."""

    def triangle(a, b):
        return np.maximum(0, 1 - abs(a - b.T) / 0.5)

    x, xq = P[:, 0].copy(), Q[:, 0].copy()
    x[0] = 50.0
    a, b = pooled(x, xq)
    K = np.maximum(0, 1 - abs(a - b)[..., 0].astype(float) / 0.5)
    alone = int((~(K @ indicator() > 0).all(axis=1)).sum())
    assert 0 < alone < N + M
    with pytest.warns(OverlapWarning, match=f"^in {alone} of {N + M} rows"):
        found = condcs.conditional_cs(x, YP, xq, YQ, kernel_x=triangle, bandwidth_y=0.8)
    assert found == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN), rel=1e-11)


def test_the_scale_of_a_function_does_not_matter():
    """Constants of the kernels cancel in every log contrast, also huge and tiny ones."""
    expected = dense_conditional_cs(gaussian(P, Q, 1.3), L_GAUSSIAN)
    for scale in (1e-250, 1e-3, 1e250):

        def kernel(a, b, scale=scale):
            return scale * np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) / 1.3**2)

        found = condcs.conditional_cs(P, YP, Q, YQ, kernel_x=kernel, bandwidth_y=0.8)
        assert found == pytest.approx(expected, rel=1e-10)


def test_errors_inside_a_function_come_through():
    """What the caller's own code raises is not disguised."""

    def kernel(a, b):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match=r"^mine$"):
        condcs.cs(YP, YQ, kernel=kernel)


# Weights


@pytest.mark.parametrize("name", NUMERIC)
def test_weighted_kernels(library, name):
    """Weights multiply rows of the Gram matrices."""
    kernel, width, K = NUMERIC[name]
    weights = [np.random.default_rng(i).uniform(0.1, 2, size=size) for i, size in enumerate((N, M))]
    arrays = [library.asarray(a) for a in (P, YP, Q, YQ)]
    given = {name: library.asarray(w) for name, w in zip(("weights_p", "weights_q"), weights, strict=True)}
    found = condcs.conditional_cs(*arrays, kernel_x=kernel, bandwidth_x=width, bandwidth_y=0.8, **given)
    assert float(found) == pytest.approx(dense_conditional_cs(K, L_GAUSSIAN, indicator(*weights)), rel=1e-11)


def test_nothing_is_said_when_all_rows_overlap():
    """The warning is for absent categories only."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        condcs.conditional_cs(LABELS_P[:, 0], YP, LABELS_Q[:, 0], YQ, kernel_x="delta")
