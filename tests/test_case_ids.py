"""Every public bug report that the project answers has a test whose docstring, or name, has its id."""

import ast
import re

from runs import ROOT

GROUPS = {"A": 9, "B": 14, "C": 12, "D": 5, "E": 11, "F": 8, "G": 11, "H": 11, "I": 7, "J": 5}


def test_every_case_has_a_test():
    found = set()
    for path in (ROOT / "tests").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = node.name if node.name.startswith("test_case_") else ""
                found |= set(re.findall(r"(?<![A-Za-z0-9])[A-J]\d\d(?![A-Za-z0-9])", names.replace("_", " ")))
                found |= set(re.findall(r"\b[A-J]\d\d\b", ast.get_docstring(node) or ""))
    wanted = {f"{group}{number:02}" for group, count in GROUPS.items() for number in range(1, count + 1)}
    assert wanted - found == set()
