"""The size and the shape of the product: `python tests/guard/house.py` prints them by room.

A line of code is no docstring, no comment and not blank. A circle counts imports inside functions and under
TYPE_CHECKING. A participle is a function named by one that returns something else than a bool.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("hub", "upstreams", "cache", "config")
IRREGULAR = re.compile(
    "told|kept|said|shown|found|took|taken|made|given|known|written|sent|left|held|seen|done|gone|begun|chosen|drawn|grown"
    "|hidden|met|put|brought|thought|understood|won|meant|built|bound|caught|lost|paid|set"
)
IMPERATIVE = {"need", "feed", "seed", "speed", "embed"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class House:
    """Figures of all modules."""

    code: Counter[str] = field(default_factory=Counter)
    """Lines of code by module, a path."""
    lines: int = 0
    inner_imports: int = 0
    protocols: int = 0
    functions: int = 0
    participles: list[str] = field(default_factory=list)
    classes: Counter[str] = field(default_factory=Counter)
    """How often each public name of a class is there."""
    edges: dict[str, set[str]] = field(default_factory=dict)
    """The modules that each imports, inside functions too."""

    def rooms(self) -> dict[str, list[str]]:
        """Modules by folder, maps apart."""
        found = defaultdict(list)
        for path in self.code:
            if not path.endswith("__init__.py"):
                found[str(Path(path).parent)].append(path)
        return found

    def circle(self) -> list[str]:
        """Modules that import each other in a circle; []: none do."""
        try:
            TopologicalSorter(self.edges).prepare()
        except CycleError as error:
            return list(error.args[1])
        return []


def measure() -> House:
    """Read all modules of the product."""
    house = House()
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files}
    known = set(names.values())
    for path, name in names.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        place = str(path.relative_to(ROOT))
        house.code[place] = code_lines(text, tree)
        house.lines += text.count("\n")
        house.edges[name] = {
            each for each in imports_of(tree) if each in known and each != name and not name.startswith(f"{each}.")
        }
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                house.classes[node.name] += not node.name.startswith("_")
                house.protocols += any("Protocol" in ast.unparse(base) for base in node.bases)
            elif isinstance(node, FUNCTIONS):
                house.functions += 1
                house.inner_imports += sum(isinstance(each, ast.Import | ast.ImportFrom) for each in statements(node))
                if is_participle(node):
                    house.participles.append(f"{place}:{node.lineno} {node.name}")
    return house


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements within a node, and what holds them. Expressions have none: nine nodes of ten are passed over."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def code_lines(text: str, tree: ast.Module) -> int:
    prose: set[int] = set()
    for node in statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.split("\n"), 1)
    return sum(number not in prose and line.strip()[:1] not in ("", "#") for number, line in lines)


def is_participle(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    word = node.name.lstrip("_").split("_")[0]
    if not IRREGULAR.fullmatch(word) and (not word.endswith("ed") or word in IMPERATIVE):
        return False
    if node.returns is None or any("property" in ast.unparse(each) for each in node.decorator_list):
        return False
    return ast.unparse(node.returns) not in ("None", "bool", "NoReturn", "Never")


def imports_of(tree: ast.Module) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def report(house: House) -> Iterator[str]:
    by_room: dict[str, Counter[str]] = defaultdict(Counter)
    for path, code in house.code.items():
        by_room[str(Path(path).parent)].update(files=1, code=code)
    for room, figures in sorted(by_room.items(), key=lambda item: -item[1]["code"]):
        yield f"{figures['code']:7,} {figures['files']:4}  {room}"
    yield f"{sum(house.code.values()):7,} {len(house.code):4}  all; {house.lines:,} lines with prose"
    yield f"{house.functions:,} functions, {sum(house.classes.values()):,} classes, {house.protocols} protocols"
    yield f"{house.inner_imports} imports inside functions, {len(house.participles)} participles"
    yield f"twice: {', '.join(sorted(name for name, number in house.classes.items() if number > 1)) or 'no class'}"
    if "-v" in sys.argv:
        yield from house.participles


if __name__ == "__main__":
    sys.stdout.write("\n".join([*report(measure()), ""]))
