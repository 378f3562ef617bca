"""Each private name of torch that surrogates uses, and what is done where a torch does not have it."""

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from surrogates import through, torch_private
from surrogates.own_model.tracking import is_recorded
from surrogates.strategies.ste import StraightThrough

torch.set_num_threads(1)
NAMES = ("ACTIVE", "FUNCTORCH", "SET_FORWARD_MODE")


@pytest.fixture(params=[True, False], ids=["private", "public"])
def private(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in NAMES:
        assert getattr(torch_private, name) is not None
        if not request.param:
            monkeypatch.setattr(torch_private, name, None)
    return bool(request.param)


def test_transforms_are_seen(private: bool) -> None:
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        seen.append(torch_private.transforms_active())
        return x.sin().sum()

    x = torch.ones(3)
    function(x)
    for transform in (torch.func.grad(function), torch.vmap(function), torch.func.hessian(function)):
        transform(x)
    torch.func.jvp(function, (x,), (x,))
    assert seen == [False, True, True, True, True]


def test_a_derivative_that_a_transform_records_is_seen(private: bool) -> None:
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        seen.append(is_recorded(x))
        return x.sum()

    x = torch.ones(2, 3)
    torch.func.grad(lambda x: torch.vmap(function)(x).sum())(x)
    torch.vmap(torch.func.grad(function))(x)
    assert seen == [True, True]
    torch.vmap(function)(x)
    assert seen[2] is not private  # without the private names any transform counts as one that records


def test_wrappers_are_taken_off(private: bool) -> None:
    same: list[bool] = []

    def function(x: Tensor) -> Tensor:
        same.append(torch_private.innermost(x) is x)
        return x.sum()

    torch.func.grad(function)(torch.ones(2))
    assert same == [not private]


def test_through_gives_the_same_derivatives(private: bool) -> None:
    x = torch.tensor([0.4, 1.6, -0.2])

    def total(x: Tensor) -> Tensor:
        with through(StraightThrough()):
            return (torch.round(x) * x).sum()

    by_x = torch.round(x) + x
    torch.testing.assert_close(torch.func.grad(total)(x), by_x)
    torch.testing.assert_close(torch.vmap(torch.func.grad(total))(x.unsqueeze(1)).squeeze(1), by_x)
    with dual_level():
        dual = total(make_dual(x, torch.ones_like(x)))
        torch.testing.assert_close(unpack_dual(dual).tangent, by_x.sum())


def test_a_factor_in_a_sum_is_seen() -> None:
    x = torch.ones(2, requires_grad=True)
    sums = x + x, x - 1, torch.add(x, x), -x
    assert all(torch_private.adds_once(y.grad_fn) for y in sums)
    assert not torch_private.adds_once(torch.add(x, x, alpha=2).grad_fn)
    assert not torch_private.adds_once((x * x).grad_fn)  # as without the private name
