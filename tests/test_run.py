"""One run: its files, numbers, tags and status; what trains under which strategy; how it fails."""

import copy
import itertools
import math
import pickle
import re
from dataclasses import replace

import pytest
import torch
import yaml
from omegaconf import OmegaConf

import experiments
from experiments.config.choices import choose
from experiments.config.config_hash import config_hash
from experiments.training.build import build_model
from experiments.training.record import Record
from experiments.training.trainer import Trainer
from run_contents import last, same
from runs import CONF, ROOT, SHORT, command, compose, lines, only_run, process, read, train, tree
from surrogates import EmptyCell, hard_layers, key_noise

COMPONENTS = sorted(path.stem for path in (CONF / "component").iterdir())
STRATEGIES = sorted(path.stem for path in (CONF / "strategy").iterdir())
EMPTY = {  # for components with a hard op: the words, and the strategies whose domain they lie outside
    "declares no reading 'rewrite' (surrogates/ops/sign.py)": {("binary", "rewrite")},
    "picks one of several categories": {
        (component, strategy)
        for component in ("quantized_activation", "quantized_weight", "floor", "hard_max")
        for strategy in ("gumbel_rao", "zgr", "reinmax")
    },
    "needs values on a grid": {
        (component, strategy)
        for component in ("binary", "hard_gate", "hard_max")
        for strategy in ("dither", "proximal")
    },
}
# Parameters that only reach the loss through an op with derivative 0.
DEAD = {
    "quantized_activation": r"blocks\..*",
    "floor": r"blocks\..*",
    "binary": r"blocks\..*",
    "hard_gate": r"blocks\.\d\.logits\..*",
    "learned_threshold": r"blocks\.\d\.component\.threshold",
    "lookup": r"blocks\.0\..*|blocks\.1\.values\..*",  # behind the last lookup its table is reached
    "quantized_weight": r"blocks\.\d\.values\..*weight.*",
    "spike": r"blocks\..*",
    "vector_quantizer": r"blocks\.0\..*|blocks\.1\.values\..*",  # and so are the last one's codes
}
FLAT = {*DEAD, "k_winners"}  # whose op has a derivative of 0; past the mask of k_winners its values are reached


def pairs():
    """Every component under every strategy but subgradient; in the quick part each component and each strategy once."""
    for component, strategy in itertools.product(COMPONENTS, STRATEGIES):
        if strategy != "subgradient":
            marks = [] if strategy == "ste" or component == "quantized_activation" else pytest.mark.slow
            yield pytest.param(component, strategy, marks=marks)


def model_of(component):
    """Options of a small model that can hold the component."""
    return ("model=cnn" if component == "hard_max_pool" else "model=mlp", "model.width=8")


def initial(*overrides):
    """The parameters before the first step."""
    return build_model(choose(compose(*overrides))).state_dict()


STOCHASTIC = ("component=quantized_activation", "strategy=rewrite", "model.batch_norm=true", "optimizer.clip_norm=0.5")
LOOK = ("max_steps=7", "log_every=2", "eval_every=3", "model.width=8")


@pytest.mark.slow
def test_equal_runs_are_equal_as_whole_files_in_two_processes_and_after_another_job(tmp_path, shared):
    folder = shared(*STOCHASTIC, *LOOK)
    assert process(*STOCHASTIC, *LOOK, cwd=tmp_path).code == 0
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    assert command("-m", "strategy=smooth,rewrite", *STOCHASTIC[:1], *STOCHASTIC[2:], *LOOK, cwd=sweep).code == 0
    others = [only_run(tmp_path / "runs"), *(path.parent for path in sweep.rglob("rewrite/**/status.json"))]
    assert len(others) == 2
    for other in others:
        for name in ("metrics.jsonl", "result.json", "test_outcomes.json"):
            assert (folder / name).read_bytes() == (other / name).read_bytes()
        assert same(last(folder), last(other))


