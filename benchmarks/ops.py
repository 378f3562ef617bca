"""What an op under a strategy costs, forward and backward, on 1M float32 numbers, against the cheapest peer.

Usage: python benchmarks/ops.py [--threads 2]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pairs import HEADER, compare

from surrogates.ops.quantize import Quantize
from surrogates.ops.round import Round
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

SIZE = 1_000_000


class MinimalRound(torch.autograd.Function):
    """The least that a straight-through round can do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def milliseconds(function: Callable[[Tensor], Tensor]) -> Callable[[], float]:
    x = torch.randn(SIZE, requires_grad=True)
    gradient = torch.randn(SIZE)

    def measure() -> float:
        x.grad = None
        start = time.perf_counter()
        function(x).backward(gradient)
        return (time.perf_counter() - start) * 1e3

    return measure


def saved_bytes(function: Callable[[Tensor], Tensor]) -> float:
    """Bytes kept for backward, over the input's; a tensor that is kept twice counts once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x = torch.randn(SIZE, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function(x)
    return sum(kept.values()) / (x.numel() * x.element_size())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    torch.set_num_threads(parser.parse_args().threads)
    ste, T = StraightThrough(), torch.tensor(0.5)
    quantize, round_ = Quantize(bits=4), Round()
    smooth_round = lambda x: Smooth()(round_, x, T=T)  # noqa: E731
    fake_quantize = lambda x: torch.fake_quantize_per_tensor_affine(x, 1 / 15, 0, 0, 15)  # noqa: E731
    cases = [
        ("`ste` on quantize / `fake_quantize_per_tensor_affine`", lambda x: ste(quantize, x), fake_quantize, 1.0),
        ("`ste` on round / minimal `autograd.Function`", lambda x: ste(round_, x), MinimalRound.apply, 1.3),
        ("`smooth` on round / `tanh`", smooth_round, torch.tanh, 12.0),
    ]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {SIZE:,} float32, times in ms\n\n{HEADER}")
    for name, ours, peer, bound in cases:
        print(compare(name, milliseconds(ours), milliseconds(peer), bound).row())
    print("\n| bytes saved for backward, over the input's | |\n|---|---|")
    for name, function in [(name.split(" / ")[0], ours) for name, ours, *_ in cases] + [("tanh", torch.tanh)]:
        print(f"| {name} | {saved_bytes(function):.2f} |")


if __name__ == "__main__":
    main()
