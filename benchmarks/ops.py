"""Times the ops, forward and backward, in float32, against the cheapest peer; docs/speed.md states the bounds.

- `ste`: straight-through ops against a minimal `autograd.Function` with the same value and derivative;
- `smooth`: every elementwise op's smooth reading against `torch.tanh`;
- `sorts`: SoftSort and NeuralSort, in every op that has them, on `side` rows of n = `side` numbers, against the softmax
  of the (side, n, n) tensor in their formula;
- `memory`: of a long row and a shorter one, bytes kept for backward and of the largest allocation, by the row's bytes;
- `calls`: a HardLayer on 64 x 64 numbers, and a call on 8 x 8 numbers that `through` does not replace.

Usage: python benchmarks/ops.py [--size 1000000] [--side 256] [--pairs 25] [--part ste]
"""

from __future__ import annotations

import inspect
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pairs import HEADER, PAIRS, Ratio, compare
from timing import Function, bytes_used, machine, milliseconds

from surrogates import HardLayer, Op, through
from surrogates.members import ops
from surrogates.ops.round import Round
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

LONG, SHORT = 16384, 4096  # n log n memory grows 1.17 times a number between them, n^2 memory 4 times
CALLS = 300  # calls timed together, a microsecond each

Backward = Callable[[Tensor, Tensor], Tensor]
# The value and the derivative of straight-through ops; None stands for the derivative 1.
PEERS: dict[str, tuple[Function, Backward | None]] = {
    "round": (torch.round, None),
    "floor": (torch.floor, None),
    "ceil": (torch.ceil, None),
    "sign": (torch.sign, lambda g, x: g * (x.abs() <= 1)),
    "heaviside": (lambda x: (x >= 0).to(x.dtype), lambda g, x: 0.5 * g * (x.abs() <= 1)),
    "quantize": (lambda x: x.clamp(0, 1).mul(15).round().div(15), lambda g, x: g * ((x >= 0) & (x <= 1))),
    "clamp": (lambda x: x.clamp(0, 1), None),
}


class Minimal(torch.autograd.Function):
    """A minimal op with a value and a derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Function, backward: Backward | None) -> Tensor:
        ctx.backward_pass = backward
        if backward is not None:
            ctx.save_for_backward(x)
        return value(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return (ctx.backward_pass(gradient, *ctx.saved_tensors) if ctx.backward_pass else gradient), None, None


def minimal(stem: str) -> Function:
    value, backward = PEERS[stem]
    return lambda x: Minimal.apply(x, value, backward)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def straight_through(stem: str) -> Function:
    return partial(StraightThrough(), ops()[stem]())


def ste(given: Namespace) -> Iterator[Ratio]:
    x = numbers(given.size)
    for stem in PEERS:
        ours, peer = milliseconds(straight_through(stem), x), milliseconds(minimal(stem), x)
        yield compare(f"`ste` on {stem} / minimal `autograd.Function`", ours, peer, 1.5, given.pairs)


def smooth(given: Namespace) -> Iterator[Ratio]:
    x = numbers(given.size)
    for stem, cls in ops().items():
        if cls.elementwise and cls().declares("smooth"):
            ours = milliseconds(_smooth_of_first(cls(), x), x)
            yield compare(f"`smooth` on {stem} / `tanh`", ours, milliseconds(torch.tanh, x), 12.0, given.pairs)


def _smooth_of_first(op: Op, x: Tensor) -> Function:
    """Returns a smooth op of its first input, the others fixed; a lookup table has 16 numbers."""
    _, *names = inspect.signature(op.hard).parameters
    others = [numbers(16 if name == "table" else len(x)) for name in names]
    return lambda x: Smooth(temperature=0.5)(op, x, *others)


def soft_sorts() -> Iterator[tuple[str, Op, str | None]]:
    """Yields the ops with a NeuralSort form, and their forms without a sorting network."""
    for stem, cls in ops().items():
        forms = cls().forms("smooth")
        if "neural_sort" in forms:
            yield stem, cls(), "soft_sort" if "soft_sort" in forms else None  # elsewhere it is the default, unnamed
            yield stem, cls(), "neural_sort"


def sorts(given: Namespace) -> Iterator[Ratio]:
    side = given.side
    softmax = milliseconds(partial(torch.softmax, dim=-1), numbers(side, side, side))
    for stem, op, form in soft_sorts():
        ours = milliseconds(partial(Smooth(form=form, temperature=0.5), op), numbers(side, side))
        name = f"`smooth` on {stem}, {form or 'soft_sort'} / softmax {side} x {side} x {side}"
        yield compare(name, ours, softmax, 1.5, given.pairs)


def memory(given: Namespace) -> Iterator[Ratio]:
    """Measures how memory grows with the row; the growth is exact, so its interval has length 0."""
    for stem, op, form in soft_sorts():
        if stem in ("sort", "rank") and form != "neural_sort":
            function = partial(Smooth(form=form, temperature=0.5), op)
            long, short = (bytes_used(function, numbers(n)) for n in (LONG, SHORT))
            name = f"`smooth` on {stem}: bytes over those of the row, n = {LONG} / n = {SHORT}"
            yield Ratio(name, long, short, *[long / short] * 3, 2.0, given.pairs)


def calls(given: Namespace) -> Iterator[Ratio]:
    x = numbers(64, 64)
    ours = milliseconds(HardLayer(Round(), StraightThrough()), x, CALLS)
    peer = milliseconds(minimal("round"), x, CALLS)
    name = "`HardLayer(Round(), StraightThrough())`, 64 x 64 / minimal `autograd.Function`"
    yield compare(name, ours, peer, 1.5, given.pairs)
    small = numbers(8, 8)

    def plain() -> float:
        start = time.process_time()
        for _ in range(CALLS):
            torch.tanh(small)
        return (time.process_time() - start) * 1e3 / CALLS

    def within() -> float:
        with through(StraightThrough()):
            return plain()

    yield compare("`tanh`, 8 x 8, in `through`, which does not replace it / the call", within, plain, 2.0, given.pairs)


PARTS: dict[str, Callable[[Namespace], Iterator[Ratio]]] = {
    function.__name__: function for function in (ste, smooth, sorts, memory, calls)
}


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="numbers that an elementwise op gets")
    parser.add_argument("--side", type=int, default=256, help="n of the n x n softmax")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of timings a row; 15 or more to judge a bound")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=[*PARTS], help="only rows of this kind")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{machine()}, {given.size:,} float32, times in ms\n\n{HEADER}")
    for part in given.part:
        for ratio in PARTS[part](given):
            print(ratio.row(), flush=True)


if __name__ == "__main__":
    main()
