"""Denormal numbers in training."""

import pytest
import torch

from experiments.training import session
from experiments.training.denormals import denormals_as_zero
from runs import train
from surrogates.ops.clamp import Clamp
from surrogates.ops.quantize import Quantize
from surrogates.strategies.ste import StraightThrough

SMALLEST = torch.tensor(2.0**-126)  # of the normal float32 numbers


def test_they_are_zero_in_the_block_and_themselves_after_it():
    with denormals_as_zero():
        assert (SMALLEST / 2).item() == 0.0
        assert SMALLEST.item() > 0.0
    assert (SMALLEST / 2).item() == 2.0**-127


def test_where_they_were_zero_before_training_they_are_after_it(tmp_path):
    torch.set_flush_denormal(True)
    try:
        assert train(tmp_path / "run", "max_steps=1", "model.width=8").status == "DONE"
        assert (SMALLEST / 2).item() == 0.0
    finally:
        torch.set_flush_denormal(False)


def test_training_takes_them_as_zero(tmp_path, monkeypatch):
    seen = []
    advance = session.Session._advance
    monkeypatch.setattr(
        session.Session, "_advance", lambda self: (seen.append((SMALLEST / 2).item()), advance(self))[1]
    )
    assert train(tmp_path / "run", "max_steps=3", "model.width=8").status == "DONE"
    assert seen == [0.0] * 3


@pytest.mark.parametrize("op", [Quantize(), Quantize(low=-1.0, high=0.0), Clamp(0.0, 1.0), Clamp(-1.0, 0.0)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_derivative_at_a_bound_of_0_is_the_same_with_and_without_them(op, dtype):
    """Inclusive bounds are the next numbers, below or above 0 a denormal one."""
    x = torch.tensor([-0.5, -0.0, 0.0, 0.5, 2.0], dtype=dtype)

    def derivative():
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(StraightThrough()(op, leaf, T=1.0).sum(), leaf)[0]

    for _ in range(2):  # whatever is remembered of the other
        with denormals_as_zero():
            with_zero = derivative()
        assert torch.equal(derivative(), with_zero)
    assert with_zero[1:3].tolist() == [1.0, 1.0]
