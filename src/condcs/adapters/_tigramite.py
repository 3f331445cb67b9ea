"""The independence test for tigramite: ``PCMCI(dataframe, cond_ind_test=TigramiteTest())``.

tigramite is published under the GPL-3. condcs is not derived from it and does not install or import it; this module
does, and only if you ask for it. A program that you distribute with this module in use is then a work combined with
tigramite, to which the GPL-3 applies as a whole. Everything else in condcs stays under its own licence, and so do
results and programs that you keep to yourself.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from tigramite.independence_tests.independence_tests_base import CondIndTest

from condcs._core.arrays import ranked
from condcs._core.checks import check_choice
from condcs._core.printable import Printable
from condcs._inference.independence_tests import independence_test
from condcs._inference.repeated_independence import RepeatedIndependence


class TigramiteTest(Printable, CondIndTest):  # type: ignore[misc]
    """Test of conditional independence by products of residuals, see `condcs.independence_test`.

    The null hypothesis is that X is independent of Y given Z. Columns are replaced by their ranks, so that no outlier
    outweighs a whole region. The value of the test, by which tigramite ranks links, is -log10 of its p-value.
    Pass ``max_conds_px=0`` to ``run_pcmciplus``: if the causes of a cause nearly determine it, a test that conditions
    on them has no power.

    Parameters
    ----------
    significance : {"analytic", "shuffle_test"}
        "analytic" computes p-values in closed form, not limited by a number of resamples, and keeps the regressions of
        each conditioning set for the tests that share it. "shuffle_test" compares with `sig_samples` random signs: it
        is slower, and no p-value is below 1 / (1 + sig_samples), too coarse for a correction for many tests.
    sig_samples : int
        Resamples of each "shuffle_test".
    rng : int
        Seed of the resamples.
    **options
        Passed to tigramite's CondIndTest.
    """

    def __init__(
        self,
        *,
        significance: Literal["analytic", "shuffle_test"] = "analytic",
        sig_samples: int = 200,
        rng: int = 0,
        **options: Any,
    ) -> None:
        self.two_sided = False
        self.residual_based = False
        self._tests = RepeatedIndependence()
        check_choice("significance", significance, ("analytic", "shuffle_test"))
        super().__init__(significance=significance, sig_samples=sig_samples, seed=rng, **options)

    @property
    def measure(self) -> str:
        """Name of the measure, for tigramite's reports."""
        return "condcs"

    def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
        """Return -log10 of the p-value in closed form."""
        return float(-np.log10(self._tests(*_split(array, xyz)).pvalue))

    def get_analytic_significance(self, value: float, T: int, dim: int, xyz: Any) -> float:
        """Return the p-value that belongs to a value."""
        return float(10.0**-value)

    def get_shuffle_significance(
        self, array: Any, xyz: Any, value: float, return_null_dist: bool = False, data_type: Any = None
    ) -> Any:
        """Return the p-value, with the null distribution if asked for."""
        x, y, z = _split(array, xyz)
        result = independence_test(x, y, given=z, n_resamples=self.sig_samples, rng=self.random_state)
        return (result.pvalue, result.null_distribution) if return_null_dist else result.pvalue


def _split(array: Any, xyz: Any) -> tuple[Any, Any, Any]:
    """Return X, Y and Z (None without conditions) as columns of ranks."""
    columns = ranked(np.asarray(array, np.float64).T)
    kinds = np.asarray(xyz)
    z = columns[:, kinds == 2]
    return columns[:, kinds == 0], columns[:, kinds == 1], z if z.shape[1] else None
