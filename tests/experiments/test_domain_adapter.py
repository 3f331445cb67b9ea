"""The domain adapter: learns, aligns, stops, resumes, and never sees a target label."""

import numpy as np
import pytest
from sklearn.base import clone

from condcs._core.errors import CondcsWarning, DataError, ParameterError, ShapeError

torch = pytest.importorskip("torch")

from condcs_reproduction.adaptation import (  # noqa: E402
    METHODS,
    BottleneckNetwork,
    DomainAdapter,
    Stopping,
    choose_weight,
    reverse_validation,
)


def domains(n=96, shift=1.5, seed=0):
    """Two classes along the first axis; the target is shifted along it."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    xs, xt = (rng.normal(scale=0.7, size=(n, 4)) + np.outer(2.0 * y - 1, [1, 0.5, 0, 0]) for _ in range(2))
    return xs, y, xt + np.array([shift, 0, 0, 0]), y


def network():
    return BottleneckNetwork(torch.nn.Identity(), 4, 2, bottleneck=(16, 8))


def adapter(**options):
    settings = {"warmup": 5, "epochs": 15, "batch_size": 32, **options}
    return DomainAdapter(network, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_aligns(method):
    """The source is learned; a discrepancy falls below what the plain network has."""
    xs, ys, xt, _ = domains()
    fitted = adapter(method=method, epochs=25).fit(xs, ys, xt)
    assert fitted.score(xs, ys) > 0.85
    assert len(fitted.history_) == 25
    assert all(np.isfinite(list(r.values())).all() for r in fitted.history_)
    if method != "none":
        after = [r["discrepancy"] for r in fitted.history_[5:]]
        assert np.mean(after[-5:]) < after[0]


@pytest.mark.slow
def test_alignment_helps_where_it_can():
    """A pure shift of the inputs: with alignment the target is classified better, on average over three seeds."""
    gains = []
    for seed in range(3):
        xs, ys, xt, yt = domains(shift=2.0, seed=seed)
        plain, aligned = (
            adapter(method=m, weight=5.0, epochs=25, random_state=seed).fit(xs, ys, xt).score(xt, yt)
            for m in ("none", "cs")
        )
        gains.append(aligned - plain)
    assert np.mean(gains) > 0.05


def test_same_seed_same_network_and_the_global_generator_is_left_alone():
    xs, ys, xt, _ = domains()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    settings = {"warmup": 2, "epochs": 4}
    first = adapter(random_state=3, **settings).fit(xs, ys, xt).predict_proba(xt)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    np.testing.assert_array_equal(adapter(random_state=3, **settings).fit(xs, ys, xt).predict_proba(xt), first)
    assert not np.array_equal(adapter(random_state=4, **settings).fit(xs, ys, xt).predict_proba(xt), first)


def test_a_module_is_copied():
    xs, ys, xt, _ = domains()
    module = network()
    weights = module.classifier.weight.detach().clone()
    fitted = DomainAdapter(module, epochs=3, warmup=1).fit(xs, ys, xt)
    assert torch.equal(module.classifier.weight, weights)
    assert not torch.equal(fitted.module_.classifier.weight, weights)


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    """Killed after seven of twelve epochs: the same weights and history as without the kill."""
    xs, ys, xt, _ = domains()

    class Killed(Exception):
        pass

    def kill(done, epochs, record):
        if done == 7:
            raise Killed

    run = {"checkpoint": tmp_path / "run.pt", "checkpoint_every": 1}
    with pytest.raises(Killed):
        adapter(epochs=12, warmup=3).fit(xs, ys, xt, progress=kill, **run)
    resumed = adapter(epochs=12, warmup=3).fit(xs, ys, xt, resume=True, **run)
    whole = adapter(epochs=12, warmup=3).fit(xs, ys, xt)
    assert resumed.history_ == whole.history_
    assert resumed.best_epoch_ == whole.best_epoch_
    np.testing.assert_array_equal(resumed.predict_proba(xt), whole.predict_proba(xt))


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    xs, ys, xt, _ = domains()
    path = tmp_path / "run.pt"
    adapter(epochs=2).fit(xs, ys, xt, checkpoint=path)
    with pytest.raises(ParameterError, match="`checkpoint` must come from a run with the same settings and data"):
        adapter(epochs=2, weight=2.0).fit(xs, ys, xt, checkpoint=path, resume=True)
    with pytest.raises(ParameterError, match="`checkpoint` must come from"):
        adapter(epochs=2).fit(xs, ys, xt + 1, checkpoint=path, resume=True)
    other = adapter(epochs=2)
    other.set_params(module=lambda: BottleneckNetwork(torch.nn.Identity(), 4, 2, bottleneck=(5,)))
    with pytest.raises(ParameterError, match="`checkpoint` must come from"):
        other.fit(xs, ys, xt, checkpoint=path, resume=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:900] + bytes([whole[900] ^ 1]) + whole[901:])  # a weight, say
    with pytest.raises(ParameterError, match=r"must be a complete file written by fit.*checksum"):
        adapter(epochs=2).fit(xs, ys, xt, checkpoint=path, resume=True)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ParameterError, match="must be a complete file written by fit"):
        adapter(epochs=2).fit(xs, ys, xt, checkpoint=path, resume=True)
    with pytest.raises(ParameterError, match="`resume` needs a file"):
        adapter(epochs=2).fit(xs, ys, xt, resume=True)


def test_early_stopping_and_the_kept_epoch():
    """Stops `patience` epochs after the best one; the kept weights are that epoch's."""
    xs, ys, xt, _ = domains()
    fitted = adapter(epochs=200, stopping=Stopping(patience=4), learning_rate=0.05).fit(xs, ys, xt)
    objective = [r["held_out_objective"] for r in fitted.history_]
    assert len(objective) < 200
    assert len(objective) == fitted.best_epoch_ + 4
    assert fitted.best_epoch_ > 5  # after the warm-up
    assert objective[fitted.best_epoch_ - 1] == min(objective[5:])


