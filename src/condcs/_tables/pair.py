"""Two tables as the four arrays that condcs compares, with an account of every row."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray
from condcs._core.errors import DataError, OverlapError, ParameterError
from condcs._core.printable import counted, listed
from condcs._tables.kinds import (
    Column,
    Decimal,
    Derived,
    as_number,
    derive_inputs,
    is_missing,
    label_of,
    reads,
    separates_thousands,
    tell_kind,
)
from condcs._tables.sources import (
    FEWEST_ROWS,
    Batch,
    Columns,
    Row,
    Table,
    TableOptions,
    check_path,
    column_name,
    open_table,
)

_MEGABYTE = 1 << 20
_SHOWN = 5
_FEWEST_COPIES = 0.05
"""Part of a table's rows that must repeat others for a note; with fewer of them p-values hardly change."""

_ROW_OVERHEAD = 120
"""Bytes of a row beside its cells, its key included."""

_Kept = tuple[float, int, Row, int]
"""Key, line, row and size of it."""

_key = itemgetter(0)


@dataclass(frozen=True)
class Sample:
    """Rows that were kept of a table, in its order; gaps in them are None."""

    rows: list[Row]
    lines: list[int]
    seen: int
    gaps: int  # rows with a missing value that is not wanted, none of them kept
    gaps_by_column: list[int]
    short_of_memory: bool = False  # whether the budget, not the number wanted, limited the sample
    # Random: of several samples together, the rows with the smallest keys are a sample as well.
    keys: list[float] = field(default_factory=list)


class RowSampler:
    """Keeps a uniform sample of the rows that it is given.

    Each row has a random key and the rows with the smallest keys stay, so memory is bounded by the sample, and neither
    the batches nor the length of the table, which is unknown until its end, change what is drawn. When the kept rows
    outgrow `memory` (bytes), fewer are kept from there on: the smallest keys still are a uniform sample. The first
    `may_lack` cells of a row may be missing; a gap in another one drops the row.
    """

    def __init__(self, columns: int, *, most: int, memory: int, may_lack: int = 0) -> None:
        self._kept: list[_Kept] = []
        self._limit, self._bound, self._memory, self._may_lack = most, 1.0, memory, may_lack
        self._short = False
        self.seen = self.gaps = 0
        self._by_column = [0] * columns

    def add(self, rows: Iterable[Row], lines: Iterable[int], keys: Iterable[float]) -> None:
        """Take in rows, each with its line and its key."""
        # Rows that no sample could want are still looked through for gaps, which are counted over the whole table.
        for key, line, row in zip(keys, lines, rows, strict=True):
            self.seen += 1
            absent = [c for c, cell in enumerate(row) if is_missing(cell)]
            for c in absent:
                self._by_column[c] += 1
            if absent and absent[-1] >= self._may_lack:
                self.gaps += 1
            elif key < self._bound:
                kept = [None if c in absent else cell for c, cell in enumerate(row)] if absent else row
                size = _ROW_OVERHEAD + sum(sys.getsizeof(cell) + 8 for cell in kept)
                self._kept.append((key, line, kept, size))
        self._trim()

    def _trim(self) -> None:
        kept = self._kept
        if len(kept) > self._limit:
            kept.sort(key=_key)
            del kept[self._limit :]
            self._bound = kept[-1][0]
        size = sum(entry[3] for entry in kept)
        if size > self._memory:
            kept.sort(key=_key)
            while size > self._memory and kept:
                size -= kept.pop()[3]
            if not kept:
                raise DataError(
                    "`memory` must have room for a few rows, but a single one is larger. Choose fewer columns with "
                    "`x`, or give more memory."
                )
            self._limit, self._bound, self._short = len(kept), kept[-1][0], True

    def sample(self) -> Sample:
        """Return the rows, in the table's order."""
        kept = sorted(self._kept, key=itemgetter(1))
        rows, lines, keys = [row for _, _, row, _ in kept], [line for _, line, _, _ in kept], [k for k, *_ in kept]
        return Sample(rows, lines, self.seen, self.gaps, self._by_column, self._short, keys)


