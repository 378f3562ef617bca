"""Laws of the derivative: finite differences, both modes, all orders, every transform."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from products import (
    HALF,
    OPS,
    Cell,
    Part,
    arity,
    cells,
    constants_held,
    extremes,
    generator,
    gradients,
    law,
    rowwise_noise,
    sample,
    total,
)
from surrogates import graft
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
T = 0.3
H = 1e-6


def fixed(cell: Cell, x: list[Tensor], temperature: Tensor | float = T) -> Callable[..., Tensor]:
    """The cell as a function of its inputs alone: the temperature and the noise are held."""
    noise = cell.noise(*x)
    return lambda *inputs: cell(*inputs, T=temperature, noise=noise)


def moved(x: list[Tensor], index: int, coordinate: int, by: float) -> list[Tensor]:
    copies = [t.clone() for t in x]
    copies[index].view(-1)[coordinate] += by
    return copies


def difference_jacobian(function: Callable[..., Tensor], x: list[Tensor], step: float = H) -> list[Tensor]:
    """Central differences, (outputs, inputs) for each input."""
    columns = [
        [
            (function(*moved(x, i, j, step)) - function(*moved(x, i, j, -step))).detach().flatten() / (2 * step)
            for j in range(x[i].numel())
        ]
        for i in range(len(x))
    ]
    return [torch.stack(c, dim=1) for c in columns]


def jacobian(function: Callable[..., Tensor], x: list[Tensor]) -> list[Tensor]:
    """By backward, one output at a time."""
    leaves = [t.clone().requires_grad_() for t in x]
    y = function(*leaves).flatten()
    rows = [torch.autograd.grad(y[k], leaves, retain_graph=True) for k in range(len(y))]
    return [torch.stack([row[i].flatten() for row in rows]) for i in range(len(x))]


def close(a: Tensor, b: Tensor, cell: Cell | str, atol: float = 1e-7, rtol: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=rtol, msg=lambda m: f"{cell}: {m}")


def weights(y: Tensor, seed: int = 3) -> Tensor:
    return torch.randn(y.shape, generator=generator(seed), dtype=torch.float64).to(y.dtype)


def exact(cell: Cell) -> bool:
    """Whether the derivative is a function's for every draw; an estimate is right in the mean, and tested there."""
    return not cell.strategy.estimates


def test_the_laws_below_run_over_all_cells() -> None:
    assert total(lambda op: len(cells(op))) >= 300
    assert total(lambda op: len(cells(op, one_kernel=True))) >= 150
    assert total(lambda op: sum(not cell.hard_valued for cell in cells(op))) >= 170


@law(exact)
def test_the_first_derivative_is_the_difference_quotient_of_the_carrier(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (3, 4), seed=ran)
        f = fixed(cell, x)
        held = fixed(Carried(cell), x)
        with constants_held(op):
            derivatives = list(zip(jacobian(f, x), difference_jacobian(held, x), strict=True))
        for got, expected in derivatives:
            close(got, expected, cell)
        ran += 1
    assert ran == len(part.cells)


