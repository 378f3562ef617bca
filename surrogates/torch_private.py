"""What this package needs of torch and torch does not make public: each name, why, and what is done without it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

FUNCTORCH: Any = getattr(torch._C, "_functorch", None)
ACTIVE: Any = getattr(torch._C, "_are_functorch_transforms_active", None)
SET_FORWARD_MODE: Any = getattr(forward_ad, "_set_fwd_grad_enabled", None)


def transforms_active() -> bool:
    """Whether a transform of torch.func is running: numbers cannot be read then, nor memory be shared.

    Without the private name a Function that torch.func refuses is tried, which takes 20 us instead of 0.1.
    """
    if ACTIVE is not None:
        return bool(ACTIVE())
    try:
        _OldStyle.apply(torch.zeros(()))
    except RuntimeError:
        return True
    return False


def tracked_by_transform(x: Tensor) -> bool:
    """Whether a transform of torch.func records derivatives by x; its wrappers do not say so themselves under vmap.

    Without the private names any running transform counts as one that does.
    """
    if FUNCTORCH is None:
        return transforms_active()
    while FUNCTORCH.is_functorch_wrapped_tensor(x):
        if FUNCTORCH.is_gradtrackingtensor(x):
            return True
        x = FUNCTORCH.get_unwrapped(x)
    return False


def innermost(x: Tensor) -> Tensor:
    """The tensor inside the wrappers of torch.func, whose numbers can be looked at; without the private names x."""
    while FUNCTORCH is not None and FUNCTORCH.is_functorch_wrapped_tensor(x):
        x = FUNCTORCH.get_unwrapped(x)
    return x


def without_forward_mode() -> AbstractContextManager[None]:
    """A block without tangents, as no_grad is one without gradients: some calls have no rule for tangents and raise.

    Without the private name such a call raises in forward mode.
    """
    return nullcontext() if SET_FORWARD_MODE is None else SET_FORWARD_MODE(False)


def writes(x: Tensor) -> int | None:
    """How often x was written to in place; None if torch does not count it.

    Without the private name nobody knows whether x still holds what it was given, so it is read.
    """
    return None if x.is_inference() else getattr(x, "_version", None)


class _OldStyle(torch.autograd.Function):
    """Without `setup_context`: torch.func's transforms refuse it with a RuntimeError."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()
