"""through on indices, ranks, buckets and casts, against permutation matrices and numbers that are written by hand."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from outcomes import assert_unchanged
from torch import Tensor
from torch.func import grad, vmap

from each import each
from products import generator, gradients, same
from surrogates import through
from surrogates.core import Strategy
from surrogates.ops.permutation import Permutation
from surrogates.own_model.calls import CASTS, INDICES, functions
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STE, SOFT, SUB = StraightThrough(temperature=0.7), Smooth(temperature=0.4), Subgradient()
by_strategy = pytest.mark.parametrize("s", [SUB, STE, SOFT], ids=lambda s: type(s).__name__)
X, Y = (1.3 * torch.randn(4, 5, generator=generator(seed), dtype=torch.float64) for seed in range(2))
X[1] = torch.tensor([0.5, -1.0, 0.5, 0.5, 2.0])  # ties
W = torch.randn(5, 3, generator=generator(2), dtype=torch.float64)
EDGES = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
LINES, PLACES = torch.arange(4)[:, None], torch.tensor([[0, 4, 4, 2, 1]]).expand(4, 5)


class ByHand:
    """What stands in the place of an index or a number under a strategy, computed without this library."""

    def __init__(self, s: Strategy) -> None:
        self.s, self.T = s, s.temperature or 1.0

    def mixed(self, hard: Tensor, soft: Tensor) -> Tensor:
        """The soft numbers, or the hard ones with their derivative, or with none."""
        if self.s is SUB:
            return hard + 0 * soft.detach()
        return soft if self.s is SOFT else hard + soft - soft.detach()

    def order(self, x: Tensor, descending: bool = False) -> Tensor:
        """[..., rank, entry]: softmax over the entries of -|x_(rank) - x_entry| / T (SoftSort)."""
        places = x.detach().sort(dim=-1, descending=descending, stable=True).indices
        distance = (x.gather(-1, places).unsqueeze(-1) - x.unsqueeze(-2)).abs()
        return self.mixed(F.one_hot(places, x.shape[-1]).to(x.dtype), torch.softmax(-distance / self.T, -1))

    def top(self, x: Tensor, k: int = 2, largest: bool = True) -> Tensor:
        """The first rows; of tied entries topk returns any, and the derivative is that of a stable sort."""
        chosen = F.one_hot(x.detach().topk(k, largest=largest).indices, x.shape[-1]).to(x.dtype)
        rows = self.order(x, largest)[..., :k, :]
        return rows if self.s is SOFT else chosen + rows - rows.detach()

    def ranks(self, x: Tensor) -> Tensor:
        """The number of smaller entries: sum over j of sigmoid((x_i - x_j) / T), less the entry's own half."""
        soft = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / self.T).sum(-1) - 0.5
        return self.mixed(x.detach().argsort().argsort().to(x.dtype), soft)

    def above(self, x: Tensor, edges: Tensor, reached: bool = False) -> Tensor:
        """1 where x is above an edge; its surrogate is a ramp of width 2, its smooth form the logistic function."""
        gap = x.unsqueeze(-1) - edges
        hard = (gap >= 0 if reached else gap > 0).to(x.dtype)
        return self.mixed(hard, torch.sigmoid(gap / 0.4) if self.s is SOFT else 0.5 * gap.clamp(-1, 1))

    def buckets(self, x: Tensor, edges: Tensor) -> Tensor:
        """[..., c] = 1 if x is above c edges."""
        above = self.above(x, edges)
        return F.pad(above, (1, 0), value=1.0) - F.pad(above, (0, 1))

    def whole(self, x: Tensor) -> Tensor:
        """x without its fraction; under logistic noise the mean is a sum of logistic steps up and down."""
        ends = torch.arange(1.0, 40.0, dtype=x.dtype)
        up, down = ((x.unsqueeze(-1) * sign - ends) / 0.4 for sign in (1, -1))
        return self.mixed(x.detach().trunc(), (up.sigmoid() - down.sigmoid()).sum(-1) if self.s is SOFT else x)