def test_progress_is_told():
    xs, ys, xt, _ = domains()
    told = []
    adapter(epochs=3, warmup=1).fit(xs, ys, xt, progress=lambda done, epochs, record: told.append((done, epochs)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_collapsed_features_do_not_end_the_run():
    """A network that maps everything to one point has no width by rule; said once, at the end."""

    class Collapsed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x):
            z = torch.ones(len(x), 3) * self.bias.sum()
            return self.bias.expand(len(x), 2), [z]

    xs, ys, xt, _ = domains()
    with pytest.warns(CondcsWarning, match="features had no spread in"):
        fitted = DomainAdapter(Collapsed, method="ddc", warmup=0, epochs=2).fit(xs, ys, xt)
    assert fitted.n_collapsed_ > 0


def test_labels_are_returned_as_given():
    xs, ys, xt, _ = domains()
    names = np.array(["left", "right"])[ys]
    fitted = adapter(epochs=8).fit(xs, names, xt)
    assert set(fitted.predict(xt)) <= {"left", "right"}
    assert fitted.score(xs, names) > 0.7
    assert fitted.transform(xt).shape == (96, 8)
    assert clone(fitted).get_params()["epochs"] == 8


def test_a_class_without_rows_keeps_its_output():
    xs, ys, xt, _ = domains(20)
    wide = adapter(epochs=6).set_params(module=BottleneckNetwork(torch.nn.Identity(), 4, 3, bottleneck=(8, 4)))
    assert wide.fit(xs, ys, xt, classes=[0, 1, 2]).predict_proba(xs).shape == (len(xs), 3)
    with pytest.raises(DataError, match="`classes` must hold all labels"):
        wide.fit(xs, ys, xt, classes=[1, 2, 3])


def test_reverse_validation_knows_good_from_bad():
    """An adapter that is right about the target brings the source's labels back; one that calls all alike does not."""
    xs, ys, xt, _ = domains(shift=0.2)
    good = adapter(method="none", epochs=30).fit(xs, ys, xt)
    assert reverse_validation(good, xs, ys, xt) > 0.85
    good.predict = lambda x: np.zeros(len(x), dtype=int)
    assert reverse_validation(good, xs, ys, xt) == 0.5


def test_choose_weight_takes_the_best_score():
    xs, ys, xt, _ = domains(shift=0.5)
    chosen, scores = choose_weight(adapter(epochs=8), [0.1, 1.0], xs, ys, xt)
    assert chosen.weight == [0.1, 1.0][int(np.argmax(scores))]
    assert hasattr(chosen, "module_")
    with pytest.raises(ParameterError, match="`weights` must hold at least one weight"):
        choose_weight(adapter(), [], xs, ys, xt)


XS, YS, XT, _ = domains(20)

BAD = {
    "method": ({"method": "coral"}, (XS, YS, XT), ParameterError, "`method` must be one of"),
    "weight": ({"weight": -1.0}, (XS, YS, XT), ParameterError, "`weight` must be a finite number of at least 0"),
    "epochs": ({"epochs": 0}, (XS, YS, XT), ParameterError, "`epochs` must be an integer of at least 1"),
    "stopping": (
        {"stopping": {"patience": 3}},
        (XS, YS, XT),
        ParameterError,
        "`stopping` must be a Stopping",
    ),
    "loss options": (
        {"loss_options": {"sigma": 1.0}},
        (XS, YS, XT),
        ParameterError,
        "`sigma` must be an option of 'cs'",
    ),
    "shapes": ({}, (XS, YS, XT[:, :2]), ShapeError, "must have the same shape but for the number of rows"),
    "labels": ({}, (XS, YS[:3], XT), ShapeError, "`y` must have one label per row"),
    "numbers as labels": ({}, (XS, XS[:, 0], XT), DataError, "`y` must hold labels of classes, got numbers such as"),
    "too few to hold out": ({}, (XS[:3], np.array([0, 1, 1]), XT), DataError, r"rows to hold out .*monitor='last'"),
    "one class": ({}, (XS, 0 * YS, XT), DataError, "`y` must hold at least two classes"),
    "NaN": ({}, (XS * np.nan, YS, XT), DataError, "`X` must be finite"),
    "strings": ({}, (XS.astype(str), YS, XT), DataError, "`X` must hold numbers"),
    "one row": ({}, (XS, YS, XT[:1]), ShapeError, "`X_target` must have at least 2 row"),
    "module": ({"module": lambda: 3}, (XS, YS, XT), ParameterError, "`module` must be a torch module"),
    "outputs": ({"module": torch.nn.Linear(4, 2)}, (XS, YS, XT), ParameterError, "must return .logits, layers."),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what):
    options, data, error, message = BAD[what]
    with pytest.raises(error, match=message):
        adapter().set_params(**options).fit(*data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"monitor": "target"}, "`monitor` must be one of"),
        ({"validation": 0.0}, "leaves nothing to monitor"),
        ({"validation": 1.0}, "`validation` must be a share"),
        ({"patience": 0}, "`patience` must be an integer of at least 1"),
    ],
)
def test_bad_stopping(options, message):
    with pytest.raises(ParameterError, match=message):
        Stopping(**options)


def test_a_run_resumes_with_more_epochs_and_another_patience(tmp_path):
    """Neither changes the epochs that were done."""
    run = {"checkpoint": tmp_path / "run.pt", "checkpoint_every": 1}
    adapter(epochs=3, stopping=Stopping(patience=9)).fit(XS, YS, XT, **run)
    longer = adapter(epochs=6).fit(XS, YS, XT, resume=True, **run)
    assert longer.history_ == adapter(epochs=6).fit(XS, YS, XT).history_


def test_prediction_needs_a_fit():
    with pytest.raises(ParameterError, match="predict: the adapter must be fitted first"):
        adapter().predict(XS)
