"""Whether a surrogate's shape or its width matters, against exact derivatives of a sign network on real digits."""

from __future__ import annotations

from typing import Any

import torch

from experiments.measuring.alignment import cosine, scale
from experiments.oracles import line
from experiments.oracles.answer import Answer, Check, Table
from experiments.plotting import style
from surrogates.hard_layer import HardLayer
from surrogates.kernels import KERNELS
from surrogates.ops.sign import Sign
from surrogates.strategies.ste import StraightThrough

SMOOTHING = (0.1, 0.3, 1.0)
WIDTHS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # interquartile range in units of the activation


def answer() -> Answer:
    """Cosines (and best scales) of straight-through gradients, by kernel, width and the truth's smoothing."""
    net, weights = line.network()
    truths = [net.truth(weights, KERNELS["normal"], s).flatten() for s in SMOOTHING]
    found = torch.zeros(len(KERNELS), len(WIDTHS), len(SMOOTHING), 2)
    for i, name in enumerate(KERNELS):
        for j, width in enumerate(WIDTHS):
            got = _gradient(net, weights, name, width).flatten()
            for k, truth in enumerate(truths):
                found[i, j, k] = torch.stack([cosine(got, truth), scale(got, truth)])
    angles = found[..., 0]
    over_widths = float((angles.amax(1) - angles.amin(1)).mean())
    at_best = angles.amax(1)
    over_shapes = float((at_best.amax(0) - at_best.amin(0)).mean())
    best = [WIDTHS[int(angles[list(KERNELS).index("normal"), :, k].argmax())] for k in range(len(SMOOTHING))]
    checks = [
        Check(
            "width matters more than shape: the cosine differs far more over widths than over shapes, each shape at"
            " its best width",
            f"over widths {over_widths:.2f}, over shapes {over_shapes:.3f}",
            over_widths > 3 * over_shapes,
        ),
        Check(
            "the best width grows with the smoothing of the truth",
            ", ".join(f"{b:g} at smoothing {s:g}" for b, s in zip(best, SMOOTHING, strict=True)),
            best == sorted(best) and best[0] < best[-1],
        ),
    ]
    rows = []
    for i, name in enumerate(KERNELS):
        tops = [int(angles[i, :, k].argmax()) for k in range(len(SMOOTHING))]
        rows.append(
            (name, *(f"{found[i, j, k, 0]:.3f} ({found[i, j, k, 1]:.2g}) at {WIDTHS[j]:g}" for k, j in enumerate(tops)))
        )
    head = ("kernel", *(f"smoothing {s:g}" for s in SMOOTHING))
    title = (
        "Best cosine (and best scale), and at which width. Width is the interquartile range of the kernel, in units of "
        "the activation."
    )
    remarks = (
        "300 digits, 16 units, one net. No width reaches cosine 1, least of all at large smoothing: where noise is "
        "wide, the truth weights a sample by the sign of its pixel, straight-through by the pixel. The other half of "
        "the question, accuracy after training over shape, width and rate, is not measured here."
    )
    return Answer(checks, [Table(title, head, rows)], remarks, _figure(angles))


def _gradient(net: line.SignNetwork, weights: torch.Tensor, kernel: str, width: float) -> torch.Tensor:
    temperature = width / KERNELS[kernel].interquartile_range
    layer = HardLayer(Sign(zero=1.0), StraightThrough(temperature, carrier="smooth", kernel=kernel))  # type: ignore[arg-type]
    x = weights.clone().requires_grad_()
    loss = net.loss(layer, x.view(1, -1), torch.Generator()).sum()
    return torch.autograd.grad(loss, x)[0]


def _figure(angles: torch.Tensor) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 2.8))
        for k, (axes, s) in enumerate(zip(figure.subplots(1, 3), SMOOTHING, strict=True)):
            image = axes.imshow(angles[..., k], vmin=0, vmax=1, aspect="auto", cmap="viridis")
            axes.set(title=f"cosine, smoothing {s:g}", xlabel="width", yticks=range(len(KERNELS)))
            axes.set_xticks(range(len(WIDTHS)), [f"{w:g}" for w in WIDTHS], fontsize=6)
            axes.set_yticklabels(list(KERNELS) if k == 0 else [])
            axes.grid(visible=False)
        figure.subplots_adjust(left=0.115, right=0.92, top=0.88, bottom=0.18, wspace=0.06)
        figure.colorbar(image, cax=figure.add_axes((0.935, 0.18, 0.012, 0.7)))
    return figure
