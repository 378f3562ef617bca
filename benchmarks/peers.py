"""This library against its peers, where they have the same op: time, forward and backward, on the CPU.

Every peer has a virtual environment of its own, in which ours and the peer's are timed in one process: the same inputs,
the same torch, interleaved pairs (peer_cases.py), so that nothing has to be calibrated between environments. The table
gives ours over the peer's as the median of the pairs with its 95 % interval; a win if the interval lies below 1, a loss
if it lies above, else even. The largest differences of values and of derivatives say whether both compute the same; a
row where they do not says "differs". Where the peer's derivative is NaN the difference is.

Usage: python benchmarks/peers.py --make FOLDER [--only softtorch,entmax]   makes the environments, needs pip's index
       python benchmarks/peers.py FOLDER [--only ...] [--size 1000000] [--side 256] [--pairs 25] [--threads 1]
       python benchmarks/peers.py --python PYTHON --only snntorch           in an environment that is there
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

from pairs import ENOUGH

ROOT = Path(__file__).resolve().parents[1]

# What pip is asked for, by peer. softtorch asks for Python 3.12 and runs on 3.11.
PACKAGES = {
    "softtorch": ["--ignore-requires-python", "softtorch==0.1.1"],
    "brevitas": ["brevitas==0.13.4"],
    "spikingjelly": ["spikingjelly==2.0.0"],
    "snntorch": ["snntorch==1.0.0"],
    "entmax": ["entmax==1.3"],
    "difftopk": ["difftopk==0.2.0"],
}
SAME = 1e-3  # rounding is far below, another function above
HEADER = """\
| peer's / ours | ours | peer | ours / peer [95 %] | | value apart | derivative apart |
|---|---|---|---|---|---|---|"""


def make(peer: str, folder: Path) -> str | None:
    """Makes a peer's environment, which sees this one's packages and so its torch; what went wrong, or None."""
    home = folder / peer
    venv.create(home, with_pip=True, clear=True)
    (_site(home) / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [str(_python(home)), "-m", "pip", "install", "--quiet", *PACKAGES[peer]]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def _python(home: Path) -> Path:
    return home / ("Scripts" if os.name == "nt" else "bin") / "python"


def _site(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))


def measured(peer: str, python: Path, options: list[str]) -> list[dict[str, Any]]:
    """The lines of a peer's cases; one line with the error if it can't be run."""
    if not python.exists():
        return [{"name": peer, "error": f"no environment {python.parents[1]}: make it with --make"}]
    command = [str(python), str(ROOT / "benchmarks" / "peer_cases.py"), peer, *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        lines.append({"name": peer, "error": (done.stderr.strip().splitlines() or ["no output"])[-1]})
    return lines


def row(peer: str, line: dict[str, Any]) -> str:
    """A line of the Markdown table."""
    if "error" in line:
        return f"| {peer}: {line['name']} | | | | not measured | {line['error']} | |"
    verdict = "win" if line["high"] < 1 else "**loss**" if line["low"] > 1 else "even"
    if line["pairs"] < ENOUGH:
        verdict = "too few pairs"
    if not (line["value"] < SAME and line["derivative"] < SAME):
        verdict += ", differs"
    return (
        f"| {peer}: {line['name']} | {line['ours']:.3g} | {line['peer']:.3g} "
        f"| {line['ratio']:.2f} [{line['low']:.2f}, {line['high']:.2f}] | {verdict} "
        f"| {line['value']:.1g} | {line['derivative']:.1g} |"
    )


def main() -> int:
    arguments, options = _arguments()
    if arguments.make:
        wrong = {peer: make(peer, arguments.make) for peer in arguments.only}
        for peer, error in wrong.items():
            print(f"{peer}: {error or 'made'}", flush=True)
        return int(any(wrong.values()))
    print(f"times in ms; {' '.join(options)}\n\n{HEADER}", flush=True)
    for peer in arguments.only:
        python = arguments.python or _python(arguments.folder / peer)
        for line in measured(peer, python, options):
            print(row(peer, line), flush=True)
    return 0


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where the environments are")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="make the environments there")
    parser.add_argument("--python", type=Path, help="the interpreter of an environment that has the peers")
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(PACKAGES), help="these peers")
    for name, default in {"size": 1_000_000, "side": 256, "pairs": 25, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    if not (arguments.folder or arguments.make or arguments.python):
        parser.error("give the folder of the environments, or --make FOLDER, or --python")
    if unknown := set(arguments.only) - set(PACKAGES):
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are: {', '.join(PACKAGES)}")
    options = [f"--{name}={getattr(arguments, name)}" for name in ("size", "side", "pairs", "threads")]
    return arguments, options


if __name__ == "__main__":
    sys.exit(main())
