"""Time series in scikit-learn: distances for estimators that take precomputed ones, and a clusterer."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from condcs._core.arrays import RealArray
from condcs._core.checks import check_choice, check_positive
from condcs.timeseries._collection import check_collection
from condcs.timeseries._distances import ccs_pairwise_distance, choose_order, takens_order
from condcs.timeseries._series_clusters import cluster

Output = Literal["distance", "affinity"]
# Time points: a window of one, its successor, and one more for a second window.
_MIN_LENGTH = 3


class _OfSeries(BaseEstimator):  # type: ignore[misc]
    def __sklearn_tags__(self) -> Any:
        """Declare that arrays of series may have three dimensions, and missing values if those are dropped."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "drop"
        return tags


class SeriesDistances(TransformerMixin, _OfSeries):  # type: ignore[misc]
    """Transform time series into their distances from the series that it was fitted on.

    A step before any estimator with ``metric="precomputed"`` (nearest neighbours, DBSCAN, t-SNE), or, with
    ``output="affinity"``, with ``affinity="precomputed"`` (spectral clustering).

    Parameters
    ----------
    order : int, "takens", or sequence of int
        Number of past values in a window; from a rule or a grid, `fit` chooses it.
    bandwidth, factor, layout, missing, measure, n_jobs
        As in `condcs.timeseries.ccs_pairwise_distance`.
    output : {"distance", "affinity"}
        Distances D, or affinities exp(-D / scale).
    scale : float or "median"
        Scale of the affinities; by default the median distance between the series that it was fitted on.

    Attributes
    ----------
    X_ : Collection
        The series it was fitted on.
    order_ : int
        The order that is used.
    scale_ : float
        The scale that is used, if affinities are computed.
    n_features_in_ : int
        Time points of a series, if they were passed as a 2-d array.

    Examples
    --------
    >>> from sklearn.cluster import SpectralClustering
    >>> from sklearn.pipeline import make_pipeline
    >>> t = np.arange(60)
    >>> X = np.stack([np.sin(speed * t + phase) for speed in (0.3, 0.6) for phase in range(4)])
    >>> clusterer = SpectralClustering(2, affinity="precomputed", random_state=0)
    >>> labels = make_pipeline(SeriesDistances(order=2, output="affinity"), clusterer).fit_predict(X)
    >>> bool(len(set(labels[:4])) == len(set(labels[4:])) == 1 and labels[0] != labels[4])
    True
    """

    def __init__(
        self,
        order: Any = 1,
        *,
        bandwidth: Any = "pair-median",
        factor: float = 1.0,
        layout: Literal["nct", "ntc"] = "nct",
        missing: Literal["error", "drop"] = "error",
        measure: str = "conditional_cs",
        n_jobs: int | None = None,
        output: Output = "distance",
        scale: float | Literal["median"] = "median",
    ) -> None:
        self.order = order
        self.bandwidth = bandwidth
        self.factor = factor
        self.layout = layout
        self.missing = missing
        self.measure = measure
        self.n_jobs = n_jobs
        self.output = output
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> SeriesDistances:
        """Keep the series, and choose the order and the scale."""
        self._fit(X)
        if self.output == "affinity":
            self._fit_scale(self._square() if self.scale == "median" else None)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> RealArray:
        """Return the distances (or affinities) between all pairs of series."""
        self._fit(X)
        D = self._square()
        if self.output == "affinity":
            self._fit_scale(D)
        return self._finished(D)

    def transform(self, X: Any) -> RealArray:
        """Return the distances (or affinities) of new series, one per row, from those of the fit."""
        check_is_fitted(self)
        series = _checked(self, X, reset=False, least=1)
        return self._finished(ccs_pairwise_distance(series, self.X_, **self._settings()))

    def _fit(self, X: Any) -> None:
        check_choice("output", self.output, get_args(Output))
        if self.scale != "median":
            check_positive("scale", self.scale)
        self.X_ = _checked(self, X, reset=True, least=_MIN_LENGTH)
        if isinstance(self.order, str) and self.order == "takens":
            self.order_ = takens_order(self.X_)
        elif np.ndim(self.order) > 0:
            settings = {k: v for k, v in self._settings(with_order=False).items() if k not in ("layout", "missing")}
            self.order_ = choose_order(self.X_, self.order, **settings)
        else:
            self.order_ = self.order

    def _fit_scale(self, D: RealArray | None) -> None:
        if D is None or self.scale != "median":
            self.scale_ = float(self.scale)
            return
        apart = D[np.triu_indices(len(D), 1)]
        positive = apart[apart > 0]
        self.scale_ = float(np.median(positive)) if len(positive) else 1.0

    def _square(self) -> RealArray:
        return ccs_pairwise_distance(self.X_, **self._settings())

    def _finished(self, D: RealArray) -> RealArray:
        return D if self.output == "distance" else np.exp(-np.maximum(D, 0.0) / self.scale_)

    def _settings(self, *, with_order: bool = True) -> dict[str, Any]:
        names = ("bandwidth", "factor", "layout", "missing", "measure", "n_jobs")
        return {**{name: getattr(self, name) for name in names}, **({"order": self.order_} if with_order else {})}


