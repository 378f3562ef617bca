"""Puts models of other libraries under a strategy by `through`, and prints the table of docs/real_models.md.

    python tests/real_models.py                   the table
    python tests/real_models.py ResNet-18 FSQ     these rows only

Needs pip install -e '.[models]'. Weights and inputs are random.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import NamedTuple

import torch
from torch import Tensor, nn

import hardgrad as hg
import other_models as others
from surrogates.own_model.replacements import Occurrence, Replacements

VQ = "vector-quantize-pytorch"
CODEBOOK = {"dim": 4, "codebook_size": 8}
IDENTITY = hg.strategies.StraightThrough(carrier="identity")
CLIPPED = hg.strategies.StraightThrough(carrier="clipped")
HEADER = "| model | version | block | replaced | not replaced | derivatives |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class RealModel:
    """A model, the package that it comes from (none if it is written here), and what `through` gets for it."""

    name: str
    package: str | None
    build: Callable[[], nn.Module]
    draw: Callable[[], Tensor]
    default: hg.Strategy | str | None = "ste"
    by_op: Mapping[str, hg.Strategy | str | None] = field(default_factory=dict)

    def block(self) -> hg.Through:
        """The block of `through`."""
        return hg.through(self.default, **self.by_op)

    @property
    def call(self) -> str:
        """The block as Python code."""
        named = (f"{name}={strategy!r}" for name, strategy in self.by_op.items())
        return f"through({', '.join([repr(self.default), *named])})"


class Outcome(NamedTuple):
    """The output of a model with its derivatives by parameters and input, and the report of the block."""

    value: Tensor
    derivatives: dict[str, Tensor | None]
    report: Replacements | None


codes = partial(torch.randn, 2, 5, 6)
images = partial(torch.randn, 4, 3, 64, 64)
rows = partial(torch.randn, 5, 6)
MODELS = (
    RealModel("ResNet-18", "torchvision", others.resnet, images, None, {"relu": IDENTITY}),
    RealModel("MobileNetV3", "torchvision", others.mobilenet, images, None, {"relu": "ste", "clamp": "ste"}),
    RealModel("Swin", "torchvision", others.swin, images),
    RealModel("leaky neurons", "snntorch", others.snntorch, rows),
    RealModel("LIF neurons", "spikingjelly", others.spikingjelly, rows),
    RealModel("VQ", VQ, others.codes("VectorQuantize", rotation_trick=False, **CODEBOOK), codes),
    RealModel("residual VQ, rotation trick", VQ, others.codes("ResidualVQ", num_quantizers=2, **CODEBOOK), codes),
    RealModel("FSQ", VQ, others.codes("FSQ", levels=[8, 5, 5, 5]), codes, CLIPPED),
    RealModel("LFQ", VQ, others.codes("LFQ", codebook_size=16, dim=4), codes),
    RealModel("QuantConv2d, QuantLinear", "brevitas", others.brevitas, partial(torch.randn, 2, 1, 8, 8)),
    RealModel("FakeQuantizedLinear", "torchao", others.torchao, partial(torch.randn, 4, 8)),
    RealModel("BERT encoder", "transformers", others.bert, partial(torch.randint, 50, (2, 7))),
    RealModel("mixture of experts", None, partial(others.Experts, 6, 4), rows, None, {"top_k": "ste"}),
    RealModel("mixture, every expert", None, partial(others.EveryExpert, 6, 4), rows),
    RealModel("BitLinear", None, others.bit_linear, rows, CLIPPED),
)


def outcome(model: RealModel, block: AbstractContextManager[object] | None = None) -> Outcome:
    """Builds the model anew, and differentiates its output inside a block of `through`, or outside one."""
    torch.manual_seed(0)
    net, x = model.build(), model.draw()
    by = dict(net.named_parameters()) | ({"input": x.requires_grad_()} if x.is_floating_point() else {})
    with block or nullcontext() as report:
        value = first(net(x))
    weight = torch.randn(value.shape)
    derivatives = torch.autograd.grad(value, list(by.values()), weight, allow_unused=True)
    return Outcome(value, dict(zip(by, derivatives, strict=True)), report)


def first(output: Tensor | Sequence[Tensor]) -> Tensor:
    """A model's output, or the first of several."""
    return output if isinstance(output, Tensor) else output[0]


def release(model: RealModel) -> str:
    """The package with its version."""
    return f"{model.package} {version(model.package)}" if model.package else "written here"


def row(model: RealModel) -> str:
    """The model's line of the table."""
    plain, changed = outcome(model), outcome(model, model.block())
    report = changed.report
    same = all(alike(a, changed.derivatives[name]) for name, a in plain.derivatives.items())
    cells = model.name, release(model), f"`{model.call}`", told(report.replaced), told(report.not_replaced)
    return f"| {' | '.join(cells)} | {'the same' if same else 'changed'} |"


def alike(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two derivatives are equal up to rounding; None equals None."""
    if a is None or b is None:
        return a is b
    return bool((a - b).abs().max() <= 1e-4 * a.abs().max() + 1e-7)


def told(counts: Counter[Occurrence]) -> str:
    """Calls by file and strategy, or the reason."""
    summed: Counter[tuple[str, str, str]] = Counter()
    for (call, fate, where), count in counts.items():
        strategies = " and ".join(dict.fromkeys(re.findall(r"by (\w+)\(", fate)))
        summed[call, where.partition(":")[0], strategies or fate.partition(";")[0]] += count
    return "; ".join(f"{count} {call} in {file}: {how}" for (call, file, how), count in summed.items()) or "none"


def main() -> None:
    """Prints the rows."""
    print(HEADER)
    for model in MODELS:
        if not sys.argv[1:] or model.name in sys.argv[1:]:
            print(row(model), flush=True)


if __name__ == "__main__":
    main()
