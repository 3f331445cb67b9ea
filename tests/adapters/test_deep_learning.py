"""Adapters for skorch and skada, each skipped where its partner is absent."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def test_skorch_regressor_trains_with_the_inputs():
    """The criterion gets X: a slope is learned, an option reaches the loss, grid search can clone it."""
    pytest.importorskip("skorch")
    from sklearn.base import clone

    from condcs.adapters import ConditionalCSRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(256, 1)).astype(np.float32)
    y = (2 * X + 0.1 * rng.normal(size=X.shape)).astype(np.float32)
    torch.manual_seed(0)
    net = ConditionalCSRegressor(
        torch.nn.Linear(1, 1),
        criterion__bandwidth_x=0.2,
        criterion__bandwidth_y=1.0,
        optimizer=torch.optim.Adam,
        lr=0.05,
        max_epochs=30,
        batch_size=64,
        train_split=None,
        verbose=0,
    )
    net.fit(X, y)
    assert net.criterion_.options["bandwidth_x"] == 0.2
    assert np.sqrt(np.mean((net.predict(X) - y) ** 2)) < 0.2
    clone(net)


def test_skada_loss_is_the_alignment():
    pytest.importorskip("skada")
    from skada.deep.base import BaseDALoss

    from condcs.adapters import CSAlignmentLoss
    from condcs.nn import ConditionalCSAlignment

    make = torch.Generator().manual_seed(0)
    zs, zt, logits = (torch.randn(10, d, generator=make) for d in (3, 3, 2))
    y = torch.arange(10) % 2
    loss = CSAlignmentLoss(bandwidth=0.7)
    assert isinstance(loss, BaseDALoss)
    found = loss(y_s=y, y_pred_s=None, y_pred_t=logits, features_s=zs, features_t=zt, domain_pred_s=None)
    torch.testing.assert_close(found, ConditionalCSAlignment(bandwidth=0.7)(zs, y, zt, logits.softmax(1)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_skada_network_is_fitted_with_masked_labels():
    pytest.importorskip("skada")
    from condcs.adapters import DeepConditionalCS

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.features, self.classifier = torch.nn.Linear(2, 8), torch.nn.Linear(8, 2)

        def forward(self, x, sample_weight=None):
            return self.classifier(torch.relu(self.features(x)))

    rng = np.random.default_rng(0)
    y = np.arange(64) % 2
    source = rng.normal(scale=0.4, size=(64, 2)) + y[:, None]
    X = np.concatenate([source, source + 0.3]).astype(np.float32)
    domain = np.repeat([1, -2], 64)
    torch.manual_seed(0)
    net = DeepConditionalCS(
        Network(), "features", reg=0.5, loss={"bandwidth": 1.0}, max_epochs=25, batch_size=16, lr=0.1, verbose=0
    )
    net.set_params(train_split=None)
    net.fit(X, np.concatenate([y, np.full(64, -1)]), sample_domain=domain)
    assert np.mean(net.predict(X[64:], sample_domain=domain[64:]) == y) > 0.8


def test_a_missing_partner_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skorch", None)
    monkeypatch.delitem(sys.modules, "condcs.adapters._skorch", raising=False)
    import condcs.adapters

    with pytest.raises(ImportError, match=r"ConditionalCSRegressor needs skorch: pip install 'condcs\[adapt\]'"):
        _ = condcs.adapters.ConditionalCSRegressor
