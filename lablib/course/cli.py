"""The course's commands: ``python -m lablib freeze | reset | catchup | progress``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from lablib.course import registry, store

_PROJECT = Path(__file__).parents[2]


def register(subparsers: Any) -> None:
    """Add the commands; each sets ``run``, which is called with the parsed arguments and returns an exit code."""
    freeze = subparsers.add_parser("freeze", help="execute notebooks and store them for the gallery")
    freeze.add_argument("notebooks", nargs="+", type=Path, metavar="notebook")
    freeze.add_argument("--check", action="store_true", help="change nothing, list what is wrong")
    freeze.set_defaults(run=_freeze)
    reset = subparsers.add_parser("reset", help="make your copy of a lab anew and keep the old one beside it")
    reset.add_argument("lab", type=int, help="number of the lab, for example 03")
    _add_folders(reset)
    reset.set_defaults(run=_reset)
    catchup = subparsers.add_parser("catchup", help="use the reference for every exercise before a lab")
    catchup.add_argument("lab", type=int, help="number of the lab you want to start with, for example 05")
    _add_folders(catchup)
    catchup.set_defaults(run=_catchup)
    progress = subparsers.add_parser("progress", help="what is solved so far")
    _add_folders(progress)
    progress.set_defaults(run=_progress)


def _add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--labs", type=Path, default=_PROJECT / "labs", help="the finished notebooks (%(default)s)")
    parser.add_argument("--work", type=Path, default=_PROJECT / "work", help="your own copies (%(default)s)")


def _freeze(args: argparse.Namespace) -> int:
    return _list_findings(args.notebooks) if args.check else _freeze_all(args.notebooks)


def _list_findings(paths: list[Path]) -> int:
    from lablib.course.rules import check_file

    findings = [finding for path in paths for finding in check_file(path)]
    print("\n".join(map(str, findings)) or f"{len(paths)} notebooks are as they should be.")
    return 1 if findings else 0


def _freeze_all(paths: list[Path]) -> int:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    from lablib.course.freeze import freeze

    failed = False
    for path in paths:
        try:
            freeze(path)
            print(f"{path.name}: frozen, {path.stat().st_size:,} bytes")
        except (CellExecutionError, CellTimeoutError) as error:
            failed = True
            print(f"{path.name}: left as it was, since a cell failed.\n{error}", file=sys.stderr)
    return 1 if failed else 0


def _reset(args: argparse.Namespace) -> int:
    from lablib.course.notebooks import reset

    try:
        new, old = reset(args.lab, args.labs, args.work)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{new.name} is as new." + (f" Yours is kept as {old.name}." if old else ""))
    print("Answers that a green check has saved stay; `python -m lablib catchup` switches them off.")
    return 0


def _catchup(args: argparse.Namespace) -> int:
    _use(args.work)
    keys = [exercise.key for exercise in registry.exercises() if registry.lab_number(exercise.key) < args.lab]
    store.update(lambda progress: _choose_reference(progress, keys))
    if keys:
        print(
            f"The reference now answers {', '.join(keys)}. Your files are kept; a green check switches yours on again."
        )
    else:
        print(f"There is no exercise before lab {args.lab:02d}.")
    return 0


def _choose_reference(progress: store.Progress, keys: list[str]) -> None:
    progress.reference = sorted({*progress.reference, *keys})


def _progress(args: argparse.Namespace) -> int:
    from lablib.course.progress import progress

    _use(args.work)
    progress()
    return 0


def _use(work: Path) -> None:
    """Let the learner's folder be that of ``work``, unless the environment names another."""
    os.environ.setdefault("LABLIB_MINE", str(work / "mine"))
