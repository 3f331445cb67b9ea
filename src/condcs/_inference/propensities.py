r"""P(sample | x), estimated richly enough that the x of redrawn samples cannot be told from the observed ones.

A ridge logistic regression on one of the designs of `condcs._regression`, design and penalty chosen by the
leave-one-out deviance. Whether it is good enough is a question about x and the labels alone: under the right
probabilities the observed imbalance of x is a typical draw. That check costs no validity, so richer fits are tried
until it passes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from condcs._core.arrays import BoolArray, FloatArray, IntArray, LabelArray, RealArray, RowIndex
from condcs._core.checks import label_type
from condcs._core.errors import BalanceWarning, DataError, OverlapWarning, ParameterError, ShapeError, warn_caller
from condcs._core.printable import counted
from condcs._core.settings import one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._inference.resampling import combined_evidence
from condcs._parallel.many_rows import total
from condcs._regression.designs import Design, designs_of_clusters
from condcs._regression.logistic import LogisticFit, logistic_path
from condcs._regression.ridge import ClusterMeans
from condcs._regression.smoother import Smoother

SurprisesByRows = Callable[[RowIndex], list[FloatArray]]
"""Takes rows, and returns the surprises of these rows, labels minus probabilities: an array (rows x P) for each of
`samples_with_surprises`."""

PASSED = 0.05
"""Balance p-value from which on a fit is taken."""
Balance = Literal["passed", "doubtful", "failed"]
"""Outcome of the check of balance: p-value from 0.05 on, from 0.01 on, or below."""

_UNBALANCED = 0.01
"""Balance p-value below which it is said that the p-value of a test rests on the adjustment of y alone."""
_CHECKS = 199
"""Redrawn samples that the observed imbalance is compared with: p-values down to 0.005."""
_FOLDS = 5
"""Parts of the rows; a classifier that was given is fitted to all but one of them, which it then judges."""
_SMALLEST_GROUP = 2
"""Rows without which a sample has no spread."""
_SUM_TOLERANCE = 1e-6
"""How far the probabilities of a row may add up to something else than 1: in single precision each is off by 1e-7."""
_REDRAWS = 100
"""Draws in a row that may leave a sample without rows before redrawing is given up."""
_UNIFORM_NUMBERS = 2**24
"""Random numbers that are held at once: 128 MB."""
_FEWEST_EFFECTIVE_UNITS, _LEAST_OVERLAP = 30, 0.25
"""Effective units, and share of all units, below both of which samples hardly overlap: of fewer units no view tells
much, and of small samples that overlap fully it is no fault of theirs that they are small."""


def samples_with_surprises(n_samples: int) -> range:
    """Return the samples whose surprises are looked at: of two the second alone, the first one's are minus those."""
    return range(1, 2) if n_samples == 2 else range(n_samples)


def balanced_log_odds(log_odds: FloatArray, in_second: BoolArray) -> FloatArray:
    """Turn log-odds of the second of two samples into log q(x) - log p(x): what they were if both weighed the same.

    In the pool of n0 and n1 units of the samples the odds are n1 q / (n0 p); `in_second` says of each unit whether it
    is of the second.
    """
    return np.asarray(log_odds - np.log(in_second.sum() / (~in_second).sum()))


