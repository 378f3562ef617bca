"""Writes the table as Markdown, and as lines for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.oracles.contender_scores import ContenderScore
from experiments.oracles.setting import Setting

HEAD = (
    "strategy", "bias", "deviation", "cosine of the mean", "mean cosine", "best scale", "residual", "descent",
    "µs a draw", "saved KiB a draw",
)  # fmt: skip
INTRODUCTION = """# Strategies against exact gradients

Each strategy's gradient is compared with the truth: the derivative of E[loss(hard(x + noise))] under the noise law and
scale of the setting. Every kernel has the interquartile range of that law. `at x + noise` means that a strategy without
own noise gets a noisy input.

- bias: |mean - truth| / |truth| with its standard error; "not resolved" if it is below two standard errors
- deviation: standard deviation of one sample, relative to |truth|
- cosine of the mean, mean cosine: of the mean with the truth, and the mean over samples of their cosines
- best scale: the factor that brings the mean nearest to the truth; residual: the relative distance that remains
- descent: the share of samples within 90 degrees of the truth
- cost: wall-clock time of many draws at once, divided by their number; compare it within a setting only
"""

LEGEND = """bias, std: of the mean and of one sample, relative to the true gradient's norm
cos, cos 1: cosine of the mean, and mean cosine of one sample
scale: the factor that brings the mean nearest to the true gradient
"""


def markdown(setting: Setting, rows: Sequence[ContenderScore]) -> str:
    """Writes the section of one setting."""
    head = ["| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 1)]
    lines = ["| " + " | ".join(cells(row)) + " |" for row in rows]
    count = rows[0].score.samples if rows else 0
    return "\n".join([f"## {setting.name}", "", f"Law: {setting.law}. {count} samples.", "", *head, *lines, ""])


def terminal(setting: Setting, rows: Sequence[ContenderScore]) -> str:
    """Writes one setting in 80 columns."""
    title = f"{setting.name} ({setting.law})"
    lines = [title, f"  {'strategy':35s}{'bias':>13s}{'std':>7s}{'cos':>7s}{'cos 1':>7s}{'scale':>8s}"]
    for row in rows:
        s = row.score
        bias = f"{s.bias:.3g}" if s.resolved else "not resolved"
        cosine, scale = _number(s.cosine, ".3f"), _number(s.scale, ".3g")
        lines.append(
            f"  {row.contender:35.35s}{bias:>13s}{s.deviation:7.3g}{cosine:>7s}{s.sample_cosine:7.3f}{scale:>8s}"
        )
    return "\n".join([*lines, ""])


def cells(row: ContenderScore) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`."""
    s = row.score
    error = s.error if s.error > 1e-12 else 0.0
    bias = f"{s.bias:.3g} ± {error:.2g}" + ("" if s.resolved else " (not resolved)")
    return [
        row.contender, bias, f"{s.deviation:.3g}", _number(s.cosine, ".3f"), f"{s.sample_cosine:.3f}",
        _number(s.scale, ".3g"), f"{s.residual:.3g}", f"{s.descent:.3f}", f"{row.microseconds:.3g}",
        f"{row.saved_bytes / 1024:.3g}",
    ]  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
