"""Measures the spread of single samples' gradients, by parameter."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from experiments.diagnostics.point import Point
from surrogates import hard_layers, mode

NUMBERS = 2**24  # of gradients held at once


def per_sample_tags(point: Point) -> dict[str, float]:
    """Returns `sample_variance` and `snr` by parameter.

    G_b is the gradient of sample b's own loss, with its own noise, and m the mean of the B gradients.
    `sample_variance` = tr Cov(G), the sum of G's unbiased variances. `snr` = |m| / sqrt(tr Cov(G) / B), the batch
    gradient over its standard error. Batch norm takes its running statistics, so that no sample affects another.
    A batch of one has neither; there is no `snr` if the gradients are equal.
    """
    count = len(point.x)
    if count < 2:
        return {}
    sums = {name: torch.zeros_like(parameter) for name, parameter in point.parameters.items()}
    squares = {name: 0.0 for name in sums}
    for part in _gradients(point):
        for name, gradients in part.items():
            sums[name] += gradients.sum(0)
            squares[name] += float(gradients.square().sum())
    values = {}
    for name, total in sums.items():
        mean = float((total / count).square().sum())
        variance = max(0.0, squares[name] - count * mean) / (count - 1)
        values[f"sample_variance/{name}"] = variance
        if variance:
            values[f"snr/{name}"] = (mean * count / variance) ** 0.5
    return values


def _gradients(point: Point) -> Iterator[dict[str, Tensor]]:
    """Yields the gradients by parameter (b, ...), b samples at a time."""
    model, layers = point.model, list(hard_layers(point.model).values())
    given = {name: parameter.detach() for name, parameter in model.named_parameters()}
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    readable = dict(zip(names, point.parameters, strict=True))
    fixed = {name: tensor for name, tensor in given.items() if name not in readable}
    fixed |= dict(model.named_buffers())

    def loss(trained: dict[str, Tensor], x: Tensor, y: Tensor, seed: Tensor) -> Tensor:
        for index, layer in enumerate(layers):
            layer.noise_key, layer.draws = (seed, point.step + 1, index), 0
        return F.cross_entropy(functional_call(model, {**trained, **fixed}, (x.unsqueeze(0),)), y.unsqueeze(0))

    seeds = torch.arange(len(point.x), device=point.x.device) + point.seed % 2**32 * 2**24
    size = max(1, NUMBERS // max(1, len(point.theta)))
    trained = {name: given[name] for name in readable}
    model.eval()
    try:
        with mode(model, "strategy"):
            for part in zip(*(torch.split(rows, size) for rows in (point.x, point.y, seeds)), strict=True):
                found = vmap(grad(loss), (None, 0, 0, 0))(trained, *part)
                yield {readable[name]: gradients for name, gradients in found.items()}
    finally:
        model.train()
