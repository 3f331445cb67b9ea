"""``--dask``: the work of a command on the workers of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from condcs._core.printable import counted
from condcs._parallel.dask_cluster import dask_cluster
from condcs.cli.terminal import Terminal, foreign

EFFORT = "How much work"
"""Panel of the help page."""

DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Spread the work over the Dask cluster with this scheduler, tcp://host:port.",
        rich_help_panel=EFFORT,
    ),
]
"""The option of every command whose work can be spread."""


@contextmanager
def on_workers(address: str | None) -> Iterator[None]:
    """Use the workers of the cluster at an address within a ``with`` block; None stays on this machine."""
    if address is None:
        yield
        return
    previous_level = logging.root.manager.disable
    # Dask logs pages when a scheduler is lost; errors say what has happened.
    logging.disable(logging.ERROR)
    try:
        with dask_cluster(address) as workers:
            threads = counted(workers.count, "thread")
            Terminal(stderr=True).print(f"[dim]{threads} of Dask workers at {foreign(address)}[/dim]")
            yield
    finally:
        logging.disable(previous_level)
