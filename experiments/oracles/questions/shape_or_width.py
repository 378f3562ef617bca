"""Whether a surrogate's shape or its width matters, against exact derivatives of a sign network on real digits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.measuring.alignment import cosine
from experiments.oracles import line
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import Interval, mean_interval, share_interval, together
from experiments.oracles.verdicts import above, words
from experiments.plotting import style
from surrogates.hard_layer import HardLayer
from surrogates.kernels import KERNELS
from surrogates.ops.sign import Sign
from surrogates.strategies.ste import StraightThrough

SMOOTHING = (0.1, 0.3, 1.0)
WIDTHS = tuple(2.0 ** (k / 2) for k in range(-12, 17))  # interquartile range in units of the activation
TWICE, FOUR_TIMES = 2, 4  # widths of the grid on either side of the best
NETS = range(700, 900, 10)  # seeds
FACTOR = 3


def answer() -> Answer:
    """Cosines of straight-through gradients with the truth, by net, kernel, width and the truth's smoothing."""
    angles = torch.stack([_cosines(seed) for seed in NETS])
    best = angles.mean(1).argmax(1)  # (nets, smoothings): the best width for the mean over kernels
    by_width, by_shape = _effects(angles, best, FOUR_TIMES)
    level = together(len(SMOOTHING))
    ahead = {s: mean_interval(x.tolist(), level=level) for s, x in zip(SMOOTHING, (by_width - by_shape).T, strict=True)}
    far = {
        s: mean_interval(x.tolist(), level=level)
        for s, x in zip(SMOOTHING, (by_width - FACTOR * by_shape).T, strict=True)
    }
    grows = [share_interval(int((best[:, k] < best[:, k + 1]).sum()), len(NETS), together(2)) for k in (0, 1)]
    checks = [
        Check(
            "within four times the best width, the width changes the cosine more than the shape",
            f"change by width minus change by shape: {_by_smoothing(ahead)}",
            above(ahead.values(), 0),
        ),
        Check(
            f"there the width changes it {FACTOR} times as much as the shape, or more",
            f"change by width minus {FACTOR} times that by shape: {_by_smoothing(far)}",
            above(far.values(), 0),
        ),
        Check(
            "the best width grows with the smoothing of the truth",
            f"from 0.1 to 0.3 in a share of {words(grows[0])} of the nets, from 0.3 to 1 in {words(grows[1])}",
            above(grows, 0.5),
        ),
    ]
    remarks = (
        f"{len(NETS)} nets (seeds {NETS[0]} to {NETS[-1]}) of 16 units, each on 300 of the digits. A width is the "
        "interquartile range of a kernel, in units of the activation. The best width of a net is that with the largest "
        "mean cosine over kernels. A surrogate much wider than the activations is the identity, so a best width at the "
        "upper edge means that the identity is best; only smaller widths are compared there. The change by width is "
        "the range over widths, mean of kernels; the change by shape is the range over kernels, mean of widths. All "
        "figures are means of the nets with their intervals. Accuracy after training is not measured here."
    )
    return Answer(checks, [_effects_table(angles, best), _best_table(angles)], remarks, _figure(angles.mean(0)))


def _cosines(seed: int) -> Tensor:
    """(kernels, widths, smoothings)."""
    net, weights = line.network(seed=seed)
    truths = torch.stack([net.truth(weights, KERNELS["normal"], s).flatten() for s in SMOOTHING])
    rows = [torch.stack([cosine(_gradient(net, weights, name, width), truths) for width in WIDTHS]) for name in KERNELS]
    return torch.stack(rows)


def _gradient(net: line.SignNetwork, weights: Tensor, kernel: str, width: float) -> Tensor:
    temperature = width / KERNELS[kernel].interquartile_range
    layer = HardLayer(Sign(zero=1.0), StraightThrough(temperature, carrier="smooth", kernel=kernel))  # type: ignore[arg-type]
    x = weights.clone().requires_grad_()
    loss = net.loss(layer, x.view(1, -1), torch.Generator()).sum()
    return torch.autograd.grad(loss, x)[0].flatten()


def _effects(angles: Tensor, best: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Changes of the cosine by width and by shape near the best width, (nets, smoothings) each."""
    by_width, by_shape = torch.zeros(best.shape), torch.zeros(best.shape)
    for net, row in enumerate(best.tolist()):
        for k, at in enumerate(row):
            near = angles[net, :, max(0, at - reach) : at + reach + 1, k]
            by_width[net, k] = (near.amax(1) - near.amin(1)).mean()
            by_shape[net, k] = (near.amax(0) - near.amin(0)).mean()
    return by_width, by_shape


def _effects_table(angles: Tensor, best: Tensor) -> Table:
    near = [changes for reach in (TWICE, FOUR_TIMES) for changes in _effects(angles, best, reach)]
    rows = []
    for k, s in enumerate(SMOOTHING):
        widths = sorted(WIDTHS[i] for i in best[:, k].tolist())
        at_edge = sum(width in (WIDTHS[0], WIDTHS[-1]) for width in widths)
        span = f"{widths[0]:.2g} to {widths[-1]:.3g}"
        rows.append((f"{s:g}", span, f"{at_edge} of {len(NETS)}", *(_mean(changes[:, k]) for changes in near)))
    title = (
        f"Best width, how often it lies at an edge of the grid ({WIDTHS[0]:.2g} to {WIDTHS[-1]:g}), and how much the "
        "cosine changes by width and by shape within two and four times the best width."
    )
    head = ("smoothing", "best width", "at an edge", "width, 2 x", "shape, 2 x", "width, 4 x", "shape, 4 x")
    return Table(title, head, rows)


def _mean(values: Tensor) -> str:
    return words(mean_interval(values.tolist()), ".3f")


def _best_table(angles: Tensor) -> Table:
    rows = []
    for i, name in enumerate(KERNELS):
        tops = angles[:, i].max(1)
        widths = [WIDTHS[int(i)] for i in tops.indices.median(0).values]
        cells = [f"{_mean(tops.values[:, k])} at {width:.3g}" for k, width in enumerate(widths)]
        rows.append((name, *cells))
    title = (
        "Cosine at each net's best width for the kernel, mean of the nets with its interval, and the median best width."
    )
    return Table(title, ("kernel", *(f"smoothing {s:g}" for s in SMOOTHING)), rows)


def _by_smoothing(intervals: dict[float, Interval]) -> str:
    return ", ".join(f"{words(interval, '+.3f')} at smoothing {s:g}" for s, interval in intervals.items())


def _figure(angles: Tensor) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 2.8))
        for k, (axes, s) in enumerate(zip(figure.subplots(1, 3), SMOOTHING, strict=True)):
            image = axes.imshow(angles[..., k], vmin=0, vmax=1, aspect="auto", cmap="viridis")
            axes.set(title=f"mean cosine, smoothing {s:g}", xlabel="width", yticks=range(len(KERNELS)))
            axes.set_xticks(range(4, len(WIDTHS), 8), [f"{w:g}" for w in WIDTHS[4::8]])
            axes.set_yticklabels(list(KERNELS) if k == 0 else [])
            axes.grid(visible=False)
        figure.subplots_adjust(left=0.115, right=0.92, top=0.88, bottom=0.18, wspace=0.06)
        figure.colorbar(image, cax=figure.add_axes((0.935, 0.18, 0.012, 0.7)))
    return figure