def test_all_files_of_the_design_are_there_and_valid(tmp_path):
    arguments = ("strategy=smooth", "optimizer.lr=0.05", *LOOK)
    assert command(*arguments, "hydra.run.dir=run", cwd=tmp_path).code == 0
    folder = tmp_path / "run"
    names = set(tree(folder))
    (events,) = {name for name in names if name.startswith("events.out.tfevents.")}
    assert names - {events} == {
        "config.yaml",
        ".hydra/config.yaml",
        ".hydra/overrides.yaml",
        ".hydra/hydra.yaml",
        "status.json",
        "env.json",
        "metrics.jsonl",
        "result.json",
        "test_outcomes.json",
        "train.log",
        "checkpoints/last.pt",
        "checkpoints/best.pt",
        ".lock",
    }
    plain = yaml.safe_load((folder / "config.yaml").read_text())
    assert plain == choose(compose(*arguments)).plain
    assert yaml.safe_load((folder / ".hydra/overrides.yaml").read_text()) == list(arguments)
    assert OmegaConf.load(folder / ".hydra/config.yaml").optimizer.lr == 0.05
    assert OmegaConf.load(folder / ".hydra/hydra.yaml").hydra.job.name == "train"
    status = read(folder / "status.json")
    assert list(status) == ["status", "config_hash", "started", "ended", "seconds", "error", "sha256"]
    sealed = ["config.yaml", "env.json", "metrics.jsonl", "result.json", "test_outcomes.json", "status.json"]
    assert list(status["sha256"]) == sealed
    assert (status["status"], status["error"]) == ("DONE", None)
    assert status["started"] < status["ended"]
    env = read(folder / "env.json")
    assert env["argv"] == ["train.py", *arguments, "hydra.run.dir=run"]
    assert {name: len(digest) for name, digest in env["data_hashes"].items()} == {"train": 64, "val": 64, "test": 64}
    assert (env["threads"], env["device"]) == (1, "cpu")
    result = read(folder / "result.json")
    assert {"metrics", "best", "config_hash", "engine", "never_trained", "zero_gradient"} <= set(result)
    assert result["config_hash"] == status["config_hash"] == config_hash(plain)
    assert (result["engine"], result["never_trained"], result["zero_gradient"]) == ("single", [], [])
    for name in ("last.pt", "best.pt"):
        assert isinstance(torch.load(folder / "checkpoints" / name, weights_only=True), dict)


def test_every_tag_of_the_design_at_its_steps(shared):
    records = {record.pop("step"): record for record in lines(shared(*STOCHASTIC, *LOOK))}
    layers = [f"op/blocks.{i}.component.quantize/" for i in (0, 1)]
    names = initial(*STOCHASTIC, *LOOK)
    parameters = [name for name in names if "running" not in name and "tracked" not in name]
    trained = {"loss/train", "grad_norm/total", "clip_fraction", "lr"}
    trained |= {f"grad_norm/{name}" for name in parameters}
    trained |= {layer + tag for layer in layers for tag in ("grad_in_norm", "grad_out_norm", "grad_ratio")}
    trained |= {
        layer + tag for layer in layers for tag in ("zero_gradient_fraction", "saturated_fraction", "effective_slope")
    }
    scored = {"loss/val", "accuracy/val", "loss/val_soft", "accuracy/val_soft"}
    scored |= {layer + "soft_hard_gap" for layer in layers}
    flips = {layer + "flip_rate" for layer in layers}
    final = {"loss/train_end", "accuracy/train_end", "accuracy/test"}
    final |= {"accuracy/val_recalibrated", "accuracy/test_recalibrated"}
    assert {step: set(record) for step, record in records.items()} == {
        1: trained,
        2: trained,
        3: scored,
        4: trained,
        6: trained | scored | flips,
        7: trained | scored | flips | final,
    }
    result = read(shared(*STOCHASTIC, *LOOK) / "result.json")
    assert result["metrics"] == {tag: value for step in sorted(records) for tag, value in records[step].items()}
    assert all(isinstance(value, float) for record in records.values() for value in record.values())


def test_the_temperature_is_logged_where_there_is_one(shared):
    smooth = lines(shared("strategy=smooth", *LOOK))
    logged = [record["temperature"] for record in smooth if "temperature" in record]
    assert logged == pytest.approx([0.1 ** ((step - 1) / 6) for step in (1, 2, 4, 6, 7)])
    assert not any("temperature" in record for record in lines(shared(*STOCHASTIC, *LOOK)))


