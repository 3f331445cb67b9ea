r"""Regression on x without a choice of model: several designs, ridge penalties, and leave-one-out to choose among them.

Every target is regressed on each design (`designs`) with each of several ridge penalties (`ridge`), and the fit with
the smallest leave-one-out error is taken, which linear smoothers give in closed form. Where targets jump along x,
indicators of these places are added to all designs (`following_jumps`).

Above 10,000 rows the functions are held in single precision (all sums are in double), and fits, made of all rows, are
compared by their errors on 20,000 rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._parallel import many_rows
from condcs._parallel.many_rows import ROWS_AT_ONCE, over_rows
from condcs._regression.designs import Design, DesignMaker, DesignSizes
from condcs._regression.jumps import JumpBox, inside, jumps
from condcs._regression.ridge import RIDGE_PENALTIES, ClusterMeans, left_out, ridge_shrinkages
from condcs._regression.standardised import StandardisedInputs, in_deviations

NEEDED_ERROR_RATIO = 0.999
"""A fit must have less than this part of the smallest error of the fits before it: a constant, and the designs in their
order, each with its penalties from the smallest on. Of designs that do equally well the simplest is kept, because it
comes first, and of its penalties the smallest."""

_MOST_JUDGED_ROWS = 20_000
"""Rows by which the fits of a larger pool are compared: the mean of so many squared errors is known to 1%. The fits
themselves are made of all rows; more rows here cost time and memory in proportion."""
_MOST_SEARCHES = 3
"""Searches for jumps, each in the residuals of a design that follows the jumps before: a small jump shows only when a
large one is followed. They end as soon as one finds nothing new."""
_LENGTH_OF_INDICATORS = 10
"""Standard deviation that the indicators of jumps are given: a function that is ten times as long is penalised a
hundredth as much. They are chosen by a test, and a penalty besides would leave a part of every jump."""


class Residuals(NamedTuple):
    """Targets minus their regressions on x; both arrays are (n, m)."""

    in_sample: RealArray
    """Of fits to all rows."""
    left_out: RealArray
    """Of fits from which the row was left out, with its cluster if there are no more than `ROWS_AT_ONCE` rows."""


class Fit(NamedTuple):
    """A fit by the numbers of its design and of its penalty."""

    design: int
    penalty: int  # among those that the design may have, see `ridge_shrinkages`


class _RidgeFits(NamedTuple):
    """The fits of a design with its k penalties, the smallest penalty first."""

    shrinkages: FloatArray  # (k, p): what the penalties keep along each direction
    leverages: FloatArray  # (k, judged rows)


class RegressionOnX(ABC):
    """Regressions of any targets on x.

    Parameters
    ----------
    inputs : StandardisedInputs
        The columns of x.
    """

    def __init__(self, inputs: StandardisedInputs) -> None:
        self.inputs = inputs

    @property
    def rows(self) -> int:
        """Rows of x."""
        return len(self.inputs.numbers)

    @property
    def numbers(self) -> FloatArray:
        """Columns of numbers, standardised (n, d)."""
        return self.inputs.numbers

    @property
    def categories(self) -> Sequence[IntArray]:
        """Codes of each column of labels (n,)."""
        return self.inputs.categories

    @property
    def indicators(self) -> list[FloatArray]:
        """Indicators of each column of labels (n, categories)."""
        return self.inputs.indicators

    @abstractmethod
    def residuals(self, targets: RealArray) -> Residuals:
        """Subtract from each target (n, m) the regression with the smallest error."""


class Smoother(RegressionOnX):
    """Regressions whose designs and penalties are compared by their errors with each row left out of its own fit.

    Parameters
    ----------
    x : array, shape (n, d), float64
        Inputs of all rows, labels coded as numbers.
    is_category : sequence of bool
        Which columns are labels.
    clusters : array of int, shape (n,), optional
        Cluster 0, 1, ... of each row. Fits are then compared by their errors with a whole cluster left out: rows that
        belong together would otherwise vouch for one another.
    only_defence : bool, default False
        For tests that have no other line of defence than these regressions. There are designs of each column by itself,
        and finer splines of all columns, too: where few of many columns matter, these leave less of their influence.
    """

    def __init__(
        self,
        x: FloatArray,
        is_category: Sequence[bool],
        clusters: IntArray | None = None,
        *,
        only_defence: bool = False,
    ) -> None:
        super().__init__(StandardisedInputs.of(x, is_category))
        self._clusters = clusters
        is_large = self.rows > many_rows.EXACT_ROWS
        self._dtype = np.dtype(np.float32 if is_large else np.float64)
        # What a fit is made of: rows, or clusters of them.
        self._n_units = self.rows if clusters is None else int(clusters.max()) + 1
        self.judged: slice | IntArray = self._judged_rows() if is_large else slice(None)
        sizes = DesignSizes(single_columns=only_defence)
        self.designs = DesignMaker(self.inputs, sizes, self.judged, self._dtype).designs()

    def _judged_rows(self) -> IntArray:
        """Return the rows by which fits of many rows are compared, whole clusters of them."""
        # Evenly spaced: samples lie one after the other in the pool, and each must be judged by its share.
        count = min(_MOST_JUDGED_ROWS * self._n_units // self.rows, self._n_units)
        units = np.linspace(0, self._n_units - 1, count).astype(np.int64)
        return units if self._clusters is None else np.flatnonzero(np.isin(self._clusters, units))

    def following_jumps(self, targets: RealArray) -> Smoother:
        """Return regressions whose designs also have indicators of the places where targets jump; itself if none do.

        No smooth function follows a jump, and where two variables jump at the same places, both regressions are wrong
        there in the same way. Jumps of the targets (n, m) are looked for in what splines and products leave; bumps
        would blur them. Rows of a cluster resemble one another, which looks like jumps where they share their x: with
        clusters none are sought.
        """
        if self._clusters is not None:
            return self
        targets = in_deviations(targets)
        boxes: list[JumpBox] = []
        # Products if there are any; of no columns there is no design.
        smooth_designs = [design for design in self.designs if design.name in {"additive", "products"}]
        if not smooth_designs:
            return self
        for _ in range(_MOST_SEARCHES):
            (following_boxes,) = self._with_indicators(smooth_designs[-1:], boxes)
            with one_blas_thread():
                residuals = following_boxes.residuals(targets, self.judged)
                further = jumps(self.numbers[self.judged], residuals)
            if not set(further) - set(boxes):
                break
            boxes = list(dict.fromkeys([*boxes, *further]))
        if not boxes:
            return self
        return self._on(self._with_indicators(self.designs, boxes))

    def _on(self, designs: list[Design]) -> Smoother:
        """Return regressions of the same rows on other designs."""
        smoother = copy(self)
        smoother.designs = designs
        # A cached property lives in the dictionary of its object, and this one is of the designs that were copied.
        vars(smoother).pop("_ridge_fits", None)
        return smoother

    def _with_indicators(self, designs: list[Design], boxes: list[JumpBox]) -> list[Design]:
        """Return designs with the indicators of some boxes as further functions."""
        if not boxes:
            return designs
        indicators = np.column_stack([inside(self.numbers, box) for box in boxes]).astype(self._dtype)
        with one_blas_thread():
            return [design.with_functions(_LENGTH_OF_INDICATORS * in_deviations(indicators)) for design in designs]

    def residuals(self, targets: RealArray) -> Residuals:
        """Subtract from each target (n, m) the regression with the smallest error, by design and penalty."""
        return self._residuals(targets, smaller_penalties=0)

    def undersmoothed_residuals(self, targets: RealArray) -> Residuals:
        """Subtract from each target (n, m) its best design with the penalty next smaller than the best.

        The best penalty balances bias against variance. Where residuals are multiplied with those of another variable
        and the same penalty is wrong for both, their biases go together and look like dependence, while their variances
        do not: a smaller penalty is safer. This is for variables as they are; functions of their residuals are adjusted
        by `residuals`.
        """
        return self._residuals(targets, smaller_penalties=1)

    def _residuals(self, targets: RealArray, *, smaller_penalties: int) -> Residuals:
        """Subtract from each target (n, m) its best design, with a penalty so many steps smaller than the best."""
        n = self.rows
        targets = targets - targets.mean(axis=0)  # (n, m)
        along = [design.along(targets) for design in self.designs]  # (p, m) each
        best = self._best_fits(targets, along)
        chosen: dict[int, Fit] = {}
        for target, fit in best.items():
            # Penalties come in order, the smallest first.
            chosen[target] = fit._replace(penalty=max(fit.penalty - smaller_penalties, 0))

        # A target that no design explains has the regression on a constant, its mean.
        in_sample = targets.astype(self._dtype)
        unit_left_out = (targets * (n / (n - 1))).astype(self._dtype)
        # Targets with the same fit are done together.
        for fit in set(chosen.values()):
            columns = [target for target, fit_of_target in chosen.items() if fit_of_target == fit]
            of_rows = partial(self._residuals_of_rows, fit, targets, columns, along[fit.design][:, columns])
            chunks = many_rows.chunks(n, ROWS_AT_ONCE)
            with one_blas_thread():
                for rows, residuals in zip(chunks, over_rows(of_rows, n, ROWS_AT_ONCE), strict=True):
                    in_sample[rows, columns] = residuals.in_sample
                    unit_left_out[rows, columns] = residuals.left_out
        return Residuals(in_sample, unit_left_out)

    def _best_fits(self, targets: RealArray, along: list[RealArray]) -> dict[int, Fit]:
        """Return the fit of each target with the smallest error; targets that no fit explains have none.

        Targets are (n, m), and their inner products with the basis of each design (p, m).
        """
        n = self.rows
        judged = targets[self.judged]  # (judged, m)
        smallest = ((judged * (n / (n - 1))) ** 2).sum(axis=0)  # (m,): errors of the mean of all other rows
        fits: dict[int, Fit] = {}
        with one_blas_thread():
            for d, ridge_fits in enumerate(self._ridge_fits):
                basis = np.asarray(self.designs[d].basis[self.judged], np.float64)  # (judged, p)
                leave_out = self._leaving_units_out(basis)
                fits_by_penalty = zip(ridge_fits.shrinkages, ridge_fits.leverages, strict=True)
                for k, (shrinkage, leverage) in enumerate(fits_by_penalty):
                    fitted = basis @ (shrinkage[:, None] * along[d])  # (judged, m)
                    residuals = np.subtract(judged, fitted, out=fitted)
                    residuals = leave_out(residuals, leverage, shrinkage)
                    errors = np.einsum("ij,ij->j", residuals, residuals)  # (m,)
                    better = np.flatnonzero(errors < NEEDED_ERROR_RATIO * smallest)
                    smallest[better] = errors[better]
                    fits |= dict.fromkeys(better.tolist(), Fit(d, k))
        return fits

    def _residuals_of_rows(
        self, fit: Fit, targets: RealArray, columns: list[int], along: RealArray, rows: slice
    ) -> Residuals:
        """Subtract a fit from some columns of the targets (n, m), in some rows; `along` is that of these columns."""
        shrinkage = self._ridge_fits[fit.design].shrinkages[fit.penalty]  # (p,)
        basis = np.asarray(self.designs[fit.design].basis[rows], np.float64)  # (rows, p)
        residuals = targets[rows, columns] - basis @ (shrinkage[:, None] * along)  # (rows, columns)
        leverage = 1 / self.rows + basis**2 @ shrinkage  # (rows,)
        # Of more rows than fit into a chunk, clusters would be torn apart: rows are left out one by one.
        leave_out = self._leaving_units_out(basis) if len(basis) == self.rows else _leave_rows_out
        return Residuals(residuals, leave_out(residuals, leverage, shrinkage))

    @cached_property
    def _ridge_fits(self) -> list[_RidgeFits]:
        """The fits of each design with each penalty that it may have."""
        by_design = []
        for design in self.designs:
            shrinkages = ridge_shrinkages(design.spectrum, RIDGE_PENALTIES, self._n_units).T
            squares = np.asarray(design.basis[self.judged], np.float64) ** 2  # (judged, p)
            by_design.append(_RidgeFits(shrinkages, 1 / self.rows + shrinkages @ squares.T))
        return by_design

    def _leaving_units_out(self, basis: FloatArray) -> _LeaveOut:
        """Return a function that leaves each unit out of its own fit, for the basis (rows, p) of judged or all rows."""
        if self._clusters is None:
            return _leave_rows_out
        means = ClusterMeans(self._clusters[self.judged if len(basis) < self.rows else slice(None)])
        squares = means(basis) ** 2  # (clusters, p)

        def leave_clusters_out(residuals: FloatArray, leverage: FloatArray, shrinkage: FloatArray) -> FloatArray:
            mean_of_hat = 1 / self.rows + squares @ shrinkage  # (clusters,)
            return left_out(residuals, leverage[:, None], means, mean_of_hat[:, None])

        return leave_clusters_out


_LeaveOut = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Takes residuals (rows, columns), leverages (rows,) and a shrinkage (p,); returns residuals with units left out."""


def _leave_rows_out(residuals: FloatArray, leverage: FloatArray, _: FloatArray) -> FloatArray:
    return left_out(residuals, leverage[:, None])
