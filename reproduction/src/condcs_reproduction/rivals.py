"""Other tests of p(y|x) = q(y|x) and of conditional independence, re-stated in a page each.

All have one signature, ``rival(a, b, given, rng)``, and return the p-value of the hypothesis that a and b are
independent given the third. Two samples become that question when they are pooled: a holds the responses, b says which
sample a row comes from (0 or 1), given holds the inputs, and row i of each belongs together. Columns are numbers;
labels come as indicators. GCM and PCM share one regression, PCM and the classifier one kind of boosted trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist, pdist
from scipy.stats import chi2, gamma, norm, rankdata

from condcs._core.arrays import BoolArray, FloatArray, IntArray

Rival = Callable[[FloatArray, FloatArray, FloatArray, np.random.Generator], float]

_CENTRES = 300
_LEAST = 1e-12


def gcm(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """Generalised covariance measure (Shah, Peters 2020) on ranks: products of residuals have mean 0.

    On ranks, so that heavy tails do not matter; indicators are the same on ranks. Several columns are taken together by
    the quadratic form of their products, which is chi-squared.
    """
    left, right = rankdata(a, axis=0), rankdata(b, axis=0)
    residuals = regression(_with_chance(given, b), np.hstack([left, right])).residuals
    products = np.einsum("ni,nj->nij", residuals[:, : left.shape[1]], residuals[:, left.shape[1] :])
    products = products.reshape(len(a), -1)
    spread = np.atleast_2d(np.cov(products.T))
    rank = np.linalg.matrix_rank(spread, hermitian=True)
    mean = products.mean(axis=0)
    return float(chi2.sf(len(a) * mean @ np.linalg.pinv(spread, hermitian=True) @ mean, rank))


def pcm(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """Projected covariance measure (Lundborg, Kim, Shah, Samworth 2024), for b of 0 and 1.

    One half of the rows finds the direction, what a says about b beyond `given`; on the other half its residual is
    multiplied with that of b. One-sided normal. The constant that is added to the weights is left out: it is 0 where
    squared residuals on the first half are no larger than their estimate, as those of a fitted classifier are.
    """
    first, second = _halves(len(a), b, rng)
    given = _with_chance(given, b)
    both = np.hstack([a, given])
    model = _boosted().fit(both[first], b[first, 0])
    chance = model.predict_proba(both[first])[:, 1]
    back = regression(given[first], chance[:, None]).predict
    direction = chance - back(given[first])[:, 0]
    sign = 1.0 if np.mean((b[first, 0] - chance + direction) * direction) >= 0 else -1.0
    later = model.predict_proba(both[second])[:, 1]
    weighted = sign * (later - back(given[second])[:, 0]) / np.maximum(later * (1 - later), 0.01)
    product = np.prod(regression(given[second], np.column_stack([weighted, b[second, 0]])).residuals, axis=1)
    return float(norm.sf(np.sqrt(len(product)) * product.mean() / max(product.std(ddof=1), _LEAST)))


def conformal_rank_sum(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """CP (Hu, Lei 2024): a weighted rank sum of estimated ratios of conditional densities, for b of 0 and 1.

    Logistic regressions on one half of the rows give q(x)/p(x), which weights the first sample, and q(y|x)/p(y|x),
    whose ranks are compared on the other half. One-sided normal, with the variance of the two projections.
    """
    first, second = _halves(len(a), b, rng)
    both = np.hstack([a, given])
    group = b[second, 0] == 1
    inputs = _logistic(given[first], b[first, 0])(given[second])
    ratio = _logistic(both[first], b[first, 0])(both[second]) - inputs
    weights = np.exp(inputs[~group])
    weights = weights / weights.mean()
    # A tie counts one half: in place of the random numbers that break ties in the paper.
    below = np.sign(ratio[group][None, :] - ratio[~group][:, None]) / 2 + 0.5
    mean = np.mean(weights[:, None] * below)
    by_first = weights * (below.mean(axis=1) - mean)
    by_second = np.mean(weights[:, None] * below, axis=0)
    variance = by_first.var(ddof=1) / len(by_first) + by_second.var(ddof=1) / len(by_second)
    return float(norm.sf((mean - 0.5) / np.sqrt(max(variance, _LEAST))))


def rcit(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """Randomised conditional independence test (Strobl, Zhang, Visweswaran 2019), its settings.

    5 random Fourier features of (a, given) and of b, minus their regressions on 100 of `given`; the squared norm of
    their covariance is a weighted sum of chi-squared variables. Below 400 rows a feature for every fourth row: 100
    features of 100 rows would explain everything.
    """
    count = min(100, len(a) // 4)
    left, right, z = standardised(a), standardised(b), standardised(given)
    left = _fourier(np.hstack([left, z]), 5, rng)
    right = _fourier(right, 5, rng)
    features = _fourier(z, count, rng)
    both = np.hstack([left, right])
    both = both - features @ np.linalg.solve(features.T @ features + 1e-8 * len(a) * np.eye(count), features.T @ both)
    products = np.einsum("ni,nj->nij", both[:, :5], both[:, 5:]).reshape(len(a), -1)
    statistic = len(a) * np.sum(products.mean(axis=0) ** 2)
    return weighted_chi2_sf(statistic, np.linalg.eigvalsh(products.T @ products / len(a)))


def kci(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """Kernel conditional independence test (Zhang, Peters, Janzing, Schölkopf 2011), its bandwidths and ridge.

    The trace of the product of two Gram matrices that were residualised on `given`; a gamma distribution with the mean
    and the variance of the weighted sum of chi-squared variables, whose weights are the eigenvalues of their entrywise
    product.
    """
    n = len(a)
    z = standardised(given)
    width = (1.2 if n < 200 else 0.7 if n < 1200 else 0.4) * np.sqrt(z.shape[1])

    def gram(values: FloatArray) -> FloatArray:
        K = np.exp(-0.5 * cdist(values, values, "sqeuclidean") / width**2)
        K = K - K.mean(axis=0)
        return np.asarray(K - K.mean(axis=1, keepdims=True))

    R = 1e-3 * np.linalg.inv(gram(z) + 1e-3 * np.eye(n))
    K = R @ gram(np.hstack([standardised(b), z / 2])) @ R
    L = R @ gram(standardised(a)) @ R
    product = K * L
    mean, variance = np.trace(product), 2 * np.sum(product**2)
    return float(gamma.sf(product.sum(), mean**2 / variance, scale=variance / mean))


def context_mmd(
    a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator, n_resamples: int = 59
) -> float:
    """Context-aware MMD (Cobb, Van Looveren 2022), re-stated, for b of 0 and 1.

    Mean embeddings of a given its context, from either sample, are compared at contexts of the second sample that were
    held out; samples are redrawn from a calibrated support-vector classifier. Ridges by leave-one-out.
    """
    group = b[:, 0] == 1
    held = rng.permutation(np.flatnonzero(group))[: int(0.25 * group.sum())]
    kept = np.setdiff1d(np.arange(len(a)), held)
    z, y, group = standardised(given), standardised(a)[kept], group[kept]
    # In alibi-detect: half of the median squared distance.
    K_z = np.exp(-cdist(z, z[kept], "sqeuclidean") / np.median(pdist(z[kept], "sqeuclidean")))
    spread = np.median(pdist(y, "sqeuclidean"))
    K_y = np.exp(-cdist(y, y, "sqeuclidean") / (spread if spread > 0 else 1.0))
    K_held, K_z = K_z[held], K_z[kept]
    ridges = [_embedding_ridge(K_z[np.ix_(g, g)], K_y[np.ix_(g, g)]) for g in (~group, group)]

    def statistic(labels: BoolArray) -> float:
        weights = np.zeros_like(K_held)
        for sign, ridge, rows in ((1, ridges[0], ~labels), (-1, ridges[1], labels)):
            block = K_z[np.ix_(rows, rows)] + rows.sum() * ridge * np.eye(rows.sum())
            weights[:, rows] = sign * cho_solve(cho_factor(block), K_held[:, rows].T).T
        return float(np.sum((weights @ K_y) * weights) / len(held))

    chance = _calibrated(K_z, group)
    observed = statistic(group)
    redrawn = [statistic(rng.uniform(size=len(kept)) < chance) for _ in range(n_resamples)]
    return (1 + sum(value >= observed for value in redrawn)) / (1 + n_resamples)


def boosted_classifier(a: FloatArray, b: FloatArray, given: FloatArray, rng: np.random.Generator) -> float:
    """Whether boosted trees predict b (0 or 1) better from (a, given) than from `given` alone.

    Differences of the logarithmic loss of five-fold predictions, row by row; their mean is compared with its standard
    error, one-sided.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    folds = StratifiedKFold(5, shuffle=True, random_state=int(rng.integers(2**31)))
    loss = []
    for columns in (given, np.hstack([a, given])):
        # Trees of some hundred rows on several threads wait for one another, for minutes where other work goes on.
        with threadpool_limits(1):
            chance = cross_val_predict(_boosted(), columns, b[:, 0], cv=folds, method="predict_proba")[:, 1]
        loss.append(-np.log(np.where(b[:, 0] == 1, chance, 1 - chance).clip(1e-3)))
    gain = loss[0] - loss[1]
    return float(norm.sf(np.sqrt(len(gain)) * gain.mean() / max(gain.std(ddof=1), _LEAST)))


