"""The diagnostics in words: each sentence appears where its condition is met, and only there."""

import math

import pytest

pytest.importorskip("scipy")

from experiments.compare.learning_curves import read_curves
from experiments.compare.run_record import read_run
from experiments.compare.symptoms import symptoms
from experiments.compare.words import words
from run_folders import curves, write_run


def said(tmp_path, change=lambda row: None, **more):
    rows = curves(0.5)
    for row in rows:
        change(row)
    run = read_run(write_run(tmp_path / "run", rows=rows, **more))
    return words([symptoms(run, read_curves(run))])


def put(**values):
    return lambda row: row.update({key.replace("__", "/").replace("_0_", "s.0/"): v for key, v in values.items()})


def test_nothing_stands_out(tmp_path):
    (sentence,) = said(tmp_path)
    assert sentence.startswith("nothing stands out")


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"op/blocks.0/grad_in_norm": 0.0}, "dead upstream gradient: exactly 0 below blocks.0 at 100 %"),
        ({"op/blocks.0/zero_gradient_fraction": 0.75}, "most inputs get gradient 0: blocks.0 at 75 %"),
        ({"op/blocks.0/saturated_fraction": 0.9}, "saturation: blocks.0 at 90 %"),
        ({"op/blocks.0/flip_rate": 0.2}, "decisions still change: blocks.0 at 20 %"),
        ({"accuracy/val": 0.5, "accuracy/val_soft": 0.6}, "soft-to-hard gap at the end: +10.0 points"),
        ({"loss/train": "Infinity"}, "not finite: 5 logged steps in 1 of 1 runs"),
    ],
    ids=["dead", "zero", "saturated", "flips", "gap", "infinite"],
)
def test_each_symptom_has_its_sentence(tmp_path, change, start):
    (sentence,) = said(tmp_path, lambda row: row.update(change), on_nonfinite="continue")
    assert sentence.startswith(start)


def test_norms_that_explode_or_grow(tmp_path):
    found = said(tmp_path, lambda row: row.update({"grad_norm/total": 1e3 if row["step"] == 20 else 1.0}))
    assert found == [
        "exploding gradient norm in 1 of 1 runs: up to 1e+03 times its median",
        "the gradient norm grew 1e+03-fold from the start to the end of training",
    ]


def test_parameters_that_never_trained_and_lost_steps(tmp_path):
    (sentence,) = said(tmp_path, never_trained=("a.weight", "a.bias"))
    assert sentence == "never trained in 1 of 1 runs: a.weight, a.bias"


def test_outputs_of_a_continuous_op_are_no_decisions(tmp_path):
    (sentence,) = said(tmp_path, lambda row: row.update({"op/blocks.0/flip_rate": 1.0}))
    assert sentence.startswith("nothing stands out")


def test_nothing_can_be_said_of_an_empty_log(tmp_path):
    run = read_run(write_run(tmp_path / "run"))
    (run.path / "metrics.jsonl").write_text("")
    found = symptoms(run, read_curves(run))
    assert (found.peak, found.growth, found.gap) == (None, None, None)
    assert not math.isnan(found.non_finite)
