"""The rules of the house, read off its source: import order, no circles, fences, no inheritance, no name twice."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from imports import Facts, Sources, circles, entry_points, libraries, modules, read, read_imports, read_sources
from support.paths import ROOT

ORDER = """
    errors registry bounds shapes records files provenance processes tasks task_packages task_files task_versions mini data lm metrics lookups stats evaluation rl
    algorithms runs preferences submissions leaderboard study render sweep plots exchange doctor interop api rewards cli __main__
""".split()
LEARNING = r"(lm|rl|algorithms(?!/cards/)|runs|preferences|evaluation|metrics/neural)/.*"
AT_IMPORT = {
    "torch": LEARNING,
    "transformers": LEARNING,
    "evaluate": "(?!)",
    "ray": "(?!)",
    "matplotlib": "(?!)",
    "scipy": "(?!)",
}
ANYWHERE = {
    **{"click": "cli/.*", "rich": "cli/.*", "pandas": "leaderboard/.*|render/.*", "jinja2": "render/.*"},
    **{"datasets": "data/.*", "pyarrow": "data/.*", "huggingface_hub": r"data/hub/.*|lm/(load|folder)\.py"},
    "miniworld": "(?!)",
    "scipy": "study/.*",
}
BASES = re.compile(
    r"Exception|\w*Error|nn\.Module|torch\.autograd\.Function|click\.(Group|Command)|io\.RawIOBase|Sequence\[Example\]|Protocol(\[.*\])?|Generic\[.*\]|vf\.Task(set)?\[.*\]"
)
SETTINGS = re.compile(r"(rl/settings|algorithms/(cards/)?\w+)\.py")
"""Where a settings class may extend another."""
COMPUTED = re.compile(r"registry\.py|metrics/own\.py|cli/.*")
"""What may import a module whose name cannot be read off the source: registries, a user's function, the last room."""


def violations(sources: Sources) -> list[str]:
    """Return every breach of the rules."""
    data = [path for path in sources if path.startswith(("tasks/", "submissions/", "leaderboard/"))]
    found = [f"{path}: code in a data folder" for path in sorted(data)]
    own = modules(sources)
    facts = {module: read(sources[path]) for module, path in own.items()}
    imports = read_imports(sources)
    statements, everything = imports.statements(), imports.everything()
    for module, path in own.items():
        name = path.removeprefix("grue/")
        later = sorted(other for other in everything[module] if row(other) > row(module))
        found += [f"{name}: imports {other}, which comes later" for other in later]
        found += [f"{name}: {fault}" for fault in faults(name, facts[module])]
        if name.endswith("__init__.py"):
            found += [f"{name}: re-exports {other}" for other in sorted(statements[module] - {"grue.registry"})]
    found += [f"a circle of imports: {' → '.join(circle)}" for circle in circles(everything)]
    found += [
        f"pyproject.toml: the entry point {module} is no module"
        for named in entry_points(sources).values()
        for module in named
        if module not in own
    ]
    return found + defined_twice(facts)


def row(module: str) -> int:
    """Return a module's place in the order; one that has none comes last, so that nothing may import it.

    The package itself comes last too: it hands out the names of `grue.api.*`.
    """
    first = module.partition(".")[2].partition(".")[0]
    return ORDER.index(first) if first in ORDER else len(ORDER)


def faults(name: str, facts: Facts) -> list[str]:
    """Return the breaches that one module shows by itself."""
    found = [
        f"inherits from {base}"
        for class_name, bases in facts.classes
        for base in bases
        if not BASES.fullmatch(base) and not is_settings(class_name, base, name)
    ]
    at_import = libraries(facts.at_import)
    strays = fenced(at_import | libraries(facts.later), ANYWHERE, name) + fenced(at_import, AT_IMPORT, name)
    found += [f"imports {library} outside its fence" for library in strays]
    if facts.computed and not facts.scans and not COMPUTED.fullmatch(name):
        found.append("imports a module whose name cannot be read off the source")
    return found


def is_settings(class_name: str, base: str, name: str) -> bool:
    """Whether a class extends another one of settings, where those are."""
    wanted = r"(\w+\.)?(\w*(Config|Settings)|Common)"
    return bool(SETTINGS.fullmatch(name) and re.fullmatch(wanted, class_name) and re.fullmatch(wanted, base))


def fenced(imported: Iterable[str], fences: Mapping[str, str], name: str) -> list[str]:
    return [library for library in sorted(set(imported) & set(fences)) if not re.fullmatch(fences[library], name)]


