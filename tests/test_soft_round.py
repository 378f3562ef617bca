"""The named smooth forms of round, against their papers' formulas."""

import math

import pytest
import torch

from products import FULL, HALF
from surrogates import EmptyCell
from surrogates.ops.max import Max
from surrogates.ops.round import Round
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

torch.set_num_threads(1)
X = torch.linspace(-2.4, 2.4, 241, dtype=torch.float64)


def soft(form: str, T: float, x: torch.Tensor = X) -> torch.Tensor:
    return Smooth(form=form)(Round(), x, T=T)


@pytest.mark.parametrize("T", [0.05, 0.3, 0.62, 2.0, 50.0])
def test_the_forms_are_the_published_ones(T: float) -> None:
    """Agustsson & Theis with alpha = 1 / T; Gong et al. with S and k from their alpha = exp(-1 / T)."""
    middle = X.floor() + 0.5
    torch.testing.assert_close(soft("tanh", T), middle + torch.tanh((X - middle) / T) / (2 * math.tanh(0.5 / T)))
    alpha = math.exp(-1 / T)
    S = 1 / (1 - alpha)
    k = math.log((S + 1) / (S - 1)) if S > 1 + 1e-12 else math.log(2) + 1 / T
    torch.testing.assert_close(soft("dsq", T), middle + 0.5 * S * torch.tanh(k * (X - middle)))


@pytest.mark.parametrize("form", ["tanh", "dsq"])
def test_larger_is_smoother_from_the_hard_round_to_the_identity(form: str) -> None:
    calm = (X - X.floor() - 0.5).abs() > 0.02
    assert (soft(form, 1e-4) - X.round())[calm].abs().max() < 1e-12
    torch.testing.assert_close(soft(form, 1e4), X, atol=1e-7, rtol=0)
    gaps = [(soft(form, T) - X.round()).abs().mean().item() for T in (0.01, 0.1, 0.5, 1.0, 10.0)]
    assert gaps == sorted(gaps)


@pytest.mark.parametrize("form", ["tanh", "dsq"])
@pytest.mark.parametrize("dtype", FULL + HALF, ids=str)
def test_steps_are_kept_at_every_magnitude(form: str, dtype: torch.dtype) -> None:
    far = 4.0 / torch.finfo(dtype).eps  # no fraction is left there
    x = torch.tensor([far, -far, 2 * far, 0.0, 7.0, -3.0, math.inf, -math.inf], dtype=dtype)
    for T in (1e-6, 0.1, 1.0, 100.0):
        torch.testing.assert_close(soft(form, T, x), x, atol=1e-6, rtol=1e-7)


def test_the_forms_keep_no_tensor_a_step() -> None:
    """What backward keeps is a few tensors of x's size, whatever the range of x."""
    sizes = []
    for scale in (1.0, 1000.0):
        kept: list[int] = []
        x = (scale * torch.randn(1000)).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t.numel()) or t, lambda t: t):
            Smooth(form="tanh")(Round(), x, T=0.3)
        sizes.append(sum(kept))
    assert sizes[0] == sizes[1] <= 6 * 1000


def test_a_form_takes_no_kernel_and_is_a_carrier_too() -> None:
    assert Smooth(form="tanh").uses(Round()) == {"temperature"}
    assert Smooth().uses(Round()) == {"temperature", "kernel"}
    Smooth(form="dsq", kernel="cauchy").check(Round())
    carried = StraightThrough(carrier="smooth", form="dsq")
    x = X.clone().requires_grad_()
    y = carried(Round(), x, T=0.62)
    assert torch.equal(y, X.round())
    (got,) = torch.autograd.grad(y.sum(), x)
    (expected,) = torch.autograd.grad(soft("dsq", 0.62, x).sum(), x)
    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (Smooth(form="dqs"), "no form 'dqs'.*tanh"),
        (StraightThrough(form="tanh"), "no form 'tanh' of its reading 'proxy'"),
        (StraightThrough(carrier="identity", form="tanh"), "'identity' has no forms"),
    ],
)
def test_a_form_that_is_not_there_is_an_empty_cell(strategy, words: str) -> None:
    with pytest.raises(EmptyCell, match=words):
        strategy.check(Round())
    with pytest.raises(EmptyCell, match="Max"):
        Smooth(form="tanh").check(Max())


def test_what_is_kept_for_a_temperature_serves_training_after_inference() -> None:
    """The first call at a temperature, in inference mode, and a later one with derivatives."""
    x, T = torch.linspace(-2, 2, 9), 0.4321
    with torch.inference_mode():
        first = Smooth()(Round(), x, T=T)
    leaf = x.clone().requires_grad_()
    value = Smooth()(Round(), leaf, T=T)
    assert torch.equal(value, first)
    (slope,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), leaf)
    expected = torch.func.vmap(torch.func.grad(torch.func.grad(lambda x: Smooth()(Round(), x, T=T))))(x)
    torch.testing.assert_close(bend, expected)
