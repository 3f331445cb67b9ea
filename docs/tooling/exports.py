"""Public names of the package, read from its sources without running them: no partner needs to be installed."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"

SUBPACKAGES = (
    "timeseries",
    "causal",
    "nn",
    "explore",
    "drift",
    "adapters",
    "datasets",
    "comparison",
    "report",
    "exceptions",
)
"""Public packages and modules, in the order of the reference."""


def exports(module: str) -> dict[str, str]:
    """Map the public names of a package or module to the full paths at which their definitions can be read.

    `_HOMES` of a package that imports lazily says in which of its modules a name lives.
    """
    found = {}
    for statement in _parsed(module).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in ("__all__", "_HOMES"):
                try:
                    found[target.id] = ast.literal_eval(statement.value)
                except ValueError:
                    continue
    homes = {n: h if isinstance(h, str) else h[0] for n, h in dict(found.get("_HOMES", {})).items()}
    names = found.get("__all__") or sorted(homes)
    return {n: ".".join(filter(None, (module, homes.get(n, ""), n))) for n in names}


def described(module: str) -> str:
    """Return the docstring of a package or module."""
    return ast.get_docstring(_parsed(module)) or ""


def all_exports() -> dict[str, str]:
    """Map every public name, plain and with its package, to the full path of its definition."""
    found: dict[str, str] = {}
    for module in ("condcs", *(f"condcs.{s}" for s in SUBPACKAGES)):
        for name, path in exports(module).items():
            found[f"{module}.{name}"] = path
            found.setdefault(name, path)
    return found


def _parsed(module: str) -> ast.Module:
    path = SOURCES.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))
