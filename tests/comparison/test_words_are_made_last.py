"""No verdict hangs on a sentence: warnings with other words leave every answer as it is."""

import warnings

import numpy as np
import pytest

import condcs


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
