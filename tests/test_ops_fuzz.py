"""Every op under every strategy on tensors that nobody would choose: any dtype, shape, layout, and special values."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from products import FULL, HALF, OPS, Cell, cells, sample, spread

SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 1e-40, -1e-40, 1e30, -1e30, math.inf, -math.inf, math.nan)
CELLS = [cell for op in OPS for cell in cells(op, one_kernel=True)]
LAYOUTS = ("contiguous", "transposed", "expanded", "strided", "reversed")


@st.composite
def inputs(draw: st.DrawFn, cell: Cell) -> list[Tensor]:
    """Inputs of a cell: its first one of a drawn shape, dtype and layout, with special values at drawn places."""
    dtype = draw(st.sampled_from(FULL + HALF))
    shape = (draw(st.integers(4, 6)), draw(st.integers(4, 6)))
    drawn = sample(
        cell.op, shape, dtype, seed=draw(st.integers(0, 10_000)), scale=draw(st.sampled_from([0.01, 1, 100]))
    )
    for tensor in drawn:
        for place in draw(st.lists(st.integers(0, tensor.numel() - 1), max_size=6)):
            tensor.view(-1)[place] = draw(st.sampled_from(SPECIAL))
    layout = draw(st.sampled_from(LAYOUTS))
    return [laid_out(t, layout) if t.shape == drawn[0].shape else t for t in drawn]


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same values in other places of the memory; `expanded` repeats the first row."""
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "expanded":
        return x[:1].expand(x.shape)
    if layout == "strided":
        wide = x.new_zeros(x.shape[0], 2 * x.shape[1])
        wide[:, ::2] = x
        return wide[:, ::2]
    return x.flip(0) if layout == "reversed" else x


def check(cell: Cell, x: list[Tensor]) -> None:
    """Shape, dtype and inputs kept; a contiguous copy gives the same; NaN comes out where it went in; a gradient."""
    before = [t.clone() for t in x]
    leaves = [t.detach().clone().requires_grad_() for t in x]
    y = cell(*x)
    with torch.enable_grad():
        attached = cell(*leaves)
    assert attached.shape == y.shape == cell.op.hard(*before).shape
    assert attached.dtype == y.dtype == x[0].dtype
    torch.testing.assert_close(y, cell(*(t.contiguous() for t in x)), equal_nan=True)
    torch.testing.assert_close(y, attached.detach(), equal_nan=True)
    for tensor, copy in zip(x, before, strict=True):
        torch.testing.assert_close(tensor, copy, equal_nan=True, rtol=0, atol=0)
    if cell.hard_valued:
        assert y[spread(cell.op, x)].isnan().all()
    if attached.requires_grad:
        attached.backward(torch.ones_like(attached))
        assert all(leaf.grad is None or leaf.grad.shape == leaf.shape for leaf in leaves)


@pytest.mark.parametrize(
    "op",
    [pytest.param(i, marks=[] if op == type(op)() else pytest.mark.slow, id=repr(op)) for i, op in enumerate(OPS)],
)
def test_every_op_a_few_times(op: int) -> None:
    own = list(cells(OPS[op], one_kernel=True))

    @given(st.data())
    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    def run(data: st.DataObject) -> None:
        cell = data.draw(st.sampled_from(own))
        check(cell, data.draw(inputs(cell)))

    run()


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_inputs(part: int, record_property: Callable[[str, object], None]) -> None:
    drawn = 0

    @given(st.data())
    @settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def run(data: st.DataObject) -> None:
        nonlocal drawn
        cell = data.draw(st.sampled_from(CELLS[part::10]))
        check(cell, data.draw(inputs(cell)))
        drawn += 1

    run()
    record_property("inputs", drawn)
    assert drawn >= 10_000
