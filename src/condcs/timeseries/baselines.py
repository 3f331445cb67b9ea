"""Distances between series that others use, with the paper's settings; TCK is in a file of its own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer
from condcs.core.errors import CondcsError, public
from condcs.timeseries.collection import check_collection
from condcs.timeseries.tck import tck_pairwise_distance

FloatArray = np.ndarray[Any, Any]

SETTINGS: dict[str, dict[str, Any]] = {
    "dtw": {},
    "msm": {"c": 1.0},
    "twed": {"nu": 0.001, "lmbda": 1.0},
    "tck": {},
}
"""The paper's settings. DTW: no warping window, channels warped together. MSM has none; its cost is 1 by default."""


AEON_NAMES = {"twed": "twe"}
"""Names that differ from ours."""


@public
def baseline_pairwise_distance(
    X: Any, *, measure: str = "dtw", layout: str = "nct", n_jobs: int = 1, **options: Any
) -> FloatArray:
    """Distances between all pairs of series by an established measure, with the paper's settings.

    "dtw" is dynamic time warping without a window, all channels warped together (squared differences, no root); "msm"
    the move-split-merge metric, summed over the channels; "twed" the time warp edit distance with nu = 0.001 and
    lambda = 1: these three are aeon's. "tck" is 1 minus the time series cluster kernel, on standardised data by choice
    of the caller.

    Parameters
    ----------
    X : array or list of arrays
        The collection.
    measure : {"dtw", "msm", "twed", "tck"}
        The distance.
    layout : {"nct", "ntc"}
        Order of the axes.
    n_jobs : int
        Threads of aeon.
    **options
        Settings other than the paper's, e.g. ``nu`` of "twed", or ``rng`` and ``n_mixtures`` of "tck".

    Returns
    -------
    array, shape (series, series)
        Symmetric, zero on the diagonal.
    """
    check_choice("measure", measure, tuple(SETTINGS))
    n_jobs = check_integer("n_jobs", n_jobs, 1)
    collection = check_collection("X", X, layout, "drop" if measure == "tck" else "error")
    if measure == "tck":
        return tck_pairwise_distance(collection, **options)
    try:
        from aeon.distances import pairwise_distance
        from numba.core.errors import NumbaTypeSafetyWarning
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"`measure` {measure!r} needs the package aeon, which is not installed. "
            "Install it with: pip install 'condcs[timeseries]'."
        ) from error
    series: Any = [np.ascontiguousarray(collection.series(i).T) for i in range(collection.count)]
    if len({s.shape for s in series}) == 1:
        series = np.stack(series)
    with warnings.catch_warnings():
        # Said once by the compiler about aeon's own loops.
        warnings.simplefilter("ignore", NumbaTypeSafetyWarning)
        return np.asarray(
            pairwise_distance(
                series, method=AEON_NAMES.get(measure, measure), n_jobs=n_jobs, **{**SETTINGS[measure], **options}
            )
        )
