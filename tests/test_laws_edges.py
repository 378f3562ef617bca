"""Laws of the edges of what an op is given: every dimension, noise at its ends, infinities, and values at a jump."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from products import FULL, HALF, OPS, Cell, cells, gradients, parts, same, sample
from surrogates import noise, through
from surrogates.core import Op, Strategy
from surrogates.kernels import KERNELS
from surrogates.noise import uniforms
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.histogram import Histogram
from surrogates.ops.max import Max
from surrogates.ops.min import Min
from surrogates.ops.permutation import Permutation
from surrogates.ops.sign import Sign
from surrogates.ops.where import Where
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
INF, NAN = math.inf, math.nan
OVER_A_DIM = [op for op in OPS if hasattr(op, "dim") and op == type(op)()]


def test_equal_for_the_laws_is_bit_for_bit_with_infinities_apart_from_the_largest_number() -> None:
    for dtype in FULL + HALF:
        largest = torch.finfo(dtype).max
        numbers = [NAN, INF, -INF, largest, -largest, 12345.0, 0.0]
        for a, b in itertools.product(range(7), repeat=2):
            assert same(torch.tensor([numbers[a]], dtype=dtype), torch.tensor([numbers[b]], dtype=dtype)) == (a == b)
    assert not same(torch.zeros(2), torch.zeros(2, 1))
    assert not same(torch.zeros(2), torch.zeros(2).double())


# dimensions


def test_along_any_dimension_counted_from_either_end_a_pair_does_what_it_does_along_the_last() -> None:
    """Value and derivative, of inputs with three dimensions of unequal sizes; another dimension from pair to pair."""
    ran, dims = 0, itertools.cycle((0, -2, 1, -3, 2))
    for op in OVER_A_DIM:
        x = sample(op, (2, 3, 4))[0]
        for cell, dim in zip(parts(op)[0].cells, dims, strict=False):
            there = Cell(replace(op, dim=dim), cell.strategy)
            rows = x.movedim(dim, -1)
            drawn = cell.noise(rows)
            expected = along(op, dim, *outcome(cell, rows, drawn))
            got = outcome(there, x, moved_noise(there, x, drawn, dim))
            for one, other in zip(got, expected, strict=True):
                torch.testing.assert_close(one, other, msg=lambda m, cell=there: f"{cell}: {m}")
            ran += 1
    assert ran >= 120


def outcome(cell: Cell, x: Tensor, drawn: Tensor | None) -> tuple[Tensor, Tensor]:
    leaf = x.detach().requires_grad_()
    value = cell(leaf, noise=drawn)
    return value.detach(), torch.autograd.grad(value.square().sum() + value.sum(), leaf)[0]


def along(op: Op, dim: int, value: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Value and derivative along the last dim, as they are along `dim`."""
    if isinstance(op, Permutation):
        return value.movedim((-2, -1), (dim % 3, dim % 3 + 1)), slope.movedim(-1, dim)
    return value if value.dim() < 3 else value.movedim(-1, dim), slope.movedim(-1, dim)


def moved_noise(cell: Cell, x: Tensor, drawn: Tensor | None, dim: int) -> Tensor | None:
    """Noise for rows along the last dim, as it is wanted along `dim`; estimators of choices want it along the last."""
    if drawn is None or cell.strategy.noise_shape(cell.op, x) == drawn.shape:
        return drawn
    return drawn.movedim(-1, dim if dim < 0 else dim + drawn.dim() - 3)


def with_slopes(call: Callable[..., Tensor], *x: Tensor) -> list[Tensor]:
    """The value of a function of tensors, and the derivatives of a sum of it."""
    leaves = [tensor.detach().requires_grad_() for tensor in x]
    value = call(*leaves)
    return [value.detach(), *torch.autograd.grad(value[value.isfinite()].sum(), leaves)]


