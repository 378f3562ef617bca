"""Laws of sizes: wherever a size, a width or a magnitude switches to another algorithm, both sides give the same."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from products import KERNELS, OPS, Cell, generator, gradients, parts, sample
from surrogates.core import Op
from surrogates.kernels import Kernel
from surrogates.ops.clamp import Clamp
from surrogates.ops.lookup import Lookup
from surrogates.ops.quantize import Quantize
from surrogates.ops.rank import Rank
from surrogates.ops.sort import Sort
from surrogates.sorting import distance_sums, relaxed_order, soft_values
from surrogates.staircases import mixture, recompute, steps
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

torch.set_num_threads(1)
SIZES = {  # each size at which an algorithm changes, and what it is set to, so that a few numbers are already many
    (recompute, "CHUNK"): 5,
    (steps, "TOGETHER"): (7, 7),
    (mixture, "PIECE"): 2,
    (relaxed_order, "PIECE"): 1,
    (soft_values, "FEW"): 1,
}


@contextmanager
def set_to(sizes: dict) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in sizes.items():
            assert hasattr(module, name)
            patch.setattr(module, name, value)
        yield


def outcome(cell: Cell, x: list[Tensor], T: float) -> list[Tensor]:
    """The value and the derivatives of a weighted sum of it."""
    leaves = [tensor.detach().requires_grad_() for tensor in x]
    value = cell(*leaves, T=T)
    return [value.detach(), *torch.autograd.grad(value, leaves, ramp(value))]


def assert_same(got: list[Tensor], expected: list[Tensor], name: object, tolerance: float) -> None:
    for one, other in zip(got, expected, strict=True):
        scale = float(other.nan_to_num(0, 0, 0).abs().max().clamp(min=1))
        torch.testing.assert_close(
            one, other, atol=tolerance * scale, rtol=tolerance, msg=lambda m: f"{name}: {m}", equal_nan=True
        )


def sized(op: Op) -> bool:
    """Whether the op is made of sums over steps, or of sorted rows."""
    names = [str(getattr(value, "__module__", "")) for value in vars(sys.modules[type(op).__module__]).values()]
    return any(name.startswith(("surrogates.staircases", "surrogates.sorting")) for name in names)


def test_every_pair_gives_the_same_whether_its_input_counts_as_small_or_as_large() -> None:
    """Value and derivatives; the sums of a staircase and of a row add up in another order, hence to rounding."""
    ran = 0
    for op in filter(sized, OPS):
        for cell in parts(op)[0].cells:
            if isinstance(cell.strategy, (Smooth, StraightThrough)) and "temperature" in cell.strategy.uses(op):
                x = sample(op, (3, 5))
                expected = outcome(cell, x, 0.3)
                with set_to(SIZES):
                    assert_same(outcome(cell, x, 0.3), expected, cell, 1e-12)
                ran += 1
    assert ran >= 60


def test_an_elementwise_reading_in_pieces_is_the_reading_of_the_whole() -> None:
    """Of a tensor that is less than a piece, one piece, or pieces and a rest, in any layout."""
    ran = 0
    for op in (Clamp(-1.0, 0.5), Quantize(3, -1.0, 1.0)):
        for strategy in (Smooth(kernel="logistic"), Smooth(kernel="cauchy"), StraightThrough(carrier="smooth")):
            cell = Cell(op, strategy)
            for size, chunk in ((2, 5), (5, 10), (12, 5)):
                whole = sample(op, (2, size))[0]
                for x in (whole, whole.t(), whole[:1].expand(3, size)):
                    expected = outcome(cell, [x], 0.4)
                    with set_to({(recompute, "CHUNK"): chunk}):
                        assert_same(outcome(cell, [x], 0.4), expected, (cell, size), 1e-14)
                    ran += 1
    assert ran == 54


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_staircase_summed_in_blocks_or_in_a_window_is_the_whole_sum(kernel: str) -> None:
    """A block of one step, of some and of all, at temperatures on both sides of where a window is worth it."""
    ran = 0
    for op in (Quantize(1, -1.0, 1.0), Quantize(6, -1.0, 1.0), Lookup(0.05, -1.0)):
        count = op.steps if isinstance(op, Quantize) else 40
        reach = KERNELS[kernel].reach[1]
        edge = count / (2 * reach) if math.isfinite(reach) else 1.0  # T in steps at which the window is all of them
        for T in (0.02 * edge, 0.12 * edge, 0.9 * edge, 1.1 * edge):
            x = sample(op, (5, 9))
            if isinstance(op, Lookup):
                x, T = [x[0], torch.randn(41, generator=generator(3), dtype=torch.float64)], T * op.step
            cell = Cell(op, Smooth(kernel=kernel))
            whole = [plain(op, x, kernel, T), *gradients(lambda *x, o=op, t=T: plain(o, x, kernel, t), x, ramp(x[0]))]
            for together in (1, 10**9):
                with set_to({(steps, "TOGETHER"): (together, together), (mixture, "PIECE"): together}):
                    got = [cell(*x, T=T), *gradients(lambda *x, c=cell, t=T: c(*x, T=t), x, ramp(x[0]))]
                assert_same(got, whole, (op, kernel, T, together), 1e-11 * max(1, 1 / T))
                ran += 1
    assert ran == 24


def ramp(x: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).view_as(x)


def plain(op: Op, x: list[Tensor], kernel: str, T: float) -> Tensor:
    """The expectation as the sum over all steps, written out."""
    law, u = KERNELS[kernel], x[0].unsqueeze(-1)
    if isinstance(op, Quantize):
        edges = op.low + op.step * (torch.arange(op.steps, dtype=u.dtype) + 0.5)
        return op.low + op.step * law.cdf((u - edges) / (T * op.step)).sum(-1)
    edges = op.low + op.step * torch.arange(1, len(x[1]), dtype=u.dtype)
    passed = law.cdf((u - edges) / T)
    one, none = torch.ones_like(u), torch.zeros_like(u)
    return ((torch.cat([one, passed], -1) - torch.cat([passed, none], -1)) * x[1]).sum(-1)


def test_a_row_sorted_softly_with_and_without_its_matrix_gives_the_same() -> None:
    """At 16 and 17 entries, where the algorithm changes, and on both sides of a row as wide as 600 temperatures."""
    ran = 0
    for n, T in ((16, 0.3), (17, 0.3), (40, 0.3), (40, 0.011), (40, 0.009)):
        x = sample(Sort(), (3, n))[0]
        x = 6 * (x - x.amin(-1, keepdim=True)) / (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True))
        for op, form in ((Sort(), None), (Sort(True), None), (Rank(), "soft_sort")):
            cell = Cell(op, Smooth(form=form))
            results = []
            for few, reach in ((0, 1e9 if T > 0.01 else 600.0), (16, 600.0), (10**9, 600.0)):
                with set_to({(soft_values, "FEW"): few, (distance_sums, "REACH"): reach}):
                    results.append(outcome(cell, [x], T))
            for result in results[1:]:
                assert_same(result, results[0], (op, n, T), 1e-9)
            ran += 1
    assert ran == 15


SWITCHES = {  # the magnitudes at which a kernel's formula changes
    "logistic": (17.0, 20.0, 37.0, 50.0),
    "normal": (5.5, 8.5, 38.0, 40.0),
    "uniform": (1.0,),
    "triangular": (1.0,),
    "cauchy": (1.0, 1e4, 1e8, 1e19),
    "fast_sigmoid": (1.0, 1e8, 1e19),
}
CDF = {
    "logistic": lambda u: 1 / (1 + math.exp(-u)) if u > 0 else math.exp(u) / (1 + math.exp(u)),
    "normal": lambda u: 0.5 * math.erfc(-u / math.sqrt(2)),
    "uniform": lambda u: min(max((u + 1) / 2, 0), 1),
    "triangular": lambda u: 0 if u < -1 else (1 + u) ** 2 / 2 if u < 0 else 1 - (1 - u) ** 2 / 2 if u < 1 else 1,
    "cauchy": lambda u: 0.5 + math.atan(u) / math.pi,
    "fast_sigmoid": lambda u: 1 / (1 - u) / 2 if u < 0 else 1 - 1 / (1 + u) / 2,
}
DENSITY = {
    "logistic": lambda u: math.exp(-abs(u)) / (1 + math.exp(-abs(u))) ** 2,
    "normal": lambda u: math.exp(-u * u / 2) / math.sqrt(2 * math.pi),
    "uniform": lambda u: 0.5 if abs(u) < 1 else 0,
    "triangular": lambda u: max(1 - abs(u), 0),
    "cauchy": lambda u: 1 / (math.pi * (1 + u * u)),
    "fast_sigmoid": lambda u: 1 / (2 * (1 + abs(u)) ** 2),
}
RAMP = {
    "logistic": lambda u: max(u, 0) + math.log1p(math.exp(-abs(u))),
    "normal": lambda u: u * CDF["normal"](u) + DENSITY["normal"](u),
    "uniform": lambda u: 0 if u < -1 else (1 + u) ** 2 / 4 if u < 1 else u,
    "triangular": lambda u: 0 if u < -1 else (1 + u) ** 3 / 6 if u < 0 else u + (1 - u) ** 3 / 6 if u < 1 else u,
    "cauchy": lambda u: max(u, 0) - (abs(u) * math.atan2(1, abs(u)) + math.log1p(u * u) / 2) / math.pi,
    "fast_sigmoid": lambda u: max(u, 0) - math.log1p(abs(u)) / 2,
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_its_formula_on_both_sides_of_every_magnitude_at_which_it_is_computed_otherwise(name: str) -> None:
    """The cdf, density and ramp, and the derivatives of cdf and ramp, to the resolution of the dtype.

    From 1e4 the Cauchy ramp has the logarithm of u for half that of 1 + u^2: 5e-9 of 10, in its derivative 1e-12.
    """
    kernel, ran = KERNELS[name], 0
    at_1e4, slope_at_1e4 = (2e-9, 4e-13) if name == "cauchy" else (0.0, 0.0)
    for dtype, resolution in ((torch.float64, 4e-15), (torch.float32, 1e-6)):
        for u in at_switches(name, dtype):
            cdf, density, value = (law[name](u.item()) for law in (CDF, DENSITY, RAMP))
            leaf = u.clone().requires_grad_()
            (slope,) = torch.autograd.grad(kernel.ramp(leaf), leaf)
            (steepness,) = torch.autograd.grad(kernel.cdf(leaf), leaf)
            assert kernel.cdf(u).item() == pytest.approx(cdf, rel=0, abs=resolution)
            assert slope.item() == pytest.approx(cdf, rel=0, abs=resolution + slope_at_1e4)
            size = abs(u.item()) if kernel.has_mean is False else abs(value)
            assert kernel.ramp(u).item() == pytest.approx(value, rel=0, abs=resolution * max(1.0, size) + at_1e4)
            if abs(abs(u.item()) - 1) > 1e-6 or not kernel.boxes:  # the uniform density jumps at 1
                assert kernel.density(u).item() == pytest.approx(density, rel=0, abs=resolution)
                assert steepness.item() == pytest.approx(density, rel=0, abs=resolution)
            ran += 1
    assert ran == 4 * (3 + 5 * len(SWITCHES[name]))


def at_switches(name: str, dtype: torch.dtype) -> list[Tensor]:
    """Numbers next to each switch, a little and a good part below and above it, of both signs; and around 0."""
    found = [1e-9, 0.3, 0.0]
    for edge in SWITCHES[name]:
        found += [edge * factor for factor in (0.5, 1 - 1e-5, 1.0, 1 + 1e-5, 2.0)]
    return [torch.tensor(sign * u, dtype=dtype) for u in found for sign in (1, -1)]


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS.values() if math.isfinite(kernel.reach[0])])
def test_beyond_its_reach_a_step_counts_0_or_1_to_the_resolution_of_1(kernel: Kernel) -> None:
    for dtype, reach in zip((torch.float32, torch.float64), kernel.reach, strict=True):
        resolution = torch.finfo(dtype).eps
        outside = torch.tensor([-reach, reach], dtype=dtype)
        assert (kernel.cdf(outside) - torch.tensor([0.0, 1.0], dtype=dtype)).abs().max() <= resolution
        inside = kernel.cdf(torch.tensor(-0.8 * reach, dtype=dtype))
        assert inside > resolution  # no step is summed for nothing
