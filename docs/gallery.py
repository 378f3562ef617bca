"""Draws every op's value and derivative under every strategy, and lists the figures in gallery.md.

    python docs/gallery.py          all figures and the list
    python docs/gallery.py --text   the list only

The ops and strategies are those in their packages, so a new one needs no entry here. A strategy that draws noise is
shown by the mean of DRAWS draws. Needs matplotlib (the `dev` extra).
"""

from __future__ import annotations

import argparse
import inspect
import io
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot as plt
from PIL import Image
from torch import Tensor

from surrogates import EmptyCell, Op, Strategy
from surrogates.members import ops, strategies
from surrogates.noise import uniforms

FOLDER = Path(__file__).parent
PAGE = FOLDER / "gallery.md"
FIGURES = FOLDER / "gallery"
BEGIN, END = "<!-- figures: made by docs/gallery.py -->", "<!-- end of figures -->"
TEMPERATURES = {0.1: "#08306b", 0.3: "#2f7dbb", 1.0: "#8fc1e3"}  # dark is hard
DRAWS = 400
COLUMNS = 4
FIRST = ("subgradient", "ste", "smooth", "rewrite")

Section = Callable[[Tensor], tuple[Tensor, ...]]


def row(t: Tensor) -> tuple[Tensor, ...]:
    return (torch.stack([t, torch.full_like(t, 0.6), torch.full_like(t, -0.7), torch.full_like(t, 1.4)], -1),)


def codebook(t: Tensor) -> tuple[Tensor, ...]:
    codes = torch.tensor([[-1.5, 0.5], [0.2, -0.3], [1.2, 1.0]]).to(t)
    return torch.stack([t, torch.full_like(t, 0.3)], -1), codes


def beside(*others: float) -> Section:
    return lambda t: (t, *(torch.full_like(t, other) for other in others))


# Constants other than the defaults, where those would hide the shape.
CONSTANTS: dict[str, dict[str, object]] = {"quantize": {"bits": 2, "low": -1.5, "high": 1.5}}
# The horizontal axis, where it is neither the one input nor the first entry of a row.
SECTIONS: dict[str, tuple[str, Section]] = {
    "maximum": ("a, at b = 0.5", beside(0.5)),
    "minimum": ("a, at b = 0.5", beside(0.5)),
    "compare": ("a, at b = 0.5", beside(0.5)),
    "lookup": ("x, into the table (1, -1, 2, 0.5)", lambda t: (t, torch.tensor([1.0, -1.0, 2.0, 0.5]).to(t))),
    "threshold": ("x, at t = 0.5", beside(0.5)),
    "vector_quantize": ("first entry of (t, 0.3), among three codes", codebook),
    "where": ("c, at a = 1 and b = -1", beside(1.0, -1.0)),
}


def section(stem: str, op: Op) -> tuple[str, Section]:
    if stem in SECTIONS:
        return SECTIONS[stem]
    return ("x", lambda t: (t,)) if op.elementwise else ("first entry of the row (t, 0.6, -0.7, 1.4)", row)


def curves(op: Op, strategy: Strategy, inputs: Section, t: Tensor, T: float | None) -> tuple[Tensor, Tensor]:
    """The first output and its derivative by t; for a strategy that draws noise, their means over the draws."""
    draws = DRAWS if strategy.noisy(op) else 1
    moved = t.expand(draws, -1).clone().requires_grad_()
    x = inputs(moved)
    noise = uniforms(x[0], (0, 0, 0, 1), strategy.noise_shape(op, *x)) if strategy.noisy(op) else None
    y = strategy(op, *x, T=T, noise=noise)
    first = y.reshape(*moved.shape, -1)[..., 0]
    (slope,) = torch.autograd.grad(first.sum(), moved)
    return first.detach().mean(0), slope.mean(0)


def applicable(op: Op) -> dict[str, Strategy]:
    """The strategies that apply to the op, by name."""
    classes, found = strategies(), {}
    for name in [*FIRST, *(name for name in classes if name not in FIRST)]:
        strategy = classes[name]()
        try:
            strategy.check(op)
        except EmptyCell:
            continue
        found[name] = strategy
    return found


def describe(stem: str, op: Op, shown: int) -> list[str]:
    """The lines of gallery.md for an op."""
    equation = " ".join((inspect.getdoc(type(op)) or "").split("\n\n")[0].split())
    constants = {field.name: getattr(op, field.name) for field in fields(op)}
    drawn = ", ".join(f"{name}={value!r}" for name, value in constants.items() if value not in (-math.inf, math.inf))
    tensors = ", ".join(inspect.signature(op.hard).parameters)
    calls = ", ".join(f"`hg.{name}({tensors}, strategy)`" for name in op.functions or (stem,))
    text = f"{equation} Call: {calls}. Figure: `hg.ops.{type(op).__name__}({drawn})`."
    return [f"### {stem}", "", text, "", f"![{stem} under {shown} strategies](gallery/{stem}.png)", ""]


def draw(stem: str, op: Op, shown: list[tuple[str, Strategy]]) -> None:
    """Draws the figure of an op."""
    label, inputs = section(stem, op)
    t = torch.linspace(-2.5, 2.5, 401, dtype=torch.float64)
    bands = -(-len(shown) // COLUMNS)
    figure, axes = plt.subplots(
        2 * bands, COLUMNS, figsize=(10.5, 3.9 * bands), sharex=True, squeeze=False, layout="constrained"
    )
    hard = op.hard(*inputs(t.unsqueeze(0)))
    hard = hard.reshape(len(t), -1)[:, 0]
    for index in range(bands * COLUMNS):
        band, column = divmod(index, COLUMNS)
        above, below = axes[2 * band, column], axes[2 * band + 1, column]
        if index >= len(shown):
            above.set_axis_off()
            below.set_axis_off()
            continue
        name, strategy = shown[index]
        above.plot(t, hard, color="0.75", linewidth=3, label="hard")
        tempered = "temperature" in strategy.uses(op)
        for T, color in (TEMPERATURES if tempered else {None: "#08306b"}).items():
            value, slope = curves(op, strategy, inputs, t, T)
            above.plot(t, value, color=color, linewidth=1.2, label=None if T is None else f"T = {T:g}")
            below.plot(t, slope, color=color, linewidth=1.2)
        above.set_title(name + (f" (mean of {DRAWS} draws)" if strategy.noisy(op) else ""), fontsize=9)
        if not any(line.get_ydata().any() for line in below.lines):
            below.set_ylim(-0.1, 1.0)
        below.tick_params(labelbottom=True)
        below.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        if column == 0:
            above.set_ylabel("value")
            below.set_ylabel("derivative")
            below.set_xlabel(label, fontsize=8)
        if tempered:
            above.legend(fontsize=7, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    plt.close(figure)
    Image.open(buffer).convert("RGB").quantize(48).save(FIGURES / f"{stem}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the gallery.")
    parser.add_argument("--text", action="store_true", help="write the list in gallery.md, draw no figure")
    text = parser.parse_args().text
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 8})
    FIGURES.mkdir(exist_ok=True)
    lines = []
    for stem, cls in ops().items():
        op = cls(**CONSTANTS.get(stem, {}))
        shown = applicable(op)
        if not text:
            draw(stem, op, list(shown.items()))
        lines += describe(stem, op, len(shown))
        print(f"{stem}: {len(shown)} strategies")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
