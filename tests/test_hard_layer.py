"""HardLayer: modes, the temperature's buffer, keyed noise, copies and checkpoints."""

import copy
import io
import math
import pickle

import pytest
import torch
from torch import nn

from each import each
from products import HALF, OPS, STRATEGY_CLASSES, Cell, Part, arity, cells, gradients, law, same, sample
from surrogates import EmptyCell, HardLayer, anneal, hard_layers, key_noise, mode
from surrogates.core import Op, Strategy
from surrogates.noise import uniforms
from surrogates.ops.argmax import ArgMax
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
SOFT = Smooth(temperature=0.5, schedule="exponential", final_temperature=0.05)


def model(strategy: Strategy = SOFT) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), HardLayer(Round(), strategy), nn.Linear(4, 3), HardLayer(Sign(), SOFT))


def test_train_and_eval_set_the_mode_and_a_block_overrides_both() -> None:
    net = model()
    layers = list(hard_layers(net).values())
    assert list(hard_layers(net)) == ["1", "3"]
    assert [layer.mode for layer in layers] == ["strategy"] * 2
    net.eval()
    assert [layer.mode for layer in layers] == ["hard"] * 2
    with mode(net, "strategy"):
        assert [layer.mode for layer in layers] == ["strategy"] * 2
        with mode(net, "hard"):
            assert [layer.mode for layer in layers] == ["hard"] * 2
        assert [layer.mode for layer in layers] == ["strategy"] * 2
        assert not any(layer.training for layer in layers)
    assert [layer.mode for layer in layers] == ["hard"] * 2
    layers[0].train()
    with pytest.raises(KeyError), mode(net, "hard"):
        raise KeyError
    assert [layer.mode for layer in layers] == ["strategy", "hard"]  # restored after an error, each to its own
    with pytest.raises(ValueError, match="'soft'"), mode(net, "soft"):
        pass
    net.train()
    assert [layer.mode for layer in layers] == ["strategy"] * 2


def test_the_mode_follows_training_where_a_trainer_sets_it_without_train() -> None:
    """Lightning restores `training` of each module after an evaluation, without a call of `train`."""
    net = model()
    net.eval()
    for module in net.modules():
        module.training = True
    assert [layer.mode for layer in hard_layers(net).values()] == ["strategy"] * 2
    with mode(net, "hard"):
        net[1].training = False
        assert [layer.mode for layer in hard_layers(net).values()] == ["hard"] * 2
    assert [layer.mode for layer in hard_layers(net).values()] == ["hard", "strategy"]


