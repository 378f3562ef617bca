"""Presets that ask the oracles: each has a module, is asked by one command, and findings are made of the answers."""

import json
import pkgutil

import pytest

from experiments.oracles import findings, presets, questions
from experiments.oracles.answer import Answer, Check, Table, markdown, read, terminal
from runs import command


def test_presets_and_modules_are_the_same():
    found = presets.presets()
    assert {preset.name for preset in found} == {info.name for info in pkgutil.iter_modules(questions.__path__)}
    assert len(found) >= 9
    assert all("? " in preset.question and preset.expected and preset.known for preset in found)


@pytest.mark.slow
def test_one_command_asks_and_the_answer_stands_beside_the_expectation(tmp_path):
    said = command("experiment=ties", cwd=tmp_path)
    assert said.code == 0, said.err
    folder = tmp_path / "runs" / "questions" / "ties"
    assert "How often is a maximum tied" in said.out
    assert max(map(len, said.out.splitlines())) <= 80 + len(str(folder))
    checks = json.loads((folder / "answer.json").read_text())["checks"]
    assert [check["holds"] for check in checks[:2]] == [True, True]  # the third depends on torch's version
    assert (folder / "figure.svg").stat().st_size < 200_000
    assert (folder / "figure.png").stat().st_size < 200_000


@pytest.mark.slow
def test_a_question_that_there_is_none_of_and_a_dry_run(tmp_path):
    wrong = command("experiment=ties", "question=nothing", cwd=tmp_path)
    assert wrong.code == 2
    assert "no question 'nothing'" in wrong.err
    dry = command("experiment=ties", "dry_run=true", cwd=tmp_path)
    assert dry.code == 0
    assert not list(tmp_path.rglob("answer.json"))


@pytest.mark.slow
def test_what_a_question_does_not_read_is_checked_and_said_to_have_no_effect(tmp_path):
    own = ("max_steps=5", "strategy=smooth", "hydra.run.dir=here", "dry_run=true")
    said = command("experiment=ties", *own, cwd=tmp_path)
    assert said.code == 0, said.err
    notes = [line for line in said.out.splitlines() if line.startswith("note: ")]
    assert notes == [f"note: {key} has no effect here and is left out" for key in ("max_steps", "strategy")]
    assert not (tmp_path / "here").exists()
    for wrong in ("max_steps=abc", "seed=-1", "optimizer.lr=null", "seed=${nope:1}", "+nothing=3"):
        refused = command("experiment=ties", wrong, cwd=tmp_path)
        assert refused.code == 2
        assert refused.out == ""
        assert wrong.strip("+").partition("=")[0] in refused.err
    assert not list(tmp_path.rglob("*"))


def test_a_question_is_no_sweep(tmp_path):
    said = command("-m", "experiment=ties", "seed=0,1", cwd=tmp_path)
    assert said.code == 2
    assert said.err.count("leave -m away") == 1


def test_an_answer_survives_its_file_and_says_what_is_not_as_expected(tmp_path):
    checks = [Check("one", "1", True, "unsaid"), Check("two", "3", False, "Why."), Check("three", "5", None, "unsaid")]
    made = Answer(checks, [Table("A table.", ["", "x"], [["row", "1"]])], "Words.")
    made.write(tmp_path)
    for text in (markdown(read(tmp_path)), terminal(read(tmp_path))):
        assert "Why." in text
        assert "unsaid" not in text
        assert "Words." in text
    assert "| two | 3 | **not as expected** |" in markdown(made)
    assert "| three | 5 | **undecided** |" in markdown(made)
    assert "5: UNDECIDED" in terminal(made)


@pytest.mark.parametrize("keep", [True, False])
def test_findings_are_made_of_the_answers(tmp_path, monkeypatch, keep):
    asked = []

    def ask(name, folder):
        asked.append(name)
        Answer([Check("a", f"measured in {name}", True)]).write(folder)
        (folder / "figure.svg").write_text("<svg/>")

    monkeypatch.setattr(findings, "FOLDER", tmp_path / "answers")
    monkeypatch.setattr(findings, "ask", ask)
    ask("ties", tmp_path / "answers" / "ties")
    findings.write(tmp_path / "findings.md", keep)
    page = (tmp_path / "findings.md").read_text()
    for preset in presets.presets():
        assert f"Known before: {preset.known}" in page
        there = not keep or preset.name == "ties"
        assert (f"measured in {preset.name}" in page) == there
        assert (tmp_path / "findings" / f"{preset.name}.svg").is_file() == there
    assert ("Earlier this page said" in page) == any(preset.earlier for preset in presets.presets())
    assert len(asked) == 1 + (0 if keep else len(presets.presets()))
    assert ("Not asked yet." in page) == keep
