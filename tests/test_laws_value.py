"""Laws of the value: what comes out of every op under every strategy."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from each import each
from products import (
    ANSWERS_AN_EMPTY_ROW,
    FULL,
    HALF,
    OP_CLASSES,
    OPS,
    STRATEGY_CLASSES,
    Part,
    arity,
    cells,
    extremes,
    generator,
    kernels_of,
    law,
    parts,
    reached,
    same,
    sample,
    spread,
    steady,
    total,
    uniform,
)
from surrogates import EmptyCell
from surrogates.core import READINGS, Op
from surrogates.kernels import KERNELS
from surrogates.ops.argmax import ArgMax
from surrogates.ops.max import Max
from surrogates.ops.round import Round
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth

torch.set_num_threads(1)
MINIMUM_OF_CELLS = 1100
MINIMUM_OF_QUICK_CELLS = 350


def test_the_product_is_found() -> None:
    assert total(lambda op: len(cells(op))) >= MINIMUM_OF_CELLS
    assert {type(cell.strategy) for op in OPS for cell in cells(op)} == set(STRATEGY_CLASSES.values())


def test_a_law_runs_over_the_whole_product_and_in_the_unit_suite_over_every_op_strategy_and_kernel() -> None:
    quick, rest = ([cell for op in OPS for cell in parts(op)[i].cells] for i in (0, 1))
    assert len(quick) + len(rest) == len(set(quick + rest)) == total(lambda op: len(cells(op)))
    assert len(quick) >= MINIMUM_OF_QUICK_CELLS
    assert {type(cell.op) for cell in quick} == set(OP_CLASSES.values())
    assert {type(cell.strategy) for cell in quick} == set(STRATEGY_CLASSES.values())
    assert {cell.strategy.kernel for cell in quick if "kernel" in cell.strategy.uses(cell.op)} == set(KERNELS)


@each("op", OPS)
def test_a_missing_reading_is_an_empty_cell_that_names_op_reading_and_file(op: Op) -> None:
    declared = [reading for reading in READINGS if op.declares(reading)]
    assert "hard" in declared
    for reading in set(READINGS) - set(declared):
        file = type(op).__module__.replace(".", "/") + ".py"
        with pytest.raises(EmptyCell, match=f"{type(op).__name__}.*'{reading}'.*{file}"):
            op.reading(reading)


@law()
def test_the_value_is_the_hard_value_and_no_input_is_edited(part: Part) -> None:
    op = part.op
    for dtype in FULL + HALF:
        layouts = 0
        ran = 0
        for x in layouts_of(op, dtype):
            before = [t.clone() for t in x]
            expected = op.hard(*(t.clone() for t in x))
            for cell in part.cells:
                if cell.hard_valued:
                    y = cell(*x)
                    assert same(y, expected), cell
                    assert y.dtype == dtype, cell
                    ran += 1
                assert all(same(t, b) for t, b in zip(x, before, strict=True)), f"{cell} edits its input"
            layouts += 1
        assert layouts >= 6
        assert ran == layouts * sum(cell.hard_valued for cell in part.cells)


def layouts_of(op: Op, dtype: torch.dtype) -> list[list[torch.Tensor]]:
    images = torch.channels_last
    return [
        sample(op, (3, 4), dtype),
        laid_out(op, (4, 4), dtype, lambda t: t.t()),
        laid_out(op, (4, 4), dtype, lambda t: t[:1].expand(4, 4)),
        laid_out(op, (8, 6), dtype, lambda t: t[::2, 1::2]),
        laid_out(op, (2, 3, 4, 5), dtype, lambda t: t.to(memory_format=images)),
        extremes(op, dtype),
        *[sample(op, shape, dtype) for shape in empty_batches(op)],
    ]


def laid_out(
    op: Op, shape: tuple[int, ...], dtype: torch.dtype, layout: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """Inputs in another layout; one of another shape than the first's is as it is drawn."""
    whole = sample(op, shape, dtype)
    plain = sample(op, tuple(layout(whole[0]).shape), dtype)
    return [layout(t) if t.shape == whole[0].shape else p for t, p in zip(whole, plain, strict=True)]


