"""Estimators against the exact derivative of an expectation, by enumeration: their mean, their bias, their variance."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from products import generator, uniform
from surrogates import EmptyCell, HardLayer
from surrogates.core import Op, Strategy
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.quantize import Quantize
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.sampling.score_function import score_function
from surrogates.strategies.dither import Dither
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.gumbel_rao import GumbelRao
from surrogates.strategies.perturbed import Perturbed
from surrogates.strategies.proximal import Proximal
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.zgr import ZGR

torch.set_num_threads(1)
DRAWS = 40_000
THETA = torch.tensor([0.3, -0.8, 1.1, 0.1], dtype=torch.float64)
Q = torch.randn(4, 4, generator=generator(5), dtype=torch.float64)
B = torch.randn(4, generator=generator(6), dtype=torch.float64)
Loss = Callable[[Tensor], Tensor]


def affine(z: Tensor) -> Tensor:
    return z @ B


def quadratic(z: Tensor) -> Tensor:
    return (z @ Q.T).square().sum(-1) + z @ B


def tanh(z: Tensor) -> Tensor:
    return torch.tanh(2 * z @ Q.T) @ B


def vertices(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


def exact(f: Loss, theta: Tensor = THETA) -> Tensor:
    """sum_k f(e_k) p_k (e_k - p)."""
    p, e = theta.softmax(-1), vertices(len(theta))
    return (f(e) * p) @ (e - p)


def slopes(f: Loss, n: int = 4) -> Tensor:
    """f'(e_k), a row each."""
    return torch.func.vmap(torch.func.grad(lambda z: f(z)))(vertices(n))


def covariance(q: Tensor) -> Tensor:
    return torch.diag(q) - torch.outer(q, q)


def straight_through_mean(f: Loss) -> Tensor:
    """sum_k p_k J f'(e_k)."""
    p = THETA.softmax(-1)
    return covariance(p) @ (p @ slopes(f))


def reinmax_mean(f: Loss, T: float = 1.0) -> Tensor:
    p, tempered, e, g = THETA.softmax(-1), (THETA / T).softmax(-1), vertices(4), slopes(f)
    return sum(p[k] * (2 * covariance(0.5 * (tempered + e[k])) - 0.5 * covariance(p)) @ g[k] for k in range(4))  # type: ignore[return-value]


def gradients_of_draws(strategy: Strategy, op: Op, x: Tensor, f: Loss, draws: int = DRAWS, seed: int = 1) -> Tensor:
    """The derivative of f of each of many draws, a row each."""
    rows = x.expand(draws, *x.shape).clone().requires_grad_()
    noise = uniform(rows.new_empty(strategy.noise_shape(op, rows)), seed)
    return torch.autograd.grad(f(strategy(op, rows, noise=noise)).sum(), rows)[0]


def within(rows: Tensor, expected: Tensor) -> bool:
    """Whether the mean is within 4 standard errors of what is expected, everywhere."""
    error = rows.std(0) / math.sqrt(len(rows))
    return bool(((rows.mean(0) - expected).abs() <= 4 * error + 1e-12).all())


@pytest.mark.parametrize("f", [affine, quadratic, tanh])
def test_one_categorical_by_enumeration(f: Loss) -> None:
    op = ArgMax()
    for strategy, expected in (
        (Sampled(), straight_through_mean(f)),
        (ReinMax(), reinmax_mean(f)),
        (ReinMax(temperature=1.5), reinmax_mean(f, 1.5)),
        (ZGR(), reinmax_mean(f)),
    ):
        assert within(gradients_of_draws(strategy, op, THETA, f), expected), strategy
    assert torch.allclose(reinmax_mean(f), exact(f), atol=1e-12) == (f is not tanh)
    assert torch.allclose(straight_through_mean(f), exact(f), atol=1e-12) == (f is affine)
    mirrored = gradients_of_draws(ReinMax(), ArgMin(), -THETA, f)
    assert within(mirrored, -reinmax_mean(f))


def test_a_biased_estimator_is_caught() -> None:
    rows = gradients_of_draws(Sampled(), ArgMax(), THETA, quadratic)
    assert not within(rows, exact(quadratic))


@pytest.mark.parametrize(("op", "low", "high"), [(Heaviside(), 0.0, 1.0), (Sign(zero=1.0), -1.0, 1.0)])
def test_one_bernoulli_by_enumeration(op: Op, low: float, high: float) -> None:
    """p (1 - p) times the way of f from low to high, as a difference, as ST's rule, and as the trapezoid rule."""
    theta = torch.tensor([-1.0], dtype=torch.float64)
    p = torch.sigmoid(theta).item()
    for f in (lambda z: (z - 0.45) ** 2, lambda z: torch.exp(0.7 * z)):
        ends = torch.tensor([low, high], dtype=torch.float64)
        at_low, at_high = torch.func.vmap(torch.func.grad(f))(ends).tolist()
        scale = p * (1 - p) * (high - low)
        st, trapezoid = scale * (p * at_high + (1 - p) * at_low), scale * 0.5 * (at_high + at_low)
        for strategy, expected in ((Sampled(), st), (ReinMax(), trapezoid), (ZGR(), trapezoid)):
            assert within(gradients_of_draws(strategy, op, theta, f), torch.tensor([expected])), strategy
    true = p * (1 - p) * ((high - 0.45) ** 2 - (low - 0.45) ** 2)
    assert scale * 0.5 * (2 * (high - 0.45) + 2 * (low - 0.45)) == pytest.approx(true)  # exact for a quadratic


