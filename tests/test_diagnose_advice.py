"""The remedies that `diagnose` prints: tried on the model, and no change of any op but the one at fault."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from test_diagnose import FRONT, Between, X, Y, bare, between, k_hot
from torch import Tensor

import surrogates
from products import generator
from surrogates import HardLayer
from surrogates.ops.floor import Floor
from surrogates.ops.top_k_mask import TopKMask
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

TRIED = [
    (torch.round, {"round": "ste"}),
    (lambda x: F.one_hot(x.argmax(-1), 8).float(), {"argmax": "ste"}),
    (lambda x: (x > 0.5).float(), {"compare": "ste"}),
    (lambda x: torch.relu(x - 100), {"relu": "smooth"}),  # straight-through has relu's own derivative, 0
    (lambda x: x // 0.5, {"floor": "ste"}),
    (lambda x: (3 * x.round()).floor(), {"floor": "ste", "round": "ste"}),
    (k_hot, {"permutation": "ste"}),
    (lambda x: router(x, k_hot), {"permutation": "ste"}),
    (lambda x: torch.linspace(0, 1, 8).square()[x.argsort()], {"permutation": "ste"}),
    (lambda x: x.argsort().argsort().float(), {"rank": "ste"}),
    (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.5])).float(), {"compare": "ste"}),
    (lambda x: x.long().float(), {"trunc": "ste"}),
    (lambda x: x.bool().float(), {"compare": "ste"}),
]


def router(x: Tensor, gates: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean of the experts that the gates choose."""
    return (gates(x)[..., None] * torch.randn(8, 8, generator=generator(3))).sum(-2)


@pytest.mark.parametrize(("function", "by_op"), TRIED)
def test_the_block_that_was_tried_gives_the_gradient_that_it_promises(function, by_op: dict[str, str]) -> None:
    model = Between(function)
    tried = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0].tried
    assert tried.by_op == by_op
    assert set(FRONT) <= set(tried.parameters)
    arguments = ", ".join(f'{op}="{strategy}"' for op, strategy in by_op.items())
    assert tried.change == f"surrogates.through(None, {arguments})"
    with surrogates.through(None, **by_op):
        loss = F.cross_entropy(model(X), Y)
    gradients = torch.autograd.grad(loss, [dict(model.named_parameters())[name] for name in tried.parameters])
    assert all(bool(g.any()) and bool(g.isfinite().all()) for g in gradients)


def test_the_remedy_leaves_every_other_op_as_it_is() -> None:
    """Case K26."""

    def rest(x: Tensor) -> Tensor:
        return torch.relu(x).sum() + torch.clamp(x, -1, 1).sum()

    found = between(lambda x: torch.relu(x).clamp(-1, 1).round() + 0 * rest(x))
    (finding,) = [f for f in found.findings if f.operation == "round"]
    assert finding.tried.by_op == {"round": "ste"}
    x = torch.tensor([-2.0, -0.5, 0.5, 2.0], requires_grad=True)
    with surrogates.through(None, **finding.tried.by_op):
        inside = torch.autograd.grad(rest(x) + x.round().sum(), x)[0]
    assert inside.tolist() == [1.0, 2.0, 3.0, 2.0]  # relu: 0 0 1 1; clamp: 0 1 1 0; round: 1 1 1 1


def test_a_router_gets_the_block_that_trains_it() -> None:
    """Case K10: the weights of two experts at their indices; the choice itself has no gradient without a block."""

    def gates(x: Tensor) -> Tensor:
        weights, chosen = x.softmax(-1).topk(2)
        return torch.zeros_like(x).scatter(-1, chosen, weights.detach())

    finding = between(lambda x: router(x, gates)).findings[0]
    assert finding.tried.by_op == {"permutation": "ste"}
    assert set(FRONT) <= set(finding.tried.parameters)


def test_what_through_does_not_replace_is_not_called_tried() -> None:
    """Case K10: a block around a call that it does not replace leaves the gradient 0."""
    finding = between(lambda x: torch.sgn(x)).findings[0]
    assert finding.tried is None
    text = str(finding)
    assert "by hand, not tried: surrogates.ops.sign.Sign" in text
    assert "through" not in text


def test_a_histogram_gets_the_block_that_trains_it() -> None:
    finding = between(lambda x: torch.histc(x, 8).expand(6, 8)).findings[0]
    assert finding.tried.by_op == {"histogram": "ste"}


def test_one_block_for_several_findings_is_tried_too() -> None:
    found = bare(lambda a, b: (a.floor() + (b > 0)).sum(), a=[0.3, 1.7], b=[0.3, 1.7])
    assert found.together.by_op == {"compare": "ste", "floor": "ste"}
    assert set(found.together.parameters) == {"a", "b"}
    assert 'through(None, compare="ste", floor="ste")' in re.sub(r"\s+", " ", str(found))


