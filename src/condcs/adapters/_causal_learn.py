"""The independence test for causal-learn: ``CIT(data, "condcs")``, and PC, FCI and others by that name.

Importing this module registers the name.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from causallearn.utils.cit import CIT_Base, register_ci_test

from condcs._core.arrays import ranked
from condcs._core.printable import Printable
from condcs._inference.independence_tests import independence_test
from condcs._inference.repeated_independence import RepeatedIndependence

NAME = "condcs"
"""Name of the test in causal-learn."""


class CausalLearnTest(Printable, CIT_Base):  # type: ignore[misc]
    """Test of conditional independence by products of residuals: called with column indices, returns a p-value.

    The null hypothesis of a call is that X is independent of Y given the columns of `condition_set`. Columns are
    replaced by their ranks, so that no outlier outweighs a whole region; see `condcs.independence_test`.

    Parameters
    ----------
    data : array, shape (n, variables)
        The sample.
    n_resamples : int, optional
        Random signs that each test is compared with. By default none: p-values are in closed form, and the regressions
        of a conditioning set are kept for the tests that share it.
    rng : int
        Seed of the resamples; each pair and conditioning set has a stream of its own, so that the order of the calls
        does not matter.
    **options
        Passed to causal-learn (``cache_path``).

    Examples
    --------
    >>> from causallearn.utils.cit import CIT  # doctest: +SKIP
    >>> CIT(data, "condcs")(0, 1, [2])  # doctest: +SKIP
    """

    def __init__(self, data: Any, *, n_resamples: int | None = None, rng: int = 0, **options: Any) -> None:
        super().__init__(data, **options)
        self.n_resamples, self.rng = n_resamples, rng
        self.check_cache_method_consistent(NAME, f"{n_resamples} {rng}")
        self.assert_input_data_is_valid()
        self.ranks = ranked(data)
        self._tests = RepeatedIndependence()

    def __call__(self, X: int, Y: int, condition_set: Any = None) -> float:
        """Return the p-value."""
        first, second, conditions, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
        if key not in self.pvalue_cache:
            x, y = self.ranks[:, first], self.ranks[:, second]
            z = self.ranks[:, conditions] if conditions else None
            self.pvalue_cache[key] = self._pvalue(x, y, z, key)
        return float(self.pvalue_cache[key])

    def _pvalue(self, x: Any, y: Any, z: Any, key: str) -> float:
        if self.n_resamples is None:
            return self._tests(x, y, z).pvalue
        stream = np.random.default_rng([self.rng, zlib.crc32(key.encode())])
        return float(independence_test(x, y, given=z, n_resamples=self.n_resamples, rng=stream).pvalue)


register_ci_test(NAME, CausalLearnTest)
