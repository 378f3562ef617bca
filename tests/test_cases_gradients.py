"""Cases from public bug reports, groups A to E, as far as they are about an op, its strategies and their gradients.

Each test is named after its case. Cases with a law of their own (values, layouts, transforms, layers), or about one op
that has a file of its own, stand in those files.
"""

import copy
import math
import warnings

import pytest
import torch
from torch import Tensor, nn

from products import HALF, OP_CLASSES, OPS, arity, cells, filled, generator, gradients, sample
from surrogates import HardLayer, mode
from surrogates.kernels import KERNELS
from surrogates.noise import SMALLEST, uniforms
from surrogates.ops.abs import Abs
from surrogates.ops.argmax import ArgMax
from surrogates.ops.clamp import Clamp
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.quantize import Quantize
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.schedules import SCHEDULES
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE, SOFT, SUBGRADIENT, REWRITE = StraightThrough(), Smooth(), Subgradient(), Rewrite()
JUMPS = [Round(), Floor(), Sign(), Heaviside(), Quantize(), ArgMax()]


def gradient(function, *x: Tensor) -> list[Tensor | None]:
    return gradients(function, list(x))


# A. Gradient None, zero or NaN through a hard op


def test_a_comparison_has_no_graph_and_the_same_threshold_as_an_op_has_one() -> None:
    """Case A01: a comparison has no graph; the same threshold as a heaviside op has one under every strategy."""
    x = torch.tensor([0.2, 1.7], requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        (x > 0.5).float().sum().backward()
    ran = 0
    for cell in cells(Heaviside()):
        (got,) = gradient(lambda x, cell=cell: cell(x - 0.5).sum(), x)
        assert got is not None
        assert got.isfinite().all()
        if (
            not isinstance(cell.strategy, Subgradient)
            and "uniform" not in repr(cell)
            and "triangular" not in repr(cell)
        ):
            assert got[0] > 0, cell
        assert torch.equal(cell(x - 0.5), (x > 0.5).float()) or not cell.hard_valued
        ran += 1
    assert ran >= 16


def test_an_op_with_jumps_has_zeros_under_subgradient_and_slopes_under_the_others() -> None:
    """Case A02: every op with jumps has zeros, not None, under subgradient, and a slope under the others.

    That a run reports a gradient that is zero upstream is tested with the runs.
    """
    x = torch.tensor([0.2, 1.7, -0.6])
    for op in JUMPS:
        (flat,) = gradient(lambda x, op=op: SUBGRADIENT(op, x), x)
        assert (flat == 0).all(), op
        (through,) = gradient(lambda x, op=op: (STE(op, x, T=1.0) * torch.tensor([1.0, 2.0, 4.0])).sum(), x)
        assert (through != 0).any(), op
    with pytest.raises(RuntimeError, match="not implemented"):  # why heaviside is an op of ours
        gradient(lambda x: torch.heaviside(x, torch.ones(())), x)


def test_a_learned_cut_off_and_its_input_get_gradients_of_opposite_sign() -> None:
    """Case A04: a learned cut-off as heaviside(threshold - norm) beside boolean indexing, which cuts the graph."""
    x = torch.randn(10, 3, generator=generator(2)).requires_grad_()
    threshold = torch.tensor(1.5, requires_grad=True)
    x[x.norm(dim=1) < threshold].sum().backward()
    assert threshold.grad is None  # what boolean indexing gives
    for strategy in (STE, SOFT):
        (by_norm, by_threshold) = gradient(
            lambda norm, threshold, s=strategy: s(Heaviside(), threshold - norm, T=0.5).sum(),
            x.detach().norm(dim=1),
            threshold,
        )
        assert by_threshold > 0
        assert by_norm.sum().item() == pytest.approx(-by_threshold.item(), rel=1e-5)


def test_the_gradient_is_on_the_leaf_through_every_strategy() -> None:
    """Case A05: gradients are on the leaf: a module's parameters have one after backward through every strategy."""
    a = torch.rand(1, requires_grad=True)
    leaf, a = a, STE(Clamp(), a)
    (2 * a).backward()
    assert leaf.grad.item() == 2.0
    for strategy in (SUBGRADIENT, STE, SOFT, REWRITE):
        net = nn.Sequential(nn.Linear(3, 3), HardLayer(Round(), strategy))
        net(torch.ones(2, 3)).sum().backward()
        assert all(p.grad is not None for _, p in net.named_parameters())


def test_a_branch_that_is_not_selected_does_not_poison_the_gradient() -> None:
    """Case A06: every rewrite and smooth reading, at dangerous numbers."""
    x = torch.tensor([-1.0, -4.0])
    assert gradient(lambda x: torch.where(x > 0, x.sqrt(), x), x)[0].isnan().all()  # the pattern
    numbers = torch.tensor([0.0, -0.0, 1.0, -4.0, 1e-40, -1e-40, 1e30, -1e30, math.inf, -math.inf, 88.8, 1e4])
    ran = 0
    for op in OPS:
        for cell in cells(op):
            if isinstance(cell.strategy, (Rewrite, Smooth)):
                for T in (1e-6, 1.0, 1e6):
                    turned = [numbers, numbers.flip(0), numbers.roll(5)]
                    x = filled(op, *[t.view(3, 4).to(torch.float32) for t in turned][: arity(op)])
                    for g in gradients(lambda *i, cell=cell, T=T: cell(*i, T=T), x):
                        assert g.isfinite().all(), (cell, T, g)
                    ran += 1
    assert ran >= 350


def test_no_pair_loses_its_input_from_the_graph() -> None:
    """Case A07: only the difference may be detached: no cell loses its input (a law over all cells, too)."""
    x = torch.randn(4, generator=generator(3), requires_grad=True)
    assert not (x > 0).float().detach().requires_grad
    assert sum(cell(x).requires_grad for cell in cells(Heaviside())) == len(cells(Heaviside()))


def test_integer_inputs_are_refused_and_outputs_are_floating_numbers_that_are_whole() -> None:
    """Case A08: outputs are floating tensors that hold integers; integer inputs raise, naming the op and what to do."""
    for op in (Round(), Floor(), Sign(), Heaviside()):
        y = STE(op, torch.tensor([0.4, -1.6], requires_grad=True))
        assert y.is_floating_point()
        assert torch.equal(y, y.long().float())
        with pytest.raises(TypeError, match=rf"{type(op).__name__} needs floating inputs, got torch.int64; convert"):
            STE(op, torch.tensor([1, 2]))


def test_channels_that_lose_have_a_gradient_under_ste_and_smooth_only() -> None:
    """Case A09: a one-hot mask scores channels, the top-k mask of k = 1."""
    s = torch.randn(1, 6, generator=generator(4))
    value = torch.arange(6.0)
    share = {}
    for cell in cells(ArgMax()):
        (got,) = gradient(lambda s, cell=cell: (cell(s, T=1.0) * value).sum(), s)
        named = getattr(cell.strategy, "carrier", None) or getattr(cell.strategy, "form", None)
        share[type(cell.strategy).__name__, named] = (got != 0).float().mean().item()
    assert share["Subgradient", None] == 0
    assert share["StraightThrough", "own"] == share["Smooth", None] == share["Rewrite", None] == 1
    winners = gradient(lambda s: SUBGRADIENT(Max(), s), s)[0]
    assert (winners != 0).sum() == 1


# B. Straight-through mechanics (B01, B02, B05, B06, B08, B10, B11, B13, B14 are laws)


def test_clipped_and_identity_straight_through_are_two_strategies() -> None:
    """Case B03: clipped and identity straight-through are different strategies with different names."""
    x = torch.tensor([-3.0, 0.2, 3.0])
    clipped, identity = StraightThrough(carrier="clipped"), StraightThrough(carrier="identity")
    assert gradient(lambda x: clipped(Sign(), x), x)[0].tolist() == [0, 1, 0]
    assert gradient(lambda x: identity(Sign(), x), x)[0].tolist() == [1, 1, 1]
    assert gradient(lambda x: STE(Quantize(4, -1.0, 1.0), x), x)[0].tolist() == [0, 1, 0]
    assert repr(clipped) != repr(identity)


def test_every_op_states_the_formula_of_each_reading_and_its_tails_go_to_0() -> None:
    """Case B04: every op states the formula of each reading it has; tails go to 0 as stated."""
    for cls in OP_CLASSES.values():
        assert ("proxy" in cls.__doc__) == cls().declares("proxy"), cls
        assert ("smooth" in cls.__doc__) == cls().declares("smooth"), cls
        assert ("rewrite" in cls.__doc__) == cls().declares("rewrite"), cls
    (got,) = gradient(lambda x: STE(Sign(), x), torch.tensor([10.0, -10.0]))
    assert (got == 0).all()


def test_a_layer_in_evaluation_traces_as_the_plain_hard_op() -> None:
    """Case B07: export by tracing: in evaluation a layer is the plain hard op, which traces exactly."""
    for op in (Round(), Sign(zero=1.0), Quantize(), Max(), ArgMax()):
        layer = HardLayer(op, STE).eval()
        x = sample(op, (3, 4), torch.float32)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls tracing deprecated
            traced = torch.jit.trace(layer, x)
        assert torch.equal(traced(x), op.hard(x))


def test_a_quantizer_of_8_bits_keeps_the_levels_that_half_precision_can_hold() -> None:
    """Case B09: in half precision a quantizer of 8 bits keeps its levels as far as the dtype can hold them."""
    op = Quantize(8)
    x = torch.linspace(0, 1, 100_001)
    assert op.hard(x).unique().numel() == 256
    assert op.hard(x.half()).unique().numel() == 256
    codes = (torch.arange(-128, 128) * 0.1).bfloat16()
    naive = (codes / torch.tensor(0.1, dtype=torch.bfloat16)).round().unique().numel()
    assert naive == 248
    kept = Quantize(8, -12.8, 12.7).hard(codes)
    assert torch.equal(kept, codes)


def test_every_parameter_upstream_of_a_hard_op_has_a_gradient() -> None:
    """Case B12: no parameter upstream of a hard op is unused: each has a gradient, zero under subgradient."""
    for strategy in (SUBGRADIENT, STE, SOFT, REWRITE):
        net = nn.Sequential(nn.Linear(4, 3), HardLayer(ArgMax(), strategy), nn.Linear(3, 2))
        net(torch.randn(5, 4, generator=generator(5))).square().sum().backward()
        assert all(p.grad is not None for p in net.parameters())
        assert (net[0].weight.grad == 0).all() == isinstance(strategy, Subgradient)


# C. Temperature, softmax, logsumexp


def test_a_temperature_that_is_not_positive_and_finite_is_refused_by_name_and_value() -> None:
    """Case C01: when a strategy or a schedule is made, with the field and the value."""
    for cls in (Smooth, StraightThrough):
        for bad in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"temperature must be a (positive, finite )?number.*got {bad}"):
                cls(temperature=bad)
    for schedule in SCHEDULES.values():
        with pytest.raises(ValueError, match=r"end must be a positive.*got -1"):
            schedule(1.0, -1.0)


