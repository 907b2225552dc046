"""Read the imports of the package `grue` off its source, those that no import statement shows included.

A module imports what its import statements name, at module level or in a function, and what its strings name: the
argument of `import_module`, a value in a registry, a prefix in an f-string. A string that names a package stands for
every module in it, because registries scan packages; the name of an entry-point group stands for what pyproject.toml
lists under it. `tests/test_architecture.py` and `tools/house.py` share this file.
"""

import ast
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = "grue"
FOLDERS = (PACKAGE, "tasks", "submissions", "leaderboard")

Sources = Mapping[str, str]
"""Path relative to the checkout → text: Python files and pyproject.toml."""

Graph = Mapping[str, set[str]]
"""Module → the modules that it imports."""

Statement = tuple[str, str | None]
"""`import a.b` as ("a.b", None), `from a.b import c` as ("a.b", "c"); each dot of a relative import is kept."""


@dataclass(frozen=True)
class Facts:
    """What the text of one module says.

    Attributes:
        at_import: Import statements that run when the module is imported.
        later: Those in functions and under TYPE_CHECKING.
        named: Patterns of the strings that may name modules of the package.
        groups: Entry-point groups that the module's registries search.
        scans: Whether the module lists the modules of packages.
        scans_own: Whether it may list those of its own package.
        computed: Whether it calls `import_module` with a name that cannot be read off the source.
        classes: Name and bases of every class.
    """

    at_import: tuple[Statement, ...]
    later: tuple[Statement, ...]
    named: tuple[str, ...]
    groups: tuple[str, ...]
    scans: bool
    scans_own: bool
    computed: bool
    classes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Imports:
    """Module → what it imports from the package, by the way in which it does; a module does not import itself."""

    at_import: dict[str, set[str]]
    later: dict[str, set[str]]
    named: dict[str, set[str]]

    def statements(self) -> dict[str, set[str]]:
        """Return the imports that statements show."""
        return {module: self.at_import[module] | self.later[module] for module in self.at_import}

    def everything(self) -> dict[str, set[str]]:
        """Return all imports, hidden ones included."""
        return {module: found | self.named[module] for module, found in self.statements().items()}


def read_sources(root: Path) -> dict[str, str]:
    """Return the sources of a checkout."""
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    found = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return found | {"pyproject.toml": (root / "pyproject.toml").read_text(encoding="utf-8")}


def modules(sources: Sources) -> dict[str, str]:
    """Return name → path of the package's modules; a package goes by its `__init__.py`."""
    paths = [path for path in sources if path.startswith(f"{PACKAGE}/") and path.endswith(".py")]
    return {path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in paths}


def read_imports(sources: Sources) -> Imports:
    """Return who imports whom within the package."""
    own = modules(sources)
    packages = {name for name, path in own.items() if path.endswith("/__init__.py")}
    groups = entry_points(sources)
    at_import, later, named = {}, {}, {}
    for module, path in own.items():
        facts = read(sources[path])
        base = module if module in packages else module.rpartition(".")[0]
        now, then = (targets(statements, base, own) for statements in (facts.at_import, facts.later))
        strings = {name for name in own if any(re.fullmatch(pattern, name) for pattern in facts.named)}
        scanned = strings | ((now | then | ({base} if facts.scans_own else set())) if facts.scans else set())
        inside = {name for package in scanned & packages for name in own if name.startswith(f"{package}.")}
        plugged = {name for group in facts.groups for name in groups.get(group, ()) if name in own}
        at_import[module] = now - {module}
        later[module] = then - now - {module}
        named[module] = (strings | inside | plugged) - now - then - {module}
    return Imports(at_import, later, named)


def libraries(statements: Iterable[Statement]) -> set[str]:
    """Return the top-level names of what import statements name."""
    return {name.split(".")[0] for name, _ in statements}


def entry_points(sources: Sources) -> dict[str, list[str]]:
    """Return group → modules of the entry points that pyproject.toml declares, scripts included."""
    project = tomllib.loads(sources["pyproject.toml"])["project"]
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    return {group: [value.split(":")[0] for value in entries.values()] for group, entries in groups.items()}


def targets(statements: Iterable[Statement], base: str, own: Collection[str]) -> set[str]:
    """Return the modules of the package that import statements import, in a module of the package `base`."""
    return {name for name in (target(statement, base, own) for statement in statements) if name in own and name}


