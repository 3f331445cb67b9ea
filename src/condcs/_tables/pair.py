"""Two tables as the four arrays that condcs compares, with an account of every row.

`read_pair` is the function to read first: it opens each table, chooses its columns, draws a sample of its rows
(`sampling`), finds out what the columns are from both samples together (`kinds`) and returns a `Pair`. Columns are
arrays all the way, never lists of rows. Which names and patterns mean which columns is said at the end
(`select_columns`). What is computed from a pair is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray
from condcs._core.errors import DataError, OverlapError, ParameterError
from condcs._core.printable import counted, listed
from condcs._core.vocabulary import named, setting, table_setting
from condcs._tables.cells import Cells, DecimalSign, as_number, reads
from condcs._tables.copies import count_copies
from condcs._tables.kinds import (
    Column,
    Derived,
    LeftOut,
    UnusableInput,
    derive_inputs,
    separates_thousands,
    tell_kind,
)
from condcs._tables.sampling import Sample, sample_rows
from condcs._tables.sources import (
    FEWEST_TABLE_ROWS,
    MEGABYTE,
    Columns,
    Table,
    TableBatch,
    TableOptions,
    UnusableInputs,
    check_paths,
    column_name,
    open_table,
)

_SHOWN = 5
"""So many columns or faults are named in a message; it says how many more there are."""


def same_decimals(
    samples: Sequence[Sample], titles: Sequence[str], columns: int, decimal: DecimalSign
) -> tuple[list[Sample], list[str]]:
    """Return samples whose first columns have the decimal sign that was named, and a note on each that had another.

    A column is rewritten where one table has numbers by the named sign alone, and another by the other sign alone,
    unless that one may separate thousands.
    """
    other: DecimalSign = "," if decimal == "." else "."
    rewritten = [list(sample.columns) for sample in samples]
    have_other_sign = set()
    for index in range(columns):
        texts_by_sample = [sample.columns[index].texts() for sample in samples]
        foreign = [_have_sign(texts, other) for texts in texts_by_sample]
        if any(foreign) and any(_have_sign(texts, decimal) for texts in texts_by_sample):
            for number in np.flatnonzero(foreign):
                rewritten[number][index] = rewritten[number][index].with_sign(decimal, instead_of=other)
                have_other_sign.add(titles[number])
    sign = {".": "points", ",": "commas"}[other]
    notes = []
    # In the order of the tables; the groups of one table have one title.
    for title in dict.fromkeys(titles):
        if title in have_other_sign:
            notes.append(f"{title} has decimal {sign}: its numbers were read so.")
    return [replace(sample, columns=cells) for sample, cells in zip(samples, rewritten, strict=True)], notes


def _have_sign(texts: Sequence[str], decimal: DecimalSign) -> bool:
    """Whether texts are numbers, some of them with a decimal sign, which does not separate thousands in all."""
    signed = [text for text in texts if decimal in text]
    return (
        bool(signed)
        and not all(map(separates_thousands, signed))
        and all(reads(as_number, text, decimal) for text in texts)
    )


@dataclass(frozen=True)
class LossColumn:
    """The column that the loss of a row is made of; it is read as a further response."""

    argument: str  # that names it: "prediction" or "loss"
    column: str | int


@dataclass(frozen=True)
class ReadOptions(TableOptions):
    """Which columns and rows of tables are wanted, and how they are read."""

    x: Columns | None = None
    y: Columns = ()
    loss: LossColumn | None = None
    max_rows: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class Wanted:
    """The names of the columns to be read."""

    x: list[str]
    responses: dict[str, str]  # the argument that names each
    asked_for: Set[str]  # those of x that are named one by one, and not by a pattern
    weights: str | None = None
    cluster: str | None = None
    unusable: UnusableInputs = "leave-out"

    @property
    def required(self) -> list[str]:
        """Those without which a row cannot be used: the responses, the weight and the cluster."""
        others = [name for name in (self.weights, self.cluster) if name is not None]
        return list(dict.fromkeys([*self.responses, *others]))

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.x, *self.required]))


@dataclass(frozen=True)
class Account:
    """What became of a table's rows."""

    title: str
    seen: int
    gaps: int
    used: int
    short_of_memory: bool
    gaps_by_input: tuple[tuple[str, int], ...] = ()  # inputs whose gaps count as values, and in how many rows
    required: tuple[str, ...] = ()  # columns whose gaps dropped rows; empty: any column compared
    unit: str = "row"  # in which lines are counted
    copies: int = 0  # rows used that repeat others exactly, if they are many and not to be expected

    @property
    def has_all_rows(self) -> bool:
        """Whether no row of the table was left out, so that what is said of the rows used holds for the table."""
        return self.used == self.seen

    @property
    def sampled(self) -> bool:
        """Whether some rows without gaps were left out."""
        return self.used < self.seen - self.gaps