@dataclass(frozen=True)
class Propensity:
    """Probabilities of the samples given x, how far they hold, and what a fit to redrawn labels would make of them.

    A unit is what gets a label: a row, or a cluster of rows that belong together.

    Attributes
    ----------
    probabilities : array, shape (units, G)
        Of each unit and sample.
    design : str
        Which functions of x the log-odds are made of; "given" if the caller gave the probabilities.
    balance_pvalue : float
        Whether the observed imbalance of x is a typical draw.
    fits : tuple of LogisticFit
        The fits of `samples_with_surprises` to the units; none if the caller gave the probabilities.
    fitted_to : array, shape (units,), optional
        The labels that these were fitted to: the observed ones.
    units : array of int, shape (n,), optional
        Unit of each row; without it every row is one.
    """

    probabilities: FloatArray
    design: str
    balance_pvalue: float
    fits: tuple[LogisticFit, ...] = ()
    fitted_to: LabelArray | None = None
    units: IntArray | None = None

    @property
    def effective_units(self) -> float:
        """Units that tell the samples apart given x: all if x does not shift, few where the samples hardly overlap."""
        variance = (self.probabilities * (1 - self.probabilities)).sum()
        shares = self.probabilities.mean(axis=0)
        return float(variance / (shares * (1 - shares)).sum())

    @property
    def balance(self) -> Balance:
        """Outcome of the check of balance. Richer fits were tried where it did not pass."""
        if self.balance_pvalue >= PASSED:
            return "passed"
        return "doubtful" if self.balance_pvalue >= _UNBALANCED else "failed"

    @property
    def hardly_overlaps(self) -> bool:
        """Whether so few units tell the samples apart given x that there is hardly anything to compare."""
        return self.effective_units < min(_FEWEST_EFFECTIVE_UNITS, _LEAST_OVERLAP * len(self.probabilities))

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What a result says about how far the null can be trusted."""
        n_units = len(self.probabilities)
        n_rows = n_units if self.units is None else len(self.units)
        return {
            "balance": self.balance,
            "balance_pvalue": self.balance_pvalue,
            "hardly_overlaps": self.hardly_overlaps,
            "effective_rows": self.effective_units * (n_rows / n_units),
            "propensity": self.design,
        }

    @property
    def of_rows(self) -> FloatArray:
        """Probabilities of every row (n x G)."""
        return self.probabilities if self.units is None else self.probabilities[self.units]

    def balanced_share(self, labels: LabelArray) -> FloatArray:
        """Return s(x) = q / (p + q) at each row (n,): the share of the second of two samples if both weighed the same.

        `labels` (n,) are those of the rows.
        """
        in_second = self._labels_of_units(labels[None])[0] == 1  # (units,)
        shares = expit(balanced_log_odds(logit(self.probabilities[:, 1]), in_second))  # (units,)
        return np.asarray(shares if self.units is None else shares[self.units])

    def draw(self, n_draws: int, rng: np.random.Generator) -> LabelArray:
        """Redraw the labels of all rows: (n_draws, n), every sample with at least 2 units."""
        drawn = independent_draws(self.probabilities, rng)(n_draws)
        return drawn if self.units is None else drawn[:, self.units]

    def surprises_by_rows(self, labels: LabelArray, *, all_alike: bool = False) -> SurprisesByRows:
        """Return a function from rows to indicators of the labels (P x n) minus their probabilities.

        It is a function because all surprises of many rows at once would take too much memory. Which samples have an
        array of them is said by `samples_with_surprises`.

        Probabilities that were fitted to the observed labels are fitted to redrawn ones too, by one step of Newton's
        method from the probabilities at hand: what the fit uses up is then missing from both alike. The observed labels
        are exempt, as is every redrawn labelling that equals them. With `all_alike` they take the step as well.
        """
        samples = samples_with_surprises(self.probabilities.shape[1])
        labels_of_units = self._labels_of_units(labels)  # (P, units)

        def labels_minus_probabilities(units: RowIndex, sample: int) -> FloatArray:
            """Return the surprises of some units before the probabilities are fitted again (units x P)."""
            # Turned as bytes: of numbers, that would take as long as all else here.
            turned = np.ascontiguousarray(labels_of_units[:, units].T)
            return np.asarray((turned == sample) - self.probabilities[units, sample, None])

        # Probabilities of the caller have no fits, and take no step.
        fit_of_sample = dict(zip(samples, self.fits, strict=False))
        with one_blas_thread():
            steps = {
                sample: fit.newton_step(partial(labels_minus_probabilities, sample=sample))
                for sample, fit in fit_of_sample.items()
            }
        # Why the observed labels L are exempt. To first order a fit with the hat matrix H takes H (L - p0) from labels
        # that were drawn with the probabilities p0. The probabilities p are fitted to L, so that L - p is
        # (1 - H) (L - p0) already, up to the shrinkage by the penalty. Labels L* are redrawn with the probabilities p,
        # and the step makes (1 - H) (L* - p) of them. So both are the same function of labels minus the probabilities
        # that they were drawn with, and to first order exchangeable. A step for L would apply 1 - H twice: under the
        # null hypothesis the squares of the observed surprises are then too small, and tests reject too seldom
        # (measured with 150 rows and 3 inputs: 7% instead of 4% too small, and 8.4% instead of 9.2% rejections at the
        # level 10%). Labels that equal L are exempt wherever they occur: equal labels must have equal statistics.
        if self.fitted_to is not None and not all_alike:
            is_observed = (labels_of_units == self.fitted_to).all(axis=1)  # (P,)
            for step in steps.values():
                step[:, is_observed] = 0.0

        def surprises(rows: RowIndex) -> list[FloatArray]:
            units = rows if self.units is None else self.units[rows]
            by_sample = {sample: labels_minus_probabilities(units, sample) for sample in samples}
            with one_blas_thread():
                for sample, fit in fit_of_sample.items():
                    by_sample[sample] -= fit.change_by_step(units, steps[sample])
            return list(by_sample.values())

        return surprises

    def net_of_refit(self, functions: FloatArray) -> FloatArray:
        """Return, for functions f (units x m), functions g with sum f surprise = sum g (label - probability).

        The surprises are those of redrawn labels of two samples. What a fit to these uses up is so taken from the
        functions, once for all draws.
        """
        if not self.fits:
            return functions
        (fit_of_second,) = self.fits
        return fit_of_second.net_of_refit(functions)

    def _labels_of_units(self, labels: LabelArray) -> LabelArray:
        """Return labellings of the units (P x units) from those of the rows (P x n)."""
        if self.units is None:
            return labels
        first_rows = np.unique(self.units, return_index=True)[1]  # (units,)
        return np.asarray(labels[:, first_rows])


def chosen_propensity(
    source: Any,
    x: RealArray,
    smoother: Smoother,
    clusters: IntArray | None,
    labels: LabelArray,
    n_samples: int,
    rng: np.random.Generator,
) -> Propensity:
    """Return P(sample | x) from its source.

    None: it is fitted. A classifier: it is fitted to other rows than it judges. An array (n x G): these probabilities.
    A `Propensity`: just that.
    """
    if isinstance(source, Propensity):
        return source
    probabilities: FloatArray | None = None  # (n, G), and from the clusters on (clusters, G)
    if hasattr(source, "fit"):
        probabilities = cross_fitted(source, x, labels, n_samples)
    elif source is not None:
        probabilities = check_probabilities(source, len(x), n_samples)
    designs = smoother.designs
    if clusters is not None:
        means = ClusterMeans(clusters)
        designs = designs_of_clusters(smoother.designs, means)
        probabilities = None if probabilities is None else means(probabilities)
        labels = labels[means.first_rows]
    if probabilities is None:
        return fitted_propensity(designs, labels, n_samples, rng, clusters)
    return propensity_of_caller(probabilities, designs, labels, rng, clusters)


def fitted_propensity(
    designs: list[Design], labels: LabelArray, n_samples: int, rng: np.random.Generator, units: IntArray | None = None
) -> Propensity:
    """Estimate P(sample | x), and enrich it until the check of balance passes.

    Designs (functions of x) and labels are those of the units; `units` says which one each row belongs to.
    """
    seed = int(rng.integers(2**63))
    with one_blas_thread():
        paths = []
        for sample in samples_with_surprises(n_samples):
            is_of_sample = (labels == sample).astype(np.float64)  # (units,)
            paths.append(logistic_path(designs, is_of_sample))
        fits = [path.best for path in paths]
        best = _propensity_of_fits(fits, designs, labels, np.random.default_rng(seed))
        for number in range(max(len(path.richer) for path in paths)):
            if best.balance_pvalue >= PASSED:
                break
            # A sample without a richer fit keeps the last one that it has.
            for i, path in enumerate(paths):
                if number < len(path.richer):
                    fits[i] = path.richer_fit(number)
            # The same seed: all candidates are checked by the same random numbers.
            candidate = _propensity_of_fits(fits, designs, labels, np.random.default_rng(seed))
            if candidate.balance_pvalue > best.balance_pvalue:
                best = candidate
    return replace(best, units=units)


def propensity_of_caller(
    probabilities: FloatArray,
    designs: list[Design],
    labels: LabelArray,
    rng: np.random.Generator,
    units: IntArray | None = None,
) -> Propensity:
    """Check the balance of probabilities that come from the caller, or from a classifier of theirs."""
    draft = Propensity(probabilities, "given", 1.0)  # its balance is not known yet
    return replace(draft, balance_pvalue=_balance_pvalue(draft, designs, labels, rng), units=units)


def warn_if_unreliable(propensity: Propensity) -> None:
    """Warn where the imbalance of x is not explained, or the samples hardly overlap."""
    if propensity.balance == "failed":
        warn_caller(
            "the estimate of P(sample | x) does not explain how x differs between the samples (p-value of the check of "
            f"balance: {propensity.balance_pvalue:.3g}), so the p-value of the test rests on the adjustment of y for x "
            f"alone and may be too small. Pass a richer classifier as {named('propensity')}, or compare the samples "
            "where they overlap.",
            BalanceWarning,
        )
    if propensity.hardly_overlaps:
        n_units = len(propensity.probabilities)
        is_clustered = propensity.units is not None
        where, unit = ("x and in the size of clusters", "cluster") if is_clustered else ("x", "row")
        effective = round(propensity.effective_units)
        words = (
            f"the samples hardly overlap in {where}: {counted(n_units, unit)} tell as much about p(y|x) as "
            f"{counted(effective, unit)} of samples that overlap fully. A large p-value then says little. Compare the "
            "samples where both have rows, or with fewer inputs."
        )
        warn_caller(OverlapWarning(words, "support", rows=effective, of_rows=n_units))


def check_probabilities(propensity: Any, n: int, n_samples: int) -> FloatArray:
    """Return probabilities that come from a caller (n, n_samples), one per pooled row and sample; refuse others."""
    try:
        probabilities = np.asarray(propensity, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{named('propensity')} must be None, a scikit-learn classifier or an array of probabilities, got "
            f"{propensity!r}. Pass e.g. sklearn.ensemble.RandomForestClassifier()."
        ) from error
    if probabilities.ndim == 1 and n_samples == 2:
        probabilities = np.column_stack([1 - probabilities, probabilities])
    if probabilities.shape != (n, n_samples):
        raise ShapeError(
            f"{named('propensity')} must hold one probability per pooled row and group, shape ({n}, {n_samples})"
            f"{f' or ({n},)' if n_samples == 2 else ''}, got {np.shape(propensity)}. The first sample's rows come "
            "first."
        )
    if not np.all((probabilities >= 0) & (probabilities <= 1)) or not np.allclose(
        probabilities.sum(axis=1), 1, atol=_SUM_TOLERANCE
    ):
        raise DataError(
            f"{named('propensity')} must hold probabilities: between 0 and 1, and adding up to 1 over the groups of a "
            "row. Divide each row by its sum."
        )
    return probabilities


def independent_draws(probabilities: FloatArray, rng: np.random.Generator) -> Callable[[int], LabelArray]:
    """Draw each row's label from its own probabilities, again for every draw that leaves a group short of rows."""
    n, n_samples = probabilities.shape
    dtype = label_type(n_samples)
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    if ((probabilities > 0).sum(axis=0) < _SMALLEST_GROUP).any():
        raise DataError(
            f"{named('propensity')} must leave every group at least 2 rows, but gives some group a positive "
            "probability in fewer. The samples may not overlap in x: there is nothing to compare."
        )

    def draw(n_draws: int) -> LabelArray:
        labels = np.empty((n_draws, n), dtype)
        short = np.arange(n_draws)
        for _ in range(_REDRAWS):
            smallest = []
            # A few draws at a time: their random numbers take eight times the memory of labels.
            for part in np.array_split(short, -(-len(short) * n // _UNIFORM_NUMBERS)):
                uniform = rng.random((len(part), n))
                drawn = np.zeros((len(part), n), dtype)
                for g in range(n_samples - 1):
                    drawn += uniform >= steps[:, g]
                labels[part] = drawn
                smallest.append(np.stack([(drawn == g).sum(axis=1) for g in range(n_samples)]).min(axis=0))
            short = short[np.concatenate(smallest) < _SMALLEST_GROUP]
            if not len(short):
                return labels
        raise DataError(
            f"{named('propensity')} must leave every group at least 2 rows, but {_REDRAWS} redraws in a row did not. "
            f"The samples hardly overlap in x; pass {setting('null', 'local')}, or probabilities further from 0 and 1."
        )

    return draw


def cross_fitted(classifier: Any, x: RealArray, labels: LabelArray, n_samples: int) -> FloatArray:
    """Probabilities of each row from a classifier that has not seen it: a flexible one would repeat its label."""
    if not hasattr(classifier, "predict_proba"):
        raise ParameterError(
            f"{named('propensity')} must have a method predict_proba, got {type(classifier).__name__}. "
            "Wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    smallest = int(np.bincount(labels).min())
    folds = min(_FOLDS, smallest)
    fold_of_row = np.empty(len(labels), np.int64)
    for sample in range(n_samples):
        rows = np.flatnonzero(labels == sample)
        fold_of_row[rows] = np.arange(len(rows)) % folds
    probabilities = np.empty((len(labels), n_samples))
    for fold in range(folds):
        in_fold = fold_of_row == fold
        model = _clone(classifier).fit(x[~in_fold], labels[~in_fold])
        probabilities[in_fold] = model.predict_proba(x[in_fold])
    return check_probabilities(probabilities, len(labels), n_samples)


def _clone(classifier: Any) -> Any:
    """Return an unfitted classifier with the same settings; a plain copy of one that scikit-learn cannot clone."""
    from sklearn.base import clone

    try:
        return clone(classifier)
    except TypeError:
        return copy.deepcopy(classifier)


def _propensity_of_fits(
    fits: Sequence[LogisticFit], designs: list[Design], labels: LabelArray, rng: np.random.Generator
) -> Propensity:
    """Make a propensity of the fits of `samples_with_surprises`, and check its balance."""
    if len(fits) == 1:
        second = fits[0].probabilities
        probabilities = np.column_stack([1 - second, second])
    else:
        probabilities = np.column_stack([fit.probabilities for fit in fits])
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    draft = Propensity(probabilities, fits[0].design.name, 1.0, tuple(fits), labels)
    return replace(draft, balance_pvalue=_balance_pvalue(draft, designs, labels, rng))


def _balance_pvalue(draft: Propensity, designs: list[Design], labels: LabelArray, rng: np.random.Generator) -> float:
    """P-value of the observed imbalance of x: of all functions of each design, combined over the designs."""
    if not any(len(design.spectrum) for design in designs):
        return 1.0  # x is the same in all rows, so that nothing can be out of balance
    # All labels take one more step of the fit. Without it, redrawn samples would be out of balance in the directions
    # that the fit has used up, and what it does not explain would hide behind that.
    all_labels = np.vstack([labels[None], draft.draw(_CHECKS, rng)])  # (1 + draws, units)
    surprises_by_rows = draft.surprises_by_rows(all_labels, all_alike=True)

    def imbalance(rows: slice) -> FloatArray:
        """Sum each function (of all designs) times the surprises of each sample and draw."""
        side_by_side = np.concatenate(surprises_by_rows(rows), axis=1)  # (rows, samples x draws)
        return np.concatenate([design.basis[rows].T @ side_by_side for design in designs])

    function_counts = [len(design.spectrum) for design in designs]
    sums = total(imbalance, len(labels)).reshape(sum(function_counts), -1, 1 + _CHECKS)  # (functions, samples, draws)
    spectrum = np.concatenate([design.spectrum for design in designs])  # (functions,)
    squares = spectrum[:, None] * (sums**2).sum(axis=1)  # (functions, draws)
    ends = np.cumsum([0, *function_counts])
    by_design = np.array([squares[start:end].sum(axis=0) for start, end in pairwise(ends)])  # (designs, draws)
    return combined_evidence(by_design).pvalue
