"""Dynamic textures: moving scenes from linear dynamical systems, whose classes differ in their dynamics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, LabelArray
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import public


@dataclass(frozen=True, eq=False)
class DynamicTextures(ByValue):
    """Clips of a few classes, and the systems they come from.

    Attributes
    ----------
    X : array
        (clips, pixels, frames) or (clips, frames, pixels).
    y : array
        Class of each clip.
    transitions : array, shape (classes, states, states)
        The matrix A of each class.
    outputs : array, shape (classes, pixels, states)
        The matrix C of each class; equal for all classes if `shared_output`.
    """

    X: FloatArray
    y: LabelArray
    transitions: FloatArray
    outputs: FloatArray


@public
def make_dynamic_textures(
    n_clips: int = 24,
    *,
    n_classes: int = 3,
    n_frames: int = 42,
    height: int = 48,
    width: int = 48,
    n_states: int = 8,
    noise: float = 0.1,
    shared_output: bool = True,
    layout: str = "nct",
    rng: int | np.random.Generator | None = 0,
) -> DynamicTextures:
    r"""Clips from linear dynamical systems, as the paper's appendix models moving scenes.

    .. math:: h_t = A_k h_{t-1} + v_t, \qquad y_t = C_k h_t + w_t

    with standard normal :math:`v_t` and :math:`w_t` of standard deviation `noise`. Each class k has a stable
    :math:`A_k` of its own: damped rotations of pairs of states, at speeds that differ between the classes. The columns
    of C are smooth random images of unit variance. With `shared_output` all classes have the same C, so that only the
    dynamics tell them apart. Clips start from the stationary distribution.

    Parameters
    ----------
    n_clips : int
        Clips in all, dealt evenly to the classes.
    n_classes, n_frames, height, width, n_states : int
        Classes; length and size of a clip; states of a system (even).
    noise : float
        Standard deviation of a pixel's own noise; a texture has unit variance per state.
    shared_output : bool
        Whether all classes show their states by the same images.
    layout : {"nct", "ntc"}
        Order of the axes: (clips, pixels, frames) or (clips, frames, pixels).
    rng : int or Generator
        Seed.

    Returns
    -------
    DynamicTextures
        Clips, labels and systems.

    Examples
    --------
    >>> clips = make_dynamic_textures(6, height=8, width=8, n_frames=20)
    >>> clips.X.shape, clips.y.tolist()
    ((6, 64, 20), [0, 0, 1, 1, 2, 2])
    """
    check_choice("layout", layout, ("nct", "ntc"))
    n_classes, n_frames = check_integer("n_classes", n_classes, 1), check_integer("n_frames", n_frames, 2)
    n_clips = check_integer("n_clips", n_clips, n_classes)
    height, width = check_integer("height", height, 1), check_integer("width", width, 1)
    pairs = check_integer("n_states", n_states, 2) // 2
    noise = check_positive("noise", noise)
    generator = check_rng(rng)
    transitions = np.stack([_transition(k, n_classes, pairs, generator) for k in range(n_classes)])
    made = [_images(height, width, 2 * pairs, generator) for _ in range(1 if shared_output else n_classes)]
    outputs = np.stack(made * n_classes if shared_output else made)
    y = np.sort(np.arange(n_clips) % n_classes)
    X = np.stack([_clip(transitions[k], outputs[k], n_frames, noise, generator) for k in y])
    return DynamicTextures(np.moveaxis(X, 2, 1).copy() if layout == "nct" else X, y, transitions, outputs)


def _transition(k: int, n_classes: int, pairs: int, rng: np.random.Generator) -> FloatArray:
    """Return damped rotations; the speeds of class k lie in its own part of (0, pi)."""
    A = np.zeros((2 * pairs, 2 * pairs))
    for pair in range(pairs):
        angle = np.pi * (k + rng.uniform(0.2, 0.8)) / n_classes
        c, s = np.cos(angle), np.sin(angle)
        A[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = rng.uniform(0.9, 0.98) * np.array([[c, -s], [s, c]])
    return A


def _images(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return smooth random images of mean 0 and variance 1, one per column."""
    from scipy.ndimage import gaussian_filter

    images = gaussian_filter(
        rng.normal(size=(count, height, width)), (0, 1.5, 1.5), mode="wrap" if min(height, width) > 1 else "reflect"
    ).reshape(count, -1)
    images = images - images.mean(axis=1, keepdims=True)
    scale = images.std(axis=1, keepdims=True)
    return np.asarray((images / np.where(scale > 0, scale, 1.0)).T)


def _clip(A: FloatArray, C: FloatArray, n_frames: int, noise: float, rng: np.random.Generator) -> FloatArray:
    # A is a damped rotation of pairs, r R: the stationary covariance of a pair is I / (1 - r^2).
    variance = 1 / (1 - np.diag(A @ A.T))
    states = np.empty((n_frames, len(A)))
    states[0] = np.sqrt(variance) * rng.normal(size=len(A))
    for t in range(1, n_frames):
        states[t] = A @ states[t - 1] + rng.normal(size=len(A))
    # Every state in units of its stationary deviation, so that no pair of states outshines the others.
    shown = states / np.sqrt(variance)
    return np.asarray(shown @ C.T + noise * rng.normal(size=(n_frames, len(C))))
