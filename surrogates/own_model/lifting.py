"""What is made of comparisons and indices: each torch call on a marked tensor, as a call on the numbers behind it.

Each function here gives, for a `Use`, the floating tensor that the call's result stands for. Where the numbers are 0
and 1 its value does not count, only its derivative: the value is the call's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.own_model.choice import Left
from surrogates.own_model.marks import Mark


@dataclass
class Use:
    """A torch call on marked tensors. An `inplace` function never gets its first argument itself."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    marks: Mapping[int, Mark]  # by the id of the tensor
    result: Tensor
    inplace: bool = False
    soft: bool = False  # whether other numbers than 0 and 1 were read

    def mark(self, argument: Any) -> Mark | None:
        """The argument's mark."""
        return self.marks.get(id(argument)) if isinstance(argument, Tensor) else None

    def lift(self, argument: Any, index: bool = False) -> Any:
        """The argument with numbers in place of marked tensors; Left for an index that is used like a number."""
        if isinstance(argument, (tuple, list)):
            return [self.lift(part) for part in argument]
        mark = self.mark(argument)
        if mark is None:
            return argument
        if mark.index != index:
            raise Left("an index used as a number" if mark.index else "a mask used as an index")
        self.soft |= mark.numbers.soft
        return mark.numbers.value

    def number(self, argument: Any, like: Tensor) -> Tensor:
        """The argument lifted, in the precision of `like`."""
        return torch.as_tensor(self.lift(argument), dtype=like.dtype, device=like.device)

    def linear(self, numbers: Tensor, form: Callable[[Tensor], Tensor]) -> Tensor:
        """`form`, linear in the numbers; if those are 0 and 1, the call's own derivatives and those by the numbers."""
        if self.soft or not self.result.is_floating_point():
            return form(numbers)
        return self.result + form(numbers - numbers.detach())


def to_numbers(use: Use) -> Tensor:
    """float(m), m.to(dtype)."""
    numbers: Tensor = use.lift(use.args[0])
    return numbers


def same(use: Use) -> Tensor:
    """The same function of the numbers: products, sums, joined and indexed tensors."""
    first, *rest = use.lift(use.args)
    kwargs = {name: use.lift(value) for name, value in use.kwargs.items() if name != "dtype"}
    lifted: Tensor = use.function(first.clone() if use.inplace else first, *rest, **kwargs)
    return lifted


def reshape(use: Use) -> Tensor:
    """The same view of the numbers; of one-hot rows, class by class."""
    mark = use.mark(use.args[0])
    if mark is None or not mark.index:
        return same(use)
    planes = use.lift(use.args[0], index=True).movedim(-1, 0).contiguous()
    viewed = torch.vmap(lambda plane: use.function(plane, *use.args[1:], **use.kwargs))(planes)
    lifted: Tensor = viewed.movedim(0, -1)
    return lifted


def item(use: Use) -> Tensor:
    """A part of a mask, or the rows of a table that an index chooses."""
    table, key = use.args
    if use.mark(table) is not None:
        return reshape(use)
    return _rows(use, key, table) if isinstance(key, Tensor) and key.dtype != torch.bool else _unsupported(use)


def embedding(use: Use) -> Tensor:
    """The rows of a table that an index chooses."""
    return _rows(use, use.args[0], use.args[1] if len(use.args) > 1 else use.kwargs["weight"])


def _rows(use: Use, index: Tensor, table: Tensor) -> Tensor:
    numbers = use.lift(index, index=True)
    _require_classes(numbers, table.shape[0])
    return use.linear(numbers, lambda rows: torch.tensordot(rows, _finite(table), 1))


def one_hot(use: Use) -> Tensor:
    """The one-hot rows themselves, cut or filled up to the number of classes."""
    numbers = use.lift(use.args[0], index=True)
    return F.pad(numbers, (0, use.result.shape[-1] - numbers.shape[-1]))


def gather(use: Use) -> Tensor:
    """sum_n row_n y_n along the dim."""
    y, dim, index = (_argument(use, i, name) for i, name in enumerate(("input", "dim", "index")))
    numbers, dim = use.lift(index, index=True), dim % max(y.dim(), 1)
    _require_classes(numbers, y.shape[dim])
    for d, n in enumerate(index.shape):
        y = y if d == dim else y.narrow(d, 0, n)
    values = _finite(y).movedim(dim, -1).unsqueeze(dim)
    return use.linear(numbers, lambda rows: (rows * values).sum(-1))


