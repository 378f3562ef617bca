"""Ops against torch's own, and facts of single ops that no law states."""

import itertools
import math

import pytest
import torch

from products import FULL, HALF, cells, generator, gradients, sample
from surrogates.core import Op
from surrogates.kernels import KERNELS
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.ceil import Ceil
from surrogates.ops.floor import Floor
from surrogates.ops.max import Max
from surrogates.ops.min import Min
from surrogates.ops.minimum import Minimum
from surrogates.ops.threshold import Threshold
from surrogates.ops.top_k import TopK
from surrogates.ops.top_k_mask import TopKMask
from surrogates.ops.trunc import Trunc
from surrogates.ops.where import Where
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_values_are_those_of_torch(dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, math.inf, -math.inf], dtype=dtype)
    x = torch.cat([sample(Ceil(), (2000,), dtype, scale=3.0)[0], special])
    y = x[torch.randperm(len(x), generator=generator(1))]
    assert torch.equal(Ceil().hard(x), torch.ceil(x))
    assert torch.equal(Trunc().hard(x), torch.trunc(x))
    assert torch.equal(Minimum().hard(x, y), torch.minimum(x, y))
    assert torch.equal(Threshold().hard(x, y), (x >= y).to(dtype))
    assert torch.equal(Ceil(0.5, -1.0, 1.0).hard(x), (torch.ceil(x * 2) / 2).clamp(-1, 1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ceil_is_floor_one_step_up_in_the_mean(kernel: str) -> None:
    x = sample(Ceil(), (500,), scale=3.0)[0]
    low, high = Ceil(0.5, -1.5, 1.0), Floor(0.5, -2.0, 0.5)  # the same jumps
    for T in (0.05, 1.0):
        smooth = Smooth(kernel=kernel)
        torch.testing.assert_close(smooth(low, x, T=T), smooth(high, x, T=T) + 0.5)
        if KERNELS[kernel].has_mean:
            torch.testing.assert_close(smooth(Ceil(), x, T=T), smooth(Floor(), x, T=T) + 1)


def test_a_wrong_range_of_ceil_names_the_bound_that_was_given() -> None:
    with pytest.raises(ValueError, match=r"low must be a multiple of step=0.5, got -1.2"):
        Ceil(0.5, -1.2, 1.0)
    with pytest.raises(ValueError, match="low and high must be both finite or both infinite, got low=-inf, high=1"):
        Ceil(0.5, high=1.0)


def test_trunc_is_odd_and_its_dithered_rewrite_has_the_stated_mean() -> None:
    x = sample(Trunc(), (60,), scale=2.0)[0]
    for kernel in ("logistic", "normal", "uniform", "triangular"):
        smooth = Smooth(kernel=kernel)
        torch.testing.assert_close(smooth(Trunc(), -x, T=0.3), -smooth(Trunc(), x, T=0.3))
    draws = ((torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000).unsqueeze(-1).expand(-1, 60)
    mean = Rewrite(form="dither")(Trunc(), x.expand(20_000, -1), noise=draws).mean(0)
    expected = torch.where(x.abs() < 1, 0.5 * x * x.abs(), x - 0.5 * x.sign())
    torch.testing.assert_close(mean, expected, atol=1e-8, rtol=0)


def test_a_comparison_in_a_loss_has_a_gradient_to_both_sides() -> None:
    """Case A01."""
    x, t = torch.tensor([0.4, 0.7]), torch.tensor([0.5, 0.5])
    for cell in cells(Threshold()):
        to_x, to_t = gradients(cell, [x, t])
        assert torch.equal(to_x, -to_t), cell
        assert (to_x == 0).all() == isinstance(cell.strategy, Subgradient)


def test_a_learnable_cut_off_has_a_gradient() -> None:
    """Case A04.

    One threshold for all samples: it broadcasts, and its derivative is the sum of theirs with the other sign.
    """
    norms = torch.tensor([0.4, 1.2, 1.6, 3.0], requires_grad=True)
    t = torch.tensor(1.5, requires_grad=True)
    for strategy in (StraightThrough(), Smooth(temperature=0.5)):
        inside = 1 - strategy(Threshold(), norms, t)
        to_norms, to_t = torch.autograd.grad((inside * norms.detach()).sum(), [norms, t])
        assert to_t > 0
        torch.testing.assert_close(to_t, -to_norms.sum())
    assert Threshold().hard(norms, t).tolist() == [0, 0, 1, 1]


def subsets(x: torch.Tensor, k: int, T: float) -> tuple[torch.Tensor, torch.Tensor]:
    """By enumeration, for one row: the probability of every entry, and T log of the sum over the subsets."""
    chosen = list(itertools.combinations(range(len(x)), k))
    energy = torch.stack([x[list(s)].sum() for s in chosen]) / T
    hot = torch.stack([torch.zeros_like(x).index_fill(0, torch.tensor(s), 1.0) for s in chosen])
    return energy.softmax(0) @ hot, T * energy.logsumexp(0)


@pytest.mark.parametrize("T", [0.05, 0.7, 30.0])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_top_k_relaxations_are_sums_over_subsets(n: int, T: float) -> None:
    for x in sample(TopKMask(), (3, n), seed=n)[0]:
        before = 0.0
        for k in range(1, n + 1):
            probability, energy = subsets(x, k, T)
            mask = Smooth()(TopKMask(k), x, T=T)
            torch.testing.assert_close(mask, probability)
            torch.testing.assert_close(mask.sum(), torch.tensor(float(k)).double())
            torch.testing.assert_close(Smooth()(TopK(k), x, T=T)[-1], energy - before)
            before = energy


@pytest.mark.parametrize("x", [[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.5, 0.5]], ids=str)
def test_top_k_relaxations_have_the_derivative_of_those_sums_at_ties(x: list[float]) -> None:
    row = torch.tensor(x, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian
    for k in range(1, 5):
        expected = jacobian(lambda x, k=k: subsets(x, k, 0.7)[0], row)
        torch.testing.assert_close(jacobian(lambda x, k=k: Smooth()(TopKMask(k), x, T=0.7), row), expected)
        expected = jacobian(lambda x, k=k: subsets(x, k, 0.7)[1], row)
        torch.testing.assert_close(jacobian(lambda x, k=k: Smooth()(TopK(k), x, T=0.7).sum(), row), expected)


def test_top_1_is_argmax_and_max() -> None:
    x = torch.tensor([[0.3, -1.0, 0.9, 0.9], [1.0, -math.inf, 2.0, -math.inf]], dtype=torch.float64)
    for T in (0.1, 2.0):
        torch.testing.assert_close(Smooth()(TopKMask(1), x, T=T), Smooth()(ArgMax(), x, T=T))
        torch.testing.assert_close(Smooth()(TopK(1), x, T=T)[..., 0], Smooth()(Max(), x, T=T))
    assert torch.equal(TopKMask(1).hard(x), ArgMax().hard(x))


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_top_k_is_torchs_and_the_mask_has_exactly_k_ones(dtype: torch.dtype) -> None:
    x = sample(TopK(), (300, 9), dtype)[0]
    tied = torch.randint(0, 3, (300, 9), generator=generator(4)).to(dtype)
    for rows in (x, tied, torch.ones(2, 9, dtype=dtype)):
        for k in (1, 3, 9):
            assert torch.equal(TopK(k).hard(rows), rows.topk(k).values)
            mask = TopKMask(k).hard(rows)
            assert (mask.sum(-1) == k).all()
            assert torch.equal((mask * rows).sum(-1), TopK(k).hard(rows).sum(-1)) or rows is x
    assert TopKMask(2).hard(torch.tensor([1.0, 2.0, 2.0, 2.0])).tolist() == [0, 1, 1, 0]


def test_top_k_of_large_rows_at_any_temperature() -> None:
    """The order of x is kept, the values descend, and nothing overflows."""
    x = sample(TopK(), (4, 200), torch.float32)[0]
    for k, T in itertools.product((1, 7, 100, 199, 200), (1e-6, 1e-2, 1.0, 1e6)):
        mask = Smooth()(TopKMask(k), x, T=T)
        torch.testing.assert_close(mask.sum(-1), torch.full((4,), float(k)))
        ordered = mask.gather(-1, x.argsort(-1, descending=True))
        assert (ordered.diff() <= 1e-6).all()
        if k < 10:
            assert (Smooth()(TopK(k), x, T=T).diff() <= 1e-6 * max(1, T)).all()


def test_masked_entries_are_never_chosen_while_there_are_others() -> None:
    x = torch.tensor([[0.3, -math.inf, 0.2, -0.4], [0.3, -math.inf, 0.2, -math.inf]])
    for cell in cells(TopKMask()):
        y = cell(x)
        assert (y[:, 1] == 0).all(), cell
        assert y.isfinite().all(), cell
    torch.testing.assert_close(
        Smooth()(TopKMask(), x, T=0.5)[0, [0, 2, 3]], Smooth()(TopKMask(), x[0, [0, 2, 3]], T=0.5)
    )
    assert Smooth()(TopKMask(), x)[1].tolist() == [1, 0, 1, 0]


def test_losers_have_a_gradient_through_the_mask() -> None:
    """Case A09: the share of scores with a gradient: none by the a.e. derivative, all under the others."""
    scores = sample(TopKMask(), (1, 6))[0]
    weight = torch.arange(6.0).double().expand(1, 6)
    for strategy, share in ((Subgradient(), 0), (StraightThrough(), 1), (Smooth(), 1), (Rewrite(), 1)):
        (got,) = gradients(lambda s, f=strategy: f(TopKMask(), s), [scores], weight)
        assert (got != 0).double().mean() == share, strategy
    (got,) = gradients(lambda s: Subgradient()(TopK(), s), [scores])
    assert torch.equal(got, TopKMask().hard(scores))


@pytest.mark.parametrize("cls", [TopK, TopKMask])
def test_a_wrong_k_is_refused(cls: type[Op]) -> None:
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"k must be a whole number of at least 1, got {k}"):
            cls(k)
    with pytest.raises(IndexError, match=r"k=4 needs rows of at least 4 entries.*have 3"):
        cls(4).hard(torch.zeros(2, 3))


def test_min_and_argmin_mirror_max_and_argmax_with_masks_of_plus_infinity() -> None:
    x = torch.tensor([[2.0, 1.0, math.inf], [math.inf, math.inf, 3.0], [0.5, -math.inf, 1.0]], dtype=torch.float64)
    assert Min().hard(x).tolist() == [1, 3, -math.inf]
    assert ArgMin().hard(x).tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert ArgMin().hard(torch.tensor([1.0, 0.0, 0.0])).tolist() == [0, 1, 0]
    soft = Smooth()(Min(), x, T=0.5)
    torch.testing.assert_close(soft[0], -0.5 * torch.logsumexp(-x[0, :2] / 0.5, 0))
    assert soft[1:].tolist() == [3, -math.inf]
    torch.testing.assert_close(Smooth()(ArgMin(), x, T=0.5)[0, :2], torch.softmax(-x[0, :2] / 0.5, 0))


def test_where_takes_the_branch_and_gives_the_condition_a_gradient() -> None:
    c, a, b = sample(Where(), (200,))
    assert torch.equal(Where().hard(c, a, b), torch.where(c >= 0, a, b))
    to_c, to_a, to_b = gradients(lambda *x: Smooth(kernel="normal")(Where(), *x, T=0.5), [c, a, b])
    torch.testing.assert_close(to_c, (a - b) * KERNELS["normal"].density(c / 0.5) / 0.5)
    torch.testing.assert_close(to_a + to_b, torch.ones_like(a))
    torch.testing.assert_close(to_a, KERNELS["normal"].cdf(c / 0.5))
    to_c, to_a, to_b = gradients(lambda *x: Subgradient()(Where(), *x), [c, a, b])
    assert (to_c == 0).all()
    assert torch.equal(to_a, (c >= 0).double())
    assert torch.equal(to_b, (c < 0).double())
    (to_c, _, _) = gradients(lambda *x: StraightThrough()(Where(), *x, T=1.0), [c, a, b])
    torch.testing.assert_close(to_c, torch.where(c.abs() < 1, 0.5 * (a - b), 0))
