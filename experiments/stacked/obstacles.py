"""Why a run cannot be part of a stack, found before anything is claimed."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.build import build_model, floating
from experiments.config import Choices
from experiments.stacked.layers import stack
from experiments.stacked.optimizers import KINDS
from surrogates import anneal, hard_layers, key_noise, mode

SAMPLES = 2  # of the trial


def obstacle(choices: Choices) -> str | None:
    """What keeps runs of this configuration from being stacked, in words; None if nothing does."""
    settings = choices.settings
    if settings.precision not in ("float32", "float64"):
        return f"precision={settings.precision} scales its loss, or rounds, run by run"
    if settings.on_nonfinite == "skip":
        return "on_nonfinite=skip leaves out steps run by run"
    if settings.detect_anomaly:
        return "detect_anomaly=true looks for the fault of one run"
    if type(choices.optimizer) not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        return f"{type(choices.optimizer).__name__} has no stacked form ({known} have)"
    try:
        _try(choices)
    except Exception as error:  # whatever torch says of an operation without a batching rule
        return f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    return None


def _try(choices: Choices) -> None:
    """A training step's forward and backward pass, and an evaluation, of two replicas on a few samples."""
    shape, settings = choices.data.input_shape, choices.settings
    models = [build_model(choices), build_model(choices)]
    if any(layer.clock is not None for layer in hard_layers(models[0]).values()):
        raise ValueError("the temperature of each run follows its own gap")
    model = stack(models)
    x = torch.linspace(-1, 1, 2 * SAMPLES * torch.Size(shape).numel(), dtype=floating(settings))
    x = x.view(2 * SAMPLES, *shape).to(settings.device)
    anneal(model, 0.5, 0.5)
    key_noise(model, torch.tensor([0, 1]), 1)
    torch.autograd.backward(_check(choices, model(x)).sum())
    with torch.no_grad(), mode(model.eval(), "hard"):
        _check(choices, model(x))


def _check(choices: Choices, logits: Tensor) -> Tensor:
    if logits.shape != (2 * SAMPLES, choices.data.classes):
        raise ValueError(f"two stacked models give logits of shape {tuple(logits.shape)}")
    return logits
