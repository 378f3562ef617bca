"""Studies: files that are refused, grids that are extended, and the whole life of one in a folder."""

import re
from itertools import combinations
from statistics import fmean

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from experiments.config.values import ConfigError
from experiments.study import study_report
from experiments.study.command import main
from experiments.study.pair_check import check_pairs
from experiments.study.registration import check_registered, register
from experiments.study.stage import Caller, Stage
from experiments.study.study_file import Pair, read_study, study_path
from experiments.study.trials import Point, extend, keys_at_edge, new_points
from experiments.sweep.listing import job_overrides
from experiments.tracking.strict_json import DamagedFile
from run_folders import write_run
from runs import CONF, read, read_files_once, tree

pytest.importorskip("scipy")

STUDIES = sorted(path.stem for path in (CONF / "study").iterdir())
TINY = {
    "question": "Does a floor train?",
    "expectation": "Through the identity it does.",
    "settings": {"data": "fake", "model.width": 4, "batch_size": 16, "max_steps": 4, "eval_every": 2},
    "pairs": {
        "dead": {"component": "floor", "strategy": "subgradient"},
        "own": {"component": "floor,binary", "strategy": "ste"},
        "none": {"component": "binary", "strategy": "rewrite"},
    },
    "grids": {"optimizer": ["sgd", "adam"], "optimizer.lr": [0.1, 1.0], "strategy.temperature": [1.0]},
    "choosing_seeds": [100, 101],
    "reporting_seeds": "range(2)",
    "budget": {"runs": 60, "extensions": 1},
}

ALONE = {"pairs": {"a": {"component": "floor", "strategy": "ste"}}, "grids": {"optimizer.lr": [0.1, 1.0]}}


def written(folder, **changes):
    """A study file with other values; None leaves a key out."""
    content = {key: value for key, value in {**TINY, **changes}.items() if value is not None}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_a_study_is_read_as_it_is_written(tmp_path):
    study = read_study(written(tmp_path))
    assert [pair.name for pair in study.pairs] == ["dead", "floor own", "binary own", "none"]
    assert study.pairs[2].overrides == ("component=binary", "strategy=ste")
    assert (study.choosing_seeds, study.reporting_seeds) == ((100, 101), (0, 1))
    assert "data=fake" in study.settings
    assert study.grids["optimizer.lr"] == (0.1, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expectation": None}, "expectation is missing or empty"),
        ({"expactation": "x"}, "there is no key expactation; did you mean expectation"),
        ({"grids": {}}, "grids is missing or empty"),
        ({"grids": {"optimizer.lr": []}}, r"grids\.optimizer\.lr is missing or empty"),
        ({"grids": {"optimizer.lr": 0.1}}, "grids must be"),
        ({"grids": {"optimizer.lr": [0.1, 0.1]}}, r"grids\.optimizer\.lr: 0\.1 is given twice"),
        ({"grids": {"strategy": ["ste"]}}, "pair dead, settings and grids: strategy is given twice"),
        ({"choosing_seeds": [0, 100]}, "choosing_seeds and reporting_seeds: 0 is given twice"),
        ({"choosing_seeds": [7, 7]}, "choosing_seeds and reporting_seeds: 7 is given twice"),
        ({"margin": 0.0}, "margin must be above 0"),
        ({"reporting_seeds": "some"}, "reporting_seeds must be whole numbers"),
        ({"pairs": {"a": ["component=floor"]}}, "pairs must be"),
        ({"settings": {"seed": 3}}, "seed is given twice"),
        ({"settings": {"data": "fake,digits"}}, "settings sets one value of each key"),
        ({"variance": "optimizer"}, "variance must be"),
        ({"variance": []}, "variance needs at least two keys, got none"),
        ({"variance": ["optimizer"]}, "variance needs at least two keys, got optimizer"),
        ({"variance": ["optimizer", "optimizer"]}, "variance: optimizer is given twice"),
        ({"variance": ["optimizer", "model.width"]}, r"variance: model\.width is in no pair and in no grid"),
        ({"variance": ["component", "optimizer.rl"]}, r"optimizer\.rl is .*; did you mean optimizer\.lr"),
        ({"variance": ["optimizer", "strategy.temperature"]}, r"has only the value 1\.0; a factor needs at least two"),
        ({"variance": ["optimizer", "component"], "choosing_seeds": [7]}, "variance needs at least two choosing_seeds"),
        ({"budget": {"runs": 3}}, r"budget\.extensions is missing"),
        ({"budget": {"runs": 3, "hours": 1}}, r"there is no key budget\.hours"),
    ],
)
def test_a_file_that_is_no_study_is_refused_with_its_name_and_key(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=rf"tiny\.yaml: .*{message}"):
        read_study(written(tmp_path, **changes))


