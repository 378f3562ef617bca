"""through on maxima of groups and on histograms, against loops over the entries that are written by hand."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from outcomes import assert_unchanged
from torch import Tensor
from torch.func import grad

from each import each
from products import generator, gradients
from surrogates import through
from surrogates.core import Strategy
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STE, SOFT, SUB = StraightThrough(temperature=0.7), Smooth(temperature=0.4), Subgradient()
by_strategy = pytest.mark.parametrize("s", [SUB, STE, SOFT], ids=lambda s: type(s).__name__)
by_dtype = pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])


def close(got: Tensor, right: Tensor) -> None:
    loose = {"rtol": 1e-4, "atol": 1e-5} if got.dtype == torch.float32 else {}
    torch.testing.assert_close(got, right.to(got.dtype), **loose)


# Maxima of groups: the shapes of x, index and source, and the dim; halves, so that there are ties.
LAYOUTS = {
    "one dim": ((4,), (7,), (7,), 0),
    "along 1": ((3, 4), (3, 6), (3, 6), 1),
    "along 0, a part of x and of the source": ((5, 3), (4, 2), (6, 3), 0),
    "the middle of three": ((2, 3, 2), (2, 5, 2), (2, 5, 2), -2),
    "no entry": ((3, 2), (0, 2), (4, 2), 0),
    "no group": ((0, 2), (0, 2), (0, 2), 0),
}


def layout(name: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, int, Tensor, Tensor]:
    """x, dim, index and a source that is not contiguous; the last group is empty."""
    of_x, of_index, of_source, dim = LAYOUTS[name]
    x, source = ((2 * torch.randn(shape, generator=generator(3))).round() / 2 for shape in (of_x, (*of_source, 2)))
    index = torch.randint(max(of_x[dim] - 1, 1), of_index, generator=generator(4))
    return x.to(dtype), dim, index, source.to(dtype)[..., 0]


def largest(s: Strategy, parts: list[Tensor]) -> Tensor:
    """The maximum, whose ties share the derivative, or its smooth form T log sum exp(x / T)."""
    values = torch.stack(parts)
    return 0.4 * torch.logsumexp(values / 0.4, 0) if s is SOFT else values.amax()


def group_by_group(s: Strategy, x: Tensor, dim: int, index: Tensor, source: Tensor, own: bool) -> Tensor:
    """The maximum of each group of entries, one entry of x after the other."""
    found = []
    for place in product(*map(range, x.shape)):
        others = [p for p in product(*map(range, index.shape)) if goes_to(p, dim, index) == place]
        entries = [source[p] for p in others]
        found.append(largest(s, [x[place], *entries] if own or not entries else entries))
    return torch.stack(found).reshape(x.shape) if found else x * 1


def goes_to(place: tuple[int, ...], dim: int, index: Tensor) -> tuple[int, ...]:
    there = list(place)
    there[dim] = int(index[place])
    return tuple(there)


@by_strategy
@by_dtype
@each("name, own", product(LAYOUTS, (True, False)))
def test_a_maximum_of_each_group(name: str, own: bool, dtype: torch.dtype, s: Strategy) -> None:
    """Without x's own entries, a minimum."""
    x, dim, index, source = layout(name, dtype)
    sign, kind = (1, "amax") if own else (-1, "amin")

    def call(x: Tensor, source: Tensor) -> Tensor:
        with through(s) as report:
            y = sign * (sign * x).scatter_reduce(dim, index, sign * source, kind, include_self=own)
        assert [row.call for row in report.replaced] == ["scatter_reduce"]
        return y

    def by_hand(x: Tensor, source: Tensor) -> Tensor:
        return group_by_group(s, x, dim, index, source, own)

    value = call(x.clone().requires_grad_(), source)
    if s is SOFT:
        close(value, by_hand(x, source))
    else:
        assert torch.equal(value, by_hand(x, source))
    weight = torch.randn(x.shape, generator=generator(5), dtype=torch.float64).to(dtype)
    given = gradients(call, [x, source], weight), gradients(by_hand, [x, source], weight), [x, source]
    for got, right, like in zip(*given, strict=True):
        close(*(torch.zeros_like(like) if g is None else g for g in (got, right)))


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce_is_scatter_reduce_with_an_index_for_each_slice() -> None:
    x, dim, index, source = layout("the middle of three")
    index = index[0, :, 0]
    wide = index[None, :, None].expand(2, 5, 2)

    def of(call: Callable[[Tensor, Tensor], Tensor], *x: Tensor) -> list[Tensor]:
        with through(SOFT) as report:
            found = [call(*x), *gradients(call, list(x), torch.arange(12.0).double().reshape(2, 3, 2))]
        assert report.replaced
        return found

    for own in (True, False):
        got = of(lambda x, y, own=own: x.index_reduce(dim, index.int(), y, "amin", include_self=own), x, source)
        right = of(lambda x, y, own=own: x.scatter_reduce(dim, wide, y, "amin", include_self=own), x, source)
        torch.testing.assert_close(got, right)