@dataclass(frozen=True, eq=False)
class Pair(ByValue):
    """Two tables, read."""

    x: tuple[Column, ...]  # columns that are compared
    y: tuple[Column, ...]
    xp: FloatArray  # p is the reference, q the current table; categories are coded by their index in `Column.labels`
    yp: FloatArray
    xq: FloatArray
    yq: FloatArray
    reference: Account
    current: Account
    notes: tuple[str, ...] = ()  # how columns were read
    left_out: tuple[LeftOut, ...] = ()  # columns that are no inputs
    weights_p: FloatArray | None = None
    weights_q: FloatArray | None = None
    clusters_p: IntArray | None = None  # what each row belongs to; the same number is the same in both tables
    clusters_q: IntArray | None = None
    # Where each row stands in its table (n,), counted in `Account.unit`: no part of what is compared.
    lines_p: IntArray | None = field(default=None, compare=False)
    lines_q: IntArray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Encoded:
    """A table as numbers; weights, clusters and lines are those of `Pair`."""

    columns: list[FloatArray]  # inputs, then responses: numbers, days or codes; NaN are gaps
    account: Account
    weights: FloatArray | None = None
    clusters: IntArray | None = None
    lines: IntArray | None = None


@dataclass(frozen=True)
class EncodedTables:
    """Tables as numbers, with the columns that they share.

    Attributes
    ----------
    wanted : Wanted
        The names of the columns, without those left out.
    columns : list of Column
        The inputs, then the responses.
    tables : list of Encoded
    notes : list of str
        How columns were read.
    left_out : list of LeftOut
        Columns that were wanted as inputs, and are none.
    """

    wanted: Wanted
    columns: list[Column]
    tables: list[Encoded]
    notes: list[str]
    left_out: list[LeftOut]


def read_pair(reference: str | Table, current: str | Table, options: ReadOptions) -> Pair:
    """Read two tables; the columns of the first decide, and the second must have them too."""
    if reference == current == "-":
        raise ParameterError("only one of the two tables can come from standard input. Name a file for the other.")
    check_paths((reference, current), options)
    # 1. A sample of the rows of each, of the columns that the options choose of the first.
    samples: list[tuple[Table, Sample]] = []
    wanted = Wanted([], {}, frozenset())
    for number, source in enumerate((reference, current)):
        with open_table(source, options) as table:
            if number == 0:
                wanted = choose_columns(options, table)
            may_lack = len(wanted.x) if options.missing == "as-value" else 0
            samples.append((table, read_sample(table, wanted.names, options, number, may_lack=may_lack)))
    # 2. What the columns are, by both samples together, and their cells as numbers.
    encoded = encode_samples(wanted, samples, options)
    # 3. What is compared of them.
    return make_pair(encoded, *encoded.tables)


def choose_columns(options: ReadOptions, table: Table, aside: Mapping[str, str] | None = None) -> Wanted:
    """Choose the columns of a table; weights, clusters, losses and what stands `aside` are no inputs."""
    weights = select_one("weights", options.weights, table.names, table.title)
    cluster = select_one("cluster", options.cluster, table.names, table.title)
    losses: dict[str, str] = {}
    if options.loss is not None:
        loss = select_one(options.loss.argument, options.loss.column, table.names, table.title)
        losses = {loss: options.loss.argument} if loss is not None else {}
    others = {name: role for name, role in ((weights, "weights"), (cluster, "cluster")) if name is not None}
    x, y = choose_x_and_y(options.x, options.y, table.names, table.title, {**(aside or {}), **others, **losses})
    responses = dict.fromkeys(y, "y") | losses
    asked_for = frozenset(_patterns(options.x, table.names)) & frozenset(x)
    return Wanted(x, responses, asked_for, weights, cluster, options.unusable)


