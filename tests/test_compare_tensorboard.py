"""The aggregate runs, as TensorBoard itself reads them, and the dashboard that only this machine can reach."""

import io
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")

from tensorboard import default, program
from test_tensorboard import Board

from experiments.compare.explaining.op_response import responses
from experiments.compare.forms.aggregates import FolderTaken, write_aggregates
from experiments.compare.forms.op_images import png
from experiments.compare.report import make
from experiments.dashboard import HOST, VIEW, flags
from run_folders import write_run

KNOWN = ("ste", "subgradient")
ROOT = Path(__file__).resolve().parents[1]
RUN = ("strategy=smooth", "component=floor", "max_steps=3", "model.width=8", "eval_every=3", "log_every=1")


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    root, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("board")
    for seed, accuracy in enumerate((0.5, 0.7)):
        write_run(root / "ste" / f"{seed}", "ste", seed, accuracy)
    write_run(root / "sub", "subgradient", 0, 0.25)
    write_run(
        root / "failed", "subgradient", 1, status="FAILED", error="training diverged by step 5", rows=[{"step": 1}]
    )
    return folder, write_aggregates(make([root]), folder), Board(folder)


def test_mean_and_band_are_curves_of_one_run_a_strategy(board):
    _, _, found = board
    means = [run for run in found.get("runs") if run.startswith("mean/")]
    assert sorted(means) == ["mean/ste", "mean/subgradient"]
    run = "mean/ste"
    assert found.curve(run, "accuracy/val") == pytest.approx({10: 0.3, 20: 0.6}, abs=1e-6)
    assert found.curve(run, "lower/accuracy/val")[20] == pytest.approx(0.5, abs=1e-6)  # the range of two seeds
    assert found.curve(run, "upper/accuracy/val")[20] == pytest.approx(0.7, abs=1e-6)
    alone = "mean/subgradient"
    assert found.curve(alone, "lower/loss/train") == found.curve(alone, "loss/train")


def test_margin_charts_overlay_the_strategies(board):
    _, _, found = board
    (category,) = found.get("plugin/custom_scalars/layout")["category"]
    assert category["title"] == "floor"
    charts = {chart["title"]: chart["margin"]["series"] for chart in category["chart"]}
    assert charts["validation accuracy, hard"] == [
        {"value": "accuracy/val", "lower": "lower/accuracy/val", "upper": "upper/accuracy/val"}
    ]
    assert list(charts) == ["training loss", "validation accuracy, hard"]  # TensorBoard shows the last one first


def test_hparams_show_one_row_a_strategy_averaged_over_its_seeds(board):
    _, _, found = board
    rows = {row["name"]: row for row in found.rows()}
    assert sorted(rows) == ["ste", "subgradient"]
    assert [len(row["sessions"]) for _, row in sorted(rows.items())] == [2, 2]

    def score(row):
        return {metric["name"]["tag"]: metric["value"] for metric in row["metricValues"]}["score/accuracy/test"]

    assert score(rows["ste"]) == pytest.approx(0.6)
    assert score(rows["subgradient"]) == pytest.approx(0.25)
    assert found.columns() == ["strategy"]
    assert {session["status"] for session in rows["subgradient"]["sessions"]} == {"STATUS_SUCCESS", "STATUS_FAILURE"}


def test_the_text_says_what_is_shown_and_what_all_runs_share(board):
    """The words of a person who has not read the documentation: seeds, scores, failures, settings, colours."""
    _, _, found = board
    (card,) = found.get("plugin/text/text", run="about", tag="about/text_summary")
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in card["text"].split("</tr>")]
    assert ["ste", "2", "60.0"] in [row[:3] for row in rows]
    assert ["optimizer.lr", "0.1"] in rows
    assert ["max_steps", "20"] in rows
    assert not any(row[:1] == ["seed"] for row in rows)
    assert "1 diverged" in card["text"]
    pattern = re.search(r"<code>(\^.*)\n</code>", card["text"])[1]
    strategies = {run: match and match[1] for run in found.get("runs") for match in [re.search(pattern, run)]}
    assert strategies.pop("about") is None
    assert all(strategy in run.split("/") for run, strategy in strategies.items())
    assert set(strategies.values()) == {"ste", "subgradient"}


@pytest.mark.slow
def test_several_components_are_categories_and_a_strategy_stays_one_run(tmp_path):
    for component in ("floor", "hard_max"):
        for strategy, lr in (("ste", 0.1), ("smooth", 0.3)):
            write_run(tmp_path / "runs" / component / strategy, strategy, component=component, lr=lr)
    write_aggregates(make([tmp_path / "runs"]), tmp_path / "board")
    found = Board(tmp_path / "board")
    assert [run for run in found.get("runs") if run.startswith("mean/")] == ["mean/ste", "mean/smooth"]
    categories = found.get("plugin/custom_scalars/layout")["category"]
    assert [category["title"] for category in categories] == ["floor", "hard_max"]
    assert [category.get("closed", False) for category in categories] == [False, True]
    for category in categories:
        for chart in category["chart"]:
            (series,) = chart["margin"]["series"]
            assert series["value"].startswith(f"{category['title']}/")
            assert all(found.curve("mean/smooth", series[end]) for end in ("value", "lower", "upper"))
    assert found.columns() == ["strategy", "component", "optimizer.lr"]
    assert {row["name"] for row in found.rows()} == {
        f"{c}/{s}" for c in ("floor", "hard_max") for s in ("ste", "smooth")
    }


