"""The score-function estimator (REINFORCE) around a loss, for models whose hard layers pick among categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from surrogates.core import Op, Strategy
from surrogates.hard_layer import HardLayer, hard_layers
from surrogates.sampling.categorical import check_categorical, draw


def score_function(loss: Callable[[], Tensor], model: nn.Module, samples: int = 2) -> Tensor:
    """mean_k (l_k - b_k) r_k + b_k over k = 1 .. `samples` calls of `loss`: value mean_k l_k, derivative unbiased.

    In call k every hard layer in training mode draws D ~ softmax(logits). l_k is the loss. r_k = p(D_k) / p(D_k) is 1
    with the derivative of log p(D_k). b_k is the mean of the other calls' losses, the leave-one-out baseline (Williams
    1992; Kool, van Hoof & Welling 2019). The derivatives, of every order, by everything that the logits and the loss
    depend on are unbiased estimates of those of E[loss]. No gradient passes through the draws.

    `loss` takes no argument and returns one number, or a loss a sample, of shape (batch,); the result has that shape. A
    layer's first dimension is the samples: `score_function(lambda: F.cross_entropy(model(x), y, reduction="none"),
    model).mean().backward()`. Noise is keyed as in training (`key_noise`).
    Raises ValueError if `samples` is below 2, the loss has another shape, or the model draws nothing.
    Raises EmptyCell if a layer's op does not pick among categories.
    """
    if samples < 2:
        raise ValueError(f"samples must be at least 2, as a call's baseline is the other calls' loss; got {samples}")
    losses, scores = [], []
    for _ in range(samples):
        with _draw_in_block(model) as drawn:
            losses.append(loss())
        scores.append(_log_probability(drawn, losses[-1]))
    values, log = torch.stack(losses), torch.stack(scores)
    baselines = (values.sum(0) - values).detach() / (samples - 1)
    return ((values - baselines) * torch.exp(log - log.detach()) + baselines).mean(0)


@dataclass(frozen=True)
class _Drawn(Strategy):
    """Draws without a derivative and keeps the log-probabilities of the draws."""

    log_probabilities: list[Tensor] = field(default_factory=list)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """The op's value for the draw."""
        assert noise is not None
        logits, one_hot = draw(op, x[0], noise)
        chosen = torch.where(one_hot > 0, torch.log_softmax(logits, -1), 0)
        self.log_probabilities.append(chosen.sum(-1))
        return op.chosen(one_hot).detach().to(x[0].dtype)

    def noisy(self, op: Op) -> bool:
        """True."""
        return True

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        """One uniform number a category."""
        return tuple(op.logits(x[0]).shape)


@contextmanager
def _draw_in_block(model: nn.Module) -> Iterator[list[Tensor]]:
    """Makes every hard layer draw in a block; yields the log-probabilities of the draws."""
    before: dict[HardLayer, Strategy] = {}
    strategy = _Drawn()
    try:
        for layer in hard_layers(model).values():
            check_categorical(layer.op, "score_function")
            before[layer], layer.acting = layer.acting, strategy
        yield strategy.log_probabilities
    finally:
        for layer, acting in before.items():
            layer.acting = acting


def _log_probability(drawn: list[Tensor], loss: Tensor) -> Tensor:
    """The log-probability of all draws together, one number for each of the loss."""
    if not drawn:
        raise ValueError("no hard layer drew; score_function needs a model with one in training mode, model.train()")
    if any(log.shape[: loss.dim()] != loss.shape for log in drawn):
        raise ValueError(
            f"the loss has shape {tuple(loss.shape)} and the draws {[tuple(log.shape) for log in drawn]}; "
            "loss must return one number, or a number for each sample in the draws' first dimension"
        )
    total: Tensor = sum(log.reshape(*loss.shape, -1).sum(-1) for log in drawn)  # type: ignore[assignment]
    return total
