"""Straight-through over a block: hard value, derivatives of the relaxed function."""

import math
import threading
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from products import generator, gradients
from surrogates import HardLayer, straight_through
from surrogates.block import current_pass
from surrogates.core import Op, Strategy
from surrogates.kernels import KERNELS, Kernel, Logistic
from surrogates.members import ops
from surrogates.ops.abs import Abs
from surrogates.ops.argmax import ArgMax
from surrogates.ops.ceil import Ceil
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.quantize import Quantize
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
T = 0.3
LOGISTIC = (ReLU(), Abs(), Maximum(), Minimum())
STEPS = (Round(), Floor(), Floor(0.5, -1, 1), Ceil(), Ceil(0.5, -1, 1), Quantize(), Heaviside())
SMOOTH_CARRIER = StraightThrough(carrier="smooth", temperature=T)


def product(x: Tensor, y: Tensor) -> Tensor:
    return SMOOTH_CARRIER(ReLU(), x) * SMOOTH_CARRIER(ReLU(), y)


def soft_product(x: Tensor, y: Tensor) -> Tensor:
    soft = nn.Softplus(beta=1 / T, threshold=1000)
    return soft(x) * soft(y)


def pairs(count: int = 40) -> list[Tensor]:
    return [torch.randn(count, generator=generator(seed), dtype=torch.float64) for seed in (1, 2)]


def test_straight_through_does_not_compose_and_a_block_does() -> None:
    """At x, y < 0 each relu's hard value blocks the other's derivative; in a block both pass."""
    x = [torch.tensor([-0.5], dtype=torch.float64), torch.tensor([-0.8], dtype=torch.float64)]
    assert [g.item() for g in gradients(product, x)] == [0, 0]
    by_x, by_y = gradients(straight_through(product), x)
    sigmoid, softplus = (lambda u: 1 / (1 + math.exp(-u / T))), (lambda u: T * math.log1p(math.exp(u / T)))
    assert by_x.item() == pytest.approx(sigmoid(-0.5) * softplus(-0.8))
    assert by_y.item() == pytest.approx(softplus(-0.5) * sigmoid(-0.8))


def test_the_value_is_hard_and_the_derivatives_are_those_of_the_relaxed_function() -> None:
    x = pairs()
    block = straight_through(product)
    assert torch.equal(block(*x), torch.relu(x[0]) * torch.relu(x[1]))
    for got, expected in zip(gradients(block, x), gradients(soft_product, x), strict=True):
        torch.testing.assert_close(got, expected)
    hessian = torch.func.hessian(lambda x, y: block(x, y).sum(), argnums=(0, 1))(x[0][:3], x[1][:3])
    expected = torch.func.hessian(lambda x, y: soft_product(x, y).sum(), argnums=(0, 1))(x[0][:3], x[1][:3])
    torch.testing.assert_close(hessian, expected)
    value, tangent = torch.func.jvp(block, tuple(x), (torch.ones_like(x[0]), torch.zeros_like(x[1])))
    assert torch.equal(value, block(*x))
    torch.testing.assert_close(tangent, gradients(soft_product, x)[0])
    mapped = torch.func.vmap(torch.func.grad(lambda x, y: block(x, y)))(*x)
    torch.testing.assert_close(mapped, gradients(soft_product, x)[0])


def test_compiled_is_eager() -> None:
    x = pairs()
    block = straight_through(product)
    for function in (block, torch.func.grad(lambda x, y: block(x, y).sin().sum(), argnums=(0, 1))):
        torch._dynamo.reset()
        got = torch.compile(function, fullgraph=True, backend="aot_eager")(*x)
        expected = function(*x)
        for g, e in zip(*([got], [expected]) if isinstance(got, Tensor) else (got, expected), strict=True):
            torch.testing.assert_close(g, e)
            assert g.abs().sum() > 0
    assert current_pass() is None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = HardLayer(Round(), Smooth(temperature=T)), HardLayer(Sign(), SMOOTH_CARRIER)
        self.mix = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, x: Tensor) -> dict[str, object]:
        y = self.first(x)
        return {"both": (self.mix * y * self.second(x), y.argmax()), "first": [y]}


def test_layers_parameters_and_nested_results() -> None:
    net, (x, _) = Net(), pairs()
    block = straight_through(net)
    hard = torch.round(x)
    result = block(x)
    assert torch.equal(result["both"][0], net.mix.detach() * hard * torch.sign(x))
    assert result["both"][1] == hard.argmax()
    assert torch.equal(result["first"][0], hard)
    round_, sign = Smooth()(Round(), x, T=T), Smooth()(Sign(), x, T=T)
    (mix,) = torch.autograd.grad(result["both"][0].sum(), net.mix)
    torch.testing.assert_close(mix, (round_ * sign).sum())  # the relaxed partner, not the hard one
    expected = gradients(lambda x: 0.7 * Smooth()(Round(), x, T=T) * Smooth()(Sign(), x, T=T), [x])
    torch.testing.assert_close(gradients(lambda x: block(x)["both"][0], [x])[0], expected[0])
    net.eval()
    assert torch.equal(block(x)["first"][0], hard)
    assert (gradients(lambda x: block(x)["first"][0], [x])[0] == 0).all()  # evaluation is hard in both passes