@law()
def test_evaluation_is_the_hard_op_bit_for_bit(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        for dtype in (torch.float64, torch.float32, *HALF):
            x = sample(op, (4, 4), dtype)
            layer = HardLayer(op, cell.strategy).eval()
            assert same(layer(*x), op.hard(*x)), cell
            assert layer.draws == 0
            ran += 1
    assert ran == 4 * len(part.cells)


@law()
def test_training_is_the_strategy(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        layer = HardLayer(op, cell.strategy)
        x = sample(op, (4, 4), torch.float32)
        shape = cell.strategy.noise_shape(op, *x)
        noise = None if shape is None else uniforms(x[0], (0, 0, 0, 1), shape)
        T = layer.temperature if "temperature" in cell.strategy.uses(op) else None
        assert same(layer(*x), cell.strategy(op, *x, T=T, noise=noise)), cell
        ran += 1
    assert ran == len(part.cells)


@each("op", OPS)
def test_integers_are_refused_in_both_modes(op: Op) -> None:
    layer = HardLayer(op, Subgradient())
    for _ in range(2):
        with pytest.raises(TypeError, match=type(op).__name__):
            layer(*[torch.ones(3, 3, dtype=torch.int64)] * arity(op))
        layer.eval()


def test_an_empty_cell_is_found_when_the_layer_is_made() -> None:
    with pytest.raises(EmptyCell, match=r"Sign declares no reading 'rewrite' \(surrogates/ops/sign.py\)"):
        HardLayer(Sign(), Rewrite())
    with pytest.raises(EmptyCell, match=r"no form 'fold'.*abs"):
        HardLayer(next(op for op in OPS if type(op).__name__ == "Max"), Rewrite(form="fold"))
    with pytest.raises(EmptyCell, match=r"'identity'.*Max"):
        HardLayer(next(op for op in OPS if type(op).__name__ == "Max"), StraightThrough(carrier="identity"))


def test_the_temperature_is_a_buffer_written_in_place_and_only_where_it_is_used() -> None:
    net = model(Subgradient())
    first, second = hard_layers(net).values()
    assert first.temperature is None
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias", "3.temperature"]
    address = second.temperature.data_ptr()
    assert second.temperature.shape == ()
    assert second.temperature.item() == 0.5
    seen = []
    for progress in (0.0, 0.25, 0.5, 1.0, 2.0):
        anneal(net, progress)
        assert second.temperature.data_ptr() == address
        seen.append(second.temperature.item())
    assert seen == pytest.approx([0.5, 0.5 * 0.1**0.25, 0.5 * 0.1**0.5, 0.05, 0.05])
    assert HardLayer(Sign(), StraightThrough()).temperature is None  # its own proxy has no temperature
    assert HardLayer(ArgMax(), StraightThrough()).temperature.item() == 1.0


def test_the_temperature_of_the_buffer_is_the_one_that_acts() -> None:
    layer = HardLayer(Sign(), SOFT)
    x = sample(Sign(), (20,), torch.float32)[0]
    layer.temperature.fill_(0.2)
    torch.testing.assert_close(layer(x), 2 * torch.sigmoid(x / 0.2) - 1)


@pytest.mark.parametrize("change", ["double", "half", "bfloat16", "float"])
def test_a_change_of_precision_leaves_the_temperature_alone(change: str) -> None:
    net = model(Smooth(temperature=1e-9))
    getattr(net, change)()
    tiny, half = (layer.temperature for layer in hard_layers(net).values())
    assert tiny.item() == pytest.approx(1e-9, rel=1e-6)
    assert half.item() == 0.5
    assert net(sample(Round(), (5, 4), net[0].weight.dtype)[0]).isfinite().all()
    saved = net.state_dict()
    fresh = getattr(model(Smooth(temperature=1.0)), change)()
    fresh.load_state_dict(saved)
    assert fresh[1].temperature.item() == pytest.approx(1e-9, rel=1e-6)
    anneal(fresh, 1.0)
    assert fresh[3].temperature.item() == pytest.approx(0.05)


@pytest.mark.parametrize("change", ["double", "half", "bfloat16", "float"])
def test_a_change_of_precision_leaves_the_clock_of_a_gap_alone(change: str) -> None:
    layer = HardLayer(Round(), Smooth(clock="gap", gap=0.1))
    layer.anneal(0.123456789)
    before = layer.clock.state.clone()
    getattr(layer, change)()
    assert same(layer.clock.state, before)
    assert layer.clock.state.dtype == torch.float64
    fresh = getattr(HardLayer(Round(), Smooth(clock="gap", gap=0.1)), change)()
    fresh.load_state_dict(layer.state_dict())
    assert same(fresh.clock.state, before)


def test_only_training_measures_the_gap_and_only_by_its_own_clock() -> None:
    layer, x = HardLayer(Sign(), Smooth(clock="gap", gap=0.1)), sample(Sign(), (50,))[0]
    y = layer(x)
    assert layer.clock.state[2].item() == pytest.approx((y - torch.sign(x)).abs().mean().item())
    layer.eval()
    layer.clock.state[2] = math.inf
    with mode(layer, "strategy"):
        layer(x)
    assert layer.clock.state[2] == math.inf
    assert HardLayer(Sign(), SOFT).clock is None
    layer.train().anneal(0.5)
    layer.clock.state[2] = 0.0
    layer.anneal(0.75)
    assert layer.temperature.item() == pytest.approx(layer.strategy.temperature_at(0.5))
    by_epoch = HardLayer(Sign(), Smooth(clock="epoch", temperature=1.0, final_temperature=0.01))
    by_epoch.anneal(0.9, epoch=0.5)
    assert by_epoch.temperature.item() == pytest.approx(0.1)
    with pytest.raises(ValueError, match="goes by epochs: anneal needs `epoch`"):
        by_epoch.anneal(0.9)


def test_each_layer_has_noise_of_its_own_and_each_call_another_draw() -> None:
    net = nn.Sequential(HardLayer(Round(), Rewrite()), nn.Identity(), HardLayer(Round(), Rewrite()))
    net[0].draws = 5
    key_noise(net, 3, 8)
    x = torch.zeros(6)
    for layer, index in ((net[0], 0), (net[2], 1)):
        for draw in (1, 2):
            assert torch.equal(layer(x), uniforms(x, (3, 8, index, draw)) - 0.5)


def test_the_same_key_draws_the_same_noise_and_no_global_generator_is_touched() -> None:
    net = nn.Sequential(HardLayer(Round(), Rewrite()), HardLayer(Round(), Rewrite()))
    x = torch.zeros(1000)
    before = torch.get_rng_state()

    def draws(seed: int, step: int) -> list[torch.Tensor]:
        key_noise(net, seed, step)
        return [net[0](x), net[0](x), net[1](x)]

    once = draws(3, 5)
    assert all(torch.equal(a, b) for a, b in zip(once, draws(3, 5), strict=True))
    different = [*once, *draws(3, 6), *draws(4, 5), *draws(5, 3)]
    for i, a in enumerate(different):
        for b in different[:i]:
            assert (a == b).float().mean() < 0.01
    assert torch.equal(torch.get_rng_state(), before)
    copied = copy.deepcopy(net)
    key_noise(copied, 3, 5)
    assert torch.equal(copied[0](x), once[0])
    net.eval()
    assert torch.equal(net(x), x)  # no noise in evaluation (case C09)


def test_noise_is_uniform_open_and_at_least_float32() -> None:
    for dtype in (torch.float64, torch.float32, *HALF):
        u = uniforms(torch.empty(200_000, dtype=dtype), (1, 2, 3, 4))
        assert u.dtype == torch.promote_types(dtype, torch.float32)
        assert u.min() > 0
        assert u.max() < 1
        assert abs(u.mean().item() - 0.5) < 4 * math.sqrt(1 / 12 / len(u))
    assert torch.equal(uniforms(torch.empty(5).half(), (1, 2)), uniforms(torch.empty(5), (1, 2)))
    assert uniforms(torch.empty(0, 3), (1,)).shape == (0, 3)


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)], ids=str)
def test_under_vmap_a_seed_draws_the_noise_of_its_example(dims: tuple[int | None, int | None]) -> None:
    like, seeds = torch.zeros(3, 4), torch.tensor([5, 6, 7])
    given = [t[0] if dim is None else t for t, dim in zip((like, seeds), dims, strict=True)]
    drawn = torch.func.vmap(lambda x, seed: x + uniforms(x, (seed, 1)), dims)(*given)
    expected = [uniforms(like[0], (int(seed), 1)) for seed in (seeds if dims[1] == 0 else [5, 5, 5])]
    assert torch.equal(drawn, torch.stack(expected))


