"""The diagnostics in words: each sentence appears where its condition is met, and only there."""

import math

import pytest

pytest.importorskip("scipy")


from experiments.compare.explaining.sentences import sentences
from experiments.compare.explaining.symptoms import Symptoms, symptoms
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import read_run
from experiments.compare.report import make
from run_folders import curves, write_run


def said(tmp_path, change=lambda row: None, deciding=frozenset({"blocks.0"}), **more):
    rows = curves(0.5)
    for row in rows:
        change(row)
    run = read_run(write_run(tmp_path / "run", rows=rows, **more))
    return sentences([symptoms(run, read_curves(run))], deciding)


def test_no_problem_is_found(tmp_path):
    (sentence,) = said(tmp_path)
    assert sentence.startswith("no problem found")


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"op/blocks.0/grad_in_norm": 0.0}, "dead upstream gradient: exactly 0 below blocks.0 at 100 %"),
        ({"op/blocks.0/zero_gradient_fraction": 0.75}, "most inputs get gradient 0: blocks.0 at 75 %"),
        ({"op/blocks.0/saturated_fraction": 0.9}, "saturation: blocks.0 at 90 %"),
        ({"op/blocks.0/flip_rate": 0.2}, "decisions still change: blocks.0 at 20 %"),
        ({"accuracy/val": 0.5, "accuracy/val_soft": 0.6}, "soft-to-hard gap at the end of training: +10.0 points"),
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
        "the gradient norm at the end of training is 1e+03 times that at the start",
    ]


UNHEALTHY = {
    "grad_norm/total": 1e3,
    "op/blocks.0/zero_gradient_fraction": 0.75,
    "op/blocks.0/saturated_fraction": 0.9,
    "accuracy/val": 0.5,
    "accuracy/val_soft": 0.6,
}


@pytest.mark.parametrize(
    ("status", "when"), [("DONE", "at the end of training"), *dict.fromkeys(["RUNNING", "INTERRUPTED"], "").items()]
)
def test_the_end_of_training_is_only_spoken_of_where_all_runs_have_ended(tmp_path, status, when):
    """One of two runs is still running, or was interrupted."""
    rows = [row | (UNHEALTHY if row["step"] == 20 else {}) for row in curves(0.5)]
    runs = [write_run(tmp_path / "0", rows=rows), write_run(tmp_path / "1", seed=1, rows=rows, status=status)]
    read = [read_run(run) for run in runs]
    found = sentences([symptoms(run, read_curves(run)) for run in read], frozenset())
    when = when or "so far (1 of 2 runs unfinished)"
    assert found == [
        f"most inputs get gradient 0: blocks.0 at 75 % of the inputs {when}",
        f"saturation: blocks.0 at 90 % of the inputs lie outside the op's range {when}",
        "exploding gradient norm in 2 of 2 runs: up to 1e+03 times its median",
        f"the gradient norm {when} is 1e+03 times that at the start",
        f"soft-to-hard gap {when}: +10.0 points of validation accuracy (soft - hard)",
    ]


def test_a_run_without_a_logged_step_is_not_called_healthy(tmp_path):
    run = read_run(write_run(tmp_path / "run", rows=[{"step": 1}], status="RUNNING"))
    assert sentences([symptoms(run, read_curves(run))], None) == ["no logged step"]


def test_the_growth_of_the_norm_is_judged_by_medians(tmp_path):
    """One odd step of many, or one odd run of three, is not what the end of training is like."""
    norms = [*[1.0] * 29, 5000.0]
    rows = [{"step": step, "grad_norm/total": norm} for step, norm in enumerate(norms, 1)]
    run = read_run(write_run(tmp_path / "run", rows=rows))
    found = symptoms(run, read_curves(run))
    assert (found.growth, found.peak) == (1.0, 5000.0)
    healthy, odd = Symptoms(growth=2.0), Symptoms(growth=1000.0)
    assert sentences([healthy, healthy, odd], None)[0].startswith("no problem found")
    assert sentences([healthy, odd, odd], None) == [
        "the gradient norm at the end of training is 1e+03 times that at the start"
    ]


def test_parameters_that_never_trained_and_lost_steps(tmp_path):
    (sentence,) = said(tmp_path, never_trained=("a.weight", "a.bias"))
    assert sentence == "never trained in 1 of 1 runs: a.weight, a.bias"


def flips(share):
    return lambda row: row.update({"op/blocks.0/flip_rate": share})


@pytest.mark.parametrize("share", [0.06, 0.5, 0.995, 1.0])
def test_outputs_that_change_are_judged_by_what_the_op_is(tmp_path, share):
    """Not by how many they are: all decisions may flip, and few values of a continuous op may move."""
    (sentence,) = said(tmp_path / "a", flips(share))
    assert sentence.startswith(f"decisions still change: blocks.0 at {100 * share:.0f} % of the hard outputs")
    (sentence,) = said(tmp_path / "b", flips(share), deciding=frozenset())
    assert sentence.startswith("no problem found")
    (sentence,) = said(tmp_path / "c", flips(share), deciding=None)
    assert sentence.startswith(f"outputs still change: blocks.0 at {100 * share:.0f} % between")
    assert "do not record whether the outputs are decisions" in sentence


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({"deciding_layers": ["blocks.0"]}, "decisions still change: blocks.0"),
        ({"deciding_layers": []}, "no problem found"),
        ({}, "outputs still change: blocks.0"),
    ],
    ids=["decides", "does not", "recorded before there were such facts"],
)
def test_the_layers_that_decide_are_those_that_the_runs_record(tmp_path, facts, start):
    rows = curves(0.5)
    for row in rows:
        flips(0.5)(row)
    write_run(tmp_path / "run", rows=rows, facts=facts)
    (sentence,) = make([tmp_path]).sections[0].evidence["ste"].words
    assert sentence.startswith(start)


def test_nothing_can_be_said_of_an_empty_log(tmp_path):
    run = read_run(write_run(tmp_path / "run"))
    (run.path / "metrics.jsonl").write_text("")
    found = symptoms(run, read_curves(run))
    assert (found.peak, found.growth, found.gap) == (None, None, None)
    assert not math.isnan(found.non_finite)


def test_a_variant_without_reported_runs_is_said_to_have_none():
    assert sentences([], None) == ["no run on the reported seeds"]
