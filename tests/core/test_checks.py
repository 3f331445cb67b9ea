"""What may be passed in, what comes back, and that the caller's arrays stay as they are."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest

import condcs
from condcs._core.errors import BandwidthError, DataError, OverlapWarning, ParameterError, ShapeError

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(size=30)
XQ, YQ = RNG.normal(size=(20, 2)), RNG.normal(size=20)
EXPECTED = float(condcs.conditional_cs(X, Y, XQ, YQ))


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


# Containers


def test_data_frames_and_series_are_arrays_with_names(pd):
    """The same numbers, whatever holds them."""
    xp, xq = pd.DataFrame(X, columns=["age", "dose"]), pd.DataFrame(XQ, columns=["age", "dose"])
    assert condcs.conditional_cs(xp, pd.Series(Y), xq, pd.Series(YQ)) == EXPECTED


def test_the_index_of_a_data_frame_does_not_matter(pd):
    """Rows are matched by position: a shuffled index must not realign them."""
    index = np.random.default_rng(0).permutation(30)
    xp, yp = pd.DataFrame(X, index=index), pd.Series(Y, index=index[::-1])
    assert condcs.conditional_cs(xp, yp, pd.DataFrame(XQ), pd.Series(YQ)) == EXPECTED


def test_column_names_are_kept_for_messages(pd):
    """The message names the column, not its number."""
    xp = pd.DataFrame({"age": Y, "dose": np.where(np.arange(30) == 4, np.nan, Y)})
    with pytest.raises(DataError, match="first in row 4, column 'dose'"):
        condcs.conditional_cs(xp, Y, X, Y)


def test_names_come_from_whichever_sample_has_them(pd):
    """A DataFrame may be compared with a plain array."""
    xq = pd.DataFrame(np.where(np.isclose(XQ, XQ[2, 0]), np.inf, XQ), columns=["age", "dose"])
    with pytest.raises(DataError, match=r"`xq` must be finite.*row 2, column 'age'"):
        condcs.conditional_cs(X, Y, xq, YQ)


def test_the_name_of_a_series_is_kept_for_messages(pd):
    """A Series is a column with a name."""
    with pytest.raises(DataError, match="column 'height'"):
        condcs.cs(pd.Series([1.0, np.nan], name="height"), Y)


def test_labels_in_a_data_frame_are_shown(pd):
    """The message quotes the first label, so that the column is recognised."""
    xp = pd.DataFrame({"age": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"]})
    with pytest.raises(DataError, match=r"labels in column 'sex' \(e.g. 'f'\).*kernel_x=\"delta\""):
        condcs.conditional_cs(xp, Y[:3], xp, Y[:3])


def test_the_label_shown_is_the_one_that_is_no_number():
    """A stray word among numbers is found, not the number above it."""
    with pytest.raises(DataError, match=r"\(e.g. 'n/a'\)"):
        condcs.cs([1.0, 2.0, "n/a"], Y)


def test_data_frames_with_reordered_columns_are_matched_by_name(pd):
    """Compared by position, age would meet dose without a word."""
    xp, xq = pd.DataFrame(X, columns=["age", "dose"]), pd.DataFrame(XQ, columns=["age", "dose"])
    assert condcs.conditional_cs(xp, Y, xq[["dose", "age"]], YQ) == EXPECTED
    groups = [(xp, Y), (xq[["dose", "age"]], YQ)]
    assert condcs.pairwise(groups)[0, 1] == EXPECTED
    tested = condcs.conditional_test(groups, null="permutation", n_resamples=1, rng=0)
    assert tested.statistic == pytest.approx(EXPECTED, rel=1e-12)


def test_data_frames_with_other_names_were_compared_by_place(pd):
    """Which columns are missing is said; columns that are only numbered have no names."""
    xp, xq = pd.DataFrame(X, columns=["age", "dose"]), pd.DataFrame(XQ, columns=["age", "height"])
    with pytest.raises(DataError, match=r"`xq` lacks 'dose' and `xp` lacks 'height'. Rename the columns, or pass arr"):
        condcs.conditional_cs(xp, Y, xq, YQ)
    with pytest.raises(DataError, match="lacks 'dose'"):
        condcs.pairwise([(xp, Y), (xq, YQ)])
    with pytest.raises(DataError, match="lacks 'dose'"):
        condcs.conditional_test([(xp, Y), (xp, Y), (xq, YQ)], n_resamples=1)
    twice = pd.DataFrame(XQ, columns=["age", "age"])
    with pytest.raises(DataError, match="each once"):
        condcs.conditional_kl(xp, Y, twice, YQ)
    assert condcs.conditional_cs(xp, Y, xq.to_numpy(), YQ) == EXPECTED
    assert condcs.conditional_cs(xp, Y, pd.DataFrame(XQ), YQ) == EXPECTED


def test_tables_of_pyarrow_raised_an_attribute_error(pd):
    """Tables, batches and columns are accepted, with their names, missing values and categories."""
    pa = pytest.importorskip("pyarrow")

    def table(values, names=("age", "dose")):
        return pa.table({name: values[:, c] for c, name in enumerate(names)})

    xp, xq = table(X), table(XQ[:, ::-1], ("dose", "age")).to_batches()[0]
    halves = pa.chunked_array([Y[:10], Y[10:]])
    assert condcs.conditional_cs(xp, halves, xq, pa.array(YQ)) == EXPECTED
    with pytest.raises(DataError, match="`xq` lacks 'dose'"):
        condcs.conditional_cs(xp, Y, pd.DataFrame(XQ, columns=["age", "height"]), YQ)
    gap = pa.table({"age": pa.array([1.0, None, 2.0])})
    with pytest.raises(DataError, match="row 1, column 'age'"):
        condcs.cs(gap, YQ)
    labels = pa.table({"kind": pa.array(["a", "b", "b"]).dictionary_encode()})
    assert condcs.cs(labels, ["a", "b", "b"], kernel="delta") == pytest.approx(0.0, abs=1e-12)


def test_data_frames_with_other_names_are_compared_by_position(pd):
    """Two responses rightly have names of their own."""
    y1, y2 = pd.DataFrame({"truth": Y}), pd.DataFrame({"prediction": Y[::-1]})
    assert condcs.conditional_cs_responses(X, y1, y2) == condcs.conditional_cs_responses(X, Y, Y[::-1])


@pytest.mark.parametrize("missing", ["None", "nan", "NA", "NaT"])
def test_missing_values_of_any_kind(pd, missing):
    """pandas.NA refuses comparisons and NaT is no float: both are missing all the same."""
    value = {"None": None, "nan": float("nan"), "NA": pd.NA, "NaT": pd.NaT}[missing]
    labels = pd.Series(["a", value, "b"], dtype=object, name="group")
    with pytest.raises(DataError, match="no missing labels, got 1 in column 'group'"):
        condcs.cs(labels, ["a", "b"], kernel="delta")
    numbers = pd.Series([1.0, value, 2.0], dtype=object, name="size")
    with pytest.raises(DataError, match="row 1, column 'size'"):
        condcs.cs(numbers, Y)


@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.ma.array(a),
        lambda a: a.astype(object),
        lambda a: a.astype(">f8"),
    ],
    ids=["list", "tuple", "Fortran", "strided", "masked", "object", "big-endian"],
)
def test_other_containers(convert):
    """All hold the same numbers."""
    assert condcs.conditional_cs(convert(X), convert(Y), XQ, YQ) == pytest.approx(EXPECTED, abs=1e-14)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.uint64])
def test_integers_and_booleans_are_numbers(dtype):
    """They are computed in double precision."""
    values = np.random.default_rng(5).integers(0, 2, size=(2, 25))
    found = condcs.cs(values[0].astype(dtype), values[1].astype(dtype), bandwidth=0.7)
    assert found == condcs.cs(values[0].astype(float), values[1].astype(float), bandwidth=0.7)
    assert found.dtype == np.float64


def test_one_dimension_is_one_column():
    """A 1-d array and a column give the same."""
    assert condcs.cs(Y, YQ) == condcs.cs(Y[:, None], YQ[:, None])


def test_large_integer_labels_stay_apart(library):
    """A code such as 100,000,001 has no exact single-precision float; labels must not merge."""
    ids = np.array([100_000_000, 100_000_001] * 10)
    y = np.where(ids % 2 == 0, 1.0, -1.0).astype(np.float32) + 0.1 * YQ.astype(np.float32)
    expected = condcs.conditional_cs(ids % 2, y, ids % 2, -y, kernel_x="delta")
    merged = condcs.conditional_cs(0 * ids, y, 0 * ids, -y, kernel_x="delta")
    found = condcs.conditional_cs(*(library.asarray(a) for a in (ids, y, ids, -y)), kernel_x="delta")
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert abs(float(merged) - float(expected)) > 0.1


# Floating types


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("f2", "f2"), "f2"),
        (("f4", "f4"), "f4"),
        (("f8", "f8"), "f8"),
        (("f2", "f4"), "f4"),
        (("f4", "f8"), "f8"),
        (("i8", "f4"), "f4"),
        (("i8", "i8"), "f8"),
        (("g", "f4"), "f8"),
    ],
)
def test_the_result_has_the_widest_float_given(given, expected):
    """Halves are computed in single precision and returned as halves; integers do not count."""
    a, b = (np.round(4 * v).astype(t) for v, t in zip((Y, YQ), given, strict=True))
    found = condcs.cs(a, b)
    assert found.dtype == np.dtype(expected)
    tolerance = {"f2": 1e-3, "f4": 1e-4, "f8": 1e-12}[expected]
    assert float(found) == pytest.approx(float(condcs.cs(np.round(4 * Y), np.round(4 * YQ))), abs=tolerance)


def test_single_precision_data_frames_stay_single(pd):
    """A DataFrame has a type per column; labels and integers among them do not count."""
    frame = pd.DataFrame({"a": Y.astype("f4"), "n": np.arange(30), "label": ["u", "v"] * 15})
    assert condcs.cs(frame[["a"]], frame[["a"]]).dtype == np.float32
    assert condcs.cs(frame, frame, kernel=["gaussian", "laplacian", "delta"]).dtype == np.float32
    assert condcs.cs(pd.Series(Y, dtype="Float32"), pd.Series(YQ, dtype="Float32")).dtype == np.float32


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_result_type_of_tensors(name):
    """Tensors keep their type; integers take torch's default."""
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    a, b = (torch.as_tensor(np.round(4 * v)).to(dtype) for v in (Y, YQ))
    assert condcs.cs(a, b).dtype == (torch.get_default_dtype() if name == "int64" else dtype)


