"""The layers of the house, read off the source: import order, no cycle, heavy libraries fenced in, no inheritance."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from support.paths import ROOT

ORDER = (
    *(
        "errors",
        "registry",
        "records",
        "shapes",
        "files",
        "provenance",
        "tasks",
        "mini",
        "data",
        "models",
        "metrics",
        "scoring",
    ),
    *(
        "stats",
        "comparison",
        "submissions",
        "leaderboard",
        "systems",
        "render",
        "training",
        "sweep",
        "plots",
        "doctor",
        "api",
        "cli",
    ),
    "__main__",
)
MODELS = r"training/.*|models\.py|metrics/neural/.*"
AT_IMPORT = {"torch": MODELS, "transformers": MODELS, "evaluate": "(?!)", "ray": "(?!)", "matplotlib": "(?!)"}
ANYWHERE = {
    **{"click": "cli/.*", "rich": "cli/.*", "pandas": "leaderboard/.*|render/.*", "datasets": r"data/.*"},
    **{"huggingface_hub": r"data/hub\.py|models\.py", "pyarrow": r"data/.*", "jinja2": "render/.*"},
}
BASES = re.compile(
    r"Exception|\w*Error|nn\.Module|torch\.autograd\.Function|click\.Group|io\.RawIOBase|Sequence\[Example\]|Protocol(\[.*\])?|Generic\[.*\]|evaluate\.Metric"
)


@cache
def statements(source: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the imports and classes of a module: all of them, and those that run when it is imported."""

    def at_import(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            is_typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if not (is_typing or isinstance(child, ast.FunctionDef | ast.Lambda)):
                yield from (child, *at_import(child))

    tree, kinds = ast.parse(source), (ast.Import, ast.ImportFrom, ast.ClassDef)
    return [n for n in ast.walk(tree) if isinstance(n, kinds)], [n for n in at_import(tree) if isinstance(n, kinds)]


def imported(nodes: Iterable[ast.stmt], own: Collection[str]) -> set[str]:
    """Return the modules that are imported, by name; `from grue import files` is an import of `grue.files`."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {path if path in own else str(node.module) for path in paths}
    return found


def violations(root: Path) -> list[str]:
    """Return every breach of the rules in the package `root/grue` and in the data folders beside it."""
    data = [path for folder in ("tasks", "submissions", "leaderboard") for path in (root / folder).rglob("*.py")]
    found = [f"{path.relative_to(root)}: code in a data folder" for path in sorted(data)]
    paths = {path.relative_to(root): path for path in sorted((root / "grue").rglob("*.py"))}
    names = {
        ".".join(p.with_suffix("").parts).removesuffix(".__init__"): p.relative_to("grue").as_posix() for p in paths
    }
    graph: dict[str, set[str]] = {}
    for module, name in names.items():
        nodes, at_import = statements((root / "grue" / name).read_text(encoding="utf-8"))
        everything = imported(nodes, names)
        graph[module] = (everything & set(names)) - {"grue", module}
        later = sorted(other for other in graph[module] if row(other) > row(module))
        found += [f"{name}: imports {other}, which comes later" for other in later]
        found += [f"{name}: inherits from {base}" for base in bases(nodes) if not may_inherit(base, name)]
        if name.endswith("__init__.py"):
            found += [f"{name}: re-exports {other}" for other in sorted(graph[module] - {"grue.registry"})]
        strays = fenced(everything, ANYWHERE, name) + fenced(imported(at_import, names), AT_IMPORT, name)
        found += [f"{name}: imports {library} outside its fence" for library in strays]
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        found.append(f"a cycle of imports: {', '.join(sorted(set(error.args[1])))}")
    return found


def row(module: str) -> int:
    """Return a module's place in the order; one that has none comes last, so that nothing may import it."""
    first = module.split(".")[1] if "." in module else "errors"
    return ORDER.index(first) if first in ORDER else len(ORDER)


def bases(nodes: Iterable[ast.stmt]) -> list[str]:
    return [ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases]


def may_inherit(base: str, name: str) -> bool:
    return bool(BASES.fullmatch(base)) or name in ("training/config.py", "training/recipes.py")


def fenced(imports: Iterable[str], fences: Mapping[str, str], name: str) -> list[str]:
    libraries = sorted({module.split(".")[0] for module in imports} & set(fences))
    return [library for library in libraries if not re.fullmatch(fences[library], name)]


def test_the_house_keeps_its_rules() -> None:
    assert violations(ROOT) == []


def test_every_module_has_a_place_in_the_order() -> None:
    modules = {
        path.stem for path in (ROOT / "grue").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules - {"__init__"} <= set(ORDER)


@pytest.mark.parametrize(
    ("name", "code", "breach"),
    [
        (
            "grue/stats/intervals.py",
            "from grue.leaderboard.rank import rank",
            "stats/intervals.py: imports grue.leaderboard.rank, which comes later",
        ),
        ("grue/files.py", "def f():\n    from grue import tasks", "files.py: imports grue.tasks, which comes later"),
        ("grue/metrics/metric.py", "import grue.metrics.lexical", "a cycle of imports: grue.metrics.metric, "),
        (
            "grue/evaluation/scoring.py",
            "try:\n    import torch\nexcept ImportError:\n    pass",
            "scoring.py: imports torch outside its fence",
        ),
        ("grue/tasks.py", "from transformers import AutoModel", "tasks.py: imports transformers outside its fence"),
        (
            "grue/stats/intervals.py",
            "def f():\n    import pandas as pd",
            "stats/intervals.py: imports pandas outside its fence",
        ),
        ("grue/runs/train.py", "import rich.table", "training/run.py: imports rich outside its fence"),
        ("grue/metrics/evaluate_library.py", "import evaluate", "metrics/hub.py: imports evaluate outside its fence"),
        (
            "grue/render/__init__.py",
            "from grue.render.tables import page",
            "render/__init__.py: re-exports grue.render.tables",
        ),
        ("grue/stats/intervals.py", "class Row(dict):\n    pass", "stats/intervals.py: inherits from dict"),
        ("submissions/mini/ours/run.py", "", "submissions/mini/ours/run.py: code in a data folder"),
        ("grue/evaluation/scoring.py", "def f():\n    import torch", None),
        ("grue/stats/intervals.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", None),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, name: str, code: str, breach: str | None) -> None:
    for path in (ROOT / "grue").rglob("*.py"):
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.relative_to(ROOT)).write_bytes(path.read_bytes())
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    with (tmp_path / name).open("a", encoding="utf-8") as handle:
        handle.write(f"\n{code}\n")
    before = violations(ROOT)
    found = [line for line in violations(tmp_path) if line not in before]
    assert found[0].startswith(breach) if breach else found == []


def test_what_checks_and_shows_submissions_loads_no_gpu_stack() -> None:
    code = """
import importlib, sys
for module in ("grue.cli.main", "grue.submissions.checks", "grue.leaderboard.rank", "grue.render.markdown"):
    importlib.import_module(module)
    assert not {"torch", "transformers", "datasets", "evaluate"} & set(sys.modules), module
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
