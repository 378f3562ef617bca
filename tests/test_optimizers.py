"""Optimizers are torch's, step for step; learning-rate schedules reach their ends."""

import math

import pytest
import torch
from torch import nn

from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.sgd import SGD
from runs import lines, train

PAIRS = [
    (SGD(), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (SGD(lr=0.3, momentum=0.0), torch.optim.SGD, {"lr": 0.3}),
    (
        SGD(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.01),
        torch.optim.SGD,
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    ),
    (Adam(), torch.optim.Adam, {}),
    (
        Adam(lr=0.01, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.1),
        torch.optim.Adam,
        {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1},
    ),
    (AdamW(), torch.optim.AdamW, {}),
    (AdamW(lr=0.01, weight_decay=0.2), torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.2}),
]


@pytest.mark.parametrize(("ours", "theirs", "arguments"), PAIRS, ids=lambda value: getattr(value, "__name__", None))
def test_it_is_torchs(ours, theirs, arguments):
    results = []
    for make in (ours.build, lambda parameters: theirs(parameters, **arguments)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = make(model.parameters())
        for step in range(12):
            optimizer.zero_grad()
            model(torch.linspace(-1, 1 + step, 20).reshape(5, 4)).square().mean().backward()
            optimizer.step()
        results.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-7)


def test_the_defaults_are_torchs_but_for_sgd():
    for ours, theirs in ((Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)):
        group = theirs([nn.Parameter(torch.zeros(1))]).param_groups[0]
        option = ours()
        assert (option.lr, option.weight_decay, (option.beta1, option.beta2), option.eps) == (
            group["lr"],
            group["weight_decay"],
            group["betas"],
            group["eps"],
        )


@pytest.mark.parametrize("warmup", [0, 5])
@pytest.mark.parametrize("steps", [1, 2, 20])
def test_schedules_reach_their_ends(warmup, steps):
    rates = {
        schedule: [SGD(lr=2.0, schedule=schedule, warmup_steps=warmup).lr_at(step, steps) for step in range(steps)]
        for schedule in ("constant", "linear", "cosine")
    }
    for step in range(min(warmup, steps)):
        assert {rate[step] for rate in rates.values()} == {2.0 * (step + 1) / warmup}
    after = rates["linear"][warmup:]
    assert rates["constant"][warmup:] == [2.0] * len(after)
    if not after:
        return
    length = steps - warmup
    assert after == pytest.approx([2.0 * (1 - i / length) for i in range(length)])
    assert rates["cosine"][warmup:] == pytest.approx(
        [1.0 + math.cos(math.pi * i / length) for i in range(length)], abs=1e-12
    )
    assert after[0] == 2.0  # the first step after the warm-up has the full rate, the last one a little above 0
    assert 0 < after[-1] <= 2.0 / length * 1.000001
    for schedule in ("linear", "cosine"):
        assert SGD(lr=2.0, schedule=schedule, warmup_steps=warmup).lr_at(steps, steps) == pytest.approx(0.0, abs=1e-12)


def test_the_run_uses_and_logs_the_scheduled_rate(tmp_path):
    own = ("optimizer.schedule=cosine", "optimizer.warmup_steps=2", "optimizer.lr=0.2", "max_steps=8", "log_every=1")
    train(tmp_path, *own, "model.width=8")
    option = SGD(lr=0.2, schedule="cosine", warmup_steps=2)
    assert [record["lr"] for record in lines(tmp_path)] == [option.lr_at(step, 8) for step in range(8)]
    assert not SGD().scheduled
    assert option.scheduled
    assert SGD(warmup_steps=1).scheduled


def test_a_wrong_number_is_refused_by_name():
    for cls in (SGD, Adam, AdamW):
        for key, wrong in {
            "lr": (0, -1, math.nan, math.inf),
            "clip_norm": (0, -1, math.nan),
            "weight_decay": (-1,),
        }.items():
            for value in wrong:
                with pytest.raises(ValueError, match=f"^{key} must be"):
                    cls(**{key: value})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SGD(lr=1e39), r"lr must be 0 or between .* in size \(float32\), got 1e\+39"),
        (lambda: SGD(weight_decay=1e308), r"weight_decay must be 0 or between .*, got 1e\+308"),
        (lambda: AdamW(lr=1e20, weight_decay=1e20), "lr times weight_decay must be at most"),
        (lambda: Adam(lr=1e38, beta1=0.9999), r"lr / \(1 - beta1\) must be at most"),
        (lambda: Adam(eps=math.inf), "eps must be positive and finite, got inf"),
        (lambda: SGD(warmup_steps=10**20), "warmup_steps must be 0 or more, and below"),
    ],
)
def test_a_number_that_torchs_kernels_refuse_in_mid_training_is_refused_before(make, words):
    with pytest.raises(ValueError, match=words):
        make()
