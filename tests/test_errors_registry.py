"""Errors and their exit codes, and how a name finds the code behind it."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from grue import errors, registry
from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.registry import Registry


@pytest.mark.parametrize(
    ("name", "code"),
    [("ConfigError", 2), ("UnknownName", 2), ("DataError", 3), ("SubmissionError", 1), ("TrainingError", 1)],
)
def test_exit_codes_are_those_of_the_docstring(name: str, code: int) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.GrueError)
    assert error.exit_code == code
    assert any(name in line and f" {code} " in line for line in (errors.__doc__ or "").splitlines())


def test_the_nearest_spelling_is_offered() -> None:
    assert did_you_mean("imbd", ["commongen", "imdb"]) == " Did you mean 'imdb'?"
    assert did_you_mean("zzz", ["commongen", "imdb"]) == ""
    assert did_you_mean("x", []) == ""


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


def offer(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    def installed(group: str) -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    monkeypatch.setattr(registry, "entry_points", installed)


def test_plug_ins_are_searched_at_the_first_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, EntryPoint("tau", "math:tau", "grue.things"), EntryPoint("other", "math:pi", "grue.others"))
    things: Registry[float] = Registry("thing", entry_points="grue.things")
    things.register("own")(1.0)
    assert things.names() == ["own", "tau"]
    assert "tau" in things
    assert things["tau"] == pytest.approx(6.283185307179586)
    assert things.built_in() == ["own"]  # also once the plug-in is loaded
    assert "other" not in things


def test_two_packages_cannot_offer_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, EntryPoint("tau", "math:tau", "grue.things"), EntryPoint("tau", "cmath:tau", "grue.things"))
    things: Registry[float] = Registry("thing", entry_points="grue.things")
    with pytest.raises(ConfigError) as caught:
        things["tau"]
    assert str(caught.value) == (
        "Two installed packages offer a thing 'tau': math:tau and cmath:tau; uninstall one of them."
    )