def sample_rows(
    batches: Iterable[Batch], columns: int, *, most: int, memory: int, seed: tuple[int, int], may_lack: int = 0
) -> Sample:
    """Keep a uniform sample of the rows of a table; see `RowSampler`."""
    generator = np.random.default_rng(seed)
    sampler = RowSampler(columns, most=most, memory=memory, may_lack=may_lack)
    for batch in batches:
        sampler.add(batch, batch.lines, generator.random(len(batch)).tolist())
    return sampler.sample()


def together(samples: Sequence[Sample], most: int) -> list[tuple[int, int]]:
    """Return a uniform sample of several samples' tables: which sample, and which row of it."""
    # Beyond the largest key of a sample that left rows out, rows of its table are absent.
    bound = min((max(s.keys) for s in samples if len(s.keys) < s.seen - s.gaps), default=1.0)
    rows = sorted((key, place, row) for place, s in enumerate(samples) for row, key in enumerate(s.keys))
    return sorted((place, row) for key, place, row in rows[:most] if key <= bound)


def same_decimals(
    samples: Sequence[Sample], titles: Sequence[str], columns: int, decimal: Decimal
) -> tuple[list[Sample], list[str]]:
    """Return samples whose first columns have the decimal sign that was named, and a note on each that had another.

    A column is rewritten where one table has numbers by the named sign alone, and another by the other sign alone,
    unless that one may separate thousands.
    """
    other: Decimal = "," if decimal == "." else "."
    rewritten: list[list[int]] = [[] for _ in samples]
    for place in range(columns):
        cells = [[row[place] for row in sample.rows if isinstance(row[place], str)] for sample in samples]
        foreign = [any(other in cell for cell in texts) and _by(texts, other) for texts in cells]
        if any(foreign) and any(any(decimal in cell for cell in texts) and _by(texts, decimal) for texts in cells):
            for number, is_foreign in enumerate(foreign):
                rewritten[number] += [place] if is_foreign else []
    made = [
        replace(s, rows=[_rewritten(row, places, other, decimal) for row in s.rows]) if places else s
        for s, places in zip(samples, rewritten, strict=True)
    ]
    sign = {".": "points", ",": "commas"}[other]
    found = dict.fromkeys(title for title, places in zip(titles, rewritten, strict=True) if places)
    return made, [f"{title} has decimal {sign}: its numbers were read so." for title in found]


def _by(texts: Sequence[str], decimal: Decimal) -> bool:
    """Whether texts are numbers with a decimal sign which does not separate thousands."""
    signed = [text for text in texts if decimal in text]
    return not all(map(separates_thousands, signed)) and all(reads(as_number, text, decimal) for text in texts)


def _rewritten(row: Sequence[Any], places: Sequence[int], other: str, decimal: str) -> list[Any]:
    cells = list(row)
    for place in places:
        if isinstance(cells[place], str):
            cells[place] = cells[place].replace(other, decimal)
    return cells


@dataclass(frozen=True)
class ReadOptions(TableOptions):
    """Which columns and rows of tables are wanted, and how they are read."""

    x: Columns | None = None
    y: Columns = ()
    max_rows: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class Wanted:
    """The names of the columns to be read."""

    x: list[str]
    y: list[str]
    named: Set[str]
    weights: str | None = None
    cluster: str | None = None

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.x, *self.y, *(n for n in (self.weights, self.cluster) if n is not None)]))


@dataclass(frozen=True)
class Account:
    """What became of a table's rows."""

    title: str
    seen: int
    gaps: int
    used: int
    short_of_memory: bool

    @property
    def sampled(self) -> bool:
        """Whether some rows without gaps were left out."""
        return self.used < self.seen - self.gaps


@dataclass(frozen=True, eq=False)
class Pair(ByValue):
    """Two tables, read."""

    x: tuple[Column, ...]  # columns that are compared
    y: tuple[Column, ...]
    xp: FloatArray  # p is the reference, q the current table; categories are coded by their place in `Column.labels`
    yp: FloatArray
    xq: FloatArray
    yq: FloatArray
    reference: Account
    current: Account
    notes: tuple[str, ...] = ()  # what was left out, and why
    weights_p: FloatArray | None = None
    weights_q: FloatArray | None = None
    clusters_p: IntArray | None = None  # what each row belongs to; the same number is the same in both tables
    clusters_q: IntArray | None = None


