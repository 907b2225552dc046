"""Errors and their exit codes, and how a name finds the code behind it."""

import errno
import sys
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from grue import errors, registry
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.registry import Registry

SMALLER = "Use smaller batches or inputs, or a machine with more memory."


@pytest.mark.parametrize(
    ("name", "code"),
    [("ConfigError", 2), ("UnknownName", 2), ("DataError", 3), ("SubmissionError", 1), ("TrainingError", 1)],
)
def test_exit_codes_are_those_of_the_docstring(name: str, code: int) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.GrueError)
    assert error.exit_code == code
    assert any(name in line and f" {code} " in line for line in (errors.__doc__ or "").splitlines())


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 3, "x: File name too long. Choose a shorter path."),
        (OSError(errno.EROFS, "Read-only", "a\n"), 3, r"a\n: Read-only. Choose a path where you may read and write."),
        (OSError(errno.ENOSPC, "Full"), 3, "Full. Free some space, or choose another disk, and run it again."),
        (OSError(errno.EMFILE, "Too many"), 3, "Too many. Raise the limit on open files: ulimit -n 1024."),
        (OSError(errno.ENOENT, "None", "x"), 3, "x: None. Check the path."),
        (MemoryError(), 3, f"Out of memory. {SMALLER}"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 3, f"[Errno 12] Cannot allocate memory. {SMALLER}"),
        (RuntimeError("[enforce fail] can't allocate memory: 9 bytes\nC++"), 3, "[enforce fail] can't allocate memory"),
        (ImportError("a.so: failed to map segment from shared object"), 3, "a.so: failed to map segment from shared "),
        (ImportError("a.so: Too many open files"), 3, "a.so: Too many open files. Raise the limit on open files"),
        (OverflowError("int too large to convert"), 2, "A number is too large: int too large to convert. Give a "),
    ],
)
def test_what_the_machine_refuses_has_a_cure(error: Exception, code: int, message: str) -> None:
    explained = errors.of_the_system(error)
    assert explained is not None and explained.exit_code == code
    assert str(explained).startswith(message) and "\n" not in str(explained)


@pytest.mark.parametrize("bug", [RuntimeError("no such layer"), ImportError("no module"), OSError("of a library")])
def test_a_bug_is_not_explained_away(bug: Exception) -> None:
    assert errors.of_the_system(bug) is None


def test_the_nearest_spelling_is_offered() -> None:
    assert did_you_mean("imbd", ["commongen", "imdb"]) == " Did you mean 'imdb'?"
    assert did_you_mean("zzz", ["commongen", "imdb"]) == ""
    assert did_you_mean("x", []) == ""


def test_of_many_names_the_nearest_three_are_told_with_what_lists_all() -> None:
    few, many = ["imdb", "totto"], [f"rouge{n}" for n in range(1, 10)] + ["bleu", "minibatch_size", "meteor", "cider"]
    assert instead("imbd", few, "grue tasks list") == " Did you mean 'imdb'? Known: imdb, totto."
    assert instead("rouge11", many, "grue metrics list") == (
        " Did you mean 'rouge1'? Also near: rouge9, rouge8. `grue metrics list` lists all 13."
    )
    assert instead("batch", many, "all") == " Did you mean 'minibatch_size'? `all` lists all 13."
    assert instead("zzz", many, "grue metrics list") == " `grue metrics list` lists all 13."
    assert instead("zzz", many).endswith("minibatch_size, meteor, cider."), "nothing else lists them"


def test_a_registered_thing_is_found_by_name() -> None:
    things: Registry[object] = Registry("thing")
    one = object()
    assert things.register("one")(one) is one
    assert things.register("one")(one) is one  # the same thing again is no conflict
    assert things["one"] is one
    assert "one" in things
    assert things.names() == ["one"]


def test_a_name_is_taken_once() -> None:
    things: Registry[object] = Registry("thing")
    things.register("one")(object())
    with pytest.raises(ConfigError) as caught:
        things.register("one")(object())
    assert str(caught.value) == "Two things are called 'one'; rename one of them."


def test_an_unknown_name_lists_what_is_known() -> None:
    things: Registry[int] = Registry("thing")
    with pytest.raises(UnknownName) as caught:
        things["one"]
    assert str(caught.value) == "There is no thing 'one'. Known: none."
    things.register("three")(3)
    things.register("one")(1)
    with pytest.raises(UnknownName) as caught:
        things["onee"]
    assert str(caught.value) == "There is no thing 'onee'. Did you mean 'one'? Known: one, three."
    assert "onee" not in things


def test_a_module_is_loaded_when_one_of_its_names_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_thing.py").write_text("THING = 'loaded'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    lazy: Registry[str] = Registry("thing", modules={"late": "lazy_thing:THING", "never": "lazy_thing:NEVER"})
    assert lazy.names() == ["late", "never"]
    assert "late" in lazy
    assert "lazy_thing" not in sys.modules
    assert lazy["late"] == "loaded"
    assert "lazy_thing" in sys.modules
    with pytest.raises(UnknownName, match="There is no thing 'never': lazy_thing does not define 'NEVER'"):
        lazy["never"]


def offer(folder: Path, name: str, entries: str) -> None:
    """Say that a package offers things, as pip would, in a folder that is on the path."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(entries)


def test_plug_ins_are_searched_at_the_first_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    things: Registry[float] = Registry("thing", entry_points="grue.things")
    assert "tau" not in things
    offer(tmp_path, "numbers", "[grue.things]\ntau = math:tau\n[grue.others]\nother = math:pi\n")
    things.register("own")(1.0)
    assert things.names() == ["own", "tau"]
    assert "tau" in things
    assert things["tau"] == pytest.approx(6.283185307179586)
    assert things.built_in() == ["own"]  # also once the plug-in is loaded
    assert "other" not in things


def test_what_is_installed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def entry_points(group: str) -> EntryPoints:
        read.append(group)
        return EntryPoints()

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    registry._offered.cache_clear()
    things: Registry[float] = Registry("thing", entry_points="grue.things")
    assert [name in things for name in "abc"] == [False] * 3
    assert read == ["grue.things"]
    registry._offered.cache_clear()


def test_two_packages_cannot_offer_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    offer(tmp_path, "first", "[grue.things]\ntau = math:tau\n")
    offer(tmp_path, "second", "[grue.things]\ntau = cmath:tau\n")
    things: Registry[float] = Registry("thing", entry_points="grue.things")
    with pytest.raises(ConfigError) as caught:
        things["tau"]
    assert str(caught.value) in [
        f"Two installed packages offer a thing 'tau': {first} and {second}; uninstall one of them."
        for first, second in (("math:tau", "cmath:tau"), ("cmath:tau", "math:tau"))
    ]