def both(use: Use) -> Tensor:
    """a b for a & b."""
    a, b = _pair(use)
    return a * b


def either(use: Use) -> Tensor:
    """a + b - a b for a | b."""
    a, b = _pair(use)
    return a + b - a * b


def one_of(use: Use) -> Tensor:
    """a + b - 2 a b for a ^ b."""
    a, b = _pair(use)
    return a + b - 2 * a * b


def negate(use: Use) -> Tensor:
    """1 - a for ~a."""
    numbers: Tensor = 1 - use.lift(use.args[0])
    return numbers


def where(use: Use) -> Tensor:
    """m a + (1 - m) b for where(m, a, b)."""
    if use.function is Tensor.where:
        return _chosen(use, use.args[1], use.args[0], use.args[2])
    names = ("condition", "input", "other")
    return _chosen(use, *(_argument(use, i, name) for i, name in enumerate(names)))


def masked_fill(use: Use) -> Tensor:
    """m value + (1 - m) x."""
    x, mask, value = (_argument(use, i, name) for i, name in enumerate(("input", "mask", "value")))
    return _chosen(use, mask, value, x)


def _chosen(use: Use, condition: Any, a: Any, b: Any) -> Tensor:
    if use.mark(condition) is None:
        return same(use)
    m = use.lift(condition)
    like = use.result if use.result.is_floating_point() else m
    a, b, m = use.number(a, like), use.number(b, like), m.to(like.dtype)
    if use.soft:
        mixed = m * _finite(a) + (1 - m) * _finite(b)
        return torch.where(a.isinf() | b.isinf(), use.result, mixed)
    return use.linear(m, lambda m: m * _finite(a - b)) if use.result.is_floating_point() else m * a + (1 - m) * b


def _pair(use: Use) -> tuple[Tensor, Tensor]:
    a, b = use.args[0], _argument(use, 1, "other")
    like = next(use.lift(x) for x in (a, b) if use.mark(x) is not None)
    return use.number(a, like), use.number(b, like)


def _argument(use: Use, position: int, name: str) -> Any:
    return use.args[position] if position < len(use.args) else use.kwargs[name]


def _finite(x: Tensor) -> Tensor:
    """x, with 0 in place of what would make 0 times it NaN."""
    return torch.where(x.isfinite(), x, 0)


def _require_classes(numbers: Tensor, classes: int) -> None:
    if numbers.shape[-1] != classes:
        raise Left(f"an index among {numbers.shape[-1]} used for one of {classes}")


def _unsupported(use: Use) -> Tensor:
    raise Left("boolean indexing has no derivative by the mask")


LIFTED: dict[Callable[[Use], Tensor], tuple[str, ...]] = {
    to_numbers: ("float", "double", "half", "bfloat16", "to", "type", "type_as", "cpu", "cuda", "int", "long"),
    same: (
        "mul", "multiply", "__mul__", "__rmul__", "__imul__", "div", "divide", "true_divide", "__truediv__", "add",
        "__add__", "__radd__", "__iadd__", "sub", "subtract", "__sub__", "__rsub__", "rsub", "__isub__", "neg", "sum",
        "mean", "cumsum", "cat", "stack",
    ),
    reshape: (
        "unsqueeze", "squeeze", "view", "reshape", "view_as", "reshape_as", "expand", "expand_as", "broadcast_to",
        "transpose", "swapaxes", "permute", "movedim", "flatten", "unflatten", "t", "select", "narrow", "contiguous",
        "clone", "repeat", "flip", "roll",
    ),
    item: ("__getitem__",),
    where: ("where",),
    masked_fill: ("masked_fill",),
    both: ("logical_and", "bitwise_and", "__and__", "__rand__", "__iand__"),
    either: ("logical_or", "bitwise_or", "__or__", "__ror__", "__ior__"),
    one_of: ("logical_xor", "bitwise_xor", "__xor__", "__rxor__", "__ixor__"),
    negate: ("logical_not", "bitwise_not", "__invert__"),
    one_hot: ("one_hot",),
    gather: ("gather",),
    embedding: ("embedding",),
}  # fmt: skip
