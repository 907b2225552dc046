"""Write `docs/reference/algorithms.md` and a page for each algorithm: `python tools/algorithms_page.py [--check]`.

Only what stands between the two marks of a page is written: objectives from the docstrings of `grue/algorithms`, tables
from the settings classes, `logged_figures.toml` and the board of mini. What follows the second mark is written by
hand. A new algorithm gets a page; `--check` writes nothing and fails if a page is stale, missing or of no algorithm.
"""

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from logged_figures import OF_UPDATES, RUN, LoggedFigure, figures_of
from page import END, anchor, table, write_or_check
from papers import Paper, read_papers

from grue.algorithms import BUILT_IN, SUPERVISED
from grue.bounds import bounds_of
from grue.cli.options import shown
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig, RolloutConfig
from grue.runs.algorithms import find_algorithm
from grue.runs.reference import OWN, SHARED_CLASSES, Setting, describe_algorithm, shared_settings, summary

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "reference" / "algorithms.md"
PAGES = INDEX.with_suffix("")
BOARD = ROOT / "leaderboard" / "mini.json"
BEGIN = "<!-- written by tools/algorithms_page.py from the code and leaderboard/mini.json -->"
BLANK = f"# {{name}}\n\n{BEGIN}\n\n{END}\n"

AXES, INTERVALS = ("preference", "naturalness"), ("interval", "naturalness_interval")
LEGEND = (
    "*Samples*: draws responses and has the reward score them. *Critic*: trains a value network with the policy. *π₀*: "
    "compares the policy with the initial one. *A prompt*: how many responses to a prompt it needs. *File*: can learn "
    "from responses scored earlier, with `--set data=FILE`."
)


def main() -> None:
    """Write or check all pages."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    papers = [paper for part in read_papers() for paper in part.papers]
    write_or_check(INDEX, BEGIN, index())
    for name in BUILT_IN:
        write_or_check(PAGES / f"{name}.md", BEGIN, page(name, board, papers), BLANK.format(name=name))
    strays = sorted({path.stem for path in PAGES.glob("*.md")} - set(BUILT_IN))
    if strays:
        sys.exit(f"{PAGES / strays[0]}.md is of no algorithm; remove it.")


# --- the index -------------------------------------------------------------------------------------------------------


def index() -> str:
    """Return the table of algorithms, the settings that several share, and the figures of every run."""
    head = ("name", "what it is", "samples", "critic", "π₀", "a prompt", "file")
    parts = ["## All algorithms", table(head, map(_row, BUILT_IN)), LEGEND, "## Shared settings"]
    parts += [f"### {group.title}\n\n{settings_table(group.settings)}" for group in shared_settings()]
    parts.append("## Figures of every run")
    parts.append(table(("figure", "meaning"), ((f"`{one.name}`", one.meaning) for one in RUN)))
    parts.append("## Shared figures of updates")
    rows = ((*_figure(one), _loggers(one)) for one in shared_figures().values())
    parts.append(table(("figure", "meaning", "logged by"), rows))
    return "\n\n".join(parts)


def _row(name: str) -> tuple[str, ...]:
    settings = find_algorithm(name).settings
    bounds = bounds_of(settings)  # type: ignore[arg-type]  # a class is hashable
    several = bounds["samples_per_prompt"].least if reads(name, "samples_per_prompt") else None
    return (
        f"[`{name}`](algorithms/{name}.md)",
        f"{describe_algorithm(name).summary}.",
        _yes(issubclass(settings, RewardedConfig)),
        _yes(issubclass(settings, ActorCriticConfig)),
        _yes(reads(name, "reference")),
        "2 or more" if several == 2 else _yes(False) if not reads(name, "samples_per_prompt") else "any",
        _yes(reads(name, "data")),
    )


def _yes(answer: bool) -> str:
    return "yes" if answer else "–"


def reads(name: str, setting: str) -> bool:
    """Whether an algorithm has a setting, and heeds it."""
    found = find_algorithm(name)
    return setting in {field.name for field in fields(found.settings)} - found.without_effect


# --- a page ----------------------------------------------------------------------------------------------------------


def page(name: str, board: Mapping[str, Any], papers: Sequence[Paper]) -> str:
    """Return what is written of an algorithm's page."""
    links = ", ".join(f"[{one.short}](../papers.md#{one.anchor})" for one in papers if one.algorithm == name)
    code = f"Code: [{name}.py](../../../grue/algorithms/{name}.py)."
    parts = [
        objective(name),
        code if not links else f"{code} Papers: {links}.",
        "## Run it",
        *how_to_run(name),
        "## Settings",
        *settings(name),
        "## Logged figures",
        *figures(name),
        "## Results on mini",
        *results(name, board),
    ]
    return "\n\n".join(parts)


def objective(name: str) -> str:
    """Return the docstring of an algorithm's file, without what only readers of the code need."""
    text = inspect.cleandoc(import_module(f"grue.algorithms.{name}").__doc__ or "")
    return "\n\n".join(part for part in text.split("\n\n") if not re.match(r"[BPn] = |In the code: ", part))


def how_to_run(name: str) -> Iterator[str]:
    """Yield the commands that train, and the presets."""
    command = f"grue train --task commongen --algo {chain(name)}"
    lines = [command, *(f"{command} --preset {one} --system {name}-{one}" for one in describe_algorithm(name).presets)]
    lines += [f"{command} --set data=FILE --system {name}-file"] * reads(name, "data")
    yield "```\n" + "\n".join(lines) + "\n```"
    if presets := find_algorithm(name).presets.items():
        rows = (
            (f"`{preset}`", _names(f"{key} = {shown(value)}" for key, value in sets.items()))
            for preset, sets in presets
        )
        yield table(("preset", "sets"), rows)
    if reads(name, "data"):
        yield "FILE has [scored responses](../../how-to/scored-data.md)."


