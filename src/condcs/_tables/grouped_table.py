"""One table whose rows belong to groups (months, sites): a sample of each, and any of them as a pair.

`read_groups` is the function to read first: in one pass it samples the rows of each group, and encodes them together,
so that the same label is the same code in all groups. `GroupedTable.pair` then makes any of them a `Pair`. Which groups
are compared with which is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.errors import DataError
from condcs._core.printable import counted, listed
from condcs._core.vocabulary import named
from condcs._tables.cells import as_day, as_number, reads
from condcs._tables.kinds import Column, Derived, derive_inputs
from condcs._tables.pair import (
    Account,
    Encoded,
    EncodedTables,
    Pair,
    ReadOptions,
    check_gaps,
    choose_columns,
    encode_samples,
    make_pair,
    present_batches,
    select_one,
)
from condcs._tables.sampling import RowSampler, Sample, together
from condcs._tables.sources import FEWEST_TABLE_ROWS, MEGABYTE, Table, check_paths, open_table

MOST_GROUPS = 50
"""Groups of a table at most: the budget of memory is split evenly among so many, and every group is a comparison."""

_GROUPS_SHOWN = 8
"""Names of small groups that a note lists."""


@dataclass(frozen=True)
class GroupedTable:
    """A table, read, with a sample of the rows of each group: as they are, and as numbers."""

    title: str
    column: str  # names the groups
    groups: tuple[str, ...]
    samples: list[Sample]
    encoded: EncodedTables  # a table for each group
    notes: tuple[str, ...]  # rows and groups that were left out

    def pair(self, reference: Sequence[int], current: int, most: int) -> Pair:
        """Return one group and some others, `most` rows of them, as the two tables of a comparison."""
        return make_pair(self.encoded, self._together(reference, most), self.encoded.tables[current])

    def arrays(self) -> tuple[tuple[Column, ...], tuple[Column, ...], list[tuple[FloatArray, FloatArray]]]:
        """Return the columns of x and of y, and for each group its x and y."""
        columns, wanted = self.encoded.columns, self.encoded.wanted
        split = len(wanted.x)
        values = [[table.columns[index] for table in self.encoded.tables] for index in range(len(columns))]
        inputs = derive_inputs(columns[:split], values[:split], wanted.asked_for).derived
        pairs = zip(columns[split:], values[split:], strict=True)
        responses = [Derived(column, tuple(groups)) for column, groups in pairs]
        stacked = [
            (np.column_stack([d.values[g] for d in inputs]), np.column_stack([d.values[g] for d in responses]))
            for g in range(len(self.groups))
        ]
        return tuple(d.column for d in inputs), tuple(d.column for d in responses), stacked

    def _together(self, group_numbers: Sequence[int], most: int) -> Encoded:
        """Return some groups as one table of at most so many rows."""
        if len(group_numbers) == 1:
            return self.encoded.tables[group_numbers[0]]
        samples = [self.samples[number] for number in group_numbers]
        encoded = [self.encoded.tables[number] for number in group_numbers]
        chosen = together(samples, most)  # pairs of a sample and a row of it, sample by sample
        rows_by_sample = [
            np.array([row for sample, row in chosen if sample == number], dtype=int) for number in range(len(samples))
        ]
        # In the order of the table: a running number is told by that.
        order = np.argsort([samples[sample].lines[row] for sample, row in chosen], kind="stable")

        def joined(parts: Sequence[AnyArray | None]) -> AnyArray | None:
            """Return the chosen rows of a column, given as its part of each sample; None if it is absent."""
            taken = [part[rows] for part, rows in zip(parts, rows_by_sample, strict=True) if part is not None]
            return np.concatenate(taken)[order] if taken else None

        columns = [joined(parts) for parts in zip(*(e.columns for e in encoded), strict=True)]
        accounts = [e.account for e in encoded]
        account = Account(
            title=f"the other {len(samples)} groups of {self.column}",
            seen=sum(account.seen for account in accounts),
            gaps=sum(account.gaps for account in accounts),
            used=len(chosen),
            short_of_memory=any(account.short_of_memory for account in accounts),
            gaps_by_input=tuple(_gaps_together(accounts).items()),
            required=accounts[0].required,
            unit=accounts[0].unit,
        )
        present_columns = [column for column in columns if column is not None]
        weights, clusters = joined([e.weights for e in encoded]), joined([e.clusters for e in encoded])
        return Encoded(present_columns, account, weights, clusters, joined([sample.lines for sample in samples]))


def _gaps_together(accounts: Sequence[Account]) -> Counter[str]:
    """Return in how many rows of several tables each input has a gap that counts as a value."""
    return sum((Counter(dict(account.gaps_by_input)) for account in accounts), Counter[str]())


def read_groups(source: str | Table, group: str | int, options: ReadOptions) -> GroupedTable:
    """Read a table and sample the rows of each of its groups.

    Groups are in the order of their numbers or dates, other names in that of their first rows. Groups of fewer than
    `FEWEST_TABLE_ROWS` rows are left out, with a note.
    """
    check_paths([source], options)
    with open_table(source, options) as table:
        column = select_one("group", group, table.names, table.title)
        if column is None:
            raise DataError(
                f"{named('group')} must name a column of {table.title}, got none. Name the column that holds the "
                "groups."
            )
        wanted = choose_columns(options, table, {column: "group"})
        samplers = _sampled(table, [*wanted.names, column], options, len(wanted.x))
    names = [*wanted.names, column]
    sample_of = {label: sampler.sample() for label, sampler in samplers.items()}
    check_gaps(table.title, names, _all_gaps(list(sample_of.values()), len(names)), options)
    notes = []
    without = sample_of.pop(None, None)
    if without is not None and without.seen:
        notes.append(f"Left out for lack of a value in {column!r}: {counted(without.seen, 'row')}.")
    order = _ordered([label for label in sample_of if label is not None])
    small = [label for label in order if len(sample_of[label]) < FEWEST_TABLE_ROWS]
    groups = [label for label in order if label not in small]
    if small:
        shown = listed([*map(repr, small)], _GROUPS_SHOWN)
        notes.append(f"Groups of fewer than {FEWEST_TABLE_ROWS} rows were left out: {shown}.")
    if len(groups) < 2:
        raise DataError(
            f"{named('group')} must name a column with at least two groups of {FEWEST_TABLE_ROWS} rows or more, got "
            f"{len(groups)} in column {column!r} of {table.title}. Name another column."
        )
    samples = [sample_of[label] for label in groups]
    encoded = encode_samples(wanted, [(table, sample) for sample in samples], options)
    titled = [
        replace(each, account=replace(each.account, title=f"{column} = {label}"))
        for each, label in zip(encoded.tables, groups, strict=True)
    ]
    return GroupedTable(table.title, column, tuple(groups), samples, replace(encoded, tables=titled), tuple(notes))


def _sampled(table: Table, names: list[str], options: ReadOptions, inputs: int) -> dict[str | None, RowSampler]:
    """Sample the rows of each group in one pass; the last of the columns names the group."""
    may_lack = inputs if options.missing == "as-value" else 0
    memory = options.memory * MEGABYTE // MOST_GROUPS
    generator = np.random.default_rng((options.seed, 0))
    samplers: dict[str | None, RowSampler] = {}
    for batch in present_batches(table, names, options):
        keys = generator.random(len(batch))
        labels, codes = batch.columns[-1].label_codes()
        # In the order of their first rows; -1 are rows without a group.
        present, first_rows = np.unique(codes, return_index=True)
        for code in present[np.argsort(first_rows)].tolist():
            label = labels[code] if code >= 0 else None
            if label not in samplers:
                samplers[label] = RowSampler(len(names), most=options.max_rows, memory=memory, may_lack=may_lack)
            rows = np.flatnonzero(codes == code)
            samplers[label].add(batch.take(rows), keys[rows])
        if len(samplers) > MOST_GROUPS:
            raise DataError(
                f"{named('group')} must name a column of at most {MOST_GROUPS} groups, got more in column "
                f"{names[-1]!r} of {table.title}. Make coarser groups first, such as months of dates."
            )
    return samplers


def _all_gaps(samples: Sequence[Sample], columns: int) -> Sample:
    """Return a sample without rows that has the gaps of all groups together."""
    return Sample(
        columns=[],
        lines=np.empty(0, int),
        keys=np.empty(0),
        seen=sum(sample.seen for sample in samples),
        gaps=sum(sample.gaps for sample in samples),
        gaps_by_column=[sum(sample.gaps_by_column[c] for sample in samples) for c in range(columns)],
    )


def _ordered(labels: list[str]) -> list[str]:
    """Return labels in the order of their numbers or dates, if all are such; else as they are."""
    for read in (as_number, as_day):
        if all(reads(read, label) for label in labels):
            return sorted(labels, key=read)
    return labels
