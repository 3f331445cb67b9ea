"""Results that can be shown as a page."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from condcs._core.errors import public

if TYPE_CHECKING:
    from condcs.report._page import Page


class Reported:
    """A result with a page: in a file, or in a notebook."""

    @abstractmethod
    def _page(self, command: str | None = None) -> Page:
        """Make the page."""

    def _repr_html_(self) -> str | None:
        try:
            return self._page().framed()
        except ModuleNotFoundError:
            # Without matplotlib a notebook shows the text.
            return None

    @public
    def report(self, path: str | Path, *, command: str | None = None) -> Path:
        """Write a page about it: one HTML file that needs nothing from the network.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists; its folder must exist.
        command : str, optional
            The command that made it, to be shown at the end.

        Returns
        -------
        Path
            The file.
        """
        return self._page(command).write(path)