RIVALS: dict[str, Rival] = {
    "GCM on ranks": gcm,
    "PCM": pcm,
    "CP": conformal_rank_sum,
    "RCIT": rcit,
    "KCI": kci,
    "ContextMMD": context_mmd,
    "boosted classifier": boosted_classifier,
}
"""For two samples; those without a condition on b are tests of conditional independence for numbers as well."""


@dataclass(frozen=True)
class Regression:
    """A fit: what it predicts for new rows, and what it leaves of each of its own rows when fitted without that row."""

    predict: Callable[[FloatArray], FloatArray]
    residuals: FloatArray


def regression(x: FloatArray, y: FloatArray) -> Regression:
    """Fit each column of y by a linear function of x plus Gaussian bumps with a ridge.

    Width and ridge of each column are those of the smallest leave-one-out error, in closed form. At most 300 bumps.
    """
    middle, scale = x.mean(axis=0), _spread(x)
    x = (x - middle) / scale
    centres = x[:: -(-len(x) // _CENTRES)]
    distance = np.sqrt(np.median(pdist(centres, "sqeuclidean"))) or 1.0
    base = np.hstack([np.ones((len(x), 1)), x])
    back = np.linalg.pinv(base)
    linear = back @ y
    left = y - base @ linear
    leverage = np.sum(base * back.T, axis=1)
    residuals = left / (1 - leverage).clip(1e-3)[:, None]
    widths, coefficients = np.ones(y.shape[1]), np.zeros((len(centres), y.shape[1]))
    for width in distance * np.array([0.3, 0.6, 1.2]):
        bumps = _bumps(x, centres, width)
        bumps = bumps - base @ (back @ bumps)
        values, vectors = np.linalg.eigh(bumps.T @ bumps)
        turned = bumps @ vectors
        for ridge in 10.0 ** np.arange(-4, 3.0):
            shrunk = turned / (values.clip(0) + ridge)
            errors = (left - shrunk @ (turned.T @ left)) / (1 - leverage - np.sum(shrunk * turned, axis=1))[:, None]
            better = np.sum(errors**2, axis=0) < np.sum(residuals**2, axis=0)
            residuals[:, better], widths[better] = errors[:, better], width
            coefficients[:, better] = vectors @ (shrunk.T @ left[:, better])

    def predict(new: FloatArray) -> FloatArray:
        new = (new - middle) / scale
        rows = np.hstack([np.ones((len(new), 1)), new])
        found = rows @ linear
        for width in np.unique(widths):
            chosen = widths == width
            bumps = _bumps(new, centres, width) - rows @ (back @ _bumps(x, centres, width))
            found[:, chosen] += bumps @ coefficients[:, chosen]
        return np.asarray(found)

    return Regression(predict, residuals)


def weighted_chi2_sf(value: float, weights: FloatArray) -> float:
    """Probability that a weighted sum of chi-squared variables exceeds a value (Hall, Buckley, Eagleson).

    By a chi-squared variable with the same first three cumulants; exact for equal weights.
    """
    mean, variance, third = np.sum(weights), 2 * np.sum(weights**2), 8 * np.sum(weights**3)
    freedom = 8 * variance**3 / third**2
    return float(chi2.sf((value - mean) / np.sqrt(variance) * np.sqrt(2 * freedom) + freedom, freedom))


def standardised(values: FloatArray) -> FloatArray:
    """Give every column mean 0 and variance 1 (n - 1 in the denominator); constant ones become 0."""
    return np.asarray((values - values.mean(axis=0)) / _spread(values))


def indicators(values: FloatArray, labels: tuple[bool, ...]) -> FloatArray:
    """Replace columns of labels by one column of 0 and 1 per label; of two labels one is enough."""
    columns = []
    for column, is_label in zip(values.T, labels, strict=True):
        if is_label:
            found = np.unique(column)
            columns.append((column[:, None] == found[1 if len(found) == 2 else 0 :]) * 1.0)
        else:
            columns.append(column[:, None])
    return np.hstack(columns)


def _spread(values: FloatArray) -> FloatArray:
    spread = values.std(axis=0, ddof=1)
    return np.asarray(np.where(spread > 0, spread, 1.0))


def _bumps(x: FloatArray, centres: FloatArray, width: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * cdist(x, centres, "sqeuclidean") / width**2))


def _fourier(values: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Random Fourier features of a Gaussian kernel with the median bandwidth of at most 500 rows; standardised."""
    # Spread over all rows: the first ones are of one sample.
    distances = pdist(values[:: -(-len(values) // 500)])
    width = np.median(distances[distances > 0])
    angles = values @ rng.normal(size=(values.shape[1], count)) / width
    return standardised(np.sqrt(2) * np.cos(angles + rng.uniform(0, 2 * np.pi, size=count)))


def _halves(n: int, b: FloatArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Split the rows into halves, each sample by itself."""
    order = rng.permutation(n)
    order = order[np.argsort(b[order, 0], kind="stable")]
    return order[::2], order[1::2]


def _boosted() -> Any:
    """Make a classifier of boosted trees, small ones: larger ones had less power."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=4, min_samples_leaf=10, early_stopping=False)


def _logistic(x: FloatArray, label: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Logistic regression; returns log-odds, for equally large samples."""
    from sklearn.linear_model import LogisticRegression

    middle, scale = x.mean(axis=0), _spread(x)
    model = LogisticRegression(C=10.0, max_iter=1000).fit((x - middle) / scale, label)
    offset = np.log(label.mean() / (1 - label.mean()))
    return lambda new: np.asarray(model.decision_function((new - middle) / scale) - offset).clip(-4.6, 4.6)


def _with_chance(given: FloatArray, b: FloatArray) -> FloatArray:
    """Add the chance of b by logistic regression, if it is 0 or 1: bumps with a ridge follow a steep curve badly."""
    if not np.isin(b, (0, 1)).all() or b.shape[1] > 1:
        return given
    return np.hstack([given, 1 / (1 + np.exp(-_logistic(given, b[:, 0])(given)))[:, None]])


def _calibrated(K: FloatArray, group: BoolArray) -> FloatArray:
    """Probabilities of a support-vector classifier with a given Gram matrix, by Platt's logistic curve."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    score = SVC(kernel="precomputed").fit(K, group).decision_function(K)[:, None]
    return np.asarray(LogisticRegression().fit(score, group).predict_proba(score)[:, 1])


def _embedding_ridge(K: FloatArray, L: FloatArray) -> float:
    """Ridge of a conditional mean embedding (K on contexts, L on responses) with the least leave-one-out error."""
    values, vectors = np.linalg.eigh(K)
    losses = {}
    for ridge in 4.0 ** -np.arange(10):
        rest = vectors * (len(K) * ridge / (values.clip(0) + len(K) * ridge)) @ vectors.T
        losses[ridge] = np.mean(np.sum((rest @ L) * rest, axis=1) / np.diag(rest) ** 2)
    return float(min(losses, key=lambda ridge: losses[ridge]))
