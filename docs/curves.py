"""Draws the picture at the head of the README from the runs of its table: python docs/curves.py runs/strategies.

Lines are means over the reported seeds, bands their range. Needs pip install -e '.[compare]'.
"""

import sys
from pathlib import Path

from experiments.compare import curves
from experiments.compare.forms.axes import logarithmic
from experiments.plotting import FIRST, looks, style

FILE = Path(__file__).parent / "readme" / "curves.svg"
TITLES = {"accuracy/val": "validation accuracy, hard, %", "grad_norm/total": "gradient norm"}


def main(folder: str) -> None:
    """Writes the picture."""
    rows = curves(folder)
    rows = rows[(rows["component"] == "floor") & (rows["seed"] < 100)]
    seen = looks((name, name) for name in FIRST)
    with style() as Figure:
        figure = Figure(figsize=(8, 3), layout="constrained")
        for axes, (tag, title) in zip(figure.subplots(1, 2), TITLES.items(), strict=True):
            for name in FIRST:
                values = rows[(rows["tag"] == tag) & (rows["strategy"] == name)].groupby("step")["value"]
                mean, low, high = (
                    100 ** (tag == "accuracy/val") * of for of in (values.mean(), values.min(), values.max())
                )
                axes.plot(mean.index, mean, color=seen[name].colour, linestyle=seen[name].dash, label=name)
                axes.fill_between(mean.index, low, high, color=seen[name].colour, alpha=0.15, linewidth=0)
            axes.set_title(title)
            axes.set_xlabel("optimizer step")
        figure.axes[0].legend()
        logarithmic(figure.axes[1], "y")
        FILE.parent.mkdir(exist_ok=True)
        figure.savefig(FILE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main(sys.argv[1])
