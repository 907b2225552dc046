"""Output on terminals, in pipes and in files of any encoding."""

import io
import json
import sys

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main, prepare_output

RESULT = str(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json")
HARD = {"text": '≥ 26 € é – 😀 \udcff " \\ \u2028'}


def printed(text, encoding, monkeypatch):
    """Return the bytes that `print` sends to a pipe of an encoding."""
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding=encoding, write_through=True))
    prepare_output()
    print(text, end="")
    return pipe.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "iso8859-15", "cp1252", "cp437", "ascii"])
def test_json_stays_whole_in_any_encoding(encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    data = printed(json.dumps(HARD, ensure_ascii=False), encoding, monkeypatch)
    assert json.loads(data.decode(encoding)) == HARD


def test_a_pipe_gets_utf_8_whatever_the_locale(monkeypatch):
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    assert printed("≥ é", "latin-1", monkeypatch) == "≥ é".encode()


@pytest.mark.parametrize(
    ("encoding", "command"),
    [
        ("iso8859-15", ("tools", "check", RESULT, "--at-least", "preference=1")),
        ("ascii", ("leaderboard", "--task", "imdb", "--no-local", "--format", "rich")),
        ("ascii", ("metrics", "list")),
        ("iso8859-15", ("tasks", "show", "wmt16", "--suite", "grue", "--json")),
    ],
)
def test_commands_pass_on_an_8_bit_terminal(encoding, command):
    result = CliRunner(charset=encoding).invoke(main, command, env={"PYTHONIOENCODING": encoding})
    assert result.exit_code == 0, result.exception
    if "--json" in command:
        json.loads(result.stdout_bytes.decode(encoding))