@dataclass(frozen=True)
class Encoded:
    """A table as numbers; weights and clusters are those of `Pair`."""

    columns: list[FloatArray]  # inputs, then responses: numbers, days or codes; NaN are gaps
    account: Account
    weights: FloatArray | None = None
    clusters: IntArray | None = None
    notes: Sequence[str] = ()  # on all tables that were read together


def read_pair(reference: str | Table, current: str | Table, options: ReadOptions) -> Pair:
    """Read two tables; the columns of the first decide, and the second must have them too."""
    if reference == current == "-":
        raise ParameterError("only one of the two tables can come from standard input. Name a file for the other.")
    for source in (reference, current):
        check_path(source)
    samples: list[tuple[Table, Sample]] = []
    wanted = Wanted([], [], frozenset())
    for place, source in enumerate((reference, current)):
        with open_table(source, options) as table:
            if place == 0:
                wanted = choose_columns(options, table)
            may_lack = len(wanted.x) if options.missing == "as-value" else 0
            samples.append((table, read_sample(table, wanted.names, options, place, may_lack=may_lack)))
    told, tables = encode_samples(wanted, samples, options)
    return make_pair(wanted, told, *tables)


def choose_columns(options: ReadOptions, table: Table, aside: Sequence[str] = ()) -> Wanted:
    """Choose the columns of a table; weights, clusters and what stands `aside` are no inputs."""
    weights = select_one("weights", options.weights, table.names, table.title)
    cluster = select_one("cluster", options.cluster, table.names, table.title)
    apart = [*aside, *(name for name in (weights, cluster) if name is not None)]
    x, y = choose_x_and_y(options.x, options.y, table.names, table.title, apart)
    return Wanted(x, y, frozenset(_patterns(options.x, table.names)) & frozenset(x), weights, cluster)


def read_sample(
    table: Table, names: list[str], options: ReadOptions, place: int, *, may_lack: int | None = None
) -> Sample:
    """Read a sample of some columns; gaps are an error unless they are to be dropped.

    The first `may_lack` columns may have gaps; None means that gaps cannot be values at all.
    """
    memory = options.memory * _MEGABYTE // 2
    batches, seed = table.batches(places_of(table, names)), (options.seed, place)
    sample = sample_rows(batches, len(names), most=options.max_rows, memory=memory, seed=seed, may_lack=may_lack or 0)
    check_gaps(table.title, names, sample, options, as_values=may_lack is not None)
    if len(sample.rows) < FEWEST_ROWS:
        whole = counted(sample.seen, "row") + (f", {sample.gaps:,} with missing values" if sample.gaps else "")
        raise DataError(f"{table.title} must have at least {FEWEST_ROWS} rows to compare, got {whole}. Collect more.")
    return sample


def places_of(table: Table, names: Sequence[str]) -> list[int]:
    """Return where columns are in a table that must have them."""
    found = {name: place for place, name in enumerate(table.names)}
    missing = [name for name in names if name not in found]
    if missing:
        # One message for all: a table of another shape would otherwise be mended name by name.
        raise DataError(
            f"{table.title} must have the columns of the reference, but lacks {listed([*map(repr, missing)], _SHOWN)}. "
            "Name the columns to compare with `x`."
        )
    return [found[name] for name in names]


def check_gaps(
    title: str, names: Sequence[str], sample: Sample, options: ReadOptions, *, as_values: bool = True
) -> None:
    """Raise an error if there are gaps without an option that allows them, or a column of nothing but gaps.

    `as_values` tells whether gaps could be values.
    """
    empty = [name for name, count in zip(names, sample.gaps_by_column, strict=True) if count == sample.seen]
    if empty and sample.gaps == sample.seen > 0:
        raise DataError(
            f"{title} must hold values in each column compared, got none at all in "
            f"{listed([*map(repr, empty)], _SHOWN)}. Leave inputs without values out with "
            f"x={','.join(f'!{name}' for name in empty)!r}; for `y`, name another column."
        )
    if sample.gaps and options.missing == "error":
        worst = sorted(zip(names, sample.gaps_by_column, strict=True), key=lambda pair: -pair[1])
        told = ", ".join(f"{name!r} ({count:,})" for name, count in worst[:_SHOWN] if count)
        as_value = "let gaps count as values with tables=TableOptions(missing='as-value'), "
        raise DataError(
            f"{title} must have no missing or infinite values in the columns compared, got {sample.gaps:,} of "
            f"{counted(sample.seen, 'row')} with one: {told}. Drop such rows with tables=TableOptions(missing='drop'), "
            f"{as_value if as_values else ''}or fill them in first."
        )


