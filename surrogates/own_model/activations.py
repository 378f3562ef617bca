"""Activations with kinks in terms of ops, each with the arguments of the torch function of its name."""

from __future__ import annotations

from torch import Tensor

from surrogates.ops.clamp import Clamp
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.relu import ReLU
from surrogates.own_model.choice import Left
from surrogates.own_model.elementwise import Take


def hardtanh(take: Take, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """clamp(x, min_val, max_val)."""
    return take(Clamp(float(min_val), float(max_val)), input)


def relu6(take: Take, input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x, 0, 6)."""
    return take(Clamp(0.0, 6.0), input)


def hardsigmoid(take: Take, input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x, -3, 3) / 6 + 1/2."""
    return take(Clamp(-3.0, 3.0), input) / 6 + 0.5


def hardswish(take: Take, input: Tensor, inplace: bool = False) -> Tensor:
    """x (clamp(x, -3, 3) / 6 + 1/2)."""
    return input * hardsigmoid(take, input)


def softshrink(take: Take, input: Tensor, lambd: float = 0.5) -> Tensor:
    """x - clamp(x, -lambd, lambd)."""
    if not lambd > 0:
        raise Left("empty interval")
    return input - take(Clamp(-float(lambd), float(lambd)), input)


def leaky_relu(take: Take, input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """a x + (1 - a) relu(x)."""
    return negative_slope * input + (1 - negative_slope) * take(ReLU(), input)


def prelu(take: Take, input: Tensor, weight: Tensor) -> Tensor:
    """a x + (1 - a) relu(x), a by channel, the second dim, unless there is one alone."""
    a = weight if weight.numel() == 1 else weight.reshape(-1, *[1] * (input.dim() - 2))
    return a * input + (1 - a) * take(ReLU(), input)


def threshold(take: Take, input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """m x + (1 - m) value, m the step of x - threshold, 0 at 0."""
    m = take(Heaviside(zero=0.0), input - threshold)
    return m * input + (1 - m) * value


def hardshrink(take: Take, input: Tensor, lambd: float = 0.5) -> Tensor:
    """m x, m the sum of the steps of x - lambd and -x - lambd, 0 at 0."""
    step = Heaviside(zero=0.0)
    return (take(step, input - lambd) + take(step, -input - lambd)) * input
