"""Runs sorted into blocks, variants, trials and pairs: which keys part them, and in which order they come."""

from pathlib import Path

import pytest

pytest.importorskip("scipy")

from experiments.compare.statistics.blocks import TUNED, blocks
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.pairing import samples
from run_folders import record


def sort(*runs, tuned=TUNED):
    """The blocks of these runs, and what was noted."""
    said = []
    return blocks(runs, tuned, said), said


def names(*runs):
    return [block.name for block in sort(*runs)[0]]


def test_a_block_is_named_by_component_model_data_and_other_optimizers():
    adam, cnn = record(options={"optimizer": "adam"}), record(options={"model": "cnn"})
    assert names(record(), adam, cnn) == ["floor, cnn, digits", "floor, mlp, digits", "floor, mlp, digits, adam"]
    assert [block.component for block in sort(adam)[0]] == ["floor"]


def test_a_key_makes_blocks_where_it_varies_within_a_strategy():
    """And not where it goes with the strategy, or with the component, or is one of the tuned keys."""
    bits = [record(strategy, config={"component.bits": n}) for strategy in ("ste", "smooth") for n in (2, 4)]
    assert names(*bits) == ["floor, mlp, digits, component.bits=2", "floor, mlp, digits, component.bits=4"]
    assert names(record(config={"batch_size": 32}), record("smooth", config={"batch_size": 64})) == [
        "floor, mlp, digits"
    ]
    other = {"component": "binary"}
    assert names(record(config={"a": 1}), record(config={"a": 2}, options=other)) == [
        "binary, mlp, digits",
        "floor, mlp, digits",
    ]
    assert names(*(record(seed=i, config={"optimizer.lr": i}) for i in range(2))) == ["floor, mlp, digits"]
    assert names(record(config={"a": 1}), record(seed=1)) == ["floor, mlp, digits", "floor, mlp, digits, a=1"]
    after = [record(seed=i, config={"optimizer.lr": 1, "a": i}) for i in range(2)]
    assert names(*after) == ["floor, mlp, digits, a=0", "floor, mlp, digits, a=1"]


@pytest.mark.parametrize(
    "key", ["threads", "device", "log_every", "detect_anomaly", "workers", "engine", "data.root", "data.download"]
)
def test_keys_that_say_how_a_run_was_made_make_no_block(key):
    assert names(record(config={key: 1}), record(seed=1, config={key: 2})) == ["floor, mlp, digits"]


def test_pairs_that_do_not_exist_are_listed_where_their_component_is():
    missing = {"outcome": "n/a", "reason": "no rewrite"}
    other = record(options={"component": "binary"})
    found, _ = sort(record(), other, record("rewrite", **missing), record("ste", seed=9, **missing))
    assert [(block.component, block.absent) for block in found] == [
        ("binary", {}),
        ("floor", {"rewrite": "no rewrite"}),
    ]


def test_variants_come_in_the_order_of_the_program_and_then_of_their_options():
    runs = [record("ste", config={"strategy.carrier": c, "strategy.temperature": 1.0}) for c in ("identity", "clipped")]
    (block,), _ = sort(*runs, record("smooth"), record("subgradient"))
    assert [(v.strategy, v.name) for v in block.variants] == [
        ("subgradient", "subgradient"),
        ("ste", "ste (carrier=clipped)"),
        ("ste", "ste (carrier=identity)"),
        ("smooth", "smooth"),
    ]
    two = [record(config={"strategy.a": a, "strategy.b": b}) for a, b in ((1, 1), (2, 2))]
    assert [v.name for v in sort(*two)[0][0].variants] == ["ste (a=1, b=1)", "ste (a=2, b=2)"]


def test_a_variant_has_one_name_in_all_blocks():
    """The carrier varies for `floor` only, so that it is in the name for `hard_max` too; the form varies nowhere."""
    config = {"strategy.form": None, "strategy.carrier": "own"}
    runs = [record("ste", config={**config, "strategy.carrier": carrier}) for carrier in ("own", "identity")]
    other = {"strategy.form": "rotation", "strategy.carrier": "own"}
    found, _ = sort(*runs, record("ste", options={"component": "hard_max"}, config=other))
    assert [[v.name for v in block.variants] for block in found] == [
        ["ste (carrier=identity)", "ste (carrier=own)"],
        ["ste (carrier=own)"],
    ]