def read_sample(
    table: Table, names: list[str], options: ReadOptions, number: int, *, may_lack: int | None = None
) -> Sample:
    """Read a sample of some columns; gaps are an error unless they are to be dropped.

    `number` tells the tables of a comparison apart, so that each has random keys of its own. The first `may_lack`
    columns may have gaps; None means that gaps cannot be values at all.
    """
    memory = options.memory * MEGABYTE // 2
    batches, seed = present_batches(table, names, options), (options.seed, number)
    sample = sample_rows(batches, len(names), most=options.max_rows, memory=memory, seed=seed, may_lack=may_lack or 0)
    check_gaps(table.title, names, sample, options, as_values=may_lack is not None)
    if len(sample) < FEWEST_TABLE_ROWS:
        whole = counted(sample.seen, "row") + (f", {sample.gaps:,} with missing values" if sample.gaps else "")
        raise DataError(
            f"{table.title} must have at least {FEWEST_TABLE_ROWS} rows to compare, got {whole}. Collect more."
        )
    return sample


def indices_of(table: Table, names: Sequence[str]) -> list[int]:
    """Return where columns are in a table that must have them."""
    indices = {name: index for index, name in enumerate(table.names)}
    missing = [name for name in names if name not in indices]
    if missing:
        # One message for all: a table of another shape would otherwise be mended name by name.
        raise DataError(
            f"{table.title} must have the columns of the reference, but lacks {listed([*map(repr, missing)], _SHOWN)}. "
            f"Name the columns to compare with {named('x')}."
        )
    return [indices[name] for name in names]


def _setting_that_leaves_out(columns: Sequence[str]) -> str:
    """Return what to write so that columns are no inputs."""
    return setting("x", ",".join(f"!{name}" for name in columns))


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
            f"{_setting_that_leaves_out(empty)}; for {named('y')}, name another column."
        )
    if sample.gaps and options.missing == "error":
        worst = sorted(zip(names, sample.gaps_by_column, strict=True), key=lambda pair: -pair[1])
        shown = ", ".join(f"{name!r} ({count:,})" for name, count in worst[:_SHOWN] if count)
        as_value = f"let gaps count as values with {table_setting('missing', 'as-value')}, "
        raise DataError(
            f"{title} must have no missing or infinite values in the columns compared, got {sample.gaps:,} of "
            f"{counted(sample.seen, 'row')} with one: {shown}. Drop such rows with "
            f"{table_setting('missing', 'drop')}, {as_value if as_values else ''}or fill them in first."
        )


def encode_samples(wanted: Wanted, samples: Sequence[tuple[Table, Sample]], options: ReadOptions) -> EncodedTables:
    """Find out what the columns are, from all samples together, and return each sample as numbers."""
    # 1. One decimal sign in all tables.
    titles = [table.title for table, _ in samples]
    alike, notes = same_decimals([s for _, s in samples], titles, len(wanted.names), options.decimal)
    samples = [(table, sample) for (table, _), sample in zip(samples, alike, strict=True)]
    # 2. Kinds and labels of the columns that are compared.
    indices = {name: index for index, name in enumerate(wanted.names)}
    columns, left_out = tell_columns([*wanted.x, *wanted.responses], samples, options, wanted.responses)
    usable = {column.name for column in columns}
    wanted = replace(wanted, x=[name for name in wanted.x if name in usable])
    # 3. Each table as numbers.
    cluster_numbers: dict[str, int] = {}
    tables = []
    for table, sample in samples:
        encoded = [column.encode(sample.columns[indices[column.name]], table.title) for column in columns]
        as_values = [(name, sample.gaps_by_column[indices[name]]) for name in wanted.x]
        gaps_are_values = options.missing == "as-value"
        account = Account(
            title=table.title,
            seen=sample.seen,
            gaps=sample.gaps,
            used=len(sample),
            short_of_memory=sample.short_of_memory,
            gaps_by_input=tuple((name, count) for name, count in as_values if count) if gaps_are_values else (),
            required=tuple(wanted.required) if gaps_are_values else (),
            unit=table.unit,
        )
        weights = clusters = None
        if wanted.weights is not None:
            weights = _weights(sample.columns[indices[wanted.weights]], table, sample, options)
        if wanted.cluster is not None:
            clusters = _clusters(sample.columns[indices[wanted.cluster]], cluster_numbers)
        tables.append(Encoded(encoded, account, weights, clusters, sample.lines))
    return EncodedTables(wanted, columns, tables, notes, left_out)


