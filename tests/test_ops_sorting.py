"""Sorting, ranks, order statistics and the weighted maxima, against enumeration, plain loops and torch's own."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from products import FULL, HALF, cells, generator, gradients, sample
from surrogates.core import Op
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.max import Max, sparsemax
from surrogates.ops.median import Median
from surrogates.ops.min import Min
from surrogates.ops.permutation import Permutation
from surrogates.ops.quantile import Quantile
from surrogates.ops.rank import Rank
from surrogates.ops.sort import Sort
from surrogates.ops.top_k import TopK
from surrogates.ops.top_k_mask import TopKMask
from surrogates.sorting import permutations, relaxed_order
from surrogates.sorting.distance_sums import mean_ranks, sorted_values, within_reach
from surrogates.sorting.networks import layers
from surrogates.sorting.permutations import Relaxation, neural_sort, soft_sort
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
FORMS = (None, "neural_sort", "network", "network_logistic")


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return sample(Sort(), shape, dtype, seed=seed)[0]


def jacobian_of(op: Op, form: str | None, x: Tensor, T: float) -> Tensor:
    return torch.autograd.functional.jacobian(lambda x: Smooth(form=form)(op, x, T=T), x)


# the hard values


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_values_are_those_of_torch(dtype: torch.dtype) -> None:
    tied = torch.randint(-2, 3, (200, 7), generator=generator(4)).to(dtype)
    for x in (rows(200, 7, dtype=dtype), tied, rows(50, 1, dtype=dtype)):
        for descending in (False, True):
            expected = x.sort(dim=-1, descending=descending, stable=True)
            assert torch.equal(Sort(descending).hard(x), expected.values)
            matrix = Permutation(descending).hard(x)
            assert torch.equal(matrix.argmax(-1), expected.indices)
            assert (matrix.sum(-1) == 1).all()
            assert (matrix.sum(-2) == 1).all()
            assert torch.equal((matrix @ x.unsqueeze(-1)).squeeze(-1), expected.values)
        assert torch.equal(Median().hard(x), x.median(-1).values)
        for q in (0, 0.2, 0.5, 0.77, 1):
            expected = torch.quantile(x.to(torch.promote_types(dtype, torch.float32)), q, dim=-1)
            torch.testing.assert_close(Quantile(q).hard(x), expected.to(dtype))


def test_ranks_count_the_smaller_and_ties_share_the_smallest_rank() -> None:
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0, -math.inf, math.inf]])
    assert Rank().hard(x).tolist() == [[4, 2, 4, 3, 1, 6]]
    assert Rank(descending=True).hard(x).tolist() == [[2, 5, 2, 4, 6, 1]]
    y = rows(100, 6)
    places = Permutation().hard(y).transpose(-1, -2) @ torch.arange(1, 7.0).double()
    assert torch.equal(Rank().hard(y), places)


def test_dim_may_be_any() -> None:
    x = rows(2, 3, 4)
    for strategy in (Smooth(), StraightThrough(), Rewrite(), Smooth(form="neural_sort"), Smooth(form="network")):
        for cls in (Sort, Rank, Median, Quantile):
            for dim in (0, 1, 2, -1, -2, -3):
                moved = strategy(cls(dim=-1), x.movedim(dim, -1))
                expected = moved if cls in (Median, Quantile) else moved.movedim(-1, dim)
                torch.testing.assert_close(strategy(cls(dim=dim), x), expected)
        for dim, equation in ((0, "ijbc,jbc->ibc"), (1, "aijc,ajc->aic"), (-1, "abij,abj->abi")):
            matrix = StraightThrough()(Permutation(dim=dim), x)
            assert torch.equal(torch.einsum(equation, matrix, x), x.sort(dim).values)


# the relaxed permutations


def soft_sort_by_loops(x: list[float], T: float) -> list[list[float]]:
    found = []
    for value in sorted(x):
        weights = [math.exp(-abs(value - entry) / T) for entry in x]
        found.append([weight / sum(weights) for weight in weights])
    return found


def neural_sort_by_loops(x: list[float], T: float) -> list[list[float]]:
    """Largest first, as published: softmax over j of ((n + 1 - 2 i) x_j - sum_k |x_j - x_k|) / T, i = 1 .. n."""
    n, found = len(x), []
    for i in range(1, n + 1):
        logits = [((n + 1 - 2 * i) * entry - sum(abs(entry - other) for other in x)) / T for entry in x]
        weights = [math.exp(logit - max(logits)) for logit in logits]
        found.append([weight / sum(weights) for weight in weights])
    return found


def network_by_loops(x: list[float], T: float) -> list[float]:
    wires = list(x)
    for lower, upper in layers(len(x)):
        for i, j in zip(lower, upper, strict=True):
            share = 0.5 + math.atan((wires[j] - wires[i]) / T) / math.pi
            a, b = wires[i], wires[j]
            wires[i], wires[j] = share * a + (1 - share) * b, (1 - share) * a + share * b
    return wires


@pytest.mark.parametrize("T", [0.05, 1.0])
def test_relaxed_permutations_are_their_formulas(T: float) -> None:
    for x in ([9.0, 1.0, 5.0, 2.0], [0.3, -0.2, 0.31, 0.3, 4.0], [1.0]):
        row = torch.tensor(x, dtype=torch.float64)
        soft, neural = soft_sort_by_loops(x, T), neural_sort_by_loops(x, T)
        torch.testing.assert_close(Smooth()(Permutation(), row, T=T), torch.tensor(soft).double(), atol=1e-7, rtol=0)
        got = Smooth(form="neural_sort")(Permutation(descending=True), row, T=T)
        torch.testing.assert_close(got, torch.tensor(neural, dtype=torch.float64))
        values = Smooth(form="network")(Sort(), row, T=T)
        torch.testing.assert_close(values, torch.tensor(network_by_loops(x, T), dtype=torch.float64))


@pytest.mark.parametrize("form", [None, "neural_sort"])
def test_at_ties_a_relaxed_permutation_has_the_derivative_in_which_that_of_a_distance_is_0(form: str | None) -> None:
    """Against the formula with torch's abs, whose derivative at 0 is 0; beside infinite entries as without them."""

    def formula(x: Tensor) -> Tensor:
        distances = (x.unsqueeze(-1) - x).abs()
        if form is None:
            return torch.softmax(-distances[x.detach().argsort(stable=True)] / 0.7, -1)
        factors = 2 * torch.arange(len(x), dtype=x.dtype) + 1 - len(x)
        return torch.softmax((factors.unsqueeze(-1) * x - distances.sum(0)) / 0.7, -1)

    for row in ([0.3, -0.2, 0.3, 0.3, 1.0], [0.5, 0.5], [2.0, 1.0, 1.0, 0.0, 2.0, 1.0]):
        x = torch.tensor(row, dtype=torch.float64)
        expected = torch.autograd.functional.jacobian(formula, x)
        torch.testing.assert_close(jacobian_of(Permutation(), form, x, 0.7), expected)
        masked = torch.cat([x, torch.tensor([math.inf, math.inf]).double()])
        n = len(row)
        torch.testing.assert_close(jacobian_of(Permutation(), form, masked, 0.7)[:n, :n, :n], expected)


