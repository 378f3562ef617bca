"""What a training step with default logging costs, against the bare loop of the same model, data and batch.

Both run in processes of their own, 600 steps after 20 that are not timed, one thread, no evaluation in the timed part.
And what logging a step costs: all 600 logged, against none of them.
Usage: python benchmarks/step.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STEPS, WARM = 600, 20


def main() -> None:
    from pairs import HEADER, compare

    print(f"milliseconds a step\n\n{HEADER}")
    print(compare("training step / bare loop", _child("--own"), _child(), 1.25, pairs=15).row())
    never = _child("--own", f"log_every={10 * STEPS}")
    print(compare("logged step / one that is not", _child("--own", "log_every=1"), never, 2.0, pairs=15).row())


def _child(*arguments: str):
    script = [__file__, *arguments] if arguments else [str(ROOT / "benchmarks" / "bare_loop.py")]

    def measure() -> float:
        return float(subprocess.run([sys.executable, *script], check=True, capture_output=True, text=True).stdout)

    return measure


def own() -> None:
    """Milliseconds a step of our own session, all its default logging included."""
    from hydra import compose, initialize_config_dir

    from experiments.config.folder_names import register_resolvers
    from experiments.training import run as module
    from experiments.training.session import Session

    register_resolvers()
    marks: dict[int, float] = {}
    advance = Session._advance

    def timed(session: Session) -> dict[str, float]:
        values = advance(session)
        marks[session.trainer.step] = time.perf_counter()
        return values

    Session._advance = timed
    typed = [argument for argument in sys.argv[1:] if "=" in argument]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("config", [f"max_steps={STEPS + WARM + 1}", "eval_every=100000", *typed])
    with tempfile.TemporaryDirectory() as folder:
        stdout, sys.stdout = sys.stdout, sys.stderr
        module.run(module.Request(config, Path(folder) / "run"))
        sys.stdout = stdout
    print((marks[WARM + STEPS] - marks[WARM]) / STEPS * 1e3)


if __name__ == "__main__":
    own() if "--own" in sys.argv else main()
