"""Ops against torch's own, and facts of single ops that no law states."""

import math

import pytest
import test_laws_derivative as derivative
import test_laws_value as value
import torch
from products import FULL, HALF, generator, label, sample

from surrogates.core import Op
from surrogates.kernels import KERNELS
from surrogates.ops.ceil import Ceil
from surrogates.ops.floor import Floor
from surrogates.ops.minimum import Minimum
from surrogates.ops.trunc import Trunc
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth

torch.set_num_threads(1)

FURTHER_INSTANCES: list[Op] = [Ceil(0.5, -1.0, 1.0), Ceil(0.1)]
LAWS = [
    law
    for module in (value, derivative)
    for law in vars(module).values()
    if "every_op" in vars(module)
    and any(mark.name == "parametrize" and mark.args[0] == "op" for mark in getattr(law, "pytestmark", []))
    and len(law.pytestmark) == 1
    and not any(word in law.__name__ for word in ("B11_an_empty_row", "compiled", "number_of_values"))
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("op", FURTHER_INSTANCES, ids=label)
def test_the_laws_hold_for_further_instances(op: Op, law) -> None:
    law(op)


def test_the_laws_were_found() -> None:
    assert len(LAWS) >= 22


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_values_are_those_of_torch(dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, math.inf, -math.inf], dtype=dtype)
    x = torch.cat([sample(Ceil(), (2000,), dtype, scale=3.0)[0], special])
    y = x[torch.randperm(len(x), generator=generator(1))]
    assert torch.equal(Ceil().hard(x), torch.ceil(x))
    assert torch.equal(Trunc().hard(x), torch.trunc(x))
    assert torch.equal(Minimum().hard(x, y), torch.minimum(x, y))
    assert torch.equal(Ceil(0.5, -1.0, 1.0).hard(x), (torch.ceil(x * 2) / 2).clamp(-1, 1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ceil_is_floor_one_step_up_in_the_mean(kernel: str) -> None:
    x = sample(Ceil(), (500,), scale=3.0)[0]
    low, high = Ceil(0.5, -1.5, 1.0), Floor(0.5, -2.0, 0.5)  # the same jumps
    for T in (0.05, 1.0):
        smooth = Smooth(kernel=kernel)
        torch.testing.assert_close(smooth(low, x, T=T), smooth(high, x, T=T) + 0.5)
        if KERNELS[kernel].has_mean:
            torch.testing.assert_close(smooth(Ceil(), x, T=T), smooth(Floor(), x, T=T) + 1)


def test_a_wrong_range_of_ceil_names_the_bound_that_was_given() -> None:
    with pytest.raises(ValueError, match=r"low must be a multiple of step=0.5, got -1.2"):
        Ceil(0.5, -1.2, 1.0)
    with pytest.raises(ValueError, match="give both bounds or none, got low=-inf and high=1"):
        Ceil(0.5, high=1.0)


def test_trunc_is_odd_and_its_dithered_rewrite_has_the_stated_mean() -> None:
    x = sample(Trunc(), (60,), scale=2.0)[0]
    for kernel in ("logistic", "normal", "uniform", "triangular"):
        smooth = Smooth(kernel=kernel)
        torch.testing.assert_close(smooth(Trunc(), -x, T=0.3), -smooth(Trunc(), x, T=0.3))
    draws = ((torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000).unsqueeze(-1).expand(-1, 60)
    mean = Rewrite(form="dither")(Trunc(), x.expand(20_000, -1), noise=draws).mean(0)
    expected = torch.where(x.abs() < 1, 0.5 * x * x.abs(), x - 0.5 * x.sign())
    torch.testing.assert_close(mean, expected, atol=1e-8, rtol=0)
