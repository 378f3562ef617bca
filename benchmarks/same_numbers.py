"""Checks that a change of the code changes no number: every component under every strategy, alone and stacked.

Record the runs of two checkouts, then compare `metrics.jsonl` byte for byte, and the earlier keys of `result.json`:

    python benchmarks/same_numbers.py record BEFORE --checkout OTHER
    python benchmarks/same_numbers.py record AFTER
    python benchmarks/same_numbers.py compare BEFORE AFTER
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
STEPS = ("max_steps=60", "log_every=10", "eval_every=20", "hydra/launcher=stacked")
ENGINES = {"single": ("engine=single",), "stacked": ("engine=stacked", "seed=0,1")}


def record(folder: Path, checkout: Path) -> None:
    """Trains everything into `folder` with the code of a checkout."""
    components, strategies = (_options(checkout, group) for group in ("component", "strategy"))
    without_pooling = [name for name in components if name != "hard_max_pool"]
    models = {"mlp": without_pooling, "cnn": ["hard_max_pool", "binary", "quantized_weight", "k_winners"]}
    for engine, own in ENGINES.items():
        for model, some in models.items():
            root = f"hydra.sweep.dir={folder.resolve() / f'{engine}-{model}'}"
            product = f"component={','.join(some)}", f"strategy={','.join(strategies)}", f"model={model}"
            subprocess.run([sys.executable, "train.py", "-m", *product, *STEPS, *own, root], cwd=checkout, check=False)


def compare(before: Path, after: Path) -> int:
    """Prints the runs that differ, and by how much; returns 1 if any differs."""
    folders = sorted({path.parent.relative_to(root) for root in (before, after) for path in root.rglob("status.json")})
    different = 0
    for folder in folders:
        reason = difference(before / folder, after / folder)
        if reason:
            different += 1
            print(f"{folder}: {reason}")
    print(f"{len(folders)} runs compared, {different} differ")
    return int(different > 0 or not folders)


def difference(before: Path, after: Path) -> str:
    """Describes what differs between two recordings of a run; empty if nothing differs."""
    old, new = _status(before), _status(after)
    if old != new:
        return f"{old} before, {new} after"
    if _content(before / "metrics.jsonl") != _content(after / "metrics.jsonl"):
        rows = zip(_numbers(before), _numbers(after), strict=False)
        apart = max((abs(a - b) / max(abs(a), abs(b), 1e-9) for a, b in rows), default=0.0)
        return f"metrics.jsonl, losses up to {apart:.1e} apart, relative"
    found = [json.loads(_content(folder / "result.json") or "{}") for folder in (before, after)]
    keys = [key for key in found[0] if found[0][key] != found[1].get(key)]
    return f"result.json: {', '.join(keys)}" if keys else ""


def _options(checkout: Path, group: str) -> list[str]:
    return sorted(path.stem for path in (checkout / "conf" / group).glob("*.yaml"))


def _status(run: Path) -> str:
    file = run / "status.json"
    return str(json.loads(file.read_text())["status"]) if file.exists() else "nothing"


def _numbers(run: Path) -> list[float]:
    """Reads the training losses, step by step."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [float(row["loss/train"]) for row in rows if "loss/train" in row]


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def main() -> int:
    """Records or compares, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="train everything with the code of a checkout")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--checkout", type=Path, default=HERE)
    comparing = commands.add_parser("compare", help="compare two recorded folders")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.before, options.after)
    record(options.folder, options.checkout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
