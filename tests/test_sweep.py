"""Sweeps: planned before anything runs, resumed, previewed, reported; no job is lost and no folder shared."""

import itertools
import re
import shlex
import signal
import subprocess

import pytest
import yaml
from omegaconf import OmegaConf
from sweep_kills import assert_kills_change_nothing
from test_cli import ENVIRONMENT, TRAIN, failing, on_a_terminal, screen, statuses

from experiments.config.config_hash import NOT_HASHED
from experiments.sweep.compose import Composer
from experiments.sweep.listing import is_left_out, job_overrides, plain_list
from experiments.sweep.manifest import read_manifest
from experiments.training.trainer import Trainer
from runs import CONF, ROOT, SHORT, command, compose, read, tree


def manifest(root):
    return {entry["folder"]: entry for entry in read_manifest(root)}


def root_of(folder):
    (root,) = folder.glob("runs/*")
    return root


def names(folder, status):
    """The last parts of the folders of all jobs with that status, up to the first comma."""
    found = [name for name, was in statuses(folder).items() if was == status]
    return sorted(name.rpartition("/")[2].partition(",")[0] for name in found)


@pytest.fixture(scope="module")
def loader():
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    from experiments.config import VERSION_BASE

    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        yield GlobalHydra.instance().config_loader()
    GlobalHydra.instance().clear()


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=3", "optimizer.lr=1e-3"],
        ["strategy=smooth", "strategy.temperature=0.5", "seed=1"],
        ["+experiment=maxout"[1:], "optimizer.lr=0.1"],
        ["component=hard_max", "component.k=3", "hydra.sweep.subdir=here"],
        ["overfit_batches=null", "data.root='a b'", "optimizer=adam"],
    ],
)
def test_a_job_is_composed_as_hydra_composes_it(loader, overrides):
    from hydra.types import RunMode

    compose()  # registers the resolvers
    master = loader.load_configuration("config", ["seed=0"], RunMode.MULTIRUN)
    composer = Composer(loader, master)
    composer([*overrides[:-1], "seed=77"])  # another job of the same options before it
    ours, theirs = composer(overrides), loader.load_sweep_config(master, overrides)
    assert OmegaConf.to_container(ours, resolve=False) == OmegaConf.to_container(theirs, resolve=False)
    for part in ("hydra.sweep.dir", "hydra.sweep.subdir"):
        assert OmegaConf.select(ours, part) == OmegaConf.select(theirs, part)


def test_a_key_that_does_not_exist_is_refused_in_hydras_words(loader):
    from hydra.errors import ConfigCompositionException
    from hydra.types import RunMode

    master = loader.load_configuration("config", [], RunMode.MULTIRUN)
    with pytest.raises(ConfigCompositionException, match=r"optimizer\.rate"):
        Composer(loader, master)(["optimizer.rate=1"])


def test_points_are_pairs_and_multiply_with_everything_else():
    points = [{"strategy": "ste", "optimizer.lr": 0.01}, {"strategy": "smooth", "data.root": "a b", "x": [1, None]}]
    jobs = job_overrides(["seed=0,1"], {"seed": "range(9)", "max_steps": 5}, points)
    first = ["strategy=ste", "optimizer.lr=0.01"]
    second = ["strategy=smooth", "data.root='a b'", "x=[1,null]"]
    assert jobs == [[f"seed={s}", "max_steps=5", *point] for point in (first, second) for s in (0, 1)]


def test_text_in_a_point_that_lists_values_is_a_point_for_each():
    points = [{"strategy": "ste,smooth", "seed": "range(2)", "name": "a, b (c", "x": [1, 2]}]
    rest = ["name='a, b (c'", "x=[1,2]"]
    jobs = job_overrides(["max_steps=5"], {}, points)
    assert jobs == [
        ["max_steps=5", f"strategy={strategy}", f"seed={seed}", *rest]
        for strategy in ("ste", "smooth")
        for seed in (0, 1)
    ]


def test_points_and_filters_have_one_shape():
    from experiments.config.values import ConfigError

    assert plain_list(OmegaConf.create([{"optimizer": {"lr": 1.0}, "a.b": 2}]), "points") == [
        {"optimizer.lr": 1.0, "a.b": 2}
    ]
    assert plain_list(None, "points") == []
    for wrong in ({"a": 1}, [1], [{}], "abc"):
        with pytest.raises(ConfigError, match="must be a list of mappings"):
            plain_list(wrong, "points")
    with pytest.raises(ConfigError, match=r"optimizer\.lr is set on the command line and by"):
        job_overrides(["optimizer.lr=1"], {}, [{"optimizer.lr": 0.1}])


