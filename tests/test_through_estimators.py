"""through where the code has an estimator already: a detach trick in any order, no_grad, a custom Function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations, product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, jvp, vmap

from each import each
from products import gradients
from surrogates import through
from surrogates.core import Strategy
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.own_model.replacements import Occurrence
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

X = torch.tensor([[-1.7, -0.4, 0.3], [0.8, 1.2, 2.6]], dtype=torch.float64)
WEIGHT = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
HARD = [Subgradient(), StraightThrough(), StraightThrough(carrier="identity", temperature=0.7)]
SOFT = Smooth(temperature=0.4)
Function = Callable[[Tensor], Tensor]
Variant = Callable[[Function, Tensor], Tensor]


def ternary(x: Tensor) -> Tensor:
    return (x / 0.8).round().clamp(-1, 1) * 0.8


# hard functions as the code calls them, and by strategies
FUNCTIONS: dict[str, tuple[Function, Callable[[Strategy, Tensor], Tensor]]] = {
    "round": (torch.round, lambda s, x: s(Round(), x)),
    "sign": (Tensor.sign, lambda s, x: s(Sign(), x)),
    "one-hot": (lambda x: nn.functional.one_hot(x.argmax(-1), 3), lambda s, x: s(ArgMax(), x)),
    "ternary": (ternary, lambda s, x: clip(s, s(Round(), x / 0.8)) * 0.8),
}


def clip(s: Strategy, x: Tensor) -> Tensor:
    s = Subgradient() if isinstance(s, StraightThrough) else s
    return s(Minimum(), s(Maximum(), x, torch.full_like(x, -1.0)), torch.full_like(x, 1.0))


TERMS: dict[str, Variant] = {
    "q": lambda q, x: q(x),
    "q.detach()": lambda q, x: q(x).detach(),
    "x": lambda q, x: x,
    "-x.detach()": lambda q, x: -x.detach(),
    "(q - x).detach()": lambda q, x: (q(x) - x).detach(),
    "-(x - q).detach()": lambda q, x: -(x - q(x)).detach(),
    "(q - x).data": lambda q, x: (q(x) - x).data,
}
SUMS = {
    **{f"{a} + {b} + {c}": (a, b, c) for q in ("q", "q.detach()") for a, b, c in permutations((q, "x", "-x.detach()"))},
    **{f"{a} + {b}": (a, b) for d in list(TERMS)[4:] for a, b in permutations((d, "x"))},
}


def from_left(q: Function, x: Tensor, names: tuple[str, ...]) -> Tensor:
    total = TERMS[names[0]](q, x)
    for name in names[1:]:
        total = total + TERMS[name](q, x)
    return total


def from_right(q: Function, x: Tensor, names: tuple[str, ...]) -> Tensor:
    first, *rest = (TERMS[name](q, x) for name in names)
    return first + (rest[0] if len(rest) == 1 else rest[0] + rest[1])


TRICKS: dict[str, Variant] = {
    **{f"{name} from the left": lambda q, x, n=names: from_left(q, x, n) for name, names in SUMS.items()},
    **{f"{name} from the right": lambda q, x, n=names: from_right(q, x, n) for name, names in SUMS.items()},
    "differences": lambda q, x: q(x).detach() - x.detach() + x,
    "x - (x - q).detach()": lambda q, x: x - (x - q(x)).detach(),
    "functions": lambda q, x: torch.add(x, torch.sub(q(x), x).detach()),
    "with another summand": lambda q, x: x + (1 + x.exp() + (q(x) - x).detach()) - x.exp() - 1,
}
THROWN_AWAY: dict[str, tuple[Variant, str]] = {
    "a share": (lambda q, x: x + 0.5 * (q(x) - x).detach(), ".detach()"),
    "in place": (lambda q, x: (x * 1).add_((q(x) - x).detach()), ".detach()"),
    "detach_": (lambda q, x: x + (q(x) - x).detach_(), ".detach()"),
    "a product": (lambda q, x: x * q(x).detach(), ".detach()"),
    "data": (lambda q, x: x * q(x).data, ".data"),
    "no_grad": (lambda q, x: x + outside_graph(q(x), x), "torch.no_grad"),
    "alpha": (lambda q, x: torch.add(x, (q(x) - x).detach(), alpha=2), ".detach()"),
    "another x": (lambda q, x: x * 1 + (q(x) - x * 1).detach(), ".detach()"),
}


@torch.no_grad()
def outside_graph(q: Tensor, x: Tensor) -> Tensor:
    return q - x


def value_and_slope(function: Function) -> tuple[Tensor, Tensor]:
    x = X.clone().requires_grad_()
    y = function(x * 1)
    return y.detach(), torch.autograd.grad(y, x, WEIGHT)[0]


def fates(counts: dict[Occurrence, int]) -> set[tuple[str, str]]:
    return {(row.call, row.fate) for row in counts}


@each("name", TRICKS)
def test_a_detach_trick_gets_the_derivative_of_its_value(name: str) -> None:
    """Case K25."""
    agree(name, [("ternary", StraightThrough())])


@pytest.mark.slow
@each("name", TRICKS)
def test_every_detach_trick_gets_every_derivative_of_its_value(name: str) -> None:
    agree(name, product(FUNCTIONS, [*HARD, SOFT]))


def agree(name: str, cases: Iterable[tuple[str, Strategy]]) -> None:
    """Values bit for bit those of the plain code, if the strategy is hard; derivatives those of the reference."""
    for function, s in cases:
        q, reference = FUNCTIONS[function]
        plain, _ = value_and_slope(lambda x, q=q: TRICKS[name](q, x))
        with through(s) as report:
            value, slope = value_and_slope(lambda x, q=q: TRICKS[name](q, x))
        right, right_slope = value_and_slope(lambda x, r=reference, s=s: r(s, x))
        if s.soft_forward:
            torch.testing.assert_close(value, right)
        else:
            assert torch.equal(value, plain)
        torch.testing.assert_close(slope, right_slope)
        assert report.replaced
        assert not report.not_replaced


@each("name", THROWN_AWAY)
def test_a_derivative_that_is_thrown_away_is_reported(name: str) -> None:
    """Case K25: the plain code's derivative, and no call counts as replaced."""
    variant, by = THROWN_AWAY[name]
    for q, s in product((torch.round, Tensor.sign), [*HARD, SOFT]):
        plain, plain_slope = value_and_slope(lambda x, q=q: variant(q, x))
        x = X.clone().requires_grad_()
        with through(s) as report:
            y = variant(q, x * 1)
        before = dict(report.not_replaced)
        slope = torch.autograd.grad(y, x, WEIGHT)[0]
        assert not report.replaced
        assert report.not_replaced == before
        ((_, fate),) = fates(before)
        assert fate.startswith("its value is soft") == s.soft_forward
        assert f"its derivative is thrown away by {by} at test_through_estimators.py" in fate
        if not s.soft_forward:
            assert torch.equal(y.detach(), plain)
            torch.testing.assert_close(slope, plain_slope)


