"""Pages of the reference, one per package, made from what each exports: a hook of mkdocs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from exports import SUBPACKAGES, described, exports

_TESTS = (
    "conditional_test",
    "two_sample_test",
    "independence_test",
    "PermutedMeasure",
    "witness",
    "explain",
    "loss_change",
)
_RESULTS = (
    "TestResult",
    "ConfidenceInterval",
    "Estimate",
    "Witness",
    "Explanation",
    "Region",
    "LossChange",
)
_COMPARED = (
    "compare",
    "Comparison",
    "assert_same_relation",
    "compare_groups",
    "GroupComparison",
    "TableOptions",
    "Limits",
)
# What people look for first comes first; the rest follows by name.
_FIRST = ("conditional_cs", "conditional_cs_responses", "conditional_cs_predictors")
_TITLES = {
    "timeseries": "Time series",
    "causal": "Causality",
    "nn": "Losses for torch",
    "explore": "Exploration",
    "drift": "Drift",
    "adapters": "Adapters",
    "datasets": "Data sets",
    "comparison": "Comparing tables",
    "report": "Reports",
    "exceptions": "Errors and warnings",
}


def pages() -> dict[str, tuple[str, str]]:
    """Map the file of each page to its title and text."""
    top = exports("condcs")
    measures = [name for name in top if name not in (*_TESTS, *_RESULTS, *_COMPARED)]
    measures.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    made = {
        "reference/divergences.md": _page(
            "Divergences",
            "Everything here is in the top package: `import condcs`. [This table](../mathematics.md#the-measures) says "
            "which compares what.",
            [top[name] for name in measures],
        ),
        "reference/tests.md": _page(
            "Tests",
            "Hypothesis tests and what they return. [Which null](../guide/null.md) to choose has a page of its own.",
            [top[name] for name in (*_TESTS, *_RESULTS)],
        ),
    }
    for package in SUBPACKAGES:
        module = f"condcs.{package}"
        text, paths = described(module).replace("``", "`"), list(exports(module).values())
        lead = f"`{module}`: {text}"
        if package == "comparison":
            lead = (
                "Two tables in, an answer out. [A guide](../how-to/dataframes.md) shows it at work."
            )
            paths = [*(top[name] for name in _COMPARED), *paths]
        made[f"reference/{package}.md"] = _page(_TITLES[package], lead, paths)
    rows = []
    for file, (title, text) in made.items():
        named = [line.split(".")[-1] for line in text.splitlines() if line.startswith(":::")]
        first = ", ".join(f"`{name}`" for name in named)
        rows.append(f"| [{title}]({Path(file).name}) | {first} |")
    table = "\n".join(["| page | names |", "| --- | --- |", *rows])
    lead = "Made from the docstrings. Rows are observations everywhere; options are given by name."
    return {
        "reference/index.md": ("Reference", f"# Reference\n\n{lead}\n\n{table}\n"),
        **made,
    }


def _page(title: str, lead: str, paths: list[str]) -> tuple[str, str]:
    entries = "\n\n".join(f"::: {path}" for path in paths)
    return title, f"# {title}\n\n{lead}\n\n{entries}\n"


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, in place of the entry `Reference`."""
    made = [
        file if file.endswith("index.md") else {title: file} for file, (title, _) in pages().items()
    ]
    config.nav = [
        {"Reference": made} if isinstance(e, dict) and "Reference" in e else e
        for e in config.nav or []
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    for file, (_, text) in pages().items():
        files.append(File.generated(config, file, content=text))
    return files
