"""EEGNet as the feature extractor of the paper's network for EEG."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from condcs_reproduction.adaptation import EEGNetFeatures, eegnet_network  # noqa: E402


def test_eegnet_is_the_extractor():
    network = eegnet_network(3, 128, 2, F1=2, kernel_length=16, bottleneck=(8, 4))
    assert isinstance(network.extractor, EEGNetFeatures)
    logits, layers = network(torch.zeros(5, 3, 128))
    assert logits.shape == (5, 2)
    assert [z.shape[1] for z in layers] == [8, 4]


def test_eegnet_has_the_published_number_of_parameters():
    """EEGNet-8,2, 64 channels at 128 Hz: filters of 512 + 1,024 + 256 + 256 weights; 16 + 32 + 32 to normalise."""
    features = EEGNetFeatures(64, 128)
    assert sum(p.numel() for p in features.parameters()) == 512 + 1024 + 256 + 256 + 16 + 32 + 32
    assert features.n_features == 16 * (128 // 32)


def test_spatial_filters_have_at_most_norm_one():
    """Also after a step of training that makes them longer."""
    features = EEGNetFeatures(6, 64, F1=2)
    (spatial,) = (layer for layer in features.layers if hasattr(layer, "parametrizations"))
    with torch.no_grad():
        spatial.parametrizations.weight.original.mul_(50.0)
    norms = spatial.weight.flatten(1).norm(dim=1)
    np.testing.assert_allclose(norms.detach().numpy(), 1.0, rtol=1e-4)


def test_a_seed_gave_braindecodes_eegnet_other_weights():
    """The weights of `braindecode.models.EEGNet` 1.8.1, and of the layers after it, by the same seed."""
    torch.manual_seed(3)
    network = eegnet_network(3, 128, 2).eval()
    trials = torch.sin(torch.arange(2 * 3 * 128) / 7.0).reshape(2, 3, 128)
    expected = [[0.137970, 0.032106], [0.137635, 0.032177]]
    np.testing.assert_allclose(network(trials)[0].detach().numpy(), expected, rtol=1e-3)