def test_a_temperature_that_would_underflow_is_refused_and_a_schedule_stops_at_its_floor() -> None:
    """Case C02: T = 0.95^2000; value and gradient stay finite at the floor."""
    with pytest.raises(ValueError, match="final_temperature"):
        Smooth(schedule="exponential", final_temperature=0.95**2000)
    strategy = Smooth(schedule="exponential", temperature=1.0, final_temperature=1e-12)
    x = torch.tensor([1.0, 2.0])
    T = torch.tensor(strategy.temperature_at(1.0))
    assert strategy(ArgMax(), x, T=T).tolist() == [0, 1]
    assert strategy(ArgMax(), x, T=torch.tensor(1e-30)).tolist() == [0, 1]
    assert gradient(lambda x: strategy(ArgMax(), x, T=1e-3)[0], x)[0].tolist() == [0, 0]  # what a run has to report


def test_the_temperature_divides_in_every_op() -> None:
    """Case C03: temperature divides, in every op: the numbers of the case (the monotonicity law is with the values)."""
    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(SOFT(ArgMax(), x, T=0.1), torch.tensor([0.00005, 0.99995]), atol=5e-6, rtol=0)
    torch.testing.assert_close(SOFT(Heaviside(), x, T=0.1), torch.sigmoid(x / 0.1))
    torch.testing.assert_close(SOFT(Max(), x, T=0.1), 0.1 * torch.logsumexp(x / 0.1, 0))
    torch.testing.assert_close(SOFT(ReLU(), x, T=0.1), 0.1 * nn.functional.softplus(x / 0.1))


