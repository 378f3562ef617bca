"""Only regular files of a bounded size are opened, and never through a link; YAML and JSON are bounded too."""

import os
import socket
import tracemalloc

import pytest

from experiments.tracking.atomic_file import replacing
from experiments.tracking.checkpoint import CheckpointError, load, save
from experiments.tracking.metrics import MetricsLog, read_metrics
from experiments.tracking.regular_file import MOST_LINE, read_bytes, read_lines, regular
from experiments.tracking.strict_json import DamagedFile, read_json
from experiments.tracking.strict_yaml import DEEPEST, LONGEST, read_yaml, write_yaml

SPARSE = 2**38  # 256 GB that take no room


def link(path):
    (path.parent / "target").write_text("precious")
    path.symlink_to(path.parent / "target")


def listen(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.close()


ODD = {
    "a link": link,
    "a FIFO": os.mkfifo,
    "a socket": listen,
    "a device": lambda path: os.mknod(path, 0o20666, os.makedev(1, 3)),
    "Is a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("mode", ["rb", "wb", "ab", "xb"])
def test_what_is_no_regular_file_is_refused_by_kind_and_never_waited_for(tmp_path, monkeypatch, kind, mode):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = tmp_path / "status.json"
    try:
        ODD[kind](path if kind != "a socket" else path.relative_to(tmp_path).absolute())
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(OSError, match=kind if mode != "xb" else f"{kind}|exists") as refusal:
        open(path, mode, opener=regular)  # noqa: SIM115
    assert refusal.value.filename in (path, str(path))
    if kind == "a link":
        assert (tmp_path / "target").read_text() == "precious"


def test_a_link_at_a_temporary_name_is_not_followed(tmp_path):
    link(tmp_path / ".result.json.tmp")
    with pytest.raises(OSError, match="a link"), replacing(tmp_path / "result.json") as file:
        file.write(b"{}")
    assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "result.json").exists()


def test_a_link_at_a_log_is_not_followed(tmp_path):
    link(tmp_path / "metrics.jsonl")
    with pytest.raises(OSError, match="a link"):
        MetricsLog(tmp_path / "metrics.jsonl")
    assert (tmp_path / "target").read_text() == "precious"


@pytest.mark.parametrize("name", ["status.json", "result.json", "config.yaml"])
def test_a_file_of_any_size_is_refused_unread(tmp_path, name):
    path = tmp_path / name
    path.touch()
    os.truncate(path, SPARSE)
    with pytest.raises(OSError, match="274,877,906,944 bytes, more than"):
        read_bytes(path)


@pytest.mark.parametrize("trailer", [False, True])
def test_a_checkpoint_of_any_size_is_refused_by_its_last_line_or_its_size(tmp_path, trailer):
    path = tmp_path / "best.pt"
    save(path, {"model": {}})
    last = path.read_bytes()[-110:]
    os.truncate(path, SPARSE)
    if trailer:
        with open(path, "ab") as file:
            file.write(b"\n" + last.partition(b"\n")[2])
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="more than" if trailer else "its last line is missing"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_line_without_end_is_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss/train": 2}\n')
    os.truncate(path, SPARSE)
    assert read_metrics(path) == [{"step": 1, "loss/train": 2.0}]
    lines = read_lines(path)
    assert [len(next(lines)), len(next(lines))] == [29, MOST_LINE]


ALIASES = "a: &a [x, x]\nb: [*a, *a]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ALIASES, "holds a YAML alias"),
        ("a: &a {x: 1}\nb: {<<: *a}\n", "holds a YAML alias"),
        ("a: " + "[" * DEEPEST + "]" * DEEPEST, f"nested more than {DEEPEST} levels"),
        ("[" * 500_000, "is not YAML"),
        (f"a: {'x' * (LONGEST + 1)}", "holds a value of 4,097 characters"),
        ("a: " + "x" * 60_000_000, "60,000,003 bytes, more than"),
        ("a: [", "is not YAML"),
        ("a: \xff", "is not YAML"),
        ("a: 2020-13-45", "is not YAML"),
        ("? [1, 2]\n: 3", "is not YAML"),
        ("a: !!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_yaml_that_no_run_writes_is_refused_at_once(tmp_path, text, words):
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises((DamagedFile, OSError), match=words):
        read_yaml(path)


def test_yaml_comes_back_as_it_was_written(tmp_path):
    content = {
        "lr": [1e-05, 1e39, 0.1, 1, float("inf")],
        "text": [
            "1e5",
            "40e0d74e",
            "1e5 is a number",
            "yes",
            "null",
            "2020-01-01",
            "a: b",
            "μ",
            "",
            "${seed}",
            "0x10",
            "1_0",
        ],
        "nothing": None,
        "true": {"empty": {}, "list": []},
    }
    write_yaml(tmp_path / "config.yaml", content)
    assert read_yaml(tmp_path / "config.yaml") == content


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 500_000, "nested too deeply"),
        ('{"seed": 1, "seed": 2}', "it gives a key twice"),
        ("1" * 10_000, "is not valid JSON"),
        ("{", "is not valid JSON"),
        ('{"a": "' + "x" * 2**20 + '"}', "more than the 1,048,576"),
    ],
)
def test_json_that_no_run_writes_is_refused_at_once(tmp_path, text, words):
    (tmp_path / "status.json").write_text(text)
    with pytest.raises((DamagedFile, OSError), match=words):
        read_json(tmp_path / "status.json")