def test_a_filter_compares_options_and_values():
    from experiments.config.values import ConfigError

    config = compose("strategy=smooth", "optimizer.lr=0.1")
    config = OmegaConf.merge(
        OmegaConf.create(OmegaConf.to_container(config)),
        {"hydra": {"runtime": {"choices": {"strategy": "smooth", "component": "floor"}}}},
    )
    assert is_left_out(config, [{"strategy": "smooth", "optimizer.lr": 0.1}])
    assert is_left_out(config, [{"strategy": "ste"}, {"component": ["binary", "floor"]}])
    assert not is_left_out(config, [{"strategy": "smooth", "optimizer.lr": 0.2}])
    assert not is_left_out(config, [])
    with pytest.raises(ConfigError, match=r"leave_out names optimizer\.rate"):
        is_left_out(config, [{"optimizer.rate": 1}])


def preset(tmp_path, text):
    """conf/ with one more preset, which a test may write."""
    conf = tmp_path / "conf"
    conf.mkdir()
    for part in CONF.iterdir():
        if part.name != "experiment":
            (conf / part.name).symlink_to(part)
    (conf / "experiment").mkdir()
    (conf / "experiment/pairs.yaml").write_text("# @package _global_\n" + text)
    return conf


@pytest.mark.slow
def test_a_preset_lists_points_and_leaves_out(tmp_path):
    """Each strategy with a learning rate of its own, twice, but for one pair of strategy and seed."""
    conf = preset(
        tmp_path,
        """
hydra:
  mode: MULTIRUN
  sweeper:
    params: {seed: "0,1"}
    points:
      - {strategy: ste, optimizer.lr: 0.01}
      - {strategy: subgradient, optimizer.lr: 0.3}
    leave_out:
      - {strategy: ste, seed: 1}
""",
    )
    answer = command("experiment=pairs", *SHORT, cwd=tmp_path, conf=conf)
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "3 DONE"
    found = [yaml.safe_load(path.read_text()) for path in (tmp_path / "runs").rglob("config.yaml")]
    pairs = {(c["strategy"]["_target_"].split(".")[2], c["optimizer"]["lr"], c["seed"]) for c in found if "seed" in c}
    assert pairs == {("ste", 0.01, 0), ("subgradient", 0.3, 0), ("subgradient", 0.3, 1)}
    both = command("experiment=pairs", "optimizer.lr=1", *SHORT, cwd=tmp_path, conf=conf)
    assert both.code == 2
    assert both.err.startswith("error: optimizer.lr is set on the command line and by hydra.sweeper.points")
    none = command("experiment=pairs", "hydra.sweeper.points=[]", "strategy=ste", *SHORT, cwd=tmp_path, conf=conf)
    assert none.out.splitlines()[-1] == "1 DONE"


@pytest.mark.slow
def test_the_page_on_sweeps_is_true(tmp_path):
    """Its preset and its first command, as far as a dry run goes; the keys that it says are in no hash."""
    page = (ROOT / "docs/sweeps.md").read_text()
    (listed,) = re.findall(r"```yaml\n# @package _global_\n(.*?)```", page, re.DOTALL)
    answer = command("experiment=pairs", "dry_run=true", cwd=tmp_path, conf=preset(tmp_path, listed))
    assert answer.code == 0, answer.err
    assert "22 of 22 jobs to run" in answer.out  # 8 seeds x 3 points, less 2
    first = re.search(r"```bash\npython train.py (.*)\n", page)[1]
    answer = command(*shlex.split(first), "dry_run=true", cwd=tmp_path)
    assert "32 of 32 jobs to run" in answer.out
    said = re.search(r"excluding keys that do not affect its results: (.*)\. Two", page)[1]
    assert set(re.findall(r"`(.*?)`", said)) == set(NOT_HASHED)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_manifest_lists_all_jobs_before_the_first_one_runs(tmp_path, monkeypatch):
    failing(monkeypatch, seeds=(0,))
    seen = []
    advance = Trainer.advance
    monkeypatch.setattr(Trainer, "advance", lambda self: seen.append(manifest(root_of(tmp_path))) or advance(self))
    assert command("-m", "seed=0,1", "strategy=ste,smooth", *SHORT, cwd=tmp_path).code == 1
    root = root_of(tmp_path)
    assert all(one == manifest(root) for one in seen)
    folders = {str(path.parent.relative_to(root)) for path in root.rglob("status.json")}
    assert set(manifest(root)) == folders
    for folder, entry in manifest(root).items():
        assert read(root / folder / "status.json")["config_hash"] == entry["config_hash"]
    groups = {folder.partition("/")[0]: set() for folder in folders}
    for folder, entry in manifest(root).items():
        groups[folder.partition("/")[0]].add(entry["group"])
    assert [len(group) for group in groups.values()] == [1, 1]  # seeds of a strategy can be stacked
    assert groups["ste"] != groups["smooth"]


