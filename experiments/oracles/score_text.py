"""The table as Markdown, and as lines for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.oracles.contender_scores import ContenderScore
from experiments.oracles.setting import Setting

HEAD = (
    "strategy", "bias", "deviation", "cosine of the mean", "mean cosine", "best scale", "residual", "descent",
    "µs a draw", "saved KiB a draw",
)  # fmt: skip
INTRODUCTION = """# Strategies against exact gradients

Truth: the derivative of E[loss(hard(x + noise))] under the setting's own noise law and scale, whatever the strategy
assumes; a kernel is taken at the interquartile range of that law. `at x + noise`: a strategy without noise of its own,
on a noisy input. bias: |mean - truth| / |truth| with its standard error, "not resolved" below two of them. deviation:
of one sample, relative to |truth|. best scale: the factor that brings the mean nearest to the truth; residual: what is
left after it. descent: share of samples within 90 degrees of the truth. The cost is wall-clock time of many draws at
once, divided by their number: it compares strategies within a setting.
"""


def markdown(setting: Setting, rows: Sequence[ContenderScore]) -> str:
    """One setting's section."""
    head = ["| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 1)]
    lines = ["| " + " | ".join(cells(row)) + " |" for row in rows]
    count = rows[0].score.samples if rows else 0
    return "\n".join([f"## {setting.name}", "", f"Law: {setting.law}. {count} samples.", "", *head, *lines, ""])


def terminal(setting: Setting, rows: Sequence[ContenderScore]) -> str:
    """One setting in 80 columns."""
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
    """The row under `HEAD`."""
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
