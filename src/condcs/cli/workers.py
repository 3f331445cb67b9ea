"""``--dask``: the work of a command on the workers of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Annotated

import typer

from condcs._core.printable import counted
from condcs._parallel.dask_cluster import dask_cluster
from condcs.cli.terminal import Terminal, foreign

EFFORT = "How much work"
"""Panel of the help page."""

Dask = Annotated[
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
    with ExitStack() as stack:
        stack.enter_context(_no_messages_of_dask())
        workers = stack.enter_context(dask_cluster(address))
        threads = counted(workers.count, "thread")
        Terminal(stderr=True).print(f"[dim]{threads} of Dask workers at {foreign(address)}[/dim]")
        yield


@contextmanager
def _no_messages_of_dask() -> Iterator[None]:
    """Keep Dask's log, pages of it when a scheduler is lost, off the terminal: errors say what has happened."""
    # Imported first: Dask sets its levels on import.
    with suppress(ModuleNotFoundError):
        import distributed  # noqa: F401
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in (*names, "tornado.application")}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
