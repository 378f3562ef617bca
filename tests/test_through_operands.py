"""through on whatever plain torch accepts or refuses: the same bits, classes and errors inside the block as outside."""

import random
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from outcomes import assert_unchanged
from torch import Tensor, nn

from each import each
from products import generator
from surrogates import through
from surrogates.own_model.calls import CALLS, DRAWN, MARKED, USES
from surrogates.strategies.dither import Dither
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

HARD_VALUED = (Subgradient(), StraightThrough(temperature=0.7), StraightThrough(carrier="identity"))
HARD_VALUED += (StraightThrough(carrier="smooth", kernel="normal"), Subgradient(rule="first"))
STE = HARD_VALUED[1]
LEAF = (2 * torch.randn(2, 3, generator=generator(0), dtype=torch.float64)).requires_grad_()
NASTY = torch.tensor([[0.0, -0.0, torch.nan], [torch.inf, -torch.inf, 1.0]], requires_grad=True)
INTEGERS, BOOLS = torch.tensor([[1, 0, 2], [3, -1, 5]]), torch.tensor([[True, False, True], [False, False, True]])
# Made anew for each call, inside the block: tensors with a derivative, and results of comparisons and indices.
FIRST: dict[str, Callable[[], Any]] = {
    "x": lambda: LEAF * 1,
    "leaf": lambda: LEAF.detach().clone().requires_grad_(),
    "parameter": lambda: nn.Parameter(LEAF.detach().clone()),
    "nan": lambda: NASTY * 1,
    "half": lambda: LEAF.half(),
    "0-d": lambda: LEAF[0, 0] * 1,
    "no entry": lambda: LEAF[:0] * 1,
    "turned": lambda: (LEAF * 1).t(),
    "expanded": lambda: (LEAF[0] * 1).expand(2, 3),
    "integers": lambda: INTEGERS.clone(),
    "mask": lambda: LEAF > 0,
    "0-d mask": lambda: LEAF[0, 0] > 0,
    "index": lambda: LEAF.argmax(1, keepdim=True),
    "counts": lambda: (LEAF > 0).long(),
}
CONSTANTS: tuple[Any, ...] = (
    None, "a", [1.0, 0.5, 2.0], [0, 1], (0, 1), (), np.float32(0.5), np.float64(0.1), np.int64(1), np.bool_(True),
    np.ones(3), 0, 1, -1, 0.5, True, float("nan"), float("inf"), 2**70, 1j, torch.float32, torch.Size([2, 3]),
    slice(0, 1), ..., object, "floor",
)  # fmt: skip
SECOND = FIRST | {
    "row": lambda: LEAF[0] * 1,
    "0-d integer": lambda: torch.tensor(1),
    "bools": lambda: BOOLS.clone(),
    "no derivative": lambda: LEAF.detach().clone(),
    "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "list": lambda: [LEAF * 1, LEAF > 0],
    **{repr(value): lambda value=value: value for value in CONSTANTS},
}
KEYWORDS: dict[str, tuple[str, ...]] = {
    "dim": ("0", "(0, 1)", "None"), "axis": ("-1",), "keepdim": ("True",), "out": ("no derivative", "None"),
    "rounding_mode": ("'floor'", "None"), "inplace": ("True", "None"), "dtype": ("torch.float32",), "other": ("x", "1"),
    "decimals": ("1",), "descending": ("True",), "min": ("0.5", "row", "None"), "max": ("0.5", "row"),
    "input": ("x", "mask"), "alpha": ("0.5",), "kernel_size": ("1",), "return_indices": ("True",),
}  # fmt: skip
FUNCTIONS = [*CALLS, *MARKED, *DRAWN, *USES]


@cache
def all_calls() -> list[tuple[Any, tuple[str, ...], dict[str, str]]]:
    """Every function on every first operand, alone, with every second operand, and with every keyword."""
    calls = [(f, (a,), {}) for f, a in product(FUNCTIONS, SECOND)]
    calls += [(f, (a, b), {}) for f, a, b in product(FUNCTIONS, FIRST, SECOND)]
    words = [(name, value) for name, values in KEYWORDS.items() for value in values]
    return calls + [(f, (a,), {name: value}) for f, a, (name, value) in product(FUNCTIONS, FIRST, words)]


def check(f: Any, names: tuple[str, ...], keywords: dict[str, str], strategy: Any = STE) -> bool:
    """Whether torch accepts the call."""

    def arguments() -> tuple[Any, dict[str, Any]]:
        return [SECOND[name]() for name in names], {name: SECOND[value]() for name, value in keywords.items()}

    return isinstance(assert_unchanged(strategy, f, arguments)[0], tuple)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@each("strategy", HARD_VALUED)
def test_calls_on_all_kinds_of_operands(strategy: Any) -> None:
    some = random.Random(str(strategy)).sample(all_calls(), 500)
    assert sum([check(*call, strategy) for call in some]) > 50


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_all_calls_on_all_kinds_of_operands() -> None:
    assert sum([check(*call) for call in all_calls()]) > 10000


X, ROW = torch.tensor([[-1.5, 0.0, 2.5], [0.5, torch.nan, 1.0]], dtype=torch.float64), torch.tensor([0.0, 1.0, -1.0])
ROW = ROW.double()


def written(x: Tensor, method: str, *operands: Any) -> tuple[Tensor, Any]:
    return x, getattr(x, method)(*operands)


