"""`quantize_model` quantizes the weights and inputs of a model's linear and convolutional layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from surrogates.component import run_first_batch
from surrogates.core import STRATEGIES, Strategy
from surrogates.layers.quantized_activation import QuantizedActivation
from surrogates.naming.words import did_you_mean
from surrogates.own_model.replacements import Occurrence, Replacements
from surrogates.quantizing.quantizer import CHANNEL_AXIS, grid_op, quantize_weight

KINDS: tuple[type[nn.Module], ...] = tuple(CHANNEL_AXIS)
INPUT = "quantized_input"  # a layer's child that quantizes its input


def quantize_model(
    model: nn.Module,
    strategy: Strategy | str,
    batch: Any,
    *,
    weight_bits: int | None = 4,
    activation_bits: int | None = 4,
    keep_ends: bool = True,
    skip: str | Sequence[str] = (),
) -> Replacements:
    """Quantizes the weights and inputs of a model's linear and convolutional layers, in place.

    `quantize_model(model, "ste", images[:64])` makes a model 4-bit; it then trains in an ordinary loop.
    - Weights: 2^weight_bits values, symmetric around 0, one measured scale an output channel (`QuantizedWeight`).
    - Inputs: 2^activation_bits values with a learned step (LSQ, Esser et al. 2020, arXiv 1902.08153), calibrated on
      `batch`. The codes are signed if `batch` gives the layer a negative input, else they start at 0
      (`QuantizedActivation`).
    - None in place of a number of bits keeps the weights, or the inputs, in full precision.
    `batch` is what `model(batch)` takes. The first and the last layer that run on it keep full precision, as is usual;
    `keep_ends=False` quantizes them too. `skip` is a name, or several, of layers that keep full precision; it may be a
    pattern (`*`, `?`, `[...]`).
    The modules keep their places and names. A layer `conv` keeps its weight as `conv.parametrizations.weight.original`
    and gets the child `conv.quantized_input`. `mode`, `anneal` and `key_noise` act on the model.

    Returns a report of the layers that were quantized, and of the modules with weights that were not.
    Raises ValueError, and leaves the model unchanged, if no layer is left to quantize, a number of bits is outside 1 to
    16, a name in `skip` fits no layer, or the weight of a layer is parametrized, as by an earlier call.
    Raises EmptyCell if the strategy does not apply to quantize.
    """
    bits = _Bits(STRATEGIES.make(strategy), weight_bits, activation_bits)
    layers = {name: module for name, module in model.named_modules() if isinstance(module, KINDS)}
    skipped = _match([skip] if isinstance(skip, str) else skip, layers)
    runs = _Runs()
    run_first_batch(model, batch, layers.values(), runs.note)
    reasons = {name: "skipped" if name in skipped else runs.reason(layer, keep_ends) for name, layer in layers.items()}
    chosen = {name: layer for name, layer in layers.items() if not reasons[name]}
    _require_some(chosen, reasons)
    report = _report(model, reasons)
    for name, layer in chosen.items():
        kind = type(layer).__name__
        report.replaced[Occurrence(kind, bits.quantize(layer, layer in runs.signed), name)] += 1
    inputs = [child for layer in chosen.values() for name, child in layer.named_children() if name == INPUT]
    run_first_batch(model, batch, inputs, lambda module, x: module.calibrate(*x))
    return report


@dataclass(frozen=True)
class _Bits:
    """How a layer is quantized."""

    strategy: Strategy
    weight: int | None
    activation: int | None

    def __post_init__(self) -> None:
        if self.weight is None and self.activation is None:
            raise ValueError("weight_bits and activation_bits are both None; give at least one a number")
        for bits in (self.weight, self.activation):
            if bits is not None:
                self.strategy.check(grid_op(bits, "symmetric", "measured"))

    def quantize(self, layer: nn.Module, signed: bool) -> str:
        """Quantizes a layer; gives the row of the report."""
        parts, device = [], layer.get_parameter("weight").device
        if self.weight is not None:
            parts.append(f"{self.weight}-bit weight")
            quantize_weight(layer, self.strategy, self.weight)
        if self.activation is not None:
            parts.append(f"{self.activation}-bit {'signed' if signed else 'unsigned'} input")
            low = -1.0 if signed else 0.0
            layer.add_module(INPUT, QuantizedActivation(self.strategy, self.activation, "learned_step", low))
            layer.register_forward_pre_hook(_quantize_input)
        layer.to(device).train(layer.training)
        return ", ".join(parts)


def _quantize_input(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return layer.get_submodule(INPUT)(inputs[0]), *inputs[1:]


@dataclass
class _Runs:
    """The layers in the order of their calls, and those that had a negative input."""

    calls: list[nn.Module] = field(default_factory=list)
    signed: set[nn.Module] = field(default_factory=set)

    def note(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """Notes a call."""
        self.calls.append(layer)
        if (inputs[0] < 0).any():
            self.signed.add(layer)

    def reason(self, layer: nn.Module, keep_ends: bool) -> str:
        """Why the layer keeps full precision; empty if it does not."""
        if layer not in self.calls:
            return "did not run on the batch"
        if keep_ends and layer in (self.calls[0], self.calls[-1]):
            return f"the {'first' if layer is self.calls[0] else 'last'} layer to run"
        return ""


def _match(patterns: Iterable[str], layers: Mapping[str, nn.Module]) -> set[str]:
    """The names of the layers that fit a pattern."""
    found = {pattern: [name for name in layers if fnmatchcase(name, pattern)] for pattern in patterns}
    for pattern in (pattern for pattern, names in found.items() if not names):
        hint = did_you_mean(pattern, layers)
        raise ValueError(f"skip={pattern!r} fits no layer{hint}; layers: {', '.join(layers)}")
    return {name for names in found.values() for name in names}


def _require_some(chosen: Mapping[str, nn.Module], reasons: Mapping[str, str]) -> None:
    if not chosen:
        why = "; ".join(f"{name or 'the model'}: {reason}" for name, reason in reasons.items())
        raise ValueError(f"no layer is left to quantize ({why or 'the model has no linear or convolutional layer'})")
    for name, layer in chosen.items():
        if parametrize.is_parametrized(layer, "weight") or hasattr(layer, INPUT):
            raise ValueError(
                f"layer {name!r} is quantized or its weight is parametrized already; skip it, or quantize a fresh model"
            )


def _report(model: nn.Module, reasons: Mapping[str, str]) -> Replacements:
    """The modules with weights that keep full precision."""
    report = Replacements()
    for name, module in model.named_modules():
        has_weight = any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))
        reason = reasons.get(name, "neither linear nor convolutional" if has_weight else "")
        if reason and not isinstance(module, parametrize.ParametrizationList):
            report.not_replaced[Occurrence(type(module).__name__, reason, name)] += 1
    return report
