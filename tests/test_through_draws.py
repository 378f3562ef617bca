"""through on torch's draws: the same numbers from the same generator, with the derivative of their expectation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from outcomes import assert_unchanged, facts
from torch import Tensor
from torch.func import grad, vmap

from each import each
from products import STRATEGY_CLASSES, generator
from surrogates import EmptyCell, through
from surrogates.core import Strategy
from surrogates.strategies.ste import StraightThrough

STE = StraightThrough()
P = torch.rand(4, 3, generator=generator(0), dtype=torch.float64)
VALUES = torch.randn(3, generator=generator(1), dtype=torch.float64)
Draw = Callable[[Tensor], Tensor]


def share(p: Tensor) -> Tensor:
    return p / p.sum(-1, keepdim=True)


# A draw, its result in numbers, and the expectation of these.
CASES: dict[str, tuple[Draw, Draw]] = {
    "bernoulli": (torch.bernoulli, lambda p: p),
    "of a tensor": (lambda p: p.bernoulli() * VALUES, lambda p: p * VALUES),
    "by keyword, of a turned tensor": (lambda p: torch.bernoulli(input=p.t()), lambda p: p.t()),
    "of every other column": (lambda p: torch.bernoulli(p[:, ::2]), lambda p: p[:, ::2]),
    "of nothing": (lambda p: torch.bernoulli(p[:0]), lambda p: p[:0]),
    "of one number": (lambda p: torch.bernoulli(p[0, 0]), lambda p: p[0, 0]),
    "in place": (lambda p: torch.zeros_like(p).bernoulli_(p), lambda p: p),
    "in place, by keyword": (lambda p: (p * 2).bernoulli_(p=p[0]), lambda p: p[0].expand(4, 3)),
    "in place, of bools": (
        lambda p: torch.zeros(2, 4, 3, dtype=torch.bool).bernoulli_(p) * VALUES,
        lambda p: p.expand(2, 4, 3) * VALUES,
    ),
    "in place, of integers": (
        lambda p: torch.zeros(4, 3, dtype=torch.int64).bernoulli_(p).to(p.dtype),
        lambda p: p,
    ),
    "trick in two parts": (lambda p: (torch.bernoulli(p) - p).detach() + p, lambda p: p),
    "trick in three parts": (lambda p: torch.bernoulli(p) + p - p.detach(), lambda p: p),
    "multinomial, one-hot": (lambda p: F.one_hot(torch.multinomial(p, 1), 3)[:, 0].to(p.dtype), share),
    "of a row": (lambda p: VALUES[p[0].multinomial(1)], lambda p: (share(p[0]) @ VALUES.to(p))[None]),
    "by keyword, of a turned matrix": (
        lambda p: VALUES[torch.multinomial(input=p[:3].t(), num_samples=1)],
        lambda p: (share(p[:3].t()) @ VALUES.to(p))[:, None],
    ),
    "with replacement": (
        lambda p: VALUES.expand(4, 3).gather(-1, p.multinomial(5, True)),
        lambda p: (share(p) @ VALUES.to(p))[:, None].expand(4, 5),
    ),
    "of no rows": (lambda p: VALUES[p[:0].multinomial(1)], lambda p: (share(p[:0]) @ VALUES.to(p))[:, None]),
    "as a number": (lambda p: p.multinomial(1).to(p.dtype), lambda p: share(p) @ torch.arange(3.0).to(p)[:, None]),
}


def drawn(function: Draw, p: Tensor) -> tuple[Tensor, Any]:
    """The result, and the generator's state after it."""
    torch.manual_seed(3)
    return function(p), facts(torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
@each("name", CASES)
def test_a_draw_has_the_derivative_of_its_expectation(name: str, dtype: torch.dtype) -> None:
    call, expectation = CASES[name]
    p = P.to(dtype, copy=True).requires_grad_()
    plain = drawn(call, p.detach())
    with through(STE) as report:
        y = drawn(call, p)
    assert torch.equal(y[0].detach(), plain[0])
    assert y[1] == plain[1]  # it draws once
    assert report.replaced
    assert not report.not_replaced
    weight = torch.randn(y[0].shape, generator=generator(2), dtype=torch.float64).to(y[0].dtype)
    (got,) = torch.autograd.grad((y[0] * weight).sum(), p)
    (right,) = torch.autograd.grad((expectation(p).to(y[0].dtype) * weight).sum(), p)
    torch.testing.assert_close(got, right)


@each("strategy", [cls for cls in STRATEGY_CLASSES.values() if cls is not StraightThrough])
def test_other_strategies_do_not_apply(strategy: type[Strategy]) -> None:
    p = P.clone().requires_grad_()
    for name in ("bernoulli", "multinomial, one-hot"):
        plain = drawn(CASES[name][0], P)
        with through(strategy()) as report:
            y = drawn(CASES[name][0], p)
        assert torch.equal(y[0].detach(), plain[0])
        assert y[1] == plain[1]
        ((call, fate, _),) = report.not_replaced
        assert call == name.partition(",")[0]
        assert fate.startswith("only straight-through applies to a draw; write (")
        with pytest.raises(EmptyCell), through(strategy(), empty="raise"):
            CASES[name][0](p)


def test_draws_have_names_of_their_own() -> None:
    p = P.clone().requires_grad_()
    with through(None, bernoulli=STE) as report:
        torch.bernoulli(p), p.multinomial(1)
    assert [row.call for row in report.replaced] == ["bernoulli"]
    assert [(row.call, row.fate) for row in report.not_replaced] == [("multinomial", "no strategy chosen")]


def test_what_has_no_expectation_in_ops_is_reported() -> None:
    p = P.clone().requires_grad_()
    with through(STE) as report:
        p.multinomial(2), (p * 1).bernoulli_(), torch.bernoulli(p, 0.5), (p * 1).bernoulli_(P)
        torch.zeros(3).bernoulli_(0.5), torch.bernoulli(P)  # without a derivative: no hard calls
        with torch.no_grad():
            torch.bernoulli(p), p.multinomial(1)
        torch.distributions.Categorical(p, validate_args=False).sample()
    assert not report.replaced
    assert [(row.call, row.fate.partition(";")[0], n) for row, n in report.not_replaced.items()] == [
        ("multinomial", "draws without replacement have no op", 1),
        ("bernoulli_", "no derivative by its probability is recorded", 2),
        ("bernoulli", "no derivative by its probability is recorded", 1),
        ("bernoulli", "drawn under torch.no_grad, as in Bernoulli.sample of torch.distributions", 1),
        ("multinomial", "drawn under torch.no_grad, as in Bernoulli.sample of torch.distributions", 1),
        ("multinomial", "sample() of torch.distributions has no derivative by definition", 1),
    ]


def test_a_policy_gradient_needs_draws_without_a_derivative() -> None:
    def gradient() -> Tensor:
        torch.manual_seed(0)
        logits = P.clone().requires_grad_()
        chosen = logits.softmax(-1).multinomial(1)
        loss = (logits.log_softmax(-1).gather(-1, chosen) * P[:, :1]).sum()
        return torch.autograd.grad(loss, logits)[0]

    plain = gradient()
    with through(STE, multinomial=None):
        assert torch.equal(gradient(), plain)
    with through(STE):
        assert not torch.equal(gradient(), plain)


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "no probability": lambda p: torch.bernoulli(p + 1),
    "NaN": lambda p: torch.bernoulli(p * torch.nan),
    "a leaf in place": lambda p: p.detach().requires_grad_().bernoulli_(p),
    "out": lambda p: torch.bernoulli(p, out=torch.empty_like(p)),
    "shapes": lambda p: torch.zeros(5).bernoulli_(p),
    "of nothing, p of another shape": lambda p: torch.zeros(0, 3).bernoulli_(p),
    "of a number": lambda p: torch.multinomial(p[0, 0], 1),
    "negative weights": lambda p: torch.multinomial(p - 1, 1),
    "no draw": lambda p: p.multinomial(0),
    "more draws than entries": lambda p: p.multinomial(4),
    "a generator": lambda p: torch.bernoulli(p, generator=generator(5)),
    "a generator for indices": lambda p: p.multinomial(2, True, generator=generator(5)),
}


@each("name", REFUSED)
def test_results_errors_and_draws_are_those_outside_the_block(name: str) -> None:
    assert_unchanged(STE, REFUSED[name], lambda: ((P.clone().requires_grad_() * 1,), {}))


def test_draws_under_the_transforms_of_torch_func() -> None:
    def f(p: Tensor) -> Tensor:
        return (torch.bernoulli(p) * VALUES + VALUES[p.multinomial(1)] * p.detach()).sum()

    right = VALUES + torch.stack([grad(lambda p: share(p) @ VALUES.to(p))(p) for p in P]) * P.sum(-1, keepdim=True)
    with through(STE):
        got = vmap(grad(f), randomness="different")(P)
    torch.testing.assert_close(got, right)
