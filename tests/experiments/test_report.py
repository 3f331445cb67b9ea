"""Verdicts and the forms of a report."""

import dataclasses
import io
import json

import pytest

from condcs_reproduction import table2
from condcs_reproduction.report import Cell, Grid, Report, judged, rate_error

REPORT = Report(
    "A title",
    [Grid("A table", "row", ["x", "y"], {"r": {"x": Cell(0.5, 0.52, "agrees"), "y": Cell(None)}})],
    ["A note."],
)


@pytest.mark.parametrize(
    ("ours", "spread", "verdict"),
    [(0.5, 0.0, "agrees"), (0.56, 0.0, "higher"), (0.44, 0.0, "lower"), (0.56, 0.05, "agrees"), (0.55, 0.0, "agrees")],
)
def test_verdict(ours, spread, verdict):
    """Within the tolerance or 2.58 standard errors."""
    assert judged(ours, 0.5, spread=spread, tolerance=0.05) == verdict


def test_rate_error_is_never_zero():
    """All of 100 trials alike still leave a doubt; a half is the widest."""
    assert 0 < rate_error(100, 100) < rate_error(50, 100)
    assert rate_error(100, 100) == pytest.approx(rate_error(0, 100))
    assert rate_error(50, 100) == pytest.approx((0.25 / 104) ** 0.5)


def test_markdown_shows_ours_and_the_papers():
    text = REPORT.to_markdown()
    assert "| r | 0.50 (0.52) ✓ | – |" in text
    assert "1 of 1 cells agree" in text
    assert text.endswith("- A note.\n")


def test_rounding_left_minus_nothing():
    assert str(Cell(-0.0004, -0.001)) == "0.00 (0.00)"
    assert str(Cell(-0.004, digits=3)) == "-0.004"


def test_the_names_of_rows_of_squares_were_cut_off():
    """The picture is drawn twice, as PNG and as SVG; the layout of squares moved in between."""
    figure = pytest.importorskip("matplotlib.figure").Figure(layout="constrained")
    table2.draw(table2.EXPERIMENT, {}, figure)
    for _ in range(2):
        figure.savefig(io.BytesIO(), format="svg")
        assert figure.get_tightbbox().x0 >= 0


def test_what_the_paper_lacks_does_not_count_as_its_result():
    text = dataclasses.replace(REPORT, beyond_paper=True).to_markdown()
    assert "1 of 1 cells are as expected" in text
    assert "agree with the paper" not in text
    assert "paper's in brackets" not in text


def test_json_is_complete():
    content = json.loads(REPORT.to_json())
    assert content["tables"][0]["cells"]["r"]["x"]["verdict"] == "agrees"
    assert (content["agree"], content["judged"]) == (1, 1)


def test_cell_with_error_and_detail():
    assert str(Cell(0.1, 0.2, "lower", error=0.01, detail="best 0.05")) == "0.10 ± 0.01 [best 0.05] (0.20) ▼"
