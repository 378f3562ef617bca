"""through and convert under a straight-through default: a call with a derivative keeps it, the others get another."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from test_through import CALLS, X, values
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from each import each
from products import OPS, sample
from surrogates import convert, through
from surrogates.core import Op
from surrogates.own_model import calls
from surrogates.own_model.calls import functions
from surrogates.own_model.choice import StrategyByOp, name_of
from surrogates.own_model.replacer import alike
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

JUMPS = {"threshold", "hardshrink"}  # which have a derivative beside their jumps
X26 = torch.tensor([-2.0, -0.5, 0.5, 2.0])


def slope(function: Callable[..., Any], x: Tensor, *args: object) -> Tensor | None:
    """The derivative of a sum of the values with unequal weights; None if torch has none."""
    leaf = x.clone().requires_grad_()
    value = values(function(leaf * 1, *args))
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype).view_as(value)
    try:
        return torch.autograd.grad(value, leaf, weights)[0]
    except (RuntimeError, NotImplementedError):
        return None


@each("op", OPS)
def test_straight_through_is_for_the_ops_whose_derivative_is_0_almost_everywhere(op: Op) -> None:
    """The derivative by the first input; a lookup has one by its table, and `where` by its branches."""
    x, *others = sample(op, (16, 8))
    flat = not slope(lambda x: Subgradient()(op, x, *others), x).any()
    assert StrategyByOp("ste").strategy(op) == (StraightThrough() if flat else Subgradient())
    assert StrategyByOp("ste", {name_of(op): "ste"}).strategy(op) == StraightThrough()


@each("name", [name for name in CALLS if name not in JUMPS and "fake" not in name])
def test_a_call_keeps_the_derivative_that_it_has_in_torch(name: str) -> None:
    x, args = X.unsqueeze(0) if "pool" in name else X, CALLS[name][0]
    for function, _ in functions(name):
        own = slope(function, x, *args)
        with through("ste"):
            got = slope(function, x, *args)
        if own is None or not own.any():
            assert got.any()
        else:
            torch.testing.assert_close(got, own)


def test_only_the_round_changes() -> None:
    """Case K26."""
    x = X26.clone().requires_grad_()
    with through("ste") as report:
        results = x.round(), x.relu(), x.clamp(-1, 1)
    slopes = [torch.autograd.grad(y.sum(), x)[0].tolist() for y in results]
    assert slopes == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]]
    assert [row.fate for row in report.replaced] == [
        "Round() by StraightThrough()",
        "ReLU() by Subgradient()",
        "Maximum() by Subgradient(); Minimum() by Subgradient()",
    ]


def test_fake_quantization_is_a_clipped_identity() -> None:
    x, scales, zeros = torch.arange(-8, 9) * 0.25 + 0.1, torch.tensor([0.5]), torch.tensor([1], dtype=torch.int32)
    codes = (x / 0.5).round() + 1
    right = ((codes > -2) & (codes < 3)).float() + 0.5 * ((codes == -2) | (codes == 3))
    for function, args in (
        (torch.fake_quantize_per_tensor_affine, (0.5, 1, -2, 3)),
        (torch.fake_quantize_per_channel_affine, (scales, zeros, 0, -2, 3)),
    ):
        leaf = x.unsqueeze(0).requires_grad_()
        with through("ste"):
            y = function(leaf, *args)
        assert torch.equal(torch.autograd.grad(y.sum(), leaf)[0], right.unsqueeze(0))


def test_a_converted_model_keeps_its_derivative() -> None:
    layers = nn.ReLU(), nn.Hardtanh(-2, 0.5), nn.LeakyReLU(), nn.Hardswish(), nn.Softshrink(0.1), nn.MaxPool1d(2)
    model = nn.Sequential(*layers).double()
    own = slope(model, X.unsqueeze(0))
    report = convert(model, "ste")
    assert len(report.replaced) == len(layers)
    assert all("StraightThrough" not in row.fate for row in report.replaced)
    torch.testing.assert_close(slope(model, X.unsqueeze(0)), own)


@each("name, call", [("max", torch.max), ("relu", F.relu), ("clamp", F.hardtanh)])
def test_a_named_op_gets_straight_through(name: str, call: Callable[[Tensor], Tensor]) -> None:
    with through("ste", **{name: "ste"}) as report:
        got = slope(call, X26)
    assert got.all()
    assert all("Subgradient" not in row.fate for row in report.replaced)


def test_the_page_lists_the_ops() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own_model.md").read_text()
    for continuous, gets in ((False, "straight-through"), (True, "its subgradient")):
        (line,) = [line for line in page.splitlines() if line.endswith(f"| {gets} |")]
        listed = set(re.findall(r"`(\w+)`", line))
        assert listed
        assert listed <= {name_of(op) for op in OPS if op.continuous == continuous}


class Made(TorchFunctionMode):
    """The torch calls that are made in a block, and those that a block inside it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(function.__name__)
        return function(*args, **kwargs or {})


@each("name", CALLS)
def test_a_call_whose_ops_have_no_strategy_is_made_once(name: str) -> None:
    args = CALLS[name][0]
    x = (X.unsqueeze(0) if "pool" in name else X).clone().requires_grad_()
    for function, inplace in functions(name):
        given = x.clone() if inplace else x
        with Made() as plain:
            function(given, *args)
        indices = name in ("topk", "sort", "kthvalue", "adaptive_max_pool1d")  # whose marks hold a copy
        for block in (through(None, lookup="ste"), through("ste", **dict.fromkeys(calls.CALLS[function].ops))):
            given = x.clone() if inplace else x
            with Made() as made, block as report:
                function(given, *args)
            more = Counter(made.calls) - Counter(plain.calls)
            assert set(more) <= {"is_floating_point", "__get__", *(("dim", "clone") if indices else ())}
            assert [row.fate for row in report.not_replaced] == ["no strategy chosen"]


MORE = (
    *((torch.div, (X, 0.3), {"rounding_mode": mode}) for mode in ("floor", "trunc")),
    *((function, (X, X), {}) for function in (torch.max, torch.min)),
)


def test_the_ops_of_a_call_are_those_that_its_meaning_applies() -> None:
    given = [
        (f, (X.unsqueeze(0) if "pool" in name else X, *CALLS[name][0]), {})
        for name in CALLS
        for f, _ in functions(name)
    ]
    for function, args, kwargs in (*given, *MORE):
        call, applied = calls.CALLS[function], set()

        def apply(op: Op, *x: Any, applied: set[str] = applied) -> Tensor:
            applied.add(name_of(op))
            return op.hard(*alike(*x))

        call.meaning(apply, *args, **kwargs)
        assert applied
        assert applied <= set(call.ops), call.name
