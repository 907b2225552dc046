"""Examples with systems' outputs as a file of data beside the page: one call of a function, its argument in JSON.

The page loads the file by a script element, which works without a server. The texts are untrusted: the JSON cannot end
a script, and has no control or direction-changing characters. The page shows them only as text.
"""

from typing import Any

from grue.leaderboard.examples import ShownExample, TaskExamples
from grue.render.text import printable_lines
from grue.render.web.embed import script_json

CALL = "grueExamples"
MOST_CHARACTERS = 2_000  # of a text
MOST_BYTES = 550_000  # of a file: seven of them stay below four megabytes


def render(shown: TaskExamples) -> str:
    """Return the file: as many of the examples as fit, one per line."""
    head = {
        "suite": shown.suite,
        "task": shown.task,
        "hash": shown.hash,
        "split": shown.split,
        "of": shown.of,
        "metrics": shown.metrics,
        "systems": [{"name": printable_lines(name), "seed": seed} for name, seed in shown.systems],
    }
    start = f'{CALL}({script_json(head)[:-1]},"examples":['
    lines: list[str] = []
    size = len(start.encode())
    for line in (script_json(_example(example)) for example in shown.examples):
        size += len(line.encode()) + 2
        if size > MOST_BYTES:
            break
        lines.append(line)
    return start + "\n" + ",\n".join(lines) + "\n]});\n"


def _example(shown: ShownExample) -> dict[str, Any]:
    return {
        "id": printable_lines(shown.example.id),
        "drawn": shown.drawn,
        "difference": round(shown.difference, 3),
        "prompt": _text(shown.example.prompt),
        "references": [_text(reference) for reference in shown.example.references],
        "outputs": [
            None
            if output is None
            else [_text(output.text), int(output.truncated), *(round(s, 2) for s in output.scores)]
            for output in shown.outputs
        ],
    }


def _text(text: str) -> str | list[str | int]:
    """Return a text, or of a long one its beginning and the number of its characters."""
    beginning = printable_lines(text[:MOST_CHARACTERS])
    return beginning if len(text) <= MOST_CHARACTERS else [beginning, len(text)]
