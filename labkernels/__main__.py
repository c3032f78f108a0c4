"""``python -m labkernels …``: commands about the kernels."""

from __future__ import annotations

import argparse
import sys

from .report import register


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m labkernels", description="The lab's GPU kernels.")
    register(parser.add_subparsers(required=True, metavar="command"))
    args = parser.parse_args(arguments)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
