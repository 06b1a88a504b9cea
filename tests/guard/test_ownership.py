"""Objects are complete once they are made: no package sets attributes of another one's objects, and no global changes.

Within one folder, classes that belong together may set attributes of each other, callbacks excepted: a record, and the
class that keeps it.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.tables import each_row

ROOT = Path(__file__).parents[2]
MODULES = [
    path for package in ("hub", "upstreams", "cache", "config") for path in sorted((ROOT / package).rglob("*.py"))
]
LIBRARIES = {
    "deadline",
    "description",
    "usage",
    "hint",
    "epilog",
    "stderr",
    "stdout",
    "raiseExceptions",
    "args",
    "minimum_version",
}
"""Attributes that libraries mean to be set: cancel scopes, parsers, streams, exceptions, TLS contexts."""
STATE = {
    # an exception that is kept lets go of its frames
    "hub/wire/http/request_parser.py": {"__traceback__"}
}
"""Attributes that are set of objects of other packages, and why. The list may only become shorter."""
CACHES = {"hub/net/response_writer.py": {"_FIRST"}}
"""Globals that only remember what is the same for everybody."""
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def attributes_set(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Every attribute that is set of another object than `self`, `cls`, or one made in the same function."""
    for function in statements(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = statements(function)
        own = {"self", "cls", *made_in(nodes)}
        for node in nodes:
            for target in targets_of(node):
                if isinstance(target, ast.Attribute) and not (
                    isinstance(target.value, ast.Name) and target.value.id in own
                ):
                    yield target


def targets_of(node: ast.AST) -> Iterator[ast.expr]:
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Assign):
        found += node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        found.append(node.target)
    elif isinstance(node, ast.withitem):
        found.append(node.optional_vars)
    for target in found:
        if isinstance(target, ast.Tuple | ast.List):
            yield from target.elts
        elif target is not None:
            yield target


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def statements(node: ast.AST) -> list[ast.AST]:
    """What can bind a name within this node. Other expressions, nine nodes of ten, are passed over."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.withitem | ast.excepthandler | ast.match_case):
            found += [child, *statements(child)]
        elif isinstance(child, ast.expr) and isinstance(node, ast.stmt):
            found += [each for each in ast.walk(child) if isinstance(each, ast.NamedExpr)]
    return found


def made_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Local names of objects that these statements of a function make by calling a class."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            if name.lstrip("_")[:1].isupper() or name in ("cls", "__new__"):
                yield from (target.id for target in targets_of(node) if isinstance(target, ast.Name))


def declared_in(tree: ast.Module) -> set[str]:
    """Attributes of the classes of a module."""
    found = set()
    for each in statements(tree):
        if isinstance(each, ast.ClassDef):
            for node in statements(each):
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found.add(node.target.id)
                for target in targets_of(node):
                    if isinstance(target, ast.Attribute) and _is_name(target.value, "self", "cls"):
                        found.add(target.attr)
    return found


@pytest.mark.timeout(600)
def test_no_package_sets_an_attribute_of_another_ones_object() -> None:
    trees = {path: parse(path) for path in MODULES}
    declared: dict[Path, set[str]] = {}
    for path, tree in trees.items():
        declared.setdefault(path.parent, set()).update(declared_in(tree))
    for path, tree in trees.items():
        own = {name for name in declared[path.parent] if not name.startswith("on_")}
        foreign = {each.attr for each in attributes_set(tree)} - own - LIBRARIES
        assert foreign <= STATE.get(str(path.relative_to(ROOT)), set()), path


@each_row("path", MODULES)
def test_no_module_has_state(path: Path) -> None:
    """A global is a constant: nothing rebinds it, and what is mutable is neither annotated as such nor changed."""
    tree = parse(path)
    assert not [node.names for node in statements(tree) if isinstance(node, ast.Global)]
    mutable = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_mutable(node.value)
        for target in targets_of(node)
        if isinstance(target, ast.Name)
    }
    nodes = list(ast.walk(tree)) if mutable else []
    changed = {name for name in mutable for node in nodes if changes(node, name)}
    assert changed == CACHES.get(str(path.relative_to(ROOT)), set())


def is_mutable(value: ast.expr | None) -> bool:
    made = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, MUTABLE) or (
        isinstance(made, ast.Name) and made.id in ("set", "dict", "list", "deque", "defaultdict", "Counter", "WeakSet")
    )


CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}


def changes(node: ast.AST, name: str) -> bool:
    """Whether `node` changes the object that the global `name` stands for."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in CHANGING and _is_name(node.func.value, name)
    targets = node.targets if isinstance(node, ast.Delete) else targets_of(node)
    return any(isinstance(each, ast.Subscript) and _is_name(each.value, name) for each in targets)


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names
