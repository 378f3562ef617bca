"""The formulas that docstrings state, read as text and evaluated, are what the code computes.

`formula` turns the notation of the docstrings into Python: `2 F(x / T)` is a product, `^` a power, `|x|` a magnitude,
`a if c, else b` a choice. Definitions (the first line of an op, the law of a kernel or a schedule) are found by
themselves; the formulas of readings are listed here by op and reading, and must stand in the docstring as they are.
"""

import inspect
import math
import re
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from each import each
from products import OP_CLASSES, generator, kernels_of, sample
from surrogates.core import Op
from surrogates.kernels import KERNELS
from surrogates.schedules import SCHEDULES

torch.set_num_threads(1)
KNOWN = {
    "abs": torch.abs,
    "cos": math.cos,
    "exp": torch.exp,
    "sqrt": math.sqrt,
    "tanh": lambda v: torch.tanh(torch.as_tensor(v).double()),
    "pi": math.pi,
    "softplus": lambda v: torch.nn.functional.softplus(v, threshold=80),
    "choose": lambda c, a, b: torch.where(c, torch.as_tensor(a).double(), torch.as_tensor(b).double()),
}


def formula(text: str) -> str:
    """The docstrings' notation as Python."""
    text = text.strip().replace("`", "").replace("^", "**")
    text = re.sub(r"\|([^|]+)\|", r"abs(\1)", text)
    if " if " in text:
        *cases, last = re.split(r", (?:else )?", text)
        choice = f"({last})"
        for case in reversed(cases):
            value, _, condition = case.partition(" if ")
            choice = f"choose({condition}, {value}, {choice})"
        return choice
    if " for " in text:
        choice = "math.nan"
        for case in reversed(text.split(", ")):
            value, _, condition = case.partition(" for ")
            choice = f"choose({re.sub(r'(?<![<>])=', '==', condition)}, {value}, {choice})"
        return choice
    return re.sub(r"(?<=[\w)]) +(?=[\w(])", " * ", text)


def evaluate(text: str, names: Mapping[str, object]) -> Tensor:
    return eval(formula(text), {"math": math, **KNOWN, **names})


def constants(op: Op) -> dict[str, object]:
    return {name: getattr(op, name) for name in dir(op) if isinstance(getattr(op, name), int | float)}


def ops_by_name() -> dict[str, object]:
    """The hard ops, which docstrings use to define others."""
    return {name: cls().hard for name, cls in OP_CLASSES.items()} | {
        "clamp": torch.clamp,
        "max": lambda a, *b: torch.maximum(a, torch.as_tensor(b[0]).to(a)) if b else a.amax(-1),
        "min": lambda a, *b: torch.minimum(a, torch.as_tensor(b[0]).to(a)) if b else a.amin(-1),
    }


def definition(cls: type) -> str | None:
    """What stands behind `name(inputs) =` in the first line, if it is a formula and not words."""
    first = " ".join(inspect.getdoc(cls).split("\n\n")[0].split()).rstrip(".")
    match = re.match(r"\w+\([\w, ]*\) = (.*)", first)
    assert match, f"{cls.__name__}'s docstring must begin with its equation, it begins with: {first}"
    right = re.sub(r"(?<=[\w)`]) \([^()]*:[^()]*\)$", "", match[1]).partition(": ")[0].partition(", step = ")[0]
    words = re.findall(r"[A-Za-z]{3,}", right)
    names = {*KNOWN, *ops_by_name(), *constants(cls()), *inspect.signature(cls.hard).parameters, "for", "else"}
    return right if all(word in names for word in words) else None


DEFINED = {cls: text for cls in OP_CLASSES.values() if (text := definition(cls)) is not None}


@each("cls", DEFINED)
def test_the_definition_of_an_op_is_its_value(cls: type[Op]) -> None:
    op = cls()
    x = sample(op, (50, 4))
    x[0][0] = torch.tensor([0.0, 0.5, 1.0, -1.0])
    names = dict(zip(inspect.signature(op.hard).parameters, x, strict=True))
    got = evaluate(DEFINED[cls], {**ops_by_name(), **constants(op), **names})
    torch.testing.assert_close(got, op.hard(*x), atol=1e-12, rtol=1e-12)


def test_most_ops_are_defined_by_a_formula() -> None:
    assert len(DEFINED) >= 12
    assert {cls.__name__ for cls in DEFINED} >= {"Abs", "Clamp", "Compare", "Quantize", "Sign", "Threshold", "Where"}


