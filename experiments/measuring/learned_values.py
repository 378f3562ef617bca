"""Reads the learned scales, clips, offsets and thresholds of hard layers as they act, by tag."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from experiments.measuring.parameter_names import readable
from surrogates import hard_layers
from surrogates.component import Calibrated, EffectiveValue


def learned_values(model: nn.Module, replicas: int = 1) -> dict[str, Tensor]:
    """Returns by tag the mean (R,) of each layer's numbers of one name.

    If a layer has several numbers with a floor, such as one scale for each channel, `<name>_min` is the smallest.
    """
    values = {}
    for tag, (numbers, floor) in _values(model):
        rows = numbers.reshape(replicas, -1).double()
        values[tag] = rows.mean(1)
        if math.isfinite(floor) and rows.shape[1] > 1:
            values[f"{tag}_min"] = rows.amin(1)
    return values


def floors(model: nn.Module) -> dict[str, float]:
    """Returns the floor of each tag in `learned_values` that has one, in the precision of its numbers.

    Of a layer with several numbers it is the floor of the smallest.
    """
    found = {}
    for tag, (numbers, floor) in _values(model):
        if math.isfinite(floor):
            key = tag if numbers.numel() == 1 else f"{tag}_min"
            found[key] = torch.tensor(floor, dtype=numbers.dtype).item()
    return found


def _values(model: nn.Module) -> Iterator[tuple[str, EffectiveValue]]:
    for name in hard_layers(model):
        owner = model.get_submodule(name.rpartition(".")[0])
        if isinstance(owner, Calibrated):
            for key, value in owner.effective_values().items():
                yield f"op/{readable(name)}/{key}", value
