"""Scenarios in which tests of p(y|x) = q(y|x), and of independence given z, must keep their level or show their power.

All of them were written down, each with what is expected of it, before any of them was run (but for those of the kind
"skewed", which are there because an earlier version had failed in others like them). A *null* changes how x is
distributed and leaves p(y|x) alone; an *alternative* changes p(y|x) as well. Scenarios of one kind (what the columns
are, and how x changes) belong together: a test that breaks its level in a null is no rival in the alternatives of its
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray

Inputs = Callable[[np.random.Generator, int, bool], FloatArray]
"""``inputs(rng, n, second)``: n rows of x, of the first or of the second sample."""

Response = Callable[[np.random.Generator, FloatArray, bool], FloatArray]
"""``response(rng, x, second)``: y at these x; in a null it must not look at `second`."""

HIGHEST_LEVEL = 0.08
"""What is expected of the default test in every null: at most so many rejections at level 0.05."""


@dataclass(frozen=True)
class Pair:
    """Two samples: columns that are labels hold codes 0, 1, ...; the others are numbers."""

    xp: FloatArray
    yp: FloatArray
    xq: FloatArray
    yq: FloatArray
    x_labels: tuple[bool, ...]
    y_labels: tuple[bool, ...]


@dataclass(frozen=True)
class Scenario:
    """A pair of samples to be drawn again and again.

    Attributes
    ----------
    name, about, expected : str
        A name, what it is, and what was expected before the first run.
    kind : str
        What the columns are: "numeric", "skewed" (inputs), "label" (the response), "mixed" (inputs) or "several"
        (responses); and how x changes: "columns" (each by itself), "joint" (how columns go together, or waves) or "far"
        (little overlap).
    inputs, response : callable
        How x and y are drawn.
    rows : tuple of int
        Of the two samples.
    power : float, optional
        In an alternative: the power expected of the default test, at least. None in a null.
    label_x, label_y : sequence of int
        Columns of x and of y that are labels.
    """

    name: str
    about: str
    expected: str
    kind: str
    inputs: Inputs
    response: Response
    rows: tuple[int, int] = (200, 200)
    power: float | None = None
    label_x: Sequence[int] = ()
    label_y: Sequence[int] = ()

    def draw(self, rng: np.random.Generator, rows: tuple[int, int] | None = None) -> Pair:
        """Draw both samples, with other numbers of rows if given."""
        samples = []
        for second, n in enumerate(rows or self.rows):
            x = self.inputs(rng, n, bool(second))
            y = self.response(rng, x, bool(second))
            samples += [x, y if y.ndim == 2 else y[:, None]]
        xp, yp, xq, yq = samples
        flags = [
            tuple(j in chosen for j in range(v.shape[1])) for v, chosen in ((xp, self.label_x), (yp, self.label_y))
        ]
        return Pair(xp, yp, xq, yq, flags[0], flags[1])


def normal(d: int, shift: float | Sequence[float] = 0.0, *, scale: float = 1.0) -> Inputs:
    """Draw standard normal columns; in the second sample moved by `shift` and stretched by `scale`."""

    def draw(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
        x = rng.normal(size=(n, d))
        return np.asarray(shift) + scale * x if second else x

    return draw


def equicorrelated(d: int, first: float, then: float) -> Inputs:
    """Draw standard normal columns whose correlation changes while each column stays as it is."""

    def draw(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
        correlation = then if second else first
        factor = np.linalg.cholesky((1 - correlation) * np.eye(d) + correlation)
        return rng.normal(size=(n, d)) @ factor.T

    return draw


def clusters(centres: Sequence[Sequence[float]], first: Sequence[float], then: Sequence[float]) -> Inputs:
    """Draw round clusters of unit variance whose weights change."""

    def draw(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
        middle = np.asarray(centres, dtype=float)
        which = rng.choice(len(middle), size=n, p=then if second else first)
        return middle[which] + rng.normal(size=(n, middle.shape[1]))

    return draw


def wavy(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
    """Draw from the density 1 + .9 sin(6 pi x) on (0, 1), in the second sample 1 - .9 sin(6 pi x); by rejection."""
    sign = -0.9 if second else 0.9
    found: list[float] = []
    while len(found) < n:
        x, height = rng.uniform(size=(2, 4 * n))
        found += x[1.9 * height <= 1 + sign * np.sin(6 * np.pi * x)].tolist()
    return np.asarray(found[:n])[:, None]


def uniform(first: tuple[float, float], then: tuple[float, float]) -> Inputs:
    """Draw from a uniform distribution on an interval, and on another one."""
    return lambda rng, n, second: rng.uniform(*(then if second else first), size=(n, 1))


def student(d: int, freedom: float, shift: float) -> Inputs:
    """Draw columns of a t distribution, moved."""
    return lambda rng, n, second: rng.standard_t(freedom, size=(n, d)) + shift * second


def lognormal(d: int, shift: float) -> Inputs:
    """Draw exponentials of normal columns, moved on the log scale."""
    return lambda rng, n, second: np.exp(rng.normal(size=(n, d)) + shift * second)


def lognormal_chain(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
    """Draw exponentials of three normal columns; then the first moves, and the second follows it."""
    logs = rng.normal(size=(n, 3))
    logs[:, 1] += 0.8 * second * logs[:, 0]
    logs[:, 0] += 0.5 * second
    return np.exp(1.2 * logs)


def one_heavy_column(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
    """Draw a column with very heavy tails and two normal ones; then it follows the second."""
    x = rng.normal(size=(n, 3))
    x[:, 0] = np.sinh(2 * (x[:, 0] + 0.6 * second * x[:, 1]))
    return x


def category_and_number(shifts: Sequence[float]) -> Inputs:
    """Draw equally frequent categories and a normal number, which moves by another amount in each category."""

    def draw(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
        which = rng.integers(len(shifts), size=n)
        return np.column_stack([which, rng.normal(size=n) + np.asarray(shifts)[which] * second])

    return draw


def two_categories(rng: np.random.Generator, n: int, second: bool) -> FloatArray:
    """Draw three and three categories, alone as frequent in both samples; which go together changes."""
    which = rng.integers(3, size=n)
    other = np.where(rng.uniform(size=n) < 0.5, (which + second) % 3, rng.integers(3, size=n))
    return np.column_stack([which, other]).astype(float)


def flip(rng: np.random.Generator, logit: FloatArray) -> FloatArray:
    """Draw labels 0 and 1."""
    return np.asarray(rng.uniform(size=len(logit)) < 1 / (1 + np.exp(-logit)), dtype=float)


def choose(rng: np.random.Generator, scores: FloatArray) -> FloatArray:
    """Draw labels with probabilities proportional to exp(scores): the largest of the scores plus Gumbel noise."""
    return np.asarray(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1), dtype=float)


def bimodal(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw noise with two modes, mean 0 and variance 1."""
    return np.asarray(0.9 * rng.choice([-1.0, 1.0], size=n) + np.sqrt(1 - 0.81) * rng.normal(size=n))