def encode_samples(
    wanted: Wanted, samples: Sequence[tuple[Table, Sample]], options: ReadOptions
) -> tuple[list[Column], list[Encoded]]:
    """Find out what the columns are, from all samples together, and return each sample as numbers."""
    compared = [*wanted.x, *wanted.y]
    titles = [table.title for table, _ in samples]
    made, notes = same_decimals([s for _, s in samples], titles, len(wanted.names), options.decimal)
    samples = [(table, sample) for (table, _), sample in zip(samples, made, strict=True)]
    told = tell_columns(compared, samples, options, responses=set(wanted.y))
    places = {name: place for place, name in enumerate(wanted.names)}
    clusters: dict[str, int] = {}
    tables = []
    for table, sample in samples:
        cells = list(zip(*sample.rows, strict=True))
        encoded = [column.encode(cells[place], table.title) for place, column in enumerate(told)]
        account = Account(table.title, sample.seen, sample.gaps, len(sample.rows), sample.short_of_memory)
        weights = None if wanted.weights is None else _weights(cells[places[wanted.weights]], table, sample, options)
        codes = None
        if wanted.cluster is not None:
            labels = (label_of(cell) for cell in cells[places[wanted.cluster]])
            codes = np.array([clusters.setdefault(label, len(clusters)) for label in labels])
        tables.append(Encoded(encoded, account, weights, codes, notes))
    return told, tables


def make_pair(wanted: Wanted, told: Sequence[Column], reference: Encoded, current: Encoded) -> Pair:
    """Return two tables as the arrays that are compared."""
    values = list(zip(reference.columns, current.columns, strict=True))
    inputs, said = derive_inputs(told[: len(wanted.x)], values, wanted.named)
    notes = [*current.notes, *said, *_copies(reference), *_copies(current)]
    faults, responses = [], []
    for place in range(len(wanted.x), len(told)):
        column = told[place]
        response = Derived(column, values[place])
        responses.append(response)
        notes += [column.note] if column.note else []
        if not response.varies:
            words = f"`y` must vary, but {column.name!r} has the same value in all rows. Name another column."
            faults.append((column.name, words))
    refuse_columns(faults)
    if not inputs:
        raise DataError(
            " ".join(["every column of `x` has the same value in all rows: there is nothing to condition on.", *notes])
        )
    _check_overlap(inputs)
    _check_labels(responses)
    xp, xq = (np.column_stack([derived.values[table] for derived in inputs]) for table in (0, 1))
    yp, yq = (np.column_stack([derived.values[table] for derived in responses]) for table in (0, 1))
    return Pair(
        tuple(derived.column for derived in inputs),
        tuple(derived.column for derived in responses),
        xp,
        yp,
        xq,
        yq,
        reference.account,
        current.account,
        tuple(notes),
        reference.weights,
        current.weights,
        reference.clusters,
        current.clusters,
    )


def tell_columns(
    names: Sequence[str], samples: Sequence[tuple[Table, Sample]], options: ReadOptions, responses: set[str]
) -> list[Column]:
    """Find out what the columns are; all that cannot be used are named in one error."""
    category, number = (
        select_columns(
            option, [name_of(key, samples[0][0].names) for key in as_keys(given)], names, "the columns compared"
        )
        for option, given in (("category", options.category), ("number", options.number))
    )

    def where(place: int, row: int) -> str:
        table, sample = samples[place]
        return f" in {table.unit} {sample.lines[row]:,} of {table.title}"

    columns, faults = [], []
    for place, name in enumerate(names):
        cells = [[row[place] for row in sample.rows] for _, sample in samples]
        said = True if name in category else False if name in number else None
        try:
            columns.append(
                tell_kind(name, cells, category=said, response=name in responses, decimal=options.decimal, where=where)
            )
        except DataError as error:
            faults.append((name, str(error)))
    refuse_columns(faults)
    return columns


