r"""Transfer entropy from nearest neighbours: I(target; source's past | own past).

Two estimators: Frenzel and Pompe (2007), which counts neighbours in the subspaces within the distance found in the
joint space, so that biases cancel (the KSG idea); and the sum of four Kozachenko-Leonenko entropies, as the paper's
toolbox computes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer

FloatArray = np.ndarray[Any, Any]

ESTIMATORS = ("frenzel_pompe", "entropies")


def transfer_entropy(
    target: FloatArray, condition: FloatArray, source: FloatArray, *, k: int = 3, estimator: str = "frenzel_pompe"
) -> float:
    """Transfer entropy in nats; columns are compared in units of their standard deviation."""
    check_integer("k", k, 1, len(target) - 1, because=f" (there are {len(target)} rows)")
    check_choice("estimator", estimator, ESTIMATORS)
    y, z, x = (_standardised(part) for part in (target, condition, source))
    if estimator == "entropies":
        pairs = ((z, x), (y, z, x), (y, z), (z,))
        zx, yzx, yz, own = (entropy(np.hstack(parts), k) for parts in pairs)
        return zx - yzx + yz - own
    return conditional_information(y, x, z, k)


def conditional_information(y: FloatArray, x: FloatArray, z: FloatArray, k: int) -> float:
    r"""Frenzel and Pompe's :math:`\psi(k) - \langle \psi(n_{yz}) + \psi(n_{xz}) - \psi(n_z) \rangle`, maximum norm."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    joint = np.hstack([y, x, z])
    # The point itself is its own nearest neighbour; counts are of points strictly nearer than the k-th, and itself.
    radius = np.nextafter(cKDTree(joint).query(joint, k + 1, p=np.inf)[0][:, -1], 0)
    total = digamma(k)
    for sign, space in ((-1, np.hstack([y, z])), (-1, np.hstack([x, z])), (1, z)):
        count = cKDTree(space).query_ball_point(space, np.maximum(radius, 0.0), p=np.inf, return_length=True)
        total += sign * float(np.mean(digamma(count)))
    return float(total)


def entropy(points: FloatArray, k: int) -> float:
    """Kozachenko and Leonenko's differential entropy, Euclidean norm; repeated points get the least distance seen."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma, gammaln

    n, d = points.shape
    distance = cKDTree(points).query(points, k + 1)[0][:, -1]
    positive = distance[distance > 0]
    floor = float(positive.min()) if len(positive) else np.finfo(float).tiny
    ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
    return float(digamma(n) - digamma(k) + ball + d * np.mean(np.log(np.maximum(distance, floor))))


def _standardised(values: FloatArray) -> FloatArray:
    deviation = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))
