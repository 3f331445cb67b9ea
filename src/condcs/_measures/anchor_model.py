"""What is known of all rows before their masses are: approximations from landmarks, and what these leave open.

Masses are approximated by a low-rank kernel (Nystrom); regressions on rows of known masses then say what a row is
likely to add to the sums of a divergence, and how far the approximation is off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._kernels.low_rank import pseudo_inverse
from condcs._kernels.row_chunks import RowChunk, RowKernels, RowSource, block_exponents, common_categories, joined_rows
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.formulas import TINY, RowSums

# Rows of a tile of kernel values against the landmarks, of which there are a few hundred: about a megabyte.
_TILE = 512


@dataclass(frozen=True)
class ExactRows:
    """Rows of exact masses: landmarks and pilot rows, drawn before anything is known, and anchors of earlier draws."""

    rows: RowChunk
    landmark: BoolArray  # which are landmarks
    share: FloatArray  # how many rows each stands for among those that it was drawn from; 0 for landmarks
    draw: IntArray  # which draw it belongs to: 0 for pilot rows (and landmarks), then 1, 2, ...
    log_masses: FloatArray  # products x landmarks and pilot rows x G, exact
    added: FloatArray  # rows x K: what they add to the sums

    @property
    def expansion(self) -> FloatArray:
        """How many rows each stands for when only landmarks and pilot rows are known."""
        return self.share + self.landmark

    def with_anchors(self, rows: RowChunk, chances: FloatArray, added: FloatArray) -> ExactRows:
        """Return these rows and others, which were drawn with such probabilities."""
        return ExactRows(
            joined_rows(self.rows, rows),
            np.append(self.landmark, chances < 0),
            np.append(self.share, 1 / chances),
            np.append(self.draw, np.full(len(rows), self.draw.max() + 1)),
            self.log_masses,
            np.concatenate([self.added, added]),
        )


@dataclass(frozen=True)
class LowRank:
    """Approximate masses of any row: kernel values at the landmarks of its category, times their loadings."""

    kernels: RowKernels
    landmarks: RowChunk
    loadings: FloatArray  # products x landmarks x G: masses of the landmarks times the inverse of their Gram matrix
    shares: FloatArray  # landmarks x G: what each stands for in its group, for sums of wider kernels
    codes: IntArray  # of the categories
    absent: BoolArray  # categories x G: which of them a group does not have

    def log_masses(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return log masses (products x rows x G), and four numbers that tell how good they are (4 x rows).

        These are each row's log masses in the group that it is of, by kernels 2 and 4 times as wide, which landmarks
        tell even if none is near; and how far the nearest landmark is, in bandwidths, with the fewest factors and with
        all of them.
        """
        masses = np.zeros((*self.loadings.shape[:1], len(rows), self.loadings.shape[2]))
        wide, nearest = np.zeros((2, len(rows))), np.full((2, len(rows)), -1e4)
        for mine, theirs, kernels, m in common_categories(self.kernels, rows, self.landmarks):
            indices, r = np.arange(len(rows))[mine], len(self.landmarks.weights[theirs])
            for start in range(0, m, _TILE):
                tile_part = slice(start, min(start + _TILE, m))
                tile_rows = indices[tile_part]
                for k, tile in enumerate(block_exponents(kernels, m, tile_part, slice(0, r))):
                    nearest[min(k, 1), tile_rows] = tile.max(axis=1)
                    if k == 0:
                        # Exponentials of a sixteenth of the exponents: their powers serve three widths.
                        tile *= 1 / 16
                        exp_in_place(tile)
                        for width in (1, 0):
                            sums = tile @ self.shares[theirs]
                            wide[width, tile_rows] = sums[np.arange(len(tile_rows)), rows.groups[tile_rows]]
                            tile *= tile
                            tile *= tile
                    else:
                        exp_in_place(tile)
                    masses[k, tile_rows] = tile @ self.loadings[k, theirs]
        # Approximations can be negative. A mass is no less than what a row is to itself, and more factors do not add to
        # it.
        masses = np.maximum(masses, TINY)
        of_itself = np.arange(len(rows)), rows.groups
        for k, chosen in enumerate(self.kernels.products):
            masses[k][of_itself] = np.maximum(masses[k][of_itself], rows.weights)
            for j, fewer in enumerate(self.kernels.products[:k]):
                if set(fewer) < set(chosen):
                    np.minimum(masses[k], masses[j], out=masses[k])
        masses[:, self.absent[np.searchsorted(self.codes, rows.codes)]] = 0.0
        far = np.sqrt(-2 * np.clip(nearest, -1e4, 0.0))
        with np.errstate(divide="ignore"):
            log_masses = np.log(masses)
        return log_masses, np.concatenate([np.log(wide + rows.weights + TINY), far])