class Carried(Cell):
    """The cell's carrier in place of its value."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.op, cell.strategy)

    def __call__(self, *x: Tensor, **kwargs: object) -> Tensor:
        return Cell(self.op, self.strategy).carrier(*x, **kwargs)


@law(lambda cell: not cell.grafts)
def test_where_the_value_is_smooth_the_derivative_is_the_values_own(part: Part) -> None:
    """A soft forward is not grafted: the difference quotient is that of the value itself."""
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (3, 4), seed=5)
        f = fixed(cell, x)
        for got, expected in zip(jacobian(f, x), difference_jacobian(f, x), strict=True):
            close(got, expected, cell)
        ran += 1
    assert ran == len(part.cells)


@law(exact)
def test_the_second_derivative_is_the_difference_quotient_of_the_first(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (2, 3), seed=ran)
        f = fixed(cell, x)
        weight = weights(f(*x))

        def gradient(*inputs: Tensor, f=f, weight=weight, create: bool = False) -> Tensor:
            leaves = [t if t.requires_grad else t.clone().requires_grad_() for t in inputs]
            found = torch.autograd.grad((f(*leaves).sin() * weight).sum(), leaves, create_graph=create)
            return torch.cat([g.flatten() for g in found])

        # sin makes the loss curved, so that the derivative of the carrier, squared, matters too
        with constants_held(op):
            expected = difference_of_gradient(gradient, f, x, weight, cell)
        leaves = [t.clone().requires_grad_() for t in x]
        first = gradient(*leaves, create=True)
        rows = [torch.autograd.grad(g, leaves, retain_graph=True, allow_unused=True) for g in first]
        for i in range(len(x)):
            got = torch.stack([zero_for_none(row[i], x[i]).flatten() for row in rows])
            close(got, expected[i], cell, atol=1e-6)
        ran += 1
    assert ran == len(part.cells)


def difference_of_gradient(
    gradient: Callable[..., Tensor], f: Callable[..., Tensor], x: list[Tensor], weight: Tensor, cell: Cell
) -> list[Tensor]:
    """What double backward must give: sin'' J'J + sin' times the difference quotient of J, J the derivative.

    The value of a grafted cell is piecewise constant, so differencing the gradient of the loss alone would miss the
    term in which the outer derivative moves with the carrier.
    """
    y = f(*x)
    outer = (y.cos() * weight).detach()
    bend = (-y.sin() * weight).flatten().detach()
    own = jacobian(f, x)
    found = []
    for i in range(len(x)):
        columns = []
        for j in range(x[i].numel()):
            up, down = (gradients(f, moved(x, i, j, by), outer) for by in (H, -H))
            column = [
                ((u - d) / (2 * H)).flatten() + o.t() @ (bend * own[i][:, j])
                for u, d, o in zip(up, down, own, strict=True)
            ]
            columns.append(torch.cat(column))
        found.append(torch.stack(columns, dim=1))
    return found


def zero_for_none(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


@pytest.mark.slow
@law(exact)
def test_functional_hessians_agree_with_double_backward(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (2, 3), seed=ran)
        f = fixed(cell, x)

        def loss(*inputs: Tensor, f=f) -> Tensor:
            return f(*inputs).sin().sum()

        places = tuple(range(arity(op)))
        functional = torch.func.hessian(loss, argnums=places)(*x)
        plain = torch.autograd.functional.hessian(loss, tuple(x))
        for i in places:
            for j in places:
                close(functional[i][j], plain[i][j], cell, atol=1e-10)
        ran += 1
    assert ran == len(part.cells)


def test_the_hessian_keeps_the_curvature_of_the_surrogate() -> None:
    """Case B05."""
    y = torch.tensor([-0.33, -1.02], dtype=torch.float64)

    def h(y: Tensor) -> Tensor:
        return graft(torch.round(y).clamp(-1, 1).detach(), torch.tanh(y)).pow(2).sum()

    hessian = torch.func.hessian(h)(y)
    torch.testing.assert_close(hessian, torch.diag(torch.tensor([1.6148, -0.9225]).double()), atol=5e-5, rtol=0)
    torch.testing.assert_close(torch.autograd.functional.hessian(h, y), hessian)


@law()
def test_forward_mode_is_reverse_mode(part: Part) -> None:
    """Case B14."""
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (3, 4), seed=ran)
        f = fixed(cell, x)
        tangent = tuple(weights(t, seed=i) for i, t in enumerate(x))
        value, forward = torch.func.jvp(f, tuple(x), tangent)
        weight = weights(value, seed=9)
        reverse = gradients(f, x, weight)
        if cell.hard_valued:
            assert torch.equal(value, f(*x)), cell
        else:  # a transform can't read T: it sums all steps, where eager sums those that the kernel reaches
            torch.testing.assert_close(value, f(*x), atol=1e-12, rtol=1e-12, msg=lambda m, cell=cell: f"{cell}: {m}")
        close((forward * weight).sum(), sum((g * t).sum() for g, t in zip(reverse, tangent, strict=True)), cell, 1e-10)
        ran += 1
    assert ran == len(part.cells)


@law()
def test_vmap_is_a_loop(part: Part) -> None:
    """Over all tensors at once and over each alone: value, its gradient outside of vmap, and per-sample gradients."""
    ran = 0
    for cell in part.cells:
        columns = batched_inputs(cell, 2, seed=ran)
        everywhere = tuple(range(len(columns)))
        for batched in [everywhere, *((i,) for i in everywhere)]:
            assert_vmap_is_a_loop(cell, columns, batched)
            ran += 1
    assert ran >= 2 * len(part.cells)


def batched_inputs(cell: Cell, count: int, seed: int) -> list[Tensor]:
    """Inputs, the noise if the cell needs any and the temperature if it uses one, with a leading batch dimension."""
    samples = [sample(cell.op, seed=5 * seed + i) for i in range(count)]
    columns = [torch.stack(column) for column in zip(*samples, strict=True)]
    columns += rowwise_noise(cell, columns)
    if "temperature" in cell.strategy.uses(cell.op):
        columns.append(torch.linspace(0.3, 0.2, count, dtype=torch.float64))
    return columns


def assert_vmap_is_a_loop(cell: Cell, columns: list[Tensor], batched: tuple[int, ...]) -> None:
    """For a batch along the first dimension of the tensors at some places, and one tensor for all rows elsewhere."""
    places = tuple(range(arity(cell.op)))
    noisy, tempered = cell.drawn, "temperature" in cell.strategy.uses(cell.op)

    def value(*inputs: Tensor) -> Tensor:
        noise = inputs[len(places)] if noisy else None
        return cell(*inputs[: len(places)], T=inputs[-1] if tempered else T, noise=noise)

    def loss(*inputs: Tensor) -> Tensor:
        return value(*inputs).sin().sum()

    given = [column if i in batched else column[0] for i, column in enumerate(columns)]
    dims = tuple(0 if i in batched else None for i in range(len(columns)))
    rows = [[t[k] if i in batched else t for i, t in enumerate(given)] for k in range(len(columns[0]))]
    name = f"{cell}, batched {batched}"
    looped = [gradients(lambda *x, row=row: loss(*x, *row[len(places) :]), row[: len(places)]) for row in rows]
    leaves = [t.clone().requires_grad_(i in places) for i, t in enumerate(given)]
    y = torch.func.vmap(value, dims)(*leaves)
    close(y.detach(), torch.stack([value(*row) for row in rows]), name, 1e-12)
    outside = torch.autograd.grad(y.sin().sum(), leaves[: len(places)])
    inside = torch.func.vmap(torch.func.grad(loss, argnums=places), dims)(*given)
    for i in places:
        expected = torch.stack([row[i] for row in looped])
        close(inside[i], expected, name, 1e-12)
        close(outside[i], expected if i in batched else expected.sum(0), name, 1e-12)


@law()
def test_strides_do_not_matter(part: Part) -> None:
    """Case B10.

    Transposed, expanded and concatenated gradients, and inputs of every layout, against the contiguous copy.
    """
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (4, 4), seed=ran)
        f = fixed(cell, x)
        weight = weights(f(*x))
        dims = range(weight.dim() - 1, -1, -1)
        downstream = {
            "transposed": lambda y, w=weight, d=dims: (y.permute(*d) * w.permute(*d).contiguous()).sum(),
            "expanded": lambda y: y.sum(),
            "concatenated": lambda y, w=weight: (torch.cat([y, y]) * torch.cat([w, w])).sum(),
            "strided": lambda y, w=weight: (y[..., ::2] * w[..., ::2]).sum(),
        }
        factor = {
            "transposed": weight,
            "expanded": torch.ones_like(weight),
            "concatenated": 2 * weight,
            "strided": weight * (torch.arange(weight.shape[-1]) % 2 == 0),
        }
        for name, after in downstream.items():
            got = gradients(lambda *inputs, f=f, after=after: after(f(*inputs)), x)
            expected = gradients(f, x, factor[name].contiguous())
            for g, e in zip(got, expected, strict=True):
                close(g, e, cell, 1e-12)
        columns = [t.t().contiguous().t() for t in x]
        assert not columns[0].is_contiguous()
        for g, e in zip(gradients(f, columns, weight), gradients(f, x, weight), strict=True):
            close(g, e, cell, 1e-12)
        ran += 1
    assert ran == len(part.cells)


@law()
def test_every_input_stays_connected(part: Part) -> None:
    """Case A07."""
    op = part.op
    ran = 0
    for cell in part.cells:
        for dtype in (torch.float64, torch.float32, *HALF):
            x = sample(op, (3, 4), dtype)
            for g, t in zip(gradients(cell, x), x, strict=True):
                assert g is not None, cell
                assert g.dtype == dtype, cell
                assert g.shape == t.shape, cell
                assert g.isfinite().all(), cell
            ran += 1
    assert ran == 4 * len(part.cells)


@law(lambda cell: isinstance(cell.strategy, Subgradient))
def test_the_subgradient_is_exactly_zero_where_the_op_is_flat_and_its_slope_elsewhere(part: Part) -> None:
    op = part.op
    x = sample(op, (20, 4))
    slopes = difference_jacobian(op.hard, x)
    ran = 0
    for cell in part.cells:
        for got, expected in zip(jacobian(fixed(cell, x), x), slopes, strict=True):
            close(got, expected, cell, atol=1e-7)
            assert torch.equal(got == 0, expected.abs() < 1e-7), cell
        ran += 1
    assert ran == len(op.rules) >= 1


@law()
def test_gradients_are_finite_at_the_extremes(part: Part) -> None:
    op = part.op
    ran = 0
    for dtype, size in ((torch.float16, 1e4), (torch.bfloat16, 1e4), (torch.float32, 1e30), (torch.float64, 1e30)):
        x = [t.sign().to(dtype) * size / 4**i for i, t in enumerate(sample(op, (4, 4)))]
        x[0][1] = torch.tensor([0.3, -0.2, size, -size], dtype=dtype)
        for cell in part.cells:
            for g in gradients(cell, x):
                assert g is not None
                assert g.isfinite().all(), (cell, dtype, g)
            ran += 1
    assert ran == 4 * len(part.cells)


@law()
def test_infinite_inputs_give_no_nan_and_no_infinite_gradient(part: Part) -> None:
    """And where a carrier is infinite, graft's promise: a derivative of exactly 0."""
    op = part.op
    ran = 0
    for dtype in (torch.float64, torch.float32, *HALF):
        x = extremes(op, dtype)
        for cell in part.cells:
            for g in gradients(cell, x):
                assert g.isfinite().all(), (cell, dtype, g)
            if cell.hard_valued:
                dead = ~cell.carrier(*x).isfinite()
                leaves = [t.clone().requires_grad_() for t in x]
                y = cell(*leaves)
                for g in torch.autograd.grad(y, leaves, dead.to(dtype)):
                    assert (g == 0).all(), (cell, dtype)
            ran += 1
    assert ran == 4 * len(part.cells)


