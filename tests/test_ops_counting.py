"""Comparisons and histograms against torch's own, closed forms and Monte Carlo."""

import math

import pytest
import torch

from products import FULL, HALF, cells, generator, gradients, kernels_of, sample
from surrogates.kernels import KERNELS
from surrogates.ops.compare import RELATIONS, Compare
from surrogates.ops.histogram import Histogram
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_comparisons_are_torchs(relation: str, dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf], dtype=dtype)
    a, b = torch.cartesian_prod(special, special).unbind(-1)
    op = Compare(relation)
    assert torch.equal(op.hard(a, b), RELATIONS[relation](a, b).to(dtype))
    for cell in cells(op):
        infinite = a.isinf() | b.isinf()
        assert torch.equal(cell(a, b)[infinite], op.hard(a, b)[infinite]), cell


def test_the_four_inequalities_are_one_step() -> None:
    a, b = sample(Compare(), (200,))
    for kernel in KERNELS:
        strategy = Smooth(kernel=kernel)
        above = strategy(Compare(">"), a, b, T=0.4)
        torch.testing.assert_close(above, KERNELS[kernel].cdf((a - b) / 0.4))
        assert torch.equal(strategy(Compare(">="), a, b, T=0.4), above)
        for relation in ("<", "<="):
            torch.testing.assert_close(strategy(Compare(relation), a, b, T=0.4), 1 - above)
    for relation, sign in ((">", 1), (">=", 1), ("<", -1), ("<=", -1)):
        to_a, to_b = gradients(lambda a, b, r=relation: StraightThrough()(Compare(r), a, b), [a, b])
        assert torch.equal(to_a, sign * 0.5 * ((a - b).abs() <= 1).double())
        assert torch.equal(to_b, -to_a)


