"""`surrogates.kinks`: the documented values hold by finite differences, the observed ones are those of the page."""

import importlib
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import surrogates
from each import each
from products import generator
from surrogates.kink_probes.probe import Probe
from surrogates.kink_probes.table import GROUPS, HEADER, KinkTable, Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kinks.md"
VERSION = torch.__version__.partition("+")[0]
PROBES = [probe for probes in GROUPS.values() for probe in probes]
BEFORE_2_14 = tuple(map(int, VERSION.split(".")[:2])) < (2, 14)


def by_rule(*rules: str) -> list[Probe]:
    return [probe for probe in PROBES if probe.rule in rules]


def named(probe: Probe) -> str:
    return f"{probe.operation} at {probe.point}"


@pytest.fixture(scope="module")
def table() -> KinkTable:
    return surrogates.kinks()


def row(table: KinkTable, operation: str, point: str | None = None) -> Row:
    (found,) = [r for r in table.rows if r.operation == operation and point in (None, r.point)]
    return found


# the documented values, against finite differences around the point


def slopes(probe: Probe, radius: float, count: int = 60) -> Tensor:
    """Central differences of the sum of the outputs, at random points around the probe's; (count, entries)."""
    sizes = [len(numbers) for numbers in probe.inputs]
    centre = torch.tensor([number for numbers in probe.inputs for number in numbers], dtype=torch.float64)
    points = centre + radius * torch.randn(count, len(centre), generator=generator(3), dtype=torch.float64)
    step = radius * 1e-4

    def value(x: Tensor) -> float:
        return probe.function(*x.split(sizes)).double().sum().item()

    def slope(x: Tensor) -> list[float]:
        moves = step * torch.eye(len(x), dtype=torch.float64)
        return [(value(x + move) - value(x - move)) / (2 * step) for move in moves]

    found = torch.tensor([slope(x) for x in points], dtype=torch.float64)
    return found[found.isfinite().all(1)]


def nearest_to_zero(points: Tensor) -> Tensor:
    """The point of smallest norm in the convex hull of the rows, by Gilbert's algorithm."""
    best = points.mean(0)
    for _ in range(4000):
        direction = points[(points @ best).argmin()] - best
        length = direction.square().sum()
        if length == 0 or -(best @ direction) < 1e-6:  # as near as it gets
            break
        best = best + (-(best @ direction) / length).clamp(0, 1) * direction
    return best


def flat(outcome: object) -> Tensor:
    return torch.tensor([number for numbers in outcome for number in numbers], dtype=torch.float64)


@each("probe", by_rule("minimum norm"))
def test_documented_minimum_norm(probe: Probe) -> None:
    """The gradients around a kink of a convex or concave function span its sub- or supergradients."""
    (documented,) = probe.documented
    if "logit" in probe.operation:  # inside the slope changes
        documented = ((0.0,),)
    around = slopes(probe, 1e-4)
    assert len(around) > 20
    torch.testing.assert_close(nearest_to_zero(around), flat(documented), rtol=0.01, atol=0.01)


@each("probe", by_rule("continuity"))
def test_documented_by_continuity(probe: Probe) -> None:
    """What is documented is what comes near the point, all of it; an infinite slope keeps growing."""
    if probe.documented[0] == ((math.inf,),):
        near, nearer = slopes(probe, 1e-3).abs().median(), slopes(probe, 1e-6).abs().median()
        assert near > 4
        assert nearer > near + 4
        return
    limits = torch.stack([flat(outcome) for outcome in probe.documented])
    distances = torch.cdist(slopes(probe, 1e-4), limits)
    assert distances.min(1).values.max() < 0.01
    assert distances.min(0).values.max() < 0.01


