"""The notebooks run from their first cell to their last, here without Jupyter and at a smaller size."""

import json
from pathlib import Path

import pytest

from runs import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SIZE, SMALLER = "steps, seeds = 600, 6", "steps, seeds = 20, 2"


def code_cells(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_are_notebooks_without_outputs():
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), notebook.name


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "notebook"}
    cells = code_cells(notebook)
    assert SIZE in cells[0]
    for cell in [cells[0].replace(SIZE, SMALLER), *cells[1:]]:
        exec(compile(cell, notebook.name, "exec"), namespace)
    assert len(namespace["runs"]) == 4
    assert "ste" in namespace["answer"]._repr_html_()
    assert namespace["figure"].axes
    assert Path("runs/own/result.json").exists()
    assert "Run(" in capsys.readouterr().out
