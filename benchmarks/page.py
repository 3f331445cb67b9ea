"""One page of all jobs: ratios, growth, memory and distance to the floor; and what got worse since the last one kept.

``make bench`` writes ``build/bench/``: results.json, results.md and index.html. ``make bench ARGS="page --keep"`` also
replaces ``benchmarks/kept.json``, which is committed and which later runs are compared with.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cold import ColdStart, cold_starts
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
    "ratio": "times as fast",
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
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=one)
        if done.returncode:
            missing = done.stderr.strip().splitlines()[-1]
            if "ModuleNotFoundError" not in missing:
                sys.exit(done.stderr)
            print(f"  {name:<18} left out: {missing}", flush=True)
            continue
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"  {name:<18} {found[-1]['ratio']:8.1f} x as fast as {found[-1]['instead']}", flush=True)
    return found


def processor() -> str:
    """Return what numbers are comparable on: the processor and the widest instructions that numpy uses on it."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    names = [line for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
    model = names[0].partition(":")[2].strip() if names else platform.processor()
    widest = next((name for name in ("AVX512_SKX", "AVX2", "NEON") if features.get(name)), "no vectors")
    return f"{model}, {widest}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def worse(found: Results, kept: Results) -> list[str]:
    """Say what got worse: ratios by a factor, growth by an amount."""
    before = {job["name"]: job for job in kept}
    told = []
    for job in found:
        if (old := before.get(job["name"])) is None:
            continue
        if job["ratio"] * SLACK < old["ratio"]:
            told.append(f"{job['title']}: {job['ratio']:.1f} times as fast as {job['instead']}, was {old['ratio']:.1f}")
        if old["floor"] and job["floor"] > SLACK * old["floor"]:
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
    if value == 0:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def page_of(found: Results, told: list[str], kept_on: str | None, starts: Sequence[ColdStart]) -> Any:
    """Return the page; `kept_on` is the processor of the last run that was kept, if there was one."""
    from condcs.report import Page

    page = Page("Benchmarks of condcs", "Each job beside what one would take instead, in processor time of one core.")
    here = processor()
    where = "" if kept_on in (None, here) else f" That was on another processor ({kept_on})."
    if told:
        listed = "; ".join(told)
        page.verdict(f"Worse than in the last run that was kept: {listed}.{where}", "neutral" if where else "bad")
    elif kept_on is not None:
        page.verdict(f"Nothing is worse than in the last run that was kept.{where}", "good")
    page.section("Jobs")
    page.table(list(COLUMNS.values()), [[_shown(job[key]) or None for key in COLUMNS] for job in found])
    page.figure(
        _drawn(found),
        alt="Bars: how many times as fast each job is as what one would take instead, on a logarithmic scale.",
        caption="Times as fast as what stands in brackets.",
    )
    page.text(
        "The ratio says how many times as fast the job is as what one would take instead; the two need not answer the "
        "same question. The floor is what a job cannot avoid: its exponentials and multiply-adds, at the speed that "
        "loops of nothing else reach in the same process, where they can be counted. Growth is the exponent of "
        "processor time over three sizes, of which the middle one is in the table; the peak is memory above the "
        f"inputs. Measured on {here}."
    )
    page.section("Cold starts")
    page.table(
        ["first call", "nothing compiled, seconds", "all compiled, seconds", "ratio"],
        [[start.name, f"{start.cold:.1f}", f"{start.warm:.1f}", f"{start.ratio:.1f}"] for start in starts],
    )
    page.text("Processor time of whole processes, imports included.")
    page.data("results", found)
    return page


def _drawn(found: Results) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.6 + 0.42 * len(found)), layout="constrained")
    axes = figure.subplots()
    names = [f"{job['name']}\n({job['instead']})" for job in found]
    ratios = [job["ratio"] for job in found]
    colours = ["#4477aa" if ratio >= 1 else "#cc6677" for ratio in ratios]
    axes.barh(names, [ratio - 1 for ratio in ratios], left=1.0, color=colours)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("times as fast")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    print("jobs of the library, beside what one would take instead (one core, processor time)")
    found = measured()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"processor": None, "jobs": []}
    told, kept_on = worse(found, kept["jobs"]), kept["processor"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"processor": processor(), "jobs": found}, indent=1) + "\n"
    (FOLDER / "results.json").write_text(text)
    (FOLDER / "results.md").write_text(markdown(found))
    starts = list(cold_starts())
    page_of(found, told, kept_on, starts).write(FOLDER / "index.html")
    if "--keep" in sys.argv:
        KEPT.write_text(text)
    print(f"  written to {FOLDER}/index.html")
    if told:
        listed = "worse than in the last run that was kept:\n  " + "\n  ".join(told)
        if kept_on == processor():
            sys.exit(listed)
        print(f"{listed}\n  That was on another processor: {kept_on}.")
