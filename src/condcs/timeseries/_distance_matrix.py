"""Matrices of distances: a measure with its options and bandwidths, computed block by block.

Blocks run in parallel, and can be kept on disk so that an interrupted run continues.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import FloatArray, RealArray
from condcs._core.checks import check_choice
from condcs._core.errors import BandwidthError, BandwidthWarning, CondcsWarning, ParameterError, warn_caller
from condcs._core.files import InUseError, atomic_write, locked, reserve, sealed_line, unsealed_line, writing
from condcs._core.progress import progress_bar
from condcs._core.settings import current_settings, one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._kernels.bandwidths import median_distance, median_rows
from condcs._measures.registry import MEASURES, Measure
from condcs._parallel.spreading import Workers, active_workers, spread
from condcs.timeseries._collection import Windowed

# --- a measure and its settings ---------------------------------------------------------------------------------------

SeriesBandwidth = Literal["pair-median", "pooled-median"] | float | Sequence[float]
"""A rule, one bandwidth for windows and successors, or one for each of the two."""

SeriesMeasure = Literal[
    "conditional_cs",
    "conditional_euclidean",
    "joint_mmd",
    "conditional_mmd",
    "conditional_kl",
    "conditional_bregman",
]
"""Registered measures that take x and y."""

COMPILED = ("conditional_cs", "conditional_euclidean")
"""Measures that the compiled engine computes; the others are called pair by pair."""

WIDE_CHANNELS = 48
"""From this many channels on, distances between frames come from a matrix product, which loses digits. Series of 60
values take 15% less time by it with 24 channels, 25% with 48, 40% with 96."""

# The percentile that the median is; `median_distance` returns a higher one if that is 0.
_MEDIAN_PERCENT = 50

# Between these magnitudes squared distances neither overflow nor underflow; beyond, the core estimator takes over.
_SMALLEST, _LARGEST = 1e-140, 1e140


@dataclass(frozen=True)
class Bandwidths:
    """Bandwidths on windows and on the frames that follow them, without the factor."""

    x: float
    y: float


@dataclass(frozen=True)
class Fallbacks:
    """How many bandwidths could not be medians, because those were 0 (ties) or all values were equal (constant)."""

    ties: int = 0
    constant: int = 0

    def __add__(self, other: Fallbacks) -> Fallbacks:
        return Fallbacks(self.ties + other.ties, self.constant + other.constant)

    def warn(self) -> None:
        """Warn, once for the whole call."""
        parts = []
        if self.ties:
            parts.append(
                f"{self.ties} median distance(s) between windows or between their successors were 0, because more than "
                "half of them are equal; the smallest positive percentile was used instead"
            )
        if self.constant:
            parts.append(
                f"{self.constant} time(s) all windows, or all successors, were equal (constant series), and the "
                "bandwidth was set to 1"
            )
        if parts:
            warn_caller(f"{'; '.join(parts)}. Pass {named('bandwidth')} as a number to choose it.", BandwidthWarning)


@dataclass(frozen=True)
class Job:
    """A measure with its settings.

    Attributes
    ----------
    measure : str
        A registered measure that takes x and y.
    options : mapping
        Further keyword options of the measure.
    bandwidths : Bandwidths, optional
        Kernel bandwidths for all pairs; None stands for the medians of each pair.
    factor : float
        Multiplies the bandwidths.
    n_factors : int
        If more than 1, up to 5: `block` returns as many blocks, each with half the factor of the one before.
    compiled, wide, gaps : bool
        Whether the engine computes it, whether by matrix products, and whether windows are left out of any series.
    """

    measure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bandwidths: Bandwidths | None = None
    factor: float = 1.0
    n_factors: int = 1
    compiled: bool = True
    wide: bool = False
    gaps: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether D[i, j] = D[j, i], so that half of the pairs suffice."""
        return MEASURES[self.measure].symmetric and self.options.get("estimator", "paper") in ("paper", "pooled")

    def seconds(self, a: Windowed, b: Windowed) -> float:
        """Estimate the time of a pair, to cut the work into blocks."""
        cells = (a.total / a.count) * (b.total / b.count)
        if not self.compiled:
            return 1e-3 + 1e-7 * cells
        return 1e-6 + cells * (8e-9 + 1e-10 * a.collection.channels)

    def block(self, a: Windowed, b: Windowed, same_series: bool) -> tuple[FloatArray, Fallbacks]:
        """Compute the measure between every series of a and every series of b.

        With `same_series` the two are the same series, and only i < j is computed (i != j if not symmetric); all other
        entries are 0.
        """
        out = np.zeros((self.n_factors, a.count, b.count))
        # Entries that the core estimator computes, pair by pair.
        by_pair = np.ones(out.shape, bool)
        if same_series:
            by_pair = np.triu(by_pair, 1) if self.symmetric else by_pair & ~np.eye(a.count, dtype=bool)
        fallbacks = Fallbacks()
        if self.compiled:
            fallbacks = self._fill_by_engine(a, b, same_series, out)
            # A bandwidth so small that exponents overflow: the core estimator works in units of the bandwidth.
            by_pair &= ~np.isfinite(out)
        for f, i, j in np.argwhere(by_pair).tolist():
            out[f, i, j], pair_fallbacks = self._pair(a.sample(i), b.sample(j), self.factor / 2**f)
            # The engine has counted those of all its pairs.
            if not self.compiled:
                fallbacks += pair_fallbacks
        return (out[0] if self.n_factors == 1 else out), fallbacks

    def _fill_by_engine(self, a: Windowed, b: Windowed, same_series: bool, out: FloatArray) -> Fallbacks:
        """Fill `out`, shape (factors, series of a, series of b), by the compiled engine; return its fallbacks."""
        from condcs.timeseries._engine import SeriesWindows, block_divergences
        from condcs.timeseries._engine_medians import CONSTANT, PERCENTILE, WIDTH_SOURCES

        rows_and_columns = a if same_series else a.followed_by(b)
        collection, order = rows_and_columns.collection, rows_and_columns.order
        # Copies, because the engine would be compiled once more for read-only arrays.
        frames, frame_offsets = np.array(collection.frames, order="C"), np.array(collection.frame_offsets)
        window_times, window_offsets = (
            np.array(rows_and_columns.window_times),
            np.array(rows_and_columns.window_offsets),
        )

        # The frames that follow the windows, sorted within each series.
        successors = np.zeros(0)
        if self.bandwidths is None and collection.channels == 1:
            first_frames = np.repeat(frame_offsets[:-1], np.diff(window_offsets))  # of the series of each window
            successors = frames[first_frames + window_times + order, 0]
            for first, last in itertools.pairwise(window_offsets):
                successors[first:last].sort()

        series = SeriesWindows(frames, frame_offsets, window_times, window_offsets, successors)
        bandwidths = (self.bandwidths.x, self.bandwidths.y) if self.bandwidths else (0.0, 0.0)
        is_logarithmic = self.measure == "conditional_cs"
        source_counts = np.zeros((WIDTH_SOURCES, 2), np.int64)  # by where a median came from, on x and on y
        # None in place of False: the engine is compiled without the branch.
        wide, gaps = self.wide or None, self.gaps or None
        block_divergences(series, order, bandwidths, self.factor, is_logarithmic, wide, gaps, out, source_counts)
        totals = source_counts.sum(axis=1).tolist()
        return Fallbacks(ties=totals[PERCENTILE], constant=totals[CONSTANT])

    def _pair(
        self, p: tuple[FloatArray, FloatArray], q: tuple[FloatArray, FloatArray], factor: float
    ) -> tuple[float, Fallbacks]:
        """Return the measure between two samples (x, y) by its own function."""
        measure, options, fallbacks = MEASURES[self.measure], dict(self.options), Fallbacks()
        if measure.gram:
            bandwidths = self.bandwidths
            if bandwidths is None:
                x, y = (np.concatenate(blocks) for blocks in zip(p, q, strict=True))
                bandwidths, fallbacks = _median_bandwidths(x, y)
            options |= {"bandwidth_x": bandwidths.x * factor, "bandwidth_y": bandwidths.y * factor}
        return float(measure.function(*p, *q, **options)), fallbacks