def correlated(rng: np.random.Generator, n: int, d: int, correlation: float) -> FloatArray:
    """Draw normal noise whose columns are correlated."""
    return equicorrelated(d, correlation, correlation)(rng, n, False)


SLOPES = np.array([1.0, -1.0, 0.5, 0.0])
"""Slope of y in each of four categories."""

CATEGORY_SHIFTS = (0.8, -0.8, 0.8, -0.8)

FAR = (1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""A shift by 2 standard deviations, in ten columns."""

CELLS = np.array([[0.0, 1.0, -1.0], [1.0, -1.0, 0.0], [-1.0, 0.0, 1.0]])
"""Mean of y for each pair of categories: an interaction without main effects."""


def _additive(x: FloatArray) -> FloatArray:
    return np.asarray(np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * x[:, 2] ** 2)


def _product(rng: np.random.Generator, x: FloatArray, second: bool) -> FloatArray:
    return np.asarray(x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=len(x)))


def _product_of_logs(rng: np.random.Generator, x: FloatArray, second: bool) -> FloatArray:
    return np.asarray(np.log(x[:, 0]) * np.log(x[:, 1]) / 1.44 + 0.5 * rng.normal(size=len(x)))


def _sum(rng: np.random.Generator, x: FloatArray, second: bool) -> FloatArray:
    return np.asarray(x.sum(axis=1) + rng.normal(size=len(x)))


def _cell_means(x: FloatArray) -> FloatArray:
    return np.asarray(CELLS[x[:, 0].astype(int), x[:, 1].astype(int)])


def _slope_by_category(x: FloatArray) -> FloatArray:
    return np.asarray(SLOPES[x[:, 0].astype(int)] * x[:, 1])


_ADDITIVE_BREAKS = "Labels redrawn from an additive propensity reject nearly always, the paper's permutation always."
_EASY = "An easy null: all but the paper's permutation keep the level."

NULLS: tuple[Scenario, ...] = (
    Scenario(
        "correlation, product",
        "d 2, correlation of x from -.4 to .4; y follows the product.",
        _ADDITIVE_BREAKS,
        "numeric, joint",
        equicorrelated(2, -0.4, 0.4),
        _product,
    ),
    Scenario(
        "correlation, product, 50 + 50",
        "The same with 50 + 50 rows.",
        "The adjustment of y is rough with few rows, but so is the power to see what it leaves.",
        "numeric, joint",
        equicorrelated(2, -0.4, 0.4),
        _product,
        rows=(50, 50),
    ),
    Scenario(
        "correlation, product, 1000 + 1000",
        "The same with 1000 + 1000 rows.",
        "What either line of defence leaves open shows here: many rows see a small error.",
        "numeric, joint",
        equicorrelated(2, -0.4, 0.4),
        _product,
        rows=(1000, 1000),
    ),
    Scenario(
        "common factor, sum",
        "d 5, correlations from 0 to .6; y is the sum of x plus noise.",
        _ADDITIVE_BREAKS,
        "numeric, joint",
        equicorrelated(5, 0.0, 0.6),
        _sum,
    ),
    Scenario(
        "common factor, squared sum",
        "d 5, correlations from 0 to .6; y follows the square of the sum.",
        _ADDITIVE_BREAKS + " p(y) moves a lot.",
        "numeric, joint",
        equicorrelated(5, 0.0, 0.6),
        lambda rng, x, second: x.sum(axis=1) ** 2 / 5 + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "common factor, 50 + 500",
        "d 5, correlations from 0 to .6; y is the sum of x plus noise; 50 and 500 rows.",
        "The small sample decides how well the propensity can be fitted.",
        "numeric, joint",
        equicorrelated(5, 0.0, 0.6),
        _sum,
        rows=(50, 500),
    ),
    Scenario(
        "common factor, d 20",
        "d 20, correlations from 0 to .3; y is the mean of x times the root of d, plus noise.",
        "190 products do not fit a propensity on 400 rows: the adjustment of y must carry the level.",
        "numeric, joint",
        equicorrelated(20, 0.0, 0.3),
        lambda rng, x, second: x.sum(axis=1) / np.sqrt(20) + rng.normal(size=len(x)),
    ),
    Scenario(
        "four clusters",
        "d 2, clusters in the corners of a square; the weights of the diagonals are exchanged. y follows the product.",
        _ADDITIVE_BREAKS,
        "numeric, joint",
        clusters([[-2, -2], [2, 2], [-2, 2], [2, -2]], [0.4, 0.4, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]),
        lambda rng, x, second: x[:, 0] * x[:, 1] / 2 + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "three clusters, d 5",
        "d 5, three clusters whose weights change; y is a smooth function of three columns.",
        "Weights of clusters are log-odds that are smooth but not additive.",
        "numeric, joint",
        clusters([[0] * 5, [2, 2, 0, 0, 0], [0, 0, 2, 2, 0]], [0.6, 0.2, 0.2], [0.2, 0.2, 0.6]),
        lambda rng, x, second: _additive(x) + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "wavy density",
        "d 1, density 1 + .9 sin(6 pi x) to 1 - .9 sin(6 pi x) on (0, 1); y follows the same wave.",
        "Splines with few knots miss three waves; methods that regress with a wide kernel do as well.",
        "numeric, joint",
        wavy,
        lambda rng, x, second: np.sin(6 * np.pi * x[:, 0]) + 0.3 * rng.normal(size=len(x)),
    ),
    Scenario(
        "correlation, spread",
        "d 2, correlation from -.5 to .5; the product sets the spread of y, whose mean is constant.",
        "Taking the mean off y does not help: the propensity, or the fitted spread, must.",
        "numeric, joint",
        equicorrelated(2, -0.5, 0.5),
        lambda rng, x, second: np.exp(0.5 * x[:, 0] * x[:, 1]) * rng.normal(size=len(x)),
    ),
    Scenario(
        "no shift",
        "d 3, x the same in both samples of 50; y is a smooth function.",
        "The easiest: every method keeps the level, the paper's permutation exactly.",
        "numeric, columns",
        normal(3),
        lambda rng, x, second: _additive(x) + 0.5 * rng.normal(size=len(x)),
        rows=(50, 50),
    ),
    Scenario(
        "mean, d 1",
        "d 1, x moves by .75 sd; y is a parabola plus noise.",
        _EASY,
        "numeric, columns",
        normal(1, 0.75),
        lambda rng, x, second: x[:, 0] + 0.5 * x[:, 0] ** 2 + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "mean, d 5",
        "d 5, all columns move by .5 sd; y is a smooth function.",
        _EASY,
        "numeric, columns",
        normal(5, 0.5),
        lambda rng, x, second: _additive(x) + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "mean, d 10, 50 + 500",
        "d 10, all columns move by .3 sd; y is a smooth function; 50 and 500 rows.",
        "Many columns and a small sample: a normal approximation may be off.",
        "numeric, columns",
        normal(10, 0.3),
        lambda rng, x, second: _additive(x) + 0.5 * rng.normal(size=len(x)),
        rows=(50, 500),
    ),
    Scenario(
        "mean, d 20",
        "d 20, all columns move by .2 sd; y is linear in three of them.",
        "Kernel regressions are poor at d 20; linear ones are right.",
        "numeric, columns",
        normal(20, 0.2),
        lambda rng, x, second: x[:, 0] + x[:, 1] - x[:, 2] + rng.normal(size=len(x)),
    ),
    Scenario(
        "scale",
        "d 1, sd of x from 1 to 2; y = sin 2x + x^2 / 2 plus noise.",
        "The tails of the wider sample have no counterpart; an adjustment that is biased there breaks the level.",
        "numeric, columns",
        normal(1, scale=2.0),
        lambda rng, x, second: np.sin(2 * x[:, 0]) + x[:, 0] ** 2 / 2 + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "scale, 1000 + 1000",
        "The same with 1000 + 1000 rows.",
        "More rows see a smaller bias of the adjustment.",
        "numeric, columns",
        normal(1, scale=2.0),
        lambda rng, x, second: np.sin(2 * x[:, 0]) + x[:, 0] ** 2 / 2 + 0.5 * rng.normal(size=len(x)),
        rows=(1000, 1000),
    ),
    Scenario(
        "heavy tails",
        "d 2, x from a t distribution with 3 degrees, moved by .5; y is linear with t(2) noise.",
        "Tests on values lose their normal limit, those on ranks do not.",
        "numeric, columns",
        student(2, 3, 0.5),
        lambda rng, x, second: x[:, 0] - x[:, 1] + rng.standard_t(2, size=len(x)),
    ),
    Scenario(
        "lognormal inputs",
        "d 2, lognormal x, moved by .5 on the log scale; the spread of y grows with x.",
        "Wide tails of x: a kernel of one width is too wide for most rows.",
        "numeric, columns",
        lognormal(2, 0.5),
        lambda rng, x, second: np.log(x[:, 0]) + 0.3 * x[:, 1] + 0.3 * np.sqrt(x[:, 1]) * rng.normal(size=len(x)),
    ),
    Scenario(
        "heteroscedastic",
        "d 1, x moves by .75 sd; the spread of y grows by a factor of e every two sd.",
        "A test of equal spread without regard to x would reject.",
        "numeric, columns",
        normal(1, 0.75),
        lambda rng, x, second: np.sin(2 * x[:, 0]) + 0.5 * np.exp(x[:, 0] / 2) * rng.normal(size=len(x)),
    ),
    Scenario(
        "partial overlap",
        "d 1, uniform on (0, 1) and on (.8, 1.8); y = sin 6x plus noise.",
        "A tenth of the rows can be compared; extrapolation of either fit may reject.",
        "numeric, far",
        uniform((0.0, 1.0), (0.8, 1.8)),
        lambda rng, x, second: np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=len(x)),
    ),
    Scenario(
        "far, d 10",
        "d 10, mean moves by (1, 1, -1, -1, 0, ...), which is 2 sd; y is linear in the columns that move.",
        "Held balance must not freeze the labels: a level of 0 is a failure as well.",
        "numeric, far",
        normal(10, FAR),
        lambda rng, x, second: x[:, 0] + x[:, 1] - x[:, 2] + x[:, 4] + rng.normal(size=len(x)),
    ),
    Scenario(
        "far, d 10, every column",
        "d 10, every column moves by 2 / sqrt 10 sd; y is a smooth function.",
        "As above, with a nonlinear y: regressions extrapolate.",
        "numeric, far",
        normal(10, 2 / np.sqrt(10)),
        lambda rng, x, second: _additive(x) + 0.5 * rng.normal(size=len(x)),
    ),
    Scenario(
        "binary response",
        "d 2, x moves by .75 sd; y is 0 or 1 by a logistic regression.",
        _EASY,
        "label, columns",
        normal(2, 0.75),
        lambda rng, x, second: flip(rng, x[:, 0] - x[:, 1]),
        label_y=(0,),
    ),
    Scenario(
        "binary response, 50 + 500",
        "d 5, x moves by .4 sd; y is 0 or 1 by a logistic regression; 50 and 500 rows.",
        "Few rows of a rare class in the small sample.",
        "label, columns",
        normal(5, 0.4),
        lambda rng, x, second: flip(rng, x[:, 0] - x[:, 1] - 1),
        label_y=(0,),
        rows=(50, 500),
    ),
    Scenario(
        "binary response, correlation",
        "d 2, correlation from -.5 to .5; the log-odds of y are twice the product.",
        _ADDITIVE_BREAKS,
        "label, joint",
        equicorrelated(2, -0.5, 0.5),
        lambda rng, x, second: flip(rng, 2 * x[:, 0] * x[:, 1]),
        label_y=(0,),
    ),
    Scenario(
        "three labels, common factor",
        "d 3, correlations from 0 to .6; y one of three labels, by products and the sum of x.",
        _ADDITIVE_BREAKS,
        "label, joint",
        equicorrelated(3, 0.0, 0.6),
        lambda rng, x, second: choose(rng, np.column_stack([np.zeros(len(x)), x.sum(axis=1), 1.5 * x[:, 0] * x[:, 1]])),
        label_y=(0,),
    ),
    Scenario(
        "category and number",
        "Four categories and a number; the shift of the number differs by category, and so does the slope of y.",
        "A propensity without category x number rejects in most samples.",
        "mixed, joint",
        category_and_number(CATEGORY_SHIFTS),
        lambda rng, x, second: _slope_by_category(x) + 0.5 * rng.normal(size=len(x)),
        label_x=(0,),
    ),
    Scenario(
        "two categories",
        "Two columns of three categories; which go together changes. y has a mean for each pair.",
        "A propensity without category x category rejects always.",
        "mixed, joint",
        two_categories,
        lambda rng, x, second: _cell_means(x) + 0.7 * rng.normal(size=len(x)),
        label_x=(0, 1),
    ),
    Scenario(
        "category and number, binary response",
        "Inputs as in category and number; y is 0 or 1, its slope differs by category.",
        "A propensity without category x number rejects; a binary y shows it less.",
        "mixed, joint",
        category_and_number(CATEGORY_SHIFTS),
        lambda rng, x, second: flip(rng, 2 * _slope_by_category(x)),
        label_x=(0,),
        label_y=(0,),
    ),
    Scenario(
        "three responses, correlation",
        "d 2, correlation from -.4 to .4; three responses with correlated noise, one of them the product.",
        _ADDITIVE_BREAKS,
        "several, joint",
        equicorrelated(2, -0.4, 0.4),
        lambda rng, x, second: (
            np.column_stack([x[:, 0] * x[:, 1], x[:, 0], x[:, 1] ** 2]) + 0.5 * correlated(rng, len(x), 3, 0.5)
        ),
    ),
    Scenario(
        "five responses",
        "d 5, all columns move by .5 sd; five responses, each a column and its neighbour, with correlated noise.",
        _EASY,
        "several, columns",
        normal(5, 0.5),
        lambda rng, x, second: x + 0.5 * np.roll(x, 1, axis=1) + correlated(rng, len(x), 5, 0.3),
    ),
    Scenario(
        "number and label as response",
        "d 2, x moves by .5 sd; y is a number and a label, both by x.",
        "Few rivals take both: labels enter them as indicators.",
        "several, columns",
        normal(2, 0.5),
        lambda rng, x, second: np.column_stack([x[:, 0] + rng.normal(size=len(x)), flip(rng, 2 * x[:, 1])]),
        label_y=(1,),
    ),
    Scenario(
        "lognormal inputs, product",
        "d 3, lognormal x; the logarithm of one column moves and comes to carry another; y is their product.",
        "In its own units nearly all of x lies in one place: regressions on it are blind there.",
        "skewed, joint",
        lognormal_chain,
        _product_of_logs,
    ),
    Scenario(
        "one heavy column",
        "d 3, a column with very heavy tails comes to follow a normal one; y is a product of its order and that one.",
        "As before, with one such column among others.",
        "skewed, joint",
        one_heavy_column,
        lambda rng, x, second: np.arcsinh(x[:, 0]) * x[:, 1] / 2 + x[:, 2] + 0.5 * rng.normal(size=len(x)),
    ),
)

ALTERNATIVES: tuple[Scenario, ...] = (
    Scenario(
        "shape",
        "d 1, x moves by .5; the noise of y from normal to bimodal with the same mean and variance.",
        "Only a kernel on what is left of y after x sees it.",
        "numeric, columns",
        normal(1, 0.5),
        lambda rng, x, second: x[:, 0] + (bimodal(rng, len(x)) if second else rng.normal(size=len(x))),
        power=0.80,
        rows=(150, 150),
    ),
    Scenario(
        "shape, d 5",
        "The same with five columns.",
        "As shape, weaker; products with x only add noise.",
        "numeric, columns",
        normal(5, 0.5),
        lambda rng, x, second: x.sum(axis=1) / 2 + (bimodal(rng, len(x)) if second else rng.normal(size=len(x))),
        power=0.65,
        rows=(150, 150),
    ),
    Scenario(
        "spread",
        "d 1, x moves by .5; sd of the noise from 1 to 1.45.",
        "A contrast of squared residuals is best.",
        "numeric, columns",
        normal(1, 0.5),
        lambda rng, x, second: x[:, 0] + (1.45 if second else 1.0) * rng.normal(size=len(x)),
        power=0.80,
        rows=(150, 150),
    ),
    Scenario(
        "bump",
        "d 1, x moves by .5; the mean of y rises by 1.2 where .5 < x < 1.2.",
        "Kernels on x see it, global contrasts hardly.",
        "numeric, columns",
        normal(1, 0.5),
        lambda rng, x, second: (
            np.sin(2 * x[:, 0]) + 1.2 * second * ((x[:, 0] > 0.5) & (x[:, 0] < 1.2)) + rng.normal(size=len(x))
        ),
        power=0.50,
        rows=(150, 150),
    ),
    Scenario(
        "small change, strong signal",
        "d 3, x moves by .5; a strong smooth signal, and its mean rises by .25 with noise of sd .5.",
        "Only after the signal has been subtracted.",
        "numeric, columns",
        normal(3, 0.5),
        lambda rng, x, second: 2 * _additive(x) + 0.25 * second + 0.5 * rng.normal(size=len(x)),
        power=0.60,
        rows=(150, 150),
    ),
    Scenario(
        "mean",
        "d 1, x moves by .5; the mean of y rises by .35.",
        "GCM is made for this and will be hard to beat.",
        "numeric, columns",
        normal(1, 0.5),
        lambda rng, x, second: x[:, 0] + 0.35 * second + rng.normal(size=len(x)),
        power=0.55,
        rows=(150, 150),
    ),
    Scenario(
        "mean, d 10",
        "d 10, all columns move by .2; the mean of y rises by .35.",
        "GCM on ranks is best or equal.",
        "numeric, columns",
        normal(10, 0.2),
        lambda rng, x, second: x[:, 0] + x[:, 1] + 0.35 * second + rng.normal(size=len(x)),
        power=0.60,
        rows=(150, 150),
    ),
    Scenario(
        "mean, 50 + 50",
        "d 2, x moves by .3; the mean of y rises by .7; 50 + 50 rows.",
        "Methods that split the rows lose.",
        "numeric, columns",
        normal(2, 0.3),
        lambda rng, x, second: x[:, 0] + 0.7 * second + rng.normal(size=len(x)),
        power=0.65,
        rows=(50, 50),
    ),
    Scenario(
        "mean, 50 + 500",
        "d 3, x moves by .4; the mean of y rises by .5; 50 and 500 rows.",
        "About as hard as 90 + 90 rows.",
        "numeric, columns",
        normal(3, 0.4),
        lambda rng, x, second: x[:, 0] - x[:, 1] + 0.5 * second + rng.normal(size=len(x)),
        power=0.65,
        rows=(50, 500),
    ),
    Scenario(
        "heavy tails, mean",
        "d 3, x from t(3), moved by .3; the mean of y, with t(2) noise, rises by .6.",
        "Ranks and bounded kernels see it, means do not.",
        "numeric, columns",
        student(3, 3, 0.3),
        lambda rng, x, second: x[:, 0] + 0.6 * second + rng.standard_t(2, size=len(x)),
        power=0.75,
    ),
    Scenario(
        "slope",
        "d 5, x moves by .5; the slope of one column from 1 to 1.5.",
        "A contrast with that column is best.",
        "numeric, columns",
        normal(5, 0.5),
        lambda rng, x, second: (1.5 if second else 1.0) * x[:, 0] + x[:, 1] + rng.normal(size=len(x)),
        power=0.60,
        rows=(150, 150),
    ),
    Scenario(
        "sign of a slope",
        "d 1, x moves by .5; the slope of y from .3 to -.3.",
        "Nearly all see it; GCM, which looks at the mean, does not.",
        "numeric, columns",
        normal(1, 0.5),
        lambda rng, x, second: (-0.3 if second else 0.3) * x[:, 0] + rng.normal(size=len(x)),
        power=0.85,
        rows=(150, 150),
    ),
    Scenario(
        "interaction",
        "d 5, x moves by .5; y gains .5 times the product of two columns.",
        "Hard for all; boosting looks for products and may lead.",
        "numeric, columns",
        normal(5, 0.5),
        lambda rng, x, second: x[:, 0] + x[:, 1] + 0.5 * second * x[:, 0] * x[:, 1] + rng.normal(size=len(x)),
        power=0.20,
        rows=(150, 150),
    ),
    Scenario(
        "interaction, 1000 + 1000",
        "d 5, x moves by .5; y gains .3 times the product of two columns; 1000 + 1000 rows.",
        "With many rows boosting and kernels find it.",
        "numeric, columns",
        normal(5, 0.5),
        lambda rng, x, second: x[:, 0] + x[:, 1] + 0.3 * second * x[:, 0] * x[:, 1] + rng.normal(size=len(x)),
        power=0.70,
        rows=(1000, 1000),
    ),
    Scenario(
        "spread that follows x",
        "d 2, x moves by .5; the spread of y grows with x1; its mean square stays as before.",
        "A contrast of squared residuals with x1 is best.",
        "numeric, columns",
        normal(2, 0.5),
        lambda rng, x, second: (
            x[:, 0] + (np.exp(0.4 * (x[:, 0] - 0.5) - 0.16) if second else np.ones(len(x))) * rng.normal(size=len(x))
        ),
        power=0.40,
    ),
    Scenario(
        "slope, d 20",
        "d 20, all columns move by .2; the slope of one column from .5 to 1.2.",
        "A contrast with that column against nineteen others; kernels on 20 columns are blind.",
        "numeric, columns",
        normal(20, 0.2),
        lambda rng, x, second: (1.2 if second else 0.5) * x[:, 0] + x[:, 1] + rng.normal(size=len(x)),
        power=0.50,
    ),
    Scenario(
        "mean, correlation shifts",
        "d 2, correlation from -.4 to .4; y follows the product and its mean rises by .2.",
        "Tests that keep their level there see it; the others reject whatever happens.",
        "numeric, joint",
        equicorrelated(2, -0.4, 0.4),
        lambda rng, x, second: _product(rng, x, second) + 0.2 * second,
        power=0.75,
    ),
    Scenario(
        "spread, common factor",
        "d 5, correlations from 0 to .6; y is the sum of x, the sd of its noise from 1 to 1.5.",
        "The squared residual after x; KCI next.",
        "numeric, joint",
        equicorrelated(5, 0.0, 0.6),
        lambda rng, x, second: x.sum(axis=1) + (1.5 if second else 1.0) * rng.normal(size=len(x)),
        power=0.75,
    ),
    Scenario(
        "far, mean",
        "d 10, mean of x moves by 2 sd; y is linear and rises by .6.",
        "Little overlap costs everyone; GCM on ranks leads.",
        "numeric, far",
        normal(10, FAR),
        lambda rng, x, second: x[:, 0] + x[:, 4] + 0.6 * second + rng.normal(size=len(x)),
        power=0.60,
    ),
    Scenario(
        "binary response, log-odds",
        "d 2, x moves by .5; the log-odds of y rise by .8.",
        "All see it.",
        "label, columns",
        normal(2, 0.5),
        lambda rng, x, second: flip(rng, x[:, 0] - x[:, 1] + 0.8 * second),
        power=0.70,
        label_y=(0,),
        rows=(150, 150),
    ),
    Scenario(
        "binary response, slope",
        "d 5, x moves by .5; the slope of the log-odds in the second column from 0 to 1.",
        "A contrast with that column is best.",
        "label, columns",
        normal(5, 0.5),
        lambda rng, x, second: flip(rng, x[:, 0] + 1.0 * second * x[:, 1]),
        power=0.45,
        label_y=(0,),
        rows=(150, 150),
    ),
    Scenario(
        "three labels",
        "d 2, x moves by .5; two of three labels exchange the columns that they follow.",
        "Kernels of x and of labels see it, means of labels do not.",
        "label, columns",
        normal(2, 0.5),
        lambda rng, x, second: choose(rng, np.column_stack([np.zeros(len(x)), x[:, [1, 0] if second else [0, 1]]])),
        power=0.60,
        label_y=(0,),
    ),
    Scenario(
        "slope in a category",
        "Inputs as in category and number; the slope of y changes by 1 in one of four categories.",
        "A quarter of the rows; tests that know categories see it.",
        "mixed, joint",
        category_and_number(CATEGORY_SHIFTS),
        lambda rng, x, second: (
            _slope_by_category(x) + 1.0 * second * (x[:, 0] == 3) * x[:, 1] + 0.7 * rng.normal(size=len(x))
        ),
        power=0.50,
        label_x=(0,),
    ),
    Scenario(
        "mean of one pair of categories",
        "Inputs as in two categories; the mean of y rises by 1 in one of nine pairs.",
        "Few rows; a kernel on pairs of labels sees it.",
        "mixed, joint",
        two_categories,
        lambda rng, x, second: (
            _cell_means(x) + 1.0 * second * ((x[:, 0] == 1) & (x[:, 1] == 1)) + 0.7 * rng.normal(size=len(x))
        ),
        power=0.45,
        label_x=(0, 1),
    ),
    Scenario(
        "correlation of responses",
        "d 2, x moves by .5; the noise of two responses becomes correlated, 0 to .5; each alone stays as it is.",
        "Only a test that takes the responses together sees it.",
        "several, columns",
        normal(2, 0.5),
        lambda rng, x, second: x + correlated(rng, len(x), 2, 0.5 if second else 0.0),
        power=0.50,
    ),
    Scenario(
        "mean of one of five responses",
        "d 5, x moves by .3; the mean of one of five responses rises by .5.",
        "Maxima over responses and GCM lead.",
        "several, columns",
        normal(5, 0.3),
        lambda rng, x, second: x + 0.5 * second * (np.arange(5) == 0) + rng.normal(size=x.shape),
        power=0.75,
    ),
    Scenario(
        "label follows the number",
        "d 2, x moves by .5; y is a number and a label, independent given x; then the label follows the noise.",
        "Each alone hardly changes: only a test that takes both together sees it.",
        "several, columns",
        normal(2, 0.5),
        lambda rng, x, second: _number_and_label(rng, x, 1.5 if second else 0.0),
        power=0.45,
        label_y=(1,),
    ),
    Scenario(
        "lognormal inputs, mean",
        "d 3, inputs as in the null of that name; the mean of y rises by .25.",
        "A contrast of residuals sees it, if the regression sees the product.",
        "skewed, joint",
        lognormal_chain,
        lambda rng, x, second: _product_of_logs(rng, x, second) + 0.25 * second,
        power=0.70,
    ),
)


def _number_and_label(rng: np.random.Generator, x: FloatArray, strength: float) -> FloatArray:
    noise = rng.normal(size=len(x))
    # A logistic curve of a sum with a normal variable is nearly one of a smaller slope: the label alone stays as it is.
    slope = np.sqrt(1 + (strength / 1.7) ** 2)
    return np.column_stack([x[:, 0] + noise, flip(rng, slope * x[:, 1] + strength * noise)])


Triple = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Dependence:
    """Variables x, y and z to be drawn again and again; whether x and y are independent given z is asked.

    `power` is None where they are, else the power expected of the default test, at least.
    """

    name: str
    about: str
    expected: str
    rows: int
    make: Callable[[np.random.Generator, int], Triple]
    power: float | None = None

    def draw(self, rng: np.random.Generator, rows: int | None = None) -> Triple:
        """Draw x, y and z, each with two axes; with another number of rows if given."""
        x, y, z = (v if v.ndim == 2 else v[:, None] for v in self.make(rng, rows or self.rows))
        return x, y, z


def given(d: int, make: Callable[[np.random.Generator, FloatArray], tuple[FloatArray, FloatArray]]) -> Any:
    """Draw normal z with d columns, and x and y made from them."""

    def draw(rng: np.random.Generator, n: int) -> Triple:
        z = rng.normal(size=(n, d))
        return (*make(rng, z), z)

    return draw


def both(signal: Callable[[FloatArray], FloatArray], effect: float = 0.0, noise: float = 1.0) -> Any:
    """Return x and y that both follow one function of z; y follows x as well if `effect` is not 0."""

    def make(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        ex, ey = noise * rng.normal(size=(2, len(z)))
        return signal(z) + ex, signal(z) + effect * ex + ey

    return make


def _curved(z: FloatArray) -> FloatArray:
    return np.asarray(z[:, 0] * z[:, 1] + z[:, 2] ** 2)


def _level_sum(z: FloatArray) -> FloatArray:
    return np.asarray(z.sum(axis=1) / np.sqrt(z.shape[1]))


def _xor(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    x, size = rng.normal(size=(2, len(z)))
    same = rng.uniform(size=len(z)) < 0.85
    return x, np.abs(size) * np.sign(x * z[:, 0]) * np.where(same, 1, -1)


def _shared_scale(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    ex, ey = rng.normal(size=(2, len(z))) * np.sqrt(2 / rng.chisquare(2, size=len(z)))
    return z[:, 0] + ex, z[:, 0] + ey


def _counts(effect: float) -> Any:
    def make(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = rng.binomial(3, 1 / (1 + np.exp(-z[:, 0]))).astype(float)
        return x, rng.poisson(np.exp(0.5 * z[:, 0] + effect * x)).astype(float)

    return make


def _heavy(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    ex, ey = rng.standard_t(2, size=(2, len(z)))
    return z[:, 0] + ex, z[:, 0] + ey


def _from_x(relation: Callable[[FloatArray, FloatArray], FloatArray], noise: float = 1.0) -> Any:
    def make(rng: np.random.Generator, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = z[:, 0] + rng.normal(size=len(z))
        return x, relation(x, z) + noise * rng.normal(size=len(z))

    return make


DEPENDENCES: tuple[Dependence, ...] = (
    Dependence(
        "curved, d 5",
        "x and y both z1 z2 + z3^2 plus noise; d_z 5.",
        "Neighbours in five columns are far apart: a local null and wide kernels reject.",
        200,
        given(5, both(_curved)),
    ),
    Dependence(
        "curved, d 5, 500 rows",
        "The same with 500 rows.",
        "Better regressions, more power to see what they leave.",
        500,
        given(5, both(_curved)),
    ),
    Dependence(
        "sum, d 10, 500 rows",
        "x and y both the sum of ten z plus noise.",
        "Linear: GCM with a linear part is right, neighbours are not.",
        500,
        given(10, both(_level_sum)),
    ),
    Dependence(
        "wave, d 1",
        "x and y both sin 3z plus noise; d_z 1.",
        "An easy null for kernels, not for linear regressions.",
        200,
        given(1, both(lambda z: np.sin(3 * z[:, 0]), noise=0.5)),
    ),
    Dependence(
        "heavy tails",
        "x and y both z plus t(2) noise; d_z 2.",
        "Ranks hold the level.",
        200,
        given(2, _heavy),
    ),
    Dependence(
        "counts",
        "x of four values and Poisson y, both by z; d_z 2.",
        "An easy null.",
        200,
        given(2, _counts(0.0)),
    ),
    Dependence(
        "XOR of signs",
        "The sign of y is that of x times that of z1 in 85 of 100 rows; d_z 2.",
        "Products of residuals see nothing; kernels that look at x, y and z together do.",
        200,
        given(2, _xor),
        power=0.60,
    ),
    Dependence(
        "shared scale",
        "x and y uncorrelated given z, with one t(2) scale; d_z 1.",
        "A dependence of tails: kernels and squared ranks see it, GCM does not.",
        200,
        given(1, _shared_scale),
        power=0.80,
    ),
    Dependence(
        "counts that depend",
        "x of four values, and Poisson y that follows it as well; d_z 2.",
        "GCM is good at this.",
        200,
        given(2, _counts(0.2)),
        power=0.65,
    ),
    Dependence(
        "linear, d 5",
        "y gains .25 times the part of x that five z leave.",
        "GCM is made for this.",
        200,
        given(5, both(_level_sum, effect=0.25)),
        power=0.80,
    ),
    Dependence(
        "linear, d 10",
        "The same with ten z.",
        "GCM is made for this.",
        200,
        given(10, both(_level_sum, effect=0.25)),
        power=0.75,
    ),
    Dependence(
        "monotone",
        "y = tanh(x) / 2 + z1 + noise; d_z 2.",
        "Ranks and GCM.",
        200,
        given(2, _from_x(lambda x, z: 0.5 * np.tanh(x) + z[:, 0])),
        power=0.80,
    ),
    Dependence(
        "interaction",
        "y = x z1 / 2 + noise; d_z 2.",
        "Kernels that look at x and z together.",
        200,
        given(2, _from_x(lambda x, z: 0.5 * (x - z[:, 0]) * z[:, 0])),
        power=0.75,
    ),
    Dependence(
        "periodic",
        "y = sin 4x + noise; d_z 2.",
        "Narrow kernels; GCM sees nothing.",
        200,
        given(2, _from_x(lambda x, z: np.sin(4 * x))),
        power=0.40,
    ),
    Dependence(
        "quadratic, d 5",
        "y = .3 (x - z1)^2 + noise; d_z 5.",
        "Kernels; GCM sees nothing.",
        200,
        given(5, _from_x(lambda x, z: 0.3 * (x - z[:, 0]) ** 2)),
        power=0.45,
    ),
)
