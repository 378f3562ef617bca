"""Files that a command writes where it is told to: a place that cannot be used, a disk that fails, in one sentence."""

import errno
import os

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from fault_layer import FaultyDisk

from experiments import dashboard
from experiments.compare import command as compare
from experiments.compare.forms.aggregates import write_aggregates
from experiments.compare.forms.board_names import safe
from experiments.compare.report import make
from experiments.oracles import command as oracles
from experiments.oracles.answer import Answer
from experiments.oracles.contender_scores import score_all
from experiments.tracking.event_file import EVENT_FILES
from run_folders import write_run
from runs import command, tree

COMMANDS = {  # what is typed before the place that is written to
    "compare --out": (compare.main, ("runs", "--out")),
    "compare --tensorboard": (compare.main, ("runs", "--tensorboard")),
    "compare --readme": (compare.main, ("runs", "--readme")),
    "dashboard": (dashboard.main, ("runs", "--logdir")),
    "oracles": (oracles.main, ("--setting", "Bernoulli", "--draws", "2", "--out")),
}
LONG = "x" * 252  # a name that a file may have, but not its temporary one


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the commands run: two runs in `runs`, and an empty folder `to`."""
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        write_run(tmp_path / "runs" / f"{seed}", seed=seed)
    (tmp_path / "to").mkdir()
    return tmp_path


def say(name, path, capsys):
    """The exit code of a command, and the one sentence that it says on stderr."""
    main, typed = COMMANDS[name]
    capsys.readouterr()
    code = main([*typed, str(path)])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return code, lines[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_where_a_folder_is_asked_for_is_refused(place, name, capsys):
    """And for --readme a folder, or a file below a file."""
    (place / "to" / "file").write_text("mine")
    kept = tree(place)
    if name == "compare --readme":
        assert say(name, "to", capsys) == (2, "error: to exists and is not overwritten; name a new file")
        assert say(name, "to/file", capsys) == (2, "error: to/file exists and is not overwritten; name a new file")
    else:
        said = "error: to/file cannot be written (it is not a folder); choose another place"
        assert say(name, "to/file", capsys) == (2, said)
    said = "error: to/file/a/b cannot be written (Not a directory); choose another place"
    assert say(name, "to/file/a/b", capsys) == (2, said)
    assert tree(place) == kept


@pytest.mark.parametrize("name", COMMANDS)
def test_a_name_that_is_too_long_is_refused(place, name, capsys):
    path = f"to/new/{LONG}" + "x" * 10 * (name != "compare --readme")
    said = f"error: {path} cannot be written (File name too long); choose another place"
    assert say(name, path, capsys) == (2, said)
    assert list((place / "to").iterdir()) == []


@pytest.mark.parametrize("fault", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_is_read_only_is_refused(place, name, fault, monkeypatch, capsys):
    FaultyDisk(monkeypatch, place / "to", fault, first=1)
    path = place / "to" / "new"
    said = f"error: {path} cannot be written ({os.strerror(fault)}); choose another place"
    assert say(name, path, capsys) == (2, said)


def content(folder):
    """The files below a folder; an event file by its run, as its name and some of its bytes hold the time."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {
        (str(file.parent), file.stat().st_size) if file.match(EVENT_FILES) else (str(file), file.read_bytes())
        for file in files
    }


@pytest.mark.parametrize(
    "name",
    ["compare --readme", *(pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS if name[-6:] != "readme")],
)
def test_a_disk_that_fails_is_said_and_leaves_what_was_there(place, name, monkeypatch, capsys):
    """At the first operation after the check, which are two, and in the middle."""
    path = place / "to" / "new"
    main, typed = COMMANDS[name]
    monkeypatch.setattr(dashboard, "_serve", lambda folder, port: 0)
    scored = {}  # again and again the same, also the times measured
    monkeypatch.setattr(oracles, "score_all", lambda one, draws: scored.setdefault(one.name, [*score_all(one, draws)]))
    with monkeypatch.context() as patch:
        disk = FaultyDisk(patch, place / "to")
        assert main([*typed, str(path)]) == 0
    whole, operations = content(place / "to"), disk.count
    assert len(whole) >= 1
    for first in (3, operations // 2):
        if name == "compare --readme":
            path.unlink(missing_ok=True)
            whole = set()
        with monkeypatch.context() as patch:
            FaultyDisk(patch, place / "to", first=first)
            code, line = say(name, path, capsys)
        assert code == 1
        assert line.startswith(f"error: {path}")
        assert line.endswith(" cannot be written (No space left on device)")
        assert content(place / "to") == whole


def test_an_earlier_report_s_event_files_stay_until_the_new_ones_are_whole(place, monkeypatch):
    """Also where the write fails in the middle of a picture, say."""
    report, folder = make(["runs"]), place / "to"
    write_aggregates(report, folder)
    earlier = set(folder.rglob(EVENT_FILES))
    with monkeypatch.context() as patch:
        patch.setattr("experiments.compare.forms.board_rows.end_summary", lambda success: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_aggregates(report, folder)
    assert set(folder.rglob(EVENT_FILES)) == earlier
    write_aggregates(report, folder)
    assert len(earlier) == len(set(folder.rglob(EVENT_FILES)) - earlier) == 4


@pytest.mark.parametrize("name", ["ste (carrier=" + "日" * 200, "x" * 300])
def test_a_variant_of_any_name_has_a_folder(tmp_path, name):
    """Of 120 letters, of three bytes each, a name would be too long."""
    (tmp_path / safe(name)).mkdir()
    assert name.startswith(safe(name))
    assert len(safe(name)) >= 40


def test_a_question_is_not_asked_where_its_answer_cannot_be_written(place):
    """And a disk that fails then ends the command with 1."""
    (place / "to" / "file").write_text("mine")
    refused = command("experiment=ties", "hydra.run.dir=to/file", cwd=place)
    assert refused.code == 2
    assert "Traceback" not in refused.err
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.oracles.questions.ties.answer", lambda: Answer([], remarks="none"))
        FaultyDisk(patch, place / "to", first=5)
        failed = command("experiment=ties", f"hydra.run.dir={place}/to/answer", cwd=place)
    said = f"error: {place}/to/answer/answer.json cannot be written (No space left on device)\n"
    assert (failed.code, failed.err) == (1, said)


def test_without_a_place_for_temporary_files_the_dashboard_asks_for_one(place, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.mkdtemp", lambda *_, **__: os.open("/nowhere/there", os.O_RDONLY))
    assert dashboard.main(["runs"]) == 2
    said = "error: no temporary folder can be made (No such file or directory); choose a folder with --logdir\n"
    assert capsys.readouterr().err == said
