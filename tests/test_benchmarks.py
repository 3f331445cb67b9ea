"""The page of benchmarks names what got worse."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import jobs, page

JOB = {"name": "mmd", "title": "mmd", "instead": "the dense way", "size": 2000, "seconds": 1.0}
GOOD = {**JOB, "ratio": 10.0, "floor": 2.0, "growth": 1.0, "peak_mb": 10.0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ratio": 6.0}, "6.0 times as fast as the dense way, was 10.0"),
        ({"floor": 3.5}, "3.5 times the floor, was 2.0"),
        ({"growth": 1.5}, "grows as n^1.50, was n^1.00"),
        ({"peak_mb": 90.0}, "peak of 90 MB, was 10"),
    ],
)
def test_what_got_worse_is_named(change, words):
    assert page.worse([{**GOOD, **change}], [GOOD]) == [f"mmd: {words}"]


def test_what_is_as_it_was_is_not_named():
    assert page.worse([GOOD, {**GOOD, "name": "new", "ratio": 0.1}], [{**GOOD, "ratio": 14.0}]) == []


def test_both_ways_of_a_job_agree():
    """What is timed beside ours computes the same number."""
    for name in ("conditional_cs", "mmd"):
        work = jobs.JOBS[name].prepare(40)
        assert work.ours() == pytest.approx(work.other(), rel=1e-9)
