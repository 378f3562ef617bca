"""Nearest codes and the component with a learned codebook, against plain references."""

import math

import pytest
import torch
from torch import Tensor, nn

from products import FULL, HALF, generator, gradients
from surrogates import Strategy, calibrate
from surrogates.layers.vector_quantizer import VectorQuantizer, k_means
from surrogates.ops.vector_quantize import VectorQuantize, nearest
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE, ROTATION, SUBGRADIENT = StraightThrough(), StraightThrough(form="rotation"), Subgradient()
SOFT = Smooth(temperature=0.4, schedule="constant")
OP = VectorQuantize()


def drawn(count: int = 40, d: int = 3, n: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    stream = generator(seed)
    return tuple(torch.randn(size, d, generator=stream, dtype=torch.float64) for size in (count, n))


def test_the_value_is_the_nearest_code_wherever_the_codes_are() -> None:
    for offset in (0.0, 1e6, -3e7):
        z, codes = (t + offset for t in drawn())
        by_loop = [min(range(len(codes)), key=lambda k, v=v: (v - codes[k]).square().sum()) for v in z]
        assert nearest(z, codes).tolist() == by_loop
        for strategy in (STE, ROTATION, SUBGRADIENT):
            assert torch.equal(strategy(OP, z, codes, T=0.3), codes[by_loop])


def test_half_precision_inputs_choose_as_in_full() -> None:
    for dtype in HALF:
        z, codes = (t.to(dtype) for t in drawn(200, 4, 32))
        assert torch.equal(nearest(z, codes), nearest(z.double(), codes.double()))
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(nearest(z.float(), codes.float()), nearest(z.double(), codes.double()))


def test_the_codebook_learns_from_the_loss_and_straight_through_hands_it_on() -> None:
    """The chosen code has the sum of the gradients of those that chose it: it moves the value as it moves itself."""
    z, codes = drawn()
    weight = torch.randn(z.shape, generator=generator(1), dtype=torch.float64)
    expected = torch.zeros_like(codes)
    for k, w in zip(nearest(z, codes).tolist(), weight, strict=True):
        expected[k] += w
    assert (expected == 0).all(-1).sum() < len(codes) - 2
    for strategy in (STE, ROTATION, SUBGRADIENT):
        by_z, by_codes = gradients(lambda z, c, s=strategy: s(OP, z, c, T=0.3), [z, codes], weight)
        torch.testing.assert_close(by_codes, expected)
        if strategy is not ROTATION:
            assert torch.equal(by_z, weight if strategy is STE else torch.zeros_like(z))


def test_the_rotation_trick_by_hand() -> None:
    """From (1, 0) to (0, 2): a quarter turn and twice the length, so g becomes 2 R' g with R' (x, y) = (y, -x)."""
    z, codes = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, 2.0], [9.0, 9.0]]).double()
    for g, expected in (([1.0, 0.0], [0.0, -2.0]), ([0.0, 1.0], [2.0, 0.0]), ([3.0, 5.0], [10.0, -6.0])):
        by_z, _ = gradients(lambda z, c: ROTATION(OP, z, c), [z, codes], torch.tensor([g]).double())
        torch.testing.assert_close(by_z, torch.tensor([expected]).double())


@pytest.mark.parametrize("d", [2, 3, 7])
def test_the_rotation_trick_is_a_rotation_in_one_plane_that_takes_z_to_its_code(d: int) -> None:
    """Its matrix against exp(angle (c a' - a c')) in an orthonormal basis (a, b) of the plane, by matrix_exp."""
    z, codes = drawn(20, d, 8, seed=2)
    for vector in z:
        code = codes[nearest(vector, codes)]
        rows = [gradients(lambda v: ROTATION(OP, v, codes), [vector], unit)[0] for unit in torch.eye(d).double()]
        a, c = vector / vector.norm(), code / code.norm()
        b = c - (a @ c) * a
        b = b / b.norm()
        turn = torch.outer(b, a) - torch.outer(a, b)
        rotation = torch.linalg.matrix_exp(torch.atan2(b @ c, a @ c) * turn)
        torch.testing.assert_close(torch.stack(rows), code.norm() / vector.norm() * rotation)
        torch.testing.assert_close(torch.stack(rows) @ vector, code)