def make_pair(encoded: EncodedTables, reference: Encoded, current: Encoded) -> Pair:
    """Return two of the tables as the arrays that are compared."""
    # 1. What is compared of each input and response.
    wanted, columns = encoded.wanted, encoded.columns
    values = list(zip(reference.columns, current.columns, strict=True))
    n_inputs = len(wanted.x)
    derived = derive_inputs(columns[:n_inputs], values[:n_inputs], wanted.asked_for)
    pairs = zip(columns[n_inputs:], values[n_inputs:], strict=True)
    responses = [Derived(column, response_values) for column, response_values in pairs]
    notes = [*encoded.notes, *derived.notes, *(r.column.note for r in responses if r.column.note)]
    # 2. Both must vary, and have values in common.
    constant = [response.column.name for response in responses if not response.varies]
    refuse_columns([(name, _does_not_vary(name, wanted.responses[name])) for name in constant])
    inputs, apart = _inputs_in_common(derived.derived, wanted.unusable)
    left_out = [*encoded.left_out, *derived.left_out, *apart]
    if not inputs:
        reasons = "; ".join(f"{each.column!r} ({each.reason})" for each in left_out)
        raise DataError(
            f"{named('x')} must have a column that can be compared, but all were left out: {reasons}. Name other "
            "columns."
        )
    _check_labels(responses, wanted.responses)
    # 3. A column of the arrays for each.
    xp, xq = (np.column_stack([each.values[table] for each in inputs]) for table in (0, 1))
    yp, yq = (np.column_stack([each.values[table] for each in responses]) for table in (0, 1))
    return Pair(
        x=tuple(each.column for each in inputs),
        y=tuple(each.column for each in responses),
        xp=xp,
        yp=yp,
        xq=xq,
        yq=yq,
        reference=_account_with_copies(reference),
        current=_account_with_copies(current),
        notes=tuple(notes),
        left_out=tuple(left_out),
        weights_p=reference.weights,
        weights_q=current.weights,
        clusters_p=reference.clusters,
        clusters_q=current.clusters,
        lines_p=reference.lines,
        lines_q=current.lines,
    )


def tell_columns(
    names: Sequence[str], samples: Sequence[tuple[Table, Sample]], options: ReadOptions, responses: Mapping[str, str]
) -> tuple[list[Column], list[LeftOut]]:
    """Find out what the columns are, and which are left out; all others that cannot be used are named in one error.

    `responses` has the argument that names each column of y.
    """

    def declared_as(option: str, keys: Columns | None) -> list[str]:
        names_and_patterns = [name_of(key, samples[0][0].names) for key in as_keys(keys)]
        return select_columns(option, names_and_patterns, names, "the columns compared")

    category, number = declared_as("category", options.category), declared_as("number", options.number)

    def where(number: int, row: int) -> str:
        table, sample = samples[number]
        return f" in {table.unit} {sample.lines[row]:,} of {table.title}"

    columns = list[Column]()
    left_out = list[LeftOut]()
    faults = list[tuple[str, str]]()
    for index, name in enumerate(names):
        cells = [sample.columns[index] for _, sample in samples]
        declared = True if name in category else False if name in number else None
        response = responses.get(name)
        try:
            columns.append(
                tell_kind(name, cells, category=declared, response=response, decimal=options.decimal, where=where)
            )
        except UnusableInput as error:
            if response is None and options.unusable == "leave-out":
                left_out.append(LeftOut(name, error.reason))
            else:
                faults.append((name, str(error)))
        except DataError as error:
            faults.append((name, str(error)))
    refuse_columns(faults)
    return columns, left_out


def refuse_columns(faults: Sequence[tuple[str, str]]) -> None:
    """Raise one error for all columns that cannot be used: pairs of a name and what is wrong with it."""
    if len(faults) == 1:
        raise DataError(faults[0][1])
    if faults:
        shown = " ".join(f"({number}) {words}" for number, (_, words) in enumerate(faults[:_SHOWN], start=1))
        rest = ", ".join(repr(name) for name, _ in faults[_SHOWN:])
        raise DataError(
            f"{len(faults)} columns cannot be used. {shown}{f' The same holds for {rest}.' if rest else ''}"
        )