Use = tuple[Callable[[Tensor, Tensor], Tensor], Callable[[ByHand, Tensor, Tensor], Tensor]]
USES: dict[str, Use] = {
    "gather, top k": (lambda x, y: y.gather(-1, x.topk(2).indices), lambda h, x, y: (h.top(x) @ y[..., None])[..., 0]),
    "gather, sorted": (lambda x, y: y.gather(-1, x.sort()[1]), lambda h, x, y: (h.order(x) @ y[..., None])[..., 0]),
    "gather along 0": (
        lambda x, y: torch.gather(y, 0, x.argsort(0, descending=True)),
        lambda h, x, y: (h.order(x.t(), True) @ y.t()[..., None])[..., 0].t(),
    ),
    "gather, the smallest": (
        lambda x, y: y.gather(-1, torch.topk(x, 2, largest=False, dim=-1).indices),
        lambda h, x, y: (h.top(x, largest=False) @ y[..., None])[..., 0],
    ),
    "gather, part of the lines": (
        lambda x, y: y.gather(-1, x.topk(1).indices[:2]),
        lambda h, x, y: (h.top(x, 1)[:2] @ y[:2, :, None])[..., 0],
    ),
    "take_along_dim": (
        lambda x, y: torch.take_along_dim(y, x.argsort(-1), -1),
        lambda h, x, y: (h.order(x) @ y[..., None])[..., 0],
    ),
    "take_along_dim, repeated": (
        lambda x, y: y.take_along_dim(x[:1].topk(2).indices, 1),
        lambda h, x, y: (h.top(x[:1]) @ y[..., None])[..., 0],
    ),
    "take_along_dim of all": (
        lambda x, y: y.take_along_dim(x.flatten().topk(4).indices.view(2, 2)),
        lambda h, x, y: h.top(x.flatten(), 4) @ y.flatten(),
    ),
    "index_select": (lambda x, y: W.index_select(0, x[0].argsort()), lambda h, x, y: h.order(x[0]) @ W),
    "index_select along 1": (
        lambda x, y: torch.index_select(y, dim=1, index=x[0].topk(2).indices),
        lambda h, x, y: y @ h.top(x[0]).t(),
    ),
    "lines in order": (lambda x, y: y[y[:, 0].argsort()], lambda h, x, y: h.order(y[:, 0]) @ y),
    "rows of a table": (lambda x, y: W[x.topk(2).indices], lambda h, x, y: h.top(x) @ W),
    "columns": (lambda x, y: y[:, x[0].topk(2).indices], lambda h, x, y: y @ h.top(x[0]).t()),
    "last columns": (lambda x, y: y[..., x[1].argsort()], lambda h, x, y: y @ h.order(x[1]).t()),
    "line by line": (
        lambda x, y: y[LINES, x.topk(2).indices],
        lambda h, x, y: (h.top(x) @ y[..., None])[..., 0],
    ),
    "line by line, of three dims": (
        lambda x, y: torch.stack([y, 2 * y], -1)[torch.arange(4), x.argmax(-1)],
        lambda h, x, y: (h.top(x, 1) @ torch.stack([y, 2 * y], -1))[:, 0],
    ),
    "within slices": (
        lambda x, y: torch.stack([y, 2 * y], -1)[None, 1:, x[0].topk(2).indices, 0],
        lambda h, x, y: (y[1:] @ h.top(x[0]).t())[None],
    ),
    "one_hot": (lambda x, y: F.one_hot(x.topk(2).indices, 5) * W[:, 0], lambda h, x, y: h.top(x) * W[:, 0]),
    "experts' masks": (
        lambda x, y: F.one_hot(x.topk(2).indices, 5).permute(2, 1, 0)[1] * 1.0,
        lambda h, x, y: h.top(x)[..., 1].t().float(),
    ),
    "one expert's mask": (
        lambda x, y: (x.topk(2).indices == 1).any() * 0.0 + (x.topk(2).indices == 1) * y[:, :2],
        lambda h, x, y: h.top(x)[..., 1] * y[:, :2],
    ),
    "not that expert": (
        lambda x, y: (x.argmax(-1) != 2) * y[:, 0],
        lambda h, x, y: (1 - h.top(x, 1)[:, 0, 2]) * y[:, 0],
    ),
    "scatter": (
        lambda x, y: torch.zeros_like(x).scatter(-1, x.topk(2).indices, y[:, :2]),
        lambda h, x, y: (h.top(x) * y[:, :2, None]).sum(1),
    ),
    "scatter into numbers": (
        lambda x, y: y.scatter(1, x.topk(2)[1], 3.0),
        lambda h, x, y: y + (h.top(x) * (3 - y[:, None])).sum(1),
    ),
    "scatter in place, part of the lines": (
        lambda x, y: (y * 1).scatter_(0, x.topk(1, 0).indices[:, :3], y[:1, :3]),
        lambda h, x, y: torch.cat([y[:, :3] + ((y[:1] - y) * h.top(x.t(), 1)[:, 0].t())[:, :3], y[:, 3:]], 1),
    ),
    "scatter of bools": (
        lambda x, y: y.masked_fill(~torch.zeros_like(x, dtype=torch.bool).scatter_(-1, x.topk(2).indices, True), 0.0),
        lambda h, x, y: y * h.top(x).sum(1),
    ),
    "scatter_add": (
        lambda x, y: y.scatter_add(-1, x.topk(2).indices, y[:, 1:3]),
        lambda h, x, y: y + (h.top(x) * y[:, 1:3, None]).sum(1),
    ),
    "a mask at places": (
        lambda x, y: (x > 0.1).gather(1, PLACES) * y + torch.take_along_dim(x > 0.1, PLACES, 1).double(),
        lambda h, x, y: h.above(x, EDGES[:1] * 0 + 0.1)[..., 0].gather(1, PLACES) * (y + 1),
    ),
    "rows of a mask": (
        lambda x, y: (x > 0.1).index_select(1, PLACES[0]) * y,
        lambda h, x, y: h.above(x, EDGES[:1] * 0 + 0.1)[:, PLACES[0], 0] * y,
    ),
    "a mask at an index": (
        lambda x, y: (x > 0.1).gather(1, y.topk(2).indices).double(),
        lambda h, x, y: (h.top(y) @ h.above(x, EDGES[:1] * 0 + 0.1))[..., 0],
    ),
    "by keywords": (
        lambda x, y: torch.gather(input=y, dim=1, index=torch.unsqueeze(input=x.argmax(1), dim=1)),
        lambda h, x, y: (h.top(x, 1) @ y[..., None])[..., 0],
    ),
    "ranks": (lambda x, y: x.argsort().argsort().double(), lambda h, x, y: h.ranks(x)),
    "ranks from the largest": (
        lambda x, y: torch.sort(x, descending=True).indices.argsort() * y,
        lambda h, x, y: h.ranks(-x) * y,
    ),
    "ranks along 0": (lambda x, y: x.argsort(0).argsort(dim=0) / 4.0, lambda h, x, y: (h.ranks(x.t()).t() / 4).float()),
    "an index as a number": (
        lambda x, y: x.argmax(-1).double(),
        lambda h, x, y: h.top(x, 1)[:, 0] @ torch.arange(5.0).double(),
    ),
    "index of the median": (
        lambda x, y: y.gather(-1, x.median(-1, keepdim=True).indices),
        lambda h, x, y: (h.order(x)[:, 2] * y).sum(-1, keepdim=True),
    ),
    "index of a k-th value": (lambda x, y: W[x.kthvalue(2).indices], lambda h, x, y: h.order(x)[:, 1] @ W),
    "bucketize": (lambda x, y: torch.bucketize(x, EDGES).double(), lambda h, x, y: h.above(x, EDGES).sum(-1)),
    "bucketize, right": (
        lambda x, y: torch.bucketize(x, EDGES, right=True) * y,
        lambda h, x, y: h.above(x, EDGES, True).sum(-1) * y,
    ),
    "learned edges": (
        lambda x, y: torch.bucketize(x, y[0].sort().values.detach() + 0 * y[0]).double(),
        lambda h, x, y: h.above(x, y[0].sort().values.detach() + 0 * y[0]).sum(-1),
    ),
    "bucketize, a table": (
        lambda x, y: torch.cat([W[:4], x[:, :3]])[:4][torch.bucketize(x, EDGES)],
        lambda h, x, y: h.buckets(x, EDGES) @ W[:4],
    ),
    "searchsorted": (
        lambda x, y: torch.searchsorted(EDGES.repeat(4, 1), x, side="right").double(),
        lambda h, x, y: h.above(x, EDGES, True).sum(-1),
    ),
    "long": (lambda x, y: x.long().double(), lambda h, x, y: h.whole(x)),
    "to": (lambda x, y: x.to(torch.int8) * y, lambda h, x, y: h.whole(x) * y),
    "type": (lambda x, y: y - x.type(torch.int32), lambda h, x, y: y - h.whole(x)),
    "counted": (lambda x, y: (x > 0.1).sum(1).double(), lambda h, x, y: h.above(x, EDGES[:1] * 0 + 0.1).sum((1, 2))),
}