@pytest.mark.slow
def test_half_precision_at_a_small_temperature_does_not_overflow() -> None:
    """Case C04: half precision with a small T: no overflow, value and gradient."""
    x = torch.tensor([[70.0, 65.6]]).half()
    assert (x / 1e-3).softmax(-1).isnan().all()  # what dividing first does
    for dtype in HALF:
        for op in OPS:
            for cell in cells(op, one_kernel=True):
                inputs = filled(op, *[torch.tensor([[70.0, 65.6], [-6e4, 6e4]], dtype=dtype)] * arity(op))
                assert cell(*inputs, T=1e-3).isfinite().all(), (cell, dtype)
                assert all(g.isfinite().all() for g in gradients(lambda *i, c=cell: c(*i, T=1e-3), inputs)), cell
    assert SOFT(ArgMax(), x, T=1e-3).tolist() == [[1, 0]]


def test_a_fully_masked_row_takes_the_hard_value_and_the_others_stay_clean() -> None:
    """Case C05: its derivative is 0, whatever rows and weights are beside it."""
    x = torch.tensor([[-math.inf] * 3, [0.0, 1.0, 2.0]])
    assert gradient(lambda x: torch.nan_to_num(x.softmax(-1))[1].sum(), x)[0][0].isnan().all()  # what torch does
    for op in (ArgMax(), Max()):
        for cell in cells(op):
            y = cell(x)
            assert torch.equal(y[0], op.hard(x)[0]), cell
            (got,) = gradient(lambda x, cell=cell: cell(x)[1].square().sum() + cell(x)[0].clamp(-1, 1).sum(), x)
            assert got.isfinite().all(), cell
            if cell.hard_valued or isinstance(cell.strategy, Smooth):
                assert (got[0] == 0).all(), cell
            if cell.strategy.noisy(op):  # a row by itself has other noise
                continue
            (alone,) = gradient(lambda x, cell=cell: cell(x).square().sum(), x[1])
            assert torch.equal(gradient(lambda x, cell=cell: cell(x)[1].square().sum(), x)[0][1], alone), cell


