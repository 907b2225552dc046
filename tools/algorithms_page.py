"""Write `docs/reference/algorithms.md` from the settings classes: `python tools/algorithms_page.py [--check]`.

`--check` writes nothing and fails if the page is stale.
"""

import sys
from pathlib import Path

from grue.cli.algorithms import shown
from grue.runs.algorithms import BUILT_IN
from grue.runs.reference import AlgorithmReference, SettingGroup, about, shared_settings

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "algorithms.md"
HEAD = """# Algorithms and their settings

Written by `tools/algorithms_page.py` from the classes in `grue/algorithms/` and `grue/rl/settings.py`; the same as
`grue algorithms show NAME`. `--set key=value` and `--config FILE` take these settings; a task's recipe may set another
value than the default, and `grue train --dry-run` prints what a run would use. *Paper* is what the paper states, or
what it sets on the tasks of the suite `grue`. An algorithm's table lists its own settings, and those with another
default; NLPO also has PPO's, and RLOO REINFORCE's.
"""


def page() -> str:
    """Return the page: each algorithm with its own settings, then what several share."""
    found = [about(name) for name in BUILT_IN]
    parts = [HEAD, *map(_algorithm, found)]
    parts.append("## Shared settings\n")
    parts += [f"### {group.title}\n\n{_table(group)}" for group in shared_settings()]
    return "\n".join(parts)


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


def main() -> None:
    """Write the page, or check it."""
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE} is stale; run `python tools/algorithms_page.py`.")


if __name__ == "__main__":
    main()
