"""A device emulated on the CPU: its tensors cannot meet those of the CPU, and each wait of the host for it is noted.

It goes by the name of torch's `meta`, and has numbers. As on CUDA, a number of the CPU (0-d) may be an operand of an
elementwise operation, and a transfer to the device waits unless it is `non_blocking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "meta"
READS = {"_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "_unique2", "bincount"}
TRANSFERS = {"_to_copy", "copy_"}
TAKE_NUMBERS = re.compile(
    "add|sub|rsub|mul|div|pow|remainder|fmod|floor_divide|atan2|eq|ne|lt|le|gt|ge|maximum|minimum|where|masked_fill"
    "|bitwise_(and|or|xor)|logical_(and|or)|(add|sub|mul|div|masked_fill)_"
)


class OnDevice(Tensor):
    """A tensor of the device; `numbers` is the tensor of the CPU that it stands for."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> OnDevice:
        layout = numbers.shape, numbers.stride(), numbers.storage_offset()
        made = Tensor._make_wrapper_subclass(cls, *layout, dtype=numbers.dtype, device=NAME)
        made.numbers = numbers
        return made

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.numbers})"

    def tolist(self) -> Any:
        return self.detach().to("cpu").tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function} of a tensor of the emulated device, outside `emulated_device`")


class _Operations(TorchDispatchMode):
    """Computes with the numbers of the device's tensors; `waits` are the operations for which the host waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors: list[Tensor] = []
        own_args, own_kwargs = _plain(args, tensors), _plain(kwargs, tensors)
        there = any(type(tensor) is OnDevice for tensor in tensors)
        target = kwargs.get("device")
        makes = target is not None and torch.device(target).type == NAME
        if not there and not makes:
            return function(*args, **kwargs)
        name = function.__name__.partition(".")[0]
        if name in TRANSFERS:
            self._transfer(name, args, kwargs, makes)
        else:
            self._refuse_two_devices(name, tensors)
            masked = name.startswith("index") and any(tensor.dtype == torch.bool for tensor in tensors[1:])
            if name in READS or masked:
                self.waits.append(name)
        if makes:
            own_kwargs["device"] = "cpu"
        result = function(*own_args, **own_kwargs)
        if target is not None and not makes:
            return result
        if function._schema.is_mutable:
            return args[0] if result is own_args[0] else kwargs.get("out", result)
        return _wrapped(result)

    def _transfer(self, name: str, args: Any, kwargs: Any, makes: bool) -> None:
        source, target = (args[1], args[0]) if name == "copy_" else (args[0], None)
        stays = type(source) is OnDevice and (type(target) is OnDevice or makes or kwargs.get("device") is None)
        quick = type(source) is not OnDevice and (kwargs.get("non_blocking") or args[2:3] == (True,))
        if not stays and not quick:
            self.waits.append(name)

    def _refuse_two_devices(self, name: str, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if type(tensor) is not OnDevice and (tensor.dim() or not TAKE_NUMBERS.fullmatch(name)):
                raise RuntimeError(f"{name} of tensors on two devices: one on the CPU has shape {tuple(tensor.shape)}")


def _plain(value: Any, seen: list[Tensor]) -> Any:
    """The value with the numbers of the device's tensors in it; adds the tensors to `seen`."""
    if isinstance(value, Tensor):
        seen.append(value)
        return value.numbers if type(value) is OnDevice else value
    if isinstance(value, list | tuple):
        return type(value)(_plain(item, seen) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item, seen) for key, item in value.items()}
    return value


def _wrapped(value: Any) -> Any:
    if isinstance(value, Tensor):
        return OnDevice(value)
    return type(value)(map(_wrapped, value)) if isinstance(value, list | tuple) else value


def _make(make: Callable[..., Tensor], *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
    """torch.tensor and torch.as_tensor make the numbers without an operation, then move them."""
    if device is None or torch.device(device).type != NAME:
        return make(*args, device=device, **kwargs)
    return make(*args, **kwargs).to(device)


@contextmanager
def emulated_device() -> Iterator[list[str]]:
    """A block in which device `meta` is emulated; gives the operations for which the host waited, in order."""
    makers = {name: partial(_make, getattr(torch, name)) for name in ("tensor", "as_tensor")}
    with patch.multiple(torch, **makers), _Operations() as operations:
        yield operations.waits