def make_job(
    measure: str,
    bandwidth: SeriesBandwidth,
    factor: float,
    options: Mapping[str, Any],
    sides: list[Windowed],
    *,
    n_factors: int = 1,
) -> tuple[Job, list[Windowed], Fallbacks]:
    """Check the settings and choose how to compute; also return the sides in the form that the job expects."""
    registered = _check_measure(measure)
    _check_options(registered, bandwidth, factor, options)
    bandwidths, fallbacks = _common_bandwidths(bandwidth, sides) if registered.gram else (None, Fallbacks())
    has_default_form = not options or dict(options) == {"estimator": "paper"}
    compiled = measure in COMPILED and has_default_form and _is_ordinary(sides, bandwidths, factor)
    wide = compiled and sides[0].collection.channels >= WIDE_CHANNELS
    gaps = any(side.collection.has_gaps for side in sides)
    if wide:
        # Distances do not depend on the origin, but products of frames lose fewer digits around the mean.
        origin = np.nanmean(sides[0].collection.frames, axis=0)
        sides = [side.shifted(origin) for side in sides]
    job = Job(
        measure,
        options=dict(options),
        bandwidths=bandwidths,
        factor=factor,
        n_factors=n_factors,
        compiled=compiled,
        wide=wide,
        gaps=gaps,
    )
    return job, sides, fallbacks