@by_strategy
@each("name", USES)
def test_an_index_is_a_matrix_of_zeros_and_ones(name: str, s: Strategy) -> None:
    """Cases K07 and K10."""
    call, by_hand = USES[name]

    def inside(x: Tensor, y: Tensor) -> Tensor:
        with through(s, top_k=None, sort=None, median=None) as report:
            result = call(x, y)
        assert report.replaced
        return result

    plain, value = call(X, Y), inside(X.clone().requires_grad_(), Y.clone().requires_grad_())
    if s is SOFT:
        torch.testing.assert_close(value, by_hand(ByHand(s), X, Y))
    else:
        assert same(value, plain)
    weight = torch.randn(plain.shape, generator=generator(7), dtype=torch.float64).to(plain.dtype)
    right = gradients(lambda *x: by_hand(ByHand(s), *x), [X, Y], weight)
    loose = {} if plain.dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-6}
    for got, expected in zip(gradients(inside, [X, Y], weight), right, strict=True):
        got, expected = (torch.zeros_like(X) if t is None else t for t in (got, expected))
        torch.testing.assert_close(got, expected, **loose)


FAR = X.clone()
FAR[0], FAR[2, :3] = torch.inf, torch.tensor([torch.nan, -torch.inf, -0.0])
INPUTS = {
    "ties": (X, Y), "infinite and NaN": (FAR, FAR.flip(0)), "float32": (X.float(), Y.float()),
    "bfloat16": (X.bfloat16(), Y.bfloat16()), "no line": (X[:0], Y[:0]), "no entry": (X[:, :0], Y[:, :0]),
    "one line": (X[:1], Y[:1]), "three dims": (X.expand(2, 4, 5), Y.expand(2, 4, 5)),
}  # fmt: skip


