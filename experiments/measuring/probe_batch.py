"""Compares the hard layers' outputs on a fixed batch: flipped decisions, and the distance of soft and hard values."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from experiments.measuring.taps import tap
from surrogates import mode
from surrogates.hard_layer import Mode

Outputs = Mapping[str, Tensor]


def layer_outputs(model: nn.Module, x: Tensor, how: Mode, replicas: int = 1) -> dict[str, Tensor]:
    """Returns all outputs (R, n) of every hard layer for samples x (B, ...), in evaluation; the model is unchanged."""
    outputs: dict[str, list[Tensor]] = {}

    def keep(name: str, where: str, tensor: Tensor) -> None:
        if where == "out":
            outputs.setdefault(name, []).append(tensor.detach().reshape(replicas, -1))

    was_training = model.training
    model.eval()  # batch norm must not learn from these samples
    try:
        with torch.no_grad(), mode(model, how), tap(model, keep):
            model(repeat(x, replicas))
    finally:
        model.train(was_training)
    return {name: torch.cat(calls, dim=1) for name, calls in outputs.items()}


def repeat(x: Tensor, replicas: int) -> Tensor:
    """Repeats the samples (B, ...) for every replica, folded."""
    return x.expand(replicas, *x.shape).flatten(0, 1)


def flip_rates(before: Outputs, now: Outputs) -> dict[str, Tensor]:
    """Returns by tag the share (...) of each hard layer's outputs (..., n) that changed."""
    return {f"op/{name}/flip_rate": _share(now[name] != before[name]) for name in before}


def _share(mask: Tensor) -> Tensor:
    return mask.sum(-1) / max(1, mask.shape[-1])


def gaps(soft: Outputs, hard: Outputs) -> dict[str, Tensor]:
    """Returns by tag mean |soft - hard|, (...), over each hard layer's outputs (..., n), in units of the output.

    Soft and hard outputs come from two passes, so a layer's gap includes the effect of the gaps before it.
    """
    return {f"op/{name}/soft_hard_gap": (soft[name] - hard[name]).abs().mean(-1) for name in hard}


def numbers(rates: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Returns the values of each tag by replica, moved from the device at once."""
    if not rates:
        return {}
    rows = torch.stack([rate.double().reshape(-1) for rate in rates.values()]).tolist()
    return dict(zip(rates, rows, strict=True))