FAR = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0, 0.0, 1.0, -torch.inf])
PLACES = torch.tensor([0, 1, 2, 3, 3, 0, 1])
REDUCED: dict[str, Callable[[Tensor], object]] = {
    "amax": lambda x: torch.zeros(5).scatter_reduce(0, PLACES, x, "amax"),
    "in place": lambda x: torch.ones(5).scatter_reduce_(0, PLACES, x, "amin", include_self=False),
    "by keywords": lambda x: torch.scatter_reduce(input=x, dim=0, index=PLACES, src=x, reduce="amin"),
    "slices": lambda x: torch.zeros(5, 7).index_reduce(0, PLACES[:3], x.expand(3, 7), "amax"),
    "0-d": lambda x: torch.ones(()).scatter_reduce(0, torch.tensor(0), x[5], "amax"),
    "0-d entries": lambda x: torch.ones(5).scatter_reduce(0, torch.tensor(1), x[5], "amax"),
    "a sum": lambda x: torch.zeros(5).scatter_reduce(0, PLACES, x, "sum"),
    "index too large": lambda x: torch.zeros(3).scatter_reduce(0, PLACES, x, "amax"),
    "unknown word": lambda x: torch.zeros(5).scatter_reduce(0, PLACES, x, "largest"),
    "another dtype": lambda x: torch.zeros(5).double().scatter_reduce(0, PLACES, x, "amax"),
    "integers as index": lambda x: torch.zeros(5).scatter_reduce(0, PLACES.int(), x, "amax"),
    "a leaf in place": lambda x: torch.zeros(5, requires_grad=True).scatter_reduce_(0, PLACES, x, "amax"),
    "histc": lambda x: torch.histc(x[3:6], 3),
    "histc, far": lambda x: torch.histc(x, 3, -1, 1),
    "range of the data that is not finite": lambda x: torch.histc(x, 3),
    "range turned round": lambda x: torch.histc(x, 3, 1, -1),
    "no bin": lambda x: torch.histc(x, 0),
    "histogram": lambda x: torch.histogram(x[3:6], 3),
    "histogram, a range of one number": lambda x: x.histogram(3, range=(1.0, 1.0)),
    "histogram by edges": lambda x: torch.histogram(x, torch.tensor([0.0, 0.5, 1.0])),
    "density": lambda x: torch.histogram(x, 3, range=(0.0, 2.0), density=True),
    "histogram of nothing": lambda x: torch.histogram(x[:0], 3),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@each("name", REDUCED)
def test_values_and_errors_are_those_outside_the_block(name: str) -> None:
    assert_unchanged(STE, REDUCED[name], lambda: ((FAR.clone().requires_grad_() * 1,), {}))


def test_a_derivative_by_the_groups_is_reported_as_missing() -> None:
    x = torch.rand(6, 5, generator=generator(7)).requires_grad_()
    with through(STE) as report:
        torch.zeros(5).scatter_reduce(0, x.argmax(-1), x[:, 0], "amax")
    assert [(row.call, row.fate) for row in report.not_replaced] == [
        ("argmax", "its result is used by scatter_reduce: not supported")
    ]
    assert [row.call for row in report.replaced] == ["scatter_reduce"]


def test_under_the_transforms_of_torch_func() -> None:
    def f(x: Tensor) -> Tensor:
        reached = torch.zeros(5, dtype=x.dtype).scatter_reduce(0, (x.detach() * 2).long().clamp(0, 4), x, "amax")
        return (reached.square()).sum() + (torch.histc(x, 3, 0, 2) * torch.arange(3.0)).sum()

    rows = torch.rand(3, 6, generator=generator(6), dtype=torch.float64) * 2
    with through(SOFT):
        right = torch.stack([torch.autograd.grad(f(r), r)[0] for r in rows.clone().requires_grad_().unbind()])
        torch.testing.assert_close(torch.stack([grad(f)(row) for row in rows]), right)


# Histograms: the entries, and the calls' range.
ENTRIES = {
    "within and beyond": torch.tensor([[-1.5, 0.0, 0.1], [0.49, 0.5, 1.0]]),
    "one number": torch.tensor([0.7, 0.7]),
    "none": torch.zeros(0),
}


def bin_by_bin(s: Strategy, x: Tensor, bins: int, low: float, high: float, open_ends: bool) -> Tensor:
    """The share of each entry in each bin under noise: uniform on [-T, T] for ste, logistic for smooth."""
    width = (high - low) / bins
    counts = []
    for b in range(bins):
        start = -math.inf if open_ends and b == 0 else low + b * width
        end = math.inf if open_ends and b == bins - 1 else low + (b + 1) * width
        counts.append((passed(s, x.flatten() - start, width) - passed(s, x.flatten() - end, width)).sum())
    return torch.stack(counts) * (0 if s is SUB else 1)


def passed(s: Strategy, gap: Tensor, width: float) -> Tensor:
    """The chance to be past an edge."""
    if s is SOFT:
        return torch.sigmoid(gap / (0.4 * width))
    return ((gap / (0.7 * width)).clamp(-1, 1) + 1) / 2


@by_strategy
@by_dtype
@each("name", ENTRIES)
def test_a_histogram(name: str, dtype: torch.dtype, s: Strategy) -> None:
    """In a given range entries beyond it are lost; the range of the entries loses none."""
    x = ENTRIES[name].to(dtype)
    low, high = (x.min().item(), x.max().item()) if x.numel() else (0.0, 0.0)
    wide = [(low, high) if low < high else (low - room, high + room) for room in (1.0, 0.5)]
    cases: list[tuple[Callable[[Tensor], Tensor], float, float, bool]] = [
        (lambda x: torch.histc(x, 4, -1, 1), -1, 1, False),
        (lambda x: torch.histc(x, bins=3), *wide[0], True),
        (lambda x: torch.histogram(x.t(), 1, range=(-1.0, 0.6)).hist, -1, 0.6, False),
        (lambda x: x.histogram(3)[0], *wide[1], True),
    ]
    for call, start, end, open_ends in cases:
        leaf = x.clone().requires_grad_()
        with through(s) as report:
            y = call(leaf)
        assert sum(report.replaced.values()) == 1
        assert not report.not_replaced
        right = bin_by_bin(s, leaf, len(y), start, end, open_ends)
        if s is SOFT:
            close(y, right)
        else:
            assert torch.equal(y, call(x))
        weight = torch.arange(1, len(y) + 1).to(dtype).square()
        got, exact = (torch.autograd.grad((z * weight).sum(), leaf)[0] for z in (y, right))
        close(got, exact)
