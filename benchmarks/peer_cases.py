"""What this library and one of its peers both have, side by side in the peer's environment; run by peers.py.

Prints a JSON line a case. Ours and the peer's are timed in one process, on the same inputs and the same torch, in
interleaved pairs (pairs.py), forward and backward.

Usage: python benchmarks/peer_cases.py PEER [--size N] [--side N] [--pairs N] [--threads N]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pairs import compare
from timing import Function, derivatives, inputs, milliseconds

from surrogates import Strategy
from surrogates.members import ops
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough


@dataclass(frozen=True)
class Case:
    """One op: ours and the peer's; `square` for inputs of side x side numbers, `row` for one row of `side` numbers."""

    name: str
    ours: Function
    peer: Function
    inputs: str = "elementwise"


def under(strategy: Strategy, stem: str, **constants: Any) -> Function:
    """An op by its stem under a strategy; both are made once, as a model does."""
    return partial(strategy, ops()[stem](**constants))


def ste(stem: str) -> Function:
    return under(StraightThrough(), stem)


def spike(kernel: str, T: float) -> Function:
    return under(StraightThrough(carrier="smooth", kernel=kernel, temperature=T), "heaviside")


def smooth(stem: str, form: str | None = None, T: float = 0.1, **constants: Any) -> Function:
    return under(Smooth(form=form, temperature=T), stem, **constants)


def straight_smooth(stem: str, T: float = 0.1) -> Function:
    return under(StraightThrough(carrier="smooth", temperature=T), stem)


def brevitas() -> Iterator[Case]:
    import brevitas.function.ops_ste as peer

    for stem, name in {"round": "round_ste", "floor": "floor_ste", "ceil": "ceil_ste"}.items():
        yield Case(f"{name} / `ste` on {stem}", ste(stem), getattr(peer, name))
    yield Case("round_to_zero_ste / `ste` on trunc", ste("trunc"), peer.round_to_zero_ste)
    yield Case("scalar_clamp_ste / `ste` on clamp", ste("clamp"), lambda x: peer.scalar_clamp_ste(x, 0.0, 1.0))
    identity = under(StraightThrough(carrier="identity"), "sign", zero=1.0)
    yield Case("binary_sign_ste / `ste` on sign", identity, peer.binary_sign_ste)


def spikingjelly() -> Iterator[Case]:
    from spikingjelly.activation_based import surrogate as peer

    yield Case("Sigmoid / `ste`, logistic", spike("logistic", 1 / 4), peer.Sigmoid(alpha=4.0))
    yield Case("ATan / `ste`, Cauchy", spike("cauchy", 1 / math.pi), peer.ATan(alpha=2.0))
    yield Case("SoftSign / `ste`, fast sigmoid", spike("fast_sigmoid", 1 / 2), peer.SoftSign(alpha=2.0))
    yield Case("Erf / `ste`, normal", spike("normal", math.sqrt(0.5) / 2), peer.Erf(alpha=2.0))
    yield Case("PiecewiseQuadratic / `ste`, triangular", spike("triangular", 1.0), peer.PiecewiseQuadratic(alpha=1.0))


def snntorch() -> Iterator[Case]:
    from snntorch import surrogate as peer

    yield Case("atan / `ste`, Cauchy", spike("cauchy", 1 / math.pi), peer.atan(alpha=2.0))
    yield Case("fast_sigmoid / `ste`, fast sigmoid", spike("fast_sigmoid", 1 / 25), peer.fast_sigmoid(slope=25))
    yield Case("sigmoid / `ste`, logistic", spike("logistic", 1 / 25), peer.sigmoid(slope=25))


def entmax() -> Iterator[Case]:
    import entmax as peer

    yield Case("sparsemax / `smooth` on argmax", smooth("argmax", "sparsemax", 1.0), peer.sparsemax, "square")


def difftopk() -> Iterator[Case]:
    import difftopk as peer

    soft, neural = peer.SoftSort(tau=0.1), peer.NeuralSort(tau=0.1)
    ours = smooth("permutation", descending=True)
    yield Case("SoftSort / `smooth` on permutation", ours, lambda x: soft(x[None])[0], "row")
    ours = smooth("permutation", "neural_sort")  # its NeuralSort is ascending, and has the ranks in columns
    yield Case("NeuralSort / `smooth` on permutation", ours, lambda x: neural(x[None])[0].T, "row")


def softtorch() -> Iterator[Case]:
    import softtorch as peer

    for stem in ("round", "sign", "heaviside", "relu", "clamp", "abs"):
        theirs = (lambda x: peer.clamp(x, 0.0, 1.0)) if stem == "clamp" else getattr(peer, stem)
        yield Case(f"{stem} / `smooth` on {stem}", smooth(stem), theirs)
    for stem in ("round", "sign", "heaviside"):
        yield Case(f"{stem}_st / `ste` on {stem}, smooth carrier", straight_smooth(stem), getattr(peer, f"{stem}_st"))

    def with_method(name: str, method: str) -> Function:
        return lambda x: getattr(peer, name)(x, dim=-1, method=method, standardize=False)

    yield Case(
        "argmax / `smooth` on argmax", smooth("argmax"), lambda x: peer.argmax(x, dim=-1, standardize=False), "square"
    )
    for form, method in ((None, "softsort"), ("neural_sort", "neuralsort")):
        for name, stem in {"argsort": "permutation", "sort": "sort"}.items():
            theirs = with_method(name, method)
            values = theirs if name == "argsort" else lambda x, theirs=theirs: theirs(x)[0]
            yield Case(f"{name}, {method} / `smooth` on {stem}", smooth(stem, form), values, "row")


PEERS: dict[str, Callable[[], Iterator[Case]]] = {
    function.__name__: function for function in (softtorch, brevitas, spikingjelly, snntorch, entmax, difftopk)
}


def measure(case: Case, size: int, side: int, pairs: int) -> dict[str, Any]:
    """The ratio, and the largest differences between ours and the peer's: of the value, and of the derivative."""
    shape = {"elementwise": (size,), "square": (side, side), "row": (side,)}[case.inputs]
    x = inputs(shape)
    ours, peer = case.ours(*x), case.peer(*x)
    weights = torch.randn_like(ours.detach())
    slopes = [derivatives(lambda x, f=f: f(x) * weights, x)[0] for f in (case.ours, case.peer)]
    ratio = compare(case.name, milliseconds(case.ours, x), milliseconds(case.peer, x), 1.0, pairs)
    return asdict(ratio) | {"value": _apart(ours, peer), "derivative": _apart(*slopes), "shape": list(shape)}


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("peer", choices=PEERS)
    for name, default in {"size": 1_000_000, "side": 256, "pairs": 25, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    for case in PEERS[arguments.peer]():
        try:
            line = measure(case, arguments.size, arguments.side, arguments.pairs)
        except Exception as error:  # one op of a peer: the others are still measured
            where = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            line = {"name": case.name, "error": " ".join(told.split())}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
