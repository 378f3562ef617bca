"""Scores of a model on a part of a data set; the hard op decides."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.data.dataset import Part
from surrogates import mode
from surrogates.hard_layer import Mode

CHUNK = 2048  # samples at once


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy in nats, and the share of right answers."""

    loss: float
    accuracy: float


def score(model: nn.Module, part: Part, how: Mode = "hard") -> Score:
    """The score of a model on a part with hard ops, or as the strategy computes them; changes nothing in the model."""
    was_training = model.training
    model.eval()
    loss, right = 0.0, 0
    try:
        with torch.no_grad(), mode(model, how):
            for x, y in zip(torch.split(part.x, CHUNK), torch.split(part.y, CHUNK), strict=True):
                logits = model(x)
                loss += float(F.cross_entropy(logits, y, reduction="sum"))
                right += int((logits.argmax(1) == y).sum())
    finally:
        model.train(was_training)
    return Score(loss / len(part.y), right / len(part.y))


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a model keeps batch-norm statistics."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def recalibrated(model: nn.Module, x: Tensor) -> nn.Module:
    """A copy whose batch-norm statistics are those of the hard ops on x: means over its chunks."""
    hard = copy.deepcopy(model)
    norms = [module for module in hard.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    hard.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
        norm.train()
    with torch.no_grad(), mode(hard, "hard"):
        for chunk in torch.split(x, CHUNK):
            if len(chunk) > 1:
                hard(chunk)
    return hard.eval()