def empty_batches(op: Op) -> list[tuple[int, ...]]:
    return [(0, 4), (4, 0), (0,)] if op.elementwise else [(0, 4) if getattr(op, "dim", -1) == -1 else (4, 0)]


@law()
def test_no_value_shares_memory_with_an_input(part: Part) -> None:
    """Case B06."""
    op = part.op
    x = sample(op)
    owners = {t.untyped_storage().data_ptr() for t in x}
    values = [cell(*x) for cell in part.cells]
    shared = [cell for cell, y in zip(part.cells, values, strict=True) if y.untyped_storage().data_ptr() in owners]
    assert not shared


@law()
def test_every_layout_gives_what_the_contiguous_copy_gives(part: Part) -> None:
    op = part.op
    for dtype in FULL + HALF:
        ran, layouts = 0, layouts_of(op, dtype)
        for x in layouts:
            copy = [t.contiguous() for t in x]
            for cell in part.cells:
                y, expected = cell(*x), cell(*copy)
                assert y.dtype == dtype, cell
                assert y.shape == expected.shape, cell
                torch.testing.assert_close(y, expected, equal_nan=True, msg=lambda m, cell=cell: f"{cell}: {m}")
                ran += 1
        assert ran == len(layouts) * len(part.cells)


@each("op", [op for op in OPS if not op.elementwise])
def test_an_empty_row_has_no_maximum(op: Op) -> None:
    """Case B11.

    And no other entry to choose: an error that says so. An op with an answer all the same gives it, or zeros.
    """
    x = sample(op, (4, 0) if getattr(op, "dim", -1) == -1 else (0, 4))
    if type(op).__name__ in ANSWERS_AN_EMPTY_ROW:
        assert (op.hard(*x) == 0).all()
    else:
        with pytest.raises(IndexError, match=r"max|at least"):
            op.hard(*x)


@law()
def test_an_empty_batch_has_an_empty_gradient(part: Part) -> None:
    """Case B11."""
    op = part.op
    ran = 0
    for shape in empty_batches(op):
        for cell in part.cells:
            x = [t.requires_grad_() for t in sample(op, shape)]
            got = torch.autograd.grad(cell(*x).sum(), x)
            assert [g.shape for g in got] == [t.shape for t in x], cell
            ran += 1
    assert ran == len(empty_batches(op)) * len(part.cells)


@law()
def test_integers_are_refused_by_name(part: Part) -> None:
    """Case A08."""
    op = part.op
    ran = 0
    for cell in part.cells:
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
            x = [torch.ones(2, 3, dtype=dtype)] * arity(op)
            with pytest.raises(TypeError, match=f"{type(op).__name__}.*{dtype}"):
                cell(*x)
            ran += 1
    assert ran == 4 * len(part.cells)


@law()
def test_nan_in_gives_nan_out_and_only_there(part: Part) -> None:
    op = part.op
    ran = 0
    for dtype in FULL + HALF:
        for place in range(arity(op)):
            x = sample(op, (4, 5), dtype)
            x[place].view(-1)[7 % x[place].numel()] = math.nan
            touched = spread(op, x)
            assert touched.any()
            assert not touched.all() or x[place].shape != x[0].shape
            for cell in part.cells:
                y = cell(*x)
                assert y[touched].isnan().all(), cell
                assert not y[~touched].isnan().any(), cell
                ran += 1
    assert ran == 4 * arity(op) * len(part.cells)


@law()
def test_no_nan_comes_from_numbers_and_infinite_inputs_give_the_hard_value(part: Part) -> None:
    op = part.op
    ran = 0
    for dtype in FULL + HALF:
        x = extremes(op, dtype)
        hard = op.hard(*x)
        assert not hard.isnan().any()
        infinite = reached(op, x)
        assert infinite.any()
        for cell in part.cells:
            y = cell(*x)
            assert not y.isnan().any(), cell
            torch.testing.assert_close(y[infinite], hard[infinite], msg=lambda m, cell=cell: f"{cell}: {m}")
            ran += 1
    assert ran == 4 * len(part.cells)


