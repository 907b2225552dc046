"""What can be set of an algorithm, read off its settings class: meaning, type, default, bounds, the paper's value."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from grue.bounds import Paper, bounds_of, note_of
from grue.lm.settings import ModelSettings
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig, RolloutConfig, ScoredConfig
from grue.runs.algorithms import find_card
from grue.runs.recipes import SHARED
from grue.task_files import load_task, task_names

OWN = "Its own, or with its own default"
"""Title of the group of the settings that an algorithm's own class declares."""

SHARED_CLASSES = (ModelSettings, Common, RewardedConfig, ScoredConfig, RolloutConfig, ActorCriticConfig)
"""Whose settings several algorithms share; the most shared first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an algorithm.

    Attributes:
        type: As a user writes it: "float", "int or none", or the values that it may have.
        default: None where it is none, or where the setting is required.
        bounds: "above 0"; empty where there are none.
        paper: What the paper states, or sets on the tasks of the suite `grue`; empty where it says nothing.
        meaning: One or more sentences.
    """

    name: str
    type: str
    default: Any
    bounds: str
    paper: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Settings that one class declares: an algorithm's own, or those that it shares with others."""

    title: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class AlgorithmReference:
    """An algorithm as its user sees it.

    Attributes:
        summary: One sentence.
        presets: Names of its presets.
        without_effect: Settings that it inherits and does not read; they are in no group.
        groups: Its own settings first, then what it shares with ever more algorithms.
    """

    name: str
    summary: str
    presets: tuple[str, ...]
    without_effect: tuple[str, ...]
    groups: tuple[SettingGroup, ...]


def about(name: str) -> AlgorithmReference:
    """Describe an algorithm.

    Raises:
        UnknownName: There is none of that name.
    """
    found = find_card(name)
    classes = [cls for cls in found.settings.__mro__ if cls is not object]
    settings = {one.name: one for one in _settings(found.settings, _paper_recipes(name))}
    groups, seen = [], set(found.without_effect)
    for cls in classes:
        names = [key for key in cls.__annotations__ if key in settings and key not in seen]
        seen |= set(names)
        title = OWN if cls is found.settings else summary(cls)
        groups.append(SettingGroup(title, tuple(settings[key] for key in names)))
    return AlgorithmReference(
        name=name,
        summary=summary(found.settings),
        presets=tuple(found.presets),
        without_effect=tuple(sorted(found.without_effect)),
        groups=tuple(group for group in groups if group.settings),
    )


def shared_settings() -> list[SettingGroup]:
    """Return the settings that several algorithms share, with their common defaults."""
    recipes = _paper_recipes("ppo")
    groups = []
    for cls in SHARED_CLASSES:
        settings = tuple(one for one in _settings(cls, recipes) if one.name in cls.__annotations__)
        groups.append(SettingGroup(summary(cls), settings))
    return groups


def _settings(cls: type, recipes: Mapping[str, str]) -> Iterator[Setting]:
    hints, bounds, texts, stated = get_type_hints(cls), bounds_of(cls), meanings(cls), note_of(cls, Paper)
    for field in fields(cls):
        note = stated.get(field.name)
        yield Setting(
            name=field.name,
            type=_type(hints[field.name]),
            default=None if field.default is MISSING else field.default,
            bounds=str(bounds.get(field.name, "")),
            paper=recipes.get(field.name, note.value if note else ""),
            meaning=texts.get(field.name, ""),
        )


def summary(cls: type) -> str:
    """Return the first line of a class's docstring, without its full stop."""
    return (inspect.getdoc(cls) or "").partition("\n")[0].rstrip(".")


def meanings(cls: type) -> Mapping[str, str]:
    """Return what the sections "Attributes" of a class and of those that it extends say of each field."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        _, _, section = (inspect.getdoc(one) or "").partition("Attributes:\n")
        for match in re.finditer(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", section, flags=re.M):
            found[match[1]] = " ".join(match[2].split())
    return found


def _type(hint: Any) -> str:
    """Return a type in the words of `--set`."""
    if get_origin(hint) is Literal:
        return " | ".join(get_args(hint))
    parts = get_args(hint)
    if parts:
        return " or ".join("none" if part is type(None) else _type(part) for part in parts)
    return {bool: "true | false"}.get(hint, getattr(hint, "__name__", str(hint)))


def _paper_recipes(name: str) -> dict[str, str]:
    """Return what the recipes of the suite `grue`, which are the paper's, set: a value, or several with their tasks."""
    values: dict[str, dict[str, list[str]]] = {}
    tasks = [load_task(one, "grue") for one in task_names("grue")]
    for task in tasks:
        shared = task.recipes.get(SHARED, {}) if issubclass(find_card(name).settings, RewardedConfig) else {}
        for key, value in {**shared, **task.recipes.get(name, {})}.items():
            values.setdefault(key, {}).setdefault(str(value), []).append(task.name)
    return {key: _by_task(found, len(tasks)) for key, found in values.items()}


def _by_task(found: Mapping[str, list[str]], count: int) -> str:
    """Return a value that is set on all tasks, or each value with the tasks that it is set on."""
    value, tasks = next(iter(found.items()))
    if len(tasks) == count:
        return value
    return ", ".join(f"{value} ({' '.join(tasks)})" for value, tasks in found.items())