def test_numpy_results_are_floats():
    """A numpy scalar in double precision is a Python float."""
    assert isinstance(condcs.cs(Y, YQ), float)


# Weights


def test_weights_of_any_numeric_kind():
    """Counts, flags and columns are weights too."""
    counts = np.arange(30) % 3
    expected = condcs.cs(np.repeat(Y, counts), YQ, bandwidth=1.0)
    for weights in (counts, counts.tolist(), counts[:, None], counts.astype(np.uint8)):
        assert condcs.cs(Y, YQ, bandwidth=1.0, weights_p=weights) == pytest.approx(expected, rel=1e-13)
    kept = counts > 0
    assert condcs.cs(Y, YQ, bandwidth=1.0, weights_p=kept) == pytest.approx(
        condcs.cs(Y[kept], YQ, bandwidth=1.0), rel=1e-13
    )


@pytest.mark.parametrize(("p", "q"), [(1e-200, 1e200), (1e300, 1e-300), (5e-324, 1.0), (1e307, 1e307)])
def test_the_scale_of_weights_does_not_matter(p, q):
    """Each sample's weights are known up to a factor, however far the factors are apart."""
    weights = {"weights_p": np.full(30, p), "weights_q": np.full(20, q)}
    assert condcs.conditional_cs(X, Y, XQ, YQ, **weights) == pytest.approx(EXPECTED, rel=1e-12)
    assert condcs.mmd(Y, YQ, **weights) == pytest.approx(condcs.mmd(Y, YQ), rel=1e-12)


