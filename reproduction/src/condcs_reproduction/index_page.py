"""All experiments on one page: tables and figures, ours beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from condcs._core.files import WriteError
from condcs.report._page import LARGEST_VECTOR, Page
from condcs_reproduction.report import LEGEND, MISSING, QUICK_NOTE, UNJUDGED_LEGEND, Report
from condcs_reproduction.spec import Experiment, Results

_LARGEST_PICTURE = 4 * LARGEST_VECTOR


@dataclass(frozen=True)
class Done:
    """An experiment that was run, and the folder of its files.

    `unstored` is why its last trials could not be stored, None if all were.
    """

    experiment: Experiment
    results: Results
    report: Report
    folder: Path
    seconds: float
    unstored: WriteError | None


@dataclass(frozen=True)
class Left:
    """An experiment that was not run to its end, and why."""

    name: str
    reason: str
    failed: bool


def index_page(outcomes: Sequence[Done | Left], command: str, *, quick: bool) -> Page:
    """Put all experiments on one page."""
    done = [o for o in outcomes if isinstance(o, Done)]
    left = [o for o in outcomes if isinstance(o, Left)]
    page = Page(
        "The paper's tables and figures, reproduced",
        "The conditional Cauchy-Schwarz divergence with applications to time-series data and sequential decision "
        "making (Yu, Li, Løkse, Jenssen, Príncipe; TPAMI 2025). Ours beside the paper's numbers.",
    )
    if quick:
        page.verdict(QUICK_NOTE)
    counts = [o.report.agreement() for o in done if not o.report.beyond_paper]
    agree, judged = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    failed = sum(o.failed for o in left)
    page.section("Overview")
    page.facts(
        {
            **({"cells agree with the paper": f"{agree} of {judged}"} if judged else {}),
            "experiments": f"{len(done)} run, {len(left) - failed} skipped, {failed} failed",
            "computing time": duration(sum(o.seconds for o in done)),
        }
    )
    page.table(
        ["name", "what", *([] if quick else ["agree"]), "trials", "computing time", "seed"],
        [
            [
                o.experiment.name,
                o.report.title,
                *([] if quick else ["{} of {}".format(*o.report.agreement()) if o.report.agreement()[1] else "–"]),
                str(o.report.facts.get("trials", "")),
                duration(o.seconds),
                str(o.experiment.seed),
            ]
            for o in done
        ],
        caption=f"Experiments. {UNJUDGED_LEGEND if quick else LEGEND}",
    )
    if left:
        page.table(
            ["name", "outcome", "why"],
            [[o.name, "failed" if o.failed else "skipped", o.reason] for o in left],
            caption="Left out",
        )
    page.command(command)
    for outcome in done:
        _experiment(page, outcome)
    return page


def duration(seconds: float) -> str:
    """Write a time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _experiment(page: Page, outcome: Done) -> None:
    experiment, report = outcome.experiment, outcome.report
    page.section(f"{experiment.name}: {report.title}", short=experiment.name)
    page.text(experiment.reproduces)
    for grid in report.grids:
        page.table(
            [grid.corner, *grid.columns],
            [[name, *(str(row.get(column, MISSING)) for column in grid.columns)] for name, row in grid.cells.items()],
            caption=grid.title,
        )
    picture = outcome.folder / f"{experiment.name}.svg"
    # A vector picture of very many points is heavy to show; the same in pixels is not.
    if not picture.exists() or picture.stat().st_size > _LARGEST_PICTURE:
        picture = outcome.folder / f"{experiment.name}.png"
    if picture.exists():
        page.image(picture, alt=f"Figure of {experiment.name}: {experiment.reproduces}", caption=report.title)
    notes = [note for note in report.notes if note != QUICK_NOTE]
    if notes:
        page.points(notes)
    page.facts(
        {
            **({report.agreement_label(): "{} of {}".format(*report.agreement())} if report.agreement()[1] else {}),
            "seed": experiment.seed,
            "fingerprint of the trials": report.facts.get("fingerprint", ""),
            "trials": report.facts.get("trials", ""),
            "computing time": duration(outcome.seconds),
        }
    )
    page.command(str(report.facts.get("command", "")))