def test_other_files_and_names_are_refused(tmp_path, capsys):
    path = tmp_path / "x.yaml"
    path.write_text("- 1")
    with pytest.raises(ConfigError, match="a study maps keys to values"):
        read_study(path)
    path.write_text("a: [")
    with pytest.raises(DamagedFile, match="is not YAML"):
        read_study(path)
    with pytest.raises(ConfigError, match="there is no study stategies; did you mean strategies"):
        study_path("stategies", CONF)
    assert main([str(path), "max_steps=5", "--folder", str(tmp_path / "s")]) == 2
    assert "max_steps=5 is no part of how a study is carried out" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("keys", [keys for n in range(4) for keys in combinations(("a", "b.c", "d"), n)])
def test_the_jobs_of_an_extension_are_those_that_the_longer_grid_adds(keys):
    old = {"a": (0.1, 1.0), "b.c": (1, 8, 64), "d": (10.0, 0.1, 1.0)}
    longer = extend(old, keys)
    assert [key for key in old if len(longer[key]) == len(old[key]) + (2 if key != "b.c" else 1)] == list(keys)

    def listed(points):
        return sorted(str(sorted(trial.items())) for point in points for _, trial in point.jobs())

    whole = Point(Pair("p", ("strategy=ste",)), longer, (3, 4))
    before = listed([Point(whole.pair, old, whole.seeds)])
    assert sorted(before + listed(new_points(whole, old))) == listed([whole])


def test_a_grid_is_extended_at_both_ends_by_the_ratio_there():
    assert extend({"a": (0.3, 0.01, 0.1)}, ["a"])["a"] == (0.3, 0.01, 0.1, 0.001, 0.9)
    assert extend({"a": (1, 2, 4)}, ["a"])["a"] == (1, 2, 4, 8)  # a whole number below 1 would be 0
    grid = {"a": (0.1, 1.0, 10.0), "b": ("x", "y"), "c": (5.0,), "d": (0.0, 1.0), "e": (True, False)}
    assert keys_at_edge(grid, [{"a": 1.0, "b": "x", "c": 5.0, "d": 1.0, "e": True}]) == []
    assert keys_at_edge(grid, [{"a": 1.0}, {"a": 10.0}]) == ["a"]


def test_a_point_lists_its_jobs_in_the_order_of_the_sweep():
    grid = {"optimizer": ("sgd", "adam"), "optimizer.lr": (0.1,), "strategy.temperature": (0.5, 2)}
    point = Point(Pair("p", ("component=floor", "strategy=ste")), grid, (3, 4))
    typed = yaml.safe_load(point.text(["data=fake", "diagnostics=[truth,rivals]"]))
    jobs = [dict(one.split("=", 1) for one in job) for job in job_overrides([], {}, [typed])]
    trials = [trial for _, trial in point.jobs()]
    assert [{key: str(value) for key, value in trial.items()} for trial in trials] == [
        {key: job[key] for key in grid} for job in jobs
    ]
    assert [job["seed"] for job in jobs] == ["3", "4"] * 4
    assert all(job["diagnostics"] == "[truth,rivals]" for job in jobs)


def test_a_changed_file_is_refused_once_there_are_runs(tmp_path):
    folder = tmp_path / "folder"
    path = written(tmp_path)
    register(path, folder)
    check_registered(written(tmp_path, question="Another?"), folder)  # no run was made with the first
    register(path, folder)
    write_run(folder / "choosing-1" / "a")
    register(written(tmp_path), folder)
    with pytest.raises(ConfigError, match="question was 'Another\\?', now 'Does a floor train\\?'"):
        check_registered(path, folder)
    path.write_text("# a comment\n" + (folder / "study.yaml").read_text())
    check_registered(path, folder)
    copy = folder / "study.yaml"
    copy.write_text(copy.read_text().replace("Another", "Which"))
    with pytest.raises(ConfigError, match=r"study\.yaml is missing or was changed"):
        check_registered(path, folder)


@pytest.mark.nightly
@pytest.mark.parametrize("name", STUDIES)
def test_every_pair_of_a_shipped_study_can_run(name, tmp_path):
    """Its first round and its reports fit the budget."""
    read_files_once()
    study = read_study(study_path(name, CONF))
    pairs = check_pairs(study, tmp_path, Caller())
    assert all(pair.applies for pair in pairs)
    assert all("optimizer.lr" in pair.keys for pair in pairs)
    points = [pair.point(study.grids, study.choosing_seeds) for pair in pairs]
    first = sum(1 for point in points for _ in point.jobs())
    assert first + len(pairs) * len(study.reporting_seeds) <= study.runs