def test_a_smooth_maximum_of_infinities_has_the_derivative_0() -> None:
    """Case C06: for a row that is all -inf and for one with +inf; torch's logsumexp gives NaN."""
    for row in ([-math.inf] * 3, [math.inf, 0.0], [math.inf, math.inf, 1.0]):
        x = torch.tensor(row)
        assert gradient(lambda x: torch.logsumexp(x, 0), x)[0].isnan().any()
        for strategy in (SOFT, STE):
            assert strategy(Max(), x, T=0.5).item() == x.max().item()
            assert (gradient(lambda x, s=strategy: s(Max(), x, T=0.5), x)[0] == 0).all()
    partly = torch.tensor([-math.inf, 0.0, 1.0])
    torch.testing.assert_close(gradient(lambda x: SOFT(Max(), x, T=1.0), partly)[0], partly.softmax(0))


def test_one_infinite_logit_gives_the_one_hot_vector() -> None:
    """Case C07: one +inf logit: one-hot, the hard value."""
    x = torch.tensor([0.0, math.inf])
    assert x.softmax(0).isnan().all()
    for cell in cells(ArgMax()):
        assert cell(x).tolist() == [0, 1], cell


def test_the_dimension_of_an_op_is_its_own_field_and_the_last_by_default() -> None:
    """Case C08: torch's implicit choice for an input of three dimensions was the batch."""
    x = torch.zeros(4, 3, 2)
    for dim in (0, 1, 2, -1):
        y = SOFT(ArgMax(dim=dim), x)
        torch.testing.assert_close(y.sum(dim), torch.ones_like(y.sum(dim)))
    assert ArgMax() == ArgMax(dim=-1)


def test_evaluation_has_no_noise() -> None:
    """Case C09: noise belongs to training: in evaluation two calls are equal, and equal to the hard op."""
    ran = 0
    for op in OPS:
        for cell in cells(op, one_kernel=True):
            if cell.strategy.noisy(op):
                layer = HardLayer(op, cell.strategy)
                x = sample(op, (50, 40), torch.float32)
                assert not torch.equal(layer(*x), layer(*x)), cell
                layer.eval()
                assert torch.equal(layer(*x), layer(*x)), cell
                assert torch.equal(layer(*x), op.hard(*x)), cell
                ran += 1
    assert ran >= 7


