"""Files that a command writes beside what it prints: after the answer, each for itself.

An answer that took minutes is not lost with a page that does not fit on the disk. So it is printed first; a file that
cannot be written is named on standard error and does not keep the others from being written; and the exit code says
both: `UNWRITTEN` is added to that of the answer.

Whatever is printed as the answer is printed by the function `answer`: output that nobody reads, or that finds no
space, then ends the command only after the files have been written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from condcs._core.files import WriteError, writing
from condcs.cli.boundary import error_words, tell_stop, tell_unwritten, with_unwritten
from condcs.cli.terminal import Terminal, abandon_output


@dataclass(frozen=True)
class OutputFile:
    """A file: where it goes, what makes and writes it, and what is printed once it is there (in rich markup)."""

    path: Path
    write: Callable[[Path], object]
    notice: str = ""


def answer_then_write(
    answer: Callable[[], None], files: Sequence[OutputFile], *, code: int = 0, earlier_written: bool = True
) -> None:
    """Print an answer, write the files and end with the exit code of the answer, or that plus `UNWRITTEN`.

    `earlier_written` says whether all files were written that belong to earlier parts of the answer.
    """
    unprinted: OSError | None = None
    try:
        answer()
        # Now: whoever reads it should not wait for the pages.
        sys.stdout.flush()
    except OSError as error:
        # The files may still be wanted, such as the page in ``condcs compare ... --report page.html --json | head``.
        abandon_output()
        unprinted = error
    all_written = write_files(files) and earlier_written
    if unprinted is not None:
        raise unprinted
    if not all_written:
        code = with_unwritten(code)
    if code:
        raise typer.Exit(code)


def write_files(files: Sequence[OutputFile]) -> bool:
    """Write files, name those that fail on standard error, and return whether all of them were written."""
    written = [_is_written(file) for file in files]
    console = Terminal()
    for file, is_written in zip(files, written, strict=True):
        if is_written and file.notice:
            console.print(file.notice, soft_wrap=True)
    return all(written)


def in_folder(path: Path) -> Path:
    """Return a path whose folder, of which only the last part may be new, exists."""
    with writing(f"`{path}`"):
        path.parent.mkdir(exist_ok=True)
    return path


def _is_written(file: OutputFile) -> bool:
    try:
        file.write(file.path)
    except KeyboardInterrupt:
        tell_stop(f"Stopped; {file.path} was not written.")
    except WriteError as error:
        tell_unwritten(error, str(error))
        return False
    except Exception as error:
        # Pages draw much, with libraries of others: whatever one of them raises, the answer is known.
        tell_unwritten(error, f"{file.path} was not written: {error_words(error)}")
        return False
    return True
