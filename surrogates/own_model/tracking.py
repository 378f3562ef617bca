"""Whether a derivative by a tensor is being recorded."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor, is_gradtrackingtensor
from torch.autograd.forward_ad import unpack_dual


def recorded(x: Tensor) -> bool:
    """Whether x is floating and autograd, forward mode or a transform of torch.func records derivatives by it."""
    if not x.is_floating_point():
        return False
    while is_functorch_wrapped_tensor(x):
        if is_gradtrackingtensor(x):
            return True
        x = get_unwrapped(x)
    if x.requires_grad:
        return torch.is_grad_enabled()
    return unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def tensors(arguments: Any) -> Iterator[Tensor]:
    """The tensors among a call's arguments, in lists and tuples too."""
    if isinstance(arguments, Tensor):
        yield arguments
    elif isinstance(arguments, (tuple, list)):
        for argument in arguments:
            yield from tensors(argument)
