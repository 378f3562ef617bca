"""Times what this library and a peer both have, in the peer's environment; peers.py runs it.

Prints one JSON line for each case: the ratio of the times, and the differences of values and derivatives. Both sides
are timed in one process, on the same inputs and the same torch, in interleaved pairs (pairs.py).

Usage: python benchmarks/peer_cases.py PEER [--size N] [--pairs N]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nets import NETS, spike, step
from pairs import compare
from timing import Function, milliseconds

from surrogates.ops.heaviside import Heaviside

Spikes = Iterator[tuple[str, str, float, Function]]


def spikingjelly() -> Spikes:
    """Returns name, our kernel and its temperature, and the peer's function."""
    from spikingjelly.activation_based import surrogate as peer

    yield "spike, Sigmoid", "logistic", 1 / 4, peer.Sigmoid(alpha=4.0)
    yield "spike, ATan", "cauchy", 1 / math.pi, peer.ATan(alpha=2.0)
    yield "spike, SoftSign", "fast_sigmoid", 1 / 2, peer.SoftSign(alpha=2.0)
    yield "spike, Erf", "normal", math.sqrt(0.5) / 2, peer.Erf(alpha=2.0)
    yield "spike, PiecewiseQuadratic", "triangular", 1.0, peer.PiecewiseQuadratic(alpha=1.0)


def snntorch() -> Spikes:
    from snntorch import surrogate as peer

    yield "spike, atan", "cauchy", 1 / math.pi, peer.atan(alpha=2.0)
    yield "spike, fast_sigmoid", "fast_sigmoid", 1 / 25, peer.fast_sigmoid(slope=25)
    yield "spike, sigmoid", "logistic", 1 / 25, peer.sigmoid(slope=25)


SPIKES: dict[str, Callable[[], Spikes]] = {"spikingjelly": spikingjelly, "snntorch": snntorch}
PEERS = list(dict.fromkeys([*SPIKES, *NETS]))


def cases(peer: str, size: int) -> Iterator[tuple[str, Function, Function, Tensor, Callable[..., Any]]]:
    """Yields name, ours, the peer's, input and measure: forward and backward of an op, or a step of a net."""
    for name, kernel, temperature, function in SPIKES[peer]() if peer in SPIKES else ():
        ours = partial(spike(kernel, temperature), Heaviside())
        yield name, ours, function, torch.randn(size), milliseconds
    for name, *nets, x in NETS[peer]() if peer in NETS else ():
        yield name, *nets, x, step


def measure(
    name: str, ours: Function, peer: Function, x: Tensor, timed: Callable[..., Any], pairs: int
) -> dict[str, Any]:
    """Returns the ratio, and the largest differences of values and derivatives, relative to the largest value."""
    x = x.requires_grad_()
    values = ours(x), peer(x)
    weights = torch.randn_like(values[0])
    slopes = [torch.autograd.grad((value * weights).sum(), x)[0] for value in values]
    x = x.detach().requires_grad_(timed is milliseconds)
    ratio = compare(name, timed(ours, x), timed(peer, x), 1.0, pairs)
    return asdict(ratio) | {"value": _apart(*values), "derivative": _apart(*slopes)}


def _apart(a: Tensor, b: Tensor) -> float:
    return float(((a - b).abs().max() / b.abs().max()).detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("peer", choices=PEERS)
    for name, default in {"size": 1_000_000, "pairs": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for case in cases(given.peer, given.size):
        try:
            line = measure(*case, given.pairs)
        except Exception as error:  # a case that fails: the others are still measured
            where = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            line = {"name": case[0], "error": " ".join(told.split())}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