def run(path, folder, *options):
    GlobalHydra.instance().clear()
    return main([str(path), *options, "--folder", str(folder)])


def rates(folder):
    """By strategy and learning rate: the mean validation accuracy."""
    scores = {}
    for result in folder.glob("choosing-*/floor/*/*/result.json"):
        rate = yaml.safe_load((result.parent / "config.yaml").read_text())["optimizer"]["lr"]
        own = scores.setdefault(result.parts[-3], {})
        own.setdefault(rate, []).append(read(result)["best"]["accuracy/val"])
    return {strategy: {rate: fmean(found) for rate, found in own.items()} for strategy, own in scores.items()}


@pytest.mark.slow
def test_the_life_of_a_study(tmp_path, monkeypatch, capsys):
    """Interrupted between two stages, resumed with another launcher, refused once its file changed."""
    read_files_once()
    pairs = {"all": {"component": "floor", "strategy": "subgradient,ste"}, "none": TINY["pairs"]["none"]}
    factors = {"variance": ["strategy", "optimizer.lr"], "choosing_seeds": [100, 101]}
    changes = {"pairs": pairs, "grids": {"optimizer.lr": [0.1, 1.0]}, **factors}
    path, folder = written(tmp_path, **changes), tmp_path / "tiny"
    with monkeypatch.context() as patch:
        begun = Stage.run

        def interrupted(stage, caller):
            if stage.name == "choosing-2":
                raise KeyboardInterrupt
            return begun(stage, caller)

        patch.setattr(Stage, "run", interrupted)
        assert run(path, folder, "hydra/launcher=stacked") == 130
    first = tree(folder / "choosing-1")
    assert not (folder / "study.md").exists()

    drawn = []
    monkeypatch.setattr(study_report, "write", lambda report, place, workers: drawn.append(place))  # seconds of figures
    assert run(path, folder) == 0
    assert tree(folder / "choosing-1") == first
    scores = rates(folder)
    assert {strategy: sorted(own) for strategy, own in scores.items()} == {
        strategy: [0.01, 0.1, 1.0, 10.0] for strategy in ("ste", "subgradient")
    }
    for strategy, own in scores.items():
        configs = [
            yaml.safe_load(file.read_text()) for file in folder.glob(f"reporting/floor/{strategy}/*/config.yaml")
        ]
        assert sorted(one["seed"] for one in configs) == [0, 1]
        assert {own[one["optimizer"]["lr"]] for one in configs} == {max(own.values())}
    report = (folder / "study.md").read_text()
    for part in ("## Question\n\nDoes a floor train?", "## Expectation\n\nThrough the identity", "## Result\n\n| comp"):
        assert part in report
    assert "optimizer.lr: 0.1, 1.0; added by extension: 0.01, 10.0" in report
    assert "not applicable: none" in report
    assert "component=floor: 2 levels of strategy, 4 levels of optimizer.lr, 2 seeds" in report
    assert (folder / "variance.csv").exists()
    assert drawn == [folder / "report"]
    assert (folder / "table.md").read_text() in report
    assert re.search(
        r"expected time: choosing .*; with extensions of grids at most \d+:\d\d\n", capsys.readouterr().out
    )

    assert run(written(tmp_path, **changes, expectation="It does not."), folder) == 2
    assert "expectation was 'Through the identity it does.', now 'It does not.'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": {"a": {"component": "flor", "strategy": "ste"}}}, "component has no option 'flor'"),
        ({"pairs": {"a": {"component": "floor", "strategy": "ste"}, "b": {"component": "floor"}}}, "are the same run"),
        ({"settings": {"data": "fake", "max_stepz": 1}}, "there is no key max_stepz"),
        ({"grids": {"optimizer.lr": [-1.0]}}, "optimizer.lr"),
        (
            {**ALONE, "budget": {"runs": 5, "extensions": 0}},
            "the study needs 6 runs without extensions; budget.runs is 5",
        ),
        ({**ALONE, "settings": {"data": "fake", "data.size": 40}}, "batch_size=64 is larger than the training part"),
    ],
)
def test_what_cannot_run_is_refused_before_work_starts(tmp_path, capsys, changes, message):
    read_files_once()
    folder = tmp_path / "tiny"
    assert run(written(tmp_path, **changes), folder) == 2
    assert message in capsys.readouterr().err
    assert not folder.exists()