def _check_measure(name: Any) -> Measure:
    usable = [m for m in MEASURES.values() if m.takes_x]
    if not isinstance(name, str) or name not in {m.name for m in usable}:
        raise ParameterError(
            f"{named('measure')} must be one of {', '.join(repr(m.name) for m in usable)}, got {name!r}. "
            f"Pass {setting('measure', 'conditional_cs')}."
        )
    return MEASURES[name]


def _check_options(measure: Measure, bandwidth: Any, factor: float, options: Mapping[str, Any]) -> None:
    reserved = {"bandwidth", "bandwidth_x", "bandwidth_y", "weights_p", "weights_q"}
    allowed = measure.options - reserved
    for name in options:
        if name in reserved:
            raise ParameterError(
                f"{named(name)} must be left out: bandwidths come from {named('bandwidth')} and {named('factor')}, and "
                f"windows have no weights. Pass e.g. {setting('bandwidth', (1.0, 0.5))}."
            )
        if name not in allowed:
            listed = ", ".join(sorted(allowed)) or "none"
            raise ParameterError(f"{named(name)} must be an option of {measure.name!r}. Its options are: {listed}.")
    if not measure.gram and (factor != 1.0 or not (isinstance(bandwidth, str) and bandwidth == "pair-median")):
        raise ParameterError(
            f"{named('bandwidth')} and {named('factor')} must be left at their defaults for {measure.name!r}, which "
            f"has no kernels, got {bandwidth!r} and {factor!r}. Leave them out."
        )


def _is_ordinary(sides: list[Windowed], bandwidths: Bandwidths | None, factor: float) -> bool:
    """Whether every series is of a magnitude whose squares are safe, in absolute terms and beside the bandwidths."""
    for side in sides:
        largest_by_time = np.fmax.reduce(np.abs(side.collection.frames), axis=1)
        largest = np.fmax.reduceat(largest_by_time, side.collection.frame_offsets[:-1])  # (count,)
        if np.any(largest > _LARGEST) or np.any((largest > 0) & (largest < _SMALLEST)):
            return False
    widths = () if bandwidths is None else (bandwidths.x * factor, bandwidths.y * factor)
    return all(_SMALLEST < width < _LARGEST for width in widths)


