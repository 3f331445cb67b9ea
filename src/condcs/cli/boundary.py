"""The one place where a command ends: its exit code, and the sentence that says what went wrong.

0 means done (and no change or alarm), 1 only "changed" or "alarm", 2 a failure without an answer, 130 Ctrl-C, 141 that
nobody reads the output any more. 4 is added to 0 or 1 where the answer was printed, but a file could not be written.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from condcs._core.errors import CondcsError, CondcsWarning, ParameterError
from condcs._core.keywords import NAMES_HERE
from condcs._core.vocabulary import Vocabulary, speaking
from condcs.cli.terminal import Terminal, abandon_output, foreign, prepare_streams

CHANGED, FAILED, INTERRUPTED = 1, 2, 130

UNWRITTEN = 4
"""Added to 0 or 1 if a file could not be written; 2 + 1 would not do, because 2 alone already means: no answer."""

OUTPUT_CLOSED = 141
"""As of a program that SIGPIPE ends (128 + 13): cat and head end so, too."""

TRACEBACK = "CONDCS_TRACEBACK"
"""Environment variable: not empty, an unexpected error shows where in the sources it came from."""

NARROW = 60
"""Below this width, help is set in plain lines: panels would cut its words."""

# Arguments of the library whose options have other names: the parameters of the commands that they come from.
_PARAMETERS = {
    "n_clusters": "k",
    "n_jobs": "jobs",
    "n_resamples": "resamples",
    "rng": "seed",
    "expected_run_length": "run_length",
    "format": "form",
    "X": "file",
    "series": "file",
    "x_ref": "reference",
    "y_ref": "reference",
    "xp": "x",
    "xq": "x",
    "yp": "y",
    "yq": "y",
}
_LESS = {
    "compare": "Compare fewer rows (--max-rows) or columns (--x).",
    "cluster": "Cluster fewer series at a time.",
    "causal": "Use fewer series (--columns) or a shorter stretch of them.",
    "watch": "Take fewer rows of the reference (--max-rows).",
}


def with_unwritten(code: int) -> int:
    """Return the exit code of an answer beside which a file could not be written; without an answer it stays."""
    return code + UNWRITTEN if code in (0, CHANGED) else code


class Commands(TyperGroup):
    """All commands; whatever they print or raise leaves through here."""

    def main(self, args: Any = None, prog_name: str | None = None, **options: Any) -> Any:  # type: ignore[override]
        """Run a command line and exit."""
        prepare_streams()
        # Commands draw into files and open no windows: the backend that the shell names, or misspells, is not used.
        os.environ["MPLBACKEND"] = "agg"
        terminal = Terminal()
        for command in (self, *self.commands.values()):
            # rich would break lines where the source does.
            command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
        if terminal.width < NARROW or terminal.is_dumb_terminal or os.environ.get("NO_COLOR"):
            for command in (self, *self.commands.values()):
                setattr(command, "rich_markup_mode", None)  # noqa: B010 - typer's commands have it, click's do not
        options["standalone_mode"] = False
        try:
            # The codes that commands choose are returned; typer and rich themselves exit with 1 when a pipe closes.
            code = super().main(args, prog_name or "condcs", **options)
        except SystemExit as ended:
            code = OUTPUT_CLOSED if ended.code == CHANGED else ended.code
        except Exception as error:
            code = _tell_usage(error) if hasattr(error, "format_message") else tell_failure(error)
        if "colorama" in sys.modules:
            # numba loads it, and it would end what is shown on a terminal with an escape code, NO_COLOR or not.
            atexit.unregister(sys.modules["colorama"].initialise.reset_all)
        sys.exit(code or 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was named; from then on, messages name its options."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            ctx.with_resource(speaking(CommandLine(command)))
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; turn everything it raises into a message and an exit code."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                try:
                    return super().invoke(ctx)
                finally:
                    if sys.stdout is not None:
                        sys.stdout.flush()
        except KeyboardInterrupt:
            tell_stop("Stopped; nothing was written.")
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if hasattr(error, "format_message"):  # of typer: a wrong option, told by `main`
                raise
            raise typer.Exit(tell_failure(error, self.commands.get(ctx.invoked_subcommand or ""))) from None


def tell_stop(words: str) -> NoReturn:
    """End after Ctrl-C."""
    Terminal(stderr=True).print(f"[yellow]{foreign(words)}[/yellow]", soft_wrap=True)
    raise typer.Exit(INTERRUPTED)


def tell_failure(error: Exception, command: Any = None) -> int:
    """Say what went wrong in a paragraph, in the words of the command line, and return the exit code."""
    if isinstance(error, OSError):
        abandon_output()
    if isinstance(error, BrokenPipeError) and error.filename is None:
        # ``condcs ... | head``: whoever has read enough is not told that there was more.
        return OUTPUT_CLOSED
    _print_error(error_words(error, command))
    _print_traceback(error)
    return FAILED


def tell_unwritten(error: Exception, words: str) -> None:
    """Say which file could not be written and why, while the command goes on."""
    _print_error(words)
    _print_traceback(error)


def _print_traceback(error: Exception) -> None:
    if os.environ.get(TRACEBACK):
        lines = "".join(traceback.format_exception(error))
        Terminal(stderr=True).print(lines, markup=False, soft_wrap=True)


class CommandLine(Vocabulary):
    """The words of a command: its options and places."""

    def __init__(self, command: Any) -> None:
        self.words: dict[str, str] = {}  # of each parameter: "--order", or "FILE" for one with a place of its own
        self.flags: set[str] = set()
        for parameter in command.params:
            has_place = parameter.param_type_name == "argument"
            self.words[parameter.name] = parameter.name.upper() if has_place else max(parameter.opts, key=len)
            if getattr(parameter, "is_flag", False):
                self.flags.add(parameter.name)
        for argument, parameter in _PARAMETERS.items():
            if parameter in self.words:
                self.words.setdefault(argument, self.words[parameter])

    def name(self, argument: str) -> str:
        """Return the option that an argument is given by."""
        return self.words.get(argument, argument)

    def setting(self, argument: str, value: object) -> str:
        """Return the option and its value; a flag has none, and a value with a place stands alone."""
        if (argument, value) == ("missing", "drop") and "drop_missing" in self.flags:
            argument = "drop_missing"
        if argument not in self.words:
            return super().setting(argument, value)
        if argument in self.flags:
            return self.name(argument)
        written = shlex.quote(str(value))
        return f"{self.name(argument)} {written}" if self.name(argument).startswith("--") else written

    def table_setting(self, field: str, value: object) -> str:
        """Return the same: how tables are read has options of its own."""
        return self.setting(field, value)


def install_hint(package: str) -> str:
    """Say how to install a package: through the extra of condcs that brings it, if there is one."""
    brought: dict[str, set[str]] = {}
    for line in metadata.requires("condcs") or ():
        requirement = re.match(r"""([\w.-]+).*extra == ["']([\w-]+)["']""", line)
        if requirement:
            brought.setdefault(requirement[2], set()).add(requirement[1].lower())
    # The smallest one: `all` brings everything.
    extras = [name for name, packages in brought.items() if package.lower() in packages]
    extra = min(extras, key=lambda name: (len(brought[name]), name), default=None)
    return f"pip install 'condcs[{extra}]'" if extra else f"pip install {package}"


def error_words(error: Exception, command: Any = None) -> str:
    """Say what an error means, with the options of a command if it is given, and what to do about it."""
    if isinstance(error, CondcsError):
        return error.message
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "condcs":
        package = error.name.partition(".")[0]
        return f"This needs the package {package!r}, which is not installed. Install it with: {install_hint(package)}"
    if isinstance(error, ImportError) and "pip install" in str(error):
        return str(error)
    if isinstance(error, MemoryError):
        return f"Out of memory. {_LESS.get(getattr(command, 'name', '') or '', 'Use smaller data.')}"
    if isinstance(error, OSError):
        what = f"`{error.filename}` could not be read or" if error.filename else "The result could not be"
        return f"{what} written: {error.strerror or error}."
    return (
        f"unexpected error in condcs: {type(error).__name__}: {error}. This is a bug in condcs: please report it, "
        f"with the command and what it prints if {TRACEBACK}=1 is set."
    )


def _tell_usage(error: Any) -> int:
    """Say which option is wrong and where to read about it."""
    message, ctx = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        if message:
            typer.echo(message)
        return FAILED
    if (meant := _option_meant(error)) is not None:
        message = f"No such option: {error.option_name}. Did you mean {meant}?"
    more = f" See {ctx.command_path} --help." if ctx is not None else ""
    sentence = message.rstrip(". ")
    _print_error(f"{sentence}{'' if sentence.endswith('?') else '.'}{more}")
    return FAILED


def _option_meant(error: Any) -> str | None:
    """Return what an option of another library, or of the Python function, is called here; None if it is unknown."""
    option, ctx = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or ctx is None:
        return None
    argument = option.lstrip("-").replace("-", "_")
    words = CommandLine(ctx.command).words
    options = [words[name] for name in (argument, *NAMES_HERE.get(argument, ())) if name in words]
    return next((word for word in options if word.startswith("--")), None)


def _print_error(message: str) -> None:
    # One paragraph, whatever line ends a name or another library's message brings along.
    Terminal(stderr=True).print(f"[red]{foreign(' '.join(message.split()))}[/red]", soft_wrap=True)


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning of condcs as a note; others with their kind."""
    words = str(message) if issubclass(category, CondcsWarning) else f"{category.__name__}: {message}"
    Terminal(stderr=True).print(f"[yellow]Note: {foreign(' '.join(words.split()))}[/yellow]", soft_wrap=True)


def check_file(option: str, path: Path, endings: Sequence[str] = ()) -> None:
    """Check that a file can be written; its folder must exist, since a mistyped one would be created silently."""
    if path.is_dir():
        raise ParameterError(f"`{option}` must be a file, got the folder {path}. Name a file in it.")
    if endings and path.suffix.lower() not in endings:
        raise ParameterError(f"`{option}` must end in {' or '.join(endings)}, got {path.name!r}. Rename it.")
    if not path.exists() or path.is_file():
        _check_writable(option, path.parent)


def check_folder(option: str, path: Path) -> None:
    """Check that files can be written into a folder; the last part of its path may be new."""
    if path.exists() and not path.is_dir():
        raise ParameterError(f"`{option}` must be a folder, got the file {path}. Name another place.")
    _check_writable(option, path if path.is_dir() else path.parent)


def _check_writable(option: str, folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"`{option}` must lie in a folder, but {folder} is not one. Name another place.")
    if not folder.is_dir():
        raise ParameterError(
            f"`{option}` must lie in a folder, but {folder} does not exist. Create it, or correct the path."
        )
    try:
        # Tried: permissions alone do not tell of read-only disks.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ParameterError(
            f"`{option}` must be a path that you may write to, but in {folder}: {error.strerror or error}. Name "
            "another place."
        ) from error
