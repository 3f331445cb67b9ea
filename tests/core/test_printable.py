"""Results are short where they are printed: a repr of one line without arrays or addresses, and HTML in notebooks."""

import ast
import dataclasses
import importlib
import inspect
import re
import warnings

import numpy as np
import pytest

import condcs
from condcs._core.printable import Printable, brief

NAMES = ("adapters", "causal", "comparison", "datasets", "drift", "explore", "nn", "report", "timeseries")
PACKAGES = ("", *(f".{name}" for name in NAMES))
PARTNERS = ("torch", "sklearn", "gymnasium", "skorch", "skada", "numpy")
"""Libraries whose classes have reprs of their own, as everybody knows them."""
LONGEST = 200


def public_classes():
    """All classes that a public package lists, those whose repr is a partner's or Python's own left aside."""
    for package in PACKAGES:
        try:
            module = importlib.import_module(f"condcs{package}")
        except ImportError:  # Its extra is absent.
            continue
        for name in module.__all__:
            try:
                made = getattr(module, name)
            except ImportError:
                continue
            if inspect.isclass(made) and not issubclass(made, BaseException):
                # The repr of a number or an array is its value, and a partner's classes print as they do there.
                partner = {base.__module__.partition(".")[0] for base in made.__mro__} & set(PARTNERS)
                if not partner:
                    yield pytest.param(made, id=f"condcs{package}.{name}")


def is_option(made):
    """Whether users make it, and it compares as plain values do: its repr is that of a dataclass, exact."""
    return dataclasses.is_dataclass(made) and not issubclass(made, Printable)


CLASSES = list(public_classes())
ADVERSE = [
    np.zeros((400, 3)),
    "a long sentence with <angles> & \x1b[2J " * 30,
    {f"key {i}": np.zeros(9) for i in range(50)},
    tuple(range(1000)),
    [np.zeros(5), np.zeros(6)],
    1 / 3 * 1e-300,
    None,
    lambda: None,
    object(),
]
"""What fields may hold at worst."""


def is_short(text):
    return len(text) <= LONGEST and "\n" not in text and not re.search(r"0x[0-9a-f]{6}|array\(|\x1b", text)


@pytest.mark.parametrize("made", CLASSES)
def test_reprs_of_results_had_arrays_and_addresses(made):
    """Whatever the fields hold: 775 characters for a test, 3,094 for `Comparison.relation`, addresses in a shift."""
    if is_option(made):
        parameters = inspect.signature(made).parameters.values()
        if all(p.default is not p.empty for p in parameters):
            assert is_short(repr(made()))
        return
    assert issubclass(made, Printable)
    assert "_repr_html_" not in made.__dict__
    if not dataclasses.is_dataclass(made) or made.__repr__ is not Printable.__repr__:
        return
    for shift in range(len(ADVERSE)):
        result = object.__new__(made)
        for place, field in enumerate(dataclasses.fields(made)):
            object.__setattr__(result, field.name, ADVERSE[(place + shift) % len(ADVERSE)])
        assert is_short(repr(result))
        assert repr(result).startswith(f"{made.__name__}(")


def month(slope, seed):
    rng = np.random.default_rng(seed)
    area = rng.normal(100, 20, size=120)
    return {"area": area, "price": slope * area + rng.normal(0, 10, size=120), "month": np.repeat(["a", "b"], 60)}


@pytest.fixture(scope="module")
def results():
    """One of each kind, and everything within it."""
    x, noise = np.random.default_rng(0).normal(size=(2, 200))
    samples = x[:100], x[:100] + noise[:100], x[100:], noise[100:] - x[100:]
    compared = condcs.compare(month(2, 0), month(3, 1), y="price", x="area", n_resamples=99)
    groups = condcs.compare_groups(month(2, 0), group="month", y="price", x="area", n_resamples=99)
    test = condcs.conditional_test(*samples, n_resamples=39, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = condcs.drift.ConditionalDriftDetector(x, noise, rng=0)
    series = np.cumsum(np.random.default_rng(1).normal(size=(8, 40)), axis=1)
    found = [
        compared,
        groups,
        *compared.effects,
        test,
        detector,
        condcs.witness(*samples),
        condcs.loss_change(samples[0], samples[1] ** 2, samples[2], samples[3] ** 2),
        test.estimate(n_resamples=20, rng=0),
        test.confidence_interval(n_resamples=20, rng=0),
        condcs.causal.causal_graph(np.column_stack([x[1:], x[:-1] + 0.1 * noise[1:]])),
        condcs.timeseries.cluster(series, 2),
        condcs.datasets.make_local_shift(20),
        condcs.MEASURES["conditional_cs"],
        condcs.report.Page("title"),
    ]
    for result in found:
        if dataclasses.is_dataclass(result):
            fields = (getattr(result, field.name) for field in dataclasses.fields(result))
            inner = [part for value in fields for part in (value if isinstance(value, tuple) else [value])]
            found = [*found, *(part for part in inner if isinstance(part, Printable) and type(part).__module__)]
    return found


def test_results_that_were_made_are_short(results):
    assert {"Comparison", "GroupComparison", "TestResult", "ViewsOutcome", "CausalGraph", "SeriesClusters", "Effect",
            "Estimate", "ConditionalDriftDetector"} <= {type(result).__name__ for result in results}  # fmt: skip
    for result in results:
        assert is_short(repr(result)), repr(result)
        assert is_short(brief(result))
        html = result._repr_html_()
        assert html.startswith("<")
        assert not re.search(r" at 0x[0-9a-f]{6}", html)


def test_words_of_a_test_in_a_notebook_are_those_of_print():
    y = np.random.default_rng(0).normal(size=(2, 50))
    result = condcs.two_sample_test(y[0], y[1] + 2, n_resamples=19, rng=0)
    assert repr(result).startswith("TestResult(statistic=")
    assert "pvalue=0.05" in repr(result)
    assert result._repr_html_() == f"<pre>{result}</pre>".replace("'", "&#x27;")


def test_cells_of_a_file_are_escaped_in_a_notebook():
    setting = condcs.timeseries.Setting(2, 0.5, "<script>\x1b[2J")
    html = setting._repr_html_()
    assert html.startswith("<table><caption>Setting</caption><tr><th>order</th><td>2</td></tr>")
    assert "<script>" not in html
    assert "\x1b" not in html + repr(setting)


def test_an_interval_is_still_a_tuple():
    interval = condcs.ConfidenceInterval(1.0, 2.0)
    assert interval == (1.0, 2.0)
    assert interval.high == 2.0
    assert repr(interval) == "ConfidenceInterval(low=1.0, high=2.0)"
    assert ast.literal_eval(repr(tuple(condcs.Estimate(1.0, 0.5, 2.0, 0.95)))) == (1.0, 0.5, 2.0)


def test_the_registry_of_measures_printed_all_their_functions():
    assert len(repr(condcs.MEASURES)) <= LONGEST
    assert all(name in repr(condcs.MEASURES) for name in condcs.MEASURES)
    with pytest.raises(TypeError):
        condcs.MEASURES["cs"] = condcs.MEASURES["mmd"]