def test_zgr_is_reinmax_at_one_draw_by_draw_and_the_mean_of_st_and_darn() -> None:
    zgr, reinmax, st = (gradients_of_draws(s, ArgMax(), THETA, tanh, 500) for s in (ZGR(), ReinMax(), Sampled()))
    torch.testing.assert_close(zgr, reinmax)
    p = THETA.softmax(-1)
    noise = uniform(torch.empty(500, 4, dtype=torch.float64), 1)
    chosen = ArgMax().hard(THETA - torch.log(-torch.log(noise)))
    g = torch.func.vmap(torch.func.grad(lambda z: tanh(z)))(chosen)
    darn = (chosen - p) * ((chosen - p) * g).sum(-1, keepdim=True)
    torch.testing.assert_close(zgr, 0.5 * (st + darn))


@pytest.mark.parametrize("T", [0.3, 1.0])
def test_gumbel_rao_is_the_mean_of_straight_through_gumbel_given_the_choice(T: float) -> None:
    for op, x, f in ((ArgMax(), THETA, tanh), (Sign(), THETA[:1], lambda z: torch.exp(0.7 * z).sum(-1))):
        rao = gradients_of_draws(GumbelRao(temperature=T, samples=4), op, x, f)
        plain = gradients_of_draws(Gumbel(temperature=T), op, x, f, seed=2)
        error = torch.sqrt((rao.var(0) + plain.var(0)) / DRAWS)
        assert ((rao.mean(0) - plain.mean(0)).abs() <= 4 * error).all()
        assert rao.var(0).sum() < plain.var(0).sum()
    noise = uniform(torch.empty(1001, 4, dtype=torch.float64))  # and, cold, with all its samples, it is zgr
    cold = THETA.clone().requires_grad_()
    rao = GumbelRao(temperature=0.002, samples=1000 * 400)
    many = torch.cat([noise[:1], uniform(torch.empty(400_000, 4, dtype=torch.float64), 3)])
    (limit,) = torch.autograd.grad(tanh(rao(ArgMax(), cold, noise=many)), cold)
    (zgr,) = torch.autograd.grad(tanh(ZGR()(ArgMax(), cold, noise=noise[0])), cold)
    torch.testing.assert_close(limit, zgr, atol=0.1 * zgr.abs().max().item(), rtol=0)


def test_gumbel_softmax_of_a_bernoulli_by_quadrature() -> None:
    """f = (z - 0.45)^2 at theta = -1, T = 1: the truth is +0.0197; both are known to have the wrong sign."""
    theta, f = torch.tensor([-1.0], dtype=torch.float64), lambda z: (z - 0.45) ** 2
    u = (torch.arange(400_000, dtype=torch.float64) + 0.5) / 400_000
    noise = torch.logit(u)
    s = torch.sigmoid(theta + noise)
    soft = (2 * (s - 0.45) * s * (1 - s)).mean()
    hard = (2 * ((theta + noise > 0).double() - 0.45) * s * (1 - s)).mean()
    assert [round(soft.item(), 4), round(hard.item(), 4)] == [-0.0145, -0.0381]
    for value, expected in (("soft", soft), ("hard", hard)):
        assert within(gradients_of_draws(Gumbel(value=value), Heaviside(), theta, f), expected), value


@pytest.mark.parametrize("kernel", ["logistic", "normal", "cauchy", "fast_sigmoid"])
def test_perturbed_is_unbiased_to_second_order_for_every_kernel(kernel: str) -> None:
    x, T = torch.tensor([0.3], dtype=torch.float64), 0.7
    for op in (Heaviside(), Quantize(2, -1.0, 1.0)):
        strategy = Perturbed(kernel=kernel, temperature=T, samples=1)
        rows = x.expand(DRAWS, 1).clone().requires_grad_()
        noise = uniform(torch.empty(1, DRAWS, 1, dtype=torch.float64), 4)
        (first,) = torch.autograd.grad(strategy(op, rows, noise=noise).sum(), rows, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), rows)
        smooth = lambda x, op=op: Smooth(kernel=kernel)(op, x, T=T).sum()  # noqa: E731
        assert within(first.detach(), torch.func.grad(smooth)(x)), op
        assert within(second, torch.func.hessian(smooth)(x)[0]), op