@pytest.mark.slow
@each("name", USES)
def test_values_and_errors_are_those_outside_the_block(name: str) -> None:
    for x, y in INPUTS.values():
        for s in (SUB, STE):
            assert_unchanged(s, USES[name][0], lambda x=x, y=y: ((x.clone().requires_grad_(), y.clone()), {}))


@each(
    "function, name",
    [(f, name) for group in (CASTS, INDICES) for names in group.values() for name in names for f, _ in functions(name)],
)
def test_every_cast_and_index_is_replaced_by_function_and_method(function: Callable[..., Tensor], name: str) -> None:
    arguments = {
        "to": (torch.int32,), "type": ("torch.LongTensor",), "type_as": (torch.arange(2),), "bucketize": (EDGES,),
        "searchsorted": (X[0],),
    }  # fmt: skip
    x = X.clone().requires_grad_()
    with through(STE) as report:
        y = function(
            EDGES if name == "searchsorted" else x, *(arguments.get(name, ()) if name != "searchsorted" else (x,))
        )
        numbers = y.double()
    assert torch.equal(numbers, y.detach().double())
    assert numbers.requires_grad
    assert len(report.replaced) == 1
    assert not report.not_replaced


K07: dict[str, Callable[[Tensor], object]] = {
    "to": lambda x: x.to(torch.uint8).float(),
    "long": lambda x: x.long() * 2.0,
    "type": lambda x: x.type(torch.long).double(),
    "bool": lambda x: x.bool().float(),
    "isin": lambda x: torch.isin(x, EDGES),
    "aminmax": lambda x: x.aminmax(dim=1)[1] - x.aminmax(dim=1)[0],
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 2),
    "adaptive_max_pool1d_with_indices": lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce(1, torch.zeros(4, 5, dtype=torch.long), x, "amax"),
    ">": lambda x: (x > 0).sum().float(),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "__float__": lambda x: float(x[0, 0]),
    "grid_sample": lambda x: F.grid_sample(
        X.expand(1, 1, 4, 5), x[:, :2].view(1, 2, 2, 2), "nearest", align_corners=True
    ),
    "any": lambda x: x.any(),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: x.exp().multinomial(2),
    "bucketize": lambda x: torch.bucketize(x, EDGES).float(),
    "searchsorted": lambda x: torch.searchsorted(EDGES, x) / 3,
    "histc": lambda x: torch.histc(x, 4),
    "quantile": lambda x: x.quantile(0.3),
    "kthvalue": lambda x: x.kthvalue(2).values,
    "median": lambda x: x.median(),
    "argsort": lambda x: x.argsort().argsort().float(),
}