@pytest.mark.slow
def test_a_dry_run_shows_everything_and_touches_nothing(tmp_path, monkeypatch):
    own = ("-m", "component=binary,floor", "strategy=smooth,rewrite", *SHORT)
    empty = command(*own, "dry_run=true", cwd=tmp_path)
    assert (empty.code, empty.err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert "3 of 4 jobs to run, 1 at a time; time unknown" in empty.out
    assert empty.out.count("skip: NOT_APPLICABLE") == 1
    failing(monkeypatch, "Rewrite", seeds=())
    assert command(*own, cwd=tmp_path).code == 1
    before = tree(tmp_path)
    answer = command(*own, "dry_run=true", cwd=tmp_path)
    assert answer.code == 0
    assert tree(tmp_path) == before
    for entry in read_manifest(root_of(tmp_path)):
        assert entry["folder"] in answer.out
        assert entry["config_hash"] in answer.out
    assert answer.out.count("skip: DONE") == 2
    assert answer.out.count("skip: FAILED (retry=failed runs it again)") == 1
    assert "0 of 4 jobs to run" in answer.out
    again = command(*own, "dry_run=true", "retry=failed", cwd=tmp_path)
    assert again.out.count("run again: FAILED") == 1
    other = command("-m", "component=binary", "strategy=smooth", "seed=5,6", *SHORT, "dry_run=true", cwd=tmp_path)
    assert re.search(r"2 of 2 jobs to run, 1 at a time; about \d+:\d\d$", other.out.strip())
    assert tree(tmp_path) == before


@pytest.mark.slow
def test_a_dry_run_of_a_single_run(tmp_path):
    answer = command(*SHORT, "dry_run=true", "hydra.run.dir=run", cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert "  run\nrun\n1 of 1 jobs to run" in answer.out
    assert list(tmp_path.iterdir()) == []
    assert command(*SHORT, "hydra.run.dir=run", cwd=tmp_path).code == 0
    assert "skip: DONE" in command(*SHORT, "dry_run=true", "hydra.run.dir=run", cwd=tmp_path).out
    assert command("seed=-1", "dry_run=true", cwd=tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_a_switch_stops_at_the_first_failure(tmp_path, monkeypatch):
    """G01, the part of failing fast: what was not started is listed, and made without the switch."""
    own = ("-m", "seed=0,1,2,3", *SHORT)
    with monkeypatch.context() as patch:
        failing(patch, seeds=(1,))
        answer = command(*own, "on_error=stop", cwd=tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "1 DONE, 1 FAILED, 2 NOT_STARTED"
    assert [line.split(",")[0].split("/")[-1] for line in re.findall("^NOT_STARTED.*", answer.err, re.M)] == [
        "seed=2",
        "seed=3",
    ]
    root = root_of(tmp_path)
    assert {path.name for path in root.iterdir() if not path.name.startswith("seed=")} == {
        "about",
        "manifest.json",
        ".manifest.json.lock",
    }
    assert len(list(root.glob("seed=*"))) == 2
    assert len(manifest(root)) == 4
    assert command(*own, cwd=tmp_path).out.splitlines()[-1] == "3 DONE, 1 FAILED"
    assert command(*own, "retry=failed", cwd=tmp_path).out.splitlines()[-1] == "4 DONE"


@pytest.mark.slow
def test_a_changed_configuration_is_refused_before_anything_runs(tmp_path):
    """The folder of another configuration, here of a changed preset: no job starts, and the key is named."""
    conf = preset(tmp_path, "max_steps: 2\nhydra: {mode: MULTIRUN, sweeper: {params: {seed: '0,1'}}}\n")
    own = ("experiment=pairs", "model.width=8")
    assert command(*own, cwd=tmp_path, conf=conf).code == 0
    before = tree(tmp_path / "runs")
    changed = (conf / "experiment/pairs.yaml").read_text().replace("max_steps: 2", "max_steps: 3")
    (conf / "experiment/pairs.yaml").write_text(changed.replace("'0,1'", "'2,1'"))
    answer = command(*own, cwd=tmp_path, conf=conf)
    assert (answer.code, answer.out) == (2, "")
    assert "(max_steps was 2, now 3)" in answer.err
    assert tree(tmp_path / "runs") == before
    assert command(*own, "overwrite=true", cwd=tmp_path, conf=conf).out.splitlines()[-1] == "2 DONE"


def test_jobs_that_are_one_run_run_once(tmp_path):
    """A knob without effect, and a value written in two ways."""
    answer = command("-m", "strategy=ste", "strategy.temperature=0.5,1,2", "optimizer.lr=1,1.0", *SHORT, cwd=tmp_path)
    assert answer.code == 0
    assert "6 jobs in" in answer.out
    assert "1 to run" in answer.out
    assert answer.out.splitlines()[-1] == "6 DONE"
    assert len(statuses(tmp_path)) == 1
    (folder,) = statuses(root_of(tmp_path))
    assert [entry["same_as"] for entry in read_manifest(root_of(tmp_path))] == [None, *[folder] * 5]


@pytest.mark.slow
def test_numbered_folders_stay_those_of_their_jobs(tmp_path, monkeypatch):
    """Hydra counts the jobs it is given; a job that is done anew keeps its number's folder."""
    own = ("-m", "seed=5,6,7", "hydra.sweep.dir=runs/n", "hydra.sweep.subdir=${hydra.job.num}", *SHORT)
    with monkeypatch.context() as patch:
        failing(patch, seeds=(6,))
        assert command(*own, cwd=tmp_path).code == 1
    assert command(*own, "retry=failed", cwd=tmp_path).code == 0
    seeds = {
        path.parent.name: yaml.safe_load(path.read_text())["seed"] for path in tmp_path.glob("runs/n/*/config.yaml")
    }
    assert seeds == {"0": 5, "1": 6, "2": 7}


@pytest.mark.slow
def test_a_sweeper_of_others_sees_failures_and_objectives(tmp_path, monkeypatch):
    """Hydra's own basic sweeper: the first failure is raised once all jobs were made."""
    failing(monkeypatch, seeds=(1,))
    answer = command("-m", "hydra/sweeper=basic", "seed=0,1,2", *SHORT, cwd=tmp_path)
    assert answer.code == 1
    assert "RuntimeError: the disk is on fire" in answer.err
    assert names(tmp_path, "DONE") == ["seed=0", "seed=2"]
    assert set(manifest(root_of(tmp_path))) == set(statuses(root_of(tmp_path)))


@pytest.mark.parametrize("launcher", ["basic", "stacked"])
def test_a_sweeper_of_others_lists_no_jobs(tmp_path, launcher):
    own = ("-m", "hydra/sweeper=basic", f"hydra/launcher={launcher}", "seed=0,1", *SHORT, "dry_run=true")
    answer = command(*own, cwd=tmp_path)
    assert answer.code == 2
    assert "dry_run=true needs hydra/sweeper=listed" in answer.err
    assert statuses(tmp_path) == {}


@pytest.mark.slow
def test_an_old_failure_is_listed_again_and_not_run_again(tmp_path, monkeypatch):
    own = ("-m", "seed=0,1", *SHORT)
    with monkeypatch.context() as patch:
        failing(patch, seeds=(1,))
        assert command(*own, cwd=tmp_path).code == 1
    before = tree(tmp_path)
    answer = command(*own, cwd=tmp_path)
    assert answer.code == 1
    assert "0 to run, 1 already done" in answer.out
    assert "RuntimeError: the disk is on fire" in answer.err
    assert tree(tmp_path) == before


@pytest.mark.nightly
def test_two_sweeps_of_the_same_second_into_one_root(tmp_path):
    """Each job is made by one of them, whole; what the other one holds is said and is no success."""
    own = ["-m", "seed=0,1,2", "max_steps=200", "eval_every=50", "hydra.sweep.dir=runs/one"]
    both = [subprocess.Popen([*TRAIN, *own], cwd=tmp_path, env=ENVIRONMENT, stdout=-1, stderr=-1) for _ in range(2)]
    for running in both:
        running.communicate(timeout=180)
    alone = command(*own[:-1], "hydra.sweep.dir=runs/alone", cwd=tmp_path)
    assert alone.code == 0
    assert set(statuses(tmp_path / "runs/one").values()) == {"DONE"}
    for path in (tmp_path / "runs/alone").rglob("metrics.jsonl"):
        other = tmp_path / "runs/one" / path.relative_to(tmp_path / "runs/alone")
        assert path.read_bytes() == other.read_bytes()
        assert len(list(other.parent.glob("events.out.*"))) == 1
    last = command(*own, cwd=tmp_path)
    assert (last.code, "0 to run, 3 already done" in last.out) == (0, True)


@pytest.mark.slow
def test_a_sweep_on_a_terminal_is_one_live_line(tmp_path):
    own = ("-m", "seed=0,1", "max_steps=600", "eval_every=50", "hydra.sweep.dir=runs/one")
    between = False  # seen after the first job, the second of which may be shorter than the time between two looks
    for attempt in range(8):
        home = tmp_path / str(attempt)
        home.mkdir()
        code, sent = on_a_terminal(home, *own)
        assert code == 0
        left = screen(sent)
        assert left[0] == "2 jobs in runs/one: 2 to run"
        assert [line.partition(":")[0] for line in left[1:3]] == ["seed=0", "seed=1"]
        assert left[-2:] == ["2 DONE", ""]
        assert not any("━" in line or line.startswith("step ") for line in left)
        assert all(len(line) <= 80 for line in left)
        between = bool(re.search(r"1/2.*━.*[01] running, .*jobs/", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent)))
        if between:
            break
    assert between


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.slow), pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)],
)
def test_a_stopped_sweep_says_how_far_it_is_and_goes_on(tmp_path, number):
    own = ["-m", "seed=0,1,2", "max_steps=2000", "eval_every=50", "hydra.sweep.dir=runs/one"]
    running = subprocess.Popen([*TRAIN, *own], cwd=tmp_path, env=ENVIRONMENT, stdout=-1, stderr=-1, text=True)
    while "[1/3]" not in running.stdout.readline():
        assert running.poll() is None
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (128 + number, "stopped; run the same command to resume\n")
    late = "2 DONE, 1 (INTERRUPTED|NOT_STARTED)"  # the line came once the second job was over
    assert re.fullmatch(f"1 DONE, (1 INTERRUPTED, 1|2) NOT_STARTED|{late}", out.splitlines()[-1])
    assert command(*own, cwd=tmp_path).out.splitlines()[-1] == "3 DONE"


