"""Tables in database files: SQLite by Python's own driver, DuckDB by its own if it is installed.

`sqlite_table` and `duckdb_table` open a file for reading only, until `closing` ends. Which of its tables is read is
said by `FileOptions.table`, or any query by `FileOptions.sql`; a file with one table needs neither. Rows come in
batches, and the database is asked for no other columns than those wanted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from condcs._core.errors import CondcsError, DataError
from condcs._core.printable import listed
from condcs._core.vocabulary import named, table_setting
from condcs._tables.arrow_cells import first_line
from condcs._tables.sources import FileOptions, TableBatch, TableRow, batch_rows, check_names, in_batches
from condcs._tables.streams import RelationSource, arrow_table, quoted_name
from condcs._tables.typed_files import ColumnarTable

_TABLES_SHOWN = 12
"""Names of tables that a message lists: more than of faults, since one of them is what the caller meant."""

_TABLES_OF_SQLITE = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "ORDER BY name"
)
_TABLES_OF_DUCKDB = (
    "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database() AND table_schema = "
    "current_schema() ORDER BY table_name"
)


def sqlite_table(path: str, title: str, files: FileOptions, closing: ExitStack) -> SqliteTable:
    """Open an SQLite file, until `closing` ends."""
    with _querying(title, sqlite3.Error):
        # Read only: else a path that is no file would become one, and a log might be written back.
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        closing.callback(connection.close)
        names = [name for (name,) in connection.execute(_TABLES_OF_SQLITE)]
        return SqliteTable(connection, _query(names, title, files), title)


def duckdb_table(path: str, title: str, files: FileOptions, closing: ExitStack) -> ColumnarTable:
    """Open a DuckDB file, until `closing` ends."""
    try:
        duckdb = import_module("duckdb")
        import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"{title} is a DuckDB database, and reading it needs duckdb and pyarrow. Install them: pip install duckdb "
            "pyarrow"
        ) from error
    with _querying(title, duckdb.Error):
        connection = duckdb.connect(path, read_only=True)
        closing.callback(connection.close)
        names = [name for (name,) in connection.execute(_TABLES_OF_DUCKDB).fetchall()]
        relation = connection.sql(_query(names, title, files))
    if relation is None:
        raise _no_rows(title)
    return arrow_table(RelationSource(relation, title), title)


class SqliteTable:
    """The rows of a query to an SQLite database."""

    unit = "row"

    def __init__(self, connection: sqlite3.Connection, query: str, title: str) -> None:
        self.title, self._connection, self._query = title, connection, query
        header = connection.execute(f"SELECT * FROM ({query}) LIMIT 0").description
        # Names as the database has them, for its own use.
        self._names = [column[0] for column in header]
        self.names = check_names(self._names, title)

    def batches(self, columns: Sequence[int], most: int | None = None) -> Iterator[TableBatch]:
        """Yield rows of numbers, strings and None."""
        return in_batches(self._rows(columns), most or batch_rows(len(columns)))

    def _rows(self, columns: Sequence[int]) -> Iterator[tuple[int, TableRow, int]]:
        """Yield rows, each with its number; their size in the file is that of their texts."""
        wanted = ", ".join(quoted_name(self._names[column]) for column in columns)
        with _querying(self.title, sqlite3.Error):
            for number, row in enumerate(self._connection.execute(f"SELECT {wanted} FROM ({self._query})"), start=1):
                size = 0
                for column, cell in zip(columns, row, strict=True):
                    if isinstance(cell, bytes):
                        raise DataError(
                            f"{self.title} must hold numbers or text in column {self.names[column]!r}, got bytes in "
                            f"row {number:,}. Leave the column out of {named('x')}."
                        )
                    size += len(cell) if isinstance(cell, str) else 0
                yield number, row, size


def _query(tables: list[str], title: str, files: FileOptions) -> str:
    """Return the query whose rows are wanted."""
    if files.sql is not None:
        # A semicolon at its end is not allowed within another query; an end of line ends a comment.
        return files.sql.strip().rstrip(";") + "\n"
    if files.table is not None:
        if files.table not in tables:
            raise DataError(f"{named('table')} must name a table of {title}, got {files.table!r}. {_listing(tables)}")
        return f"SELECT * FROM {quoted_name(files.table)}"
    if len(tables) != 1:
        remedy = f"Name one, e.g. {table_setting('table', tables[0])}, or a query as {named('sql')}." if tables else ""
        raise DataError(f"{title} must hold one table if none is named, got {len(tables)}. {_listing(tables)} {remedy}")
    return f"SELECT * FROM {quoted_name(tables[0])}"


def _listing(tables: list[str]) -> str:
    """Return which tables there are."""
    return f"Its tables are {listed([*map(repr, tables)], _TABLES_SHOWN)}." if tables else "It has no tables."


def _no_rows(title: str) -> DataError:
    return DataError(f"{named('sql')} must be a query that returns rows of {title}. Begin it with SELECT.")


@contextmanager
def _querying(title: str, error_type: type[Exception]) -> Iterator[None]:
    """Turn errors of a database into one that names the file."""
    try:
        yield
    except CondcsError:
        raise
    except error_type as error:
        raise DataError(
            f"{title} must be a database that can be queried, but: {first_line(error)}. Correct {named('table')} or "
            f"{named('sql')}, or look whether another program is writing to the file."
        ) from error