@pytest.mark.filterwarnings("ignore:Converting a tensor")
@each("name", K07)
def test_every_hard_step_is_in_the_report(name: str) -> None:
    """Case K07."""
    torch.manual_seed(0)
    plain = K07[name](X.clone())
    torch.manual_seed(0)
    with through(STE) as report:
        value = K07[name](X.clone().requires_grad_())
    assert torch.equal(torch.as_tensor(value), torch.as_tensor(plain)) if isinstance(plain, Tensor) else True
    rows = [row for row in (*report.replaced, *report.not_replaced) if row.call == name]
    assert len(rows) == 1, report
    assert rows[0].fate not in ("", "not supported")
    assert rows[0].where.startswith("test_through_indices.py")


def test_what_is_not_hard_is_not_in_the_report() -> None:
    x = X.clone().requires_grad_()
    with through(STE) as report:
        F.grid_sample(X.expand(1, 1, 4, 5), x[:, :2].view(1, 2, 2, 2), align_corners=True)
        torch.zeros_like(x).scatter_reduce(1, torch.zeros(4, 5, dtype=torch.long), x, "sum")
        x.to(torch.float32).float().type(torch.float64).type_as(X), x.type()
        X.long().bool()
    assert not report.replaced
    assert not report.not_replaced


@each("law", [torch.distributions.Bernoulli, torch.distributions.Categorical])
def test_a_sample_without_a_gradient_is_in_the_report(law: type) -> None:
    """Case K07: by definition a distribution's `sample()` has no derivative; a policy gradient stays what it is."""
    with through(STE) as report:
        law(X.sigmoid().requires_grad_()).sample()
    (row,) = [row for row in report.not_replaced if row.call in ("bernoulli", "multinomial")]
    assert "of torch.distributions" in row.fate
    assert row.where.startswith("test_through_indices.py")


def test_the_samples_that_the_page_advises_are_replaced() -> None:
    p = X.softmax(-1).detach().requires_grad_()
    torch.manual_seed(0)
    many = p.expand(4000, 4, 5)
    with through(STE) as report:
        coins = (torch.rand_like(many) < many).double()
        chosen = F.one_hot(
            (many.log() - torch.empty_like(many).exponential_().log()).topk(1).indices[..., 0], 5
        ).double()
    for sample in (coins, chosen):
        torch.testing.assert_close(sample.mean(0), p, rtol=0, atol=0.04)  # five standard errors
        assert torch.autograd.grad(sample.square().sum(), p)[0].all()
    assert not report.not_replaced


