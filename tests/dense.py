"""The formulas of the paper written out with n x n matrices: slow, plain, and independent of the library."""

from __future__ import annotations

import numpy as np


def gram(a: np.ndarray, b: np.ndarray, width: float, kernel: str = "gaussian") -> np.ndarray:
    squared = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    return np.exp(-squared / (2 * width**2)) if kernel == "gaussian" else np.exp(-np.sqrt(squared) / width)


def dense_conditional_cs(xp, yp, xq, yq, bx, by, wp=None, wq=None, kernel="gaussian") -> float:
    """Prop. 2 in its trace form: D = log tr(L_p C_1) + log tr(L_q C_2) - log tr(L_pq C_3) - log tr(L_qp C_4).

    Each C holds the weights that x gives to the similarities of y; C_4 is derived from Prop. 2 (the print is garbled).
    """
    wp = np.ones(len(xp)) if wp is None else wp
    wq = np.ones(len(xq)) if wq is None else wq
    K = {
        ("p", "p"): gram(xp, xp, bx, kernel),
        ("p", "q"): gram(xp, xq, bx, kernel),
        ("q", "q"): gram(xq, xq, bx, kernel),
    }
    L = {
        ("p", "p"): gram(yp, yp, by, kernel),
        ("p", "q"): gram(yp, yq, by, kernel),
        ("q", "q"): gram(yq, yq, by, kernel),
    }
    K["q", "p"], L["q", "p"] = K["p", "q"].T, L["p", "q"].T
    w = {"p": wp, "q": wq}

    def log_trace(g: str, h: str) -> float:
        own, other = K[g, g] @ w[g], K[g, h] @ w[h]
        C = (w[g] / (own * other))[:, None] * K[g, h] * w[h][None, :]
        return float(np.log(np.trace(L[g, h] @ C.T)))

    return log_trace("p", "p") + log_trace("q", "q") - log_trace("p", "q") - log_trace("q", "p")


def dense_cs(yp, yq, width) -> float:
    means = [gram(a, b, width).mean() for a, b in ((yp, yp), (yq, yq), (yp, yq))]
    return float(np.log(means[0]) + np.log(means[1]) - 2 * np.log(means[2]))


def dense_predictors(y, x1, x2, by, b1, b2, form) -> float:
    """Prop. 4, with the corrected or the printed first term."""
    K1, L = gram(x1, x1, b1), gram(y, y, by)
    K12 = K1 * gram(x2, x2, b2)
    A1, B1, A12, B12 = K1.sum(1), (K1 * L).sum(1), K12.sum(1), (K12 * L).sum(1)
    first = (B1**2 / (A1**2 * B12)).sum() if form == "corrected" else (B1 / A1**2).sum()
    return float(np.log(first) + np.log((B12 / A12**2).sum()) - 2 * np.log((B1 / (A1 * A12)).sum()))
