"""The closing lines of a sweep, the names of its jobs, and what TensorBoard shows of all of them."""

import json
import re
import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from test_cli import ENVIRONMENT, assert_narrow
from test_tensorboard import Board

from experiments.sweep.closing import closing_lines
from experiments.sweep.outcomes import JobReport
from experiments.sweep.plan import Job
from experiments.sweep.variation import in_words, variation
from runs import ROOT, SHORT, command


def ended(root, overrides, accuracy, status="DONE", component="floor", same_as=None):
    """A job that ended with this validation accuracy."""
    folder = root / overrides.replace(" ", ",")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps({"best": {"accuracy/val": accuracy}}))
    choices = {"component": component, "model": "mlp", "data": "digits"}
    config = OmegaConf.create({"hydra": {"runtime": {"choices": choices}}})
    return JobReport(Job(0, overrides.split(), folder, config, same_as=same_as), status)


def best(root, *reports):
    """The lines about the best settings, without their label."""
    lines = closing_lines(root, reports).splitlines()
    assert_narrow("\n".join(lines))
    assert [line.split()[-1] for line in lines[-3:]] == [str(root)] * 3
    return [line.removeprefix("best so far").strip() for line in lines[:-3]]


def test_the_best_strategy_has_the_best_mean_over_its_seeds(tmp_path):
    scores = {"ste": (0.5, 0.75), "smooth": (0.875, 0.25), "rewrite": (0.5, 0.5)}
    reports = [
        ended(tmp_path, f"strategy={name} seed={seed} max_steps=9", score)
        for name, own in scores.items()
        for seed, score in enumerate(own)
    ]
    assert best(tmp_path, *reports) == ["ste: validation accuracy 0.6250, mean of 2 seeds"]
    assert best(tmp_path, *reversed(reports)) == best(tmp_path, *reports)
    assert best(tmp_path, *reports[:2]) == []  # nothing was compared


def test_settings_are_named_by_what_varies_and_compared_within_a_task(tmp_path):
    reports = [
        ended(tmp_path, "component=floor strategy=ste batch_size=8", 0.5),
        ended(tmp_path, "component=floor strategy=smooth batch_size=8", 0.75),
        ended(tmp_path, "component=relu strategy=ste batch_size=8", 0.875, component="relu"),
        ended(tmp_path, "component=relu strategy=smooth batch_size=8", 0.25, component="relu"),
    ]
    assert best(tmp_path, *reports) == [
        "smooth floor: validation accuracy 0.7500, mean of 1 seed",
        "ste relu: validation accuracy 0.8750, mean of 1 seed",
    ]


def test_ties_and_runs_without_a_score_are_said(tmp_path):
    """A mean over the runs that are done does not pass for one over all of them; a repeated job counts once."""
    reports = [
        ended(tmp_path, "strategy=ste seed=0", 0.75),
        ended(tmp_path, "strategy=ste seed=1", 0.75, status="FAILED"),
        ended(tmp_path, "strategy=smooth seed=0", 0.75),
        ended(tmp_path, "strategy=smooth seed=1", 0.75),
        ended(tmp_path, "strategy=smooth seed=1.0", 0.0, same_as=tmp_path),
        ended(tmp_path, "strategy=rewrite seed=0", 0.9, status="NOT_APPLICABLE"),
    ]
    assert best(tmp_path, *reports) == [
        "ste: validation accuracy 0.7500, mean of 1 of 2 seeds",
        "smooth: validation accuracy 0.7500, mean of 2 seeds",
    ]
    many = [ended(tmp_path, f"optimizer.lr={number}", 0.5) for number in range(5)]
    assert best(tmp_path, *many)[3:] == ["and 2 more with the same mean"]
    (tmp_path / "strategy=ste,seed=0/result.json").write_text("{}")
    assert best(tmp_path, *reports) == []  # one setting is left
    assert closing_lines(tmp_path, [reports[1]]) == ""


def test_what_varies_is_in_a_fixed_order_and_constants_are_left_out():
    jobs = [
        ["max_steps=9", "seed=0", "+optimizer.lr=0.1", "strategy=ste"],
        ["max_steps=9", "seed=1", "optimizer.lr=0.1", "strategy=smooth", "component.bits=2", "component=floor"],
    ]
    varied = variation(jobs)
    assert varied == {
        "strategy": ["ste", "smooth"],
        "component": ["floor"],
        "seed": ["0", "1"],
        "component.bits": ["2"],
    }
    assert list(varied) == ["strategy", "component", "seed", "component.bits"]
    assert [in_words(job, varied) for job in jobs] == ["ste seed=0", "smooth floor seed=1 component.bits=2"]
    assert variation(jobs[:1]) == {}


@pytest.mark.slow
def test_tensorboard_shows_what_varies_in_a_root_and_in_words_what_does_not(tmp_path):
    """Two commands in one root: the later one's columns are those of both. Nothing is written when nothing runs."""
    own = ("-m", "component=floor", "hydra.sweep.dir=root", "hydra/launcher=stacked", *SHORT)
    answer = command(*own, "strategy=ste,smooth", "seed=0,1", cwd=tmp_path)
    assert "ste: validation" in answer.out or "smooth: validation" in answer.out
    for line in ("hardgrad compare root", "hardgrad dashboard root", "tensorboard --logdir root"):
        assert re.search(rf"^\S.*  {line}$", answer.out, re.M)
    assert Board(tmp_path / "root").columns() == ["strategy", "seed"]
    command(*own, "strategy=ste", "optimizer.lr=0.5", cwd=tmp_path)
    before = list((tmp_path / "root/about").iterdir())
    command(*own, "strategy=ste", "optimizer.lr=0.5", cwd=tmp_path)
    assert list((tmp_path / "root/about").iterdir()) == before
    assert len(before) == 1
    board = Board(tmp_path / "root")
    assert board.columns() == ["strategy", "optimizer.lr", "seed"]
    (card,) = board.get("plugin/text/text", run="about", tag="about/text_summary")
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in card["text"].split("</tr>")]
    assert ["component", "floor"] in rows
    assert ["strategy", "ste,", "smooth"] in rows
    pattern = re.search(r"<code>(.+)\n</code>", card["text"])[1]
    runs = [run for run in board.get("runs") if run != "about"]
    assert {re.search(pattern, run)[1] for run in runs} == {"ste", "smooth"}
    assert len(board.rows()) == len(runs) == 5


def test_the_help_page_needs_no_torch():
    script = """
import sys
from experiments.command.start import main
sys.argv = ["train.py", "--help"]
main()
assert not {"torch", "hydra", "tensorboard"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python train.py ")
