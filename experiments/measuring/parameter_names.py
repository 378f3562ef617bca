"""Makes the logged names of parameters and layers."""

from __future__ import annotations

import re

from torch import nn

_PARAMETRIZED = re.compile(r"\bparametrizations\.(\w+)\.(?:original|0)\b")


def readable(name: str) -> str:
    """Shortens `hidden.parametrizations.weight.original` to `hidden.weight`, and its `NAME` to `hidden.weight.NAME`.

    If a parameter has several parametrizations, all after the first keep their number.
    """
    return _PARAMETRIZED.sub(r"\1", name)


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the trained parameters by readable name, in the model's order."""
    return {readable(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
