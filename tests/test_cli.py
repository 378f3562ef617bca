"""The command line: exit codes, sweeps, names, and what a person sees, on a terminal and off it."""

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import fields

import pytest
import yaml
from test_tensorboard import Board

from experiments.command.help import PURPOSES, help_page
from experiments.command.task import Task
from experiments.config.choices import choose
from experiments.config.folder_names import job_folder, sweep_name
from experiments.config.keys import group_keys, settable_keys
from experiments.config.settings import GROUPS, Settings
from experiments.terminal.starting import LINE
from experiments.training.trainer import Trainer
from runs import CONF, ROOT, SHORT, command, compose, lines, process, read, tree

TRAIN = [sys.executable, str(ROOT / "train.py")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": ""}


def statuses(root):
    return {str(path.parent.relative_to(root)): read(path)["status"] for path in root.rglob("status.json")}


def assert_narrow(text):
    """No line is wider than 80 columns unless one word alone is."""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        words = line.split()
        assert len(line) <= 80 or indent + len(words[-1]) > 80 or len(words) == 1 or len(words[-1]) > 50, line


def failing(monkeypatch, *strategies, seeds=()):
    """Makes the jobs of some strategies or seeds fail in their second step."""
    advance = Trainer.advance

    def advance_or_fail(self):
        layer = next(iter(self.probe.layers.values()))
        chosen = type(layer.strategy).__name__ in strategies or self.settings.seed in seeds
        if chosen and self.step == 1:
            raise RuntimeError("the disk is on fire")
        return advance(self)

    monkeypatch.setattr(Trainer, "advance", advance_or_fail)


def test_a_run_off_a_terminal(tmp_path):
    """Plain lines: no colour, no carriage return, nothing on stderr, at most 80 columns."""
    answer = command("strategy=subgradient", "component=hard_gate", "max_steps=30", "eval_every=10", cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert "\x1b" not in answer.out
    assert "\r" not in answer.out
    assert answer.out.startswith("hard_gate subgradient, 30 steps\n")
    assert re.findall(r"^step +(\d+)/30  loss \S+  accuracy \S+  gradient \S+$", answer.out, re.M) == ["10", "20", "30"]
    assert_narrow(answer.out)
    for name in ("hard accuracy", "best", "gradient norm", "never trained", "run folder", "curves"):
        assert f"\n{name}  " in answer.out
    (folder,) = tmp_path.glob("runs/single/hard_gate-subgradient/*")
    assert statuses(tmp_path) == {str(folder.relative_to(tmp_path)): "DONE"}
    typed = shlex.split(" ".join(answer.out[answer.out.index("\ncurves") :].split()[1:]))
    assert typed[:2] == ["tensorboard", "--logdir"]
    assert (tmp_path / typed[2]).samefile(folder)


def on_a_terminal(cwd, *arguments, columns=80, stop=None):
    """Exit code and everything that a terminal of that width was sent; `stop` sends SIGINT when that text appears."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        plain = {key: value for key, value in ENVIRONMENT.items() if key not in ("NO_COLOR", "COLUMNS")}
        os.execve(TRAIN[0], [*TRAIN, *arguments], plain)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    sent = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        sent += chunk
        if stop is not None and stop in sent:
            os.kill(pid, signal.SIGINT)
            stop = None
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sent.decode()


def screen(sent):
    """The lines that stay on the terminal once all is sent."""
    assert sent.count("\x1b[?25l") == sent.count("\x1b[?25h")  # the cursor is back
    left, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", sent):
        if part == "\n":
            row += 1
            left += [""] * (row == len(left))
        elif part == "\r":
            column = 0
        elif part == "\x1b[2K":
            left[row] = ""
        elif part == "\x1b[1A":
            row -= 1
        elif not part.startswith("\x1b"):
            left[row] = f"{left[row][:column]:<{column}}{part}{left[row][column + len(part) :]}"
            column += len(part)
    return [line.rstrip() for line in left]


@pytest.mark.slow
def test_on_a_terminal_there_is_a_bar_and_no_garbage_after_it(tmp_path):
    code, sent = on_a_terminal(tmp_path, "max_steps=400", "eval_every=50", "hydra.run.dir=run")
    assert code == 0
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in sent.split("\r")]
    assert any("━" in line for line in shown)
    assert sum("━" in line for line in shown) >= 2
    left = screen(sent)
    assert LINE in sent
    assert left[0] == "quantized_activation ste, 400 steps"
    assert left[1].startswith("hard accuracy  ")
    assert left[-2:] == ["curves         tensorboard --logdir run", ""]
    assert all(len(line) <= 80 for line in left)
    assert not any("step " in line for line in left[1:2])


@pytest.mark.slow
def test_interrupted_on_a_terminal(tmp_path):
    """Ctrl-C: the bar is taken down, one line says how to go on, and the next command does."""
    arguments = ("max_steps=100000", "hydra.run.dir=run", "eval_every=100")
    code, sent = on_a_terminal(tmp_path, *arguments, stop=b" acc ", columns=120)
    assert code == 130
    left = screen(sent)
    assert left[-2:] == ["stopped; run the same command to resume", ""]
    assert "Traceback" not in sent
    status = read(tmp_path / "run/status.json")
    assert (status["status"], status["error"]) == ("INTERRUPTED", "stopped by SIGINT")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_from_outside(tmp_path, number):
    running = subprocess.Popen(
        [*TRAIN, "max_steps=100000", "eval_every=50"], cwd=tmp_path, env=ENVIRONMENT, stdout=-1, stderr=-1, text=True
    )
    while "accuracy" not in running.stdout.readline():
        assert running.poll() is None
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (128 + number, "stopped; run the same command to resume\n")
    assert list(statuses(tmp_path).values()) == ["INTERRUPTED"]


def test_help_and_looking_at_the_configuration_run_nothing(tmp_path):
    for arguments, words in [
        (["--help"], "component: the layer with the hard operation\n  binary "),
        (["--cfg", "job", "--resolve"], "_target_: surrogates.strategies.ste.StraightThrough"),
        (["--info", "defaults"], "quantized_activation"),
        (["--version"], "1.3"),
    ]:
        answer = command(*arguments, cwd=tmp_path)
        assert answer.code == 0
        assert words in answer.out + answer.err
    assert list(tmp_path.iterdir()) == []


def test_the_help_page_has_a_line_for_every_option_and_setting(tmp_path):
    """Examples first, every line at most 80 columns wide; options of the user's own are listed too."""
    (tmp_path / "mine/strategy").mkdir(parents=True)
    (tmp_path / "mine/strategy/own.yaml").write_text("# a purpose of my own\n_target_: own.Own\n")
    page = help_page(CONF, ["--help", "--config-dir", str(tmp_path / "mine")], "python train.py")
    assert max(map(len, page.splitlines())) <= 80
    assert page.index("Examples") < page.index("Groups") < page.index("Settings")
    names = [path.stem for group in PURPOSES for path in (CONF / group).glob("*.yaml")]
    assert set(PURPOSES) >= set(GROUPS)
    for name in names:
        assert re.search(rf"^[* ] {name} +\S", page, re.M), name
    for field in fields(Settings):
        assert re.search(rf"^  {field.name}=\S+ +\S", page, re.M), field.name
    assert re.search(r"^  own +a purpose of my own$", page, re.M)
    assert page.count("\n* ") == len(GROUPS)


def test_every_key_can_be_found_by_a_near_miss():
    """The list of keys is read from conf/ and from the settings, so it cannot fall behind."""
    known = settable_keys(CONF)
    assert {"seed", "optimizer.lr", "component.bits", "component.k", "strategy.temperature", "data.root"} <= set(known)
    assert len(known) == len(set(known)) > 40
    assert set(group_keys(CONF)) <= set(known)
    for key in ("optimizer.lr", "model.width"):
        assert choose(compose(f"{key}=1"))


def test_an_empty_cell_is_said_and_is_code_2(tmp_path):
    answer = command("component=binary", "strategy=rewrite", "hydra.run.dir=run", cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    words = "Sign declares no reading 'rewrite' (surrogates/ops/sign.py)"
    assert " ".join(answer.err.split()) == f"NOT_APPLICABLE run {words}"
    again = command("component=binary", "strategy=rewrite", "hydra.run.dir=run", cwd=tmp_path)
    assert again == answer


@pytest.mark.slow
def test_a_sweep_with_an_empty_cell_and_a_failing_job_does_all_the_others(tmp_path, monkeypatch):
    """2 x 2: two are done, one does not exist, one fails; then the same command does what can still be done."""
    arguments = ("-m", "component=binary,floor", "strategy=smooth,rewrite", *SHORT)
    with monkeypatch.context() as patch:
        failing(patch, "Rewrite")
        answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 1
    root = next(tmp_path.glob("runs/*"))
    found = {name.rpartition("/")[0]: status for name, status in statuses(root).items()}
    assert found == {
        "binary/smooth": "DONE",
        "binary/rewrite": "NOT_APPLICABLE",
        "floor/smooth": "DONE",
        "floor/rewrite": "FAILED",
    }
    assert answer.out.splitlines()[-1] == "2 DONE, 1 NOT_APPLICABLE, 1 FAILED"
    said = " ".join(answer.err.split())
    assert f"NOT_APPLICABLE runs/{root.name}/binary/rewrite" in said
    assert f"FAILED runs/{root.name}/floor/rewrite" in said
    assert "RuntimeError: the disk is on fire" in said
    (log,) = root.glob("floor/rewrite/*/train.log")
    for told in (log.read_text(), read(log.with_name("status.json"))["error"]):
        assert "Traceback" in told  # an error in the code is for its author
    before = {name: content for name, content in tree(root).items() if name.endswith((".pt", ".json", ".jsonl"))}
    again = command(*arguments, cwd=tmp_path)
    assert again.code == 1
    assert "step " not in again.out
    assert again.out.splitlines()[-1] == "2 DONE, 1 NOT_APPLICABLE, 1 FAILED"
    assert "RuntimeError: the disk is on fire" in again.err
    assert {name: content for name, content in tree(root).items() if name in before} == before
    assert command(*arguments, "retry=failed", cwd=tmp_path).code == 0
    after = {name: content for name, content in tree(root).items() if "rewrite" not in name and name in before}
    assert {name: content for name, content in before.items() if "rewrite" not in name} == after
    assert list(statuses(root).values()).count("DONE") == 3


@pytest.mark.slow
def test_one_failing_job_stops_no_other_and_is_listed(tmp_path, monkeypatch):
    """G01, the part of going on."""
    failing(monkeypatch, seeds=(1,))
    answer = command("-m", "seed=0,1,2", *SHORT, cwd=tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "2 DONE, 1 FAILED"
    failed = [str(path.relative_to(tmp_path)) for path in tmp_path.glob("runs/*/seed=1,*")]
    assert re.findall("^FAILED.*", answer.err, re.M) == [f"FAILED  {folder}" for folder in failed]
    assert " ".join(["seed=1", *SHORT]) in " ".join(answer.err.split())  # what it overrides, for who makes it again
    assert "Traceback" not in answer.out + answer.err
    assert [status for _, status in sorted(statuses(tmp_path).items())] == ["DONE", "FAILED", "DONE"]


@pytest.mark.slow
def test_a_job_with_a_wrong_value_and_one_that_diverges_stop_no_other(tmp_path):
    """G01, the part of other failures: refused before work, diverged."""
    arguments = ("-m", "component=relu", "batch_size=100000,64", "optimizer.lr=0.1,1e30", "seed=-1,0", *SHORT)
    answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "7 FAILED, 1 DONE"
    assert answer.err.count("seed must be between") == 4
    assert answer.err.count("batch_size=100000 is larger") == 2
    assert answer.err.count("training diverged by step") == 1
    assert sorted(statuses(tmp_path).values()) == ["DONE", "FAILED"]
    assert all(any(path.iterdir()) for path in tmp_path.rglob("*") if path.is_dir())  # no empty folder is left


@pytest.mark.nightly
def test_runs_started_at_once_have_folders_of_their_own(tmp_path):
    """G02, the part of the default folder: four at once, four folders, four whole runs."""
    line = [*TRAIN, *SHORT, "resume=never"]
    running = [subprocess.Popen(line, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait(timeout=120) for process in running] == [0] * 4
    assert list(statuses(tmp_path).values()) == ["DONE"] * 4
    assert len({path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")}) == 1


@pytest.mark.slow
def test_odd_values_are_kept_and_what_is_printed_can_be_typed(tmp_path):
    """G04. Quoted twice they work; the folder's name and the printed command stand up to a shell."""
    odd = "a,b=c #μ 50% user@host"
    answer = command(f'data.root="{odd}"', f'hydra.run.dir="runs/{odd}"', *SHORT, cwd=tmp_path)
    assert answer.code == 0
    folder = tmp_path / "runs" / odd
    assert yaml.safe_load((folder / "config.yaml").read_text())["data"]["root"] == odd
    typed = " ".join(answer.out[answer.out.index("\ncurves") :].split()[1:])
    assert (tmp_path / shlex.split(typed)[2]).samefile(folder)
    sweep = command("-m", f"data.root='{odd}'", "seed=0,1", *SHORT, cwd=tmp_path)
    assert sweep.code == 0
    assert "2 DONE" in sweep.out
    names = [path.parent.name for path in (tmp_path / "runs").glob("sweep-*/*/status.json")]
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9._=,+-]+", name) for name in names)


@pytest.mark.parametrize("value", ["a,b", "x=1", "a#b", "μ"])
def test_values_that_hydra_cannot_read_are_refused_and_the_right_way_is_shown(tmp_path, value):
    """G04, the part of what was not quoted twice."""
    answer = command(f"data.root={value}", *SHORT, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert ("quote the value" in answer.err) or ("needs two pairs of quotes" in answer.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("value", ["a/b,c", "x" * 260])
def test_a_sweep_with_odd_and_long_values(tmp_path, value):
    """G05, the part of the command: a folder each, below the sweep's, with the typed overrides in a file."""
    answer = command("-m", f"data.root='{value}'", "seed=0,1", *SHORT, cwd=tmp_path)
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "2 DONE")
    folders = list(tmp_path.glob("runs/*/*/.hydra/overrides.yaml"))
    assert [yaml.safe_load(path.read_text())[0].partition("=")[2].strip("'") for path in folders] == [value] * 2


@pytest.mark.parametrize(
    "value", ["a/b,c", "x" * 260, "../../up", "[1,2]", "μ", "a b", ".", "..", "~", "con*?<>|", "-"]
)
def test_names_of_folders(value):
    """G05, the part of naming: one folder deep, short, safe, and of its own for every value."""
    name = job_folder([f"data.root={value}", "seed=0"])
    assert re.fullmatch(r"[A-Za-z0-9._=,+-]{1,100}", name)
    assert name not in (".", "..")
    assert name != job_folder([f"data.root={value}!", "seed=0"])
    assert name != job_folder([f"data.root={value}".replace("x" * 260, "x" * 261), "seed=1"])
    assert re.fullmatch(r"[A-Za-z0-9._+-]{1,100}", sweep_name([f"data.root={value}"]))


def test_names_tell_jobs_apart_and_the_same_sweep_has_the_same_name():
    """G05, the part of naming a sweep: the order of the overrides does not matter."""
    assert job_folder(["component=floor", "strategy=ste", "seed=3"]) == "floor/ste/seed=3"
    assert job_folder(["seed=3", "strategy=ste", "+component=floor"]) == "floor/ste/seed=3"
    assert job_folder([]) == "run"
    assert sweep_name(["seed=0,1", "strategy=ste"]) == sweep_name(["strategy=ste", "seed=0,1"])
    assert sweep_name(["seed=0,1"]) != sweep_name(["seed=0,2"])


@pytest.mark.slow
@pytest.mark.parametrize("moves", ["true", "false"])
def test_the_working_directory_does_not_matter(tmp_path, monkeypatch, moves):
    """G06. Outputs go to the output folder, data to one folder where the program was started, in both modes."""
    from experiments.data.files import root_folder
    from experiments.training import run

    asked = []
    original = run.load_data
    monkeypatch.setattr(run, "load_data", lambda option: asked.append(root_folder(option.root)) or original(option))
    own = ("data.root=my data", f"hydra.job.chdir={moves}", *SHORT)
    answer = command(*own, cwd=tmp_path)
    assert answer.code == 0
    assert asked == [tmp_path / "my data"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    (folder,) = tmp_path.glob("runs/single/*/*")
    assert re.search(rf"run folder +{re.escape(str(folder.relative_to(tmp_path)))}\n", answer.out)
    asked.clear()
    assert command("-m", "seed=0,1", *own, cwd=tmp_path).code == 0
    assert asked == [tmp_path / "my data"] * 2


@pytest.mark.slow
def test_from_another_folder_as_a_process(tmp_path):
    """`python path/to/train.py` finds its configuration and writes where it was started."""
    answer = process("hydra.job.chdir=true", *SHORT, cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.slow
def test_floats_keep_their_value_and_have_short_names(tmp_path):
    """G10. 0.30000000000000004 in the configuration, 0.3 and a digest in the name; the same value twice is one run."""
    answer = command("-m", "optimizer.lr=range(0.1,0.35,0.1)", *SHORT, cwd=tmp_path)
    assert answer.code == 0
    rates = {
        path.parent.name.split(",")[0]: yaml.safe_load(path.read_text())["optimizer"]["lr"]
        for path in tmp_path.rglob("config.yaml")
        if path.parent.name != ".hydra"
    }
    assert sorted(rates.values()) == [0.1, 0.2, 0.1 * 3]
    assert sorted(rates)[:2] == ["optimizer.lr=0.1", "optimizer.lr=0.2"]
    assert re.fullmatch(r"optimizer\.lr=0\.3-[0-9a-f]{4}", sorted(rates)[2])
    twice = command("-m", "optimizer.lr=1e-3,0.001", "seed=7", *SHORT, cwd=tmp_path)
    assert (twice.code, "2 DONE" in twice.out, "1 to run" in twice.out) == (0, True, True)


def test_no_dimension_of_a_sweep_is_lost(tmp_path):
    """G11. The same key twice, of which Hydra would drop one, is an error."""
    for arguments, key in [
        (["+a={x:1},{x:2}", "+a={y:1},{y:2}"], "a"),
        (["optimizer={lr:0.1},{lr:0.2}", "optimizer={momentum:0.5},{momentum:0.6}"], "optimizer"),
        (["seed=0,1", "strategy=ste", "seed=2"], "seed"),
    ]:
        answer = command("-m", *arguments, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error: {key} is given twice")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_flag_of_a_sweep_may_stand_anywhere(tmp_path):
    for place in range(3):
        arguments = ["seed=0,1", "strategy=ste", *SHORT]
        arguments.insert(place, "-m")
        answer = command(*arguments, cwd=tmp_path)
        assert (answer.code, answer.err) == (0, "")
        assert "2 DONE" in answer.out
    assert len(statuses(tmp_path)) == 2
    argv = read(next(tmp_path.rglob("env.json")))["argv"]
    assert argv == ["train.py", "-m", "seed=0,1", "strategy=ste", *SHORT]


def test_jobs_that_would_share_a_folder_do_not(tmp_path):
    answer = command("-m", "seed=0,1", "hydra.sweep.subdir=same", *SHORT, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "(seed was 0, now 1)" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_with_a_wrong_option_starts_no_job(tmp_path):
    for arguments in (["strategy=ste,stee"], ["component=hard_max,floor", "component.k=2,3"], ["sed=0,1"]):
        answer = command("-m", *arguments, *SHORT, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
    assert statuses(tmp_path) == {}


def test_a_preset_runs_as_a_sweep_under_its_name(tmp_path):
    answer = command("experiment=dead_gradient", "seed=0", *SHORT, cwd=tmp_path)
    assert answer.code == 0
    assert "2 DONE" in answer.out
    assert all(name.startswith("runs/dead_gradient") for name in statuses(tmp_path))


def test_the_objective_of_a_sweep_is_the_error_of_the_best_model(tmp_path, monkeypatch):
    """What any sweeper plugin minimises."""
    returned = []
    job = Task._job
    monkeypatch.setattr(Task, "_job", lambda *arguments: returned.append(job(*arguments)) or returned[-1])
    assert command("-m", "seed=0,1", *SHORT, cwd=tmp_path).code == 0
    best = [1.0 - read(path)["best"]["accuracy/val"] for path in sorted(tmp_path.rglob("result.json"))]
    assert returned == best


@pytest.mark.slow
def test_tensorboard_shows_a_pair_of_runs(tmp_path):
    """Two commands, one log folder, asked through TensorBoard's own interface: what a person would see there."""
    own = ("component.bits=2", "optimizer.lr=0.05", "max_steps=6", "log_every=2", "eval_every=3", "model.width=8")
    for strategy, run in (("ste", process), ("smooth", command)):  # one of them is enough of a process
        assert run(f"strategy={strategy}", *own, f"hydra.run.dir=log/{strategy}", cwd=tmp_path).code == 0
    board = Board(tmp_path / "log")
    assert sorted(board.get("runs")) == ["smooth", "ste"]
    for run in ("ste", "smooth"):
        tags = set(board.get("plugin/scalars/tags")[run])
        logged = {tag for record in lines(tmp_path / "log" / run) for tag in record if tag != "step"}
        assert tags == logged | {"steps_per_second"}
        for tag in ("loss/train", "grad_norm/total", "accuracy/test", "op/blocks.0.component.quantize/grad_in_norm"):
            curve = {record["step"]: record[tag] for record in lines(tmp_path / "log" / run) if tag in record}
            assert board.curve(run, tag) == {step: pytest.approx(value, rel=1e-6) for step, value in curve.items()}
    assert len(board.rows()) == 2
    for row in board.rows():
        (session,) = row["sessions"]
        assert session["status"] == "STATUS_SUCCESS"
        values = {metric["name"]["tag"]: metric["value"] for metric in session["metricValues"]}
        metrics = read(tmp_path / "log" / session["name"] / "result.json")["metrics"]
        for tag in ("accuracy/val", "accuracy/test", "loss/val", "loss/train", "grad_norm/total"):
            assert values[tag] == pytest.approx(metrics[tag], rel=1e-6)
        shown = row["hparams"]
        assert (shown["1 strategy"], shown["2 component"]) == (session["name"], "quantized_activation")
        assert (shown["7 component.bits"], shown["3 optimizer.lr"], shown["5 seed"]) == (2.0, 0.05, "0")
        assert ("4 strategy.temperature" in shown) is (session["name"] == "smooth")
    differ = [info["name"] for info in board.infos() if info.get("differs")]
    assert differ[0] == board.columns()[0] == "1 strategy"
    charts = {
        chart["title"]: chart["multiline"]["tag"]
        for category in board.get("plugin/custom_scalars/layout")["category"]
        for chart in category["chart"]
    }
    for run in ("ste", "smooth"):
        (pattern,) = charts["gradient norm, before clipping"]
        found = board.get("plugin/custom_scalars/scalars", run=run, tag=pattern)["tag_to_events"]
        assert list(found) == ["grad_norm/total"]


def test_a_diverged_run_is_visible_in_tensorboard(tmp_path):
    """H04, the part of the run: the NaN is in the curve, a text says where, the row says FAILURE."""
    own = ("component=relu", "optimizer.lr=1e10", "max_steps=20", "log_every=5")
    assert command(*own, "hydra.run.dir=log/run", cwd=tmp_path).code == 1
    board = Board(tmp_path / "log")
    assert board.curve("run", "loss/train")[5] == "NaN"
    (mark,) = board.get("plugin/text/text", run="run", tag="diverged/text_summary")
    assert "at step 5" in mark["text"]
    assert board.rows()[0]["sessions"][0]["status"] == "STATUS_FAILURE"


@pytest.mark.slow
def test_every_run_of_a_sweep_has_a_row(tmp_path):
    assert command("-m", "strategy=ste,smooth", "seed=0,1", *SHORT, cwd=tmp_path).code == 0
    rows = Board(tmp_path / "runs").rows()
    assert [len(row["sessions"]) for row in rows] == [1, 1, 1, 1]


def test_the_closing_table_breaks_lines_at_words(tmp_path):
    from experiments.terminal.console import table
    from experiments.terminal.summary import closing_table

    long = " ".join(f"blocks.{i}.values.weight" for i in range(40))
    for line in table([("name", long), ("", "x" * 100), ("empty", "")]).splitlines():
        assert len(line) <= 80 or " " not in line.strip()
    metrics = {"accuracy/val": 0.5, "accuracy/test": 0.25, "grad_norm/total": float("nan")}
    metrics |= {f"grad_norm/blocks.{i}.values.weight": float(i) for i in range(30)}
    result = {
        "metrics": metrics,
        "best": {"step": 3, "accuracy/val": 0.5, "accuracy/test": 0.25},
        "zero_gradient": [f"blocks.{i}.logits.weight" for i in range(30)],
        "never_trained": ["idle"],
        "skipped_steps": 2,
    }
    text = closing_table(result, tmp_path / ("deep " * 30))
    *rest, folder, curves = text.splitlines()
    assert_narrow("\n".join(rest))
    assert shlex.split(curves)[1:] == ["tensorboard", "--logdir", folder.partition("run folder")[2].strip(" ") + " "]
    assert text.count("blocks.") == 8 + 30
    for words in ("no gradient at all: idle", "2 optimizer steps", "nan in all", "0.5000 validation, 0.2500 test"):
        assert words in text


@pytest.mark.nightly
def test_a_tiny_terminal_or_none_at_all(tmp_path):
    code, sent = on_a_terminal(tmp_path, *SHORT, "hydra.run.dir=run", columns=20)
    assert code == 0
    assert "hard accuracy" in sent
    nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert subprocess.run([*TRAIN, *SHORT], cwd=tmp_path, env=ENVIRONMENT, check=False, **nowhere).returncode == 0
    closed = f"{shlex.join([*TRAIN, *SHORT])} seed=1 >&- 2>&-"
    assert subprocess.run(["bash", "-c", closed], cwd=tmp_path, env=ENVIRONMENT, check=False).returncode == 0


@pytest.mark.slow
def test_the_reader_of_the_output_may_leave(tmp_path):
    """`python train.py | head -1`: the run is done all the same, or says that it failed; it never hangs."""
    line = f"{shlex.join(TRAIN)} {shlex.join(SHORT)} hydra.run.dir=run | head -1"
    shell = {"cwd": tmp_path, "env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(["bash", "-c", line], check=False, **shell)
    assert done.stdout.startswith("quantized_activation ste")
    time.sleep(0.5)
    assert read(tmp_path / "run/status.json")["status"] in ("DONE", "FAILED")
