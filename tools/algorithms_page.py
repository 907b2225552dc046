"""Write the tables of `docs/reference/algorithms.md`: `python tools/algorithms_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

from pathlib import Path

from page import write_or_check

from grue.cli.algorithms import shown
from grue.runs.algorithms import BUILT_IN
from grue.runs.reference import AlgorithmReference, SettingGroup, about, shared_settings

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "algorithms.md"
BEGIN = "<!-- written by tools/algorithms_page.py from the settings classes -->"


def listing() -> str:
    """Return the tables: each algorithm with its own settings, then what several share."""
    found = [about(name) for name in BUILT_IN]
    parts = [*map(_algorithm, found)]
    parts.append("## Shared settings\n")
    parts += [f"### {group.title}\n\n{_table(group)}" for group in shared_settings()]
    return "\n".join(parts).strip()


def _algorithm(one: AlgorithmReference) -> str:
    lines = [f"## {one.name}", "", f"{one.summary}.", ""]
    if one.presets:
        lines += [f"Presets: {', '.join(f'`{name}`' for name in one.presets)}.", ""]
    if one.without_effect:
        lines += [f"Without effect: {', '.join(f'`{name}`' for name in one.without_effect)}.", ""]
    return "\n".join([*lines, _table(one.groups[0])])


def _table(group: SettingGroup) -> str:
    lines = ["| setting | default | values | paper | meaning |", "|---|---|---|---|---|"]
    for one in group.settings:
        default = "required" if one.default is None and "none" not in one.type else f"`{shown(one.default)}`"
        values = ", ".join(filter(None, (one.type, one.bounds)))
        cells = (f"`{one.name}`", default, values, one.paper, one.meaning)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, listing())