def test_indices_whose_values_are_not_replaced() -> None:
    x = X.clone().requires_grad_()
    with through(None, permutation=STE) as report:
        _, places = x.topk(2)
        y = Y.gather(-1, places)
    assert torch.autograd.grad(y.sum(), x)[0].any()
    assert [row.fate for row in report.replaced] == [
        "Permutation(descending=True, k=2) by StraightThrough(temperature=0.7)"
    ]
    assert [row.fate for row in report.not_replaced] == ["no strategy chosen"]
    with through(STE) as report:
        Y.gather(-1, x.topk(2, sorted=False).indices)
    assert {row.fate.rpartition(": ")[2] for row in report.not_replaced} == {"sorted=False returns no defined order"}


@pytest.mark.slow
def test_indices_under_the_transforms_of_torch_func() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        weights, places = y.topk(2)
        gates = torch.zeros_like(x).scatter(-1, places, weights)
        return (gates * x + y[y.argsort()] + x.argsort().argsort() * y + torch.bucketize(x, EDGES).sum() * y).sum()

    with through(STE):
        loop = torch.stack([torch.stack(gradients(f, [a, b])) for a, b in zip(X, Y, strict=True)])
        torch.testing.assert_close(torch.stack(vmap(grad(f, (0, 1)))(X, Y), 1), loop)


@by_strategy
def test_the_first_ranks_of_a_permutation(s: Strategy) -> None:
    whole, part = Permutation(True, 0), Permutation(True, 0, k=2)
    assert torch.equal(s(part, X), s(whole, X)[:2])
    assert torch.equal(gradients(lambda x: s(part, x), [X])[0], gradients(lambda x: s(whole, x)[:2], [X])[0])
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        Permutation(k=0)


Y3 = torch.randn(5, 5, 5, generator=generator(4), dtype=torch.float64)
PARTS = (slice(None), slice(1, None), None, ..., 0, torch.tensor([1]), torch.tensor([[2], [0]]))


def key_with_index(seed: int) -> tuple[Any, ...]:
    some = random.Random(seed)
    others = [some.choice(PARTS) for _ in range(some.randint(0, 3))]
    others.insert(some.randint(0, len(others)), "index")
    return tuple(others)


def filled(key: tuple[Any, ...], index: Tensor) -> tuple[Any, ...]:
    return tuple(index if isinstance(part, str) else part for part in key)


def by_entries(key: tuple[Any, ...], x: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum of the result, linear in the rows: each entry n of a row times that sum for the index n."""
    rows, index = ByHand(STE).top(x), x.detach().topk(2).indices
    total = torch.zeros(())
    for place in range(index.numel()):
        for n in range(5):
            other = index.flatten().index_fill(0, torch.tensor(place), n).view_as(index)
            total = total + rows.flatten(0, -2)[place, n] * (weight * Y3[filled(key, other)]).sum()
    return total


@pytest.mark.slow
@each("seed", range(40))
def test_keys_with_an_index_and_other_parts(seed: int) -> None:
    """A row's derivative is known up to a constant, which the derivative of a softmax does not depend on."""
    key, x = key_with_index(seed), X[:2].clone().requires_grad_()
    try:
        plain = Y3[filled(key, X[:2].topk(2).indices)]
    except IndexError:  # too many dimensions
        return
    with through(STE) as report:
        y = Y3[filled(key, x.topk(2).indices)]
    assert same(y, plain)
    if report.not_replaced:
        ((_, fate, _),) = report.not_replaced
        assert "not next to each other" in fate
        return
    weight = torch.randn(plain.shape, generator=generator(seed), dtype=torch.float64)
    right = torch.autograd.grad(by_entries(key, x, weight), x)[0]
    torch.testing.assert_close(torch.autograd.grad((y * weight).sum(), x)[0], right)
