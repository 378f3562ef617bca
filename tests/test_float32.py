"""Constants that float32 cannot hold are refused, by name, before anything is computed with them."""

import math
from dataclasses import fields, replace

import pytest
import torch

from each import each
from experiments.config.choices import ConfigError, choose
from experiments.training.build import build_model
from products import OPS, STRATEGY_CLASSES, cells, label
from runs import compose
from surrogates.core import Op
from surrogates.float32 import require_float32, require_power_of_two, require_range
from surrogates.layers.hard_max import HardMax
from surrogates.layers.spike import Spike
from surrogates.layers.vector_quantizer import VectorQuantizer
from surrogates.ops.clamp import Clamp
from surrogates.ops.floor import Floor
from surrogates.ops.histogram import Histogram
from surrogates.ops.quantize import Quantize
from surrogates.ops.sign import Sign
from surrogates.ops.top_k import TopK
from surrogates.strategies.perturbed import Perturbed
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

CONSTANTS = [(op, field.name) for op in OPS for field in fields(op) if isinstance(getattr(op, field.name), float)]


@each("op, name", CONSTANTS)
@each("value", [1e300, -1e300, 3.5e38, 1e-300, -1e-300, 1e-39])
def test_every_constant_of_every_op_is_one_that_float32_holds(op: Op, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name}.*got .*{value}".replace("+", r"\+")):
        replace(op, **{name: value})
    assert len(CONSTANTS) >= 20


