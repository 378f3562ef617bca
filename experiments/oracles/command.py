"""`hardgrad oracles` makes the table of strategies against exact gradients; `findings` the page of answers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.oracles import figures, findings, score_text
from experiments.oracles.contender_scores import all_settings, score_all
from experiments.oracles.setting import Setting
from experiments.terminal.output import lasting_output
from experiments.tracking.outputs import OutputFailed, OutputRefused, check_folder, write_text

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Makes the table or the page and returns the exit code.

    0: all is well. 1: a file could not be written. 2: the arguments are wrong.
    """
    try:
        return _run(_parser().parse_args(arguments))
    except (OutputRefused, OutputFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, OutputRefused) else 1


def _run(options: argparse.Namespace) -> int:
    if options.what == "findings" and not PAGE.parent.is_dir():
        print("error: findings writes docs/findings.md of a checkout, but this is an installed copy", file=sys.stderr)
        return 2
    if options.what == "findings":
        findings.write(PAGE, options.keep)
        return 0
    chosen = [s for s in all_settings() if options.setting is None or options.setting in s.name]
    if not chosen:
        names = "".join(f"\n  {s.name}" for s in all_settings())
        print(f"error: no setting has {options.setting!r} in its name; the settings are:{names}", file=sys.stderr)
        return 2
    if options.draws is not None and options.draws < 1:
        print(f"error: --draws must be at least 1, got {options.draws}", file=sys.stderr)
        return 2
    check_folder(options.out)
    _table(chosen, options.out, options.draws)
    return 0


def _table(chosen: list[Setting], out: Path, draws: int | None) -> None:
    found, pages = [], [score_text.INTRODUCTION]
    for number, setting in enumerate(chosen, 1):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number}/{len(chosen)} {setting.name}", end="", file=sys.stderr, flush=True)
        scored = list(score_all(setting, draws))
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        print(score_text.terminal(setting, scored), flush=True)
        found += scored
        pages.append(score_text.markdown(setting, scored))
    write_text(out / "table.md", "\n".join(pages))
    write_text(out / "table.json", json.dumps([row.plain() for row in found], indent=1, allow_nan=False))
    figures.write(found, out / "table.svg")
    print(score_text.LEGEND)
    print(f"written: {out / 'table.md'}, table.json, table.svg, table.png")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hardgrad oracles", description="Scores the strategies against exact gradients.")
    what = "the table of all settings, or docs/findings.md; default: table"
    parser.add_argument("what", nargs="?", choices=("table", "findings"), default="table", help=what)
    parser.add_argument("--keep", action="store_true", help="findings: use the answers in runs/questions/, ask nothing")
    parser.add_argument("--setting", help="only settings with this in their name")
    parser.add_argument("--draws", type=int, help="samples of each setting (default: its own number)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/oracles"), help="folder of the files; default %(default)s"
    )
    return parser
