"""The independence test for causal-learn: ``CIT(data, "condcs")``, and PC, FCI and others by that name.

Importing this module registers the name.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from causallearn.utils.cit import CIT_Base, register_ci_test

from condcs._core.ranks import ranked
from condcs._inference.independence_tests import independence_test

NAME = "condcs"
"""Name of the test in causal-learn."""


class CausalLearnTest(CIT_Base):  # type: ignore[misc]
    """Conditional independence test by Prop. 4: called with column indices, returns a p-value.

    The null hypothesis of a call is that X is independent of Y given the columns of `condition_set`.

    Parameters
    ----------
    data : array, shape (n, variables)
        The sample.
    n_resamples : int
        Permutations of each test; the smallest p-value is 1 / (1 + n_resamples).
    neighbours : int
        Number of nearest neighbours, in the conditioning set, with which values are exchanged.
    bandwidth : float or rule name
        Bandwidth of all kernels, on ranks from 0 to 1: without ranks a single outlier could outweigh a whole region.
        With "median" the test combines several views of the first variable, see `condcs.independence_test`.
    rng : int
        Seed; each pair and conditioning set has a stream of its own, so that the order of the calls does not matter.
    **options
        Passed to causal-learn (``cache_path``).

    Examples
    --------
    >>> from causallearn.utils.cit import CIT  # doctest: +SKIP
    >>> CIT(data, "condcs", n_resamples=500)(0, 1, [2])  # doctest: +SKIP
    """

    def __init__(
        self,
        data: Any,
        *,
        n_resamples: int = 200,
        neighbours: int = 5,
        bandwidth: Any = "median",
        rng: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(data, **options)
        self.n_resamples, self.neighbours, self.bandwidth, self.rng = n_resamples, neighbours, bandwidth, rng
        self.check_cache_method_consistent(NAME, f"{n_resamples} {neighbours} {bandwidth} {rng}")
        self.assert_input_data_is_valid()
        self.ranks = ranked(data)

    def __call__(self, X: int, Y: int, condition_set: Any = None) -> float:
        """Return the p-value."""
        first, second, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
        if key not in self.pvalue_cache:
            table = self.ranks
            self.pvalue_cache[key] = independence_test(
                table[:, first],
                table[:, second],
                given=table[:, given] if given else None,
                null=None if self.bandwidth == "median" or not given else "local",
                n_resamples=self.n_resamples,
                neighbours=self.neighbours,
                bandwidth_x="aggregate" if self.bandwidth == "median" else self.bandwidth,
                bandwidth_y=self.bandwidth,
                bandwidth_given=self.bandwidth,
                rng=np.random.default_rng([self.rng, zlib.crc32(key.encode())]),
            ).pvalue
        return float(self.pvalue_cache[key])


register_ci_test(NAME, CausalLearnTest)