def _common_bandwidths(bandwidth: SeriesBandwidth, sides: list[Windowed]) -> tuple[Bandwidths | None, Fallbacks]:
    """Return the bandwidths that serve all pairs; None if each pair has its own."""
    if isinstance(bandwidth, str) and bandwidth == "pair-median":
        return None, Fallbacks()
    if isinstance(bandwidth, str) and bandwidth == "pooled-median":
        return _pooled_medians(sides)
    try:
        numbers = np.asarray(bandwidth, np.float64) if not isinstance(bandwidth, str | bool) else np.array([])
    except (TypeError, ValueError):
        numbers = np.array([])
    if numbers.shape not in ((), (2,)) or not np.all(np.isfinite(numbers)) or not np.all(numbers > 0):
        raise BandwidthError(
            f'{named("bandwidth")} must be "pair-median", "pooled-median", a positive number, or two of them (for '
            f"windows and for their successors), got {bandwidth!r}. Pass e.g. {setting('bandwidth', 'pair-median')}."
        )
    x, y = np.broadcast_to(numbers, (2,)).tolist()
    return Bandwidths(x, y), Fallbacks()


def _pooled_medians(sides: list[Windowed]) -> tuple[Bandwidths, Fallbacks]:
    """Median distances over the windows of all series, or over the subsample that all bandwidth rules use."""
    offsets = np.cumsum([0] + [side.total for side in sides])  # of the windows of each side among those of all
    sampled = np.arange(offsets[-1])[median_rows(int(offsets[-1]))]
    samples = []
    for side, first, last in zip(sides, offsets[:-1], offsets[1:], strict=True):
        of_side = sampled[(sampled >= first) & (sampled < last)]
        samples.append(side.rows(of_side - first))
    x, y = (np.concatenate(blocks) for blocks in zip(*samples, strict=True))
    return _median_bandwidths(x, y)


def _median_bandwidths(x: FloatArray, y: FloatArray) -> tuple[Bandwidths, Fallbacks]:
    """Return the median distances between the rows of x and between those of y."""
    (width_x, fallbacks_x), (width_y, fallbacks_y) = _median_width(x), _median_width(y)
    return Bandwidths(width_x, width_y), fallbacks_x + fallbacks_y


def _median_width(values: FloatArray) -> tuple[float, Fallbacks]:
    """Return the square root of the median squared distance over all pairs of rows, or what takes its place at 0.

    Exact for any number of rows, as in the engine, whose results it must match.
    """
    width, percentile = median_distance(values)
    if width > 0:
        return width, Fallbacks(ties=int(percentile > _MEDIAN_PERCENT))
    return 1.0, Fallbacks(constant=1)


# --- blocks -----------------------------------------------------------------------------------------------------------

# The longest and the shortest time of a block. Longer, and progress, the store and the other workers wait; shorter, and
# the call of a block takes a share of its time.
_SECONDS_PER_BLOCK = (0.25, 0.005)
# Most series on a side: a block holds what concerns each of them alone.
_MAX_SIDE = 512
# Blocks on a side of the matrix for several workers, so that none is without work for long at the end.
_MIN_BLOCKS = 8
# Less work than this is not worth starting a thread for.
_SECONDS_WORTH_A_THREAD = 0.005
# Blocks sent ahead for each worker of a cluster: those that wait hide the time of sending, but each holds the series
# that it needs.
_BLOCKS_AHEAD = 4

# What an interrupted run loses at most, besides the blocks that are being computed; flushing a large file takes time.
_FLUSH_SECONDS = 5.0
_PROBLEM, _MATRIX, _SUMS, _LOCK = "problem.json", "distances.npy", "done.npy", ".lock"
# Raised when a folder of an earlier version can no longer be continued: such a one is refused.
_FORMAT = 2
# A bit above those of any checksum: no finished block has the sum 0, which stands for an unfinished one.
_FINISHED_BIT = 1 << 32

DType = Literal["float64", "float32"]


@dataclass(frozen=True)
class MatrixOutput:
    """Where a matrix of distances is kept while it is computed, and what is shown.

    Attributes
    ----------
    dtype : {"float64", "float32"}
        Type of the matrix; distances are computed in double precision either way.
    store : path, optional
        Folder for a matrix on disk. The same call with the same folder continues where an interrupted run stopped, and
        returns the matrix memory-mapped. Finished blocks have checksums: blocks that have changed on disk or are
        missing are computed again, with a warning.
    progress : bool
        Show a progress bar (needs `rich`).
    """

    dtype: DType = "float64"
    store: str | os.PathLike[str] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, get_args(DType))


