"""`python -m lablib …`: the course's commands."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; every subparser sets `run`, called with the parsed arguments."""
    args = _parser().parse_args(arguments)
    try:
        return int(args.run(args) or 0)
    except KeyboardInterrupt:
        print("\nInterrupted; nothing half-written was kept.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lablib", description="The batching lab's commands.")
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("fetch", help="download and convert the model once").set_defaults(run=_fetch)
    commands.add_parser("doctor", help="say what this machine has and can run").set_defaults(run=_doctor)
    opener = commands.add_parser("open", help="copy missing notebooks into work/, outputs cleared")
    opener.add_argument("--labs", type=Path, default=PROJECT / "labs", help="the finished notebooks (%(default)s)")
    opener.add_argument("--work", type=Path, default=PROJECT / "work", help="your own copies (%(default)s)")
    opener.set_defaults(run=_open)
    try:
        from lablib import calculator, simulate
        from lablib.course import cli

        simulate.register(commands)
        calculator.register(commands)
        cli.register(commands)
    except ModuleNotFoundError as error:  # the doctor must run where a package is missing
        print(f"{error}: run `make setup`. Only fetch and doctor work until then.", file=sys.stderr)
    return parser


def _fetch(args: argparse.Namespace) -> int:
    from lablib.model.checkpoint import CheckpointError, default_checkpoint

    try:
        print(f"The model is ready: {default_checkpoint()}")
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from lablib import doctor

    return doctor.main()


def _open(args: argparse.Namespace) -> int:
    from lablib.course.notebooks import copy_missing

    copied = copy_missing(args.labs, args.work)
    for path in copied:
        print(f"New in {args.work.name}/: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
