"""A questionnaire as self-contained pages, one per annotator, without requests elsewhere and names of systems.

A page has the texts, the questions and random names of the screens; only the key says which system wrote which text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grue import files
from grue.render.page import environment, filled
from grue.render.text import printable, printable_lines
from grue.render.web.embed import script_json
from grue.study.key import KEY, Annotator, Key
from grue.study.template import CHOICES, points

PAGES = "pages"
"""The folder with the pages, the only files to send to annotators."""


def render(key: Key, annotator: Annotator) -> str:
    """Return the page of an annotator."""
    template = key.template
    return filled(
        environment(),
        "study.html",
        "study.css",
        ["study.js"],
        title=template.title,
        paragraphs=[part for part in template.instructions.strip().split("\n\n") if part],
        prompt_label=template.prompt_label,
        count=len(annotator.screens),
        questions=len(template.questions),
        most=max(len(question.anchors) for question in template.questions),
        data=Markup(script_json(_data(key, annotator))),
    )


def _data(key: Key, annotator: Annotator) -> Mapping[str, Any]:
    """Return the data of the page's script; each prompt is listed once, in the order of this annotator's screens."""
    pairs = key.template.kind == "pairs"
    met = list(dict.fromkeys(screen.item for screen in annotator.screens))
    return {
        "study": key.study,
        "annotator": annotator.name,
        "label": printable(key.template.text_label),
        "questions": [
            {
                "name": question.name,
                "text": printable(question.text),
                "values": CHOICES if pairs else points(question),
                "anchors": [printable(anchor) for anchor in question.anchors],
            }
            for question in key.template.questions
        ],
        "prompts": [printable_lines(key.items[item].prompt) for item in met],
        "screens": [
            {
                "id": screen.id,
                "prompt": met.index(screen.item),
                "texts": [printable_lines(key.items[screen.item].texts[system]) for system in screen.systems],
            }
            for screen in annotator.screens
        ],
    }


def publish(key: Key, folder: Path) -> list[Path]:
    """Write the key and the pages of a study into a folder, and return the pages; the key is written last."""
    pages = [folder / PAGES / f"{annotator.name}.html" for annotator in key.annotators]
    for path, annotator in zip(pages, key.annotators, strict=True):
        files.write_text(path, render(key, annotator))
    files.write_json(folder / KEY, key)
    return pages