# The caller's arrays


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "delta", lambda a, b: np.exp(-abs(a[:, :1] - b[:, 0]))])
def test_arrays_are_not_modified(kernel):
    """Nothing is done in place: the arrays may be read-only, and hold the same afterwards."""
    data = [np.round(a) for a in (X, Y, XQ, YQ)] + [np.ones(30), np.ones(20)]
    before = copy.deepcopy(data)
    for a in data:
        a.flags.writeable = False
    xp, yp, xq, yq, wp, wq = data
    pair = {"weights_p": wp, "weights_q": wq}
    kernels = {"kernel_x": kernel, "kernel_y": kernel}
    condcs.cs(xp, xq, kernel=kernel, **pair)
    condcs.mmd(xp, xq, kernel=kernel, unbiased=True, **pair)
    condcs.joint_mmd(xp, yp, xq, yq, **kernels, **pair)
    with pytest.warns(OverlapWarning) if kernel == "delta" else nullcontext():
        condcs.conditional_cs(xp, yp, xq, yq, **kernels, **pair)
    condcs.conditional_cs_responses(xp, yp, yp[::-1], weights=wp, **kernels)
    condcs.conditional_cs_predictors(yp, xp[:, 0], xp[:, 1], weights=wp)
    condcs.conditional_mmd(xp, yp, xq, yq, **kernels)
    condcs.mcmd(xp, yp, xq, yq, at=xq, **kernels)
    condcs.conditional_kl(xp, yp, xq, yq)
    condcs.conditional_bregman(xp, yp, xq, yq, matrix="correntropy")
    for a, b in zip(data, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_data_frames_are_not_modified(pd):
    """Label columns are coded in a copy."""
    frame = pd.DataFrame({"a": Y, "label": ["u", "v", "w"] * 10})
    before = frame.copy(deep=True)
    condcs.cs(frame, frame, kernel=["gaussian", "delta"])
    pd.testing.assert_frame_equal(frame, before)


def test_the_arguments_of_pairwise_are_not_modified():
    """Neither the list of groups nor the options given by name."""
    groups, options = [(X, Y), (XQ, YQ)], {"bandwidth_x": [1.0, 2.0], "estimator": "pooled"}
    condcs.pairwise(groups, **options)
    assert groups[0][0] is X
    assert options == {"bandwidth_x": [1.0, 2.0], "estimator": "pooled"}


# The checks themselves


def test_the_transposed_argument_is_the_one_named():
    """The remedy is meant for the argument that lies on its side."""
    with pytest.raises(ShapeError, match=r"pass `xp\.T`"):
        condcs.conditional_cs(X.T, Y, X, Y)
    with pytest.raises(ShapeError, match=r"pass `xq\.T`"):
        condcs.conditional_cs(X, Y, XQ.T, YQ)
    with pytest.raises(ShapeError, match=r"got 2 and 30.*pass `xp\.T`"):
        condcs.conditional_cs(X.T, Y, X.T, Y)
    with pytest.raises(ShapeError, match=r"got 30 and 2.*pass `yp\.T`"):
        condcs.conditional_cs(X, X.T, X, X.T)


def test_an_argument_used_twice_is_named_once():
    """In Prop. 3 both groups have the same x."""
    with pytest.raises(BandwidthError, match=r"^conditional_cs_responses: `x` must vary"):
        condcs.conditional_cs_responses(np.ones(30), Y, Y)


def test_many_groups_are_not_all_listed():
    """A message stays readable with a hundred groups."""
    groups = [(np.ones(3), np.arange(3.0))] * 100
    with pytest.raises(BandwidthError, match=r"`groups\[0\]\[0\]` ... `groups\[99\]\[0\]` must vary"):
        condcs.pairwise(groups)


def test_the_wrong_number_of_kernels_names_the_option():
    """The kernels are at fault, not the data."""
    with pytest.raises(
        ParameterError, match=r"`kernel_y` must name one kernel per column of `yp` and `yq` \(1\), got 2"
    ):
        condcs.conditional_cs(X, Y, XQ, YQ, kernel_y=["gaussian", "delta"])


@pytest.mark.parametrize("container", ["array", "list", "series", "torch"])
def test_times_in_seconds_beside_single_precision_were_rounded_to_minutes(container):
    """float32 holds whole numbers up to 2^24: an x in single precision made unix seconds multiples of 128."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100).astype(np.float32)
    y = (1_700_000_000 + 200 * (x + rng.normal(size=100))).astype(np.int64)
    expected = condcs.conditional_cs(x[:50].astype(float), y[:50], x[50:].astype(float), y[50:])
    make = {"array": np.asarray, "list": list, "series": pytest.importorskip("pandas").Series}.get(container)
    as_x = np.asarray
    if container == "torch":
        make = as_x = pytest.importorskip("torch").as_tensor
    value = condcs.conditional_cs(as_x(x[:50]), make(y[:50]), as_x(x[50:]), make(y[50:]))
    assert float(value) == pytest.approx(expected, rel=1e-12)
    # Small integers are exact in single precision, which stays what it is.
    small = condcs.conditional_cs(as_x(x[:50]), as_x(y[:50] % 7), as_x(x[50:]), as_x(y[50:] % 7))
    assert "float32" in str(small.dtype)


def test_large_integers_without_double_precision_are_refused():
    """JAX computes in single precision unless told otherwise."""
    jnp = pytest.importorskip("jax").numpy
    y = 1_700_000_000 + jnp.arange(20)
    with pytest.raises(DataError, match=r"`yp` must hold integers that float32 represents.*jax_enable_x64"):
        condcs.cs(y[:10], y[10:])
