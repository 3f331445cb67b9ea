"""The independence test for tigramite: ``PCMCI(dataframe, cond_ind_test=TigramiteTest())``.

tigramite is published under the GPL-3. condcs is not derived from it and does not install or import it; this module
does, and only if you ask for it. A program that you distribute with this module in use is then a work combined with
tigramite, to which the GPL-3 applies as a whole. Everything else in condcs stays under its own licence, and so do
results and programs that you keep to yourself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tigramite.independence_tests.independence_tests_base import CondIndTest

from condcs._core.ranks import ranked
from condcs._inference.independence_tests import independence_test
from condcs._measures.conditional import conditional_cs_predictors


class TigramiteTest(CondIndTest):  # type: ignore[misc]
    """Conditional independence test by Prop. 4.

    The null hypothesis is that X is independent of Y given Z. The p-value comes from permutations of X among neighbours
    in Z (``significance="shuffle_test"``, the only kind available).

    Parameters
    ----------
    sig_samples : int
        Permutations of each test.
    neighbours : int
        Number of nearest neighbours in Z with which values of X are exchanged.
    bandwidth : float or rule name
        Bandwidth of all kernels, on ranks from 0 to 1: without ranks a single outlier could outweigh a whole region.
        With "median" the test combines several views of X, see `condcs.independence_test`.
    rng : int
        Seed.
    **options
        Passed to tigramite's CondIndTest.
    """

    def __init__(
        self,
        *,
        sig_samples: int = 200,
        neighbours: int = 5,
        bandwidth: Any = "median",
        rng: int = 0,
        **options: Any,
    ) -> None:
        self._measure = "conditional_cs"
        self.two_sided = False
        self.residual_based = False
        self.neighbours, self.bandwidth = neighbours, bandwidth
        super().__init__(significance="shuffle_test", sig_samples=sig_samples, seed=rng, **options)

    @property
    def measure(self) -> str:
        """Name of the measure, for tigramite's reports."""
        return self._measure

    def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
        """Return the divergence between p(y|z) and p(y|x,z)."""
        x, y, z = _split(array, xyz)
        if z is None:
            return float(self._test(x, y, None, 1, self.bandwidth).statistic)
        widths = {f"bandwidth_{role}": self.bandwidth for role in ("y", "x1", "x2")}
        return float(conditional_cs_predictors(y, z, x, **widths))

    def get_shuffle_significance(
        self, array: Any, xyz: Any, value: float, return_null_dist: bool = False, data_type: Any = None
    ) -> Any:
        """Return the p-value, with the null distribution if asked for."""
        x, y, z = _split(array, xyz)
        width = "aggregate" if self.bandwidth == "median" else self.bandwidth
        result = self._test(x, y, z, self.sig_samples, width)
        return (result.pvalue, result.null_distribution) if return_null_dist else result.pvalue

    def _test(self, x: Any, y: Any, z: Any, n_resamples: int, bandwidth_x: Any) -> Any:
        return independence_test(
            x,
            y,
            given=z,
            null=None if self.bandwidth == "median" or z is None else "local",
            n_resamples=n_resamples,
            neighbours=self.neighbours,
            bandwidth_x=bandwidth_x,
            bandwidth_y=self.bandwidth,
            bandwidth_given=self.bandwidth,
            rng=self.random_state,
        )


def _split(array: Any, xyz: Any) -> tuple[Any, Any, Any]:
    """Return X, Y and Z (None without conditions) as columns of ranks."""
    columns = ranked(np.asarray(array, np.float64).T)
    kinds = np.asarray(xyz)
    z = columns[:, kinds == 2]
    return columns[:, kinds == 0], columns[:, kinds == 1], z if z.shape[1] else None
