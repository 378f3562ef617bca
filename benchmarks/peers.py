"""Times this library against its peers: surrogate spikes, and a training step of whole nets, on the CPU.

Every peer has its own virtual environment, which shares the torch of the calling one. Ours and the peer's are timed
there in one process (peer_cases.py, nets.py). The largest relative differences of values and of derivatives by
the input say whether both compute the same function; a row where they do not says "differs".

Usage: python benchmarks/peers.py --make FOLDER [--only snntorch,torchao]   makes the environments with pip
       python benchmarks/peers.py FOLDER [--only ...] [--size 1000000] [--pairs 25]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

from pairs import HEADER, Ratio
from timing import machine

ROOT = Path(__file__).resolve().parents[1]

# What pip installs, without further dependencies: the calling environment has torch and what `.[dev]` installs.
PACKAGES = {
    "spikingjelly": ["spikingjelly==2.0.0", "loguru", "tqdm", "h5py", "SciencePlots"],
    "snntorch": ["snntorch==1.0.0"],
    "vector_quantize_pytorch": [
        "vector-quantize-pytorch==1.32.0",
        *("einops", "einx", "frozendict", "loguru", "torch-einops-utils"),
    ],
    "brevitas": ["brevitas==0.13.4", "dependencies==2.0.1", "unfoldNd"],
    "torchao": ["torchao==0.18.0"],
}
SAME = 1e-3  # rounding is far below this, another function far above
PEER_HEADER = HEADER.replace("holds |", "holds | values, derivatives apart |") + "---|"


def make(peer: str, folder: Path) -> str | None:
    """Makes a peer's environment, which also has the packages of this one; returns the error, or None."""
    home = folder / peer
    venv.create(home, clear=True)
    (_site(home) / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = ["pip", "--python", str(home), "install", "--quiet", "--no-deps", *PACKAGES[peer]]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def _python(home: Path) -> Path:
    return home / ("Scripts" if os.name == "nt" else "bin") / "python"


def _site(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))


def measured(peer: str, python: Path, options: list[str]) -> list[dict[str, Any]]:
    """Returns the lines of a peer's cases; one line with the error if the peer cannot run."""
    if not python.exists():
        return [{"name": peer, "error": f"there is no environment {python.parents[1]}; make it with --make"}]
    command = [str(python), str(ROOT / "benchmarks" / "peer_cases.py"), peer, *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        lines.append({"name": peer, "error": (done.stderr.strip().splitlines() or ["no output"])[-1]})
    return lines


def row(peer: str, line: dict[str, Any]) -> str:
    """Returns a line of the Markdown table."""
    name = f"{line['name']} / {peer}"
    if "error" in line:
        return f"| {name} | | | | 1 | not measured | {line['error']} |"
    apart = line["value"], line["derivative"]
    ratio = Ratio(**{key: line[key] for key in ("ours", "peer", "ratio", "low", "high", "bound", "pairs")}, name=name)
    differs = "" if all(value < SAME for value in apart) else ", differs"
    return f"{ratio.row()} {apart[0]:.1g}, {apart[1]:.1g}{differs} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the environments")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="make the environments there")
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(PACKAGES), help="only these peers")
    for name, default in {"size": 1_000_000, "pairs": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    if not (given.folder or given.make):
        parser.error("give the folder of the environments, or --make FOLDER")
    if unknown := set(given.only) - set(PACKAGES):
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are: {', '.join(PACKAGES)}")
    if given.make:
        errors = {peer: make(peer, given.make) for peer in given.only}
        for peer, error in errors.items():
            print(f"{peer}: {error or 'made'}", flush=True)
        return int(any(errors.values()))
    options = [f"--{name}={getattr(given, name)}" for name in ("size", "pairs")]
    versions = ", ".join(PACKAGES[peer][0] for peer in given.only)
    print(f"{machine()}, {versions}, times in ms; {' '.join(options)}\n\n{PEER_HEADER}", flush=True)
    for peer in given.only:
        for line in measured(peer, _python(given.folder / peer), options):
            print(row(peer, line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