def test_soft_and_hard_scores_are_at_hand_for_one_model_without_touching_it() -> None:
    """Case C10: that runs log both is tested with the runs."""
    net = nn.Sequential(nn.Linear(4, 4), HardLayer(Sign(), SOFT), nn.Linear(4, 1)).eval()
    x = torch.randn(20, 4, generator=generator(6))
    state = copy.deepcopy(net.state_dict())
    hard = net(x)
    with mode(net, "strategy"):
        soft = net(x)
    assert (soft - hard).abs().mean() > 1e-3
    assert torch.equal(net(x), hard)
    assert all(torch.equal(net.state_dict()[key], value) for key, value in state.items())
    assert SOFT.soft_forward
    assert not STE.soft_forward


def test_the_smooth_maximum_is_biased_upward_by_at_most_T_log_n() -> None:
    """Case C11: T logsumexp(x / T) is biased upward by at most T log n: the numbers of the case."""
    x = torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64)
    bias = [(SOFT(Max(), x, T=T) - 2).item() for T in (1.0, 0.1, 0.01)]
    assert bias == pytest.approx([0.862, 0.0693, 0.00693], rel=2e-3)
    assert all(0 <= b <= T * math.log(3) for b, T in zip(bias, (1.0, 0.1, 0.01), strict=True))
    assert STE(Max(), x).item() == 2.0


@pytest.mark.slow
def test_no_uniform_of_ten_million_is_0_or_1_so_no_noise_is_infinite() -> None:
    """Case C12: neither a kernel's noise nor Gumbel noise."""
    for dtype in (torch.float32, torch.float16):
        for part in range(5):
            u = uniforms(torch.empty(1_000_000, dtype=dtype), (8, part))
            assert (-torch.log(-torch.log(u))).isfinite().all()
            assert all(kernel.quantile(u).isfinite().all() for kernel in KERNELS.values())
    worst = torch.tensor([SMALLEST, 1 - 2.0**-24])
    assert (-torch.log(-torch.log(worst))).isfinite().all()
    assert all(kernel.quantile(worst).isfinite().all() for kernel in KERNELS.values())


# D. Ties and subgradient conventions


def test_a_tie_is_shared_or_goes_to_the_first_on_every_path() -> None:
    """Case D01.

    Shared or first, by name, on every path: non-negative, sum 1, 0 off the tie; eager, compiled and two-argument.
    """
    x = torch.tensor([2.0, 2.0, 1.0])
    for strategy, expected in ((SUBGRADIENT, [0.5, 0.5, 0]), (Subgradient(rule="first"), [1, 0, 0])):
        loss = lambda x, s=strategy: s(Max(), x)  # noqa: E731
        assert gradient(loss, x)[0].tolist() == expected
        assert gradient(lambda x, s=strategy: s(Max(dim=0), x.view(3, 1)).sum(), x)[0].tolist() == expected
        compiled = torch.compile(torch.func.grad(loss), fullgraph=True, backend="aot_eager")
        assert compiled(x).tolist() == expected
        (a, b) = gradient(lambda a, b, s=strategy: s(Maximum(), a, b), x[:1], x[1:2])
        assert [a.item(), b.item()] == expected[:2]
    for cell in cells(Max()):
        if cell.strategy.noisy(Max()):
            continue
        (got,) = gradient(lambda x, cell=cell: cell(x, T=1e-3), x)
        assert (got >= 0).all()
        assert got.sum().item() == pytest.approx(1)
        assert got[2] == 0
    norm = gradient(lambda x: SUBGRADIENT(Max(), SUBGRADIENT(Abs(), x)), torch.tensor([3.0, -3.0, 1.0]))[0]
    assert norm.tolist() == [0.5, -0.5, 0]  # the infinity norm by our ops


def test_a_hard_choice_has_exactly_one_1_a_row_constant_rows_included() -> None:
    """Case D02: exactly one 1 a row, constant rows included, under every strategy whose value is hard."""
    x = torch.tensor([[0.4, 0.4, 0.2], [1.0, 1.0, 1.0], [0.0, -0.0, 0.0]])
    for cell in cells(ArgMax()):
        if cell.hard_valued:
            assert cell(x).tolist() == [[1, 0, 0]] * 3, cell
    assert (x == x.amax(-1, keepdim=True)).sum(-1).tolist() == [2, 3, 3]  # what comparing gives


