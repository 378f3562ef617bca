"""Keyed noise: its numbers, its laws, and what differs when the key does."""

import math

import pytest
import torch

from surrogates.noise import gumbel, gumbel_log_density, uniforms, uniforms_of_seeds
from surrogates.ops.argmin import ArgMin
from surrogates.ops.max import Max
from surrogates.ops.quantize import Quantize
from surrogates.ops.round import Round
from surrogates.sampling.perturbation import add_noise, standard_noise

P = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000  # evenly over (0, 1)


def test_the_numbers_of_a_key_are_those_of_every_run_before() -> None:
    """A resumed run, a paired one and a replica of a stack draw them anew from their key."""
    drawn = [uniforms(torch.zeros(3), (7, 11, 2, 1)).tolist(), uniforms(torch.zeros(2).double(), (0, 0, 0, 1)).tolist()]
    assert drawn[0] == pytest.approx([0.73571295, 0.33830017, 0.68511605], abs=1e-7)
    assert drawn[1] == pytest.approx([0.9411580482503826, 0.2315894361092109], abs=1e-15)


def test_each_part_of_a_key_makes_other_numbers_and_a_seed_may_be_any_integer() -> None:
    like = torch.zeros(1000)
    keys = [
        (1, 2, 3, 4),
        (2, 2, 3, 4),
        (1, 3, 3, 4),
        (1, 2, 4, 4),
        (1, 2, 3, 5),
        (-1, 2, 3, 4),
        (2**62, 2, 3, 4),
        (1, 2, 3),
    ]
    drawn = [uniforms(like, key) for key in keys]
    for i, one in enumerate(drawn):
        assert torch.equal(one, uniforms(like, keys[i]))
        assert torch.equal(one, uniforms(like, (torch.tensor(keys[i][0]), *keys[i][1:])))
        for other in drawn[:i]:
            assert (one == other).float().mean() < 0.01
    together = uniforms_of_seeds(like, [1, 2, -1], (2, 3, 4))
    assert torch.equal(together, torch.stack([drawn[0], drawn[1], drawn[5]]))
    assert uniforms(like, (1,), (2, 0, 5)).shape == (2, 0, 5)


def test_gumbel_noise_is_centred_and_its_log_density_is_that_of_its_quantiles() -> None:
    e = gumbel(P)
    assert e.mean().item() == pytest.approx(0, abs=1e-4)
    assert e.var().item() == pytest.approx(math.pi**2 / 6, rel=1e-3)
    (slope,) = torch.autograd.grad(gumbel(p := P.clone().requires_grad_()).sum(), p)
    torch.testing.assert_close(gumbel_log_density(e), -torch.log(slope))  # density at a quantile times its slope is 1


def test_noise_is_in_units_of_the_ops_temperature_and_none_comes_to_an_infinite_winner() -> None:
    x = torch.tensor([[0.2, -math.inf, 1.0], [math.inf, 0.5, 1.0]], dtype=torch.float64)
    p = torch.full((2, 3), 0.9, dtype=torch.float64)
    e = gumbel(p)[0, 0]
    assert torch.equal(standard_noise(Max(), p, None), gumbel(p))
    assert torch.equal(standard_noise(ArgMin(), p, None), -gumbel(p))  # a minimum is under noise that is subtracted
    torch.testing.assert_close(add_noise(Max(), x, gumbel(p), 0.5), x + torch.tensor([[0.5 * e], [0.0]]))
    torch.testing.assert_close(add_noise(ArgMin(), x, -gumbel(p), 0.5), x - torch.tensor([[0.0], [0.5 * e]]))
    logistic = standard_noise(Round(), p, "logistic")
    torch.testing.assert_close(logistic, torch.full_like(p, math.log(9)))
    quantize = Quantize(2, -1.0, 2.0)  # of step 1, and one of step 2
    torch.testing.assert_close(add_noise(quantize, p, logistic, 0.5), p + 0.5 * math.log(9))
    torch.testing.assert_close(add_noise(Quantize(1, 0.0, 2.0), p, logistic, 0.5), p + math.log(9))
    assert add_noise(Round(), p.half(), logistic.float(), 1.0).dtype == torch.float32
