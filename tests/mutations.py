"""Single-edit mutants of an exercise's reference: each is a mistake that a check should reject."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lablib.course.grade import Status, outcomes
from lablib.course.spec import Exercise

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
_KEPT = (ast.Pass, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
Change = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed reference: what was changed, and the module text."""

    description: str
    source: str


@dataclass(frozen=True, slots=True)
class Score:
    """How a check did: descriptions of all mutants that count, and of those that it let pass."""

    mutants: tuple[str, ...]
    survivors: tuple[str, ...]
    stale: tuple[str, ...]
    """Entries of ``equivalent`` that name no mutant, or one that is rejected."""

    @property
    def rejected(self) -> float:
        """Share of the mutants that the check rejects."""
        return 1.0 if not self.mutants else 1 - len(self.survivors) / len(self.mutants)


def score(exercise: Exercise) -> Score:
    """Run an exercise's check on every mutant of its reference."""
    source = textwrap.dedent(inspect.getsource(exercise.load_reference()))
    survived = {mutant.description: _passes(exercise, mutant) for mutant in mutants(source, exercise.focus)}
    counted = tuple(each for each in survived if each not in exercise.equivalent)
    stale = tuple(each for each in exercise.equivalent if not survived.get(each))
    return Score(counted, tuple(each for each in counted if survived[each]), stale)


def mutants(source: str, focus: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Every single edit of a function's or class's source that we know; of a class only the methods in ``focus``."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for index, (node, _) in enumerate(_walk(tree, tree.body[0], focus)):
        for change in _changes(node):
            copied = copy.deepcopy(tree)
            target, holder = list(_walk(copied, copied.body[0], focus))[index]
            before = _head(holder)
            change(target)
            after = _head(holder)
            text = f"`{before}` → `{after}`" if before != after else f"`{_removed(node, target)}` is left out"
            seen[text] = seen.get(text, 0) + 1
            again = f" ({seen[text]})" if seen[text] > 1 else ""
            yield Mutant(text + again, ast.unparse(ast.fix_missing_locations(copied)))


def _passes(exercise: Exercise, mutant: Mutant) -> bool:
    namespace = dict(vars(exercise.module()))
    text = "from __future__ import annotations\n" + mutant.source
    try:
        exec(compile(text, "<mutant>", "exec", dont_inherit=True), namespace)
    except Exception:
        return False  # it does not even define itself
    answer = namespace[exercise.name.rpartition(".")[2]]
    return all(outcome.status is Status.PASSED for outcome in outcomes(exercise, answer, namespace))


def _walk(node: ast.AST, statement: ast.AST, focus: tuple[str, ...]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Nodes that may change, each with its statement. Annotations, decorators, texts and messages stay as they are."""
    if isinstance(node, ast.stmt | ast.arguments):
        statement = node
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.arg):
        return
    yield node, statement
    if isinstance(node, ast.ClassDef):
        children = [each for each in node.body if not focus or getattr(each, "name", None) in focus]
    elif isinstance(node, ast.FunctionDef):
        children = [node.args, *_without_docstring(node.body)]
    elif isinstance(node, ast.AnnAssign):
        children = [each for each in (node.target, node.value) if each is not None]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _walk(child, statement, focus)


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                for new in _COMPARISONS[type(operator)]:
                    yield lambda copied, index=index, new=new: copied.ops.__setitem__(index, new())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            yield lambda copied: setattr(copied, "op", _OPERATORS[type(copied.op)]())
        case ast.BoolOp():
            yield lambda copied: setattr(copied, "op", ast.Or() if isinstance(copied.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield lambda copied: setattr(copied, "operand", ast.UnaryOp(ast.Not(), copied.operand))
        case ast.UnaryOp(op=ast.USub()):
            yield lambda copied: setattr(copied, "op", ast.UAdd())
        case ast.Constant(bool() | int() | float()):
            yield from _constant_changes(node.value)
        case ast.Call():
            yield from _call_changes(node)
        case ast.If() | ast.While() | ast.IfExp():
            yield lambda copied: setattr(copied, "test", ast.UnaryOp(ast.Not(), copied.test))
        case ast.comprehension():
            for index in range(len(node.ifs)):
                yield lambda copied, index=index: copied.ifs.pop(index)
        case ast.Slice():
            for bound in ("lower", "upper"):
                if getattr(node, bound) is not None:
                    yield lambda copied, bound=bound: setattr(copied, bound, None)
    yield from _statement_changes(node)


def _constant_changes(value: bool | int | float) -> Iterator[Change]:
    if isinstance(value, bool):
        yield lambda copied: setattr(copied, "value", not value)
    elif isinstance(value, int):
        yield lambda copied: setattr(copied, "value", value + 1)
        yield lambda copied: setattr(copied, "value", value - 1)
    else:
        yield lambda copied: setattr(copied, "value", 2 * value + 1.0)


def _call_changes(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        yield lambda copied: setattr(copied.func, "id", _FUNCTIONS[copied.func.id])
    if isinstance(node.func, ast.Attribute) and node.func.attr in _FUNCTIONS:
        yield lambda copied: setattr(copied.func, "attr", _FUNCTIONS[copied.func.attr])
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if len(node.args) >= 2 and name not in ("min", "max", "isinstance"):
        yield lambda copied: copied.args.__setitem__(slice(0, 2), copied.args[1::-1])


def _statement_changes(node: ast.AST) -> Iterator[Change]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if not isinstance(body, list):
            continue
        for index, statement in enumerate(body):
            if isinstance(statement, ast.Break | ast.Continue):
                other = ast.Continue if isinstance(statement, ast.Break) else ast.Break
                yield lambda copied, name=name, index=index, other=other: _put(copied, name, index, other())
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text and not isinstance(statement, _KEPT):
                yield lambda copied, name=name, index=index: _put(copied, name, index, ast.Pass())


def _put(node: Any, name: str, index: int, statement: ast.stmt) -> None:
    getattr(node, name)[index] = statement


def _removed(before: ast.AST, after: ast.AST) -> str:
    for name in ("body", "orelse", "finalbody"):
        for old, new in zip(getattr(before, name, []), getattr(after, name, []), strict=True):
            if type(old) is not type(new):
                return _head(old)
    return "?"


def _head(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body
