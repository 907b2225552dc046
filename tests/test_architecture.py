"""The rules of the house, read off its source: import order, no circles, fences, no inheritance, no name twice."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from imports import Facts, Sources, circles, entry_points, libraries, modules, read, read_imports, read_sources
from support.paths import ROOT

ORDER = """
    errors registry bounds shapes records files claims provenance processes tasks task_packages task_files task_versions mini data lm metrics lookups stats evaluation rl
    algorithms runs preferences submissions leaderboard study render sweep plots exchange doctor interop api rewards callbacks conform card cli __main__
""".split()
LEARNING = r"(lm|rl|algorithms(?!/cards/)|runs|preferences|evaluation|metrics/neural)/.*"
AT_IMPORT = {
    "torch": LEARNING,
    "transformers": LEARNING,
    "evaluate": "(?!)",
    "ray": "(?!)",
    "matplotlib": "(?!)",
    "scipy": "(?!)",
    "pydantic": "(?!)",
    "pydantic_core": "(?!)",
}
ANYWHERE = {
    **{"click": "cli/.*", "rich": "cli/.*", "pandas": "leaderboard/.*|render/.*", "jinja2": "render/.*"},
    **{
        "datasets": r"data/.*|conform\.py",
        "pyarrow": "data/.*",
        "huggingface_hub": r"data/(hub/.*|download\.py)|lm/(load|folder)\.py",
    },
    "miniworld": r"submissions/trust/verify\.py",
    "scipy": "(stats|study)/.*",
    **{"pydantic": r"shapes\.py", "pydantic_core": r"shapes\.py"},
}
BASES = re.compile(
    r"Exception|\w*Error|nn\.Module|torch\.autograd\.Function|click\.(Group|Command)|TrainerCallback|Sequence\[Example\]|Protocol(\[.*\])?|Generic\[.*\]|vf\.(Task(set)?\[.*\]|TaskData|TasksetConfig)|openenv\.(Action|Observation|Environment)"
)
SETTINGS = re.compile(r"(rl/(scored_)?settings|algorithms/(cards/)?\w+)\.py")
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
    assert {name.split(".")[1] for name in modules(HOUSE) if name != "grue"} <= set(ORDER)


def test_scripts_import_what_is_there() -> None:
    own = modules(HOUSE)
    missing = []
    for path in sorted(
        path for folder in ("benchmarks", "experiments", "tools") for path in (ROOT / folder).glob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("grue."):
                known = names_of(HOUSE[own[module]]) if module in own else set()
                names = [alias.name for alias in node.names if f"{module}.{alias.name}" not in own]
                missing += [f"{path.name}: {module}.{name}" for name in names if name not in known]
    assert missing == []


def names_of(source: str) -> set[str]:
    """Return the names that a module binds, wherever it does."""
    nodes = list(ast.walk(ast.parse(source)))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return bound | defined | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


def test_a_data_set_imports_no_registry() -> None:
    imports = read_imports(HOUSE).at_import
    pending, found = [name for name in imports if name.startswith("grue.data.sets.")], set()
    while pending:
        found |= (new := {*imports[pending.pop()]} - found)
        pending += new
    assert "grue.data.rows" in found and not found & {"grue.registry", "grue.data.formats"}


NAMED = "from importlib import import_module\ndef f():\n    return import_module"
PLUGIN = '[project.entry-points."grue.ones{n}"]\none = "grue.stats.one{n}:One"'
BREACHES = [
    # What comes later in the order.
    ("stats/zero", "from grue.leaderboard.rank import rank", "imports grue.leaderboard.rank, which comes later"),
    ("stats/zero", "from ..leaderboard.rank import rank", "imports grue.leaderboard.rank, which comes later"),
    ("stats/zero", "def f():\n    from grue import runs", "imports grue.runs, which comes later"),
    ("stats/zero", "if TYPE_CHECKING:\n    import grue.runs", "imports grue.runs, which comes later"),
    ("stats/zero", f"{NAMED}('grue.runs.train')", "imports grue.runs.train, which comes later"),
    ("stats/zero", "from grue import train", "imports grue, which comes later"),
    ("stats/zero", "import grue\ngrue.train()", "imports grue, which comes later"),
    ("stats/zero", "import grue.nowhere", "imports grue.nowhere, which comes later"),
    ("stats/zero", f"{NAMED}(name)", "imports a module whose name cannot be read off the source"),
    ("stats/zero", f"{NAMED}('.one', 'grue.stats')", "imports a module whose name cannot be read off the source"),
    # Fences.
    ("bounds/zero", "try:\n    import torch\nexcept ImportError:\n    pass", "imports torch outside its fence"),
    ("bounds/zero", f"{NAMED}('torch')\nimport_module('torch')", "imports torch outside its fence"),
    ("algorithms/cards/zero", "import torch", "imports torch outside its fence"),
    ("runs/zero", "import rich.table", "imports rich outside its fence"),
    ("stats/zero", "def f():\n    import pandas as pd", "imports pandas outside its fence"),
    ("mini/zero", "def f():\n    import miniworld.news", "imports miniworld outside its fence"),
    ("mini/zero", f"{NAMED}('miniworld')", "imports miniworld outside its fence"),
    ("study/zero", "import scipy.stats", "imports scipy outside its fence"),
    # The rest.
    ("stats/zero", "class Zero{n}(dict):\n    pass", "inherits from dict"),
    ("runs/zero", "class Zero{n}Config(Common):\n    pass", "inherits from Common"),
    ("algorithms/zero", "class Zero{n}(PPOConfig):\n    pass", "inherits from PPOConfig"),
    # What is allowed.
    ("evaluation/zero", "import torch", None),
    ("stats/zero", "def f():\n    import torch, ray", None),
    ("stats/zero", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", None),
    ("stats/zero", "import grue\nfrom grue import __version__\nprint(grue.__version__)", None),
    ("stats/zero", "resources.files('grue.runs')\nR = Registry('x', entry_points='grue.runs')", None),
    ("stats/zero", f"{NAMED}('wandb')", None),
    ("stats/zero", "class X{n}(Protocol[T]):\n    pass\nclass ZeroConfig:\n    pass", None),
    ("algorithms/zero", "class AConfig(Common):\n    pass\nclass BConfig(AConfig):\n    pass", None),
]
"""Where a module is added, what it says, and which breach that is."""
CIRCLES = [
    ("from grue.stats import one{n}", "import grue.stats.zero{n}"),
    ("from . import one{n}", "def f():\n    from .zero{n} import g"),
    (f"{NAMED}('grue.stats.one{{n}}')", "import grue.stats.zero{n}"),
    ("R = Registry('x', modules={'y': 'grue.stats.one{n}'})", "import grue.stats.zero{n}"),
    ("R = Registry('x', entry_points='grue.ones{n}')", "import grue.stats.zero{n}"),
]
SCANS = [  # of a whole package, or of the modules whose names begin alike
    f"{NAMED}(f'grue.stats.o{{x}}')",
    "R = Registry('x', {n: f'grue.stats.{n}' for n in N})",
    "R = Registry('x', {n: f'grue.stats.{n}:N' for n in N})",
    "R = Registry('x', package='grue.stats')",
    "from grue import stats\niter_modules(stats.__path__)",
    "pkgutil.iter_modules([dirname(__file__)])",
]


def breaches(added: Mapping[str, str]) -> list[str]:
    """Return the breaches of the house with further modules or lines."""
    changed = {path: f"{HOUSE.get(path, '')}\n{text}\n" for path, text in added.items()}
    return sorted(violations({**HOUSE, **changed}))


def test_every_breach_is_seen() -> None:
    added, expected = {"grue/nowhere.py": ""}, []
    for n, (place, text, breach) in enumerate(BREACHES):
        added[f"grue/{place}{n}.py"] = text.replace("{n}", str(n))
        expected += [f"{place}{n}.py: {breach}"] if breach else []
    for n, sides in enumerate(CIRCLES, start=len(BREACHES)):
        zero, one = (side.replace("{n}", str(n)) for side in sides)
        added |= {f"grue/stats/zero{n}.py": zero, f"grue/stats/one{n}.py": one}
        expected += [f"a circle of imports: grue.stats.one{n} → grue.stats.zero{n} → grue.stats.one{n}"]
    added["pyproject.toml"] = PLUGIN.replace("{n}", str(n)) + "\n[project.entry-points.x]\ny = 'grue.elsewhere:f'"
    added |= {
        "grue/stats/a.py": "import grue.stats.b\nclass Twice:\n    pass",
        "grue/stats/b.py": "import grue.stats.c",
        "grue/stats/c.py": f"{NAMED}('grue.stats.a')\nclass Twice:\n    pass",
        "grue/render/__init__.py": "from grue.render.text import x",
        "tasks/zero.py": "",
        "submissions/mini/ours/zero.py": "",
    }
    expected += [
        "a circle of imports: grue.stats.a → grue.stats.b → grue.stats.c → grue.stats.a",
        "pyproject.toml: the entry point grue.elsewhere is no module",
        "render/__init__.py: re-exports grue.render.text",
        "submissions/mini/ours/zero.py: code in a data folder",
        "tasks/zero.py: code in a data folder",
        "the class Twice is defined twice: grue.stats.a, grue.stats.c",
    ]
    assert breaches(added) == sorted(expected)


def test_circles_by_scans_are_seen() -> None:
    circle = "a circle of imports: grue.stats.one → grue.stats.zero → grue.stats.one"
    for scan in SCANS:
        assert breaches({"grue/stats/zero.py": scan, "grue/stats/one.py": "import grue.stats.zero"}) == [circle]
