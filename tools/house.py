"""Measure how a checkout is built: `python tools/house.py [CHECKOUT] [--algorithm grue.algorithms.ppo] [--markdown]`.

What must be read to understand an algorithm, what importing it loads, circles of imports, class names defined twice,
and lines by room. Imports are read off the source (`imports.py`), so that any checkout can be measured, an old one too.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from imports import PACKAGE, Imports, Sources, circles, modules, reachable, read, read_imports, read_sources

READ = ("algorithms", "rl")
"""The rooms whose modules a reader of an algorithm follows; the others are interfaces that it uses."""

Section = tuple[str, list[tuple[str, str]]]
"""A title, and rows of a name and a figure."""


def room(module: str) -> str:
    """Return the room of a module: "lm" of `grue.lm.load`."""
    return module.split(".")[1] if "." in module else "grue"


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", default=Path(__file__).parent.parent)
    parser.add_argument("--algorithm", default="grue.algorithms.ppo", help="the module that is read and imported")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    sources = read_sources(options.checkout)
    if options.algorithm not in modules(sources):
        sys.exit(f"{options.checkout} has no module {options.algorithm}; name its module of PPO with --algorithm.")
    imports = read_imports(sources)
    sections = [
        to_read(sources, imports, options.algorithm),
        imported(sources, imports, options.algorithm),
        all_circles(imports),
        defined_twice(sources),
        lines_by_room(sources),
    ]
    write = markdown if options.markdown else plain
    print("\n\n".join(map(write, sections)))


def to_read(sources: Sources, imports: Imports, start: str) -> Section:
    """Return the modules that explain an algorithm: its own, and those of READ that they lead to."""
    graph = imports.everything()
    inside = {name: {other for other in found if room(other) in READ} for name, found in graph.items()}
    packages = {name for name, path in modules(sources).items() if path.endswith("/__init__.py")}
    read_ = {start} | reachable(inside, start) - packages
    used = {other for name in read_ for other in graph[name]} - read_
    rooms = Counter(room(other) for other in used if room(other) not in READ)
    return (
        f"To read for {start}",
        [
            ("files", str(len(read_))),
            ("lines", f"{lines(sources, read_):,}"),
            *((name, f"{lines(sources, [name]):,}") for name in (start, *sorted(read_ - {start}))),
            ("modules of other rooms that they use", ", ".join(f"{name} {n}" for name, n in sorted(rooms.items()))),
        ],
    )


def imported(sources: Sources, imports: Imports, start: str) -> Section:
    """Return how many modules importing an algorithm loads, at once, when its functions run, and by name."""
    ways = {
        "at once": imports.at_import,
        "with those imported in functions": imports.statements(),
        "with those imported by name": imports.everything(),
    }
    rows = []
    for way, graph in ways.items():
        found = reachable(with_parents(graph), start) | {start}
        rooms = Counter(map(room, found))
        rows.append((f"modules {way}", str(len(found))))
        rows.append((f"lines {way}", f"{lines(sources, found):,}"))
        rows.append((f"rooms {way}", ", ".join(f"{name} {n}" for name, n in sorted(rooms.items()))))
    return f"Imported by {start}", rows


def with_parents(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph with the packages of each module, whose `__init__.py` is loaded before it.

    That of `grue` itself leads no further: it loads the API only when one of the API's names is used.
    """
    return {name: found | {name.rpartition(".")[0]} - {""} for name, found in graph.items()} | {PACKAGE: set()}


def all_circles(imports: Imports) -> Section:
    """Return a shortest circle of each group of modules that reach one another."""
    shown, everything = circles(imports.statements()), circles(imports.everything())
    rows = [
        ("circles by import statements", str(len(shown))),
        ("circles, hidden ones included", str(len(everything))),
    ]
    return "Circles of imports", rows + [(circle[0], " → ".join(circle[1:])) for circle in everything]


def defined_twice(sources: Sources) -> Section:
    """Return the class names that are defined more than once, `…Config` included."""
    places: dict[str, list[str]] = {}
    for module, path in modules(sources).items():
        for name, _ in read(sources[path]).classes:
            places.setdefault(name, []).append(module)
    twice = {name: found for name, found in sorted(places.items()) if len(found) > 1}
    return "Class names defined twice or more", [("names", str(len(twice)))] + [
        (name, ", ".join(found)) for name, found in twice.items()
    ]


def lines_by_room(sources: Sources) -> Section:
    """Return the lines of the package, and of each room, longest first."""
    rooms: Counter[str] = Counter()
    code = 0
    for module, path in modules(sources).items():
        rooms[room(module)] += lines(sources, [module])
        code += code_lines(sources[path])
    rows = [("all", f"{rooms.total():,}"), ("without docstrings, comments and blank lines", f"{code:,}")]
    return "Lines in the package", rows + [(name, f"{n:,}") for name, n in rooms.most_common()]


def lines(sources: Sources, names: Iterable[str]) -> int:
    """Return the lines of some modules."""
    own = modules(sources)
    return sum(len(sources[own[name]].splitlines()) for name in names)


def code_lines(text: str) -> int:
    """Return the lines on which code stands."""
    tree = ast.parse(text)
    strings = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    docs = {line for node in strings for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    kept = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in docs)
    return sum(bool(line) and not line.startswith("#") for line in kept)


def plain(section: Section) -> str:
    """Return a section as text."""
    title, rows = section
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name.ljust(width)}  {figure}" for name, figure in rows)])


def markdown(section: Section) -> str:
    """Return a section as a Markdown table."""
    title, rows = section
    return "\n".join([f"| {title} | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)])


if __name__ == "__main__":
    main()
