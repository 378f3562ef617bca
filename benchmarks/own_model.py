"""Times a training step of torchvision's ResNet-18 inside `through`, and with converted layers, against a plain step.

- `through`: the block changes one op, relu (17 calls) or max (one call);
- `convert`: all ReLU and max-pool layers, with their subgradient and with straight-through.

Usage: python benchmarks/own_model.py [--batch 16] [--side 32] [--pairs 25]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.models import resnet18

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nets import step
from pairs import HEADER, PAIRS, compare
from timing import machine

import hardgrad as hg

HARD = (nn.ReLU, nn.MaxPool2d)


def plain() -> nn.Module:
    torch.manual_seed(0)
    return resnet18(num_classes=10)


def converted(**by_op: str) -> nn.Module:
    net = plain()
    hg.convert(net, "ste", types=HARD, **by_op)
    return net


def within(x: Tensor, **by_op: str) -> Callable[[], float]:
    """Returns a measure of a plain net's step inside a block."""
    measure = step(plain(), x)

    def measured() -> float:
        with hg.through(None, **by_op):
            return measure()

    return measured


def rows(x: Tensor) -> Iterator[tuple[str, Callable[[], float], float]]:
    """Yields name, measure and bound."""
    yield "in `through(None, relu='ste')`", within(x, relu="ste"), 1.05
    yield "in `through(None, max='ste')`", within(x, max="ste"), 1.05
    yield "after `convert(net, 'ste')`", step(converted(), x), 1.2
    yield "after `convert(net, 'ste', relu='ste')`", step(converted(relu="ste"), x), 1.2
    yield "after `convert(net, 'ste', relu='ste', max='ste')`", step(converted(relu="ste", max="ste"), x), 1.2


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in {"batch": 16, "side": 32, "pairs": PAIRS}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.randn(given.batch, 3, given.side, given.side)
    print(f"{machine()}, images {tuple(x.shape)}, times in ms\n\n{HEADER}")
    for name, measure, bound in rows(x):
        ratio = compare(f"ResNet-18 step {name} / plain step", measure, step(plain(), x), bound, given.pairs)
        print(ratio.row(), flush=True)


if __name__ == "__main__":
    main()