class Recorder(Rewrite):
    """Keeps the noise that it is handed."""

    def combine(self, op: Op, *x: torch.Tensor, T: object, noise: torch.Tensor | None) -> torch.Tensor:
        object.__setattr__(self, "seen", noise)
        return super().combine(op, *x, T=T, noise=noise)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_does_not_round_the_noise(dtype: torch.dtype) -> None:
    layer = HardLayer(Round(), Recorder())
    x = torch.zeros(100_000, dtype=dtype)
    assert layer(x).dtype == dtype
    assert layer.strategy.seen.dtype == torch.float32
    assert layer.strategy.seen.unique().numel() > 99_000


@law()
def test_copies_and_pickles_are_equal_and_a_repr_evaluates_back(part: Part) -> None:
    """Case I06."""
    op = part.op
    names = {"inf": math.inf, "nan": math.nan, **{cls.__name__: cls for cls in STRATEGY_CLASSES.values()}}
    ran = 0
    for cell in part.cells:
        for thing in (op, cell.strategy):
            assert copy.deepcopy(thing) == thing
            assert pickle.loads(pickle.dumps(thing)) == thing
            assert hash(pickle.loads(pickle.dumps(thing))) == hash(thing)
            assert eval(repr(thing), {**names, type(op).__name__: type(op)}) == thing
        layer = HardLayer(op, cell.strategy)
        layer.noise_key, layer.draws = (1, 2, 3), 4
        stream = io.BytesIO()
        torch.save(layer, stream)
        stream.seek(0)
        x = sample(op, (4, 4), torch.float32)
        copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(stream, weights_only=False)]
        expected = layer(*x)
        for other in copies:
            assert same(other(*x), expected), cell
            assert str(other) == str(layer)
        ran += 1
    assert ran == len(part.cells)