@pytest.mark.parametrize("cls", STRATEGY_CLASSES.values())
def test_every_constant_of_every_strategy_is_one_that_float32_holds(cls: type) -> None:
    for field in fields(cls):
        if isinstance(getattr(cls(), field.name), float):
            for value in (1e300, 1e-300):
                with pytest.raises(ValueError, match=field.name):
                    cls(**{field.name: value})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Quantize(4, 0.0, 1e-37), "too near.*16 values.*high=1e-37"),
        (lambda: Quantize(16, 1000.0, 1001.0), "too near.*65536 values.*low=1000.0"),
        (lambda: Quantize(4, -3e38, 3e38), r"at most 1e\+25 in size.*low=-3e\+38"),
        (lambda: Clamp(1.0, 1.0 + 1e-9), "too near"),
        (lambda: Floor(0.1, 0.0, 1e7), "step is too small for float32.*high=10000000.0"),
        (lambda: Floor(1e30, -1.0, 1.0), "step is wider than the range from low=-1.0 to high=1.0"),
    ],
)
def test_a_range_whose_values_float32_cannot_tell_apart_is_refused(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_the_ends_of_what_float32_holds_are_taken_and_the_next_numbers_are_not() -> None:
    for value in (0.0, 2.0**-126, -(2.0**-126), 2.0**127 * (2 - 2.0**-23), math.inf, -math.inf):
        require_float32(value=value)
    for value in (2.0**-127, math.nextafter(2.0**-126, 0), -math.nextafter(2.0**-126, 0), 2.0**128, -(2.0**128)):
        with pytest.raises(ValueError, match=rf"^second must be .*got {value}".replace("+", r"\+")):
            require_float32(first=1.0, second=value)
    for value in (2.0**-20, 0.5, 1.0, 2.0**20):
        require_power_of_two(value=value)
    for value in (2.0**-21, 2.0**21, 3.0, 0.0, -2.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"^scale must be a power of two.*got {value}"):
            require_power_of_two(one=1.0, scale=value)


def test_a_range_at_the_limits_of_float32_is_taken_and_one_beyond_them_is_not() -> None:
    require_range(-1e25, 1e25)
    require_range(0.0, 3 * 2.0**-126, steps=3)
    require_range(1.0, 1.0 + 3 * 2.0**-22, steps=3)  # a step of float32's resolution at the larger end
    require_range(-1.0 - 3 * 2.0**-22, -1.0, steps=3)
    beyond = math.nextafter(1e25, math.inf)
    for low, high, steps in ((-beyond, 0.0, 1), (0.0, beyond, 1), (0.0, 2 * 2.0**-126, 3), (1.0, 1.0 + 2.0**-24, 1)):
        with pytest.raises(ValueError, match=r"low and high (must be at most 1e\+25|are too near)"):
            require_range(low, high, steps)
    with pytest.raises(ValueError, match="too near apart for float32 to hold 4 values between them"):
        require_range(-1.0, -1.0 + 2.0**-23, 3)
    for low, high in ((1.0, 1.0), (1.0, 0.0), (-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(ValueError, match="low and high must be finite with low < high"):
            require_range(low, high)


@pytest.mark.parametrize("bits", [1, 4, 8, 16])
def test_the_narrowest_range_that_is_taken_has_all_its_values(bits: int) -> None:
    """At the limit of float32's resolution every value is still one of its own."""
    steps = 2**bits - 1
    for low, high in ((1.0, 1.0 + steps * 2.0**-22 * 1.01), (0.0, steps * 2.0**-125)):
        op = Quantize(bits, low, high)
        x = torch.linspace(low, high, 8 * steps + 1, dtype=torch.float64)
        assert len(op.hard(x.float()).unique()) == steps + 1


def test_a_constant_that_float16_cannot_hold_is_no_error() -> None:
    x = torch.tensor([0.0, 1.0, -3.0, 6e4], dtype=torch.float16)
    for op in (Clamp(-1e5, 1e6), Quantize(4, -1e5, 1e6), Floor(1e5, -1e5, 1e6), Sign(1e6)):
        for strategy in (Subgradient(), StraightThrough()):
            assert not strategy(op, x).isnan().any()
    assert torch.equal(Clamp(-1e5, 1e6).hard(x), x)


@pytest.mark.parametrize(
    "override",
    ["component.high=1e300", "component.high=1e-300", "component.low=-1e300", "component.high=1e-38"],
)
@pytest.mark.parametrize("component", ["quantized_activation", "floor"])
def test_a_run_with_such_a_range_is_refused(component: str, override: str) -> None:
    with pytest.raises(ConfigError, match=r"component\.(low|high)"):
        build_model(choose(compose(f"component={component}", override)))


WIDE = 9e24
WIDEST = [
    Quantize(1, 0.0, WIDE),
    Quantize(1, -WIDE, WIDE),
    Quantize(4, -WIDE, WIDE),
    Clamp(-WIDE, WIDE),
    Floor(WIDE / 4, -WIDE, WIDE),
    Histogram(4, 0.0, WIDE),
]


@pytest.mark.parametrize("op", WIDEST, ids=label)
def test_the_widest_range_overflows_under_no_strategy_at_no_temperature(op: Op) -> None:
    for cell in cells(op, one_kernel=True):
        for T in (1e-12, 0.3, 2.0, 1e12):
            x = torch.tensor([-WIDE, -WIDE / 2, -1.0, 0.0, 1.0, WIDE / 3, WIDE]).requires_grad_()
            y = cell(x, T=T)
            assert y.isfinite().all(), (cell, T)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            assert gradient.isfinite().all(), (cell, T)


@pytest.mark.parametrize("op", [Quantize, Clamp, Histogram, Floor])
@pytest.mark.parametrize(("low", "high"), [(-3e38, 3e38), (0.0, 3e38), (-3e38, 0.0)])
def test_a_range_up_to_the_largest_float32_is_refused(op: type[Op], low: float, high: float) -> None:
    """Its products with a temperature, and sums over samples, would be infinite."""
    more = {"step": 3e38} if op is Floor else {}
    with pytest.raises(ValueError, match=r"low and high must be at most 1e\+25 in size, got low=.*high="):
        op(low=low, high=high, **more)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Perturbed(samples=10**20), "samples must be at most 2147483647, got 1"),
        (lambda: TopK(k=10**20), "k must be at most 2147483647"),
        (lambda: Histogram(10**20), "bins must be at most 2147483647"),
        (lambda: Spike(Subgradient(), steps=10**10), "steps must be at most 2147483647"),
        (lambda: Spike(Subgradient(), steps=2.5), "steps must be a whole number of at least 1, got 2.5"),
        (lambda: HardMax(Subgradient(), k=10**20), "k must be at most 2147483647"),
        (lambda: VectorQuantizer(Subgradient(), entries=2**16, size=2**16), "entries times size must be at most"),
        (lambda: Clamp(0.0, math.nan), "high must be a number, got nan"),
        (lambda: Floor(math.nan), "step must be a number, got nan"),
        (lambda: StraightThrough(math.nan), "temperature must be a number, got nan"),
    ],
)
def test_what_no_tensor_can_hold_is_refused_when_the_object_is_made(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