def test_best_is_the_step_with_the_highest_validation_accuracy(shared):
    folder = shared("max_steps=30", "eval_every=3", "model.width=8", "optimizer.lr=0.5")
    scores = {r["step"]: r["accuracy/val"] for r in lines(folder) if "accuracy/val" in r}
    best = read(folder / "result.json")["best"]
    assert best["step"] == max(scores, key=scores.get)  # the first of equal ones
    assert best["accuracy/val"] == max(scores.values())
    assert len(set(scores.values())) > 3
    saved = torch.load(folder / "checkpoints/best.pt")
    assert saved["step"] == best["step"]


def test_looking_changes_nothing(shared):
    """However often a run logs and evaluates, it trains the same: also its batch-norm statistics."""
    own = ("component=quantized_activation", "strategy=rewrite", "model.batch_norm=true", "max_steps=12")
    often = shared(*own, "model.width=8", "log_every=1", "eval_every=1")
    seldom = shared(*own, "model.width=8", "log_every=12", "eval_every=12")
    assert same(last(often)["model"], last(seldom)["model"])
    assert same(last(often)["optimizer"], last(seldom)["optimizer"])
    assert last(often)["model"]["blocks.0.values_norm.num_batches_tracked"] == 12
    assert lines(often)[-1]["accuracy/test"] == lines(seldom)[-1]["accuracy/test"]


def test_hard_and_soft_scores_are_both_logged_and_the_gap_is_said(tmp_path):
    """C10. A smooth run at T = 1: the hard score ranks, the soft one stands beside it."""
    arguments = ("strategy=smooth", "component.bits=1", "strategy.schedule=constant", "max_steps=40", "model.width=16")
    answer = command(*arguments, "hydra.run.dir=run", cwd=tmp_path)
    result = read(tmp_path / "run/result.json")
    soft, hard = (result["metrics"][f"accuracy/val{suffix}"] for suffix in ("_soft", ""))
    assert result["metrics"]["loss/val"] != result["metrics"]["loss/val_soft"]
    assert abs(soft - hard) > 0.02
    assert f"soft accuracy  {soft:.4f} validation (soft - hard: {soft - hard:+.4f})" in answer.out
    assert "accuracy/val" in result["best"]
    ste = command("strategy=ste", "max_steps=2", "hydra.run.dir=ste", cwd=tmp_path)
    assert "soft" not in ste.out
    assert not any("soft" in tag for tag in read(tmp_path / "ste/result.json")["metrics"])


def test_batch_norm_is_recalibrated_for_the_hard_op_and_both_scores_are_said(tmp_path):
    arguments = ("strategy=smooth", "strategy.schedule=constant", "strategy.temperature=3", "model.batch_norm=true")
    answer = command(*arguments, "max_steps=60", "model.width=16", "hydra.run.dir=run", cwd=tmp_path)
    metrics = read(tmp_path / "run/result.json")["metrics"]
    assert metrics["accuracy/val_recalibrated"] > metrics["accuracy/val"]
    assert f"{metrics['accuracy/val_recalibrated']:.4f} validation" in answer.out
    assert f"hard accuracy                 {metrics['accuracy/val']:.4f} validation" in answer.out
    hard = read(train(tmp_path / "hard", *SHORT, "model.batch_norm=true").folder / "result.json")["metrics"]
    assert "accuracy/val_recalibrated" not in hard


def readable(name):
    return name.replace("parametrizations.", "").removesuffix(".original")


@pytest.mark.parametrize("component", COMPONENTS)
def test_subgradient_reaches_what_it_can_and_names_what_it_cannot(tmp_path, component):
    own = (f"component={component}", "strategy=subgradient", *model_of(component), "max_steps=5", "log_every=1")
    folder = train(tmp_path, *own).folder
    result, records, start = read(folder / "result.json"), lines(folder), initial(*own)
    moved = last(folder)["model"]
    dead = [name for name in start if re.fullmatch(DEAD.get(component, "none"), name)]
    assert bool(dead) is (component in DEAD)
    assert sorted(result["zero_gradient"]) == sorted(map(readable, dead))
    assert result["never_trained"] == []
    for name, value in start.items():
        norms = [record[f"grad_norm/{readable(name)}"] for record in records]
        assert all(norm == 0.0 for norm in norms) if name in dead else any(norm > 0 for norm in norms)
        if not name.endswith("codes"):  # laid into the first batch, whatever their gradient
            assert torch.equal(value, moved[name]) is (name in dead)
    tags = [tag for tag in records[0] if tag.endswith("/zero_gradient_fraction")]
    assert len(tags) == len(hard_layers(experiments.load(folder)))
    for tag in tags:
        assert ([record[tag] for record in records] == [1.0] * 5) is (component in FLAT)