@law()
def test_autocast_keeps_dtypes(part: Part) -> None:
    """Case B08."""
    op = part.op
    ran = 0
    layer = torch.nn.Linear(4, 4)
    for cell in part.cells:
        for dtype in (torch.float32, torch.bfloat16):
            x = [t.requires_grad_() for t in sample(op, (4, 4), dtype)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = cell(*x)
                after = cell(*(layer(t) if t.shape == x[0].shape else t for t in x))
                loss = torch.nn.functional.linear(after, torch.ones(1, y.shape[-1])).sum() + y.float().sum()
            assert y.dtype == dtype, cell
            loss.backward()
            assert all(t.grad.dtype == dtype for t in x), cell
            assert layer.weight.grad.dtype == torch.float32
            ran += 1
    assert ran == 2 * len(part.cells)


def test_a_half_precision_carrier_that_overflows_is_not_taken_for_infinite() -> None:
    """Tied entries near the largest number: their sum is infinite, their shared derivative is not 0."""
    big = torch.tensor([[6e4, 6e4, 1.0]], dtype=torch.float16)
    ran = 0
    for op in OPS:
        if type(op).__name__ in ("Max", "Maximum"):
            for cell in [cell for cell in cells(op) if exact(cell) and cell.strategy.kernel in (None, "logistic")]:
                x = [big.t() if getattr(op, "dim", -1) == 0 else big, big.clone()][: arity(op)]
                total = sum(g.sum() for g in gradients(cell, x))
                assert total.item() == len(gradients(cell, x)[0].flatten()) / (
                    3 if type(op).__name__ == "Max" else 1
                ), cell
                ran += 1
    assert ran >= 14
    assert math.isfinite(torch.finfo(torch.float16).max)
    apart = [big[:, :1], -big[:, :1]]
    for op, shares in ((Maximum(), [1, 0]), (Minimum(), [0, 1])):
        assert [g.item() for g in gradients(partial(StraightThrough(), op), apart)] == shares
