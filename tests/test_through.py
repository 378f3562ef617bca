"""through: every call of its table against the surrogate call written by hand; what it leaves, reports and restores."""

import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, hessian, jacfwd, vmap

from each import each
from products import HALF, OP_CLASSES, gradients, same
from surrogates import EmptyCell, HardLayer, through
from surrogates.core import Op, Strategy
from surrogates.ops.abs import Abs
from surrogates.ops.ceil import Ceil
from surrogates.ops.clamp import Clamp
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.histogram import Histogram
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.median import Median
from surrogates.ops.min import Min
from surrogates.ops.minimum import Minimum
from surrogates.ops.quantile import Quantile
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.sort import Sort
from surrogates.ops.top_k import TopK
from surrogates.ops.trunc import Trunc
from surrogates.own_model.calls import CASTS, COMPARISONS, DRAWS, ELEMENTWISE, INDICES, SELECTION, functions
from surrogates.own_model.through import Through
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STE, SOFT, SUB = StraightThrough(temperature=0.7), Smooth(temperature=0.4), Subgradient()
STRATEGIES = [SUB, STE, SOFT]
# the ops that keep their derivative under a straight-through default
KEEPING = (Abs, Max, Maximum, Median, Min, Minimum, Quantile, ReLU, Sort, TopK)
by_strategy = pytest.mark.parametrize("s", STRATEGIES, ids=lambda s: type(s).__name__)


def number(seed: int, *shape: int) -> Tensor:
    return 1.7 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SCALES, ZEROS = torch.tensor([0.1, 0.4, 0.7]), torch.tensor([0, 3, 8], dtype=torch.int32)
WEIGHT = torch.tensor([0.3], dtype=torch.float64)
X, Y = number(0, 3, 4), number(1, 3, 4).abs() + 0.3
GROUPS = torch.tensor([[0, 1, 3, 1]]).expand(3, 4)


def by_default(s: Strategy) -> Callable[..., Tensor]:
    """What each op gets where the strategy is the default."""
    return lambda op, *x: (SUB if isinstance(s, StraightThrough) and isinstance(op, KEEPING) else s)(op, *x)


def step(s: Strategy, x: Tensor, zero: float = 0.0) -> Tensor:
    return s(Heaviside(zero=zero), x)


def clip(s: Strategy, x: Tensor, low: float = -torch.inf, high: float = torch.inf) -> Tensor:
    return s(Minimum(), s(Maximum(), x, torch.full_like(x, low)), torch.full_like(x, high))


def codes(s: Strategy, x: Tensor, scale: Tensor | float, zero: Tensor | int) -> Tensor:
    return (clip(s, s(Round(), x / scale) + zero, 0, 15) - zero) * scale


def by_group(s: Strategy, op: Op, x: Tensor) -> Tensor:
    """The op on each column of x and the columns of Y that GROUPS sends there."""
    members = [[j for j in range(4) if GROUPS[0, j] == group] for group in range(4)]
    return torch.stack([s(op, torch.cat([x[:, [g]], Y[:, members[g]]], 1)) for g in range(4)], 1)