def test_a_hard_layer_gets_another_strategy() -> None:
    layer = HardLayer(Floor(), Subgradient())
    model = Between(layer)
    finding = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0]
    assert str(finding.tried).startswith("surrogates.HardLayer(Floor(), StraightThrough()) as module 'function'")
    assert model.function is layer
    layer.mode = "hard"  # no strategy acts
    finding = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0]
    assert (finding.tried, finding.remedies) == (None, ())
    assert "call model.train() first" in finding.reason


def test_a_remedy_that_was_tried_in_vain_is_not_advised() -> None:
    """Case K01: of n entries the n largest are all, whatever the strategy."""
    finding = between(HardLayer(TopKMask(8), StraightThrough())).findings[0]
    assert finding.parameters == FRONT
    assert (finding.tried, finding.remedies) == (None, ())
    assert "the result of TopKMask" not in finding.reason


def within(strategy: str, function):
    def inside(x: Tensor) -> Tensor:
        with surrogates.through(strategy):
            return function(x)

    return inside


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x: surrogates.round(x, "subgradient"), "Round under Subgradient"),
        (lambda x: Subgradient()(Floor(), x), "Floor under Subgradient"),
        (within("subgradient", torch.floor), "Floor under Subgradient"),
        (within("smooth", torch.detach), "detach"),
        (within("smooth", lambda x: x.round().log()), "log"),
        (lambda x: surrogates.graft(x, torch.zeros(6, 8)), "graft"),
        (lambda x: surrogates.graft(x, x.floor()), "floor"),
    ],
)
def test_an_inner_call_of_this_library_has_the_name_of_what_the_user_called(function, operation: str) -> None:
    (finding,) = [f for f in between(function).findings if set(FRONT) <= set(f.parameters)]
    assert finding.operation == operation
    assert finding.place.file == __file__


def antisymmetric(y: Tensor) -> Tensor:
    return (y[:, None] - y[:, :, None]).sum()


@pytest.mark.parametrize(
    ("loss", "uses"),
    [
        (lambda y: (y - (y + (y.round() - y).detach())).square().sum(), ["sub", "add"]),
        (lambda y: (y - y.mean(0)).sum(), ["sub", "mean"]),
        (lambda y: torch.cat([y, -y], 1).sum(1).mean(), ["cat", "neg"]),
        (lambda y: (y / y).sum(), ["div"]),
        (antisymmetric, ["__getitem__", "__getitem__"]),
    ],
)
def test_gradients_that_cancel_are_named_with_the_lines_of_the_uses(loss, uses: list[str]) -> None:
    """Case K01: numbers that binary fractions hold, so that the sums are exactly 0."""
    layer = torch.nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(16.0).reshape(4, 4) / 8 + 0.125)
    found = surrogates.diagnose(layer, loss, torch.arange(1.0, 17.0).reshape(4, 4) / 4)
    (finding,) = found.findings
    assert (found.outcome, finding.kind, finding.parameters) == ("zero gradient", "cancelled", ("weight",))
    assert "the result of linear" in finding.reason
    assert re.findall(r"(\w+) \(test_diagnose_advice\.py:\d+\)", finding.reason) == uses


def test_gradients_of_a_parameter_that_cancel() -> None:
    """Case K01."""
    (finding,) = bare(lambda w: (w - 1 * w).sum(), w=[1.0, 2.0]).findings
    assert (finding.kind, finding.parameters) == ("cancelled", ("w",))
    assert "the parameter w" in finding.reason


@pytest.mark.parametrize("function", [lambda y: y[:, :1].softmax(1), lambda y: F.layer_norm(y[:, :1], (1,))])
def test_a_dimension_with_one_entry_is_named(function) -> None:
    """Case K01."""
    finding = between(lambda y: function(y).expand(6, 8)).findings[0]
    assert "shape (6, 1); over a dimension with one entry" in finding.reason


def test_a_choice_of_all_entries_is_named() -> None:
    """Case K01."""
    reasons = [
        between(lambda x, k=k: torch.zeros_like(x).scatter(-1, x.topk(k).indices, 1.0)).findings[0].reason
        for k in (7, 8)
    ]
    assert ["all are chosen" in reason for reason in reasons] == [False, True]


class Refusing(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("refused")


def test_an_exception_of_plain_python_is_placed_in_its_module() -> None:
    """Case K04."""
    found = between(Refusing())
    assert (found.findings[0].place.module, found.findings[0].place.function) == ("function", "forward")
    assert "refused" in found.findings[0].reason


def test_the_first_value_that_is_not_finite_is_named_before_an_exception() -> None:
    """Case K04."""
    found = between(lambda c: torch.distributions.Categorical(logits=c / (c - c), validate_args=True).probs)
    assert [f.kind for f in found.findings] == ["exception", "not finite"]
    assert found.findings[1].operation in ("div", "__truediv__")
    assert found.findings[1].place.file == __file__