def test_a_state_dict_loads_with_weights_only() -> None:
    net = model()
    anneal(net, 0.3)
    stream = io.BytesIO()
    torch.save(net.state_dict(), stream)
    stream.seek(0)
    fresh = model()
    fresh.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(fresh[1].temperature, net[1].temperature)
    x = sample(Round(), (5, 4), torch.float32)[0]
    assert torch.equal(fresh(x), net(x))


def test_the_repr_of_a_layer_names_op_and_strategy() -> None:
    assert "Round()" in repr(model())
    assert "HardLayer(Sign(), Smooth(temperature=0.5, final_temperature=0.05))" in repr(model())


def test_bad_strategies_are_refused_with_the_value() -> None:
    for bad in (0.0, -1.0, math.inf, math.nan, 1e-30):
        with pytest.raises(ValueError, match=f"temperature.*{bad}"):
            Smooth(temperature=bad)
        with pytest.raises(ValueError, match=f"final_temperature.*{bad}"):
            StraightThrough(final_temperature=bad)
    with pytest.raises(ValueError, match="schedule=cosine needs final_temperature"):
        Smooth(schedule="cosine", final_temperature=None)
    for bad in (0.0, -2.0, math.nan):
        with pytest.raises(ValueError, match=f"width.*{bad}"):
            StraightThrough(width=bad)


@law()
def test_every_strategy_has_the_two_knobs_and_says_which_one_acts(part: Part) -> None:
    op = part.op
    x = sample(op, (200, 6))
    ran = 0
    for cell in part.cells:
        assert cell.strategy.uses(op) <= {"temperature", "kernel"}
        assert hasattr(cell.strategy, "temperature")
        assert hasattr(cell.strategy, "kernel")
        cold, warm = (outcome(cell, x, T) for T in (0.02, 0.5))
        same_outcome = all(torch.equal(a, b) for a, b in zip(cold, warm, strict=True))
        assert same_outcome == ("temperature" not in cell.strategy.uses(op)), cell
        ran += 1
    assert ran == len(part.cells)


def outcome(cell: Cell, x: list[torch.Tensor], T: float) -> list[torch.Tensor]:
    """What the temperature may act on: the value, the carrier and the derivative."""
    weights = sample(cell.op, tuple(cell.op.hard(*x).shape), seed=9)[0]
    return [cell(*x, T=T), cell.carrier(*x, T=T), *gradients(lambda *i: cell(*i, T=T), x, weights)]


def test_a_kernel_that_is_used_matters() -> None:
    for op in OPS:
        using = [cell for cell in cells(op) if "kernel" in cell.strategy.uses(op)]
        x = sample(op, (200, 6))
        groups: dict[object, list[Cell]] = {}
        for cell in using:
            groups.setdefault((type(cell.strategy), getattr(cell.strategy, "carrier", None)), []).append(cell)
        for group in groups.values():
            values = [cell.carrier(*x, T=0.03) for cell in group]
            assert all(not torch.allclose(a, b) for i, a in enumerate(values) for b in values[:i]), group


@pytest.mark.parametrize("op", [Round(), ReLU()])
def test_a_result_may_be_changed_in_place(op: Op) -> None:
    """Its derivative is that before the change, times that of the change."""
    x = torch.tensor([-1.5, 0.2, torch.inf], requires_grad=True)
    (plain,) = torch.autograd.grad(StraightThrough()(op, x).sum(), x)
    (changed,) = torch.autograd.grad(StraightThrough()(op, x).mul_(3).sum(), x)
    assert torch.equal(changed, 3 * plain)
    assert plain[:2].all()
    assert plain[2] == 0