@law()
def test_finite_inputs_give_finite_values(part: Part) -> None:
    op = part.op
    ran = 0
    for dtype, size in ((torch.float16, 1e4), (torch.bfloat16, 1e4), (torch.float32, 1e30), (torch.float64, 1e30)):
        x = [t.sign() * size if i == 0 else t * size / 8 for i, t in enumerate(sample(op))]
        x = [t.to(dtype) for t in x]
        for cell in part.cells:
            assert cell(*x).isfinite().all(), (cell, dtype)
            ran += 1
    assert ran == 4 * len(part.cells)


@law(lambda cell: isinstance(cell.strategy, Smooth))
def test_smooth_tends_to_hard(part: Part) -> None:
    op = part.op
    x = sample(op, (40, 6))
    x[0] = x[0] * 2
    calm = steady(op, x)
    assert calm.float().mean() > 0.3
    hard = op.hard(*x)
    ran = 0
    for cell in part.cells:
        gap = [(cell(*x, T=T) - hard)[calm].abs().max().item() for T in (1e-2, 1e-4, 1e-6, 1e-12)]
        assert gap[2] < 1e-3, cell
        assert gap[3] < 1e-9, cell
        assert all(harder <= softer + 1e-14 for softer, harder in pairwise(gap)), (cell, gap)
        ran += 1
    assert ran == len(part.cells)


@law(lambda cell: isinstance(cell.strategy, Smooth))
def test_a_smaller_temperature_is_nearer_to_hard(part: Part) -> None:
    """Case C03."""
    op = part.op
    x = sample(op, (400, 4), seed=3)
    x[0][:, :2] = torch.linspace(-2, 2, 800, dtype=torch.float64).view(400, 2)
    if getattr(op, "dim", -1) == 0:
        x = [t.t() for t in x]
    hard = op.hard(*x)
    unit = getattr(op, "step", 1.0) / op.temperature_unit
    ran = 0
    for cell in part.cells:
        gap = [(cell(*x, T=T * unit) - hard).abs().mean().item() for T in (0.0125, 0.025, 0.05, 0.1, 0.2)]
        assert all(a < b for a, b in pairwise(gap)), (cell, gap)
        ran += 1
    assert ran == len(part.cells)