def test_without_a_rotation_it_is_straight_through_and_stays_finite() -> None:
    codes = torch.tensor([[-3.0, 0.0], [0.0, 1e30], [-1e30, 0.0]])
    z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [math.inf, 0.0], [1e-30, 1e25]])
    by_z, _ = gradients(lambda z, c: ROTATION(OP, z, c), [z, codes])
    assert by_z[:3].tolist() == [[1, 1], [1, 1], [0, 1]]
    assert by_z.isfinite().all()
    (same_line,) = gradients(lambda z: ROTATION(OP, z, torch.tensor([[3.0]])), [torch.tensor([[2.0], [-2.0]])])
    assert same_line.tolist() == [[1.5], [1.0]]
    (to_zero,) = gradients(lambda z: ROTATION(OP, z, torch.zeros(1, 2)), [torch.tensor([[2.0, 1.0]])])
    assert (to_zero == 0).all()


def test_vectors_without_coordinates_keep_their_shape_and_their_empty_gradients() -> None:
    z, codes = torch.zeros(3, 0), torch.zeros(2, 0)
    for strategy in (STE, ROTATION, SUBGRADIENT, SOFT):
        assert strategy(OP, z, codes).shape == (3, 0)
        assert [g.shape for g in gradients(lambda z, c, s=strategy: s(OP, z, c), [z, codes])] == [(3, 0), (2, 0)]


def test_smooth_is_the_mean_code_given_z_under_a_code_and_normal_noise() -> None:
    z, codes = drawn()
    T = 0.7
    density = torch.stack([torch.distributions.Normal(c, T).log_prob(z).sum(-1) for c in codes], -1)
    torch.testing.assert_close(SOFT(OP, z, codes, T=T), torch.softmax(density, -1) @ codes)
    torch.testing.assert_close(SOFT(OP, z, codes, T=1e-4), OP.hard(z, codes))
    assert (gradients(lambda z, c: SOFT(OP, z, c, T=T), [z, codes])[1] != 0).all()


@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_infinite_and_missing_numbers(dtype: torch.dtype) -> None:
    codes = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 5.0]], dtype=dtype)
    z = torch.tensor([[math.inf, 0.0], [-math.inf, 0.0], [0.0, math.inf], [math.nan, 0.0]], dtype=dtype)
    for strategy in (STE, ROTATION, SUBGRADIENT, SOFT):
        y = strategy(OP, z, codes, T=0.3)
        assert y.dtype == dtype
        assert torch.equal(y[:3], codes)
        assert y[3].isnan().all()
        assert all(g.isfinite().all() for g in gradients(lambda z, c, s=strategy: s(OP, z, c, T=0.3), [z[:3], codes]))
        assert strategy(OP, z[:1], codes * math.nan, T=0.3).isnan().all()
    beyond = torch.tensor([[1.0, 0.0], [math.inf, 0.0]], dtype=dtype)
    assert torch.equal(OP.hard(torch.tensor([[2.0, 0.0], [math.inf, 0.0]], dtype=dtype), beyond), beyond)


def test_shapes_that_do_not_fit_are_said() -> None:
    with pytest.raises(ValueError, match=r"z \(..., d\) needs codes \(n, d\), got \(4, 3\) and \(5, 2\)"):
        OP.hard(torch.zeros(4, 3), torch.zeros(5, 2))
    with pytest.raises(ValueError, match=r"got \(3,\) and \(3,\)"):
        OP.hard(torch.zeros(3), torch.zeros(3))
    with pytest.raises(IndexError, match=r"at least one code.*\(0, 3\)"):
        OP.hard(torch.zeros(4, 3), torch.zeros(0, 3))
    assert OP.hard(torch.zeros(0, 3), torch.zeros(2, 3)).shape == (0, 3)


# the component


def test_neighbouring_channels_make_a_group() -> None:
    layer = VectorQuantizer(STE, entries=5, size=2)
    for shape in ((4, 6), (4, 6, 3), (4, 6, 3, 5)):
        x = torch.randn(shape, generator=generator(0))
        y = layer(x)
        assert y.shape == x.shape
        for group in range(3):
            own = x[:, 2 * group : 2 * group + 2].movedim(1, -1)
            assert torch.equal(y[:, 2 * group : 2 * group + 2].movedim(1, -1), OP.hard(own, layer.codes))
        assert torch.equal(gradients(layer, [x])[0], torch.ones_like(x))


def test_k_means_finds_separate_clusters_and_keeps_what_is_nobodys() -> None:
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    which = torch.arange(300) % 3
    points = centres[which] + 0.3 * torch.randn(300, 2, generator=generator(3))
    found = k_means(points[which.argsort(stable=True)], 3)
    expected = torch.stack([points[which == k].mean(0) for k in range(3)])
    torch.testing.assert_close(found, expected)
    assert torch.equal(k_means(torch.ones(2, 4), 3), torch.ones(3, 4))