def test_perturbed_argmax_is_unbiased_and_its_control_variate_helps() -> None:
    rows = gradients_of_draws(Perturbed(samples=1), ArgMax(), THETA, affine)
    assert within(rows, exact(affine))
    more = gradients_of_draws(Perturbed(samples=8), ArgMax(), THETA, affine, 10_000)
    assert within(more, exact(affine))
    assert more.var(0).sum() < rows.var(0).sum() / 6
    for kernel in ("uniform", "triangular"):
        with pytest.raises(EmptyCell, match=f"'{kernel}' has no usable score"):
            Perturbed(kernel=kernel).check(Round())


class Choice(nn.Module):
    def __init__(self, theta: Tensor, op: Op) -> None:
        super().__init__()
        self.theta, self.layer = nn.Parameter(theta.clone()), HardLayer(op, Sampled())

    def forward(self, draws: int) -> Tensor:
        return self.layer(self.theta.expand(draws, *self.theta.shape))


@pytest.mark.parametrize("f", [quadratic, tanh])
def test_the_score_function_is_unbiased(f: Loss) -> None:
    """Rows are independent, so the derivative of their mean has a standard error of that of the rows."""
    theta = THETA.expand(DRAWS, 4).clone().requires_grad_()
    layer = HardLayer(ArgMax(), Sampled())
    estimate = score_function(lambda: f(layer(theta)), layer, samples=3)
    rows = torch.autograd.grad(estimate.sum(), theta)[0]
    assert within(rows, exact(f))
    assert within(estimate.detach().unsqueeze(-1), f(vertices(4)) @ THETA.softmax(-1))
    assert layer.acting == Sampled()
    model = Choice(THETA, ArgMax())
    total = score_function(lambda: f(model(2000)), model).mean()
    (got,) = torch.autograd.grad(total, model.theta)
    assert (got - exact(f)).norm() < 0.2 * exact(f).norm() + 0.1


def test_the_score_function_refuses_what_it_cannot_do() -> None:
    model = Choice(THETA, ArgMax())
    with pytest.raises(ValueError, match="at least 2"):
        score_function(lambda: model(3).sum(-1), model, samples=1)
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        score_function(lambda: model(3).sum(0), model)
    with pytest.raises(EmptyCell, match=r"score_function.*Round"):
        score_function(lambda: model(3).sum(-1), nn.Sequential(HardLayer(Round(), Sampled())))
    model.eval()
    with pytest.raises(ValueError, match="no hard layer drew"):
        score_function(lambda: model(3).sum(-1), model)


def test_dither_is_unbiased_and_its_derivative_is_the_identity() -> None:
    x = torch.linspace(-1.4, 1.4, 29, dtype=torch.float64)
    for op, mean in ((Round(), x), (Quantize(3, -1.0, 1.0), x.clamp(-1, 1))):
        rows = x.expand(20_000, -1).clone().requires_grad_()
        y = Dither()(op, rows, noise=uniform(rows))
        assert within(y.detach(), mean)
        assert set(y.detach().unique().tolist()) <= set(op.hard(torch.linspace(-3, 3, 601).double()).tolist())
        slope = torch.autograd.grad(y.sum(), rows)[0][0]
        assert torch.equal(slope, torch.ones_like(x) if op == Round() else ((x >= -1) & (x <= 1)).double())


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.1, 1e-9])
def test_proximal_is_the_published_map_with_the_derivative_of_the_latent(rho: float) -> None:
    op = Quantize(2, -1.0, 1.0)
    levels = torch.tensor([-1, -1 / 3, 1 / 3, 1], dtype=torch.float64)
    x = torch.linspace(-1.5, 1.5, 302, dtype=torch.float64).requires_grad_()
    index = torch.bucketize(x.detach(), levels)
    low, high = levels[(index - 1).clamp(min=0)], levels[index.clamp(max=3)]
    centre = (low + high) / 2
    expected = torch.maximum(low, torch.minimum(high, centre + (x.detach() - centre) / rho))
    y = Proximal()(op, x, T=rho)
    torch.testing.assert_close(y.detach(), expected)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(slope, (x.abs() <= 1).double())


def test_what_has_no_second_derivative_refuses_it() -> None:
    x = THETA.clone().requires_grad_()
    noise = uniform(THETA)
    for strategy in (ZGR(), ReinMax()):
        (g,) = torch.autograd.grad(quadratic(strategy(ArgMax(), x, noise=noise)), x, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.autograd.grad(g.sum(), x)
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.func.hessian(lambda x, s=strategy: quadratic(s(ArgMax(), x, noise=noise)))(THETA)


def test_bad_numbers_are_refused_by_name() -> None:
    for make, words in (
        (lambda: ReinMax(temperature=0.9), "temperature of reinmax must be at least 1, got 0.9"),
        (lambda: ReinMax(schedule="linear", final_temperature=0.5), "final_temperature of reinmax"),
        (lambda: Perturbed(samples=0), "samples must be a whole number of at least 1, got 0"),
        (lambda: GumbelRao(samples=2.0), "samples must be"),
        (lambda: Proximal(temperature=1.5), "rho, must be at most 1, got 1.5"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(ValueError, match=r"needs noise.*shape \(8, 4\); got \(4,\)"):
        Perturbed()(ArgMax(), THETA, noise=uniform(THETA))
