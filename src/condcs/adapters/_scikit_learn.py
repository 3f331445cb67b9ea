"""The conditional test as a scikit-learn estimator: fitted on a reference sample, applied to others."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from condcs._core.arrays import Array
from condcs._inference.conditional_tests import Null, conditional_test
from condcs._inference.results import TestResult
from condcs._measures.registry import measure_named


class ConditionalShiftTest(BaseEstimator):  # type: ignore[misc]
    """Test of whether the relation between y and X has changed since a reference sample.

    Parameters
    ----------
    measure : str
        A registered measure that takes x and y.
    null : {"propensity", "permutation", "local"}
        How labels are redrawn; see `condcs.conditional_test`.
    bandwidth : float or rule name
        Bandwidth of both kernels; "aggregate" combines several of them in the test.
    alpha : float
        Size of the test behind `predict_shift`.
    n_resamples : int
        How many times labels are redrawn.
    random_state : int or Generator, optional
        Seed.

    Attributes
    ----------
    X_, y_ : array
        The reference sample.
    n_features_in_ : int
        Columns of X.
    result_ : TestResult
        Outcome of the last test; set by `test` and `predict_shift`.

    Examples
    --------
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(150, rng=1)
    >>> monitor = ConditionalShiftTest(bandwidth="silverman", n_resamples=99, random_state=0)
    >>> monitor.fit(data.xp, data.yp.ravel()).predict_shift(data.xq, data.yq.ravel())
    True
    """

    def __init__(
        self,
        *,
        measure: str = "conditional_cs",
        null: Null = "propensity",
        bandwidth: Any = "median",
        alpha: float = 0.05,
        n_resamples: int = 500,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.measure = measure
        self.null = null
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.n_resamples = n_resamples
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that y is required and may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Array, y: Array) -> ConditionalShiftTest:
        """Keep the reference sample."""
        self.X_, self.y_ = validate_data(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
        return self

    def test(self, X: Array, y: Array) -> TestResult:
        """Test the null hypothesis that p(y|X) is that of the reference sample."""
        options = {"bandwidth": self.bandwidth} if measure_named(self.measure).gram else {}
        X, y = self._checked(X, y)
        self.result_ = conditional_test(
            self.X_,
            self.y_,
            X,
            y,
            measure=self.measure,
            null=self.null,
            n_resamples=self.n_resamples,
            rng=self.random_state,
            **options,
        )
        return self.result_

    def predict_shift(self, X: Array, y: Array) -> bool:
        """Return whether the test rejects the hypothesis that the relation is unchanged, at level `alpha`."""
        return bool(self.test(X, y).pvalue <= self.alpha)

    def score(self, X: Array, y: Array) -> float:
        """Return minus the divergence from the reference sample: higher is more similar. Nothing is resampled."""
        X, y = self._checked(X, y)
        rule = "median" if self.bandwidth == "aggregate" else self.bandwidth
        measure = measure_named(self.measure)
        options = {"bandwidth_x": rule, "bandwidth_y": rule} if measure.gram else {}
        return -float(measure(self.X_, self.y_, X, y, **options))

    def _checked(self, X: Array, y: Array) -> tuple[Any, Any]:
        check_is_fitted(self)
        checked: tuple[Any, Any] = validate_data(self, X, y, reset=False, multi_output=True, y_numeric=True)
        return checked
