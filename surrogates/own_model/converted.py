"""A module of torch whose ops are in hard layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surrogates.core import Op, graft
from surrogates.hard_layer import HardLayer
from surrogates.own_model.choice import StrategyByOp
from surrogates.own_model.modules import Kind
from surrogates.own_model.replacer import alike
from surrogates.torch_private import without_forward_mode


class Converted(nn.Module):
    """Computes what `original` computes, with its ops under a strategy.

    In mode `hard`, and so in evaluation, it runs `original`. Parameters, buffers, hooks and attributes are the
    original's own. The state dict has the same names; the temperature is not saved. Integer inputs go to the original.
    """

    original: nn.Module
    hard: nn.ModuleList

    def __init__(self, original: nn.Module, kind: Kind, layers: Mapping[Op, HardLayer]) -> None:
        super().__init__()
        self.__dict__.update(original.__dict__)  # the same dictionaries of parameters, buffers and hooks
        self.__dict__["_modules"] = dict(original._modules)
        self.__dict__["original"] = original  # not a submodule, as its parameters are here already
        self.kind = kind
        self.hard = nn.ModuleList(layers.values())
        self.train(original.training)

    @property
    def layers(self) -> list[HardLayer]:
        """The hard layers of the module's ops."""
        return [layer for layer in self.hard if isinstance(layer, HardLayer)]

    def forward(self, input: Tensor) -> Tensor:
        """The original's output, with the strategies' derivatives."""
        if not input.is_floating_point() or all(layer.mode == "hard" for layer in self.layers):
            unchanged: Tensor = self.original.forward(input)
            return unchanged
        inplace = getattr(self, "inplace", False)
        with torch.no_grad(), without_forward_mode():
            plain: Tensor = self.original.forward(input.clone() if inplace else input)
        value = self.kind.meaning(self._apply_op, input.clone() if inplace else input, **self._arguments())
        soft = any(layer.strategy.soft_forward or layer.strategy.noisy(layer.op) for layer in self.layers)
        result = value.to(plain.dtype) if soft else graft(plain, value)
        return input.copy_(result) if inplace else result

    def _arguments(self) -> dict[str, Any]:
        """The module's arguments; RuntimeError if one was changed here, where the original does not see it."""
        arguments, given = self.kind.arguments(self), self.kind.arguments(self.original)
        for name, value in arguments.items():
            if not isinstance(value, Tensor) and value != given[name]:
                kind = type(self.original).__name__
                raise RuntimeError(f"{name} of {kind} was changed since its conversion; call revert and convert again")
        return arguments

    def _apply_op(self, op: Op, *x: Any) -> Tensor:
        layer = next(layer for layer in self.layers if layer.op == op)
        value: Tensor = layer(*alike(*x))
        return value

    def train(self, mode: bool = True) -> Converted:
        """Sets the mode, and that of the original."""
        self.original.training = mode
        super().train(mode)
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        self.original._save_to_state_dict(*args)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        own = {name: value for name, value in state_dict.items() if not name.startswith(f"{prefix}hard.")}
        self.original._load_from_state_dict(own, prefix, *args)

    def extra_repr(self) -> str:
        """The original module."""
        return f"{type(self.original).__name__}({self.original.extra_repr()})"


def convert_module(module: nn.Module, kind: Kind, choice: StrategyByOp) -> Converted:
    """The module with its ops under their strategies.

    Raises NotReplaced if an op has no strategy.
    """
    layers: dict[Op, HardLayer] = {}

    def apply(op: Op, *x: Any) -> Tensor:
        if op not in layers:
            layers[op] = HardLayer(op, choice.strategy(op))
            temperature = layers[op].temperature
            del layers[op].temperature
            layers[op].register_buffer("temperature", temperature, persistent=False)
        return op.hard(*alike(*x))

    kind.meaning(apply, kind.probe(module), **kind.arguments(module))  # only to find the ops
    return Converted(module, kind, layers)