class SeriesClusterer(ClusterMixin, _OfSeries):  # type: ignore[misc]
    """Cluster time series by their dynamics: `condcs.timeseries.cluster` as a scikit-learn estimator.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters.
    method, order, factor, scaling, layout, missing, n_jobs
        As in `condcs.timeseries.cluster`.
    random_state : int
        Seed of the draw and the starts.

    Attributes
    ----------
    labels_ : array of int, shape (n_series,)
        Cluster of each series.
    result_ : condcs.timeseries.SeriesClusters
        All that was found: what was tried and chosen, and how far it agrees.
    n_features_in_ : int
        Time points of a series, if they were passed as a 2-d array.

    Examples
    --------
    >>> t = np.arange(80)
    >>> rng = np.random.default_rng(0)
    >>> X = [np.sin(speed * t + phase) + 0.1 * rng.normal(size=80) for speed in (0.3, 0.7) for phase in range(6)]
    >>> SeriesClusterer(2).fit_predict(np.stack(X)).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        method: Literal["spectral", "k_medoids"] = "spectral",
        order: int | Literal["auto"] = "auto",
        factor: float | Literal["auto"] = "auto",
        scaling: Literal["auto", "global", "series", "raw"] = "auto",
        layout: Literal["nct", "ntc"] = "nct",
        missing: Literal["error", "drop"] = "drop",
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.order = order
        self.factor = factor
        self.scaling = scaling
        self.layout = layout
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SeriesClusterer:
        """Cluster the series."""
        names = ("method", "order", "factor", "scaling", "missing", "n_jobs")
        settings = {name: getattr(self, name) for name in names}
        series = _checked(self, X, reset=True, least=_MIN_LENGTH)
        self.result_ = cluster(series, self.n_clusters, rng=self.random_state, **settings)
        self.labels_ = self.result_.labels
        return self


def _checked(estimator: Any, X: Any, *, reset: bool, least: int) -> Any:
    """Check series: two dimensions are scikit-learn's own case, with its messages; all else is a collection."""
    if np.ndim(X) <= 2 if hasattr(X, "shape") else _is_rectangle(X):
        finite = "allow-nan" if estimator.missing == "drop" else True
        X = validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite, ensure_min_features=least
        )
    return check_collection("X", X, estimator.layout, estimator.missing)


def _is_rectangle(X: Any) -> bool:
    """Whether a list is one table of numbers, rather than a list of series of different lengths or several channels."""
    return isinstance(X, list) and len(X) > 0 and np.ndim(X[0]) == 1 and len({len(row) for row in X}) == 1