def replaced(call: Callable[..., Tensor], strategy: Strategy) -> Callable[..., Tensor]:
    """The function with its hard calls under a strategy."""

    def function(*x: Tensor) -> Tensor:
        with through(strategy, max=strategy, min=strategy):
            return call(*x)

    return function


@pytest.mark.parametrize("strategy", [Subgradient(), StraightThrough(temperature=0.4), Smooth(temperature=0.4)])
def test_a_maximum_over_several_dimensions_is_that_of_all_their_entries_in_whatever_order_they_are_named(
    strategy: Strategy,
) -> None:
    x, ran = sample(Max(), (2, 3, 4))[0], 0
    for dims in [*itertools.permutations(range(3), 2), *itertools.permutations(range(3), 3)]:
        rows = x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
        for named in (dims, tuple(d - 3 for d in dims), (dims[0], *(d - 3 for d in dims[1:]))):
            for call, op in ((torch.amax, Max()), (torch.amin, Min())):
                got = with_slopes(replaced(lambda x, c=call, d=named: c(x, d), strategy), x)
                value, slope = with_slopes(lambda rows, op=op: strategy(op, rows), rows)
                shape = [x.shape[d] for d in range(3) if d not in dims] + [x.shape[d] for d in dims]
                slope = slope.reshape(shape).movedim(tuple(range(-len(dims), 0)), dims)
                torch.testing.assert_close(got, [value, slope])
                kept = replaced(lambda x, c=call, d=named: c(x, d, keepdim=True), strategy)(x.clone().requires_grad_())
                assert kept.shape == call(x, named, keepdim=True).shape
                torch.testing.assert_close(kept.squeeze(named), value, check_stride=False)
                ran += 1
    assert ran == 72


# noise


def test_no_uniform_number_is_0_or_1_whatever_the_generator_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for drawn in (0.0, 2.0**-24, 1 - 2.0**-24):
        monkeypatch.setattr(Tensor, "uniform_", lambda self, generator, drawn=drawn: self.fill_(drawn))
        for dtype in FULL + HALF:
            for seed in (3, torch.tensor(3)):
                found = uniforms(torch.zeros(4, dtype=dtype), (seed, 1))
                assert (found == (drawn or 2.0**-25)).all()
                assert found.dtype == torch.promote_types(dtype, torch.float32)


def test_noise_at_either_end_of_what_is_drawn_gives_finite_values_and_derivatives() -> None:
    """All uniforms the smallest that there is, all the largest, or one of each among ordinary ones."""
    ran, bottom, top = 0, noise.SMALLEST, 1 - 2.0**-24
    for op in OPS:
        for cell in [cell for cell in parts(op)[0].cells if cell.drawn]:
            x = sample(op, (3, 4), torch.float32)
            ordinary = cell.noise(*x)
            few = ordinary.clone()
            few.view(-1)[:2] = torch.tensor([bottom, top])
            for drawn in (torch.full_like(ordinary, bottom), torch.full_like(ordinary, top), few):
                leaves = [t.requires_grad_() for t in x]
                y = cell(*leaves, noise=drawn)
                found = torch.autograd.grad(y.sum(), leaves)
                assert all(t.isfinite().all() for t in (y, *found)), (cell, drawn)
                ran += 1
    assert ran >= 3 * 60


# values at a jump


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
@pytest.mark.parametrize("zero", [-3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0])
def test_a_step_has_the_value_that_was_asked_for_at_0_and_its_own_elsewhere(zero: float, dtype: torch.dtype) -> None:
    x = torch.tensor([-INF, -2.0, -1e-7, -0.0, 0.0, 1e-7, 2.0, INF, NAN], dtype=dtype)
    for op, low in ((Heaviside(zero), 0.0), (Sign(zero), -1.0)):
        expected = torch.tensor([low, low, low, zero, zero, 1.0, 1.0, 1.0, NAN], dtype=dtype)
        for strategy in (Subgradient(), StraightThrough(), StraightThrough(carrier="smooth")):
            assert same(strategy(op, x, T=0.5), expected), (op, strategy)
        assert same(op.hard(x[:-1]), expected[:-1])  # known to be without NaN


