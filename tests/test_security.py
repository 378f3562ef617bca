"""Nothing in a run folder or a configuration is executed; what a user calls a run is text wherever it is shown."""

import ast
import hashlib
import io
import os
from pathlib import Path

import pytest
import torch

from experiments.tracking import checkpoint
from runs import ROOT, SHORT, command, only_run

SOURCES = [path for name in ("experiments", "surrogates", "hydra_plugins") for path in (ROOT / name).rglob("*.py")]
EXECUTES = {"eval", "exec", "compile", "__import__"}  # called by their bare names
LOADS = {f"{module}.{name}" for module in ("pickle", "cloudpickle", "dill", "marshal") for name in ("load", "loads")}
FORBIDDEN = EXECUTES | LOADS | {"os.system", "os.popen", "yaml.unsafe_load", "yaml.full_load", "pickle.Unpickler"}


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_a_checkpoint_that_would_execute_code_is_refused_even_with_a_right_checksum(tmp_path):
    buffer = io.BytesIO()
    torch.save({"step": 1, "trap": Trap(tmp_path / "sprung")}, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest().encode()
    path = tmp_path / "last.pt"
    path.write_bytes(content + b"\nhardgrad checkpoint format=1 sha256=" + digest + b"\n")
    with pytest.raises(checkpoint.CheckpointError, match=r"last\.pt is not loaded, because it holds"):
        checkpoint.load(path)
    with pytest.raises(checkpoint.CheckpointError, match=r"last\.pt is not loaded, because it holds"):
        checkpoint.load_whole(tmp_path, "h")
    assert not (tmp_path / "sprung").exists()


def calls():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                where, keywords = f"{path}, line {node.lineno}", {k.arg: k.value for k in node.keywords}
                yield where, ast.unparse(node.func), keywords


def test_no_source_unpickles_evaluates_or_calls_a_shell():
    loads = 0
    for line, name, keywords in calls():
        assert name not in FORBIDDEN, line
        assert "shell" not in keywords, line
        if name == "torch.load":
            loads += 1
            assert ast.literal_eval(keywords["weights_only"]) is True, line
    assert loads >= 1


@pytest.mark.parametrize("value", ["$(touch made)", "; touch made", "`touch made`", "../../made"])
def test_configured_text_is_neither_a_command_nor_a_way_out(tmp_path, value):
    inside = tmp_path / "inside"
    inside.mkdir()
    answer = command(*SHORT, f"data.root='{value}'", cwd=inside)
    assert answer.code == 0
    assert [path.name for path in inside.iterdir()] == ["runs"]
    assert only_run(inside).is_relative_to(inside)
    assert not (tmp_path / "made").exists()
