"""Scores a model, or each replica of a stack, on a part of a data set."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.data.dataset import Part
from experiments.measuring.probe_batch import repeat
from surrogates import mode
from surrogates.hard_layer import Mode

CHUNK = 2048  # samples at once
ROWS = 16384  # samples of all replicas at once


@dataclass(frozen=True)
class PartScore:
    """Mean cross-entropy in nats, and the share of right answers."""

    loss: float
    accuracy: float


def score(model: nn.Module, part: Part, how: Mode = "hard") -> PartScore:
    """The score of a model on a part, with hard ops or with the strategy's values. The model does not change."""
    return scores(model, part, how)[0]


def scores(model: nn.Module, part: Part, how: Mode = "hard", replicas: int = 1) -> list[PartScore]:
    """The score of each replica of a stack."""
    losses, right = [0.0] * replicas, [0.0] * replicas
    for sums in torch.stack(_measure(model, part, how, replicas, _loss_and_right)).tolist():
        for r, (loss, count) in enumerate(sums):
            losses[r] += loss
            right[r] += count
    return [PartScore(loss / len(part.y), count / len(part.y)) for loss, count in zip(losses, right, strict=True)]


def right_answers(model: nn.Module, part: Part, replicas: int = 1) -> Tensor:
    """Whether each replica's hard ops classify each sample right, bool (R, N) on the CPU."""

    def is_right(logits: Tensor, y: Tensor) -> Tensor:
        return logits.argmax(1) == y

    return torch.cat(_measure(model, part, "hard", replicas, is_right), 1).cpu()


def _measure(
    model: nn.Module, part: Part, how: Mode, replicas: int, measure: Callable[[Tensor, Tensor], Tensor]
) -> list[Tensor]:
    """`measure(logits, y)` for each chunk of a part, all replicas (R, ...); the tensors stay on the device."""
    was_training = model.training
    model.eval()
    found = []
    chunk = min(CHUNK, max(1, ROWS // replicas))
    try:
        with torch.no_grad(), mode(model, how):
            for x, y in zip(torch.split(part.x, chunk), torch.split(part.y, chunk), strict=True):
                own = model(repeat(x, replicas)).chunk(replicas)
                found.append(torch.stack([measure(logits, y) for logits in own]))
    finally:
        model.train(was_training)
    return found


def _loss_and_right(logits: Tensor, y: Tensor) -> Tensor:
    """The summed cross-entropy and the number of right answers, (2,) in float64."""
    loss, right = F.cross_entropy(logits, y, reduction="sum"), (logits.argmax(1) == y).sum()
    return torch.stack([loss.double(), right.double()])


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a model keeps batch-norm statistics."""
    return bool(_batch_norms(model))


def recalibrate(model: nn.Module, x: Tensor) -> nn.Module:
    """A copy of the model with batch-norm statistics of its hard values on x: means over the chunks of x."""
    hard = copy.deepcopy(model).eval()
    for norm in _batch_norms(hard):
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
        norm.train()
    with torch.no_grad(), mode(hard, "hard"):
        for chunk in torch.split(x, CHUNK):
            if len(chunk) > 1:
                hard(chunk)
    return hard.eval()


def _batch_norms(model: nn.Module) -> list[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d]:
    return [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)]
