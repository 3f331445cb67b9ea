"""Unsupervised domain adaptation as a scikit-learn classifier: source labels, target inputs, one network.

A checkpoint of a training holds plain tensors and numbers. It is whole or absent, has a checksum, and is read with
`weights_only`.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from torch import Tensor, nn

from condcs._core.arrays import AnyArray, BoolArray, LabelArray, RealArray
from condcs._core.checks import check_choice, check_integer, check_positive
from condcs._core.errors import (
    BandwidthError,
    CondcsWarning,
    DataError,
    ParameterError,
    ShapeError,
    public,
    warn_caller,
)
from condcs._core.files import atomic_write, sealed, unsealed, writing
from condcs_reproduction.adaptation.discrepancies import AdaptationMethod, Domains, discrepancy

PREDICT_ROWS = 1_024
"""Rows that go through a network at once where nothing is trained: bounds the memory of its hidden layers."""

Monitor = Literal["objective", "source", "last"]

Progress = Callable[[int, int, Mapping[str, float]], None]
"""``progress(epochs done, epochs, record)``: called after every epoch."""


@dataclass(frozen=True)
class Stopping:
    """Which epoch of a training is kept, and when to stop.

    Attributes
    ----------
    validation : float
        Share of the source rows that is held out.
    monitor : {"objective", "source", "last"}
        What picks the epoch: the held-out objective, the held-out cross-entropy alone, or nothing (the last one is
        kept).
    patience : int, optional
        Stop after that many epochs without improvement, once the warm-up is over.
    """

    validation: float = 0.2
    monitor: Monitor = "objective"
    patience: int | None = None

    def __post_init__(self) -> None:
        check_choice("monitor", self.monitor, get_args(Monitor))
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        if not 0 <= float(self.validation) < 1:
            raise ParameterError(
                f"`validation` must be a share from 0 to below 1, got {self.validation!r}. Pass e.g. validation=0.2."
            )
        if self.validation == 0 and self.monitor != "last":
            raise ParameterError(
                '`validation`=0 leaves nothing to monitor: pass monitor="last", or e.g. validation=0.2.'
            )


BEST_OBJECTIVE = Stopping()
"""The epoch with the best held-out objective is kept; all epochs are run."""


class BottleneckNetwork(nn.Module):
    """Feature extractor, fully connected bottleneck with ReLU, and a linear classifier.

    ``network(x)`` returns ``(logits, layers)``: the outputs, and the bottleneck's layers from first to last. That is
    what `DomainAdapter` asks of any network.

    Parameters
    ----------
    extractor : nn.Module
        Maps a batch of inputs to features; what it returns is flattened.
    n_features : int
        Columns of those features.
    n_classes : int
        Outputs.
    bottleneck : sequence of int
        Widths of the bottleneck's layers; the paper has two.

    Examples
    --------
    >>> network = BottleneckNetwork(nn.Identity(), 10, 2, bottleneck=(8, 4))
    >>> logits, layers = network(torch.zeros(5, 10))
    >>> tuple(logits.shape), [tuple(z.shape) for z in layers]
    ((5, 2), [(5, 8), (5, 4)])
    """

    def __init__(
        self, extractor: nn.Module, n_features: int, n_classes: int, *, bottleneck: Sequence[int] = (64, 32)
    ) -> None:
        super().__init__()
        self.extractor = extractor
        sizes = [check_integer("n_features", n_features, 1), *(check_integer("bottleneck", b, 1) for b in bottleneck)]
        self.bottleneck = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.classifier = nn.Linear(sizes[-1], check_integer("n_classes", n_classes, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits and the layers of the bottleneck."""
        z = self.extractor(x).flatten(1)
        layers = []
        for linear in self.bottleneck:
            z = torch.relu(linear(z))
            layers.append(z)
        return self.classifier(z), layers or [z]