def refuse_columns(faults: Sequence[tuple[str, str]]) -> None:
    """Raise one error for all columns that cannot be used: pairs of a name and what is wrong with it."""
    if len(faults) == 1:
        raise DataError(faults[0][1])
    if faults:
        told = " ".join(f"({number}) {words}" for number, (_, words) in enumerate(faults[:_SHOWN], start=1))
        rest = ", ".join(repr(name) for name, _ in faults[_SHOWN:])
        raise DataError(f"{len(faults)} columns cannot be used. {told}{f' The same holds for {rest}.' if rest else ''}")


def _weights(cells: Sequence[Any], table: Table, sample: Sample, options: ReadOptions) -> FloatArray:
    """Return weights, which must be positive numbers."""
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            values[row] = as_number(cell, options.decimal)
        except ValueError:
            values[row] = 0.0
        if values[row] <= 0:
            raise DataError(
                f"`weights` must name a column of positive numbers, got {cell!r} in {table.unit} "
                f"{sample.lines[row]:,} of {table.title}. Remove rows without weight from the table."
            )
    return values


def _copies(table: Encoded) -> list[str]:
    """Return a note on rows that repeat others, unless equal rows are to be expected or clusters say what they are."""
    rows = np.column_stack(table.columns)
    n, most_values = len(rows), max(len(np.unique(column)) for column in table.columns)
    if table.clusters is not None or most_values == n:
        return []
    # By their bytes: gaps are then equal to one another.
    different = len(np.unique(np.ascontiguousarray(rows).view(f"V{rows.itemsize * rows.shape[1]}")))
    # Some column tells nearly all different rows apart, so that chance alone makes no two of them equal.
    if n - different < _FEWEST_COPIES * n or most_values < 0.9 * different:
        return []
    return [
        f"{n - different:,} of {counted(n, 'row')} of {table.account.title} repeat other rows exactly. If they are "
        "copies and not observations of their own, p-values are too small: remove them first."
    ]


def _check_overlap(inputs: Sequence[Derived]) -> None:
    apart, ranges = [], []
    for derived in inputs:
        p, q = derived.values
        column = derived.column
        if not set(p) & set(q) if column.is_category else float(p.max()) < q.min() or float(q.max()) < p.min():
            apart.append(column.source or column.name)
            if column.kind == "number":
                ranges.append(f"{column.name!r}: {p.min():.4g} to {p.max():.4g}, then {q.min():.4g} to {q.max():.4g}")
    if apart:
        have = f"column {apart[0]!r} has" if len(apart) == 1 else f"columns {', '.join(map(repr, apart))} have"
        found = f" ({'; '.join(ranges)})" if ranges else ""
        raise OverlapError(
            f"{have} no value in common between the two tables{found}, so no rows with equal inputs can be compared. "
            f"If the units differ, convert one of the tables; otherwise leave {'it' if len(apart) == 1 else 'them'} "
            f"out with x={','.join(f'!{name}' for name in apart)!r}."
        )


def _check_labels(responses: Sequence[Derived]) -> None:
    """Raise an error if the labels of a response in the two tables have nothing in common."""
    for column, (p, q) in ((derived.column, derived.values) for derived in responses):
        if column.is_category and not set(p) & set(q):
            before, now = (repr(column.labels[int(values[0])]) for values in (p, q))
            raise OverlapError(
                f"column {column.name!r} of `y` has no label in common between the two tables (e.g. {before} and "
                f"{now}): there is nothing to compare. Spell the labels alike in both, or name another column."
            )


MOST_COLUMNS = 500
"""Columns of x; with more, neither the nulls nor distances have a meaning that samples of this size could carry."""

_NAMES_SHOWN = 12


