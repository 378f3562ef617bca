"""Launchers of others: the same sweep in processes, through submitit and on a local Ray cluster."""

import contextlib
import importlib.util
import os
import pickle
import re
import signal
import subprocess
from importlib import metadata

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from test_cli import ENVIRONMENT, TRAIN, statuses

from experiments.command import task
from experiments.sweep import conduct
from experiments.sweep.capacity import FOLLOWING, OF_OTHERS, cores, fit_workers
from experiments.sweep.command_folder import at_work, is_stopped, stop, unit_folder
from experiments.sweep.ending import JobFailed
from experiments.sweep.unit_files import read_unit, unit_file, write_unit
from experiments.tracking.strict_json import write_json
from experiments.training.interruption import Interrupted
from experiments.training.run import Request
from runs import CONF, ROOT, command, compose, read

EXTRAS = {"joblib": "joblib", "submitit_local": "submitit", "ray": "ray"}
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
WORKERS = {**ENVIRONMENT, "PYTHONPATH": PATHS, "RAY_USAGE_STATS_ENABLED": "0"}
SWEEP = [
    "-m",
    "seed=0,1,2",
    "component=relu",
    "optimizer.lr=0.1,1e30",
    "max_steps=60",
    "model.width=8",
    "eval_every=20",
]


def installed(launcher):
    """Skips, saying what is missing, unless the launcher's extra is installed."""
    extra = EXTRAS[launcher]
    try:
        found = importlib.util.find_spec(f"hydra_plugins.hydra_{extra}_launcher")
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip(f"needs the extra: pip install -e '.[{extra}]'")


def sweep(folder, *more, **popen):
    line = [*TRAIN, *SWEEP, "+hydra.callbacks.report._target_=worker_report.WorkerReport", *more]
    return subprocess.Popen(line, cwd=folder, env=WORKERS, stdout=-1, stderr=-1, text=True, **popen)


def config_of(launcher, node):
    return OmegaConf.create({"hydra": {"launcher": node, "runtime": {"choices": {"hydra/launcher": launcher}}}})


def test_workers_times_threads_are_the_cores():
    joblib = config_of("joblib", {"n_jobs": -1})
    assert fit_workers(joblib, 1, None) == joblib.hydra.launcher.n_jobs == cores()
    joblib = config_of("joblib", {"n_jobs": -1})
    assert fit_workers(joblib, cores(), None) == joblib.hydra.launcher.n_jobs == 1
    assert fit_workers(config_of("joblib", {"n_jobs": 3}), 1, None) == 3  # told so
    assert fit_workers(config_of("joblib", {"n_jobs": 3}), 1, 5) == 5
    local = config_of("submitit_local", {"cpus_per_task": None})
    assert (fit_workers(local, 2 * cores(), None), local.hydra.launcher.cpus_per_task) == (1, 2 * cores())
    slurm = config_of("submitit_slurm", {"cpus_per_task": None, "array_parallelism": 256})
    assert (fit_workers(slurm, 2, None), slurm.hydra.launcher.cpus_per_task) == (256, 2)
    ray = config_of("ray", {"ray": {"init": {"address": None}, "remote": {}}})
    assert fit_workers(ray, 2, 3) == 3
    assert ray.hydra.launcher.ray.init.items() >= {"address": "local", "num_cpus": 6}.items()
    assert ray.hydra.launcher.ray.remote == {"num_cpus": 2}
    cluster = config_of("ray", {"ray": {"init": {"address": "auto"}, "remote": {}}})
    fit_workers(cluster, 2, None)
    assert cluster.hydra.launcher.ray.init == {"address": "auto", "object_store_memory": None}
    assert fit_workers(config_of("basic", {}), 1, None) == 1


def test_the_page_on_clusters_names_keys_that_the_launcher_has():
    installed("submitit_local")
    from hydra_plugins.hydra_submitit_launcher.config import SlurmQueueConf

    page = (ROOT / "docs" / "cluster.md").read_text()
    keys = re.findall(r"hydra\.launcher\.(?!ray)(\w+)|`\.(\w+)`", page)
    assert {"partition", "account", "timeout_min"} < {a or b for a, b in keys} <= vars(SlurmQueueConf()).keys()


