"""Times a training step of torchvision's ResNet-18 inside `through`, and with converted layers, against a plain step.

- `through`: the block changes one op, relu (17 calls) or max (one call);
- `convert`: all ReLU and max-pool layers, with their subgradient and with straight-through.

Usage: python benchmarks/own_model.py [--batch 16] [--side 32] [--pairs 25]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch
from torch import nn
from torchvision.models import resnet18

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nets import step
from pairs import HEADER, PAIRS, compare
from timing import machine

import hardgrad as hg

HARD = (nn.ReLU, nn.MaxPool2d)


def rows(net: nn.Module, measure: Callable[[], float]) -> Iterator[tuple[str, Callable[[], float], float]]:
    """Yields name, measure and bound.

    All measures step the same net, because the times of two equal nets differ by several percent.
    """

    def measure_in(block: Callable[[], AbstractContextManager[object]]) -> Callable[[], float]:
        def measure_there() -> float:
            with block():
                return measure()

        return measure_there

    yield "in `through(None, relu='ste')`", measure_in(lambda: hg.through(None, relu="ste")), 1.05
    yield "in `through(None, max='ste')`", measure_in(lambda: hg.through(None, max="ste")), 1.05
    yield "after `convert(net, 'ste')`", measure_in(lambda: conversion(net)), 1.2
    yield "after `convert(net, 'ste', relu='ste')`", measure_in(lambda: conversion(net, relu="ste")), 1.2
    both = {"relu": "ste", "max": "ste"}
    yield "after `convert(net, 'ste', relu='ste', max='ste')`", measure_in(lambda: conversion(net, **both)), 1.2


@contextmanager
def conversion(net: nn.Module, **by_op: str) -> Iterator[None]:
    """A block in which the net's hard layers are converted."""
    hg.convert(net, "ste", types=HARD, **by_op)
    try:
        yield
    finally:
        hg.revert(net)


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in {"batch": 16, "side": 32, "pairs": PAIRS}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.randn(given.batch, 3, given.side, given.side)
    print(f"{machine()}, images {tuple(x.shape)}, times in ms\n\n{HEADER}")
    torch.manual_seed(0)
    net = resnet18(num_classes=10)
    plain = step(net, x)
    for name, measure, bound in rows(net, plain):
        ratio = compare(f"ResNet-18 step {name} / plain step", measure, plain, bound, given.pairs)
        print(ratio.row(), flush=True)


if __name__ == "__main__":
    main()
