"""Write the tables of `docs/reference/metrics.md` from the metrics' cards: `python tools/metrics_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

from collections.abc import Sequence
from pathlib import Path

from page import table, write_or_check

from grue.metrics.card import CARDS, FAMILIES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
BEGIN = "<!-- written by tools/metrics_page.py from the cards of grue/metrics -->"


def listing() -> str:
    """Return a table for each family of metrics; what all of a family share stands above it."""
    parts = []
    for family, title in FAMILIES.items():
        cards = {name: card for name, card in CARDS.items() if card.family == family}
        columns = {
            "metric": [f"`{name}` {card.arrow} {card.bounds}" for name, card in cards.items()],
            "what it is": [card.definition for card in cards.values()],
            "source": _once([card.source for card in cards.values()]),
            "needs": [card.needs or "nothing" for card in cards.values()],
        }
        shared = [head for head, cells in columns.items() if len({*cells}) == 1]
        parts.append(f"### {title}")
        parts += [" ".join(f"{head.capitalize()}: {columns.pop(head)[0]}." for head in shared)] * bool(shared)
        parts.append(table([*columns], zip(*columns.values(), strict=True)))
    return "\n\n".join(parts)


def _once(cells: Sequence[str]) -> list[str]:
    """Return cells of which one that repeats the one above it only says so; all equal ones stay."""
    if len({*cells}) == 1:
        return [*cells]
    return [cell if i == 0 or cell != cells[i - 1] else "as above" for i, cell in enumerate(cells)]


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, listing())