@pytest.mark.parametrize("launcher", OF_OTHERS)
def test_a_job_that_a_signal_stops_ends_as_a_failed_job_of_its_launcher(tmp_path, monkeypatch, launcher):
    """A launcher takes a KeyboardInterrupt for an accident of the process, and prints its trace."""
    hydra = {
        "runtime": {"choices": {"hydra/launcher": launcher, "hydra/sweeper": "listed"}},
        "sweep": {"dir": tmp_path},
    }
    monkeypatch.setattr(HydraConfig, "get", lambda: OmegaConf.create(hydra, flags={"allow_objects": True}))
    followed = []
    monkeypatch.setattr(task, "follow_command", lambda root, name: followed.append(name))
    monkeypatch.setattr(task, "worker_of", lambda root, name: contextlib.nullcontext())

    def work(self, config, root):
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(task.Task, "_work", work)
    with pytest.raises(JobFailed, match="stopped by SIGTERM"):
        task.Task(CONF, [], "name", process=-1)._job(compose())
    assert followed == ["name"] * (launcher in FOLLOWING)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The sweep in one process."""
    folder = tmp_path_factory.mktemp("here")
    running = sweep(folder, "hydra.sweep.dir=runs/one")
    _, err = running.communicate(timeout=300)
    assert running.returncode == 1, err
    return folder / "runs/one"


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", EXTRAS)
def test_a_launcher_makes_the_same_runs(tmp_path, here, launcher):
    """In other processes, with the threads asked for; failures are listed, and the same command goes on."""
    installed(launcher)
    running = sweep(tmp_path, f"hydra/launcher={launcher}", "hydra.sweep.dir=runs/one")
    out, err = running.communicate(timeout=400)
    assert running.returncode == 1, err
    assert out.splitlines()[-1] == "3 DONE, 3 FAILED"
    assert len(re.findall("^FAILED ", err, re.M)) == 3
    root = tmp_path / "runs/one"
    assert statuses(root) == statuses(here)
    for name in ("metrics.jsonl", "result.json"):
        files = {path.relative_to(here): path.read_bytes() for path in here.rglob(name)}
        assert {path.relative_to(root): path.read_bytes() for path in root.rglob(name)} == files
    told = [read(path) for path in root.rglob("worker.json")]
    assert len(told) == 6
    assert {one["threads"] for one in told} == {1}
    assert running.pid not in {one["pid"] for one in told}
    again = sweep(tmp_path, f"hydra/launcher={launcher}", "hydra.sweep.dir=runs/one")
    out, _ = again.communicate(timeout=400)
    assert (again.returncode, "0 to run, 3 already done" in out) == (1, True)


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", EXTRAS)
def test_a_launcher_stopped_by_hand_leaves_what_goes_on(tmp_path, here, launcher):
    installed(launcher)
    own = (f"hydra/launcher={launcher}", "hydra.sweep.dir=runs/one", "max_steps=4000", "optimizer.lr=0.1")
    line = [*TRAIN, *[part for part in SWEEP if not part.startswith(("max_steps", "optimizer"))], *own]
    running = subprocess.Popen(line, cwd=tmp_path, env=WORKERS, stdout=-1, stderr=-1, text=True, start_new_session=True)
    while not any((tmp_path / "runs").rglob("metrics.jsonl")):
        assert running.poll() is None
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "stopped; run the same command to resume" in err.splitlines()  # workers may print after it
    assert "FAILED" not in err
    assert set(statuses(tmp_path).values()) <= {"RUNNING", "INTERRUPTED", "DONE"}
    again = subprocess.run(line, cwd=tmp_path, env=WORKERS, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "3 DONE"


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", EXTRAS)
def test_a_launcher_schedules_stacks(tmp_path, launcher):
    """engine=stacked: one task a group, and yet a run a job, with the failures in their place."""
    installed(launcher)
    running = sweep(tmp_path, f"hydra/launcher={launcher}", "engine=stacked", "workers=1", "hydra.sweep.dir=runs/one")
    out, err = running.communicate(timeout=400)
    assert running.returncode == 1, err
    assert out.splitlines()[-1] == "3 DONE, 3 FAILED"
    results = [read(path) for path in (tmp_path / "runs").rglob("result.json")]
    assert [result["engine"] for result in results] == ["stacked"] * 3
    assert len(list((tmp_path / "runs").rglob("worker.json"))) == 1  # one task for all six jobs
    assert len(set(statuses(tmp_path))) == 6


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("launcher", "engine", "first"),
    [
        ("stacked", "stacked", 2),
        ("joblib", "single", 1),
        ("joblib", "stacked", 2),
    ],
)
def test_on_error_stop_lets_two_workers_start_no_further_job(tmp_path, launcher, engine, first):
    """What the other worker is at goes on to its end; what was not started is listed, and made by the same command."""
    if launcher in EXTRAS:
        installed(launcher)
    points = ["{max_steps: 6000}", "{max_steps: 5000, optimizer.lr: 1e30}", *(f"{{max_steps: {n}}}" for n in (40, 39))]
    own = [f"seed=range({first})", "component=relu", "model.width=8", f"hydra.sweeper.points=[{','.join(points)}]"]
    line = [*TRAIN, "-m", *own, f"hydra/launcher={launcher}", f"engine={engine}", "workers=2", "hydra.sweep.dir=runs"]
    done = subprocess.run([*line, "on_error=stop"], cwd=tmp_path, env=WORKERS, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == f"{first} DONE, {first} FAILED, {2 * first} NOT_STARTED"
    left = {re.search(r"max_steps=(\d+)", name)[1]: status for name, status in statuses(tmp_path).items()}
    assert left == {"6000": "DONE", "5000": "FAILED"}
    assert {path.name for path in (tmp_path / "runs").glob(".*")} == {".manifest.json.lock"}
    again = subprocess.run(line, cwd=tmp_path, env=WORKERS, capture_output=True, text=True)
    assert again.stdout.splitlines()[-1] == f"{3 * first} DONE, {first} FAILED"


def test_a_unit_crosses_as_a_file_and_is_the_same_there(tmp_path):
    config = compose("optimizer.lr=1e-3", "strategy.temperature=.inf", "data.root='a b'")
    files = {"overrides.yaml": ["seed=1"], "config.yaml": OmegaConf.to_container(config)}
    one = Request(config, tmp_path / "one", None, ["seed=1"], ["train.py", "-m"], True, files, options={"data": "own"})
    file = unit_file(tmp_path / "units", str(one.folder))
    assert read_unit(file) is None
    write_unit(file, [None, one])
    empty, two = read_unit(file)
    assert empty is None
    for name in ("folder", "search", "overrides", "argv", "quiet", "hydra_files", "options"):
        assert getattr(two, name) == getattr(one, name)
    assert OmegaConf.to_yaml(two.config, resolve=True) == OmegaConf.to_yaml(config, resolve=True)


def broken_off(root, name):
    """The folder that a command leaves which is broken off with one unit of two runs, `name-0` and `name-1`."""
    with contextlib.suppress(KeyboardInterrupt), at_work(root, name):
        requests = [Request(OmegaConf.create({}), root / f"{name}-{number}") for number in range(2)]
        write_unit(unit_file(unit_folder(root, name), name), requests)
        raise KeyboardInterrupt
    return root / f".command-{name}"


def test_a_command_clears_what_dead_ones_left_and_nothing_that_may_be_needed(tmp_path):
    ends = {
        "over": ["FAILED", "DONE"],
        "empty": ["NOT_APPLICABLE", "DONE"],
        "late": ["DONE"],
        "cut": ["INTERRUPTED"] * 2,
    }
    dead = {name: broken_off(tmp_path, name) for name in (*ends, "damaged")}
    assert all(folder.is_dir() for folder in dead.values())
    for name, own in ends.items():
        for number, status in enumerate(own):
            (tmp_path / f"{name}-{number}").mkdir()
            write_json(tmp_path / f"{name}-{number}" / "status.json", {"status": status, "config_hash": "c"})
    next((dead["damaged"] / "units").iterdir()).write_text("{}")
    of_others = tmp_path / ".command-others"
    of_others.mkdir()
    stop(tmp_path, "others")
    with at_work(tmp_path, "alive"):
        with at_work(tmp_path, "next"):
            pass
        left = {of_others, *(dead[name] for name in ("late", "cut", "damaged"))}
        assert set(tmp_path.glob(".command-*")) == left | {tmp_path / ".command-alive"}
        assert is_stopped(tmp_path, "others")
    assert set(tmp_path.glob(".command-*")) == left


@pytest.mark.nightly
def test_a_killed_sweep_of_units_is_cleared_by_the_same_command(tmp_path):
    installed("joblib")
    own = ("hydra/launcher=joblib", "engine=stacked", "workers=2", "hydra.sweep.dir=runs", "max_steps=2000")
    line = [
        *TRAIN,
        *[part for part in SWEEP if not part.startswith(("max_steps", "optimizer"))],
        "model.depth=1,2",
        *own,
    ]
    running = subprocess.Popen(line, cwd=tmp_path, env=WORKERS, stdout=-1, stderr=-1, start_new_session=True)
    while len(list(tmp_path.rglob("metrics.jsonl"))) < 6:
        assert running.poll() is None
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)
    assert len(list(tmp_path.glob("runs/.command-*/units/*.json"))) == 2
    again = subprocess.run(line, cwd=tmp_path, env=WORKERS, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "6 DONE"
    assert {path.name for path in (tmp_path / "runs").glob(".*")} == {".manifest.json.lock"}


@pytest.mark.nightly
def test_what_crosses_to_a_process_does_not_grow_with_the_jobs(tmp_path, monkeypatch):
    installed("joblib")
    sizes, launched = [], []

    def launch(sweeper, root, jobs, errors):
        sizes.append(len(pickle.dumps(sweeper.task_function)))
        launched.append((len(jobs), len(list(sweeper.task_function.units.iterdir()))))
        return []

    monkeypatch.setattr(conduct, "_launch", launch)
    for count in (2, 8):
        own = ("strategy=ste,smooth", f"seed=range({count})", "hydra/launcher=joblib", "engine=stacked", "workers=1")
        assert "NOT_STARTED" in command("-m", *own, f"hydra.sweep.dir=runs/{count}", cwd=tmp_path).out
    assert launched == [(2, 2)] * 2
    assert abs(sizes[1] - sizes[0]) < 10
    assert not list(tmp_path.rglob(".command-*"))


def test_no_extra_replaces_torch():
    """Nothing that an installed extra needs, directly or not, asks for torch."""
    left = ["hydra-joblib-launcher", "hydra-submitit-launcher", "hydra-ray-launcher", "ray", "submitit", "optuna"]
    seen = set()
    while left:
        name = left.pop()
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        needed = {re.match(r"[\w.-]+", need)[0].lower() for need in needs if "extra ==" not in need}
        left += needed - seen
        seen |= needed
    assert not {"torch", "torchvision"} & seen