@pytest.mark.slow
def test_what_never_trains_is_in_the_closing_words(tmp_path):
    own = ("component=hard_gate", "strategy=subgradient", *SHORT)
    answer = command(*own, cwd=tmp_path)
    words = " ".join(answer.out.split())
    names = "blocks.0.logits.bias, blocks.0.logits.weight, blocks.1.logits.bias, blocks.1.logits.weight"
    assert f"never trained gradient exactly 0 at every logged step: {names}" in words
    assert "0 blocks.0.logits.weight" in words
    sweep = command("-m", *own, "seed=0,1", cwd=tmp_path)
    assert sweep.out.count("; 4 parameters never trained") == 2


def test_a_learned_step_trains_under_subgradient(tmp_path):
    """Its derivative does not lead through the round; that of an earlier layer's step does, through the next one's."""
    own = ("component.range=learned_step", "strategy=subgradient", "max_steps=5", "log_every=1", "model.width=8")
    result = train(tmp_path, *own).result
    assert all(record["grad_norm/blocks.1.component.step"] > 0 for record in lines(tmp_path))
    others = [name for name in initial(*own) if name.startswith("blocks.") and name != "blocks.1.component.step"]
    assert sorted(result["zero_gradient"]) == sorted(others)
    trainer, first = last(tmp_path), tmp_path / "one"
    train(first, *own[:2], "max_steps=1", *own[4:])
    assert trainer["model"]["blocks.1.component.step"] != last(first)["model"]["blocks.1.component.step"]


def test_a_learned_clip_has_no_way_but_through_the_quantizer(tmp_path):
    own = ("component.range=learned_clip", "strategy=subgradient", *SHORT)
    assert {f"blocks.{i}.component.clip" for i in (0, 1)} <= set(train(tmp_path, *own).result["zero_gradient"])


@pytest.mark.slow
@pytest.mark.parametrize(("component", "strategy"), list(pairs()))
def test_everything_trains_under_the_other_strategies(tmp_path, component, strategy):
    own = (f"component={component}", f"strategy={strategy}", *model_of(component), "max_steps=5", "log_every=1")
    outcome = train(tmp_path, *own)
    reason = empty(*own)
    if reason is not None:
        assert (outcome.status, outcome.reason) == ("NOT_APPLICABLE", reason)
        assert read(tmp_path / "status.json")["error"] == reason
        assert set(tree(tmp_path)) == {"status.json", "config.yaml", ".lock"}
        return
    assert (outcome.result["zero_gradient"], outcome.result["never_trained"]) == ([], [])
    moved, start = last(tmp_path)["model"], initial(*own)
    assert [name for name in start if name.endswith(("weight", "bias")) and torch.equal(start[name], moved[name])] == []


def empty(*overrides):
    """Why a cell is empty, None if it is not."""
    try:
        build_model(choose(compose(*overrides)))
    except EmptyCell as error:
        return str(error)
    return None


@pytest.mark.slow
def test_the_product_has_the_cells_that_it_should():
    found = {
        (component, strategy): empty(f"component={component}", f"strategy={strategy}", *model_of(component))
        for component in COMPONENTS
        for strategy in STRATEGIES
    }
    for words, cells in EMPTY.items():
        assert all(words in found[cell] for cell in cells)
    hard = {component for cells in EMPTY.values() for component, _ in cells}
    stated = {cell for cells in EMPTY.values() for cell in cells}
    for component in hard | {"relu", "identity"}:
        for strategy in STRATEGIES:
            assert (found[component, strategy] is None) == ((component, strategy) not in stated), (component, strategy)
    assert len(COMPONENTS) >= 8
    assert {"subgradient", "ste", "smooth", "rewrite"} <= set(STRATEGIES)
    assert set(DEAD) <= set(COMPONENTS)


