"""through on one function in several spellings: equal derivatives of clips, masks and maxima, kinks and ties too."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from each import each
from products import OP_CLASSES
from surrogates import convert, through
from surrogates.core import Strategy
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STRAIGHT: dict[str, Strategy] = {
    "ste": StraightThrough(temperature=0.7),
    "ste, identity": StraightThrough(carrier="identity"),
    "ste, smooth": StraightThrough(carrier="smooth", temperature=1.3),
}
# The default strategy, and those of named ops.
Choice = tuple[Strategy | None, dict[str, Strategy]]
CHOICES: dict[str, Choice] = {"subgradient": (Subgradient(), {}), "smooth": (Smooth(temperature=0.4), {})}
CHOICES |= {name: (s, {}) for name, s in STRAIGHT.items()}
CHOICES |= {f"{name}, named": (None, dict.fromkeys(OP_CLASSES, s)) for name, s in STRAIGHT.items()}
# Kinks, ties, and numbers away from them; `B` is compared and combined with them.
A = torch.tensor([[-7.0, -1.0, -0.4, 0.0, 0.6], [1.0, 1.0, 3.3, 6.0, 6.0]], dtype=torch.float64)
B = torch.tensor([[-1.0, -1.0, 0.3, 0.0, 2.0], [1.0, 0.4, -2.0, 6.0, 7.0]], dtype=torch.float64)
LOW, HIGH = torch.tensor(-1.0, dtype=torch.float64), torch.ones_like(A)
SCALE, ZERO = torch.tensor([0.5, 0.5]), torch.tensor([1, 1], dtype=torch.int32)
Spelling = Callable[[Tensor, Tensor], Tensor]


def codes(x: Tensor, clip: Callable[[Tensor], Tensor]) -> Tensor:
    return (clip((x / 0.5).round() + 1) - 1) * 0.5


SPELLINGS: dict[str, list[Spelling]] = {
    "a clip to [-1, 1]": [
        lambda x, y: x.clamp(-1, 1),
        lambda x, y: torch.clip(x, min=-1.0, max=1.0),
        lambda x, y: x.clamp(LOW, HIGH),
        lambda x, y: x.clamp_min(-1).clamp_max(1),
        lambda x, y: x.clamp(min=-1).clamp(max=HIGH),
        lambda x, y: torch.minimum(torch.maximum(x, LOW), HIGH),
        lambda x, y: torch.min(HIGH, torch.max(LOW, x)),
        lambda x, y: F.hardtanh(x),
        lambda x, y: nn.Hardtanh(inplace=True)(x * 1),
        lambda x, y: (x * 1).clamp_(-1, 1),
    ],
    "a clip from below": [
        lambda x, y: x.clamp_min(1.0),
        lambda x, y: x.clamp(min=HIGH),
        lambda x, y: torch.clamp(x, 1, torch.inf),
        lambda x, y: torch.maximum(x, HIGH),
        lambda x, y: torch.max(HIGH, x),
        lambda x, y: torch.stack([x, HIGH]).amax(0),
    ],
    "a clip by a tensor with a derivative": [
        lambda x, y: x.clamp(max=y),
        lambda x, y: x.clamp_max(y),
        lambda x, y: torch.minimum(x, y),
        lambda x, y: y.minimum(x),
        lambda x, y: torch.min(x, y),
        lambda x, y: -torch.maximum(-x, -y),
    ],
    "relu6": [lambda x, y: F.relu6(x), lambda x, y: x.clamp(0, 6), lambda x, y: F.hardtanh(x, 0.0, 6.0)],
    "hardsigmoid": [
        lambda x, y: F.hardsigmoid(x),
        lambda x, y: F.relu6(x + 3) / 6,
        lambda x, y: x.clamp(-3, 3) / 6 + 0.5,
    ],
    "hardswish": [lambda x, y: F.hardswish(x), lambda x, y: x * F.relu6(x + 3) / 6],
    "fake quantization": [
        lambda x, y: torch.fake_quantize_per_tensor_affine(x, 0.5, 1, -2, 3),
        lambda x, y: torch.fake_quantize_per_channel_affine(x, SCALE, ZERO, 0, -2, 3),
        lambda x, y: codes(x, lambda q: q.clamp(-2, 3)),
        lambda x, y: codes(x, lambda q: F.hardtanh(q, -2, 3)),
        lambda x, y: codes(x, lambda q: torch.minimum(q.clamp_min(-2), 3 * HIGH)),
    ],
    "a mask": [
        lambda x, y: (x > 0) * y,
        lambda x, y: (x > 0).double() * y,
        lambda x, y: torch.where(x > 0, y, 0.0),
        lambda x, y: torch.where(x <= 0, torch.zeros_like(y), y),
        lambda x, y: y.where(~(x <= 0), 0.0),
        lambda x, y: y.masked_fill(x.le(0), 0.0),
        lambda x, y: y - y * torch.logical_not(x.greater(0)),
        lambda x, y: (0 < x) * y,  # noqa: SIM300
        lambda x, y: torch.heaviside(x, torch.zeros_like(y)) * y,
    ],
    "the largest of two": [
        lambda x, y: torch.maximum(x, y),
        lambda x, y: torch.max(x, other=y),
        lambda x, y: torch.stack([x, y]).max(0).values,
        lambda x, y: torch.stack([x, y], -1).topk(1)[0].squeeze(-1),
    ],
    "the largest of a row": [
        lambda x, y: x.max(1).values,
        lambda x, y: x.amax(1),
        lambda x, y: -(-x).amin(-1),
        lambda x, y: -torch.min(-x, dim=1)[0],
        lambda x, y: x.topk(1, 1).values.squeeze(1),
        lambda x, y: F.max_pool1d(x, 5).squeeze(1),
    ],
    "the largest of a row, with the smallest": [
        lambda x, y: x.amax(1) - x.amin(1),
        lambda x, y: x.aminmax(dim=1).max - torch.aminmax(x, dim=1)[0],
        lambda x, y: F.adaptive_max_pool1d(x, 1)[:, 0] + F.adaptive_max_pool2d(-x[None, :, None], 1)[0, :, 0, 0],
    ],
    "the middle of a row": [
        lambda x, y: x.median(1).values,
        lambda x, y: x.kthvalue(3).values,
        lambda x, y: x.sort(1).values[:, 2],
        lambda x, y: x.quantile(0.5, 1),
    ],
    "the place of the largest": [
        lambda x, y: F.one_hot(y.argmax(1), 5) * x,
        lambda x, y: F.one_hot(y.max(1).indices, 5) * x,
        lambda x, y: (F.one_hot(y.topk(2).indices, 5) * x[:, None])[:, 0],
        lambda x, y: F.one_hot(y.sort(1, True).indices[:, 0], 5) * x,
        lambda x, y: torch.zeros_like(y).scatter(1, y.argsort(descending=True)[:, :1], 1.0) * x,
    ],
    "ranks": [
        lambda x, y: x.argsort(1).argsort(1).double(),
        lambda x, y: x.sort(1).indices.argsort().double(),
    ],
    "the whole part": [
        lambda x, y: x.trunc(),
        lambda x, y: x.div(1, rounding_mode="trunc"),
        lambda x, y: x.long().double(),
        lambda x, y: x.type(torch.int8).to(x),
    ],
    "a bucket": [
        lambda x, y: (x > -1).double() + (x > 1),
        lambda x, y: torch.bucketize(x, torch.stack([LOW, -LOW])).double(),
        lambda x, y: torch.searchsorted(torch.stack([LOW, -LOW]), x).double(),
        lambda x, y: (torch.arange(3).double() * F.one_hot(torch.bucketize(x, torch.stack([LOW, -LOW])), 3)).sum(-1),
    ],
    "the largest of all": [
        lambda x, y: x.max(),
        lambda x, y: torch.amax(x),
        lambda x, y: x.amax((0, 1)),
        lambda x, y: x.flatten().max(0).values,
        lambda x, y: -(-x).min(),
    ],
}


def by_both(spelling: Spelling, choice: Choice) -> tuple[Tensor, ...]:
    """The value, and the derivatives by x and y, weighted by place."""
    x, y = A.clone().requires_grad_(), B.clone().requires_grad_()
    with through(choice[0], **choice[1]):
        value = spelling(x, y)
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
    slopes = torch.autograd.grad((value * weights).sum(), (x, y), materialize_grads=True)
    return value.detach(), *slopes


@pytest.mark.parametrize("choice", CHOICES)
@each("name", SPELLINGS)
def test_equal_functions_have_equal_derivatives(name: str, choice: str) -> None:
    if "identity" in choice and name in ("a mask", "the place of the largest", "ranks", "a bucket"):
        return  # exists for heaviside and argmax, and not for comparisons, permutations and ranks
    first, *others = SPELLINGS[name]
    right = by_both(first, CHOICES[choice])
    for i, spelling in enumerate(others, 1):
        for got, wanted in zip(by_both(spelling, CHOICES[choice]), right, strict=True):
            torch.testing.assert_close(got, wanted, msg=lambda m, i=i: f"spelling {i}: {m}")


@each("make, function", [(nn.Hardtanh, F.hardtanh), (nn.ReLU6, F.relu6), (nn.Hardswish, F.hardswish)])
def test_a_converted_module_has_the_derivative_of_its_function(make: type, function: Callable[..., Tensor]) -> None:
    for choice in CHOICES.values():
        model = nn.Sequential(make())
        convert(model, choice[0], **choice[1])
        x = A.clone().requires_grad_()
        got, right = torch.autograd.grad(model(x).sum(), x)[0], by_both(lambda x, y: function(x).sum(), choice)[1]
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("name", ["clamp", "maximum"])
def test_the_name_clamp_is_for_every_clip(name: str) -> None:
    """`clamp` names both ops of a clip; `maximum` and `minimum` name one, and go before it."""
    x = A.clone().requires_grad_()
    with through(None, **{name: "subgradient"}) as report:
        F.hardtanh(x), torch.maximum(x, LOW)
    assert {row.call for row in report.replaced} == ({"hardtanh", "maximum"} if name == "clamp" else {"maximum"})
    with through("smooth", clamp="smooth", maximum="subgradient") as report:
        torch.maximum(x, LOW)
    assert [row.fate for row in report.replaced] == ["Maximum() by Subgradient()"]


def test_a_clip_passes_half_on_its_bounds_on_every_torch() -> None:
    x = A.clone().requires_grad_()
    with through("subgradient"):
        y = x.clamp(-1, 1)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [[0, 0.5, 1, 1, 1], [0.5, 0.5, 0, 0, 0]]


@each("strategy", [StraightThrough(), StraightThrough(carrier="identity")])
def test_ternary_codes_on_the_bounds_of_their_clip_still_train(strategy: Strategy) -> None:
    """Case K08."""
    x = torch.tensor([-2.2, -0.8, 0.1, 0.9, 1.2], requires_grad=True)
    for named in ({"clamp": "ste"}, {}):
        with through(strategy, **named):
            y = x.round().clamp(-1, 1)
        slope = torch.autograd.grad(y.sum(), x)[0]
        assert torch.all(slope[1:] > 0.2)
    assert slope.tolist() == [0, 0.5, 1, 0.5, 0.5]


@each("clip", [lambda q, n: torch.minimum(torch.maximum(q, -n), n - 1), lambda q, n: q.clamp(-n, n - 1)])
def test_a_learned_bit_width(clip: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Case K08: n = 2^(round(b) - 1) levels on each side, clipped to -n .. n - 1, step m / n."""
    x = torch.linspace(-1.2, 1.2, 25, dtype=torch.float64)
    b, m = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (3.4, 1.0))
    with through("ste"):
        n = 2 ** (b.round() - 1)
        q = clip((x / (m / n)).round(), n) * (m / n)
    by_b, by_m = torch.autograd.grad((q - x).square().sum(), (b, m))
    assert by_b.item() == pytest.approx(-0.5372, abs=5e-5)
    assert by_m.item() == pytest.approx(-2.0250, abs=5e-5)
