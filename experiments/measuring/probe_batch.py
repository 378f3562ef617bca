"""Compares the hard layers' outputs on a fixed batch: flipped decisions, and the distance of soft and hard values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from experiments.measuring.taps import tap
from surrogates import mode
from surrogates.hard_layer import Mode

Outputs = Mapping[str, Tensor]


def layer_outputs(model: nn.Module, batch: Any, how: Mode, replicas: int = 1) -> dict[str, Tensor]:
    """Returns all outputs (R, n) of every hard layer on a batch, in evaluation; the model is unchanged.

    Replicas need a tensor (B, ...). One model also takes a tuple or list of arguments, or a mapping of them by name.
    """
    outputs: dict[str, list[Tensor]] = {}

    def keep(name: str, where: str, tensor: Tensor) -> None:
        if where == "out":
            outputs.setdefault(name, []).append(tensor.detach().reshape(replicas, -1))

    with torch.no_grad(), _evaluating(model, how), tap(model, keep):
        call(model, batch if replicas == 1 else repeat(batch, replicas))
    return {name: torch.cat(calls, dim=1) for name, calls in outputs.items()}


@contextmanager
def _evaluating(model: nn.Module, how: Mode) -> Iterator[None]:
    """Evaluates the model in the block, so that batch norm does not learn, with its hard layers in a mode."""
    training = {module: module.training for module in model.modules()}
    with mode(model, how):  # restores the modes that `train` below overwrites
        model.eval()
        try:
            with mode(model, how):
                yield
        finally:
            for module, was in training.items():
                module.train(was)


def call(model: nn.Module, batch: Any) -> Any:
    """Calls a model with a tensor, with a tuple or list of arguments, or with a mapping of arguments by name."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple | list) else model(batch)


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