def test_calibration_lowers_the_error_and_is_the_same_for_every_strategy() -> None:
    x = 3 + torch.randn(64, 8, 5, generator=generator(4))
    x[0, 0, 0] = math.inf
    found = []
    for strategy in (STE, SUBGRADIENT, SOFT):
        layer = VectorQuantizer(strategy, entries=16)
        before = (layer.eval()(x[1:]) - x[1:]).square().mean()
        calibrate(nn.Sequential(layer), x)
        assert layer.codes.isfinite().all()
        assert (layer.eval()(x[1:]) - x[1:]).square().mean() < 0.1 * before
        found.append(layer.codes)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    kept = VectorQuantizer(STE)
    start = kept.codes.clone()
    kept.calibrate(torch.full((2, 8), math.nan))
    assert torch.equal(kept.codes, start)


def test_a_codebook_learns_a_target_that_no_code_had() -> None:
    layer = VectorQuantizer(STE, entries=2, size=2)
    layer.codes.data.copy_(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    x = torch.tensor([[0.9, 1.2], [-0.7, -1.1]])
    target = torch.tensor([[4.0, 0.0], [-2.0, -3.0]])
    optimizer = torch.optim.SGD(layer.parameters(), 0.5)
    for _ in range(40):
        optimizer.zero_grad()
        (layer(x) - target).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(layer.codes.detach(), target, atol=1e-5, rtol=0)


def test_the_layer_is_the_op_on_groups() -> None:
    layer, x = VectorQuantizer(SOFT, entries=5), torch.randn(3, 8, generator=generator(5))
    expected = SOFT(OP, x.unflatten(1, (2, 4)), layer.codes, T=SOFT.temperature).flatten(1)
    torch.testing.assert_close(layer(x), expected)
    assert torch.equal(layer.eval()(x), OP.hard(x.unflatten(1, (2, 4)), layer.codes).flatten(1))


@pytest.mark.parametrize("strategy", [STE, ROTATION, SUBGRADIENT, SOFT], ids=str)
@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3, 5)])
def test_with_its_losses_the_codebook_learns_from_the_codebook_loss_alone(strategy: Strategy, shape: tuple) -> None:
    """Values as without losses; each loss by hand, and what each of the three moves."""
    layer, x = VectorQuantizer(strategy, entries=5, size=2), torch.randn(shape, generator=generator(6))
    x.requires_grad_()
    coded = layer(x, losses=True)
    torch.testing.assert_close(coded.values, layer(x))
    chosen = layer.decode(coded.indices)
    assert torch.equal(chosen, layer.eval()(x))
    assert coded.indices.shape == (shape[0], 3, *shape[2:])
    by_hand = layer.codes[coded.indices].movedim(-1, 2).flatten(1, 2)
    for loss in (coded.codebook_loss, coded.commitment_loss):
        torch.testing.assert_close(loss, (by_hand - x).square().mean())

    def slopes(y: Tensor) -> list[Tensor | None]:
        return list(torch.autograd.grad(y.sum(), [x, layer.codes], allow_unused=True, retain_graph=True))

    assert slopes(coded.values)[1] is None
    by_x, by_codes = slopes(coded.codebook_loss)
    assert by_x is None
    torch.testing.assert_close(by_codes, slopes((by_hand - x.detach()).square().mean())[1])
    by_x, by_codes = slopes(coded.commitment_loss)
    torch.testing.assert_close(by_x, slopes((by_hand.detach() - x).square().mean())[0])
    assert by_codes is None


REFUSED = [
    ({"entries": 0}, "entries.*0"),
    ({"size": 0}, "size.*0"),
    ({"size": 2**20}, "size.*1048576"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_bad_arguments_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        VectorQuantizer(STE, **options)


def test_a_width_of_no_whole_groups_is_refused() -> None:
    with pytest.raises(ValueError, match=r"size must divide the layer's 6 activations, got 4"):
        VectorQuantizer(STE).check_width(6)
    with pytest.raises(ValueError, match=r"size must divide the layer's 6 activations, got 4"):
        VectorQuantizer(STE)(torch.zeros(3, 6))
    with pytest.raises(ValueError, match=r"takes \(batch, width, ...\), got the shape \(4,\)"):
        VectorQuantizer(STE)(torch.zeros(4))


@pytest.mark.parametrize("far", [1e10, 1e30, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_code_far_away_changes_no_choice_among_the_others(far: float, dtype: torch.dtype) -> None:
    stream = generator(8)
    z, codes = torch.randn(50, 4, generator=stream).to(dtype), torch.randn(7, 4, generator=stream).to(dtype)
    around = torch.cat([codes, torch.full((1, 4), far, dtype=dtype)])
    expected = (z.unsqueeze(1) - codes).square().sum(-1).argmin(-1)
    assert torch.equal(nearest(z, codes), expected)
    assert torch.equal(nearest(z, around), expected)