def test_pooling_is_not_applicable_to_an_mlp(tmp_path):
    outcome = train(tmp_path, "component=hard_max_pool", "model=mlp")
    assert outcome.status == read(tmp_path / "status.json")["status"] == "NOT_APPLICABLE"
    assert "use model=cnn" in outcome.reason
    again = train(tmp_path, "component=hard_max_pool", "model=mlp")
    assert (again.status, again.reason) == (outcome.status, outcome.reason)


@pytest.mark.parametrize("size", [77, 539])
def test_a_last_batch_of_one_is_merged_said_once_and_trains(tmp_path, capsys, size):
    """J04, the part of the run: 1079 samples leave one over; batch norm takes every batch of three epochs."""
    batches = 1079 // size
    outcome = train(
        tmp_path, f"batch_size={size}", "model.batch_norm=true", f"max_steps={3 * batches}", "model.width=8"
    )
    assert outcome.status == "DONE"
    assert capsys.readouterr().out.count(f"has {size + 1} samples") == 1
    assert last(tmp_path)["model"]["blocks.0.values_norm.num_batches_tracked"] == 3 * batches


def test_more_samples_in_a_batch_than_there_are(tmp_path):
    """J05, the part of the run: refused with both numbers before training; the whole part in one batch is fine."""
    with pytest.raises(ValueError, match=r"batch_size=1080 .* 1079 samples"):
        train(tmp_path / "run", "batch_size=1080")
    assert not (tmp_path / "run").exists()
    assert train(tmp_path / "run", "batch_size=1079", *SHORT).status == "DONE"


@pytest.mark.parametrize("rate", ["1e8", "1e15"])
def test_a_run_that_diverges_stops_and_says_where(tmp_path, rate):
    own = ("component=relu", f"optimizer.lr={rate}", "max_steps=50", "log_every=5")
    outcome = train(tmp_path, *own)
    status = read(tmp_path / "status.json")
    assert (outcome.status, outcome.result, status["status"]) == ("FAILED", None, "FAILED")
    assert outcome.reason == status["error"]
    assert re.search(r"training diverged by step 5; the loss is nan from step [23] on; ", outcome.reason)
    assert "parameter blocks.0.values.weight is not finite (layer blocks.0.values)" in outcome.reason
    assert "the first layer whose output is not finite is blocks.0.values" in outcome.reason
    assert lines(tmp_path)[-1]["step"] == 5
    assert lines(tmp_path)[-1]["loss/train"] == "NaN"
    assert not (tmp_path / "result.json").exists()


def test_numbers_that_are_huge_and_bounded_activations_count_as_diverged(tmp_path):
    outcome = train(tmp_path, "component=quantized_activation", "optimizer.lr=1e30", *SHORT)
    assert outcome.status == "FAILED"
    assert re.search(r"by step 1; parameter blocks\.0\.values\.weight has norm .*e\+29 \(layer blocks", outcome.reason)


def test_a_diverged_run_is_skipped_or_continued_by_policy(tmp_path):
    own = ("component=relu", "optimizer.lr=1e30", "max_steps=6", "log_every=1", "model.width=8")
    answer = command(*own, "on_nonfinite=skip", "hydra.run.dir=skip", cwd=tmp_path)
    assert answer.code == 0
    result = read(tmp_path / "skip/result.json")
    assert result["skipped_steps"] == 5
    assert "skipped        5 optimizer steps, whose gradient was not finite" in answer.out
    assert all(torch.isfinite(value).all() for value in last(tmp_path / "skip")["model"].values())
    assert command(*own, "on_nonfinite=continue", "hydra.run.dir=continue", cwd=tmp_path).code == 0
    assert read(tmp_path / "continue/result.json")["metrics"]["loss/train"] == "NaN"
    assert not torch.isfinite(last(tmp_path / "continue")["model"]["readout.weight"]).all()


