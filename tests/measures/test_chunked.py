"""Samples larger than memory: the answer is that of the arrays, wherever the rows come from."""

import numpy as np
import pytest

import condcs
from condcs import Sampled, chunked_divergence
from condcs._measures import chunked
from condcs.exceptions import DataError, OverlapWarning, ParameterError, ShapeError

COARSE = Sampled(relative_error=0.5)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(1800, 2)), rng.normal(size=(1300, 2)) + 0.2
    return (xp, xp[:, 0] + rng.normal(size=1800)), (xq, 0.5 * xq[:, 0] + rng.normal(size=1300))


@pytest.fixture(scope="module")
def in_memory(samples):
    return condcs.conditional_cs(*samples[0], *samples[1], method=COARSE)


def tables(samples):
    pandas = pytest.importorskip("pandas")
    return [pandas.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}) for x, y in samples]


def in_pieces(*arrays, size=500):
    return lambda: (tuple(a[i : i + size] for a in arrays) for i in range(0, len(arrays[0]), size))


def kinds_of_source(samples, folder):
    yield "generator", [in_pieces(*s) for s in samples], {}
    files = []
    for i, (x, y) in enumerate(samples):
        names = [folder / f"{i}-x.npy", folder / f"{i}-y.npy"]
        for name, a in zip(names, (x, y), strict=True):
            np.save(name, a)
        files.append(tuple(np.load(name, mmap_mode="r") for name in names))
    yield "memory maps", files, {}
    columns = {"x": ["a", "b"], "y": "y"}
    frames = tables(samples)
    yield "frames", [lambda t=t: (t.iloc[i : i + 700] for i in range(0, len(t), 700)) for t in frames], columns
    pytest.importorskip("pyarrow")
    for i, frame in enumerate(frames):
        frame.to_parquet(folder / f"{i}.parquet", row_group_size=600)
    yield "parquet", [folder / "0.parquet", str(folder / "1.parquet")], columns
    from pyarrow import dataset

    yield "dataset", [dataset.dataset(folder / f"{i}.parquet") for i in (0, 1)], columns
    dask = pytest.importorskip("dask.dataframe")
    yield "dask frames", [dask.from_pandas(frame, npartitions=3) for frame in frames], columns
    from dask import array

    yield "dask arrays", [(array.from_array(x, 400), array.from_array(y, 400)) for x, y in samples], {}


def test_the_answer_is_that_of_the_arrays(samples, in_memory, tmp_path, monkeypatch):
    """To 1e-10: sums are added up in another order, and nothing else is different."""
    monkeypatch.setattr(chunked, "PART_ROWS", 800)
    for kind, sources, columns in kinds_of_source(samples, tmp_path):
        found = chunked_divergence(*sources, **columns, method=COARSE)
        assert found == pytest.approx(in_memory, rel=1e-10), kind
        assert found.standard_error == pytest.approx(in_memory.standard_error, rel=1e-6)
        assert found.n_anchors == in_memory.n_anchors


def test_labels_and_weights(samples):
    """Labels are coded over all chunks; a category of one sample alone is counted."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    frames = []
    for (x, y), letters in zip(samples, ("abc", "abcd"), strict=True):
        labels = rng.choice(list(letters), len(x))
        frames.append(pandas.DataFrame({"c": labels, "x": x[:, 0], "y": y, "w": rng.exponential(size=len(x))}))
    options = {"kernel_x": ["delta", "gaussian"], "estimator": "pooled", "method": COARSE}
    p, q = frames
    with pytest.warns(OverlapWarning) as told:
        expected = condcs.conditional_cs(
            p[["c", "x"]], p["y"], q[["c", "x"]], q["y"], weights_p=p["w"], weights_q=q["w"], **options
        )
    chunks = [lambda t=t: (t.iloc[i : i + 450] for i in range(0, len(t), 450)) for t in frames]
    with pytest.warns(OverlapWarning) as as_told:
        found = chunked_divergence(*chunks, x=["c", "x"], y=["y"], weights="w", **options)
    assert found == pytest.approx(expected, rel=1e-10)
    assert str(told[0].message) == str(as_told[0].message)


def test_bandwidths_can_be_numbers(samples, in_memory):
    widths = [condcs.bandwidth(*(s[i] for s in samples)) for i in (0, 1)]
    pieces = [in_pieces(*s) for s in samples]
    found = chunked_divergence(*pieces, bandwidth_x=widths[0], bandwidth_y=widths[1], method=COARSE)
    assert found == pytest.approx(in_memory, rel=1e-10)


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        ("conditional_euclidean", {}),
        ("conditional_cs", {"estimator": "pooled", "kernel_x": "laplacian"}),
        ("cs", {"bandwidth": 0.7}),
        ("mmd", {"unbiased": True, "kernel": lambda a, b: 2 * np.exp(-np.abs(a - b.T))}),
        ("joint_mmd", {"unbiased": True, "bandwidth_y": 0.5}),
    ],
)
def test_every_measure_that_is_sums_over_rows(samples, measure, options):
    """Weights included; those of single rows matter to the unbiased estimates, which leave rows' own terms out."""
    rng = np.random.default_rng(3)
    takes_x = measure not in ("cs", "mmd")
    weighted = [(*(s if takes_x else s[1:]), rng.exponential(size=len(s[1]))) for s in samples]
    arrays = [a for s in weighted for a in s[:-1]]
    weights = {"weights_p": weighted[0][-1], "weights_q": weighted[1][-1]}
    expected = getattr(condcs, measure)(*arrays, **weights, **options, method=COARSE)
    found = chunked_divergence(*(in_pieces(*s) for s in weighted), measure=measure, method=COARSE, **options)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-14)
    assert found.n_anchors == expected.n_anchors


