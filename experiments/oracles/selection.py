"""Exact gradients of max, argmax and top-k under Gumbel noise of scale T.

E max_i (x_i + T g_i) = T logsumexp(x / T), g centred (plus gamma T for the plain Gumbel law), with the exact gradient
softmax(x / T); E one_hot(argmax) = softmax(x / T). The k largest in their order follow Plackett and Luce's law,
P(i_1, .., i_k) = prod_j w_{i_j} / (sum w - w_{i_1} - .. - w_{i_{j-1}}), w = exp(x / T), which is enumerated here. Any
loss f of the chosen set S has the exact gradient sum_S f(S) dP(S).
"""

from __future__ import annotations

from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from experiments.oracles.categorical import quadratic
from experiments.oracles.setting import Act, Setting, gradient, normal
from surrogates.ops.max import Max
from surrogates.ops.top_k_mask import TopKMask


def ordered_choices(n: int, k: int) -> Tensor:
    """Lists all ordered choices of k of n, (n! / (n - k)!, k)."""
    return torch.tensor(list(permutations(range(n), k)))


def plackett_luce(x: Tensor, choices: Tensor, T: float = 1.0) -> Tensor:
    """Computes the probability of each ordered choice (C, k) for logits x (n,)."""
    w = (x / T).softmax(-1)[choices]
    left = 1 - torch.cat([torch.zeros_like(w[:, :1]), w[:, :-1].cumsum(-1)], -1)
    return (w / left).prod(-1)


def masks(choices: Tensor, n: int) -> Tensor:
    """Converts choices (C, k) to k-hot vectors (C, n)."""
    return torch.zeros(len(choices), n, dtype=torch.float64).scatter(1, choices, 1.0)


def settings() -> list[Setting]:
    """The maximum of six; the top two of five, under a linear and a quadratic loss of the set."""
    x = normal((6,), 50)
    loss = partial(_on_rows, torch.nn.Identity())
    found = [Setting("max of 6", "Gumbel noise", Max(), x, x.softmax(-1), loss)]
    x, q, b = normal((5,), 51), normal((5, 5), 52), normal((5,), 53)
    choices = ordered_choices(5, 2)
    for name, f in (("linear", partial(quadratic, q=0 * q, b=b)), ("quadratic", partial(quadratic, q=q, b=b))):
        values = f(masks(choices, 5))
        truth = gradient(lambda x, values=values: plackett_luce(x, choices) @ values, x)  # type: ignore[misc]
        title = f"top 2 of 5, {name} loss"
        found.append(Setting(title, "Gumbel noise", TopKMask(k=2), x, truth, partial(_on_rows, f)))
    return found


def _on_rows(f: torch.nn.Module | partial[Tensor], act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return f(act(rows))
