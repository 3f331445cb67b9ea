"""One training run of a domain adapter: batches, epochs, the held-out objective, and checkpoints of it.

A checkpoint holds plain tensors and numbers. It is whole or absent, has a checksum, and is read with `weights_only`.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import BandwidthError, CondcsWarning, DataError, ParameterError, warn_caller
from condcs._core.files import atomic_write, sealed, unsealed, writing
from condcs.nn._losses import DEFAULTS, METHODS, Domains

if TYPE_CHECKING:
    from condcs.nn._adaptation import DomainAdapter

FloatArray = np.ndarray[Any, Any]

PREDICT_ROWS = 1_024
"""Rows that go through a network at once where nothing is trained."""


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


class Checkpoints(NamedTuple):
    """Where checkpoints are written (None: nowhere), how often, and whether to continue from one."""

    path: Path | None = None
    every: int = 5
    resume: bool = False


class Training:
    """One run of `DomainAdapter.fit`: what changes from epoch to epoch."""

    def __init__(
        self, adapter: DomainAdapter, source: FloatArray, codes: FloatArray, target: FloatArray, name: str
    ) -> None:
        self.adapter, self.name = adapter, name
        self.classes = len(adapter.classes_)
        device = adapter.device
        held_out = _held_out(codes, adapter.stopping.validation, adapter.random_state)
        self.source, self.target = (torch.as_tensor(a, device=device) for a in (source[~held_out], target))
        self.labels = torch.as_tensor(codes[~held_out], device=device)
        self.held_out = torch.as_tensor(source[held_out], device=device)
        self.held_out_labels = torch.as_tensor(codes[held_out], device=device)
        self.optimiser = torch.optim.Adam(adapter.module_.parameters(), lr=adapter.learning_rate)
        self.discrepancy = METHODS[adapter.method]
        self.options = {**DEFAULTS[adapter.method], **(adapter.loss_options or {})}
        self.epoch, self.best_epoch, self.best_value = 0, 0, math.inf
        self.best_state = copy.deepcopy(adapter.module_.state_dict())
        self.history: list[dict[str, float]] = []
        self.collapsed = 0
        self._check_module()

    def _check_module(self) -> None:
        module = self.adapter.module_.eval()
        with torch.no_grad():
            found = module(self.source[:2])
        good = isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[1], tuple | list)
        if not good or tuple(found[0].shape) != (2, self.classes):
            raise ParameterError(
                f"`module` must return (logits, layers) with one logit per class ({self.classes}) and a list of hidden "
                "layers. Wrap a feature extractor in `condcs.nn.BottleneckNetwork`."
            )

    def run(self, checkpoints: Checkpoints, progress: Progress | None) -> None:
        """Train from the start, or from the checkpoint, to the end."""
        adapter, path = self.adapter, checkpoints.path
        if path is not None and checkpoints.resume and path.exists():
            self.load(path)
        while self.epoch < adapter.epochs and not self._out_of_patience():
            record = self._one_epoch()
            self.epoch += 1
            self._keep_if_best(record)
            self.history.append(record)
            if path is not None and (self.epoch % checkpoints.every == 0 or self.epoch == adapter.epochs):
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
                f"{self.collapsed} batches had features without any spread, so that no bandwidth could be found; they "
                "were not aligned. Pass a number as bandwidth, or a smaller weight or learning rate.",
                CondcsWarning,
            )

    def _weight(self) -> float:
        """Return the weight of the discrepancy at this epoch."""
        adapter, since = self.adapter, self.epoch - self.adapter.warmup
        if self.discrepancy is None or since < 0:
            return 0.0
        return float(adapter.weight) * (min(1.0, (since + 1) / adapter.ramp) if adapter.ramp else 1.0)

    def _one_epoch(self) -> dict[str, float]:
        module, batch = self.adapter.module_, self.adapter.batch_size
        rows_source, rows_target = len(self.source), len(self.target)
        steps = max(1, max(rows_source, rows_target) // batch)
        batches = zip(
            _shuffled(rows_source, min(batch, rows_source), steps),
            _shuffled(rows_target, min(batch, rows_target), steps),
            strict=True,
        )
        module.train()
        weight, losses = self._weight(), np.zeros(2)
        for s, t in batches:
            x = torch.cat([self.source[s], self.target[t]]) if weight else self.source[s]
            logits, layers = module(x)
            cross_entropy = nn.functional.cross_entropy(logits[: len(s)], self.labels[s])
            apart = self._apart(logits, layers, self.labels[s]) if weight else logits.new_zeros(())
            self.optimiser.zero_grad()
            torch.autograd.backward(cross_entropy + weight * apart)
            self.optimiser.step()
            losses += [float(cross_entropy.detach()), float(apart.detach())]
        record = dict(zip(("cross_entropy", "discrepancy"), (losses / steps).tolist(), strict=True))
        return record | self._held_out_losses(weight)

    def _apart(self, logits: Tensor, layers: Sequence[Tensor], labels: Tensor) -> Tensor:
        assert self.discrepancy is not None
        n = len(labels)
        domains = Domains(
            [z[:n] for z in layers],
            nn.functional.one_hot(labels, self.classes).to(logits.dtype),
            [z[n:] for z in layers],
            logits[n:].softmax(1),
        )
        try:
            return self.discrepancy(domains, **self.options)
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
        apart = float(self._apart(logits, layers, self.held_out_labels)) if weight else 0.0
        return {"held_out": cross_entropy, "held_out_objective": cross_entropy + weight * apart}

    def _keep_if_best(self, record: Mapping[str, float]) -> None:
        adapter = self.adapter
        first = min(adapter.warmup + max(0, adapter.ramp - 1), adapter.epochs - 1) + 1
        if adapter.stopping.monitor == "last" or (self.discrepancy is not None and self.epoch < first):
            return
        value = record["held_out_objective" if adapter.stopping.monitor == "objective" else "held_out"]
        if value < self.best_value or not self.best_epoch:
            self.best_value, self.best_epoch = value, self.epoch
            self.best_state = copy.deepcopy(adapter.module_.state_dict())

    def _out_of_patience(self) -> bool:
        patience = self.adapter.stopping.patience
        return patience is not None and bool(self.best_epoch) and self.epoch - self.best_epoch >= patience

    def state_dict(self) -> dict[str, Any]:
        """Return what changes from epoch to epoch, and torch's random generator."""
        return {
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.epoch, self.collapsed, self.history = state["epoch"], state["collapsed"], state["history"]
        self.best_epoch, self.best_value = int(state["best"][0]), float(state["best"][1])
        self.adapter.module_.load_state_dict(state["module"])
        self.best_state = state["best_module"]
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])

    def save(self, path: Path) -> None:
        """Write a checkpoint; a run killed in the middle leaves the previous one."""
        written = io.BytesIO()
        torch.save(self.state_dict(), written)
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
                f"`checkpoint` must be a file that fit wrote, and whole, {path} is not ({error}). Delete it."
            ) from error
        if state.get("run") != self.name:
            raise ParameterError(
                f"`checkpoint` must belong to the same settings and data, {path} does not. Use another file, or pass "
                "resume=False to overwrite it."
            )
        self.load_state_dict(state)


def _held_out(codes: FloatArray, share: float, random_state: int) -> FloatArray:
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
