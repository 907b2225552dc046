"""The folder of data sets: a file is a data set, found by its name, and it knows nothing of who finds it."""

import subprocess
import sys
from pathlib import Path

import pytest

from grue.data.formats import FORMATS, LAYOUTS
from grue.errors import UnknownName
from grue.registry import Registry

SETS = Path(__file__).parents[2] / "grue" / "data" / "sets"
NAMES = sorted(path.stem for path in SETS.glob("*.py") if path.stem != "__init__")


def python(code: str) -> str:
    """Run code in a process of its own, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=SETS.parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_is_a_data_set() -> None:
    assert FORMATS.names() == LAYOUTS.names() == NAMES
    for name in NAMES:
        module = f"grue.data.sets.{name}"
        assert (FORMATS[name].__module__, LAYOUTS[name].__module__) == (module, module)


def test_names_are_listed_without_importing_a_data_set_or_pyarrow() -> None:
    code = "import sys; from grue.data.formats import FORMATS, LAYOUTS; FORMATS.names(); LAYOUTS.names(); "
    loaded = python(
        code + "print('pyarrow' in sys.modules, [m for m in sys.modules if m.startswith('grue.data.sets.')])"
    )
    assert loaded == "False []\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_imports_no_registry(name: str) -> None:
    code = f"import sys, grue.data.sets.{name}; print({{'grue.registry', 'grue.data.formats'}} & set(sys.modules))"
    assert python(code) == "set()\n"


def test_a_data_set_without_a_layout_is_named() -> None:
    layouts: Registry[object] = Registry("data layout", modules={"mine": "grue.data.rows:read_folder"})
    with pytest.raises(UnknownName) as caught:
        layouts["mine"]
    assert str(caught.value) == "There is no data layout 'mine': grue.data.rows does not define 'read_folder'."
