"""Tables of the command line's options, made from the program itself: a hook of mkdocs.

A line `<!-- options: compare -->` in a page becomes the table of that command.
"""

from __future__ import annotations

import re
from typing import Any

_MARK = re.compile(r"^<!-- options: ([\w-]+) -->$", re.MULTILINE)


def table(command: Any) -> str:
    """Return the arguments and options of a command as a Markdown table."""
    rows = ["| option | meaning | default |", "| --- | --- | --- |"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        argument = parameter.param_type_name == "argument"
        name = parameter.name.upper() if argument else ", ".join(parameter.opts)
        text = (getattr(parameter, "help", "") or "").replace("|", "\\|")
        default = parameter.default
        # Whatever stands for "nothing given" differs between versions of click.
        shown = (
            f"`{default}`"
            if isinstance(default, str | int | float) and not isinstance(default, bool)
            else ""
        )
        if hasattr(default, "__fspath__"):
            shown = f"`{default}`"
        rows.append(f"| `{name}` | {text} | {'required' if parameter.required else shown} |")
    return "\n".join(rows)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the tables of a page."""
    if not _MARK.search(markdown):
        return markdown
    import typer

    from condcs.cli.app import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return _MARK.sub(lambda match: table(commands[match[1]]), markdown)
