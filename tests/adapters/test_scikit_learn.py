"""The scikit-learn face passes scikit-learn's own checks and says what the test says."""

from unittest import SkipTest

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import condcs
from condcs.adapters import ConditionalShiftTest
from condcs.datasets import make_local_shift


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