def settings(name: str) -> Iterator[str]:
    """Yield the settings of an algorithm: its own as a table, the others as links."""
    found = find_algorithm(name)
    inherited = found.settings.__mro__[1:]
    shared = {field.name for cls in inherited if is_dataclass(cls) for field in fields(cls)}
    own = next((group.settings for group in describe_algorithm(name).groups if group.title == OWN), ())
    if new := [one for one in own if one.name not in shared]:
        yield settings_table(new)
    if others := [f"{one.name} = {shown(one.default)}" for one in own if one.name in shared]:
        yield f"Other defaults: {_names(others)}."
    pages = {find_algorithm(other).settings: other for other in BUILT_IN}
    links = [
        f"[{pages[cls]}]({pages[cls]}.md#settings)"
        if cls in pages
        else f"[{_kind(cls).removeprefix('algorithms ')}](../algorithms.md#{anchor(summary(cls))})"
        for cls in inherited
        if cls in pages or cls in SHARED_CLASSES[2:]
    ] + ["[every algorithm](../algorithms.md#shared-settings)"]
    refused = f" Without effect, and refused: {_names(sorted(found.without_effect))}." if found.without_effect else ""
    yield f"Further settings: {', '.join(links)}.{refused}"


def settings_table(settings: Iterable[Setting]) -> str:
    """Return a table of settings."""
    rows = []
    for one in settings:
        default = "required" if one.default is None and "none" not in one.type else f"`{shown(one.default)}`"
        bounds = one.bounds.replace("at least 0 and at most 1", "0 to 1").replace("at least", "≥").replace("above", ">")
        paper = f" Paper: {_of_paper(one.paper)}." if one.paper else ""
        rows.append((f"`{one.name}`", default, ", ".join(filter(None, (one.type, bounds))), one.meaning + paper))
    return table(("setting", "default", "values", "meaning"), rows)


def _of_paper(text: str) -> str:
    """Return the paper's values without the tasks that each is of: the task files have them."""
    values = re.sub(r" \([a-z0-9_ ]+\)", "", text)
    return f"{values} by task" if values != text else text


def figures(name: str) -> Iterator[str]:
    """Yield what an algorithm logs of an update: its own as a table, the names of the others."""
    shared = shared_figures()
    logged = figures_of(name, OF_UPDATES)
    if own := [figure for key, figure in logged.items() if shared.get(key) != figure]:
        yield figures_table(own)
    yield "Also [shared figures](../algorithms.md#figures-of-every-run)."


@cache
def shared_figures() -> Mapping[str, LoggedFigure]:
    """Return the figures of updates that several algorithms log, by name; of several meanings the commonest."""
    counts = Counter(figure for name in BUILT_IN for figure in figures_of(name, OF_UPDATES).values())
    found: dict[str, LoggedFigure] = {}
    for figure in OF_UPDATES:
        if counts[figure] > 1 and (figure.name not in found or counts[figure] > counts[found[figure.name]]):
            found[figure.name] = figure
    return found


def figures_table(figures: Iterable[LoggedFigure]) -> str:
    """Return a table of figures."""
    return table(("figure", "meaning"), map(_figure, figures))


def _figure(one: LoggedFigure) -> tuple[str, str]:
    return f"`{one.name}`", one.meaning + (f" Only with `{one.setting}`." if one.setting else "")


def _loggers(figure: LoggedFigure) -> str:
    """Return which algorithms log a figure: a kind of them, perhaps but a few, or their names."""
    names = [name for name in BUILT_IN if figures_of(name, OF_UPDATES).get(figure.name) == figure]
    for cls in (ActorCriticConfig, RolloutConfig, ScoredConfig, RewardedConfig, Common):
        kind = [name for name in BUILT_IN if issubclass(find_algorithm(name).settings, cls)]
        others = [name for name in kind if name not in names]
        if {*names} <= {*kind} and len(others) < 3:
            return _kind(cls) + (f" but {_names(others)}" if others else "")
    return _names(names)


def _kind(settings: type) -> str:
    """Return whose settings a class has: "algorithms with a critic"."""
    return summary(settings).removeprefix("Settings of ")


def results(name: str, board: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the board of mini says of an algorithm after supervised training, and how to get it again."""
    rows = [row for row in board["rows"] if row["about"]["algorithm"] == chain(name)]
    if not rows:
        yield f"The board has no row yet of `{chain(name)}`."
        return
    yield (
        f"Means over tasks with {100 * board['level']:.0f} % intervals ([each task](../../../leaderboard/mini.md)), "
        "of\n`grue sweep --config experiments/mini.toml`:\n"
        + "".join(f"\n- `{row['system']}`{_standing(row)}: {_axes(row)}" for row in rows)
    )


def _standing(row: Mapping[str, Any]) -> str:
    return "" if row["standing"] == "ranked" else f" ({row['standing']})"


def _axes(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis} {_score(row[axis], row[key])}" for axis, key in zip(AXES, INTERVALS, strict=True))


def _score(mean: float | None, interval: Mapping[str, float] | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.1f}" if interval is None else f"{mean:.1f} ± {(interval['high'] - interval['low']) / 2:.1f}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{one}`" for one in names)


def chain(name: str) -> str:
    """Return the chain that an algorithm is tried in."""
    return name if name == SUPERVISED else f"{SUPERVISED}+{name}"


if __name__ == "__main__":
    main()
