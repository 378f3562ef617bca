"""The hard functions of the models in real_models.py with the derivatives that their blocks of `through` give them.

Written by hand, without this library.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class ByHand(TorchFunctionMode):
    """Calls other functions in place of torch's."""

    def __init__(self, functions: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.functions.get(function, function)(*args, **(kwargs or {}))


def with_slope(value: Tensor, carrier: Tensor) -> Tensor:
    """The value with the derivative of the carrier."""
    return value.detach() + (carrier - carrier.detach())


def identity_relu(x: Tensor, inplace: bool = False) -> Tensor:
    return with_slope(x.relu(), x)


def soft_relu(x: Tensor, inplace: bool = False) -> Tensor:
    return with_slope(x.relu(), F.softplus(x))


def soft_hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6: the slopes of softplus(x + 3) and, at that maximum m, of 6 - softplus(6 - m)."""
    m = soft_relu(x + 3)
    return with_slope(m.clamp(max=6), -F.softplus(6 - m)) / 6


def soft_hardswish(x: Tensor, inplace: bool = False) -> Tensor:
    return x * soft_hardsigmoid(x)


def top_two(x: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """The slopes of S_1 and S_2 - S_1, S_k = log of the sum over sets of k entries of exp(their sum)."""
    values, chosen = torch.topk(x, k, dim)
    weights = x.exp()
    one, two = weights.sum(-1), (weights.sum(-1) ** 2 - (weights**2).sum(-1)) / 2
    return with_slope(values, torch.stack([one.log(), two.log() - one.log()], -1)), chosen


def soft_routes() -> dict[Any, Callable[..., Any]]:
    """scatter by the indices of topk as one-hot rows, with the slopes of softmax over j of -|x_(i) - x_j|."""
    rows: dict[Tensor, Tensor] = {}

    def topk(x: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
        values, chosen = x.topk(k, dim)
        distances = (values.unsqueeze(-1) - x.unsqueeze(-2)).abs()
        rows[chosen] = with_slope(F.one_hot(chosen, x.shape[-1]) * 1.0, (-distances).softmax(-1))
        return values, chosen

    def scatter(x: Tensor, dim: int, chosen: Tensor, weights: Tensor) -> Tensor:
        return (rows[chosen] * weights.unsqueeze(-1)).sum(-2)

    return {Tensor.topk: topk, Tensor.scatter: scatter}


def softmax_one_hot() -> dict[Any, Callable[..., Any]]:
    """one_hot(argmax(x)) with the slope of softmax(x)."""
    weights: dict[Tensor, Tensor] = {}

    def argmax(x: Tensor, dim: int) -> Tensor:
        chosen = x.argmax(dim)
        weights[chosen] = x.softmax(dim)
        return chosen

    return {Tensor.argmax: argmax, F.one_hot: lambda k, n: with_slope(F.one_hot(k, n) * 1.0, weights[k])}


def clipped_round(x: Tensor) -> Tensor:
    return with_slope(x.round(), x * (x.detach().abs() <= 1))


def half_clamp(x: Tensor, min: float = -torch.inf, max: float = torch.inf) -> Tensor:
    """The slope is 1/2 on a bound."""
    share = ((x > min) * 1.0 + (x >= min)) * ((x < max) * 1.0 + (x <= max)) / 4
    return with_slope(x.clamp(min, max), share * x)


def boxed_masks() -> dict[Any, Callable[..., Any]]:
    """where(a > b, u, v) = m u + (1 - m) v; the mask m has the slope 1/2 by a - b where |a - b| <= 1."""
    numbers: dict[Tensor, Tensor] = {}

    def compare(function: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
        def compared(a: Tensor, b: Tensor) -> Tensor:
            mask, gap = function(a, b), a - b
            numbers[mask] = with_slope(mask * 1.0, sign * gap / 2 * (gap.detach().abs() <= 1))
            return mask

        return compared

    def where(mask: Tensor, u: Any, v: Any) -> Tensor:
        return numbers[mask] * u + (1 - numbers[mask]) * v if mask in numbers else torch.where(mask, u, v)

    signs = {Tensor.gt: 1, Tensor.ge: 1, Tensor.lt: -1}
    return {torch.where: where} | {function: compare(function, sign) for function, sign in signs.items()}


# The strategy takes the place of an estimator x + (q - x).detach(): q has the derivative.
ESTIMATED: dict[Any, Callable[..., Any]] = {Tensor.detach: lambda x: x}
REFERENCES: dict[str, dict[Any, Callable[..., Any]]] = {
    "ResNet-18": {F.relu: identity_relu},
    "MobileNetV3": {F.relu: soft_relu, F.hardsigmoid: soft_hardsigmoid, F.hardswish: soft_hardswish},
    "VQ": ESTIMATED | softmax_one_hot(),
    "FSQ": ESTIMATED | {Tensor.round: clipped_round},
    "LFQ": ESTIMATED | boxed_masks(),
    "BitLinear": ESTIMATED | {Tensor.round: clipped_round, Tensor.clamp: half_clamp},
    "QuantConv2d, QuantLinear": boxed_masks(),
    "FakeQuantizedLinear": {torch.clamp: half_clamp},
    "mixture of experts": {Tensor.topk: top_two},
    "mixture, every expert": soft_routes(),
}
