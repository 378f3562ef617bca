"""Temperatures by step, by epoch and by the soft-to-hard gap; the hard end of training; the power carrier."""

import copy

import pytest
import torch

from experiments.config.choices import choose
from experiments.data import load
from experiments.training.build import build_model, drop_unused_knobs
from experiments.training.trainer import Trainer
from products import gradients
from runs import compose
from surrogates import EmptyCell, HardLayer, Op, anneal, hard_layers
from surrogates.kernels import KERNELS
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.quantize import Quantize
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

X = torch.linspace(-2, 2, 101, dtype=torch.float64)


def trainer(*overrides: str) -> Trainer:
    choices = choose(compose("component=binary", "strategy=smooth", "model.width=8", "data=digits", *overrides))
    return Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))


def temperatures(trainer: Trainer, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        trainer.advance()
        found.append(next(iter(hard_layers(trainer.model).values())).temperature.item())
    return found


@pytest.mark.slow
def test_the_last_share_of_training_is_hard_with_the_smooth_derivative() -> None:
    layer = HardLayer(Round(), Smooth(hard_share=0.25, temperature=1.0, final_temperature=0.1))
    for progress, hard in ((0.0, False), (0.74, False), (0.75, True), (1.0, True)):
        layer.anneal(progress)
        assert torch.equal(layer(X), torch.round(X)) == hard
    assert layer.temperature.item() == pytest.approx(0.1)  # reached where the hard part begins
    expected = gradients(lambda x: Smooth()(Round(), x, T=layer.temperature), [X])
    torch.testing.assert_close(gradients(layer, [X]), expected)
    assert layer.strategy.soft_forward
    layer.anneal(0.1)
    assert not torch.equal(layer(X), torch.round(X))
    for bad in (-0.1, 1.0):
        with pytest.raises(ValueError, match=f"hard_share.*{bad}"):
            Smooth(hard_share=bad)


@pytest.mark.slow
def test_by_epoch_the_temperature_changes_between_epochs_only() -> None:
    own = trainer("strategy.clock=epoch", "max_steps=40", "batch_size=100")
    found, length = temperatures(own, 40), own.batches.per_epoch
    assert 1 < length < 20
    by_step = [Smooth().temperature_at((step - step % length) / 39) for step in range(40)]
    assert found == pytest.approx(by_step, rel=1e-6)
    with pytest.raises(ValueError, match="goes by epochs"):
        anneal(own.model, 0.5)


def test_by_gap_the_temperature_falls_until_the_gap_is_small_enough() -> None:
    layer = HardLayer(Sign(), Smooth(clock="gap", gap=0.2, final_temperature=0.01))
    found = []
    for step in range(101):
        layer.anneal(step / 100)
        gap = (layer(X) - torch.sign(X)).abs().mean().item()
        found.append(layer.temperature.item())
    still = [T for T in found if found[-1] == T]
    assert gap <= 0.2 < (Smooth()(Sign(), X, T=found[-len(still) - 1]) - torch.sign(X)).abs().mean()
    assert 0.01 < found[-1] < 1.0
    assert len(still) > 20
    layer.eval()
    state = layer.clock.state.clone()
    layer(10 * X)
    assert torch.equal(layer.clock.state, state)  # evaluation measures nothing
    assert layer.half().clock.state.dtype == torch.float64
    with pytest.raises(ValueError, match="gap must be positive, got 0"):
        Smooth(gap=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["gap", "epoch"])
def test_a_run_that_goes_on_from_its_state_has_the_same_numbers(clock: str) -> None:
    own = (f"strategy.clock={clock}", "strategy.gap=0.35", "strategy.hard_share=0.2", "max_steps=30", "log_every=1")
    whole, first = trainer(*own), trainer(*own)
    for _ in range(11):
        whole.advance()
        first.advance()
    resumed = trainer(*own)
    resumed.restore([copy.deepcopy(first.state(0))])
    for _ in range(19):
        assert whole.advance() == resumed.advance()
    pairs = zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_knobs_of_a_temperature_go_with_it() -> None:
    choices = choose(compose("component=relu", "strategy=smooth"))
    drop_unused_knobs(choices.plain, build_model(choices), [])
    strategy = choices.plain["strategy"]
    assert {strategy[key] for key in ("temperature", "schedule", "final_temperature", "clock", "gap")} == {None}


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_power_carrier_has_the_published_derivative(power: float) -> None:
    """|x|^(1/o - 1) / o from 0.1 to the width, the chord's 0.1^(1/o - 1) inside, 0 outside."""
    strategy = StraightThrough(carrier="power", power=power, width=1.5)
    x = torch.tensor([0.0, 0.05, -0.0999, 0.11, -0.5, 1.5, 1.51, -40.0], dtype=torch.float64)
    chord, curve = 0.1 ** (1 / power - 1), x.abs() ** (1 / power - 1) / power
    expected = torch.where(x.abs() < 0.1, chord, torch.where(x.abs() <= 1.5, curve, 0))
    for op in (Sign(), Heaviside()):
        y = strategy(op, x)
        assert torch.equal(y, op.hard(x))
        torch.testing.assert_close(gradients(lambda x, op=op: strategy(op, x), [x])[0], expected)
    with pytest.raises(ValueError, match=r"power must be at least 1.*0\.5"):
        StraightThrough(power=0.5)


def test_the_power_follows_a_quarter_of_a_cosine_to_its_end() -> None:
    """o(p) = o + (1 - cos(pi p / 2)) (end - o): from 1 to 3 it is 1, 1.586 and 3 at the shares 0, 1/2 and 1."""
    layer = HardLayer(Sign(), StraightThrough(carrier="power", power=1.0, final_power=3.0, width=1.5))
    x = torch.tensor([0.5], dtype=torch.float64)
    for share, power in ((0.0, 1.0), (0.5, 3 - 2**0.5), (1.0, 3.0)):
        layer.anneal(share)
        assert gradients(layer, [x])[0].item() == pytest.approx(0.5 ** (1 / power - 1) / power, rel=1e-12)
    assert layer.strategy.changes
    with pytest.raises(ValueError, match="final_power needs carrier=power, got carrier=own"):
        StraightThrough(final_power=3.0)


STEPS = [Heaviside(), Sign(), Round(), Quantize(3), Floor(), Floor(low=-1.0, high=1.0, step=0.5)]


@pytest.mark.parametrize("op", STEPS, ids=repr)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_derivative_of_smooth_peak_at_a_jump_is_the_jump(op: Op, kernel: str) -> None:
    """At T = 0.02 neighbouring steps are far away; the jump is measured on both sides of x0."""
    if op.needs_mean and not KERNELS[kernel].has_mean:
        pytest.skip("the expectation does not exist")
    x0 = {"Round": 0.5, "Quantize": Quantize(3).step / 2}.get(type(op).__name__, 0.0)
    strategy = StraightThrough(carrier="smooth_peak", kernel=kernel, temperature=0.02)
    x = torch.tensor([x0], dtype=torch.float64)
    jump = op.hard(x + 1e-6) - op.hard(x - 1e-6)
    (got,) = gradients(lambda x: strategy(op, x), [x])
    torch.testing.assert_close(got, jump, rtol=0.02 if KERNELS[kernel].has_mean else 0.05, atol=0)
    assert torch.equal(strategy(op, x), op.hard(x))


@pytest.mark.parametrize("op", [ReLU(), Maximum(), Max()], ids=repr)
def test_smooth_peak_needs_an_elementwise_op_that_jumps(op: Op) -> None:
    with pytest.raises(EmptyCell, match=r"'smooth_peak' needs an "):
        HardLayer(op, StraightThrough(carrier="smooth_peak"))
