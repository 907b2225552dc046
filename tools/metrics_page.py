"""Write the tables of `docs/reference/metrics.md` from the metrics' cards: `python tools/metrics_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

from pathlib import Path

from page import write_or_check

from grue.metrics.card import CARDS, FAMILIES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
BEGIN = "<!-- written by tools/metrics_page.py from the cards of grue/metrics -->"


def listing() -> str:
    """Return a table for each family of metrics."""
    parts = []
    for family, title in FAMILIES.items():
        lines = [f"### {title}", "", "| metric | range | what it is | source | needs |", "|---|---|---|---|---|"]
        for name, card in CARDS.items():
            if card.family == family:
                cells = (f"`{name}` {card.arrow}", card.bounds, card.definition, card.source, card.needs or "–")
                lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, listing())
