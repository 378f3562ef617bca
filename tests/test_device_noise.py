"""The noise and the temperature of a layer on a device that is not the CPU."""

import math

import pytest
import torch
from emulated_device import NAME, OnDevice, emulated_device
from kernel_count import kernels

from surrogates import HardLayer
from surrogates.noise import SMALLEST, splitmix, uniforms, uniforms_of_seeds
from surrogates.ops.round import Round
from surrogates.ops.sort import Sort
from surrogates.strategies.smooth import Smooth


def split_mix(state: int, count: int) -> list[int]:
    """SplitMix64 in whole numbers, as published."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        found.append(z ^ (z >> 31))
    return found


def test_numbers_are_those_of_the_published_generator() -> None:
    """Whose first number from the state 1234567 is 6457827717110365317."""
    assert split_mix(1234567, 1) == [6457827717110365317]
    states = [1234567, 0, -1, -(2**63), 2**63 - 1]
    for dtype, bits in ((torch.float32, 24), (torch.float64, 53)):
        expected = [[max(SMALLEST, (z >> (64 - bits)) * 2.0**-bits) for z in split_mix(s, 50)] for s in states]
        assert splitmix(torch.tensor(states), 50, dtype).tolist() == expected


def test_noise_of_many_seeds_takes_as_many_kernels_as_that_of_one() -> None:
    counts = {len(kernels(lambda n=n: splitmix(torch.arange(n), 10, torch.float32))) for n in (1, 2, 64)}
    assert len(counts) == 1


def test_a_device_draws_for_one_seed_what_it_draws_for_it_among_many() -> None:
    """Under vmap too; uniform, other for another part of the key, and without a wait."""
    with emulated_device() as waits:
        like = torch.zeros(40, 50).to(NAME, non_blocking=True)
        many = uniforms_of_seeds(like, [3, 5, 7], (1, 0, 2))
        alone = uniforms(like, (5, 1, 0, 2))
        keyed = torch.func.vmap(lambda seed: uniforms(like, (seed, 1, 0, 2)))(torch.tensor([3, 5, 7]))
        others = [uniforms(like, key) for key in ((5, 2, 0, 2), (5, 1, 1, 2), (5, 1, 0, 3))]
        assert waits == []
        assert type(many) is OnDevice
    assert torch.equal(many.numbers[1], alone.numbers)
    assert torch.equal(many.numbers, keyed.numbers)
    assert all((alone.numbers != other.numbers).float().mean() > 0.99 for other in others)
    u = many.numbers.double()
    assert u.mean() == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / u.numel()))
    assert u.var() == pytest.approx(1 / 12, abs=4 * math.sqrt(1 / 180 / u.numel()))


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter.*")  # the emulated device does copy
def test_a_layer_hands_on_the_temperature_that_its_schedule_knows() -> None:
    """Rounded as the buffer is; the buffer counts as soon as somebody else writes to it."""
    with emulated_device():
        layer = HardLayer(Round(), Smooth(temperature=0.7)).to(NAME)
        assert layer._read_temperature() == torch.tensor(0.7).item()
        layer.anneal(0.5)
        assert layer._read_temperature() == layer.temperature.numbers.item() != torch.tensor(0.7).item()
        layer.load_state_dict({"temperature": torch.tensor(0.25)})
        assert layer._read_temperature() is layer.temperature
        layer.anneal(1.0)
        layer.temperature.fill_(math.nan)
        assert layer(torch.ones(2, device=NAME)).isnan().all()
    here = HardLayer(Round(), Smooth(temperature=0.7))
    assert here._read_temperature() is here.temperature


def test_a_device_without_autocast_is_no_obstacle() -> None:
    """Of torch's own meta device only shapes are known, and autocast does not know it."""
    assert Smooth()(Sort(), torch.empty(3, 9, device="meta"), T=0.3).shape == (3, 9)
