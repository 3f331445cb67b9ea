"""One page of all jobs: ratios, growth, memory and distance to the floor; and what got worse since the last one kept.

``python -m benchmarks page`` writes ``build/bench/``: results.json, results.md and index.html. ``page --keep`` also
replaces ``benchmarks/kept.json``, which is committed and which later runs are compared with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.jobs import JOBS

KEPT = Path(__file__).with_name("kept.json")
FOLDER = Path("build/bench")

SLACK = 1.5
"""A ratio that is worse by this factor is named: processor times of one run vary by a fifth or so."""
GROWTH_SLACK = 0.3

COLUMNS = {
    "title": "job",
    "size": "size",
    "instead": "instead of",
    "ratio": "ratio",
    "floor": "to the floor",
    "growth": "growth",
    "peak_mb": "peak MB",
    "seconds": "seconds",
}

Results = list[dict[str, Any]]


def measured() -> Results:
    """Measure every job, each in a process of its own with one thread."""
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    found = []
    for name in JOBS:
        command = [sys.executable, "-m", "benchmarks.jobs", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=one)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"  {name:<18} {found[-1]['ratio']:8.1f} x as fast as {found[-1]['instead']}", flush=True)
    return found


def worse(found: Results, kept: Results) -> list[str]:
    """Say what got worse: ratios by a factor, growth by an amount."""
    before = {job["name"]: job for job in kept}
    told = []
    for job in found:
        if (old := before.get(job["name"])) is None:
            continue
        if job["ratio"] * SLACK < old["ratio"]:
            told.append(f"{job['title']}: {job['ratio']:.1f} times as fast as {job['instead']}, was {old['ratio']:.1f}")
        if job["floor"] > SLACK * old["floor"]:
            told.append(f"{job['title']}: {job['floor']:.1f} times the floor, was {old['floor']:.1f}")
        if job["growth"] > old["growth"] + GROWTH_SLACK:
            told.append(f"{job['title']}: grows as n^{job['growth']:.2f}, was n^{old['growth']:.2f}")
        if job["peak_mb"] > SLACK * old["peak_mb"] + 50:
            told.append(f"{job['title']}: peak of {job['peak_mb']:.0f} MB, was {old['peak_mb']:.0f}")
    return told


def markdown(found: Results) -> str:
    """Return the table."""
    lines = ["| " + " | ".join(COLUMNS.values()) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(_shown(job[key]) for key in COLUMNS) + " |" for job in found]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def page_of(found: Results, told: list[str]) -> Any:
    """Return the page."""
    from condcs.report import Page

    page = Page("Benchmarks of condcs", "Each job beside what one would take instead, in processor time of one core.")
    if told:
        page.verdict("Worse than in the last run that was kept: " + "; ".join(told) + ".", "bad")
    elif KEPT.exists():
        page.verdict("Nothing is worse than in the last run that was kept.", "good")
    page.section("Jobs")
    page.table(list(COLUMNS.values()), [[_shown(job[key]) for key in COLUMNS] for job in found])
    page.figure(
        _drawn(found),
        alt="Bars: how many times as fast each job is as what one would take instead, on a logarithmic scale.",
        caption="Times as fast as what stands in brackets.",
    )
    page.text(
        "The ratio says how many times as fast the job is as what one would take instead. The floor is what a job "
        "cannot avoid: its exponentials and multiply-adds, at the speed that loops of nothing else reach in the same "
        "process. Growth is the exponent of processor time over three sizes; the peak is memory above the inputs."
    )
    page.data("results", found)
    return page


def _drawn(found: Results) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 0.5 + 0.5 * len(found)), layout="constrained")
    axes = figure.subplots()
    names = [f"{job['name']}\n({job['instead']})" for job in found]
    axes.barh(names, [job["ratio"] for job in found], color="#4477aa")
    axes.set_xscale("log")
    axes.set_xlabel("times as fast")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    print("jobs of the library, beside what one would take instead (one core, processor time)")
    found = measured()
    told = worse(found, json.loads(KEPT.read_text())) if KEPT.exists() else []
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1) + "\n"
    (FOLDER / "results.json").write_text(text)
    (FOLDER / "results.md").write_text(markdown(found))
    page_of(found, told).write(FOLDER / "index.html")
    if "--keep" in sys.argv:
        KEPT.write_text(text)
    print(f"  written to {FOLDER}/index.html")
    if told:
        sys.exit("worse than in the last run that was kept:\n  " + "\n  ".join(told))
