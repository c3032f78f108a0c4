"""What a learner wrote: the source of one exercise's function or class, and how far it has got."""

from __future__ import annotations

import ast
import copy
import linecache
import textwrap
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class State(Enum):
    """How far an exercise's cell has got."""

    UNTOUCHED = "untouched"
    """The stub as it was given."""
    PARTIAL = "partial"
    """Own code, and a ``todo()`` that still stands."""
    COMPLETE = "complete"
    """No ``todo()`` left."""


@dataclass(frozen=True, slots=True)
class Written:
    """The source of a learner's function or class.

    Args:
        node: the definition, without its ``@exercise`` decorator.
        source: its text, dedented, without that decorator; line ``i`` is line ``first_line + i`` of the cell.
        filename: name of the cell, as tracebacks know it.
        first_line: line of the cell in which ``source`` begins.
        namespace: the notebook's global names.
    """

    node: Definition
    source: str
    filename: str
    first_line: int
    namespace: dict[str, Any]

    @property
    def todo_lines(self) -> tuple[int, ...]:
        """Lines of the cell in which ``todo()`` is called."""
        return tuple(each.lineno for each in ast.walk(self.node) if isinstance(each, ast.Call) and _is_todo(each))

    def contains(self, filename: str, line: int) -> bool:
        """Whether that line of that cell belongs to this definition."""
        return filename == self.filename and self.node.lineno <= line <= (self.node.end_lineno or self.node.lineno)

    def state(self, stub: str = "") -> State:
        """How far this has got; ``stub`` is the source of the stub where it is more than ``todo()``."""
        if _only_todo(self.node) or (bool(stub) and _shape(self.node) == _shape(_definition(stub))):
            return State.UNTOUCHED
        return State.PARTIAL if self.todo_lines else State.COMPLETE


def find_decorated(line: int, filename: str, namespace: dict[str, Any]) -> Written | None:
    """The definition with a decorator in that line of a cell, without it; None where the cell's source can't be had."""
    for node in _definitions(filename, namespace):
        for decorator in node.decorator_list:
            if decorator.lineno <= line <= (decorator.end_lineno or decorator.lineno):
                node.decorator_list.remove(decorator)
                return _written(node, filename, namespace)
    return None


def find_definition(name: str, filename: str, namespace: dict[str, Any]) -> Written | None:
    """The function or class of that name in a cell; None if there is none, or where the cell's source can't be had."""
    named = [node for node in _definitions(filename, namespace) if node.name == name]
    return _written(named[-1], filename, namespace) if named else None


def _definitions(filename: str, namespace: dict[str, Any]) -> list[Definition]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename, namespace)))
    except SyntaxError:  # not Python alone, for example a cell that an extension rewrites
        return []
    return [node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)]


def _written(node: Definition, filename: str, namespace: dict[str, Any]) -> Written:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    lines = linecache.getlines(filename, namespace)[first - 1 : node.end_lineno]
    text = textwrap.dedent("".join(lines))
    return Written(node, text if text.endswith("\n") else text + "\n", filename, first, namespace)


def _is_todo(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == "todo")
        or (isinstance(node.func, ast.Attribute) and node.func.attr == "todo")
    )


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            return rest
    return body


def _only_todo(node: Definition) -> bool:
    body = _without_docstring(node.body)
    if isinstance(node, ast.ClassDef):
        return bool(body) and all(isinstance(each, _DEFINITIONS) and _only_todo(each) for each in body)
    match body:
        case [ast.Expr(call) | ast.Return(ast.Call() as call)]:
            return _is_todo(call)
    return False


def _definition(source: str) -> Definition:
    node = ast.parse(textwrap.dedent(source)).body[-1]
    if not isinstance(node, _DEFINITIONS):
        raise ValueError(f"a stub must end in a function or class:\n{source}")
    return node


def _shape(node: Definition) -> str:
    """The definition's code alone: decorators, docstrings and comments don't count."""
    node = copy.deepcopy(node)
    node.decorator_list = []
    for each in ast.walk(node):
        if isinstance(each, _DEFINITIONS):
            each.body = _without_docstring(each.body)
    return ast.dump(node)