def low_rank_of(source: RowSource, exact_rows: ExactRows) -> LowRank:
    """Return the approximation that the landmarks among the exact rows give: masses solved by their Gram matrices."""
    landmarks = exact_rows.rows.take(exact_rows.landmark)
    masses = np.exp(exact_rows.log_masses[:, exact_rows.landmark])  # products x landmarks x G
    codes, counts = source.categories
    loadings, drawn = np.zeros_like(masses), np.zeros_like(counts)
    cell = np.searchsorted(codes, landmarks.codes), landmarks.groups  # category and group of each landmark
    np.add.at(drawn, cell, 1)
    for mine, _, kernels, m in common_categories(source.kernels, landmarks, landmarks):
        for k, gram in enumerate(block_exponents(kernels, m, slice(0, m), slice(0, m))):
            exp_in_place(gram)
            loadings[k, mine] = pseudo_inverse(gram, _SMALLEST_EIGENVALUE) @ masses[k, mine]
    shares = np.zeros((len(landmarks), len(source.sizes)))
    shares[np.arange(len(landmarks)), landmarks.groups] = landmarks.weights * counts[cell] / drawn[cell]
    return LowRank(source.kernels, landmarks, loadings, shares, codes, counts == 0)


@dataclass(frozen=True)
class Model:
    """What is expected of every row: what it adds to the sums, and what a regression on that leaves to be corrected."""

    measure: RowSums
    low_rank: LowRank
    gradient: FloatArray  # of the divergence by its K sums, roughly: those that the pilot rows stand for
    # 3 x G x 6: coefficients of the logarithms of what a regression leaves uncorrected of a row, of what it adds, and
    # of the same without a look at its approximate masses, which can be far off at the margins of the data.
    fits: FloatArray
    parts: FloatArray  # 4 x G: factors of the parts of a probability, these three and the weight

    def approximately_added(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return what the approximate masses say that rows add (rows x K), and what logarithms are regressed on."""
        log_masses, wide = self.low_rank.log_masses(rows)
        added = self.measure.added(log_masses, rows.groups, rows.weights)
        size = np.log(added @ np.abs(self.gradient) + TINY)
        return added, np.stack([np.ones_like(size), size, *wide], axis=1)

    def features(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return what sums are regressed on (rows x K + 2), and relative chances of rows to be anchors (rows,)."""
        added, regressors = self.approximately_added(rows)
        # No row adds more than 1 to a sum: its kernel mass is at least what it is to itself.
        most = np.abs(self.gradient).sum()
        uncorrected, size, robust = (np.minimum(_exp_of_fit(regressors, fit[rows.groups]), most) for fit in self.fits)
        parts = np.stack([uncorrected, size, robust, rows.weights]) * self.parts[:, rows.groups]  # (4, rows)
        relative_chances = np.where(rows.weights > 0, parts.sum(axis=0), 0.0)
        return np.column_stack([added, size, rows.weights]), relative_chances


# Both keep rounding, which hangs on how rows are chunked, out of the choice of anchors: eigenvalues below this part of
# the largest are left out, and residuals below this part of what a row adds count as that.
_SMALLEST_EIGENVALUE, _RESOLVED = 1e-7, 1e-4
# Fitted logarithms are kept within this: exponentials overflow at 709, and sums of them must not.
_LARGEST_LOG = 600.0
# The parts of a probability: what follows from the regressions, and the rest for what they do not foresee.
_PARTS = np.array([0.4, 0.2, 0.3, 0.1])


def _exp_of_fit(regressors: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the exponential of each row's fit, its regressors (n, 6) times its coefficients (n, 6)."""
    logs = np.einsum("jk,jk->j", regressors, coefficients)
    return np.asarray(np.exp(np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)))


def fitted_model(
    source: RowSource, measure: RowSums, low_rank: LowRank, exact_rows: ExactRows, sums: FloatArray
) -> Model:
    """Fit the model on exact rows that had no part in the approximation: pilot rows and earlier anchors."""
    gradient = measure.gradient(sums)
    n_groups = len(source.sizes)
    plain = np.tile([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], (3, n_groups, 1))
    model = Model(measure, low_rank, gradient, plain, np.full((4, n_groups), 0.25))
    pilot = ~exact_rows.landmark & (exact_rows.rows.weights > 0)
    rows, exact = exact_rows.rows.take(pilot), exact_rows.added[pilot]
    share = (exact_rows.share * (exact_rows.draw == 0))[pilot]  # earlier anchors stand for none
    if len(rows) == 0:
        return model
    approximate, regressors = model.approximately_added(rows)
    fits = plain.copy()
    for g in range(n_groups):
        of_group = rows.groups == g
        if of_group.sum() < _FEWEST_PILOTS:
            continue
        logs, relative = regressors[of_group], exact[of_group] @ np.abs(gradient)
        fits[1, g] = _fitted(logs, np.log(relative + TINY))
        fits[2, g, [0, 2, 3, 4, 5]] = _fitted(logs[:, [0, 2, 3, 4, 5]], np.log(relative + TINY))
        fits[2, g, 1] = 0.0
        expected = _exp_of_fit(logs, fits[1, g : g + 1])
        features = np.column_stack([approximate[of_group], expected, rows.weights[of_group]])
        residuals = _residuals(features, exact[of_group] @ gradient, 1 / np.maximum(relative, TINY))
        fits[0, g] = _fitted(logs, np.log(np.abs(residuals) + _RESOLVED * relative + TINY))
    parts = np.stack([*(_exp_of_fit(regressors, fit[rows.groups]) for fit in fits), rows.weights])
    means = np.stack([parts @ (share * (rows.groups == g)) for g in range(n_groups)], axis=1)
    # What is added and left is measured in the divergence's units, alike in all groups; weights are not.
    means[:3] = means[:3].sum(axis=1, keepdims=True)
    means[3] *= n_groups
    factors = _PARTS[:, None] * sum(source.sizes) / np.maximum(means, TINY)
    return Model(measure, low_rank, gradient, fits, factors)


# Rows of a group on which six coefficients are fitted at least: of fewer, approximate masses are taken as they are.
_FEWEST_PILOTS = 20
# Regressors that deviate less are constant but for rounding: dividing by their deviation would make noise of them.
_CONSTANT = 1e-12
# The ridge on standardised slopes, as a share of the rows: a twentieth of their weight. Without one, slopes of nearly
# dependent regressors would follow the noise of a few dozen rows; a larger one would flatten what they tell.
_RIDGE = 0.05


def _fitted(regressors: FloatArray, values: FloatArray) -> FloatArray:
    """Return coefficients of a regression, the slopes pulled towards 0 by what one row in twenty would weigh."""
    centre, deviation = regressors.mean(axis=0), regressors.std(axis=0)
    units = np.where(deviation > _CONSTANT, deviation, 1.0)
    z = (regressors - centre) / units
    z[:, 0] = 1.0  # the intercept, which is not pulled
    penalty = np.diag([0.0, *[_RIDGE] * (z.shape[1] - 1)]) * len(z)
    coefficients = np.linalg.solve(z.T @ z + penalty, z.T @ values)
    slopes = coefficients / units
    slopes[0] = coefficients[0] - slopes[1:] @ centre[1:]
    return np.asarray(slopes)


def _residuals(features: FloatArray, values: FloatArray, roots: FloatArray) -> FloatArray:
    """Return what a weighted regression leaves, each as if its own row had had no part in it."""
    coefficients, leverage = weighted_regression(features, values[:, None], roots)
    return np.asarray((values - features @ coefficients[:, 0]) / (1 - leverage))


# Directions of the features below this part of the longest are rounding errors of columns that depend on one another.
_SINGULAR = 1e-9
# Residuals are divided by one less the leverage: by a tenth at least, so that no row has a residual without bound.
_MOST_LEVERAGE = 0.9


def weighted_regression(features: FloatArray, values: FloatArray, roots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of a ridge regression weighted by squares of `roots`, and each row's leverage (0.9 at most).

    The penalty is the share of the values that a regression without one leaves unexplained, over the rows: directions
    in which features hardly differ count if they explain what nothing else does, and not if they follow the noise.
    """
    weighted, responses = features * roots[:, None], values * roots[:, None]
    norms = np.sqrt((weighted**2).sum(axis=0))
    norms[norms == 0] = 1.0
    u, s, vt = linalg.svd(weighted / norms, full_matrices=False)
    is_resolved = s > _SINGULAR * max(s.max(initial=0.0), TINY)
    u, s, vt = u[:, is_resolved], s[is_resolved], vt[is_resolved]
    explained, squares = u.T @ responses, (responses**2).sum(axis=0)
    unexplained = np.maximum(squares - (explained**2).sum(axis=0), 0.0) / np.maximum(squares, TINY)
    penalty = unexplained * len(s) / max(1, len(values) - len(s))
    coefficients = (vt.T * s) @ (explained / (s[:, None] ** 2 + penalty)) / norms[:, None]
    return coefficients, np.minimum((u**2).sum(axis=1), _MOST_LEVERAGE)
