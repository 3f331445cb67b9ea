"""Divergences of samples that are larger than memory: rows are read anew for each pass of the sampled supplier."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from condcs._core.arrays import NUMPY, FloatArray, IntArray
from condcs._core.checks import Groups, Variable, check_options
from condcs._core.errors import DataError, ParameterError, ShapeError, public
from condcs._core.printable import counted
from condcs._core.vocabulary import named, setting
from condcs._kernels.bandwidths import Bandwidth, median_rows
from condcs._kernels.named_kernels import NAMED_KERNELS, KernelOption, check_kernel, log_kernel
from condcs._kernels.row_chunks import RowChunk, RowKernels, rounded_centre
from condcs._measures.formulas import weight_totals
from condcs._measures.inputs import refuse_both
from condcs._measures.registry import MEASURES, measure_named
from condcs._measures.sampled import CHUNK_ROWS, Sampled, SampledFloat, sampled_value
from condcs._parallel.spreading import Shared, active_workers, in_order, on_threads, spread

T = TypeVar("T")

# Labels of a column: all of them are held in memory and sorted. More are more likely a number or a name of each row.
_MOST_LABELS = 100_000


@public
def chunked_divergence(
    p: Any,
    q: Any,
    *,
    measure: Literal["conditional_cs", "conditional_euclidean", "cs", "mmd", "joint_mmd"] = "conditional_cs",
    x: str | Sequence[str] | None = None,
    y: str | Sequence[str] | None = None,
    weights: str | None = None,
    method: Sampled | None = None,
    **options: Any,
) -> SampledFloat:
    """Divergence between two samples that are larger than memory.

    The result is that of the measure's own function with ``method="sampled"``, up to rounding, but rows are read in
    parts, in several passes, and never all held in memory. Parts are processed by threads or, within
    ``joblib.parallel_config(backend="dask")``, by the workers of a Dask cluster, which read them themselves.
    Cost O(n d) for each anchor; memory O(rows of a part).

    Parameters
    ----------
    p, q : arrays, path, dataset, Dask DataFrame, or callable
        The samples. A pair (x, y), or triple (x, y, weights), of arrays of any kind that can be sliced: memory-mapped
        or Dask arrays. The path of a Parquet file or folder, or a dataset of pyarrow. A Dask DataFrame. Or a function
        without arguments that returns an iterator of chunks, the same ones each time: pairs (x, y), or tables of
        pandas, pyarrow or polars; or a single such table. For "cs" and "mmd", which compare p(y), y alone instead of
        (x, y).
    measure : {"conditional_cs", "conditional_euclidean", "cs", "mmd", "joint_mmd"}
        Which divergence.
    x, y : str or sequence of str, optional
        The columns of tables that are x and y.
    weights : str, optional
        The column of tables that holds weights.
    method : Sampled, optional
        Target of the standard error, time limit and seed.
    **options
        Keyword options of the measure, e.g. ``bandwidth_x``, ``kernel_y``, ``estimator``; of the bandwidth rules,
        "median" and "joint_median". A kernel "delta" compares labels.

    Returns
    -------
    SampledFloat
        A float with the attributes ``standard_error``, ``n_anchors`` and ``target_met``.

    Examples
    --------
    >>> import numpy as np
    >>> def chunks(slope):
    ...     def make():
    ...         rng = np.random.default_rng(0)
    ...         for _ in range(3):
    ...             x = rng.normal(size=1000)
    ...             yield x, slope * x + rng.normal(size=1000)
    ...
    ...     return make
    >>> divergence = chunked_divergence(chunks(1.0), chunks(-1.0))
    >>> bool(divergence > 0.1), divergence.target_met
    (True, True)
    """
    chosen = measure_named(measure)
    if chosen.row_sums is None:
        able = ", ".join(repr(m.name) for m in MEASURES.values() if m.row_sums is not None)
        raise ParameterError(f"`measure` must be one of {able} for data in chunks, got {measure!r}. Pass one of them.")
    check_options(options, chosen.options - {"weights_p", "weights_q"}, measure)
    sampled = Sampled() if method is None else method
    if not isinstance(sampled, Sampled):
        raise ParameterError(
            f"`method` must be a condcs.Sampled, got {method!r}. Pass e.g. method=condcs.Sampled(0.01)."
        )
    if not chosen.takes_x and options.pop("estimator", "resubstitution") != "resubstitution":
        raise ParameterError(
            '`estimator` must be "resubstitution" for data in chunks. The plug-in estimator is the same with sqrt(2) '
            "times the bandwidth: pass that as a number."
        )
    if x is not None and not chosen.takes_x:
        raise ParameterError(f"`x` must be None for {measure!r}, which compares p(y), got {x!r}. Leave it out.")
    plain = options.pop("bandwidth", None) if chosen.takes_x else None
    if plain is not None:
        refuse_both([name for name in ("bandwidth_x", "bandwidth_y") if name in options])
        options |= {"bandwidth_x": plain, "bandwidth_y": plain}
    variables = []
    for which, columns in {"x": x, "y": y}.items() if chosen.takes_x else [("y", y)]:
        role = f"_{which}" if chosen.takes_x else ""
        option = check_kernel(f"kernel{role}", options.pop(f"kernel{role}", "gaussian"))
        _check_bandwidth_is_known(option)
        names = [columns] if isinstance(columns, str) else columns
        variables.append(_Variable(which, names, option, f"bandwidth{role}", options.pop(f"bandwidth{role}", "median")))
    rows = ChunkedRows((p, q), _Reader(variables, weights), chosen.products)
    return sampled_value(sampled, rows, chosen.row_sums(rows, **options))


def _check_bandwidth_is_known(option: KernelOption) -> None:
    """Refuse kernels on labels that count combinations of labels in all rows at once."""
    names = option.names(1)
    if any(NAMED_KERNELS[name].similarities is not None for name in names):
        raise ParameterError(
            f"{named(option.option)} must be a kernel other than {names[0]!r} for data in chunks: how much labels have "
            f"in common is found from all rows at once. Pass {setting(option.option, 'delta')}."
        )


@dataclass(frozen=True)
class _Variable:
    """A variable of both samples: its name, its columns in tables, its kernel, and its bandwidths with their option."""

    name: str
    columns: Sequence[str] | None
    kernel: KernelOption
    option: str
    bandwidth: Bandwidth


_SAMPLES = ("p", "q")


@dataclass(frozen=True)
class _Reader:
    """How the rows of a part become numbers; `weights` names their column in tables."""

    variables: Sequence[_Variable]
    weights: str | None
    labels: tuple[dict[int, list[Any]], ...] = ()
    """Labels in ascending order of each label column of each variable, after the first pass: {column: labels}."""

    @property
    def columns(self) -> list[str] | None:
        """All columns of tables that are read, each once; None if no columns were named for some variable."""
        if any(v.columns is None for v in self.variables):
            return None
        chosen = [name for v in self.variables for name in v.columns or ()]
        return list(dict.fromkeys([*chosen, *([] if self.weights is None else [self.weights])]))

    @property
    def expected(self) -> str:
        """What arrays of a sample are."""
        return "an array, or a pair (y, weights)" if len(self.variables) == 1 else "a pair (x, y), or (x, y, weights)"

    def arrays(self, source: Any) -> tuple[Any, ...] | None:
        """Return a tuple of arrays, or a single one where y is all there is; None for anything else."""
        if isinstance(source, tuple | list):
            return tuple(source)
        return (source,) if len(self.variables) == 1 and hasattr(source, "shape") and hasattr(source, "dtype") else None

    def split(self, chunk: Any, sample: str) -> tuple[list[Any], Any]:
        """Return the variables and the weights of arrays, or of a table: pandas, pyarrow, polars, or a dictionary."""
        arrays, count = self.arrays(chunk), len(self.variables)
        if arrays is not None and len(arrays) in (count, count + 1):
            return list(arrays[:count]), arrays[count] if len(arrays) > count else None
        if self.columns is None:
            raise ParameterError(
                f"`{sample}` must yield {self.expected}, where no columns are named, got {type(chunk).__name__}. Pass "
                "e.g. x=['age'], y='price'."
            )
        try:
            variables = [[np.asarray(chunk[name]) for name in v.columns or ()] for v in self.variables]
            weights = None if self.weights is None else np.asarray(chunk[self.weights])
        except (KeyError, LookupError) as error:
            names = ", ".join(self.columns)
            raise DataError(f"`{sample}` must have the columns {names}: {error}. Check the names.") from None
        return [_table(columns) for columns in variables], weights

    def tables(
        self, part: SamplePart, group: int, summary: _Summary | None = None
    ) -> tuple[list[Any], FloatArray | None]:
        """Return the variables of a part as tables, and its weights; refuse a part that its summary does not fit."""
        arrays, weights = self.split(part() if callable(part) else part, _SAMPLES[group])
        sample, tables = _SAMPLES[group], []
        for variable, array in zip(self.variables, arrays, strict=True):
            table = np.asarray(array)
            table = table[:, None] if table.ndim == 1 else table
            if table.ndim != 2 or table.shape[1] == 0:
                raise ShapeError(
                    f"`{sample}` must have one or two dimensions in {variable.name}, got shape {table.shape} in a "
                    "chunk. Rows are observations."
                )
            tables.append(table)
        if len(lengths := {len(table) for table in tables}) > 1:
            raise ShapeError(
                f"`{sample}` must have as many rows of x as of y, got {sorted(lengths)} in a chunk. Row i of one "
                "belongs to row i of the other."
            )
        if weights is not None:
            tables, weights = self.present(tables, weights, group)
        if summary is not None and (len(tables[0]) != summary.size or _edges(tables) != summary.edges):
            raise _changed(group)
        return tables, weights

    def present(self, tables: list[Any], weights: Any, group: int) -> tuple[list[Any], FloatArray]:
        """Return tables and weights without the rows of weight 0, which are absent here as they are in memory."""
        weights = self.numbers(np.asarray(weights).reshape(-1, 1), group, "weights")[:, 0]
        if len(weights) != len(tables[0]) or (weights < 0).any():
            raise DataError(
                f"`{_SAMPLES[group]}` must have one non-negative weight per row, got {len(weights)} for "
                f"{len(tables[0])} rows of a chunk, the smallest {weights.min(initial=0.0):g}. Set unwanted rows to 0."
            )
        rows = weights > 0
        return [table[rows] for table in tables], weights[rows]

    def values(self, tables: list[Any], group: int) -> list[FloatArray]:
        """Return the variables as numbers, labels as codes."""
        variables = []
        for variable, table, labels in zip(self.variables, tables, self.labels, strict=True):
            numbers = np.empty(table.shape)
            for c in range(table.shape[1]):
                column = table[:, c]
                if c in labels:
                    numbers[:, c] = np.searchsorted(np.array(labels[c]), column.astype(type(labels[c][0])))
                else:
                    numbers[:, c] = self.numbers(column[:, None], group, variable.name)[:, 0]
            variables.append(numbers)
        return variables

    def numbers(self, table: Any, group: int, which: str) -> FloatArray:
        """Return a table as finite numbers."""
        try:
            numbers = table.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"`{_SAMPLES[group]}` must hold numbers in {which}, or labels with the delta kernel, got "
                f"{table[0, 0]!r}. Pass e.g. kernel_{which}='delta', or one kernel per column."
            ) from None
        if not np.isfinite(numbers).all():
            raise DataError(
                f"`{_SAMPLES[group]}` must be finite, got NaN or infinity in {which}. Drop those rows, or impute them."
            )
        return np.asarray(numbers)


def _edges(tables: list[Any]) -> str:
    return repr([table[[0, -1]].tolist() for table in tables if len(table)])


class _Summary(NamedTuple):
    """What the first pass finds in a part: rows, columns, sums, labels, the largest weight, and its first and last row.

    A later pass tells by these whether it reads the same part.
    """

    start: int
    size: int
    columns: tuple[int, ...]
    sums: list[FloatArray]
    labels: list[dict[int, set[Any]]]
    heaviest: float
    edges: str


class ChunkedRows:
    """The rows of two samples, part by part, in constant memory.

    The first pass counts rows and labels; the second, if a rule is to find a bandwidth, picks the rows that the rule
    looks at: the same as if all rows were in memory. Then come the passes of the sampled supplier.
    """

    def __init__(self, samples: tuple[Any, ...], reader: _Reader, products: tuple[tuple[int, ...], ...]) -> None:
        self._samples = [sample_parts(name, source, reader) for name, source in zip(_SAMPLES, samples, strict=True)]
        self._reader = reader
        self._summaries: list[list[_Summary]] = []
        self._heaviest = 1.0
        means = self._count()
        options = tuple(v.kernel for v in reader.variables)
        self.kernels = RowKernels(options, self._widths(means), means, products)
        self.categories: tuple[IntArray, IntArray] = np.zeros(1, np.int64), np.array([self.sizes])
        if options[0].matched_columns(len(means[0])):
            self.categories = self._count_categories()

    def _count(self) -> tuple[FloatArray, ...]:
        """Count rows and labels; return the means of the columns."""
        reader, summaries = self._reader, list[list[_Summary]]([[], []])
        for group, summary in self._each(lambda part, group, _: (group, _summary(reader, part, group))):
            start = sum(summaries[group][-1][:2]) if summaries[group] else 0
            summaries[group].append(summary._replace(start=start))
        self._summaries = summaries
        self.sizes = tuple(sum(s.size for s in of_group) for of_group in summaries)
        for name, of_group in zip(_SAMPLES, summaries, strict=True):
            if not max((s.heaviest for s in of_group), default=1.0) > 0:
                raise DataError(
                    f"`{name}` must have a positive total weight, got all zeros. Give some rows a positive weight."
                )
        for name, size in zip(_SAMPLES, self.sizes, strict=True):
            if size < 2:
                raise ShapeError(f"`{name}` must have at least 2 rows, got {size}. Pass more chunks.")
        every = [s for of_group in summaries for s in of_group if s.size]
        if len(widths := {s.columns for s in every}) > 1:
            raise ShapeError(
                f"`p` and `q` must have the same number of columns in all chunks, got {sorted(widths)} of "
                f"{', '.join(v.name for v in reader.variables)}. Pass the same columns each time."
            )
        self._heaviest = max(s.heaviest for s in every)
        labels: list[dict[int, list[Any]]] = []
        for which, variable in enumerate(reader.variables):
            labels.append({})
            for c in variable.kernel.label_columns(every[0].columns[which]):
                labels[which][c] = sorted(set().union(*(s.labels[which][c] for s in every)))
                if len(labels[which][c]) > _MOST_LABELS:
                    raise DataError(
                        f"column {c} of {variable.name} must have at most {_MOST_LABELS:,} labels, got "
                        f"{len(labels[which][c]):,}. Merge rare labels into one."
                    )
        self._reader = replace(reader, labels=tuple(labels))
        totals = [sum(s.sums[which] for s in every) / sum(self.sizes) for which in range(len(labels))]
        return tuple(rounded_centre(np.asarray(total)) for total in totals)

    def _widths(self, means: tuple[FloatArray, ...]) -> tuple[FloatArray | None, ...]:
        reader, n = self._reader, sum(self.sizes)
        wanted = np.arange(n)[median_rows(n)]

        def picked(part: SamplePart, group: int, summary: _Summary) -> list[FloatArray]:
            tables, _ = reader.tables(part, group, summary)
            first = summary.start + (self.sizes[0] if group else 0)
            rows = wanted[(wanted >= first) & (wanted < first + len(tables[0]))] - first
            return reader.values([t[rows] for t in tables], group)

        if any(isinstance(v.bandwidth, str) for v in reader.variables):
            some = list(self._each(picked))
            values = [np.concatenate([s[which] for s in some]) for which in range(len(means))]
        else:
            values = [np.stack([m, m + 1]) for m in means]
        widths = []
        for v, table in zip(reader.variables, values, strict=True):
            if isinstance(v.bandwidth, str) and v.bandwidth not in ("median", "joint_median"):
                raise DataError(
                    f"`{v.option}` must be a number, one per column, 'median' or 'joint_median' for data in chunks, "
                    f"got {v.bandwidth!r}. Find it from a subsample, with `condcs.bandwidth`."
                )
            names = tuple(f"{v.name}{c + 1}" for c in range(table.shape[1]))
            variable = Variable(table, (len(table),), names, "`p` and `q`")
            widths.append(log_kernel(v.kernel, v.option, v.bandwidth, variable, NUMPY, response=v.name == "y")[1])
        return tuple(widths)

    def _count_categories(self) -> tuple[IntArray, IntArray]:
        counts: dict[int, IntArray] = {}
        for group, codes, sizes in self.map(
            lambda chunk: (chunk.groups[0], *np.unique(chunk.codes, return_counts=True))
        ):
            for code, size in zip(codes.tolist(), sizes.tolist(), strict=True):
                counts.setdefault(code, np.zeros(2, np.int64))[group] += size
        ordered = sorted(counts)
        return np.array(ordered), np.stack([counts[c] for c in ordered])

    def count_absent(self) -> tuple[int, int]:
        _, counts = self.categories
        return int(counts[(counts == 0).any(axis=1)].sum()), sum(self.sizes)

    def weights(self) -> FloatArray:
        return self._summed(lambda chunk: chunk.weights.sum())

    def totals(self) -> FloatArray:
        kernels = self.kernels
        return self._summed(
            lambda chunk: weight_totals(kernels.on(chunk.values)[-1], Groups((len(chunk),), chunk.weights))[:, 0]
        )

    def _summed(self, function: Callable[[RowChunk], Any]) -> FloatArray:
        """Sum what a function makes of each chunk, by group (on the last axis)."""
        totals: list[Any] = [0.0, 0.0]
        for group, part in self.map(lambda chunk: (chunk.groups[0], function(chunk))):
            totals[group] = totals[group] + part
        return np.stack(totals, axis=-1)

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        reader, heaviest = self._reader, self._heaviest
        for results in self._each(
            lambda part, group, summary: _visited(function, reader, heaviest, part, group, summary)
        ):
            yield from results

    def _calls(self) -> Iterator[tuple[SamplePart, int, Any]]:
        for group, sample in enumerate(self._samples):
            if not self._summaries:
                yield from ((part, group, None) for part in sample())
                continue
            for part, summary in zip_longest(sample(), self._summaries[group]):
                if part is None or summary is None:
                    raise _changed(group)
                yield part, group, summary

    def _each(self, function: Callable[[SamplePart, int, Any], T]) -> Iterator[T]:
        """Call a function with every part, its group and its summary: on threads, or on active workers."""
        workers = active_workers()
        if workers is not None:
            shared = Shared(lambda: function)
            calls = ((shared, *call) for call in self._calls())
            yield from in_order(spread(operator.call, calls, workers, ahead=2))
            return
        yield from on_threads(function, self._calls())


def _changed(group: int) -> DataError:
    return DataError(
        f"`{_SAMPLES[group]}` must yield the same chunks each time it is read, got different ones. Pass a function "
        "that creates a new iterator over the same data each time; if the data change, write them to Parquet first."
    )


def _summary(reader: _Reader, part: SamplePart, group: int) -> _Summary:
    tables, weights = reader.tables(part, group)
    labels: list[dict[int, set[Any]]] = []
    sums = []
    for variable, table in zip(reader.variables, tables, strict=True):
        names = variable.kernel.label_columns(table.shape[1])
        labels.append({c: set(table[:, c].tolist()) for c in names})
        total = np.zeros(table.shape[1])
        for c in range(table.shape[1]):
            if c not in names:
                total[c] = reader.numbers(table[:, c : c + 1], group, variable.name).sum()
        sums.append(total)
    heaviest = 1.0 if weights is None else float(weights.max(initial=0.0))
    return _Summary(0, len(tables[0]), tuple(t.shape[1] for t in tables), sums, labels, heaviest, _edges(tables))


def _visited(
    function: Callable[[RowChunk], T], reader: _Reader, heaviest: float, part: SamplePart, group: int, summary: _Summary
) -> list[T]:
    """Return what a function makes of a part, in pieces that fit in memory several times over."""
    tables, weights = reader.tables(part, group, summary)
    values, n = reader.values(tables, group), len(tables[0])
    weights = np.ones(n) if weights is None else weights / heaviest
    codes = np.zeros(n, np.int64)
    for c, labels in reader.labels[0].items():
        codes = codes * len(labels) + values[0][:, c].astype(np.int64)
    rows = RowChunk(tuple(values), weights, np.full(n, group), summary.start + np.arange(n), codes)
    return [function(rows.take(slice(first, first + CHUNK_ROWS))) for first in range(0, n, CHUNK_ROWS)]


# Samples part by part: arrays on disk, Parquet and Arrow datasets, Dask collections.


SamplePart = Callable[[], Any] | Any
"""A function without arguments that returns arrays or a table of some rows, and can be sent to another process; or, of
a generator, these themselves."""

PART_ROWS = 65_536
"""Rows of a part of an array. Each is read at once by a thread or a worker: more take more memory, fewer more reads."""


def sample_parts(name: str, source: Any, reader: _Reader) -> Callable[[], Iterable[SamplePart]]:
    """Return a function that makes the parts of a sample anew, for each time that it is read."""
    if callable(source):
        make_parts: Callable[[], Iterable[SamplePart]] = source
        return make_parts
    if isinstance(source, Iterator):
        raise ParameterError(
            f"`{name}` must be a function that makes the iterator, because rows are read several times, got the "
            f"iterator itself. Pass e.g. {name}=lambda: chunks()."
        )
    arrays, columns = reader.arrays(source), reader.columns
    if arrays is not None:
        n = _common_length(name, arrays, reader)
        parts = [partial(_computed, *(a[span] for a in arrays)) for span in _spans(n)]
    elif columns is None:
        options = " and ".join(f"`{v.name}`" for v in reader.variables)
        raise ParameterError(
            f"{options} must name columns where `{name}` is a table or a dataset. Pass e.g. x=['age'], y='price'."
        )
    elif isinstance(source, str | Path) or type(source).__module__.startswith("pyarrow"):
        # One thread: parts are read by several threads or workers already.
        parts = [partial(f.to_table, columns=columns, use_threads=False) for f in _fragments(name, source, columns)]
    elif hasattr(source, "npartitions") and hasattr(source, "partitions"):
        chosen = source[columns]
        parts = [partial(_computed, chosen.partitions[i]) for i in range(source.npartitions)]
    elif hasattr(source, "columns") and hasattr(source, "shape"):
        return lambda: (source[span] for span in _spans(len(source)))
    else:
        raise DataError(
            f"`{name}` must be {reader.expected}, a DataFrame (of Dask as well), the path of a Parquet "
            f"dataset, a dataset of pyarrow, or a function that makes an iterator of chunks, got "
            f"{type(source).__name__}. Convert it to one of these."
        )
    return lambda: parts


def _spans(n: int) -> list[slice]:
    return [slice(start, start + PART_ROWS) for start in range(0, n, PART_ROWS)]


def _table(columns: list[Any]) -> Any:
    if len(columns) == 1:
        return columns[0][:, None]
    # Beside others, what is no number is an object: numpy would write the numbers as text.
    return np.column_stack([c if c.dtype.kind in "fiub" else c.astype(object) for c in columns])


def _common_length(name: str, arrays: tuple[Any, ...], reader: _Reader) -> int:
    if len(arrays) - len(reader.variables) not in (0, 1):
        raise ShapeError(
            f"`{name}` must be {reader.expected}, got {counted(len(arrays), 'array')}. Put them in a tuple."
        )
    lengths = [a.shape[0] for a in arrays]
    if any(np.isnan(n) for n in lengths):
        raise ShapeError(
            f"`{name}` must hold arrays of known length, got unknown ones. Call `.compute_chunk_sizes()` on the Dask "
            "arrays first."
        )
    if len(set(lengths)) != 1:
        raise ShapeError(
            f"`{name}` must hold arrays with the same number of rows, got {lengths}. Row i of each belongs together."
        )
    return int(lengths[0])


def _computed(*collections: Any) -> Any:
    """Compute Dask collections where this runs: their parts have been spread already."""
    computed = [c.compute(scheduler="synchronous") if hasattr(c, "compute") else c for c in collections]
    return computed if len(computed) > 1 else computed[0]


def _fragments(name: str, source: Any, columns: list[str]) -> list[Any]:
    """Return the parts of a dataset: files of Parquet by their row groups, those of other formats as they are."""
    try:
        import pyarrow.dataset
    except ModuleNotFoundError:
        raise ParameterError(
            f"`{name}` must be read with pyarrow, which is not installed. Install it: pip install pyarrow."
        ) from None
    try:
        dataset = source if hasattr(source, "get_fragments") else pyarrow.dataset.dataset(source)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"`{name}` must be a Parquet or Arrow dataset: {str(error).splitlines()[0]}") from None
    missing = [column for column in columns if column not in dataset.schema.names]
    if missing:
        raise DataError(
            f"`{name}` must have the column {missing[0]!r}, got {', '.join(dataset.schema.names)}. Check the names."
        )
    pieces = [f.split_by_row_group() if hasattr(f, "split_by_row_group") else [f] for f in dataset.get_fragments()]
    return [piece for of_file in pieces for piece in of_file]
