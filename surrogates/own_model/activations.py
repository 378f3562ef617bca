"""Activations with kinks in terms of ops; each function has the arguments of the torch function of its name."""

from __future__ import annotations

from torch import Tensor

from surrogates.ops.heaviside import Heaviside
from surrogates.ops.relu import ReLU
from surrogates.own_model.elementwise import Apply, clamp


def hardtanh(apply: Apply, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """clamp(x, min_val, max_val)."""
    return clamp(apply, input, min_val, max_val)


def relu6(apply: Apply, input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x, 0, 6)."""
    return clamp(apply, input, 0.0, 6.0)


def hardsigmoid(apply: Apply, input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x, -3, 3) / 6 + 1/2."""
    return clamp(apply, input, -3.0, 3.0) / 6 + 0.5


def hardswish(apply: Apply, input: Tensor, inplace: bool = False) -> Tensor:
    """x (clamp(x, -3, 3) / 6 + 1/2)."""
    return input * hardsigmoid(apply, input)


def softshrink(apply: Apply, input: Tensor, lambd: float = 0.5) -> Tensor:
    """x - clamp(x, -lambd, lambd)."""
    return input - clamp(apply, input, -float(lambd), float(lambd))


def leaky_relu(apply: Apply, input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """a x + (1 - a) relu(x)."""
    a = float(negative_slope)
    return a * input + (1 - a) * apply(ReLU(), input)


def prelu(apply: Apply, input: Tensor, weight: Tensor) -> Tensor:
    """a x + (1 - a) relu(x); a single number, or one a channel, the second dim."""
    a = weight.reshape(()) if weight.numel() == 1 else weight.reshape(-1, *[1] * (input.dim() - 2))
    return a * input + (1 - a) * apply(ReLU(), input)


def threshold(apply: Apply, input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """m x + (1 - m) value, m the unit step of x - threshold, 0 at 0."""
    m = apply(Heaviside(zero=0.0), input - float(threshold))
    return m * input + (1 - m) * float(value)


def hardshrink(apply: Apply, input: Tensor, lambd: float = 0.5) -> Tensor:
    """m x, m the sum of the unit steps of x - lambd and -x - lambd, 0 at 0."""
    step, c = Heaviside(zero=0.0), float(lambd)
    return (apply(step, input - c) + apply(step, -input - c)) * input