def present_batches(table: Table, names: list[str], options: ReadOptions) -> Iterator[TableBatch]:
    """Yield the rows of a table, cut down to some columns, without those of weight 0, which are absent."""
    weights = select_one("weights", options.weights, table.names, table.title)
    for batch in table.batches(indices_of(table, names)):
        if weights is None:
            yield batch
        else:
            cells = batch.columns[names.index(weights)]
            yield batch.take(np.flatnonzero(cells.numbers(options.decimal) != 0))


def _weights(cells: Cells, table: Table, sample: Sample, options: ReadOptions) -> FloatArray:
    """Return weights (n,), which must be positive numbers; rows of weight 0 were not read."""
    weights = np.nan_to_num(cells.numbers(options.decimal))
    if np.any(weights <= 0):
        row = int(np.argmax(weights <= 0))
        raise DataError(
            f"{named('weights')} must name a column of numbers that are not negative, got {cells.cell(row)!r} in "
            f"{table.unit} {sample.lines[row]:,} of {table.title}. Set the weight of unwanted rows to 0."
        )
    return weights


def _clusters(cells: Cells, numbers: dict[str, int]) -> IntArray:
    """Return the number (n,) of each row's cluster; `numbers` has those of the tables before, and gets the new ones."""
    labels, codes = cells.label_codes()
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=int)[codes]


def _account_with_copies(table: Encoded) -> Account:
    """Return the account of a table, which says how many rows repeat others; clusters say so by themselves."""
    if table.clusters is not None:
        return table.account
    return replace(table.account, copies=count_copies(table.columns))


def _does_not_vary(name: str, argument: str) -> str:
    """Return what is wrong with a column of one value."""
    return f"{named(argument)} must vary, but {name!r} has the same value in all rows. Name another column."


def _are_apart(p: FloatArray, q: FloatArray, *, labels: bool) -> bool:
    """Whether two tables have no label of a column in common, or no range of its numbers."""
    if labels:
        return not np.intersect1d(p, q).size
    return bool(p.max() < q.min() or q.max() < p.min())


def _inputs_in_common(inputs: Sequence[Derived], unusable: UnusableInputs) -> tuple[list[Derived], list[LeftOut]]:
    """Return the inputs without the columns in which the two tables are apart, and these.

    With a column goes everything that is derived from it. Raise an error that names them if they are not to be left
    out, or if no other input remains.
    """
    apart: dict[str, str] = {}  # the range of each column in each table, empty for labels
    for derived in inputs:
        p, q = derived.values
        column = derived.column
        if _are_apart(p, q, labels=column.is_category):
            ranges = f"{_range_words(p)}, then {_range_words(q)}" if column.kind == "number" else ""
            apart.setdefault(column.source or column.name, ranges)
    in_common = [derived for derived in inputs if (derived.column.source or derived.column.name) not in apart]
    if apart and (unusable == "error" or not in_common):
        names = list(apart)
        have = f"column {names[0]!r} has" if len(names) == 1 else f"columns {', '.join(map(repr, names))} have"
        ranges_by_name = [f"{name!r}: {ranges}" for name, ranges in apart.items() if ranges]
        shown = f" ({'; '.join(ranges_by_name)})" if ranges_by_name else ""
        raise OverlapError(
            f"{have} no value in common between the two tables{shown}, so no rows with equal inputs can be compared. "
            f"If the units differ, convert one of the tables; otherwise leave {'it' if len(apart) == 1 else 'them'} "
            f"out with {_setting_that_leaves_out(names)}."
        )
    reasons = {name: "no value in common" + (f": {ranges}" if ranges else "") for name, ranges in apart.items()}
    return in_common, [LeftOut(name, reason) for name, reason in reasons.items()]