# by name: the arguments after x, and the surrogate call
CALLS: dict[str, tuple[tuple[object, ...], Callable[..., Tensor]]] = {
    "round": ((), lambda s, x: s(Round(), x)),
    "floor": ((), lambda s, x: s(Floor(), x)),
    "ceil": ((), lambda s, x: s(Ceil(), x)),
    "trunc": ((), lambda s, x: s(Trunc(), x)),
    "fix": ((), lambda s, x: s(Trunc(), x)),
    "sign": ((), lambda s, x: s(Sign(), x)),
    "heaviside": ((torch.tensor(0.5, dtype=torch.float64),), lambda s, x, v: step(s, x, 0.5)),
    "floor_divide": ((Y,), lambda s, x, y: s(Floor(), x / y)),
    "__floordiv__": ((0.3,), lambda s, x, y: s(Floor(), x / 0.3)),
    "__rfloordiv__": ((2,), lambda s, x, y: s(Floor(), 2 / x)),
    "abs": ((), lambda s, x: s(Abs(), x)),
    "absolute": ((), lambda s, x: s(Abs(), x)),
    "__abs__": ((), lambda s, x: s(Abs(), x)),
    "relu": ((), lambda s, x: s(ReLU(), x)),
    "maximum": ((Y,), lambda s, x, y: s(Maximum(), x, y)),
    "minimum": ((Y,), lambda s, x, y: s(Minimum(), x, y)),
    "clamp": ((-0.5, 1), lambda s, x, low, high: clip(s, x, -0.5, 1.0)),
    "clip": ((-0.5, 1), lambda s, x, low, high: clip(s, x, -0.5, 1.0)),
    "clamp_min": ((-0.5,), lambda s, x, low: s(Maximum(), x, torch.full_like(x, -0.5))),
    "clamp_max": ((0.5,), lambda s, x, high: s(Minimum(), x, torch.full_like(x, 0.5))),
    "hardtanh": ((), lambda s, x: clip(s, x, -1.0, 1.0)),
    "relu6": ((), lambda s, x: clip(s, x, 0.0, 6.0)),
    "hardsigmoid": ((), lambda s, x: clip(s, x, -3.0, 3.0) / 6 + 0.5),
    "hardswish": ((), lambda s, x: x * (clip(s, x, -3.0, 3.0) / 6 + 0.5)),
    "softshrink": ((0.4,), lambda s, x, c: x - clip(s, x, -0.4, 0.4)),
    "leaky_relu": ((0.2,), lambda s, x, a: 0.2 * x + 0.8 * s(ReLU(), x)),
    "prelu": ((WEIGHT,), lambda s, x, a: WEIGHT * x + (1 - WEIGHT) * s(ReLU(), x)),
    "fake_quantize_per_tensor_affine": (
        (0.4, 3, 0, 15),
        lambda s, x, *_: codes(s, x, 0.4, 3),
    ),
    "fake_quantize_per_channel_affine": (
        (SCALES, ZEROS, 0, 0, 15),
        lambda s, x, *_: codes(s, x, SCALES[:, None], ZEROS[:, None]),
    ),
    "threshold": ((0.1, 0.2), lambda s, x, t, v: step(s, x - 0.1) * x + 0.2 * (1 - step(s, x - 0.1))),
    "hardshrink": ((0.4,), lambda s, x, c: step(s, x - 0.4) * x + step(s, -x - 0.4) * x),
    "max": ((), lambda s, x: s(Max(0), x.flatten())),
    "min": ((), lambda s, x: s(Min(0), x.flatten())),
    "amax": ((), lambda s, x: s(Max(0), x.flatten())),
    "amin": ((), lambda s, x: s(Min(0), x.flatten())),
    "topk": ((2,), lambda s, x, k: s(TopK(2), x)),
    "sort": ((), lambda s, x: s(Sort(), x)),
    "msort": ((), lambda s, x: s(Sort(dim=0), x)),
    "aminmax": ((), lambda s, x: s(Min(0), x.flatten())),
    "median": ((), lambda s, x: s(Median(0), x.flatten())),
    "kthvalue": ((2,), lambda s, x, k: s(Sort(), x)[..., 1]),
    "quantile": ((0.3,), lambda s, x, q: s(Quantile(0.3, 0), x.flatten())),
    "adaptive_max_pool1d": (
        (3,),
        lambda s, x, k: s(Max(), torch.stack([x[..., :3], x[..., 1:]], -1)),
    ),
    "adaptive_max_pool2d": (
        ((3, 2),),
        lambda s, x, k: s(Max(), torch.stack([x[..., ::2], x[..., 1::2]], -1)),
    ),
    "scatter_reduce": ((1, GROUPS, Y, "amax"), lambda s, x, *_: by_group(s, Max(), x)),
    "index_reduce": ((1, GROUPS[0], Y, "amin"), lambda s, x, *_: by_group(s, Min(), x)),
    "histc": ((4, -1, 1), lambda s, x, *_: s(Histogram(6, -1.5, 1.5), x.flatten())[1:-1]),
    "histogram": ((4,), lambda s, x, *_: s(Histogram(4, x.min().item(), x.max().item()), x.flatten())),
    "max_pool1d": ((2,), lambda s, x, k: s(Max(), torch.stack([x[..., ::2], x[..., 1::2]], -1))),
    "max_pool2d": (
        ((1, 2),),
        lambda s, x, k: s(Max(), torch.stack([x[..., ::2], x[..., 1::2]], -1)),
    ),
}
FURTHER = {
    "round decimals": (lambda x, y: torch.round(x, decimals=1), lambda s, x, y: s(Round(), x * 10) / 10),
    "round -1": (lambda x, y: (9 * x).round(decimals=-1), lambda s, x, y: s(Round(), 9 * x * 0.1) / 0.1),
    "keyword": (lambda x, y: torch.ceil(input=x), lambda s, x, y: s(Ceil(), x)),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda s, x, y: s(Floor(), x / y)),
    "div trunc": (lambda x, y: x.div(0.7, rounding_mode="trunc"), lambda s, x, y: s(Trunc(), x / 0.7)),
    "scalar // x": (lambda x, y: 2 // y, lambda s, x, y: s(Floor(), 2 / y)),
    "x // row": (lambda x, y: x // y[0], lambda s, x, y: s(Floor(), x / y[0])),
    "abs operator": (lambda x, y: abs(x), lambda s, x, y: s(Abs(), x)),
    "max dim": (lambda x, y: x.max(1).values, lambda s, x, y: s(Max(1), x)),
    "max dim keepdim": (lambda x, y: torch.max(x, 0, keepdim=True)[0], lambda s, x, y: s(Max(0), x).unsqueeze(0)),
    "max named": (lambda x, y: torch.max(x, dim=-2).values, lambda s, x, y: s(Max(0), x)),
    "max of two": (lambda x, y: torch.max(x, y), lambda s, x, y: s(Maximum(), x, y)),
    "max method of two": (lambda x, y: x.max(other=y), lambda s, x, y: s(Maximum(), x, y)),
    "min dim": (lambda x, y: x.min(dim=1, keepdim=True).values, lambda s, x, y: s(Min(1), x).unsqueeze(1)),
    "min of two": (lambda x, y: x.min(y), lambda s, x, y: s(Minimum(), x, y)),
    "amax dims": (lambda x, y: x.amax((0, 1), keepdim=True), lambda s, x, y: s(Max(0), x.flatten()).reshape(1, 1)),
    "amax dim": (lambda x, y: torch.amax(x, 0), lambda s, x, y: s(Max(0), x)),
    "amin dims": (lambda x, y: x.amin([1, 0]), lambda s, x, y: s(Min(0), x.t().flatten())),
    "maximum broadcast": (
        lambda x, y: torch.maximum(x, y[0]),
        lambda s, x, y: s(Maximum(), x, y[0].expand(3, 4)),
    ),
    "maximum mixed": (
        lambda x, y: torch.maximum(x.float(), y),
        lambda s, x, y: s(Maximum(), x.float().double(), y),
    ),
    "clamp min": (lambda x, y: x.clamp(min=0.2), lambda s, x, y: s(Maximum(), x, torch.full_like(x, 0.2))),
    "clamp max": (lambda x, y: torch.clamp(x, max=0.2), lambda s, x, y: s(Minimum(), x, torch.full_like(x, 0.2))),
    "clamp infinite": (lambda x, y: x.clamp(0, torch.inf), lambda s, x, y: s(Maximum(), x, torch.zeros_like(x))),
    "clamp to one number": (lambda x, y: x.clamp(1.0, 0.5), lambda s, x, y: clip(s, x, 1.0, 0.5)),
    "numpy's names": (lambda x, y: torch.amax(x=x, axis=1, keepdims=True), lambda s, x, y: s(Max(1), x).unsqueeze(1)),
    "clamp tensors": (
        lambda x, y: x.clamp(-y, y),
        lambda s, x, y: s(Minimum(), s(Maximum(), x, -y), y),
    ),
    "clamp_min tensor": (lambda x, y: x.clamp_min(y), lambda s, x, y: s(Maximum(), x, y)),
    "hardtanh bounds": (lambda x, y: F.hardtanh(x, -0.3, 2), lambda s, x, y: clip(s, x, -0.3, 2.0)),
    "inplace flag": (lambda x, y: F.relu(x * 1, inplace=True), lambda s, x, y: s(ReLU(), x)),
    "inplace keyword": (lambda x, y: F.relu(input=x * 1, inplace=True), lambda s, x, y: s(ReLU(), x)),
    "floor in place": (lambda x, y: (x * 2).floor_().mul_(y), lambda s, x, y: s(Floor(), x * 2) * y),
    "smallest": (lambda x, y: x.topk(2, largest=False).values, lambda s, x, y: -s(TopK(2), -x)),
    "sort down": (lambda x, y: x.sort(0, descending=True).values, lambda s, x, y: s(Sort(True, 0), x)),
    "sort stable": (lambda x, y: torch.sort(x, stable=True)[0], lambda s, x, y: s(Sort(), x)),
    "largest with smallest": (lambda x, y: x.aminmax(dim=1, keepdim=True).max, lambda s, x, y: s(Max(1), x)[:, None]),
    "median dim": (lambda x, y: torch.median(x, 0, keepdim=True)[0], lambda s, x, y: s(Median(0), x)[None]),
    "median of an odd number": (lambda x, y: x.t().median(-1).values, lambda s, x, y: s(Median(0), x)),
    "kthvalue dim": (
        lambda x, y: torch.kthvalue(x, 3, dim=0, keepdim=True)[0],
        lambda s, x, y: s(Sort(), x.t()).t()[2:],
    ),
    "quantiles": (
        lambda x, y: x.quantile(torch.tensor([0.5, 1.0], dtype=x.dtype), 1, keepdim=True),
        lambda s, x, y: torch.stack([s(Quantile(q), x) for q in (0.5, 1.0)])[..., None],
    ),
    "quantile by a tensor": (
        lambda x, y: torch.quantile(x, torch.tensor(0.5, dtype=x.dtype), dim=0),
        lambda s, x, y: s(Quantile(0.5, 0), x),
    ),
    "adaptive pool of unequal windows": (
        lambda x, y: F.adaptive_max_pool1d(x, 3),
        lambda s, x, y: torch.stack([s(Max(), x[:, i : i + 2]) for i in range(3)], -1),
    ),
    "topk dim": (lambda x, y: torch.topk(x, 2, dim=0)[0], lambda s, x, y: s(TopK(2, 0), x)),
}


def values(result: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def agree(s: Strategy, call: Callable[..., Tensor], reference: Callable[..., Tensor], *x: Tensor) -> None:
    """The call is the reference, with the strategy as default and with every op named."""
    same_call(partial(through, s, empty="raise"), s, call, partial(reference, by_default(s)), *x)
    if s is STE:
        same_call(partial(through, None, **dict.fromkeys(OP_CLASSES, s)), s, call, partial(reference, s), *x)


def same_call(
    block: Callable[[], Through],
    s: Strategy,
    call: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    *x: Tensor,
) -> None:
    """Values bit for bit those without the block, if the strategy is hard; derivatives those of the reference."""

    def taken(*x: Tensor) -> Tensor:
        with block() as report:
            y = call(*x)
        assert report.replaced
        assert not report.not_replaced, report
        return y

    leaves = [t.clone().requires_grad_() for t in x]
    with torch.no_grad():
        plain, expected = call(*x), reference(*x)
    value = taken(*leaves)
    if s.soft_forward:
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    else:
        assert same(value, plain)
    weight = number(9, *plain.shape)
    for got, right in zip(
        gradients(taken, list(x), weight),
        gradients(reference, list(x), weight.to(expected.dtype)),
        strict=True,
    ):
        torch.testing.assert_close(got, right, rtol=1e-10, atol=1e-12)


@by_strategy
@each("name", CALLS)
def test_each_function_method_and_operator_is_the_surrogate_call(name: str, s: Strategy) -> None:
    args, reference = CALLS[name]
    found = list(functions(name))
    assert found
    x = X.unsqueeze(0) if "pool" in name else X
    for function, inplace in found:
        agree(
            s,
            lambda x, f=function, i=inplace: values(f(x.clone() if i else x, *args)),
            lambda s, x: reference(s, x, *args),
            x,
        )


def test_the_table_is_covered() -> None:
    names = {name for names in (ELEMENTWISE | SELECTION).values() for name in names}
    assert set(CALLS) == names - {"div", "divide"}  # whose hard forms are among the further ones


def test_the_page_lists_the_calls_that_are_taken() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own_model.md").read_text()
    listed = [set(re.findall(r"`(\w+)`", line)) for line in page.splitlines()]
    for tables in (ELEMENTWISE | SELECTION, COMPARISONS | INDICES, DRAWS, CASTS):
        names = {name for group in tables.values() for name in group if not name.startswith("__")}
        assert names in listed


@by_strategy
@each("name", FURTHER)
def test_further_forms_of_the_calls(name: str, s: Strategy) -> None:
    agree(s, *FURTHER[name], X, Y)


NASTY = [0.0, -0.0, 0.5, 1.5, -0.5, 1.0, 1.0, -3.0, 1e4, -1e4, torch.inf, -torch.inf, torch.nan, 2.0, 6.0, 0.1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_no_value_of_a_hard_valued_strategy_changes(dtype: torch.dtype) -> None:
    """Kinks, ties, infinities, NaN (which torch's sign turns into 0), strides, empty inputs."""
    whole = torch.tensor(NASTY, dtype=dtype)
    inputs = [whole.reshape(4, 4), whole.reshape(4, 4).t(), whole[:0].reshape(0, 4), whole.repeat(2)[::2].reshape(4, 4)]
    ran = 0
    for name, (args, _) in CALLS.items():
        if "pool" in name or "fake" in name or "_reduce" in name:  # of other shapes and dtypes; compared above
            continue
        if name == "histogram":  # which torch refuses for NaN
            continue
        if name == "quantile" and dtype in HALF:  # which torch refuses
            continue
        args = tuple((a[:1] if a.dim() == 2 else a).to(dtype) if isinstance(a, Tensor) else a for a in args)
        for function, inplace in functions(name):
            for x in inputs:
                if x.numel() == 0 and name in ("max", "min", "amax", "amin", "aminmax", "median", "quantile"):
                    continue
                for s in (SUB, STE):
                    plain = function(x.clone() if inplace else x, *args)
                    leaf = x.clone().requires_grad_()
                    with through(s) as report:
                        y = function(leaf.clone() if inplace else leaf, *args)
                    first, right = values(y), values(plain)
                    assert report.replaced, (name, report)
                    assert first.requires_grad
                    assert same(first, right), (name, s, dtype)
                    number = ~right.isnan()
                    assert torch.equal(first.signbit()[number], right.signbit()[number]), name
                    ran += 1
    assert ran > 400


def test_values_and_indices_come_together() -> None:
    x = X.clone().requires_grad_()
    with through(STE):
        for got, right in [
            (x.max(1), X.max(1)),
            (torch.min(x, 0, True), torch.min(X, 0, True)),
            (x.topk(2), X.topk(2)),
        ]:
            assert type(got) is type(right)
            assert torch.equal(got.values, right.values)
            assert torch.equal(got.indices, right.indices)


@pytest.mark.slow
def test_second_derivatives_are_those_of_the_surrogate() -> None:
    def f(x: Tensor) -> Tensor:
        return (x.round() * x.relu()).sum()

    with through(STE, relu=STE):
        got = hessian(f)(X[0])
    right = hessian(lambda x: (STE(Round(), x) * STE(ReLU(), x)).sum())(X[0])
    torch.testing.assert_close(got, right)


def mixture(x: Tensor) -> Tensor:
    y = x.round() + x // 0.3 + x.max() + x.clamp(-0.5, 0.5) + F.relu(x) + (x > 0.1).double() * x
    y = y + torch.where(x > 0, x, -x) + x.gather(-1, x.argmax(-1, keepdim=True)) + ((x > 0) & (x < 1)).double()
    return (y + (x * 1).relu_()).sum()


@by_strategy
def test_under_the_transforms_of_torch_func(s: Strategy) -> None:
    with through(s):
        loop = torch.stack([torch.autograd.grad(mixture(r), r)[0] for r in X.clone().requires_grad_().unbind()])
        torch.testing.assert_close(torch.stack([grad(mixture)(row) for row in X]), loop)
        torch.testing.assert_close(vmap(grad(mixture))(X), loop)
        torch.testing.assert_close(grad(lambda x: vmap(mixture)(x).sum())(X), loop)
        torch.testing.assert_close(torch.stack([jacfwd(mixture)(row) for row in X]), loop)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(X[0], torch.ones(4, dtype=X.dtype))
            tangent = torch.autograd.forward_ad.unpack_dual(mixture(dual)).tangent
        torch.testing.assert_close(tangent, loop[0].sum())


# calls that are not replaced


def test_what_wants_no_derivative_is_left_alone() -> None:
    x, n = X.clone().requires_grad_(), torch.arange(6)
    with through(SOFT) as report:
        assert torch.equal(X.round(), torch.round(X))
        assert torch.equal(n // 2, torch.tensor([0, 0, 1, 1, 2, 2]))
        with torch.no_grad():
            assert torch.equal(x.round(), X.round())
        assert torch.equal(x.detach().relu(), X.relu())
        assert not (X > 0).float().requires_grad
        assert torch.equal(x / 2, X / 2)
    assert not report.replaced
    assert {(row.call, row.fate) for row in report.not_replaced} == {
        ("round", "no derivative is recorded"),
        ("relu", "no derivative is recorded"),
    }


def test_an_empty_cell_is_left_alone_or_raised() -> None:
    x, signs = X.clone().requires_grad_(), X.sign()
    with through(Rewrite()) as report:
        assert torch.equal(x.sign(), signs)
    assert [(r.call, r.fate) for r in report.not_replaced] == [
        ("sign", "Sign declares no reading 'rewrite' (surrogates/ops/sign.py)")
    ]
    with pytest.raises(EmptyCell, match="Sign declares no reading"), through(Rewrite(), empty="raise"):
        x.sign()
    assert torch.equal(x.sign(), signs)  # the error has ended the block


def test_strategies_by_op() -> None:
    x = X.clone().requires_grad_()
    with through(SUB, floor=STE, abs=None, max=SOFT) as report:
        assert torch.autograd.grad(x.floor().sum(), x)[0].eq(1).all()
        assert torch.autograd.grad(x.round().sum(), x)[0].eq(0).all()
        assert torch.equal(x.max(1).values, SOFT(Max(1), x))
        x.abs()
    assert {row.call: row.fate for row in report.not_replaced} == {"abs": "no strategy chosen"}
    with through(None, floor=STE) as report:
        x.floor(), x.round()
    assert [row.call for row in report.replaced] == ["floor"]


def test_mistakes_are_refused_before_the_block() -> None:
    with pytest.raises(ValueError, match="no op 'flor'; did you mean 'floor'"):
        through(STE, flor=SUB)
    with pytest.raises(ValueError, match="no op 'bathtub'; op names: abs, "):
        through(STE, bathtub=SUB)
    with pytest.raises(TypeError, match="expected an object of class Strategy, or a name; got 3"):
        through(3)
    with pytest.raises(ValueError, match="empty must be one of leave, raise; got 'skip'"):
        through(STE, empty="skip")
    with pytest.raises(ValueError, match="T must be a positive"):
        through(STE, T=0.0)


def test_calls_without_an_op_are_reported_and_unchanged() -> None:
    x = (X.abs() + 0.1).requires_grad_()
    with through(STE) as report:
        assert torch.equal(x.cummax(0).values, x.detach().cummax(0).values)
        x.frac()
        x.long()
        torch.fmod(x, 0.5)
        x.topk(2, sorted=False)
        F.max_pool1d(x, 2, return_indices=True)
        x.floor().long()
    assert {row.call for row in report.not_replaced} == {
        "cummax",
        "frac",
        "fmod",
        "topk",
        "max_pool1d_with_indices",
    }
    assert [row.call for row in report.replaced] == ["floor"]


class Logged(Tensor):
    """A tensor class with a say of its own."""


def test_other_tensor_classes_keep_their_own_ways() -> None:
    x = X.clone().as_subclass(Logged).requires_grad_()
    with through(STE) as report:
        y = x.round()
    assert type(y) is Logged
    assert not report.replaced
    with through(STE) as report:
        nn.Parameter(X).round()
    assert report.replaced


def test_layers_of_this_library_keep_their_strategies() -> None:
    x = X.clone().requires_grad_()
    layer = HardLayer(Clamp(), SOFT)
    with through(STE) as report:
        assert torch.equal(layer(x), layer(x.detach()))
        assert torch.autograd.grad(layer(x).sum(), x)[0].unique().numel() > 3
    assert not report.replaced
    assert not report.not_replaced


# the report, the noise, the block


def test_the_report_counts_by_call_and_line() -> None:
    x = X.clone().requires_grad_()
    with through(STE, abs=None) as report:
        for _ in range(3):
            y = x.round() + x.floor()
        y.abs()
    here = {row.where.split(":")[0] for row in (*report.replaced, *report.not_replaced)}
    assert here == {"test_through.py"}
    assert sorted(report.replaced.values()) == [3, 3]
    lines = str(report).splitlines()
    assert lines[0] == "replaced:"
    assert lines[1].split() == [
        "3",
        "x",
        "round",
        lines[1].split()[3],
        "Round()",
        "by",
        "StraightThrough(temperature=0.7)",
    ]
    assert lines[3] == "not replaced:"
    assert lines[4].split()[:3] == ["1", "x", "abs"]
    assert lines[4].endswith("no strategy chosen")
    assert max(map(len, lines)) <= 80
    with through(STE) as report:
        nn.ReLU()(x)
    assert next(iter(report.replaced)).where.startswith("test_through.py")  # the model's line, not torch's
    with through(STE) as report:
        pass
    assert str(report) == "replaced: none\nnot replaced: none"


def test_noise_is_keyed_by_seed_step_and_call() -> None:
    x = X.clone().requires_grad_()

    def draw(**key: int) -> Tensor:
        with through(Rewrite(), **key):
            return torch.stack([x.round() - x, x.round() - x]).detach()

    before = torch.get_rng_state()
    assert torch.equal(draw(seed=1, step=2), draw(seed=1, step=2))
    assert not torch.equal(draw(seed=1, step=2), draw(seed=2, step=1))
    assert not torch.equal(*draw())
    assert torch.equal(torch.get_rng_state(), before)
    block = through(Rewrite())
    with block:
        first = x.round()
    with block:
        assert not torch.equal(x.round(), first)  # goes on


def test_T_is_the_temperature_of_all() -> None:
    x = X.clone().requires_grad_()
    for T in (0.05, torch.tensor(0.05)):
        with through(SOFT, T=T):
            torch.testing.assert_close(x.round(), SOFT(Round(), x, T=0.05))


def test_of_nested_blocks_the_innermost_counts_and_errors_leave_both() -> None:
    x = X.clone().requires_grad_()
    with through(STE) as outer:
        mask = x > 0
        with through(SUB, abs=None) as inner:
            assert torch.autograd.grad(x.round().sum(), x)[0].eq(0).all()
            x.abs()
            assert torch.autograd.grad(mask.double().sum(), x)[0].any()  # made outside: the outer strategy's
        assert torch.autograd.grad(x.round().sum(), x)[0].eq(1).all()
        with pytest.raises(KeyError), through(SUB):
            raise KeyError
        assert torch.autograd.grad(x.round().sum(), x)[0].eq(1).all()
    assert {row.call for row in outer.replaced} == {"round", ">"}
    assert [row.call for row in inner.replaced] == ["round"]
    assert torch.autograd.grad(x.round().sum(), x)[0].eq(0).all()


def test_a_block_holds_for_the_thread_that_enters_it() -> None:
    x = X.clone().requires_grad_()
    slopes: list[float] = []

    def other() -> None:
        slopes.append(torch.autograd.grad(x.round().sum(), x)[0].sum().item())
        with through(STE):
            slopes.append(torch.autograd.grad(x.round().sum(), x)[0].sum().item())

    with through(SUB):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert slopes == [0.0, 12.0]


@pytest.mark.slow
def test_a_compiled_function_under_a_block_runs_as_it_is_written() -> None:
    x = X.clone().requires_grad_()

    def f(x: Tensor) -> Tensor:
        return (x.round() + (x > 0).double()).sum()

    def inside(x: Tensor) -> Tensor:
        with through(STE):
            return f(x)

    right = torch.autograd.grad(inside(x), x)[0]
    with through(STE):
        assert torch.equal(torch.autograd.grad(torch.compile(f, backend="eager")(x), x)[0], right)
    assert torch.equal(torch.autograd.grad(torch.compile(inside, backend="eager")(x), x)[0], right)
    with pytest.raises(RuntimeError), through(STE):
        torch.compile(f, backend="eager", fullgraph=True)(x)


# whole models


def block() -> nn.Module:
    """A residual block as torchvision writes it: in-place activations, pooling."""

    class Basic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
            self.norm, self.relu = nn.BatchNorm2d(3), nn.ReLU(inplace=True)
            self.pool = nn.MaxPool2d(3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            out = self.second(self.relu(self.norm(self.first(x))))
            out += x
            return self.pool(self.relu(out))

    torch.manual_seed(0)
    return Basic().double().eval()


def test_a_residual_block() -> None:
    model, x = block(), number(3, 2, 3, 8, 8)
    with through(STE) as report:
        y = model(x)
    assert torch.equal(y, model(x))
    assert sum(report.replaced.values()) == 3
    assert not report.not_replaced
    with through(SUB):  # away from ties autograd's own derivative
        got = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    right = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for a, b in zip(got, right, strict=True):
        torch.testing.assert_close(a, b)


def test_a_quantizer_written_by_hand_has_exactly_its_levels() -> None:
    """Case B01: not one level more than the plain model has."""
    x, scale = (10 * number(5, 5000)).float(), torch.tensor(0.1)

    def quantizer(x: Tensor, scale: Tensor) -> Tensor:
        return (x / scale).round().clamp(-8, 7) * scale

    with through(STE) as report:
        a, s = x.clone().requires_grad_(), scale.clone().requires_grad_()
        y = quantizer(a, s)
    assert torch.equal(y, quantizer(x, scale))
    assert y.unique().numel() == 16
    assert len(report.replaced) == 2
    by_x, by_scale = torch.autograd.grad(y.sum(), (a, s))
    codes = (x / scale).round()
    passing = ((codes >= -8).float() + (codes > -8) + (codes <= 7) + (codes < 7) - 2) / 2  # 1/2 on the bounds
    torch.testing.assert_close(by_x, passing)
    learned_step = codes.clamp(-8, 7) - passing * x / scale
    torch.testing.assert_close(by_scale, learned_step.sum(), rtol=1e-4, atol=1e-2)


def test_attention_on_the_best_key_alone() -> None:
    q, k, v = number(1, 5, 3), number(2, 6, 3), number(3, 6, 2)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.one_hot((q @ k.t()).argmax(-1), 6).to(v.dtype) @ v

    def soft(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.t()
        p, hard = (scores / 0.7).softmax(-1), F.one_hot(scores.argmax(-1), 6).double()
        return (hard + p - p.detach()) @ v

    with through(STE):
        assert torch.equal(attend(*(t.clone().requires_grad_() for t in (q, k, v))), attend(q, k, v))
        got = gradients(attend, [q, k, v])
    for a, b in zip(got, gradients(soft, [q, k, v]), strict=True):
        torch.testing.assert_close(a, b)


def test_spikes_over_time() -> None:
    """Leaky integrate-and-fire with reset by subtraction, the threshold written as a comparison."""
    drive = number(4, 6, 5)

    def run(drive: Tensor, fire: Callable[[Tensor], Tensor]) -> Tensor:
        state, out = torch.zeros(5, dtype=drive.dtype), []
        for current in drive:
            state = 0.9 * state + current
            spike = fire(state - 1)
            state = state - spike
            out.append(spike)
        return torch.stack(out)

    with through(SOFT):
        got = gradients(lambda d: run(d, lambda u: (u > 0).double()), [drive])
    right = gradients(lambda d: run(d, lambda u: SOFT(Heaviside(zero=0.0), u)), [drive])
    torch.testing.assert_close(got, right)


def test_a_threshold_in_the_loss_no_longer_cuts_the_graph() -> None:
    """Case A01."""
    x = torch.tensor([0.2, 1.7], requires_grad=True)
    with through(STE):
        (x > 0.5).float().sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_boolean_indexing_is_named_in_the_report() -> None:
    """Case A04."""
    limit, x = torch.tensor(1.5, requires_grad=True), number(0, 10, 3).float().requires_grad_()
    with through(STE) as report:
        y = x[x.norm(dim=1) < limit]
    assert torch.equal(y, x.detach()[x.detach().norm(dim=1) < 1.5])
    assert [(row.call, row.fate) for row in report.not_replaced] == [
        ("<", "its result is used by []: boolean indexing has no derivative by the mask")
    ]
