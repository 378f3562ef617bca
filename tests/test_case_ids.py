"""Every public bug report that the project answers has a test that gives its id, in its docstring or its name."""

import re

from runs import ROOT

GROUPS = {"A": 9, "B": 14, "C": 12, "D": 5, "E": 11, "F": 8, "G": 11, "H": 11, "I": 7, "J": 5}


def test_every_case_has_a_test():
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"^def test_case_(\w+)\(", text, re.M) + re.findall(r'^    """Case ([A-Z]\d\d)[:.]', text, re.M)
    found = {case for name in named for case in re.findall(r"[A-Z]\d\d", name)}
    wanted = {f"{group}{number:02}" for group, count in GROUPS.items() for number in range(1, count + 1)}
    assert wanted - found == set()
