"""The settings of an algorithm, read from its settings class: meaning, type, default, bounds, the paper's value."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from grue.bounds import Paper, bounds_of, note_of
from grue.lm.settings import ModelSettings
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig, RolloutConfig
from grue.runs.algorithms import find_card
from grue.runs.recipes import SHARED
from grue.task_files import load_task, task_names

OWN = "Its own, or with its own default"
"""Title of the group of the settings that an algorithm's own class declares."""

SHARED_CLASSES = (ModelSettings, Common, RewardedConfig, ScoredConfig, RolloutConfig, ActorCriticConfig)
"""Classes whose settings several algorithms share, the most shared first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an algorithm.

    Attributes:
        type: As a user writes it: "float", "int or none", or the possible values.
        default: None where it is none, or where the setting is required.
        bounds: "above 0"; empty where there are none.
        paper: The paper's value, as it states it or sets it on the tasks of the suite `grue`; empty if it has none.
    """

    name: str
    type: str
    default: Any
    bounds: str
    paper: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Settings that one class declares: an algorithm's own, or shared ones."""

    title: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class AlgorithmReference:
    """An algorithm as users see it.

    Attributes:
        without_effect: Settings that it inherits but does not read; they are in no group.
        groups: Its own settings first, then those that it shares with ever more algorithms.
    """

    name: str
    summary: str
    presets: tuple[str, ...]
    without_effect: tuple[str, ...]
    groups: tuple[SettingGroup, ...]


def describe_algorithm(name: str) -> AlgorithmReference:
    """Describe an algorithm; an UnknownName if there is no such algorithm."""
    card = find_card(name)
    classes = [cls for cls in card.settings.__mro__ if cls is not object]
    settings = {setting.name: setting for setting in _settings(card.settings, _paper_values(name))}
    groups, listed = [], set(card.without_effect)
    for cls in classes:
        names = [key for key in cls.__annotations__ if key in settings and key not in listed]
        listed |= set(names)
        title = OWN if cls is card.settings else summary(cls)
        groups.append(SettingGroup(title, tuple(settings[key] for key in names)))
    return AlgorithmReference(
        name=name,
        summary=summary(card.settings),
        presets=tuple(card.presets),
        without_effect=tuple(sorted(card.without_effect)),
        groups=tuple(group for group in groups if group.settings),
    )


def shared_settings() -> list[SettingGroup]:
    """Return the settings that several algorithms share, with their common defaults."""
    recipes = _paper_values("ppo")
    groups = []
    for cls in SHARED_CLASSES:
        settings = tuple(setting for setting in _settings(cls, recipes) if setting.name in cls.__annotations__)
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
    """Return the description of each field from the sections "Attributes" of a class and of those that it extends."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = (inspect.getdoc(base) or "").partition("Attributes:\n")
        for match in re.finditer(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", section, flags=re.M):
            texts[match[1]] = " ".join(match[2].split())
    return texts


def _type(hint: Any) -> str:
    """Return a type as users of `--set` know it."""
    if get_origin(hint) is Literal:
        return " | ".join(get_args(hint))
    parts = get_args(hint)
    if parts:
        return " or ".join("none" if part is type(None) else _type(part) for part in parts)
    return {bool: "true | false"}.get(hint, getattr(hint, "__name__", str(hint)))


def _paper_values(name: str) -> dict[str, str]:
    """Return what the paper's recipes, those of the suite `grue`, set: a value, or several with their tasks."""
    values: dict[str, dict[str, list[str]]] = {}
    tasks = [load_task(task, "grue") for task in task_names("grue")]
    for task in tasks:
        shared = task.recipes.get(SHARED, {}) if issubclass(find_card(name).settings, RewardedConfig) else {}
        for key, value in {**shared, **task.recipes.get(name, {})}.items():
            values.setdefault(key, {}).setdefault(str(value), []).append(task.name)
    return {key: _by_task(tasks_by_value, len(tasks)) for key, tasks_by_value in values.items()}


def _by_task(tasks_by_value: Mapping[str, list[str]], count: int) -> str:
    """Return the value if all tasks share it, or else each value with its tasks."""
    value, tasks = next(iter(tasks_by_value.items()))
    if len(tasks) == count:
        return value
    return ", ".join(f"{value} ({' '.join(tasks)})" for value, tasks in tasks_by_value.items())
