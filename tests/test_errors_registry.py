"""Errors and their exit codes, and how a name finds the code behind it."""

import errno
import sys
from importlib.metadata import EntryPoints

import pytest
from support import task_package

import grue
from grue import errors, registry
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.provenance import code_version
from grue.registry import Registry

MACHINES = (
    OSError(errno.ENAMETOOLONG, "File name too long", "x"),
    OSError(errno.EROFS, "Read-only", "a\n"),
    OSError(errno.ENOSPC, "Full"),
    OSError(errno.EMFILE, "Too many"),
    OSError(errno.ENOENT, "None", "x"),
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("[enforce fail] can't allocate memory: 9 bytes\nC++"),
    ImportError("a.so: failed to map segment from shared object"),
    ImportError("a.so: Too many open files"),
    OverflowError("int too large to convert"),
)


def test_what_the_machine_refuses_has_a_cure_and_a_bug_is_not_explained_away(refused):
    for error in MACHINES:
        explained = errors.of_the_system(error)
        assert explained.exit_code == (2 if isinstance(error, OverflowError) else 3)
        assert "\n" not in str(explained)
        refused.message(str(explained))
    for bug in (RuntimeError("no such layer"), ImportError("no module"), OSError("of a library")):
        assert errors.of_the_system(bug) is None


def test_the_nearest_spellings_are_offered_and_of_many_names_what_lists_all():
    few, many = ["imdb", "totto"], [f"rouge{n}" for n in range(1, 10)] + ["bleu", "minibatch_size", "meteor", "cider"]
    for name, known, said in (("imbd", few, " Did you mean 'imdb'?"), ("zzz", few, ""), ("x", [], "")):
        assert did_you_mean(name, known) == said
    assert instead("imbd", few, "grue tasks list") == " Did you mean 'imdb'? Known: imdb, totto."
    for name, said in (
        ("rouge11", " Did you mean 'rouge1'? Also near: rouge9, rouge8. `all` lists all 13."),
        ("batch", " Did you mean 'minibatch_size'? `all` lists all 13."),
        ("zzz", " `all` lists all 13."),
    ):
        assert instead(name, many, "all") == said
    assert instead("zzz", many).endswith("minibatch_size, meteor, cider."), "nothing else lists them"


def test_a_thing_is_found_by_its_name(refused):
    with refused(UnknownName):
        Registry("thing")["one"]
    things = Registry("thing", {"one": 1, "three": 3})
    assert (things["one"], things.names()) == (1, ["one", "three"])
    assert "one" in things and "onee" not in things
    with refused(UnknownName):
        things["onee"]


def test_a_module_is_loaded_when_one_of_its_names_is_asked_for(tmp_path, monkeypatch, refused):
    (tmp_path / "lazy_thing.py").write_text("THING = 'loaded'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    lazy = Registry("thing", modules={"late": "lazy_thing:THING", "never": "lazy_thing:NEVER"})
    assert lazy.names() == ["late", "never"] and "late" in lazy and "lazy_thing" not in sys.modules
    assert lazy["late"] == "loaded" and "lazy_thing" in sys.modules
    with refused(UnknownName):
        lazy["never"]


def test_plug_ins_are_searched_at_the_first_miss_and_two_cannot_offer_the_same_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    things = Registry("thing", {"own": 1.0}, entry_points="grue.things")
    assert "tau" not in things
    task_package.install(tmp_path, "[grue.things]\ntau = math:tau\n[grue.others]\nother = math:pi\n", "numbers")
    assert things.names() == ["own", "tau"] and "tau" in things and "other" not in things
    assert things["tau"] == pytest.approx(6.283185307179586)
    assert things.built_in() == ["own"]  # also once the plug-in is loaded
    task_package.install(tmp_path, "[grue.things]\ntau = cmath:tau\n", "second")
    with pytest.raises(
        ConfigError, match=r"^Two installed packages offer a thing 'tau': c?math:tau and c?math:tau; un"
    ):
        Registry("thing", entry_points="grue.things")["tau"]


@pytest.mark.parametrize("place", ["math:tauu", "no_such_module_at_all:tau"])
def test_a_plug_in_that_cannot_be_loaded_is_named_with_its_place(tmp_path, monkeypatch, place):
    monkeypatch.syspath_prepend(str(tmp_path))
    task_package.install(tmp_path, f"[grue.things]\nbroken = {place}\n", "broken")
    with pytest.raises(ConfigError, match=rf"^The thing 'broken' is {place} of an installed package, which cannot be"):
        Registry("thing", entry_points="grue.things")["broken"]


def test_a_plug_in_that_is_no_function_is_refused_where_only_functions_are_called(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    task_package.install(tmp_path, "[grue.things]\ntau = math:tau\nmaths = math\ncos = math:cos\n", "numbers")
    things = Registry("thing", entry_points="grue.things", functions=True)
    assert things["cos"](0) == 1
    for name, what in (("tau", "math:tau of an installed package, which is a float"), ("maths", "which is a module")):
        with pytest.raises(ConfigError, match=f"^The thing '{name}' is .*{what} and no function"):
            things[name]


def test_what_is_installed_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: read.append(group) or EntryPoints())
    registry._offered.cache_clear()
    things = Registry("thing", entry_points="grue.things")
    assert [name in things for name in "abc"] == [False] * 3
    assert read == ["grue.things"]
    registry._offered.cache_clear()


def test_a_machine_without_git_names_the_version_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_version() == {"version": grue.__version__, "commit": "", "dirty": False}
