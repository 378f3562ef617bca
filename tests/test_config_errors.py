"""Wrong input: one clear message before any work, exit code 2, no trace, and nothing on the disk."""

import json

import pytest
import torch
from omegaconf import OmegaConf

from experiments.config.choices import ConfigError, choose
from experiments.config.config_hash import config_hash
from experiments.config.settings import Settings
from experiments.tracking.run_folder import RunFolder
from runs import SHORT, command, compose, train, tree

WORDS = {
    "an option that does not exist": [
        (
            ["strategy=stee"],
            "strategy has no option 'stee'; did you mean strategy=ste? Options of strategy: dither, gumbel,",
        ),
        (["strategy=floor"], "strategy has no option 'floor'; floor is a component: component=floor. Options of"),
        (["strategy=off"], "strategy has no option 'off'. Options of strategy:"),
        (["component=floors"], "did you mean component=floor?"),
        (["data=cifar100"], "did you mean data=cifar10?"),
        (["experiment=nope"], "experiment has no option 'nope'. Options of experiment:"),
        (["debug=nope"], "Options of debug: anomaly, one_batch, overfit"),
        (["strategy=null"], "Config group override must be a string"),
        (["~strategy"], "strategy is not chosen; choose one with strategy=NAME"),
    ],
    "a key that does not exist": [
        *[([f"{plus}strategy.temprature=1"], "did you mean strategy.temperature?") for plus in ("", "+", "++")],
        *[([f"{plus}sed=1"], "there is no key sed; did you mean seed?") for plus in ("", "+", "++")],
        (["optimiser.lr=1"], "did you mean optimizer.lr?"),
        (["lr=1"], "did you mean optimizer.lr?"),
        (["bits=3"], "did you mean component.bits?"),
        (["componnt=floor"], "did you mean component?"),
        (["zzz=1"], "there is no key zzz; --help lists all keys"),
        (["+strategy.zzz=1"], "choose from: temperature, kernel"),
        (["+a={x:1}"], "there is no key a; choose from: seed"),
        (
            ["component=hard_max", "component.bits=3"],
            "no key component.bits here; these options have it: component=quantized_",
        ),
        (["strategy.rule=left"], "these options have it: strategy=subgradient"),
        (["+component.strategy=1"], "there is no key component.strategy"),
        (["+model.classes=3"], "there is no key model.classes"),
        (["+component._args_=[1]"], "there is no key component._args_"),
        (["strategy={1:2}"], "Could not override 'strategy'"),
    ],
    "a value of another type": [
        (["seed=abc"], "seed must be int, got 'abc'"),
        (["seed=null"], "seed must be int, got None"),
        (["seed=1.5"], "seed must be int, got 1.5"),
        (["seed=true"], "seed must be int, got True"),
        (["seed="], "seed must be int, got ''"),
        (["seed=[1]"], "seed must be int, got [1]"),
        (["seed={a:1}"], "seed must be int, got {'a': 1}"),
        (["seed=${now:%Y}"], "seed must be int, got '2"),
        (["component.bits=1.5"], "component.bits must be int, got 1.5"),
        (["component.bits=true"], "component.bits must be int, got True"),
        (["component.bits=null"], "component.bits must be int, got None"),
        (["strategy.temperature=abc"], "strategy.temperature must be float | null, got 'abc'"),
        (["strategy.temperature=true"], "strategy.temperature must be float | null, got True"),
        (["strategy.temperature=[1]"], "strategy.temperature must be float | null, got [1]"),
        (["optimizer.lr=true"], "optimizer.lr must be float, got True"),
        (["optimizer.lr=null"], "optimizer.lr must be float, got None"),
        (["optimizer.clip_norm=true"], "optimizer.clip_norm must be float | null, got True"),
        (["optimizer.clip_norm=off"], "optimizer.clip_norm must be float | null, got 'off'"),
        (["overwrite=1"], "overwrite must be bool, got 1"),
        (["resume=yes"], "resume must be one of 'auto', 'never', got 'yes'"),
        (["on_nonfinite=ignore"], "on_nonfinite must be one of 'stop', 'skip', 'continue', got 'ignore'"),
        (["precision=float8"], "precision must be one of 'float32', 'float64', 'bfloat16', 'float16', got"),
        (["strategy=smooth", "strategy.kernel=gauss"], "'fast_sigmoid' | null, got 'gauss'"),
        (["optimizer.schedule=step"], "optimizer.schedule must be one of 'constant', 'linear', 'cosine', got"),
        (["data.root=3"], "data.root must be str | null, got 3"),
        (["model.width=8.0"], "model.width must be int, got 8.0"),
        (["optimizer.lr=1" + "0" * 400], "optimizer.lr must be float"),
    ],
    "a number out of range": [
        (["seed=-1"], "seed must be between 0 and 2^63 - 1, got -1"),
        (["strategy.temperature=0"], "strategy.temperature must be a positive, finite number"),
        (["strategy.temperature=nan"], "strategy.temperature must be a number, got nan"),
        (["component.bits=0"], "component.bits must be a whole number between 1 and 16, got 0"),
        (["component=hard_max", "component.k=65"], "component.k=65 is larger than the 64 inputs of a unit"),
        (["optimizer.lr=nan"], "optimizer.lr must be a number, got nan"),
        *[([f"optimizer.clip_norm={x}"], "optimizer.clip_norm must be positive and finite") for x in ("-1", "0")],
        (["model.width=0"], "model.width must be at least 1, got 0"),
        (["batch_size=100000"], "batch_size=100000 is larger than the training part of 1079 samples"),
        (["seed=9223372036854775808"], "seed must be between 0 and 2^63 - 1"),
        (["strategy.temperature=-1"], "strategy.temperature must be a positive, finite number"),
        (["strategy.temperature=inf"], "strategy.temperature must be a positive, finite number"),
        (["strategy=smooth", "strategy.final_temperature=0"], "strategy.final_temperature must be a positive"),
        (["strategy=smooth", "strategy.final_temperature=null"], "strategy.schedule=exponential needs final_temp"),
        (["strategy.width=0", "strategy.carrier=clipped"], "strategy.width must be positive"),
        (["component.bits=17"], "component.bits must be a whole number between 1 and 16, got 17"),
        (["component.low=1", "component.high=0"], "component.low and high must be finite with low < high"),
        (["component=floor", "component.step=0"], "component.step must be positive"),
        (["component=hard_max", "component.k=1"], "component.k must be a whole number of at least 2"),
        (["component=hard_gate", "component.k=0"], "component.k must be a whole number of at least 2"),
        (["component=hard_max_pool", "model=cnn", "component.k=9"], "too small for model.depth=2 with this pooling"),
        (["model=cnn", "model.depth=4"], "too small for model.depth=4"),
        *[([f"optimizer.lr={x}"], f"optimizer.lr must be positive and finite, got {x}") for x in ("0", "-1", "inf")],
        (["optimizer.clip_norm=nan"], "optimizer.clip_norm must be a number, got nan"),
        (["optimizer.weight_decay=-0.1"], "optimizer.weight_decay must be 0 or positive"),
        (["optimizer.momentum=1"], "optimizer.momentum must be at least 0 and below 1"),
        (["optimizer.nesterov=true", "optimizer.momentum=0"], "optimizer.nesterov=true needs a momentum above 0"),
        (["optimizer=adam", "optimizer.beta2=1.0"], "optimizer.beta2 must be at least 0 and below 1"),
        (["optimizer=adamw", "optimizer.eps=0"], "optimizer.eps must be positive"),
        (["optimizer.warmup_steps=-1"], "optimizer.warmup_steps must be 0 or more"),
        (["model.depth=0"], "model.depth must be at least 1, got 0"),
        (["model=cnn", "model.kernel_size=0"], "model.kernel_size must be at least 1"),
        (["model.width=" + "9" * 30], "model.width must be below 2^31"),
        *[([f"{key}=0"], f"{key} must be at least 1, got 0") for key in ("max_steps", "batch_size", "threads")],
        *[([f"{key}=0"], f"{key} must be at least 1, got 0") for key in ("log_every", "eval_every", "overfit_batches")],
        (["threads=100000000000"], "threads must be at most 1024"),
        (["data=fake", "data.size=3"], "error: data set fake: data.size=3 must be at least 4"),
        (["batch_size=1", "model.batch_norm=true"], "batch_size=1 is too small for model.batch_norm=true"),
    ],
    "a value that is missing or does not resolve": [
        (["seed=???"], "seed has no value; give it one on the command line: seed=VALUE"),
        (["optimizer.lr=???"], "optimizer.lr has no value; give it one on the command line: optimizer.lr=VALUE"),
        (["max_steps=${seed}", "seed=???"], "seed has no value"),
        (["data.root=${nope}"], "data.root: Interpolation key 'nope' not found"),
        (["seed=${seed}"], "seed: Recursive interpolation detected"),
        (["seed=${oc.env:HARDGRAD_NO_SUCH_VARIABLE}"], "HARDGRAD_NO_SUCH_VARIABLE"),
        (["seed=${nope:1}"], "seed: Unsupported interpolation type nope"),
    ],
    "what is not there": [
        (["device=nope"], "device=nope cannot be used"),
        (["device=meta"], "device=meta cannot be used"),
        (["device=cuda:99"], "device=cuda:99 cannot be used"),
        (["experiment=nope/nope"], "experiment has no option 'nope/nope'"),
        (["hydra/launcher=nope"], "Could not find 'hydra/launcher/nope'"),
    ],
    "a target of another kind": [
        (["component._target_=os.system"], "component._target_=os.system is no component"),
        (["strategy._target_=subprocess.run"], "strategy._target_=subprocess.run is no strategy"),
        (["data._target_=null"], "data._target_ must name a class as MODULE.CLASS, got None"),
        (["component._target_=surrogates.layers.relu.Nope"], "does not exist"),
        (["component._target_=surrogates.nope.Relu"], "does not exist"),
        (["component._target_=experiments.config.choices.import_module"], "is no component"),
        (["component._target_=surrogates.component.Component"], "is no component"),
        (["component._target_=surrogates.strategies.ste.StraightThrough"], "is no component"),
        (["strategy._target_=surrogates.ops.max.Max"], "is no strategy"),
        (["data._target_=experiments.data.files.obtain"], "is no data"),
        (["strategy._target_=surrogates.strategies.smooth.Smooth"], "there is no key strategy.carrier"),
        (["component._partial_=false"], "component._partial_ must be true"),
        (["++strategy._partial_=true"], "strategy._partial_ must be left out"),
    ],
    "what Hydra's grammar does not take": [
        (["note=a,b"], "Ambiguous value for argument 'note=a,b'"),
        (["note=x=1"], "two pairs of quotes"),
        (["note=a#b"], "two pairs of quotes"),
        (["note=μ"], "two pairs of quotes"),
        (["seed"], "missing EQUAL"),
        (["=3"], "error: "),
        (["seed=1,2"], "To sweep over it, add --multirun"),
        (["hydra.run.dir=null"], "'hydra.run.dir' is not Optional"),
        (["+seed=1"], "An item is already at 'seed'"),
    ],
}
QUICK = 3  # inputs of each kind; the others take a minute
INPUTS = [
    pytest.param(*given, id=" ".join(given[0])[:60], marks=[pytest.mark.slow] if index >= QUICK else [])
    for group in WORDS.values()
    for index, given in enumerate(group)
]