def _range_words(values: FloatArray) -> str:
    """Say between which numbers values (n,) lie."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def _check_labels(responses: Sequence[Derived], arguments: Mapping[str, str]) -> None:
    """Raise an error if the labels of a response in the two tables have nothing in common."""
    for column, (p, q) in ((derived.column, derived.values) for derived in responses):
        if column.is_category and not np.intersect1d(p, q).size:
            label_p, label_q = (repr(column.labels[int(values[0])]) for values in (p, q))
            raise OverlapError(
                f"column {column.name!r} of {named(arguments[column.name])} has no label in common between the two "
                f"tables (e.g. {label_p} and {label_q}): there is nothing to compare. Spell the labels alike in both, "
                "or name another column."
            )


MOST_COLUMNS = 500
"""Columns of x; with more, neither the nulls nor distances have a meaning that samples of this size could carry."""

_NAMES_SHOWN = 12
"""Names of columns that a message lists: more than of faults, since one of them is what the caller meant."""


def select_columns(option: str, patterns: Columns | None, names: Sequence[str], title: str) -> list[str]:
    """Return the columns that patterns name, in the table's order within each pattern.

    A pattern is a name, a glob (``area_*``), or either with a leading ``!``, which takes columns away again; several
    may be separated by commas. A column whose name holds a comma or a star is matched by its whole name first. The
    columns of arrays have numbers, negative ones from the end.
    """
    chosen: dict[str, None] = {}
    all_names = set(names)
    unknown = []
    for pattern in _patterns(patterns, names):
        without = pattern.startswith("!") and pattern not in all_names
        wanted = pattern[1:] if without else pattern
        matches = [wanted] if wanted in all_names else [name for name in names if fnmatchcase(name, wanted)]
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
        keys = {name_of(key, names): key for key in as_keys(patterns)}
        got = ", ".join(repr(keys.get(name, name)) for name in unknown)
        raise ParameterError(f"{named(option)} must name columns of {title}, got {got}. {remedies}")
    return list(chosen)


def select_one(option: str, patterns: Columns | None, names: Sequence[str], title: str) -> str | None:
    """Return the one column that patterns name, or None where there are none."""
    chosen = select_columns(option, patterns, names, title)
    if len(chosen) > 1:
        raise ParameterError(
            f"{named(option)} must name one column of {title}, got {', '.join(map(repr, chosen[:_NAMES_SHOWN]))}. Name "
            "one of them."
        )
    return chosen[0] if chosen else None


def choose_x_and_y(
    x: Columns | None,
    y: Columns,
    names: Sequence[str],
    title: str,
    aside: Mapping[str, str] | None = None,
) -> tuple[list[str], list[str]]:
    """Return the columns of x and of y; where x is not given, it is everything but y and what stands aside.

    `aside` has the argument that names each of the columns with another role.
    """
    aside = aside or {}
    responses = select_columns("y", y, names, title)
    for column in aside:
        if column in responses:
            raise ParameterError(
                f"{named('y', aside[column])} must name different columns, got {column!r} for both. Name another."
            )
    if not responses:
        raise ParameterError(f"{named('y')} must name a column of {title}, got none. {_remedy('', names)}")
    taken = {*responses, *aside}
    inputs = [name for name in select_columns("x", as_keys(x) or ["*"], names, title) if name not in taken]
    if not inputs:
        raise ParameterError(
            f"{named('x')} must leave at least one column beside {named('y')}, got none of the {len(names)} columns of "
            f"{title}. {_remedy('', names)}"
        )
    if len(inputs) > MOST_COLUMNS:
        raise ParameterError(
            f"{named('x')} must name at most {MOST_COLUMNS} columns, got {len(inputs):,}. Name the ones that matter, "
            f"e.g. {setting('x', ','.join(inputs[:3]))}, or a glob such as {setting('x', inputs[0][:4] + '*')}."
        )
    return inputs, responses


def as_keys(columns: Columns | None) -> list[Any]:
    """Return one or several columns as a list."""
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)


def name_of(key: Any, names: Sequence[str]) -> str:
    """Return the name of a column that goes by a number or another key."""
    if isinstance(key, int | np.integer) and key < 0 and [*names] == [*map(column_name, range(len(names)))]:
        key += len(names)
    return column_name(key)


def _patterns(patterns: Columns | None, names: Sequence[str]) -> list[str]:
    """Split patterns at commas, but not within the name of a column that holds some."""
    parts: list[str] = []
    names_and_exceptions = {*names, *(f"!{name}" for name in names)}
    for key in as_keys(patterns):
        pieces = name_of(key, names).split(",")
        while pieces:
            # The longest run of pieces that is the name of a column, else the next piece.
            count, pattern = 1, pieces[0].strip()
            for length in range(len(pieces), 0, -1):
                run = ",".join(pieces[:length])
                name = next((text for text in (run, run.strip()) if text in names_and_exceptions), None)
                if name is not None:
                    count, pattern = length, name
                    break
            parts += [pattern] if pattern else []
            pieces = pieces[count:]
    return parts


def _remedy(wanted: str, names: Sequence[str]) -> str:
    """Return what to do about a name that is no column's."""
    close = get_close_matches(wanted, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Its columns are {listed([*map(repr, names)], _NAMES_SHOWN)}."
