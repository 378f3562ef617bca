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

    In call k every hard layer of the model that is in training draws D ~ softmax(logits); l_k is the loss,
    r_k = p(D_k) / p(D_k), 1 with the derivative of log p(D_k), and b_k the mean of the other calls' losses, the
    leave-one-out baseline (Williams 1992; Kool, van Hoof & Welling 2019). Derivatives of every order by what the
    logits and the loss depend on are unbiased estimates of those of E[loss]; no gradient passes through the draws.

    `loss` takes no argument and returns a loss a sample, of shape (batch,), or one number; a layer's draws are those of
    the samples in its first dimension. The result has that shape: `score_function(lambda: F.cross_entropy(model(x), y,
    reduction="none"), model).mean().backward()`. Noise is keyed as in training (`key_noise`).
    Raises ValueError for fewer than two samples, a loss of another shape or a model that draws nothing, EmptyCell for a
    layer whose op does not pick among categories.
    """
    if samples < 2:
        raise ValueError(f"samples must be at least 2, each call's baseline being the others' loss; got {samples}")
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
    """A draw without a derivative, whose log-probability is kept."""

    log_probabilities: list[Tensor] = field(default_factory=list)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """The value for the draw."""
        assert noise is not None
        logits, one_hot = draw(op, x[0], noise)
        chosen = torch.where(one_hot > 0, torch.log_softmax(logits, -1), 0)
        self.log_probabilities.append(chosen.sum(-1))
        return op.chosen(one_hot).detach().to(x[0].dtype)

    def noisy(self, op: Op) -> bool:
        """Always."""
        return True

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        """A uniform a category."""
        return tuple(op.logits(x[0]).shape)


@contextmanager
def _draw_in_block(model: nn.Module) -> Iterator[list[Tensor]]:
    """Lets every hard layer draw in a block; what it drew, as log-probabilities."""
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
    """The log-probability of all that was drawn, a number for each of the loss."""
    if not drawn:
        raise ValueError("score_function needs a hard layer that draws; in evaluation, model.eval(), none does")
    if any(log.shape[: loss.dim()] != loss.shape for log in drawn):
        raise ValueError(
            f"the loss has shape {tuple(loss.shape)} and the draws {[tuple(log.shape) for log in drawn]}; "
            "return a loss for each sample in their first dimension, or one number"
        )
    total: Tensor = sum(log.reshape(*loss.shape, -1).sum(-1) for log in drawn)  # type: ignore[assignment]
    return total