def test_trials_are_ordered_as_numbers_and_before_texts_and_have_only_values_that_are_set():
    values = (10, 0.5, 1e-05, "auto", 2)
    runs = [record(seed=i, config={"optimizer.lr": v, "strategy.temperature": None}) for i, v in enumerate(values)]
    (block,), _ = sort(*runs)
    (variant,) = block.variants
    assert [trial.values for trial in variant.trials] == [{"optimizer.lr": v} for v in (1e-05, 0.5, 2, 10, "auto")]
    assert [sorted(trial.runs) for trial in variant.trials] == [[2], [1], [4], [0], [3]]
    assert len(variant.runs) == 5
    texts = [record(seed=i, config={"optimizer.lr": value}) for i, value in enumerate(("b", "c", "a"))]
    assert [trial.values["optimizer.lr"] for trial in sort(*texts)[0][0].variants[0].trials] == ["a", "b", "c"]


def test_a_run_that_repeats_a_setting_and_seed_is_left_out_and_said():
    first, again = record(), record(path=Path("again"))
    (block,), said = sort(first, again)
    assert block.variants[0].runs == [first]
    assert said == ["skipped again: another run has the same setting and seed 0"]


def test_what_differs_between_variants_is_listed_by_variant():
    """All values of each, and of keys that change no result or belong to the strategy none."""
    left_out = {"workers": 1, "data.root": "a", "strategy.kernel": "b", "optimizer.lr": 1.0}
    runs = [
        record("ste", 0, config={"batch_size": 32, **left_out}),
        record("ste", 1, options={"component": "binary"}),
        record("smooth", 0, config={"batch_size": 64}),
        record("smooth", 1, config={"batch_size": 64}),
    ]
    binary, floor = sort(*runs)[0]
    assert floor.differing == {"batch_size": {"smooth": "64", "ste": "32"}}
    assert binary.differing == {}
    threads = [record("ste", i, config={"threads": n}) for i, n in enumerate((2, 1))]
    assert sort(*threads)[0][0].differing == {"threads": {"ste": "1, 2"}}


TEST = Metric()


def test_scores_are_paired_in_the_order_of_the_seeds():
    a = [record(seed=seed, accuracy=seed / 10) for seed in (2, 0, 1)]
    b = [record("smooth", seed, seed / 10 + 0.5) for seed in (1, 2, 0)]
    found = samples(a, b, TEST)
    assert (found.a, found.b) == ([0.0, 0.1, 0.2], [0.5, 0.6, 0.7])
    assert found.paired
    assert found.circumstances == []


def test_runs_without_a_score_are_in_no_pair():
    a, b = [record(seed=0), record(seed=1)], [record("smooth", 0), record("smooth", 1, accuracy=None)]
    found = samples(a, b, TEST)
    assert (found.a, found.b, found.unpaired_because) == ([0.5, 0.5], [0.5], "only one of the two has seed 1")
    assert not found.paired
    assert samples(a, [*b, record("smooth", 2)], TEST).unpaired_because == "only one of the two has seeds 1, 2"
    many = [record("smooth", seed) for seed in range(8)]
    assert samples(a[:1], many[:7], TEST).unpaired_because == "only one of the two has seeds 1, 2, 3, 4, 5, 6"
    assert samples(a[:1], many, TEST).unpaired_because == "only one of the two has seeds 1, 2, 3, 4, 5, 6, ..."


def test_conditions_that_differ_unpair_and_are_named_with_the_first_seed():
    """Only those that both record; six at most, in the order of their names."""
    a = [record(seed=seed, conditions={"engine": "single", "device": "cpu", "alone": 1}) for seed in (0, 1)]
    b = [
        record("smooth", seed, conditions={"engine": engine, "device": "cpu"})
        for seed, engine in ((0, "single"), (1, "x"))
    ]
    assert samples(a, b, TEST).unpaired_because == "engine differs (single and x for seed 1)"
    assert samples(a, [*b[:1], record("smooth", 1)], TEST).paired
    mine = {f"k{i}": "x" * 20 for i in range(8)}
    theirs = {f"k{i}": "y" * 21 for i in range(8)}
    found = samples([record(conditions=mine)], [record("smooth", conditions=theirs)], TEST).unpaired_because.split("; ")
    assert found == [f"k{i} differs ({'x' * 20} and {'y' * 12}... for seed 0)" for i in range(6)]


def test_circumstances_that_differ_are_named_and_leave_the_pairs():
    known = {"git.commit": "a", "platform": "linux", "cpu.cores": 2}
    a, b = [record(environment=known)], [record("smooth", environment={"git.commit": "b", "cpu.cores": 4})]
    found = samples(a, b, TEST)
    assert found.paired
    assert found.circumstances == ["git.commit differs (a and b for seed 0)"]