def test_a_call_that_a_backward_pass_reaches_counts_as_replaced() -> None:
    x = X.clone().requires_grad_()
    with through("ste") as report:
        loss = x.round().square().sum()
        history = [loss.detach()]
    assert not report.replaced
    loss.backward()
    assert not report.not_replaced
    assert fates(report.replaced) == {("round", "Round() by StraightThrough()")}
    assert history[0] == loss


def test_two_uses_of_one_call() -> None:
    """The stop-gradient of a codebook loss stays, and the straight-through sum beside it is recognised."""
    x = X.clone().requires_grad_()
    with through("smooth") as report:
        q = x.round()
        commitment = (x - q.detach()).square()
        y = x + (q - x).detach()
    (by_commitment,) = torch.autograd.grad(commitment, x, WEIGHT, retain_graph=True)
    torch.testing.assert_close(by_commitment, 2 * WEIGHT * (x - q).detach())
    torch.autograd.grad(y.sum(), x)
    assert not report.not_replaced


@each("s", [StraightThrough(), SOFT])
def test_a_vector_quantizer(s: Strategy) -> None:
    """The codes and their choice get the derivative of the chosen rows."""
    codes = torch.tensor([[1.0, 0.0, 0.5], [-1.0, 0.5, 0.0]], dtype=torch.float64)

    def quantize(x: Tensor, codes: Tensor) -> Tensor:
        index = (x.unsqueeze(1) - codes).square().sum(-1).argmin(1)
        return x + (codes[index] - x).detach()

    def reference(x: Tensor, codes: Tensor) -> Tensor:
        return s(ArgMin(), (x.unsqueeze(1) - codes).square().sum(-1)) @ codes

    with through(s) as report:
        value = quantize(X.clone().requires_grad_(), codes)
        slopes = gradients(quantize, [X, codes], WEIGHT)
    torch.testing.assert_close(value, reference(X, codes))
    for slope, right in zip(slopes, gradients(reference, [X, codes], WEIGHT), strict=True):
        torch.testing.assert_close(slope, right)
    assert not report.not_replaced


