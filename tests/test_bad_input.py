"""Bad input: every public function says which argument broke which rule, and what to do about it."""

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

import condcs
from condcs._core import errors
from condcs._core.errors import BandwidthError, DataError, OverlapError, ParameterError, ShapeError

N = 12
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.random.default_rng(1).normal(size=N)
LABELS = ["a", "b"] * (N // 2)
PAIR = {"xp": X, "yp": Y, "xq": X + 0.1, "yq": Y[::-1]}
MIXTURE = {
    "means_p": [[0.0, 0.0]],
    "covariances_p": [[1.0, 1.0]],
    "means_q": [[1.0, 0.0]],
    "covariances_q": [[1.0, 2.0]],
}

LONG = np.random.default_rng(2).normal(size=30)
TABLE = {"x": np.arange(30.0), "y": np.arange(30.0) ** 2}
GROUPED = {"x": np.cos(np.arange(60.0)), "y": np.sin(np.arange(60.0)), "g": np.repeat(["a", "b"], 30)}
GOOD: dict[str, dict[str, Any]] = {
    "bandwidth": {},
    "cs": {"yp": Y, "yq": Y + 1},
    "mmd": {"yp": Y, "yq": Y + 1},
    "joint_mmd": PAIR,
    "chunked_divergence": {"p": (X, Y), "q": (X + 0.1, Y[::-1])},
    "conditional_cs": PAIR,
    "conditional_euclidean": PAIR,
    "conditional_cs_responses": {"x": X, "y1": Y, "y2": Y[::-1]},
    "conditional_cs_predictors": {"y": Y, "x1": X[:, 0], "x2": X[:, 1]},
    "conditional_mmd": PAIR,
    "loss_change": {"xp": LONG, "loss_p": LONG**2, "xq": LONG + 0.1, "loss_q": 2 * LONG**2},
    "mcmd": {**PAIR, "at": X[:3]},
    "conditional_kl": PAIR,
    "conditional_bregman": PAIR,
    "compare": {"reference": TABLE, "current": {**TABLE, "y": TABLE["y"][::-1]}, "y": "y", "n_resamples": 39},
    "assert_same_relation": {"reference": TABLE, "current": TABLE, "y": "y"},
    "compare_groups": {"table": GROUPED, "group": "g", "y": "y"},
    "cs_gaussian_mixture": MIXTURE,
    "pairwise": {"groups": [(X, Y), (X + 0.1, Y[::-1]), (X, -Y)]},
    "config_context": {},
    "conditional_test": {**PAIR, "n_resamples": 9, "rng": 0},
    "two_sample_test": {"yp": Y, "yq": Y + 1, "n_resamples": 9, "rng": 0},
    "independence_test": {"x": X[:, 0], "y": Y, "given": X[:, 1], "null": "local", "n_resamples": 9, "rng": 0},
    "witness": PAIR,
    "explain": PAIR,
}
"""Arguments with which each function works; a row below changes one or two of them."""


def with_nan(a: np.ndarray, value: float = np.nan) -> np.ndarray:
    a = np.array(a, dtype=float)
    a.flat[3] = value
    return a


def tensors(**arrays: Any) -> Callable[[], dict[str, Any]]:
    """Arguments as torch tensors, made only when the test runs."""

    def make() -> dict[str, Any]:
        torch = pytest.importorskip("torch")
        return {name: torch.as_tensor(a) for name, a in arrays.items()}

    return make


def data_frame(**columns: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


class Bad(NamedTuple):
    """One bad call: what is changed, and what the error must say."""

    function: str
    what: str
    change: dict[str, Any] | Callable[[], dict[str, Any]]
    error: type[Exception]
    argument: str | None  # None: the rule concerns all arguments at once
    remedy: str


ROWS = [
    # The form of one array
    Bad("cs", "3-d", {"yp": np.zeros((4, 3, 2))}, ShapeError, "yp", "Reshape it, e.g. `yp.reshape(len(yp), -1)`"),
    Bad("conditional_cs", "0-d", {"yq": 1.0}, ShapeError, "yq", "Pass an array with one row per observation"),
    Bad(
        "cs", "generator", {"yp": (i for i in range(9))}, ShapeError, "yp", "Pass an array with one row per observation"
    ),
    Bad("mmd", "no rows", {"yq": []}, ShapeError, "yq", "Collect more observations"),
    Bad("joint_mmd", "no columns", {"xp": np.empty((N, 0))}, ShapeError, "xp", "Pass the columns to use"),
    Bad("cs", "none has columns", {"yp": X[:, :0], "yq": X[:, :0]}, ShapeError, "yp", "Pass the columns to use"),
    Bad("conditional_euclidean", "one row", {"xp": X[:1], "yp": Y[:1]}, ShapeError, "xp", "`xp.T`"),
    Bad("conditional_kl", "one row", {"xq": X[:1], "yq": Y[:1]}, ShapeError, "xq", "Collect more observations"),
    Bad("cs", "ragged list", {"yp": [[1.0, 2.0], [3.0]]}, ShapeError, "yp", "Pad or drop rows"),
    Bad("conditional_mmd", "None", {"yp": None}, DataError, "yp", "Pass the observations, one per row"),
    Bad("cs", "a string", {"yq": "yq.csv"}, DataError, "yq", "Pass the observations, one per row"),
    Bad("mcmd", "a dict", {"at": {"x": [1.0]}}, DataError, "at", "Pass the observations, one per row"),
    Bad("mcmd", "at is None", {"at": None}, DataError, "at", "Pass the observations, one per row"),
    Bad("joint_mmd", "sparse", {"xq": csr_array(X)}, DataError, "xq", "Pass `xq.toarray()`"),
    Bad("cs", "masked", {"yp": np.ma.masked_greater(Y, 0)}, DataError, "yp", "`yp.filled(...)`"),
    Bad("cs", "complex", {"yp": Y + 1j}, DataError, "yp", "complex values to two columns"),
    Bad("mmd", "dates", {"yq": np.arange(N).astype("M8[D]")}, DataError, "yq", "dates to numbers"),
    Bad("cs", "structured", {"yp": np.zeros(3, [("a", float)])}, DataError, "yp", "Convert it first"),
    Bad("cs", "huge integer", {"yp": [10**400, 1, 2]}, DataError, "yp", "Rescale it"),
    Bad("cs", "torch complex", tensors(yp=Y + 1j, yq=Y + 0j), DataError, "yp", "Split real and imaginary parts"),
    Bad("cs", "torch 3-d", tensors(yp=X[None], yq=X), ShapeError, "yp", "Reshape it"),
    Bad("chunked_divergence", "a number", {"p": 3.0}, ParameterError, "p", "Pass e.g. x=['age'], y='price'"),
    Bad("chunked_divergence", "one row", {"q": (X[:1], Y[:1])}, ShapeError, "q", "Pass more chunks"),
    Bad("chunked_divergence", "NaN", {"q": (with_nan(X), Y)}, DataError, "q", "Drop those rows"),
    Bad("conditional_cs", "a way", {"method": "fast"}, ParameterError, "method", "method=condcs.Sampled("),
    # Values
    Bad("conditional_cs", "NaN", {"xp": with_nan(X)}, DataError, "xp", "xp[np.isfinite(xp).all(axis=1)]"),
    Bad("conditional_cs", "NaN, 1-d", {"yq": with_nan(Y)}, DataError, "yq", "`yq[np.isfinite(yq)]`"),
    Bad("conditional_bregman", "inf", {"yp": with_nan(Y, np.inf)}, DataError, "yp", "Drop those rows"),
    Bad("conditional_kl", "NaN", {"xq": with_nan(X)}, DataError, "xq", "or impute them"),
    Bad("conditional_mmd", "-inf", {"xp": with_nan(X, -np.inf)}, DataError, "xp", "first in row 1, column 'x2'"),
    Bad("mcmd", "NaN in at", {"at": with_nan(X)}, DataError, "at", "or impute them"),
    Bad("conditional_cs_responses", "NaN", {"x": with_nan(X)}, DataError, "x", "or impute them"),
    Bad("conditional_cs_predictors", "NaN", {"x2": with_nan(Y)}, DataError, "x2", "`x2[np.isfinite(x2)]`"),
    Bad("cs", "torch NaN", tensors(yp=with_nan(Y), yq=Y), DataError, "yp", "row 3, column 'y'"),
    Bad("cs", "None in a list", {"yp": [1.0, None, 2.0]}, DataError, "yp", "or impute them"),
    Bad("bandwidth", "NaN", {"*": (Y, with_nan(Y))}, DataError, "samples[1]", "Drop those rows"),
    # Arrays that do not fit together
    Bad("cs", "columns differ", {"yp": X, "yq": Y}, ShapeError, "yq", "got yp (12, 2) and yq (12, 1)"),
    Bad("conditional_cs", "xq transposed", {"xq": X.T}, ShapeError, "xq", "pass `xq.T`"),
    Bad("conditional_cs", "xp transposed", {"xp": X.T}, ShapeError, "xp", "pass `xp.T`"),
    Bad("conditional_cs", "both transposed", {"xp": X.T, "xq": X.T}, ShapeError, "xp", "pass `xp.T`"),
    Bad("joint_mmd", "rows differ", {"yp": Y[:-1]}, ShapeError, "yp", "row i of one belongs to row i of the other"),
    Bad("conditional_kl", "rows differ", {"yq": Y[:-2]}, ShapeError, "yq", "got 12 and 10"),
    Bad(
        "conditional_cs_responses",
        "rows differ",
        {"y2": Y[:-1]},
        ShapeError,
        "y2",
        "Drop the rows that only one of them has",
    ),
    Bad(
        "conditional_cs_predictors",
        "rows differ",
        {"x1": X[:-1]},
        ShapeError,
        "x1",
        "Drop the rows that only one of them has",
    ),
    Bad("mcmd", "columns of at", {"at": X[:, :1]}, ShapeError, "at", "Pass the same columns of both"),
    Bad("bandwidth", "columns differ", {"*": (X, Y)}, ShapeError, "samples[1]", "same number of columns"),
    Bad("bandwidth", "no sample", {"*": ()}, ShapeError, "samples", "Pass e.g. bandwidth(xp, xq)"),
    Bad(
        "cs",
        "columns of another name",
        lambda: {"yp": data_frame(a=Y, b=-Y), "yq": data_frame(c=-Y, a=Y)},
        DataError,
        "yq",
        "Rename the columns, or pass arrays",
    ),
    Bad("cs", "numpy and torch", tensors(yp=Y), DataError, None, "Convert them first, e.g. with `torch.as_tensor`"),
    Bad(
        "pairwise",
        "numpy and torch",
        lambda: {"groups": [(X, Y), (X, tensors(y=Y)()["y"])]},
        DataError,
        None,
        "Convert",
    ),
    # Labels
    Bad("conditional_cs", "labels in y", {"yp": LABELS, "yq": LABELS}, DataError, "yp", 'kernel_y="delta"'),
    Bad("conditional_mmd", "labels in xq", {"xq": [[*r, "a"] for r in X[:, :1]]}, DataError, "xq", 'kernel_x="delta"'),
    Bad("cs", "labels", {"yp": np.array(LABELS)}, DataError, "yp", 'Use the delta kernel for labels: kernel="delta"'),
    Bad("conditional_kl", "labels, no kernel", {"yp": LABELS}, DataError, "yp", "one 0/1 column per category"),
    Bad("conditional_bregman", "labels, no kernel", {"yq": LABELS}, DataError, "yq", "Encode the labels as numbers"),
    Bad(
        "mmd",
        "missing labels",
        {"yp": ["a", None, "b"], "yq": ["a", "b"], "kernel": "delta"},
        DataError,
        "yp",
        "Drop those rows, or give them a label of their own",
    ),
    Bad(
        "cs",
        "NaN label",
        {"yp": ["a", np.nan], "yq": ["a", "b"], "kernel": "delta"},
        DataError,
        "yp",
        "Drop those rows",
    ),
    Bad("cs", "NaN code", {"yp": with_nan(Y), "kernel": "delta"}, DataError, "yp", "Drop those rows"),
    Bad(
        "cs",
        "lists as labels",
        {"yp": np.array([[1], [2, 3]], object), "yq": ["a", "b"], "kernel": "delta"},
        DataError,
        "yp",
        "Convert them first, e.g. with `str`",
    ),
    Bad("cs", "disjoint labels", {"yq": Y + 9, "kernel": "delta"}, OverlapError, None, "both use the same categories"),
    Bad(
        "conditional_cs",
        "disjoint labels",
        {"xp": ["a", "b", "a"], "yp": Y[:3], "xq": ["c", "d", "c"], "yq": Y[:3], "kernel_x": "delta"},
        OverlapError,
        None,
        "both use the same categories",
    ),
    # Bandwidths
    Bad("cs", "zero width", {"bandwidth": 0.0}, BandwidthError, "bandwidth", "bandwidth='median'"),
    Bad("mmd", "negative width", {"bandwidth": -1.0}, BandwidthError, "bandwidth", "Pass a positive number"),
    Bad(
        "conditional_cs", "NaN width", {"bandwidth_x": np.nan}, BandwidthError, "bandwidth_x", "Pass a positive number"
    ),
    Bad(
        "joint_mmd", "infinite width", {"bandwidth_y": np.inf}, BandwidthError, "bandwidth_y", "Pass a positive number"
    ),
    Bad("cs", "True", {"bandwidth": True}, BandwidthError, "bandwidth", "Pass e.g. bandwidth=1 or bandwidth='median'"),
    Bad("cs", "booleans", {"bandwidth": np.array([True])}, BandwidthError, "bandwidth", "Pass e.g. bandwidth=1"),
    Bad("cs", "complex width", {"bandwidth": 1j}, BandwidthError, "bandwidth", "Pass e.g. bandwidth=1"),
    Bad("cs", "numbers as strings", {"bandwidth": ["1"]}, BandwidthError, "bandwidth", "Pass e.g. bandwidth=1"),
    Bad("conditional_mmd", "None", {"bandwidth_x": None}, BandwidthError, "bandwidth_x", "Pass e.g. bandwidth_x=1"),
    Bad(
        "mcmd",
        "unknown rule",
        {"bandwidth_y": "mean"},
        BandwidthError,
        "bandwidth_y",
        "'median', 'joint_median', 'silverman', 'scott'",
    ),
    Bad("conditional_cs", "wrong length", {"bandwidth_x": [1, 2, 3]}, BandwidthError, "bandwidth_x", "or 2 of them"),
    Bad(
        "conditional_cs",
        "one is zero",
        {"bandwidth_x": [1, 0]},
        BandwidthError,
        "bandwidth_x",
        "Pass a positive number",
    ),
    Bad("conditional_cs", "matrix", {"bandwidth_x": np.eye(2)}, BandwidthError, "bandwidth_x", "Pass a single number"),
    Bad(
        "cs",
        "ragged, mixed kernels",
        {"yp": X, "yq": X, "kernel": ["gaussian", "laplacian"], "bandwidth": [[1, 2], [3]]},
        BandwidthError,
        "bandwidth",
        "Pass e.g. bandwidth=1",
    ),
    Bad(
        "conditional_cs_predictors",
        "zero width",
        {"bandwidth_x2": 0},
        BandwidthError,
        "bandwidth_x2",
        "the units of `x2`",
    ),
    Bad("bandwidth", "unknown rule", {"*": (Y,), "rule": "mean"}, ParameterError, "rule", "Pass rule='median'"),
    Bad("bandwidth", "constant", {"*": (np.ones(4),)}, BandwidthError, "samples[0]", "Drop the constant column"),
    Bad(
        "conditional_cs",
        "constant x",
        {"xp": np.ones(N), "xq": np.ones(N)},
        BandwidthError,
        "xp",
        "or choose a number as its bandwidth",
    ),
    Bad(
        "conditional_cs_responses",
        "constant column, by deviation",
        {"x": X * [1, 0], "bandwidth_x": "scott"},
        BandwidthError,
        "x",
        "column 'x2' is constant. Drop the constant column",
    ),
    Bad("conditional_kl", "constant", {"xp": X * 0, "xq": X * 0}, DataError, "xp", "Drop that column"),
    Bad("conditional_bregman", "constant", {"yp": Y * 0, "yq": Y * 0}, DataError, "yp", "Drop that column"),
    Bad(
        "conditional_bregman",
        "a width per column",
        {"matrix": "correntropy", "bandwidth": [1.0, 2.0]},
        BandwidthError,
        "bandwidth",
        "Pass a single number",
    ),
    # Kernels
    Bad("cs", "unknown kernel", {"kernel": "cosine"}, ParameterError, "kernel", "Pass e.g. kernel='gaussian'"),
    Bad("cs", "None", {"kernel": None}, ParameterError, "kernel", "Pass e.g. kernel='gaussian'"),
    Bad("joint_mmd", "no kernel", {"kernel_y": []}, ParameterError, "kernel_y", "Pass e.g. kernel_y='gaussian'"),
    Bad(
        "conditional_cs",
        "too many",
        {"kernel_x": ["gaussian"] * 3},
        ParameterError,
        "kernel_x",
        "one kernel name per column",
    ),
    Bad("mcmd", "unknown in a list", {"kernel_x": ["delta", 3]}, ParameterError, "kernel_x", "or a function"),
    Bad("cs", "row sums", {"kernel": lambda a, b: a[:, 0]}, DataError, "kernel", "returns the values of all pairs"),
    Bad("cs", "a number", {"kernel": lambda a, b: 1.0}, DataError, "kernel", "returns the values of all pairs"),
    Bad("mmd", "negative", {"kernel": lambda a, b: a @ b.T}, DataError, "kernel", "use a non-negative kernel"),
    Bad("cs", "NaN", {"kernel": lambda a, b: a @ b.T * np.nan}, DataError, "kernel", "use a non-negative kernel"),
    Bad("cs", "inf", {"kernel": lambda a, b: np.full((len(a), len(b)), np.inf)}, DataError, "kernel", "got inf"),
    Bad("cs", "complex", {"kernel": lambda a, b: a @ b.T + 0j}, DataError, "kernel", "Take e.g. the absolute value"),
    Bad("cs", "not symmetric", {"kernel": lambda a, b: np.exp(a - b.T)}, DataError, "kernel", "averaging k(a, b)"),
    Bad(
        "cs",
        "numpy in a torch kernel",
        lambda: {**tensors(yp=Y, yq=Y)(), "kernel": lambda a, b: np.ones((len(a), len(b)))},
        DataError,
        "kernel",
        "Use that library's functions",
    ),
    Bad(
        "cs",
        "plugin, laplacian",
        {"estimator": "plugin", "kernel": "laplacian"},
        ParameterError,
        "estimator",
        "Pass estimator='resubstitution' for other kernels",
    ),
    # Weights
    Bad("cs", "negative", {"weights_p": -np.ones(N)}, DataError, "weights_p", "Set unwanted rows to 0"),
    Bad(
        "conditional_cs", "all zero", {"weights_q": np.zeros(N)}, DataError, "weights_q", "at least one row a positive"
    ),
    Bad("joint_mmd", "NaN", {"weights_p": with_nan(Y**2)}, DataError, "weights_p", "replace NaN"),
    Bad("conditional_euclidean", "too few", {"weights_q": np.ones(3)}, ShapeError, "weights_q", "Pass a 1-d array"),
    Bad("mmd", "a number", {"weights_p": 2.0}, ShapeError, "weights_p", "Pass an array"),
    Bad("mmd", "words", {"weights_p": LABELS}, DataError, "weights_p", "as numbers"),
    Bad("conditional_cs_responses", "two columns", {"weights": X**2}, ShapeError, "weights", "Pass a 1-d array"),
    Bad("conditional_cs_predictors", "inf", {"weights": with_nan(Y**2, np.inf)}, DataError, "weights", "got inf"),
    Bad(
        "mmd",
        "unbiased with one row that counts",
        {"unbiased": True, "weights_p": np.where(np.arange(N) == 0, 1.0, 1e-40)},
        DataError,
        "weights_p",
        "unbiased=False",
    ),
    Bad(
        "conditional_cs", "one row", {"weights_p": np.eye(N)[0]}, DataError, "weights_p", "other rows a positive weight"
    ),
    # Options
    Bad("cs", "estimator", {"estimator": "paper"}, ParameterError, "estimator", "Pass estimator='resubstitution'"),
    Bad("conditional_cs", "estimator", {"estimator": "plugin"}, ParameterError, "estimator", "Pass estimator='paper'"),
    Bad("conditional_cs_responses", "form", {"form": "both"}, ParameterError, "form", "'paper', 'symmetric'"),
    Bad("conditional_cs_predictors", "form", {"form": None}, ParameterError, "form", "'corrected', 'paper'"),
    Bad(
        "conditional_bregman", "generator", {"generator": "kl"}, ParameterError, "generator", "'von_neumann', 'log_det'"
    ),
    Bad("conditional_bregman", "matrix", {"matrix": "gram"}, ParameterError, "matrix", "'covariance', 'correntropy'"),
    Bad("conditional_kl", "k = 0", {"k": 0}, ParameterError, "k", "Pass e.g. k=1"),
    Bad("conditional_kl", "k = n", {"k": N}, ParameterError, "k", "an integer from 1 to 11"),
    Bad("conditional_kl", "k = 2.0", {"k": 2.0}, ParameterError, "k", "Pass e.g. k=1"),
    Bad("conditional_kl", "k = True", {"k": True}, ParameterError, "k", "Pass e.g. k=1"),
    Bad(
        "conditional_mmd",
        "lambda = 0",
        {"regularization": 0},
        ParameterError,
        "regularization",
        "Pass e.g. regularization=0.1",
    ),
    Bad(
        "conditional_mmd",
        "lambda is NaN",
        {"regularization": np.nan},
        ParameterError,
        "regularization",
        "a positive, finite",
    ),
    Bad("mcmd", "lambda < 0", {"regularization": -0.1}, ParameterError, "regularization", "a positive, finite"),
    Bad("mcmd", "lambda is text", {"regularization": "0.1"}, ParameterError, "regularization", "a positive, finite"),
    # Gaussian mixtures
    Bad("cs_gaussian_mixture", "NaN mean", {"means_p": [[0.0, np.nan]]}, DataError, "means_p", "must be finite"),
    Bad(
        "cs_gaussian_mixture",
        "dimensions",
        {"means_q": [[1.0]]},
        ShapeError,
        "means_q",
        "got means_p (1, 2) and means_q (1, 1)",
    ),
    Bad(
        "cs_gaussian_mixture",
        "shared matrix",
        {"covariances_p": np.eye(2)},
        ShapeError,
        "covariances_p",
        "np.broadcast_to",
    ),
    Bad(
        "cs_gaussian_mixture",
        "variance 0",
        {"covariances_q": [[1.0, 0.0]]},
        DataError,
        "covariances_q",
        "small positive",
    ),
    Bad(
        "cs_gaussian_mixture",
        "singular",
        {"covariances_p": np.ones((1, 2, 2))},
        DataError,
        "covariances_p",
        "small ridge",
    ),
    Bad(
        "cs_gaussian_mixture",
        "a Cholesky factor",
        {"covariances_p": [[[1.0, 0.0], [0.9, 1.0]]]},
        DataError,
        "covariances_p",
        "pass C @ C.T",
    ),
    Bad("cs_gaussian_mixture", "weight 0", {"weights_p": [0.0]}, DataError, "weights_p", "Leave out components"),
    Bad("cs_gaussian_mixture", "weights", {"weights_q": [1.0, 2.0]}, ShapeError, "weights_q", "Pass a 1-d array of 1"),
    Bad("cs_gaussian_mixture", "None", {"covariances_q": None}, DataError, "covariances_q", "one entry per component"),
    # All pairs of groups
    Bad("pairwise", "one group", {"groups": [(X, Y)]}, ShapeError, "groups", "[(x1, y1), (x2, y2)]"),
    Bad("pairwise", "an array", {"groups": X}, ShapeError, "groups", "[(x1, y1), (x2, y2)]"),
    Bad("pairwise", "no y", {"groups": [(X, Y), X]}, ShapeError, "groups[1]", "Pass a list of (x, y) tuples"),
    Bad(
        "pairwise", "group of one", {"groups": [(X, Y), (X[:1], Y[:1])]}, ShapeError, "groups[1][0]", "at least 2 rows"
    ),
    Bad("pairwise", "NaN", {"groups": [(X, Y), (X, with_nan(Y))]}, DataError, "groups[1][1]", "or impute them"),
    Bad("pairwise", "measure", {"measure": "wasserstein"}, ParameterError, "measure", "'conditional_cs'"),
    Bad(
        "pairwise",
        "option",
        {"bandwith_x": 1.0},
        ParameterError,
        "bandwith_x",
        "Its options are bandwidth, bandwidth_x,",
    ),
    Bad("pairwise", "width", {"bandwidth_x": 0}, BandwidthError, "bandwidth_x", "Pass a positive number"),
    Bad("pairwise", "estimator", {"estimator": "best"}, ParameterError, "estimator", "Pass estimator='paper'"),
    Bad(
        "pairwise",
        "weights for a measure without",
        {"measure": "conditional_kl", "weights": [np.ones(N)] * 3},
        ParameterError,
        "weights",
        "Leave it out",
    ),
    Bad(
        "pairwise", "weights of two groups", {"weights": [None, None]}, ShapeError, "weights", "Use None for no weights"
    ),
    Bad("pairwise", "weights are a number", {"weights": 1.0}, ShapeError, "weights", "Use None for no weights"),
    Bad(
        "pairwise", "bad weights", {"weights": [None, -(Y**2), None]}, DataError, "weights[1]", "Set unwanted rows to 0"
    ),
    Bad(
        "pairwise",
        "NaN, no kernel",
        {"measure": "conditional_kl", "groups": [(X, Y), (with_nan(X), Y)]},
        DataError,
        "groups[1][0]",
        "or impute them",
    ),
    Bad("pairwise", "k", {"measure": "conditional_kl", "k": 0}, ParameterError, "k", "Pass e.g. k=1"),
    # Settings
    Bad("config_context", "no threads", {"n_threads": 0}, ParameterError, "n_threads", "Pass e.g. n_threads=2"),
    Bad("config_context", "half a tile", {"tile": 0.5}, ParameterError, "tile", "Pass e.g. tile=2"),
    Bad("config_context", "True", {"tile": True}, ParameterError, "tile", "Pass e.g. tile=2"),
    # Tests and explanations
    Bad("conditional_test", "NaN", {"xq": with_nan(X)}, DataError, "xq", "or impute them"),
    Bad("conditional_test", "null", {"null": "wild"}, ParameterError, "null", "Pass null='propensity'"),
    Bad(
        "conditional_test", "no resamples", {"n_resamples": 0}, ParameterError, "n_resamples", "Pass e.g. n_resamples=1"
    ),
    Bad("conditional_test", "seed", {"rng": -1}, ParameterError, "rng", "Pass e.g. rng=0"),
    Bad("conditional_test", "option", {"sigma": 1.0}, ParameterError, "sigma", "Those of the measure are"),
    Bad("two_sample_test", "columns", {"yq": X}, ShapeError, "yq", "Rows are observations"),
    Bad("two_sample_test", "measure", {"measure": "conditional_cs"}, ParameterError, "measure", "Pass measure='cs'"),
    Bad("independence_test", "rows", {"x": Y[:5]}, ShapeError, "x", "row i of one belongs to row i of the other"),
    Bad(
        "independence_test",
        "neighbours",
        {"measure": condcs.PermutedMeasure(neighbours=N)},
        ParameterError,
        "neighbours",
        "Pass e.g. neighbours=1",
    ),
    Bad("witness", "at", {"at": X[:, :1]}, ShapeError, "at", "Rows are observations"),
    Bad(
        "witness",
        "level",
        {"confidence_level": 2.0},
        ParameterError,
        "confidence_level",
        "Pass e.g. confidence_level=0.95",
    ),
    Bad("explain", "rows", {"yp": Y[:5]}, ShapeError, "yp", "Rows are observations"),
    Bad("loss_change", "rows", {"loss_q": LONG[:25]}, ShapeError, "loss_q", "Rows are observations"),
    Bad("loss_change", "few", {"xp": LONG[:9], "loss_p": LONG[:9]}, ShapeError, "xp", "Collect more observations"),
    Bad("loss_change", "NaN", {"loss_p": with_nan(LONG)}, DataError, "loss_p", "np.isfinite(loss_p)"),
    Bad(
        "loss_change",
        "two losses",
        {"loss_p": np.ones((30, 2)), "loss_q": np.ones((30, 2))},
        ShapeError,
        "loss_p",
        "Pass one loss per row",
    ),
    Bad("loss_change", "level", {"confidence_level": 95}, ParameterError, "confidence_level", "confidence_level=0.95"),
    Bad("compare", "column", {"y": "z"}, ParameterError, "y", "Its columns are 'x', 'y'"),
    Bad("compare", "level", {"alpha": 1.5}, ParameterError, "alpha", "Pass e.g. alpha=0.05"),
    Bad("assert_same_relation", "level", {"alpha": 1.5}, ParameterError, "alpha", "Pass e.g. alpha=0.05"),
    Bad("assert_same_relation", "column", {"y": "z"}, ParameterError, "y", "Its columns are 'x', 'y'"),
    Bad("compare_groups", "what with", {"against": "next"}, ParameterError, "against", "'rest', 'first', 'previous'"),
    Bad("compare_groups", "group", {"group": "month"}, ParameterError, "group", "Its columns are 'x', 'y', 'g'"),
]


def call(function: str, arguments: dict[str, Any]) -> Any:
    """Call a public function by name; a name that is not there yet fails its own rows only."""
    arguments = dict(arguments)
    positional = arguments.pop("*", ())
    result = getattr(condcs, function)(*positional, **arguments)
    if function == "config_context":
        with result as settings:
            return settings
    return result


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.function}: {r.what}") for r in ROWS])
def test_bad_input(row: Bad) -> None:
    """The error has its class, and names the function, the argument and the remedy."""
    change = row.change() if callable(row.change) else row.change
    arguments = {**GOOD[row.function], **change}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.CondcsWarning)
        with pytest.raises(row.error) as caught:
            call(row.function, arguments)
    message = str(caught.value)
    assert message.startswith(f"{row.function}: ")
    assert message.count(f"{row.function}: ") == 1
    assert row.argument is None or re.search(f"`{re.escape(row.argument)}[`=]", message)
    assert row.remedy in message
    assert len(message) < 500


