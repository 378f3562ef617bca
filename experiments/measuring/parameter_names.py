"""The logged names of parameters and layers."""

from __future__ import annotations

import re

from torch import nn

_PARAMETRIZED = re.compile(r"\bparametrizations\.(\w+)\.(?:original|0)\b")


def readable(name: str) -> str:
    """`hidden.parametrizations.weight.original` as `hidden.weight`, its parametrization's own as `hidden.weight.NAME`.

    Of several parametrizations of one parameter the further ones keep their number.
    """
    return _PARAMETRIZED.sub(r"\1", name)


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by readable name, in the model's order."""
    return {readable(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
