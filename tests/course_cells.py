"""Runs text as a notebook cell would run, so that the course helpers find its source."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import Any

_numbers = itertools.count(1)
SETUP = "from lablib.course import *\n"
STUB = '''
@exercise("90.1")
def pad(rows, pad_id=0):
    """Make a rectangle."""
    ### BEGIN SOLUTION
    todo()
    ### END SOLUTION
'''
RIGHT = '''
@exercise("90.1")
def pad(rows, pad_id=0):
    """Make a rectangle."""
    if not rows:
        raise ValueError("no row")
    width = max(map(len, rows))
    real = [[True] * len(row) + [False] * (width - len(row)) for row in rows]
    return [row + [pad_id] * (width - len(row)) for row in rows], real
'''
ON_THE_LEFT = """
@exercise("90.1")
def pad(rows, pad_id=0):
    width = max(map(len, rows))
    real = [[False] * (width - len(row)) + [True] * len(row) for row in rows]
    return [[pad_id] * (width - len(row)) + row for row in rows], real
"""


class Notebook:
    """A namespace in which cells run one after the other."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "a notebook"}
        self.run(SETUP)

    def run(self, source: str) -> dict[str, Any]:
        """Run one cell and give back all names."""
        text = textwrap.dedent(source).lstrip("\n")
        filename = f"<cell {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)
        return self.names
