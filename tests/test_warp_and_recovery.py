"""The warp map of weight rounding, and sparse recovery with a planted support."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch

from experiments.oracles.setting import normal
from experiments.oracles.sparse_recovery import blurred_problems, gaussian, recovery_rate
from experiments.oracles.support_search import METHODS, greedy, straight_through
from experiments.oracles.warp import Cell, Regression, agreement
from experiments.oracles.warp import straight_through as plain

CELL = Cell()


def test_the_warp_keeps_borders_and_order_and_has_the_derivative_that_it_must():
    borders = CELL.width * (torch.arange(-4, 5, dtype=torch.float64) + 0.5)
    torch.testing.assert_close(CELL.warp(borders), borders, atol=1e-12, rtol=0)
    w = torch.linspace(-1, 1, 2001, dtype=torch.float64).requires_grad_()
    assert (CELL.warp(w).diff() > 0).all()
    assert torch.equal(CELL.rounded(CELL.warp(w)), CELL.rounded(w))
    (slope,) = torch.autograd.grad(CELL.warp(w).sum(), w)
    torch.testing.assert_close(slope * CELL.slope(w.detach()), torch.full_like(w, CELL.rate), atol=1e-9, rtol=1e-9)
    r = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000 * CELL.width
    assert (1 / CELL.slope(r)).mean().item() == pytest.approx(1 / CELL.rate, rel=1e-6)


def test_flow_under_the_warp_is_straight_through_and_its_error_halves_with_the_step():
    def off(steps: int) -> float:
        w, time = torch.tensor([0.03, 0.4], dtype=torch.float64), 3.0
        u = CELL.warp(w) - CELL.rate * time
        for _ in range(steps):
            w = w - time / steps * CELL.slope(w)
        return (CELL.warp(w) - u).abs().max().item()

    errors = [off(steps) for steps in (2000, 4000, 8000)]
    assert errors[0] < 0.02
    assert all(1.8 < a / b < 2.2 for a, b in itertools.pairwise(errors))


def test_a_trained_net_agrees_with_straight_through_only_when_warped():
    net = Regression(CELL, d=4, units=6, samples=16)
    w, lr = net.start(82), 0.5
    periodic = net.train(w, partial(torch.optim.SGD, lr=lr), 400, lambda w, g: g * CELL.slope(w))
    warped = net.train(CELL.warp(w), partial(torch.optim.SGD, lr=lr * CELL.rate), 400, plain)
    unwarped = net.train(w, partial(torch.optim.SGD, lr=lr), 400, plain)
    assert agreement(periodic, periodic) == 1
    assert agreement(periodic, warped) > agreement(periodic, unwarped)


def test_least_squares_on_a_support():
    problems = gaussian(3, trials=4, m=8, n=12)
    x = problems.least_squares(problems.support)
    assert problems.residual(x).max() < 1e-10
    wrong = problems.largest(normal((4, 12), 5))
    x = problems.least_squares(wrong)
    assert torch.equal((x != 0).double(), wrong)
    assert (problems.slope(x) * wrong).abs().max() < 1e-10
    half = torch.autograd.functional.jacobian(lambda x: 0.5 * problems.residual(x).square().sum(), x)
    torch.testing.assert_close(problems.slope(x), half)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_what_is_easy(method):
    problems = gaussian(2, trials=6, m=48, n=64)
    support, seen = METHODS[method](problems, 100)
    assert (support.sum(1) <= 2).all()
    assert recovery_rate(problems, support) >= 0.8
    assert (seen >= 1).all()


def test_among_nearly_parallel_columns_straight_through_finds_more_than_greed():
    problems = blurred_problems(4, trials=20)
    found, seen = straight_through(problems, 150)
    assert recovery_rate(problems, found) > recovery_rate(problems, greedy(problems)[0])
    assert seen.max() > 5


def test_with_independent_columns_subspace_pursuit_and_swaps_find_more_than_greed():
    problems = gaussian(14, trials=10)
    greedily = recovery_rate(problems, greedy(problems)[0])
    for method in ("subspace pursuit", "OMP with swaps", "normalised IHT"):
        support, _ = METHODS[method](problems, 20)
        assert recovery_rate(problems, support) > greedily
        assert (support.sum(1) == problems.k).all()


def test_several_nets_at_once_are_trained_independently():
    net = Regression(CELL, d=2, units=3, samples=5)
    w, sgd = net.start(82, 3), partial(torch.optim.SGD, lr=0.5)
    together = net.train(w, sgd, 20, plain)
    x, target = net.inputs(torch.Size([3])), net.predicted(net.start(81, 3), net.inputs(torch.Size([3])))
    alone = w[1].clone()
    for _ in range(20):
        alone = alone - 0.5 * net.gradient(alone, x[1], target[1])[1]
    torch.testing.assert_close(together[-1, 1, :-1], CELL.rounded(alone))
    shares = agreement(together, net.train(CELL.warp(w), sgd, 20, plain))
    assert shares.shape == (3,)
    assert ((shares >= 0) & (shares <= 1)).all()


def test_supports_have_one_size_even_if_a_least_squares_value_is_exactly_0():
    problems = gaussian(3, trials=2, m=6, n=8)
    a = problems.a.clone()
    a[0, :, 2:] = 0  # at most two entries of the first trial's x are not 0
    problems = replace(problems, a=a, y=a[:, :, 0] + a[:, :, 1])
    for method in METHODS:
        support, _ = METHODS[method](problems, 5)
        assert problems.residual(problems.least_squares(problems.largest(support)))[0] < 1e-9
