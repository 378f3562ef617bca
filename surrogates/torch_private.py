"""The private names of torch that this package uses, each with its reason and its fallback."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import Node

FUNCTORCH: Any = getattr(torch._C, "_functorch", None)
ACTIVE: Any = getattr(torch._C, "_are_functorch_transforms_active", None)
SET_FORWARD_MODE: Any = getattr(forward_ad, "_set_fwd_grad_enabled", None)


def transforms_active() -> bool:
    """Whether a transform of torch.func is running; if so, numbers cannot be read and memory cannot be shared.

    Without the private name, a Function that torch.func refuses is tried, which takes 20 us instead of 0.1.
    """
    if ACTIVE is not None:
        return bool(ACTIVE())
    try:
        _OldStyle.apply(torch.zeros(()))
    except RuntimeError:
        return True
    return False


def tracked_by_transform(x: Tensor) -> bool:
    """Whether a transform of torch.func records derivatives by x; under vmap the wrappers themselves do not show it.

    Without the private names, every running transform counts as one that does.
    """
    if FUNCTORCH is None:
        return transforms_active()
    while FUNCTORCH.is_functorch_wrapped_tensor(x):
        if FUNCTORCH.is_gradtrackingtensor(x):
            return True
        x = FUNCTORCH.get_unwrapped(x)
    return False


def innermost(x: Tensor) -> Tensor:
    """The tensor inside the wrappers of torch.func, whose numbers can be read; x itself without the private names."""
    while FUNCTORCH is not None and FUNCTORCH.is_functorch_wrapped_tensor(x):
        x = FUNCTORCH.get_unwrapped(x)
    return x


def without_forward_mode() -> AbstractContextManager[None]:
    """A block without tangents, as no_grad is one without gradients; some calls have no rule for tangents and raise.

    Without the private name such a call raises in forward mode.
    """
    return nullcontext() if SET_FORWARD_MODE is None else SET_FORWARD_MODE(False)


def writes(x: Tensor) -> int | None:
    """The number of in-place writes to x; None if torch does not count them.

    Without the private name it is None, so the buffer is read each time.
    """
    return None if x.is_inference() else getattr(x, "_version", None)


def adds_once(node: Node) -> bool:
    """Whether a node of a sum, difference or negation has no factor `alpha` other than 1.

    Without the private name no sum does, so `through` follows none.
    """
    return node.name() == "NegBackward0" or getattr(node, "_saved_alpha", None) == 1


class _OldStyle(torch.autograd.Function):
    """A Function without `setup_context`, which torch.func's transforms refuse with a RuntimeError."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()
