"""The causal score: what the past of x says about y that the past of y does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from condcs.causal.measures import CS
from condcs.causal.testing import Scorer, two_series_problem
from condcs.core.arrays import Array
from condcs.core.checks import check_choice
from condcs.core.errors import public


@public
def causal_score(
    x: Array,
    y: Array,
    *,
    lag: int = 1,
    delay: int | None = None,
    order: int = 1,
    order_x: int | None = None,
    order_y: int | None = None,
    given: Array | Sequence[Array] | None = None,
    ranks: bool = False,
    measure: str = CS,
    form: str = "corrected",
    bandwidth: Any = None,
    **options: Any,
) -> float:
    r"""Score of the influence of series x on series y: 0 if there is none, larger for more.

    The conditional CS divergence of Prop. 4 between p(y_t | past of y) and p(y_t | past of y, past of x):
    `condcs.conditional_cs_predictors` on (y_t, own past, past of x). A score has no unit; `causal_test` says whether it
    is more than chance. Cost O(n^2); memory O(n).

    Parameters
    ----------
    x, y : array, shape (n,) or (n, d)
        The series: rows are equally spaced times.
    lag : int
        Spacing of past values.
    delay : int, optional
        Steps from the latest value of x to y_t; by default `lag`. The own past always starts one step back. For
        ``lag > 1``, ``delay=1`` is the paper's embedding.
    order : int
        Number of past values of each; `order_x` and `order_y` set them apart.
    order_x, order_y : int, optional
        Number of past values of x, and of y.
    given : array or list of arrays, optional
        Other series whose pasts are conditioned on (with the steps of x), to tell direct from indirect links.
    ranks : bool
        Replace the values of each series by their ranks first: no influence goes away by that, and outliers, which
        would outweigh whole regions, lose their weight.
    measure : {"conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"}
        What is computed. The baselines: the F statistic of a linear regression (needs statsmodels); the index of
        Marinazzo et al. 2008; transfer entropy from nearest neighbours.
    form : {"corrected", "paper"}
        For conditional CS: the corrected Prop. 4, never negative, or the printed one, which flags the reverse of a true
        link too.
    bandwidth : "predictive", "median" or positive float, optional
        For conditional CS: the width that predicts best (default; `condcs.causal.widths` says how it is found), the
        median distance of the series, or a number in its units. For kernel Granger: "median" or a number.
    **options
        Of the baselines: `k` (3) and `estimator` ("frenzel_pompe" or "entropies") of the transfer entropy; `tolerance`
        (1e-6) and `eigensolver` ("low_rank" or "full") of kernel Granger.

    Returns
    -------
    float
        The score.

    Examples
    --------
    >>> from condcs.datasets import make_nlvar3
    >>> x1, x2, x3 = make_nlvar3(500).series.T
    >>> causal_score(x1, x2) > 2 * causal_score(x2, x1)
    True
    """
    check_choice("form", form, ("corrected", "paper"))
    problem = two_series_problem(x, y, given, ranks, lag, delay, order, order_x, order_y)
    return float(Scorer(problem, measure, form, bandwidth, options).on_everything()[0])
