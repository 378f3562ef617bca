"""A torch call on results of comparisons and indices, and the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.marks import Mark


@dataclass
class Use:
    """A torch call on marked tensors. An `inplace` function gets a copy of its first argument."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    marks: Mapping[int, Mark]  # by the id of the tensor
    result: Tensor
    inplace: bool = False
    soft: bool = False  # whether numbers other than 0 and 1 were read

    def mark(self, argument: Any) -> Mark | None:
        """The argument's mark; None if it has none."""
        return self.marks.get(id(argument)) if isinstance(argument, Tensor) else None

    def lift(self, argument: Any, index: bool = False) -> Any:
        """The argument with numbers in place of marked tensors; an index is read as one-hot rows, or as their mean.

        Raises NotReplaced if a number is used as an index.
        """
        if isinstance(argument, (tuple, list)):
            return type(argument)(self.lift(part) for part in argument)
        mark = self.mark(argument)
        if mark is None:
            return argument
        if index and not mark.index:
            raise NotReplaced("a number used as an index; use the op lookup")
        self.soft |= mark.numbers.soft
        numbers = mark.numbers.value
        return numbers if mark.index == index else _mean_class(numbers)

    def number(self, argument: Any, like: Tensor) -> Tensor:
        """The lifted argument, in the precision of `like`."""
        return torch.as_tensor(self.lift(argument), dtype=like.dtype, device=like.device)

    def linear(self, numbers: Tensor, form: Callable[[Tensor], Tensor]) -> Tensor:
        """`form`, linear in the numbers; for 0 and 1 the call's own derivatives, plus those by the numbers."""
        if self.soft or not self.result.is_floating_point():
            return form(numbers)
        return self.result + form(numbers - numbers.detach())

    def argument(self, position: int, name: str) -> Any:
        """The call's argument at this position or of this name.

        Raises NotReplaced if it has none.
        """
        if position >= len(self.args) and name not in self.kwargs:
            raise NotReplaced(f"it has no argument '{name}'")
        return self.args[position] if position < len(self.args) else self.kwargs[name]

    def optional(self, position: int, name: str, default: Any = None) -> Any:
        """The call's argument at this position or of this name, or the default."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(name, default)


def _mean_class(rows: Tensor) -> Tensor:
    """sum_n n row_n."""
    return (rows * torch.arange(rows.shape[-1], dtype=rows.dtype, device=rows.device)).sum(-1)


def finite(x: Tensor) -> Tensor:
    """x, with 0 for entries that times 0 would give NaN."""
    return torch.where(x.isfinite(), x, 0)
