"""What the tests of `grue score` share: files to score, and what was printed."""

import json

from support.commands import printed_json

MINE = [
    {"id": "a", "references": ["the cat sat", "a cat sat down"], "meta": {"concepts": ["cat", "sit"]}},
    {"id": "b", "references": ["dogs run"], "prompt": "dogs:", "meta": {"concepts": ["dog"]}},
]
ANSWERS = [{"id": "b", "text": "dogs ran"}, {"id": "a", "text": "the cat sat"}]


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def own_files(folder):
    """Write predictions and examples of one's own; return their two paths."""
    return lines(folder / "p.jsonl", *ANSWERS), lines(folder / "e.jsonl", *MINE)


def plain(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def scores(*arguments, **environment):
    """Score with a command; return metric → value."""
    return {one["metric"]: one["value"] for one in printed_json("score", *arguments, **environment)["scores"]}