IN_MEMORY = MatrixOutput()


@dataclass(frozen=True)
class MatrixBlock:
    """The pairs between two runs of series, with only the series that they need; sent to a worker as it is.

    Workers receive the data with the task, not as a reference to data that another worker holds: if a worker dies, its
    tasks are given to the others.
    """

    job: Job
    row: int
    column: int
    a: Windowed
    b: Windowed
    same_series: bool

    def run(self) -> tuple[int, int, FloatArray, Fallbacks]:
        """Compute the block."""
        with one_blas_thread() if self.job.wide else nullcontext():
            values, fallbacks = self.job.block(self.a, self.b, self.same_series)
        return self.row, self.column, values, fallbacks


def block_side(job: Job, a: Windowed, b: Windowed, n_workers: int) -> int:
    """Choose how many series a side of a block has: a fraction of a second of work, and a block for every worker.

    A single worker has large blocks: what concerns one series alone is computed again for each of them.
    """
    longest, shortest = (math.sqrt(seconds / job.seconds(a, b)) for seconds in _SECONDS_PER_BLOCK)
    side = math.ceil(max(a.count, b.count) / (_MIN_BLOCKS if n_workers > 1 else 1))
    return int(max(1, min(max(side, shortest), longest, _MAX_SIDE)))


def distance_matrix(
    job: Job,
    a: Windowed,
    b: Windowed | None,
    *,
    n_jobs: int | None,
    output: MatrixOutput,
) -> tuple[RealArray, Fallbacks]:
    """Compute all pairs of a, or of a with b."""
    other = a if b is None else b
    # For a few milliseconds of work this thread is enough.
    alone = a.count * other.count * job.seconds(a, other) < _SECONDS_WORTH_A_THREAD
    workers, n_workers = (None, 1) if alone else _workers(n_jobs)
    side = block_side(job, a, other, n_workers)
    shape = (a.count, other.count)
    with ExitStack() as stack:
        store = None
        if output.store is not None:
            store = stack.enter_context(MatrixStore.open(output.store, job, a, b, output.dtype, side))
            store.forget_damaged()
            side = store.side
        factors = (job.n_factors,) if job.n_factors > 1 else ()
        out = np.zeros(factors + shape, output.dtype) if store is None else store.values
        mirrored = b is None and job.symmetric
        corners = _corners(shape, side, mirrored=mirrored)
        if store is not None:
            corners = ((row, column) for row, column in corners if not store.is_done(row // side, column // side))
        n_pairs = a.count * (a.count - 1) // 2 if mirrored else shape[0] * shape[1]
        fallbacks = Fallbacks()
        computed = _computed(job, a, other, b is None, side, corners, workers, n_workers)
        advance = stack.enter_context(progress_bar(n_pairs, output.progress, "distances"))
        stack.enter_context(one_blas_thread() if job.wide else nullcontext())
        for row, column, values, block_fallbacks in computed:
            _write(out, row, column, values, mirrored=mirrored)
            fallbacks += block_fallbacks
            if store is not None:
                store.mark(row // side, column // side)
            pairs = values.shape[-2] * values.shape[-1]
            advance(pairs if row != column else pairs // 2)
    return (out if store is None else store.matrix()), fallbacks


def _write(out: RealArray, row: int, column: int, values: FloatArray, *, mirrored: bool) -> None:
    """Write a block with its first entry at (row, column), and at (column, row) if the matrix is mirrored."""
    if mirrored and row == column:
        values = values + values.swapaxes(-1, -2)
    rows, columns = slice(row, row + values.shape[-2]), slice(column, column + values.shape[-1])
    out[..., rows, columns] = values
    if mirrored:
        out[..., columns, rows] = values.swapaxes(-1, -2)


def _corners(shape: tuple[int, int], side: int, *, mirrored: bool) -> Iterator[tuple[int, int]]:
    """Yield the row and column of the first entry of each block, of a mirrored matrix those above the diagonal."""
    rows, columns = shape
    for row in range(0, rows, side):
        for column in range(row if mirrored else 0, columns, side):
            yield row, column


def _workers(n_jobs: int | None) -> tuple[Workers | None, int]:
    """Return the workers of a cluster, if there is one, and the number of them or of those that joblib starts."""
    workers = active_workers(n_jobs)
    if workers is not None and workers.client is not None:
        return workers, workers.count
    from joblib import effective_n_jobs
    from joblib.parallel import get_active_backend

    # What an enclosing joblib.parallel_config says; else all cores.
    requested = n_jobs or get_active_backend()[1] or current_settings().n_threads
    return None, effective_n_jobs(requested)


def _computed(
    job: Job,
    a: Windowed,
    b: Windowed,
    same: bool,
    side: int,
    corners: Iterator[tuple[int, int]],
    workers: Workers | None,
    n_workers: int,
) -> Iterator[tuple[int, int, FloatArray, Fallbacks]]:
    """Run the blocks in this thread, with joblib's active backend or on a cluster; in any order."""

    def block_at(row: int, column: int) -> MatrixBlock:
        rows, columns = a.part(row, min(row + side, a.count)), b.part(column, min(column + side, b.count))
        return MatrixBlock(job, row, column, rows, columns, same and row == column)

    if workers is not None:
        calls = ((block_at(row, column),) for row, column in corners)
        for _, computed in spread(MatrixBlock.run, calls, workers, ahead=_BLOCKS_AHEAD):
            yield computed
    elif n_workers == 1:
        for row, column in corners:
            yield block_at(row, column).run()
    else:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=n_workers, prefer="threads", return_as="generator_unordered", batch_size=1)
        yield from parallel(delayed(MatrixBlock.run)(block_at(row, column)) for row, column in corners)


class MatrixStore:
    """A folder with ``distances.npy``, ``done.npy`` (the checksums of finished blocks) and ``problem.json``.

    Attributes
    ----------
    values : memory-mapped array
        The distances.
    side : int
        Series on a side of a block.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: Any, side: int, *, mirrored: bool) -> None:
        self.folder, self.side, self._mirrored = folder, side, mirrored
        self.values = _mapped(folder / _MATRIX, np.dtype(dtype), shape)
        grid = (-(-shape[0] // side), -(-shape[1] // side))
        self._sums = _mapped(folder / _SUMS, np.dtype(np.uint64), grid)
        self._pending: list[tuple[int, int]] = []
        self._flushed = time.monotonic()

    @classmethod
    @contextmanager
    def open(
        cls, folder: str | os.PathLike[str], job: Job, a: Windowed, b: Windowed | None, dtype: Any, side: int
    ) -> Iterator[MatrixStore]:
        """Use a folder, which is new or holds the same problem, within a ``with`` block."""
        path = Path(folder)
        shape = (a.count, a.count if b is None else b.count)
        about = {"format": _FORMAT, "fingerprint": fingerprint(job, a, b), "shape": list(shape)}
        about["dtype"] = np.dtype(dtype).name
        with ExitStack() as stack:
            with writing(f"{named('store')} {path}"):
                _check_folder(path)
                path.mkdir(parents=True, exist_ok=True)
                _lock(path, stack)
                side = _stored_side(path, about) or side
                store = cls(path, shape, dtype, side, mirrored=b is None and job.symmetric)
                if not (path / _PROBLEM).exists():
                    # Written last: a folder without it was not completed.
                    store._sums[...] = 0
                    with atomic_write(path / _PROBLEM) as file:
                        file.write(sealed_line({**about, "side": side}))
            try:
                yield store
            finally:
                store.flush()

    def forget_damaged(self) -> None:
        """Find blocks of an earlier run that have changed on disk, so that they are computed again."""
        finished = np.argwhere(self._sums)
        damaged = 0
        for i, j in finished:
            copies = [self._block(i, j), self._block(j, i).T] if self._mirrored else [self._block(i, j)]
            if any(_checksum(copy) != self._sums[i, j] for copy in copies):
                self._sums[i, j] = 0
                damaged += 1
        if damaged:
            warn_caller(
                f"{damaged} of {len(finished)} finished blocks of distances in {self.folder} have changed since they "
                "were written, or are incomplete; they are computed again. Check the disk if this happens repeatedly.",
                CondcsWarning,
            )

    def is_done(self, i: int, j: int) -> bool:
        """Whether a block has been computed, here or by an earlier run."""
        return bool(self._sums[i, j])

    def mark(self, i: int, j: int) -> None:
        """Record that a block has been written; every few seconds, flush to disk."""
        self._pending.append((i, j))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all blocks so far to disk."""
        with writing(f"{named('store')} {self.folder}"):
            self.values.flush()
            for i, j in self._pending:
                self._sums[i, j] = _checksum(self._block(i, j))
            self._sums.flush()
        self._pending.clear()
        self._flushed = time.monotonic()

    def matrix(self) -> RealArray:
        """Return the matrix, memory-mapped for reading."""
        return np.asanyarray(np.load(self.folder / _MATRIX, mmap_mode="r", allow_pickle=False))

    def _block(self, i: int, j: int) -> RealArray:
        side = self.side
        return self.values[i * side : (i + 1) * side, j * side : (j + 1) * side]


def _lock(path: Path, stack: ExitStack) -> None:
    try:
        stack.enter_context(locked(path / _LOCK))
    except InUseError:
        raise ParameterError(
            f"{named('store')} must be a folder that no other process is using, got {str(path)!r}. "
            "Wait for that process, or pass another folder."
        ) from None


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds anything but a store, complete or not."""
    if not path.exists() or (path / _PROBLEM).exists():
        return
    of_incomplete_store = (_MATRIX, _SUMS, _LOCK)
    if not path.is_dir() or any(
        entry.name not in of_incomplete_store and not entry.name.endswith(".part") for entry in path.iterdir()
    ):
        raise ParameterError(
            f"{named('store')} must be a new folder or one that an earlier call created, got {str(path)!r}, which "
            "holds other files. Pass another folder."
        )


def _stored_side(path: Path, about: dict[str, Any]) -> int | None:
    """Return the side of the blocks in a folder of the same problem; None if there is nothing in it yet."""
    description = path / _PROBLEM
    if not description.exists():
        return None
    stored = unsealed_line(description.read_bytes())
    if stored is None:
        raise ParameterError(
            f"{named('store')} must be a new folder or one created with the same series and settings, got "
            f"{str(path)!r}, whose {_PROBLEM} is damaged or of an older version. Pass another folder, or delete this "
            "one."
        )
    differing = [name for name in about if stored.get(name) != about[name]]
    if differing:
        raise ParameterError(
            f"{named('store')} must be a new folder or one created with the same series and settings, got "
            f"{str(path)!r}, whose {differing[0]} differs. Pass another folder, or delete this one."
        )
    return int(stored["side"])


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """Map an .npy file into memory, extended to its full length first, so that no block can meet a full disk.

    Damaged or missing parts are found by the checksums of the blocks.
    """
    header = io.BytesIO()
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)  # type: ignore[no-untyped-call]
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(header.getvalue())
        reserve(file, header.tell() + dtype.itemsize * shape[0] * shape[1])
    return np.memmap(path, dtype, "r+", header.tell(), shape)


def _checksum(values: RealArray) -> int:
    return _FINISHED_BIT | zlib.crc32(np.ascontiguousarray(values).data)


def fingerprint(job: Job, a: Windowed, b: Windowed | None) -> str:
    """Hash of everything that the matrix depends on."""
    settings = {**asdict(job), "order": a.order}
    del settings["gaps"]  # the windows say so
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    sides = (a,) if b is None else (a, b)
    for side in sides:
        for array in (side.collection.frames, side.collection.frame_offsets, side.window_times, side.window_offsets):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
