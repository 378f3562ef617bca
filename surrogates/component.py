"""Components: the layers that put ops into a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from surrogates.hard_layer import mode


class Calibrated(nn.Module):
    """A module with parameters that the literature initialises from the first numbers it meets."""

    def calibrate(self, *x: Tensor) -> None:
        """Sets them from a first batch of inputs."""


class Component(Calibrated):
    """Turns `fan_in` pre-activations into one activation.

    The model makes one layer a branch, with as many outputs for one activation as `branches` says, and calls the
    component with their outputs, channels in dimension 1: (batch, fan_in * width, ...) to (batch, width, ...).
    """

    needs_space: ClassVar[bool] = False  # works on spatial dimensions, which an mlp does not have

    @property
    def branches(self) -> Mapping[str, int]:
        """Pre-activations needed for one activation, by branch."""
        return {"values": 1}

    @property
    def repeats(self) -> int:
        """How many times the op runs in one forward pass."""
        return 1

    @property
    def downsampling(self) -> int:
        """By which factor the component shrinks each spatial dimension."""
        return 1

    def check_width(self, width: int) -> None:
        """Raises ValueError, beginning with the key that is wrong, if the component cannot make `width` activations."""

    def prepare(self, layer: nn.Module) -> None:
        """Changes a layer that the model has made for a branch; for components that work on weights."""


def calibrate(model: nn.Module, batch: Tensor) -> None:
    """Calibrates every calibrated module of a model on one batch, in order, with hard ops and without gradients.

    All strategies start from the same parameters, because the forward pass is the hard one for all of them. Modules
    stay in the mode they were in; batch-norm statistics are not touched.
    """

    def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, Calibrated):
            module.calibrate(*inputs)

    training = {module: module.training for module in model.modules()}
    for module in training:
        module.training = False
    hooks = [m.register_forward_pre_hook(before) for m in model.modules() if isinstance(m, Calibrated)]
    try:
        with torch.no_grad(), mode(model, "hard"):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, was in training.items():
            module.training = was