@each("probe", by_rule("differentiable", "composition"))
def test_documented_where_there_is_a_derivative(probe: Probe) -> None:
    (documented,) = probe.documented
    around = slopes(probe, 1e-4)
    if probe.operation == "sqrt(square(x))":
        around = nearest_to_zero(around)[None]
    torch.testing.assert_close(around, flat(documented).expand_as(around), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("probe", by_rule("op's page"), ids=named)
def test_documented_on_the_operations_page(probe: Probe) -> None:
    """Not negative, sums to 1, zero off the tie (case D01)."""
    extreme = probe.function(torch.tensor(probe.inputs[0])).item()
    for outcome in probe.documented:
        shares = flat(outcome)
        assert (shares >= 0).all()
        assert shares.sum() == 1
        assert (shares[torch.tensor(probe.inputs[0]) != extreme] == 0).all()


def test_every_rule_is_checked_or_says_that_nothing_follows() -> None:
    checked = by_rule("minimum norm", "continuity", "differentiable", "composition", "op's page")
    for probe in [probe for probe in PROBES if probe not in checked]:
        expected = {"undefined": (), "random": ("raises",), "integers": ("no graph",)}[probe.rule]
        assert probe.documented == expected
    assert len(checked) >= 65


# the observed values


def tables() -> dict[str, str]:
    """The page's tables by version."""
    return dict(re.findall(r"^## torch (\S+)\n+(\|.*?\|)\n(?!\|)", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def test_the_page_has_both_versions_and_the_observed_values_are_its_rows(table: KinkTable) -> None:
    assert set(tables()) >= {"2.13.0", "2.14.1"}
    if VERSION not in tables():
        pytest.skip(f"no table of torch {VERSION}: hardgrad kinks --markdown")
    for shown, measured in zip(tables()[VERSION].splitlines(), table.markdown().splitlines(), strict=True):
        assert shown == measured


def test_the_two_versions_differ_only_at_bounds_and_ties() -> None:
    old, new = (tables()[version].splitlines() for version in ("2.13.0", "2.14.1"))
    differing = {a.split("|")[1].strip(" `") for a, b in zip(old, new, strict=True) if a != b}
    assert differing == {"clamp, numbers", "clamp, min only", "clamp, tensors", "margin_ranking_loss", "fmax", "fmin"}


@pytest.mark.parametrize(
    ("operation", "point", "observed"),
    [
        ("abs", "0", "0"),
        ("max()", "2 2 1", "0.5, 0.5, 0"),
        ("amax", "2 2 1", "0.5, 0.5, 0"),
        ("max(dim)", "2 2 1", "1, 0, 0"),
        ("inf-norm", "3 -3 1", "0.5, -0.5, 0"),
        ("maximum", "a tie", "0.5; 0.5"),
        ("sqrt(square(x))", "0", "nan"),
        ("max()", "NaN 1", "1, 0"),
        ("amax", "NaN 1", "nan, nan"),
        ("heaviside", "0", "raises"),
        ("//", "1, divisor 1", "raises"),
        ("argmax", "1 2", "no graph"),
        ("x > 0", "1", "no graph"),
        ("sqrt", "0", "inf"),
        ("to bfloat16", "1.003", "1"),
        ("fmax", "a tie", "1; 0" if BEFORE_2_14 else "0.5; 0.5"),
        ("clamp, numbers", "both bounds", "1, 1" if BEFORE_2_14 else "0, 0"),
        ("clamp, tensors", "lower bound", "1; 0; 0" if BEFORE_2_14 else "0.5; 0.5; 0"),
    ],
)
def test_pinned(operation: str, point: str, observed: str, table: KinkTable) -> None:
    """Cases A02, D01, D03, D04 and D05 among them, written down independently of the page."""
    assert row(table, operation, point).observed == observed


INTEGERS = {
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "argsort": torch.argsort,
    "indices of sort": lambda x: x.sort().indices,
    "indices of topk": lambda x: x.topk(2).indices,
    "indices of max": lambda x: x.max(0).indices,
    "searchsorted": lambda x: torch.searchsorted(x, x + 0.5),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([1.5])),
    "count_nonzero": torch.count_nonzero,
    "nonzero": torch.nonzero,
    "to int64": lambda x: x.long(),
    ">": lambda x: x > 1.5,
    "==": lambda x: x == x,
    "isnan": torch.isnan,
    "isclose": lambda x: torch.isclose(x, x),
    "signbit": torch.signbit,
    "logical_and": lambda x: torch.logical_and(x, x),
    "any": lambda x: x.any(),
}


@each("name", INTEGERS)
def test_what_is_of_an_integer_or_boolean_type_has_no_graph(name: str) -> None:
    output = INTEGERS[name](torch.tensor([1.0, 2.0, 3.0], requires_grad=True))
    assert not output.is_floating_point()
    assert output.grad_fn is None
    assert not output.requires_grad


def test_heaviside_raises_in_the_backward_pass() -> None:
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    output = torch.heaviside(x, torch.zeros(2))
    assert output.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
        output.sum().backward()


def test_it_is_measured_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "kthvalue", lambda x, k: torch.return_types.sort((x.sum(), x)))
    assert row(surrogates.kinks(), "kthvalue, k = 2").observed == "1, 1, 1"


# marks, text, Markdown


def test_at_least_35_operations(table: KinkTable) -> None:
    operations = {r.operation.split(",")[0].split("(")[0].strip(" ()") for r in table.rows}
    assert len(operations) >= 60
    assert len({(r.group, r.operation, r.point) for r in table.rows}) == len(table.rows)


def test_deviations_are_marked(table: KinkTable) -> None:
    for operation in ("heaviside", "//", "topk, k = 1", "max_pool1d"):
        assert row(table, operation).deviates_from_rule
        assert row(table, operation).deviates_from_ours
    assert row(table, "max(dim)").deviates_from_ours
    assert not row(table, "max(dim)").deviates_from_rule
    assert row(table, "hypot").deviates_from_rule
    assert not row(table, "hypot").deviates_from_ours
    agreeing = row(table, "relu", "0")
    assert agreeing not in table.deviations
    assert 20 < len(table.deviations) < len(table.rows) / 2
    marked = [line for line in table.markdown().splitlines() if "**rule**" in line or "**ours**" in line]
    assert len(marked) == len(table.deviations)


def test_our_convention_has_no_deviation_from_the_rule_where_both_speak(table: KinkTable) -> None:
    """Minimum norm at kinks and ties, 0 at jumps: the same as PyTorch's rules, kept everywhere."""
    both = [r for r in table.rows if r.ours and r.documented and r.rule in ("minimum norm", "continuity")]
    assert len(both) > 25
    assert [r for r in both if r.ours != r.documented] == []


def test_the_terminal_table_fits_80_columns(table: KinkTable) -> None:
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"torch {VERSION}"
    assert "\x1b" not in str(table)


def test_markdown_is_one_table(table: KinkTable) -> None:
    lines = table.markdown().splitlines()
    assert {line.count("|") for line in lines} == {len(HEADER) + 1}
    assert len(lines) == len(table.rows) + 2


def test_it_leaves_the_generator_and_the_gradient_mode_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state(), random.getstate()
    with torch.no_grad():
        assert row(surrogates.kinks(), "abs", "0").observed == "0"
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


# the command


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module("surrogates.kinks")
    assert command.main(["--markdown"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == surrogates.kinks().markdown()  # still callable
    assert command.main([]) == 0
    assert capsys.readouterr().out.startswith("torch ")
    with pytest.raises(SystemExit, match="2"):
        command.main(["--html"])


@pytest.mark.slow
def test_command_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-m", "surrogates.kinks"],
        cwd=PAGE.parents[1], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("torch ")


@pytest.mark.slow
def test_imported_on_demand() -> None:
    code = "import sys, surrogates; assert 'surrogates.kink_probes' not in sys.modules; surrogates.kinks()"
    subprocess.run([sys.executable, "-c", code], cwd=PAGE.parents[1], check=True)
    assert {"diagnose", "kinks", "graft"} <= set(dir(surrogates))
    with pytest.raises(AttributeError, match="no attribute 'kink'"):
        _ = surrogates.kink
