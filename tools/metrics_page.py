"""Write the tables of `docs/reference/metrics.md` from the metrics' cards: `python tools/metrics_page.py [--check]`.

Only the part between the two marks is written; `--check` writes nothing and fails if the page is stale.
"""

from pathlib import Path

from page import table, write_or_check

from grue.metrics.card import CARDS, FAMILIES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
BEGIN = "<!-- written by tools/metrics_page.py from the cards of grue/metrics -->"


def listing() -> str:
    """Return a table for each family of metrics."""
    parts = []
    for family, title in FAMILIES.items():
        cards = {name: card for name, card in CARDS.items() if card.family == family}
        source, *others = {card.source for card in cards.values()}
        parts.append(f"### {title}")
        if others or any(card.needs for card in cards.values()):
            head = ("metric", "range", "what it is", "source", "needs")
            rows = [
                (f"`{name}` {card.arrow}", card.bounds, card.definition, card.source, card.needs or "–")
                for name, card in cards.items()
            ]
        else:
            parts.append(f"They need nothing but texts, and are those of {source}.")
            head = ("metric", "range", "what it is")
            rows = [(f"`{name}` {card.arrow}", card.bounds, card.definition) for name, card in cards.items()]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, listing())
