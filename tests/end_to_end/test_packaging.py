"""What a user gets: the wheel, the source archive and the wheel made of it."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.slow

# What lies in a checkout and is not needed to build, run or test the package as it is installed.
LEFT_BEHIND = {".git", ".venv", ".demo", "build", "dist", "runs", "tests", "docs", "benchmarks", "experiments", "tools"}
BUILD_TOOL = "hatchling>=1.27"


@dataclass(frozen=True)
class Built:
    """The copy of the tree, and what was built of it."""

    tree: Path
    wheel: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=left_behind)
    tools = build_tool(folder)
    with tarfile.open(build("sdist", tree, folder / "sdist", tools)) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    wheels = (build("wheel", tree, folder / "wheel", tools), build("wheel", unpacked, folder / "wheel-of-sdist", tools))
    return Built(tree, *wheels)


def left_behind(folder, names):
    """Return what is not copied from a folder of the checkout."""
    return {
        n for n in names if n == "__pycache__" or n.endswith("_cache") or (Path(folder) == ROOT and n in LEFT_BEHIND)
    }


def build_tool(folder):
    """Return what PYTHONPATH needs for the build backend: nothing where it is installed, or a folder with it."""
    if find_spec("hatchling"):
        return ""
    pip("install", "--target", folder / "tools", BUILD_TOOL)
    return str(folder / "tools")


def build(kind, tree, output, tools):
    """Build as pip does: in the tree's folder, by the hook of the build backend."""
    output.mkdir()
    code = f"from hatchling import build; build.build_{kind}({str(output)!r})"
    run([sys.executable, "-c", code], tree, tools)
    (made,) = output.iterdir()
    return made


def pip(*arguments):
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)], ROOT)


def run(command, folder, path=""):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GRUE_")}
    environment |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected(tree):
    """Return name in the wheel → content: tasks, the boards' data, the package without other sizes' backbones."""
    patterns = ("grue/**/*", "tasks/*.json", "tasks/*/*.toml", "leaderboard/*.json")
    models = json.loads((tree / "grue/mini/manifest.json").read_text())["models"]
    absent = {tree / "grue/mini/models" / name for name, model in models.items() if not model["ships"]}
    paths = {path for pattern in patterns for path in tree.glob(pattern) if path.is_file()}
    paths = {path for path in paths if absent.isdisjoint(path.parents)}
    names = {path: str(path.relative_to(tree)) for path in paths}
    return {
        (f"grue/_{name}" if name.startswith(("tasks/", "leaderboard/")) else name): path.read_bytes()
        for path, name in names.items()
    }


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder with the wheel installed, outside of any checkout."""
    site = tmp_path_factory.mktemp("site")
    pip("install", "--no-deps", "--target", site, built.wheel)
    return site


HASHES = """
import json, grue
from grue.task_files import SUITES, load_task, task_names
found = {f"{suite}/{name}": load_task(name, suite).hash for suite in SUITES for name in task_names(suite)}
print(json.dumps([grue.__file__, found]))
"""


def hashes(path, folder):
    """Return task → hash as a process in another folder sees it, which imports grue from a path."""
    where, found = json.loads(run([sys.executable, "-c", HASHES], folder, str(path)))
    assert Path(where).is_relative_to(path)
    return found


@pytest.mark.parametrize("which", ["wheel", "wheel_of_sdist"])
def test_a_wheel_holds_all_that_the_package_needs_and_nothing_else(built, which):
    wanted = expected(built.tree)
    assert {f"grue/_tasks/{path.relative_to(ROOT / 'tasks')}" for path in ROOT.glob("tasks/*/*.toml")} <= wanted.keys()
    with zipfile.ZipFile(getattr(built, which)) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist()}
    about = {name.split(".dist-info/")[1]: found.pop(name).decode() for name in [*found] if ".dist-info/" in name}
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []
    assert "grue = grue.cli.main:main" in about["entry_points.txt"]
    assert {"licenses/LICENSE", "licenses/grue/metrics/data/WORDNET-LICENSE"} <= about.keys()
    assert "Requires-Dist: transformers" in about["METADATA"]
    assert sum(len(data) for name, data in found.items() if name.startswith("grue/mini/")) < 30_000_000


WHOLE = """
from grue.mini import assets, manifest
listed = manifest.read_manifest()
assert len(listed.models) >= 4 and all(assets.locate(n).is_dir() for n, m in listed.models.items() if m.ships)
assert len(listed.rows) == 7
for name, task in listed.rows.items():
    for split, about in task.splits.items():
        assert len(assets.read_rows(name, split, task.revision)) == about.rows
assert not (manifest.HERE.parents[1] / 'miniworld').exists()
print(manifest.HERE)
"""


def test_the_installed_command_works_from_any_folder_and_its_rows_and_models_are_whole(built, installed, tmp_path):
    def grue(*arguments):
        return run([str(installed / "bin" / "grue"), *arguments], tmp_path, str(installed))

    assert grue("--version").startswith("grue, version ")
    assert "commongen" in run([sys.executable, "-m", "grue", "tasks", "list"], tmp_path, str(installed))
    assert "imdb" in grue("tasks", "list", "--suite", "grue")
    shown = grue("tasks", "show", "commongen")
    assert "generate a sentence with: " in shown and "reference" in shown
    assert "preference" in grue("evaluate", "--baseline", "copy", "--task", "commongen")
    result = json.loads((tmp_path / "runs/mini/commongen/copy/seed-1/result.json").read_text())
    assert (result["counts"]["scored"], result["grue"]["commit"]) == (1000, "")
    tasks = hashes(installed, tmp_path)
    assert tasks == hashes(built.tree, tmp_path) and result["task_hash"] == tasks["mini/commongen"]
    assert {name.split("/")[0] for name in tasks} == {"mini", "small", "grue"}
    assert Path(run([sys.executable, "-c", WHOLE], tmp_path, str(installed)).strip()).is_relative_to(installed)