@pytest.mark.parametrize(("arguments", "words"), INPUTS)
def test_it_is_refused_before_any_work(tmp_path, arguments, words):
    answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.err.count("error: ") == 1
    assert answer.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # torchvision takes five seconds to import
@pytest.mark.parametrize("data", ["mnist", "fashion_mnist", "cifar10"])
def test_data_that_is_not_there(tmp_path, data):
    answer = command(f"data={data}", "data.root=nowhere", cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: data set {data}: ")
    assert "nowhere" in answer.err
    assert "data.download=true" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_how_many_there_are():
    assert len(INPUTS) >= 120
    assert all(len(group) >= 5 for group in WORDS.values())


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_run_folder_that_cannot_be_made(tmp_path, where):
    (tmp_path / "file").write_text("mine")
    answer = command(f"hydra.run.dir={where}", *SHORT, cwd=tmp_path)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert "choose another hydra.run.dir" in answer.err
    assert tree(tmp_path) == {"file": b"mine"}


@pytest.mark.slow
def test_a_refused_run_leaves_the_users_own_empty_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "above").mkdir()
    for where in ("mine", "above/new"):
        assert command("batch_size=100000", f"hydra.run.dir={where}", cwd=tmp_path).code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["above", "mine"]
    assert list((tmp_path / "above").iterdir()) == []