def test_entropy_falls_with_the_temperature() -> None:
    """Case C03."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    sharp = Smooth()(ArgMax(), x, T=0.1)
    torch.testing.assert_close(sharp, torch.tensor([0.00005, 0.99995], dtype=torch.float64), atol=5e-6, rtol=0)
    entropy = [torch.special.entr(Smooth()(ArgMax(), x, T=T)).sum().item() for T in (0.05, 0.1, 0.5, 1.0, 4.0)]
    assert entropy == sorted(entropy)


MONTE_CARLO = [op for op in OPS if kernels_of(op) and getattr(op, "relation", "") != "=="]  # P(==) is 0 under noise


@pytest.mark.parametrize("op", MONTE_CARLO, ids=repr)
def test_smooth_is_the_expectation_of_hard_under_its_noise(op: Op) -> None:
    """Every elementwise op and every kernel, within four standard errors of the mean of hard(x + T e) over 40,000 e.

    The noise is that in the middle of 4,000 equal shares of it, which is nearer to the expectation than as many draws.
    """
    draws, shares = 40_000, 4_000
    p = (torch.arange(shares, dtype=torch.float64).unsqueeze(1) + 0.5) / shares
    ran = 0
    for index, (name, kernel) in enumerate(kernels_of(op).items()):
        for T in (0.07, 0.4, 1.5):
            x = sample(op, (24,), seed=index)
            others = [t.expand(shares, -1) if t.shape == x[0].shape else t for t in x[1:]]
            hard = op.hard(x[0] + T * op.temperature_unit * kernel.quantile(p), *others)
            error = hard.std(0) / math.sqrt(draws)
            resolution = 10 * getattr(op, "step", 1.0) / draws  # an event too rare to be drawn has error 0
            gap = (Smooth(kernel=name)(op, *x, T=T) - hard.mean(0)).abs()
            assert (gap <= 4 * error + resolution).all(), (op, name, T, (gap / error).max())
            ran += 1
    assert ran == 3 * len(kernels_of(op)) >= 12


TEMPERATURES = (
    1e-3,
    0.02,
    0.0899,
    0.0901,
    0.1999,
    0.2001,
    0.2499,
    0.2501,
    0.3499,
    0.3501,
    0.4999,
    0.5001,
    0.8,
    1,
    3,
    20,
)


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.has_mean])
def test_the_smooth_staircase_is_the_sum_over_its_steps_at_every_temperature(name: str) -> None:
    """E[round(x + T e)] and its slope against all the steps added up, on both sides of where the method changes."""
    kernel, round_ = KERNELS[name], Round()
    x = torch.cat([torch.linspace(-1.7, 1.7, 103).double(), torch.tensor([0.0, 0.5, -0.5, 1.0]).double()])
    for T in TEMPERATURES:
        k = torch.arange(1, 60 + int(40 * T), dtype=torch.float64) - 0.5
        u = x.unsqueeze(-1)
        value = kernel.cdf((u - k) / T).sum(-1) - kernel.cdf((-k - u) / T).sum(-1)
        slope = (kernel.density((u - k) / T) + kernel.density((u + k) / T)).sum(-1) / T
        for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 3e-6)):
            leaf = x.to(dtype).requires_grad_()
            y = Smooth(kernel=name)(round_, leaf, T=T)
            (got,) = torch.autograd.grad(y.sum(), leaf)
            torch.testing.assert_close(y.detach().double(), value, atol=tolerance * max(1, T), rtol=0)
            kinks = torch.cat([(u - k).abs(), (u + k).abs()], -1) / T - 1
            calm = (kernel.boxes == 0) | (kinks.abs().amin(-1) > 1e-5)
            torch.testing.assert_close(got.double()[calm], slope[calm], atol=20 * tolerance * max(1, 1 / T), rtol=0)


def test_the_smooth_staircase_does_not_lose_its_steps_far_from_zero() -> None:
    for dtype, far in ((torch.float32, 2.0**18), (torch.float64, 2.0**40)):
        x = torch.tensor([-0.4, -0.125, 0.0, 0.25, 0.4375], dtype=dtype)
        for name in ("logistic", "normal", "uniform", "triangular"):
            for T in (0.05, 0.3, 1.0):
                near, moved = Smooth(kernel=name)(Round(), x, T=T), Smooth(kernel=name)(Round(), x + far, T=T)
                torch.testing.assert_close(moved - far, near, atol=torch.finfo(dtype).eps * far * 2, rtol=0)


def test_the_kernels_of_an_op_are_those_with_an_expectation() -> None:
    bounded = {type(op).__name__ for op in MONTE_CARLO if len(kernels_of(op)) == len(KERNELS)}
    unbounded = {type(op).__name__ for op in MONTE_CARLO if len(kernels_of(op)) < len(KERNELS)}
    assert bounded >= {"Sign", "Heaviside", "Quantize", "Clamp", "Floor"}
    assert unbounded >= {"Round", "Floor", "Abs", "ReLU", "Maximum"}
    assert sum(len(kernels_of(op)) for op in MONTE_CARLO) >= 88
    for op in MONTE_CARLO:
        for name in set(KERNELS) - set(kernels_of(op)):
            with pytest.raises(EmptyCell, match=f"{type(op).__name__}.*'{name}' has no mean"):
                Smooth(kernel=name).check(op)


@pytest.mark.parametrize("T", [0.2, 1.0, 3.0])
def test_max_and_argmax_are_expectations_under_centred_gumbel_noise(T: float) -> None:
    draws = 100_000
    x = torch.tensor([0.3, -0.4, 0.9, 0.8, -math.inf], dtype=torch.float64)
    u = torch.rand(draws, 5, generator=generator(11), dtype=torch.float64).clamp(min=1e-15)
    noisy = x + T * (-torch.log(-torch.log(u)) - 0.57721566490153286)
    for op in (Max(), ArgMax()):
        hard = op.hard(noisy)
        error = hard.std(0) / math.sqrt(draws)
        assert ((Smooth()(op, x, T=T) - hard.mean(0)).abs() <= 4 * error + 1e-12).all()


def test_smooth_max_is_biased_upward_by_at_most_T_log_n() -> None:
    """Case C11."""
    x = torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64)
    for T, bias in ((1.0, 0.8620), (0.1, 0.06932), (0.01, 0.006931)):
        got = (Smooth()(Max(), x, T=T) - 2).item()
        assert got == pytest.approx(bias, rel=1e-3)
        assert 0 <= got <= T * math.log(3)
    rows = sample(Max(), (200, 5))[0]
    bias = Smooth()(Max(), rows, T=0.7) - rows.amax(-1)
    assert (bias >= 0).all()
    assert (bias <= 0.7 * math.log(5)).all()


def test_smooth_argmax_sums_to_one_along_its_dim_and_rows_are_independent() -> None:
    """Case C08."""
    x = sample(ArgMax(), (4, 3))[0]
    for dim in (0, 1, -1):
        y = Smooth()(ArgMax(dim=dim), x, T=0.5)
        torch.testing.assert_close(y.sum(dim), torch.ones_like(y.sum(dim)))
        moved = x.clone()
        moved.select(1 - dim % 2, 0).add_(sample(ArgMax(), tuple(x.select(1 - dim % 2, 0).shape), seed=2)[0])
        after = Smooth()(ArgMax(dim=dim), moved, T=0.5)
        changed = (after != y).any(dim)
        assert changed[0]
        assert not changed[1:].any()


REWRITES = [(op, form) for op in OPS if op.declares("rewrite") for form in [None, *op.forms("rewrite")]]


@each("op, form", REWRITES)
@each("dtype", FULL + HALF)
def test_a_rewrite_is_what_it_says(op: Op, form: str | None, dtype: torch.dtype) -> None:
    strategy = Rewrite(form=form)
    kind = strategy.kind(op)
    assert kind in ("exact", "exact almost everywhere", "relaxed", "changes the objective")
    x = [t for t in sample(op, (200, 4), dtype, scale=2.0)]
    if kind == "exact":
        torch.testing.assert_close(strategy(op, *x), op.hard(*x))
    elif kind == "exact almost everywhere":
        assert (strategy(op, *x) == op.hard(*x)).float().mean() > 0.9


STATED_MEANS = {  # E[rewrite] of relaxed rewrites as the docstrings state it, by class and form
    ("Round", None): lambda op, x: x,
    ("Floor", None): lambda op, x: torch.clamp(x - op.step / 2, op.low, op.high),
    ("Floor", "dither"): lambda op, x: mean_of_clamped(x - op.step / 2, op.step / 2, op.low, op.high),
    ("Quantize", None): lambda op, x: mean_of_clamped(x, op.step / 2, op.low, op.high),
    ("Ceil", None): lambda op, x: torch.clamp(x + op.step / 2, op.low, op.high),
    ("Ceil", "dither"): lambda op, x: mean_of_clamped(x + op.step / 2, op.step / 2, op.low, op.high),
    ("Trunc", None): lambda op, x: torch.nn.functional.softshrink(x, 0.5),
}


def mean_of_clamped(x: torch.Tensor, half: float, low: float, high: float) -> torch.Tensor:
    """E[clamp(x + U(-half, half), low, high)] by quadrature."""
    offsets = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000 * 2 * half - half
    return torch.clamp(x.unsqueeze(-1) + offsets, low, high).mean(-1)


RELAXED = [(op, form) for op, form in REWRITES if Rewrite(form=form).kind(op) == "relaxed"]
STATED = [(op, form) for op, form in RELAXED if (type(op).__name__, form) in STATED_MEANS]
STAIRS = [(op, form) for op, form in RELAXED if op.elementwise and arity(op) == 1]


@each("op, form", STATED)
def test_a_relaxed_rewrite_has_its_stated_mean(op: Op, form: str | None) -> None:
    strategy = Rewrite(form=form)
    x = sample(op, (50,), scale=2.0)[0]
    rows = x.expand(20_000, -1)
    y = strategy(op, rows, noise=uniform(rows, seed=3)) if strategy.noisy(op) else strategy(op, rows)
    error = y.std(0) / math.sqrt(len(rows))
    assert ((y.mean(0) - STATED_MEANS[(type(op).__name__, form)](op, x)).abs() <= 4 * error + 1e-6).all()


@each("op, form", STAIRS)
def test_a_relaxed_rewrite_follows_the_op_in_the_large(op: Op, form: str | None) -> None:
    """Averaged over many steps, on either side of 0, it is where the op is: relaxed, not shifted."""
    strategy = Rewrite(form=form)
    for side in (-4.0, 4.0):
        x = torch.linspace(0, side, 80_001, dtype=torch.float64)[:-1]
        y = strategy(op, x, noise=uniform(x)) if strategy.noisy(op) else strategy(op, x)
        assert (y.mean() - op.hard(x).mean()).abs() < 0.06 * getattr(op, "step", 1.0), side


def test_every_kind_of_rewrite_was_run() -> None:
    kinds = [Rewrite(form=form).kind(op) for op, form in REWRITES]
    assert kinds.count("exact") >= 10
    assert kinds.count("relaxed") >= 11
    assert kinds.count("changes the objective") >= 2
    assert {(type(op).__name__, form) for op, form in STATED} == set(STATED_MEANS)
    assert len(STAIRS) >= 11


@each("op", [op for op in OPS if op.declares("rewrite")])
def test_noise_that_is_missing_is_asked_for(op: Op) -> None:
    for form in [None, *op.forms("rewrite")]:
        if Rewrite(form=form).noisy(op):
            with pytest.raises(ValueError, match=f"Rewrite.*{type(op).__name__}.*noise"):
                Rewrite(form=form)(op, *sample(op))


IDEMPOTENT = ("Ceil", "Floor", "Quantize", "Round", "Sign", "Trunc")


@each("op", [op for op in OPS if type(op).__name__ in IDEMPOTENT])
@each("dtype", FULL + HALF)
def test_hard_twice_is_hard_once(op: Op, dtype: torch.dtype) -> None:
    """Case E09."""
    x = sample(op, (5000,), dtype, scale=3.0)[0]
    once = op.hard(x)
    assert torch.equal(op.hard(once), once)


@each("op", [op for op in OPS if type(op).__name__ in ("Quantize", "Sign", "Heaviside")])
@each("dtype", FULL + HALF)
def test_a_bounded_op_has_exactly_its_values(op: Op, dtype: torch.dtype) -> None:
    """Case E02."""
    x = torch.cat(
        [sample(op, (20_000,), dtype, scale=4.0)[0], torch.tensor([0.0, -0.0, math.inf, -math.inf]).to(dtype)]
    )
    values = set(op.hard(x).tolist())
    if type(op).__name__ == "Quantize":
        assert len(values) == 2**op.bits
        assert min(values) == op.low
        assert max(values) == op.high
    elif type(op).__name__ == "Sign":
        assert values == {-1.0, 1.0, op.zero}
        assert op.hard(torch.tensor([0.0, -0.0])).tolist() == [op.zero] * 2
    else:
        assert values == {0.0, 1.0}
        assert op.hard(torch.tensor([0.0, -0.0])).tolist() == [op.zero] * 2


def test_halves_go_to_even() -> None:
    """Case E03."""
    (rounding,) = [op for op in OPS if type(op).__name__ == "Round"]
    x = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0])
    assert rounding.hard(x).tolist() == [-2.0, -2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 8388609.0]


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_scale_arithmetic_is_done_in_float32(dtype: torch.dtype) -> None:
    """Case B09.

    In half precision a quantizer's value is that of the float32 op, cast back, and floor is that on its grid.
    """
    ran = 0
    for op in OPS:
        x = sample(op, (5000,), dtype, scale=3.0)[0]
        if type(op).__name__ == "Quantize":
            assert torch.equal(op.hard(x), op.hard(x.float()).to(dtype)), op
            ran += 1
        if type(op).__name__ == "Floor":
            points = (torch.arange(-200, 200) * torch.tensor(op.step)).to(dtype)
            points = points[(points >= op.low) & (points <= op.high)]
            inside = x[(x >= op.low) & (x <= op.high)]
            expected = torch.where(points <= inside.unsqueeze(-1), points, -math.inf).amax(-1)
            assert torch.equal(op.hard(inside), expected), op
            assert op.hard(torch.tensor([6e4, -6e4], dtype=dtype)).isfinite().all()
            ran += 1
    assert ran >= 7