class DomainAdapter(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier that is trained on a labelled source and adapted to an unlabelled target.

    It minimises the source's cross-entropy plus `weight` times the discrepancy between the two domains, after a
    warm-up without the discrepancy. The same objective, on held-out source rows and the target's inputs, decides which
    epoch is kept and when to stop: no target label is ever used.

    Parameters
    ----------
    module : nn.Module, or callable that makes one
        ``module(x)`` returns ``(logits, layers)``, as `BottleneckNetwork` does. A module is copied, never changed. A
        callable is called after `random_state` is set, which therefore determines the initial weights.
    method : {"none", "ddc", "dan", "jan", "djp_mmd", "cs"}
        Discrepancy.
    weight : float
        Weight of the discrepancy.
    loss_options : mapping, optional
        Options of the method's loss, e.g. ``{"bandwidth": 1.0}``; see `METHODS`.
    warmup : int
        Epochs without the discrepancy.
    epochs : int
        Epochs in all.
    batch_size : int
        Rows of each domain in a batch.
    learning_rate : float
        Learning rate of Adam.
    stopping : Stopping
        Which epoch is kept, and when to stop.
    device : str
        Device to compute on.
    random_state : int
        Seed of initial weights, batches and dropout. Torch's global generator is left as it was.

    Attributes
    ----------
    module_ : nn.Module
        The trained network.
    classes_ : array
        Labels.
    history_ : list of dict
        Losses of every epoch.
    best_epoch_ : int
        Epoch whose weights are kept, counted from 1.
    n_collapsed_ : int
        Batches whose features were all equal, so that no bandwidth could be found; they were not aligned.

    Notes
    -----
    Parameters that are tuned are flat, because scikit-learn's searches set them one by one. Others are grouped in
    `stopping` or passed to `fit`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> source = rng.normal(size=(60, 3)) + 2 * y[:, None]
    >>> from condcs_reproduction.adaptation import BottleneckNetwork
    >>> adapter = DomainAdapter(lambda: BottleneckNetwork(nn.Identity(), 3, 2, bottleneck=(8, 4)), warmup=3, epochs=6)
    >>> adapter.fit(source, y, source + 0.5).predict(source).shape
    (60,)
    """

    def __init__(
        self,
        module: Any,
        *,
        method: AdaptationMethod = "cs",
        weight: float = 1.0,
        loss_options: Mapping[str, Any] | None = None,
        warmup: int = 10,
        epochs: int = 60,
        batch_size: int = 64,
        learning_rate: float = 1e-2,
        stopping: Stopping = BEST_OBJECTIVE,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.module = module
        self.method = method
        self.weight = weight
        self.loss_options = loss_options
        self.warmup = warmup
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.stopping = stopping
        self.device = device
        self.random_state = random_state

    @public
    def fit(
        self,
        X: Any,
        y: Any,
        X_target: Any,
        *,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 5,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> DomainAdapter:
        """Train on labelled source rows and unlabelled target rows.

        Parameters
        ----------
        X, y : array
            Source inputs and labels.
        X_target : array
            Target inputs.
        classes : array, optional
            Sorted labels that the network has an output for, if not all of them occur in `y`.
        checkpoint : path, optional
            File to which the state is written every `checkpoint_every` epochs.
        checkpoint_every : int
            Epochs between two checkpoints.
        resume : bool
            Whether to continue from `checkpoint` if it exists; the result is that of an uninterrupted run.
        progress : callable, optional
            ``progress(done, epochs, record)`` is called after every epoch.

        Returns
        -------
        DomainAdapter
            Itself.
        """
        check_integer("checkpoint_every", checkpoint_every, 1)
        if resume and checkpoint is None:
            raise ParameterError("`resume` needs a file to continue from. Pass checkpoint=PATH as well.")
        self._check_options()
        source, target = checked_rows("X", X), checked_rows("X_target", X_target)
        if source.shape[1:] != target.shape[1:]:
            raise ShapeError(
                f"`X` and `X_target` must have the same shape but for the number of rows, got {source.shape} and "
                f"{target.shape}. Prepare both alike."
            )
        labels = np.asarray(y)
        if labels.shape != (len(source),):
            raise ShapeError(
                f"`y` must have one label per row of `X` ({len(source)}), got shape {labels.shape}. Pass a 1-d array."
            )
        if labels.dtype.kind == "f" and (labels % 1 != 0).any():
            raise DataError(
                f"`y` must hold labels of classes, got numbers such as {labels[labels % 1 != 0][0]:.4g}. Pass whole "
                "numbers or names."
            )
        self.classes_ = np.unique(labels if classes is None else classes)
        codes = np.searchsorted(self.classes_, labels)
        if not np.isin(labels, self.classes_).all():
            raise DataError("`classes` must hold all labels of `y`, got fewer. Leave it out, or pass all of them.")
        if len(np.unique(codes)) < 2:
            raise DataError("`y` must hold at least two classes, got one. Pass labels of every class.")
        # A generator of our own for everything, dropout included; the caller's is put back.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            self.module_ = self._new_module()
            shapes = [(key, tuple(value.shape)) for key, value in self.module_.state_dict().items()]
            settings = {**self._settings(), "network": shapes, "torch": torch.__version__}
            name = run_name(settings, source, codes, target)
            training = Training(self, source, codes, target, name)
            training.run(None if checkpoint is None else Path(checkpoint), checkpoint_every, resume, progress)
        return self

    def _new_module(self) -> nn.Module:
        module = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module()
        if not isinstance(module, nn.Module):
            raise ParameterError(
                f"`module` must be a torch module or a function that makes one, got {type(module).__name__}. Pass e.g. "
                "a BottleneckNetwork."
            )
        return module.to(self.device)

    def _settings(self) -> dict[str, Any]:
        """Return what a run depends on; one may resume it with more epochs, more patience, or on another device."""
        settings: dict[str, Any] = self.get_params(deep=False)
        for name in ("module", "stopping", "epochs", "device"):
            settings.pop(name)
        return {**settings, "validation": self.stopping.validation, "monitor": self.stopping.monitor}

    def _check_options(self) -> None:
        check_choice("method", self.method, get_args(AdaptationMethod))
        if isinstance(self.weight, bool) or not 0 <= float(self.weight) < math.inf:
            raise ParameterError(
                f"`weight` must be a finite number of at least 0, got {self.weight!r}. Pass e.g. weight=1.0."
            )
        if not isinstance(self.stopping, Stopping):
            raise ParameterError(
                f"`stopping` must be a Stopping, got {self.stopping!r}. Pass e.g. Stopping(patience=5)."
            )
        check_integer("epochs", self.epochs, 1)
        check_integer("warmup", self.warmup, 0)
        check_integer("batch_size", self.batch_size, 2)
        check_integer("random_state", self.random_state, 0)
        check_positive("learning_rate", self.learning_rate)

    @public
    def predict_proba(self, X: Any) -> RealArray:
        """Return class probabilities, one row per row of X."""
        return self._outputs(X)[0]

    @public
    def predict(self, X: Any) -> AnyArray:
        """Return the most probable label of each row."""
        probabilities = self._outputs(X)[0]
        return np.asarray(self.classes_[probabilities.argmax(1)])

    @public
    def transform(self, X: Any) -> RealArray:
        """Return the last layer of the bottleneck: the features that were aligned."""
        return self._outputs(X)[1]

    @torch.no_grad()
    def _outputs(self, X: Any) -> tuple[RealArray, RealArray]:
        if not hasattr(self, "module_"):
            raise ParameterError("the adapter must be fitted first. Call fit(X, y, X_target).")
        rows = torch.as_tensor(checked_rows("X", X, least_rows=1), device=self.device)
        self.module_.eval()
        logits, features = [], []
        for part in torch.split(rows, PREDICT_ROWS):
            part_logits, part_layers = self.module_(part)
            logits.append(part_logits)
            features.append(part_layers[-1])
        probabilities = torch.cat(logits).float().softmax(1)  # (n, classes)
        return probabilities.cpu().numpy(), torch.cat(features).cpu().numpy()


def checked_rows(name: str, value: Any, least_rows: int = 2) -> RealArray:
    """Return inputs as finite numbers in single precision, one row per observation, of any further shape."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise DataError(f"`{name}` must hold numbers, got dtype {array.dtype}. Encode labels first.")
    if array.ndim < 2 or len(array) < least_rows:
        raise ShapeError(
            f"`{name}` must have at least {least_rows} row(s) and two dimensions, got shape {array.shape}. Rows are "
            "observations."
        )
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise DataError(
            f"`{name}` must be finite, got {int((~np.isfinite(array)).sum())} NaN or infinite value(s). Drop those "
            "rows, or impute them."
        )
    return array


# One training run: batches, epochs, the held-out objective, and checkpoints of it.


class Training:
    """One run of `DomainAdapter.fit`: what changes from epoch to epoch."""

    def __init__(
        self, adapter: DomainAdapter, source: RealArray, codes: LabelArray, target: RealArray, name: str
    ) -> None:
        self.adapter, self.name = adapter, name
        self.classes = len(adapter.classes_)
        device = adapter.device
        held_out = _held_out(codes, adapter.stopping.validation, adapter.random_state)
        if adapter.stopping.monitor != "last" and not held_out.any():
            raise DataError(
                f"`X` must have rows to hold out for the choice of the epoch, two classes of at least two, got "
                f"{len(source)} in all. Pass more rows, or stopping=Stopping(monitor='last')."
            )
        self.source = torch.as_tensor(source[~held_out], device=device)
        self.target = torch.as_tensor(target, device=device)
        self.labels = torch.as_tensor(codes[~held_out], device=device)
        self.held_out = torch.as_tensor(source[held_out], device=device)
        self.held_out_labels = torch.as_tensor(codes[held_out], device=device)
        self.optimiser = torch.optim.Adam(adapter.module_.parameters(), lr=adapter.learning_rate)
        self.discrepancy = discrepancy(adapter.method, adapter.loss_options or {})
        self.epoch = 0  # epochs done
        self.best_epoch, self.best_value = 0, math.inf
        self.best_state = copy.deepcopy(adapter.module_.state_dict())
        self.history: list[dict[str, float]] = []
        self.collapsed = 0
        self._check_module()

    def _check_module(self) -> None:
        module = self.adapter.module_.eval()
        with torch.no_grad():
            outputs = module(self.source[:2])
        is_pair = isinstance(outputs, tuple | list) and len(outputs) == 2 and isinstance(outputs[1], tuple | list)
        if not is_pair or tuple(outputs[0].shape) != (2, self.classes):
            raise ParameterError(
                f"`module` must return (logits, layers) with one logit per class ({self.classes}) and a list of hidden "
                "layers. Wrap a feature extractor in a `BottleneckNetwork`."
            )

    def run(self, path: Path | None, every: int, resume: bool, progress: Progress | None) -> None:
        """Train from the start, or from the checkpoint at a path, to the end; write one every so many epochs."""
        adapter = self.adapter
        if path is not None and resume and path.exists():
            self.load(path)
        while self.epoch < adapter.epochs and not self._out_of_patience():
            record = self._one_epoch()
            self.epoch += 1
            self._keep_if_best(record)
            self.history.append(record)
            if path is not None and (self.epoch % every == 0 or self.epoch == adapter.epochs):
                self.save(path)
            if progress is not None:
                progress(self.epoch, adapter.epochs, record)
        if adapter.stopping.monitor != "last":
            adapter.module_.load_state_dict(self.best_state)
        adapter.module_.eval()
        adapter.history_, adapter.n_collapsed_ = self.history, self.collapsed
        adapter.best_epoch_ = self.epoch if adapter.stopping.monitor == "last" else self.best_epoch
        if self.collapsed:
            warn_caller(
                f"features had no spread in {self.collapsed:,} of the batches, so that no bandwidth could be found; "
                "these were not aligned. Pass a number as bandwidth, or a smaller weight or learning rate.",
                CondcsWarning,
            )

    def _weight(self) -> float:
        """Return the weight of the discrepancy at this epoch."""
        warming_up = self.discrepancy is None or self.epoch < self.adapter.warmup
        return 0.0 if warming_up else float(self.adapter.weight)

    def _one_epoch(self) -> dict[str, float]:
        """Take a step of Adam for each pair of batches; return the mean losses."""
        module, batch_size = self.adapter.module_, self.adapter.batch_size
        n_source, n_target = len(self.source), len(self.target)
        # As many steps as the larger domain has batches; the smaller one is gone through more than once.
        steps = max(1, max(n_source, n_target) // batch_size)
        batches_of_source = _shuffled(n_source, min(batch_size, n_source), steps)
        batches_of_target = _shuffled(n_target, min(batch_size, n_target), steps)
        module.train()
        weight = self._weight()
        cross_entropies, discrepancies = 0.0, 0.0
        for source_rows, target_rows in zip(batches_of_source, batches_of_target, strict=True):
            x, labels = self.source[source_rows], self.labels[source_rows]
            if weight:
                # One pass for both domains: they share the batch normalisation.
                x = torch.cat([x, self.target[target_rows]])
            logits, layers = module(x)
            cross_entropy = nn.functional.cross_entropy(logits[: len(labels)], labels)
            apart = self._discrepancy_of(logits, layers, labels) if weight else logits.new_zeros(())
            self.optimiser.zero_grad()
            # L = cross-entropy of the source + weight * discrepancy of the domains
            torch.autograd.backward(cross_entropy + weight * apart)
            self.optimiser.step()
            cross_entropies += float(cross_entropy.detach())
            discrepancies += float(apart.detach())
        record = {"cross_entropy": cross_entropies / steps, "discrepancy": discrepancies / steps}
        return record | self._held_out_losses(weight)

    def _discrepancy_of(self, logits: Tensor, layers: Sequence[Tensor], labels: Tensor) -> Tensor:
        """Return the discrepancy of a batch whose first rows are the source's, with labels, and the rest the target's.

        Features without any spread have no bandwidth: such a batch is counted and not aligned.
        """
        assert self.discrepancy is not None
        n = len(labels)
        domains = Domains(
            [z[:n] for z in layers],
            nn.functional.one_hot(labels, self.classes).to(logits.dtype),
            [z[n:] for z in layers],
            logits[n:].softmax(1),
        )
        try:
            return self.discrepancy(domains)
        except BandwidthError:
            self.collapsed += 1
            return logits.new_zeros(())

    @torch.no_grad()
    def _held_out_losses(self, weight: float) -> dict[str, float]:
        if not len(self.held_out):
            return {}
        module = self.adapter.module_.eval()
        # Enough of the target to see the discrepancy, not more: this is done every epoch.
        logits, layers = module(torch.cat([self.held_out, self.target[:PREDICT_ROWS]]))
        n = len(self.held_out)
        cross_entropy = float(nn.functional.cross_entropy(logits[:n], self.held_out_labels))
        apart = float(self._discrepancy_of(logits, layers, self.held_out_labels)) if weight else 0.0
        return {"held_out": cross_entropy, "held_out_objective": cross_entropy + weight * apart}

    def _keep_if_best(self, record: Mapping[str, float]) -> None:
        adapter, monitor = self.adapter, self.adapter.stopping.monitor
        if monitor == "last":
            return
        # Objectives of the warm-up lack the discrepancy, so that they cannot be compared with later ones.
        first_epoch = min(adapter.warmup, adapter.epochs - 1) + 1
        if self.discrepancy is not None and self.epoch < first_epoch:
            return
        value = record["held_out_objective" if monitor == "objective" else "held_out"]
        if value < self.best_value or not self.best_epoch:
            self.best_value, self.best_epoch = value, self.epoch
            self.best_state = copy.deepcopy(adapter.module_.state_dict())

    def _out_of_patience(self) -> bool:
        patience = self.adapter.stopping.patience
        return patience is not None and bool(self.best_epoch) and self.epoch - self.best_epoch >= patience

    def save(self, path: Path) -> None:
        """Write what changes from epoch to epoch; a run killed in the middle leaves the previous checkpoint."""
        state = {
            "run": self.name,
            "epoch": self.epoch,
            "best": [self.best_epoch, self.best_value],
            "collapsed": self.collapsed,
            "history": self.history,
            "module": self.adapter.module_.state_dict(),
            "best_module": self.best_state,
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
        }
        written = io.BytesIO()
        torch.save(state, written)
        with writing(f"`checkpoint` {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(sealed(written.getvalue()))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint of the same run."""
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(unsealed(path.read_bytes())), weights_only=True)
        except (pickle.UnpicklingError, DataError, RuntimeError, EOFError, OSError) as error:
            raise ParameterError(
                f"`checkpoint` must be a complete file written by fit, but {path} is not ({error}). Delete it."
            ) from error
        if state.get("run") != self.name:
            raise ParameterError(
                f"`checkpoint` must come from a run with the same settings and data, but {path} does not. Use another "
                "file, or pass resume=False to overwrite it."
            )
        self.epoch, self.collapsed, self.history = state["epoch"], state["collapsed"], state["history"]
        self.best_epoch, self.best_value = int(state["best"][0]), float(state["best"][1])
        self.adapter.module_.load_state_dict(state["module"])
        self.best_state = state["best_module"]
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])


