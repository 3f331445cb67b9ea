"""Words of other libraries: `random_state`, `n_permutations`, `alpha` where there is none are told their names here."""

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest

import condcs
from condcs import causal, datasets, drift, explore, timeseries
from condcs._core.errors import ParameterError, ShapeError
from condcs._core.keywords import FIELDS_OF_TABLES, NAMES_HERE
from condcs._measures.registry import MEASURES

PACKAGES = (condcs, causal, datasets, drift, explore, timeseries)
FUNCTIONS = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if inspect.isfunction(getattr(package, name)) and inspect.signature(getattr(package, name)).parameters
}
X = np.random.default_rng(0).normal(size=(4, 30, 1))


def called_with(function, **unknown):
    """Call with something for every argument that has no default: a wrong keyword comes first."""
    parameters = inspect.signature(function).parameters.values()
    required = {
        p.name: X[0] for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        required = dict(zip(required, X, strict=False))
    return function(**{**required, **unknown})


@pytest.mark.parametrize("word", ["random_state", "seed", "n_permutations", "permutations", "alpha", "n_workers"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_word_of_another_library_was_a_bare_type_error(name, word):
    """Every public function says what it is called here, if it has such an option at all."""
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    here = [other for other in NAMES_HERE[word] if other in parameters]
    passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if word in parameters or (passes_on and not here):
        return
    with pytest.raises(TypeError, match=f"{name.rpartition('.')[2]}: there is no option `{word}`") as caught:
        called_with(function, **{word: 1})
    assert all(f"`{other}`" in str(caught.value) for other in here)
    assert here or word == "alpha" or all(other in str(caught.value) for other in parameters if other != "samples")


def test_single_words():
    with pytest.raises(TypeError, match=r"`random_state`. It is called `rng` here"):
        condcs.conditional_test(*X, random_state=0)
    with pytest.raises(TypeError, match=r"The result has the p-value, `pvalue`: compare it with the level"):
        condcs.conditional_test(*X, alpha=0.05)
    with pytest.raises(TypeError, match=r"Pass `confidence_level`, which is 1 - alpha"):
        condcs.two_sample_test(*X[:2], n_resamples=19, rng=0).confidence_interval(alpha=0.05)
    with pytest.raises(TypeError, match=r"Did you mean `estimator`\?"):
        condcs.conditional_cs(*X, estimater="pooled")
    with pytest.raises(
        TypeError, match=r"ConditionalDriftDetector: there is no option `random_state`. It is called `rng`"
    ):
        drift.ConditionalDriftDetector(X[0], X[1], random_state=0)
    with pytest.raises(TypeError, match=r"ConditionalDriftDetector: .* so no level: pass `expected_run_length`"):
        drift.ConditionalDriftDetector(X[0], X[1], alpha=0.05)
    with pytest.raises(TypeError, match=r"TableOptions\(cluster=...\)"):
        condcs.compare({}, {}, y="y", cluster="customer")


def test_a_level_was_to_be_compared_with_a_pvalue_that_the_result_lacks():
    """A graph has one for each link; a witness and the parts of a loss have none."""
    with pytest.raises(TypeError, match=r"result, `links\(alpha\)`, or compare its `pvalues_adjusted` with the level"):
        causal.causal_graph(X[0], alpha=0.05)
    for function in (condcs.witness, condcs.loss_change):
        with pytest.raises(TypeError) as caught:
            called_with(function, alpha=0.05)
        assert "pvalue" not in str(caught.value)


def test_options_that_are_passed_on_are_still_checked_by_their_measure():
    with pytest.raises(ParameterError, match="`n_resample` must be an option of the test"):
        condcs.conditional_test(*X, n_resample=9)


def test_a_type_error_from_inside_stays_what_it_is():
    def kernel(a, b):
        raise TypeError("from the kernel")

    with pytest.raises(TypeError, match="from the kernel"):
        condcs.cs(X[0], X[1], kernel=kernel)


def test_fields_of_tables_are_those_of_its_class():
    assert {field.name for field in dataclasses.fields(condcs.TableOptions)} == FIELDS_OF_TABLES


# --- missing and max_rows of compare ---------------------------------------------------------------------------------


def month(slope, seed, rows=120):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = slope * x + 0.3 * rng.normal(size=rows)
    y[::17] = np.nan
    return {"x": x, "y": y, "month": np.repeat(["a", "b"], rows // 2)}


def test_missing_and_max_rows_were_a_bare_type_error_in_compare():
    tables = month(1, 0), month(1, 1)
    options = {"y": "y", "x": "x", "n_resamples": 39}
    direct = condcs.compare(*tables, **options, missing="drop", max_rows=60)
    assert direct == condcs.compare(*tables, **options, tables=condcs.TableOptions(missing="drop", max_rows=60))
    mixed = condcs.compare(*tables, **options, missing="drop", tables=condcs.TableOptions(max_rows=60))
    assert mixed == direct
    assert direct.pair.reference.used == 60


def test_missing_and_max_rows_of_groups():
    options = {"group": "month", "y": "y", "x": "x", "n_resamples": 39}
    direct = condcs.compare_groups(month(1, 0), **options, missing="drop", max_rows=50)
    assert direct == condcs.compare_groups(
        month(1, 0), **options, tables=condcs.TableOptions(missing="drop", max_rows=50)
    )


def test_an_option_of_tables_is_given_once():
    tables = condcs.TableOptions(missing="error")
    with pytest.raises(
        ParameterError, match=r"compare: `missing` must be given once, got 'drop' and, in `tables`, 'error'"
    ):
        condcs.compare(month(1, 0), month(1, 1), y="y", missing="drop", tables=tables)
    with pytest.raises(ParameterError, match=r"`missing` must be one of"):
        condcs.compare(month(1, 0), month(1, 1), y="y", missing="impute")


# --- bandwidth sets both ---------------------------------------------------------------------------------------------

CONDITIONAL = [name for name, measure in MEASURES.items() if measure.takes_x and measure.gram]


@pytest.mark.parametrize("width", [0.7, "silverman"])
@pytest.mark.parametrize("name", CONDITIONAL)
def test_plain_bandwidth_was_unknown_to_measures_of_x_and_y(name, width):
    measure = MEASURES[name]
    both = {"bandwidth_x": width, "bandwidth_y": width}
    assert measure(*X, bandwidth=width) == measure(*X, **both)
    groups = [(X[0], X[1]), (X[2], X[3])]
    assert np.array_equal(
        condcs.pairwise(groups, measure=name, bandwidth=width), condcs.pairwise(groups, measure=name, **both)
    )
    with pytest.raises(ParameterError, match=f"{name}: `bandwidth` must not be given together with `bandwidth_y`"):
        measure(*X, bandwidth=width, bandwidth_y=0.5)
    if measure.row_sums is not None and width != "silverman":
        chunks = condcs.chunked_divergence(*groups, measure=name, bandwidth=width)
        assert chunks == condcs.chunked_divergence(*groups, measure=name, **both)


def test_plain_bandwidth_of_other_divergences():
    x, y, z, _ = X
    assert condcs.conditional_cs_responses(x, y, z, bandwidth=0.7) == condcs.conditional_cs_responses(
        x, y, z, bandwidth_x=0.7, bandwidth_y=0.7
    )
    single = {"bandwidth_y": 0.7, "bandwidth_x1": 0.7, "bandwidth_x2": 0.7}
    assert condcs.conditional_cs_predictors(y, x, z, bandwidth=0.7) == condcs.conditional_cs_predictors(
        y, x, z, **single
    )
    both = condcs.mcmd(*X, at=[0.0], bandwidth_x=0.7, bandwidth_y=0.7)
    assert np.array_equal(condcs.mcmd(*X, at=[0.0], bandwidth=0.7), both)


# --- transposes that help --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "remedy"),
    [
        ([(120, 2), (120,), (120, 1), (120,)], "Pass the same columns of both."),
        ([(120, 2), (120,), (120,), (120,)], "Pass the same columns of both."),
        ([(50, 3), (50,), (3, 40), (40,)], "If `xq` holds one feature per row, pass `xq.T`."),
        ([(3, 50), (50,), (40, 3), (40,)], "If `xp` holds one feature per row, pass `xp.T`."),
        ([(2, 120), (120,), (2, 110), (110,)], "If they hold one feature per row, pass `xp.T` and `xq.T`."),
        ([(120, 2), (100,), (120, 2), (120,)], "Drop the rows that only one of them has."),
        ([(120, 2), (2, 120), (120, 2), (2, 120)], "If `yp` holds one feature per row, pass `yp.T`."),
    ],
)
def test_a_transpose_that_cannot_help_was_advised(shapes, remedy):
    """(120, 2) against (120, 1): no transpose of either makes them agree."""
    with pytest.raises(ShapeError) as caught:
        condcs.conditional_cs(*(np.random.default_rng(0).normal(size=shape) for shape in shapes))
    assert str(caught.value).endswith(remedy)


def test_importing_condcs_does_not_read_signatures():
    """They are looked at when a call has failed."""
    code = "import condcs; from condcs._core.keywords import _parameters; print(_parameters.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
