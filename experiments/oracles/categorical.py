"""Exact gradient of one discrete variable, by enumeration: z one-hot of law p = softmax(theta), J = diag(p) - p p'.

d/dtheta E f(z) = sum_k f(e_k) p_k (e_k - p). In the mean, straight-through gives J sum_k p_k f'(e_k), ReinMax
sum_k p_k (2 J(q_k) - J(p) / 2) f'(e_k) with q_k = (softmax(theta / T) + e_k) / 2 (Liu et al. 2023, arXiv 2304.08612),
the soft forward J f'(p). For a Bernoulli the truth is p (1 - p) (f(1) - f(0)); straight-through p (1 - p) times the
mean of f'(z), ReinMax the trapezoid rule.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from experiments.oracles.setting import Act, Setting, normal, stream
from surrogates.core import Strategy
from surrogates.ops.argmax import ArgMax
from surrogates.ops.heaviside import Heaviside

Function = Callable[[Tensor], Tensor]  # of (..., n), to (...)


def expected(f: Function, theta: Tensor) -> Tensor:
    """E f(z)."""
    return theta.softmax(-1) @ f(_vertices(theta))


def exact(f: Function, theta: Tensor) -> Tensor:
    """d/dtheta E f(z), by the formula above."""
    p, e = theta.softmax(-1), _vertices(theta)
    return (f(e) * p) @ (e - p)


def straight_through_mean(f: Function, theta: Tensor) -> Tensor:
    """Mean of straight-through with the derivative of softmax."""
    p = theta.softmax(-1)
    return _covariance(p) @ (p @ _slopes(f, theta))


def reinmax_mean(f: Function, theta: Tensor, T: float = 1.0) -> Tensor:
    """Mean of ReinMax."""
    p, e, g = theta.softmax(-1), _vertices(theta), _slopes(f, theta)
    terms = [
        p[k] * (2 * _covariance(0.5 * ((theta / T).softmax(-1) + e[k])) - 0.5 * _covariance(p)) @ g[k]
        for k in range(len(p))
    ]
    return torch.stack(terms).sum(0)


def by_choice(strategy: Strategy, f: Function, theta: Tensor, draws: int = 1, seed: int = 0) -> Tensor:
    """Returns the strategy's derivatives for each choice, (n, draws, n); noise that the choice leaves free is drawn."""
    n = len(theta)
    rows = theta.expand(n, draws, n).clone().requires_grad_()
    leading = 0.5 + (0.5 - 1e-15) * _vertices(theta).unsqueeze(1).expand_as(rows)
    shape = strategy.noise_shape(ArgMax(), rows) or rows.shape
    noise = torch.rand(shape, generator=stream(seed), dtype=theta.dtype).view(-1, *rows.shape)
    noise[0] = leading
    z = strategy(ArgMax(), rows, noise=noise.view(shape))
    if not torch.equal(z.detach(), _vertices(theta).unsqueeze(1).expand_as(rows)):
        raise ValueError(f"{strategy} did not choose the categories that its noise selects")
    return torch.autograd.grad(f(z).sum(), rows)[0]


def rescaled(strategy: Strategy, f: Function, theta: Tensor, draws: int = 1, seed: int = 0) -> tuple[float, float]:
    """Squared bias and total variance after the mean is rescaled to the truth's norm (Hooper & Shekhovtsov 2026).

    The choices are enumerated; `draws` a choice serve strategies that have further noise.
    """
    p, truth, rows = theta.softmax(-1), exact(f, theta), by_choice(strategy, f, theta, draws, seed)
    mean = p @ rows.mean(1)
    scale = truth.norm() / mean.norm()
    variance = scale**2 * (p @ (rows - mean).square().sum(-1).mean(1))
    return (scale * mean - truth).square().sum().item(), variance.item()


def published_problem(dim: int, seed: int) -> tuple[Function, Tensor]:
    """Draws f(z) = z'Q'Qz + b'z and theta as Hooper & Shekhovtsov 2026: Q, b, theta after `manual_seed(seed)`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        q, b, theta = (torch.randn(shape).double() for shape in ((dim, dim), (dim,), (dim,)))
    return partial(quadratic, q=q, b=b), theta


def quadratic(z: Tensor, q: Tensor, b: Tensor) -> Tensor:
    """|Q z|^2 + b'z."""
    return (z @ q.T).square().sum(-1) + z @ b


def tanh(z: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """b' tanh(W z)."""
    return torch.tanh(z @ w.T) @ b


def settings() -> list[Setting]:
    """One of five categories under a quadratic and a tanh loss; one Bernoulli bit under (z - 0.45)^2 and |.|^3."""
    q, b, theta = normal((5, 5), 1), normal((5,), 2), normal((5,), 3)
    functions: dict[str, Function] = {"quadratic": partial(quadratic, q=q, b=b), "tanh": partial(tanh, w=2 * q, b=b)}
    found = [
        Setting(
            f"categorical, {name} loss",
            "Gumbel noise",
            ArgMax(),
            theta,
            exact(f, theta),
            partial(_on_rows, f),
            draws=20_000,
        )
        for name, f in functions.items()
    ]
    theta = torch.tensor([-1.0], dtype=torch.float64)
    p = torch.sigmoid(theta)
    for power in (2, 3):
        truth = p * (1 - p) * (0.55**power - 0.45**power)
        loss = partial(_on_bit, power)
        name = f"Bernoulli, |z - 0.45|^{power}"
        found.append(Setting(name, "logistic noise", Heaviside(), theta, truth, loss, draws=20_000))
    return found


def _on_rows(f: Function, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return f(act(rows))


def _on_bit(power: int, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return (act(rows) - 0.45).abs().pow(power).squeeze(-1)


def _vertices(theta: Tensor) -> Tensor:
    return torch.eye(len(theta), dtype=theta.dtype)


def _slopes(f: Function, theta: Tensor) -> Tensor:
    """Returns f'(e_k), one row each."""
    e = _vertices(theta).requires_grad_()
    return torch.autograd.grad(f(e).sum(), e)[0]


def _covariance(q: Tensor) -> Tensor:
    return torch.diag(q) - torch.outer(q, q)