@pytest.mark.parametrize("function", sorted(set(GOOD) - {"config_context", "bandwidth"}))
def test_the_unchanged_arguments_work(function: str) -> None:
    """Otherwise a row above could pass for a reason of its own."""
    result = call(function, GOOD[function])
    values = {
        "witness": "values",
        "explain": None,
        "compare": None,
        "compare_groups": None,
        "assert_same_relation": None,
        "loss_change": "total",
    }.get(function, "statistic" if function.endswith("_test") else "")
    if values is not None:
        assert np.all(np.isfinite(getattr(result, values) if values else result))


def test_every_public_function_is_in_the_table() -> None:
    """A function added to the package gets rows here; classes of results are not made by users."""
    public = {name for name in condcs.__all__ if inspect.isfunction(getattr(condcs, name))}
    assert public == {row.function for row in ROWS}
    assert len(ROWS) >= 60


def test_errors_are_value_errors() -> None:
    """A caller who knows only the standard library can catch them; warnings are user warnings."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception | Warning)]
    assert {c.__name__ for c in classes} >= {
        "ShapeError",
        "DataError",
        "BandwidthError",
        "ParameterError",
        "OverlapError",
    }
    for c in classes:
        assert issubclass(c, UserWarning if c.__name__.endswith("Warning") else ValueError)


def test_the_message_survives_pickling() -> None:
    """Process pools send errors home by pickle."""
    import pickle

    with pytest.raises(ShapeError) as caught:
        condcs.cs(1.0, Y)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_rule_inside_jit_is_refused() -> None:
    """A traced array cannot be looked at, so a width has to be given."""
    jax = pytest.importorskip("jax")
    with pytest.raises(BandwidthError, match=r"cs: `bandwidth` must be a number .* `condcs.bandwidth\(...\)`"):
        jax.jit(condcs.cs)(jax.numpy.asarray(Y), jax.numpy.asarray(Y + 1))
    found = condcs.bandwidth(Y, Y + 1)
    inside = jax.jit(lambda a, b: condcs.cs(a, b, bandwidth=found))(jax.numpy.asarray(Y), jax.numpy.asarray(Y + 1))
    assert float(inside) == pytest.approx(float(condcs.cs(Y, Y + 1)), abs=1e-5)
