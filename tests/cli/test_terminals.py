"""Output on terminals, in pipes and in files of any encoding."""

import io
import json
import sys

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main, prepare_output

RESULT = str(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json")
EIGHT_BITS = ("latin-1", "iso8859-15", "cp1252", "cp437", "ascii")
HARD = {"text": '≥ 26 € é – 😀 \udcff " \\ \u2028'}


def printed(text: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return the bytes that `print` sends to a pipe of an encoding."""
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding=encoding, write_through=True))
    prepare_output()
    print(text, end="")
    return pipe.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", *EIGHT_BITS])
def test_json_stays_whole_in_any_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    data = printed(json.dumps(HARD, ensure_ascii=False), encoding, monkeypatch)
    assert json.loads(data.decode(encoding)) == HARD


def test_a_pipe_gets_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    assert printed("≥ é", "latin-1", monkeypatch) == "≥ é".encode()


@pytest.mark.parametrize("encoding", ["iso8859-15", "ascii"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", RESULT, "--at-least", "preference=1"),
        ("leaderboard", "--no-local", "--format", "rich"),
        ("metrics", "list"),
        ("tasks", "show", "wmt16", "--suite", "grue", "--json"),
    ],
)
def test_commands_pass_on_an_8_bit_terminal(encoding: str, arguments: tuple[str, ...]) -> None:
    result = CliRunner(charset=encoding).invoke(main, arguments, env={"PYTHONIOENCODING": encoding})
    assert result.exit_code == 0, result.exception
    if "--json" in arguments:
        json.loads(result.stdout_bytes.decode("utf-8" if encoding == "ascii" else encoding))  # click: ASCII is UTF-8