def test_a_block_inside_a_block_belongs_to_the_outer_one() -> None:
    x = pairs()
    inner = straight_through(product)
    outer = straight_through(lambda x, y: inner(x, y) * inner(y, x))
    for got, expected in zip(
        gradients(outer, x), gradients(lambda x, y: soft_product(x, y) * soft_product(y, x), x), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_strategies_without_a_carrier_do_what_they_do_outside() -> None:
    x = pairs()[0].view(8, 5).float()
    flat = straight_through(lambda x: Subgradient()(Round(), x))
    assert torch.equal(flat(x), torch.round(x))
    assert (gradients(flat, [x])[0] == 0).all()
    layer = HardLayer(ArgMax(), Gumbel(value="soft"))
    y = straight_through(layer)(x)
    assert torch.equal(y, ArgMax().hard(x))  # the first pass has no noise


def test_an_error_inside_leaves_no_block_open() -> None:
    @straight_through
    def broken(x: Tensor) -> Tensor:
        raise KeyError("broken")

    with pytest.raises(KeyError):
        broken(torch.zeros(1))
    assert current_pass() is None
    assert broken.__name__ == "broken"


def test_threads_do_not_see_each_others_blocks() -> None:
    seen: list[object] = []

    def function(x: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: seen.append(current_pass()))
        thread.start()
        thread.join()
        seen.append(current_pass())
        return x

    straight_through(function)(torch.ones(2))
    assert seen == [None, "value", None, "derivative"]


def test_only_a_block_computes_the_value_of_a_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of one its slope is all that is read, and only when it is asked for."""
    x = pairs()
    expected = [gradients(partial(Smooth(), op, T=T), x[: op.inputs]) for op in LOGISTIC]
    monkeypatch.setattr(Logistic, "ramp", lambda *_: pytest.fail("the value was computed"))
    for op, slopes in zip(LOGISTIC, expected, strict=True):
        ste = partial(StraightThrough(), op, T=T)
        torch.testing.assert_close(gradients(ste, x[: op.inputs]), slopes)
        with pytest.raises(pytest.fail.Exception, match="was computed"):
            straight_through(ste)(*x[: op.inputs])


def test_a_smooth_carrier_of_steps_has_its_slope_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x, cold = pairs(), 0.05
    expected = [gradients(partial(Smooth(), op, T=cold), x[: op.inputs]) for op in STEPS]
    monkeypatch.setattr(Logistic, "cdf", lambda *_: pytest.fail("the value was computed"))
    for op, slopes in zip(STEPS, expected, strict=True):
        torch.testing.assert_close(gradients(partial(SMOOTH_CARRIER, op, T=cold), x[: op.inputs]), slopes)


def test_a_carrier_without_its_value_is_infinite_only_where_that_is() -> None:
    """What stands in for the value must not leave the numbers that half precision has."""
    x = torch.tensor([0.0, 100.0], dtype=torch.float16)
    op = Quantize(bits=8, low=-1e6, high=1e6)
    (slope,) = gradients(partial(SMOOTH_CARRIER, op, T=1.0), [x])
    torch.testing.assert_close(slope, torch.ones_like(x), atol=1e-2, rtol=0)


@pytest.mark.parametrize("op", LOGISTIC, ids=lambda op: type(op).__name__)
def test_a_temperature_with_a_derivative_keeps_it(op: Op) -> None:
    x, temperature = pairs()[: op.inputs], torch.tensor(T, dtype=torch.float64)

    def total(strategy: Strategy, t: Tensor) -> Tensor:
        return strategy(op, *x, T=t).sum()

    (expected,) = gradients(partial(total, Smooth()), [temperature])
    assert expected != 0
    ste = partial(total, SMOOTH_CARRIER)
    torch.testing.assert_close(gradients(ste, [temperature])[0], expected)
    tangent = torch.ones_like(temperature)
    torch.testing.assert_close(torch.func.jvp(ste, (temperature,), (tangent,))[1], expected)
    with dual_level():
        got = unpack_dual(ste(make_dual(temperature, tangent))).tangent
    torch.testing.assert_close(got, expected)


def test_an_op_with_another_smooth_reading_does_not_inherit_the_slopes() -> None:
    class Squared(ReLU):
        def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
            return super().smooth(x, kernel, T) ** 2

    x = pairs()[:1]
    ste = gradients(partial(SMOOTH_CARRIER, Squared(), T=T), x)
    torch.testing.assert_close(ste, gradients(partial(Smooth(), Squared(), T=T), x))
    assert not torch.allclose(ste[0], gradients(partial(Smooth(), ReLU(), T=T), x)[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_declared_slopes_are_the_derivatives_of_the_smooth_reading(kernel: str) -> None:
    ran = 0
    for op in (cls() for cls in ops().values()):
        if not op.declares("slopes") or (op.needs_mean and not KERNELS[kernel].has_mean):
            continue
        x = pairs()[: op.inputs]
        for temperature in (0.05, 0.5, 2.0):
            ste = StraightThrough(carrier="smooth", kernel=kernel, temperature=temperature)
            smooth = Smooth(kernel=kernel, temperature=temperature)
            for got, expected in zip(gradients(partial(ste, op), x), gradients(partial(smooth, op), x), strict=True):
                torch.testing.assert_close(got, expected)
        ran += 1
    assert ran == (12 if KERNELS[kernel].has_mean else 4)