def _held_out(codes: LabelArray, share: float, random_state: int) -> BoolArray:
    """Choose a share of each class, at least one row of it, and never all."""
    chosen = np.zeros(len(codes), dtype=bool)
    if share == 0:
        return chosen
    rng = np.random.default_rng(random_state)
    for c in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == c))
        chosen[rows[: min(len(rows) - 1, max(1, round(share * len(rows))))]] = True
    # A divergence needs two rows.
    return chosen if chosen.sum() >= 2 else np.zeros(len(codes), dtype=bool)


def _shuffled(n: int, batch: int, steps: int) -> list[Tensor]:
    """Rows of every batch of an epoch: all rows in random order, again and again until there are enough."""
    rounds = -(-steps * batch // n)
    order = torch.cat([torch.randperm(n) for _ in range(rounds)])
    return list(torch.split(order[: steps * batch], batch))


def run_name(settings: dict[str, Any], *arrays: Any) -> str:
    """Return a hash of what determines a run: its settings and all data."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    for array in arrays:
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Choosing settings without target labels.


@public
def reverse_validation(adapter: DomainAdapter, X: Any, y: Any, X_target: Any) -> float:
    """Score a fitted adapter without target labels, by adaptation in the reverse direction.

    A second adapter with the same settings is trained on the target inputs and their predicted labels, and adapted to
    the source inputs; its accuracy on the source labels is returned. If the target has one predicted label only, that
    label is the prediction for all source rows.

    Parameters
    ----------
    adapter : DomainAdapter
        Fitted on ``X, y, X_target``.
    X, y, X_target : array
        The data that it was fitted on.

    Returns
    -------
    float
        Accuracy from 0 to 1.

    Examples
    --------
    >>> import torch
    >>> from condcs_reproduction.adaptation import BottleneckNetwork
    >>> x, y = np.linspace(-3, 3, 80)[:, None], np.arange(80) >= 40
    >>> adapter = DomainAdapter(lambda: BottleneckNetwork(torch.nn.Identity(), 1, 2), method="none", epochs=40)
    >>> adapter = adapter.fit(x, y, x + 0.1)
    >>> reverse_validation(adapter, x, y, x + 0.1) > 0.9
    True
    """
    guessed, labels = adapter.predict(X_target), np.asarray(y)
    if len(np.unique(guessed)) < 2:
        return float(np.mean(labels == guessed[0]))
    # The target may have lost a class on the way; the network keeps an output for it.
    back = clone(adapter).fit(X_target, guessed, X, classes=adapter.classes_)
    return float(np.mean(back.predict(X) == labels))


@public
def choose_weight(
    adapter: DomainAdapter, weights: Sequence[float], X: Any, y: Any, X_target: Any
) -> tuple[DomainAdapter, list[float]]:
    """Fit an adapter for each weight of the discrepancy and keep the one with the best reverse validation.

    Parameters
    ----------
    adapter : DomainAdapter
        Adapter with the other settings; it is cloned.
    weights : sequence of float
        Weights to try; ties go to the first.
    X, y, X_target : array
        As in `DomainAdapter.fit`.

    Returns
    -------
    adapter : DomainAdapter
        Fitted.
    scores : list of float
        Reverse validation of each weight.

    Examples
    --------
    >>> import torch
    >>> from condcs_reproduction.adaptation import BottleneckNetwork
    >>> x, y = np.linspace(-3, 3, 40)[:, None], np.arange(40) >= 20
    >>> adapter = DomainAdapter(lambda: BottleneckNetwork(torch.nn.Identity(), 1, 2), warmup=2, epochs=4)
    >>> chosen, scores = choose_weight(adapter, [0.1, 1.0], x, y, x + 0.5)
    >>> chosen.weight in (0.1, 1.0), len(scores)
    (True, 2)
    """
    if not len(weights):
        raise ParameterError("`weights` must hold at least one weight, got none. Pass e.g. weights=[0.1, 1.0, 10.0].")
    fitted, scores = [], []
    for weight in weights:
        one = clone(adapter).set_params(weight=weight)
        fitted.append(one.fit(X, y, X_target))
        scores.append(reverse_validation(one, X, y, X_target))
    return fitted[int(np.argmax(scores))], scores
