"""No verdict hangs on a sentence: other words of warnings and of decisions leave every answer as it is."""

import json
import warnings
from typing import get_args

import numpy as np
import pytest

import condcs
from condcs.cli.compare_command import _table
from condcs.comparison import _wording
from condcs.comparison._result import Decision
from tests.docs.pages import DOCS


def _tables(kind):
    """Two tables whose comparison warns, or has something to caution against."""
    rng = np.random.default_rng(3)
    n = 160
    x, current_x = rng.normal(size=(2, n, 2))
    noise = rng.normal(size=(2, n))
    if kind == "apart":
        current_x[:, 0] += 5
    y, current_y = x[:, 0] + noise[0], current_x[:, 0] + noise[1]
    if kind == "changed":
        current_y += 1.5
    tables = [{"a": own[:, 0], "b": own[:, 1], "y": target} for own, target in ((x, y), (current_x, current_y))]
    if kind == "labels":
        for table, labels in zip(tables, ("stu", "tuv"), strict=True):
            table["c"] = rng.choice(list(labels), size=n)
    if kind == "neighbours":
        for table in tables:
            table["y"] = table["y"] + 3 * np.cumsum(rng.normal(size=n)) / np.sqrt(n)
    if kind == "copies":
        tables = [{name: np.repeat(column[: n // 2], 2) for name, column in table.items()} for table in tables]
    return tables


@pytest.mark.parametrize("kind", ["same", "changed", "apart", "labels", "neighbours", "copies"])
def test_other_words_of_warnings_change_no_verdict(kind, monkeypatch):
    """A warning that was worded anew flipped the verdict that samples hardly overlap."""
    tables = _tables(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        as_it_is = condcs.compare(*tables, y="y", n_resamples=39, rng=0, n_jobs=1)
    plain, scramble, reworded = warnings.warn, np.random.default_rng(0), []

    def warn_in_other_words(message, category=None, stacklevel=1, **more):
        words = str(message).split()
        scramble.shuffle(words)
        reworded.append(category)
        plain(" ".join(words), category, stacklevel=stacklevel + 1, **more)

    monkeypatch.setattr(warnings, "warn", warn_in_other_words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_other_words = condcs.compare(*tables, y="y", n_resamples=39, rng=0, n_jobs=1)
    assert in_other_words.verdict == as_it_is.verdict
    assert in_other_words.decision == as_it_is.decision
    assert reworded or kind not in {"apart", "labels"}


@pytest.fixture(scope="module")
def changed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return condcs.compare(*_tables("changed"), y="y", n_resamples=39, rng=0, n_jobs=1)


def cells_on_a_terminal(table):
    """The cells of each row, with the markup of the terminal."""
    return [*zip(*(column.cells for column in _table(table).columns), strict=True)]


def test_another_word_for_a_decision_took_its_style_its_tone_and_its_json(changed, monkeypatch):
    """The printed word was the key of styles, and the value in JSON."""
    as_it_is = json.dumps(changed.to_dict())
    shown = _wording.SHOWN_DECISIONS["changed"]
    monkeypatch.setitem(_wording.SHOWN_DECISIONS, "changed", shown._replace(word="moved"))
    assert cells_on_a_terminal(_wording.answers_table(changed))[1][1] == "[bold red]moved[/]"
    assert 'class="verdict bad"' in changed._page().html()
    assert changed.relation_changed
    assert json.dumps(changed.to_dict()) == as_it_is


def test_a_group_by_the_name_of_an_answer_was_printed_in_its_colour():
    """Cells were given the colour of an answer for what they said: a month called "changed" was bold and red."""
    rows = [("changed", _wording.NO_EVIDENCE)]
    table = _wording.table_with_answers(("month", "relation"), rows, frozenset())
    assert cells_on_a_terminal(table) == [("changed", "[green]no evidence[/]")]


def test_every_decision_has_its_words_and_is_in_the_schema():
    schema = json.loads((DOCS / "schemas" / "compare-1.json").read_text(encoding="utf-8"))
    assert tuple(schema["properties"]["decision"]["enum"]) == get_args(Decision)
    assert set(_wording.SHOWN_DECISIONS) == set(get_args(Decision))