@pytest.mark.parametrize("form", FORMS)
def test_everything_follows_from_the_relaxed_permutation(form: str | None) -> None:
    x = rows(20, 6)
    matrix = Smooth(form=form)(Permutation(), x, T=0.4)
    values = (matrix @ x.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(Smooth(form=form)(Sort(), x, T=0.4), values)
    torch.testing.assert_close(matrix.sum(-1), torch.ones_like(x))
    mirrored = Smooth(form=form)(Permutation(descending=True), x, T=0.4).flip(-2)
    if form in (None, "neural_sort"):
        torch.testing.assert_close(mirrored, matrix)
    if form in ("network", "network_logistic"):
        torch.testing.assert_close(matrix.sum(-2), torch.ones_like(x))
        assert (matrix >= 0).all()
    if form != "network_logistic":
        torch.testing.assert_close(Smooth(form=form)(Median(), x, T=0.4), values[:, 2])
        between = 0.75 * values[:, 1] + 0.25 * values[:, 2]
        torch.testing.assert_close(Smooth(form=form)(Quantile(0.25), x, T=0.4), between)
        named = form or "soft_sort"
        top = Smooth(form=form)(Sort(descending=True), x, T=0.4)[:, :2]
        torch.testing.assert_close(Smooth(form=named)(TopK(2), x, T=0.4), top)
        first = Smooth(form=form)(Permutation(descending=True), x, T=0.4)[:, :2]
        torch.testing.assert_close(Smooth(form=named)(TopKMask(2), x, T=0.4), first.sum(-2))
        place = torch.arange(1, 7, dtype=torch.float64).view(6, 1)
        torch.testing.assert_close(
            Smooth(form=named)(Rank(), x, T=0.4), (matrix / matrix.sum(-2, keepdim=True) * place).sum(-2)
        )


@pytest.mark.parametrize("form", FORMS)
def test_infinite_entries_have_no_part_in_the_others(form: str | None) -> None:
    """A row with masks gives what its finite entries give alone, value and derivative; a network of another size."""
    finite = torch.tensor([0.3, -0.4, 0.5], dtype=torch.float64)
    masked = torch.tensor([math.inf, 0.3, -math.inf, -0.4, 0.5, -math.inf], dtype=torch.float64)
    keep = masked.isfinite()
    strategy = Smooth(form=form)
    values = strategy(Sort(), masked, T=0.3)
    assert values[[0, 1, 5]].tolist() == [-math.inf, -math.inf, math.inf]
    matrix = strategy(Permutation(), masked, T=0.3)
    assert (matrix[2:5][:, ~keep] == 0).all()
    assert torch.equal(matrix[[0, 1, 5]], Permutation().hard(masked)[[0, 1, 5]])
    weight = torch.arange(6.0).double()
    (got,) = gradients(lambda x: strategy(Sort(), x, T=0.3)[2:5], [masked], weight[2:5])
    assert (got[~keep] == 0).all()
    assert got.isfinite().all()
    if form in (None, "neural_sort"):
        torch.testing.assert_close(values[2:5], strategy(Sort(), finite, T=0.3))
        torch.testing.assert_close(matrix[2:5][:, keep], strategy(Permutation(), finite, T=0.3))
        (alone,) = gradients(lambda x: strategy(Sort(), x, T=0.3), [finite], weight[2:5])
        torch.testing.assert_close(got[keep], alone)


@pytest.mark.parametrize("form", [None, "neural_sort"])
def test_rows_known_to_be_finite_give_what_the_others_would(form: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, strategy = rows(7, 9), Smooth(form=form)
    weight = torch.arange(9.0).double()
    for op in (Sort(), Permutation()):
        value = strategy(op, x, T=0.3)
        (slope,) = gradients(lambda x, op=op: strategy(op, x, T=0.3) @ weight, [x])
        with monkeypatch.context() as patch:
            patch.setattr(permutations, "known_finite", lambda _: False)
            assert torch.equal(strategy(op, x, T=0.3), value)
            (other,) = gradients(lambda x, op=op: strategy(op, x, T=0.3) @ weight, [x])
            torch.testing.assert_close(other, slope)


@pytest.mark.parametrize("form", [None, "neural_sort"])
@pytest.mark.parametrize("piece", [1, relaxed_order.PIECE])
def test_autocast_rounds_no_product(form: str | None, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bfloat16 would change the third digit; with several pieces and with one."""
    monkeypatch.setattr(relaxed_order, "PIECE", piece)
    x, strategy = rows(3, 9, dtype=torch.float32), Smooth(form=form)
    for op in (Sort(), TopK(), Rank()):
        here = Smooth(form="soft_sort") if form is None and not isinstance(op, Sort) else strategy
        function = partial(here, op, T=0.3)
        plain = [function(x), *gradients(function, [x])]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = [function(x), *gradients(function, [x])]
        torch.testing.assert_close(cast, plain, rtol=3e-4, atol=1e-4)


def test_only_the_cauchy_network_is_monotone() -> None:
    lowest = dict.fromkeys(FORMS, math.inf)
    for seed in range(20):
        for form in FORMS:
            lowest[form] = min(lowest[form], jacobian_of(Sort(), form, rows(5, seed=seed), 0.5).min().item())
    assert lowest.pop("network") >= 0
    assert max(lowest.values()) < -0.01, lowest


@pytest.mark.parametrize("n", range(11))
def test_the_network_sorts_every_row_of_zeros_and_ones(n: int) -> None:
    """Which proves that it sorts every row (Knuth's 0-1 principle)."""
    for lower, upper in layers(n):
        assert len({*lower, *upper}) == 2 * len(lower) > 0
        assert all(i < j < n for i, j in zip(lower, upper, strict=True))
    x = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n))).view(2**n, n)
    assert torch.equal(Rewrite()(Sort(), x), x.sort(-1).values)
    depth = max(n - 1, 0).bit_length()
    assert len(layers(n)) <= depth * (depth + 1) // 2


@pytest.mark.parametrize("T", [0.2, 1.0, 3.0])
def test_smooth_rank_is_the_expected_rank_under_centred_gumbel_noise(T: float) -> None:
    draws = 100_000
    x = torch.tensor([0.3, -0.4, 0.9, 0.8, -math.inf], dtype=torch.float64)
    u = torch.rand(draws, 5, generator=generator(11), dtype=torch.float64).clamp(min=1e-15)
    hard = Rank().hard(x + T * (-torch.log(-torch.log(u)) - 0.57721566490153286))
    soft = Smooth()(Rank(), x, T=T)
    assert ((soft - hard.mean(0)).abs() <= 4 * hard.std(0) / math.sqrt(draws) + 1e-12).all()
    torch.testing.assert_close(soft.sum(), torch.tensor(15.0).double())
    tied = Smooth()(Rank(), torch.tensor([1.0, 1.0, 0.0]), T=1e-3)
    torch.testing.assert_close(tied, torch.tensor([2.5, 2.5, 1.0]))


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    x = rows(8, 40, dtype=dtype)
    ran = 0
    for op in (Sort(), Permutation(), Rank(), Median(), Quantile(0.3)):
        for cell in cells(op):
            if isinstance(cell.strategy, (Smooth, Rewrite)):
                assert torch.equal(cell(x), cell(x.float()).to(dtype)), cell
                ran += 1
    assert ran >= 20


def test_large_rows_at_any_temperature() -> None:
    x = rows(2, 130, dtype=torch.float32)
    for form in FORMS:
        for T in (1e-30, 1e-3, 1.0, 1e6):
            matrix = Smooth(form=form)(Permutation(), x, T=T)
            torch.testing.assert_close(matrix.sum(-1), torch.ones_like(x))
            (got,) = gradients(lambda x, f=form, T=T: Smooth(form=f)(Sort(), x, T=T).square().sum(), [x])
            assert got.isfinite().all()
    torch.testing.assert_close(Rewrite()(Sort(), x), x.sort(-1).values)


# ties


def test_tied_entries_share_or_take_their_places_in_order() -> None:
    x = torch.tensor([2.0, 1.0, 2.0, 1.0, 2.0], dtype=torch.float64)
    half, third = 1 / 2, 1 / 3
    shared = [[0, half, 0, half, 0]] * 2 + [[third, 0, third, 0, third]] * 3
    first = [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    for rule, expected in (("minimum_norm", shared), ("first", first)):
        got = torch.autograd.functional.jacobian(lambda x, r=rule: Sort().subgradient(x, r), x)
        torch.testing.assert_close(got, torch.tensor(expected).double())
        middle = torch.autograd.functional.jacobian(lambda x, r=rule: Median().subgradient(x, r), x)
        torch.testing.assert_close(middle, got[2])
        between = torch.autograd.functional.jacobian(lambda x, r=rule: Quantile(0.35).subgradient(x, r), x)
        torch.testing.assert_close(between, 0.6 * got[1] + 0.4 * got[2])
    descending = torch.autograd.functional.jacobian(lambda x: Sort(descending=True).subgradient(x, "first"), x)
    assert descending.argmax(-1).tolist() == [0, 2, 4, 1, 3]


def test_every_way_to_an_order_statistic_shares_alike() -> None:
    """Case D01.

    By max, min, top-k, sort, median and quantile: non-negative, sum 1 a value; any strategy without a draw.
    """
    x = torch.tensor([2.0, 2.0, 1.0])
    ways = [Max().subgradient, lambda x, rule: Sort().subgradient(x, rule)[-1], Quantile(1.0).subgradient]
    ways += [lambda x, rule: TopK(1).subgradient(x, rule)[0], lambda x, rule: -Min().subgradient(-x, rule)]
    for way in ways:
        assert gradients(lambda x, w=way: w(x, "minimum_norm"), [x])[0].tolist() == [0.5, 0.5, 0]
    for op in (Sort(), TopK(), Median(), Quantile(0.8)):
        for cell in [cell for cell in cells(op) if not cell.drawn]:
            (got,) = gradients(lambda x, cell=cell: cell(x, T=1e-3), [x])
            torch.testing.assert_close(got.sum(), torch.tensor(float(op.hard(x).numel())), msg=repr(cell))
            assert (got >= -1e-6).all(), cell  # rounding


@pytest.mark.slow
def test_compiled_ties_are_those_of_eager() -> None:
    """Case D01."""
    x, weight = torch.tensor([2.0, 2.0, 1.0]), torch.tensor([1.0, 1.0, 3.0])
    for strategy, expected in ((Subgradient(), [24, 24, 3]), (Subgradient(rule="first"), [12, 36, 3])):
        loss = torch.func.grad(lambda x, s=strategy: (s(Sort(), x) ** 3 * weight).sum())
        assert torch.equal(torch.compile(loss, fullgraph=True, backend="aot_eager")(x), loss(x))
        assert loss(x).tolist() == expected


def test_a_quantile_between_infinities_is_one_of_them() -> None:
    for x, q, expected in (
        ([-math.inf, 0.0, 1.0], 0.25, -math.inf),
        ([-math.inf, 0.0, 1.0], 0.5, 0.0),
        ([-math.inf, 0.0, 1.0], 0.45, -math.inf),
        ([0.0, 1.0, math.inf], 0.55, math.inf),
        ([-math.inf, math.inf], 0.5, -math.inf),
        ([-math.inf, math.inf], 0.51, math.inf),
    ):
        row = torch.tensor(x)
        for cell in [cell for cell in cells(Quantile(q)) if not cell.drawn]:
            assert cell(row).item() == pytest.approx(expected, abs=0.5), cell


# errors


def test_wrong_constants_and_empty_rows_are_refused() -> None:
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"q must be (between 0 and 1|a number), got {q}"):
            Quantile(q)
    for op in (Median(), Quantile()):
        with pytest.raises(IndexError, match="needs rows of at least one entry, got an empty row"):
            op.hard(torch.zeros(3, 0))


# weighted maxima


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    """By the conditions of the projection: p = z - t on the support, and z <= t off it."""
    for T in (0.2, 1.0, 5.0):
        x = rows(300, 6)
        p = Smooth(form="sparsemax")(ArgMax(), x, T=T)
        assert (p >= 0).all()
        torch.testing.assert_close(p.sum(-1), torch.ones(300).double())
        t = torch.where(p > 0, x / T - p, -math.inf).amax(-1, keepdim=True)
        torch.testing.assert_close(torch.where(p > 0, x / T - p, t), t.expand(300, 6))
        assert (x / T <= t + 1e-12)[p == 0].all()
        torch.testing.assert_close(Smooth(form="sparsemax")(ArgMin(), -x, T=T), p)
        torch.testing.assert_close(Smooth(form="sparsemax")(Max(), x, T=T), (p * x).sum(-1))
    p = Smooth(form="sparsemax")(ArgMax(), torch.tensor([1.0, 0.5, -1.0, -math.inf]), T=1.0)
    assert p.tolist() == [0.75, 0.25, 0, 0]
    (got,) = gradients(lambda x: Smooth(form="sparsemax")(ArgMax(), x, T=1.0)[0], [torch.tensor([1.0, 0.5, -1.0])])
    assert got.tolist() == [0.5, -0.5, 0]


@pytest.mark.parametrize("dtype", FULL, ids=str)
def test_sparsemax_by_steps_is_that_by_sorting(dtype: torch.dtype) -> None:
    """Supports of one, of some, of all; ties, also on the edge; gaps that halve, after which every step drops few."""
    drops = [-(2.0 ** -torch.arange(60.0)), torch.zeros(60), -torch.arange(60.0), -torch.arange(60.0) % 2]
    rows = torch.stack([*drops, *-torch.rand(20, 60, generator=generator(6)) * torch.logspace(-3, 2, 20)[:, None]])
    z = (rows - rows.amax(-1, keepdim=True)).to(dtype)
    steps, sort = sparsemax(z, -1), torch.func.vmap(lambda z: sparsemax(z, -1))(z)
    torch.testing.assert_close(steps, sort, rtol=0, atol=4 * torch.finfo(dtype).eps)
    torch.testing.assert_close(steps.sum(-1), torch.ones(len(z), dtype=dtype))
    assert (steps >= 0).all()
    assert sparsemax(torch.tensor([0.0, math.nan]), -1).isnan().all()


def test_weighted_maxima_lie_below_the_maximum_and_are_not_monotone() -> None:
    x = rows(300, 5)
    boltzmann = Smooth(form="boltzmann")(Max(), x, T=0.7)
    torch.testing.assert_close(boltzmann, (torch.softmax(x / 0.7, -1) * x).sum(-1))
    for form in ("boltzmann", "sparsemax"):
        value = Smooth(form=form)(Max(), x, T=0.7)
        assert (value <= x.amax(-1) + 1e-12).all()
        assert (value >= x.mean(-1)).all()
        torch.testing.assert_close(Smooth(form=form)(Min(), -x, T=0.7), -value)
        (slope,) = gradients(lambda x, f=form: Smooth(form=f)(Max(), x, T=0.7), [x])
        assert slope.min() < -0.05
        torch.testing.assert_close(slope.sum(-1), torch.ones(300).double())
    (slope,) = gradients(lambda x: Smooth()(Max(), x, T=0.7), [x])
    assert (slope > 0).all()


@pytest.mark.parametrize("relaxation", [soft_sort, neural_sort])
def test_weights_in_pieces_are_those_of_autograd(relaxation: Relaxation, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and second derivatives; a tie, some of the ranks, infinite entries, leading dimensions, a row a piece."""
    x = torch.randn(2, 3, 9, generator=generator(2), dtype=torch.float64)
    x[0, 0, 3] = x[0, 0, 5]
    x[1, 2, [0, 4]] = torch.tensor([-math.inf, math.inf]).double()
    matrix = torch.randn(5, 9, generator=generator(3), dtype=torch.float64)

    def function(x: Tensor) -> Tensor:
        return relaxation(x, 0.5, slice(2, 7)) * matrix

    plain = derivatives(function, x)
    monkeypatch.setattr(relaxed_order, "PIECE", 1)
    for one, other in zip(derivatives(function, x), plain, strict=True):
        torch.testing.assert_close(one, other)


def derivatives(function: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    """The value, the first derivative of half its square, without and with a graph, and a second one."""
    x = x.clone().requires_grad_()
    y = function(x)
    (first,) = torch.autograd.grad(0.5 * y.pow(2).sum(), x, retain_graph=True)
    (again,) = torch.autograd.grad(0.5 * y.pow(2).sum(), x, create_graph=True)
    return [y, first, again, *torch.autograd.grad(again.pow(2).sum(), x)]


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("T", [0.02, 0.5, 30.0])
@pytest.mark.parametrize("ranked", [False, True])
def test_sums_without_a_matrix_are_those_of_the_matrix(T: float, offset: float, ranked: bool) -> None:
    """Of float32 rows, to its resolution of the numbers; ties of two and three, a constant row."""
    x = offset + torch.randn(4, 50, generator=generator(4))
    x[0, [3, 5, 40]], x[1, [7, 8]], x[3] = offset - 0.5, offset, offset
    places = torch.stack([torch.arange(1.0, 51), torch.ones(50)]).double()

    def plain(x: Tensor) -> Tensor:
        weights = soft_sort(x, T)
        if not ranked:
            return (weights @ x.unsqueeze(-1)).squeeze(-1)
        weighted, total = (places @ weights).unbind(-2)
        return weighted / total

    assert within_reach(x, T)
    ours = derivatives(lambda x: (mean_ranks if ranked else sorted_values)(x, T), x)
    for one, other in zip(ours, derivatives(plain, x.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=3e-5, atol=3e-6 * float(other.detach().abs().max()))


@pytest.mark.parametrize("function", [sorted_values, mean_ranks])
def test_sums_without_a_matrix_are_exact_up_to_their_reach(function: Callable[[Tensor, float], Tensor]) -> None:
    """In float64 the derivatives of rows that are 590 T wide are those of a finer scale, the sum of two far halves."""
    half = torch.randn(3, 20, generator=generator(4), dtype=torch.float64)
    far = torch.cat([half, half + 580], -1)
    assert within_reach(far, 1.0)
    alone, together = (derivatives(lambda x: function(x, 1.0), x) for x in (half, far))
    offset = 20 if function is mean_ranks else 580
    torch.testing.assert_close(together[0][:, :20], alone[0])
    torch.testing.assert_close(together[0][:, 20:], alone[0] + offset)
    for one, other in zip(together[1:], alone[1:], strict=True):
        torch.testing.assert_close(one[:, :20], other)


def test_sums_without_a_matrix_take_what_they_can_hold() -> None:
    x = torch.tensor([0.0, 3.0, 1.0])
    assert within_reach(x, 0.005)
    assert not within_reach(x, 0.004)
    for refused in (torch.tensor([0.0, math.nan]), torch.tensor([0.0, -math.inf]), torch.empty(0)):
        assert not within_reach(refused, 1.0)
    for far in (1e30 * x, 1e30 * torch.arange(50.0)):
        assert torch.equal(Smooth()(Sort(), far, T=1.0), far.sort().values)


def test_the_temperatures_derivative_without_a_matrix_is_that_with_one() -> None:
    x = torch.randn(3, 50, generator=generator(4), dtype=torch.float64)
    T = torch.tensor(0.4).double().requires_grad_()
    values = (Smooth()(Permutation(), x, T=T) @ x.unsqueeze(-1)).squeeze(-1)
    (expected,) = torch.autograd.grad(values.square().sum(), T)
    (got,) = torch.autograd.grad(Smooth()(Sort(), x, T=T).square().sum(), T)
    torch.testing.assert_close(got, expected)


def test_a_long_row_is_sorted_softly_without_a_matrix() -> None:
    """100,000 numbers, whose matrix would take 40 GB; the means of sorted numbers are sorted."""
    x = torch.randn(100_000, generator=generator(5), requires_grad=True)
    y = Smooth()(Sort(), x, T=0.05)
    assert (y.diff() >= 0).all()
    torch.testing.assert_close(y, x.detach().sort().values, atol=0.6, rtol=0)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope.sum(), torch.tensor(100_000.0))
    torch.testing.assert_close(Smooth(form="soft_sort")(TopK(50_000), x, T=0.05), y[50_000:].flip(0))


@pytest.mark.parametrize("form", [None, "neural_sort"])
@pytest.mark.parametrize("known", [False, True])
def test_a_weight_below_the_normal_range_is_zero(
    form: str | None, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exp(-90) is such a number in float32, exp(-86) is none, nor is one of them in float64."""
    monkeypatch.setattr(permutations, "known_finite", lambda _: known)
    for dtype in (torch.float32, torch.float64):
        for distance in (86.0, 90.0):
            x = torch.tensor([0.0, distance], dtype=dtype)
            weight = Smooth(form=form)(Permutation(), x, T=1.0)[0, 1]
            if dtype == torch.float32 and distance == 90:
                assert weight == 0
            else:
                assert weight == pytest.approx(math.exp(-distance), rel=1e-4)
    crowded = torch.cat([torch.zeros(99), torch.linspace(80.0, 90.0, 101)])
    weights = Smooth(form=form)(Permutation(), crowded, T=1.0 if form is None else 99.0)
    one_rank = (soft_sort if form is None else neural_sort)(crowded, 1.0 if form is None else 99.0, slice(1))
    for found in (weights, one_rank):
        assert (found[0] == 0).any()
        assert ((found == 0) | (found >= torch.finfo(torch.float32).tiny)).all()


@pytest.mark.parametrize("form", FORMS)
def test_short_rows_and_no_rows_are_sorted_and_stay_connected(form: str | None) -> None:
    for shape in ((3, 0), (0, 3), (0,), (2, 1)):
        x = torch.empty(shape)
        for op in (Sort(), Permutation()):
            value = Smooth(form=form)(op, x, T=0.5)
            assert value.shape == op.hard(x).shape
            (slope,) = gradients(lambda x, op=op: Smooth(form=form)(op, x, T=0.5), [x])
            assert slope.shape == shape