@pytest.mark.slow
def test_a_folder_with_files_or_a_run_is_refused_by_name_and_left_as_it_was(tmp_path):
    """The folder holds somebody's files, a finished run, a run of another configuration, a live run."""
    foreign, done = tmp_path / "foreign", tmp_path / "done"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    train(done, *SHORT)
    before = tree(tmp_path)
    own = SHORT
    for arguments, words in [
        (["hydra.run.dir=foreign", *own], "has files (notes.txt, ...) but no run"),
        (["hydra.run.dir=foreign", "overwrite=true", *own], "has files (notes.txt, ...) but no run"),
        (["hydra.run.dir=done", *own], "holds a run that is over (DONE); overwrite=true replaces it"),
        (["hydra.run.dir=done", *own, "seed=1"], "(seed was 0, now 1); overwrite=true"),
        (["hydra.run.dir=done", *own, "strategy=smooth"], "strategy._target_ was"),
        (
            ["hydra.run.dir=done", *own, "optimizer.lr=1", "max_steps=4"],
            "optimizer.lr was 0.1, now 1.0; max_steps was 3",
        ),
        (["hydra.run.dir=done", *own, "component=hard_max_pool"], "component._target_ was"),
    ]:
        answer = command(*arguments, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
        assert words in answer.err
        assert tree(tmp_path) == before
    with RunFolder.claim(tmp_path / "live", "hash", False, False):
        answer = command("hydra.run.dir=live", *own, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert "is in use by a live run" in answer.err
    again = command("hydra.run.dir=done", *own, "seed=1", "overwrite=true", cwd=tmp_path)
    assert again.code == 0
    assert json.loads((done / "status.json").read_text())["status"] == "DONE"


def test_an_empty_cell_never_replaces_a_finished_run(tmp_path):
    own = [*SHORT, "hydra.run.dir=run"]
    assert command(*own, cwd=tmp_path).code == 0
    before = tree(tmp_path)
    assert command(*own, "component=binary", "strategy=rewrite", cwd=tmp_path).code == 2
    assert tree(tmp_path) == before


def test_zero_is_a_seed():
    assert choose(compose("seed=0")).settings.seed == 0
    assert choose(compose("seed=-0")).settings.seed == 0


def test_contradictory_overrides_the_last_one_counts():
    choices = choose(compose("strategy=ste", "strategy=smooth", "seed=1", "seed=2"))
    assert (type(choices.strategy).__name__, choices.settings.seed) == ("Smooth", 2)


def test_one_and_one_point_zero_are_one_run():
    hashes = {config_hash(choose(compose(f"optimizer.lr={value}")).plain) for value in ("1", "1.0", "1e0", "1_0e-1")}
    assert len(hashes) == 1
    assert config_hash(choose(compose("seed=1")).plain) != config_hash(choose(compose("seed=2")).plain)


def test_the_hash_leaves_out_what_changes_no_number():
    plain = choose(compose()).plain
    for override in ("resume=never", "overwrite=true", "data.root=elsewhere", "data.download=true"):
        assert config_hash(choose(compose(override)).plain) == config_hash(plain)
    for override in ("seed=1", "threads=2", "max_steps=7", "component.bits=3", "strategy.carrier=identity"):
        assert config_hash(choose(compose(override)).plain) != config_hash(plain)


def test_a_missing_value_is_found_before_any_work(tmp_path):
    """G07. A missing value is found before any work, and the message shows the flag to pass."""
    for overrides in (["model.width=???"], ["model.width=???", "model.depth=${model.width}"]):
        with pytest.raises(ConfigError, match=r"model\.width has no value; .*model\.width=VALUE"):
            train(tmp_path / "run", *overrides)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("strategy", ["subgradient", "ste", "smooth", "rewrite"])
def test_the_shared_knobs_are_keys_of_every_strategy(tmp_path, strategy, capsys):
    """G08, the part of keys that belong to another strategy: one without effect is said and is not in the hash."""
    own = ("component=quantized_activation", f"strategy={strategy}", *SHORT)
    plain = train(tmp_path / "plain", *own)
    said = capsys.readouterr().out
    assert "no effect" not in said
    knobs = train(tmp_path / "knobs", *own, "strategy.temperature=0.5", "strategy.kernel=normal")
    said = capsys.readouterr().out
    same = plain.result["config_hash"] == knobs.result["config_hash"]
    assert same is (strategy != "smooth")
    for knob in ("temperature", "kernel"):
        assert (f"note: strategy.{knob} has no effect here and is left out" in said) is same


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_a_misspelt_key_is_no_new_one(tmp_path, plus):
    """G08, the part of typos: refused even where Hydra would add the key, with the one that was meant."""
    answer = command(f"{plus}strategy.temprature=0.5", *SHORT, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "did you mean strategy.temperature?" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_over_strategies_takes_the_shared_knobs(tmp_path):
    """G08, the part of the sweep that Hydra alone refuses."""
    arguments = ("strategy=subgradient,ste,smooth,rewrite", "strategy.temperature=0.5")
    answer = command("-m", *arguments, *SHORT, cwd=tmp_path)
    assert answer.code == 0
    assert "4 DONE" in answer.out
    assert "strategy.temperature has no effect here and is left out (jobs: 3)" in answer.out


@pytest.mark.parametrize(
    ("flags", "unread"),
    [
        ([], ["engine", "on_error", "workers"]),
        (["-m"], ["engine", "workers"]),
        (["-m", "hydra/launcher=stacked"], []),
        (["-m", "hydra/launcher=joblib"], []),
    ],
)
def test_what_only_some_launchers_read_is_said_to_have_no_effect_elsewhere(tmp_path, flags, unread):
    if "hydra/launcher=joblib" in flags:
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    answer = command(*flags, "engine=stacked", "on_error=stop", "workers=2", "dry_run=true", *SHORT, cwd=tmp_path)
    assert answer.code == 0, answer.err
    notes = [line for line in answer.out.splitlines() if line.startswith("note: ")]
    assert notes == [f"note: {key} has no effect here and is left out" for key in unread]


def test_names_stay_text_and_numbers_stay_numbers():
    """G09. Names stay text, numbers stay numbers, and what YAML makes of off, 1e3 and abc is checked."""
    config = compose()
    config.merge_with(OmegaConf.create("optimizer: {schedule: off}"))
    with pytest.raises(ConfigError, match=r"optimizer\.schedule must be one of 'constant'.* got False"):
        choose(config)
    with pytest.raises(ConfigError, match=r"max_steps must be int, got 1000\.0"):
        choose(compose("max_steps=1e3"))
    with pytest.raises(ConfigError, match="seed must be int, got 'abc'"):
        choose(compose("seed=abc"))
    assert choose(compose("optimizer.lr=1e-3")).optimizer.lr == 0.001
    assert choose(compose("data.root='1e3'")).data.root == "1e3"
    with pytest.raises(ConfigError, match=r"data\.root must be str"):
        choose(compose("data.root=1e3"))


def test_a_clip_norm_is_a_positive_number_or_null():
    """F06. Negative, zero, NaN, true and off are no limit; null is none."""
    for value in ("-1", "0", "nan", "true", "off", "-0.0", "'1'", "inf"):
        with pytest.raises(ConfigError, match=r"optimizer\.clip_norm must be"):
            choose(compose(f"optimizer.clip_norm={value}"))
    assert choose(compose("optimizer.clip_norm=null")).optimizer.clip_norm is None
    assert choose(compose("optimizer.clip_norm=1")).optimizer.clip_norm == 1.0


def test_settings_made_by_hand_are_checked_too():
    for wrong in ({"seed": -1}, {"max_steps": 0}, {"threads": 5000}, {"overfit_batches": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Settings(**wrong)
    assert Settings(seed=2**63 - 1).seed == 2**63 - 1


def test_nothing_global_changes_while_a_configuration_is_refused(tmp_path):
    before = (torch.get_rng_state(), torch.initial_seed(), torch.get_default_dtype())
    assert command("batch_size=100000", cwd=tmp_path).code == 2
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (torch.initial_seed(), torch.get_default_dtype())