def test_a_rewrite_at_its_kink_has_the_ops_value_and_a_finite_derivative() -> None:
    """Case D03: rewrites at the kink itself: the op's value, and a finite element of the subdifferential."""
    x = torch.tensor(1.0)
    assert gradient(lambda x: torch.sqrt((x - 1) ** 2), x)[0].isnan()
    between = {Abs(): (0.0, -1, 1), ReLU(): (0.0, 0, 1), Clamp(): (0.0, 0, 1)}
    for op, (kink, low, high) in between.items():
        (got,) = gradient(lambda x, op=op: REWRITE(op, x), torch.tensor([kink]))
        assert low <= got.item() <= high
        assert torch.equal(REWRITE(op, torch.tensor([kink])), op.hard(torch.tensor([kink])))
    for form in (None, *Max().forms("rewrite")):
        tied = torch.tensor([1.0, 2.0, 2.0, 2.0])
        (got,) = gradient(lambda x, form=form: Rewrite(form=form)(Max(), x), tied)
        assert got.sum().item() == 1
        assert (got >= 0).all()
        assert got[0] == 0
        assert Rewrite(form=form)(Max(), tied).item() == 2


def test_nan_passes_to_the_value_of_its_own_row_and_to_no_other() -> None:
    """Case D04.

    NaN passes through to the value of its own row, whichever way a maximum is written, and to no other row.
    """
    x = torch.tensor([[math.nan, 1.0], [2.0, 1.0]])
    for op in (Max(), ArgMax()):
        for cell in cells(op):
            assert cell(x)[0].isnan().all()
            assert cell(x)[1].isfinite().all()
            (got,) = gradient(lambda x, cell=cell: cell(x)[1].sum(), x)
            assert not got[1].isnan().any()
    for cell in cells(Maximum()):
        assert cell(x[:, 0], x[:, 1])[0].isnan()
        assert cell(x[:, 1], x[:, 0])[0].isnan()


def test_exactly_on_a_clip_bound_our_own_mask_decides() -> None:
    """Case D05.

    Exactly on the clip bound: our own masks, inclusive for quantize and clipped, whatever torch's clamp does.
    """
    image, weight = torch.tensor([0.0, 0.0, 1.0, 0.5]), torch.tensor([1.0, -1.0, 0.5])
    assert gradient(lambda x: STE(Quantize(8), x), image)[0].tolist() == [1, 1, 1, 1]
    assert gradient(lambda x: STE(Quantize(8, -1.0, 1.0), x), weight)[0].tolist() == [1, 1, 1]
    assert gradient(lambda x: StraightThrough(carrier="clipped")(Sign(), x), weight)[0].tolist() == [1, 1, 1]
    assert gradient(lambda x: SUBGRADIENT(Clamp(), x), image)[0].tolist() == [0, 0, 0, 1]
    assert gradient(lambda x: SUBGRADIENT(Clamp(-1.0, 1.0), x), weight)[0].tolist() == [0, 0, 1]
    own = [Quantize(8).hard, Clamp().hard]
    assert all(torch.equal(f(image), f(image.clone())) for f in own)
    for loss in (lambda x: STE(Quantize(8), x).sum(), lambda x: SUBGRADIENT(Clamp(), x).sum()):
        compiled = torch.compile(torch.func.grad(loss), fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(image), torch.func.grad(loss)(image))


# E. Quantizers (E01, E06, E07, E10, E11 stand with the layers; E02, E03, E09 with the values)


def test_at_negative_zero_all_strategies_agree_with_the_hard_op() -> None:
    """Case E04.

    Negative zero: all strategies agree with the hard op by ==, and graft keeps even the sign bit of the value.
    """
    x = torch.tensor([-0.3, -0.0, 0.0])
    hard = Round().hard(x)
    for cell in cells(Round()):
        if cell.hard_valued:
            y = cell(x)
            assert (y == hard).all()
            assert torch.equal(torch.signbit(y), torch.signbit(hard))


def test_zero_is_a_level_exactly_where_the_stated_range_has_it() -> None:
    """Case E08.

    The range is stated, not observed: zero is representable exactly where low says so, both ends always are.
    """
    op = Quantize(8, 1000.0, 1001.0)
    x = torch.tensor([1000.0, 1001.0])
    assert torch.equal(op.hard(x), x)
    assert Quantize(2, 0.1, 1.0).hard(torch.tensor([0.0])).item() == pytest.approx(0.1)
    assert Quantize(4, 0.0, 1.0).hard(torch.tensor([0.0])).item() == 0.0