def target(statement: Statement, base: str, own: Collection[str]) -> str | None:
    """Return the module that an import statement imports; `from grue import files` imports `grue.files`.

    None for `import grue` and `from grue import __version__`: the package's own `__init__.py` is loaded in any case,
    and only its other names lead further.
    """
    module, name = statement
    dots = len(module) - len(module.lstrip("."))
    if dots:
        parents = base.split(".")
        module = ".".join([*parents[: len(parents) - dots + 1], *filter(None, [module[dots:]])])
    if name is not None and f"{module}.{name}" in own:
        return f"{module}.{name}"
    return None if module == PACKAGE and (name is None or name.startswith("__")) else module


@cache
def read(text: str) -> Facts:
    """Return what the text of a module says."""
    tree = ast.parse(text)
    nodes, now = list(ast.walk(tree)), set(_at_import(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    loads = [call for call in calls if _called(call) in ("import_module", "__import__")]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return Facts(
        at_import=tuple(statement for node in nodes if node in now for statement in _statements(node)),
        later=(
            *(statement for node in nodes if node not in now for statement in _statements(node)),
            *((PACKAGE, node.attr) for node in attributes if ast.unparse(node.value) == PACKAGE),
        ),
        named=tuple(_strings(tree)),
        groups=tuple(
            str(ast.literal_eval(keyword.value))
            for call in calls
            for keyword in call.keywords
            if keyword.arg == "entry_points" and isinstance(keyword.value, ast.Constant)
        ),
        scans=any(_called(call) in ("iter_modules", "walk_packages") for call in calls),
        scans_own=bool(names & {"__file__", "__path__", "__package__", "__name__"}),
        computed=any(not _literal(call) for call in loads),
        classes=tuple(
            (node.name, tuple(map(ast.unparse, node.bases))) for node in nodes if isinstance(node, ast.ClassDef)
        ),
    )


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        if not (is_typing or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            yield from (child, *_at_import(child))


def _statements(node: ast.AST) -> Iterator[Statement]:
    """Yield what an import statement, or `import_module` with a literal, imports."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)
    elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
        first = node.args[0]
        # Modules of the package that are imported so are hidden imports: `Facts.named` has them.
        if isinstance(first, ast.Constant) and not str(first.value).startswith((f"{PACKAGE}.", ".")):
            yield str(first.value), None


def _called(call: ast.Call) -> str:
    """Return the last part of a called name: "import_module" of `importlib.import_module(…)`."""
    return ast.unparse(call.func).rpartition(".")[2]


def _literal(call: ast.Call) -> bool:
    """Whether the first argument of a call is an absolute name, or an f-string that begins with a package's."""
    first = call.args[0] if call.args else None
    begins = first.values[0] if isinstance(first, ast.JoinedStr) and first.values else first
    if not isinstance(begins, ast.Constant) or str(begins.value).startswith("."):
        return False
    return first is begins or "." in str(begins.value)


def _strings(node: ast.AST) -> Iterator[str]:
    """Yield a pattern for every string that may name modules of the package: "grue.api", "grue.api:train", f"grue.{x}".

    The names of entry-point groups, and of packages whose data files are read, look the same and are left out.
    """
    if isinstance(node, ast.JoinedStr):
        parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"[\w.]+" for part in node.values]
        if parts and parts[0].startswith(re.escape(f"{PACKAGE}.")):
            yield "".join(parts).partition(":")[0]
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
            yield re.escape(node.value.partition(":")[0].rstrip("."))
    elif not (
        (isinstance(node, ast.Call) and _called(node) in ("files", "entry_points"))
        or (isinstance(node, ast.keyword) and node.arg == "entry_points")
    ):
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def reachable(graph: Graph, start: str) -> set[str]:
    """Return the modules that importing `start` imports, directly or not; `start` only if a circle leads back to it."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return a shortest circle, "a → b → a", of each set of modules that all reach one another."""
    reached = {module: reachable(graph, module) for module in graph}
    found, seen = [], set()
    for module in sorted(graph):
        if module in reached[module] and module not in seen:
            knot = {other for other in reached[module] if module in reached[other]}
            seen |= knot
            found.append(min((_shortest(graph, start) for start in sorted(knot)), key=len))
    return found


def _shortest(graph: Graph, start: str) -> list[str]:
    """Return a shortest way from a module back to itself; there must be one."""
    before = {start: ""}
    waiting = [start]
    for module in waiting:
        for other in sorted(graph[module]):
            if other == start:
                way = [start]
                while module:
                    way.append(module)
                    module = before[module]
                return way[::-1]
            if other not in before:
                before[other] = module
                waiting.append(other)
    raise ValueError(f"No way leads from {start} back to it.")
