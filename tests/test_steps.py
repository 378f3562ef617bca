"""A window of steps, or all of them, against the whole sum written out: value, and derivatives by x and by a table."""

import math

import pytest
import torch
from torch import Tensor

from products import generator
from surrogates.kernels import KERNELS
from surrogates.staircases.mixture import mixture
from surrogates.staircases.steps import bounded_stairs, width

torch.set_num_threads(1)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
TEMPERATURES = (0.02, 0.4, 6.0)
COUNTS = (1, 15, 255)
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-12}


def passed(x: Tensor, kernel: str, T: float, count: int) -> Tensor:
    """P(step j is passed), (..., count); the steps are at 1/2, 3/2, ..."""
    edges = 0.5 + torch.arange(count, dtype=torch.float64)
    return KERNELS[kernel].cdf((x.double().unsqueeze(-1) - edges) / T)


def derivatives(y: Tensor, x: Tensor, table: Tensor | None = None) -> list[Tensor]:
    """The first ones, of a sum with weights, taken with and without a graph, and the second one by x."""
    weight = torch.linspace(0.5, 1.5, len(x), dtype=torch.float64).to(y.dtype)
    leaves = [x] if table is None else [x, table]
    first = list(torch.autograd.grad((y * weight).sum(), leaves, retain_graph=True))
    again = torch.autograd.grad((y * weight).sum(), leaves, create_graph=True)
    for plain, graphed in zip(first, again, strict=True):
        torch.testing.assert_close(plain, graphed.detach(), atol=TOLERANCE[y.dtype] * 25, rtol=TOLERANCE[y.dtype])
    second = torch.autograd.grad(again[0].sum(), leaves, allow_unused=True) if again[0].requires_grad else [None]
    return first + [torch.zeros_like(x) if d is None else d for d in second]


def spread(count: int, dtype: torch.dtype) -> Tensor:
    x = torch.rand(60, generator=generator(0), dtype=torch.float64) * (count + 8) - 4
    return x.to(dtype).requires_grad_()


def close(got: list[Tensor], expected: list[Tensor], dtype: torch.dtype, T: float) -> None:
    scale = max(1 / T, 1.0) ** 2
    for ours, plain in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, plain.to(dtype), atol=TOLERANCE[dtype] * scale, rtol=8 * TOLERANCE[dtype])


@every_kernel
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_expected_number_of_steps_is_the_whole_sum(kernel: str, dtype: torch.dtype) -> None:
    windows = 0
    for count in COUNTS:
        for T in TEMPERATURES:
            x = spread(count, dtype)
            windows += width(KERNELS[kernel], x, T, 1.0, count) < count
            got, plain = (
                bounded_stairs(x, KERNELS[kernel], T, 0.0, 0.5, 1.0, count),
                passed(x, kernel, T, count).sum(-1),
            )
            torch.testing.assert_close(got, plain.to(dtype), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
            close(derivatives(got, x), derivatives(plain, x), dtype, T)
    assert (windows == 0) == (kernel in ("cauchy", "fast_sigmoid"))


@every_kernel
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_mixture_of_entries_is_the_whole_sum(kernel: str, dtype: torch.dtype) -> None:
    for count in COUNTS:
        for T in TEMPERATURES:
            x = spread(count, dtype)
            table = torch.randn(count + 1, generator=generator(1), dtype=dtype, requires_grad=True)
            beyond = passed(x, kernel, T, count)
            one = torch.ones(len(x), 1, dtype=torch.float64)
            plain = ((torch.cat([one, beyond], -1) - torch.cat([beyond, 0 * one], -1)) * table.double()).sum(-1)
            got = mixture(x, table, KERNELS[kernel], T, -0.5, 1.0)
            torch.testing.assert_close(got, plain.to(dtype), atol=2 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])
            ours, theirs = derivatives(got, x, table), derivatives(plain, x, table)
            close(ours, theirs, dtype, T / 4)


@every_kernel
def test_nan_and_infinite_numbers_in_a_window(kernel: str) -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf], requires_grad=True)
    table = torch.arange(256.0, requires_grad=True)
    for y in (
        bounded_stairs(x, KERNELS[kernel], 0.1, 0.0, 0.5, 1.0, 255),
        mixture(x, table, KERNELS[kernel], 0.1, -0.5, 1),
    ):
        torch.testing.assert_close(y, torch.tensor([math.nan, 255.0, 0.0]), equal_nan=True, msg=kernel)
        (slope,) = torch.autograd.grad(y[1:].sum(), x)
        assert (slope[1:] == 0).all()
