"""Names of runs and tags in TensorBoard: they hold what varies, and no more."""

from __future__ import annotations

from experiments.compare.report import ComparisonReport

LONGEST = 120  # bytes of a folder's name, which may be 255
# Its group is the strategy, in the names of all runs.
STRATEGY = r"^(?:mean|seeds/[^/]+)/([^/]+)"


def block_names(report: ComparisonReport) -> list[str]:
    """Returns a name for every block: its component, and what else not all blocks share."""
    parts = [section.result.block.parts for section in report.sections]
    shared = set.intersection(*map(set, parts))
    names = [safe(", ".join([own[0], *(part for part in own[1:] if part not in shared)])) for own in parts]
    return [name if names.count(name) == 1 else f"{name}-{index}" for index, name in enumerate(names)]


def safe(name: str) -> str:
    """Converts a name to a folder name, which TensorBoard shows as the name of the run."""
    plain = "".join(letter if letter.isalnum() or letter in " =,.()+-_" else "_" for letter in name)
    return plain.encode()[:LONGEST].decode(errors="ignore")
