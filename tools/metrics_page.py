"""Write the tables of `docs/reference/metrics.md` from the metrics' cards: `python tools/metrics_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

import sys
from pathlib import Path

from grue.metrics.card import FAMILIES
from grue.metrics.registry import CARDS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
BEGIN = "<!-- written by tools/metrics_page.py from the cards of grue/metrics -->"
END = "<!-- end of what is written -->"


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


def main() -> None:
    """Write the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n\n{listing()}\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if page != wanted:
            sys.exit(f"{PAGE} is stale; run `python tools/metrics_page.py`.")
        return
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
