"""Draws the picture at the head of the README from its study: python docs/curves.py runs/studies/strategies.

The two panels are those of the report. Needs pip install -e '.[compare]'.
"""

import sys
from pathlib import Path

from experiments.compare.forms.axes import draw_panel
from experiments.compare.forms.panels import panels
from experiments.compare.report import make
from experiments.compare.statistics.results import Question
from experiments.plotting import style
from experiments.study.study_file import read_study

FILE = Path(__file__).parent / "readme" / "curves.svg"
TITLES = ("validation accuracy, hard, %", "gradient norm, all parameters")


def main(folder: str) -> None:
    """Writes the picture."""
    study = read_study(Path(folder, "study.yaml"))
    report = make([folder], Question(choosing_seeds=study.choosing_seeds), list(study.grids))
    (section,) = (section for section in report.sections if section.result.block.component == "floor")
    with style() as Figure:
        figure = Figure(figsize=(8, 3.3), layout="constrained")
        drawn = [panel for panel in panels(section) if panel.title in TITLES]
        for axes, panel in zip(figure.subplots(1, 2), drawn, strict=True):
            draw_panel(axes, panel, report.looks)
            axes.set_title(panel.title)
        lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 1]
        figure.legend(lines, [curve.name for curve in drawn[0].curves], loc="outside lower center", ncols=len(lines))
        FILE.parent.mkdir(exist_ok=True)
        figure.savefig(FILE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main(sys.argv[1])