def test_a_run_is_one_file(board):
    """H08, the part of the comparison: one event file for each strategy, each reported run, and all of them."""
    folder, _, found = board
    assert len(list(folder.rglob("events.out.tfevents.*"))) == len(found.get("runs")) == 7


def test_runs_whose_ops_cannot_be_pictured_are_said_once_a_reason(board):
    _, (problem,), _ = board
    assert "/sub and 2 more: ops cannot be pictured (ConfigError: component._target_=" in problem


def test_a_report_replaces_an_earlier_one_and_nothing_else(board, tmp_path):
    write_run(tmp_path / "runs" / "a")
    report = make([tmp_path / "runs"])
    folder = tmp_path / "board"
    for _ in range(2):
        write_aggregates(report, folder)
        assert len(list(folder.rglob("events*"))) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("a")
    with pytest.raises(FolderTaken, match="choose another log folder"):
        write_aggregates(report, tmp_path / "mine")


def test_the_picture_shows_what_the_layer_does(shared):
    """Value and derivative against the strategy's own, at the temperature that the run ended with."""
    from surrogates.ops.floor import Floor
    from surrogates.strategies.smooth import Smooth

    run = shared(*RUN)
    found = list(responses(run))
    assert [response.layer for response in found] == ["blocks.0.component.floor", "blocks.1.component.floor"]
    for response in found:
        assert response.temperature == pytest.approx(0.1)
        op, x = Floor(0.5, -1.0, 1.0), response.grid.clone().requires_grad_()
        assert torch.equal(response.hard, op.hard(response.grid))
        value = Smooth()(op, x, T=torch.tensor(response.temperature), noise=None)
        torch.testing.assert_close(response.value, value.detach())
        torch.testing.assert_close(response.derivative, torch.autograd.grad(value.sum(), x)[0])
        assert len(response.inputs) == 256 * 8
        assert response.grid[0] < response.inputs.quantile(0.01)
    assert png(found[0]).startswith(b"\x89PNG")


@pytest.mark.parametrize("component", ["hard_max", "hard_gate"])
def test_an_op_over_a_dim_is_pictured_in_one_of_its_inputs(shared, component):
    for response in responses(shared(*RUN[:1], f"component={component}", *RUN[2:])):
        assert response.hard.shape == response.value.shape == response.derivative.shape == response.grid.shape
        assert response.derivative.abs().max() > 0


def test_pictures_are_in_tensorboard(shared, tmp_path):
    from PIL import Image

    assert write_aggregates(make([shared(*RUN)]), tmp_path) == []
    found = Board(tmp_path)
    (run,) = [run for run in found.get("runs") if run.startswith("seeds/")]
    tags = found.get("plugin/images/tags")[run]
    assert sorted(tags) == ["op/blocks.0.component.floor", "op/blocks.1.component.floor"]
    (image,) = found.get("plugin/images/images", run=run, tag=sorted(tags)[0])
    answer = found.client.get(f"/data/plugin/images/individualImage?{image['query']}")
    assert Image.open(io.BytesIO(answer.get_data())).size == (572, 396)


def test_pictures_can_be_left_out(shared, tmp_path):
    write_aggregates(make([shared(*RUN)]), tmp_path, "none")
    assert all(tags == {} for tags in Board(tmp_path).get("plugin/images/tags").values())


def test_the_dashboard_is_told_to_stay_on_this_machine(tmp_path):
    assert HOST == "127.0.0.1"
    told = flags(tmp_path, 0)
    assert told[told.index("--host") + 1] == HOST


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_in_a_browser_a_strategy_has_one_colour(board, tmp_path):
    """The address that the dashboard prints: the line and the seeds of a strategy look alike, and no script fails."""
    served = program.TensorBoard(default.get_plugins())
    served.configure(argv=["tensorboard", *flags(board[0], 0), "--load_fast=false"])
    url = f"{served.launch()}{VIEW.partition('#')[0]}#timeseries"
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    quick = ["--virtual-time-budget=15000", "--enable-logging=stderr", "--dump-dom", url]
    done = subprocess.run([*browser, *quick], capture_output=True, text=True, check=True, timeout=120)
    assert "Uncaught" not in done.stderr
    row = r'data-id="defaultExperimentId/([^"]+)".*?run-color-swatch" style="background: (rgb\([^)]+\))'
    colours = dict(re.findall(row, done.stdout, re.DOTALL))
    assert set(colours) == set(board[2].get("runs"))
    found = {(strategy, colour) for run, colour in colours.items() for strategy in run.split("/") if strategy in KNOWN}
    assert len(found) == len(dict(found)) == len({colour for _, colour in found}) == 2


@pytest.mark.slow
def test_the_dashboard_serves_on_loopback_only_and_stops_when_told(tmp_path):
    write_run(tmp_path / "runs" / "a")
    command = [sys.executable, "-m", "experiments.dashboard", str(tmp_path / "runs"), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = next(line for line in process.stdout if line.startswith("http"))
            assert url.startswith(f"http://{HOST}:")
            with urllib.request.urlopen(url.partition("#")[0] + "data/runs", timeout=60) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
