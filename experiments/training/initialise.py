"""Draws initial weights from a separate generator: with one seed every strategy starts with the same weights."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


def stream(name: str, seed: int) -> torch.Generator:
    """Makes the generator for one purpose, such as `init`. Generators for different purposes are independent."""
    digest = hashlib.blake2b(f"{name}:{seed}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)


def initialise(model: nn.Module, seed: int) -> None:
    """Draws the weights of every linear and conv layer by torch's own rule, U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    generator = stream("init", seed)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            nn.init.uniform_(_trained_weight(module), -bound, bound, generator=generator)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)


def _trained_weight(layer: nn.Module) -> Tensor:
    """The weight that the optimizer changes: in a parametrized layer the original, not the computed one."""
    parametrized = parametrize.is_parametrized(layer, "weight")
    weight = layer.parametrizations.weight.original if parametrized else layer.weight  # type: ignore[union-attr]
    assert isinstance(weight, Tensor)
    return weight
