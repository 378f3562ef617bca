"""Components: the layers that put ops into a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from surrogates.hard_layer import mode

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class EffectiveValue(NamedTuple):
    """Learned numbers as they act, of any shape, and the smallest number that can act."""

    numbers: Tensor
    floor: float = -math.inf


class Calibrated(nn.Module):
    """A module with parameters that the literature initialises from the first inputs."""

    def calibrate(self, *x: Tensor) -> None:
        """Sets these parameters from a first batch of inputs."""

    def effective_values(self) -> dict[str, EffectiveValue]:
        """The learned scales, clips, offsets and thresholds as they act, by name."""
        return {}


class Component(Calibrated):
    """Turns `fan_in` pre-activations into one activation.

    The model makes one layer a branch, with as many outputs for one activation as `branches` says. It calls the
    component with their outputs, channels in dimension 1: (batch, fan_in * width, ...) to (batch, width, ...).
    """

    needs_space: ClassVar[bool] = False  # needs spatial dimensions, which an mlp does not have
    shown: ClassVar[tuple[str, ...]] = ()  # the attributes that its repr shows

    @property
    def branches(self) -> Mapping[str, int]:
        """The number of pre-activations for one activation, by branch."""
        return {"values": 1}

    @property
    def repeats(self) -> int:
        """The number of times that the op runs in one forward pass."""
        return 1

    @property
    def downsampling(self) -> int:
        """The factor by which the component shrinks each spatial dimension."""
        return 1

    def check_width(self, width: int) -> None:
        """Raises ValueError, starting with the wrong key, if the component cannot make `width` activations."""

    def prepare(self, layer: nn.Module) -> None:
        """Changes a layer that the model made for a branch; only components that work on weights do."""

    def extra_repr(self) -> str:
        """The attributes in `shown`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


def calibrate(model: nn.Module, batch: Any) -> None:
    """Calibrates every calibrated module of a model on one batch, in order, with hard ops and without gradients.

    All strategies start from the same parameters, as the forward pass is the hard one for all of them. A batch norm in
    training mode uses the batch's own statistics, as in training: its running ones say nothing yet. The mode of each
    module and batch-norm statistics do not change.
    """
    calibrated = [module for module in model.modules() if isinstance(module, Calibrated)]
    run_first_batch(model, batch, calibrated, lambda module, inputs: module.calibrate(*inputs))


def run_first_batch(
    model: nn.Module, batch: Any, modules: Iterable[nn.Module], before: Callable[[Any, tuple[Any, ...]], None]
) -> None:
    """Runs a model as `calibrate` does and calls `before(module, inputs)` ahead of each call of these modules."""
    training = {module: module.training for module in model.modules()}
    norms = [module for module, was in training.items() if was and isinstance(module, BATCH_NORMS)]
    tracked = [norm.track_running_stats for norm in norms]
    for module in training:
        module.training = False
    for norm in norms:
        norm.training, norm.track_running_stats = True, False
    hooks = [module.register_forward_pre_hook(before) for module in modules]
    try:
        with torch.no_grad(), mode(model, "hard"):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, was in training.items():
            module.training = was
        for norm, did in zip(norms, tracked, strict=True):
            norm.track_running_stats = did
