"""Every case of groups A to E has a test named after it."""

import ast
from pathlib import Path

LAST = {"A": 9, "B": 14, "C": 12, "D": 5, "E": 11}


def test_every_case_of_a_to_e_has_a_test() -> None:
    names = [
        node.name
        for file in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    cases = [f"{group}{number:02}" for group, last in LAST.items() for number in range(1, last + 1)]
    assert len(cases) == 51
    assert [case for case in cases if not any(name.startswith(f"test_case_{case}") for name in names)] == []
