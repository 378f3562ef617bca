"""Finds the reason why a run cannot be part of a stack, before any folder is claimed."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from experiments.config.choices import Choices
from experiments.stacked.layers import stack
from experiments.stacked.optimizers import KINDS
from experiments.training.build import trial_model
from surrogates import anneal, hard_layers, key_noise, mode

SAMPLES = 2  # in the trial
CLOSE = 1e-6  # largest difference between a stack and unstacked models, in float64


def obstacle(choices: Choices) -> str | None:
    """Why runs of this configuration cannot be stacked; None if they can."""
    settings = choices.settings
    if settings.precision not in ("float32", "float64"):
        return f"precision={settings.precision} is not supported in a stack; float32 and float64 are"
    if settings.on_nonfinite == "skip":
        return "on_nonfinite=skip skips steps of one run only"
    if settings.detect_anomaly:
        return "detect_anomaly=true works on one run only"
    if type(choices.optimizer) not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        return f"optimizer {type(choices.optimizer).__name__} has no stacked form; {known} have one"
    try:
        _try(choices)
    except Exception as error:  # torch raises many kinds of error for an operation without a batching rule
        return f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    return None


def _try(choices: Choices) -> None:
    """Runs a forward and backward pass and an evaluation of two models on a few samples, stacked and unstacked.

    Raises ValueError if the results differ: an op that mixes the samples of a batch would also mix replicas.
    """
    shape = (SAMPLES, *choices.data.input_shape)
    models = [trial_model(choices).to(torch.float64) for _ in range(2)]
    if any(layer.clock is not None for layer in hard_layers(models[0]).values()):
        raise ValueError("strategy.clock=gap gives each run a temperature schedule of its own")
    stream = torch.Generator().manual_seed(0)
    halves = [torch.randn(shape, generator=stream, dtype=torch.float64) for _ in models]
    x = torch.stack(halves)
    alone = [_answer(copy.deepcopy(model), own, seed) for seed, (model, own) in enumerate(zip(models, x, strict=True))]
    stacked = _answer(stack(models), x.flatten(0, 1), torch.tensor([0, 1]))
    for part, whole, *own in zip(("outputs", "gradients", "evaluation"), stacked, *alone, strict=True):
        if whole.shape != torch.cat(own).shape:
            raise ValueError(f"two stacked models give {part} of shape {tuple(whole.shape)}")
        if not torch.allclose(whole, torch.cat(own), rtol=CLOSE, atol=CLOSE, equal_nan=True):
            raise ValueError(f"{part} of two stacked models are not those of each alone, which mix samples of a batch")


def _answer(model: nn.Module, x: Tensor, seed: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, the gradient with respect to the inputs, and the outputs in evaluation."""
    anneal(model, 0.5, 0.5)
    key_noise(model, seed, 1)
    x.requires_grad_()
    logits = model(x)
    torch.autograd.backward(logits.sum())
    gradient = torch.zeros_like(x) if x.grad is None else x.grad
    with torch.no_grad(), mode(model.eval(), "hard"):
        return logits.detach(), gradient, model(x)