def select_columns(option: str, given: Columns | None, names: Sequence[str], title: str) -> list[str]:
    """Return the columns that patterns name, in the table's order within each pattern.

    A pattern is a name, a glob (``area_*``), or either with a leading ``!``, which takes columns away again; several
    may be separated by commas. A column whose name holds a comma or a star is matched by its whole name first. The
    columns of arrays have numbers, negative ones from the end.
    """
    chosen: dict[str, None] = {}
    known = set(names)
    unknown = []
    for pattern in _patterns(given, names):
        without = pattern.startswith("!") and pattern not in known
        wanted = pattern[1:] if without else pattern
        matches = [wanted] if wanted in known else [name for name in names if fnmatchcase(name, wanted)]
        if not matches:
            unknown.append(wanted)
        elif without:
            # A list of exceptions alone means everything else.
            chosen = chosen or dict.fromkeys(names)
            for name in matches:
                chosen.pop(name, None)
        else:
            chosen.update(dict.fromkeys(matches))
    if unknown:
        # All of them in one message: a long list would otherwise be mended name by name.
        remedies = " ".join(dict.fromkeys(_remedy(wanted, names) for wanted in unknown))
        keys = {name_of(key, names): key for key in as_keys(given)}
        got = ", ".join(repr(keys.get(name, name)) for name in unknown)
        raise ParameterError(f"`{option}` must name columns of {title}, got {got}. {remedies}")
    return list(chosen)


def select_one(option: str, given: Columns | None, names: Sequence[str], title: str) -> str | None:
    """Return the one column that patterns name, or None where there are none."""
    chosen = select_columns(option, given, names, title)
    if len(chosen) > 1:
        raise ParameterError(
            f"`{option}` must name one column of {title}, got {', '.join(map(repr, chosen[:_NAMES_SHOWN]))}. Name one "
            "of them."
        )
    return chosen[0] if chosen else None


def choose_x_and_y(
    x: Columns | None, y: Columns, names: Sequence[str], title: str, aside: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the columns of x and of y; x is everything but y, and what stands aside, where it is not given."""
    responses = select_columns("y", y, names, title)
    if set(responses) & set(aside):
        raise ParameterError(
            f"`y` must be a column of its own, got {', '.join(map(repr, aside))}, which has another role. Name another."
        )
    if not responses:
        raise ParameterError(f"`y` must name a column of {title}, got none. {_remedy('', names)}")
    taken = {*responses, *aside}
    inputs = [name for name in select_columns("x", as_keys(x) or ["*"], names, title) if name not in taken]
    if not inputs:
        raise ParameterError(
            f"`x` must leave at least one column beside `y`, got none of the {len(names)} columns of {title}. "
            f"{_remedy('', names)}"
        )
    if len(inputs) > MOST_COLUMNS:
        raise ParameterError(
            f"`x` must name at most {MOST_COLUMNS} columns, got {len(inputs):,}. Name the ones that matter, e.g. "
            f"x={','.join(inputs[:3])!r}, or a glob such as x={inputs[0][:4] + '*'!r}."
        )
    return inputs, responses


def as_keys(given: Columns | None) -> list[Any]:
    """Return one or several columns as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)


def name_of(key: Any, names: Sequence[str]) -> str:
    """Return the name of a column that goes by a number or another key."""
    if isinstance(key, int | np.integer) and key < 0 and [*names] == [*map(column_name, range(len(names)))]:
        key += len(names)
    return column_name(key)


def _patterns(given: Columns | None, names: Sequence[str]) -> list[str]:
    """Split patterns at commas, but not within the name of a column that holds some."""
    parts: list[str] = []
    known = {*names, *(f"!{name}" for name in names)}
    for key in as_keys(given):
        pieces = name_of(key, names).split(",")
        while pieces:
            runs = ((count, ",".join(pieces[:count])) for count in range(len(pieces), 0, -1))
            named = ((count, part) for count, run in runs for part in (run, run.strip()) if part in known)
            count, part = next(named, (1, pieces[0].strip()))
            parts += [part] if part else []
            pieces = pieces[count:]
    return parts


def _remedy(wanted: str, names: Sequence[str]) -> str:
    close = get_close_matches(wanted, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Its columns are {listed([*map(repr, names)], _NAMES_SHOWN)}."
