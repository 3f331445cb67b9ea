"""Simulators whose answer is known: two samples that differ on an interval, and series with a causal graph.

Both systems of series are chaotic: a difference in the last digit of one value grows into another series within a
hundred steps. So that a seed gives the same series on every processor, the recursions use operations that IEEE 754
rounds exactly (sums and products), an exponential of the `decimal` module instead of the processor's, and noise on a
grid that is coarser than the last digits of the library that draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np

from condcs._core.arrays import BoolArray, ByValue, FloatArray
from condcs._core.checks import check_integer, check_positive, check_rng
from condcs._core.errors import DataError, ParameterError, public

# Starts that are tried before the coupling is refused: where bounded orbits exist, a share of the starts has one.
_REDRAWS = 100
_ESCAPED = 10.0
"""Bounded orbits of the Hénon chain stay within 2; one that leaves this box never comes back."""

_GRID = 2.0**40
"""Steps per unit of the grid on which noise is rounded. Normal draws in the tails go through the C library's logarithm,
which may differ by 2**-52 between processors: on the grid that is lost, but for one such draw in thousands."""

# Digits of exponentials in decimal arithmetic, which is alike on every processor: well over the 17 of a double, so that
# the result is rounded correctly.
_DECIMAL = Context(prec=25)


@dataclass(frozen=True, eq=False)
class DrivenSeries(ByValue):
    """Series with a known causal graph.

    Attributes
    ----------
    series : array, shape (n, variables)
        One column per variable, in time order.
    links : array of bool, shape (variables, variables)
        ``links[i, j]``: i drives j directly.
    names : tuple of str
        Names of the columns.
    order : int
        How many past values the equations look back.
    """

    series: FloatArray
    links: BoolArray
    names: tuple[str, ...]
    order: int

    @property
    def reachable(self) -> BoolArray:
        """Whether there is a directed path from i to j, of one link or more."""
        paths = self.links.copy()
        for _ in range(len(paths)):
            paths |= (paths.astype(int) @ self.links.astype(int)) > 0
        return paths


@public
def make_henon_chain(
    n: int = 1024,
    *,
    n_maps: int = 5,
    coupling: float = 0.3,
    burn_in: int = 1000,
    rng: int | np.random.Generator | None = 0,
) -> DrivenSeries:
    r"""Coupled Hénon maps; each drives the next (the paper's first causal simulation).

    .. math:: x_{1,t} = 1.4 - x_{1,t-1}^2 + 0.3 x_{1,t-2}, \qquad
              x_{i,t} = 1.4 - (C x_{i-1,t-1} + (1 - C) x_{i,t-1})^2 + 0.3 x_{i,t-2}

    Starts are uniform on (0, 1) and drawn again if an orbit diverges. With a coupling of 0.5 and more the maps
    synchronise: then there is no direction to find.

    Parameters
    ----------
    n : int
        Number of samples.
    n_maps : int
        Length of the chain.
    coupling : float
        C, from 0 to below 1.
    burn_in : int
        Number of initial samples dropped.
    rng : int or Generator
        Random generator, or its seed.

    Returns
    -------
    DrivenSeries
        The series and its links.

    Examples
    --------
    >>> data = make_henon_chain(200, n_maps=3)
    >>> data.series.shape, data.links.astype(int).tolist()
    ((200, 3), [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    """
    n, n_maps = check_integer("n", n, 1), check_integer("n_maps", n_maps, 1)
    burn_in = check_integer("burn_in", burn_in, 0)
    if isinstance(coupling, bool) or not isinstance(coupling, int | float) or not 0 <= coupling < 1:
        raise ParameterError(f"`coupling` must lie in [0, 1), got {coupling!r}. Pass e.g. coupling=0.3.")
    generator = check_rng(rng)
    weights = np.full(n_maps, float(coupling))
    weights[0] = 0.0
    for _ in range(_REDRAWS):
        orbit = _henon_orbit(n + burn_in + 2, weights, generator.uniform(size=(2, n_maps)))
        if orbit is not None:
            links = np.eye(n_maps, k=1, dtype=bool) if coupling > 0 else np.zeros((n_maps, n_maps), bool)
            return DrivenSeries(orbit[-n:], links, tuple(f"x{i + 1}" for i in range(n_maps)), 2)
    raise DataError(
        f"`coupling` must leave the maps bounded, but {_REDRAWS} starts escaped with {coupling}. Pass coupling=0.3."
    )


def _henon_orbit(length: int, weights: FloatArray, start: FloatArray) -> FloatArray | None:
    x = np.empty((length, len(weights)))
    x[:2] = start
    for t in range(2, length):
        driver = np.roll(x[t - 1], 1)
        x[t] = 1.4 - (weights * driver + (1 - weights) * x[t - 1]) ** 2 + 0.3 * x[t - 2]
        if not (np.abs(x[t]) < _ESCAPED).all():
            return None
    return x


@public
def make_nlvar3(
    n: int = 1024, *, noise: float = 0.01, burn_in: int = 1000, rng: int | np.random.Generator | None = 0
) -> DrivenSeries:
    r"""Nonlinear autoregression of three variables; 1 drives 2 and 3, 2 drives 3 (the paper's second simulation).

    With :math:`f(u) = 3.4 u (1 - u^2) e^{-u^2}` and :math:`w` standard normal,

    .. math:: x_{1,t} &= f(x_{1,t-1}) + s w_{1,t} \\
              x_{2,t} &= f(x_{2,t-1}) + 0.5 x_{1,t-1} x_{2,t-1} + s w_{2,t} \\
              x_{3,t} &= f(x_{3,t-1}) + 0.3 x_{2,t-1} + 0.5 x_{1,t-1}^2 + s w_{3,t}

    Parameters
    ----------
    n : int
        Number of samples.
    noise : float
        s, the standard deviation of the noise.
    burn_in : int
        Number of initial samples dropped.
    rng : int or Generator
        Random generator, or its seed.

    Returns
    -------
    DrivenSeries
        The series and its links.

    Examples
    --------
    >>> make_nlvar3(200).links.astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 0)
    noise = check_positive("noise", noise)
    generator = check_rng(rng)
    start = generator.uniform(-0.5, 0.5, size=3)
    shocks = noise * (np.round(generator.normal(size=(n + burn_in, 3)) * _GRID) / _GRID)
    links = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], bool)
    return DrivenSeries(_nlvar3_orbit(start, shocks)[-n:], links, ("x1", "x2", "x3"), 1)


def _nlvar3_orbit(start: FloatArray, shocks: FloatArray) -> FloatArray:
    orbit = [start.tolist()]
    for first, second, third in shocks.tolist():
        a, b, c = orbit[-1]
        orbit.append(
            [
                _hump(a) + first,
                _hump(b) + 0.5 * a * b + second,
                _hump(c) + 0.3 * b + 0.5 * a * a + third,
            ]
        )
    return np.array(orbit)


def _hump(u: float) -> float:
    """Return 3.4 u (1 - u^2) exp(-u^2), the same on every processor."""
    square = u * u
    return 3.4 * u * (1 - square) * float(_DECIMAL.exp(Decimal(-square)))


@dataclass(frozen=True, eq=False)
class LocalShift(ByValue):
    """Two samples and the interval of x on which their conditionals differ."""

    xp: FloatArray
    yp: FloatArray
    xq: FloatArray
    yq: FloatArray
    region: tuple[float, float]


@public
def make_local_shift(
    n: int = 400, *, shift: float = 0.8, covariate_shift: float = 0.5, rng: int | np.random.Generator | None = 0
) -> LocalShift:
    """Two samples whose p(y|x) differ only where 1 <= x <= 2, while p(x) differs everywhere.

    x lies between -3 and 3, y = sin(1.5 x) + noise in both; in the second sample `shift` is added on the region.

    Parameters
    ----------
    n : int
        Rows of each sample.
    shift : float
        How much y moves on the region (its noise has standard deviation 0.3). 0 makes the conditionals equal.
    covariate_shift : float
        From 0 (the same p(x)) to below 2: the first sample is skewed to the left, the second to the right.
    rng : int or Generator
        Random generator, or its seed.

    Returns
    -------
    LocalShift
        The samples (xp, yp, xq, yq), each of shape (n, 1), and the region.

    Examples
    --------
    >>> data = make_local_shift(100)
    >>> data.xp.shape, data.region
    ((100, 1), (1.0, 2.0))
    """
    generator = check_rng(rng)
    region = (1.0, 2.0)
    # Bounded, because a lone row in a tail of x weighs as much as a whole region of the bulk.
    xp = 6 * generator.beta(2 - covariate_shift, 2, size=(n, 1)) - 3
    xq = 6 * generator.beta(2, 2 - covariate_shift, size=(n, 1)) - 3
    yp, yq = (np.sin(1.5 * x) + 0.3 * generator.normal(size=(n, 1)) for x in (xp, xq))
    yq = yq + shift * ((xq >= region[0]) & (xq <= region[1]))
    return LocalShift(xp, yp, xq, yq, region)
