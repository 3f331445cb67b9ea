"""Bad input gets an error that names the argument, the rule and the remedy."""

import numpy as np
import pytest

from condcs._core.errors import CondcsError
from condcs.causal import (
    ConditionalCS,
    Embedding,
    KernelGranger,
    LocalPermutations,
    ShiftedWindows,
    TransferEntropy,
    causal_graph,
    causal_score,
    causal_test,
    select_embeddings,
)

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=(3, 100))
TABLE = np.column_stack([X, Y, Z])
INFINITE = TABLE.copy()
INFINITE[7, 1] = np.inf
MOSTLY_GAPS = TABLE.copy()
MOSTLY_GAPS[::2, 1] = np.nan
CONSTANT = TABLE.copy()
CONSTANT[:, 2] = 3.0

CASES = {
    "constant column": (lambda: causal_graph(CONSTANT), "must vary, but column 'x3' is constant. Drop it"),
    "constant x": (lambda: causal_score(np.ones(100), Y), "causal_score: `x` must vary, but column 'x' is constant"),
    "infinite": (lambda: causal_graph(INFINITE), r"finite values, got 1 infinite .* row 7, column 'x2'. Use NaN"),
    "infinite in y": (lambda: causal_test(X, INFINITE[:, 1]), "causal_test: `y` must have finite values"),
    "every other value is missing": (
        lambda: causal_graph(MOSTLY_GAPS, missing="drop"),
        "`x2` and `x1` must have at least 20 times with a complete past .* got 0 of 100",
    ),
    "nothing but gaps": (lambda: causal_score(X, Y * np.nan), "`y` must have values, but column 'y' is NaN"),
    "duplicated column": (
        lambda: causal_graph(TABLE[:, [0, 1, 0]]),
        "`x1` and `x3` must be different series",
    ),
    "x is y": (lambda: causal_score(X, X), "`x` and `y` must be different series"),
    "given is x": (lambda: causal_score(X, Y, given=X), "`x` and `given` must be different"),
    "too short": (lambda: causal_graph(TABLE[:15]), "must have at least 21 times, .* got 15. Use longer series"),
    "more lags than samples": (
        lambda: causal_graph(TABLE, embedding=200),
        "at least 220 times, 20 of them with a past of lag 1, order 200",
    ),
    "lag beyond the end": (lambda: causal_score(X, Y, embedding=Embedding(lag=99)), "must have at least 119 times"),
    "lag 0": (lambda: Embedding(lag=0), "`lag` must be an integer of at least 1"),
    "order 1.5": (lambda: causal_graph(TABLE, embedding=1.5), "causal_graph: `embedding` must be a number of past"),
    "order word": (lambda: causal_graph(TABLE, embedding="many"), "`embedding` must be a number of past values"),
    "three orders": (lambda: Embedding(order=(1, 2, 3)), "`order` must be an integer"),
    "delay 0": (lambda: Embedding(delay=0), "`delay` must be"),
    "lengths": (lambda: causal_score(X[:-1], Y), "`x` and `y` must have the same number of times, got 99 and 100"),
    "one series": (lambda: causal_graph(X), "at least two columns"),
    "rows for columns": (lambda: causal_graph(TABLE.T), "pass `series.T`"),
    "three axes": (lambda: causal_score(X.reshape(10, 5, 2), Y), "`x` must have one or two dimensions"),
    "words in a frame": (
        lambda: causal_graph(pytest.importorskip("pandas").DataFrame({"a": X, "b": Y, "kind": "u"})),
        "`series` must hold numbers only, got DataFrame with others in 'kind'",
    ),
    "words": (lambda: causal_score(["a"] * 100, Y), "`x` must hold numbers only"),
    "none": (lambda: causal_graph(None), "`series` must be an array, got NoneType"),
    "one series by name": (lambda: causal_graph({"a": X}), "`series` must hold at least two series, got 1"),
    "infinite by name": (
        lambda: causal_graph({"a": X, "b": INFINITE[:, 1]}),
        "`series` must have finite values, got 1 .* column 'b'",
    ),
    "lengths by name": (lambda: causal_graph({"a": X, "b": Y[1:]}), "`a` and `b` must have the same number of times"),
    "copies by name": (lambda: causal_graph({"a": X, "b": X}), "`a` and `b` must be different series"),
    "measure": (lambda: causal_score(X, Y, measure="pearson"), "`measure` must be one of 'conditional_cs'"),
    "k": (lambda: TransferEntropy(k=0), "`k` must be an integer of at least 1"),
    "many k": (
        lambda: causal_score(X, Y, embedding=1, measure=TransferEntropy(k=99)),
        "`k` must be an integer from 1 to 98",
    ),
    "estimator": (lambda: TransferEntropy(estimator="?"), "`estimator` must be"),
    "eigensolver": (lambda: KernelGranger(eigensolver="?"), "`eigensolver` must be"),
    "bandwidth of kernel Granger": (lambda: KernelGranger(bandwidth="predictive"), "`bandwidth` must be"),
    "bandwidth word": (lambda: ConditionalCS(bandwidth="wide"), "one of the rules 'predictive', 'median'"),
    "bandwidth 0": (lambda: ConditionalCS(bandwidth=0.0), "`bandwidth` must be a positive"),
    "form": (lambda: ConditionalCS(form="printed"), "`form` must be one of"),
    "null": (lambda: causal_test(X, Y, null="shuffle"), "`null` must be one of 'windows'"),
    "analytic": (lambda: causal_test(X, Y, null="analytic"), "must go with measure='linear_granger'"),
    "n_resamples": (lambda: causal_test(X, Y, n_resamples=0), "`n_resamples` must be"),
    "window": (
        lambda: causal_test(X, Y, embedding=1, null=ShiftedWindows(window=99)),
        "`window` must be an integer from 20 to 98",
    ),
    "offset": (
        lambda: causal_test(X, Y, embedding=1, null=ShiftedWindows(minimum_offset=90)),
        "`minimum_offset` must be at most 50",
    ),
    "n_windows": (
        lambda: causal_test(X, Y, null=ShiftedWindows(n_windows=0)),
        "`n_windows` must be an integer of at least 1",
    ),
    "block": (lambda: causal_test(X, Y, null=LocalPermutations(block=50)), "`block` must be an integer from 1 to 9"),
    "rng": (lambda: causal_test(X, Y, rng="seed"), "`rng` must be"),
    "flag": (lambda: causal_graph(TABLE, conditional="yes"), "`conditional` must be True or False"),
    "ranks": (lambda: causal_graph(TABLE, ranks=2), "`ranks` must be True or False"),
    "selection": (lambda: select_embeddings(TABLE, max_order=50), "select_embeddings: the series must be at least"),
    "alpha": (lambda: causal_graph(TABLE, n_resamples=2, rng=0).adjacency(2), "`alpha` must lie between 0 and 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, words = CASES[name]
    with pytest.raises(CondcsError, match=words):
        call()


def test_time_must_go_forward():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, index=np.r_[0:50, 51, 50, 52:100])
    with pytest.raises(CondcsError, match=r"its index goes backwards. Sort it: `series.sort_index\(\)`"):
        causal_graph(frame)
    frame.index = np.r_[0:50, 50, 50, 52:100]
    with pytest.raises(CondcsError, match="its index holds 50 more than once"):
        causal_graph(frame)


def test_names_of_columns_differ():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(CondcsError, match="columns with different names, got 'a' twice"):
        causal_graph(pandas.DataFrame(TABLE, columns=["a", "b", "a"]))


def test_dates_belong_in_the_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE).assign(when=pandas.date_range("2020-01-01", periods=100).astype(str))
    with pytest.raises(CondcsError, match="times belong in the index"):
        causal_graph(frame)


def test_a_re_ordering_null_refuses_what_does_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("condcs.causal._gram_scores.DENSE_BUDGET", 1000)
    with pytest.raises(CondcsError, match='`null` must be "windows" for 99 rows'):
        causal_test(X, Y, embedding=1, null="circular", n_resamples=2)


def test_the_callers_array_is_left_alone():
    before = TABLE.copy()
    causal_graph(TABLE, n_resamples=2, rng=0, ranks=True)
    assert np.array_equal(TABLE, before)