def test_one_array_is_a_sample_of_y(samples):
    ys = [y for _, y in samples]
    found = chunked_divergence(*ys, measure="cs", method=COARSE)
    assert found == pytest.approx(condcs.cs(*ys, method=COARSE), rel=1e-10)
    again = chunked_divergence(*(lambda y=y: iter([y[:500], y[500:]]) for y in ys), measure="cs", method=COARSE)
    assert again == pytest.approx(found, rel=1e-10)


def test_chunks_that_are_others_each_time_are_refused(samples):
    """They gave a wrong number, with a standard error of 0, or none in common."""
    times = [0]

    def others(*, rows):
        def make():
            times[0] += 1
            rng = np.random.default_rng(times[0])
            n = 900 + (times[0] if rows else 0)
            yield rng.normal(size=(n, 2)), rng.normal(size=n)

        return make

    used_up = in_pieces(*samples[0])()
    for source in (others(rows=True), others(rows=False), lambda: used_up):
        with pytest.raises(DataError, match="`p` must yield the same chunks each time it is read"):
            chunked_divergence(source, samples[1], method=COARSE)


def test_tables_in_memory_are_read_in_parts(samples, in_memory, monkeypatch):
    monkeypatch.setattr(chunked, "PART_ROWS", 800)
    pyarrow = pytest.importorskip("pyarrow")
    for kind in (lambda t: t, pyarrow.Table.from_pandas):
        frames = [kind(table) for table in tables(samples)]
        found = chunked_divergence(*frames, x=["a", "b"], y="y", method=COARSE)
        assert found == pytest.approx(in_memory, rel=1e-10)


X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10.0)
GOOD = (X, Y)


@pytest.mark.parametrize(
    ("sources", "options", "error", "message"),
    [
        ((GOOD, 3.0), {}, ParameterError, "`x` and `y` must name columns where `q` is a table"),
        ((GOOD, 3.0), {"x": "a", "y": "b"}, DataError, r"`q` must be a pair \(x, y\), .* got float"),
        (((X, Y, Y, Y), GOOD), {}, ShapeError, r"`p` must be a pair \(x, y\), or \(x, y, weights\), got 4"),
        (((X, Y[:5]), GOOD), {}, ShapeError, "`p` must hold arrays with the same number of rows"),
        ((GOOD, (X[:1], Y[:1])), {}, ShapeError, "`q` must have at least 2 rows, got 1"),
        ((GOOD, (X[:, :1], Y)), {}, ShapeError, "must have the same number of columns in all chunks"),
        ((GOOD, (X * np.nan, Y)), {}, DataError, "`q` must be finite"),
        ((GOOD, (X.astype(str), Y)), {"bandwidth_x": 1.0}, None, None),
        ((GOOD, (np.full((10, 2), "a"), Y)), {}, DataError, "`q` must hold numbers in x, or labels"),
        ((GOOD, (X, Y, -Y)), {}, DataError, "`q` must have one non-negative weight per row"),
        ((GOOD, GOOD), {"method": "exact"}, ParameterError, "`method` must be a condcs.Sampled"),
        ((GOOD, (X, Y, 0 * Y)), {}, DataError, "`q` must have a positive total weight"),
        ((Y, (Y, Y, Y)), {"measure": "mmd"}, ShapeError, r"`q` must be an array, or a pair \(y, weights\), got 3"),
        ((GOOD, lambda: iter([Y])), {}, ParameterError, r"`q` must yield a pair \(x, y\)"),
        ((GOOD, GOOD), {"measure": "conditional_kl"}, ParameterError, "`measure` must be one of 'cs', 'mmd'"),
        ((GOOD, iter([GOOD])), {}, ParameterError, "`q` must be a function that makes the iterator"),
        ((Y, Y), {"measure": "mmd", "x": "a"}, ParameterError, "`x` must be None for 'mmd'"),
        ((GOOD, GOOD), {"measure": "best"}, ParameterError, "`measure` must be one of"),
        ((GOOD, GOOD), {"unbiased": True}, ParameterError, "`unbiased` must be an option of 'conditional_cs'"),
        ((Y, Y), {"measure": "cs", "estimator": "plugin"}, ParameterError, '`estimator` must be "resubstitution"'),
        ((GOOD, GOOD), {"estimator": "best"}, ParameterError, "`estimator` must be one of"),
        ((GOOD, GOOD), {"bandwidth_x": "scott"}, DataError, "`bandwidth_x` must be a number, one per column, 'median'"),
        ((GOOD, lambda: iter([{"a": Y}])), {"x": "a", "y": "b"}, DataError, "`q` must have the columns a, b"),
        ((GOOD, "/no/such/folder"), {"x": "a", "y": "b"}, DataError, "`q` must be a Parquet or Arrow dataset"),
    ],
)
def test_bad_samples(sources, options, error, message):
    if error is None:
        assert chunked_divergence(*sources, **options) == pytest.approx(0.0, abs=1e-12)
        return
    with pytest.raises(error, match=message):
        chunked_divergence(*sources, **options)
