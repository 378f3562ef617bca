"""through on comparisons and indices: what is made of them, against the same written with numbers that have a graph."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, vmap

from each import each
from products import generator, gradients, same
from surrogates import through
from surrogates.core import Strategy
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.compare import Compare
from surrogates.ops.heaviside import Heaviside
from surrogates.own_model.calls import COMPARISONS, functions
from surrogates.own_model.uses import LIFTED
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STE, SOFT, SUB = StraightThrough(temperature=0.7), Smooth(temperature=0.4), Subgradient()
by_strategy = pytest.mark.parametrize("s", [SUB, STE, SOFT], ids=lambda s: type(s).__name__)
X, Y, Z = (1.3 * torch.randn(3, 4, generator=generator(seed), dtype=torch.float64) for seed in range(3))


class Numbers:
    """The surrogate calls by hand: m(u) is the step of u, one(x), least(x) are one-hot rows."""

    def __init__(self, s: Strategy) -> None:
        self.s = s

    def m(self, u: Tensor, zero: float = 0.0) -> Tensor:
        return self.s(Heaviside(zero=zero), u)

    def one(self, x: Tensor) -> Tensor:
        return self.s(ArgMax(), x)

    def least(self, x: Tensor) -> Tensor:
        return self.s(ArgMin(), x)


Use = tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Callable[[Numbers, Tensor, Tensor, Tensor], Tensor]]
MASKS: dict[str, Use] = {
    "float": (lambda x, y, z: (x > 0).float(), lambda n, x, y, z: n.m(x).float()),
    "double >=": (lambda x, y, z: (x >= 0.3).double(), lambda n, x, y, z: n.m(x - 0.3, 1.0)),
    "half": (lambda x, y, z: (x > y).half(), lambda n, x, y, z: n.m(x - y).half()),
    "bfloat16": (lambda x, y, z: (x > y).bfloat16(), lambda n, x, y, z: n.m(x - y).bfloat16()),
    "to <": (lambda x, y, z: (x < y).to(x.dtype), lambda n, x, y, z: n.m(y - x)),
    "to keyword <=": (lambda x, y, z: (x <= 0).to(dtype=torch.float64), lambda n, x, y, z: n.m(-x, 1.0)),
    "to another": (lambda x, y, z: torch.gt(x, 0).to(y), lambda n, x, y, z: n.m(x)),
    "type": (lambda x, y, z: x.gt(0).type(torch.float64), lambda n, x, y, z: n.m(x)),
    "type_as": (lambda x, y, z: x.lt(0).type_as(x), lambda n, x, y, z: n.m(-x)),
    "scalar on the left": (
        lambda x, y, z: (0.2 < x).double(),  # noqa: SIM300
        lambda n, x, y, z: n.m(x - 0.2),
    ),
    "equal": (lambda x, y, z: (x == y).double(), lambda n, x, y, z: n.s(Compare("=="), x, y)),
    "not equal": (lambda x, y, z: (x != y) * z, lambda n, x, y, z: (1 - n.s(Compare("=="), x, y)) * z),
    "by way of integers": (lambda x, y, z: (x > 0).long().double(), lambda n, x, y, z: n.m(x)),
    "broadcast": (lambda x, y, z: (x > y[:, :1]).double(), lambda n, x, y, z: n.m(x - y[:, :1])),
    "multiply": (lambda x, y, z: (x > 0) * y, lambda n, x, y, z: n.m(x) * y),
    "multiplied": (lambda x, y, z: y * torch.ge(x, z), lambda n, x, y, z: y * n.m(x - z, 1.0)),
    "multiply in place": (lambda x, y, z: (y * 1).mul_(x > 0), lambda n, x, y, z: y * n.m(x)),
    "augmented": (lambda x, y, z: _augmented(y * 1, x > 0), lambda n, x, y, z: y * n.m(x) + n.m(x)),
    "times a number": (lambda x, y, z: (x > 0) * 2.5, lambda n, x, y, z: (n.m(x) * 2.5).float()),
    "plus": (lambda x, y, z: (x > 0) + y, lambda n, x, y, z: n.m(x) + y),
    "signed": (lambda x, y, z: 2 * (x > 0).double() - 1, lambda n, x, y, z: 2 * n.m(x) - 1),
    "divided": (lambda x, y, z: (x > 0) / (1 + y * y), lambda n, x, y, z: n.m(x) / (1 + y * y)),
    "counted": (lambda x, y, z: (x > 0).sum(1) / 4.0, lambda n, x, y, z: (n.m(x).sum(1) / 4.0).float()),
    "share": (lambda x, y, z: (x > 0).mean(dtype=torch.float64), lambda n, x, y, z: n.m(x).mean()),
    "counted up": (lambda x, y, z: (x > 0).cumsum(0) * y, lambda n, x, y, z: n.m(x).cumsum(0) * y),
    "where": (lambda x, y, z: torch.where(x > 0, y, z), lambda n, x, y, z: n.m(x) * y + (1 - n.m(x)) * z),
    "where itself": (lambda x, y, z: torch.where(x > 0, x, -x), lambda n, x, y, z: n.m(x) * x - (1 - n.m(x)) * x),
    "where method": (lambda x, y, z: y.where(x < z, 0.5), lambda n, x, y, z: n.m(z - x) * y + (1 - n.m(z - x)) * 0.5),
    "where numbers": (lambda x, y, z: torch.where(x > 0, 1.0, -1.0), lambda n, x, y, z: (2 * n.m(x) - 1).float()),
    "where integers": (lambda x, y, z: torch.where(x > 0, 3, 1) * y, lambda n, x, y, z: (1 + 2 * n.m(x)) * y),
    "masked_fill": (lambda x, y, z: y.masked_fill(x > 0, 2.0), lambda n, x, y, z: n.m(x) * 2 + (1 - n.m(x)) * y),
    "masked_fill in place": (
        lambda x, y, z: (y * 1).masked_fill_(x > 0, 2.0),
        lambda n, x, y, z: n.m(x) * 2 + (1 - n.m(x)) * y,
    ),
    "and": (lambda x, y, z: ((x > 0) & (y < 1)).double(), lambda n, x, y, z: n.m(x) * n.m(1 - y)),
    "logical and": (lambda x, y, z: torch.logical_and(x > 0, y < 1) * z, lambda n, x, y, z: n.m(x) * n.m(1 - y) * z),
    "and in place": (lambda x, y, z: _and_in_place(x > 0, y > 0) * z, lambda n, x, y, z: n.m(x) * n.m(y) * z),
    "and a constant": (lambda x, y, z: ((x > 0) & FIXED).double(), lambda n, x, y, z: n.m(x) * FIXED),
    "or": (
        lambda x, y, z: ((x > 0) | (y < 1)).double(),
        lambda n, x, y, z: n.m(x) + n.m(1 - y) - n.m(x) * n.m(1 - y),
    ),
    "sum of masks": (
        lambda x, y, z: ((x > 0) + (y > 0)) * z,
        lambda n, x, y, z: (n.m(x) + n.m(y) - n.m(x) * n.m(y)) * z,
    ),
    "xor": (
        lambda x, y, z: ((x > 0) ^ (y > 0)).double(),
        lambda n, x, y, z: n.m(x) + n.m(y) - 2 * n.m(x) * n.m(y),
    ),
    "not": (lambda x, y, z: (~(x > 0)).double(), lambda n, x, y, z: 1 - n.m(x)),
    "logical not": (lambda x, y, z: (x > 0).logical_not() * y, lambda n, x, y, z: (1 - n.m(x)) * y),
    "unsqueeze": (lambda x, y, z: (x > 0).unsqueeze(1).double(), lambda n, x, y, z: n.m(x).unsqueeze(1)),
    "turned": (lambda x, y, z: (x > 0).T.flatten() * z.view(-1), lambda n, x, y, z: n.m(x).T.flatten() * z.view(-1)),
    "part": (lambda x, y, z: (x > 0)[1:, None, ::2].double(), lambda n, x, y, z: n.m(x)[1:, None, ::2]),
    "joined": (lambda x, y, z: torch.cat([x > 0, y > 0]).double(), lambda n, x, y, z: torch.cat([n.m(x), n.m(y)])),
    "stacked": (lambda x, y, z: torch.stack([x > 0, FIXED]) * y, lambda n, x, y, z: torch.stack([n.m(x), ONES]) * y),
}
FIXED = torch.tensor([True, False, True, True]).expand(3, 4)
ONES = FIXED.double()
INDEXED: dict[str, Use] = {
    "one_hot": (lambda x, y, z: F.one_hot(x.argmax(-1)).double(), lambda n, x, y, z: n.one(x)[:, : _classes(x)]),
    "one_hot of 6": (
        lambda x, y, z: F.one_hot(x.argmax(1), 6) * 1.0,
        lambda n, x, y, z: F.pad(n.one(x), (0, 2)).float(),
    ),
    "one_hot, multiplied": (
        lambda x, y, z: (F.one_hot(torch.argmax(x, -1), 4) * y).sum(-1),
        lambda n, x, y, z: (n.one(x) * y).sum(-1),
    ),
    "one_hot along 0": (lambda x, y, z: F.one_hot(x.argmax(0), 3).to(y), lambda n, x, y, z: n.one(x.t())),
    "one_hot of all": (lambda x, y, z: F.one_hot(x.argmax(), 12).double(), lambda n, x, y, z: n.one(x.flatten())),
    "argmin": (lambda x, y, z: F.one_hot(x.argmin(dim=-1), 4).double(), lambda n, x, y, z: n.least(x)),
    "gather": (
        lambda x, y, z: y.gather(-1, x.argmax(-1).unsqueeze(-1)),
        lambda n, x, y, z: (n.one(x) * y).sum(-1, keepdim=True),
    ),
    "gather keepdim": (
        lambda x, y, z: torch.gather(y, 0, x.argmax(0, keepdim=True)),
        lambda n, x, y, z: (n.one(x.t()).t() * y).sum(0, keepdim=True),
    ),
    "gather expanded": (
        lambda x, y, z: _deep(y).gather(1, x.argmax(-1)[:, None, None].expand(-1, -1, 2)),
        lambda n, x, y, z: (n.one(x).unsqueeze(-1) * _deep(y)).sum(1, keepdim=True),
    ),
    "indices of max": (
        lambda x, y, z: y.gather(1, x.max(1, keepdim=True).indices),
        lambda n, x, y, z: (n.one(x) * y).sum(1, keepdim=True),
    ),
    "indices of min": (
        lambda x, y, z: F.one_hot(torch.min(x, 1)[1], 4) * y,
        lambda n, x, y, z: n.least(x) * y,
    ),
    "rows of a table": (lambda x, y, z: y.t()[x.argmax(-1)], lambda n, x, y, z: n.one(x) @ y.t()),
    "nearest code": (
        lambda x, y, z: F.embedding(torch.cdist(x, y).argmin(-1), y),
        lambda n, x, y, z: n.least(torch.cdist(x, y)) @ y,
    ),
}


def _augmented(y: Tensor, mask: Tensor) -> Tensor:
    y *= mask
    y += mask
    return y


def _and_in_place(a: Tensor, b: Tensor) -> Tensor:
    a &= b
    return a


def _deep(y: Tensor) -> Tensor:
    return torch.stack([y, 2 * y], -1)


def _classes(x: Tensor) -> int:
    return int(x.argmax(-1).max()) + 1


@by_strategy
@each("name", [*MASKS, *INDEXED])
def test_what_is_made_of_a_comparison_or_an_index(name: str, s: Strategy) -> None:
    call, reference = (MASKS | INDEXED)[name]
    plain = call(X, Y, Z)

    def taken(*x: Tensor) -> Tensor:
        with through(s, empty="raise") as report:
            y = call(*x)
        assert not report.not_replaced, report
        assert report.replaced
        return y

    leaves = [t.clone().requires_grad_() for t in (X, Y, Z)]
    value, expected = taken(*leaves), reference(Numbers(s), *leaves)
    if s.soft_forward:
        torch.testing.assert_close(value, expected)
    else:
        assert same(value, plain)
    weight = torch.randn(plain.shape, generator=generator(7), dtype=torch.float64).to(plain.dtype)
    got = gradients(taken, [X, Y, Z], weight)
    right = gradients(lambda *x: reference(Numbers(s), *x).to(plain.dtype), [X, Y, Z], weight)
    loose = {} if plain.dtype == torch.float64 else {"rtol": 1e-2, "atol": 1e-3}
    for a, b in zip(got, right, strict=True):
        a, b = (torch.zeros_like(X) if t is None else t for t in (a, b))
        torch.testing.assert_close(a, b, **loose)


def test_every_comparison_is_replaced_by_function_method_and_operator() -> None:
    ran = 0
    for meaning, names in COMPARISONS.items():
        for function, inplace in (pair for name in names for pair in functions(name)):
            if inplace:
                continue
            x = X.clone().requires_grad_()
            with through(STE) as report:
                y = function(x, Y).double()
            assert torch.equal(y, function(X, Y).double())
            if "equal" in (meaning.__name__, meaning.__name__[4:]):
                assert sum(report.replaced.values()) == 1
                continue  # above
            excess, sign = (X - Y, 1) if "greater" in meaning.__name__ else (Y - X, -1)
            slope = sign * 0.5 * (excess.abs() <= 1).double()
            torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], slope)
            assert sum(report.replaced.values()) == 1
            ran += 1
    assert ran >= 16


OF_INDICES = ("indices", "scattering")


def test_the_uses_are_covered() -> None:
    """A mask or an index goes through every function of the table and keeps its derivative."""
    arguments = {
        "expand": ((3, 4),), "reshape": ((-1,),), "view": ((-1,),), "repeat": ((2, 1),), "roll": (1,), "flip": ((0,),),
        "broadcast_to": ((2, 3, 4),), "unsqueeze": (0,), "transpose": (0, 1), "swapaxes": (0, 1), "permute": ((1, 0),),
        "movedim": (0, 1), "unflatten": (1, (2, 2)), "select": (0, 1), "narrow": (1, 0, 2), "cumsum": (0,),
        "expand_as": (X,), "view_as": (X,), "reshape_as": (X,), "type": (torch.float64,), "to": (torch.float64,),
        "type_as": (X,), "__getitem__": (0,),
    }  # fmt: skip
    two = {"mul", "multiply", "div", "divide", "true_divide", "add", "sub", "subtract", "rsub"}
    ran = 0
    for meaning, names in LIFTED.items():
        if meaning.__name__ in ("where", "masked_fill") or meaning.__module__.rpartition(".")[2] in OF_INDICES:
            continue  # above, and in test_through_indices.py
        for name in names:
            if name in (
                "cuda",
                "mean",
                "cat",
                "stack",
                "neg",
                "sub",
                "subtract",
                "rsub",
                "__sub__",
                "__rsub__",
                "__isub__",
            ):
                continue  # not of one mask, or not for bool tensors
            args = arguments.get(name, (X,) if name in two or (name.startswith("__") and name != "__invert__") else ())
            if meaning.__name__ in ("both", "either", "one_of"):
                args = (FIXED,)
            for function, inplace in functions(name):
                if inplace or name in ("__imul__", "__iadd__", "__radd__"):
                    continue
                x = X.clone().requires_grad_()
                with through(STE) as report:
                    y = function(x > 0.1, *args) * 1.0
                assert y.requires_grad, name
                assert not report.not_replaced, (name, report)
                assert torch.autograd.grad(y.sum(), x)[0].any() or name in ("__getitem__", "one_of"), name
                ran += 1
    assert ran > 60


def test_masks_at_ties_infinities_and_nan() -> None:
    row = torch.tensor([0.0, 1.0, torch.inf, -torch.inf, torch.nan, -1.0], dtype=torch.float64)
    a, b = (t.reshape(6, 6) for t in torch.meshgrid(row, row, indexing="ij"))
    for s in (SUB, STE):
        for compare in (torch.gt, torch.ge, torch.lt, torch.le, torch.eq, torch.ne):
            x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
            with through(s):
                numbers, chosen = compare(x, y).double(), torch.where(compare(x, y), x, y)
                filled = x.masked_fill(compare(x, y), -torch.inf)
            assert torch.equal(numbers, compare(a, b).double())
            assert same(chosen, torch.where(compare(a, b), a, b))
            assert same(filled, a.masked_fill(compare(a, b), -torch.inf))


def test_the_branch_that_is_not_taken_leaves_no_nan() -> None:
    """Case A06."""
    x = torch.tensor([-1.0, -4.0], requires_grad=True)
    with through(STE):
        y = torch.where(x > 0, torch.full_like(x, torch.inf), x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.ones(2))


def test_what_has_no_derivative_by_a_mask_is_named() -> None:
    x = X.clone().requires_grad_()
    with through(STE) as report:
        mask, index = x > 0, x.argmax(-1)
        assert mask.any()
        assert mask.shape == (3, 4)
        assert torch.equal(Y[mask], Y[X > 0])
        torch.zeros(3, 4).scatter(1, index.unsqueeze(1), 2.0, reduce="add")
        assert not (index == 1).all()
        assert torch.equal(Y[:, :2].gather(1, index.unsqueeze(1) % 2), Y[:, :2].gather(1, X.argmax(-1, True) % 2))
        square = Y.t() @ Y
        square[x.long()[:, 0]], square[index, index]
        x.topk(2).indices.argsort().double()
    said = {row.fate for row in report.not_replaced}
    assert said == {
        "its result is used by any: no op; for a mask m write 1 - (1 - m.float()).prod(), which is replaced",
        "its result is used by all: no op; for a mask m write m.float().prod(), which is replaced",
        "its result is used by []: boolean indexing has no derivative by the mask",
        "its result is used by remainder: not supported",
        "its result is used by scatter: reduce is not supported",
        "its result is used by []: several indices with a derivative",
        "its result is used by []: a number used as an index; use the op lookup",
        "its result is used by double: argsort of an index is replaced only for ranks: x.argsort(dim).argsort(dim)",
    }


def test_a_mask_that_was_changed_stands_for_nothing() -> None:
    x = X.clone().requires_grad_()
    with through(STE):
        mask = x > 0
        mask[0] = True
        assert torch.equal(mask.double(), mask.to(torch.int8).double())
        assert not mask.double().requires_grad


def test_a_comparison_without_a_cell_is_left_alone_where_it_is_used() -> None:
    x = X.clone().requires_grad_()
    with through(Rewrite()) as report:
        y = (x > 0).double()
    assert torch.equal(y, (X > 0).double())
    assert [row.fate for row in report.not_replaced] == [
        "its result is used by double: Compare declares no reading 'rewrite' (surrogates/ops/compare.py)"
    ]


def test_under_the_transforms_of_torch_func() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        index = x.argmax(-1, keepdim=True)
        return (y.gather(-1, index) + torch.where(x > y, x, y).sum() + ((x > 0) & ~(y > 0)).sum() * x[0]).sum()

    with through(STE):
        loop = torch.stack([gradients(f, [a, b])[0] for a, b in zip(X, Y, strict=True)])
        torch.testing.assert_close(vmap(grad(f))(X, Y), loop)
        torch.testing.assert_close(grad(lambda x: vmap(f)(x, Y).sum())(X), loop)


def test_marks_keep_nothing_alive() -> None:
    import weakref

    x = X.clone().requires_grad_()
    with through(STE):
        mask = x > 0
        mask.double()
        derived = mask.unsqueeze(0)
        derived.double()
        gone = weakref.ref(mask), weakref.ref(derived)
        del mask, derived
        assert [tensor() for tensor in gone] == [None, None]
