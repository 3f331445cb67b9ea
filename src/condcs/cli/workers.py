"""``--dask``: the work of a command on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import typer
from rich.console import Console
from rich.markup import escape

from condcs.core.errors import CondcsError
from condcs.core.parallel import dask_cluster

FAILED = 2


@contextmanager
def on_workers(address: str | None) -> Iterator[None]:
    """Use the workers of the cluster at an address within a ``with`` block; None stays on this machine."""
    if address is None:
        yield
        return
    errors = Console(stderr=True)
    with ExitStack() as stack:
        try:
            workers = stack.enter_context(dask_cluster(address))
        except CondcsError as error:
            errors.print(f"[red]{escape(str(error))}[/red]", highlight=False, soft_wrap=True)
            raise typer.Exit(FAILED) from None
        errors.print(f"[dim]{workers.count} threads of Dask workers at {escape(address)}[/dim]", highlight=False)
        yield