CASES: dict[str, Callable[[Tensor], Any]] = {
    "== None": lambda x: [x == None, x != None],  # noqa: E711
    "== string": lambda x: x == "a",
    "== list": lambda x: x == [1.0],
    "> string": lambda x: x > "a",
    "== complex": lambda x: (x == 1j).double(),
    "in a list": lambda x: x in [None, x],
    "places of a mask": lambda x: torch.where(x > 0),
    "name of a mask's class": lambda x: (x > 0).type(),
    "mask and None": lambda x: (x > 0) & None,
    "one value left": lambda x: F.hardtanh(x, 0.5, 0.5),
    "NaN as a bound": lambda x: F.hardtanh(x, torch.nan, 0.5),
    "bounds crossed": lambda x: x.clamp(1.0, 0.5),
    "number and 0-d tensor": lambda x: x.clamp(torch.tensor(0), 1e40),
    "numpy's numbers": lambda x: [x.clamp(np.float32(-0.5), np.int64(1)), x > np.float64(0.1)],
    "numpy's sizes": lambda x: [F.max_pool1d(x, np.int64(2)), x.min(np.int64(1))],
    "numpy's arrays": lambda x: x.__floordiv__(np.ones(3)),
    "numpy's names": lambda x: [x.max(axis=1), torch.amax(x=x, axis=0, keepdims=True)],
    "values of another shape": lambda x: torch.heaviside(x[:, :1], ROW),
    "weight of one entry": lambda x: torch.prelu(x[0, 0], ROW[:1]),
    "window too large": lambda x: F.max_pool1d(x, 5),
    "bits as another dtype": lambda x: [x.argmax(1).view(torch.float32), (x > 0).long().view(dtype=torch.float64)],
    "windows by tensors": lambda x: F.max_pool1d(x, torch.tensor(1)),
    "empty window": lambda x: F.max_pool2d(x[None], ()),
    "bool as a number": lambda x: F.hardshrink(x, torch.tensor(True)),
    "huge number": lambda x: F.softshrink(x, 1e40),
    "complex bound": lambda x: x.clamp(1j),
    "no bounds": lambda x: x.clamp(),
    "no tensor": lambda x: F.relu([x], inplace=True),
    "integers in place": lambda x: written(torch.ones(2, 3, dtype=torch.int64), "clamp_", x),
    "a leaf in place": lambda x: written(x.detach().clone().requires_grad_(), "floor_"),
    "shared memory in place": lambda x: written(x[0].expand(2, 3), "relu_"),
    "another shape in place": lambda x: written(x[:1] * 1, "floor_divide_", x),
    "counts in place": lambda x: written(torch.ones(2, 3, dtype=torch.int64), "add_", x > 0),
    "bools in place": lambda x: written(torch.zeros(2, 3, dtype=torch.bool), "logical_or_", x > 0),
    "floats in place": lambda x: written(x * 1, "logical_and_", x > 0),
    "bits in place": lambda x: written(torch.tensor([[5, 6, 7]] * 2), "bitwise_and_", x > 0),
    "a product into out": lambda x: torch.mul(x.detach(), x > 0, out=torch.empty(2, 3, dtype=x.dtype)),
    "a value into out": lambda x: torch.relu(x, out=torch.empty(2, 3)),
    "largest into out": lambda x: torch.max(x.detach(), 0, out=(torch.empty(3).double(), torch.empty(3).long())),
    "a mask as a dim": lambda x: x.flip(x[0, 2] > 9),
    "a count as a factor": lambda x: x.sub((x > 0).sum(), x),
    "rows of integers": lambda x: torch.arange(3)[x.nan_to_num().argmax(1)] * x[:, 0],
    "torch's own embedding": lambda x: torch.embedding(x.t(), x.argmax(1)),
    "classes from rows": lambda x: F.one_hot(torch.tensor([2, 0, 1])[x.argmax(1)]).double(),
    "where by keywords": lambda x: torch.where(condition=x > 0, input=x, other=ROW),
    "where's method by keywords": lambda x: x.where(condition=x > 0, other=ROW),
    "sorted, by its overloads": lambda x: [x.sort(stable=True), torch.sort(x, True), x.sort(1, True), torch.msort(x)],
    "k by a tensor": lambda x: x.topk(torch.tensor(2)),
    "dim by a tensor": lambda x: x.amax(torch.tensor(1)),
}  # fmt: skip


@each("name", CASES)
def test_cases(name: str) -> None:
    """The kinds of call that once differed: each raised another error, lost an effect, or returned another tensor."""
    for strategy in HARD_VALUED[:2]:
        assert_unchanged(strategy, CASES[name], lambda: ((X.clone().requires_grad_() * 1,), {}))


def test_what_is_not_understood_is_reported() -> None:
    x = X.clone().requires_grad_()
    with through(STE) as report:
        (x == 1j).double()
        torch.where(x > 0)
        with pytest.raises(RuntimeError):
            x.floor_()
        (x > 0).logical_and(torch.ones(2, 3)).double()
    assert {(row.call, row.fate.partition(": ")[2] or row.fate) for row in report.not_replaced} == {
        ("==", "Compare needs floating operands, got torch.complex128"),
        (">", "its result is no tensor"),
        ("floor_", "torch raises RuntimeError"),
        (">", "logic of torch.float32 has no op"),
    }
    assert not report.replaced


def test_an_estimator_leaves_a_continuous_op_its_subgradient() -> None:
    x = X.clone().requires_grad_()
    with through(Dither()) as report:
        torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -2, 1), x.relu(), x.max()
    assert [row.fate for row in report.replaced] == [
        "Round() by Dither(); Maximum() by Subgradient(); Minimum() by Subgradient()",
        "ReLU() by Subgradient()",
        "Max() by Subgradient()",
    ]