def test_one_bad_step_is_skipped_and_the_rest_is_as_without_it(tmp_path, monkeypatch):
    """The step leaves weights and momentum alone; the later steps use their own batches."""
    poison(monkeypatch, 3, "gradient")
    own = ("on_nonfinite=skip", "log_every=1", "model.width=8", "max_steps=3", "eval_every=3")
    outcome = train(tmp_path / "a", *own)
    assert outcome.result["skipped_steps"] == 1
    assert math.isnan(outcome.result["metrics"]["grad_norm/blocks.1.values.bias"])
    two = train(tmp_path / "b", *own[:3], "max_steps=2", "eval_every=2")
    assert two.status == "DONE"
    assert same(last(tmp_path / "a")["model"], last(tmp_path / "b")["model"])


def poison(monkeypatch, step, what, name="blocks.1.values.bias"):
    """Makes one parameter, or its gradient, NaN in one step."""
    advance = Trainer.advance

    def poisoned(self):
        parameter = self.parameters[name]
        if self.step + 1 != step:
            return advance(self)
        if what == "weight":
            parameter.data[0] = math.nan
            return advance(self)
        handle = parameter.register_hook(lambda gradient: gradient * math.nan)
        try:
            return advance(self)
        finally:
            handle.remove()

    monkeypatch.setattr(Trainer, "advance", poisoned)


@pytest.mark.parametrize("component", ["binary", "quantized_activation", "hard_gate", "floor", "hard_max", "relu"])
@pytest.mark.parametrize("strategy", ["subgradient", "smooth"])
def test_a_nan_in_the_weights_cannot_hide_behind_a_hard_op(tmp_path, monkeypatch, component, strategy):
    """A comparison maps NaN to a number; the run looks at the weights themselves."""
    poison(monkeypatch, 4, "weight")
    own = (f"component={component}", f"strategy={strategy}", "max_steps=50", "log_every=5", "model.width=8")
    outcome = train(tmp_path, *own)
    assert outcome.status == "FAILED"
    assert "by step 5; the loss is nan from step 4 on" in outcome.reason
    assert "is not finite (layer blocks." in outcome.reason or "is not finite (layer readout)" in outcome.reason


def test_a_nan_that_the_loss_does_not_show_is_found_too(tmp_path, monkeypatch):
    """Everything downstream of the NaN is masked: only the parameter itself tells."""
    from surrogates.layers.binary import Binary

    forward = Binary.forward
    monkeypatch.setattr(Binary, "forward", lambda self, x: forward(self, torch.nan_to_num(x)))
    poison(monkeypatch, 4, "weight")
    own = ("component=binary", "strategy=subgradient", "max_steps=50", "log_every=5", "model.width=8")
    outcome = train(tmp_path, *own)
    assert outcome.status == "FAILED"
    words = "parameter blocks.1.values.bias is not finite (layer blocks.1.values)"
    assert f"training diverged by step 5; {words}" in outcome.reason
    assert "first layer whose output is not finite is blocks.1.values" in outcome.reason


def test_a_fault_in_the_code_is_a_failed_run_with_its_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(Record, "write", lambda self, step, values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, *SHORT)
    status = read(tmp_path / "status.json")
    assert status["status"] == "FAILED"
    assert status["error"].rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("precision", ["float64", "bfloat16", "float16"])
def test_other_precisions_train(tmp_path, precision):
    own = (f"precision={precision}", "component=hard_gate", "strategy=smooth", "max_steps=30", "eval_every=30")
    outcome = train(tmp_path, *own)
    assert outcome.status == "DONE"
    assert outcome.result["metrics"]["accuracy/val"] > 0.7
    dtypes = {value.dtype for name, value in last(tmp_path)["model"].items() if "temperature" not in name}
    assert dtypes == {torch.float64 if precision == "float64" else torch.float32}
    assert ("loss_scale" in outcome.result["metrics"]) is (precision == "float16")


def test_debug_presets_do_what_they_say(tmp_path):
    one = train(tmp_path / "one", "debug=one_batch")
    assert [record["step"] for record in lines(one.folder)] == [1]
    overfit = train(tmp_path / "overfit", "debug=overfit", "max_steps=60", "batch_size=16", "component=relu")
    assert overfit.result["metrics"]["loss/train"] < 0.02
    assert overfit.result["metrics"]["accuracy/val"] < 0.9


