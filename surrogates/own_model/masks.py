"""Calls that use a result as numbers: each function returns the floating tensor for the result of a `Use`.

If the numbers are 0 and 1, only its derivative is used; the value is the call's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.use import Use, finite


def to_numbers(use: Use) -> Tensor:
    """float(m), m.to(dtype); an index stays one if the result holds integers."""
    input = use.argument(0, "input")
    mark = use.mark(input)
    numbers: Tensor = use.lift(input, index=mark is not None and mark.index and not use.result.is_floating_point())
    return numbers


def same(use: Use) -> Tensor:
    """The same function of the numbers: products, sums, joined and indexed tensors.

    Raises NotReplaced if torch refuses the numbers, as in place of an integer argument.
    """
    args = list(use.lift(use.args))
    kwargs = {name: use.lift(value) for name, value in use.kwargs.items() if name != "dtype"}
    if use.inplace:
        args[0] = args[0].clone()
    try:
        lifted: Tensor = use.function(*args, **kwargs)
    except (TypeError, IndexError, RuntimeError) as error:
        raise NotReplaced(f"torch refuses numbers with a derivative: {error}") from error
    return lifted


def add(use: Use) -> Tensor:
    """a + b; of two masks, where torch's + means a | b, a + b - a b."""
    return either(use) if use.result.dtype == torch.bool else same(use)


def reshape(use: Use) -> Tensor:
    """The same view of the numbers; class by class for one-hot rows.

    Raises NotReplaced for a view of the bits as another dtype.
    """
    if any(isinstance(x, torch.dtype) for x in (*use.args, *use.kwargs.values())):
        raise NotReplaced("its bits are read as another dtype")
    input = use.argument(0, "input")
    mark = use.mark(input)
    if mark is None or not mark.index:
        return same(use)
    planes = use.lift(input, index=True).movedim(-1, 0).contiguous()
    others = {name: value for name, value in use.kwargs.items() if name != "input"}
    viewed = torch.vmap(lambda plane: use.function(plane, *use.args[1:], **others))(planes)
    lifted: Tensor = viewed.movedim(0, -1)
    return lifted


def both(use: Use) -> Tensor:
    """a b for a & b."""
    a, b = _lift_pair(use)
    return a * b


def either(use: Use) -> Tensor:
    """a + b - a b for a | b."""
    a, b = _lift_pair(use)
    return a + b - a * b


def one_of(use: Use) -> Tensor:
    """a + b - 2 a b for a ^ b."""
    a, b = _lift_pair(use)
    return a + b - 2 * a * b


def negate(use: Use) -> Tensor:
    """1 - a for ~a."""
    numbers: Tensor = 1 - use.lift(_require_bool(use.argument(0, "input")))
    return numbers


def where(use: Use) -> Tensor:
    """m a + (1 - m) b for where(m, a, b)."""
    if use.function is Tensor.where:
        return _select(use, use.argument(1, "condition"), use.args[0], use.argument(2, "other"))
    names = ("condition", "input", "other")
    return _select(use, *(use.argument(i, name) for i, name in enumerate(names)))


def masked_fill(use: Use) -> Tensor:
    """m value + (1 - m) x."""
    x, mask, value = (use.argument(i, name) for i, name in enumerate(("input", "mask", "value")))
    return _select(use, mask, value, x)


def _select(use: Use, condition: Any, a: Any, b: Any) -> Tensor:
    if use.mark(condition) is None:
        return same(use)
    m = use.lift(condition)
    like = use.result if use.result.is_floating_point() else m
    a, b, m = use.number(a, like), use.number(b, like), m.to(like.dtype)
    if use.soft:
        mixed = m * finite(a) + (1 - m) * finite(b)
        return torch.where(a.isinf() | b.isinf(), use.result, mixed)
    return use.linear(m, lambda m: m * finite(a - b)) if use.result.is_floating_point() else m * a + (1 - m) * b


def _lift_pair(use: Use) -> tuple[Tensor, Tensor]:
    a, b = (_require_bool(use.argument(i, name)) for i, name in enumerate(("input", "other")))
    like = next(use.lift(x) for x in (a, b) if use.mark(x) is not None)
    return use.number(a, like), use.number(b, like)


def _require_bool(operand: Any) -> Any:
    """The operand; raises NotReplaced for a tensor of another dtype, whose logic is not that of 0 and 1."""
    if isinstance(operand, Tensor) and operand.dtype != torch.bool:
        raise NotReplaced(f"logic of {operand.dtype} has no op")
    return operand
