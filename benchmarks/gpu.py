"""Checks and measures on one CUDA device, in under ten minutes; `--device cpu` rehearses the same, smaller.

- `laws`: values and gradients of every op under every strategy, compared with the CPU's;
- `ops`: the same pairs on (64, 4096) numbers, in float32 and under bfloat16 autocast: milliseconds, memory;
- `steps`: how often an unlogged training step waits for the device, and how many kernels it starts;
- `train`: five strategies in three precisions by train.py, twice: equal bytes, warnings, distance to the CPU's curve;
- `resume`: a run that is killed and resumed, compared with an undisturbed one;
- `stacked`: a stacked sweep with one and with two workers.

Usage: python benchmarks/gpu.py [--device cuda] [--part laws]
Exit code 1 if a check fails, 2 if there is no such device.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gpu_pairs
import gpu_runs
import gpu_steps

Part = Callable[[str, Path], Iterator[tuple[str, bool]]]  # device and folder to lines, each with its check's outcome
PARTS: dict[str, Part] = {
    "laws": gpu_pairs.laws,
    "ops": gpu_pairs.times,
    "steps": gpu_steps.steps,
    "train": gpu_runs.train,
    "resume": gpu_runs.resume,
    "stacked": gpu_runs.stacked_sweeps,
}


def main() -> int:
    """Prints one section a part; a part that raises is a failed check, and the others still run."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ...; cpu for a rehearsal")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be given several times")
    given = parser.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        print(f"device={given.device}: torch finds no CUDA device here; --device cpu rehearses", file=sys.stderr)
        return 2
    name = "CPU (a rehearsal)" if given.device == "cpu" else torch.cuda.get_device_name(given.device)
    print(f"{name}, torch {torch.__version__}", flush=True)
    failed = [part for part in given.part or PARTS if not print_part(part, given.device)]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall checks hold")
    return int(bool(failed))


def print_part(part: str, device: str) -> bool:
    """Prints the lines of a part; returns whether all checks hold."""
    print(f"\n## {part}\n", flush=True)
    began, well = time.monotonic(), True
    try:
        with tempfile.TemporaryDirectory() as folder:
            for line, good in PARTS[part](device, Path(folder)):
                well &= good
                print(line if good else f"{line}  **fails**", flush=True)
    except Exception:
        well = False
        traceback.print_exc(file=sys.stdout)
    print(f"\n{time.monotonic() - began:.0f} s", flush=True)
    return well


if __name__ == "__main__":
    sys.exit(main())