@pytest.mark.filterwarnings("ignore:Error detected in BadBackward")
def test_anomaly_detection_names_the_forward_line(tmp_path, monkeypatch):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * math.nan

    from surrogates.layers.relu import Rectifier

    monkeypatch.setattr(Rectifier, "forward", lambda self, x: Bad.apply(x))
    with pytest.raises(RuntimeError, match=r"BadBackward.*returned nan"):
        train(tmp_path / "run", "debug=anomaly", "component=relu")
    assert not torch.is_anomaly_enabled()
    assert train(tmp_path / "other", "component=relu", "log_every=1").status == "FAILED"


@pytest.mark.slow
def test_a_model_in_training_is_copied_and_pickled(tmp_path):
    """I06, the part of the whole model: every component under every strategy."""
    strategies = {name: choose(compose(f"strategy={name}")).strategy for name in STRATEGIES}
    cells = 0
    for component in COMPONENTS:
        base = choose(compose(f"component={component}", *model_of(component)))
        for name, strategy in strategies.items():
            if empty(f"component={component}", f"strategy={name}", *model_of(component)) is not None:
                continue
            model = build_model(replace(base, strategy=strategy))
            x = torch.ones(2, 1, 8, 8)
            copies = [copy.deepcopy(model)]
            if component != "quantized_weight":  # torch refuses to pickle a parametrized module
                copies.append(pickle.loads(pickle.dumps(model)))
            for copied in copies:
                key_noise(copied, 0, 1)
                key_noise(model, 0, 1)
                assert torch.equal(copied.train()(x), model.train()(x))
                assert torch.equal(copied.eval()(x), model.eval()(x))
            cells += 1
    assert cells >= 5 * len(COMPONENTS)


def test_what_may_vary_is_in_the_environment(shared):
    """I07. Threads and device, on which sums depend, are recorded, and the threads are part of the hash."""
    env = read(shared(*STOCHASTIC, *LOOK) / "env.json")
    assert {"threads", "device", "cpu", "versions", "platform"} <= set(env)
    plain = choose(compose()).plain
    assert config_hash(plain) != config_hash({**plain, "threads": 2})


def test_the_loss_of_an_interval_weighs_samples(tmp_path):
    """H11. A short last batch counts for less: batch means 1 over 8 samples and 9 over 1 are 17/9."""
    from experiments.measuring.log_window import LogWindow

    window = LogWindow("cpu")
    for mean, size in ((1.0, 8), (9.0, 1)):
        window.add(torch.tensor(mean), size)
    ((losses, clipped, others),) = window.read([torch.tensor([2.5])])
    assert window.mean(losses) == pytest.approx(17 / 9)
    assert (clipped, others) == (0.0, [2.5])
    still = ("optimizer.lr=1e-12", "model.width=8", "max_steps=2")
    first, second = lines(train(tmp_path / "apart", *still, "batch_size=1000", "log_every=1").folder)
    both = lines(train(tmp_path / "together", *still[:2], "batch_size=1079", "max_steps=1").folder)[0]
    mean = (1000 * first["loss/train"] + 79 * second["loss/train"]) / 1079
    assert both["loss/train"] == pytest.approx(mean, rel=1e-6)
    assert mean != pytest.approx((first["loss/train"] + second["loss/train"]) / 2, rel=1e-4)


def test_the_run_needs_no_hydra_of_its_own(tmp_path):
    """A configuration made by hand, as a notebook would."""
    plain = choose(compose(*SHORT)).plain
    from experiments.training.run import Request, run

    outcome = run(Request(OmegaConf.create(plain), tmp_path / "run"))
    assert outcome.status == "DONE"
    assert set(tree(outcome.folder)) >= {"result.json", "config.yaml"}
    assert not (outcome.folder / ".hydra").exists()


def test_importing_experiments_is_cheap():
    """`import experiments` alone needs neither torch nor hydra."""
    code = "import sys, experiments; print(sorted({'torch', 'hydra', 'tensorboard'} & set(sys.modules)))"
    assert process(cwd=ROOT, program=("-c", code)).out.strip() == "[]"
