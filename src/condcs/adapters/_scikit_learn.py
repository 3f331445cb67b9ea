"""The conditional test as a scikit-learn estimator: fitted on a reference sample, applied to others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.exceptions import DTypePromotionError
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from condcs._core.arrays import Array
from condcs._core.errors import DataError, ParameterError, public
from condcs._inference.conditional_tests import ConditionalNull, conditional_test
from condcs._inference.results import TestResult
from condcs._measures.inputs import Inputs
from condcs._measures.registry import MeasureName, measure_named


class ConditionalShiftTest(BaseEstimator):  # type: ignore[misc]
    """Test of whether the relation between y and X has changed since a reference sample.

    A response of text or truth values holds labels, which are compared for equality; numbers are numbers. For tables
    with text among the inputs, gaps or dates use `condcs.compare`.

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
    propensity : classifier, optional
        Estimates P(sample | x) in place of the default; see `condcs.conditional_test`.
    n_jobs : int, optional
        Threads; by default one per core.
    random_state : int or Generator, optional
        Seed.

    Attributes
    ----------
    X_, y_ : array
        The reference sample.
    n_features_in_ : int
        Columns of X.
    classes_ : array or None
        The labels of the reference, if y holds labels.
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
        measure: MeasureName = "conditional_cs",
        null: ConditionalNull = "propensity",
        bandwidth: Any = "median",
        alpha: float = 0.05,
        n_resamples: int = 500,
        propensity: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.measure = measure
        self.null = null
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.n_resamples = n_resamples
        self.propensity = propensity
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that y is required and may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    @public
    def fit(self, X: Array, y: Array) -> ConditionalShiftTest:
        """Keep the reference sample."""
        self.classes_ = np.unique(np.asarray(y)) if _holds_labels(y) else None
        self.X_, self.y_ = self._validated(X, y, ensure_min_samples=2)
        return self

    @public
    def test(self, X: Array, y: Array) -> TestResult:
        """Test the null hypothesis that p(y|X) is that of the reference sample."""
        X, y = self._checked(X, y)
        options: dict[str, Any] = {"bandwidth": self.bandwidth} if measure_named(self.measure).gram else {}
        if self.classes_ is not None:
            options = {"bandwidth_x": self.bandwidth, "kernel_y": "delta"}
        if self.propensity is not None:
            options["propensity"] = self.propensity
        self.result_ = conditional_test(
            self.X_,
            self.y_,
            X,
            y,
            measure=self.measure,
            null=self.null,
            n_resamples=self.n_resamples,
            rng=self.random_state,
            n_jobs=self.n_jobs,
            **options,
        )
        return self.result_

    def predict_shift(self, X: Array, y: Array) -> bool:
        """Return whether the test rejects the hypothesis that the relation is unchanged, at level `alpha`."""
        return bool(self.test(X, y).pvalue <= self.alpha)

    @public
    def score(self, X: Array, y: Array) -> float:
        """Return minus the divergence from the reference sample: higher is more similar. Nothing is resampled."""
        X, y = self._checked(X, y)
        rule = "median" if self.bandwidth == "aggregate" else self.bandwidth
        measure = measure_named(self.measure)
        options = {"bandwidth_x": rule, "bandwidth_y": rule} if measure.gram else {}
        if self.classes_ is not None:
            options = {"bandwidth_x": rule, "kernel_y": "delta"}
        return -float(measure(self.X_, self.y_, X, y, **options))

    def _checked(self, X: Array, y: Array) -> tuple[Any, Any]:
        check_is_fitted(self)
        return self._validated(X, y, reset=False)

    def _validated(self, X: Array, y: Array, **options: Any) -> tuple[Any, Any]:
        """Check both as scikit-learn does; where it cannot read text or dates, say which column holds them."""
        codes = self._codes(y)
        try:
            checked: tuple[Any, Any] = validate_data(self, X, codes, multi_output=True, y_numeric=True, **options)
        except (ValueError, DTypePromotionError):
            _check_numbers("X", X)
            _check_numbers("y", codes)
            raise
        # Categories of pandas, and labels as y, are let through as they are.
        if any(values.dtype.kind in "OUS" for values in checked):
            _check_numbers("X", X)
            _check_numbers("y", codes)
        return checked

    def _codes(self, y: Array) -> Array:
        """Return labels as numbers; those that the reference lacks have numbers of their own."""
        if self.classes_ is None:
            return y
        if not measure_named(self.measure).gram:
            raise ParameterError(
                f"`measure` must have kernels for a response of labels, got {self.measure!r}. Pass e.g. "
                "measure='conditional_cs'."
            )
        labels = np.asarray(y)
        if self.classes_.dtype.kind != "b" and not _holds_labels(y):
            raise DataError(
                f"`y` must hold labels like those of the reference (e.g. {self.classes_.flat[0]!s}), got numbers. Pass "
                "labels, or fit the reference with numbers."
            )
        labels_in_order = [*self.classes_, *np.setdiff1d(labels, self.classes_)]
        codes = {label: float(code) for code, label in enumerate(labels_in_order)}
        return np.vectorize(codes.__getitem__, otypes=[float])(labels)


def _check_numbers(name: str, argument: Any) -> None:
    """Name the column of an argument that holds text or dates, if there is one."""
    values = np.asarray(argument)
    if values.ndim and values.dtype.kind in "OUSM":
        Inputs.of(argument).numbers([(name, argument)], stem=name, min_rows=1)


def _holds_labels(y: Any) -> bool:
    """Whether a response is text or truth values."""
    kinds = np.asarray(y).dtype.kind
    return kinds in "USb" or (kinds == "O" and all(isinstance(value, str | bool) for value in np.ravel(np.asarray(y))))
