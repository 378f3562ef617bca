"""Lookup against plain references: entries by loop, expectations by sampling, interpolation by its formula."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from products import FULL, HALF, generator, gradients
from surrogates.kernels import KERNELS
from surrogates.layers.lookup import LookupActivation
from surrogates.ops.lookup import Lookup
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE = StraightThrough()
SHAPES = {1: (5,), 2: (4, 3), 3: (2, 4, 3)}
every_size = pytest.mark.parametrize("dims", SHAPES)


def drawn(dims: int, count: int = 60, seed: int = 0) -> tuple[Lookup, Tensor, Tensor]:
    stream = generator(seed)
    x = 1.5 * torch.randn((count, dims) if dims > 1 else (count,), generator=stream, dtype=torch.float64)
    return Lookup(0.5, -1.0, dims), x, torch.randn(SHAPES[dims], generator=stream, dtype=torch.float64)


def by_loop(op: Lookup, x: Tensor, table: Tensor) -> Tensor:
    found = []
    for point in x.reshape(len(x), -1).tolist():
        index = [
            min(max(math.floor((v - op.low) / op.step), 0), n - 1) for v, n in zip(point, table.shape, strict=True)
        ]
        found.append(table[tuple(index)])
    return torch.stack(found)


@every_size
def test_the_value_is_the_entry_at_the_floor_of_each_coordinate(dims: int) -> None:
    op, x, table = drawn(dims)
    assert torch.equal(op.hard(x, table), by_loop(op, x, table))
    got = gradients(lambda x, table: Subgradient()(op, x, table), [x, table])
    assert (got[0] == 0).all()
    counts = torch.zeros_like(table)
    for value in op.hard(x, table):
        counts += table == value
    assert torch.equal(got[1], counts)
    passed = gradients(lambda x, table: STE(op, x, table), [x, table])
    assert (passed[0] == 1).all()
    assert torch.equal(passed[1], counts)


@every_size
@pytest.mark.parametrize("kernel", KERNELS)
def test_smooth_is_the_expectation_under_independent_noise(dims: int, kernel: str) -> None:
    op, x, table = drawn(dims, 12, seed=3)
    u = torch.rand(40_000, *x.shape, generator=generator(1), dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    hard = op.hard(x + 0.4 * KERNELS[kernel].quantile(u), table)
    gap = (Smooth(kernel=kernel)(op, x, table, T=0.4) - hard.mean(0)).abs()
    assert (gap <= 4 * hard.std(0) / 200 + 10 / 40_000).all()  # an event too rare to be drawn has error 0


@every_size
def test_the_rewrite_interpolates_linearly_between_the_middles_of_cells(dims: int) -> None:
    """It is the smooth reading under the uniform kernel at T = step / 2, and the entries themselves at the middles."""
    op, x, table = drawn(dims)
    y = Rewrite()(op, x, table)
    torch.testing.assert_close(y, Smooth(kernel="uniform")(op, x, table, T=0.25))
    for index in itertools.product(*map(range, table.shape)):
        middle = torch.tensor([op.low + op.step * (i + 0.5) for i in index], dtype=torch.float64)
        assert Rewrite()(op, middle if dims > 1 else middle[0], table).item() == pytest.approx(table[index].item())


def test_bilinear_interpolation_by_its_formula() -> None:
    table = torch.tensor([[1.0, 3.0], [-2.0, 5.0]], dtype=torch.float64)
    for a, b in ((0.25, 0.5), (0.0, 1.0), (0.9, 0.1)):
        x = torch.tensor([0.5 + a, 0.5 + b], dtype=torch.float64)
        expected = (1 - a) * ((1 - b) * 1 + b * 3) + a * ((1 - b) * -2 + b * 5)
        assert Rewrite()(Lookup(dims=2), x, table).item() == pytest.approx(expected)


@every_size
@pytest.mark.parametrize("strategy", [Smooth(kernel="normal"), Rewrite(), STE, Subgradient()], ids=str)
def test_derivatives_of_every_size_are_difference_quotients(dims: int, strategy: object) -> None:
    op, x, table = drawn(dims, 7, seed=4)
    if strategy in (STE, Subgradient()):
        function = lambda x, table: op.hard(x, table) + (x.sum(-1) if dims > 1 else x) * (strategy == STE)  # noqa: E731
    else:
        function = lambda x, table: strategy(op, x, table, T=0.3)  # noqa: E731
    weight = torch.randn(7, generator=generator(5), dtype=torch.float64)
    found = gradients(lambda x, table: strategy(op, x, table, T=0.3), [x, table], weight)
    for i, (got, at) in enumerate(zip(found, (x, table), strict=True)):
        for j in range(at.numel()):
            values = []
            for h in (1e-6, -1e-6):
                moved = [x.clone(), table.clone()]
                moved[i].view(-1)[j] += h
                values.append((function(*moved) * weight).sum().item())
            assert got.flatten()[j].item() == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


@every_size
@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_infinite_and_missing_numbers(dims: int, dtype: torch.dtype) -> None:
    op, _, table = drawn(dims)
    table = table.to(dtype)
    ends = torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)
    x = ends if dims == 1 else ends.unsqueeze(-1).expand(3, dims)
    for strategy in (STE, Subgradient(), Smooth(), Rewrite()):
        y = strategy(op, x, table, T=0.3)
        assert y.dtype == dtype
        assert torch.equal(y[:2], torch.stack([table.flatten()[-1], table.flatten()[0]]))
        assert y[2].isnan()
        for g in gradients(lambda x, t, s=strategy: s(op, x, t, T=0.3), [x[:2], table]):
            assert g.isfinite().all()


def test_shapes_that_do_not_fit_are_said() -> None:
    with pytest.raises(ValueError, match=r"dims=2 needs x \(..., 2\).*got \(4, 3\) and \(5, 5\)"):
        Lookup(dims=2).hard(torch.zeros(4, 3), torch.zeros(5, 5))
    with pytest.raises(ValueError, match=r"dims=1.*\(5, 5\)"):
        Lookup().hard(torch.zeros(4), torch.zeros(5, 5))
    with pytest.raises(IndexError, match="at least one entry"):
        Lookup().hard(torch.zeros(4), torch.zeros(0))
    for options, words in (({"step": 0.0}, "step.*0.0"), ({"low": math.inf}, "low.*inf"), ({"dims": 0}, "dims.*0")):
        with pytest.raises(ValueError, match=words):
            Lookup(**options)


# the component


def test_the_table_starts_as_a_staircase_and_learns_a_function_of_one_number() -> None:
    layer = LookupActivation(STE, entries=4)
    assert layer.table.tolist() == [-0.75, -0.25, 0.25, 0.75]
    x = torch.tensor([[-3.0, -1.0, -0.5, -0.1, 0.0, 0.6, 7.0]])
    assert layer(x).tolist() == [[-0.75, -0.75, -0.25, -0.25, 0.25, 0.75, 0.75]]
    x = torch.linspace(-1, 1, 200).unsqueeze(0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        (layer(x) - x.square()).square().mean().backward()
        optimizer.step()
    for i, value in enumerate(layer.table.tolist()):
        cell = x[0, i * 50 : (i + 1) * 50].square().mean().item()
        assert value == pytest.approx(cell, abs=1e-2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"entries": 1}, "entries.*1"),
        ({"low": 1.0}, "low=1.0 and high=1.0"),
        ({"high": 1e300}, "high.*1e\\+300"),
        ({"low": 0.0, "high": 1e-37}, "too near"),
    ],
)
def test_bad_arguments_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LookupActivation(STE, **options)