def defined_twice(facts: Mapping[str, Facts]) -> list[str]:
    """Return the names that several classes have; configurations may share theirs."""
    places = Counter((name, module) for module, found in facts.items() for name, _ in found.classes)
    names = Counter(name for name, _ in places.elements())
    return [
        f"the class {name} is defined twice: {', '.join(sorted(m for n, m in places.elements() if n == name))}"
        for name in sorted(names)
        if names[name] > 1 and not name.endswith("Config")
    ]


HOUSE = read_sources(ROOT)


def test_the_house_keeps_its_rules() -> None:
    assert violations(HOUSE) == []


def test_every_module_has_a_place_in_the_order() -> None:
    rooms = {name.split(".")[1] for name in modules(HOUSE) if name != "grue"}
    assert rooms <= set(ORDER)


ZERO, ONE, TWO = "grue/stats/zero.py", "grue/stats/one.py", "grue/stats/two.py"
CIRCLE = "a circle of imports: grue.stats.one → grue.stats.zero → grue.stats.one"
NAMED = "from importlib import import_module\ndef f():\n    return import_module"
PLUGIN = {"pyproject.toml": '[project.entry-points."grue.ones"]\none = "grue.stats.one:One"'}


@pytest.mark.parametrize(
    ("added", "breach"),
    [
        # The order.
        ({ZERO: "from grue.leaderboard.rank import rank"}, "stats/zero.py: imports grue.leaderboard.rank, which comes"),
        ({ZERO: "from ..leaderboard.rank import rank"}, "stats/zero.py: imports grue.leaderboard.rank, which comes"),
        ({ZERO: "def f():\n    from grue import runs"}, "stats/zero.py: imports grue.runs, which comes later"),
        ({ZERO: "if TYPE_CHECKING:\n    import grue.runs"}, "stats/zero.py: imports grue.runs, which comes later"),
        ({ZERO: f"{NAMED}('grue.runs.train')"}, "stats/zero.py: imports grue.runs.train, which comes later"),
        ({ZERO: "from grue import train"}, "stats/zero.py: imports grue, which comes later"),
        ({ZERO: "import grue\ngrue.train()"}, "stats/zero.py: imports grue, which comes later"),
        (
            {ZERO: "import grue.nowhere", "grue/nowhere.py": ""},
            "stats/zero.py: imports grue.nowhere, which comes later",
        ),
        # Circles, hidden ones included.
        ({ZERO: "from grue.stats import one", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "from . import one", ONE: "def f():\n    from .zero import g"}, CIRCLE),
        ({ZERO: f"{NAMED}('grue.stats.one')", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: f"{NAMED}(f'grue.stats.o{{x}}')", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "R = Registry('x', modules={'y': 'grue.stats.one'})", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "R = Registry('x', {n: f'grue.stats.{n}' for n in N})", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "R = Registry('x', {n: f'grue.stats.{n}:N' for n in N})", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "R = Registry('x', package='grue.stats')", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "from grue import stats\niter_modules(stats.__path__)", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "pkgutil.iter_modules([dirname(__file__)])", ONE: "import grue.stats.zero"}, CIRCLE),
        ({ZERO: "R = Registry('x', entry_points='grue.ones')", ONE: "import grue.stats.zero", **PLUGIN}, CIRCLE),
        (
            {ZERO: "import grue.stats.one", ONE: "import grue.stats.two", TWO: f"{NAMED}('grue.stats.zero')"},
            "a circle of imports: grue.stats.one → grue.stats.two → grue.stats.zero → grue.stats.one",
        ),
        ({ZERO: f"{NAMED}(name)"}, "stats/zero.py: imports a module whose name cannot be read off the source"),
        ({ZERO: f"{NAMED}('.one', 'grue.stats')"}, "stats/zero.py: imports a module whose name cannot be read off"),
        (
            {"pyproject.toml": "[project.entry-points.x]\ny = 'grue.nowhere:f'"},
            "pyproject.toml: the entry point grue.nowhere ",
        ),
        # Fences.
        ({"grue/tasks.py": "try:\n    import torch\nexcept ImportError:\n    pass"}, "tasks.py: imports torch outside"),
        ({"grue/files.py": f"{NAMED}('torch')\nimport_module('torch')"}, "files.py: imports torch outside its fence"),
        (
            {"grue/algorithms/cards/zero.py": "import torch"},
            "algorithms/cards/zero.py: imports torch outside its fence",
        ),
        ({ZERO: "from transformers import AutoModel"}, "stats/zero.py: imports transformers outside its fence"),
        ({"grue/metrics/zero.py": "import evaluate"}, "metrics/zero.py: imports evaluate outside its fence"),
        ({"grue/sweep/zero.py": "import ray"}, "sweep/zero.py: imports ray outside its fence"),
        ({"grue/plots/zero.py": "import matplotlib.pyplot"}, "plots/zero.py: imports matplotlib outside its fence"),
        ({"grue/runs/zero.py": "import rich.table"}, "runs/zero.py: imports rich outside its fence"),
        ({"grue/api/score.py": "def f():\n    import click"}, "api/score.py: imports click outside its fence"),
        ({ZERO: "def f():\n    import pandas as pd"}, "stats/zero.py: imports pandas outside its fence"),
        ({"grue/leaderboard/zero.py": "import jinja2"}, "leaderboard/zero.py: imports jinja2 outside its fence"),
        ({"grue/lm/zero.py": "import datasets"}, "lm/zero.py: imports datasets outside its fence"),
        ({"grue/mini/zero.py": "import pyarrow.parquet"}, "mini/zero.py: imports pyarrow outside its fence"),
        ({"grue/data/zero.py": "import huggingface_hub"}, "data/zero.py: imports huggingface_hub outside its fence"),
        ({"grue/mini/zero.py": "def f():\n    import miniworld.news"}, "mini/zero.py: imports miniworld outside its"),
        ({ZERO: "def f():\n    import scipy.stats"}, "stats/zero.py: imports scipy outside its fence"),
        ({"grue/study/zero.py": "import scipy.stats"}, "study/zero.py: imports scipy outside its fence"),
        ({"grue/mini/zero.py": f"{NAMED}('miniworld')"}, "mini/zero.py: imports miniworld outside its fence"),
        # The rest.
        (
            {"grue/render/__init__.py": "from grue.render.text import x"},
            "render/__init__.py: re-exports grue.render.text",
        ),
        ({ZERO: "class Zero(dict):\n    pass"}, "stats/zero.py: inherits from dict"),
        ({"grue/runs/zero.py": "class ZeroConfig(Common):\n    pass"}, "runs/zero.py: inherits from Common"),
        (
            {"grue/algorithms/zero.py": "class Zero(PPOConfig):\n    pass"},
            "algorithms/zero.py: inherits from PPOConfig",
        ),
        ({"submissions/mini/ours/zero.py": ""}, "submissions/mini/ours/zero.py: code in a data folder"),
        ({"tasks/zero.py": ""}, "tasks/zero.py: code in a data folder"),
        (
            {ZERO: "class Zero:\n    pass", ONE: "class Zero:\n    pass"},
            "the class Zero is defined twice: grue.stats.one, ",
        ),
        # What is allowed.
        ({"grue/evaluation/zero.py": "import torch", ZERO: "def f():\n    import torch, ray"}, None),
        ({ZERO: "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"}, None),
        ({ZERO: "import grue\nfrom grue import __version__\nprint(grue.__version__)"}, None),
        ({ZERO: "resources.files('grue.runs')\nR = Registry('x', entry_points='grue.runs')"}, None),
        ({ZERO: f"{NAMED}('wandb')", ONE: "class X(Protocol[T]):\n    pass"}, None),
        (
            {
                "grue/algorithms/zero.py": "class ZeroConfig(Common):\n    pass\nclass LaterConfig(ZeroConfig):\n    pass"
            },
            None,
        ),
        ({ZERO: "class ZeroConfig:\n    pass", ONE: "class ZeroConfig:\n    pass"}, None),
    ],
)
def test_a_breach_is_seen(added: dict[str, str], breach: str | None) -> None:
    before = violations(HOUSE)
    changed = {path: f"{HOUSE.get(path, '')}\n{text}\n" for path, text in added.items()}
    new = [line for line in violations({**HOUSE, **changed}) if line not in before]
    assert new[0].startswith(breach) if breach else new == []


def test_what_checks_and_shows_submissions_loads_no_gpu_stack() -> None:
    code = """
import importlib, sys
for module in ("grue.cli.main", "grue.submissions.checks.check", "grue.leaderboard.rank", "grue.render.markdown"):
    importlib.import_module(module)
    assert not {"torch", "transformers", "datasets", "evaluate"} & set(sys.modules), module
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_names_are_checked_and_shown_without_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from grue.cli.main import main
sweep = "sweep --dry-run --tasks imdb --algos zero-shot,supervised+nlpo --seeds 1-2 --runs {tmp_path}"
for status, line in [
    (2, "train --task imbd --algo ppo"),
    (2, "train --task imdb --algo pppo"),
    (2, "train --task imdb --algo ppo --set klip=1"),
    (2, "evaluate"),
    (2, "evaluate --task imbd --baseline null"),
    (2, "diagnose --task imbd --algo ppo"),
    (0, "algorithms list"),
    (0, "algorithms show nlpo"),
    (0, sweep),
]:
    try:
        main(line.split(), "grue")
    except SystemExit as end:
        assert end.code == status, line
    assert not {{"torch", "transformers"}} & set(sys.modules), line
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
