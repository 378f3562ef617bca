"""The table of modules: the meaning of a module's forward in ops, and the attributes that hold its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from surrogates.own_model import activations, elementwise, pooling
from surrogates.own_model.fake_quantize import fake_quantize_module


class Kind(NamedTuple):
    """What a module computes, and the attributes that are its arguments, by their names in that function."""

    meaning: Callable[..., Tensor]
    attributes: dict[str, str]
    windows: bool = False

    def probe(self, module: nn.Module) -> Tensor:
        """An input that shows which ops the module uses: a number, or a large image without data."""
        if self.windows:
            return torch.empty(1, 1, 4096, 4096, device="meta")
        device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)
        return torch.zeros(1, 1, 1, 1, device=device)

    def arguments(self, module: nn.Module) -> dict[str, Any]:
        """The arguments that the module holds now."""
        return {name: _attribute(module, path) for name, path in self.attributes.items()}


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _kind(meaning: Callable[..., Tensor], *names: str) -> Kind:
    return Kind(meaning, {name: name for name in names})


WINDOWS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
KINDS: dict[type[nn.Module], Kind] = {
    nn.ReLU: _kind(elementwise.relu),
    nn.ReLU6: _kind(activations.hardtanh, "min_val", "max_val"),
    nn.Hardtanh: _kind(activations.hardtanh, "min_val", "max_val"),
    nn.Hardsigmoid: _kind(activations.hardsigmoid),
    nn.Hardswish: _kind(activations.hardswish),
    nn.Hardshrink: _kind(activations.hardshrink, "lambd"),
    nn.Softshrink: _kind(activations.softshrink, "lambd"),
    nn.LeakyReLU: _kind(activations.leaky_relu, "negative_slope"),
    nn.PReLU: _kind(activations.prelu, "weight"),
    nn.Threshold: _kind(activations.threshold, "threshold", "value"),
    nn.MaxPool1d: _kind(pooling.max_pool1d, *WINDOWS)._replace(windows=True),
    nn.MaxPool2d: _kind(pooling.max_pool2d, *WINDOWS)._replace(windows=True),
}
FAKE_QUANTIZE = Kind(
    fake_quantize_module,
    {
        "enabled": "fake_quant_enabled",
        "per_channel": "is_per_channel",
        "scale": "scale",
        "zero_point": "zero_point",
        "axis": "ch_axis",
        "quant_min": "activation_post_process.quant_min",
        "quant_max": "activation_post_process.quant_max",
    },
)
FAKE_QUANTIZE_CLASSES = ("FakeQuantize", "FusedMovingAvgObsFakeQuantize")  # of torch.ao.quantization.fake_quantize
UNSUPPORTED = (
    nn.MaxPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d, nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d, nn.RReLU,
)  # fmt: skip


def kinds() -> dict[type[nn.Module], Kind]:
    """The table; with torch.ao's layers if torch.ao is imported, as every model with such a layer has imported it."""
    ao = sys.modules.get("torch.ao.quantization.fake_quantize")
    return KINDS | {getattr(ao, name): FAKE_QUANTIZE for name in FAKE_QUANTIZE_CLASSES if ao}


def kind_of(module: nn.Module) -> Kind | None:
    """The kind of a module whose class has the forward of a class in the table; else None."""
    return next((kind for known, kind in kinds().items() if type(module).forward is known.forward), None)


def is_hard(module: nn.Module) -> bool:
    """Whether a module without a kind has a hard op: its class is not supported, or overrides forward."""
    return isinstance(module, (*UNSUPPORTED, *kinds())) or type(module).__name__.endswith("FakeQuantize")