# infinities


def soft_pairs(op: Op) -> list[Cell]:
    return [cell for cell in cells(op) if isinstance(cell.strategy, (Smooth, StraightThrough))]


def test_where_an_input_is_infinite_the_choice_is_hard_and_neither_condition_nor_the_other_branch_has_a_slope() -> None:
    numbers, ran = (INF, -INF, 0.1, -0.2), 0
    grid = torch.tensor(list(itertools.product(numbers, repeat=3)), dtype=torch.float64)
    infinite = grid.isinf().any(-1)
    for cell in soft_pairs(Where()):
        c, a, b = grid.unbind(-1)
        y = cell(c, a, b)
        expected = torch.where(c >= 0, a, b)
        assert torch.equal(y[infinite], expected[infinite]), cell
        assert torch.equal(cell(*(t[infinite] for t in (c, a, b))), expected[infinite])
        by_c, by_a, by_b = gradients(cell, [c, a, b])
        assert (by_c[infinite] == 0).all(), cell
        assert (by_a[infinite & (c < 0)] == 0).all(), cell
        assert (by_b[infinite & (c >= 0)] == 0).all(), cell
        assert (by_c[~infinite] != 0).any()
        alone = gradients(cell, [t[~infinite] for t in (c, a, b)])  # beside an infinity as without one
        for beside, own in zip((by_c, by_a, by_b), alone, strict=True):
            torch.testing.assert_close(beside[~infinite], own)
        ran += 1
    assert ran >= 8


@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_entries_masked_by_infinity_are_infinite_and_the_others_have_the_mixtures_value_and_slope(
    kernel: str | None,
) -> None:
    """masked_fill and where, mask and numbers both soft, with an infinite value on either side or none."""
    soft = StraightThrough(temperature=0.5) if kernel is None else Smooth(temperature=0.5, kernel=kernel)
    x = torch.tensor([0.3, -0.4, 0.0, 1.2, -2.0], dtype=torch.float64)
    a = torch.tensor([1.0, INF, 2.0, -INF, 3.0], dtype=torch.float64)
    for value in (INF, -INF, 0.5):
        calls = {
            "masked_fill": lambda x, a, v=value: a.masked_fill(x > 0, v),
            "where": lambda x, a, v=value: torch.where(x > 0, torch.full_like(a, v), a),
        }
        for name, call in calls.items():
            y, by_x, by_a = with_slopes(replaced(call, soft), x, a)
            infinite = a.isinf() | math.isinf(value)
            assert torch.equal(y[infinite], call(x, a)[infinite]), name
            m = soft(Heaviside(0.0), x)
            if kernel is not None:
                torch.testing.assert_close(y[~infinite], (m * value + (1 - m) * a)[~infinite])
            assert (by_x[infinite] == 0).all()
            assert by_a.isfinite().all()
            (slope,) = gradients(lambda x: soft(Heaviside(0.0), x), [x])
            torch.testing.assert_close(by_x[~infinite], (slope * (value - a))[~infinite])


def test_a_histogram_holds_infinite_entries_in_its_outer_bins_along_every_dimension() -> None:
    x = torch.tensor([[0.1, INF, 0.5], [-INF, 0.9, 0.5]])
    for dim in (-1, 1):
        assert Histogram(bins=2, dim=dim).hard(x).tolist() == [[1.0, 2.0], [1.0, 2.0]]
        assert Smooth(temperature=1e-3)(Histogram(bins=2, dim=dim), x).sum(dim).tolist() == [3.0, 3.0]
    assert Histogram(bins=2, dim=0).hard(x).tolist() == [[2.0, 0.0, 0.0], [0.0, 2.0, 2.0]]
