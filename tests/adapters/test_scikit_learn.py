"""The scikit-learn estimator passes scikit-learn's own checks and says what the test says."""

from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import condcs
from condcs.adapters import ConditionalShiftTest
from condcs.datasets import make_local_shift
from condcs.exceptions import DataError


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks():
    """Every check that applies to an estimator without predict or transform."""
    ran = 0
    for estimator, check in estimator_checks_generator(ConditionalShiftTest(n_resamples=9)):
        try:
            # skada turns metadata routing on for the whole process when it is imported; off is scikit-learn's default.
            with config_context(enable_metadata_routing=False):
                check(estimator)
            ran += 1
        except SkipTest:  # a check says itself that it does not apply (array API dispatch is off by default)
            continue
    assert ran >= 30


def test_says_what_the_test_says():
    data = make_local_shift(120, rng=1)
    monitor = ConditionalShiftTest(bandwidth="silverman", n_resamples=99, random_state=0)
    monitor = clone(monitor).fit(data.xp, data.yp.ravel())
    ours = monitor.test(data.xq, data.yq.ravel())
    theirs = condcs.conditional_test(data.xp, data.yp, data.xq, data.yq, bandwidth="silverman", n_resamples=99, rng=0)
    assert ours.pvalue == theirs.pvalue
    assert monitor.predict_shift(data.xq, data.yq.ravel())
    assert -monitor.score(data.xq, data.yq.ravel()) == pytest.approx(
        condcs.conditional_cs(data.xp, data.yp, data.xq, data.yq, bandwidth_x="silverman", bandwidth_y="silverman")
    )


def test_the_same_relation_scores_higher():
    data, same = make_local_shift(120, rng=1), make_local_shift(120, shift=0.0, rng=1)
    monitor = ConditionalShiftTest(bandwidth="silverman").fit(data.xp, data.yp.ravel())
    assert monitor.score(same.xq, same.yq.ravel()) > monitor.score(data.xq, data.yq.ravel())


def test_measures_without_kernels():
    data = make_local_shift(60, rng=1)
    monitor = ConditionalShiftTest(measure="conditional_kl", n_resamples=19, random_state=0)
    assert np.isfinite(monitor.fit(data.xp, data.yp.ravel()).test(data.xq, data.yq.ravel()).statistic)


def labelled(rows, seed, cut=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=rows) > cut, "yes", "no")


def test_labels_are_compared_for_equality():
    """Text and truth values say the same; the answer is that of a delta kernel on codes."""
    (X, y), (now, later) = labelled(100, 1), labelled(100, 2, cut=0.8)
    monitor = ConditionalShiftTest(n_resamples=99, random_state=0).fit(X, y)
    assert monitor.classes_.tolist() == ["no", "yes"]
    assert monitor.predict_shift(now, later)
    codes = (y == "yes").astype(float), (later == "yes").astype(float)
    options = {"kernel_y": "delta", "bandwidth_x": "median"}
    theirs = condcs.conditional_test(X, codes[0], now, codes[1], n_resamples=99, rng=0, **options)
    assert monitor.result_.pvalue == theirs.pvalue
    truths = ConditionalShiftTest(n_resamples=99, random_state=0).fit(X, y == "yes")
    assert truths.test(now, later == "yes").pvalue == theirs.pvalue
    divergence = condcs.conditional_cs(X, codes[0], now, codes[1], **options)
    assert -monitor.score(now, later) == pytest.approx(divergence)


def test_a_label_that_the_reference_lacks_is_one_of_its_own():
    X, y = labelled(60, 1)
    monitor = ConditionalShiftTest().fit(X, y)
    later = np.where(np.arange(60) < 30, y, "maybe")
    assert set(monitor._codes(later)) == {0.0, 1.0, 2.0}
    assert monitor.score(X, y) > monitor.score(X, later)
    with pytest.raises(condcs.exceptions.CondcsError, match=r"`measure` must have kernels .* got 'conditional_kl'"):
        ConditionalShiftTest(measure="conditional_kl").fit(X, y)


def test_a_propensity_of_ones_own():
    from sklearn.linear_model import LogisticRegression

    data = make_local_shift(80, rng=1)
    model = LogisticRegression(C=0.5)
    monitor = ConditionalShiftTest(n_resamples=39, propensity=model, n_jobs=1, random_state=0)
    monitor = clone(monitor).fit(data.xp, data.yp.ravel())
    theirs = condcs.conditional_test(
        data.xp, data.yp, data.xq, data.yq, propensity=model, bandwidth="median", n_resamples=39, rng=0
    )
    assert monitor.test(data.xq, data.yq.ravel()).pvalue == theirs.pvalue


@pytest.mark.parametrize("kind", ["text", "category", "date"])
def test_text_among_the_inputs_was_a_message_of_scikit_learn_or_named_arguments_of_another_function(kind):
    rng = np.random.default_rng(0)
    good = pd.DataFrame({"age": rng.normal(size=20), "town": rng.normal(size=20)})
    text = pd.Series(rng.choice(["Rome", "Oslo"], 20))
    towns = {
        "text": text,
        "category": text.astype("category"),
        "date": pd.Series(pd.date_range("2026-01-01", periods=20)),
    }
    y, monitor = good["age"], ConditionalShiftTest(n_resamples=9).fit(good, good["age"])
    for call in (ConditionalShiftTest().fit, monitor.test, monitor.score):
        with pytest.raises(
            DataError, match=rf"^{call.__name__}: `X` must hold numbers, got labels in column 'town' .*Enc"
        ):
            call(good.assign(town=towns[kind]), y)


def test_labels_and_numbers_must_not_be_mixed():
    X, y = labelled(30, 1)
    with pytest.raises(
        DataError, match=r"^test: `y` must hold labels like those of the reference \(e.g. no\), got numb"
    ):
        ConditionalShiftTest().fit(X, y).test(X, X[:, 0])
    with pytest.raises(DataError, match=r"^test: `y` must hold numbers, got labels in column 'y' \(e.g. '(yes|no)'\)"):
        ConditionalShiftTest().fit(X, X[:, 0]).test(X, y)