@pytest.mark.nightly
def test_killed_at_random_moments_a_sweep_ends_as_one_that_was_not(tmp_path, record_property):
    own = ("strategy=ste,smooth", "seed=0,1,2", "max_steps=400", "eval_every=20", "optimizer.lr=0.05")
    assert_kills_change_nothing(tmp_path, own, 10)
    record_property("kills survived", 10)


@pytest.mark.nightly
def test_a_thousand_jobs_in_one_process(tmp_path, record_property):
    """Memory grows by less than 1 MB a job, and no file stays open."""
    script = f"""
import os, resource, sys
from experiments.command.task import Task
from experiments.command.cli import main
from pathlib import Path
job, used = Task._job, []
def measured(self, config):
    value = job(self, config)
    used.append((int(Path("/proc/self/statm").read_text().split()[1]) * 4096, len(os.listdir("/proc/self/fd"))))
    if len(used) in (50, 1000):
        print("used", len(used), *used[-1], flush=True)
    return value
Task._job = measured
main(Path({str(CONF)!r}))
"""
    own = ["-m", "seed=range(1000)", "max_steps=20", "model.width=8", "eval_every=20"]
    done = subprocess.run(
        [TRAIN[0], "-c", script, *own], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "1000 DONE"
    used = {int(a): (int(b), int(c)) for a, b, c in re.findall(r"^used (\d+) (\d+) (\d+)$", done.stdout, re.M)}
    for job, (memory, files) in used.items():
        record_property(f"after {job} jobs", f"{memory / 1e6:.0f} MB resident, {files} open files")
    assert (used[1000][0] - used[50][0]) / 950 < 1e6
    assert used[1000][1] <= used[50][1] + 5
    assert all(one == other for one, other in itertools.pairwise(sorted(statuses(tmp_path).values())))
