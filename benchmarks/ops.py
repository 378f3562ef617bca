"""What the ops cost, forward and backward, in float32: every one that the package has, against the cheapest peer.

- every elementwise op under `ste` against a minimal `autograd.Function` with the same value and derivative;
- every elementwise op's smooth reading against `torch.tanh`;
- every form of SoftSort's kind, on `side` rows of n = `side` numbers, against the softmax of the (side, n, n) tensor
  in its formula, logits given: there the n x n work decides, where it is done, and this is what the bound of 1.5 is
  about. A second row has one row of n numbers, whose 0.1 ms of softmax is about what the calls around it cost;
- bytes kept for backward.

Usage: python benchmarks/ops.py [--threads 2] [--size 1000000] [--side 256] [--pairs 25] [--only floor] [--part ste]
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from minimal import TEMPERATURE, minimal
from pairs import HEADER, PAIRS, Ratio, compare
from timing import Function, inputs, milliseconds, saved_bytes

from surrogates import EmptyCell, Op, Strategy
from surrogates.members import ops
from surrogates.ops.quantize import Quantize
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

STE_BOUND, SMOOTH_BOUND, SORT_BOUND = 1.5, 12.0, 1.5
T = torch.tensor(TEMPERATURE)


def under(strategy: Strategy, op: Op) -> Function:
    return lambda *x: strategy(op, *x, T=T)


def exists(strategy: Strategy, op: Op) -> bool:
    try:
        strategy.check(op)
    except EmptyCell:
        return False
    return not strategy.noisy(op)


def inputs_of(op: Op, size: int) -> list[torch.Tensor]:
    """Tensors of `size` numbers; a table that is looked up in has 16."""
    names = inspect.signature(op.hard).parameters
    return [inputs((16 if name == "table" else size,))[0] for name in names]


def elementwise(only: set[str]) -> dict[str, Op]:
    found = {stem: cls() for stem, cls in ops().items() if cls.elementwise}
    return {stem: op for stem, op in found.items() if not only or stem in only}


def fake_quantize(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 1 / 15, 0, 0, 15)


def straight_through(size: int, pairs: int, only: set[str]) -> Iterator[Ratio]:
    strategy = StraightThrough()
    for stem, op in elementwise(only).items():
        if exists(strategy, op):
            x, ours = inputs_of(op, size), under(strategy, op)
            peer, own = minimal(stem, ours, op.hard, x)
            name = f"`ste` on {stem} / minimal `autograd.Function`{own}"
            yield compare(name, milliseconds(ours, x), milliseconds(peer, x), STE_BOUND, pairs)
    if not only or "quantize" in only:
        x, ours = inputs((size,)), under(strategy, Quantize(bits=4))
        name = "`ste` on quantize / `fake_quantize_per_tensor_affine`"
        yield compare(name, milliseconds(ours, x), milliseconds(fake_quantize, x), 1.0, pairs)


def smooth(size: int, pairs: int, only: set[str]) -> Iterator[Ratio]:
    peer = milliseconds(torch.tanh, inputs((size,)))
    for stem, op in elementwise(only).items():
        if exists(Smooth(), op):
            ours = milliseconds(under(Smooth(), op), inputs_of(op, size))
            yield compare(f"`smooth` on {stem} / `tanh`", ours, peer, SMOOTH_BOUND, pairs)


def soft_sorts(only: set[str]) -> Iterator[tuple[str, Op, str | None]]:
    """Ops with a NeuralSort form, and their forms without a sorting network: all hold one n x n matrix a row."""
    for stem, cls in ops().items():
        forms = cls().forms("smooth")
        if "neural_sort" in forms and (not only or stem in only):
            unnamed = [] if "soft_sort" in forms else [None]  # the default is SoftSort's unless that has a name
            for form in [*unnamed, *(form for form in forms if form in ("soft_sort", "neural_sort"))]:
                yield stem, cls(), form


def sorting(side: int, pairs: int, only: set[str]) -> Iterator[Ratio]:
    for stem, op, form in soft_sorts(only):
        for shape in ((side, side), (side,)):
            softmax = milliseconds(lambda x: torch.softmax(x, -1), inputs((*shape, side)))
            ours = milliseconds(under(Smooth(form=form), op), inputs(shape))
            size = " x ".join(map(str, (*shape, side)))
            name = f"`smooth` on {stem}{f', form `{form}`' if form else ''} / softmax {size}"
            yield compare(name, ours, softmax, SORT_BOUND, pairs)


def kept(size: int, side: int, only: set[str]) -> Iterator[tuple[str, float]]:
    """Bytes kept for backward over those of one input, by op and strategy."""
    yield "`tanh`", saved_bytes(torch.tanh, inputs((size,)))
    for stem, op in elementwise(only).items():
        for name, strategy in {"ste": StraightThrough(), "smooth": Smooth()}.items():
            if exists(strategy, op):
                yield f"`{name}` on {stem}", saved_bytes(under(strategy, op), inputs_of(op, size))
    yield f"softmax {side} x {side}, over {side} numbers", side * saved_bytes(torch.tanh, inputs((side, side)))
    for stem, op, form in soft_sorts(only):
        name = f"`smooth` on {stem}{f', form `{form}`' if form else ''}, {side} numbers"
        yield name, saved_bytes(under(Smooth(form=form), op), inputs((side,)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--size", type=int, default=1_000_000, help="numbers of an elementwise op")
    parser.add_argument("--side", type=int, default=256, help="n of the n x n softmax")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of timings a row; 15 or more to judge a bound")
    parser.add_argument("--only", type=lambda stems: set(stems.split(",")), default=set(), help="stems of ops")
    parts = {"ste": straight_through, "smooth": smooth, "sorts": sorting}
    parser.add_argument("--part", choices=[*parts, "kept"], help="one kind of row instead of all")
    arguments = parser.parse_args()
    if unknown := arguments.only - set(ops()):
        parser.error(f"no op {', '.join(sorted(unknown))}; there are: {', '.join(ops())}")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    size, side, pairs, only = arguments.size, arguments.side, arguments.pairs, arguments.only
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {size:,} float32, times in ms\n\n{HEADER}")
    for part, measure in parts.items():
        for ratio in measure(side if part == "sorts" else size, pairs, only) if arguments.part in (None, part) else ():
            print(ratio.row(), flush=True)
    if arguments.part not in (None, "kept"):
        return
    print("\n| kept for backward, over the bytes of one input | |\n|---|---|")
    for name, share in kept(size, side, only):
        print(f"| {name} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