READINGS = [
    ("abs", "smooth", "T (R(x / T) + R(-x / T))"),
    ("abs", "rewrite", "relu(x) + relu(-x)"),
    ("argmax", "rewrite", "argmax(x) * softmax(x)"),
    ("clamp", "rewrite", "low + relu(high - low - relu(high - x))"),
    ("compare", "smooth", "F((a - b) / T)"),
    ("heaviside", "smooth", "F(x / T)"),
    ("max", "smooth", "T logsumexp(x / T)"),
    ("maximum", "smooth", "b + T R((a - b) / T)"),
    ("maximum", "smooth", "max(a, b) + T R(-|a - b| / T)"),
    ("maximum", "rewrite", "a + relu(b - a)"),
    ("maximum", "rewrite_abs", "(a + b + |a - b|) / 2"),
    ("min", "smooth", "-T logsumexp(-x / T)"),
    ("minimum", "smooth", "min(a, b) - T R(-|a - b| / T)"),
    ("minimum", "rewrite", "a - relu(a - b)"),
    ("minimum", "rewrite_abs", "(a + b - |a - b|) / 2"),
    ("relu", "smooth", "T R(x / T)"),
    ("relu", "rewrite", "(x + |x|) / 2"),
    ("round", "rewrite", "x + U(-1/2, 1/2)"),
    ("quantize", "rewrite", "clamp(x + U(-step/2, step/2), low, high)"),
    ("sign", "smooth", "2 F(x / T) - 1"),
    ("threshold", "smooth", "F((x - t) / T)"),
    ("trunc", "rewrite", "relu(x - 1/2) - relu(-x - 1/2)"),
    ("trunc", "rewrite_dither", "relu(x - U(0, 1)) - relu(-x - U(0, 1))"),
    ("compare", "smooth", "F((a - b) / T)"),
    ("floor", "rewrite", "clamp(x - step/2, low, high)"),
    ("floor", "rewrite_dither", "clamp(x - step U(0, 1), low, high)"),
    ("ceil", "rewrite", "clamp(x + step/2, low, high)"),
    ("ceil", "rewrite_dither", "clamp(x + step U(0, 1), low, high)"),
    ("where", "smooth", "F(c / T) a + (1 - F(c / T)) b"),
]


@each("name, reading, text", READINGS)
def test_the_formula_of_a_reading_is_what_it_computes(name: str, reading: str, text: str) -> None:
    op = OP_CLASSES[name]()
    assert text in " ".join(inspect.getdoc(type(op)).split()), "the docstring states another formula"
    x = sample(op, (30, 4))
    u = torch.rand(x[0].shape, generator=generator(5), dtype=torch.float64)
    names = {
        **ops_by_name(),
        **constants(op),
        **dict(zip(inspect.signature(op.hard).parameters, x, strict=True)),
        "relu": torch.relu,
        "softmax": lambda v: torch.softmax(v, -1),
        "logsumexp": lambda v: torch.logsumexp(v, -1),
        "U": lambda low, high: low + (high - low) * u,
    }
    method = getattr(op, reading)
    if reading.startswith("rewrite"):
        got = method(*x, noise=u) if method.noisy else method(*x)
        torch.testing.assert_close(got, evaluate(text, names), atol=1e-12, rtol=1e-12)
        return
    ran = 0
    for kernel in kernels_of(op).values() or [None]:
        laws = {} if kernel is None else {"F": kernel.cdf, "R": kernel.ramp}
        for T in (0.2, 1.0, 3.0):
            expected = evaluate(text, {**names, **laws, "T": T})
            torch.testing.assert_close(method(*x, kernel=kernel, T=T), expected, atol=1e-10, rtol=1e-10)
            ran += 1
    assert ran >= 3


LAWS = {
    name: re.match(r"density ([^.;']*?)(?: on \(-1, 1\)|, |\. |;)", inspect.getdoc(type(k)) + " ")
    for name, k in KERNELS.items()
}


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law])
def test_the_stated_density_of_a_kernel_is_its_density(name: str) -> None:
    u = torch.linspace(-0.99, 0.99, 101, dtype=torch.float64)
    expected = torch.as_tensor(evaluate(LAWS[name][1], {"u": u}), dtype=torch.float64).expand_as(u)
    torch.testing.assert_close(KERNELS[name].density(u), expected)


def test_the_stated_width_of_a_kernel_is_its_interquartile_range() -> None:
    for name, kernel in KERNELS.items():
        stated = re.search(r"Width ([^.]*(?:\.\d+)?)\.", inspect.getdoc(type(kernel)))[1].replace(
            "ln 3", "(1.0986122886681098)"
        )
        between = kernel.quantile(torch.tensor([0.25, 0.75], dtype=torch.float64)).diff().item()
        assert evaluate(stated, {}) == pytest.approx(between, rel=1e-3), name
    assert sum(law is not None for law in LAWS.values()) >= 5


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_stated_schedule_is_the_schedule(name: str) -> None:
    text = inspect.getdoc(SCHEDULES[name]).partition("\n")[0].partition("T = ")[2].rstrip(".")
    for p in (0.0, 0.2, 0.7, 1.0):
        expected = float(evaluate(text, {"start": 2.0, "end": 0.1, "p": p}))
        assert SCHEDULES[name](2.0, 0.1)(p) == pytest.approx(expected, rel=1e-12)
