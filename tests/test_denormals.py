"""Denormal numbers in training."""

import torch

from experiments import session
from experiments.denormals import denormals_as_zero
from runs import train

SMALLEST = torch.tensor(2.0**-126)  # of the normal float32 numbers


def test_they_are_zero_in_the_block_and_themselves_after_it():
    with denormals_as_zero():
        assert (SMALLEST / 2).item() == 0.0
        assert SMALLEST.item() > 0.0
    assert (SMALLEST / 2).item() == 2.0**-127


def test_training_takes_them_as_zero(tmp_path, monkeypatch):
    seen = []
    advance = session.Session._advance
    monkeypatch.setattr(
        session.Session, "_advance", lambda self: (seen.append((SMALLEST / 2).item()), advance(self))[1]
    )
    assert train(tmp_path / "run", "max_steps=3", "model.width=8").status == "DONE"
    assert seen == [0.0] * 3
