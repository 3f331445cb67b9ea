"""Simulated motor-imagery EEG of two subjects whose difference is known: mixing, band power, or p(y|z) itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, LabelArray, RealArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import public

SAMPLING_RATE = 128.0
"""Samples a second."""


@dataclass(frozen=True)
class Subject:
    """Properties of one simulated subject and electrode cap.

    Attributes
    ----------
    frequency : float
        Centre of the mu rhythm in Hz.
    attenuation : tuple of float
        By which factor imagery of the opposite hand lowers the amplitude of the (left, right) mu rhythm.
    gains : tuple of float
        Amplitudes of the (left, right) mu rhythm at rest.
    background : float
        Amplitude of the pink background.
    cap_shift : float
        How far the cap has slipped, in units of the distance between two electrodes.
    cap_noise : float
        Relative size of random changes of the mixing matrix.
    cap_rng : int
        Seed of the random generator for those changes.
    right_share : float
        Share of trials with the right hand (class 1).
    inverted : bool
        Whether imagery attenuates the rhythm of the same side.
    """

    frequency: float = 10.0
    attenuation: tuple[float, float] = (0.35, 0.35)
    gains: tuple[float, float] = (1.0, 1.0)
    background: float = 1.0
    cap_shift: float = 0.0
    cap_noise: float = 0.0
    cap_rng: int = 0
    right_share: float = 0.5
    inverted: bool = False


@dataclass(frozen=True)
class Shift:
    """A target subject, and whether label-free alignment from the standard source subject can help.

    Attributes
    ----------
    target : Subject
        The other subject.
    alignable : bool
        Whether alignment can help at all. Where it cannot, no alignment should win, the Cauchy-Schwarz one included.
    words : str
        What differs.
    """

    target: Subject
    alignable: bool
    words: str


SOURCE = Subject()
"""The standard source subject of all shifts."""

ShiftName = Literal["mixing", "band power", "p(y|z)", "all three", "none", "class shares", "inverted"]

SHIFTS: dict[ShiftName, Shift] = {
    "mixing": Shift(
        replace(SOURCE, cap_shift=0.8, cap_noise=0.3, cap_rng=1), True, "cap slipped, mixing matrix changed"
    ),
    "band power": Shift(
        replace(SOURCE, frequency=11.5, gains=(0.7, 0.7), background=1.3), True, "mu rhythm faster, weaker, noisier"
    ),
    "p(y|z)": Shift(
        replace(SOURCE, gains=(1.7, 0.8), attenuation=(0.5, 0.5)),
        True,
        "one side stronger, imagery weaker: the same features mean another class probability",
    ),
    "all three": Shift(
        replace(
            SOURCE,
            frequency=11.5,
            gains=(1.4, 0.7),
            attenuation=(0.45, 0.45),
            background=1.2,
            cap_shift=0.5,
            cap_noise=0.2,
            cap_rng=2,
        ),
        True,
        "mixing, band power and p(y|z) together",
    ),
    "none": Shift(SOURCE, False, "no difference: alignment can only cost"),
    "class shares": Shift(replace(SOURCE, right_share=0.2), False, "class shares differ: equal p(z) would be wrong"),
    "inverted": Shift(replace(SOURCE, inverted=True), False, "classes inverted: no method without labels can know"),
}
"""Shifts of the simulated benchmark, by name. Fixed before any method was run on them."""


@dataclass(frozen=True, eq=False)
class Recordings(ByValue):
    """Trials of two subjects.

    Attributes
    ----------
    x_source, x_target : array, shape (trials, channels, times)
        Signals, float32, each subject scaled to unit standard deviation.
    y_source, y_target : array of int, shape (trials,)
        0 left hand, 1 right hand. Those of the target are for scoring only.
    shift : Shift
        What differs between the two.
    """

    x_source: RealArray
    y_source: LabelArray
    x_target: RealArray
    y_target: LabelArray
    shift: Shift = field(repr=False)


@public
def make_two_subject_eeg(
    shift: ShiftName = "mixing",
    n: int = 200,
    *,
    n_channels: int = 6,
    n_times: int = 256,
    rng: int | np.random.Generator | None = 0,
) -> Recordings:
    r"""Simulate cued left- and right-hand imagery of two subjects.

    Two mu rhythms (resonating noise around `Subject.frequency`), over the left and the right hemisphere, and pink
    background on every electrode. Imagery of one hand attenuates the rhythm of the opposite side. Electrodes stand in a
    row; each rhythm reaches them with a Gaussian profile around its place, which a slipped cap moves.

    Parameters
    ----------
    shift : {"mixing", "band power", "p(y|z)", "all three", "none", "class shares", "inverted"}
        What differs between the subjects; `SHIFTS` has the numbers.
    n : int
        Trials of each subject.
    n_channels : int
        Electrodes.
    n_times : int
        Samples of a trial, at 128 Hz.
    rng : int or Generator
        Random generator, or its seed.

    Returns
    -------
    Recordings
        Signals and labels of both subjects.

    Examples
    --------
    >>> data = make_two_subject_eeg("band power", 20)
    >>> data.x_source.shape, data.y_target.shape
    ((20, 6, 256), (20,))
    """
    check_choice("shift", shift, tuple(SHIFTS))
    n, n_channels = check_integer("n", n, 2), check_integer("n_channels", n_channels, 2)
    n_times = check_integer("n_times", n_times, 64)
    generator = check_rng(rng)
    chosen = SHIFTS[shift]
    (xs, ys), (xt, yt) = (_recorded(s, n, n_channels, n_times, generator) for s in (SOURCE, chosen.target))
    return Recordings(xs, ys, xt, yt, chosen)


def _recorded(
    subject: Subject, n: int, n_channels: int, n_times: int, rng: np.random.Generator
) -> tuple[RealArray, LabelArray]:
    n_right = min(n - 1, max(1, round(n * subject.right_share)))
    y = rng.permutation(np.repeat([0, 1], [n - n_right, n_right]))
    # The rhythm that imagery attenuates: the right one (1) for the left hand (0), unless the subject is inverted.
    attenuated = y if subject.inverted else 1 - y
    amplitudes = np.tile(np.asarray(subject.gains), (n, 1))
    amplitudes[np.arange(n), attenuated] *= 1.0 - np.asarray(subject.attenuation)[attenuated]
    # Imagery is not equally vivid in every trial.
    amplitudes *= np.exp(0.25 * rng.normal(size=(n, 2)))
    rhythms = _resonating_noise(subject.frequency, (n, 2), n_times, rng) * amplitudes[:, :, None]
    background = subject.background * _pink_noise((n, n_channels), n_times, rng)
    signals = np.einsum("cs,nst->nct", _mixing(subject, n_channels), rhythms) + background
    return (signals / signals.std()).astype(np.float32), y


def _mixing(subject: Subject, n_channels: int) -> FloatArray:
    """Profile of each rhythm over the electrodes (channels x 2)."""
    electrodes = np.arange(n_channels) + subject.cap_shift
    places = np.array([0.2, 0.8]) * (n_channels - 1)
    profile = np.exp(-0.5 * ((electrodes[:, None] - places) / 0.9) ** 2)
    noise = np.random.default_rng(subject.cap_rng).normal(size=profile.shape)
    return np.asarray(profile + subject.cap_noise * noise)


def _resonating_noise(frequency: float, shape: tuple[int, ...], n_times: int, rng: np.random.Generator) -> FloatArray:
    """White noise through a resonance of about 2 Hz width, unit variance on average."""
    frequencies = np.fft.rfftfreq(n_times, 1 / SAMPLING_RATE)
    return _shaped_noise(np.exp(-0.5 * ((frequencies - frequency) / 1.0) ** 2), shape, n_times, rng)


def _pink_noise(shape: tuple[int, ...], n_times: int, rng: np.random.Generator) -> FloatArray:
    """Noise whose power falls as 1/f above 1 Hz, unit variance on average."""
    frequencies = np.fft.rfftfreq(n_times, 1 / SAMPLING_RATE)
    return _shaped_noise(1 / np.sqrt(np.maximum(frequencies, 1.0)), shape, n_times, rng)


def _shaped_noise(amplitude: FloatArray, shape: tuple[int, ...], n_times: int, rng: np.random.Generator) -> FloatArray:
    spectrum = np.fft.rfft(rng.normal(size=(*shape, n_times))) * amplitude
    # Parseval: every frequency but 0 and the last stands for two of the full transform.
    counts = np.full(len(amplitude), 2.0)
    counts[0] = 1.0
    if n_times % 2 == 0:
        counts[-1] = 1.0
    return np.asarray(np.fft.irfft(spectrum, n_times) / np.sqrt((counts * amplitude**2).sum() / n_times))
