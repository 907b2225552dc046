"""What the tests of `grue score` share: files to score, the command itself, and what it printed."""

import json

from click.testing import CliRunner

from grue.cli.main import main

MINE = [
    {"id": "a", "references": ["the cat sat", "a cat sat down"], "meta": {"concepts": ["cat", "sit"]}},
    {"id": "b", "references": ["dogs run"], "prompt": "dogs:", "meta": {"concepts": ["dog"]}},
]
ANSWERS = [{"id": "b", "text": "dogs ran"}, {"id": "a", "text": "the cat sat"}]


def grue(*arguments, **environment):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def own_files(folder):
    """Write predictions and examples of one's own; return their two paths."""
    return lines(folder / "p.jsonl", *ANSWERS), lines(folder / "e.jsonl", *MINE)


def plain(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def scores(result):
    """Return metric → value of what --json printed."""
    assert result.exit_code == 0, result.output
    return {score["metric"]: score["value"] for score in json.loads(result.stdout)["scores"]}


def fails(result, code, message):
    """Whether a command printed one message on stderr, nothing on stdout, and left with a code."""
    found = (result.exit_code, result.stderr, result.stdout)
    assert found == (code, f"Error: {message}\n", ""), found
