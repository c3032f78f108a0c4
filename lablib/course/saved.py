"""Saves a learner's answer as a module that loads on its own, and loads it again in a later lab."""

from __future__ import annotations

import ast
import dis
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from lablib.course.written import Written, find_definition

_LONGEST_CONSTANT = 2000


class CannotSave(Exception):  # noqa: N818 (reads as what happened)
    """The answer needs something of the notebook that can't be written into a file; the message names it."""


def load(path: Path) -> Any:
    """The last function or class that a saved file defines; raises whatever the file raises."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if not names:
        raise ValueError("it defines no function or class")
    name = f"lablib_mine_{path.stem}"
    known = sys.modules.get(name)
    stamp = (str(path), path.stat().st_mtime_ns)
    if known is None or getattr(known, "__stamp__", None) != stamp:
        known = _import(name, path)
        known.__stamp__ = stamp  # type: ignore[attr-defined]
    return getattr(known, names[-1])


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and inspect look their module up there
    try:
        # Compiled here, since the import system would trust a stale .pyc after two saves within a second.
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def as_module(written: Written, title: str, exercises: dict[int, str]) -> str:
    """The text of a module that defines what was written, with everything it needs from the notebook.

    Args:
        written: the answer.
        title: first line of the module's docstring.
        exercises: key by ``id()`` of every exercise object of this session: those are loaded with ``piece``.

    Raises:
        CannotSave: if it needs an object of another cell that is neither importable, nor plain data, nor a function.
    """
    needs = _Needs(exercises)
    needs.collect(written)
    imports = "".join(f"{line}\n" for line in sorted(needs.imports))
    above = "".join(f"{each}\n" for each in needs.constants) + "".join(f"\n\n{each}" for each in needs.definitions)
    parts = [f'"""{title}"""\n\nfrom __future__ import annotations\n', imports, above.lstrip("\n")]
    return "\n".join(part for part in parts if part) + f"\n\n{written.source}"


@dataclass(slots=True)
class _Needs:
    exercises: dict[int, str]
    imports: set[str] = field(default_factory=set)
    constants: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def collect(self, written: Written) -> None:
        self.seen.add(written.node.name)
        for name in _global_names(written.source):
            if name in self.seen or name not in written.namespace:
                continue
            self.seen.add(name)
            self._add(name, written.namespace[name], written.namespace)

    def _add(self, name: str, value: Any, namespace: dict[str, Any]) -> None:
        if id(value) in self.exercises:
            self.imports.add("from lablib.course import piece")
            self.constants.append(f'{name} = piece("{self.exercises[id(value)]}")')
        elif (line := _import_line(name, value)) is not None:
            self.imports.add(line)
        elif _is_constant(value):
            self.constants.append(f"{name} = {value!r}")
        elif (helper := _cell_definition(value, namespace)) is not None:
            self.collect(helper)
            self.definitions.append(helper.source)
        else:
            raise CannotSave(f"it uses {name} ({type(value).__name__}) of another cell: pass it as an argument")


def _global_names(source: str) -> list[str]:
    """Names that code looks up outside itself, in order of use; annotations don't count."""
    future = "from __future__ import annotations\n"
    names = _names(compile(future + source, "<answer>", "exec", dont_inherit=True))
    return list(dict.fromkeys(names))


def _names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _import_line(name: str, value: Any) -> str | None:
    if isinstance(value, ModuleType):
        return f"import {name}" if value.__name__ == name else f"import {value.__name__} as {name}"
    module = getattr(value, "__module__", None)
    original = getattr(value, "__name__", name)
    if not isinstance(module, str) or module == "__main__":
        return None
    if getattr(sys.modules.get(module), str(original), None) is not value:
        return None
    return f"from {module} import {original}" + ("" if original == name else f" as {name}")


def _is_constant(value: Any) -> bool:
    text = repr(value)
    if len(text) > _LONGEST_CONSTANT:
        return False
    try:
        return bool(ast.literal_eval(text) == value)
    except (ValueError, SyntaxError):
        return False


def _cell_definition(value: Any, namespace: dict[str, Any]) -> Written | None:
    """Source of a function or class that another cell of the notebook defines."""
    functions = [value, *vars(value).values()] if inspect.isclass(value) else [value]
    for function in functions:
        code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
        if code is not None and getattr(function, "__globals__", None) is namespace:
            return find_definition(value.__name__, code.co_filename, namespace)
    return None