def test_a_scaled_gradient_is_no_estimator() -> None:
    """(h - a h).detach() + a h has the value of h and a times its derivative, h itself a replaced call."""

    def scaled(x: Tensor) -> Tensor:
        h = x.round()
        return (h - h * 0.1).detach() + h * 0.1

    with through(StraightThrough(carrier="identity")):
        _, slope = value_and_slope(scaled)
    torch.testing.assert_close(slope, 0.1 * WEIGHT)


def test_layers_one_after_another() -> None:
    """Each layer's estimator is recognised; the calls before it keep theirs."""

    def net(q: Function, x: Tensor) -> Tensor:
        for _ in range(5):
            x = (x + (q(x) - x).detach()) * 1.3
        return x

    with through(StraightThrough(carrier="identity")) as report:
        value, slope = value_and_slope(lambda x: net(torch.round, x))
    assert torch.equal(value, net(torch.round, X))
    torch.testing.assert_close(slope, WEIGHT * 1.3**5)
    assert sum(report.replaced.values()) == 5
    assert not report.not_replaced


@pytest.mark.slow
@each("name", ["x + (q - x).detach()", "q - x.detach() + x"])
def test_a_detach_trick_under_the_transforms_of_torch_func(name: str) -> None:
    tricks: dict[str, Function] = {
        "x + (q - x).detach()": lambda x: x + (x.round() - x).detach(),
        "q - x.detach() + x": lambda x: x.round() - x.detach() + x,
    }
    trick = tricks[name]
    right = gradients(lambda x: SOFT(Round(), x), [X], WEIGHT)[0]
    for slope in (
        grad(lambda x: (trick(x) * WEIGHT).sum()),
        lambda x: vmap(grad(lambda x, w: (trick(x) * w).sum()))(x, WEIGHT),
        lambda x: gradients(lambda x: vmap(trick)(x), [x], WEIGHT)[0],
    ):
        with through(SOFT) as report:
            torch.testing.assert_close(slope(X), right)
        assert report.replaced
        assert not report.not_replaced
    with through(SOFT) as report:
        jvp(trick, (X,), (WEIGHT,))
    assert (".detach()", "in forward mode it is unknown whose derivatives it throws away") in fates(report.not_replaced)


class RoundWithCtx(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class RoundWithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.round(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Spike(RoundWithCtx):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x > 0).float()


def test_a_comparison_in_a_custom_function_is_reported() -> None:
    """Neurons of other libraries fire so; a comparison of plain numbers elsewhere is no hard step of the model."""
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with through("ste") as report:
        Spike.apply(x) * (x.detach() > 0)
    found = [(row.call, row.fate) for row in report.not_replaced]
    assert found == [(">", "inside Spike, a custom Function with its own backward")]


@each("custom", [RoundWithCtx, RoundWithSetup])
def test_a_custom_function_is_named(custom: type[torch.autograd.Function]) -> None:
    """Case K25: no half of a quantizer becomes soft; a clip with a hard value is replaced."""
    inside = f"inside {custom.__name__}, a custom Function with its own backward"

    def quantize(x: Tensor) -> Tensor:
        return (custom.apply(x / 0.8) + 1).clamp(0, 2).relu()

    for s in (*HARD, SOFT):
        plain, _ = value_and_slope(quantize)
        with through(s) as report:
            value, _ = value_and_slope(quantize)
        assert torch.equal(value, plain)
        assert ("round", inside) in fates(report.not_replaced)
        hard_codes = f"it acts on the result of round inside {custom.__name__}, which stays hard"
        assert (("clamp", hard_codes) in fates(report.not_replaced)) == s.soft_forward
        assert {row.call for row in report.replaced} == (set() if s.soft_forward else {"clamp", "relu"})


def test_a_soft_input_of_a_custom_function_is_reported() -> None:
    x = X.clone().requires_grad_()
    with through("smooth") as report:
        RoundWithCtx.apply(x / x.abs().amax())
    (fate,) = (row.fate for row in report.not_replaced)
    assert fate.endswith("with its own backward; its input is soft, so the model is neither hard nor soft")


def test_nothing_is_remembered_after_the_block() -> None:
    block = through("ste")
    with block:
        x = nn.Parameter(X)
        x + (x.round() - x).detach()
        (x.round() * 1).detach()
    assert not block.replacer.detached.twins
