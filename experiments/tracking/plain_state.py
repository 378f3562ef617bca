"""Checks that a checkpoint holds only objects that `torch.load(weights_only=True)` reads on any machine."""

from collections import OrderedDict
from typing import Any

import torch

# Exact types: a NumPy float64 is a float, an enumeration may be an int, and neither loads.
_LEAVES = {type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.nn.Parameter, torch.dtype}
_LEAVES |= {torch.device, torch.Size}
_KEYS = {bool, int, float, str, type(None)}

_ADVICE = (
    "a checkpoint holds dict, list, tuple, set, number, text and tensor only; "
    "convert it (NumPy: .item() or torch.from_numpy, Path: str, OmegaConf: OmegaConf.to_container)"
)


def check_plain(value: Any, where: str = "state") -> None:
    """Raises TypeError, with its path of keys, if an object has another type."""
    kind = type(value)
    if kind in _LEAVES:
        return
    if kind in (dict, OrderedDict):
        for key, item in value.items():
            if type(key) not in _KEYS:
                raise TypeError(f"{where} has a key of type {_name(key)}: {key!r}; use text or a number")
            check_plain(item, f"{where}[{key!r}]")
    elif kind in (list, tuple):
        for index, item in enumerate(value):
            check_plain(item, f"{where}[{index}]")
    elif kind is set:
        for item in value:
            check_plain(item, f"{where}, the member {item!r}")
    else:
        raise TypeError(f"{where} is a {_name(value)}; {_ADVICE}")


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
