"""The remedies that `diagnose` prints: tried on the model, and no change of any op but the one at fault."""

import re

import pytest
import torch
import torch.nn.functional as F
from test_diagnose import FRONT, Between, X, Y, bare, between, k_hot
from torch import Tensor

import surrogates
from surrogates import HardLayer
from surrogates.ops.floor import Floor
from surrogates.strategies.subgradient import Subgradient

TRIED = [
    (torch.round, {"round": "ste"}),
    (lambda x: F.one_hot(x.argmax(-1), 8).float(), {"argmax": "ste"}),
    (lambda x: (x > 0.5).float(), {"compare": "ste"}),
    (lambda x: torch.relu(x - 100), {"relu": "smooth"}),  # straight-through has relu's own derivative, 0
    (lambda x: x // 0.5, {"floor": "ste"}),
    (lambda x: (3 * x.round()).floor(), {"floor": "ste", "round": "ste"}),
]


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


def test_what_through_does_not_replace_is_not_called_tried() -> None:
    """Case K10: a block around the router leaves its gradient None."""
    finding = between(k_hot).findings[0]
    assert finding.tried is None
    text = str(finding)
    assert "by hand, not tried: surrogates.ops.top_k_mask.TopKMask" in text
    assert "through" not in text


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
    assert surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0].tried is None