@pytest.mark.parametrize("kernel", KERNELS)
def test_smooth_equality_is_the_likelihood_of_a_difference_relative_to_none(kernel: str) -> None:
    """Under continuous noise == never holds; its smooth reading is the ratio of chances of being near."""
    law, draws, T, d = KERNELS[kernel], 400_000, 0.5, 0.02
    a, b = torch.tensor([0.1, 0.1, 0.1, -0.3]).double(), torch.tensor([0.1, 0.3, 0.75, 0.05]).double()
    u = torch.rand(draws, 1, generator=generator(8), dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    noise = T * law.quantile(u)
    assert (Compare("==").hard(a + noise, b.expand(draws, 4)).mean(0) == 0).all()
    near = ((a + noise - b).abs() <= d).double().mean(0)
    still = (noise.abs() <= d).double().mean()
    error = (near * (1 - near) / draws).sqrt() / still + near / still * ((1 - still) / still / draws).sqrt()
    got = Smooth(kernel=kernel)(Compare("=="), a, b, T=T)
    assert ((got - near / still).abs() <= 4 * error + 0.03).all()
    assert got[0] == 1
    closed = {"logistic": 1 / torch.cosh((a - b) / (2 * T)) ** 2, "normal": torch.exp(-((a - b) ** 2) / (2 * T * T))}
    if kernel in closed:
        torch.testing.assert_close(got, closed[kernel])


def test_equality_has_a_slope_towards_it() -> None:
    a, b = torch.tensor([0.0, 0.5, -0.5, 2.0]), torch.zeros(4)
    for strategy in (StraightThrough(), Smooth(), Smooth(kernel="cauchy")):
        to_a, to_b = gradients(lambda a, b, s=strategy: s(Compare("=="), a, b, T=1.0), [a, b])
        assert to_a[0] == 0
        assert to_a[1] < 0 < to_a[2]
        assert torch.equal(to_b, -to_a)
    assert gradients(lambda a: StraightThrough()(Compare("=="), a, b), [a])[0].tolist() == [0, -1, 1, 0]


def test_the_comparison_itself_has_a_gradient_to_both_sides() -> None:
    """Case A01."""
    x = torch.tensor([0.2, 1.7], requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        (x > 0.5).float().sum().backward()
    for relation in RELATIONS:
        for cell in cells(Compare(relation), one_kernel=True):
            to_x, to_t = gradients(cell, [x.detach(), torch.tensor([0.5, 1.2])])
            assert torch.equal(to_x, -to_t), cell
            assert (to_x == 0).all() == isinstance(cell.strategy, Subgradient), cell


def test_a_comparison_broadcasts_to_a_learned_number() -> None:
    x, t = torch.linspace(-1, 1, 9), torch.tensor(0.1)
    to_x, to_t = gradients(lambda x, t: Smooth(temperature=0.5)(Compare(">"), x, t), [x, t])
    torch.testing.assert_close(to_t, -to_x.sum())


def test_wrong_constants_are_refused() -> None:
    with pytest.raises(ValueError, match="relation must be one of >, >=, <, <=, ==; got '!='"):
        Compare("!=")
    for bins in (0, 2.0, True):
        with pytest.raises(ValueError, match=f"bins must be a whole number of at least 1, got {bins}"):
            Histogram(bins)
    with pytest.raises(ValueError, match="low must be a number, got nan"):
        Histogram(3, math.nan, 1.0)
    for low, high in ((1.0, 1.0), (0.0, math.inf)):
        with pytest.raises(ValueError, match=f"low < high, got low={low} and high={high}"):
            Histogram(3, low, high)


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_counts_are_torchs_and_the_ends_hold_what_is_beyond(dtype: torch.dtype) -> None:
    x = torch.cat([sample(Histogram(), (200,), dtype)[0], torch.tensor([-1.0, 1.0, 0.5, 0.0, -0.5]).to(dtype)])
    op = Histogram(8, -1.0, 1.0)
    inside = x.clamp(-1, 1)
    edges = torch.linspace(-1, 1, 9)
    assert torch.equal(op.hard(x), torch.histogram(inside.float(), edges)[0].to(dtype))
    assert torch.equal(op.hard(inside), op.hard(x))
    assert op.hard(torch.tensor([-math.inf, math.inf, math.inf], dtype=dtype)).tolist() == [1, 0, 0, 0, 0, 0, 0, 2]
    assert Histogram(1).hard(x).tolist() == [205]
    assert op.hard(torch.zeros(0, dtype=dtype)).tolist() == [0] * 8


def test_soft_counts_keep_the_mass_and_the_sharp_limit_and_have_a_gradient_near_the_edges() -> None:
    """Case A03: soft counts keep the mass, the edges and the sharp limit, and samples near an edge have a gradient."""
    x = torch.cat([torch.rand(200, generator=generator(1), dtype=torch.float64), torch.tensor([0.0, 1.0]).double()])
    assert not torch.histc(x.clone().requires_grad_(), 4, 0, 1).requires_grad
    op = Histogram(4)
    hard = torch.histogram(x, torch.linspace(0, 1, 5, dtype=torch.float64))[0]
    assert torch.equal(op.hard(x), hard)
    assert hard.sum() == len(x)  # both ends are counted
    for cell in [cell for cell in cells(op) if not cell.drawn]:
        for T in (1e-9, 0.1, 1.0, 30.0):
            counts = cell(x, T=T)
            torch.testing.assert_close(counts.sum(), torch.tensor(float(len(x))).double(), msg=repr(cell))
            assert (counts >= 0).all(), cell
            if T == 1e-9 and not isinstance(cell.strategy, Rewrite):
                torch.testing.assert_close(counts, hard, atol=1e-5, rtol=0)
        (got,) = gradients(lambda x, cell=cell: cell(x, T=0.1)[..., 1], [x])
        near = ((x.unsqueeze(-1) - torch.tensor([0.25, 0.5])).abs() < 0.1 * 0.25).any(-1)
        assert near.sum() > 5
        assert (got[near] != 0).all() != isinstance(cell.strategy, Subgradient), cell
        (mass,) = gradients(lambda x, cell=cell: cell(x, T=0.1).sum(), [x])
        torch.testing.assert_close(mass, torch.zeros_like(x), atol=1e-9, rtol=0)


def test_a_histogram_of_either_dimension_and_its_linear_sharing() -> None:
    x = sample(Histogram(), (5, 7))[0]
    for cell in [cell for cell in cells(Histogram(3, dim=0), one_kernel=True) if not cell.drawn]:
        torch.testing.assert_close(cell(x), cell.strategy(Histogram(3), x.t(), T=0.3).t())
    centres = torch.tensor([0.5, 1.25, 2.0, -3.0, 3.0])  # the bins of width 1 in [0, 3] have theirs at 1/2, 3/2, 5/2
    expected = [[1, 0, 0], [0.25, 0.75, 0], [0, 0.5, 0.5], [1, 0, 0], [0, 0, 1]]
    assert Rewrite()(Histogram(3, 0.0, 3.0), centres.unsqueeze(-1)).tolist() == expected
    assert len(kernels_of(Histogram())) == len(KERNELS)


def test_soft_counts_of_many_samples_are_never_negative() -> None:
    x = sample(Histogram(), (20_000,), torch.float32, scale=0.3)[0]
    for kernel in KERNELS:
        counts = Smooth(kernel=kernel)(Histogram(20), x, T=0.01)
        assert (counts >= 0).all()
        torch.testing.assert_close(counts.log1p().isfinite(), torch.ones(20, dtype=torch.bool))
